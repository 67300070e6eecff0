//! What a journal promises on every medium: on the files of a directory, and in memory.

use rand::Rng;
use wal::memory::MemoryLog;
use wal::{Appender, Error, Lack, Refused, SnapshotInfo};

use crate::support::{Heard, Kind, campaign, eventually, random, record, seed, small};

/// What there has to be.
#[derive(Default)]
struct Model {
    records: Vec<Vec<u8>>,
    /// Of each snapshot: what it covers, and its entries.
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
fn every_medium_keeps_records_and_snapshots_through_compactions_and_openings() {
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
    // It may be taken, and is never told to be durable.
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
