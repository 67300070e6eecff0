//! The workload that campaigns run on a log, and what must hold afterwards.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand::Rng;
use wal::storage::sim::{SimDisk, Survivors};

use crate::support::{open, random, record, snapshot};

/// What a workload had appended, and what was acknowledged, until the power was cut.
pub(crate) struct Told {
    pub(crate) appended: Vec<Vec<u8>>,
    /// Lengths that the log may have: ends of batches.
    pub(crate) ends: BTreeSet<usize>,
    pub(crate) acknowledged: usize,
}

impl Told {
    pub(crate) fn new() -> Self {
        Self {
            appended: Vec::new(),
            ends: BTreeSet::from([0]),
            acknowledged: 0,
        }
    }
}

/// Appends batches, seals, takes snapshots, compacts and restarts, over several segments; ends at
/// the first error.
pub(crate) fn workload(disk: &SimDisk, seed: u64, batches: usize) -> Told {
    let mut random = random(seed);
    let mut told = Told::new();
    let Ok(mut opened) = open(disk) else {
        return told;
    };
    for number in 0..batches {
        let bytes_max = if number == batches / 2 { 9000 } else { 1200 };
        let batch: Vec<_> = (0..random.random_range(1..4))
            .map(|_| record(&mut random, bytes_max))
            .collect();
        told.appended.extend(batch.iter().cloned());
        told.ends.insert(told.appended.len());
        if opened.log.append(&batch).is_err() {
            return told;
        }
        told.acknowledged = told.appended.len();
        if random.random_ratio(1, 4) && opened.log.seal().is_err() {
            return told;
        }
        if random.random_ratio(1, 5) {
            let least = opened.log.snapshots().first().map_or(0, |s| s.covers);
            let covers = random.random_range(least..=opened.log.last_position());
            if snapshot(&mut opened.log, covers).is_err() {
                return told;
            }
        }
        if random.random_ratio(1, 4) && opened.log.compact(&wal::Keep::NOTHING, None).is_err() {
            return told;
        }
        if random.random_ratio(1, 9) {
            drop(opened);
            opened = match open(disk) {
                Ok(opened) => opened,
                Err(_) => return told,
            };
            assert!(opened.records == told.appended, "a restart loses nothing");
        }
    }
    told
}

/// Opens what survived, and opens it again after one more append.
pub(crate) fn check(disk: &SimDisk, told: &Told, case: &dyn Fn() -> String) {
    let mut opened = match open(disk) {
        Ok(opened) => opened,
        Err(error) => panic!("{}: a power cut is no reason to refuse: {error}", case()),
    };
    let found = opened.records.len();
    assert!(
        found >= told.acknowledged,
        "{}: {found} of {} acknowledged",
        case(),
        told.acknowledged
    );
    assert!(
        opened.records == told.appended[..found],
        "{}: other records",
        case()
    );
    assert!(
        told.ends.contains(&found),
        "{}: {found} records are no whole batches",
        case()
    );
    // Installed snapshots are whole: only damage makes a start fall back to an older one.
    let bad = &opened.report.bad_snapshots;
    assert!(bad.is_empty(), "{}: {bad:?}", case());
    if let Some(used) = opened.report.snapshot {
        let entry = format!("entry 2 of {}", used.covers);
        let last = opened.entries.last().map(Vec::as_slice);
        assert_eq!(last, Some(entry.as_bytes()), "{}", case());
    }
    // The first position, the last and some between: kept records and those in the log.
    for position in (1..=found).step_by(found / 5 + 1).chain([found]) {
        let read = opened.log.read(position as u64);
        let read = read.unwrap_or_else(|error| panic!("{}: {error}", case()));
        let expected = position.checked_sub(1).map(|at| &told.appended[at]);
        assert_eq!(read.as_ref(), expected, "{}: position {position}", case());
    }
    let after = opened.log.append(&[b"after".to_vec()]);
    after.unwrap_or_else(|error| panic!("{}: {error}", case()));
    drop(opened);
    // What a recovery has found stays found, even if nothing else survives.
    let again = disk.after_power_cut(Survivors::Nothing);
    let records = match open(&again) {
        Ok(opened) => opened.records,
        Err(error) => panic!("{}: {error}", case()),
    };
    assert_eq!(records.len(), found + 1, "{}", case());
    assert!(records[..found] == told.appended[..found], "{}", case());
    assert_eq!(records[found], b"after", "{}", case());
}

/// Spreads numbers over two threads.
pub(crate) fn on_two_threads(numbers: Range<u64>, body: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(numbers.start);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && number < numbers.end
                {
                    body(number);
                }
            });
        }
    });
}
