//! A damaged data directory of the service: the state that was there, or a refusal that names file
//! and offset; never another state.
//!
//! ```text
//! EVERY_BIT=1 cargo test --release --test main durability::damage -- --nocapture
//! ```
//!
//! tries every bit, and tears a batch at every byte; by default a fixed share of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carebook::cli::open::Replaying;
use carebook::journal::replay::{Recovered, Replay};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wal::live::LiveReader;
use wal::storage::sim::SimDisk;
use wal::{BoxError, Error, Log, Options, Record, Visitor};

use super::inside::{engine, small};
use super::load::{Town, memories};
use super::share;
use crate::support::{Server, files, frames, seed};

/// What a start finds: the tables, the number of the last outbox message, the last commit.
type Found = ([u8; 32], i64, u64);

fn found(recovered: &Recovered, records: u64) -> Found {
    let number = recovered.counters.outbox_number;
    (recovered.tables.digest(), number, records)
}

/// Recovery as `serve` does it, on a copy.
fn recovered(disk: &SimDisk) -> Result<Found, Error> {
    let mut replaying = Replaying::new("recovering");
    let options = Options {
        create: false,
        ..small()
    };
    let (_, report) = Log::open(disk.after_kill().storage(), options, &mut replaying)?;
    Ok(found(&replaying.finish(), report.records))
}

/// The check as `verify` does it, which writes nothing.
fn verified(disk: &SimDisk) -> Result<Found, Error> {
    let mut replaying = Replaying::verifying();
    let report = wal::verify(disk.storage(), &mut replaying)?;
    Ok(found(&replaying.finish(), report.records))
}

/// Fails the test unless the refusal names a file that there is, and an offset in it.
#[track_caller]
fn names_its_place(disk: &SimDisk, error: &Error, case: &str) {
    let Error::Damaged { file, offset, .. } = error else {
        panic!("{case}: {error}");
    };
    let bytes = disk.bytes(file.trim_start_matches("sim:"));
    let length = bytes.unwrap_or_default().len() as u64;
    assert!(*offset <= length, "{case}: offset {offset} of {file}");
    let sentence = error.to_string();
    let place = format!("{file}, offset {offset}");
    assert!(sentence.contains(&place), "{case}: {sentence}");
}

/// The data directory of a server that was killed under load, with a few hundred records: one for
/// all tests.
fn killed_directory(seed: u64) -> SimDisk {
    static KILLED: OnceLock<SimDisk> = OnceLock::new();
    KILLED.get_or_init(|| kill_a_server(seed)).after_kill()
}

fn kill_a_server(seed: u64) -> SimDisk {
    let town = Town::new();
    let mut memories = memories(seed);
    let server = Server::start(&town.world);
    town.settle(&server);
    let address = server.address.clone();
    std::thread::scope(|scope| {
        for memory in &mut memories {
            let (town, address) = (&town, &address);
            scope.spawn(move || town.work(address, memory, 0));
        }
        let started = Instant::now();
        while town.figures.acknowledged.load(Ordering::Relaxed) <= 250 {
            assert!(started.elapsed() < Duration::from_secs(60), "too slow");
            std::thread::sleep(Duration::from_millis(2));
        }
        server.kill();
    });
    let disk = SimDisk::new();
    for file in files(&town.world.data()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name != "lock" {
            disk.put(name, &std::fs::read(&file).unwrap());
        }
    }
    disk
}

/// What a start finds of these records, the first of the log on this disk.
fn after(disk: &SimDisk, payloads: &[Vec<u8>]) -> Found {
    let mut replay = Replay::new();
    replay.lineage(crate::support::lineage_of(disk.after_kill().storage()));
    for (position, payload) in (1..).zip(payloads) {
        replay.record(position, payload).unwrap();
    }
    found(&replay.finish().unwrap(), payloads.len() as u64)
}

/// The records of a log, all that it still has.
fn records_of(disk: &SimDisk) -> Vec<Vec<u8>> {
    let mut payloads = Payloads::default();
    wal::records(disk.storage().as_ref(), &mut payloads).unwrap();
    payloads.0
}

#[derive(Default)]
struct Payloads(Vec<Vec<u8>>);

impl Visitor for Payloads {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.0.push(record.payload.to_vec());
        Ok(())
    }
}

#[test]
fn a_torn_last_batch_leaves_what_was_acknowledged_or_a_refusal() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let disk = killed_directory(seed);
    let payloads = records_of(&disk);
    let all = payloads.len();
    assert!(all > 200, "{all} records");
    println!("as it was killed: {}", tear(&disk, &payloads, &mut random));
    // The same records, the last of them in one large batch that was not acknowledged yet.
    let disk = SimDisk::new();
    let (log, _) = Log::open(disk.storage(), small(), &mut Replaying::new("recovering")).unwrap();
    let mut log = log;
    let (before, last) = payloads.split_at(all - 7);
    for batch in before.chunks(5) {
        log.append(batch).unwrap();
    }
    log.append(last).unwrap();
    drop(log);
    println!(
        "with a large batch: {}",
        tear(&disk, &payloads, &mut random)
    );
}

/// Tears the last batch of a log that has these records; what it came to, for people.
fn tear(disk: &SimDisk, payloads: &[Vec<u8>], random: &mut StdRng) -> String {
    let all = payloads.len();
    let mut segments = disk.names();
    segments.retain(|name| name.ends_with(".log"));
    // The newest segment with a batch in it: one behind it may be there already, empty.
    let (last, bytes, (from, to), records) = segments
        .iter()
        .rev()
        .find_map(|name| {
            let bytes = disk.bytes(name)?;
            let records = |at: usize| {
                u32::from_le_bytes(bytes[at + 48..at + 52].try_into().unwrap()) as usize
            };
            let mut batches = frames(&bytes);
            batches.retain(|(from, _)| records(*from) > 0);
            let batch = batches.pop()?;
            let count = records(batch.0);
            Some((name.clone(), bytes, batch, count))
        })
        .unwrap();
    let (whole, before) = (
        after(disk, payloads),
        after(disk, &payloads[..all - records]),
    );
    assert_eq!(recovered(disk).unwrap(), whole);
    let (mut kept, mut shorter, mut refused) = (0, 0, 0);
    let mut attempt = |torn: &[u8], case: &str| {
        let damaged = disk.after_kill();
        damaged.put(&last, torn);
        let differs = torn.get(from..to) != Some(&bytes[from..to]);
        match recovered(&damaged) {
            Ok(found) if found == whole => kept += 1,
            Ok(found) if found == before && differs => shorter += 1,
            Ok(found) => panic!("{case}: {found:?}, neither {whole:?} nor {before:?}"),
            Err(error) => {
                names_its_place(&damaged, &error, case);
                refused += 1;
            }
        }
    };
    let every = share("EVERY_BIT", 0) > 0;
    // The server's own segments are megabytes of zeros: there, not every byte is worth its time.
    let all_cuts = every && bytes.len() < 1 << 20;
    let cuts = if every { 200 } else { 20 };
    let step = if all_cuts {
        1
    } else {
        ((to - from) / cuts).max(1)
    };
    for cut in (from..to).step_by(step).chain([to]) {
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        attempt(&torn, &format!("zeros from {cut}"));
        attempt(&bytes[..cut], &format!("cut off at {cut}"));
    }
    for sector in from / 512..=(to - 1) / 512 {
        for garbage in [false, true] {
            let mut torn = bytes.clone();
            // What shares the sector with earlier frames was synced with them.
            let part = (sector * 512).max(from)..(sector * 512 + 512).min(bytes.len());
            torn[part.clone()].fill(0);
            if garbage {
                random.fill(&mut torn[part]);
            }
            attempt(&torn, &format!("sector {sector}, garbage: {garbage}"));
        }
    }
    assert!(kept > 0 && shorter + refused > 0);
    format!(
        "{all} records, the last batch of {records} in {} bytes torn: whole {kept} times, \
         {shorter} times without that batch, {refused} times refused",
        to - from
    )
}

#[test]
fn a_flipped_bit_never_makes_another_state() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let source = killed_directory(seed);
    let payloads = records_of(&source);
    // The same records in small segments and several starts: at least 64 KiB of files, where the
    // server's would be megabytes of zeros.
    let disk = SimDisk::new();
    let mut left = payloads.as_slice();
    let open = || {
        Log::open(disk.storage(), small(), &mut Replaying::new("recovering"))
            .unwrap()
            .0
    };
    let mut log = open();
    while disk.used() < 64 << 10 {
        let count = random.random_range(1..5).min(left.len());
        let (batch, behind) = left.split_at(count);
        log.append(batch).unwrap();
        left = behind;
        if random.random_ratio(1, 8) {
            drop(log);
            log = open();
        }
    }
    // As after 50 ms without commands: an unmarked last batch may be taken for an unfinished one.
    log.seal().unwrap();
    drop(log);
    let records = payloads.len() - left.len();
    let whole = after(&disk, &payloads[..records]);
    assert_eq!(verified(&disk).unwrap(), whole);
    assert_eq!(recovered(&disk).unwrap(), whole);

    let (same, refused) = flip_bits(&disk, whole, 401, seed);
    println!("{records} records: {same} flipped bits did no harm, {refused} were refused");
    assert!(same > 0 && refused > 0);
}

/// The same with snapshots: a log of several starts, each of which took one, so that two are there
/// and the log begins with what the older one does not cover.
#[test]
fn a_flipped_bit_in_a_directory_with_snapshots_never_makes_another_state() {
    let seed = seed();
    let source = killed_directory(seed);
    let mut payloads = records_of(&source);
    payloads.truncate(240);
    let disk = SimDisk::new();
    let parts = payloads.chunks(payloads.len() / 4 + 1);
    let last = parts.len() - 1;
    for (number, part) in parts.enumerate() {
        let mut replaying = Replaying::new("recovering");
        let (mut log, _) = Log::open(disk.storage(), small(), &mut replaying).unwrap();
        for batch in part.chunks(5) {
            log.append(batch).unwrap();
        }
        log.seal().unwrap();
        drop(log);
        if number < last {
            let (engine, _) = engine(&disk).unwrap();
            engine.snapshot_now(&mut |_| {}).unwrap().unwrap();
            engine.shut_down().unwrap();
        }
    }
    let names = disk.names();
    let snapshots = names.iter().filter(|name| name.ends_with(".snap")).count();
    assert_eq!(snapshots, 2, "{names:?}");
    let whole = verified(&disk).unwrap();
    let (digest, ..) = after(&disk, &payloads);
    assert_eq!(
        whole.0, digest,
        "the tables of snapshot and log, and those of all records"
    );
    let (mut same, mut refused) = flip_bits(&disk, whole, 4_801, seed);
    if same == 0 {
        // Few do no harm: of so small a share, now and then none.
        (same, refused) = flip_bits(&disk, whole, 401, seed);
    }
    println!(
        "{} records, two snapshots: {same} flipped bits did no harm, {refused} were refused",
        payloads.len()
    );
    assert!(same > 0 && refused > 0);
}

/// The segments that the newest snapshot covers.
fn covered(disk: &SimDisk) -> Vec<String> {
    let reader = LiveReader::open(disk.storage(), 1).unwrap();
    let newest = reader.snapshots().unwrap().first().copied();
    let covers = newest.map_or(0, |newest| newest.covers);
    let files = reader.segments().unwrap();
    let covered = |name: &String| {
        let file = files.iter().find(|file| file.file.ends_with(name));
        let sealed = file.and_then(|file| file.sealed);
        sealed.is_some_and(|(_, last)| last <= covers)
    };
    disk.names().into_iter().filter(covered).collect()
}

/// Flips one bit after the other, each `step`th of all (with `EVERY_BIT` each): the same tables
/// and the same outbox come of a start and of a check, or a refusal that names its place. How
/// many did no harm, and how many were refused.
fn flip_bits(disk: &SimDisk, whole: Found, step: usize, seed: u64) -> (u64, u64) {
    // A snapshot that is passed over has more records shown behind it.
    let same_state = |found: &Found| (found.0, found.1) == (whole.0, whole.1);
    let places: Vec<_> = disk
        .names()
        .into_iter()
        .filter(|name| name != "lock")
        .flat_map(|name| {
            let bits = disk.bytes(&name).unwrap().len() * 8;
            (0..bits).map(move |bit| (name.clone(), bit))
        })
        .collect();
    assert!(places.len() >= 8 * (64 << 10), "{} bits", places.len());
    let step = if share("EVERY_BIT", 0) > 0 { 1 } else { step };
    let covered = covered(disk);
    let next = AtomicUsize::new(0);
    let (same, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let disk = disk.after_kill();
            let (places, next, same, refused) = (&places, &next, &same, &refused);
            let covered = &covered;
            scope.spawn(move || {
                while let Some((name, bit)) = places.get(next.fetch_add(step, Ordering::Relaxed)) {
                    let case = format!("SEED={seed}, {name}, bit {bit}");
                    let flip = || disk.flip(name, bit / 8, 1 << (bit % 8));
                    flip();
                    let verdict = verified(&disk);
                    match &verdict {
                        Ok(found) => {
                            assert!(same_state(found), "{case}: {found:?}");
                            same.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            names_its_place(&disk, error, &case);
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    // A start comes to what the check comes to, but for a bad snapshot, which it
                    // passes over when it can do without.
                    if bit % 8 == bit / 8 % 8 {
                        let started = recovered(&disk);
                        // Of what the snapshot covers it reads no more than the beginning.
                        let is_covered = covered.contains(name);
                        let passes_over =
                            (name.ends_with(".snap") || is_covered) && started.is_ok();
                        assert!(started.is_ok() == verdict.is_ok() || passes_over, "{case}");
                        assert!(started.is_err() || same_state(&started.unwrap()), "{case}");
                    }
                    flip();
                }
            });
        }
    });
    println!("{} bits, every {step}th flipped", places.len());
    (same.into_inner(), refused.into_inner())
}
