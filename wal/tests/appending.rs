//! Many callers, one journal thread.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use wal::storage::sim::{SimDisk, Survivors};
use wal::{Error, Events, Options, RECORD_BYTES_MAX, Refused};

use crate::outcome::{Outcome, verified};
use crate::support::{Heard, Kind, eventually, frames, open, open_with, segments, small, verify};

#[test]
fn positions_follow_the_order_of_the_lock() {
    for kind in Kind::each() {
        let heard = Heard::default();
        let appender = kind.start(small(), heard.events());
        let order = parking_lot::Mutex::new(Vec::new());
        thread::scope(|scope| {
            for caller in 0..4_u8 {
                let (appender, order) = (&appender, &order);
                scope.spawn(move || {
                    for number in 0..200_u8 {
                        let mut sequence = appender.sequence();
                        let expected = sequence.next();
                        // Two records pushed in one critical section follow each other.
                        assert_eq!(sequence.push(vec![caller, number]), Ok(expected));
                        assert_eq!(sequence.push(vec![number, caller]), Ok(expected + 1));
                        order
                            .lock()
                            .extend([vec![caller, number], vec![number, caller]]);
                    }
                });
            }
        });
        assert_eq!(appender.appended(), 1600);
        eventually("all is durable", || appender.durable() == 1600);
        assert_eq!(appender.queued_bytes(), 0);
        appender.shutdown().unwrap();
        assert_eq!(heard.state().durable, 1600);
        assert!(kind.shown().0 == *order.lock());
        if let Kind::Files(disk) = kind {
            let mark = open(&disk).unwrap().report.durable_mark;
            assert_eq!(mark, 1600, "the shutdown wrote a seal");
        }
    }
}

#[test]
fn after_a_stop_each_segment_byte_counts_and_no_segment_is_empty() {
    let disk = SimDisk::new();
    let mut expected = Vec::new();
    for start in 0..3_u8 {
        let heard = Heard::default();
        let log = open(&disk).unwrap().log;
        let appender = log.start(heard.events()).unwrap();
        // Nothing is appended the second time.
        for number in 0..if start == 1 { 0 } else { 9 } {
            expected.push(vec![start + number; 700]);
            let record = expected[expected.len() - 1].clone();
            appender.sequence().push(record).unwrap();
        }
        appender.shutdown().unwrap();
        assert_eq!(heard.state().failures, Vec::<String>::new());
        for name in segments(&disk) {
            let bytes = disk.bytes(&name).unwrap();
            let end = frames(&bytes).last().map(|(_, end)| *end);
            assert_eq!(end, Some(bytes.len()), "{name} ends with its last frame");
        }
    }
    assert!(segments(&disk).len() >= 2);
    let disk = disk.after_kill();
    for name in segments(&disk) {
        for at in 0..disk.bytes(&name).unwrap().len() {
            let case = || format!("{name}, byte {at}");
            disk.flip(&name, at, 1 << (at % 8));
            assert_eq!(
                verified(&disk, &expected, &case),
                Outcome::Refused,
                "{}",
                case()
            );
            disk.flip(&name, at, 1 << (at % 8));
        }
    }
    assert!(verify(&disk).unwrap().1 == expected);
}

#[test]
fn records_queued_during_a_sync_form_one_batch() {
    /// Holds the journal thread in a callback until it is released for good.
    struct Held(Heard, mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Events for Held {
        fn durable(&mut self, position: u64) {
            self.0.durable(position);
            let _ = self.1.send(());
            let _ = self.2.recv();
        }
        fn failed(&mut self, error: &Error) {
            self.0.failed(error);
        }
    }
    for kind in Kind::each() {
        let heard = Heard::default();
        let options = Options {
            batch_bytes_max: 1 << 20,
            segment_bytes_min: 1 << 20,
            ..small()
        };
        let (arrived, arrives) = mpsc::channel();
        let (let_go, goes_on) = mpsc::channel();
        let held = Held(heard.clone(), arrived, goes_on);
        let appender = kind.start(options, Box::new(held));
        appender.sequence().push(vec![1; 100]).unwrap();
        arrives.recv().unwrap();
        for _ in 0..100 {
            appender.sequence().push(vec![1; 100]).unwrap();
        }
        drop(let_go);
        appender.shutdown().unwrap();
        let heard = heard.state();
        assert_eq!((heard.calls, heard.durable), (2, 101));
    }
}

#[test]
fn quiet_appends_are_written_once_the_journal_is_woken_or_many_wait() {
    for kind in Kind::each() {
        let options = Options {
            // Nothing else wakes it.
            seal_after: Duration::from_secs(3_600),
            ..small()
        };
        let appender = kind.start(options, Heard::default().events());
        let push = || {
            let mut sequence = appender.sequence();
            let position = sequence.push(b"quiet").unwrap();
            sequence.end_quietly();
            position
        };
        for _ in 0..20 {
            let position = push();
            appender.wake();
            eventually("it was woken", || appender.durable() == position);
        }
        let mut last = 0;
        for _ in 0..100 {
            last = push();
        }
        eventually("most is written", || appender.durable() + 32 > last);
        appender.shutdown().unwrap();
        assert_eq!(appender.durable(), last, "the shutdown leaves nothing");
    }
}

#[test]
fn batches_of_several_begin_as_far_apart_as_befits_what_is_in_flight() {
    struct InFlight(Heard, usize);
    impl Events for InFlight {
        fn durable(&mut self, position: u64) {
            self.0.durable(position);
        }
        fn failed(&mut self, error: &Error) {
            self.0.failed(error);
        }
        fn in_flight(&self) -> usize {
            self.1
        }
    }
    // With this many in flight, four queued records are not enough.
    for (in_flight, apart) in [(0, 400), (20, 400), (64, 600)] {
        let apart = Duration::from_micros(apart);
        let events = InFlight(Heard::default(), in_flight);
        let appender = open(&SimDisk::new()).unwrap().log;
        let appender = appender.start(Box::new(events)).unwrap();
        let began = Instant::now();
        for batch in 1..=30 {
            let mut sequence = appender.sequence();
            for _ in 0..4 {
                sequence.push(b"one of several").unwrap();
            }
            drop(sequence);
            while appender.durable() < batch * 4 {
                thread::yield_now();
            }
        }
        // The first batch began as soon as its record was there.
        assert!(began.elapsed() >= 29 * apart, "{:?}", began.elapsed());
        assert!(appender.batches().count <= 30);
    }
}

#[test]
fn nothing_is_acknowledged_after_a_failed_sync() {
    for number in 0..12 {
        let disk = SimDisk::new();
        let heard = Heard::default();
        let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
        for _ in 0..4 {
            appender.sequence().push(vec![1; 10]).unwrap();
        }
        eventually("the first are durable", || appender.durable() == 4);
        disk.fail_sync(number);
        eventually("it has failed", || {
            // Large enough that segments are needed, whose syncs fail as well.
            let _ = appender.sequence().push(vec![2; 3000]);
            !heard.state().failures.is_empty() || disk.failed_call().is_some()
        });
        if disk.failed_call().unwrap().name.ends_with(".new") {
            // Nothing depends on a file that is being made: another one is made. But when records
            // already wait for space in it, the failure ends the log as any other does.
            let pushed = appender.sequence().push(vec![3]);
            if let Ok(last) = pushed {
                eventually("it goes on, or has ended", || {
                    appender.durable() == last || !heard.state().failures.is_empty()
                });
                if heard.state().failures.is_empty() {
                    continue;
                }
            }
        }
        eventually("that was told", || !heard.state().failures.is_empty());
        let durable = appender.durable();
        assert_eq!(heard.state().durable, durable);
        for _ in 0..5 {
            assert!(matches!(
                appender.sequence().push(vec![3]),
                Err(Refused::Stopped(_))
            ));
        }
        thread::sleep(Duration::from_millis(10));
        assert!(matches!(appender.shutdown(), Err(Error::Stopped { .. })));
        assert_eq!(appender.durable(), durable);
        let state = heard.state();
        assert_eq!(state.failures.len(), 1, "{:?}", state.failures);
        assert!(!state.after_failure, "silence after the failure");
    }
}

#[test]
fn a_failed_write_is_final_for_a_single_thread_too() {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    log.append(&[vec![1]]).unwrap();
    disk.fail_sync(0);
    assert!(matches!(
        log.append(&[vec![2]]),
        Err(Error::Io { what: "sync", .. })
    ));
    assert!(matches!(log.append(&[vec![3]]), Err(Error::Stopped { .. })));
    assert!(matches!(log.seal(), Err(Error::Stopped { .. })));
    assert!(log.start(Heard::default().events()).is_err());
}

#[test]
fn short_writes_are_continued() {
    let disk = SimDisk::new();
    disk.write_short();
    let mut log = open(&disk).unwrap().log;
    let records: Vec<_> = (0..20).map(|number| vec![number; 900]).collect();
    for record in &records {
        log.append(std::slice::from_ref(record)).unwrap();
    }
    drop(log);
    assert!(open(&disk).unwrap().records == records);
}

#[test]
fn an_idle_log_seals_its_last_batch() {
    let disk = SimDisk::new();
    let appender = open(&disk)
        .unwrap()
        .log
        .start(Heard::default().events())
        .unwrap();
    appender.sequence().push(b"one").unwrap();
    eventually("the seal is written", || {
        let copy = disk.after_kill();
        open(&copy).unwrap().report.durable_mark == 1
    });
    // The seal is written only once, though the next segment may still be in the making.
    eventually("an idle log leaves the disk alone", || {
        let calls = disk.calls();
        thread::sleep(Duration::from_millis(50));
        disk.calls() == calls
    });
    appender.shutdown().unwrap();
}

#[test]
fn a_batch_larger_than_a_segment_is_whole() {
    let disk = SimDisk::new();
    let appender = open(&disk)
        .unwrap()
        .log
        .start(Heard::default().events())
        .unwrap();
    let records: Vec<_> = [10, 100_000, 20, 300_000, 5]
        .into_iter()
        .map(|bytes| vec![6; bytes])
        .collect();
    for record in &records {
        appender.sequence().push(record.clone()).unwrap();
    }
    appender.shutdown().unwrap();
    for (position, record) in (1..).zip(&records) {
        assert!(appender.read(position).unwrap().as_ref() == Some(record));
    }
    drop(appender);
    let mut opened = open(&disk).unwrap();
    assert!(opened.records == records);
    opened.log.append(&records).unwrap();
    drop(opened);
    assert!(open(&disk).unwrap().records == [records.clone(), records].concat());
}

#[test]
fn a_record_that_is_too_large_is_refused_and_takes_no_position() {
    for kind in Kind::each() {
        let appender = kind.start(small(), Heard::default().events());
        let bytes = RECORD_BYTES_MAX + 1;
        let refused = appender.sequence().push(vec![0; bytes]);
        assert_eq!(refused, Err(Refused::TooLarge { bytes }));
        assert_eq!(appender.sequence().push(vec![1]), Ok(1));
        appender.shutdown().unwrap();
    }
}

#[test]
fn a_callback_that_panics_fails_the_log_instead_of_hanging_it() {
    struct Panics(Heard);
    impl Events for Panics {
        fn durable(&mut self, _position: u64) {
            panic!("on purpose");
        }
        fn failed(&mut self, error: &Error) {
            self.0.failed(error);
        }
    }
    for kind in Kind::each() {
        let heard = Heard::default();
        let appender = kind.start(small(), Box::new(Panics(heard.clone())));
        appender.sequence().push(vec![1]).unwrap();
        eventually("the panic is told", || {
            heard.state().failures == ["the log takes no more records: the journal thread panicked"]
        });
        assert!(appender.sequence().push(vec![1]).is_err());
        let ended = appender.shutdown().unwrap_err().to_string();
        assert!(ended.contains("panicked"), "{ended}");
    }
}

#[test]
fn a_shutdown_reports_an_unwritten_log_end_although_all_is_durable() {
    let disk = SimDisk::new();
    let heard = Heard::default();
    let options = Options {
        seal_after: Duration::from_secs(3_600),
        ..small()
    };
    let opened = open_with(disk.storage(), options).unwrap();
    let appender = opened.log.start(heard.events()).unwrap();
    appender.sequence().push(b"kept").unwrap();
    eventually("it is durable", || appender.durable() == 1);
    // From here on every call fails, also the write of the seal.
    disk.cut();
    for _ in 0..2 {
        match appender.shutdown() {
            Err(Error::Stopped { reason }) => {
                assert_eq!(heard.state().failures, [&*reason]);
            }
            ended => panic!("{ended:?}"),
        }
    }
    assert_eq!((appender.durable(), appender.appended()), (1, 1));
    drop(appender);
    let after = disk.after_power_cut(Survivors::Nothing);
    assert!(open(&after).unwrap().records == [b"kept"]);
}

#[test]
fn shutdown_takes_no_more_and_can_be_repeated() {
    for kind in Kind::each() {
        let appender = kind.start(small(), Heard::default().events());
        appender.sequence().push(vec![1]).unwrap();
        appender.shutdown().unwrap();
        appender.shutdown().unwrap();
        let refused = appender.sequence().push(vec![2]);
        assert_eq!(refused, Err(Refused::Stopped("it was shut down".into())));
        // The lock is released although the appender still lives, and still reads.
        assert_eq!(kind.shown().0.len(), 1);
        assert_eq!(appender.read(1).unwrap(), Some(vec![1]));
    }
}

#[test]
fn the_last_appender_may_be_dropped_by_its_own_callback() {
    struct Owner(Arc<parking_lot::Mutex<Option<Arc<wal::Appender>>>>);
    impl Events for Owner {
        fn durable(&mut self, _position: u64) {
            let owned = self.0.lock().take();
            drop(owned);
        }
        fn failed(&mut self, _error: &Error) {}
    }
    let disk = SimDisk::new();
    let place = Arc::new(parking_lot::Mutex::new(None));
    let appender = open(&disk)
        .unwrap()
        .log
        .start(Box::new(Owner(Arc::clone(&place))))
        .unwrap();
    // The callback cannot take the appender until this is the only reference to it.
    let mut guard = place.lock();
    appender.sequence().push(vec![1]).unwrap();
    *guard = Some(appender);
    drop(guard);
    eventually("the lock is given back", || open(&disk).is_ok());
}

#[test]
fn a_log_shut_down_by_a_callback_stays_locked_until_its_queue_is_written() {
    /// Shuts the log down at the first commit, twice, says so, and goes on when told to.
    struct Ends {
        given: mpsc::Receiver<Arc<wal::Appender>>,
        is_down: mpsc::Sender<()>,
        go_on: mpsc::Receiver<()>,
    }
    impl Events for Ends {
        fn durable(&mut self, _position: u64) {
            let Ok(appender) = self.given.recv() else {
                return;
            };
            for _ in 0..2 {
                let _ = appender.shutdown();
            }
            drop(appender);
            self.is_down.send(()).unwrap();
            self.go_on.recv().unwrap();
        }
        fn failed(&mut self, _error: &Error) {}
    }
    let disk = SimDisk::new();
    let (give, given) = mpsc::channel();
    let (is_down, down) = mpsc::channel();
    let (go_on, told) = mpsc::channel();
    let ends = Ends {
        given,
        is_down,
        go_on: told,
    };
    let appender = open(&disk).unwrap().log.start(Box::new(ends)).unwrap();
    appender.sequence().push(vec![1]).unwrap();
    eventually("the first is durable", || appender.durable() == 1);
    // The callback waits to be given the log: these records are queued meanwhile.
    for number in 2..=5 {
        appender.sequence().push(vec![number]).unwrap();
    }
    // The appender is kept until the end: dropping it would release the lock anyway.
    give.send(Arc::clone(&appender)).unwrap();
    drop(give);
    down.recv().unwrap();
    let other = open(&disk).map(|opened| opened.records.len());
    assert!(matches!(other, Err(Error::Held { .. })), "{other:?}");
    go_on.send(()).unwrap();
    let mut records = Vec::new();
    eventually("the lock is given back", || {
        open(&disk).is_ok_and(|opened| {
            records = opened.records;
            true
        })
    });
    assert_eq!(
        records,
        (1..=5).map(|number| vec![number]).collect::<Vec<_>>()
    );
}
