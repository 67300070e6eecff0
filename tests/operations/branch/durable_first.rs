//! Nothing is told to a directory, and nothing answered, before it rests on a durable commit: the
//! engine in this process, on a disk whose syncs can be held up.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::{Json, Reader};
use carebook::catalogue::OPERATIONS;
use carebook::cli::serve::on_lane;
use carebook::domain::branch::directory_message::DirectoryMessage;
use carebook::domain::operation::{Disposition, Parts};
use carebook::engine::clock::SystemClock;
use carebook::engine::relay::{Delivery, ExternalDirectory};
use carebook::engine::{Call, Engine, Limits, Reply};
use carebook::journal::replay::Recovered;
use serde_json::Value;
use wal::storage::{File, Locked, Storage};
use wal::{BoxError, Log, Options, Record, Visitor};

use super::external_directory::creation;
use crate::support::{World, actor};

/// How long nothing may happen while a sync is held up.
const QUIET: Duration = Duration::from_millis(300);

/// While it is closed, no sync comes to an end.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    news: Condvar,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.news.notify_all();
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        drop(self.news.wait_while(is_closed, |closed| *closed).unwrap());
    }
}

/// Opens the gate when it is dropped: a failed test must not wait for the disk for ever.
struct OpenInTheEnd(Arc<Gate>);

impl Drop for OpenInTheEnd {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

struct Disk {
    storage: Arc<dyn Storage>,
    gate: Arc<Gate>,
}

struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl Disk {
    fn gated(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        let gate = Arc::clone(&self.gate);
        Arc::new(GatedFile { file, gate })
    }
}

impl Storage for Disk {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.storage.list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.storage.open_read(name)
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(self.storage.open_write(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(self.storage.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.storage.remove(name)
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        self.storage.create_dir(directory)
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        self.storage.sync_dir(directory)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.storage.free_bytes()
    }

    fn lock(&self, name: &str, holder: &str) -> io::Result<Locked> {
        self.storage.lock(name, holder)
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        self.storage.lock_shared(name)
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        self.storage.random_id()
    }

    fn describe(&self, name: &str) -> String {
        self.storage.describe(name)
    }
}

impl File for GatedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }
}

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

impl ExternalDirectory for Directory {
    fn deliver<'a>(&'a self, message: &'a DirectoryMessage) -> Delivery<'a> {
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

fn call(engine: &Engine) -> Call {
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
    Call {
        row: Some(row),
        actor: Arc::new(administrator),
        command: row.operation.read(row.name, &parts, &mut at).unwrap(),
        header_key: Some("key-1".into()),
    }
}

#[test]
fn a_message_waits_for_the_first_commit_and_the_answer_for_the_second() {
    let world = World::new();
    let gate = Arc::new(Gate::default());
    let disk = Disk {
        storage: wal::open_dir(&world.data()).unwrap(),
        gate: Arc::clone(&gate),
    };
    let options = Options {
        reserve_bytes: 0,
        create: true,
        ..Options::default()
    };
    let (log, _) = Log::open(Arc::new(disk), options, &mut Nothing).unwrap();
    let engine = Engine::start(
        log,
        Recovered::default(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|error| panic!("{error}")),
    );
    let engine = Arc::new(engine.unwrap());
    let directory = Arc::new(Directory {
        gate: Arc::clone(&gate),
        taken: Mutex::default(),
    });
    engine.deliver_to(Arc::clone(&directory) as _, Duration::from_millis(20));
    let _open = OpenInTheEnd(Arc::clone(&gate));
    on_lane(&engine, async {
        gate.set(true);
        let asked = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move {
                let permit = engine.admit().unwrap();
                engine.execute(call(&engine), permit).await
            }
        });
        tokio::time::sleep(QUIET).await;
        assert_eq!(directory.taken(), 0, "the branch is not durable yet");
        assert_eq!(engine.durable(), 0);
        gate.set(false);
        while directory.taken() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(engine.durable(), 1);
        tokio::time::sleep(QUIET).await;
        assert!(!asked.is_finished(), "the completion is not durable yet");
        gate.set(false);
        let reply = asked.await.unwrap();
        let Reply::Done {
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
            (Disposition::Done, false, 2)
        );
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["outcomeStatus"], "completed");
    })
    .unwrap();
    engine.shut_down().unwrap();
}
