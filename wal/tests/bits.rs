//! Every bit of a data directory is flipped: the same records, or a refusal
//! that says where; `verify` notices a damaged snapshot, a start falls back to
//! the one before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use wal::live::LiveReader;
use wal::storage::sim::SimDisk;

use crate::files::{Directory, directory};
use crate::outcome::{Outcome, opened, verified};
use crate::support::{random, seed, segments, size, snapshots};

#[test]
fn every_flipped_bit_gives_the_same_records_or_a_refusal() {
    let seed = seed(11);
    // A log of `SIZE` bytes; every bit of it, of the snapshots and of the manifest is flipped.
    let bytes = size(8 << 10);
    let Directory {
        disk,
        records,
        options,
        ..
    } = directory(seed, bytes, true);
    let newest = snapshots(&disk).pop().unwrap();
    let covered = covered(&disk);
    assert!(!covered.is_empty());
    let files: Vec<_> = disk
        .names()
        .into_iter()
        .map(|name| {
            let length = disk.bytes(&name).unwrap().len();
            (name, length)
        })
        .collect();
    let all: usize = files.iter().map(|(_, length)| length).sum();
    // `PART=2/4` is the second quarter of the bytes, for several runs.
    let (part, parts) = part();
    let range = all * (part - 1) / parts..all * part / parts;
    println!("bytes {range:?} of {all}");
    let next = AtomicU64::new(range.start as u64);
    let [same, refused, starts] = [const { AtomicU64::new(0) }; 3];
    thread::scope(|scope| {
        for _ in 0..2 {
            let disk = disk.after_kill();
            let (files, records, options, newest) = (&files, &records, &options, &newest);
            let covered = &covered;
            let (next, same, refused, starts, range) = (&next, &same, &refused, &starts, &range);
            scope.spawn(move || {
                loop {
                    let number = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                    if number >= range.end {
                        return;
                    }
                    let (mut file, mut at) = (0, number);
                    while at >= files[file].1 {
                        at -= files[file].1;
                        file += 1;
                    }
                    let name = &files[file].0;
                    for bit in 0..8 {
                        let case = || format!("SEED={seed}, {name}, byte {at}, bit {bit}");
                        disk.flip(name, at, 1 << bit);
                        let seen = verified(&disk, records, &case);
                        match seen {
                            Outcome::Same => same.fetch_add(1, Ordering::Relaxed),
                            Outcome::Refused => refused.fetch_add(1, Ordering::Relaxed),
                            Outcome::Shorter(count) => panic!("{}: {count} records", case()),
                        };
                        // One bit of each byte also goes through a start.
                        if bit == at % 8 {
                            let snapshot = name.ends_with(".snap");
                            let expected = match seen {
                                Outcome::Refused if snapshot => Outcome::Same,
                                seen => seen,
                            };
                            let started = opened(&disk, options, records, &case);
                            // Of the segments that a snapshot covers, a start and the reader of its
                            // records see no more than these records.
                            let unseen = started == Outcome::Same && covered.contains(name);
                            assert!(started == expected || unseen, "{}: {started:?}", case());
                            starts.fetch_add(1, Ordering::Relaxed);
                            assert!(!snapshot || seen == Outcome::Refused || name != newest);
                        }
                        disk.flip(name, at, 1 << bit);
                    }
                }
            });
        }
    });
    let (same, refused) = (same.into_inner(), refused.into_inner());
    println!(
        "{} flips through verify: {same} did no harm, {refused} were refused; {} of them \
         also through a start",
        same + refused,
        starts.into_inner()
    );
    assert_eq!(same + refused, range.len() as u64 * 8);
    assert!(
        parts > 1 || same > 0 && refused > same * 3,
        "nearly all bytes matter"
    );
}

/// The segments that the newest snapshot covers.
fn covered(disk: &SimDisk) -> Vec<String> {
    let reader = LiveReader::open(disk.storage(), 1).unwrap();
    let covers = reader.snapshots().unwrap()[0].covers;
    let files = reader.segments().unwrap();
    let names = segments(disk);
    let covered = |name: &&String| {
        let file = files.iter().find(|file| file.file.ends_with(name.as_str()));
        file.is_some_and(|file| file.sealed.is_some_and(|(_, last)| last <= covers))
    };
    names.iter().filter(covered).cloned().collect()
}

/// Returns which part of how many to try.
fn part() -> (usize, usize) {
    let text = std::env::var("PART").unwrap_or_else(|_| "1/1".to_owned());
    let (part, parts) = text.split_once('/').unwrap();
    let (part, parts) = (part.parse().unwrap(), parts.parse().unwrap());
    assert!((1..=parts).contains(&part), "PART={text}");
    (part, parts)
}

#[test]
fn several_flipped_bits_give_the_same_records_or_a_refusal() {
    use rand::Rng;
    let (seed, size) = (seed(12), size(3_000));
    let Directory {
        disk,
        records,
        options,
        ..
    } = directory(seed, 24 << 10, true);
    let names = disk.names();
    let last = crate::support::segments(&disk).pop().unwrap();
    let mut random = random(seed);
    let (mut same, mut refused) = (0, 0);
    for number in 0..size {
        let damaged = disk.after_kill();
        let mut flips = Vec::new();
        for _ in 0..random.random_range(2..12) {
            let name = &names[random.random_range(0..names.len())];
            let at = random.random_range(0..disk.bytes(name).unwrap().len());
            let bit = random.random_range(0..8);
            // The last batch and the seal that proves it must not both be altered.
            if *name != last || flips.iter().all(|(name, _, _)| *name != last) {
                flips.push((name.clone(), at, bit));
            }
        }
        for (name, at, bit) in &flips {
            damaged.flip(name, *at, 1 << bit);
        }
        let case = || format!("SEED={seed}, number {number}, {flips:?}");
        for seen in [
            verified(&damaged, &records, &case),
            opened(&damaged, &options, &records, &case),
        ] {
            match seen {
                Outcome::Same => same += 1,
                Outcome::Refused => refused += 1,
                Outcome::Shorter(count) => panic!("{}: {count} records", case()),
            }
        }
    }
    println!("{same} times the same records, {refused} refusals");
    assert!(refused > same);
}
