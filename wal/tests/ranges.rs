//! Reading a range of records by position, on every medium, while others append and compact.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::Rng;
use wal::storage::sim::SimDisk;
use wal::{Appender, Error, Keep};

use crate::support::{
    Heard, Kind, campaign, eventually, frames, open_with, random, record, seed, segments, small,
    unlike,
};

/// Returns the record for a position, which states that position.
fn made(position: u64) -> Vec<u8> {
    let length = usize::try_from(position % 7 * 150).unwrap();
    let mut record = position.to_le_bytes().to_vec();
    record.extend(unlike(position, length));
    record
}

/// Appends records, and waits until they are durable.
fn append(appender: &Appender, count: u64) {
    let mut last = appender.appended();
    for _ in 0..count {
        last = appender.sequence().push(made(last + 1)).unwrap();
    }
    eventually("all is durable", || appender.durable() >= last);
}

fn snapshot(appender: &Appender) {
    let covers = appender.durable();
    let mut writer = appender.begin_snapshot(covers).unwrap();
    let walked = appender.history(covers, &mut |record| {
        Ok(writer.keep(record.position, record.payload)?)
    });
    walked.unwrap();
    appender.install(writer, covers).unwrap();
}

/// Removes all records up to now, as far as their segments have ended.
fn compact(appender: &Appender) -> u64 {
    snapshot(appender);
    snapshot(appender);
    appender
        .compact(&Keep::NOTHING, None)
        .unwrap()
        .first_position
}

/// Returns what is shown from a position on; checks that it is what was appended there, without
/// gaps.
fn shown(appender: &Appender, from: u64, upto: u64) -> (u64, Result<u64, Error>) {
    let mut next = from;
    let ended = appender.records(from, upto, &mut |record| {
        assert_eq!(record.position, next, "without gaps");
        assert!(record.payload == made(next), "position {next}");
        next += 1;
        Ok(ControlFlow::Continue(()))
    });
    if let Ok(ended) = &ended {
        assert_eq!(*ended, next);
    }
    (next, ended)
}

fn is_gone(ended: &Result<u64, Error>, at: u64) -> bool {
    matches!(ended, Err(Error::Gone { position, first }) if *position == at && *first > at)
}

#[test]
fn a_range_shows_what_is_durable_from_any_position_to_any_other() {
    for kind in Kind::each() {
        let appender = kind.start(small(), Heard::default().events());
        assert_eq!(appender.first(), 1);
        assert_eq!(
            shown(&appender, 1, u64::MAX).1.unwrap(),
            1,
            "nothing is there"
        );
        append(&appender, 200);
        for from in 1..=201 {
            for upto in [from, from + 1, from + 40, 200, u64::MAX] {
                let (next, ended) = shown(&appender, from, upto);
                assert_eq!(ended.unwrap(), (upto.min(200) + 1).max(from));
                assert_eq!(next, (upto.min(200) + 1).max(from));
            }
        }
        let from_the_beginning = appender.records(0, 3, &mut |_| Ok(ControlFlow::Continue(())));
        assert_eq!(from_the_beginning.unwrap(), 4, "positions begin with 1");
        assert_eq!(shown(&appender, 900, u64::MAX).1.unwrap(), 900);
        // The record at which a visitor breaks has been shown.
        let mut seen = 0;
        let next = appender.records(150, u64::MAX, &mut |record| {
            seen += 1;
            Ok(match record.position {
                160 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        });
        assert_eq!((next.unwrap(), seen), (161, 11));
        let ended = appender.records(7, 9, &mut |_| Err("not this one".into()));
        assert!(matches!(ended, Err(Error::Visitor { position: 7, .. })));
    }
}

#[test]
fn compacted_records_are_gone_and_those_that_follow_are_shown() {
    let seed = seed(0x7a9e);
    for round in 0..3 * campaign() {
        for kind in Kind::each() {
            let mut random = random(seed + round);
            for _ in 0..5 {
                let appender = kind.start(small(), Heard::default().events());
                append(&appender, random.random_range(1..150));
                if random.random_bool(0.7) {
                    assert_eq!(compact(&appender), appender.first());
                }
                let (first, last) = (appender.first(), appender.durable());
                for _ in 0..40 {
                    let from = random.random_range(1..=last + 1);
                    let upto = random.random_range(from..=last + 2);
                    let (next, ended) = shown(&appender, from, upto);
                    match from < first && from <= last {
                        true => assert!(is_gone(&ended, from), "{from} before {first}: {ended:?}"),
                        false => assert_eq!(
                            (ended.unwrap(), next),
                            ((upto.min(last) + 1).max(from), next)
                        ),
                    }
                }
                appender.shutdown().unwrap();
            }
        }
    }
}

#[test]
fn a_record_that_is_removed_while_it_is_read_is_gone_and_never_skipped() {
    for kind in Kind::each() {
        let appender = kind.start(small(), Heard::default().events());
        append(&appender, 300);
        let mut next = 20;
        let ended = appender.records(20, u64::MAX, &mut |record| {
            assert_eq!(record.position, next, "without gaps");
            assert!(record.payload == made(next));
            next += 1;
            if record.position == 25 {
                assert!(compact(&appender) > 200);
            }
            Ok(ControlFlow::Continue(()))
        });
        assert!((26..200).contains(&next), "{next}");
        assert!(is_gone(&ended, next), "{ended:?}");
        let first = appender.first();
        assert_eq!(shown(&appender, first, u64::MAX).0, 301);
    }
}

#[test]
fn readers_beside_appends_new_segments_and_compactions_see_all_or_gaps() {
    for kind in Kind::each() {
        let appender = kind.start(small(), Heard::default().events());
        let (done, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
        let last = 600 * campaign();
        std::thread::scope(|scope| {
            let readers: Vec<_> = [1_u64, 17, 400]
                .into_iter()
                .map(|page| {
                    let (appender, done, begun) = (Arc::clone(&appender), &done, &begun);
                    scope.spawn(move || {
                        let (mut next, mut seen) = (1, 0);
                        loop {
                            let was_done = done.load(Ordering::SeqCst);
                            let (reached, ended) = shown(&appender, next, next + page - 1);
                            assert!(reached <= appender.durable() + 1);
                            if seen == 0 && reached > next {
                                begun.fetch_add(1, Ordering::SeqCst);
                            }
                            seen += reached - next;
                            match &ended {
                                Ok(after) if *after == next && was_done => return (next, seen),
                                Ok(after) => next = *after,
                                Err(Error::Gone { first, .. }) => {
                                    assert!(is_gone(&ended, reached));
                                    next = *first;
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            // Each reader has its first turn before a compaction may remove everything.
            append(&appender, 10);
            let has_failed = || readers.iter().any(|reader| reader.is_finished());
            while begun.load(Ordering::SeqCst) < readers.len() && !has_failed() {
                std::thread::yield_now();
            }
            while appender.durable() < last {
                append(&appender, 10);
                if appender.durable() % 40 == 0 {
                    compact(&appender);
                }
            }
            done.store(true, Ordering::SeqCst);
            for reader in readers {
                let (next, seen) = reader.join().unwrap();
                assert_eq!(next, last + 1);
                assert!(seen > 0);
            }
        });
    }
}

#[test]
fn damage_within_a_range_names_its_place_and_all_before_it_is_shown() {
    let disk = SimDisk::new();
    let opened = open_with(disk.storage(), small()).unwrap();
    let appender = opened.log.start(Heard::default().events()).unwrap();
    for _ in 0..60 {
        append(&appender, 1);
    }
    let name = segments(&disk)[1].clone();
    // Damages a batch of records after the start frame: seals, which are headers alone, stand where
    // the appender had nothing to write for a while.
    let places = frames(&disk.bytes(&name).unwrap());
    let mut batches = places[1..].iter().filter(|(from, to)| to - from > 72);
    let (from, _) = *batches.nth(2).unwrap();
    for (at, what) in [(from + 80, "payload"), (from + 20, "header")] {
        disk.flip(&name, at, 0x10);
        let (next, ended) = shown(&appender, 1, u64::MAX);
        let Err(Error::Damaged {
            file,
            offset,
            position,
            what: told,
        }) = ended
        else {
            panic!("{ended:?}");
        };
        assert!(
            file.ends_with(&name) && told.contains(what),
            "{file}: {told}"
        );
        assert_eq!((offset, position), (from as u64, Some(next)));
        assert!(next > 1 && matches!(appender.read(next), Err(Error::Damaged { .. })));
        disk.flip(&name, at, 0x10);
        assert_eq!(shown(&appender, 1, u64::MAX).0, 61);
    }
}

#[test]
fn a_page_costs_what_it_shows_and_not_what_lies_before_it() {
    let disk = SimDisk::new();
    let options = wal::Options {
        segment_bytes_min: 8 << 20,
        segment_bytes_max: 8 << 20,
        batch_bytes_max: 64 << 10,
        ..small()
    };
    let opened = open_with(disk.storage(), options).unwrap();
    let appender = opened.log.start(Heard::default().events()).unwrap();
    let mut random = random(1);
    for _ in 0..7_000 {
        appender
            .sequence()
            .push(record(&mut random, 1_800))
            .unwrap();
    }
    eventually("all is durable", || appender.durable() == 7_000);
    let calls = |from: u64| {
        let before = disk.all_calls();
        let next = appender.records(from, from + 49, &mut |_| Ok(ControlFlow::Continue(())));
        assert_eq!(next.unwrap(), from + 50);
        disk.all_calls() - before
    };
    // Waits until the other threads are done: the last batch is sealed.
    eventually("it is quiet", || {
        let before = disk.all_calls();
        std::thread::sleep(std::time::Duration::from_millis(20));
        disk.all_calls() == before
    });
    for from in [2, 1_000, 3_000, 5_000, 6_900] {
        let calls = calls(from);
        assert!(calls <= 4, "{calls} calls at {from}");
    }
}

/// Makes a log of many segments, all of which two snapshots cover, and a few records after them.
fn covered_log(disk: &SimDisk) -> u64 {
    let opened = open_with(disk.storage(), small()).unwrap();
    let appender = opened.log.start(Heard::default().events()).unwrap();
    append(&appender, 400);
    snapshot(&appender);
    appender.shutdown().unwrap();
    // From here on the last segment is listed with its end.
    let opened = open_with(disk.storage(), small()).unwrap();
    let appender = opened.log.start(Heard::default().events()).unwrap();
    append(&appender, 5);
    appender.shutdown().unwrap();
    405
}

#[test]
fn a_start_reads_only_the_beginning_of_what_a_snapshot_covers() {
    let disk = SimDisk::new();
    let last = covered_log(&disk);
    let count = segments(&disk).len();
    assert!(count > 10, "{count} segments");
    // Alters everything after the segment's first frame.
    let name = &segments(&disk)[3];
    let (end, _) = frames(&disk.bytes(name).unwrap())[1];
    let length = disk.bytes(name).unwrap().len();
    for at in (end..length).step_by(97) {
        disk.flip(name, at, 0xff);
    }
    let opened = open_with(disk.after_kill().storage(), small()).unwrap();
    assert_eq!(
        (opened.report.last_position, opened.report.records),
        (last, 5)
    );
    // A verification reads all of the segment, and so does a reader that asks for it.
    let checked = crate::support::verify(&disk);
    assert!(matches!(checked, Err(Error::Damaged { .. })), "{checked:?}");
    let mut seen = 0;
    let read = opened.log.records(1, u64::MAX, &mut |record| {
        seen = record.position;
        Ok(ControlFlow::Continue(()))
    });
    assert!(
        matches!(read, Err(Error::Damaged { position, .. }) if position == Some(seen + 1)),
        "{read:?} after {seen}"
    );
}

#[test]
fn a_start_refuses_segments_that_are_missing_or_do_not_follow_each_other() {
    let disk = SimDisk::new();
    covered_log(&disk);
    let names = segments(&disk);
    let (third, fourth) = (&names[2], &names[3]);
    let refused = |with: &dyn Fn(&SimDisk), what: &str| {
        let damaged = disk.after_kill();
        with(&damaged);
        let error = crate::support::refusal(&damaged);
        let Error::Damaged { what: told, .. } = &error else {
            panic!("{error}");
        };
        assert!(told.contains(what), "{error}");
    };
    refused(&|disk| disk.take_away(third), "missing");
    let put = |disk: &SimDisk| disk.put(third, &disk.bytes(fourth).unwrap());
    refused(&put, "another segment");
    let cut = |disk: &SimDisk| disk.put(third, &disk.bytes(third).unwrap()[..5_000]);
    refused(&cut, "the file ends here");
    // Alters the digest with which the segment begins.
    refused(&|disk| disk.flip(third, 4096 + 72, 1), "altered");
    refused(&|disk| disk.flip(third, 4096 + 60, 1), "altered");
}

#[test]
fn records_unread_at_a_start_are_found_at_once_after_the_first_time() {
    let disk = SimDisk::new();
    let options = wal::Options {
        segment_bytes_min: 4 << 20,
        segment_bytes_max: 4 << 20,
        ..small()
    };
    let mut opened = open_with(disk.storage(), options.clone()).unwrap();
    let mut random = random(2);
    let mut records = Vec::new();
    for _ in 0..4_000 {
        let batch = [record(&mut random, 1_600)];
        opened.log.append(&batch).unwrap();
        records.extend(batch);
    }
    crate::support::snapshot(&mut opened.log, 4_000).unwrap();
    drop(opened);
    drop(open_with(disk.storage(), options.clone()).unwrap());
    let opened = open_with(disk.storage(), options).unwrap();
    assert_eq!(opened.report.records, 0);
    let calls = |position: u64| {
        let before = disk.all_calls();
        let read = opened.log.read(position).unwrap().unwrap();
        assert!(read == records[usize::try_from(position - 1).unwrap()]);
        disk.all_calls() - before
    };
    let first = calls(3_500);
    for position in [3_500, 3_499, 3_600, 3_700, 3_400, 4_000] {
        let calls = calls(position);
        assert!(
            calls <= 12 && calls < first,
            "{calls} calls at {position}, {first} at first"
        );
    }
    for position in 1..=4_000 {
        calls(position);
    }
}

#[test]
fn a_compaction_keeps_what_it_is_told_to_on_every_medium_and_over_starts() {
    for kind in Kind::each() {
        let appender = kind.start(small(), Heard::default().events());
        append(&appender, 300);
        let all = appender.retained(&Keep::newest(u64::MAX));
        assert_eq!((all.needed_bytes, all.removable_bytes), (0, 0));
        let keep = Keep {
            from: 200,
            bytes: u64::MAX,
            needed_from: 120,
            needed_bytes: u64::MAX,
        };
        snapshot(&appender);
        // A segment may be closed between two looks.
        let everything = || appender.retained(&Keep::newest(u64::MAX)).bytes;
        let (kept, all) = loop {
            let (before, kept) = (everything(), appender.retained(&keep).bytes);
            if everything() == before {
                break (kept, before);
            }
        };
        assert_eq!(kept, all, "one snapshot is not enough");
        snapshot(&appender);
        let retained = appender.retained(&keep);
        assert!(retained.needed_bytes > 0 && retained.removable_bytes > 0);
        let compacted = appender.compact(&keep, None).unwrap();
        assert_eq!(compacted.bytes, retained.removable_bytes);
        assert!(
            (100..=120).contains(&compacted.first_position),
            "{compacted:?}"
        );
        let again = appender.compact(&keep, None).unwrap();
        assert_eq!((again.segments, again.bytes), (0, 0));
        let first = appender.first();
        assert_eq!(shown(&appender, first, u64::MAX).0, 301);
        appender.shutdown().unwrap();
        drop(appender);

        // What is kept is there for the next process, too, which did not read it.
        let appender = kind.start(small(), Heard::default().events());
        assert_eq!(appender.first(), first);
        assert!(is_gone(&shown(&appender, first - 1, u64::MAX).1, first - 1));
        assert_eq!(shown(&appender, first, u64::MAX).0, 301);
        assert_eq!(shown(&appender, 250, 260).0, 261);
        for position in first..=300 {
            assert!(appender.read(position).unwrap() == Some(made(position)));
        }
        let less = Keep {
            needed_from: u64::MAX,
            ..keep
        };
        appender.compact(&less, None).unwrap();
        assert!(
            (180..=200).contains(&appender.first()),
            "{}",
            appender.first()
        );
        appender.compact(&Keep::NOTHING, None).unwrap();
        assert!(appender.first() > 280, "{}", appender.first());
    }
}
