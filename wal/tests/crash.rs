//! The power is cut before every call; any part of what was not synced
//! survives. What was acknowledged is found, what is found was appended, and
//! batches are whole. After a mere power cut the log always opens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::Rng;
use wal::Options;
use wal::storage::sim::{Fault, SimDisk, Survivors};

use crate::support::{
    Heard, campaign, eventually, open, open_with, random, record, seed, size, small,
};
use crate::workload::{check, on_two_threads, workload};

/// Batches of a workload: enough for several segments, snapshots and restarts.
const BATCHES: usize = 24;

#[test]
fn a_power_cut_before_any_call_loses_nothing_acknowledged() {
    let (first, size) = (seed(1), size(12_000));
    let images = AtomicU64::new(0);
    let done = || images.load(Ordering::Relaxed) >= size;
    for seed in (first..).take_while(|_| !done()) {
        let whole = SimDisk::new();
        let told = workload(&whole, seed, BATCHES);
        assert_eq!(told.acknowledged, told.appended.len());
        on_two_threads(0..whole.calls() + 1, |cut| {
            if done() {
                return;
            }
            let disk = SimDisk::new();
            disk.cut_before(cut);
            let told = workload(&disk, seed, BATCHES);
            let singles = (0..disk.unsynced()).map(Survivors::Single);
            let randoms =
                (0..12).map(|number| Survivors::Random(seed * 10_000 + cut * 16 + number));
            let all = [Survivors::Nothing, Survivors::Everything].into_iter();
            for survivors in all.chain(singles).chain(randoms) {
                let case = || format!("SEED={seed}, cut before call {cut}, {survivors:?}");
                check(&disk.after_power_cut(survivors), &told, &case);
                images.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    println!("{} images of a power cut", images.into_inner());
}

#[test]
fn power_cuts_during_recovery_lose_nothing_acknowledged() {
    let (first, size) = (seed(2), size(4_000));
    let images = AtomicU64::new(0);
    let done = || images.load(Ordering::Relaxed) >= size;
    let some = |random: &mut rand::rngs::StdRng| match random.random_range(0..6) {
        0 => Survivors::Nothing,
        1 => Survivors::Everything,
        _ => Survivors::Random(random.random()),
    };
    for seed in (first..).take_while(|_| !done()) {
        let whole = SimDisk::new();
        workload(&whole, seed, BATCHES / 2);
        on_two_threads(0..whole.calls() + 1, |cut| {
            if done() {
                return;
            }
            let disk = SimDisk::new();
            disk.cut_before(cut);
            let told = workload(&disk, seed, BATCHES / 2);
            let mut random = random(seed * 10_000 + cut);
            let first = disk.after_power_cut(some(&mut random));
            let counting = first.after_kill();
            drop(open(&counting));
            for second_cut in 0..counting.calls() {
                let second = first.after_kill();
                second.cut_before(second_cut);
                assert!(open(&second).is_err());
                // Cuts the power once more, at a random call.
                let third = second.after_power_cut(some(&mut random));
                let third_cut = random.random_range(0..counting.calls());
                third.cut_before(third_cut);
                drop(open(&third));
                let last = some(&mut random);
                let case = || {
                    format!(
                        "SEED={seed}, cuts before {cut}, {second_cut} and {third_cut}, {last:?}"
                    )
                };
                check(&third.after_power_cut(last), &told, &case);
                images.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    println!("{} images of three power cuts", images.into_inner());
}

#[test]
fn a_killed_process_loses_nothing_that_it_wrote() {
    let seed = seed(3);
    let whole = SimDisk::new();
    workload(&whole, seed, BATCHES);
    on_two_threads(0..whole.calls() + 1, |cut| {
        let disk = SimDisk::new();
        disk.cut_before(cut);
        let told = workload(&disk, seed, BATCHES);
        let case = || format!("SEED={seed}, killed before call {cut}");
        check(&disk.after_kill(), &told, &case);
    });
}

#[test]
fn records_found_after_a_failed_sync_and_restart_survive_a_power_cut() {
    // The file looks written, but the failed sync has thrown its bytes away:
    // only writing them again brings them to the disk.
    let mut kept = 0;
    for number in 4..40 {
        let disk = SimDisk::new();
        disk.fail_sync(number);
        let done = workload(&disk, 4, BATCHES);
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

/// Takes a snapshot of everything that is durable, installs it as one with data from all that was
/// appended, which need not be durable yet, and compacts.
fn keep(appender: &wal::Appender) -> Result<(), wal::BoxError> {
    let covers = appender.durable();
    let mut writer = appender.begin_snapshot(covers)?;
    appender.history(covers, &mut |record| {
        Ok(writer.keep(record.position, record.payload)?)
    })?;
    writer.entry(b"entry")?;
    appender.install(writer, appender.appended())?;
    appender.compact(&wal::Keep::NOTHING, None)?;
    Ok(())
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
                if random.random_ratio(1, 12) && keep(&appender).is_err() {
                    break;
                }
            }
            eventually("all is durable or the log has failed", || {
                appender.durable() == appender.appended() || !heard.state().failures.is_empty()
            });
            let ended = appender.shutdown();
            let state = heard.state();
            assert_eq!(ended.is_ok(), state.failures.is_empty(), "SEED={seed}");
            let is_whole = appender.durable() == appender.appended();
            assert!(is_whole || ended.is_err(), "SEED={seed}");
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

#[test]
fn a_power_cut_or_a_failure_at_any_step_of_a_stop_loses_nothing() {
    let records: Vec<_> = (0..9_u8).map(|number| vec![number; 700]).collect();
    let stopped = |prepare: &dyn Fn(&SimDisk)| {
        let disk = SimDisk::new();
        let heard = Heard::default();
        let options = Options {
            // Nothing is sealed before the stop.
            seal_after: Duration::from_secs(3_600),
            ..small()
        };
        let log = open_with(disk.storage(), options).unwrap().log;
        let appender = log.start(heard.events()).unwrap();
        for record in &records {
            appender.sequence().push(record.clone()).unwrap();
        }
        eventually("all is durable", || appender.durable() == 9);
        prepare(&disk);
        let _ = appender.shutdown();
        disk
    };
    let mut steps = 0;
    for cut in 0.. {
        let disk = stopped(&|disk| disk.cut_before(disk.calls() + cut));
        for survivors in [
            Survivors::Nothing,
            Survivors::Everything,
            Survivors::Random(cut),
            Survivors::Random(cut + 1_000),
        ] {
            let opened = open(&disk.after_power_cut(survivors)).unwrap();
            assert!(opened.records == records, "cut {cut}, {survivors:?}");
        }
        if !disk.is_cut() {
            steps = cut;
            break;
        }
    }
    assert!(steps > 6, "{steps}");
    for fault in [Fault::Io, Fault::IoDone, Fault::Full] {
        for call in 0..60 {
            let disk = stopped(&|disk| disk.fail_call(call, fault));
            let opened = open(&disk.after_kill()).unwrap();
            assert!(opened.records == records, "{fault:?} at {call}");
        }
    }
}
