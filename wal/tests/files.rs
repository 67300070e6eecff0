//! Files deleted, emptied, swapped, replaced by older versions of themselves,
//! cut off, lengthened; blocks exchanged: the same records, or a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng;
use rand::seq::SliceRandom;
use wal::Options;
use wal::storage::sim::SimDisk;

use crate::outcome::{Outcome, opened, verified};
use crate::support::{frames, open_with, random, record, seed, segments, size, snapshot};
use crate::workload::on_two_threads;

const BLOCK: usize = 4096;

/// A log of several epochs and segments, compacted, with two snapshots.
pub(crate) struct Directory {
    pub(crate) disk: SimDisk,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) options: Options,
    /// The content of each file after each step, each version once.
    pub(crate) versions: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

/// Makes a directory with `bytes` bytes of records. The last segment is open and ends with a seal
/// when `tail`; otherwise the log was opened once more, so that the manifest lists every record.
pub(crate) fn directory(seed: u64, bytes: u64, tail: bool) -> Directory {
    let bytes = usize::try_from(bytes).unwrap();
    let mut random = random(seed);
    // Frames are large for such a log, because hashing is then faster, and most of the time goes
    // there.
    let record_max = (bytes / 24).clamp(600, 24 << 10);
    let segment = u64::try_from(record_max * 2).unwrap();
    let options = Options {
        segment_bytes_min: 8 << 10,
        segment_bytes_max: segment * 4,
        batch_bytes_max: 4 << 10,
        reserve_bytes: 0,
        seal_after: Duration::from_millis(5),
        create: true,
        ..Options::default()
    };
    let disk = SimDisk::new();
    let start = || open_with(disk.storage(), options.clone()).unwrap().log;
    let mut versions: BTreeMap<String, BTreeSet<Vec<u8>>> = BTreeMap::new();
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut log = start();
    let (mut written, mut taken) = (0, 0);
    // Snapshots are read first, whatever is damaged after them: in a large directory they are a
    // small part.
    let early = if bytes > 256 << 10 { 32 } else { 8 };
    while written < bytes {
        let batch: Vec<_> = (0..random.random_range(1..5))
            .map(|_| record(&mut random, record_max))
            .collect();
        written += batch.iter().map(Vec::len).sum::<usize>();
        log.append(&batch).unwrap();
        records.extend(batch);
        if random.random_ratio(1, 10) {
            log.seal().unwrap();
        }
        if taken < 2 && written > bytes * (taken + 1) / early {
            taken += 1;
            let covers = log.last_position();
            snapshot(&mut log, covers).unwrap();
            log.compact(&wal::Keep::NOTHING, None).unwrap();
        }
        if random.random_ratio(1, 9) {
            drop(log);
            log = start();
        }
        for name in disk.names() {
            let version = disk.bytes(&name).unwrap();
            versions.entry(name).or_default().insert(version);
        }
    }
    drop(log);
    log = start();
    if tail {
        // The last batch is a single record: a mark that is one too low gives it up.
        for (bytes_max, count) in [(30, 3), (1000, 3), (300, 1)] {
            let batch: Vec<_> = (0..count).map(|_| record(&mut random, bytes_max)).collect();
            log.append(&batch).unwrap();
            records.extend(batch);
        }
        log.seal().unwrap();
    }
    drop(log);
    // The disk is as after a restart: nothing is unsynced, no call was counted.
    Directory {
        disk: disk.after_kill(),
        records,
        options,
        versions,
    }
}

/// Counts what damage was taken for.
#[derive(Default)]
struct Tally {
    same: AtomicU64,
    refused: AtomicU64,
    shorter: AtomicU64,
}

impl Tally {
    fn count(&self, seen: Outcome) {
        match seen {
            Outcome::Same => &self.same,
            Outcome::Refused => &self.refused,
            Outcome::Shorter(_) => &self.shorter,
        }
        .fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `verify` and a start on a damaged directory: neither may show other or fewer records, and
/// what `verify` accepts a start accepts.
fn expect(directory: &Directory, damaged: &SimDisk, tally: &Tally, case: &dyn Fn() -> String) {
    let seen = verified(damaged, &directory.records, case);
    let started = opened(damaged, &directory.options, &directory.records, case);
    for seen in [seen, started] {
        assert!(
            !matches!(seen, Outcome::Shorter(_)),
            "{}: {seen:?} of {}",
            case(),
            directory.records.len()
        );
        tally.count(seen);
    }
    assert!(
        seen == Outcome::Refused || started == Outcome::Same,
        "{}: {seen:?}, then {started:?}",
        case()
    );
}

#[test]
fn damaged_files_give_the_same_records_or_a_refusal() {
    let (seed, bytes) = (seed(51), size(24 << 10));
    let tally = Tally::default();
    let mut cases = 0;
    for tail in [false, true] {
        let directory = directory(seed, bytes, tail);
        let disk = &directory.disk;
        let names = disk.names();
        assert!(segments(disk).len() >= 4, "{names:?}");
        let mut random = random(seed);
        let mut damage = |case: &str, with: &mut dyn FnMut(&SimDisk)| {
            let damaged = disk.after_kill();
            with(&damaged);
            let case = || format!("SEED={seed}, tail: {tail}, {case}");
            expect(&directory, &damaged, &tally, &case);
            cases += 1;
        };
        for name in &names {
            let bytes = disk.bytes(name).unwrap();
            damage(&format!("{name} deleted"), &mut |disk| disk.take_away(name));
            for other in names.iter().filter(|other| *other > name) {
                damage(&format!("{name} and {other} deleted"), &mut |disk| {
                    disk.take_away(name);
                    disk.take_away(other);
                });
                damage(&format!("{name} and {other} swapped"), &mut |disk| {
                    disk.put(name, &disk.bytes(other).unwrap());
                    disk.put(other, &bytes);
                });
            }
            for other in names.iter().filter(|other| *other != name) {
                damage(&format!("{other} in the place of {name}"), &mut |disk| {
                    disk.put(name, &disk.bytes(other).unwrap());
                });
            }
            let mut cuts: BTreeSet<usize> = (0..bytes.len()).step_by(BLOCK).collect();
            cuts.extend((0..40).map(|_| random.random_range(0..bytes.len())));
            cuts.extend(frames(&bytes).into_iter().map(|(_, end)| end));
            cuts.extend([1, bytes.len() - 1]);
            for cut in cuts {
                damage(&format!("{name} cut off at {cut}"), &mut |disk| {
                    disk.put(name, &bytes[..cut]);
                });
                // A file zeroed from the last seal on is the tail of a log, whose last batch then
                // has left no trace.
                let last = tail && segments(disk).last() == Some(name);
                if !last {
                    damage(&format!("{name} zeroed from {cut}"), &mut |disk| {
                        let mut zeroed = bytes.clone();
                        zeroed[cut..].fill(0);
                        disk.put(name, &zeroed);
                    });
                }
            }
            for more in [1, 7, 512, BLOCK] {
                for fill in [0, 0x57] {
                    damage(&format!("{name} longer by {more} x {fill}"), &mut |disk| {
                        let mut longer = bytes.clone();
                        longer.resize(bytes.len() + more, fill);
                        disk.put(name, &longer);
                    });
                }
            }
        }
        // One file as it was earlier, and files that were removed since.
        for (name, versions) in &directory.versions {
            for (number, version) in versions.iter().enumerate() {
                if disk.bytes(name).as_ref() != Some(version) {
                    damage(&format!("{name} in version {number}"), &mut |disk| {
                        disk.put(name, version);
                    });
                }
            }
        }
    }
    println!(
        "{cases} damaged directories: {:?} times the same records, {:?} refusals",
        tally.same, tally.refused
    );
    assert!(tally.refused.into_inner() > cases);
}

#[test]
fn exchanged_blocks_give_the_same_records_or_a_refusal() {
    let seed = seed(52);
    // With `SIZE`, a log of that many bytes and every pair of blocks; without it, some pairs.
    let bytes = size(48 << 10);
    let all = std::env::var("SIZE").is_ok();
    let directory = directory(seed, bytes, false);
    let disk = &directory.disk;
    let mut blocks = Vec::new();
    for name in disk.names() {
        let length = disk.bytes(&name).unwrap().len();
        blocks.extend((0..length / BLOCK).map(|number| (name.clone(), number * BLOCK)));
    }
    let mut pairs: Vec<_> = (0..blocks.len())
        .flat_map(|one| (one + 1..blocks.len()).map(move |other| (one, other)))
        .collect();
    if !all {
        pairs.shuffle(&mut random(seed));
        pairs.truncate(1_500);
    }
    let tally = Tally::default();
    on_two_threads(0..pairs.len() as u64, |number| {
        let (one, other) = pairs[usize::try_from(number).unwrap()];
        let ((name, at), (other_name, other_at)) = (&blocks[one], &blocks[other]);
        let (bytes, other_bytes) = (disk.bytes(name).unwrap(), disk.bytes(other_name).unwrap());
        let damaged = disk.after_kill();
        let put = |name: &str, at: usize, block: &[u8]| {
            let mut bytes = damaged.bytes(name).unwrap();
            bytes[at..at + BLOCK].copy_from_slice(block);
            damaged.put(name, &bytes);
        };
        put(name, *at, &other_bytes[*other_at..other_at + BLOCK]);
        put(other_name, *other_at, &bytes[*at..at + BLOCK]);
        let case = || format!("SEED={seed}, {name} at {at} and {other_name} at {other_at}");
        expect(&directory, &damaged, &tally, &case);
    });
    println!(
        "{} exchanges among {} blocks: {:?} times the same records, {:?} refusals",
        pairs.len(),
        blocks.len(),
        tally.same,
        tally.refused
    );
    assert!(tally.refused.into_inner() > pairs.len() as u64);
}
