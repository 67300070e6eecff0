//! A full disk is found before it happens, and passes.

use wal::storage::sim::{SimDisk, Survivors};
use wal::{Appender, Error, Lack, Options};

use crate::support::{
    Heard, eventually, open, open_with, segments, size, small, snapshot, snapshots, unlike, verify,
};

const CAPACITY: u64 = 400 << 10;

#[test]
fn without_room_nothing_queued_is_lost_and_room_comes_back_by_itself() {
    let disk = SimDisk::new();
    disk.set_capacity(CAPACITY);
    let options = Options {
        reserve_bytes: 100 << 10,
        ..small()
    };
    let heard = Heard::default();
    let appender = open_with(disk.storage(), options)
        .unwrap()
        .log
        .start(heard.events())
        .unwrap();
    assert!(appender.has_room());
    let mut records = 0;
    while appender.has_room() {
        records = appender.sequence().push(unlike(7, 1000)).unwrap();
        eventually("it is durable", || appender.durable() == records);
        assert!(records < 1000, "the disk cannot hold this much");
    }
    assert!(disk.used() > CAPACITY - (160 << 10), "the disk was used");
    // What callers had begun when the space ran out still fits, into the reserve.
    for _ in 0..40 {
        records = appender.sequence().push(unlike(8, 1000)).unwrap();
    }
    eventually("what was in flight is durable", || {
        appender.durable() == records
    });
    assert!(!appender.has_room());
    // Reads go on.
    assert_eq!(appender.read(1).unwrap(), Some(unlike(7, 1000)));

    disk.set_capacity(CAPACITY * 4);
    eventually("there is room again", || appender.has_room());
    for _ in 0..50 {
        records = appender.sequence().push(unlike(9, 1000)).unwrap();
    }
    appender.shutdown().unwrap();
    assert!(
        heard.state().failures.is_empty(),
        "{:?}",
        heard.state().failures
    );
    assert_eq!(open(&disk).unwrap().records.len() as u64, records);
}

#[test]
fn a_disk_without_any_space_holds_up_the_queue_and_fails_nothing() {
    let disk = SimDisk::new();
    let heard = Heard::default();
    let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
    appender.sequence().push(vec![1; 100]).unwrap();
    eventually("the first is durable", || appender.durable() == 1);
    disk.set_capacity(disk.used());
    let mut last = 0;
    for _ in 0..40 {
        last = appender.sequence().push(unlike(2, 1000)).unwrap();
    }
    eventually("the lack of space is noticed", || !appender.has_room());
    assert!(appender.durable() < last);
    assert!(heard.state().failures.is_empty());
    disk.set_capacity(1 << 30);
    eventually("the queue is written", || appender.durable() == last);
    eventually("there is room again", || appender.has_room());
    appender.shutdown().unwrap();
    assert_eq!(open(&disk).unwrap().records.len() as u64, last);
}

#[test]
fn a_shutdown_on_a_full_disk_ends_and_says_what_is_missing() {
    let disk = SimDisk::new();
    let appender = open(&disk)
        .unwrap()
        .log
        .start(Heard::default().events())
        .unwrap();
    disk.set_capacity(0);
    for _ in 0..80 {
        appender.sequence().push(unlike(2, 1000)).unwrap();
    }
    assert!(matches!(appender.shutdown(), Err(Error::Stopped { .. })));
    let durable = appender.durable();
    disk.set_capacity(1 << 30);
    assert!(open(&disk).unwrap().records.len() as u64 >= durable);
}

#[test]
fn a_single_thread_can_go_on_when_space_is_back() {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    disk.set_capacity(disk.used());
    let mut written = 0;
    let error = loop {
        match log.append(&[unlike(3, 1000)]) {
            Ok(position) => written = position,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Io { .. }), "{error}");
    assert!(log.append(&[unlike(3, 1000)]).is_err());
    disk.set_capacity(1 << 30);
    assert_eq!(log.append(&[unlike(4, 1000)]).unwrap(), written + 1);
    drop(log);
    assert_eq!(open(&disk).unwrap().records.len() as u64, written + 1);
}

#[test]
fn a_restart_on_a_full_disk_finds_the_space_that_was_set_aside() {
    let disk = SimDisk::new();
    let appender = open(&disk)
        .unwrap()
        .log
        .start(Heard::default().events())
        .unwrap();
    for _ in 0..2 {
        appender.sequence().push(unlike(2, 1000)).unwrap();
    }
    eventually("the next segment is made", || segments(&disk).len() == 2);
    appender.shutdown().unwrap();
    // The new manifest is written beside the old one, so a little space is needed for it.
    disk.set_capacity(disk.used() + 1000);
    assert_eq!(open(&disk).unwrap().records.len(), 2);
}

#[test]
fn unknown_free_space_refuses_new_records_and_does_not_end_the_log() {
    let disk = SimDisk::new();
    let heard = Heard::default();
    let opened = open_with(disk.storage(), small()).unwrap();
    let appender = opened.log.start(heard.events()).unwrap();
    let mut calls = 0;
    eventually("the segment ahead is made", || {
        let before = std::mem::replace(&mut calls, disk.all_calls());
        std::thread::sleep(std::time::Duration::from_millis(150));
        segments(&disk).len() == 2 && before == calls
    });
    // Nothing is appended: the next call is the look at the free space.
    disk.fail_call(0, wal::storage::sim::Fault::Io);
    eventually("nothing new is taken", || !appender.has_room());
    assert_eq!(disk.failed_call().unwrap().what, "free_bytes");
    eventually("it is taken again", || appender.has_room());
    appender.sequence().push(b"goes on").unwrap();
    appender.shutdown().unwrap();
    assert_eq!(heard.state().failures, Vec::<String>::new());
}

/// Appends until there is no space, or the log has failed; returns the last position that was
/// assigned.
fn until_no_room(appender: &Appender, heard: &Heard) -> u64 {
    let mut last = appender.appended();
    let has_failed = || !heard.state().failures.is_empty();
    while appender.has_room() && !has_failed() {
        // Nothing is accepted once the log has failed.
        let Ok(pushed) = appender.sequence().push(unlike(7, 1000)) else {
            break;
        };
        last = pushed;
        eventually(
            "it is durable, there is no room, or the log has failed",
            || appender.durable() == last || !appender.has_room() || has_failed(),
        );
        assert!(last < 1000, "there is room without an end");
    }
    last
}

#[test]
fn a_lack_of_descriptors_space_or_memory_is_waited_out_and_ends_no_log() {
    // EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG, ENOMEM.
    for code in [24, 23, 28, 122, 27, 12] {
        let disk = SimDisk::new();
        let heard = Heard::default();
        let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
        eventually("the segment ahead is made", || segments(&disk).len() == 2);
        disk.refuse_files(Some(code));
        // Both segments are filled before any caller is refused.
        let filled = until_no_room(&appender, &heard);
        assert!(filled >= 4, "{filled} records in two segments");
        let lack = appender.lack().unwrap();
        assert!(matches!(&lack, Lack::Segment { why } if why.contains(".log.new")));
        let mut last = 0;
        for _ in 0..30 {
            last = appender.sequence().push(unlike(8, 1000)).unwrap();
        }
        disk.refuse_files(None);
        eventually("what waited is written", || appender.durable() == last);
        eventually("there is room again", || appender.lack().is_none());
        appender.shutdown().unwrap();
        assert_eq!(heard.state().failures, Vec::<String>::new(), "{code}");
        assert_eq!(open(&disk).unwrap().records.len() as u64, last);
    }
}

#[test]
fn a_failing_disk_is_given_time_and_ends_the_log_once_records_lack_room() {
    // EIO, EROFS, EACCES.
    for code in [5, 30, 13] {
        // The maintenance thread may make segments late on a busy machine: then there is no place
        // for the records, and the log ends at once.
        let waited = (0..50).find_map(|_| {
            let disk = SimDisk::new();
            let heard = Heard::default();
            let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
            eventually("the segment ahead is made", || segments(&disk).len() == 2);
            disk.refuse_files(Some(code));
            until_no_room(&appender, &heard);
            let has_waited = heard.state().failures.is_empty();
            has_waited.then_some((disk, heard, appender))
        });
        let (disk, heard, appender) = waited.expect("it is given time");
        disk.refuse_files(None);
        eventually("there is room again", || appender.has_room());
        disk.refuse_files(Some(code));
        // The segments that were made ahead before are filled first.
        eventually("the log has failed", || {
            let _ = appender.sequence().push(unlike(8, 1000));
            !heard.state().failures.is_empty()
        });
        assert!(appender.shutdown().is_err());
        let durable = appender.durable();
        assert!(heard.state().failures[0].contains(".log.new"), "{code}");
        disk.refuse_files(None);
        let found = open(&disk).unwrap().records.len() as u64;
        assert!(found >= durable, "{code}: {found} of {durable}");
    }
}

/// Makes a disk after a crash, with one of everything that a start has to handle: a torn tail, a
/// damaged snapshot, a file that was being made. Returns it and the number of its records.
fn crashed() -> (SimDisk, u64) {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    for number in 0..30 {
        log.append(&[unlike(number, 700)]).unwrap();
    }
    snapshot(&mut log, 25).unwrap();
    snapshot(&mut log, 28).unwrap();
    drop(log);
    let newest = snapshots(&disk).pop().unwrap();
    disk.flip(&newest, 150, 1);
    let open_one = segments(&disk).pop().unwrap();
    let length = disk.bytes(&open_one).unwrap().len();
    disk.flip(&open_one, length - 100, 3);
    disk.put("snapshot-0000000000000009.snap.new", &[1; 3000]);
    (disk, 30)
}

#[test]
fn a_start_on_a_full_disk_reads_and_goes_on_when_space_is_back() {
    let (crashed, count) = crashed();
    let whole = crashed.after_kill();
    let needed = {
        drop(open(&whole).unwrap());
        whole.used().max(crashed.used()) + (16 << 10)
    };
    let before = crashed.used();
    let mut waited = 0;
    let step = usize::try_from((needed - before) / size(40))
        .unwrap()
        .max(1);
    for capacity in (before..=needed).step_by(step) {
        let disk = crashed.after_kill();
        disk.set_capacity(capacity);
        let heard = Heard::default();
        let opened = open(&disk).unwrap();
        let report = opened.report.clone();
        assert_eq!(opened.records.len() as u64, count, "{capacity}");
        assert_eq!(report.snapshot.unwrap().covers, 25);
        assert_eq!((report.torn.len(), report.bad_snapshots.len()), (1, 1));
        let appender = opened.log.start(heard.events()).unwrap();
        for position in 1..=count {
            assert!(appender.read(position).unwrap().is_some(), "{position}");
        }
        assert_eq!(appender.snapshots().len(), 1);
        let last = appender.sequence().push(unlike(9, 1000)).unwrap();
        eventually("it is durable, or there is no room", || {
            appender.durable() == last || !appender.has_room()
        });
        if appender.durable() < last {
            waited += 1;
            assert!(appender.lack().is_some());
            // Whatever a power cut loses now, the next start finds what the last one found.
            for survivors in [
                Survivors::Nothing,
                Survivors::Everything,
                Survivors::Random(capacity),
            ] {
                let after = disk.after_power_cut(survivors);
                after.set_capacity(u64::MAX);
                let found = open(&after).unwrap().records.len() as u64;
                // Space may have come back just now: the rest of the snapshot was removed.
                assert!(found == count || found == last, "{found}");
            }
        }
        disk.set_capacity(1 << 30);
        eventually("what waited is durable", || appender.durable() == last);
        eventually("there is room again", || appender.has_room());
        appender.shutdown().unwrap();
        assert_eq!(heard.state().failures, Vec::<String>::new());
        drop(appender);
        let quarantined = disk.names().into_iter();
        let quarantined = quarantined.filter(|name| name.starts_with("quarantine/"));
        assert_eq!(quarantined.count(), 1, "one copy of what was torn");
        let found = verify(&disk).unwrap().1;
        assert_eq!(found.len() as u64, last, "{capacity}");
    }
    assert!(waited > 5, "{waited} starts found no space");
}

#[test]
fn a_shutdown_of_a_log_that_never_had_space_is_none_that_loses_anything() {
    let (disk, count) = crashed();
    disk.set_capacity(disk.used());
    let heard = Heard::default();
    let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
    eventually("the lack is noticed", || appender.lack().is_some());
    assert!(
        appender.compact(&wal::Keep::NOTHING, None).is_err(),
        "a manifest has no space"
    );
    appender.shutdown().unwrap();
    assert!(heard.state().failures.is_empty());
    disk.set_capacity(1 << 30);
    assert_eq!(open(&disk).unwrap().records.len() as u64, count);
}

#[test]
fn unfinished_files_of_a_killed_process_free_the_space_a_start_needs() {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    log.append(&[unlike(1, 1000)]).unwrap();
    drop(log);
    disk.put("snapshot-0000000000000001.snap.new", &[1; 40 << 10]);
    disk.set_capacity(disk.used());
    let mut log = open(&disk).unwrap().log;
    assert_eq!(log.append(&[unlike(2, 1000)]).unwrap(), 2);
}

/// Makes a log of several segments, all of which two snapshots cover; the next segment is made
/// ahead.
fn covered(disk: &SimDisk, heard: &Heard) -> (std::sync::Arc<Appender>, u64) {
    let mut opened = open(disk).unwrap();
    for _ in 0..60 {
        opened.log.append(&[unlike(5, 1000)]).unwrap();
    }
    for _ in 0..2 {
        snapshot(&mut opened.log, 60).unwrap();
    }
    let appender = opened.log.start(heard.events()).unwrap();
    let is_settled = || !disk.names().iter().any(|name| name.ends_with(".new"));
    eventually("the segment ahead is made", || {
        let before = disk.calls();
        std::thread::sleep(std::time::Duration::from_millis(10));
        is_settled() && disk.calls() == before
    });
    (appender, 60)
}

#[test]
fn covered_segments_are_given_up_for_room_only_if_allowed_and_as_needed() {
    let (disk, heard) = (SimDisk::new(), Heard::default());
    let (appender, last) = covered(&disk, &heard);
    let all = segments(&disk).len();
    let next = appender.space().unwrap().next_segment;
    disk.set_capacity(disk.used() + next - 1);
    eventually("it is looked at", || {
        let before = disk.all_calls();
        std::thread::sleep(std::time::Duration::from_millis(50));
        disk.all_calls() > before
    });
    assert_eq!((appender.given_up_bytes(), appender.first()), (0, 1));
    appender.give_up_for_room(true);
    eventually("there is room", || appender.given_up_bytes() > 0);
    assert!(appender.has_room());
    let first = appender.first();
    assert!(first > 1 && first < last, "{first}");
    assert_eq!(segments(&disk).len(), all - 1, "one was enough");
    appender.shutdown().unwrap();
    assert_eq!(heard.state().failures, Vec::<String>::new());
    drop(appender);
    assert_eq!(verify(&disk).unwrap().1.len() as u64, last);
}

#[test]
fn a_segment_given_up_during_a_compaction_harms_no_other() {
    let (disk, heard, archive) = (SimDisk::new(), Heard::default(), SimDisk::new());
    let (appender, last) = covered(&disk, &heard);
    let next = appender.space().unwrap().next_segment;
    let removed = appender.compact_throttled(
        &wal::Keep::NOTHING,
        Some(archive.storage().as_ref()),
        &mut |_, _| {
            // The first segment is being copied, and more are to be.
            if appender.given_up_bytes() == 0 {
                disk.set_capacity(disk.used() + next - 1);
                appender.give_up_for_room(true);
                eventually("it is given up", || appender.given_up_bytes() > 0);
                appender.give_up_for_room(false);
            }
            Ok(())
        },
    );
    let removed = removed.unwrap();
    assert!(removed.segments > 1, "{removed:?}");
    assert_eq!(removed.first_position, appender.first());
    appender.shutdown().unwrap();
    drop(appender);
    disk.set_capacity(u64::MAX);
    assert_eq!(verify(&disk).unwrap().1.len() as u64, last);
    assert_eq!(open(&disk).unwrap().records.len() as u64, last);
}
