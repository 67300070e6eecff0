//! A fixed share of what the fuzzers in fuzz/ try, on the same entry functions:
//! frames, segments, manifests and snapshots with some bytes changed and their
//! checksums and digests made right, or not.

use rand::Rng;
use rand::rngs::StdRng;
use wal::fuzzing;

use crate::support::{random, seed, size};
use crate::workload::on_two_threads;

/// Values that are more likely than others to be at a limit.
const EDGES: [u8; 8] = [0, 1, 2, 3, 0x7f, 0x80, 0xfe, 0xff];

fn value(random: &mut StdRng) -> u8 {
    match random.random_range(0..2) {
        0 => EDGES[random.random_range(0..EDGES.len())],
        _ => random.random(),
    }
}

/// Adds edits to a file, most of them where its structure is.
fn edits(random: &mut StdRng, input: &mut Vec<u8>, from: u16, to: u16) {
    for _ in 0..random.random_range(1..6) {
        let at: u16 = match random.random_range(0..4) {
            0 => random.random_range(0..20_000),
            _ => random.random_range(from..to),
        };
        input.extend(at.to_le_bytes());
        input.push(value(random));
    }
}

fn campaign(
    default_seed: u64,
    share: u64,
    input: impl Fn(&mut StdRng) -> Vec<u8> + Sync,
    target: fn(&[u8]),
) {
    let (seed, size) = (seed(default_seed), size(share));
    on_two_threads(0..size, |number| {
        let mut random = random(seed ^ number << 20);
        let input = input(&mut random);
        let done = std::panic::catch_unwind(|| target(&input));
        assert!(done.is_ok(), "SEED={seed}, number {number}: {input:02x?}");
    });
    println!("{size} inputs");
}

#[test]
fn mutated_frames_are_refused_or_encoded_as_they_were_read() {
    let input = |random: &mut StdRng| {
        let mut input = vec![random.random_range(0..4)];
        let mut header = [0; 72];
        for byte in &mut header {
            if random.random_ratio(1, 3) {
                *byte = value(random);
            }
        }
        header[12] = random.random_range(0..5);
        let mut payload = Vec::new();
        let records = random.random_range(0..5_u32);
        for _ in 0..records {
            let length = random.random_range(0..40_u32);
            payload.extend(length.to_le_bytes());
            payload.resize(payload.len() + length as usize, 5);
        }
        if random.random_ratio(1, 4) && !payload.is_empty() {
            let at = random.random_range(0..payload.len());
            payload[at] = value(random);
        }
        header[48..52].copy_from_slice(&records.to_le_bytes());
        header[52..56].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        input.extend(header);
        input.extend(payload);
        input
    };
    campaign(61, 20_000, input, fuzzing::frame);
}

#[test]
fn mutated_segments_are_refused_or_found_again() {
    let input = |random: &mut StdRng| {
        let mut input = vec![random.random_range(0..4), random.random()];
        edits(random, &mut input, 4096, 4400);
        input
    };
    campaign(62, 1_500, input, fuzzing::segment);
}

#[test]
fn mutated_manifests_are_refused_or_written_as_they_were_read() {
    let input = |random: &mut StdRng| {
        let mut input = vec![random.random_range(0..4), random.random()];
        edits(random, &mut input, 0, 700);
        input
    };
    campaign(63, 2_000, input, fuzzing::manifest);
}

#[test]
fn mutated_snapshots_are_passed_over_or_shown_alike() {
    let input = |random: &mut StdRng| {
        let mut input = vec![random.random_range(0..4)];
        edits(random, &mut input, 0, 1500);
        input
    };
    campaign(64, 1_500, input, fuzzing::snapshot);
}
