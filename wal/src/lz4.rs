//! Encodes LZ4 blocks of what batches and snapshots contain: records one after the other that are nearly alike.
//!
//! After a long match at some distance, the bytes after the next difference mostly match at the same distance: that
//! is the record before. So the encoder tries that distance first, a few bytes at a time, and looks into its hash
//! table only when it finds nothing close by. That takes half of the instructions of an encoder that looks
//! everything up, for no larger blocks. Any decoder of LZ4 blocks reads them.
//!
//! | bytes | of each sequence |
//! |---|---|
//! | 1 | high four bits: number of literals; low four bits: length of the copy less 4; 15 if the number continues |
//! | 0 … | rest of the number of literals: bytes to be added, up to and including the first below 255 |
//! | … | the literals |
//! | 2 | distance of the copy: how far back its source lies |
//! | 0 … | rest of the length of the copy, in the same form |
//!
//! The last sequence ends after its literals.

use std::ops::Range;

use crate::format::{to_u64, to_usize};

/// Maximum number of bytes that are encoded as one block: distances and positions have two bytes.
pub(crate) const PIECE_BYTES_MAX: usize = u16::MAX as usize;
/// Length of the shortest copy, in bytes.
const COPY_MIN: usize = 4;
/// Minimum number of literals at the end of a block, as the format demands.
const LITERALS_LAST: usize = 5;
/// Number of bytes at the end of a block in which no copy may begin.
const WITHOUT_COPY: usize = 12;
/// Number of bytes over which the distance to the record before is tried: more than a fingerprint and a key
/// together.
const NEAR_BYTES: usize = 80;
/// Bytes between two places at which that distance is tried. A copy that begins between them is found a little
/// later, and extended backwards.
const NEAR_STEP: usize = COPY_MIN;
/// Minimum length of a copy, from at least [`NEAR_BYTES`] bytes back, that counts as one of the record before. Other
/// copies say nothing about what follows: an identifier may stand in a record twice, and a run of zeros is followed
/// by another one far too late.
const RECORD_COPY_MIN: usize = 64;
/// Maximum number of literals that are copied without a loop.
const LITERALS_FAST_MAX: usize = 32;
/// Maximum number of positions that the encoder remembers, by the hash of the bytes there.
const SLOTS: usize = 4_096;
/// Minimum number of slots that a block uses. A small block uses only as many as it can fill, since they are cleared
/// before each block.
const SLOTS_MIN: usize = 256;
/// Number of misses after which the search advances by two bytes each time; after twice as many by three, and so on.
const MISSES_PER_STEP: usize = 32;

/// Returns the maximum length of the block for `bytes` bytes.
pub(crate) const fn block_bytes_max(bytes: usize) -> usize {
    bytes + bytes / 255 + 16
}

/// Encodes blocks, and reuses the memory for that.
pub(crate) struct Encoder {
    /// The place where bytes with this hash were seen last; 0 at first, which is a place like any other.
    seen: Box<[u16; SLOTS]>,
}

impl Default for Encoder {
    fn default() -> Self {
        let seen = Box::new([0; SLOTS]);
        Self { seen }
    }
}

/// Bytes that occur twice: where they were first, and where again.
#[derive(Clone, Copy)]
struct Match {
    from: usize,
    at: usize,
}

impl Encoder {
    /// Encodes `bytes` into `block`, which has space for [`block_bytes_max`]; returns the length of the encoded block.
    ///
    /// # Panics
    /// When there are more than [`PIECE_BYTES_MAX`] bytes, or `block` is too short.
    pub(crate) fn encode(&mut self, bytes: &[u8], block: &mut [u8]) -> usize {
        assert!(bytes.len() <= PIECE_BYTES_MAX);
        let slots = Slots::of(bytes.len());
        self.seen[..slots.count].fill(0);
        let stop = bytes.len().saturating_sub(WITHOUT_COPY);
        let mut block = Block {
            bytes: block,
            length: 0,
        };
        let (mut at, mut written, mut distance) = (1, 0, None);
        while at < stop {
            let near = distance.and_then(|distance| near(bytes, at, distance, stop));
            let is_near = near.is_some();
            let Some(Match { from, at: again }) =
                near.or_else(|| self.seen(bytes, at, stop, slots))
            else {
                break;
            };
            let (before, literals) = (&bytes[..from], &bytes[written..again]);
            let before = before.iter().rev().zip(literals.iter().rev());
            let before = before.take_while(|(one, other)| one == other).count();
            let (from, again) = (from - before, again - before);
            let length = common_prefix(&bytes[from..], &bytes[again..bytes.len() - LITERALS_LAST]);
            block.copy(bytes, written..again, again - from, length);
            if length >= RECORD_COPY_MIN && again - from >= NEAR_BYTES {
                distance = Some(again - from);
            }
            at = again + length;
            written = at;
            // A match at the known distance adds nothing new.
            if !is_near && at < stop {
                self.seen[slots.slot(bytes_at(bytes, at - 2))] = to_u16(at - 2);
            }
        }
        block.end(bytes, written..bytes.len())
    }

    /// Finds the next bytes from `at` on that occur twice, by the hash table.
    #[inline(always)]
    fn seen(&mut self, bytes: &[u8], mut at: usize, stop: usize, slots: Slots) -> Option<Match> {
        let mut tried = MISSES_PER_STEP;
        while at < stop {
            let eight: [u8; 8] = bytes_at(bytes, at);
            let place = &mut self.seen[slots.slot(eight)];
            let from = usize::from(std::mem::replace(place, to_u16(at)));
            if from < at && bytes_at::<COPY_MIN>(bytes, from) == eight[..COPY_MIN] {
                return Some(Match { from, at });
            }
            at += tried / MISSES_PER_STEP;
            tried += 1;
        }
        None
    }
}

/// Finds bytes that occur twice at this distance, within [`NEAR_BYTES`] bytes from `at`.
#[inline(always)]
fn near(bytes: &[u8], at: usize, distance: usize, stop: usize) -> Option<Match> {
    let again = &bytes[at..(at + NEAR_BYTES).min(stop)];
    let from = at - distance;
    let first = &bytes[from..][..again.len()];
    let offset = first_equal_step(first, again)?;
    Some(Match {
        from: from + offset,
        at: at + offset,
    })
}

/// Returns the offset of the first step in which both texts, of equal length, have equal bytes; compares two steps at
/// once.
#[inline(always)]
fn first_equal_step(one: &[u8], other: &[u8]) -> Option<usize> {
    const WORD: usize = 2 * NEAR_STEP;
    let (ones, one_rest) = one.as_chunks::<WORD>();
    let (others, other_rest) = other.as_chunks::<WORD>();
    let mut offset = 0;
    for (one, other) in ones.iter().zip(others) {
        let differs = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differs & u64::from(u32::MAX) == 0 {
            return Some(offset);
        }
        if differs >> u32::BITS == 0 {
            return Some(offset + NEAR_STEP);
        }
        offset += WORD;
    }
    let same = one_rest.first_chunk::<NEAR_STEP>()? == other_rest.first_chunk()?;
    same.then_some(offset)
}

/// Returns the length of the common prefix.
#[inline(always)]
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let length = one.len().min(other.len());
    let (one, other) = (&one[..length], &other[..length]);
    let mut count = 0;
    let many = one
        .as_chunks::<32>()
        .0
        .iter()
        .zip(other.as_chunks::<32>().0);
    for (one, other) in many {
        if one != other {
            break;
        }
        count += 32;
    }
    let (one, other) = (&one[count..], &other[count..]);
    let few = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let mut eights = 0;
    for (one, other) in few {
        let differs = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differs != 0 {
            let same = to_usize(u64::from(differs.trailing_zeros() / 8));
            return count + eights + same;
        }
        eights += 8;
    }
    let rest = one[eights..].iter().zip(&other[eights..]);
    count + eights + rest.take_while(|(one, other)| one == other).count()
}

/// The part of the hash table that one block uses.
#[derive(Clone, Copy)]
struct Slots {
    /// Number of slots, a power of two.
    count: usize,
    /// Number of bits by which a hash is shifted, so that its highest bits are the slot's number.
    shift: u32,
}

impl Slots {
    /// Returns the slots for a block of `bytes` bytes: one for every four.
    fn of(bytes: usize) -> Self {
        let count = (bytes / 4).next_power_of_two().clamp(SLOTS_MIN, SLOTS);
        let shift = u64::BITS - count.ilog2();
        Self { count, shift }
    }

    /// Returns the slot for these bytes, by the hash of the first five.
    #[inline(always)]
    fn slot(self, eight: [u8; 8]) -> usize {
        let five = u64::from_le_bytes(eight) << 24;
        to_usize(five.wrapping_mul(889_523_592_379) >> self.shift) % SLOTS
    }
}

#[inline(always)]
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the place is not so late")
}

/// Converts a place or a distance to two bytes.
#[inline(always)]
fn to_u16(place: usize) -> u16 {
    let [low, high, ..] = to_u64(place).to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// A block that is being written.
struct Block<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Block<'_> {
    /// Appends literals, and a copy of `length` bytes from `distance` bytes back.
    #[inline(always)]
    fn copy(&mut self, bytes: &[u8], literals: Range<usize>, distance: usize, length: usize) {
        let more = length - COPY_MIN;
        self.literals(bytes, literals, more);
        self.add(&to_u16(distance).to_le_bytes());
        self.more(more);
    }

    /// Appends the last literals; returns the length of the block.
    fn end(mut self, bytes: &[u8], literals: Range<usize>) -> usize {
        self.literals(bytes, literals, 0);
        self.length
    }

    #[inline(always)]
    fn literals(&mut self, bytes: &[u8], literals: Range<usize>, more: usize) {
        let length = literals.len();
        let [count, ..] = (length.min(15) << 4 | more.min(15)).to_le_bytes();
        self.add(&[count]);
        self.more(length);
        // A few literals are copied together with the bytes after them, which are overwritten later.
        let there = bytes[literals.start..].first_chunk::<LITERALS_FAST_MAX>();
        let room = self.bytes[self.length..].first_chunk_mut::<LITERALS_FAST_MAX>();
        match (there, room) {
            (Some(there), Some(room)) if length <= LITERALS_FAST_MAX => {
                *room = *there;
                self.length += length;
            }
            _ => self.add(&bytes[literals]),
        }
    }

    /// Appends the part of a number that did not fit into four bits.
    #[inline(always)]
    fn more(&mut self, number: usize) {
        let Some(mut rest) = number.checked_sub(15) else {
            return;
        };
        while rest >= 255 {
            self.add(&[255]);
            rest -= 255;
        }
        let [rest, ..] = rest.to_le_bytes();
        self.add(&[rest]);
    }

    #[inline(always)]
    fn add(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use lz4_flex::block::{compress, decompress_into};
    use rand::rngs::SmallRng;
    use rand::{Rng as _, RngCore as _, SeedableRng as _};

    use super::*;

    /// Encodes, and decodes with another library's decoder; returns the length of the block.
    fn decoded(encoder: &mut Encoder, bytes: &[u8]) -> usize {
        let mut block = vec![0x5a; block_bytes_max(bytes.len())];
        let length = encoder.encode(bytes, &mut block);
        let mut found = vec![0xa5; bytes.len()];
        let count = decompress_into(&block[..length], &mut found).unwrap();
        assert_eq!(count, bytes.len());
        assert!(found == bytes);
        length
    }

    #[test]
    fn a_foreign_decoder_reads_what_was_encoded_of_all_kinds_and_lengths() {
        let mut encoder = Encoder::default();
        let mut random = SmallRng::seed_from_u64(5);
        let mut all = vec![0; PIECE_BYTES_MAX];
        for length in (0..300).chain([4_095, 4_096, 60 << 10, PIECE_BYTES_MAX]) {
            random.fill_bytes(&mut all[..length]);
            let unlike = decoded(&mut encoder, &all[..length]);
            assert!(unlike <= block_bytes_max(length));
            decoded(&mut encoder, &vec![7; length]);
            let period = random.random_range(1..40);
            for at in period..length {
                all[at] = all[at - period];
            }
            decoded(&mut encoder, &all[..length]);
        }
    }

    #[test]
    fn the_first_equal_step_is_found_wherever_it_is() {
        let mut random = SmallRng::seed_from_u64(7);
        for length in 0..40 {
            let one: Vec<u8> = (0..length).map(|_| random.random()).collect();
            let differs: Vec<u8> = one.iter().map(|byte| !byte).collect();
            assert_eq!(first_equal_step(&one, &differs), None);
            for equal in 0..length / NEAR_STEP {
                let at = equal * NEAR_STEP;
                let mut other = differs.clone();
                other[at..].copy_from_slice(&one[at..]);
                assert_eq!(first_equal_step(&one, &other), Some(at), "of {length}");
                other[at] = !one[at];
                let next = (at + 2 * NEAR_STEP <= length).then_some(at + NEAR_STEP);
                assert_eq!(first_equal_step(&one, &other), next, "of {length}");
            }
        }
    }

    #[test]
    fn records_that_differ_anywhere_in_any_way_are_decoded() {
        let mut encoder = Encoder::default();
        for seed in 0..3_000 {
            let mut random = SmallRng::seed_from_u64(seed);
            let letters = random.random_range(1..=256_u16);
            let length = random.random_range(1..900);
            let letter = |random: &mut SmallRng| (random.random_range(0..letters) & 0xff) as u8;
            let mut record: Vec<u8> = (0..length).map(|_| letter(&mut random)).collect();
            let mut bytes = Vec::new();
            while bytes.len() + record.len() < 20_000 && bytes.len() < 40 * length {
                for _ in 0..random.random_range(0..6) {
                    let at = random.random_range(0..record.len());
                    match random.random_range(0..8) {
                        0 => record.insert(at, letter(&mut random)),
                        1 if record.len() > 1 => drop(record.remove(at)),
                        _ => record[at] = letter(&mut random),
                    }
                }
                bytes.extend_from_slice(&record);
            }
            decoded(&mut encoder, &bytes);
        }
    }

    #[test]
    fn records_take_no_more_room_than_by_an_encoder_that_looks_everything_up() {
        let mut bytes = Vec::new();
        for number in 0..40_u32 {
            let id = blake3::hash(&number.to_le_bytes()).to_hex();
            let code = number * 7_919;
            bytes.extend_from_slice(
                format!(
                    "{{\"statementId\":\"{}\",\"statementCode\":\"code-{code}\",\"status\":\"open\",\
                     \"revision\":1,\"messageToBranch\":\"By Friday, please.\",\"createdAt\":\
                     \"2026-11-01T00:00:00.{number:03}Z\",\"branchProfileId\":\"branch-seoul-1\",\
                     \"audits\":[{{\"auditId\":\"{}\",\"commandKind\":\"request_deposit\"}}]}}",
                    &id[..32],
                    &id[32..],
                )
                .as_bytes(),
            );
        }
        let own = decoded(&mut Encoder::default(), &bytes);
        let other = compress(&bytes).len();
        assert!(own <= other + other / 50, "{own} to {other}");
        assert!(own * 3 < bytes.len());
    }
}
