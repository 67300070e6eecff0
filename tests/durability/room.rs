//! What a nearly full disk, a stop and a failure do to snapshots, and what is said of it.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::engine::checkpointer::{CheckpointFigures, CheckpointPolicy};
use carebook::engine::clock::SystemClock;
use carebook::engine::{CommandResult, Engine, Limits};
use carebook::journal::replay::Recovered;
use wal::storage::Storage;
use wal::storage::sim::SimDisk;
use wal::{Log, Options, Report};

use super::inside::{carry_out, has_segment_ahead, is_settled, small};
use crate::support::watched::Watched;
use crate::support::{Server, World, carebook, serve_arguments, until};

const LONG: Duration = Duration::from_secs(3_600);

/// Segments that are larger than a block of a snapshot.
fn roomy() -> Options {
    Options {
        segment_bytes_min: 256 << 10,
        segment_bytes_max: 256 << 10,
        reserve_bytes: 64 << 10,
        ..small()
    }
}

fn start(storage: Arc<dyn Storage>, options: Options) -> Engine {
    let mut replaying = Replaying::new("recovering");
    let (log, _) = Log::open(storage, options, &mut replaying).unwrap();
    let on_fatal = Box::new(|error: &wal::Error| panic!("the log failed: {error}"));
    let clock = Arc::new(SystemClock::default());
    let limits = Limits::default();
    Engine::start(log, replaying.finish(), 1, limits, clock, on_fatal).unwrap()
}

fn recovered(disk: &SimDisk) -> (Recovered, Report) {
    let mut replaying = Replaying::new("recovering");
    let opened = Log::open(disk.after_kill().storage(), small(), &mut replaying);
    let (_, report) = opened.unwrap();
    (replaying.finish(), report)
}

fn deposits(engine: &Engine, world: &World, numbers: std::ops::Range<u64>) {
    on_lane(engine, async {
        for number in numbers {
            let request = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
            let reply = carry_out(engine, &request).await;
            let CommandResult::Done { replay: false, .. } = reply else {
                panic!("{reply:?}");
            };
        }
    })
    .unwrap();
}

fn is_snapshot(name: &str) -> bool {
    name.starts_with("snapshot-")
}

#[test]
fn a_snapshot_begins_only_where_it_fits_and_never_takes_the_log_s_room() {
    let world = World::new();
    let disk = SimDisk::new();
    let (created, is_tight, least) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(u64::MAX)),
    );
    let watch = {
        let (disk, created) = (disk.clone(), Arc::clone(&created));
        let (is_tight, least) = (Arc::clone(&is_tight), Arc::clone(&least));
        move |what: &'static str, name: &str| {
            if !is_snapshot(name) {
                return;
            }
            if what == "create" {
                created.fetch_add(1, Ordering::SeqCst);
            }
            if what == "write_at" && is_tight.load(Ordering::SeqCst) {
                // A slow disk, which is filled from outside as soon as the snapshot has begun.
                if created.swap(9, Ordering::SeqCst) != 9 {
                    disk.set_capacity(disk.used() + (64 << 10) + (256 << 10) + 1);
                }
                std::thread::sleep(Duration::from_millis(1));
                let free = disk.storage().free_bytes().unwrap();
                least.fetch_min(free, Ordering::SeqCst);
            }
        }
    };
    let engine = start(Arc::new(Watched::new(disk.storage(), watch)), roomy());
    deposits(&engine, &world, 1..400);
    until("the segment ahead is made", || has_segment_ahead(&disk));
    engine.checkpoint_by(CheckpointPolicy {
        log_bytes: 1,
        look: Duration::from_millis(2),
        pause: LONG,
        ..CheckpointPolicy::default()
    });
    let figures = || engine.figures().checkpoints;
    // Room for the reserve, for another segment, and for half a snapshot.
    disk.set_capacity(disk.used() + (64 << 10) + (256 << 10) + (70 << 10));
    engine.start_checkpointer().unwrap();
    until("it is known that it does not fit", || {
        figures().failures == 1
    });
    assert_eq!((figures().without_room, figures().snapshots), (1, 0));
    assert!(figures().estimate > 70 << 10, "{}", figures().estimate);
    assert_eq!(created.load(Ordering::SeqCst), 0, "it was begun");
    assert!(engine.is_ready());
    deposits(&engine, &world, 400..402);

    // There is room as it begins, and then there is not.
    disk.set_capacity(u64::MAX);
    is_tight.store(true, Ordering::SeqCst);
    engine.request_snapshot();
    until("it is given up", || figures().failures == 2);
    assert_eq!((figures().without_room, figures().snapshots), (2, 0));
    assert!(is_settled(&disk), "{:?}", disk.names());
    let least = least.load(Ordering::SeqCst);
    assert!(
        least > 64 << 10,
        "{least} bytes were left: the reserve is gone"
    );
    assert!(engine.is_ready());
    deposits(&engine, &world, 402..404);

    is_tight.store(false, Ordering::SeqCst);
    disk.set_capacity(u64::MAX);
    engine.request_snapshot();
    until("it is taken", || figures().snapshots == 1);
    let CheckpointFigures {
        bytes, estimate, ..
    } = figures();
    // Room enough, and not so much that one which fits is refused.
    let fair = bytes..=3 * bytes;
    assert!(
        fair.contains(&estimate),
        "{bytes} bytes, estimated {estimate}"
    );
    engine.shut_down().unwrap();
    assert_eq!(recovered(&disk).0.tables.digest(), engine.digest());
}

#[test]
fn a_stop_ends_a_snapshot_while_it_is_written_read_back_or_its_log_moved() {
    for (what, name) in [
        ("write_at", ".snap.new"),
        ("open_read", ".snap.new"),
        ("create", ".log.new"),
    ] {
        let world = World::new();
        let disk = SimDisk::new();
        let engine: Arc<OnceLock<Engine>> = Arc::default();
        let after = Arc::new(AtomicU64::new(0));
        let armed = Arc::new(AtomicBool::new(false));
        let watch = {
            let (engine, after) = (Arc::clone(&engine), Arc::clone(&after));
            let armed = Arc::clone(&armed);
            move |call: &'static str, file: &str| {
                if after.load(Ordering::SeqCst) > 0 && file.ends_with(".new") {
                    after.fetch_add(1, Ordering::SeqCst);
                }
                let is_it = call == what && file.ends_with(name);
                if is_it && armed.swap(false, Ordering::SeqCst) {
                    engine.get().unwrap().shut_down().unwrap();
                    after.store(1, Ordering::SeqCst);
                }
            }
        };
        let watch = Arc::new(watch);
        let watched = |storage: Arc<dyn Storage>| -> Arc<dyn Storage> {
            let watch = Arc::clone(&watch);
            Arc::new(Watched::new(storage, move |call, file| watch(call, file)))
        };
        let log = match name {
            // Those of the archive are meant.
            ".log.new" => disk.storage(),
            _ => watched(disk.storage()),
        };
        assert!(engine.set(start(log, small())).is_ok());
        let engine = engine.get().unwrap();
        engine.checkpoint_by(CheckpointPolicy {
            archive: Some(watched(SimDisk::new().storage())),
            ..CheckpointPolicy::default()
        });
        deposits(engine, &world, 1..300);
        if name == ".log.new" {
            assert!(engine.snapshot_now(&mut |_| {}).unwrap().is_some());
        }
        armed.store(true, Ordering::SeqCst);
        let taken = engine.snapshot_now(&mut |_| {});
        let error = taken.unwrap_err().to_string();
        assert!(error.contains("the service ends"), "{what}: {error}");
        let after = after.load(Ordering::SeqCst);
        assert!(
            (1..=3).contains(&after),
            "{what}: {after} calls after the stop"
        );
        let live = engine.digest();
        assert_eq!(recovered(&disk).0.tables.digest(), live);
    }
}

#[test]
fn a_snapshot_is_taken_only_when_due_and_the_idle_checkpointer_sleeps() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = start(disk.storage(), small());
    deposits(&engine, &world, 1..20);
    let often = CheckpointPolicy {
        look: Duration::from_millis(2),
        pause: LONG,
        ..CheckpointPolicy::default()
    };
    let by = |log_bytes| CheckpointPolicy {
        log_bytes,
        ..often.clone()
    };
    let figures = || engine.figures().checkpoints;
    let some_looks = || {
        let before = figures().looks;
        until("it looks", || figures().looks >= before + 10);
    };
    engine.checkpoint_by(often.clone());
    engine.start_checkpointer().unwrap();
    some_looks();
    assert_eq!(figures().snapshots, 0, "none is due");
    // The snapshot is larger than what is written after it, so that one is enough.
    engine.checkpoint_by(by(1));
    until("one is due by the log's bytes", || figures().snapshots == 1);
    some_looks();
    assert_eq!(figures().snapshots, 1, "nothing was written since");
    engine.checkpoint_by(CheckpointPolicy {
        interval: Duration::from_millis(1),
        ..often.clone()
    });
    some_looks();
    assert_eq!(figures().snapshots, 1, "it is old, but there is no news");
    deposits(&engine, &world, 20..21);
    until("one is due by its age", || figures().snapshots == 2);
    // After a failure there is a pause, whatever is due.
    engine.checkpoint_by(often.clone());
    disk.refuse_files(Some(5));
    deposits(&engine, &world, 21..22);
    engine.checkpoint_by(CheckpointPolicy {
        interval: Duration::from_millis(1),
        ..often.clone()
    });
    until("it fails", || figures().failures > 0);
    some_looks();
    assert_eq!(figures().failures, 1, "there was no pause");
    disk.refuse_files(None);
    some_looks();
    assert_eq!((figures().failures, figures().snapshots), (1, 2));
    // Between looks it sleeps: only what is asked for wakes it.
    engine.checkpoint_by(CheckpointPolicy {
        look: LONG,
        ..often
    });
    some_until_quiet(&figures);
    let before = figures().looks;
    for number in 1..=3 {
        engine.request_snapshot();
        until("what is asked for is taken", || {
            figures().snapshots == 2 + number
        });
    }
    assert_eq!(figures().looks, before + 3);
    engine.shut_down().unwrap();
    assert_eq!(recovered(&disk).0.tables.digest(), engine.digest());
}

/// Waits until the thread has heard that it is to look less often: two looks of one count, a while
/// apart, of a thread that looked every 2 ms before.
fn some_until_quiet(figures: &dyn Fn() -> CheckpointFigures) {
    until("it looks less often", || {
        let before = figures().looks;
        std::thread::sleep(Duration::from_millis(100));
        figures().looks == before
    });
}

#[test]
fn with_only_bad_snapshots_a_start_replays_a_whole_log_from_its_beginning() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = start(disk.storage(), roomy());
    deposits(&engine, &world, 1..30);
    // All is in one segment, of which nothing is removed.
    assert!(engine.snapshot_now(&mut |_| {}).unwrap().is_some());
    deposits(&engine, &world, 30..31);
    assert!(engine.snapshot_now(&mut |_| {}).unwrap().is_some());
    deposits(&engine, &world, 31..40);
    engine.shut_down().unwrap();
    let live = engine.digest();
    let whole = recovered(&disk).0;
    let names = disk.names();
    let snapshots: Vec<_> = names.iter().filter(|name| is_snapshot(name)).collect();
    assert_eq!(snapshots.len(), 2);
    // In the middle, and at the end: what came before was shown by then.
    for name in &snapshots {
        let length = disk.bytes(name).unwrap().len();
        disk.flip(
            name,
            if **name == *snapshots[0] {
                length / 2
            } else {
                length - 10
            },
            1,
        );
    }
    let (found, report) = recovered(&disk);
    assert_eq!((report.bad_snapshots.len(), report.first_position), (2, 1));
    assert_eq!(report.records, engine.durable());
    assert_eq!(found.tables.digest(), live);
    let counted = |found: &Recovered| (found.counters.position, found.counters.operations.clone());
    assert_eq!(counted(&found), counted(&whole));
    assert_eq!(found.covered.position, 0);
}

#[test]
fn a_compaction_that_was_interrupted_is_finished_by_the_next() {
    let world = World::new();
    let disk = SimDisk::new();
    let engine = start(disk.storage(), small());
    let archive = SimDisk::new();
    archive.refuse_files(Some(5));
    engine.checkpoint_by(CheckpointPolicy {
        archive: Some(archive.storage()),
        ..CheckpointPolicy::default()
    });
    deposits(&engine, &world, 1..60);
    for _ in 0..2 {
        // The snapshot is taken, and nothing can be moved.
        let taken = engine.snapshot_now(&mut |_| {}).unwrap().unwrap();
        assert_eq!(taken.compacted.segments, 0);
    }
    engine.shut_down().unwrap();
    drop(engine);
    let engine = start(disk.storage(), small());
    let before = engine.snapshots();
    let compacted = engine.compact_log(&mut |_| {}).unwrap();
    assert!(compacted.segments > 1, "{compacted:?}");
    assert_eq!(compacted.first_position, engine.durable() + 1);
    assert_eq!(engine.snapshots(), before);
    let figures = engine.figures().checkpoints;
    assert_eq!(figures.compacted_segments, compacted.segments);
    assert_eq!(figures.compacted_bytes, compacted.bytes);
    assert_eq!(engine.compact_log(&mut |_| {}).unwrap().segments, 0);
    engine.shut_down().unwrap();
    assert_eq!(recovered(&disk).0.tables.digest(), engine.digest());
}

/// A server, and the file of what it says on standard error.
fn heard(world: &World, log: &Path, arguments: &[&str]) -> Server {
    // `spawn` would not read its output.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>>\"$SAID\""]);
    command.env("SAID", log).arg(carebook().get_program());
    serve_arguments(&mut command, world).args(arguments);
    command.stderr(Stdio::null());
    Server::spawn(command)
}

#[test]
fn a_start_below_the_reserve_and_a_first_503_are_logged_at_once_and_once() {
    let world = World::new();
    let said = world.path("said");
    let server = heard(&world, &said, &["--reserve-bytes", "9223372036854775807"]);
    let lines = |word: &str| {
        let text = std::fs::read_to_string(&said).unwrap();
        text.lines().filter(|line| line.contains(word)).count()
    };
    assert_eq!(lines("there is no room for commands"), 1, "at the start");
    assert_eq!(server.metric("carebook_log_has_room"), 0.0);
    let mut client = server.client();
    let token = world.headquarters();
    for number in 0..3 {
        let body = world.deposit_request("S-1", &format!("key-{number}"));
        let answer = client.post("/settlement-deposit-requests", &token, &body);
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (503, &"service_unavailable".into())
        );
        until("the first refusal is told", || {
            lines("commands are rejected (503)") == 1
        });
    }
    assert_eq!(lines("9223372036854775807 are the reserve"), 2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn when_the_newest_snapshot_was_written_is_told_after_a_restart_too() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.metric("carebook_snapshot_timestamp_seconds"), 0.0);
    let body = world.deposit_request("S-1", "key-1");
    let answer = server
        .client()
        .post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(answer.status, 201);
    server.signal("USR1");
    until("a snapshot is taken", || {
        server.metric("carebook_snapshots_total") > 0.0
    });
    let told = server.metric("carebook_snapshot_timestamp_seconds");
    let took = server.metric("carebook_snapshot_duration_seconds");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&world);
    let again = server.metric("carebook_snapshot_timestamp_seconds");
    // It was written a moment before it was there, while it was taken.
    assert!(
        told - took - 1.0 <= again && again <= told + 1.0,
        "{again}, {told} before, in {took} s"
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_starts_at_once_after_another_was_killed() {
    let world = World::new();
    let mut server = Server::start(&world);
    for _ in 0..10 {
        server.signal("KILL");
        // The next start does not wait until the process is gone.
        let next = Server::start(&world);
        let killed = std::mem::replace(&mut server, next);
        assert_eq!(killed.ended_within(LONG), None);
    }
    // Who lives is not waited for as long as who dies: of whom it would be told otherwise.
    let refused = serve_arguments(&mut carebook(), &world).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("in use by process"), "{said}");
    assert_eq!(server.stop(), Some(0));
}
