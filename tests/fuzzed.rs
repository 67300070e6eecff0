//! A fixed share of what the fuzzers in fuzz/ try, on the same entry functions:
//! records, entries of snapshots and bodies of requests with bytes changed. Sound
//! ones are the fuzzers' seeds: bodies that the service accepts, and the records
//! that it writes of them. `FUZZ_WRITE_SEEDS=1` writes them anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use carebook::catalogue::OPERATIONS;
use carebook::journal::record::Record;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wal::{BoxError, SnapshotInfo, Visitor};

use crate::support::good::Good;
use crate::support::stage::{Stage, theatre};
use crate::support::{files, seed};

// Its functions are the fuzzers' own.
#[path = "../fuzz/commands.rs"]
mod commands;

/// How many inputs: `SIZE`, or the given share.
fn size(share: u64) -> u64 {
    std::env::var("SIZE").map_or(share, |text| text.parse().unwrap())
}

/// Changes some bytes, takes some away, says some twice.
fn mutate(random: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..random.random_range(0..5) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(
                at,
                *b"\"{}[]:,\\0\xff"
                    .get(random.random_range(0..11))
                    .unwrap_or(&0),
            ),
            _ => {
                let to = random.random_range(at..=bytes.len());
                let part = bytes[at..to].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

fn campaign(share: u64, input: impl Fn(&mut StdRng) -> Vec<u8>, target: fn(&[u8])) {
    let (seed, size) = (seed(), size(share));
    for number in 0..size {
        let mut random = StdRng::seed_from_u64(seed ^ (number << 20));
        let input = input(&mut random);
        let done = std::panic::catch_unwind(|| target(&input));
        assert!(done.is_ok(), "SEED={seed}, number {number}: {input:02x?}");
    }
    println!("{size} inputs");
}

/// Where the seeds of a fuzzer are.
fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(target)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let files = files(&directory(target));
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// One record of each operation.
#[derive(Default)]
struct Samples(BTreeMap<u16, Vec<u8>>);

impl Visitor for Samples {
    fn record(&mut self, record: wal::Record<'_>) -> Result<(), BoxError> {
        let operation = Record::decode(record.payload)?.operation;
        self.0.entry(operation).or_insert(record.payload.to_vec());
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Err("a young log has none".into())
    }
}

#[test]
fn there_is_a_seed_for_each_operation() {
    if std::env::var("FUZZ_WRITE_SEEDS").is_ok() {
        write_seeds();
    }
    for (number, row) in OPERATIONS.iter().enumerate() {
        let body = directory("body").join(row.name);
        if std::env::var("REWRITE_DOCS").is_ok() && !body.is_file() {
            write(
                "body",
                row.name,
                &body_seed(number, &Good::of(row, &Stage::new())),
            );
        }
        assert!(
            body.is_file(),
            "{} has no body in fuzz/seeds/body",
            row.name
        );
    }
    assert!(seeds("record").len() > OPERATIONS.len() / 2);
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(directory(target)).unwrap();
    std::fs::write(directory(target).join(name), bytes).unwrap();
}

/// The operation by its place in the catalogue, the length of a parameter, the parameter, the body.
fn body_seed(number: usize, good: &Good) -> Vec<u8> {
    let parameter = b"SC-2026-01";
    let mut seed = vec![
        u8::try_from(number).unwrap(),
        u8::try_from(parameter.len()).unwrap(),
    ];
    seed.extend(parameter);
    seed.extend(good.body.to_string().as_bytes());
    seed
}

fn write_seeds() {
    let theatre = theatre();
    for (number, row) in OPERATIONS.iter().enumerate() {
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        good.carried_out(&mut stage.client(), &token);
        write("body", row.name, &body_seed(number, &good));
    }
    // A copy of the directory of a running service is a log.
    let copy = tempfile::tempdir().unwrap();
    let data = theatre.world.data();
    for file in files(&data) {
        if file.parent() == Some(data.as_path()) {
            std::fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    let mut samples = Samples::default();
    wal::verify(wal::open_dir(copy.path()).unwrap(), &mut samples).unwrap();
    for (operation, payload) in samples.0 {
        let mut seed = vec![0];
        seed.extend(u16::try_from(payload.len()).unwrap().to_le_bytes());
        seed.extend(payload);
        write("record", &format!("operation-{operation}"), &seed);
    }
}

#[test]
fn mutated_records_are_refused_or_encoded_as_they_were_read() {
    /// A snapshot with a note comes first.
    const NOTED: u8 = 0x11;
    let seeds = seeds("record");
    let input = |random: &mut StdRng| {
        let flags: u8 = random.random_range(0..64);
        let mut input = vec![flags];
        let mut piece = |random: &mut StdRng, mut bytes: Vec<u8>| {
            mutate(random, &mut bytes);
            input.extend(u16::try_from(bytes.len()).unwrap().to_le_bytes());
            input.extend(bytes);
        };
        if flags & NOTED == NOTED {
            let note = [&[1, 1][..], &[7; 16], &[0, 0]].concat();
            piece(random, note);
        }
        for _ in 0..random.random_range(1..4) {
            let seed = seeds[random.random_range(0..seeds.len())][3..].to_vec();
            piece(random, seed);
        }
        input
    };
    campaign(2_000, input, commands::record);
}

#[test]
fn a_body_without_a_fault_is_read_without_a_tree() {
    for row in OPERATIONS {
        let seed = std::fs::read(directory("body").join(row.name)).unwrap();
        let names = row
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{'));
        let path: Vec<_> = names
            .map(|name| (name.trim_end_matches('}'), "id-1"))
            .collect();
        let now = carebook::base::time::Timestamp::from_millis(1_795_000_000_000);
        let read = row
            .operation
            .read_straight(row.name, &path, &seed[12..], now);
        assert!(read.is_some(), "{}", row.name);
    }
}

#[test]
fn mutated_bodies_are_read_or_refused_alike() {
    let seeds = seeds("body");
    let input = |random: &mut StdRng| {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        let mut body = input.split_off(12);
        mutate(random, &mut body);
        input.extend(body);
        input
    };
    campaign(4_000, input, commands::body);
}
