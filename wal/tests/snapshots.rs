//! Snapshots and compaction: what was appended is found in whichever way it is read, and a snapshot
//! that cannot be read is passed over or refused.

use std::thread;

use rand::Rng;
use wal::storage::sim::{Fault, SimDisk, Survivors};
use wal::{BoxError, Error, Log, Record, Salvage, SnapshotInfo, Visitor};

use crate::support::{
    Heard, eventually, note_of, open, random, record, refusal, seed, segments, small, snapshot,
    snapshots, unlike, verify,
};

/// A log with two snapshots and some records after them.
fn logged(seed: u64, compacted: bool) -> (SimDisk, Vec<Vec<u8>>) {
    let disk = SimDisk::new();
    let mut random = random(seed);
    let mut log = open(&disk).unwrap().log;
    let mut appended = Vec::new();
    for number in 0..90 {
        let record = record(&mut random, 900);
        log.append(std::slice::from_ref(&record)).unwrap();
        appended.push(record);
        match number {
            40 => drop(snapshot(&mut log, 35).unwrap()),
            70 => drop(snapshot(&mut log, 71).unwrap()),
            80 if compacted => {
                assert!(log.compact(&wal::Keep::NOTHING, None).unwrap().segments > 0)
            }
            _ => {}
        }
    }
    log.seal().unwrap();
    (disk, appended)
}

#[test]
fn a_log_is_read_from_its_newest_snapshot() {
    for compacted in [false, true] {
        let (disk, appended) = logged(11, compacted);
        let (report, found) = verify(&disk).unwrap();
        assert!(found == appended);
        assert_eq!(report.records, 90 - 71);
        assert_eq!(report.snapshots.len(), 2);
        let opened = open(&disk).unwrap();
        assert!(opened.records == appended);
        assert_eq!(opened.entries.len(), 3);
        assert_eq!(opened.entries[0], b"entry 0 of 71");
        assert_eq!(opened.report.snapshot.unwrap().covers, 71);
        assert_eq!(opened.report.first_position > 1, compacted);
        for (position, record) in (1..).zip(&appended) {
            let read = opened.log.read(position).unwrap();
            assert_eq!(read.as_ref(), Some(record), "position {position}");
        }
        let mut history = Vec::new();
        opened
            .log
            .history(85, &mut |record| {
                history.push(record.payload.to_vec());
                Ok(())
            })
            .unwrap();
        assert!(history == appended[..85]);
    }
}

#[test]
fn only_what_the_older_snapshot_covers_is_removed() {
    let (disk, appended) = logged(12, true);
    let first = verify(&disk).unwrap().0.first_position;
    assert!((2..=36).contains(&first), "{first}");
    // The newest snapshot is gone: the older one and the log make up for it.
    let newest = snapshots(&disk).pop().unwrap();
    disk.take_away(&newest);
    assert!(matches!(verify(&disk), Err(Error::Damaged { .. })));
    let opened = open(&disk).unwrap();
    assert!(opened.records == appended);
    assert_eq!(opened.report.bad_snapshots.len(), 1);
    drop(opened);
    assert!(verify(&disk).unwrap().1 == appended);
}

#[test]
fn a_snapshot_s_unpacked_size_is_reported_by_its_writer_and_its_reader() {
    let disk = SimDisk::new();
    let start = || {
        let log = open(&disk).unwrap().log;
        log.start(Heard::default().events()).unwrap()
    };
    let appender = start();
    assert_eq!(appender.unpacked_snapshot_bytes(), 0);
    for _ in 0..300 {
        appender
            .sequence()
            .push(b"say it once more ".repeat(30))
            .unwrap();
    }
    eventually("all is durable", || appender.durable() == 300);
    let mut writer = appender.begin_snapshot(300).unwrap();
    appender
        .history(300, &mut |record| {
            let Record { position, payload } = record;
            Ok(match position > 100 {
                true => writer.keep_noted(position, &[7; 20], payload),
                false => writer.keep(position, payload),
            }?)
        })
        .unwrap();
    writer.entry(&[7; 100_000]).unwrap();
    let file = appender.install(writer, 300).unwrap().bytes;
    // The size counts, beside each record, its position and its length, and so on; and notes.
    let (least, most) = (
        300 * 510 + 100_000,
        300 * 522 + 100_004 + 6 * 48 + 200 * 25 + 4 * 4,
    );
    let told = appender.unpacked_snapshot_bytes();
    assert!((least..=most).contains(&told), "{told}");
    assert!(file * 20 < told, "{file}");
    appender.shutdown().unwrap();
    for takes in [false, true] {
        let mut noting = Noting {
            takes,
            ..Noting::default()
        };
        let (log, _) = Log::open(disk.storage(), small(), &mut noting).unwrap();
        assert_eq!(noting.notes.len(), 200);
        let appender = log.start(Heard::default().events()).unwrap();
        assert_eq!(appender.unpacked_snapshot_bytes(), told);
        appender.shutdown().unwrap();
    }
}

/// Collects notes, and the records they belong to unless notes are enough.
#[derive(Default)]
struct Noting {
    takes: bool,
    notes: Vec<(u64, Vec<u8>)>,
    kept: Vec<(u64, Vec<u8>)>,
    entries: usize,
}

impl Visitor for Noting {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        *self = Self {
            takes: self.takes,
            ..Self::default()
        };
        Ok(())
    }

    fn takes_notes(&self) -> bool {
        self.takes
    }

    fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
        self.notes.push((position, note.to_vec()));
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.kept.push((record.position, record.payload.to_vec()));
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        self.entries += 1;
        Ok(())
    }
}

#[test]
fn a_visitor_that_takes_notes_gets_them_for_records_and_others_get_both() {
    const LAST: u64 = 400;
    let disk = SimDisk::new();
    // Some blocks are packed, and some are not.
    let kept = |position: u64| match position > 200 {
        true => unlike(position, 700),
        false => position.to_le_bytes().repeat(90),
    };
    let note = |position: u64| match position {
        1..=30 | 120..=140 | 399.. => None,
        position => Some(vec![
            position.to_le_bytes()[0];
            usize::try_from(position % 256).unwrap()
        ]),
    };
    let mut log = open(&disk).unwrap().log;
    for position in 1..=LAST {
        log.append(&[position.to_le_bytes().to_vec()]).unwrap();
    }
    log.seal().unwrap();
    drop(log);
    let mut log = open(&disk).unwrap().log;
    for _ in 0..2 {
        let mut writer = log.begin_snapshot(LAST).unwrap();
        for position in 1..=LAST {
            let kept = kept(position);
            match note(position) {
                Some(note) => writer.keep_noted(position, &note, &kept).unwrap(),
                None => writer.keep(position, &kept).unwrap(),
            }
        }
        writer.entry(b"an entry").unwrap();
        log.install(writer, LAST).unwrap();
    }
    log.compact(&wal::Keep::NOTHING, None).unwrap();
    let shown = |takes| {
        let mut noting = Noting {
            takes,
            ..Noting::default()
        };
        wal::verify(disk.storage(), &mut noting).unwrap();
        noting
    };
    drop(log);
    let all: Vec<_> = (1..=LAST).collect();
    let noted: Vec<_> = all
        .iter()
        .filter_map(|position| Some((*position, note(*position)?)))
        .collect();
    for takes in [true, false] {
        let Noting {
            notes,
            kept: records,
            entries,
            ..
        } = shown(takes);
        assert!(notes == noted && entries == 1);
        let has_record = |position: &&u64| !takes || note(**position).is_none();
        let expected = all.iter().filter(has_record);
        assert!(
            records
                .into_iter()
                .eq(expected.map(|position| (*position, kept(*position))))
        );
    }
    // Each record is found, whether or not it has a note.
    let (mut log, _) = Log::open(disk.storage(), small(), &mut shown(true)).unwrap();
    for position in 1..=LAST {
        assert_eq!(log.read(position).unwrap(), Some(kept(position)));
    }
    // A recovery that gives up some of the log writes the snapshots again, with their notes.
    log.append(&[unlike(1, 3_000)]).unwrap();
    log.append(&[unlike(2, 3_000)]).unwrap();
    log.seal().unwrap();
    drop(log);
    let last = segments(&disk).pop().unwrap();
    disk.flip(&last, 4096 + 1_000, 1);
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let way = salvage.ways()[0];
    salvage.give_up_after(way.keep_to).unwrap();
    let Noting { notes, kept, .. } = shown(false);
    assert!(notes == noted && kept.len() == all.len());
}

#[test]
fn every_damaged_byte_of_the_newest_snapshot_is_passed_over() {
    let (disk, appended) = logged(13, true);
    let newest = snapshots(&disk).pop().unwrap();
    let length = disk.bytes(&newest).unwrap().len();
    for at in (0..length)
        .step_by(97)
        .chain(0..112)
        .chain(length - 80..length)
    {
        let damaged = disk.after_kill();
        damaged.flip(&newest, at, 1 << (at % 8));
        let noted = damaged.after_kill();
        let error = verify(&damaged).unwrap_err();
        if !matches!(error, Error::Unsupported { .. }) {
            assert!(matches!(error, Error::Damaged { .. }), "byte {at}: {error}");
            let mut opened = open(&damaged).unwrap();
            assert!(opened.records == appended, "byte {at}");
            assert_eq!(opened.report.bad_snapshots.len(), 1);
            assert!(damaged.bytes(&format!("{newest}.bad")).is_some());
            let mut noting = Noting {
                takes: true,
                ..Noting::default()
            };
            Log::open(noted.storage(), small(), &mut noting).unwrap();
            let older = (1..=35).filter_map(|at| Some((at, note_of(at)?.to_vec())));
            assert!(noting.notes.into_iter().eq(older), "byte {at}");
            // From here on two good snapshots are kept again.
            snapshot(&mut opened.log, 90).unwrap();
            drop(opened);
            assert_eq!(verify(&damaged).unwrap().0.snapshots.len(), 2);
        }
    }
}

#[test]
fn each_damaged_snapshot_is_kept_also_where_another_one_had_its_number() {
    let (disk, _) = logged(14, true);
    let newest = snapshots(&disk).pop().unwrap();
    let mut kept = Vec::new();
    for round in 0..3 {
        let mut bytes = disk.bytes(&newest).unwrap();
        bytes[200 + round] ^= 1;
        disk.put(&newest, &bytes);
        kept.push(bytes);
        let mut log = open(&disk).unwrap().log;
        snapshot(&mut log, 80).unwrap();
        drop(log);
        assert_eq!(snapshots(&disk).pop().as_ref(), Some(&newest));
    }
    for (bytes, suffix) in kept.into_iter().zip([".bad", ".bad.2", ".bad.3"]) {
        assert!(disk.bytes(&format!("{newest}{suffix}")) == Some(bytes));
    }
}

/// Says only after a snapshot was shown that it cannot be used, if it covers more than is wanted.
struct Choosing {
    covers_most: u64,
    covers: u64,
    records: Vec<Vec<u8>>,
    entries: usize,
    is_shown: bool,
}

impl Visitor for Choosing {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        assert!(self.is_shown || self.covers == 0, "the snapshot has ended");
        self.records.push(record.payload.to_vec());
        Ok(())
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        (self.covers, self.entries, self.is_shown) = (info.covers, 0, false);
        self.records.clear();
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.records.push(record.payload.to_vec());
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        self.entries += 1;
        Ok(())
    }

    fn snapshot_shown(&mut self) -> Result<(), BoxError> {
        assert_eq!((self.entries, self.is_shown), (3, false), "all was shown");
        self.is_shown = true;
        match self.covers > self.covers_most {
            true => Err("as a whole it cannot be".into()),
            false => Ok(()),
        }
    }

    fn reset(&mut self) {
        self.covers = 0;
        self.records.clear();
    }
}

#[test]
fn a_snapshot_that_cannot_be_used_as_a_whole_is_passed_over() {
    for covers_most in [71, 70, 34] {
        let (disk, appended) = logged(15, false);
        let mut choosing = Choosing {
            covers_most,
            covers: 0,
            records: Vec::new(),
            entries: 0,
            is_shown: false,
        };
        let (log, report) = Log::open(disk.storage(), small(), &mut choosing).unwrap();
        assert!(choosing.records == appended);
        let covers = [71, 35].into_iter().find(|covers| *covers <= covers_most);
        assert_eq!(report.snapshot.map(|snapshot| snapshot.covers), covers);
        let bad = report.bad_snapshots.iter().map(|bad| bad.what.as_str());
        let expected = [71, 35].into_iter().filter(|covers| *covers > covers_most);
        assert!(bad.eq(expected.map(|_| "as a whole it cannot be")));
        drop(log);
    }
}

#[test]
fn without_readable_snapshots_only_an_uncompacted_log_is_read() {
    for compacted in [false, true] {
        let (disk, appended) = logged(14, compacted);
        for name in snapshots(&disk) {
            disk.flip(&name, 100, 1);
        }
        if compacted {
            let error = refusal(&disk).to_string();
            assert!(error.contains("no other snapshot can be read"), "{error}");
            assert!(error.contains(&snapshots(&disk)[1]), "{error}");
        } else {
            let opened = open(&disk).unwrap();
            assert!(opened.records == appended);
            assert_eq!(opened.report.bad_snapshots.len(), 2);
        }
    }
}

#[test]
fn a_log_that_ends_before_its_snapshot_has_lost_something() {
    let (disk, _) = logged(15, true);
    for name in segments(&disk) {
        let bytes = disk.bytes(&name).unwrap();
        disk.put(&name, &vec![0; bytes.len()]);
    }
    assert!(matches!(refusal(&disk), Error::Damaged { .. }));
}

#[test]
fn a_snapshot_that_is_given_up_leaves_nothing() {
    let (disk, appended) = logged(16, false);
    let opened = open(&disk).unwrap();
    let before = disk.names();
    let mut writer = opened.log.begin_snapshot(80).unwrap();
    writer.keep(3, b"three").unwrap();
    assert_ne!(disk.names(), before);
    drop(writer);
    assert_eq!(disk.names(), before);
    drop(opened);
    assert!(verify(&disk).unwrap().1 == appended);
}

#[test]
fn everything_may_be_compacted_and_the_log_goes_on() {
    let (disk, mut appended) = logged(17, false);
    let mut opened = open(&disk).unwrap();
    snapshot(&mut opened.log, 90).unwrap();
    snapshot(&mut opened.log, 90).unwrap();
    let compacted = opened.log.compact(&wal::Keep::NOTHING, None).unwrap();
    assert_eq!(compacted.first_position, 91);
    drop(opened);
    for round in 0..3 {
        let mut opened = open(&disk).unwrap();
        assert!(opened.records == appended, "round {round}");
        appended.push(vec![round; 10]);
        opened.log.append(&appended[appended.len() - 1..]).unwrap();
    }
    let (report, found) = verify(&disk).unwrap();
    assert!(found == appended);
    assert_eq!(report.first_position, 91);
}

#[test]
fn compacted_segments_are_in_the_archive() {
    let (disk, appended) = logged(18, false);
    let before: Vec<_> = segments(&disk)
        .iter()
        .map(|name| (name.clone(), disk.bytes(name).unwrap()))
        .collect();
    let archive = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    let compacted = opened
        .log
        .compact(&wal::Keep::NOTHING, Some(archive.storage().as_ref()))
        .unwrap();
    assert!(compacted.segments > 1);
    let kept = archive.after_power_cut(Survivors::Nothing);
    for (name, bytes) in &before[..usize::try_from(compacted.segments).unwrap()] {
        // The segment is in the folder of the log, whose id is the disk's first.
        let archived = kept.bytes(&format!("{}/{name}", "01".repeat(16)));
        let archived = archived.unwrap();
        assert!(bytes[..archived.len()] == archived);
        assert!(bytes[archived.len()..].iter().all(|byte| *byte == 0));
        assert!(disk.bytes(name).is_none());
    }
    drop(opened);
    assert!(open(&disk).unwrap().records == appended);
}

#[test]
fn snapshots_and_compaction_go_on_beside_appends() {
    let seed = seed(19);
    let disk = SimDisk::new();
    let heard = Heard::default();
    let appender = open(&disk).unwrap().log.start(heard.events()).unwrap();
    let mut appended = Vec::new();
    thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let mut taken = 0;
            while taken < 6 {
                let covers = appender.durable();
                let last = appender.snapshots().first().map_or(0, |s| s.covers);
                if covers < last + 40 {
                    thread::yield_now();
                    continue;
                }
                let mut writer = appender.begin_snapshot(covers).unwrap();
                appender
                    .history(covers, &mut |record| {
                        Ok(writer.keep(record.position, record.payload)?)
                    })
                    .unwrap();
                let upto = appender.appended();
                let mut read_back = 0;
                appender
                    .install_throttled(writer, upto, &mut || {
                        read_back += 1;
                        Ok(())
                    })
                    .unwrap();
                assert!(
                    read_back >= covers,
                    "there is time to rest after each record"
                );
                appender.compact(&wal::Keep::NOTHING, None).unwrap();
                taken += 1;
            }
        });
        let mut random = random(seed);
        while !keeper.is_finished() {
            let record = record(&mut random, 700);
            let position = appender.sequence().push(&record).unwrap();
            appended.push(record);
            let back = random.random_range(1..=position);
            if back <= appender.durable() {
                let read = appender.read(back).unwrap();
                let expected = &appended[usize::try_from(back).unwrap() - 1];
                assert_eq!(read.as_ref(), Some(expected), "position {back}");
            }
            if appender.queued_bytes() > 100_000 {
                thread::yield_now();
            }
            // A keeper that gets less of the processor than this thread would
            // have more and more to copy, without an end.
            let covered = || appender.snapshots().first().map_or(0, |s| s.covers);
            while position > covered() + 2_000 && !keeper.is_finished() {
                thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        keeper.join().unwrap();
    });
    eventually("all is durable", || {
        appender.durable() == appender.appended()
    });
    assert_eq!(appender.snapshots().len(), 2);
    assert!(appender.snapshots()[1].covers > 40);
    appender.shutdown().unwrap();
    let opened = open(&disk).unwrap();
    assert!(opened.records == appended);
    assert!(opened.report.first_position > 1);
    assert!(opened.report.records < appended.len() as u64);
    assert_eq!(small().reserve_bytes, 0);
}

#[test]
fn a_disk_without_space_for_a_snapshot_is_no_harm() {
    let (disk, appended) = logged(20, false);
    let mut opened = open(&disk).unwrap();
    let used: usize = disk
        .names()
        .iter()
        .map(|name| disk.bytes(name).unwrap().len())
        .sum();
    disk.set_capacity(used as u64 + 9_000);
    let error = snapshot(&mut opened.log, 90).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    opened.log.append(&[b"goes on".to_vec()]).unwrap();
    disk.set_capacity(u64::MAX);
    snapshot(&mut opened.log, 91).unwrap();
    drop(opened);
    let found = verify(&disk).unwrap().1;
    assert!(found[..90] == appended);
}

#[test]
fn a_snapshot_that_the_disk_wrote_wrong_is_not_installed() {
    for write in 0.. {
        let (disk, appended) = logged(21, true);
        let mut log = open(&disk).unwrap().log;
        disk.fail_call(write, Fault::Garbled);
        let before = log.snapshots();
        let installed = snapshot(&mut log, 90);
        let Some(garbled) = disk.failed_call() else {
            // All writes of a snapshot were tried.
            assert!(installed.is_ok() && write > 2, "{write} writes");
            return;
        };
        if garbled.name.starts_with("snapshot-") {
            let error = installed.err().unwrap().to_string();
            assert!(error.contains("read back"), "{error}");
            assert_eq!(log.snapshots(), before);
            // The garbled write did no harm: the next snapshot is sound.
            snapshot(&mut log, 90).unwrap();
            drop(log);
            assert!(verify(&disk).unwrap().1 == appended);
        }
    }
}

fn given_up() -> Error {
    Error::Stopped {
        reason: "given up".into(),
    }
}

#[test]
fn a_snapshot_is_given_up_wherever_its_caller_breathes_and_leaves_nothing() {
    let (disk, appended) = logged(22, false);
    let appender = open(&disk).unwrap().log.start(Heard::default().events());
    let appender = appender.unwrap();
    // Another thread makes the next segment meanwhile.
    let snapshots_there = || {
        let mut names = disk.names();
        names.retain(|name| name.starts_with("snapshot-"));
        names
    };
    let (before, names) = (appender.snapshots(), snapshots_there());
    let mut pieces = 0;
    for last in [1, 2, 45, 90, u64::MAX] {
        let mut writer = appender.begin_snapshot(90).unwrap();
        appender
            .history(90, &mut |record| {
                Ok(writer.keep(record.position, record.payload)?)
            })
            .unwrap();
        pieces = 0;
        let installed = appender.install_throttled(writer, 90, &mut || {
            pieces += 1;
            if pieces == last {
                Err(given_up())
            } else {
                Ok(())
            }
        });
        if last == u64::MAX {
            assert_eq!(installed.unwrap().covers, 90);
            continue;
        }
        let error = installed.unwrap_err();
        assert!(matches!(error, Error::Stopped { .. }), "{error}");
        assert_eq!(pieces, last, "no piece is read after that");
        assert_eq!(
            (appender.snapshots(), snapshots_there()),
            (before.clone(), names.clone())
        );
    }
    assert_eq!(pieces, 90);
    appender.shutdown().unwrap();
    assert!(verify(&disk).unwrap().1 == appended);
}

#[test]
fn a_snapshot_that_waits_for_a_full_disk_is_given_up() {
    let disk = SimDisk::new();
    let appender = open(&disk).unwrap().log.start(Heard::default().events());
    let appender = appender.unwrap();
    appender.sequence().push(b"first").unwrap();
    eventually("it is durable", || appender.durable() == 1);
    let writer = appender.begin_snapshot(1).unwrap();
    disk.set_capacity(0);
    let mut upto = 1;
    while appender.has_room() {
        upto = appender.sequence().push(unlike(1, 1000)).unwrap();
        eventually("it is written or there is no room", || {
            appender.durable() == upto || !appender.has_room()
        });
    }
    for _ in 0..20 {
        upto = appender.sequence().push(unlike(1, 1000)).unwrap();
    }
    let mut waits = 0;
    let installed = appender.install_throttled(writer, upto, &mut || {
        waits += 1;
        if waits == 3 { Err(given_up()) } else { Ok(()) }
    });
    assert!(matches!(installed, Err(Error::Stopped { .. })));
    assert_eq!(waits, 3);
}

#[test]
fn a_compaction_that_is_given_up_while_it_copies_removes_nothing() {
    let (disk, appended) = logged(23, false);
    let appender = open(&disk).unwrap().log.start(Heard::default().events());
    let appender = appender.unwrap();
    let before = segments(&disk);
    let archive = SimDisk::new();
    let mut pieces = 0;
    let compacted = appender.compact_throttled(
        &wal::Keep::NOTHING,
        Some(archive.storage().as_ref()),
        &mut |_, _| {
            pieces += 1;
            if pieces == 2 { Err(given_up()) } else { Ok(()) }
        },
    );
    assert!(matches!(compacted, Err(Error::Stopped { .. })));
    assert!(segments(&disk).starts_with(&before));
    // The next compaction has everything to do, and does it, and reports its progress.
    let archive = archive.storage();
    let mut told = Vec::new();
    let compacted = appender.compact_throttled(
        &wal::Keep::NOTHING,
        Some(archive.as_ref()),
        &mut |done, total| {
            told.push((done, total));
            Ok(())
        },
    );
    let compacted = compacted.unwrap();
    assert!(compacted.segments > 1);
    // What the compaction before had copied is there already.
    assert!(told[0].0 < compacted.bytes, "{told:?}");
    assert!(told.iter().all(|(_, total)| *total == compacted.bytes));
    assert!(told.is_sorted(), "{told:?}");
    assert_eq!(told.last(), Some(&(compacted.bytes, compacted.bytes)));
    appender.shutdown().unwrap();
    assert!(verify(&disk).unwrap().1 == appended);
}
