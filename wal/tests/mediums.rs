//! The promises of a journal on every medium: on the files of a directory, and in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use wal::memory::MemoryLog;
use wal::{Appender, Batch, BatchWriter, Error, Events, Lack, Options, Refused, SnapshotInfo};

use crate::support::{Heard, Kind, campaign, eventually, random, record, seed, small};

/// The state that the journal must have.
#[derive(Default)]
struct Model {
    records: Vec<Vec<u8>>,
    /// What each snapshot covers, and its entries.
    snapshots: Vec<(u64, Vec<Vec<u8>>)>,
}

impl Model {
    fn last(&self) -> u64 {
        self.records.len() as u64
    }

    /// Takes a snapshot that keeps every record.
    fn snapshot(&mut self, appender: &Appender) {
        let covers = self.last();
        let mut writer = appender.begin_snapshot(covers).unwrap();
        let walked = appender.history(covers, &mut |record| {
            writer.keep(record.position, record.payload)?;
            Ok(())
        });
        walked.unwrap();
        let entries = vec![b"entry".to_vec(), covers.to_le_bytes().to_vec()];
        for entry in &entries {
            writer.entry(entry).unwrap();
        }
        let info = appender.install(writer, covers).unwrap();
        assert_eq!((info.covers, info.upto), (covers, covers));
        self.snapshots.push((covers, entries));
        let newest: Vec<_> = self.snapshots.iter().rev().take(2).collect();
        let listed = appender.snapshots();
        let covers = |all: &[SnapshotInfo]| all.iter().map(|one| one.covers).collect::<Vec<_>>();
        let expected: Vec<_> = newest.iter().map(|(covers, _)| *covers).collect();
        assert_eq!(
            covers(&listed),
            expected,
            "two are listed, the newest first"
        );
    }

    fn check(&self, appender: &Appender) {
        for (position, record) in (1..).zip(&self.records) {
            let read = appender.read(position).unwrap();
            assert!(read.as_ref() == Some(record), "position {position}");
        }
        assert_eq!(appender.read(self.last() + 1).unwrap(), None);
        let mut seen = Vec::new();
        let walked = appender.history(u64::MAX, &mut |record| {
            seen.push(record.payload.to_vec());
            Ok(())
        });
        walked.unwrap();
        assert!(seen == self.records, "the history is whole and in order");
    }
}

#[test]
fn every_medium_keeps_records_and_snapshots_over_compactions_and_starts() {
    let seed = seed(0x3ed1);
    for round in 0..4 * campaign() {
        for kind in Kind::each() {
            let mut random = random(seed + round);
            let mut model = Model::default();
            for _ in 0..6 {
                let heard = Heard::default();
                let appender = kind.start(small(), heard.events());
                assert_eq!(appender.durable(), model.last());
                for _ in 0..random.random_range(0..40) {
                    let record = record(&mut random, 900);
                    let position = appender.sequence().push(&record).unwrap();
                    model.records.push(record);
                    assert_eq!(position, model.last());
                }
                eventually("all is durable", || appender.durable() == model.last());
                if random.random_bool(0.6) {
                    model.snapshot(&appender);
                    assert_eq!(appender.log_bytes_since_snapshot(), 0);
                }
                let compacted = appender.compact(&wal::Keep::NOTHING, None).unwrap();
                assert!(compacted.first_position <= model.last() + 1);
                model.check(&appender);
                appender.shutdown().unwrap();
                let (records, entries) = kind.shown();
                assert!(records == model.records, "what is opened is what was there");
                let newest = model.snapshots.last();
                assert_eq!(entries, newest.map_or(Vec::new(), |(_, all)| all.clone()));
            }
        }
    }
}

#[test]
fn every_medium_spreads_positions_over_record_bytes_not_record_counts() {
    let mut random = random(seed(0x59ea));
    let options = Options {
        segment_bytes_min: 1 << 20,
        segment_bytes_max: 1 << 20,
        ..small()
    };
    for kind in Kind::each() {
        let appender = kind.start(options.clone(), Heard::default().events());
        // In one batch, or few.
        let mut sequence = appender.sequence();
        for number in 0..200_u8 {
            sequence.push([number; 20]).unwrap();
        }
        drop(sequence);
        for _ in 0..20 {
            let mut large = vec![0_u8; 20_000];
            random.fill(&mut large[..]);
            let position = appender.sequence().push(&large).unwrap();
            eventually("it is durable", || appender.durable() == position);
        }
        let spread = appender.spread(1, u64::MAX, 8);
        assert_eq!(spread[0], 1);
        assert!(
            spread.is_sorted_by(|one, next| one < next) && spread.iter().all(|one| *one <= 220),
            "{spread:?}"
        );
        let large = spread.iter().filter(|position| **position > 200);
        assert!(
            (5..=8).contains(&spread.len()) && large.count() >= 4,
            "{spread:?}"
        );
        assert_eq!(appender.spread(7, 9, 1), [7]);
        assert_eq!(appender.spread(221, u64::MAX, 8), [0_u64; 0]);
        appender.shutdown().unwrap();
    }
}

#[test]
fn a_snapshot_that_is_given_up_leaves_the_others_on_every_medium() {
    for kind in Kind::each() {
        let mut model = Model::default();
        let appender = kind.start(small(), Heard::default().events());
        for number in 0..30 {
            model.records.push(vec![number; 50]);
            appender.sequence().push(vec![number; 50]).unwrap();
        }
        eventually("all is durable", || appender.durable() == 30);
        model.snapshot(&appender);
        let mut writer = appender.begin_snapshot(30).unwrap();
        writer.entry(b"one").unwrap();
        let given_up = appender.install_throttled(writer, 30, &mut || {
            Err(Error::Stopped {
                reason: "enough".into(),
            })
        });
        assert!(matches!(given_up, Err(Error::Stopped { .. })));
        drop(appender.begin_snapshot(30).unwrap());
        assert_eq!(appender.snapshots().len(), 1);
        model.check(&appender);
    }
}

#[test]
fn a_medium_that_ends_is_told_once_and_nothing_is_taken_after() {
    let log = MemoryLog::new();
    let heard = Heard::default();
    let appender = log.start_with(&small(), heard.events()).unwrap();
    appender.sequence().push(b"kept").unwrap();
    eventually("it is durable", || appender.durable() == 1);
    log.break_down("the stream has another writer");
    // The record may be accepted, but is never reported durable.
    let _ = appender.sequence().push(b"lost");
    eventually("the end is told", || !heard.state().failures.is_empty());
    assert!(matches!(
        appender.sequence().push(b"late"),
        Err(Refused::Stopped(_))
    ));
    assert!(appender.shutdown().is_err());
    let state = heard.state();
    assert_eq!((state.durable, state.failures.len()), (1, 1));
    assert!(!state.after_failure);
    assert_eq!(Kind::Memory(log).shown().0, [b"kept"]);
}

#[test]
fn a_medium_without_room_says_so_and_writes_what_was_appended() {
    let log = MemoryLog::new();
    let appender = log.start_with(&small(), Heard::default().events()).unwrap();
    assert!(appender.has_room() && appender.lack().is_none());
    log.set_full(true);
    assert!(!appender.has_room());
    assert!(matches!(appender.lack(), Some(Lack::Space { .. })));
    let position = appender.sequence().push(b"begun before").unwrap();
    eventually("it is durable", || appender.durable() == position);
    log.set_full(false);
    assert!(appender.has_room());
}

/// A slow medium: batches are in flight until they are let through.
#[derive(Clone, Default)]
struct Slow {
    /// Number of records in each batch that was begun.
    batches: Arc<Mutex<Vec<usize>>>,
    under_way: VecDeque<u64>,
    last: u64,
    /// The position up to which batches may become durable.
    let_come: Arc<AtomicU64>,
}

impl BatchWriter for Slow {
    fn next(&self) -> u64 {
        self.last + 1
    }

    fn make_room(&mut self, _: Batch<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn commit(&mut self, _: Batch<'_>) -> Result<u64, Error> {
        unreachable!("it is begun")
    }

    fn begin(&mut self, batch: Batch<'_>) -> Result<Option<u64>, Error> {
        self.last += batch.count() as u64;
        self.under_way.push_back(self.last);
        self.batches.lock().push(batch.count());
        Ok(None)
    }

    fn has_settled(&self) -> bool {
        let oldest = self.under_way.front();
        oldest.is_some_and(|oldest| *oldest <= self.let_come.load(Ordering::SeqCst))
    }

    fn settle(&mut self) -> Result<Option<u64>, Error> {
        let has_settled = self.has_settled();
        Ok(has_settled.then(|| self.under_way.pop_front()).flatten())
    }

    fn is_unsealed(&self) -> bool {
        false
    }

    fn seal(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn failure(&mut self) -> Option<Error> {
        None
    }
}

/// Callbacks that report many callers in flight.
struct Crowd;

impl Events for Crowd {
    fn durable(&mut self, _: u64) {}

    fn failed(&mut self, _: &Error) {}

    fn in_flight(&self) -> usize {
        64
    }
}

#[test]
fn records_that_a_crowd_appends_during_a_batch_are_gathered_for_the_next() {
    // A machine that runs something else for 20 ms may split the records into two batches, but not
    // each time.
    let is_gathered = (0..20).any(|_| {
        let slow = Slow::default();
        let medium = Arc::new(MemoryLog::new());
        let writer = Box::new(slow.clone());
        let options = Options::default();
        let appender = Appender::start(medium, writer, &options, 0, Box::new(Crowd)).unwrap();
        let push = |count: usize| {
            let mut sequence = appender.sequence();
            for _ in 0..count {
                sequence.push(b"record").unwrap();
            }
        };
        push(30);
        eventually("it is on its way", || slow.batches.lock().len() == 1);
        // This is how long a batch takes.
        std::thread::sleep(Duration::from_millis(200));
        slow.let_come.store(30, Ordering::SeqCst);
        push(30);
        eventually("another one is", || slow.batches.lock().len() == 2);
        for _ in 0..3 {
            push(10);
            std::thread::sleep(Duration::from_millis(2));
        }
        let begun = || slow.batches.lock().iter().sum::<usize>() == 90;
        eventually("all of them are", begun);
        slow.let_come.store(90, Ordering::SeqCst);
        appender.shutdown().unwrap();
        *slow.batches.lock() == [30, 30, 30]
    });
    assert!(is_gathered);
}
