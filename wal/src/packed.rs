//! Compression with LZ4: what many records have in common is written once.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | length of the bytes before they were packed |
//! | 4 | … | those bytes in pieces of 60 KiB (the last may be shorter), each piece as the length of its LZ4 block (4 bytes) and that block |
//!
//! Checksums and digests are those of the packed bytes, as they are written, so altered bytes are never
//! unpacked.

use lz4_flex::block::decompress_into;

use crate::format::{RECORD_BYTES_MAX, get_u32, to_u32, to_usize};
use crate::lz4::{self, Encoder};

/// Minimum number of bytes that are packed: fewer hardly repeat anything.
const PACKED_BYTES_MIN: usize = 1 << 10;
/// Unpacked bytes of each block but the last. The number is part of the format: with another one, packed bytes
/// could not be read. It is small enough for LZ4's distances.
pub(crate) const PIECE: usize = 60 << 10;
/// Length of the number before all blocks, and of that before each block, in bytes.
pub(crate) const HEAD: usize = 4;
/// Maximum number of unpacked bytes that one byte of a block stands for.
const EXPANSION_MAX: usize = 255;
/// Maximum number of bytes that are packed: a batch and a block have fewer.
const PACKED_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;
/// Maximum memory that is kept for the next call, in bytes.
const BUFFER_KEPT_MAX: usize = 1 << 20;

const _: () = assert!(PIECE <= lz4::PIECE_BYTES_MAX);

/// Packs bytes, and reuses the memory for that.
#[derive(Default)]
pub(crate) struct Packer {
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl Packer {
    /// Returns the bytes packed; `None` as soon as their pieces so far have not become smaller by an eighth.
    pub(crate) fn pack(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        if !(PACKED_BYTES_MIN..=PACKED_BYTES_MAX).contains(&bytes.len()) {
            resize_buffer(&mut self.buffer, 0);
            return None;
        }
        // Packing stops when it saves too little, so `bytes.len()` suffices for the pieces so far, and the rest
        // for one more.
        let buffer_bytes = bytes.len() + HEAD + lz4::block_bytes_max(PIECE);
        resize_buffer(&mut self.buffer, buffer_bytes);
        self.buffer[..HEAD].copy_from_slice(&to_u32(bytes.len()).to_le_bytes());
        let (mut end, mut taken) = (HEAD, 0);
        for piece in bytes.chunks(PIECE) {
            let (head, block) = self.buffer[end..].split_at_mut(HEAD);
            let length = self.encoder.encode(piece, block);
            head.copy_from_slice(&to_u32(length).to_le_bytes());
            end += HEAD + length;
            taken += piece.len();
            // Bytes without repetitions cost no more than the encoding of their first piece.
            if end > taken - taken / 8 {
                return None;
            }
        }
        Some(&self.buffer[..end])
    }
}

/// Returns the number of unpacked bytes that the header states; `packed` has at least [`HEAD`] bytes.
pub(crate) fn unpacked_bytes(packed: &[u8]) -> usize {
    number(packed)
}

/// Returns the number at the beginning of `head`.
fn number(head: &[u8]) -> usize {
    to_usize(u64::from(get_u32(head, 0)))
}

/// Unpacks bytes into `buffer`, which may be longer than they are; returns `None` when no [`Packer`] makes such
/// bytes.
pub(crate) fn unpack<'r>(packed: &[u8], buffer: &'r mut Vec<u8>) -> Option<&'r [u8]> {
    let mut rest = packed.get(HEAD..)?;
    let length = unpacked_bytes(packed);
    // No more memory is taken than the packed bytes can expand to.
    if length
        > rest
            .len()
            .saturating_mul(EXPANSION_MAX)
            .min(PACKED_BYTES_MAX)
    {
        return None;
    }
    resize_buffer(buffer, length);
    let buffer = &mut buffer[..length];
    for piece in buffer.chunks_mut(PIECE) {
        let (head, behind) = rest.split_at_checked(HEAD)?;
        let (block, behind) = behind.split_at_checked(number(head))?;
        if decompress_into(block, piece).ok()? != piece.len() {
            return None;
        }
        rest = behind;
    }
    rest.is_empty().then_some(&*buffer)
}

/// Makes `buffer` at least `bytes` long, and frees its memory beyond that and [`BUFFER_KEPT_MAX`].
fn resize_buffer(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    } else if buffer.len() > bytes.max(BUFFER_KEPT_MAX) {
        buffer.truncate(bytes.max(BUFFER_KEPT_MAX));
        buffer.shrink_to_fit();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng as _, RngCore as _, SeedableRng as _};

    use super::*;

    /// Returns repetitive bytes, of which `random` were replaced by random ones.
    fn alike(length: usize, random: usize, seed: u64) -> Vec<u8> {
        let mut random_bytes = SmallRng::seed_from_u64(seed);
        let mut bytes: Vec<u8> = b"\"statementCode\":"
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect();
        for _ in 0..random {
            let at = random_bytes.random_range(0..length);
            bytes[at] = random_bytes.random();
        }
        bytes
    }

    #[test]
    fn packed_bytes_unpack_to_the_same_whatever_was_packed_before() {
        let (mut packer, mut buffer) = (Packer::default(), Vec::new());
        let lengths = [
            PACKED_BYTES_MIN,
            PACKED_BYTES_MIN + 1,
            9_000,
            PIECE - 1,
            PIECE,
            70_000,
            3 << 20,
            5_000,
            65_000,
        ];
        for length in lengths.into_iter().chain(lengths.into_iter().rev()) {
            let bytes = alike(length, length / 50, 7);
            let packed = packer.pack(&bytes).unwrap();
            assert!(packed.len() < bytes.len() / 2, "{length}");
            assert!(unpack(packed, &mut buffer) == Some(&bytes), "{length}");
            assert!(packer.buffer.len() <= length.max(BUFFER_KEPT_MAX) + 2 * PIECE);
            assert!(buffer.len() <= length.max(BUFFER_KEPT_MAX));
        }
    }

    #[test]
    fn bytes_that_would_not_shrink_are_left_unpacked() {
        let mut packer = Packer::default();
        assert!(packer.pack(&alike(PACKED_BYTES_MIN - 1, 0, 1)).is_none());
        let mut bytes = vec![0; 100_000];
        SmallRng::seed_from_u64(1).fill_bytes(&mut bytes);
        assert!(packer.pack(&bytes).is_none());
        // A tenth of the first piece is repetitive, and then a fifth of all.
        bytes[..6_000].fill(0);
        assert!(packer.pack(&bytes).is_none());
        bytes[..20_000].fill(0);
        assert!(packer.pack(&bytes).is_some());
        bytes[20_000..80_000].fill(0);
        bytes.rotate_left(20_000);
        assert!(packer.pack(&bytes).is_some(), "the first piece is alike");
        bytes.reverse();
        bytes.extend_from_slice(&vec![0; 900_000]);
        SmallRng::seed_from_u64(1).fill_bytes(&mut bytes[..PIECE]);
        assert!(packer.pack(&bytes).is_none(), "the first piece is not");
    }

    #[test]
    fn no_more_is_unpacked_than_there_can_be_however_many_bytes_there_are() {
        let mut packed = vec![0; PACKED_BYTES_MAX / EXPANSION_MAX + (1 << 20)];
        packed[..HEAD].copy_from_slice(&to_u32(PACKED_BYTES_MAX + 1).to_le_bytes());
        let mut buffer = Vec::new();
        assert!(unpack(&packed, &mut buffer).is_none());
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn memory_of_much_is_given_back_by_what_comes_next_however_little() {
        let mut packer = Packer::default();
        packer.pack(&alike(9 << 20, 0, 1)).unwrap();
        assert!(packer.buffer.len() > 8 << 20);
        assert!(packer.pack(b"little").is_none());
        assert!(packer.buffer.capacity() <= 2 * BUFFER_KEPT_MAX);
    }

    #[test]
    fn bytes_that_no_packer_made_are_refused_and_take_no_memory() {
        let mut packer = Packer::default();
        let bytes = alike(100_000, 400, 3);
        let packed = packer.pack(&bytes).unwrap().to_vec();
        for cut in 0..packed.len() {
            assert!(unpack(&packed[..cut], &mut Vec::new()).is_none(), "{cut}");
        }
        let mut longer = packed.clone();
        longer.push(0);
        assert!(unpack(&longer, &mut Vec::new()).is_none());
        for length in [0, 1, 99_999, 100_001, 200_000, u32::MAX] {
            let mut other = packed.clone();
            other[..HEAD].copy_from_slice(&length.to_le_bytes());
            let mut buffer = Vec::new();
            assert!(unpack(&other, &mut buffer).is_none(), "{length}");
            assert!(buffer.capacity() <= packed.len() * EXPANSION_MAX);
        }
        let mut random = SmallRng::seed_from_u64(11);
        for _ in 0..2_000 {
            let mut other = packed.clone();
            let at = random.random_range(0..other.len());
            other[at] ^= 1 << random.random_range(0..8);
            // The bytes may be others, but they are as many as the header states.
            if let Some(found) = unpack(&other, &mut Vec::new()) {
                assert_eq!(found.len(), unpacked_bytes(&other));
            }
        }
    }
}
