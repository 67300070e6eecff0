//! The file format of a snapshot.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning that every file has, with the magic `walsnaps` |
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
//! | 0 | 4 | length of the payload in bytes |
//! | 4 | 4 | number of items: of kept records, or of entries; the end is one |
//! | 8 | 1 | kind: what the payload is, see the next table |
//! | 9 | 7 | zeros |
//! | 16 | 8 | position of the first kept record; zeros in a block without kept records |
//! | 24 | 4 | CRC32 of the payload, started from the CRC32 of the log id |
//! | 28 | 4 | CRC32 of the 28 bytes before, started from the CRC32 of the log id |
//! | 32 | 16 | chain digest: first 128 bits of BLAKE3 of the digest of the block before, bytes 0 to 31 of this one, and its payload |
//! | 48 | … | payload |
//!
//! | kind | payload |
//! |---|---|
//! | 1 | kept records |
//! | 2 | entries |
//! | 3 | the end |
//! | 4 | kept records, packed |
//! | 5 | entries, packed |
//! | 6 | notes, and then kept records |
//! | 7 | notes, and then kept records, which alone are packed |
//!
//! What packed means is told in `packed`.
//!
//! The digest before the first block is that of the header's 64 bytes. A kept
//! record is its position (8 bytes), its length (4) and its bytes; an entry its
//! length (4) and its bytes. The end is one item: upto, the number of kept
//! records and the number of entries (8 bytes each). Nothing follows it, and
//! the manifest has its digest and the file's length.
//!
//! Notes are what a start needs of kept records, stored beside them, so that it need neither unpack nor read
//! the records. They are the number of their bytes (4), and for each record of the block, in order, the
//! distance of its position from the first one's (4), the length of its note (1), and the note.

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
/// Payload at which a block is written, in bytes before packing: with one more item of usual size it is still
/// packed in one piece.
pub(super) const BLOCK_BYTES: usize = packed::PIECE - (6 << 10);

pub(super) const KIND_KEPT: u8 = 1;
pub(super) const KIND_ENTRIES: u8 = 2;
pub(super) const KIND_END: u8 = 3;
const KIND_PACKED_KEPT: u8 = 4;
const KIND_PACKED_ENTRIES: u8 = 5;
const KIND_NOTED: u8 = 6;
const KIND_PACKED_NOTED: u8 = 7;

/// The header of a snapshot as it is written.
pub(super) fn header(log: &LogId, number: u64, covers: u64) -> [u8; HEADER] {
    header_of(SNAPSHOT_VERSION, log, number, covers)
}

/// Whether these bytes are the header of this snapshot, in any known version.
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

/// Returns the digest of a block that follows the one with the digest `before`. Overwrites the block's header,
/// so that the hashed bytes are one piece, which is faster than several.
pub(super) fn chained(before: &Chain, block: &mut [u8]) -> Chain {
    block.copy_within(..CHAIN, BLOCK_HEADER - CHAIN);
    block[..before.len()].copy_from_slice(before);
    get_16(blake3::hash(block).as_bytes(), 0)
}

// The digest before takes as many bytes as the block's own.
const _: () = assert!(BLOCK_HEADER - CHAIN == size_of::<Chain>());

pub(super) fn first_chain(header: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header);
    format::short_digest(&hasher)
}

/// The kind of a block whose items are of this kind, by whether they are packed, and whether there are notes.
pub(super) fn kind_of(items: u8, is_packed: bool, has_notes: bool) -> u8 {
    match (items, is_packed, has_notes) {
        (KIND_KEPT, true, false) => KIND_PACKED_KEPT,
        (KIND_KEPT, false, true) => KIND_NOTED,
        (KIND_KEPT, true, true) => KIND_PACKED_NOTED,
        (KIND_ENTRIES, true, _) => KIND_PACKED_ENTRIES,
        _ => items,
    }
}

/// The payload of a block.
pub(super) struct Payload<'a> {
    /// The kind of its items.
    pub(super) kind: u8,
    /// The notes on its items.
    pub(super) notes: Option<Notes<'a>>,
    is_packed: bool,
    /// The items, packed if they are.
    items: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Splits the payload of a block into notes and items; the error says what is wrong.
    pub(super) fn of(block: &Block, payload: &'a [u8]) -> Result<Self, &'static str> {
        let (kind, is_packed, has_notes) = match block.kind {
            KIND_PACKED_KEPT => (KIND_KEPT, true, false),
            KIND_PACKED_ENTRIES => (KIND_ENTRIES, true, false),
            KIND_NOTED => (KIND_KEPT, false, true),
            KIND_PACKED_NOTED => (KIND_KEPT, true, true),
            kind => (kind, false, false),
        };
        let (notes, items) = match has_notes {
            true => {
                let (notes, items) = Notes::split(block.first, payload).ok_or(NOT_NOTES)?;
                (Some(notes), items)
            }
            false => (None, payload),
        };
        if is_packed && items.len() < packed::HEAD {
            return Err(NOT_PACKED);
        }
        Ok(Self {
            kind,
            notes,
            is_packed,
            items,
        })
    }

    /// The items, unpacked into `buffer` where they are packed; the error says what is wrong.
    pub(super) fn items(&self, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], &'static str> {
        match self.is_packed {
            true => packed::unpack(self.items, buffer).ok_or(NOT_PACKED),
            false => Ok(self.items),
        }
    }

    /// Bytes of the block, if its items were not packed.
    pub(super) fn unpacked_bytes(&self) -> u64 {
        let items = match self.is_packed {
            true => packed::unpacked_bytes(self.items),
            false => self.items.len(),
        };
        let notes = self.notes.as_ref();
        let notes = notes.map_or(0, |notes| NOTES_HEAD + notes.rest.len());
        to_u64(BLOCK_HEADER + notes + items)
    }
}

/// The faults of items that cannot be unpacked, and of notes that are not those of the block's records.
const NOT_PACKED: &str = "a block cannot be unpacked";
pub(super) const NOT_NOTES: &str = "the notes of a block are not those of its records";
/// Bytes before all notes; [`NOTE_HEAD`] are before each.
pub(super) const NOTES_HEAD: usize = 4;
pub(super) const NOTE_HEAD: usize = 5;
/// Maximum length of a note, in bytes.
pub(super) const NOTE_BYTES_MAX: usize = u8::MAX as usize;

/// The notes of a block.
#[derive(Clone, Copy)]
pub(super) struct Notes<'a> {
    first: u64,
    rest: &'a [u8],
}

impl<'a> Notes<'a> {
    /// Splits off the notes with which a payload begins; `first` is the position of the block's first record.
    /// Returns the notes and the items.
    fn split(first: u64, payload: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = payload.split_at_checked(NOTES_HEAD)?;
        let (rest, items) = rest.split_at_checked(to_usize(u64::from(get_u32(head, 0))))?;
        Some((Self { first, rest }, items))
    }

    /// Takes the next note, with its record's position; `None` when there is none.
    pub(super) fn next(&mut self) -> Option<(u64, &'a [u8])> {
        let (head, rest) = self.rest.split_at_checked(NOTE_HEAD)?;
        let (note, rest) = rest.split_at_checked(usize::from(head[NOTE_HEAD - 1]))?;
        self.rest = rest;
        let position = self.first.checked_add(u64::from(get_u32(head, 0)))?;
        Some((position, note))
    }

    /// Whether all notes were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether a note can express this distance from the first position.
    pub(super) fn reach(behind: u64) -> bool {
        u32::try_from(behind).is_ok()
    }

    /// Appends the note of the record at this distance from the first position.
    ///
    /// # Panics
    /// When the note has more than [`NOTE_BYTES_MAX`] bytes, or the record is out of [reach](Self::reach).
    pub(super) fn push(notes: &mut Vec<u8>, behind: u64, note: &[u8]) {
        let behind = u32::try_from(behind).expect("notes reach there");
        let length = u8::try_from(note.len()).expect("a note is not too long");
        notes.extend_from_slice(&behind.to_le_bytes());
        notes.push(length);
        notes.extend_from_slice(note);
    }
}

/// Where the kept records are in a snapshot: the first position and the offset of each block.
pub(super) type KeptBlocks = Vec<(u64, u64)>;

/// The content of the header of a block, and the place of the block.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) kind: u8,
    pub(super) items: u32,
    pub(super) first: u64,
    pub(super) chain: Chain,
    pub(super) offset: u64,
    /// The offset of the next block.
    pub(super) end: u64,
}

/// Returns the length of the block with this header, in bytes, if the header is what was written.
pub(super) fn block_bytes(head: &[u8]) -> usize {
    BLOCK_HEADER + to_usize(u64::from(get_u32(head, 0)))
}

/// Reads the block at `offset`, and its payload, and compares their checksums; the error says what is wrong
/// there. Does not check that the block follows the one before.
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

/// For fuzzers and tests: corrects the checksums of a snapshot and, if `digests`, the digests of its blocks;
/// returns the last digest.
#[cfg(any(test, feature = "fuzzing"))]
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
