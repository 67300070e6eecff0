//! A log that is read beside the process that writes it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::Rng;
use wal::live::{LiveEnd, LiveReader};
use wal::storage::Storage;
use wal::storage::meanwhile::Meanwhile;
use wal::storage::sim::{SimDisk, Survivors};
use wal::{BoxError, Error, Options, Record, SnapshotInfo, Visitor};

use crate::support::{
    Heard, campaign, eventually, frames, open, open_with, random, record, seed, segments, size,
    small,
};

/// Records with their positions.
type Seen = Vec<(u64, Vec<u8>)>;

/// Returns all that a reader shows now.
fn read_on(reader: &mut LiveReader) -> Result<(Seen, LiveEnd), Error> {
    let mut seen = Vec::new();
    let end = reader.read_on(&mut |record| {
        let batch = record.batch;
        assert!(batch.first <= record.position);
        assert!(record.position < batch.first + u64::from(batch.records));
        seen.push((record.position, record.payload.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((seen, end))
}

fn all(disk: &SimDisk, from: u64) -> Result<Seen, Error> {
    let mut reader = LiveReader::open(disk.storage(), from)?;
    read_on(&mut reader).map(|(seen, _)| seen)
}

/// Makes a log of several segments and epochs, and closes it properly; returns its records.
fn closed(disk: &SimDisk, seed: u64, batches: usize) -> Vec<Vec<u8>> {
    let mut random = random(seed);
    let mut appended = Vec::new();
    for _ in 0..3 {
        let mut opened = open(disk).unwrap();
        for _ in 0..batches {
            let batch: Vec<_> = (0..random.random_range(1..4))
                .map(|_| record(&mut random, 900))
                .collect();
            appended.extend(batch.iter().cloned());
            opened.log.append(&batch).unwrap();
        }
        opened.log.seal().unwrap();
    }
    appended
}

fn numbered(records: &[Vec<u8>]) -> Seen {
    (1..).zip(records.iter().cloned()).collect()
}

#[test]
fn a_reader_beside_an_appender_shows_each_durable_record_once_no_other() {
    for storage in 0..2 {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = match storage {
            0 => SimDisk::new().storage(),
            _ => wal::open_dir(directory.path()).unwrap(),
        };
        let opened = open_with(Arc::clone(&storage), small()).unwrap();
        let appender = opened.log.start(Heard::default().events()).unwrap();
        let done = AtomicBool::new(false);
        let per_caller = 150_u32;
        thread::scope(|scope| {
            let callers: Vec<_> = (0..3_u32)
                .map(|caller| {
                    let appender = &appender;
                    scope.spawn(move || {
                        for number in 0..per_caller {
                            let payload = [caller.to_le_bytes(), number.to_le_bytes()].concat();
                            appender.sequence().push(payload.repeat(20)).unwrap();
                            if number % 16 == 0 {
                                thread::sleep(Duration::from_millis(1));
                            }
                        }
                    })
                })
                .collect();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let (appender, done, storage) = (&appender, &done, Arc::clone(&storage));
                    scope.spawn(move || {
                        let mut reader = LiveReader::open(storage, 1).unwrap();
                        let mut next = 1;
                        loop {
                            let last = done.load(Ordering::SeqCst);
                            let (seen, end) = read_on(&mut reader).unwrap();
                            for (position, payload) in seen {
                                assert_eq!(position, next);
                                assert!(position <= appender.durable(), "{position}");
                                let read = appender.read(position).unwrap();
                                assert!(read.as_ref() == Some(&payload), "{position}");
                                next += 1;
                            }
                            assert_eq!(end.next_position, next);
                            if last {
                                return next - 1;
                            }
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.join().unwrap();
            }
            let total = u64::from(3 * per_caller);
            eventually("all is durable", || appender.durable() == total);
            eventually("the last batch is proved by its seal", || {
                let mut reader = LiveReader::open(Arc::clone(&storage), total).unwrap();
                read_on(&mut reader).unwrap().1.next_position > total
            });
            done.store(true, Ordering::SeqCst);
            for reader in readers {
                assert_eq!(reader.join().unwrap(), total);
            }
        });
        appender.shutdown().unwrap();
    }
}

#[test]
fn the_last_batch_is_shown_once_a_seal_proves_it() {
    let disk = SimDisk::new();
    let mut opened = open(&disk).unwrap();
    let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
    assert_eq!(read_on(&mut reader).unwrap().0, []);
    opened.log.append(&[vec![1], vec![2]]).unwrap();
    let (seen, end) = read_on(&mut reader).unwrap();
    assert_eq!((seen.len(), end.unproved), (0, 2));
    opened.log.append(&[vec![3]]).unwrap();
    let (seen, end) = read_on(&mut reader).unwrap();
    assert_eq!((seen.len(), end.unproved, end.next_position), (2, 1, 3));
    opened.log.seal().unwrap();
    let (seen, end) = read_on(&mut reader).unwrap();
    assert_eq!((seen, end.unproved), (vec![(3, vec![3])], 0));
    assert_eq!(read_on(&mut reader).unwrap().0, []);
}

#[test]
fn a_reader_takes_no_lock_and_changes_nothing() {
    let disk = SimDisk::new();
    let records = closed(&disk, 1, 20);
    let (calls, names) = (disk.calls(), disk.names());
    let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
    assert!(read_on(&mut reader).unwrap().0 == numbered(&records));
    assert_eq!((disk.calls(), disk.names()), (calls, names));
    let held = open(&disk).unwrap();
    assert_eq!(
        held.records.len(),
        records.len(),
        "it can be opened beside it"
    );
    assert_eq!(read_on(&mut reader).unwrap().0, []);
    assert!(
        all(&disk, 1).unwrap() == numbered(&records),
        "and beside the one that holds it"
    );
}

#[test]
fn a_reader_goes_on_through_restarts_and_crashes_of_the_writer() {
    let seed = seed(11);
    let mut random = random(seed);
    let mut disk = SimDisk::new();
    let mut shown: Vec<Vec<u8>> = Vec::new();
    for _ in 0..12 {
        let mut opened = open(&disk).unwrap();
        let mut reader = LiveReader::open(disk.storage(), shown.len() as u64 + 1).unwrap();
        for _ in 0..random.random_range(1..30) {
            let batch = vec![record(&mut random, 900); random.random_range(1..3)];
            opened.log.append(&batch).unwrap();
            if random.random_ratio(1, 3) {
                let (seen, _) = read_on(&mut reader).unwrap();
                shown.extend(seen.into_iter().map(|(_, payload)| payload));
            }
        }
        drop(opened);
        disk = match random.random_range(0..3) {
            0 => disk.after_power_cut(Survivors::Nothing),
            1 => disk.after_kill(),
            _ => disk,
        };
        let (seen, _) = {
            let mut reader = LiveReader::open(disk.storage(), shown.len() as u64 + 1).unwrap();
            read_on(&mut reader).unwrap()
        };
        shown.extend(seen.into_iter().map(|(_, payload)| payload));
        let recovered = open(&disk).unwrap().records;
        assert!(recovered[..shown.len()] == shown, "what was shown is there");
        // What was recovered is proved: the rest can be seen now.
        let now = all(&disk, 1).unwrap();
        assert!(now == numbered(&recovered));
        shown = recovered;
    }
}

#[test]
fn records_shown_to_a_reader_survive_a_power_cut_at_any_call() {
    let seed = seed(5);
    let appended = {
        let disk = SimDisk::new();
        closed(&disk, seed, 8);
        disk.calls()
    };
    let step = usize::try_from((3 / campaign()).max(1)).unwrap();
    for cut in (1..appended).step_by(step) {
        let disk = SimDisk::new();
        disk.cut_before(cut);
        let mut shown = Vec::new();
        let mut random = random(seed);
        let mut reader = None;
        'until: for _ in 0..3 {
            let Ok(mut opened) = open(&disk) else { break };
            for _ in 0..8 {
                let batch: Vec<_> = (0..random.random_range(1..4))
                    .map(|_| record(&mut random, 900))
                    .collect();
                let appended = opened.log.append(&batch);
                // Reading needs no power in the simulation; the reader sees what the system sees.
                if reader.is_none() {
                    reader = LiveReader::open(disk.storage(), 1).ok();
                }
                if let Some(Ok((seen, _))) = reader.as_mut().map(read_on) {
                    shown.extend(seen);
                }
                if appended.is_err() {
                    break 'until;
                }
            }
            let _ = opened.log.seal();
        }
        let survived = disk.after_power_cut(Survivors::Nothing);
        match open(&survived) {
            Ok(opened) => assert!(
                numbered(&opened.records).starts_with(&shown),
                "cut {cut}: {} shown, {} survived",
                shown.len(),
                opened.records.len()
            ),
            Err(error) => panic!("cut {cut}: {error}"),
        }
    }
}

#[test]
fn a_reader_begins_at_the_segment_that_holds_the_position() {
    let disk = SimDisk::new();
    let records = closed(&disk, 2, 20);
    let expected = numbered(&records);
    for from in 1..=expected.len() {
        assert!(all(&disk, from as u64).unwrap() == expected[from - 1..]);
    }
    assert_eq!(all(&disk, expected.len() as u64 + 1).unwrap(), []);
    // Segments before the position asked for are not even opened.
    let files = LiveReader::open(disk.storage(), 1)
        .unwrap()
        .segments()
        .unwrap();
    let (second, _) = files[1].sealed.unwrap();
    disk.take_away(&segments(&disk)[0]);
    let from = usize::try_from(second).unwrap();
    assert!(all(&disk, second).unwrap() == expected[from - 1..]);
    assert!(matches!(all(&disk, 1), Err(Error::Damaged { .. })));
}

#[test]
fn damage_is_named_and_nothing_altered_is_shown() {
    let disk = SimDisk::new();
    let records = numbered(&closed(&disk, 3, 6));
    let mut random = random(seed(9));
    for name in segments(&disk) {
        let bytes = disk.bytes(&name).unwrap();
        let frames = frames(&bytes);
        for (index, (start, end)) in frames.iter().enumerate() {
            let at = random.random_range(*start..*end);
            disk.flip(&name, at, 1 << random.random_range(0..8));
            let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
            let mut seen = Vec::new();
            let end = reader.read_on(&mut |record| {
                seen.push((record.position, record.payload.to_vec()));
                Ok(ControlFlow::Continue(()))
            });
            assert!(records.starts_with(&seen), "{name} at {at}");
            // The last seal of the last segment is a mark that nothing follows.
            let last_mark = index + 1 == frames.len() && Some(&name) == segments(&disk).last();
            match end {
                Err(Error::Damaged { file, offset, .. }) => {
                    assert!(
                        file.ends_with(&name),
                        "{file}, {name} at {at}, frame {index} of {}",
                        frames.len()
                    );
                    assert!(offset <= at as u64 && at as u64 - offset < 4096);
                }
                Ok(_) if last_mark => {}
                other => panic!("{name} at {at}: {other:?}"),
            }
            disk.put(&name, &bytes);
        }
    }
    assert!(all(&disk, 1).unwrap() == records);
}

#[test]
fn a_hole_in_an_open_segment_is_damage_and_an_unfinished_end_is_not() {
    let disk = SimDisk::new();
    let options = Options {
        segment_bytes_min: 64 << 10,
        ..small()
    };
    let mut opened = open_with(disk.storage(), options).unwrap();
    for number in 0..6_u8 {
        opened.log.append(&[vec![number; 600]]).unwrap();
    }
    drop(opened);
    let name = segments(&disk).pop().unwrap();
    let whole = disk.bytes(&name).unwrap();
    let frames = frames(&whole);
    // The last frame torn: nothing proves it, nor the one before it.
    let (start, end) = frames[frames.len() - 1];
    let mut torn = whole.clone();
    torn[start + 300..end].fill(0);
    disk.put(&name, &torn);
    assert_eq!(all(&disk, 1).unwrap().len(), 4);
    // A frame before it zeroed: later ones prove that it was durable.
    let (start, end) = frames[3];
    let mut holed = whole.clone();
    holed[start..end].fill(0);
    disk.put(&name, &holed);
    match all(&disk, 1) {
        Err(Error::Damaged {
            offset, position, ..
        }) => {
            assert_eq!((offset, position), (start as u64, Some(3)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_without_a_log_is_no_empty_log() {
    let disk = SimDisk::new();
    let none = LiveReader::open(disk.storage(), 1);
    assert!(matches!(none.err(), Some(Error::NoLog { .. })));
    let name = {
        drop(open(&disk).unwrap());
        disk.take_away("manifest");
        segments(&disk).pop().unwrap()
    };
    let lost = LiveReader::open(disk.storage(), 1);
    match lost.err() {
        Some(Error::Damaged { what, .. }) => assert!(what.contains(&name), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// Keeps what a snapshot shows.
#[derive(Default)]
struct Kept {
    snapshots: Vec<u64>,
    kept: Vec<u64>,
    entries: Vec<Vec<u8>>,
}

impl Visitor for Kept {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Err("no record of the log is shown with a snapshot".into())
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        self.snapshots.push(info.number);
        self.kept.clear();
        self.entries.clear();
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.kept.push(record.position);
        Ok(())
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.entries.push(entry.to_vec());
        Ok(())
    }
}

#[test]
fn a_snapshot_is_shown_beside_the_writer_and_the_log_goes_on_behind_it() {
    let disk = SimDisk::new();
    let appender = open(&disk).unwrap().log.start(Heard::default().events());
    let appender = appender.unwrap();
    let mut early = LiveReader::open(disk.storage(), 1).unwrap();
    assert_eq!(
        early.show_snapshot(false, &mut Kept::default()).unwrap(),
        None
    );
    let mut taken = Vec::new();
    for round in 1..=3_u8 {
        for _ in 0..30 {
            appender.sequence().push(vec![round; 700]).unwrap();
        }
        let last = u64::from(round) * 30;
        eventually("all is durable", || appender.durable() == last);
        let mut writer = appender.begin_snapshot(last).unwrap();
        writer.keep(last, b"kept").unwrap();
        writer.entry(&[round]).unwrap();
        taken.push(appender.install(writer, last).unwrap());
    }
    // Before the compaction the log has everything, for the slow reader, too.
    let (seen, _) = read_on(&mut early).unwrap();
    let slow = LiveReader::open(disk.storage(), 1).unwrap();
    let removed = appender.compact(&wal::Keep::NOTHING, None).unwrap();
    assert!(removed.segments > 0);
    appender.sequence().push(b"after").unwrap();
    eventually("the seal is written", || {
        all(&disk, 91).is_ok_and(|seen| seen == [(91, b"after".to_vec())])
    });
    let missed = u64::try_from(seen.len()).unwrap();
    let (more, end) = read_on(&mut early).unwrap();
    assert_eq!(missed + u64::try_from(more.len()).unwrap(), 91);
    assert_eq!(end.missed, None);

    for (oldest, expected) in [(false, 2), (true, 1)] {
        let mut kept = Kept::default();
        let shown = slow.show_snapshot(oldest, &mut kept).unwrap().unwrap();
        assert_eq!(shown, taken[expected]);
        assert_eq!(kept.snapshots, [shown.number]);
        assert_eq!(kept.kept, [shown.covers]);
        assert_eq!(kept.entries, [vec![u8::try_from(expected + 1).unwrap()]]);
        assert!(slow.first_position().unwrap() <= shown.covers + 1);
        assert!(all(&disk, shown.covers + 1).is_ok());
    }
    let numbers: Vec<_> = slow
        .snapshots()
        .unwrap()
        .iter()
        .map(|info| info.number)
        .collect();
    assert_eq!(numbers, [taken[2].number, taken[1].number]);

    // One damaged snapshot is passed over; two are damage.
    let names: Vec<_> = disk
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".snap"))
        .collect();
    disk.flip(&names[1], 100, 1);
    let mut kept = Kept::default();
    let shown = slow.show_snapshot(false, &mut kept).unwrap().unwrap();
    assert_eq!(shown, taken[1]);
    assert_eq!(kept.entries, [[2]]);
    disk.flip(&names[0], 100, 1);
    match slow.show_snapshot(false, &mut Kept::default()) {
        Err(Error::Damaged { file, .. }) => assert!(file.ends_with(&names[1]), "{file}"),
        other => panic!("{other:?}"),
    }
    appender.shutdown().unwrap();
}

#[test]
fn a_reader_beside_compactions_shows_each_record_or_reports_it_missed() {
    let disk = SimDisk::new();
    let opened = open(&disk).unwrap();
    let appender = opened.log.start(Heard::default().events()).unwrap();
    let total = 1_500_u64;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=total {
                let payload = number.to_le_bytes().repeat(60);
                appender.sequence().push(payload).unwrap();
                if number % 8 == 0 {
                    thread::sleep(Duration::from_micros(300));
                }
            }
            eventually("all is durable", || appender.durable() == total);
            eventually("the last batch is proved by its seal", || {
                let mut reader = LiveReader::open(disk.storage(), total).unwrap();
                read_on(&mut reader).unwrap().1.next_position > total
            });
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let covers = appender.durable();
                let writer = appender.begin_snapshot(covers).unwrap();
                appender.install(writer, covers).unwrap();
                appender.compact(&wal::Keep::NOTHING, None).unwrap();
            }
        });
        // One reader keeps up, and one is so slow that it finds records gone.
        for pause in [0, 20] {
            let (disk, done) = (&disk, &done);
            scope.spawn(move || {
                let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
                let mut next = 1;
                loop {
                    let last = done.load(Ordering::SeqCst);
                    let mut seen = Vec::new();
                    let end = reader.read_on(&mut |record| {
                        seen.push((record.position, record.payload.to_vec()));
                        let enough = pause > 0 && seen.len() == 40;
                        Ok(if enough && !last {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        })
                    });
                    let end = end.unwrap();
                    let (first_missed, last_missed) = end.missed.unwrap_or((1, 0));
                    for (position, payload) in seen {
                        if position != next {
                            assert!((first_missed..=last_missed).contains(&next), "{next}");
                            assert!(position <= last_missed + 1, "{position} after {next}");
                        }
                        assert!(payload == position.to_le_bytes().repeat(60));
                        next = position + 1;
                    }
                    // The missed records may be all that there were.
                    next = next.max(last_missed + 1);
                    assert_eq!(end.next_position.max(next), next);
                    if last {
                        assert_eq!(end.next_position, total + 1);
                        return;
                    }
                    thread::sleep(Duration::from_millis(pause));
                }
            });
        }
    });
    appender.shutdown().unwrap();
}

/// Flips a bit in a share of the bytes of every file, under a reader beside a log that is open and
/// at rest: everything is shown, or damage is named. What only a seal has proved may be held back.
#[test]
fn whatever_byte_is_altered_a_reader_shows_everything_or_names_the_damage() {
    let seed = seed(12);
    let disk = SimDisk::new();
    let records = numbered(&closed(&disk, seed, 12));
    let mut opened = open(&disk).unwrap();
    let last = opened.log.append(&[vec![1; 300]]).unwrap();
    opened.log.seal().unwrap();
    let places: Vec<_> = disk
        .names()
        .into_iter()
        .flat_map(|name| {
            let bytes = disk.bytes(&name).unwrap().len();
            (0..bytes).map(move |at| (name.clone(), at))
        })
        .collect();
    let step = (places.len() / usize::try_from(size(6_000)).unwrap()).max(1);
    let (mut told, mut whole) = (0, 0);
    for (name, at) in places
        .iter()
        .skip(usize::try_from(seed).unwrap() % step)
        .step_by(step)
    {
        let damaged = disk.while_it_runs();
        damaged.flip(name, *at, 1 << (at % 8));
        match all(&damaged, 1) {
            Ok(seen) => {
                whole += 1;
                assert!(
                    seen.len() as u64 + 1 >= last,
                    "SEED={seed}: {name}, byte {at}: short"
                );
                assert!(
                    seen[..records.len()] == records,
                    "SEED={seed}: {name}, byte {at}"
                );
            }
            Err(Error::Damaged { file, .. }) => {
                told += 1;
                assert!(
                    file.ends_with(name.as_str()),
                    "SEED={seed}: {name}, byte {at}: {file}"
                );
            }
            Err(error) => panic!("SEED={seed}: {name}, byte {at}: {error}"),
        }
    }
    println!("{told} times damage was named, {whole} times everything was shown");
    assert!(told > whole);
}

/// The owner changes before each call of the reader in turn.
#[test]
fn a_reader_goes_on_wherever_the_owner_changes_while_it_reads() {
    for (is_killed, goes_on) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut at = 0;
        loop {
            let disk = SimDisk::new();
            let records = numbered(&closed(&disk, 13, 6));
            let mut log = open(&disk).unwrap().log;
            log.append(&[vec![1; 300]]).unwrap();
            log.seal().unwrap();
            let owner = parking_lot::Mutex::new(Some(log));
            let source = Meanwhile::new(&disk, at, move |disk| {
                let mut owner = owner.lock();
                let mut log = owner.take().unwrap();
                if is_killed {
                    log.append(&[vec![2; 300]]).unwrap();
                }
                drop(log);
                let mut log = open(disk).unwrap().log;
                log.append(&[vec![3; 300]]).unwrap();
                if goes_on {
                    *owner = Some(log);
                }
            });
            let source = Arc::new(source);
            let storage: Arc<dyn Storage> = Arc::clone(&source) as _;
            let read = LiveReader::open(storage, 1).and_then(|mut reader| read_on(&mut reader));
            let case = format!("before call {at}, killed {is_killed}, goes on {goes_on}");
            let seen = read.unwrap_or_else(|error| panic!("{case}: {error}")).0;
            assert!(seen.len() > records.len(), "{case}: {} shown", seen.len());
            assert!(seen[..records.len()] == records, "{case}");
            if source.calls() <= at {
                break;
            }
            at += 1;
        }
        assert!(at > 40, "{at} places");
    }
}
