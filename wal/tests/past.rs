//! Earlier states of a log: restored from the log, from a backup of it, and from the segments that
//! compactions have moved to an archive.

use std::ops::ControlFlow;
use std::sync::Arc;

use wal::live::LiveReader;
use wal::storage::Storage;
use wal::storage::meanwhile::Meanwhile;
use wal::storage::sim::{Fault, SimDisk, Survivors};
use wal::{BoxError, Error, Log, Past, Record, Report, Salvage, Visitor};

use crate::support::{Heard, frames, open, segments, snapshot, verify};

fn payload(number: u64) -> Vec<u8> {
    let mut payload = vec![u8::try_from(number % 251).unwrap(); 700];
    payload.extend(number.to_le_bytes());
    payload
}

fn payloads(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.map(payload).collect()
}

fn append(log: &mut Log, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        assert_eq!(log.append(&[payload(number)]).unwrap(), number);
    }
}

/// Makes a disk whose logs have ids that no other disk's logs have.
fn disk(number: u8) -> SimDisk {
    let disk = SimDisk::new();
    for _ in 0..number * 10 {
        disk.storage().random_id().unwrap();
    }
    disk
}

/// Makes a log of 200 records, the first of which were moved to the archive, and whose snapshots
/// cover 100 and 150; returns the first position that it still has.
fn archived(disk: &SimDisk, archive: &SimDisk) -> u64 {
    let mut log = open(disk).unwrap().log;
    append(&mut log, 1..=200);
    snapshot(&mut log, 100).unwrap();
    snapshot(&mut log, 150).unwrap();
    let compacted = log
        .compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    log.seal().unwrap();
    assert!(compacted.segments > 3);
    compacted.first_position
}

/// Keeps the records that a restored log itself shows, and its first position.
#[derive(Default)]
struct Shown {
    first: Option<u64>,
    records: Vec<Vec<u8>>,
}

impl Visitor for Shown {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.first.get_or_insert(record.position);
        self.records.push(record.payload.to_vec());
        Ok(())
    }
}

fn shown(disk: &SimDisk) -> Shown {
    let mut shown = Shown::default();
    wal::records(disk.storage().as_ref(), &mut shown).unwrap();
    shown
}

fn past(from: &SimDisk, archive: Option<&SimDisk>) -> Result<Past, Error> {
    Past::open(from.storage(), archive.map(SimDisk::storage))
}

fn restore(past: &Past, number: u8, upto: Option<u64>) -> Result<(SimDisk, Report), Error> {
    let target = disk(number);
    let report = past.restore(&target.storage(), upto, &mut |_, _| {})?;
    Ok((target, report))
}

fn backup(from: &SimDisk) -> SimDisk {
    let target = SimDisk::new();
    let storage: Arc<dyn Storage> = target.storage();
    wal::backup(from.storage().as_ref(), &storage, &mut |_, _| {}).unwrap();
    target
}

fn refusal(past: &Past, upto: u64) -> String {
    let refused = restore(past, 9, Some(upto));
    match refused {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{upto} was restored"),
    }
}

#[test]
fn a_restored_log_keeps_the_records_and_snapshots_that_the_copy_has() {
    let source = SimDisk::new();
    let first = archived(&source, &disk(5));
    let copy = backup(&source);
    for from in [&source, &copy] {
        let past = past(from, None).unwrap();
        let (target, report) = restore(&past, 1, None).unwrap();
        assert_eq!((report.first_position, report.last_position), (first, 200));
        let covers: Vec<_> = report.snapshots.iter().map(|one| one.covers).collect();
        assert_eq!(covers, [150, 100]);
        let shown = shown(&target);
        assert_eq!(shown.first, Some(first));
        assert!(shown.records == payloads(first..=200));
        assert!(verify(&target).unwrap().1 == payloads(1..=200));
    }
    let target = restore(&past(&copy, None).unwrap(), 1, Some(200))
        .unwrap()
        .0;
    assert!(shown(&target).records == payloads(first..=200));
}

#[test]
fn a_log_can_be_restored_to_any_position_that_an_archive_covers() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let first = archived(&source, &archive);
    assert!(first > 50);
    let without = past(&source, None).unwrap();
    // The snapshots were taken when 200 records were there.
    assert_eq!(without.earliest(), 200);
    let error = refusal(&without, 199);
    assert!(
        error.contains("the earliest position that can be restored is 200"),
        "{error}"
    );
    let error = refusal(&without, 201);
    assert!(
        error.contains("the last position that can be restored is 200"),
        "{error}"
    );

    let past = past(&source, Some(&archive)).unwrap();
    assert_eq!(past.earliest(), 1);
    let mut all = Shown::default();
    assert_eq!(past.records(&mut all).unwrap(), 200);
    assert!(all.records == payloads(1..=200));
    for upto in [1, 2, first - 1, first, 100, 149, 150, 199, 200] {
        let (target, report) = restore(&past, 1, Some(upto)).unwrap();
        assert_eq!(report.last_position, upto);
        assert!(verify(&target).unwrap().1 == payloads(1..=upto), "{upto}");
        let mut opened = open(&target).unwrap();
        assert_eq!(opened.log.append(&[payload(0)]).unwrap(), upto + 1);
    }
    // No more of the archive is restored than is needed.
    assert_eq!(restore(&past, 1, None).unwrap().1.first_position, first);
}

#[test]
fn a_backup_goes_on_with_what_was_archived_after_it() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 1..=60);
    log.seal().unwrap();
    let copy = backup(&source);
    append(&mut log, 61..=200);
    snapshot(&mut log, 190).unwrap();
    snapshot(&mut log, 195).unwrap();
    let compacted = log
        .compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let last = compacted.first_position - 1;
    assert!(last > 150);

    let past = past(&copy, Some(&archive)).unwrap();
    let (target, report) = restore(&past, 1, None).unwrap();
    assert_eq!(report.last_position, last);
    assert!(verify(&target).unwrap().1 == payloads(1..=last));
    for upto in [30, 59, 60, 61, last] {
        let target = restore(&past, 1, Some(upto)).unwrap().0;
        assert!(verify(&target).unwrap().1 == payloads(1..=upto));
    }
    let error = refusal(&past, last + 1);
    assert!(
        error.contains(&format!("the last position that can be restored is {last}")),
        "{error}"
    );
}

#[test]
fn a_backup_older_than_a_compaction_goes_back_as_far_as_the_archive() {
    let (source, archive) = (SimDisk::new(), disk(5));
    archived(&source, &archive);
    let copy = backup(&source);
    let (own, before) = (segments(&copy), segments(&archive));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 201..=400);
    snapshot(&mut log, 390).unwrap();
    snapshot(&mut log, 395).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let newest = segments(&archive).pop().unwrap();
    assert!(newest > before[before.len() - 1] && !own.contains(&newest));

    let whole = past(&copy, Some(&archive)).unwrap();
    assert_eq!(whole.earliest(), 1);
    for upto in [1, 20, 200, 250] {
        let target = restore(&whole, 1, Some(upto)).unwrap().0;
        assert!(verify(&target).unwrap().1 == payloads(1..=upto), "{upto}");
    }
    let last = restore(&whole, 1, None).unwrap().1.last_position;
    assert!(last > 300);

    // Damage in a segment that is not needed does no harm; in one that is needed, it is reported.
    archive.flip(&newest, 4_100, 1);
    let damaged = past(&copy, Some(&archive)).unwrap();
    let target = restore(&damaged, 1, Some(20)).unwrap().0;
    assert!(verify(&target).unwrap().1 == payloads(1..=20));
    for upto in [None, Some(last)] {
        match restore(&damaged, 1, upto) {
            Err(Error::Damaged { file, .. }) => assert!(file.ends_with(&newest), "{file}"),
            other => panic!("{upto:?}: {:?}", other.map(|(_, report)| report)),
        }
    }
    assert!(damaged.records(&mut Shown::default()).is_err());
}

#[test]
fn a_snapshot_that_is_damaged_and_not_needed_is_left_out_and_told() {
    let source = SimDisk::new();
    let first = archived(&source, &disk(5));
    let whole = restore(&past(&source, None).unwrap(), 1, None).unwrap().1;
    assert_eq!((whole.snapshots.len(), whole.bad_snapshots.len()), (2, 0));
    let names = source.names();
    let mut snapshots: Vec<_> = names
        .iter()
        .filter(|name| name.ends_with(".snap"))
        .collect();
    snapshots.sort();
    source.flip(snapshots[1], 300, 1);
    let (target, report) = restore(&past(&source, None).unwrap(), 1, None).unwrap();
    assert_eq!(report.snapshots.len(), 1);
    assert_eq!(report.bad_snapshots.len(), 1);
    assert!(
        report.bad_snapshots[0]
            .file
            .ends_with(snapshots[1].as_str())
    );
    assert!(shown(&target).records == payloads(first..=200));
}

#[test]
fn of_two_logs_made_in_one_directory_the_second_is_refused_harmlessly() {
    let source = SimDisk::new();
    archived(&source, &disk(5));
    let from = past(&source, None).unwrap();
    let target = disk(3);
    let mut refused = Vec::new();
    let report = from.restore(&target.storage(), None, &mut |_, _| {
        let storage: Arc<dyn Storage> = target.storage();
        let restored = from.restore(&storage, None, &mut |_, _| {});
        let copied = wal::backup(source.storage().as_ref(), &storage, &mut |_, _| {});
        refused.push(restored.unwrap_err().to_string());
        refused.push(copied.unwrap_err().to_string());
    });
    assert_eq!(report.unwrap().last_position, 200);
    assert!(refused.len() >= 2);
    for error in refused {
        assert!(error.contains("the directory is not empty"), "{error}");
    }
    assert!(verify(&target).unwrap().1 == payloads(1..=200));
    assert!(!target.names().iter().any(|name| name.ends_with(".new")));
    // A backup that made nothing leaves nothing, and a lock file that nobody holds is no content.
    let storage: Arc<dyn Storage> = disk(4).storage();
    let missing = SimDisk::new();
    assert!(wal::backup(missing.storage().as_ref(), &storage, &mut |_, _| {}).is_err());
    assert_eq!(storage.list("").unwrap(), [] as [String; 0]);
    drop(storage.lock("lock", "process 1").unwrap());
    wal::backup(source.storage().as_ref(), &storage, &mut |_, _| {}).unwrap();
}

#[test]
fn a_backup_owns_its_directory_from_its_first_look_at_the_source() {
    let source = SimDisk::new();
    archived(&source, &disk(5));
    let target = disk(3);
    let storage: Arc<dyn Storage> = target.storage();
    let (other, beside) = (source.clone(), target.clone());
    let meanwhile = Meanwhile::new(&source, 0, move |_| {
        let storage: Arc<dyn Storage> = beside.storage();
        let refused = wal::backup(other.storage().as_ref(), &storage, &mut |_, _| {});
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("goes on, or was interrupted"), "{refused}");
        // A backup killed here does not leave an empty directory.
        match open(&beside) {
            Err(Error::Unfinished { .. }) => {}
            other => panic!("{:?}", other.map(|opened| opened.report)),
        }
    });
    wal::backup(&meanwhile, &storage, &mut |_, _| {}).unwrap();
    assert!(meanwhile.calls() > 1);
}

/// Checks that no tool takes the disk for a log.
fn is_no_log(disk: &SimDisk, is_this: fn(&Error) -> bool, case: &str) {
    let before: Vec<_> = disk.names().iter().map(|name| disk.bytes(name)).collect();
    let target: Arc<dyn Storage> = SimDisk::new().storage();
    let refusals = [
        open(disk).map(drop),
        verify(disk).map(drop),
        past(disk, None).map(drop),
        wal::records(disk.storage().as_ref(), &mut Shown::default()),
        wal::backup(disk.storage().as_ref(), &target, &mut |_, _| {}).map(drop),
        LiveReader::open(disk.storage(), 1).map(drop),
    ];
    for (tool, refused) in refusals.into_iter().enumerate() {
        let error = refused.expect_err(case);
        assert!(is_this(&error), "{case}, tool {tool}: {error}");
    }
    let names = disk.names();
    let after = names.iter().filter(|name| *name != "lock");
    let after: Vec<_> = after.map(|name| disk.bytes(name)).collect();
    assert!(before.iter().eq(&after), "{case}");
}

#[test]
fn a_copy_that_was_killed_before_it_was_done_is_no_log_for_any_tool() {
    let source = SimDisk::new();
    archived(&source, &disk(5));
    let copy = backup(&source);
    copy.put("copy.new", b"");
    let is_unfinished: fn(&Error) -> bool = |error| {
        let told = error.to_string();
        matches!(error, Error::Unfinished { .. }) && told.contains("remove the directory")
    };
    is_no_log(&copy, is_unfinished, "with a manifest");
    let surveyed = Salvage::survey(copy.storage()).map(drop);
    assert!(is_unfinished(&surveyed.unwrap_err()));
    copy.take_away("manifest");
    is_no_log(&copy, is_unfinished, "without a manifest");
    copy.take_away("copy.new");
    is_no_log(
        &copy,
        |error| matches!(error, Error::Damaged { .. }),
        "nothing says what it was",
    );
}

/// Makes a log in `target`, by a backup or a restore.
fn made(source: &SimDisk, target: &SimDisk, is_backup: bool) -> Result<(), Error> {
    let storage: Arc<dyn Storage> = target.storage();
    match is_backup {
        true => wal::backup(source.storage().as_ref(), &storage, &mut |_, _| {}).map(drop),
        false => past(source, None)
            .and_then(|past| past.restore(&storage, None, &mut |_, _| {}))
            .map(drop),
    }
}

#[test]
fn a_backup_or_restore_that_fails_anywhere_leaves_nothing_like_a_log() {
    let source = SimDisk::new();
    archived(&source, &disk(5));
    let ways = [true, false].map(|is_backup| [(is_backup, Fault::Io), (is_backup, Fault::IoDone)]);
    for (is_backup, fault) in ways.into_iter().flatten() {
        let mut failed = 0;
        loop {
            let target = disk(3);
            target.fail_call(failed, fault);
            let made = made(&source, &target, is_backup);
            let Some(call) = target.failed_call() else {
                made.unwrap();
                break;
            };
            failed += 1;
            let case = format!("backup {is_backup}, {fault:?}: {call:?}");
            if made.is_ok() {
                assert!(verify(&target).is_ok(), "{case}");
                continue;
            }
            for left in [
                target.after_kill(),
                target.after_power_cut(Survivors::Everything),
                target.after_power_cut(Survivors::Nothing),
            ] {
                match verify(&left) {
                    Err(Error::Unfinished { .. }) => {}
                    Err(Error::NoLog { .. }) if left.names().is_empty() => {}
                    other => panic!("{case}: {:?}, {:?}", other.map(drop), left.names()),
                }
            }
        }
        assert!(failed > 30, "{failed} calls");
    }
}

#[test]
fn a_power_cut_in_a_backup_or_restore_leaves_all_or_what_tools_reject() {
    let source = SimDisk::new();
    archived(&source, &disk(5));
    for is_backup in [true, false] {
        let mut cut = 0;
        loop {
            let target = disk(3);
            target.cut_before(cut);
            let ended = made(&source, &target, is_backup);
            let survivors = [
                Survivors::Nothing,
                Survivors::Everything,
                Survivors::Random(cut),
                Survivors::Random(cut + 1_000),
            ];
            for survivors in survivors {
                let case = format!("backup {is_backup}, cut before {cut}: {survivors:?}");
                let left = target.after_power_cut(survivors);
                match verify(&left) {
                    Ok((_, records)) => assert!(records == payloads(1..=200), "{case}"),
                    Err(Error::Unfinished { .. }) => assert!(ended.is_err(), "{case}"),
                    // The first two calls make the mark.
                    Err(Error::NoLog { .. }) if cut < 2 && left.names().is_empty() => {}
                    other => panic!("{case}: {:?}, {:?}", other.map(drop), left.names()),
                }
            }
            cut += 1;
            if !target.is_cut() {
                ended.unwrap();
                break;
            }
        }
        assert!(cut > 15, "{cut} calls");
    }
}

/// The first position of an archived segment.
fn first_of(archive: &SimDisk, name: &str) -> u64 {
    let bytes = archive.bytes(name).unwrap();
    u64::from_le_bytes(bytes[4_128..4_136].try_into().unwrap())
}

/// Records by their positions.
type Numbered = Vec<(u64, Vec<u8>)>;

/// Returns what a reader shows from a position on, and how that ends.
fn read(
    disk: &SimDisk,
    archive: &SimDisk,
    from: u64,
) -> (Numbered, Result<wal::live::LiveEnd, Error>) {
    let reader = LiveReader::open_with_archive(disk.storage(), archive.storage(), from);
    let mut seen = Vec::new();
    let end = reader.and_then(|mut reader| {
        let end = reader.read_on(&mut |record| {
            seen.push((record.position, record.payload.to_vec()));
            Ok(ControlFlow::Continue(()))
        });
        end.inspect_err(|error| assert!(reader.is_of_archive(error), "{error}"))
    });
    (seen, end)
}

fn numbered(from: u64, last: u64) -> Numbered {
    (from..=last).zip(payloads(from..=last)).collect()
}

#[test]
fn an_archive_gap_before_the_log_is_reported_and_older_records_restored() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let first = archived(&source, &archive);
    let names = segments(&archive);
    let (missing, behind) = (first_of(&archive, &names[2]), first_of(&archive, &names[3]));
    assert!(1 < missing && missing < behind && behind < first);
    archive.take_away(&names[2]);
    let log_id = verify(&source).unwrap().0.log_id;
    let gap = past(&source, Some(&archive)).unwrap();
    let told = format!(
        "positions {missing} to {} are missing behind this segment",
        behind - 1
    );
    let whole = format!("; up to {} everything is there", missing - 1);
    for upto in [missing, behind - 1, behind, 199] {
        let error = restore(&gap, 1, Some(upto)).err().unwrap();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        let what = error.to_string();
        assert!(what.contains(&names[1]), "{what}");
        assert!(what.contains(&format!("{told}{whole}")), "{what}");
        assert!(gap.is_of_archive(&error));
        assert_eq!(gap.whole_before(&error), Some(missing - 1));
    }
    for upto in [1, missing - 1] {
        let (target, report) = restore(&gap, 1, Some(upto)).unwrap();
        assert_eq!((report.first_position, report.last_position), (1, upto));
        assert!(verify(&target).unwrap().1 == payloads(1..=upto), "{upto}");
        let came = gap.from_archive(1, upto);
        assert_eq!(came.positions, upto);
        assert!(came.segments > 0);
        assert_eq!(report.ancestors.last().unwrap().log_id, log_id);
    }
    let mut before = Shown::default();
    assert_eq!(
        gap.records_before_gap(&mut before).unwrap(),
        Some(missing - 1)
    );
    assert!(before.records == payloads(1..=missing - 1));
    // What does not need the missing positions can be had as before.
    for upto in [None, Some(200)] {
        assert_eq!(restore(&gap, 1, upto).unwrap().1.first_position, first);
    }
    for from in [1, missing, behind - 1] {
        let (seen, end) = read(&source, &archive, from);
        let what = end.unwrap_err().to_string();
        assert!(what.contains(&told), "{what}");
        assert!(seen.is_empty());
    }
    for from in [behind, first] {
        let (seen, end) = read(&source, &archive, from);
        assert_eq!(end.unwrap().missed, None);
        assert!(seen == numbered(from, 200), "{from}");
    }

    // Without the first segment nothing is whole before the missing positions.
    archive.take_away(&names[0]);
    let gap = past(&source, Some(&archive)).unwrap();
    let error = restore(&gap, 1, Some(20)).err().unwrap();
    let what = error.to_string();
    assert!(what.contains(&told) && !what.contains("up to"), "{what}");
    assert_eq!(gap.whole_before(&error), None);
    let none = gap.records_before_gap(&mut Shown::default()).unwrap();
    assert_eq!(none, None);
    // When nothing comes before the first position that is left, there is no gap.
    archive.take_away(&names[1]);
    let late = past(&source, Some(&archive)).unwrap();
    assert!(late.lacking().is_none());
    let error = refusal(&late, 20);
    assert!(
        error.contains("the earliest position that can be restored is 200"),
        "{error}"
    );
}

#[test]
fn damage_in_an_archive_is_told_and_what_is_before_it_restored() {
    let (source, archive) = (SimDisk::new(), disk(5));
    archived(&source, &archive);
    let names = segments(&archive);
    let third = names[2].clone();
    let bytes = archive.bytes(&third).unwrap();
    let (within, behind) = (first_of(&archive, &third), first_of(&archive, &names[3]));
    for (at, is_seen_at_once) in [
        (20, true),
        (4_100, true),
        (bytes.len() - 3, true),
        (4_300, false),
        (bytes.len() / 2, false),
    ] {
        archive.put(&third, &bytes);
        archive.flip(&third, at, 1);
        let damaged = |error: Error| match error {
            Error::Damaged { file, .. } => assert!(file.ends_with(&third), "{at}: {file}"),
            other => panic!("{at}: {other}"),
        };
        let past = past(&source, Some(&archive)).unwrap();
        let error = restore(&past, 1, Some(behind - 1)).err().unwrap();
        let whole_to = past.whole_before(&error).unwrap();
        match is_seen_at_once {
            true => assert_eq!(whole_to, within - 1, "{at}"),
            false => assert!((within - 1..behind - 1).contains(&whole_to), "{at}"),
        }
        assert_eq!(at == bytes.len() / 2, whole_to > within, "{at}");
        damaged(error);
        for last in [20, within - 1, whole_to] {
            let (target, _) = restore(&past, 1, Some(last)).unwrap();
            assert!(verify(&target).unwrap().1 == payloads(1..=last), "{at}");
        }
        damaged(restore(&past, 1, Some(whole_to + 1)).err().unwrap());
        // What does not need the damaged segment can be had.
        assert_eq!(restore(&past, 1, Some(200)).unwrap().1.last_position, 200);
        let reader = LiveReader::open_with_archive(source.storage(), archive.storage(), 1);
        let read =
            reader.and_then(|mut reader| reader.read_on(&mut |_| Ok(ControlFlow::Continue(()))));
        damaged(read.err().unwrap());
        assert_eq!(past.earliest() == 1, !is_seen_at_once, "{at}");
    }
}

#[test]
fn damage_before_a_stopped_log_that_has_no_segment_takes_nothing_from_it() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 1..=60);
    drop(log);
    let mut log = open(&source).unwrap().log;
    snapshot(&mut log, 59).unwrap();
    snapshot(&mut log, 60).unwrap();
    drop(log);
    let mut log = open(&source).unwrap().log;
    snapshot(&mut log, 60).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let appender = log.start(Heard::default().events()).unwrap();
    appender.shutdown().unwrap();
    assert!(segments(&source).is_empty());
    let last = segments(&archive).pop().unwrap();
    let bytes = archive.bytes(&last).unwrap();
    for at in [bytes.len() - 3, bytes.len() - 400] {
        archive.put(&last, &bytes);
        archive.flip(&last, at, 1);
        let past = past(&source, Some(&archive)).unwrap();
        let (target, report) = restore(&past, 1, None).unwrap();
        assert_eq!((report.first_position, report.last_position), (61, 60));
        assert!(verify(&target).is_ok());
        let reader = LiveReader::open_with_archive(source.storage(), archive.storage(), 61);
        reader
            .and_then(|mut reader| reader.read_on(&mut |_| Ok(ControlFlow::Continue(()))))
            .unwrap();
    }
}

#[test]
fn damage_of_the_log_itself_is_told_and_what_is_before_it_restored() {
    for with_snapshots in [false, true] {
        let source = SimDisk::new();
        let mut log = open(&source).unwrap().log;
        append(&mut log, 1..=200);
        if with_snapshots {
            snapshot(&mut log, 100).unwrap();
            snapshot(&mut log, 150).unwrap();
        }
        log.seal().unwrap();
        drop(log);
        let names = segments(&source);
        let third = names[2].clone();
        let bytes = source.bytes(&third).unwrap();
        let (within, behind) = (first_of(&source, &third), first_of(&source, &names[3]));
        for at in [20, 4_100, 4_300, bytes.len() / 2] {
            source.put(&third, &bytes);
            source.flip(&third, at, 1);
            let past = past(&source, None).unwrap();
            let error = restore(&past, 1, None).err().unwrap();
            assert!(past.is_of_source(&error), "{at}: {error}");
            assert!(!past.is_of_archive(&error), "{at}: {error}");
            let whole_to = past.whole_before(&error).unwrap();
            assert!((within - 1..behind - 1).contains(&whole_to), "{at}");
            for last in [1, within - 1, whole_to] {
                let (target, _) = restore(&past, 1, Some(last)).unwrap();
                assert!(verify(&target).unwrap().1 == payloads(1..=last), "{at}");
            }
            let error = restore(&past, 1, Some(whole_to + 1)).err().unwrap();
            assert_eq!(past.whole_before(&error), Some(whole_to), "{at}: {error}");
        }

        // What is behind is not looked at: a file that is too short, none, or one that is not the log's.
        source.put(&third, &bytes[..bytes.len() - 8]);
        source.take_away(&names[3]);
        source.put("segment-0000000000000099.log", &bytes);
        let past = past(&source, None).unwrap();
        for last in [within - 1, within] {
            let (target, _) = restore(&past, 1, Some(last)).unwrap();
            assert!(verify(&target).unwrap().1 == payloads(1..=last), "{last}");
        }
        assert!(restore(&past, 1, Some(behind)).is_err());
    }
}

#[test]
fn damage_of_the_segment_that_was_open_hinders_no_restore_to_before_it() {
    let source = SimDisk::new();
    append(&mut open(&source).unwrap().log, 1..=4);
    let source = source.after_kill();
    let segment = segments(&source).pop().unwrap();
    // The second record, behind which others follow.
    let (at, _) = frames(&source.bytes(&segment).unwrap())[2];
    source.flip(&segment, at + 200, 1);
    let past = past(&source, None).unwrap();
    let (target, _) = restore(&past, 1, Some(1)).unwrap();
    assert!(verify(&target).unwrap().1 == payloads(1..=1));
}

/// Returns a backup of a log of 60 records, and the archive of what came after it.
fn left_behind() -> (SimDisk, SimDisk) {
    let (source, archive) = (SimDisk::new(), disk(5));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 1..=60);
    log.seal().unwrap();
    let copy = backup(&source);
    append(&mut log, 61..=200);
    snapshot(&mut log, 190).unwrap();
    snapshot(&mut log, 195).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    (copy, archive)
}

#[test]
fn a_longer_archived_segment_counts_only_where_its_positions_are_wanted() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 1..=60);
    // Its last segment is one that goes on afterwards.
    let copy = backup(&source.after_kill());
    append(&mut log, 61..=200);
    snapshot(&mut log, 190).unwrap();
    snapshot(&mut log, 195).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let past = past(&copy, Some(&archive)).unwrap();
    assert_eq!(restore(&past, 1, Some(60)).unwrap().1.last_position, 60);
    let came = past.from_archive(1, 60);
    assert_eq!((came.segments, came.positions), (0, 0));
    let last = restore(&past, 1, None).unwrap().1.last_position;
    let came = past.from_archive(1, last);
    assert_eq!(came.positions, last - 60);
    assert!(came.segments > 3, "{came:?}");
}

/// Returns a backup of 60 records whose last segment went on afterwards, the name of this segment, the
/// archive of what came after, and the name that the whole segment has there.
fn continued() -> (SimDisk, String, SimDisk, String) {
    let base = SimDisk::new();
    append(&mut open(&base).unwrap().log, 1..=50);
    let (source, archive) = (base.after_kill(), disk(5));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 51..=60);
    let copy = backup(&source.after_kill());
    append(&mut log, 61..=200);
    snapshot(&mut log, 190).unwrap();
    snapshot(&mut log, 195).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let own = segments(&copy).pop().unwrap();
    let mut names = segments(&archive).into_iter();
    let longer = names.find(|name| name.ends_with(&own)).unwrap();
    assert!(archive.bytes(&longer).unwrap().len() > copy.bytes(&own).unwrap().len());
    (copy, own, archive, longer)
}

#[test]
fn a_backup_s_own_bytes_win_over_the_archive_s_for_its_positions() {
    let (copy, own, archive, longer) = continued();
    let last = restore(&past(&copy, Some(&archive)).unwrap(), 1, None)
        .unwrap()
        .1
        .last_position;
    assert!(last > 150);
    let (whole, own_end) = (
        archive.bytes(&longer).unwrap(),
        copy.bytes(&own).unwrap().len(),
    );
    assert!(copy.bytes(&own).unwrap() == whole[..own_end]);
    // The header of the file, that of the first frame, the first record, and the last one.
    for at in [20, 4_100, 4_300, own_end - 12] {
        archive.put(&longer, &whole);
        archive.flip(&longer, at, 1);
        let past = past(&copy, Some(&archive)).unwrap();
        for upto in [None, Some(55), Some(60), Some(61), Some(last)] {
            let (target, report) = restore(&past, 1, upto).unwrap();
            let upto = upto.unwrap_or(last);
            assert_eq!(report.last_position, upto, "{at}");
            assert!(verify(&target).unwrap().1 == payloads(1..=upto), "{at}");
        }
        let (seen, end) = read(&copy, &archive, 1);
        assert_eq!(end.unwrap().missed, None, "{at}");
        assert!(seen == numbered(1, last), "{at}");
    }

    // Behind the end of the backup's own, damage is the archive's.
    archive.put(&longer, &whole);
    archive.flip(&longer, own_end + 80, 1);
    let damaged = past(&copy, Some(&archive)).unwrap();
    let error = restore(&damaged, 1, None).err().unwrap();
    assert!(damaged.is_of_archive(&error), "{error}");
    assert_eq!(damaged.whole_before(&error), Some(60), "{error}");
    assert!(restore(&damaged, 1, Some(60)).is_ok());

    // Before it, the backup's.
    archive.put(&longer, &whole);
    copy.flip(&own, 4_300, 1);
    let damaged = past(&copy, Some(&archive)).unwrap();
    for error in [
        restore(&damaged, 1, None).err().unwrap(),
        damaged.records(&mut Shown::default()).unwrap_err(),
    ] {
        assert!(!damaged.is_of_archive(&error), "{error}");
        assert!(error.to_string().contains(&own), "{error}");
    }
}

#[test]
fn a_backup_s_unreadable_copy_of_a_continued_segment_is_named() {
    let (copy, own, archive, _) = continued();
    let mut named = 0;
    for at in 0.. {
        let copy = copy.after_kill();
        let past = past(&copy, Some(&archive)).unwrap();
        copy.fail_call(at, Fault::Io);
        let restored = restore(&past, 1, None);
        let Some(call) = copy.failed_call() else {
            assert!(restored.is_ok());
            break;
        };
        if let Some(error) = restored.err().filter(|_| call.name == own) {
            let told = error.to_string();
            assert!(told.contains(&format!("sim:{own}")), "{call:?}: {told}");
            named += 1;
        }
    }
    assert!(named > 2, "{named} calls");
}

#[test]
fn a_cut_segment_of_a_backup_is_reported_with_where_its_records_end() {
    let (copy, own, archive, _) = continued();
    let bytes = copy.bytes(&own).unwrap();
    copy.put(&own, &bytes[..bytes.len() - 8]);
    let past = past(&copy, Some(&archive)).unwrap();
    let error = restore(&past, 1, None).err().unwrap();
    assert!(past.is_of_source(&error), "{error}");
    let told = format!(
        "offset {}, position {}: the file ends here, but its records go on to offset {}",
        bytes.len() - 8,
        first_of(&copy, &own),
        bytes.len()
    );
    assert!(error.to_string().contains(&told), "{error}");
}

#[test]
fn segments_lost_from_a_backup_count_among_those_from_the_archive() {
    let (copy, own, archive, longer) = continued();
    let last = restore(&past(&copy, Some(&archive)).unwrap(), 1, None)
        .unwrap()
        .1
        .last_position;
    let whole = past(&copy, Some(&archive)).unwrap().from_archive(1, last);
    let first = first_of(&archive, &longer);
    assert!(first < 60);
    copy.take_away(&own);
    let past = past(&copy, Some(&archive)).unwrap();
    let (target, _) = restore(&past, 1, None).unwrap();
    assert!(verify(&target).unwrap().1 == payloads(1..=last));
    let came = past.from_archive(1, last);
    assert_eq!(came.positions, last - first + 1);
    assert_eq!(came.segments, whole.segments);
    // Also where only the lost one is wanted.
    let came = past.from_archive(1, 59);
    assert_eq!((came.segments, came.positions), (1, 60 - first));
}

#[test]
fn an_archive_gap_behind_a_backup_is_reported_and_not_silently_skipped() {
    let (copy, archive) = left_behind();
    let whole = past(&copy, Some(&archive)).unwrap();
    let (_, report) = restore(&whole, 1, None).unwrap();
    let last = report.last_position;
    let came = whole.from_archive(1, last);
    assert_eq!(came.positions, last - 60);
    assert!(came.segments > 3, "{came:?}");
    assert_eq!(whole.from_archive(1, 60).positions, 0);
    let names = segments(&archive);
    let (gone, behind) = (&names[names.len() - 3], &names[names.len() - 2]);
    archive.take_away(gone);
    let gap = past(&copy, Some(&archive)).unwrap();
    let (position, what) = match restore(&gap, 1, None) {
        Err(Error::Damaged {
            file,
            position,
            what,
            ..
        }) => {
            assert!(file.ends_with(behind), "{file}");
            (position.unwrap(), what)
        }
        other => panic!("{:?}", other.map(|(_, report)| report)),
    };
    assert!(
        what.contains(&format!("positions {position} to ")),
        "{what}"
    );
    assert!(what.contains("are missing before this segment"), "{what}");
    assert!(gap.records(&mut Shown::default()).is_err());
    // What comes before the gap can be had.
    assert!((61..last).contains(&position));
    for upto in [30, 60, 61, position - 1] {
        let (target, _) = restore(&gap, 1, Some(upto)).unwrap();
        assert!(verify(&target).unwrap().1 == payloads(1..=upto));
    }
    assert_eq!(
        gap.from_archive(1, position - 1).positions,
        position - 1 - 60
    );
    for upto in [position, last] {
        let refused = restore(&gap, 1, Some(upto)).map(drop);
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{upto}");
    }
}

#[test]
fn damage_in_a_later_archived_segment_hinders_no_restore_to_before_it() {
    let (copy, archive) = left_behind();
    let names = segments(&archive);
    let damaged = &names[names.len() - 3];
    let first = first_of(&archive, damaged);
    assert!(first > 61);
    archive.flip(damaged, archive.bytes(damaged).unwrap().len() / 2, 1);
    let past = past(&copy, Some(&archive)).unwrap();
    let error = restore(&past, 1, None).err().unwrap();
    assert!(past.is_of_archive(&error), "{error}");
    let last = past.whole_before(&error).unwrap();
    assert!(first < last, "{error}");
    for upto in [1, 60, 61, first - 1, first, last] {
        let (target, _) = restore(&past, 1, Some(upto)).unwrap();
        assert!(verify(&target).unwrap().1 == payloads(1..=upto), "{upto}");
    }
    let error = restore(&past, 1, Some(last + 1)).err().unwrap();
    assert_eq!(past.whole_before(&error), Some(last), "{error}");
}

#[test]
fn a_backup_s_reader_shows_later_archived_records_and_names_missing_ones() {
    let (copy, archive) = left_behind();
    let whole = past(&copy, Some(&archive)).unwrap();
    let last = restore(&whole, 1, None).unwrap().1.last_position;
    for from in [1, 60, 61, last] {
        let (seen, end) = read(&copy, &archive, from);
        assert_eq!(end.unwrap().missed, None);
        assert!(seen == numbered(from, last), "{from}");
    }
    let names = segments(&archive);
    let gone = &names[names.len() - 3];
    let missing = first_of(&archive, gone);
    archive.take_away(gone);
    for from in [1, missing, last] {
        let (seen, end) = read(&copy, &archive, from);
        assert!(seen == numbered(from, missing - 1), "{from}");
        let what = end.unwrap_err().to_string();
        assert!(what.contains(&format!("positions {missing} to ")), "{what}");
        let whole = format!("; up to {} everything is there", missing - 1);
        assert!(what.contains(&whole), "{what}");
    }
    // A reader that stops before the gap misses nothing.
    let reader = LiveReader::open_with_archive(copy.storage(), archive.storage(), 1);
    let mut reader = reader.unwrap();
    let end = reader.read_on(&mut |record| {
        Ok(match record.position < missing - 1 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    });
    assert!(end.unwrap().stopped);
}

#[test]
fn a_foreign_archived_file_is_reported_with_the_last_complete_position() {
    let (copy, archive) = left_behind();
    let whole = past(&copy, Some(&archive)).unwrap();
    let last = restore(&whole, 1, None).unwrap().1.last_position;
    let other = disk(7);
    append(&mut open(&other).unwrap().log, 1..=3);
    let bytes = other.bytes(&segments(&other)[0]).unwrap();
    let names = segments(&archive);
    let (folder, _) = names[0].rsplit_once('/').unwrap();
    let stray = format!("{folder}/segment-{:016}.log", 99);
    archive.put(&stray, &bytes);
    let past = past(&copy, Some(&archive)).unwrap();
    let error = restore(&past, 1, None).err().unwrap();
    let what = error.to_string();
    assert!(what.contains(&stray), "{what}");
    let told = format!("the file holds another segment; up to {last} everything is there");
    assert!(what.contains(&told), "{what}");
    assert!(past.is_of_archive(&error));
    assert_eq!(past.whole_before(&error), Some(last));
    let (target, _) = restore(&past, 1, Some(last)).unwrap();
    assert!(verify(&target).unwrap().1 == payloads(1..=last));
}

#[test]
fn an_archive_without_segments_of_the_log_names_their_expected_folder() {
    let (source, archive) = (SimDisk::new(), disk(5));
    archived(&source, &archive);
    let log_id = verify(&source).unwrap().0.log_id;
    let folder: String = log_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let of_another = past(&source, Some(&disk(7))).unwrap();
    assert_eq!(of_another.empty_archive(), Some(&*format!("sim:{folder}")));
    assert!(restore(&of_another, 1, None).is_ok());
    assert_eq!(past(&source, None).unwrap().empty_archive(), None);
    let own = past(&source, Some(&archive)).unwrap();
    assert_eq!(own.empty_archive(), None);
}

#[test]
fn a_diverged_archived_segment_does_not_replace_the_log_s_own() {
    let base = SimDisk::new();
    append(&mut open(&base).unwrap().log, 1..=50);
    let (source, other, archive) = (base.after_kill(), base.after_kill(), disk(5));
    append(&mut open(&source).unwrap().log, 51..=60);
    let copy = backup(&source);
    let mut log = open(&other).unwrap().log;
    for number in 51..=200 {
        log.append(&[payload(number + 1)]).unwrap();
    }
    snapshot(&mut log, 190).unwrap();
    snapshot(&mut log, 195).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let own = segments(&copy).pop().unwrap();
    let names = segments(&archive);
    let archived = names.iter().find(|name| name.ends_with(&own)).unwrap();
    assert!(archive.bytes(archived).unwrap().len() > copy.bytes(&own).unwrap().len());
    let past = past(&copy, Some(&archive)).unwrap();
    match restore(&past, 1, None) {
        Err(Error::Damaged { file, what, .. }) => {
            assert!(file.ends_with(&own), "{file}");
            assert!(what.contains("another way"), "{what}");
        }
        other => panic!("{:?}", other.map(|(_, report)| report)),
    }
    let (target, _) = restore(&past, 1, Some(60)).unwrap();
    assert!(verify(&target).unwrap().1 == payloads(1..=60));
}

#[test]
fn a_stray_segment_in_an_archive_hides_none_of_those_before_it() {
    let (source, archive) = (SimDisk::new(), disk(5));
    append(&mut open(&source).unwrap().log, 1..=100);
    // Each start has assigned a number to a segment that was never used.
    drop(open(&source).unwrap());
    let mut log = open(&source).unwrap().log;
    append(&mut log, 101..=200);
    snapshot(&mut log, 100).unwrap();
    snapshot(&mut log, 150).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    log.seal().unwrap();
    drop(log);
    let names = segments(&archive);
    let number = |name: &str| {
        let digits = name.rsplit_once("segment-").unwrap().1;
        digits.trim_end_matches(".log").parse::<u64>().unwrap()
    };
    let last = names.last().unwrap();
    let free = number(last) + 1;
    assert!(free < number(&segments(&source)[0]), "{names:?}");
    let mut bytes = archive.bytes(&names[1]).unwrap();
    bytes[40..48].copy_from_slice(&free.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let stray = last.replace(&format!("{:016}", free - 1), &format!("{free:016}"));
    archive.put(&stray, &bytes);
    for is_sound in [true, false] {
        if !is_sound {
            archive.flip(&stray, 4_100, 1);
        }
        let past = past(&source, Some(&archive)).unwrap();
        assert_eq!(past.earliest(), 1);
        let (target, _) = restore(&past, 1, Some(20)).unwrap();
        assert!(verify(&target).unwrap().1 == payloads(1..=20));
    }
}

#[test]
fn a_reader_shows_what_was_archived_and_what_came_after_it() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let first = archived(&source, &archive);
    let mut log = open(&source).unwrap().log;
    let read = |from| {
        let reader = LiveReader::open_with_archive(source.storage(), archive.storage(), from);
        let mut reader = reader.unwrap();
        let mut seen = Vec::new();
        let end = reader.read_on(&mut |record| {
            seen.push((record.position, record.payload.to_vec()));
            Ok(ControlFlow::Continue(()))
        });
        (seen, end.unwrap(), reader)
    };
    for from in [1, 7, first - 1, first, 180] {
        let (seen, end, reader) = read(from);
        assert_eq!(end.missed, None);
        assert!(reader.first_position().unwrap() <= from);
        assert!(seen == (from..=200).zip(payloads(from..=200)).collect::<Vec<_>>());
    }
    // A compaction goes on beside a reader.
    let (_, _, mut reader) = read(1);
    append(&mut log, 201..=300);
    snapshot(&mut log, 280).unwrap();
    snapshot(&mut log, 290).unwrap();
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    log.seal().unwrap();
    let mut seen = Vec::new();
    let end = reader.read_on(&mut |record| {
        seen.push(record.position);
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(end.unwrap().missed, None);
    assert!(seen == (201..=300).collect::<Vec<_>>());
    assert_eq!(read(1).0.len(), 300);
}

#[test]
fn logs_restored_from_each_other_share_an_archive_without_overwriting() {
    let (source, archive) = (SimDisk::new(), disk(5));
    archived(&source, &archive);
    let before: Vec<_> = segments(&archive);
    let bytes: Vec<_> = before.iter().map(|name| archive.bytes(name)).collect();
    let (target, _) = restore(&past(&source, None).unwrap(), 1, None).unwrap();
    let copy = backup(&target);
    let mut log = open(&target).unwrap().log;
    append(&mut log, 201..=400);
    snapshot(&mut log, 380).unwrap();
    snapshot(&mut log, 390).unwrap();
    assert!(
        log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
            .unwrap()
            .segments
            > 3
    );
    let after: Vec<_> = before.iter().map(|name| archive.bytes(name)).collect();
    assert!(bytes == after, "the archive of the first log is as it was");
    assert!(segments(&archive).len() > before.len() + 3);
    // Both logs can be restored to an earlier position.
    let first = past(&source, Some(&archive)).unwrap();
    assert!(verify(&restore(&first, 2, Some(10)).unwrap().0).unwrap().1 == payloads(1..=10));
    drop(log);
    let second = past(&copy, Some(&archive)).unwrap();
    assert!(
        verify(&restore(&second, 3, Some(210)).unwrap().0)
            .unwrap()
            .1
            == payloads(1..=210)
    );
}

#[test]
fn a_file_that_is_in_an_archive_is_left_as_it_is() {
    let (source, archive) = (SimDisk::new(), disk(5));
    let mut log = open(&source).unwrap().log;
    append(&mut log, 1..=100);
    snapshot(&mut log, 80).unwrap();
    snapshot(&mut log, 90).unwrap();
    let copy = source.after_kill();
    let third = source.after_kill();
    // A copy of the directory is run beside the first.
    log.compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    let names = segments(&archive);
    let mut other = open(&copy).unwrap().log;
    let again = other
        .compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    assert!(again.segments > 0, "what is the same is no hindrance");
    let copy = source.after_kill();
    drop(copy);
    // Another segment under the same name is refused.
    let other_source = SimDisk::new();
    let mut other = open(&other_source).unwrap().log;
    for number in 1..=100 {
        other.append(&[payload(number + 1)]).unwrap();
    }
    snapshot(&mut other, 80).unwrap();
    snapshot(&mut other, 90).unwrap();
    let bytes = archive.bytes(&names[0]).unwrap();
    let before = segments(&other_source);
    let error = other
        .compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap_err();
    assert!(error.to_string().contains("left as it is"), "{error}");
    assert!(archive.bytes(&names[0]).unwrap() == bytes);
    assert!(segments(&other_source) == before, "nothing was removed");
    other.append(&[payload(1)]).unwrap();
    // So is a longer file that begins with the same bytes.
    let longer = archive.storage().open_write(&names[0]).unwrap();
    longer.set_length(bytes.len() as u64 + 8).unwrap();
    let mut third = open(&third).unwrap().log;
    let error = third
        .compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap_err();
    assert!(error.to_string().contains("left as it is"), "{error}");
}

#[test]
fn a_log_knows_under_which_id_each_position_was_appended() {
    let source = SimDisk::new();
    let mut log = open(&source).unwrap().log;
    append(&mut log, 1..=20);
    drop(log);
    let ids = |report: &Report| {
        let ancestors = report.ancestors.iter();
        ancestors
            .map(|one| (one.log_id, one.upto))
            .collect::<Vec<_>>()
    };
    let (first, report) = restore(&past(&source, None).unwrap(), 1, Some(15)).unwrap();
    assert_eq!(ids(&report), [([1; 16], 15)]);
    let mut log = open(&first).unwrap().log;
    append(&mut log, 16..=30);
    // The ancestors outlive starts, changes of segments, snapshots and compactions.
    snapshot(&mut log, 20).unwrap();
    snapshot(&mut log, 25).unwrap();
    log.compact(&wal::Keep::NOTHING, None).unwrap();
    drop(log);
    let (report, _) = verify(&first).unwrap();
    assert_eq!(ids(&report), [([1; 16], 15)]);
    let copy = backup(&first);
    assert_eq!(ids(&verify(&copy).unwrap().0), [([1; 16], 15)]);
    let (second, report) = restore(&past(&copy, None).unwrap(), 2, None).unwrap();
    assert_eq!(ids(&report), [([1; 16], 15), ([11; 16], 30)]);
    // A recovery hands them on.
    let mut log = open(&second).unwrap().log;
    append(&mut log, 31..=40);
    drop(log);
    let salvage = wal::Salvage::survey(second.storage()).unwrap();
    let report = salvage.give_up_after(40).unwrap().report;
    assert_eq!(
        ids(&report),
        [([1; 16], 15), ([11; 16], 30), ([21; 16], 40)]
    );
    assert_eq!(report.log_id, [22; 16]);
}

/// The file of a log's ancestors.
fn ancestors_of(disk: &SimDisk) -> String {
    let names = disk.names().into_iter();
    let mut names = names.filter(|name| name.starts_with("ancestors-"));
    let name = names.next().unwrap();
    assert_eq!(names.next(), None);
    name
}

#[test]
fn a_log_without_its_manifest_still_knows_its_ancestors() {
    let source = SimDisk::new();
    append(&mut open(&source).unwrap().log, 1..=20);
    let (restored, _) = restore(&past(&source, None).unwrap(), 1, Some(15)).unwrap();
    append(&mut open(&restored).unwrap().log, 16..=30);
    // A log that an earlier release restored has no such file before it is started.
    let started = restored.after_kill();
    started.take_away(&ancestors_of(&restored));
    assert!(verify(&started).is_ok());
    drop(open(&started).unwrap());
    for from in [&restored, &backup(&restored), &started] {
        for is_lost in [true, false] {
            let disk = from.after_kill();
            if is_lost {
                disk.take_away("manifest");
            } else {
                disk.flip("manifest", 100, 1);
            }
            assert!(verify(&disk).is_err());
            let salvage = Salvage::survey(disk.storage()).unwrap();
            let report = salvage.give_up_after(30).unwrap().report;
            let ids = report.ancestors.iter().map(|one| (one.log_id, one.upto));
            assert_eq!(ids.collect::<Vec<_>>(), [([1; 16], 15), ([11; 16], 30)]);
        }
    }
}

#[test]
fn damaged_ancestors_are_told_and_a_start_writes_them_anew() {
    let source = SimDisk::new();
    append(&mut open(&source).unwrap().log, 1..=20);
    let (restored, _) = restore(&past(&source, None).unwrap(), 1, Some(15)).unwrap();
    let name = ancestors_of(&restored);
    let bytes = restored.bytes(&name).unwrap();
    let damaged = || {
        let disk = restored.after_kill();
        disk.flip(&name, 50, 1);
        disk
    };
    match verify(&damaged()).map(drop) {
        Err(Error::Damaged { file, .. }) => assert!(file.ends_with(&name), "{file}"),
        other => panic!("{other:?}"),
    }
    let disk = damaged();
    assert_eq!(open(&disk).unwrap().records.len(), 15);
    assert!(disk.bytes(&name) == Some(bytes));
    assert!(verify(&disk).is_ok());
    // Without a manifest the altered ancestors are not trusted, and that is reported.
    let disk = damaged();
    disk.take_away("manifest");
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let told = salvage
        .damage()
        .iter()
        .any(|found| found.file.ends_with(&name));
    assert!(told, "{:?}", salvage.damage());
    assert!(salvage.give_up_after(15).is_ok());
}
