//! What the log keeps of what its snapshots cover: by age, by bytes, for deliveries, and less where
//! the disk is nearly full.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::domain::event_id::EventId;
use carebook::engine::checkpointer::{CheckpointFigures, CheckpointPolicy};
use carebook::engine::clock::{Clock, SystemClock};
use carebook::engine::feed::EventReader;
use carebook::engine::log_space::retention::LogRetention;
use carebook::engine::{CommandResult, Engine, Limits};
use wal::storage::sim::SimDisk;
use wal::{Log, Options};

use super::inside::{carry_out, has_segment_ahead, small};
use super::snapshots::{DAY, SetClock};
use crate::support::{Server, World, run, until};

const ONE_DAY: Duration = Duration::from_secs(86_400);
/// Neither its age nor its bytes end what it keeps.
const ALL: LogRetention = LogRetention {
    age: Duration::MAX,
    bytes: u64::MAX,
    delivery_age: Duration::MAX,
    delivery_bytes: u64::MAX,
};

fn start(disk: &SimDisk, options: Options, clock: Arc<dyn Clock>) -> Engine {
    let mut replaying = Replaying::new("recovering");
    let (log, report) = Log::open(disk.storage(), options, &mut replaying).unwrap();
    let covered = report.snapshot.map_or(0, |snapshot| snapshot.covers);
    assert_eq!(report.records, report.last_position - covered);
    let on_fatal = Box::new(|error: &wal::Error| panic!("the log failed: {error}"));
    let (recovered, limits) = (replaying.finish(), Limits::default());
    Engine::start(log, recovered, 1, limits, clock, on_fatal).unwrap()
}

/// A deposit for each number; the answer to it, and whether it was sent again.
fn deposit(engine: &Engine, world: &World, number: u64) -> (Vec<u8>, bool) {
    let request = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
    match on_lane(engine, carry_out(engine, &request)).unwrap() {
        CommandResult::Done { body, replay, .. } => (body.to_vec(), replay),
        other => panic!("{other:?}"),
    }
}

fn snapshot(engine: &Engine) {
    assert!(engine.snapshot_now(&mut |_| {}).unwrap().is_some());
}

fn figures(engine: &Engine) -> CheckpointFigures {
    engine.figures().checkpoints
}

/// How the log is kept while a thread looks often and takes no snapshot that is not asked for.
fn often(log: LogRetention) -> CheckpointPolicy {
    CheckpointPolicy {
        log,
        look: Duration::from_millis(2),
        ..CheckpointPolicy::default()
    }
}

#[test]
fn records_are_kept_for_their_age_across_starts_and_forgotten_keys() {
    let world = World::new();
    let disk = SimDisk::new();
    let clock = Arc::new(SetClock::default());
    let begin = || {
        let engine = start(&disk, small(), Arc::clone(&clock) as _);
        engine.checkpoint_by(CheckpointPolicy {
            retention: Some(ONE_DAY),
            ..often(LogRetention {
                age: ONE_DAY * 3,
                ..ALL
            })
        });
        engine
    };
    // Ten deposits a day; the last position of each day.
    let mut days = vec![0];
    for day in 0..9 {
        let engine = begin();
        for number in 0..10 {
            deposit(&engine, &world, day * 10 + number);
        }
        days.push(engine.durable());
        clock.run(DAY);
        snapshot(&engine);
        snapshot(&engine);
        // Keys are forgotten after a day, and yet it is known how old their records are.
        assert!(day == 0 || figures(&engine).forgotten_keys > 0);
        let first = engine.compact_log(&mut |_| {}).unwrap().first_position;
        let today = usize::try_from(day).unwrap() + 1;
        // Those of today and yesterday, who are less than three days old.
        let young = today.saturating_sub(2);
        assert!(first <= days[young] + 1, "day {today}: {first} of {days:?}");
        // As far as segments go, which hold a day at most, and each start begins one.
        if let Some(old) = young.checked_sub(2) {
            assert!(first > days[old], "day {today}: {first} of {days:?}");
        }
        engine.shut_down().unwrap();
    }
    // It is not only after a snapshot that this is looked at.
    let engine = begin();
    engine.start_checkpointer().unwrap();
    let before = engine.compact_log(&mut |_| {}).unwrap().first_position;
    clock.run(2 * DAY);
    until("time goes by", || figures(&engine).log_first > before);
    let snapshots = figures(&engine).snapshots;
    assert_eq!(snapshots, 0);
    engine.shut_down().unwrap();
}

#[test]
fn undelivered_records_outlast_retention_up_to_their_own_bytes_and_age() {
    let world = World::new();
    let disk = SimDisk::new();
    let clock = Arc::new(SetClock::default());
    let engine = start(&disk, small(), Arc::clone(&clock) as _);
    let kept = |log| engine.checkpoint_by(often(log));
    kept(LogRetention { bytes: 0, ..ALL });
    engine.keep_for_deliveries(Some(20));
    for number in 0..100 {
        deposit(&engine, &world, number);
    }
    snapshot(&engine);
    snapshot(&engine);
    let first = engine.compact_log(&mut |_| {}).unwrap().first_position;
    assert!((10..=20).contains(&first), "{first}");
    engine.start_checkpointer().unwrap();
    until("it is told", || {
        figures(&engine).log_kept_for_delivery_bytes > 0
    });
    let all = figures(&engine).log_kept_for_delivery_bytes;
    // Some were taken.
    engine.keep_for_deliveries(Some(60));
    until("less is kept", || {
        (40..=60).contains(&figures(&engine).log_first)
    });
    assert!(figures(&engine).log_kept_for_delivery_bytes < all);
    // More waits than may.
    kept(LogRetention {
        bytes: 0,
        delivery_bytes: 20_000,
        ..ALL
    });
    until("what has no place is given up", || {
        figures(&engine).log_first > 60
    });
    let of_bytes = figures(&engine);
    assert!(of_bytes.log_kept_for_delivery_bytes <= 20_000 && of_bytes.log_first < 100);
    clock.run(2 * DAY);
    kept(LogRetention {
        bytes: 0,
        delivery_age: ONE_DAY,
        ..ALL
    });
    until("what waits too long is given up", || {
        figures(&engine).log_kept_for_delivery_bytes == 0
    });
    engine.shut_down().unwrap();
}

#[test]
fn a_filling_disk_loses_the_oldest_records_before_a_command_is_refused() {
    let options = Options {
        segment_bytes_min: 64 << 10,
        segment_bytes_max: 64 << 10,
        reserve_bytes: 64 << 10,
        ..small()
    };
    let world = World::new();
    let disk = SimDisk::new();
    let engine = start(&disk, options, Arc::new(SystemClock::default()));
    engine.checkpoint_by(often(ALL));
    for number in 0..800 {
        deposit(&engine, &world, number);
    }
    snapshot(&engine);
    snapshot(&engine);
    assert_eq!(
        engine.compact_log(&mut |_| {}).unwrap().segments,
        0,
        "all is young"
    );
    until("the segment ahead is made", || has_segment_ahead(&disk));
    let used = || -> u64 {
        let names = disk.names();
        let sizes = names.iter().filter_map(|name| disk.bytes(name));
        sizes.map(|bytes| bytes.len() as u64).sum()
    };
    // Not quite room for the reserve and one more segment.
    disk.set_capacity(used() + (120 << 10));
    engine.start_checkpointer().unwrap();
    // It is counted a moment before the log begins later.
    until("some is given up", || {
        let told = figures(&engine);
        told.log_given_up_bytes > 0 && told.log_first > 1
    });
    let given_up = figures(&engine);
    assert!(
        given_up.log_first > 1 && given_up.log_first < 700,
        "{given_up:?}"
    );
    // The log goes on in the room of its oldest records.
    for number in 800..1_200 {
        deposit(&engine, &world, number);
    }
    until("it is told", || {
        figures(&engine).log_given_up_bytes > given_up.log_given_up_bytes
    });
    assert!(figures(&engine).log_first < engine.durable());
    // What was answered is answered still.
    assert!(deposit(&engine, &world, 3).1);
    engine.shut_down().unwrap();
}

#[test]
fn compact_keeps_a_week_by_default_and_every_tool_works_with_the_result() {
    let world = World::new();
    let data = world.data();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    for round in 0..3 {
        let server = Server::start(&world);
        let mut client = server.client();
        for number in 0..20 {
            let body = world.deposit_request(
                &format!("S-{round}-{number}"),
                &format!("k-{round}-{number}"),
            );
            let answer = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
            assert_eq!(answer.status, 201);
        }
        assert_eq!(server.stop(), Some(0));
        let (code, out, err) = run(&["compact", "--data", &text(&data), "--json"]);
        assert_eq!(code, Some(0), "{err}");
        let done: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&done["firstPosition"], &done["snapshotsTaken"]),
            (&1.into(), &2.into())
        );
    }
    let done = |arguments: &[&str]| {
        let (code, out, err) = run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        out
    };
    done(&["verify", "--data", &text(&data)]);
    // What a snapshot covers can be had again as it was, without an archive.
    let (copy, early, late) = (world.path("copy"), world.path("early"), world.path("late"));
    done(&["backup", "--data", &text(&data), "--to", &text(&copy)]);
    done(&["verify", "--data", &text(&copy)]);
    let from = text(&copy);
    done(&[
        "restore",
        "--from",
        &from,
        "--data",
        &text(&early),
        "--at",
        "7",
    ]);
    done(&["restore", "--from", &from, "--data", &text(&late)]);
    let last = |data: &std::path::Path| {
        let mut last = 0;
        let storage = wal::open_dir(data).unwrap();
        let options = Options::default();
        let (log, _) = Log::open(storage, options, &mut Replaying::new("")).unwrap();
        let next = log.records(1, u64::MAX, &mut |record| {
            last = record.position;
            Ok(ControlFlow::Continue(()))
        });
        assert_eq!(next.unwrap(), last + 1, "from the first record to the last");
        last
    };
    let whole = last(&data);
    assert!(whole >= 60);
    assert_eq!((last(&early), last(&late)), (7, whole));
    let out = done(&["compact", "--keep", "0s", "--data", &text(&data), "--json"]);
    let done: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(done["firstPosition"], whole + 1);
    // Nothing is left but snapshots: what a restore has made of them is told.
    let (shown, told) = (world.path("shown"), world.path("told"));
    let from = text(&data);
    let (code, out, err) = run(&["restore", "--from", &from, "--data", &text(&shown)]);
    assert_eq!(code, Some(0), "{err}");
    let newest = format!("up to position {whole} ");
    let row = out.lines().find(|line| line.contains(&newest));
    assert!(row.is_some_and(|row| row.ends_with(" bytes ")), "{out}");
    let (code, out, err) = run(&["restore", "--from", &from, "--data", &text(&told), "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let made: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(made["snapshots"][0]["covers"], whole, "{made}");
    assert!(made["snapshots"][0]["bytes"].as_u64() > Some(0), "{made}");
}

#[test]
fn a_reader_at_a_kept_position_goes_on_though_earlier_records_are_gone() {
    let (world, disk) = (World::new(), SimDisk::new());
    let engine = start(&disk, small(), Arc::new(SystemClock::default()));
    let client = EventReader::Client {
        subject: "reader",
        is_begun: false,
    };
    let read = |position| {
        let after = EventId {
            position,
            number: u32::MAX,
        };
        let all = Arc::default();
        let page = on_lane(&engine, engine.events(client, after, &all, 10));
        page.unwrap().unwrap()
    };
    deposit(&engine, &world, 0);
    // What readers share of the log's end ends here.
    assert!(read(0).end);
    let mut first = 0;
    for number in 1..2_000 {
        deposit(&engine, &world, number);
        if number % 200 == 0 {
            snapshot(&engine);
            first = engine.compact_log(&mut |_| {}).unwrap().first_position;
        }
        if first > 2 {
            break;
        }
    }
    assert!(first > 2, "nothing is given up");
    let page = read(engine.durable() - 1);
    assert!(page.end && !page.events.is_empty(), "{page:?}");
    engine.shut_down().unwrap();
}
