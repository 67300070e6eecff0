//! A fault of ours, wherever it happens: one command's or read's 500, and nobody else's. The next
//! request finds everything as it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::Reader;
use carebook::catalogue::{OPERATIONS, READS, Row};
use carebook::cli::runtime::on_lane;
use carebook::domain::example::Example;
use carebook::domain::operation::{AnyCommand, AnyOperation, Parts};
use carebook::domain::read::{Found, ReadRequest};
use carebook::domain::rejection::{Class, Rejection};
use carebook::engine::{Engine, Reply};
use wal::storage::sim::SimDisk;

use super::inside::{call_of, carry_out, engine};
use crate::support::command::{Around, Asked, Wrapped};
use crate::support::{World, actor};

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

async fn panic_at(engine: &Engine, place: Asked, body: &serde_json::Value) -> Reply {
    let mut call = call_of(engine, "request_deposit", headquarters(), None, body);
    call.command = Box::new(Wrapped(Panicking {
        inner: call.command,
        place,
        done: AtomicBool::new(false),
    }));
    engine.execute(call, engine.admit().unwrap()).await
}

#[test]
fn a_panic_anywhere_in_a_command_is_its_own_fault_and_the_next_one_is_carried_out() {
    let world = World::new();
    let (engine, _) = engine(&SimDisk::new()).unwrap();
    on_lane(&engine, async {
        let places = [
            Asked::Fingerprint,
            Asked::Target,
            Asked::Names,
            Asked::Decide,
        ];
        for (number, place) in places.into_iter().enumerate() {
            let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
            let reply = panic_at(&engine, place, &body).await;
            assert!(matches!(reply, Reply::Fault), "{place:?}: {reply:?}");
            // Key and names are free, and the resource has an actor.
            let reply = carry_out(&engine, &body).await;
            let done = matches!(reply, Reply::Done { replay: false, .. });
            assert!(done, "{place:?}: {reply:?}");
        }
        let other = world.deposit_request("S-9", "key-1");
        let reply = panic_at(&engine, Asked::KeyReused, &other).await;
        assert!(matches!(reply, Reply::Fault), "{reply:?}");
        let reply = carry_out(&engine, &other).await;
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
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

    fn replayed(&self, _: Vec<u8>) -> Vec<u8> {
        panic!("in a replay, as it was told to")
    }

    fn rejections(&self) -> &'static [(Class, &'static str)] {
        self.0.rejections()
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
        assert!(matches!(first, Reply::Done { .. }), "{first:?}");
        let mut call = call_of(&engine, "request_deposit", headquarters(), None, &body);
        call.row = Some(bad);
        let fault = engine.execute(call, engine.admit().unwrap()).await;
        assert!(matches!(fault, Reply::Fault), "{fault:?}");
        let again = carry_out(&engine, &body).await;
        assert!(
            matches!(again, Reply::Done { replay: true, .. }),
            "{again:?}"
        );
    })
    .unwrap();
    engine.shut_down().unwrap();
}

fn panicking_read(_: &ReadRequest<'_>) -> Result<Found, Rejection> {
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
        assert!(matches!(fault, Err(Reply::Fault)), "{fault:?}");
        let found = engine.read(good, &who, &[]).await;
        assert!(!matches!(found, Err(Reply::Fault)), "{found:?}");
    })
    .unwrap();
    engine.shut_down().unwrap();
}
