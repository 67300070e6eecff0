//! Any call to the disk fails once, in any way. Then the log goes on, or accepts nothing more; what
//! was acknowledged is found by the next start, and by the one after a power cut.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::Rng;
use rand::seq::SliceRandom;
use wal::storage::sim::{Call, Fault, SimDisk, Survivors};
use wal::{BoxError, Error, Log};

use crate::support::{
    Heard, Opened, eventually, open, open_with, random, record, seed, size, small, snapshot,
};
use crate::workload::on_two_threads;

/// Number of calls that are made to fail, in each of three ways; short writes are tried as often as
/// there are writes.
const CALLS: u64 = 2_000;

/// What a workload knows of its log.
struct Known {
    /// Records that were acknowledged, or found by a start.
    records: Vec<Vec<u8>>,
    /// The batch that failed, which the log may have or not.
    perhaps: Vec<Vec<u8>>,
    starts: u64,
}

impl Known {
    /// Checks that a start finds all that was acknowledged, and the failed batch whole or not at
    /// all. From then on what was found counts as acknowledged.
    fn found(&mut self, found: &[Vec<u8>], case: &str) {
        let count = self.records.len();
        assert!(found.len() >= count, "{case}: {} of {count}", found.len());
        assert!(found[..count] == self.records, "{case}: other records");
        let more = &found[count..];
        assert!(
            more.is_empty() || more == self.perhaps,
            "{case}: half of the failed batch, or something else"
        );
        self.records = found.to_vec();
        self.perhaps.clear();
    }

    /// Checks right after the failure, before a later call can hide it, that all that was
    /// acknowledged survives a power cut, whatever else survives.
    fn survive(&self, disk: &SimDisk, case: &str) {
        for survivors in [
            Survivors::Nothing,
            Survivors::Everything,
            Survivors::Random(7),
        ] {
            let opened = open(&disk.after_power_cut(survivors));
            let opened = opened.unwrap_or_else(|error| panic!("{case}, {survivors:?}: {error}"));
            let found = &opened.records;
            let count = self.records.len();
            assert!(
                found.len() >= count,
                "{case}, {survivors:?}: {} of {count}",
                found.len()
            );
            assert!(found[..count] == self.records, "{case}: other records");
            assert!(
                found.len() == count || found[count..] == self.perhaps,
                "{case}"
            );
        }
    }

    /// Starts again, twice if need be: only one call fails.
    fn start(&mut self, disk: &SimDisk, case: &str) -> Opened {
        self.starts += 1;
        let opened = open(disk).or_else(|error| {
            assert!(matches!(error, Error::Io { .. }), "{case}: {error}");
            open(disk)
        });
        let opened = opened.unwrap_or_else(|error| panic!("{case}: {error}"));
        self.found(&opened.records, case);
        opened
    }
}

/// Whether a failure of this call may concern the write of a record.
fn may_hold_records(call: &Call) -> bool {
    matches!(call.what, "write_at" | "sync") && call.name.ends_with(".log")
}

/// Checks that a log that has failed accepts nothing more, whatever it is asked.
fn assert_stopped(log: &mut Log, case: &str) {
    for error in [
        log.append(&[b"more".to_vec()]).err(),
        log.seal().err(),
        log.compact(&wal::Keep::NOTHING, None).err(),
        log.append(&[b"more".to_vec()]).err(),
    ] {
        assert!(
            matches!(error, Some(Error::Stopped { .. })),
            "{case}: {error:?} after a failure"
        );
    }
}

/// Whether the log has stopped, which an append of nothing shows.
fn has_stopped(log: &mut Log, case: &str) -> bool {
    match log.append(&[]) {
        Ok(_) => false,
        Err(Error::Stopped { .. }) => true,
        Err(error) => panic!("{case}: {error}"),
    }
}

/// Appends, seals, takes snapshots, compacts and restarts while one call fails.
fn run(disk: &SimDisk, seed: u64, batches: usize, case: &str) -> Known {
    let mut random = random(seed);
    let mut known = Known {
        records: Vec::new(),
        perhaps: Vec::new(),
        starts: 0,
    };
    let mut log = known.start(disk, case).log;
    let mut hit = disk.failed_call().is_some();
    for number in 0..batches {
        let bytes_max = if number % 20 == 10 { 9000 } else { 1200 };
        let batch: Vec<_> = (0..random.random_range(1..4))
            .map(|_| record(&mut random, bytes_max))
            .collect();
        let mut stopped = false;
        for attempt in 0..2 {
            match log.append(&batch) {
                Ok(last) => {
                    known.records.extend(batch.iter().cloned());
                    assert_eq!(last, known.records.len() as u64, "{case}");
                    break;
                }
                Err(error) => {
                    assert!(attempt == 0, "{case}: failed twice: {error}");
                    let failed = disk.failed_call().unwrap();
                    stopped = has_stopped(&mut log, case);
                    assert!(
                        stopped || !may_hold_records(&failed),
                        "{case}: went on after {failed:?}"
                    );
                    // Until a new segment is renamed, a failure to make it does no harm; from then
                    // on it is unknown which manifest is in force.
                    let beside = failed.name.ends_with(".new") && failed.what != "rename";
                    assert_eq!(!stopped, beside, "{case}: {error} at {failed:?}");
                    if stopped {
                        known.perhaps = batch.clone();
                        break;
                    }
                }
            }
        }
        if !stopped && random.random_ratio(1, 4) {
            stopped = log.seal().is_err();
            assert_eq!(stopped, has_stopped(&mut log, case), "{case}");
        }
        if !stopped && random.random_ratio(1, 5) {
            let least = log.snapshots().first().map_or(0, |s| s.covers);
            let covers = random.random_range(least..=log.last_position());
            if snapshot(&mut log, covers).is_err() {
                stopped = has_stopped(&mut log, case);
            }
        }
        if !stopped && random.random_ratio(1, 4) && log.compact(&wal::Keep::NOTHING, None).is_err()
        {
            stopped = has_stopped(&mut log, case);
        }
        if !stopped && random.random_ratio(1, 4) {
            let position = random.random_range(1..=log.last_position());
            let expected = &known.records[usize::try_from(position).unwrap() - 1];
            match log.read(position) {
                Ok(read) => assert_eq!(read.as_ref(), Some(expected), "{case}"),
                Err(error) => assert!(matches!(error, Error::Io { .. }), "{case}: {error}"),
            }
        }
        if stopped {
            assert_stopped(&mut log, case);
        }
        if !hit && disk.failed_call().is_some() {
            hit = true;
            known.survive(disk, case);
        }
        if stopped || random.random_ratio(1, 9) {
            drop(log);
            log = known.start(disk, case).log;
        }
    }
    known
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost() {
    let (seed, batches) = (seed(41), 150);
    let whole = SimDisk::new();
    let known = run(&whole, seed, batches, "no fault");
    assert!(whole.all_calls() >= CALLS, "{} calls", whole.all_calls());
    assert!(known.starts > 3 && known.records.len() > batches);
    let mut cases: Vec<(u64, Fault)> = Vec::new();
    for fault in [Fault::Io, Fault::IoDone, Fault::Full] {
        cases.extend((0..CALLS).map(|call| (call, fault)));
    }
    for fault in [Fault::Short, Fault::ShortThenFull] {
        cases.extend((0..whole.writes().min(CALLS)).map(|write| (write, fault)));
    }
    // Cases do not depend on the size: a smaller one tries some of them.
    cases.shuffle(&mut random(seed));
    cases.truncate(usize::try_from(size(200)).unwrap());
    let hit = AtomicU64::new(0);
    on_two_threads(0..cases.len() as u64, |number| {
        let (call, fault) = cases[usize::try_from(number).unwrap()];
        let case = format!("SEED={seed}, {fault:?} at {call}");
        let disk = SimDisk::new();
        disk.fail_call(call, fault);
        let known = run(&disk, seed, batches, &case);
        hit.fetch_add(u64::from(disk.failed_call().is_some()), Ordering::Relaxed);
        let ends = [
            disk.after_kill(),
            disk.after_power_cut(Survivors::Nothing),
            disk.after_power_cut(Survivors::Everything),
            disk.after_power_cut(Survivors::Random(number)),
        ];
        for disk in ends {
            let opened = open(&disk).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(opened.records == known.records, "{case}");
        }
    });
    println!(
        "{} cases of a failed call, {hit:?} of them hit one",
        cases.len()
    );
    assert!(hit.into_inner() * 10 > cases.len() as u64 * 9);
}

/// Runs the workload under the journal thread, which also takes snapshots and compacts.
fn run_beside(disk: &SimDisk, seed: u64, case: &str) -> (Vec<Vec<u8>>, usize) {
    let mut random = random(seed);
    let mut appended: Vec<Vec<u8>> = Vec::new();
    let opened = open_with(disk.storage(), small()).or_else(|_| open(disk));
    let opened = opened.unwrap_or_else(|error| panic!("{case}: {error}"));
    let before = disk.failed_call().is_some();
    let heard = Heard::default();
    // A disk that cannot be asked for its free space: nothing was begun.
    let Ok(appender) = opened.log.start(heard.events()) else {
        return (appended, 0);
    };
    for number in 0..60 {
        let record = record(&mut random, 1500);
        match appender.sequence().push(&record) {
            Ok(position) => assert_eq!(position, appended.len() as u64 + 1, "{case}"),
            Err(_) => break,
        }
        appended.push(record);
        if number % 15 == 14 {
            let covers = appender.durable();
            let snapshot = || -> Result<(), BoxError> {
                let mut writer = appender.begin_snapshot(covers)?;
                appender.history(covers, &mut |record| {
                    Ok(writer.keep(record.position, record.payload)?)
                })?;
                appender.install(writer, covers)?;
                appender.compact(&wal::Keep::NOTHING, None)?;
                Ok(())
            };
            // The snapshot may fail: whether that ends the log shows below.
            let _ = snapshot();
        }
        if number % 7 == 0 {
            eventually("all is durable or the log has failed", || {
                appender.durable() == appender.appended() || !heard.state().failures.is_empty()
            });
        }
    }
    eventually("all is durable or the log has failed", || {
        appender.durable() == appender.appended() || !heard.state().failures.is_empty()
    });
    let ended = appender.shutdown();
    let state = heard.state();
    assert_eq!(ended.is_ok(), state.failures.is_empty(), "{case}");
    let is_whole = appender.durable() == appender.appended();
    assert!(is_whole || ended.is_err(), "{case}");
    assert!(
        state.failures.len() <= 1 && !state.after_failure,
        "{case}: {:?}",
        state.failures
    );
    if !before
        && let Some(failed) = disk.failed_call()
        && may_hold_records(&failed)
    {
        // The failed call was to the current segment, to which records or their seal were written.
        let short = case.contains("Short at");
        assert_eq!(
            state.failures.len(),
            usize::from(!short),
            "{case}: {failed:?}"
        );
    }
    (appended, usize::try_from(state.durable).unwrap())
}

#[test]
fn no_failed_call_under_the_journal_thread_loses_acknowledged_records() {
    let (seed, calls) = (seed(42), 300);
    let faults = [
        Fault::Io,
        Fault::IoDone,
        Fault::Full,
        Fault::Short,
        Fault::ShortThenFull,
    ];
    let mut cases: Vec<_> = faults
        .into_iter()
        .flat_map(|fault| (0..calls).map(move |call| (call, fault)))
        .collect();
    cases.shuffle(&mut random(seed));
    cases.truncate(usize::try_from(size(150)).unwrap());
    let hit = AtomicU64::new(0);
    on_two_threads(0..cases.len() as u64, |number| {
        let (call, fault) = cases[usize::try_from(number).unwrap()];
        let case = format!("SEED={seed}, {fault:?} at {call}");
        let disk = SimDisk::new();
        disk.fail_call(call, fault);
        let (appended, acknowledged) = run_beside(&disk, seed + number, &case);
        hit.fetch_add(u64::from(disk.failed_call().is_some()), Ordering::Relaxed);
        for disk in [
            disk.after_kill(),
            disk.after_power_cut(Survivors::Nothing),
            disk.after_power_cut(Survivors::Random(number)),
        ] {
            let opened = open(&disk).unwrap_or_else(|error| panic!("{case}: {error}"));
            let found = opened.records.len();
            assert!(found >= acknowledged, "{case}: {found} of {acknowledged}");
            assert!(opened.records == appended[..found], "{case}");
        }
    });
    println!(
        "{} cases of a failed call, {hit:?} of them hit one",
        cases.len()
    );
}
