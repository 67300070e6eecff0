//! Batches of facts beside what else a service does, in this process: its permits, its memory and
//! its clock are ours.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::engine::limits::admission::Admission;
use carebook::engine::{Engine, Limits};
use carebook::http::handlers::facts::{self, Sender};
use carebook::http::limits::response_room::ResponseRoom;
use carebook::http::request::DryRun;
use carebook::http::response::pieces::{Pieces, pieces};
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use wal::Log;
use wal::storage::sim::SimDisk;

use super::inside::small;
use super::snapshots::SetClock;
use crate::support::{AUDIENCE, ISSUER, World, actor, claims};

/// After how many facts a batch is judged again at the latest.
const JUDGED_AFTER: usize = 512;
/// What a fact is charged for each byte of its line.
const BYTES_PER_LINE_BYTE: usize = 8;

/// A service in this process.
struct Inside {
    world: World,
    clock: Arc<SetClock>,
    service: Service,
}

impl Inside {
    fn new(commands_max: usize) -> Self {
        let (world, clock) = (World::new(), Arc::new(SetClock::default()));
        let mut replaying = Replaying::new("recovering");
        let (log, _) = Log::open(SimDisk::new().storage(), small(), &mut replaying).unwrap();
        let limits = Limits {
            commands_max,
            ..Limits::default()
        };
        let on_fatal = Box::new(|error: &wal::Error| panic!("{error}"));
        let time = Arc::clone(&clock) as _;
        let engine = Engine::start(log, replaying.finish(), 1, limits, time, on_fatal);
        let verifier = TokenVerifier::new(world.key.jwks().as_bytes(), ISSUER, AUDIENCE).unwrap();
        let service = Service::new(Arc::new(engine.unwrap()), Arc::new(verifier));
        Self {
            world,
            clock,
            service,
        }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.service.engine()
    }

    /// A token of a workflow that is good for so many seconds by the service's clock.
    fn token(&self, seconds: u64) -> String {
        use carebook::engine::clock::Clock as _;
        let now = u64::try_from(self.clock.now().millis() / 1_000).unwrap();
        let mut claims = claims(&workflow(), 0);
        (claims.iat, claims.exp) = (now, now + seconds);
        self.world.key.sign(&claims).unwrap()
    }

    /// What a request of facts comes to: its status, and the body of its answer.
    async fn put<B>(&self, token: &str, media_type: &str, body: B) -> (u16, Value)
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = hyper::Request::post("/reference-facts")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", media_type)
            .body(body)
            .unwrap();
        let caller = self.service.caller([127, 0, 0, 1].into(), false);
        let answer = self.service.handle(&caller, request).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&body).unwrap())
    }

    /// Waits until so many facts are stored.
    async fn stand(&self, facts: u64) {
        while self.engine().durable() < facts {
            tokio::task::yield_now().await;
        }
    }
}

fn workflow() -> Actor {
    Actor {
        permissions: vec!["facts:write".into()],
        ..actor(ActorKind::SystemWorkflow, "workflow-1")
    }
}

fn fact(number: usize) -> Value {
    json!({"kind": "actor", "id": format!("actor-{number}"), "revision": 1,
        "facts": {"lifecycle": "active"}})
}

fn lines(numbers: std::ops::Range<usize>) -> Bytes {
    numbers
        .map(|number| format!("{}\n", fact(number)))
        .collect::<String>()
        .into()
}

/// A body that must not be asked for.
struct Untouched;

impl hyper::body::Body for Untouched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("it was read");
    }

    fn is_end_stream(&self) -> bool {
        // So that the client does not wait for its rest.
        true
    }
}

#[test]
fn facts_are_shed_unread_while_there_is_no_room_for_a_command() {
    let inside = Inside::new(2);
    let token = inside.token(600);
    on_lane(inside.engine(), async {
        let others = [inside.engine().admit(), inside.engine().admit()];
        assert!(others.iter().all(Option::is_some));
        for media_type in ["application/json", "application/x-ndjson"] {
            let (status, body) = inside.put(&token, media_type, Untouched).await;
            assert_eq!(status, 429, "{media_type}");
            assert_eq!(body["code"], "overloaded");
        }
        drop(others);
        let all = Full::new(lines(0..3));
        let (status, body) = inside.put(&token, "application/x-ndjson", all).await;
        assert_eq!((status, &body["applied"]), (200, &json!(3)));
    })
    .unwrap();
}

#[test]
fn a_stream_that_finds_no_room_on_its_way_ends_and_says_what_was_applied() {
    let inside = Inside::new(2);
    let token = inside.token(600);
    on_lane(inside.engine(), async {
        let (part, body) = pieces(1);
        let sending = async {
            part.send(lines(0..3)).await.unwrap();
            inside.stand(3).await;
            // What was in flight gives back its permit when it is answered.
            let mut others = Vec::new();
            while others.len() < 2 {
                others.extend(inside.engine().admit());
                tokio::task::yield_now().await;
            }
            part.send(lines(3..5)).await.unwrap();
            drop(part);
            others
        };
        let streaming = inside.put(&token, "application/x-ndjson", body);
        let ((status, body), others) = tokio::join!(streaming, sending);
        assert_eq!((status, &body["code"]), (429, &json!("overloaded")));
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(" 3 lines were applied"), "{message}");
        assert_eq!(inside.engine().figures().resources, 3);
        drop(others);
        // All of it again is safe, and goes through.
        let all = Full::new(lines(0..5));
        let (status, body) = inside.put(&token, "application/x-ndjson", all).await;
        assert_eq!(status, 200);
        assert_eq!(
            (&body["applied"], &body["unchanged"]),
            (&json!(2), &json!(3))
        );
    })
    .unwrap();
}

#[test]
fn a_batch_ends_when_its_token_does() {
    let inside = Inside::new(4_096);
    let token = inside.token(60);
    on_lane(inside.engine(), async {
        let (part, body) = pieces(1);
        let sending = async {
            part.send(lines(0..100)).await.unwrap();
            inside.stand(100).await;
            inside.clock.jump(600_000);
            part.send(lines(100..3 * JUDGED_AFTER)).await.unwrap();
            drop(part);
        };
        let streaming = inside.put(&token, "application/x-ndjson", body);
        let ((status, body), ()) = tokio::join!(streaming, sending);
        assert_eq!(status, 401, "{body}");
        let standing = inside.engine().figures().resources;
        let message = body["message"].as_str().unwrap();
        let told = format!(" {standing} lines were applied");
        assert!(message.contains(&told), "{message}, and {standing} stand");
        assert!((100..=JUDGED_AFTER).contains(&standing), "{standing}");
    })
    .unwrap();
}

/// A batch that is sent to an engine for which there is so much memory.
async fn stream(engine: &Arc<Engine>, memory: &Arc<Admission>, body: Pieces) -> u16 {
    let sender = Sender {
        engine,
        actor: Arc::new(workflow()),
        token_is_good: &|| true,
        dry_run: DryRun::No,
        bodies: memory,
        outgoing: &ResponseRoom::default(),
    };
    let lines = HeaderValue::from_static("application/x-ndjson");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, lines)]);
    facts::put(sender, &headers, body).await.status().as_u16()
}

/// A line of so many bytes, its LF among them.
fn long_line(number: usize, bytes: usize) -> Bytes {
    let mut line = fact(number).to_string().into_bytes();
    line.resize(bytes - 1, b' ');
    line.push(b'\n');
    line.into()
}

/// Lets others go on until nothing changes any more.
async fn until_it_rests(memory: &Admission) {
    let mut seen = (0, memory.in_flight());
    while seen.0 < 200 {
        tokio::task::yield_now().await;
        let now = memory.in_flight();
        seen = if now == seen.1 {
            (seen.0 + 1, now)
        } else {
            (0, now)
        };
    }
}

#[test]
fn lines_are_charged_once_begun_and_streams_beyond_the_bound_are_shed() {
    const BYTES: usize = 300 << 10;
    let inside = Inside::new(4_096);
    let memory = Arc::new(Admission::new(16 << 20));
    on_lane(inside.engine(), async {
        let mut streams = Vec::new();
        for number in 0..40 {
            let (part, body) = pieces(64);
            let line = long_line(number, BYTES);
            for begin in (0..BYTES - 1).step_by(64 << 10) {
                let end = (begin + (64 << 10)).min(BYTES - 1);
                part.send(line.slice(begin..end)).await.unwrap();
            }
            let (engine, memory) = (Arc::clone(inside.engine()), Arc::clone(&memory));
            let answer = tokio::spawn(async move { stream(&engine, &memory, body).await });
            streams.push((part, answer));
        }
        until_it_rests(&memory).await;
        let (shed, held): (Vec<_>, Vec<_>) = streams
            .into_iter()
            .partition(|(_, answer)| answer.is_finished());
        assert!(
            held.len() * BYTES <= memory.in_flight(),
            "{} are held",
            held.len()
        );
        assert!(held.len() > 4, "{} are held", held.len());
        assert!(!shed.is_empty());
        for (_, answer) in shed {
            assert_eq!(answer.await.unwrap(), 429);
        }
        // A line that is whole takes more, as what is read from it: some hang up.
        let mut held = held.into_iter();
        let rest: Vec<_> = held.by_ref().take(4).collect();
        for (_, answer) in held {
            answer.abort();
        }
        for (part, answer) in rest {
            part.send(Bytes::from_static(b"\n")).await.unwrap();
            drop(part);
            assert_eq!(answer.await.unwrap(), 200);
        }
        assert_eq!(memory.in_flight(), 0);
    })
    .unwrap();
}

#[test]
fn a_line_is_charged_before_it_is_read_and_while_it_waits() {
    const BYTES: usize = 100 << 10;
    let inside = Inside::new(2);
    // For three of them, and what has begun.
    let memory = Arc::new(Admission::new(3 * BYTES * BYTES_PER_LINE_BYTE + BYTES));
    on_lane(inside.engine(), async {
        // All that facts may have; a command would be admitted.
        let another = inside.engine().admit_fact();
        assert!(another.is_some());
        let mut streams = Vec::new();
        for number in 0..8 {
            let (part, body) = pieces(1);
            part.send(long_line(number, BYTES)).await.unwrap();
            drop(part);
            let (engine, memory) = (Arc::clone(inside.engine()), Arc::clone(&memory));
            streams.push(tokio::spawn(
                async move { stream(&engine, &memory, body).await },
            ));
        }
        until_it_rests(&memory).await;
        // No fact goes on: those that were read wait for their turn, the others for memory.
        let read = memory.in_flight() / ((BYTES - 1) * BYTES_PER_LINE_BYTE);
        assert_eq!(read, 3, "{} bytes are charged", memory.in_flight());
        assert!(streams.iter().all(|answer| !answer.is_finished()));
        drop(another);
        for answer in streams {
            assert_eq!(answer.await.unwrap(), 200);
        }
        assert_eq!(
            (memory.in_flight(), inside.engine().figures().resources),
            (0, 8)
        );
    })
    .unwrap();
}
