//! Backup, restore and recovery of logs.

use std::sync::Arc;
use std::thread;

use rand::Rng;
use wal::storage::Storage;
use wal::storage::sim::{SimDisk, Survivors};
use wal::{Error, Past, Salvage};

use crate::support::{
    Heard, campaign, eventually, open, random, record, seed, segments, snapshot, snapshots, verify,
};

/// Makes a log of some records in some segments, with or without snapshots.
fn logged(seed: u64, with_snapshots: bool) -> (SimDisk, Vec<Vec<u8>>) {
    let disk = SimDisk::new();
    let mut random = random(seed);
    let mut log = open(&disk).unwrap().log;
    let mut appended = Vec::new();
    for number in 0..80 {
        let record = record(&mut random, 900);
        log.append(std::slice::from_ref(&record)).unwrap();
        appended.push(record);
        match number {
            30 if with_snapshots => drop(snapshot(&mut log, 25).unwrap()),
            50 if with_snapshots => drop(snapshot(&mut log, 51).unwrap()),
            _ => {}
        }
    }
    log.seal().unwrap();
    (disk, appended)
}

fn restore(from: &SimDisk, upto: Option<u64>) -> Result<(SimDisk, Vec<Vec<u8>>), Error> {
    let target = SimDisk::new();
    // The new log must not get the id of the other one.
    target.storage().random_id().unwrap();
    target.storage().random_id().unwrap();
    let storage: Arc<dyn Storage> = target.storage();
    Past::open(from.storage(), None)?.restore(&storage, upto, &mut |_, _| {})?;
    let found = verify(&target).unwrap().1;
    Ok((target, found))
}

#[test]
fn a_backup_of_a_running_log_holds_what_was_durable_and_is_sound() {
    let seed = seed(21);
    let disk = SimDisk::new();
    let heard = Heard::default();
    let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
    let mut appended = Vec::new();
    thread::scope(|scope| {
        let copier = scope.spawn(|| {
            let mut copies = Vec::new();
            for round in 0..6 {
                let covers = appender.durable();
                if round % 2 == 1 {
                    let mut writer = appender.begin_snapshot(covers).unwrap();
                    appender
                        .history(covers, &mut |record| {
                            Ok(writer.keep(record.position, record.payload)?)
                        })
                        .unwrap();
                    appender.install(writer, covers).unwrap();
                    appender.compact(&wal::Keep::NOTHING, None).unwrap();
                }
                let durable = appender.durable();
                let target = SimDisk::new();
                let storage: Arc<dyn Storage> = target.storage();
                let source = disk.storage();
                let backup = wal::backup(source.as_ref(), &storage, &mut |_, _| {}).unwrap();
                assert!(backup.last_position >= durable);
                copies.push((target, backup.last_position));
            }
            copies
        });
        let mut random = random(seed);
        while !copier.is_finished() {
            let record = record(&mut random, 700);
            appender.sequence().push(&record).unwrap();
            appended.push(record);
            thread::sleep(std::time::Duration::from_micros(50));
        }
        for (target, last) in copier.join().unwrap() {
            let copy = target.after_power_cut(Survivors::Nothing);
            let found = verify(&copy).unwrap().1;
            assert_eq!(found.len() as u64, last);
            assert!(found == appended[..found.len()]);
            assert!(open(&copy).unwrap().records == found);
        }
    });
    eventually("all is durable", || {
        appender.durable() == appender.appended()
    });
}

#[test]
fn a_backup_needs_an_empty_place_and_a_sound_source() {
    let (disk, _) = logged(22, true);
    let (other, _) = logged(23, false);
    let storage: Arc<dyn Storage> = other.storage();
    let source = disk.storage();
    let error = wal::backup(source.as_ref(), &storage, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    for name in segments(&disk).iter().chain(&snapshots(&disk)) {
        let damaged = disk.after_kill();
        damaged.flip(name, 4200, 4);
        let storage: Arc<dyn Storage> = SimDisk::new().storage();
        let source = damaged.storage();
        let copied = wal::backup(source.as_ref(), &storage, &mut |_, _| {});
        assert!(matches!(copied, Err(Error::Damaged { .. })), "{name}");
    }
}

#[test]
fn a_log_is_restored_at_each_position_that_it_has() {
    for with_snapshots in [false, true] {
        let (disk, appended) = logged(24, with_snapshots);
        for upto in [
            Some(80),
            Some(79),
            Some(60),
            Some(51),
            Some(40),
            Some(1),
            None,
        ] {
            let (target, found) = restore(&disk, upto).unwrap();
            let expected = usize::try_from(upto.unwrap_or(80)).unwrap();
            assert!(found == appended[..expected], "{upto:?}");
            let (old, new) = (verify(&disk).unwrap().0, verify(&target).unwrap().0);
            assert_ne!(old.log_id, new.log_id);
            let mut opened = open(&target).unwrap();
            assert_eq!(opened.log.append(&[vec![1]]).unwrap(), expected as u64 + 1);
        }
        let error = restore(&disk, Some(81)).err().unwrap().to_string();
        assert!(
            error.contains("the last position that can be restored is 80"),
            "{error}"
        );
    }
}

#[test]
fn a_compacted_log_is_restored_from_its_oldest_snapshot_on() {
    let (disk, appended) = logged(25, true);
    let mut log = open(&disk).unwrap().log;
    assert!(log.compact(&wal::Keep::NOTHING, None).unwrap().segments > 0);
    drop(log);
    // The older snapshot was taken when 31 records were there.
    for upto in [31, 32, 51, 80] {
        let found = restore(&disk, Some(upto)).unwrap().1;
        assert!(found == appended[..usize::try_from(upto).unwrap()]);
    }
    let error = restore(&disk, Some(7)).err().unwrap().to_string();
    assert!(
        error.contains("the earliest position that can be restored is 31"),
        "{error}"
    );
}

#[test]
fn an_interrupted_backup_or_restore_leaves_no_log() {
    let (disk, appended) = logged(26, true);
    for backup in [false, true] {
        let attempt = |target: &SimDisk| {
            let storage: Arc<dyn Storage> = target.storage();
            let source = disk.storage();
            if backup {
                wal::backup(source.as_ref(), &storage, &mut |_, _| {}).map(drop)
            } else {
                let past = Past::open(source, None)?;
                past.restore(&storage, None, &mut |_, _| {}).map(drop)
            }
        };
        let whole = SimDisk::new();
        attempt(&whole).unwrap();
        for cut in 0..whole.calls() {
            let target = SimDisk::new();
            target.cut_before(cut);
            assert!(attempt(&target).is_err());
            for survivors in [
                Survivors::Nothing,
                Survivors::Everything,
                Survivors::Random(cut),
            ] {
                match verify(&target.after_power_cut(survivors)) {
                    Ok((_, found)) => assert!(found == appended, "cut {cut}: half a log"),
                    Err(Error::NoLog { .. } | Error::Unfinished { .. } | Error::Damaged { .. }) => {
                    }
                    Err(error) => panic!("cut {cut}: {error}"),
                }
            }
        }
    }
}

#[test]
fn in_a_sound_log_there_is_nothing_to_give_up() {
    for with_snapshots in [false, true] {
        let (disk, _) = logged(27, with_snapshots);
        let salvage = Salvage::survey(disk.storage()).unwrap();
        assert_eq!(salvage.damage(), []);
        assert_eq!(salvage.highest(), 80);
        assert_eq!(salvage.ways()[0].keep_to, 80);
    }
}

#[test]
fn a_survey_with_progress_counts_every_byte_twice_and_finds_the_same() {
    for (with_snapshots, is_damaged) in [(false, false), (true, false), (false, true), (true, true)]
    {
        let (disk, _) = logged(28, with_snapshots);
        if is_damaged {
            disk.flip(&segments(&disk)[2], 4400, 2);
        }
        let lengths = segments(&disk).into_iter();
        let lengths = lengths.map(|name| disk.bytes(&name).unwrap().len() as u64);
        let bytes: u64 = lengths.sum();
        let mut shown = Vec::new();
        let salvage = Salvage::survey_shown(disk.storage(), &mut |done, total| {
            assert_eq!(total, bytes * 2);
            shown.push(done);
        });
        let salvage = salvage.unwrap();
        assert!(shown.is_sorted(), "{shown:?}");
        // Each segment of the second half is reported.
        let halfway = shown.iter().position(|done| *done == bytes).unwrap();
        assert_eq!(shown[halfway + 1..].len(), segments(&disk).len());
        assert_eq!(shown.last(), Some(&(bytes * 2)));
        let silent = Salvage::survey(disk.storage()).unwrap();
        assert_eq!(salvage.damage(), silent.damage());
        assert_eq!(salvage.damage().is_empty(), !is_damaged);
        assert_eq!(
            format!("{:?}", salvage.ways()),
            format!("{:?}", silent.ways())
        );
        assert_eq!(salvage.highest(), 80);
    }
}

#[test]
fn damage_in_the_middle_costs_what_follows_unless_a_snapshot_covers_it() {
    let (plain, appended) = logged(28, false);
    let (covered, _) = logged(28, true);
    let third = |disk: &SimDisk| segments(disk)[2].clone();
    for (disk, costs) in [(plain, true), (covered, false)] {
        disk.flip(&third(&disk), 4400, 2);
        let salvage = Salvage::survey(disk.storage()).unwrap();
        let damage = salvage.damage();
        assert!(damage[0].file.contains(&third(&disk)), "{damage:?}");
        let keep_to = salvage.ways()[0].keep_to;
        assert_eq!(keep_to < 80, costs);
        let mut lost = Vec::new();
        salvage
            .records_after(keep_to, &mut |record| {
                assert!(record.payload == appended[usize::try_from(record.position).unwrap() - 1]);
                lost.push(record.position);
                Ok(())
            })
            .unwrap();
        assert_eq!(!lost.is_empty(), costs);
        assert_eq!(salvage.highest(), 80);
        let before = disk.names();
        let files: Vec<_> = before.iter().map(|name| disk.bytes(name)).collect();
        let given_up = salvage.give_up_after(keep_to).unwrap();
        let (report, found) = verify(&disk).unwrap();
        assert!(found == appended[..usize::try_from(keep_to).unwrap()]);
        assert_eq!(given_up.report.log_id, report.log_id);
        // Everything that was there is still there.
        assert_eq!(given_up.kept.len(), before.len());
        let all: Vec<_> = disk.names().iter().map(|name| disk.bytes(name)).collect();
        assert!(files.iter().all(|file| all.contains(file)));
        assert!(open(&disk).unwrap().records == found);
    }
}

#[test]
fn a_missing_or_cut_open_segment_leaves_the_log_s_end_unknown() {
    let (disk, appended) = logged(31, false);
    let mut log = open(&disk).unwrap().log;
    log.append(&appended[..3]).unwrap();
    let disk = disk.after_kill();
    drop(log);
    let last = segments(&disk).pop().unwrap();
    let bytes = disk.bytes(&last).unwrap();
    let whole = Salvage::survey(disk.storage()).unwrap();
    assert!(whole.end_is_known());
    assert_eq!(whole.highest(), 83);
    // What is left of the last segment: no file, less than its header, or its header alone.
    for left in [None, Some(0), Some(40), Some(4_096)] {
        match left {
            None => disk.take_away(&last),
            Some(left) => disk.put(&last, &bytes[..left]),
        }
        let salvage = Salvage::survey(disk.storage()).unwrap();
        assert!(!salvage.end_is_known(), "{left:?}");
        assert_eq!(salvage.ways()[0].keep_to, 80, "{left:?}");
    }
}

#[test]
fn a_lost_manifest_is_made_anew() {
    for with_snapshots in [false, true] {
        let (disk, appended) = logged(29, with_snapshots);
        disk.take_away("manifest");
        let salvage = Salvage::survey(disk.storage()).unwrap();
        assert_eq!(salvage.damage().len(), 1);
        assert_eq!(salvage.ways()[0].keep_to, 80);
        salvage.give_up_after(80).unwrap();
        assert!(verify(&disk).unwrap().1 == appended);
    }
}

#[test]
fn a_position_that_no_way_out_reaches_changes_nothing() {
    let (disk, _) = logged(30, false);
    disk.flip(&segments(&disk)[1], 4300, 1);
    let before: Vec<_> = disk.names().iter().map(|name| disk.bytes(name)).collect();
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let reached = salvage.ways()[0].keep_to;
    let error = salvage.give_up_after(reached + 1).unwrap_err();
    assert!(error.to_string().contains("no way out"), "{error}");
    let after: Vec<_> = disk.names().iter().map(|name| disk.bytes(name)).collect();
    assert!(before == after);
}

#[test]
fn an_interrupted_giving_up_can_be_done_again() {
    let seed = seed(31);
    for seed in seed..seed + campaign() {
        let (disk, appended) = logged(seed, seed % 2 == 0);
        let name = &segments(&disk)[1];
        let mut bytes = disk.bytes(name).unwrap();
        bytes[4300] ^= 1;
        disk.put(name, &bytes);
        let whole = disk.after_kill();
        let give_up = |disk: &SimDisk| -> Result<u64, Error> {
            let salvage = Salvage::survey(disk.storage())?;
            let keep_to = salvage.ways()[0].keep_to;
            salvage.give_up_after(keep_to)?;
            Ok(keep_to)
        };
        let keep_to = give_up(&whole).unwrap();
        let expected = &appended[..usize::try_from(keep_to).unwrap()];
        let mut random = random(seed);
        for cut in 0..whole.calls() {
            let damaged = disk.after_kill();
            damaged.cut_before(cut);
            let ended = give_up(&damaged);
            let survivors = [
                Survivors::Nothing,
                Survivors::Everything,
                Survivors::Random(random.random()),
            ];
            for survivors in survivors {
                let case = format!("SEED={seed}, cut before call {cut}, {survivors:?}");
                let after = damaged.after_power_cut(survivors);
                if let Ok(opened) = open(&after) {
                    assert!(opened.records == expected, "{case}: half a recovery");
                    continue;
                }
                assert!(ended.is_err(), "{case}");
                let kept = give_up(&after).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(kept, keep_to, "{case}");
                assert!(verify(&after).unwrap().1 == expected, "{case}");
            }
        }
    }
}
