//! A fault of ours, wherever it happens: one command's or read's 500, and no other's. The next
//! request finds everything as it was.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::{Reader, Shape};
use carebook::base::time::Timestamp;
use carebook::catalogue::{OPERATIONS, READS, Row};
use carebook::cli::runtime::on_lane;
use carebook::domain::erased::{AnyCommand, AnyOperation};
use carebook::domain::example::Example;
use carebook::domain::operation::{Disposition, Parts};
use carebook::domain::read::{ReadRequest, Representation};
use carebook::domain::rejection::{Declared, Rejection};
use carebook::domain::resource::ReadView;
use carebook::engine::checkpointer::CheckpointPolicy;
use carebook::engine::outbox::{Delivery, OutgoingMessage, Receiver};
use carebook::engine::{CommandResult, Engine, Mode};
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame};
use schemars::{Schema, SchemaGenerator};
use wal::storage::sim::SimDisk;

use super::inside::{call_of, carry_out, engine};
use crate::operations::branch::external_directory::{creation, receiving};
use crate::support::command::{Around, Asked, Wrapped};
use crate::support::inside::{Inside, Wanted};
use crate::support::{AUDIENCE, ISSUER, World, actor, until};

/// A command that panics once, when it is asked something.
struct Panicking {
    inner: Box<dyn AnyCommand>,
    place: Asked,
    done: AtomicBool,
}

impl Around for Panicking {
    fn inner(&self) -> &dyn AnyCommand {
        self.inner.as_ref()
    }

    fn asked(&self, place: Asked) {
        if place == self.place && !self.done.swap(true, Ordering::SeqCst) {
            panic!("at {place:?}, as it was told to");
        }
    }
}

fn headquarters() -> Actor {
    actor(ActorKind::HeadquartersAdministrator, "hq-1")
}

async fn panic_at(engine: &Engine, place: Asked, body: &serde_json::Value) -> CommandResult {
    let mut call = call_of(engine, "request_deposit", headquarters(), None, body);
    call.command = Box::new(Wrapped(Panicking {
        inner: call.command,
        place,
        done: AtomicBool::new(false),
    }));
    engine
        .execute(call, engine.admit().unwrap(), Mode::Commit)
        .await
}

#[test]
fn a_panic_anywhere_in_a_command_fails_it_alone_and_the_next_one_succeeds() {
    let world = World::new();
    let (engine, _) = engine(&SimDisk::new()).unwrap();
    on_lane(&engine, async {
        let places = [
            Asked::Fingerprint,
            Asked::Target,
            Asked::UniqueKeys,
            Asked::Decide,
        ];
        for (number, place) in places.into_iter().enumerate() {
            let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
            let reply = panic_at(&engine, place, &body).await;
            assert!(
                matches!(reply, CommandResult::Fault),
                "{place:?}: {reply:?}"
            );
            // Key and names are free, and the resource has an actor.
            let reply = carry_out(&engine, &body).await;
            let done = matches!(reply, CommandResult::Done { replay: false, .. });
            assert!(done, "{place:?}: {reply:?}");
        }
        let other = world.deposit_request("S-9", "key-1");
        let reply = panic_at(&engine, Asked::KeyReused, &other).await;
        assert!(matches!(reply, CommandResult::Fault), "{reply:?}");
        let reply = carry_out(&engine, &other).await;
        assert!(matches!(reply, CommandResult::Refused { .. }), "{reply:?}");
    })
    .unwrap();
    let figures = engine.figures();
    assert_eq!((figures.commands_in_flight, figures.live_actors), (0, 0));
    engine.shut_down().unwrap();
}

/// An operation whose replays panic.
struct NoReplays(&'static dyn AnyOperation);

impl AnyOperation for NoReplays {
    fn read(
        &self,
        name: &'static str,
        parts: &Parts<'_>,
        at: &mut Reader,
    ) -> Option<Box<dyn AnyCommand>> {
        self.0.read(name, parts, at)
    }

    fn read_straight(
        &self,
        name: &'static str,
        path: &[(&str, &str)],
        body: &[u8],
        now: Timestamp,
    ) -> Option<(Box<dyn AnyCommand>, usize)> {
        self.0.read_straight(name, path, body, now)
    }

    fn replayed(&self, _: Vec<u8>) -> Vec<u8> {
        panic!("in a replay, as it was told to")
    }

    fn final_response(&self, first: &[u8], view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)> {
        self.0.final_response(first, view)
    }

    fn doc(&self) -> &'static str {
        self.0.doc()
    }

    fn rejections(&self) -> &'static [Declared] {
        self.0.rejections()
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn answer(&self, schemas: &mut SchemaGenerator) -> Schema {
        self.0.answer(schemas)
    }

    fn conflict(&self, schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        self.0.conflict(schemas)
    }

    fn example(&self) -> &'static Example {
        self.0.example()
    }
}

#[test]
fn a_panic_in_a_replay_is_that_of_its_request_alone() {
    let world = World::new();
    let (engine, _) = engine(&SimDisk::new()).unwrap();
    let good = OPERATIONS.iter().find(|row| row.name == "request_deposit");
    let good = good.unwrap();
    let operation: &'static NoReplays = Box::leak(Box::new(NoReplays(good.operation)));
    let bad: &'static Row = Box::leak(Box::new(Row { operation, ..*good }));
    let body = world.deposit_request("S-1", "key-1");
    on_lane(&engine, async {
        let first = carry_out(&engine, &body).await;
        assert!(matches!(first, CommandResult::Done { .. }), "{first:?}");
        let mut call = call_of(&engine, "request_deposit", headquarters(), None, &body);
        call.row = Some(bad);
        let fault = engine
            .execute(call, engine.admit().unwrap(), Mode::Commit)
            .await;
        assert!(matches!(fault, CommandResult::Fault), "{fault:?}");
        let again = carry_out(&engine, &body).await;
        assert!(
            matches!(again, CommandResult::Done { replay: true, .. }),
            "{again:?}"
        );
    })
    .unwrap();
    engine.shut_down().unwrap();
}

fn panicking_read(_: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    panic!("in a read, as it was told to")
}

#[test]
fn a_panic_in_a_read_is_that_of_its_request_alone() {
    let (engine, _) = engine(&SimDisk::new()).unwrap();
    let good = READS.iter().find(|row| row.name == "read_organization");
    let good = good.unwrap().read;
    on_lane(&engine, async {
        let who = Arc::new(headquarters());
        let fault = engine.read(panicking_read, &who, &[]).await;
        assert!(matches!(fault, Err(CommandResult::Fault)), "{fault:?}");
        let found = engine.read(good, &who, &[]).await;
        assert!(!matches!(found, Err(CommandResult::Fault)), "{found:?}");
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A directory that panics when it is sent the first message, once, and takes all others.
#[derive(Default)]
struct PanicsAtFirst {
    done: AtomicBool,
}

impl Receiver for PanicsAtFirst {
    fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
        if !self.done.swap(true, Ordering::SeqCst) {
            panic!("in a directory, as it was told to");
        }
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn a_panic_in_a_delivery_leaves_the_message_pending_and_it_is_tried_again() {
    let (engine, _) = engine(&SimDisk::new()).unwrap();
    let (receivers, schedule) = receiving(Arc::new(PanicsAtFirst::default()));
    engine.deliver_to(receivers, schedule);
    let administrator = Actor {
        permissions: vec!["branch:create".into()],
        ..headquarters()
    };
    on_lane(&engine, async {
        engine.start_deliveries();
        let call = call_of(
            &engine,
            "create_branch",
            administrator,
            Some("key-1"),
            &creation(),
        );
        let created = engine
            .execute(call, engine.admit().unwrap(), Mode::Commit)
            .await;
        let accepted = matches!(
            created,
            CommandResult::Done {
                disposition: Disposition::Accepted,
                ..
            }
        );
        assert!(accepted, "{created:?}");
        let delivered = async {
            while engine.figures_of_outbox().receivers[0].taken < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_the_end = tokio::time::timeout(Duration::from_secs(30), delivered).await;
        assert!(in_the_end.is_ok(), "the message was not tried again");
    })
    .unwrap();
    let figures = engine.figures_of_outbox();
    let receiver = &figures.receivers[0];
    assert_eq!((receiver.attempts, receiver.taken), (4, 3));
    engine.shut_down().unwrap();
}

/// A body that panics when it is asked for.
struct PanickingBody;

impl Body for PanickingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("in a body, as it was told to")
    }

    fn is_end_stream(&self) -> bool {
        // The rest of it is not wanted.
        true
    }
}

#[test]
fn a_panic_beside_the_engine_is_answered_500_and_the_next_request_as_ever() {
    let world = World::new();
    let (engine, _) = engine(&SimDisk::new()).unwrap();
    let engine = Arc::new(engine);
    let verifier = TokenVerifier::new(world.key.jwks().as_bytes(), ISSUER, AUDIENCE).unwrap();
    let service = Service::new(Arc::clone(&engine), Arc::new(verifier));
    let caller = service.caller([127, 0, 0, 1].into(), false);
    let send = async |path: &str, kind: &str, body| {
        let request = hyper::Request::post(path)
            .header("content-type", kind)
            .header("authorization", format!("Bearer {}", world.workflow()));
        let answer = service.handle(&caller, request.body(body).unwrap()).await;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        (status, body)
    };
    let (charge, facts) = (
        "/reservation-financial-lifecycles/b-1/regional-benefit-charge-finalizations",
        "/reference-facts",
    );
    on_lane(&engine, async {
        for (path, kind) in [
            (charge, "application/json"),
            ("/branch/manager-invitations/accept", "application/json"),
            (facts, "application/json"),
            (facts, "application/x-ndjson"),
        ] {
            let (status, body) = send(path, kind, Either::Left(PanickingBody)).await;
            assert_eq!((status, &body["code"]), (500, &"internal_error".into()));
            let is_short = path.starts_with("/branch");
            assert_eq!(body.get("fieldErrors").is_none(), is_short, "{body}");
        }
        let good = Either::Right(Full::new(Bytes::from_static(b"{}")));
        let (status, _) = send(charge, "application/json", good).await;
        assert_eq!(status, 422);
        let good = Either::Right(Full::new(Bytes::new()));
        let (status, _) = send(facts, "application/x-ndjson", good).await;
        assert_eq!(status, 200);
    })
    .unwrap();
    assert_eq!(engine.figures().commands_in_flight, 0);
    drop(service);
    engine.shut_down().unwrap();
}

/// The thread that takes snapshots and compacts the log looks at the clock each time.
#[test]
fn a_fault_in_the_upkeep_of_the_log_costs_one_turn_and_not_all_later_ones() {
    let inside = Inside::start(&World::new(), Wanted::default());
    let engine = inside.engine();
    let figures = || engine.figures().checkpoints;
    inside.clock.panic(true);
    engine.checkpoint_by(CheckpointPolicy {
        look: Duration::from_millis(2),
        ..CheckpointPolicy::default()
    });
    engine.start_checkpointer().unwrap();
    // Figures look at the clock, too.
    until("the clock is looked at", || inside.clock.has_panicked());
    inside.clock.panic(false);
    until("a turn has failed", || figures().failures > 0);
    let put = on_lane(
        engine,
        carry_out(engine, &World::new().deposit_request("S-1", "key-1")),
    );
    assert!(matches!(put, Ok(CommandResult::Done { .. })), "{put:?}");
    engine.request_snapshot();
    until("a snapshot is taken", || figures().snapshots > 0);
    engine.shut_down().unwrap();
}
