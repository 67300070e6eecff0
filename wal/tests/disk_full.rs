//! A full disk is found before it happens, and passes.

use wal::storage::sim::SimDisk;
use wal::{Error, Options};

use crate::support::{Heard, eventually, open, open_with, segments, small};

const CAPACITY: u64 = 400 << 10;

fn used(disk: &SimDisk) -> u64 {
    disk.names()
        .iter()
        .map(|name| disk.bytes(name).unwrap().len() as u64)
        .sum()
}

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
        records = appender.sequence().push(vec![7; 1000]).unwrap();
        eventually("it is durable", || appender.durable() == records);
        assert!(records < 1000, "the disk cannot hold this much");
    }
    assert!(used(&disk) > CAPACITY - (160 << 10), "the disk was used");
    // What callers had begun when the room went still finds place: the reserve.
    for _ in 0..40 {
        records = appender.sequence().push(vec![8; 1000]).unwrap();
    }
    eventually("what was in flight is durable", || {
        appender.durable() == records
    });
    assert!(!appender.has_room());
    // Reads go on.
    assert_eq!(appender.read(1).unwrap(), Some(vec![7; 1000]));

    disk.set_capacity(CAPACITY * 4);
    eventually("there is room again", || appender.has_room());
    for _ in 0..50 {
        records = appender.sequence().push(vec![9; 1000]).unwrap();
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
    disk.set_capacity(used(&disk));
    let mut last = 0;
    for _ in 0..40 {
        last = appender.sequence().push(vec![2; 1000]).unwrap();
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
        appender.sequence().push(vec![2; 1000]).unwrap();
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
    disk.set_capacity(used(&disk));
    let mut written = 0;
    let error = loop {
        match log.append(&[vec![3; 1000]]) {
            Ok(position) => written = position,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Io { .. }), "{error}");
    assert!(log.append(&[vec![3; 1000]]).is_err());
    disk.set_capacity(1 << 30);
    assert_eq!(log.append(&[vec![4; 1000]]).unwrap(), written + 1);
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
        appender.sequence().push(vec![2; 1000]).unwrap();
    }
    eventually("the next segment is made", || segments(&disk).len() == 2);
    appender.shutdown().unwrap();
    // The manifest is written beside the old one, so a little is needed for it.
    disk.set_capacity(used(&disk) + 1000);
    assert_eq!(open(&disk).unwrap().records.len(), 2);
}

#[test]
fn a_system_that_does_not_tell_the_free_space_stops_what_is_new_and_not_the_log() {
    let disk = SimDisk::new();
    let heard = Heard::default();
    let opened = open_with(disk.storage(), small()).unwrap();
    let appender = opened.log.start(heard.events()).unwrap();
    let mut calls = 0;
    eventually("the segment ahead is made", || {
        let before = std::mem::replace(&mut calls, disk.all_calls());
        std::thread::sleep(std::time::Duration::from_millis(50));
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
