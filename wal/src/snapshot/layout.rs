//! What the bytes of a snapshot are.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning (see `format`), magic `walsnaps` |
//! | 16 | 16 | log id |
//! | 32 | 8 | number of the snapshot |
//! | 40 | 8 | covers: every record up to this position is in it |
//! | 48 | 12 | zeros |
//! | 60 | 4 | CRC32 of the 60 bytes before |
//! | 64 | … | blocks |
//!
//! A block, without anything between it and the next:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | payload bytes |
//! | 4 | 4 | items in the payload |
//! | 8 | 1 | kind: 1 kept records, 2 entries, 3 the end, 4 packed kept records, 5 packed entries |
//! | 9 | 7 | zeros |
//! | 16 | 8 | kept records: the first position; else zeros |
//! | 24 | 4 | CRC32 of the payload, from the seed of the log |
//! | 28 | 4 | CRC32 of the 28 bytes before, from the seed of the log |
//! | 32 | 16 | chain digest: BLAKE3 of the digest before, bytes 0 to 31, and the payload |
//! | 48 | … | payload; packed: the same, packed (see `packed`) |
//!
//! The digest before the first block is that of the header's 64 bytes. A kept
//! record is its position (8 bytes), its length (4) and its bytes; an entry its
//! length (4) and its bytes. The end is one item: upto, the number of kept
//! records and the number of entries (8 bytes each). Nothing follows it, and
//! the manifest has its digest and the file's length.

use std::io;

use crate::format::{
    self, Chain, LogId, PRELUDE, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, get_16, get_u32, get_u64,
    is_zero, to_u64, to_usize,
};
use crate::packed;
use crate::window::Window;

pub(super) const HEADER: usize = 64;
pub(super) const BLOCK_HEADER: usize = 48;
pub(super) const CHAIN: usize = 32;
/// Bytes of payload, before they are packed, at which a block is written: with one more item of usual size it
/// is packed in one piece.
pub(super) const BLOCK_BYTES: usize = packed::PIECE - (6 << 10);

pub(super) const KIND_KEPT: u8 = 1;
pub(super) const KIND_ENTRIES: u8 = 2;
pub(super) const KIND_END: u8 = 3;
const KIND_PACKED_KEPT: u8 = 4;
const KIND_PACKED_ENTRIES: u8 = 5;

/// The header of a snapshot as it is written.
pub(super) fn header(log: &LogId, number: u64, covers: u64) -> [u8; HEADER] {
    header_of(SNAPSHOT_VERSION, log, number, covers)
}

/// Whether these bytes are the header of such a snapshot, in any version that there is.
pub(super) fn is_header(bytes: &[u8], log: &LogId, number: u64, covers: u64) -> bool {
    (1..=SNAPSHOT_VERSION).any(|version| bytes == header_of(version, log, number, covers))
}

fn header_of(version: u32, log: &LogId, number: u64, covers: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..PRELUDE].copy_from_slice(&format::prelude(&SNAPSHOT_MAGIC, version));
    bytes[16..32].copy_from_slice(log);
    bytes[32..40].copy_from_slice(&number.to_le_bytes());
    bytes[40..48].copy_from_slice(&covers.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(super) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// The digest of a block behind the one with the digest `before`. What is hashed takes the place of the
/// block's header, so that it is one piece, which is faster than several.
pub(super) fn chained(before: &Chain, block: &mut [u8]) -> Chain {
    block.copy_within(..CHAIN, BLOCK_HEADER - CHAIN);
    block[..before.len()].copy_from_slice(before);
    get_16(blake3::hash(block).as_bytes(), 0)
}

// The digest before takes as much as the block's own.
const _: () = assert!(BLOCK_HEADER - CHAIN == size_of::<Chain>());

pub(super) fn first_chain(header: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header);
    format::short_digest(&hasher)
}

/// The kind of a block whose payload is packed, where it is of this kind without.
pub(super) fn packed_kind(kind: u8) -> u8 {
    match kind {
        KIND_KEPT => KIND_PACKED_KEPT,
        KIND_ENTRIES => KIND_PACKED_ENTRIES,
        _ => kind,
    }
}

/// The kind of a block as it is without being packed, and its payload, unpacked into `room` where it is
/// packed; the error says what is wrong.
pub(super) fn unpacked<'a>(
    kind: u8,
    payload: &'a [u8],
    room: &'a mut Vec<u8>,
) -> Result<(u8, &'a [u8]), &'static str> {
    let kind = match kind {
        KIND_PACKED_KEPT => KIND_KEPT,
        KIND_PACKED_ENTRIES => KIND_ENTRIES,
        _ => return Ok((kind, payload)),
    };
    let payload = packed::unpack(payload, room).ok_or("a block cannot be unpacked")?;
    Ok((kind, payload))
}

/// Where the kept records are in a snapshot: the first position of each block.
pub(super) type KeptBlocks = Vec<(u64, u64)>;

/// What the header of a block says, and where the block lies.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) kind: u8,
    pub(super) items: u32,
    pub(super) first: u64,
    pub(super) chain: Chain,
    pub(super) offset: u64,
    /// Where the next one begins.
    pub(super) end: u64,
}

/// How many bytes the block with this header has, if the header is what was written.
pub(super) fn block_bytes(head: &[u8]) -> usize {
    BLOCK_HEADER + to_usize(u64::from(get_u32(head, 0)))
}

/// Reads the block at `offset`, and its payload, and compares their checksums; the error says what is wrong
/// there. Whether it follows the one before it is not looked at.
pub(super) fn block<'a>(
    window: &'a mut Window<'_>,
    offset: u64,
    seed: u32,
) -> io::Result<Result<(Block, &'a [u8]), &'static str>> {
    let head = window.get(offset, BLOCK_HEADER)?;
    if head.len() < BLOCK_HEADER {
        return Ok(Err("the file ends before the snapshot does"));
    }
    if crc(seed, &head[..28]) != get_u32(head, 28) || !is_zero(&head[9..16]) {
        return Ok(Err("a block's header was altered"));
    }
    let length = block_bytes(head);
    let whole = window.get(offset, length)?;
    if whole.len() < length {
        return Ok(Err("the file ends within a block"));
    }
    let (head, payload) = whole.split_at(BLOCK_HEADER);
    if crc(seed, payload) != get_u32(head, 24) {
        return Ok(Err("a block's payload was altered"));
    }
    let block = Block {
        kind: head[8],
        items: get_u32(head, 4),
        first: get_u64(head, 16),
        chain: get_16(head, CHAIN),
        offset,
        end: offset + to_u64(length),
    };
    Ok(Ok((block, payload)))
}

/// Bytes before those of a kept record: its position and its length.
pub(super) const KEPT_HEAD: usize = 12;

/// Splits the next item off; `None` when the payload is not made of items.
pub(super) fn item<'a>(rest: &mut &'a [u8], kept: bool) -> Option<(u64, &'a [u8])> {
    let head = if kept { KEPT_HEAD } else { 4 };
    if rest.len() < head {
        return None;
    }
    let position = if kept { get_u64(rest, 0) } else { 0 };
    let length = to_usize(u64::from(get_u32(rest, head - 4)));
    let bytes = rest.get(head..head + length)?;
    *rest = &rest[head + length..];
    Some((position, bytes))
}

/// For fuzzers: makes the checksums of a snapshot's blocks right, and their
/// digests; returns the last one.
#[cfg(feature = "fuzzing")]
pub(crate) fn mend(bytes: &mut [u8], log: &LogId, digests: bool) -> Chain {
    if bytes.len() < HEADER {
        return Chain::default();
    }
    for end in [12, 60] {
        let crc = crc32fast::hash(&bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let seed = format::crc_seed(log);
    let mut chain = first_chain(&bytes[..HEADER]);
    let mut at = HEADER;
    while bytes.len() >= at + BLOCK_HEADER {
        let payload = to_usize(u64::from(get_u32(bytes, at)));
        let Some(whole) = bytes.get_mut(at..at + BLOCK_HEADER + payload) else {
            break;
        };
        let (head, payload) = whole.split_at_mut(BLOCK_HEADER);
        head[24..28].copy_from_slice(&crc(seed, payload).to_le_bytes());
        let header_crc = crc(seed, &head[..28]);
        head[28..32].copy_from_slice(&header_crc.to_le_bytes());
        if digests {
            chain = chained(&chain, &mut whole.to_vec());
            whole[CHAIN..BLOCK_HEADER].copy_from_slice(&chain);
        }
        at += whole.len();
    }
    chain
}
