//! The power is cut before every call; any part of what was not synced
//! survives. What was acknowledged is there, what is there was appended, and
//! batches are whole. A mere power cut is never a refusal.

use std::collections::BTreeSet;
use std::thread;

use rand::Rng;
use wal::storage::sim::{SimDisk, Survivors};

use crate::support::{
    Heard, campaign, eventually, open, open_with, random, record, seed, small, snapshot,
};

/// What a workload did until the power went.
struct Done {
    appended: Vec<Vec<u8>>,
    /// Lengths that the log may have: ends of batches.
    ends: BTreeSet<usize>,
    acknowledged: usize,
}

/// Appends batches, seals, takes snapshots, compacts, restarts, goes through
/// several segments.
fn workload(disk: &SimDisk, seed: u64, batches: usize) -> Done {
    let mut random = random(seed);
    let mut done = Done {
        appended: Vec::new(),
        ends: BTreeSet::from([0]),
        acknowledged: 0,
    };
    let Ok(mut opened) = open(disk) else {
        return done;
    };
    for number in 0..batches {
        let bytes_max = if number == batches / 2 { 9000 } else { 1200 };
        let batch: Vec<_> = (0..random.random_range(1..4))
            .map(|_| record(&mut random, bytes_max))
            .collect();
        done.appended.extend(batch.iter().cloned());
        done.ends.insert(done.appended.len());
        if opened.log.append(&batch).is_err() {
            return done;
        }
        done.acknowledged = done.appended.len();
        if random.random_ratio(1, 4) && opened.log.seal().is_err() {
            return done;
        }
        if random.random_ratio(1, 5) {
            let least = opened.log.snapshots().first().map_or(0, |s| s.covers);
            let covers = random.random_range(least..=opened.log.last_position());
            if snapshot(&mut opened.log, covers).is_err() {
                return done;
            }
        }
        if random.random_ratio(1, 4) && opened.log.compact(None).is_err() {
            return done;
        }
        if random.random_ratio(1, 9) {
            drop(opened);
            opened = match open(disk) {
                Ok(opened) => opened,
                Err(_) => return done,
            };
            assert!(opened.records == done.appended, "a restart loses nothing");
        }
    }
    done
}

/// Opens what survived, and opens it again after one more append.
fn check(disk: &SimDisk, done: &Done, case: &str) {
    let mut opened = match open(disk) {
        Ok(opened) => opened,
        Err(error) => panic!("{case}: a power cut is no reason to refuse: {error}"),
    };
    let found = opened.records.len();
    assert!(
        found >= done.acknowledged,
        "{case}: {found} of {} acknowledged",
        done.acknowledged
    );
    assert!(
        opened.records == done.appended[..found],
        "{case}: other records"
    );
    assert!(
        done.ends.contains(&found),
        "{case}: {found} records are no whole batches"
    );
    for position in 1..=found {
        let read = opened.log.read(position as u64).unwrap();
        assert_eq!(
            read.as_deref(),
            Some(done.appended[position - 1].as_slice()),
            "{case}"
        );
    }
    opened.log.append(&[b"after".to_vec()]).unwrap();
    // What a recovery has found stays found, even if nothing else survives.
    let again = disk.after_power_cut(Survivors::Nothing);
    let records = open(&again)
        .unwrap_or_else(|error| panic!("{case}: {error}"))
        .records;
    assert_eq!(records.len(), found + 1, "{case}");
    assert!(records[..found] == done.appended[..found], "{case}");
    assert_eq!(records[found], b"after", "{case}");
}

/// Spreads numbers over two threads.
fn on_two_threads(numbers: std::ops::Range<u64>, body: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for half in 0..2 {
            let (numbers, body) = (numbers.clone(), &body);
            scope.spawn(move || numbers.filter(|number| number % 2 == half).for_each(body));
        }
    });
}

#[test]
fn a_power_cut_before_any_call_loses_nothing_acknowledged() {
    let seed = seed(1);
    for seed in seed..seed + 3 * campaign() {
        let whole = SimDisk::new();
        let done = workload(&whole, seed, 24);
        assert_eq!(done.acknowledged, done.appended.len());
        on_two_threads(0..whole.calls() + 1, |cut| {
            let disk = SimDisk::new();
            disk.cut_before(cut);
            let done = workload(&disk, seed, 24);
            let singles = (0..disk.unsynced()).map(Survivors::Single);
            let randoms = (0..8).map(|number| Survivors::Random(seed * 1000 + cut * 10 + number));
            let all = [Survivors::Nothing, Survivors::Everything].into_iter();
            for survivors in all.chain(singles).chain(randoms) {
                let case = format!("SEED={seed}, cut before call {cut}, {survivors:?}");
                check(&disk.after_power_cut(survivors), &done, &case);
            }
        });
    }
}

#[test]
fn power_cuts_during_recovery_lose_nothing_acknowledged() {
    let seed = seed(2);
    for seed in seed..seed + 4 * campaign() {
        let whole = SimDisk::new();
        workload(&whole, seed, 12);
        on_two_threads(0..whole.calls() + 1, |cut| {
            let disk = SimDisk::new();
            disk.cut_before(cut);
            let done = workload(&disk, seed, 12);
            let mut random = random(seed * 1000 + cut);
            let survivors = Survivors::Random(random.random());
            let first = disk.after_power_cut(survivors);
            let counting = first.after_kill();
            drop(open(&counting));
            for second_cut in 0..counting.calls() {
                let second = first.after_kill();
                second.cut_before(second_cut);
                assert!(open(&second).is_err());
                let mut disk = second.after_power_cut(Survivors::Random(random.random()));
                // And once more, somewhere.
                disk.cut_before(random.random_range(0..counting.calls()));
                drop(open(&disk));
                disk = disk.after_power_cut(Survivors::Random(random.random()));
                let case =
                    format!("SEED={seed}, cuts before {cut} and {second_cut}, {survivors:?}");
                check(&disk, &done, &case);
            }
        });
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_wrote() {
    let seed = seed(3);
    let whole = SimDisk::new();
    workload(&whole, seed, 24);
    on_two_threads(0..whole.calls() + 1, |cut| {
        let disk = SimDisk::new();
        disk.cut_before(cut);
        let done = workload(&disk, seed, 24);
        check(
            &disk.after_kill(),
            &done,
            &format!("SEED={seed}, killed before call {cut}"),
        );
    });
}

#[test]
fn what_is_found_after_a_failed_sync_and_a_restart_survives_a_power_cut() {
    // The file looks written, but the failed sync has thrown its bytes away:
    // only writing them again brings them to the disk.
    let mut kept = 0;
    for number in 4..40 {
        let disk = SimDisk::new();
        disk.fail_sync(number);
        let done = workload(&disk, 4, 24);
        let killed = disk.after_kill();
        let found = open(&killed).unwrap().records.len();
        assert!(found >= done.acknowledged, "sync {number}");
        kept += usize::from(found > done.acknowledged);
        let opened = open(&killed.after_power_cut(Survivors::Nothing)).unwrap();
        assert!(opened.records == done.appended[..found], "sync {number}");
    }
    assert!(
        kept > 5,
        "batches whose sync failed are found in memory in {kept} cases only"
    );
}

#[test]
fn nothing_appended_means_nothing_left_behind() {
    let disk = SimDisk::new();
    for epoch in 1..6 {
        let opened = open(&disk).unwrap();
        assert_eq!(opened.report.epoch, epoch);
        assert_eq!(opened.report.created, epoch == 1);
        drop(opened);
        assert_eq!(
            disk.names().len(),
            2,
            "the manifest and one segment: {:?}",
            disk.names()
        );
    }
}

#[test]
fn a_power_cut_under_the_journal_thread_loses_nothing_acknowledged() {
    let seed = seed(5);
    for seed in seed..seed + 300 * campaign() {
        let mut random = random(seed);
        let disk = SimDisk::new();
        let first: Vec<_> = (0..5).map(|_| record(&mut random, 2000)).collect();
        open(&disk).unwrap().log.append(&first).unwrap();
        disk.cut_before(disk.calls() + random.random_range(0..80));
        let mut appended = first.clone();
        let mut acknowledged = first.len();
        if let Ok(opened) = open_with(disk.storage(), small()) {
            let heard = Heard::default();
            let appender = opened.log.start(heard.events()).unwrap();
            while appended.len() < 80 {
                let record = record(&mut random, 1500);
                match appender.sequence().push(record.clone()) {
                    Ok(position) => assert_eq!(position, appended.len() as u64 + 1),
                    Err(_) => break,
                }
                appended.push(record);
                if random.random_ratio(1, 3) {
                    thread::yield_now();
                }
            }
            eventually("all is durable or the log has failed", || {
                appender.durable() == appender.appended() || !heard.state().failures.is_empty()
            });
            let ended = appender.shutdown();
            let state = heard.state();
            assert_eq!(
                ended.is_ok(),
                appender.durable() == appender.appended(),
                "SEED={seed}"
            );
            assert!(
                state.failures.len() <= 1 && !state.after_failure,
                "SEED={seed}"
            );
            acknowledged = acknowledged.max(usize::try_from(state.durable).unwrap());
        }
        disk.cut();
        let after = disk.after_power_cut(Survivors::Random(seed));
        let opened = open(&after).unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        let found = opened.records.len();
        assert!(
            found >= acknowledged,
            "SEED={seed}: {found} of {acknowledged}"
        );
        assert!(opened.records == appended[..found], "SEED={seed}");
    }
}
