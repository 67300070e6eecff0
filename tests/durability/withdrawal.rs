//! An actor withdraws while something of its own is in flight: once that is acknowledged, nothing
//! more is committed, replayed or read for it.

use std::sync::{Arc, Barrier, Mutex};

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::domain::read::{ReadRequest, Representation};
use carebook::domain::rejection::Rejection;
use carebook::engine::clock::SystemClock;
use carebook::engine::fact_loading::FactBatch;
use carebook::engine::outbox::{Delivery, OutgoingMessage, Receiver};
use carebook::engine::read::past::{NoPast, PastFound, PastQuery};
use carebook::engine::{CommandResult, Engine, Limits, Mode};
use serde_json::{Value, json};
use tokio::sync::Notify;
use wal::Log;
use wal::storage::sim::SimDisk;

use super::inside::{call_of, lifecycle, put_lifecycle, small};
use crate::support::command::{HeldUp, Wrapped};
use crate::support::gated::{Gate, OpenInTheEnd, reading_through};
use crate::support::inside::Inside;
use crate::support::{World, actor};

/// An engine of two lanes, so that one can be held up while the other goes on.
fn engine(storage: Arc<dyn wal::storage::Storage>, limits: Limits) -> Arc<Engine> {
    let mut replaying = Replaying::new("recovering");
    let (log, _) = Log::open(storage, small(), &mut replaying).unwrap();
    let on_fatal = Box::new(|error: &wal::Error| panic!("{error}"));
    let clock = Arc::new(SystemClock::default());
    let engine = Engine::start(log, replaying.finish(), 2, limits, clock, on_fatal);
    Arc::new(engine.unwrap())
}

fn somebody() -> Actor {
    actor(ActorKind::HeadquartersAdministrator, "somebody")
}

/// A deposit that the actor may ask for.
fn deposit(world: &World) -> Value {
    let mut body = world.deposit_request("S-1", "key-1");
    body["actorProfileId"] = "somebody".into();
    body
}

/// Withdraws the actor, on a lane and a thread of its own; returns the position.
fn withdraw(engine: &Engine) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let gate = tokio::spawn(engine.lanes().run(1));
        let done = put_lifecycle(engine, 1, "withdrawn").await;
        gate.abort();
        let CommandResult::Done { position, .. } = done else {
            panic!("{done:?}");
        };
        position
    })
}

#[track_caller]
fn assert_gone(reply: &CommandResult, withdrawn: u64) {
    let CommandResult::Refused {
        rejection,
        position,
    } = reply
    else {
        panic!("after the withdrawal at {withdrawn}: {reply:?}");
    };
    assert_eq!(rejection.code, "actor_withdrawn");
    assert!(*position >= withdrawn, "{position} before {withdrawn}");
}

#[test]
fn a_command_decided_before_a_withdrawal_is_not_committed_after_it() {
    let world = World::new();
    let engine = engine(SimDisk::new().storage(), Limits::default());
    let meanwhile = Arc::new((Barrier::new(2), Barrier::new(2)));
    let withdrawing = std::thread::spawn({
        let (engine, meanwhile) = (Arc::clone(&engine), Arc::clone(&meanwhile));
        move || {
            meanwhile.0.wait();
            let position = withdraw(&engine);
            meanwhile.1.wait();
            position
        }
    });
    let body = deposit(&world);
    let mut call = call_of(&engine, "request_deposit", somebody(), None, &body);
    call.command = Box::new(Wrapped(HeldUp {
        inner: call.command,
        needs_facts: None,
        meanwhile,
        times: 1,
        decided: Arc::default(),
    }));
    let reply = on_lane(
        &engine,
        engine.execute(call, engine.admit().unwrap(), Mode::Commit),
    )
    .unwrap();
    assert_gone(&reply, withdrawing.join().unwrap());
    let figures = engine.figures();
    assert_eq!((figures.resources, figures.keys), (1, 0), "the fact alone");
    engine.shut_down().unwrap();
}

#[test]
fn no_fact_is_put_in_place_by_whoever_has_withdrawn_and_its_batch_ends() {
    let engine = engine(SimDisk::new().storage(), Limits::default());
    on_lane(&engine, async {
        let mut batch = FactBatch::new(&engine, Arc::new(somebody()));
        let position = put_lifecycle(&engine, 1, "withdrawn").await;
        let CommandResult::Done { position, .. } = position else {
            panic!("{position:?}");
        };
        for number in 0..3 {
            batch
                .take(lifecycle(&format!("late-{number}"), 1, "active"))
                .await;
        }
        let ended = batch.finish().await.unwrap_err();
        assert_gone(&ended.reply, position);
        assert_eq!(ended.applied, 0);
    })
    .unwrap();
    assert_eq!(engine.figures().resources, 1, "the withdrawal alone");
    engine.shut_down().unwrap();
}

/// Where the read below waits: it can hold nothing itself.
static READING: Mutex<Option<Arc<(Barrier, Barrier)>>> = Mutex::new(None);

#[allow(clippy::unnecessary_wraps)]
fn slow_read(_: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let meanwhile = READING.lock().unwrap().take();
    if let Some(meanwhile) = meanwhile {
        meanwhile.0.wait();
        meanwhile.1.wait();
    }
    Ok(Representation {
        tag: "1".to_owned(),
        body: Vec::new(),
    })
}

#[test]
fn a_read_that_began_before_a_withdrawal_shows_nothing_after_it() {
    let engine = engine(SimDisk::new().storage(), Limits::default());
    let meanwhile = Arc::new((Barrier::new(2), Barrier::new(2)));
    *READING.lock().unwrap() = Some(Arc::clone(&meanwhile));
    let withdrawing = std::thread::spawn({
        let engine = Arc::clone(&engine);
        move || {
            meanwhile.0.wait();
            let position = withdraw(&engine);
            meanwhile.1.wait();
            position
        }
    });
    let read = on_lane(&engine, engine.read(slow_read, &somebody(), &[])).unwrap();
    let refused = read.map(|(found, _)| found).unwrap_err();
    assert_gone(&refused, withdrawing.join().unwrap());
    engine.shut_down().unwrap();
}

#[test]
fn a_replay_waiting_for_the_disk_is_refused_when_its_actor_withdraws() {
    let world = World::new();
    let reads = Arc::new(Gate::default());
    let disk = SimDisk::new().storage();
    let disk = reading_through(&reads, disk);
    // No answer is kept in memory: it is read from the log again.
    let limits = Limits {
        recent_max: 0,
        ..Limits::default()
    };
    let engine = engine(disk, limits);
    let _open = OpenInTheEnd(Arc::clone(&reads));
    let body = deposit(&world);
    let call = || call_of(&engine, "request_deposit", somebody(), None, &body);
    on_lane(&engine, async {
        let first = engine
            .execute(call(), engine.admit().unwrap(), Mode::Commit)
            .await;
        assert!(matches!(first, CommandResult::Done { .. }), "{first:?}");
        reads.set(true);
        let replaying = engine.execute(call(), engine.admit().unwrap(), Mode::Commit);
        let withdrawing = async {
            reads.somebody_waits().await;
            let engine = Arc::clone(&engine);
            let position = tokio::task::spawn_blocking(move || withdraw(&engine));
            let position = position.await.unwrap();
            reads.set(false);
            position
        };
        let (replay, position) = tokio::join!(replaying, withdrawing);
        assert_gone(&replay, position);
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A directory that takes nothing before it is let.
#[derive(Default)]
struct Directory {
    asked: Notify,
    goes_on: Notify,
}

impl Receiver for Directory {
    fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
        Box::pin(async {
            self.asked.notify_one();
            self.goes_on.notified().await;
            Ok(())
        })
    }
}

#[test]
fn a_wait_for_an_identical_command_is_refused_when_its_actor_withdraws() {
    let engine = engine(SimDisk::new().storage(), Limits::default());
    let directory = Arc::new(Directory::default());
    let receiver = Arc::clone(&directory) as _;
    let (receivers, schedule) = crate::operations::branch::external_directory::receiving(receiver);
    engine.deliver_to(receivers, schedule);
    let body = crate::operations::branch::external_directory::creation();
    let creator = || Actor {
        permissions: vec!["branch:create".into()],
        ..somebody()
    };
    let call = || call_of(&engine, "create_branch", creator(), Some("key-1"), &body);
    on_lane(&engine, async {
        engine.start_deliveries();
        let first = engine.execute(call(), engine.admit().unwrap(), Mode::Commit);
        let again = async {
            directory.asked.notified().await;
            // Its key is locked: the first one's response is not settled.
            let again = engine.execute(call(), engine.admit().unwrap(), Mode::Commit);
            let mut again = std::pin::pin!(again);
            let position = tokio::select! {
                biased;
                early = &mut again => panic!("its key is held, and yet {early:?}"),
                position = async {
                    let engine = Arc::clone(&engine);
                    tokio::task::spawn_blocking(move || withdraw(&engine)).await.unwrap()
                } => position,
            };
            let letting = async {
                loop {
                    directory.goes_on.notify_one();
                    directory.asked.notified().await;
                }
            };
            tokio::select! {
                again = &mut again => (again, position),
                () = letting => unreachable!("it lets for ever"),
            }
        };
        let (first, (again, position)) = tokio::join!(first, again);
        assert!(matches!(first, CommandResult::Done { .. }), "{first:?}");
        assert_gone(&again, position);
    })
    .unwrap();
    engine.shut_down().unwrap();
}

#[test]
fn a_history_waiting_for_the_disk_is_refused_when_its_reader_withdraws() {
    let world = World::new();
    let reads = Arc::new(Gate::default());
    let disk = reading_through(&reads, SimDisk::new().storage());
    let engine = engine(disk, Limits::default());
    let _open = OpenInTheEnd(Arc::clone(&reads));
    let mut rows = carebook::catalogue::READS.iter();
    let row = rows.find(|row| row.name == "read_statement");
    let row = row.unwrap();
    let call = || {
        call_of(
            &engine,
            "request_deposit",
            somebody(),
            None,
            &deposit(&world),
        )
    };
    on_lane(&engine, async {
        let first = engine
            .execute(call(), engine.admit().unwrap(), Mode::Commit)
            .await;
        let CommandResult::Done { body, .. } = first else {
            panic!("{first:?}");
        };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let id = body["statementId"].as_str().unwrap();
        let (reader, path) = (Arc::new(somebody()), [("statementId", id)]);
        let query = PastQuery::History {
            from: None,
            limit: 7,
        };
        let told = async || {
            engine
                .past(row, row.history.unwrap(), &reader, &path, query)
                .await
        };
        let before = told().await;
        assert!(matches!(before, Ok((PastFound::Page(_), _))), "{before:?}");
        reads.set(true);
        let withdrawing = async {
            reads.somebody_waits().await;
            let engine = Arc::clone(&engine);
            let position = tokio::task::spawn_blocking(move || withdraw(&engine));
            let position = position.await.unwrap();
            reads.set(false);
            position
        };
        let (told, position) = tokio::join!(told(), withdrawing);
        match told {
            Err(NoPast::Answered(refused)) => assert_gone(&refused, position),
            told => panic!("after the withdrawal at {position}: {told:?}"),
        }
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A page rests on everything that was committed by its end. The withdrawal comes after that, and
/// before it is durable.
#[test]
fn a_list_that_waits_for_the_disk_while_its_reader_withdraws_is_not_given() {
    let world = World::new();
    let (inside, gate, _open) = Inside::gated(&world);
    let queued = || inside.engine().figures().queued_bytes;
    let put = async |id: &str, lifecycle: &str| {
        let facts = json!({"lifecycle": lifecycle});
        let fact = json!({"kind": "actor", "id": id, "revision": 1, "facts": facts});
        let (token, body) = (world.workflow(), json!({"facts": [fact]}));
        let put = inside.send_json("POST", "/reference-facts", &token, "-", Some(body));
        assert_eq!(put.await.json()["applied"], 1, "{id}");
    };
    for path in [
        "/settlement-statements",
        "/outbox",
        "/webhook-subscriptions",
    ] {
        let reader = format!("reader of {path}");
        let token = world.token(&Actor {
            permissions: vec!["outbox:manage".into(), "webhooks:manage".into()],
            ..actor(ActorKind::HeadquartersAdministrator, &reader)
        });
        let list = async || inside.send_json("GET", path, &token, "-", None).await;
        on_lane(inside.engine(), async {
            assert_eq!(list().await.status, 200, "{path}");
            gate.set(true);
            let listing = async {
                while queued() == 0 {
                    tokio::task::yield_now().await;
                }
                let mut listing = std::pin::pin!(list());
                // What a page needs is at hand: it is made within so many turns, and waits for the disk.
                for _ in 0..1_000 {
                    tokio::select! {
                        biased;
                        early = &mut listing => panic!("{path}: {early:?}"),
                        () = tokio::task::yield_now() => {}
                    }
                }
                let before = queued();
                let opening = async {
                    while queued() == before {
                        tokio::task::yield_now().await;
                    }
                    gate.set(false);
                };
                tokio::join!(listing, put(&reader, "withdrawn"), opening).0
            };
            let other = format!("other than the {reader}");
            let (listed, ()) = tokio::join!(listing, put(&other, "active"));
            assert_eq!(listed.status, 403, "{path}: {listed:?}");
            assert_eq!(listed.json()["code"], "actor_withdrawn", "{path}");
        })
        .unwrap();
    }
}
