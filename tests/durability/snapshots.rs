//! Snapshots: taken while commands go on, they and the log after them are as good as the whole log;
//! what is compacted is answered as before; what is forgotten is forgotten by everybody.
//!
//! ```text
//! SNAPSHOT_KILL_ROUNDS=100 cargo test --release --test main durability::snapshots -- --nocapture
//! ```

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::time::Timestamp;
use carebook::cli::open::Replaying;
use carebook::cli::remote::facts::load_lines;
use carebook::cli::runtime::on_lane;
use carebook::domain::outbox::message::Message;
use carebook::domain::resource::Resource as _;
use carebook::engine::checkpointer::CheckpointPolicy;
use carebook::engine::clock::{Clock, SystemClock};
use carebook::engine::log_space::retention::LogRetention;
use carebook::engine::outbox::{Delivery, OutgoingMessage, Receiver};
use carebook::engine::role::Role;
use carebook::engine::{CommandResult, Engine, Limits, Mode};
use carebook::journal::counters::{Counters, Marks};
use carebook::journal::replay::{Recovered, Replay};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use wal::live::{LiveReader, LiveRecord};
use wal::storage::Storage;
use wal::storage::sim::SimDisk;
use wal::{BoxError, Log, Record, Visitor};

use super::inside::{call_of, carry_out, small};
use super::load::{Memory, Town, memories};
use super::share;
use crate::support::gated::{Gate, OpenInTheEnd, syncing_through};
use crate::support::watched::Watched;
use crate::support::{Server, World, actor, run, seed, until};

/// Starts an engine of one lane on what the disk holds.
fn start(disk: &SimDisk, clock: Arc<dyn Clock>) -> Engine {
    start_within(Limits::default(), disk.storage(), clock)
}

fn start_within(limits: Limits, storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Engine {
    start_as(Role::Writer, limits, storage, clock)
}

fn start_as(
    role: Role,
    limits: Limits,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
) -> Engine {
    let mut replaying = Replaying::new("recovering");
    let (log, _) = Log::open(storage, small(), &mut replaying).unwrap();
    let on_fatal = Box::new(|error: &wal::Error| panic!("the log failed: {error}"));
    Engine::start_as(role, log, replaying.finish(), 1, limits, clock, on_fatal).unwrap()
}

/// What recovery makes of the disk, which stays as it is.
fn recovered(disk: &SimDisk) -> Recovered {
    let mut replaying = Replaying::new("recovering");
    Log::open(disk.after_kill().storage(), small(), &mut replaying).unwrap();
    replaying.finish()
}

/// Replays the log and passes over snapshots.
#[derive(Default)]
struct LogAlone(Replay);

impl Visitor for LogAlone {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.0.record(record.position, record.payload)?;
        Ok(())
    }
}

fn snapshot(engine: &Engine) {
    let taken = engine.snapshot_now(&mut |_| {}).unwrap();
    assert!(taken.is_some());
}

/// Some of everything: statements, second keys of them, facts of a few actors again and again.
async fn load(engine: &Arc<Engine>, world: &World, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let (code, key) = (format!("S-{number}"), format!("key-{number}"));
        let first = world.deposit_request(&code, &key);
        let second = world.deposit_request(&code, &format!("second-{number}"));
        let other = world.deposit_request(&format!("T-{number}"), &format!("other-{number}"));
        let facts = format!(
            "{{\"kind\":\"actor\",\"id\":\"actor-{}\",\"revision\":{number},\
             \"facts\":{{\"lifecycle\":\"active\"}}}}\n",
            number % 7
        );
        let (first, other, facts) = tokio::join!(
            carry_out(engine, &first),
            carry_out(engine, &other),
            load_lines(engine, facts.as_bytes()),
        );
        facts.unwrap();
        assert!(is_done(&first, false) && is_done(&other, false));
        if number.is_multiple_of(3) {
            assert!(is_done(&carry_out(engine, &second).await, true));
        }
    }
}

fn is_done(reply: &CommandResult, as_replay: bool) -> bool {
    matches!(reply, CommandResult::Done { replay, .. } if *replay == as_replay)
}

/// Takes snapshots on a thread of its own for as long as `work` goes on, which begins once the first
/// of them has; how many.
fn beside_snapshots(engine: &Arc<Engine>, at_most: u64, work: impl Future<Output = ()>) -> u64 {
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let mut taken = 0;
            while !done.load(Ordering::SeqCst) && taken < at_most {
                let mut progress = |_| begun.store(true, Ordering::SeqCst);
                taken += u64::from(engine.snapshot_now(&mut progress).unwrap().is_some());
            }
            taken
        });
        let started = Instant::now();
        let work = async {
            while !begun.load(Ordering::SeqCst) {
                assert!(started.elapsed() < Duration::from_secs(60), "none begins");
                tokio::task::yield_now().await;
            }
            work.await;
        };
        on_lane(engine, work).unwrap();
        done.store(true, Ordering::SeqCst);
        taking.join().unwrap()
    })
}

#[test]
fn a_snapshot_under_load_with_the_log_after_it_equals_the_whole_log() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = Arc::new(start(&disk, Arc::new(SystemClock::default())));
    on_lane(&engine, load(&engine, &world, 1..20)).unwrap();
    // One snapshot alone compacts nothing: the whole log is there to compare with.
    let taken = beside_snapshots(&engine, 1, load(&engine, &world, 20..80));
    assert_eq!(taken, 1);
    let covers = engine.snapshots()[0].covers;
    assert!(covers > 40 && covers < engine.durable(), "{covers}");
    let live = engine.digest();
    let commits = engine.durable();
    engine.shut_down().unwrap();

    let with_snapshot = recovered(&disk);
    assert_eq!(with_snapshot.tables.digest(), live);
    let mut alone = LogAlone::default();
    let (_, report) = Log::open(disk.after_kill().storage(), small(), &mut alone).unwrap();
    assert_eq!((report.records, report.bad_snapshots.len()), (commits, 1));
    let alone = alone.0.finish().unwrap();
    assert_eq!(alone.tables.digest(), live);
    // How long servers ran is not in the log.
    let but_ages = |counters: &Counters| Counters {
        marks: Marks::default(),
        ..counters.clone()
    };
    assert_eq!(but_ages(&alone.counters), but_ages(&with_snapshot.counters));
    assert_eq!(with_snapshot.covered.position, covers);

    // And again, over starts and compactions.
    let mut next = 80;
    for _ in 0..3 {
        let engine = Arc::new(start(&disk, Arc::new(SystemClock::default())));
        let taken = beside_snapshots(&engine, 5, load(&engine, &world, next..next + 30));
        assert!(taken > 0);
        next += 30;
        let live = engine.digest();
        engine.shut_down().unwrap();
        drop(engine);
        let found = recovered(&disk);
        assert_eq!(found.tables.digest(), live);
        assert_eq!(
            found.counters.operations[&9],
            (2 * (next - 1)) + (next - 1) / 3
        );
    }
    assert!(
        !disk
            .names()
            .contains(&"segment-0000000000000001.log".to_owned())
    );
    let mut verifying = Replaying::verifying();
    wal::verify(disk.storage(), &mut verifying).unwrap();
    let (compared, found) = (verifying.finish().tables, recovered(&disk).tables);
    assert_eq!(compared.digest(), found.digest());
}

/// What a snapshot holds: kept records with their positions and notes, and entries.
#[derive(Default)]
struct Parts {
    covers: u64,
    notes: Vec<Vec<u8>>,
    kept: Vec<(u64, Vec<u8>)>,
    entries: Vec<Vec<u8>>,
}

impl Visitor for Parts {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, info: &wal::SnapshotInfo) -> Result<(), BoxError> {
        self.covers = info.covers;
        Ok(())
    }

    fn noted(&mut self, _: u64, note: &[u8]) -> Result<(), BoxError> {
        self.notes.push(note.to_vec());
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.kept.push((record.position, record.payload.to_vec()));
        Ok(())
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.entries.push(entry.to_vec());
        Ok(())
    }
}

#[test]
fn verify_finds_a_mismatched_note_and_a_start_reads_no_noted_record() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = start(&disk, Arc::new(SystemClock::default()));
    for number in 1..=9 {
        let (code, key) = (format!("S-{number}"), format!("key-{number}"));
        deposit(&engine, &world, &code, &key).unwrap();
    }
    snapshot(&engine);
    engine.shut_down().unwrap();
    drop(engine);
    let mut parts = Parts::default();
    let (mut log, _) = Log::open(disk.storage(), small(), &mut parts).unwrap();
    assert!(parts.notes.len() == parts.kept.len() && parts.kept.len() == 9);
    // Another one, in which two notes are where the other one should be, and a record cannot be read.
    parts.notes.swap(3, 4);
    parts.kept[6].1 = b"no record".to_vec();
    let mut writer = log.begin_snapshot(parts.covers).unwrap();
    for ((position, record), note) in parts.kept.iter().zip(&parts.notes) {
        writer.keep_noted(*position, note, record).unwrap();
    }
    for entry in &parts.entries {
        writer.entry(entry).unwrap();
    }
    log.install(writer, parts.covers).unwrap();
    drop(log);
    assert_eq!(recovered(&disk).tables.keys(), 9);
    let told = wal::verify(disk.storage(), &mut Replaying::verifying());
    let told = told.unwrap_err().to_string();
    let expected = format!(
        "position {}: kept by a snapshot: its note says something else",
        parts.kept[3].0
    );
    assert!(told.contains(&expected), "{told}");
    // No response of another key is sent, and no snapshot lets go of a record.
    let engine = start(&disk, Arc::new(SystemClock::default()));
    let again = world.deposit_request("S-4", "key-4");
    let answered = on_lane(&engine, carry_out(&engine, &again)).unwrap();
    assert!(
        matches!(answered, CommandResult::OutcomeUnknown),
        "{answered:?}"
    );
    let told = engine.snapshot_now(&mut |_| {}).unwrap_err().to_string();
    let expected = format!("lack the idempotency key of position {}", parts.kept[4].0);
    assert!(told.contains(&expected), "{told}");
    engine.shut_down().unwrap();
}

/// A clock that stays where it was set, and runs only when moved.
#[derive(Default)]
pub struct SetClock {
    /// Milliseconds that it has run.
    ran: AtomicI64,
    /// Milliseconds by which it was set forward or back.
    set: AtomicI64,
}

impl SetClock {
    /// Runs for so long.
    pub fn run(&self, millis: i64) {
        self.ran.fetch_add(millis, Ordering::SeqCst);
    }

    /// Is set forward or back.
    pub fn jump(&self, millis: i64) {
        self.set.fetch_add(millis, Ordering::SeqCst);
    }

    /// Milliseconds that it has run.
    pub fn ran(&self) -> i64 {
        self.ran.load(Ordering::SeqCst)
    }
}

pub const DAY: i64 = 86_400_000;
/// 2026-11-20T12:00:00Z.
const DAY_0: i64 = 1_795_176_000_000;

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(DAY_0 + self.ran() + self.set.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.ran()).unwrap())
    }
}

/// What a deposit for `code` under `key` comes to: the statement and whether it is a replay, or
/// why it is refused.
fn deposit(engine: &Engine, world: &World, code: &str, key: &str) -> Result<(Value, bool), String> {
    let reply = on_lane(engine, carry_out(engine, &world.deposit_request(code, key))).unwrap();
    match reply {
        CommandResult::Done { body, replay, .. } => {
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["statementCode"], code);
            Ok((body, replay))
        }
        CommandResult::Refused { rejection, .. } => Err(rejection.code.to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_past_its_retention_is_forgotten_across_starts_and_compactions() {
    let world = World::new();
    let disk = SimDisk::new();
    let clock = Arc::new(SetClock::default());
    let forgotten = || Err("first_answer_forgotten".to_owned());
    // Days pass while a server runs, and are counted as far as a snapshot has them.
    let start_at = |day: i64| {
        let engine = start(&disk, Arc::clone(&clock) as _);
        engine.checkpoint_by(CheckpointPolicy {
            retention: Some(Duration::from_secs(30 * 86_400)),
            ..CheckpointPolicy::default()
        });
        engine.snapshot_now(&mut |_| {}).unwrap();
        clock.run(day * DAY - clock.ran());
        engine
    };
    let engine = start_at(0);
    let (first, _) = deposit(&engine, &world, "S-1", "key-1").unwrap();
    deposit(&engine, &world, "S-2", "key-2").unwrap();
    engine.shut_down().unwrap();
    let engine = start_at(20);
    let again = deposit(&engine, &world, "S-1", "key-3").unwrap();
    assert_eq!(again, (first.clone(), true));
    deposit(&engine, &world, "S-3", "key-4").unwrap();
    snapshot(&engine);
    assert_eq!(engine.figures().checkpoints.forgotten_keys, 0);
    engine.shut_down().unwrap();

    let engine = start_at(31);
    assert_eq!(deposit(&engine, &world, "S-1", "key-1").unwrap().0, first);
    snapshot(&engine);
    let figures = engine.figures();
    assert_eq!((figures.checkpoints.forgotten_keys, figures.keys), (2, 2));
    let (fresh, _) = deposit(&engine, &world, "S-9", "key-2").unwrap();
    engine.shut_down().unwrap();
    for round in 0..3 {
        let engine = start_at(32);
        // The key is as good as new, but the statement exists, and its stored response is gone.
        assert_eq!(deposit(&engine, &world, "S-1", "key-1"), forgotten());
        // Its second key is younger, and has that answer still.
        let again = deposit(&engine, &world, "S-1", "key-3");
        assert_eq!(again, Ok((first.clone(), true)));
        // Taken again by another statement, the key is that one's, and no longer this one's.
        assert_eq!(deposit(&engine, &world, "S-2", "key-5"), forgotten());
        let again = deposit(&engine, &world, "S-9", "key-2");
        assert_eq!(again, Ok((fresh.clone(), true)));
        let again = deposit(&engine, &world, "S-9", &format!("key-6-{round}"));
        assert_eq!(again, Ok((fresh.clone(), true)));
        let reused = deposit(&engine, &world, "S-4", "key-4");
        assert_eq!(reused, Err("idempotency_key_reused".to_owned()));
        snapshot(&engine);
        let live = engine.digest();
        engine.shut_down().unwrap();
        drop(engine);
        assert_eq!(recovered(&disk).tables.digest(), live);
    }
    assert!(
        !disk
            .names()
            .contains(&"segment-0000000000000001.log".to_owned())
    );
    let engine = start_at(51);
    snapshot(&engine);
    assert_eq!(deposit(&engine, &world, "S-1", "key-3"), forgotten());
    let again = deposit(&engine, &world, "S-9", "key-2");
    assert_eq!(again, Ok((fresh, true)));
    engine.shut_down().unwrap();
}

/// Has a deposit for `S-1` under `key-1`, and that key forgotten.
fn deposit_and_forget(engine: &Engine, world: &World, clock: &SetClock) {
    engine.checkpoint_by(CheckpointPolicy {
        retention: Some(Duration::from_secs(30 * 86_400)),
        ..CheckpointPolicy::default()
    });
    deposit(engine, world, "S-1", "key-1").unwrap();
    snapshot(engine);
    clock.run(31 * DAY);
    snapshot(engine);
    assert_eq!(engine.figures().checkpoints.forgotten_keys, 1);
}

/// Commands under other keys between the use of a key and its being forgotten, and after that. A snapshot that begins
/// with the first of them waits for two syncs: the key is forgotten in between.
const BEFORE: usize = 40;
const AFTER: usize = 10;
/// Commands of a round, with the two records of the key.
const ROUND: usize = BEFORE + AFTER + 2;

/// The records of a writer that forgets a key and has it used again, so many times.
fn forgotten_and_used_again(world: &World, rounds: usize) -> Vec<Vec<u8>> {
    let (disk, clock) = (SimDisk::new(), Arc::new(SetClock::default()));
    let engine = start(&disk, Arc::clone(&clock) as _);
    engine.checkpoint_by(CheckpointPolicy {
        retention: Some(Duration::from_millis(DAY.unsigned_abs())),
        log: LogRetention {
            age: Duration::MAX,
            ..LogRetention::default()
        },
        ..CheckpointPolicy::default()
    });
    let fill = |round: usize, numbers: std::ops::Range<usize>| {
        for number in numbers {
            let name = format!("{round}-{number}");
            deposit(&engine, world, &name, &name).unwrap();
        }
    };
    for round in 0..rounds {
        deposit(&engine, world, &format!("S-{round}"), "key-1").unwrap();
        fill(round, 0..BEFORE);
        snapshot(&engine);
        clock.run(2 * DAY);
        snapshot(&engine);
        fill(round, BEFORE..BEFORE + AFTER);
    }
    engine.shut_down().unwrap();
    let mut records = Vec::new();
    let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
    let mut keep = |record: LiveRecord<'_>| {
        records.push(record.payload.to_vec());
        Ok(ControlFlow::Continue(()))
    };
    reader.read_on(&mut keep).unwrap();
    assert_eq!(records.len(), rounds * ROUND);
    records
}

#[test]
fn a_standby_s_snapshot_forgets_exactly_the_keys_that_its_records_forget() {
    let world = World::new();
    let records = forgotten_and_used_again(&world, 16);
    let (disk, clock) = (SimDisk::new(), Arc::new(SystemClock::default()));
    let slow = Watched::new(disk.storage(), |call, _| {
        if call == "sync" && std::thread::current().name() == Some("wal-journal") {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let engine = start_as(Role::Standby, Limits::default(), Arc::new(slow), clock);
    let apply = |record: &[u8]| engine.apply(engine.appended() + 1, [record]).unwrap();
    for round in records.chunks(ROUND) {
        // The key is used again. A start refuses that, if a snapshot has it still.
        apply(&round[0]);
        until("it is durable", || engine.durable() == engine.appended());
        recovered(&disk);
        // The writer's forgetting is applied while the snapshot waits for what is not durable yet.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for record in &round[1..] {
                    apply(record);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            snapshot(&engine);
        });
    }
    engine.shut_down().unwrap();
    assert_eq!(recovered(&disk).tables.digest(), engine.digest());
}

/// Once keys were forgotten, what a second key leads to is looked at, and not only whether its
/// first one is taken: it may be so by another command, of this process as well.
#[test]
fn once_keys_are_forgotten_a_second_key_gets_only_its_command_s_response() {
    let world = World::new();
    let disk = SimDisk::new();
    let clock = Arc::new(SetClock::default());
    let engine = start(&disk, Arc::clone(&clock) as _);
    deposit_and_forget(&engine, &world, &clock);
    let (first, _) = deposit(&engine, &world, "S-2", "key-2").unwrap();
    let again = deposit(&engine, &world, "S-2", "key-3");
    assert_eq!(again, Ok((first, true)));
    deposit(&engine, &world, "S-3", "key-1").unwrap();
    let forgotten = deposit(&engine, &world, "S-1", "key-4");
    assert_eq!(forgotten, Err("first_answer_forgotten".to_owned()));
    engine.shut_down().unwrap();
}

/// What a second key leads to may be on its way to the disk, and not be kept in memory.
#[test]
fn once_keys_are_forgotten_a_second_key_waits_for_its_first_key_s_record() {
    let world = World::new();
    let syncs = Arc::new(Gate::default());
    let disk = syncing_through(&syncs, SimDisk::new().storage());
    let clock = Arc::new(SetClock::default());
    let limits = Limits {
        recent_max: 0,
        ..Limits::default()
    };
    let engine = start_within(limits, disk, Arc::clone(&clock) as _);
    let _open = OpenInTheEnd(Arc::clone(&syncs));
    deposit_and_forget(&engine, &world, &clock);
    syncs.set(true);
    let (first, second) = (
        world.deposit_request("S-2", "key-2"),
        world.deposit_request("S-2", "key-3"),
    );
    let (first, (second, ())) = on_lane(&engine, async {
        tokio::join!(carry_out(&engine, &first), async {
            syncs.somebody_waits().await;
            tokio::join!(carry_out(&engine, &second), async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                syncs.set(false);
            })
        })
    })
    .unwrap();
    let (CommandResult::Done { body: first, .. }, CommandResult::Done { body, replay, .. }) =
        (first, second)
    else {
        panic!("both are answered");
    };
    assert_eq!((body, replay), (first, true));
    engine.shut_down().unwrap();
}

/// A directory that takes everything.
struct Willing;

impl Receiver for Willing {
    fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// Creates a branch, or asks for its creation again: the answer, and whether it is a replay.
fn create_branch(engine: &Engine) -> (Value, bool) {
    let body = crate::operations::branch::external_directory::creation();
    let creator = Actor {
        permissions: vec!["branch:create".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "admin-1")
    };
    let reply = on_lane(engine, async {
        engine.start_deliveries();
        let permit = engine.admit().unwrap();
        let call = call_of(engine, "create_branch", creator, Some("key-1"), &body);
        engine.execute(call, permit, Mode::Commit).await
    });
    match reply.unwrap() {
        CommandResult::Done { body, replay, .. } => {
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            body["idempotentReplay"] = Value::Null;
            (body, replay)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_replacing_response_outlives_the_log_and_the_replaced_one_does_not() {
    let disk = SimDisk::new();
    let clock = || Arc::new(SystemClock::default());
    let engine = start(&disk, clock());
    let receiver = Arc::new(Willing);
    let (receivers, schedule) = crate::operations::branch::external_directory::receiving(receiver);
    engine.deliver_to(receivers, schedule);
    let (first, replay) = create_branch(&engine);
    assert_eq!(
        (&first["outcomeStatus"], replay),
        (&"completed".into(), false)
    );
    let said =
        "a commit, one for each message that was taken, and an answer in the place of its own";
    assert_eq!(engine.durable(), 5, "{said}");
    for round in 0..3 {
        // In between the snapshot has the replaced answer only as long as the log has the other.
        snapshot(&engine);
        assert_eq!(create_branch(&engine), (first.clone(), true), "{round}");
    }
    engine.shut_down().unwrap();
    drop(engine);
    for _ in 0..3 {
        let engine = start(&disk, clock());
        assert_eq!(create_branch(&engine), (first.clone(), true));
        snapshot(&engine);
        let live = engine.digest();
        engine.shut_down().unwrap();
        drop(engine);
        assert_eq!(recovered(&disk).tables.digest(), live);
    }
    assert!(
        !disk
            .names()
            .contains(&"segment-0000000000000001.log".to_owned())
    );
    let (log, _) = Log::open(disk.storage(), small(), &mut Replaying::new("")).unwrap();
    assert!(log.read(1).unwrap().is_none());
    let last = log.read(5).unwrap().unwrap();
    let last = carebook::journal::record::Record::decode(&last).unwrap();
    assert!(last.key.is_some() && last.changes.is_empty());
}

#[test]
fn a_branch_keeps_its_messages_when_its_key_is_forgotten() {
    let disk = SimDisk::new();
    let clock = Arc::new(SetClock::default());
    let engine = start(&disk, Arc::clone(&clock) as _);
    let (_, replay) = create_branch(&engine);
    assert!(!replay);
    engine.shut_down().unwrap();
    let before = recovered(&disk).counters;
    assert!(before.outbox_messages > 0 && before.outbox_number > 0);
    for _ in 0..3 {
        let engine = start(&disk, Arc::clone(&clock) as _);
        snapshot(&engine);
        clock.run(2 * DAY);
        engine.checkpoint_by(CheckpointPolicy {
            retention: Some(Duration::from_secs(86_400)),
            ..CheckpointPolicy::default()
        });
        snapshot(&engine);
        assert_eq!(engine.figures().keys, 0);
        engine.shut_down().unwrap();
    }
    assert!(
        !disk
            .names()
            .contains(&"segment-0000000000000001.log".to_owned())
    );
    let after = recovered(&disk).counters;
    assert_eq!(after.operations, before.operations);
    assert_eq!(
        (after.outbox_messages, after.outbox_number),
        (before.outbox_messages, before.outbox_number)
    );
    // They are states by now, and no longer part of what is kept of their record.
    let mut messages = 0;
    recovered(&disk).tables.each(|kind, _, _, _| {
        messages += u64::from(kind == Message::KIND.tag);
    });
    assert_eq!(messages, before.outbox_messages);
}

#[test]
fn a_snapshot_without_room_is_given_up_and_commands_go_on() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = Arc::new(start(&disk, Arc::new(SystemClock::default())));
    on_lane(&engine, load(&engine, &world, 1..100)).unwrap();
    disk.set_capacity(disk.used() + 20_000);
    let error = engine.snapshot_now(&mut |_| {}).unwrap_err();
    assert!(matches!(error, wal::Error::Io { .. }), "{error}");
    let left: Vec<_> = disk.names();
    let is_snapshot = |name: &String| name.contains("snapshot");
    assert!(!left.iter().any(is_snapshot), "{left:?}");
    let figures = engine.figures().checkpoints;
    assert_eq!((figures.snapshots, figures.failures), (0, 1));
    assert!(engine.is_ready());
    on_lane(&engine, async {
        let reply = carry_out(&engine, &world.deposit_request("U-1", "u-1")).await;
        assert!(is_done(&reply, false), "{reply:?}");
    })
    .unwrap();
    disk.set_capacity(u64::MAX);
    snapshot(&engine);
    assert_eq!(engine.figures().checkpoints.snapshots, 1);
    let live = engine.digest();
    engine.shut_down().unwrap();
    assert_eq!(recovered(&disk).tables.digest(), live);
}

#[test]
fn the_next_snapshot_is_due_after_as_many_bytes_as_the_last_had_unpacked() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = Arc::new(start(&disk, Arc::new(SystemClock::default())));
    let policy = |log_bytes| CheckpointPolicy {
        look: Duration::from_millis(2),
        log_bytes,
        ..CheckpointPolicy::default()
    };
    on_lane(&engine, load(&engine, &world, 1..200)).unwrap();
    engine.checkpoint_by(policy(1));
    engine.start_checkpointer().unwrap();
    let figures = || engine.figures().checkpoints;
    until("the first one is taken", || figures().snapshots == 1);
    // More than its file has, and less than what is in it.
    on_lane(&engine, load(&engine, &world, 200..300)).unwrap();
    let before = figures().looks;
    until("it looks", || figures().looks >= before + 10);
    assert_eq!(figures().snapshots, 1);
    on_lane(&engine, load(&engine, &world, 300..500)).unwrap();
    until("the next one is due", || figures().snapshots > 1);
    engine.shut_down().unwrap();
}

#[test]
fn a_snapshot_is_given_up_at_shutdown_and_requested_ones_are_taken() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = Arc::new(start(&disk, Arc::new(SystemClock::default())));
    let seldom = CheckpointPolicy {
        look: Duration::from_millis(2),
        ..CheckpointPolicy::default()
    };
    engine.checkpoint_by(CheckpointPolicy {
        log_bytes: 1,
        ..seldom.clone()
    });
    engine.start_checkpointer().unwrap();
    on_lane(&engine, load(&engine, &world, 1..30)).unwrap();
    let figures = || engine.figures().checkpoints;
    let taken = || figures().snapshots;
    until("one is due by the log's bytes", || taken() > 0);
    engine.checkpoint_by(seldom);
    let before = figures();
    until("it looks", || figures().looks >= before.looks + 10);
    assert!(taken() <= before.snapshots + 1, "none is due");
    let before = taken();
    engine.request_snapshot();
    until("one is taken that was asked for", || taken() > before);
    engine.request_snapshot();
    engine.shut_down().unwrap();
    let live = engine.digest();
    assert_eq!(recovered(&disk).tables.digest(), live);
}

/// A sample of the server's metrics.
/// Has the server take a snapshot, and waits until it is there.
fn take_snapshot(server: &Server) {
    let before = server.metric("carebook_snapshots_total");
    server.signal("USR1");
    until("a snapshot is taken", || {
        server.metric("carebook_snapshots_total") > before
    });
}

/// Lets clients work on the server for so long.
fn work(town: &Town, server: &Server, memories: &mut [Memory], round: u64, time: Duration) {
    let address = server.address.clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            std::thread::sleep(time);
            stop.store(true, Ordering::SeqCst);
        });
        for memory in memories {
            let (town, address) = (&town, &address);
            scope.spawn(move || town.work_until(address, memory, round, stop));
        }
    });
}

/// The snapshots in a data directory, oldest first.
fn snapshots(data: &Path) -> Vec<PathBuf> {
    crate::support::files(data)
        .into_iter()
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "snap")
        })
        .collect()
}

fn is_part(some: &[String], all: &[String]) -> bool {
    some.iter().all(|name| all.contains(name))
}

fn segments(data: &Path) -> Vec<String> {
    let name = |file: PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
    let names = crate::support::files(data).into_iter().map(name);
    names.filter(|name| name.starts_with("segment-")).collect()
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_while_it_takes_snapshots() {
    let seed = seed();
    let rounds = share("SNAPSHOT_KILL_ROUNDS", 4);
    let mut random = StdRng::seed_from_u64(seed);
    let town = Town::new();
    let mut memories = memories(seed);
    let mut server = Server::start(&town.world);
    town.settle(&server);
    let (mut taken, mut interrupted) = (0.0, 0);
    for round in 0..rounds {
        let address = server.address.clone();
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                scope.spawn(move || town.work(address, memory, round));
            }
            let until = Instant::now() + Duration::from_millis(random.random_range(100..500));
            let mut of_round = 0.0;
            // The first round ends with a snapshot, however long that takes.
            while Instant::now() < until || round == 0 && of_round == 0.0 {
                server.signal("USR1");
                std::thread::sleep(Duration::from_millis(10));
                of_round = server.metric("carebook_snapshots_total");
            }
            taken += of_round;
            server.kill();
        });
        let left = crate::support::files(&town.world.data()).into_iter();
        let names = left.map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
        let unfinished = |name: &String| name.starts_with("snapshot-") && !name.ends_with(".snap");
        interrupted += names.filter(unfinished).count();
        server = Server::start(&town.world);
        town.hold_to(&server, &mut memories, round + 1 == rounds);
        town.content();
    }
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
    println!(
        "{rounds} rounds, {taken} snapshots, {interrupted} interrupted: {}",
        town.figures
    );
    assert!(taken > 0.0);
}

#[test]
fn after_a_compaction_every_read_and_every_replay_is_as_before() {
    let seed = seed();
    let town = Town::new();
    let mut memories = memories(seed);
    let data = town.world.data();
    let data_text = data.to_str().unwrap();
    let archive = town.world.path("archive");
    let first = "segment-0000000000000001.log".to_owned();
    for (round, arguments) in [
        &["--archive", archive.to_str().unwrap()][..],
        &[],
        &["--json"],
    ]
    .into_iter()
    .enumerate()
    {
        let server = Server::start(&town.world);
        if round == 0 {
            town.settle(&server);
        }
        let time = Duration::from_millis(200);
        work(&town, &server, &mut memories, round as u64, time);
        assert_eq!(server.stop(), Some(0));
        let before = segments(&data);
        let (code, out, err) =
            run(&[&["compact", "--keep", "0s", "--data", data_text], arguments].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        let after = segments(&data);
        assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");
        match round {
            0 => {
                let moved = segments(&folder(&archive));
                assert!(
                    moved.contains(&first) && is_part(&moved, &before),
                    "{moved:?}"
                );
                assert!(out.contains("segments moved to"), "{out}");
            }
            1 => assert!(out.contains("segments removed"), "{out}"),
            _ => {
                let done: Value = serde_json::from_str(&out).unwrap();
                assert!(done["segmentsRemoved"].as_u64() > Some(0));
                assert_eq!(done["snapshotsTaken"], 2);
                assert_eq!(done["snapshots"].as_array().unwrap().len(), 2);
                for held in done["snapshots"].as_array().unwrap() {
                    assert_eq!(held["covers"], done["lastPosition"]);
                }
            }
        }
        // There is nothing left to do.
        let (code, out, _) = run(&["compact", "--keep", "0s", "--data", data_text, "--json"]);
        let done: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &done["snapshotsTaken"]), (Some(0), &0.into()));
        let server = Server::start(&town.world);
        town.hold_to(&server, &mut memories, true);
        town.content();
        assert_eq!(server.stop(), Some(0));
        town.compare_with_log();
    }
}

#[test]
fn a_damaged_snapshot_is_passed_over_and_two_are_refused() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let town = Town::new();
    let mut memories = memories(seed);
    let data = town.world.data();
    let mut server = Server::start_with(&town.world, &["--log-retention", "0s"]);
    town.settle(&server);
    for round in 0..3 {
        work(
            &town,
            &server,
            &mut memories,
            round,
            Duration::from_millis(100),
        );
        take_snapshot(&server);
        assert_eq!(server.stop(), Some(0));
        server = Server::start_with(&town.world, &["--log-retention", "0s"]);
    }
    let first = "segment-0000000000000001.log".to_owned();
    assert!(!segments(&data).contains(&first), "the log was compacted");
    assert_eq!(server.stop(), Some(0));
    let mut flip = |file: &Path| {
        let mut bytes = std::fs::read(file).unwrap();
        let at = random.random_range(0..bytes.len());
        bytes[at] ^= 1 << random.random_range(0..8);
        std::fs::write(file, bytes).unwrap();
    };
    let held = snapshots(&data);
    assert_eq!(held.len(), 2);
    let newest = held.last().unwrap();
    let sound = std::fs::read(newest).unwrap();
    flip(newest);
    let verify = |expected: &Path| {
        let (code, _, err) = run(&["verify", "--data", data.to_str().unwrap()]);
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains(expected.to_str().unwrap()), "{err}");
        assert!(err.contains("offset"), "{err}");
    };
    verify(newest);
    // Both: nothing else has what the log has lost.
    let older = std::fs::read(&held[0]).unwrap();
    flip(&held[0]);
    let mut command = crate::support::carebook();
    let refused = crate::support::serve_arguments(&mut command, &town.world).output();
    let refused = refused.unwrap();
    let sentence = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{sentence}");
    assert!(
        sentence.contains(".snap") && sentence.contains("offset"),
        "{sentence}"
    );
    std::fs::write(&held[0], older).unwrap();
    // The newest alone: the older one and the log after it have all of it.
    let server = Server::start(&town.world);
    town.hold_to(&server, &mut memories, true);
    town.content();
    take_snapshot(&server);
    work(&town, &server, &mut memories, 7, Duration::from_millis(50));
    assert_eq!(server.stop(), Some(0));
    assert!(sound.len() > 64);
    let server = Server::start(&town.world);
    town.hold_to(&server, &mut memories, true);
    town.content();
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
}

/// The folder of the one log whose segments are in an archive.
fn folder(archive: &Path) -> PathBuf {
    let mut folders = std::fs::read_dir(archive).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    assert!(folder.is_dir() && folders.next().is_none());
    folder
}

#[test]
fn a_server_forgets_keys_compacts_and_archives_segments_by_its_arguments() {
    let world = World::new();
    let archive = world.path("archive");
    let archive_text = archive.to_str().unwrap();
    let arguments = ["--idempotency-retention", "1s", "--archive", archive_text];
    let token = world.headquarters();
    let deposit = |server: &Server, code: &str, key: &str| {
        let body = world.deposit_request(code, key);
        server
            .client()
            .post("/settlement-deposit-requests", &token, &body)
    };
    let server = Server::start_with(&world, &arguments);
    assert_eq!(deposit(&server, "S-1", "key-1").status, 201);
    let forgotten = || server.metric("carebook_idempotency_keys_forgotten_total");
    until("the key is forgotten", || {
        take_snapshot(&server);
        forgotten() > 0.0
    });
    assert_eq!(forgotten(), 1.0);
    let answer = deposit(&server, "S-1", "key-1");
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (409, &"first_answer_forgotten".into())
    );
    assert_eq!(deposit(&server, "S-2", "key-1").status, 201);
    assert_eq!(server.stop(), Some(0));
    let old = segments(&world.data());
    let server = Server::start_with(
        &world,
        &["--archive", archive_text, "--log-retention", "0s"],
    );
    for _ in 0..2 {
        take_snapshot(&server);
    }
    let moved = segments(&folder(&archive));
    // One that was made ahead of need, and never used, is not worth keeping.
    assert!(
        moved.contains(&old[0]) && is_part(&moved, &old),
        "{moved:?}"
    );
    assert!(
        segments(&world.data())
            .iter()
            .all(|name| !old.contains(name))
    );
    assert_eq!(
        server.metric("carebook_compacted_segments_total"),
        moved.len() as f64
    );
    let answer = deposit(&server, "S-1", "key-2");
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (409, &"first_answer_forgotten".into())
    );
    let answer = deposit(&server, "S-2", "key-1");
    assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    assert_eq!(server.stop(), Some(0));
}
