//! Nothing is sent to a directory, and no response, before the commit that it depends on is
//! durable: the engine in this process, on a disk whose syncs can be held up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::{Json, Reader};
use carebook::catalogue::OPERATIONS;
use carebook::cli::runtime::on_lane;
use carebook::domain::operation::{Disposition, Parts};
use carebook::engine::channel::schedule::{Failure, RETRY_AFTER_MAX};
use carebook::engine::clock::SystemClock;
use carebook::engine::outbox::{Delivery, NamedReceiver, OutgoingMessage, Receiver};
use carebook::engine::{CommandRequest, CommandResult, Engine, Limits, Mode};
use carebook::journal::replay::Recovered;
use serde_json::Value;
use tokio::sync::Semaphore;
use wal::{BoxError, Log, Options, Record, Visitor};

use super::external_directory::{creation, receiving};
use crate::support::gated::{Gate, OpenInTheEnd, syncing_through};
use crate::support::{World, actor};

/// How long nothing may happen while a sync is held up.
const QUIET: Duration = Duration::from_millis(300);

/// A directory that takes everything, and closes the gate with the last message.
struct Directory {
    gate: Arc<Gate>,
    taken: Mutex<Vec<i64>>,
}

impl Directory {
    fn taken(&self) -> usize {
        self.taken.lock().unwrap().len()
    }
}

impl Receiver for Directory {
    fn deliver<'a>(&'a self, message: &'a OutgoingMessage) -> Delivery<'a> {
        Box::pin(async move {
            let mut taken = self.taken.lock().unwrap();
            taken.push(message.number);
            if taken.len() == 3 {
                self.gate.set(true);
            }
            Ok(())
        })
    }
}

struct Nothing;

impl Visitor for Nothing {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        panic!("the log is new")
    }
}

fn call(engine: &Engine) -> CommandRequest {
    let row = OPERATIONS.iter().find(|row| row.name == "create_branch");
    let row = row.unwrap();
    let text = creation().to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let parts = Parts {
        path: &[],
        body: &json,
    };
    let mut at = Reader::new(engine.now());
    let administrator = Actor {
        permissions: vec!["branch:create".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "admin-1")
    };
    CommandRequest {
        row: Some(row),
        actor: Arc::new(administrator),
        command: row.operation.read(row.name, &parts, &mut at).unwrap(),
        header_key: Some("key-1".into()),
    }
}

/// An engine with an empty log, whose syncs go through the gate.
fn engine(world: &World, gate: &Arc<Gate>) -> Arc<Engine> {
    let disk = syncing_through(gate, wal::open_dir(&world.data()).unwrap());
    let options = Options {
        reserve_bytes: 0,
        create: true,
        ..Options::default()
    };
    let (log, _) = Log::open(disk, options, &mut Nothing).unwrap();
    let engine = Engine::start(
        log,
        Recovered::default(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|error| panic!("{error}")),
    );
    Arc::new(engine.unwrap())
}

#[test]
fn a_message_waits_for_the_first_commit_and_the_answer_for_the_second() {
    let world = World::new();
    let gate = Arc::new(Gate::default());
    let engine = engine(&world, &gate);
    let directory = Arc::new(Directory {
        gate: Arc::clone(&gate),
        taken: Mutex::default(),
    });
    let (receivers, schedule) = receiving(Arc::clone(&directory) as _);
    engine.deliver_to(receivers, schedule);
    let _open = OpenInTheEnd(Arc::clone(&gate));
    on_lane(&engine, async {
        engine.start_deliveries();
        gate.set(true);
        let asked = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move {
                let permit = engine.admit().unwrap();
                engine.execute(call(&engine), permit, Mode::Commit).await
            }
        });
        tokio::time::sleep(QUIET).await;
        assert_eq!(directory.taken(), 0, "the branch is not durable yet");
        assert_eq!(engine.durable(), 0);
        gate.set(false);
        while directory.taken() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The first two are known to be taken before the third one leaves.
        assert_eq!(engine.durable(), 3);
        tokio::time::sleep(QUIET).await;
        assert!(!asked.is_finished(), "the completion is not durable yet");
        gate.set(false);
        let reply = asked.await.unwrap();
        let CommandResult::Done {
            body,
            disposition,
            replay,
            position,
        } = reply
        else {
            panic!("{reply:?}");
        };
        assert_eq!(
            (disposition, replay, position),
            (Disposition::Done, false, 5)
        );
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["outcomeStatus"], "completed");
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A receiver that takes nothing, and asks to be left alone for longer than a response waits.
struct Refuses;

impl Receiver for Refuses {
    fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
        Box::pin(async {
            Err(Failure {
                status: Some(503),
                error: "it was told to".into(),
                retry_after: Some(RETRY_AFTER_MAX),
            })
        })
    }
}

/// A receiver that takes as many messages as it is let.
struct Lets(Semaphore);

impl Receiver for Lets {
    fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
        Box::pin(async {
            self.0.acquire().await.unwrap().forget();
            Ok(())
        })
    }
}

#[test]
fn a_refusal_by_one_receiver_does_not_end_the_wait_for_another() {
    let engine = engine(&World::new(), &Arc::default());
    let lets = Arc::new(Lets(Semaphore::new(0)));
    let (mut receivers, schedule) = receiving(Arc::clone(&lets) as _);
    receivers.push(NamedReceiver {
        topics: "branch_onboarding.operator_identity".parse().unwrap(),
        receiver: Arc::new(Refuses),
    });
    engine.deliver_to(receivers, schedule);
    on_lane(&engine, async {
        engine.start_deliveries();
        let asked = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move {
                let permit = engine.admit().unwrap();
                engine.execute(call(&engine), permit, Mode::Commit).await
            }
        });
        tokio::time::sleep(QUIET).await;
        assert!(!asked.is_finished(), "the others may be taken");
        lets.0.add_permits(2);
        let reply = asked.await.unwrap();
        let CommandResult::Done {
            body, disposition, ..
        } = reply
        else {
            panic!("{reply:?}");
        };
        assert_eq!(disposition, Disposition::Accepted);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let effects = body["sideEffects"].as_array().unwrap();
        let statuses: Vec<_> = effects.iter().map(|effect| &effect["status"]).collect();
        assert_eq!(statuses, ["pending", "completed", "completed"]);
        assert_eq!(
            body["repair"]["pendingSideEffects"],
            Value::from(&effects[..1])
        );
    })
    .unwrap();
    engine.shut_down().unwrap();
}
