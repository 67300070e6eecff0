//! A frame: one batch of records, or a mark. Valid whole or absent.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | magic `Wfr1` |
//! | 4 | 4 | header CRC32, over bytes 8 to 72; checked before the length is believed |
//! | 8 | 4 | payload CRC32, over bytes 12 to the end of the padding |
//! | 12 | 1 | kind: 1 data, 2 seal, 3 start, 4 packed data |
//! | 13 | 3 | zeros |
//! | 16 | 8 | segment number |
//! | 24 | 8 | epoch |
//! | 32 | 8 | position of the first record; without records, the next position |
//! | 40 | 8 | highest position known durable when the frame was written |
//! | 48 | 4 | records |
//! | 52 | 4 | payload length |
//! | 56 | 16 | chain digest |
//! | 72 | … | payload. Data: each record as its length (4 bytes) and its bytes. Packed data: the same, packed. Start: the chain digest before this frame. Seal: nothing |
//! | … | 0–7 | zeros up to a multiple of 8 |
//!
//! How data is packed is told in `packed`. Both CRCs start from the CRC32 of the
//! log id. The chain digest is the first 128 bits of BLAKE3 over bytes 12 to the
//! end of the padding, with the digest of the frame before in the place of the
//! digest. A start frame is the first of its segment; its payload is the digest
//! before it. A seal says only that everything before it is durable.

use crate::format::{Chain, NUMBER_LIMIT, get_16, get_u32, get_u64, is_zero, to_u32, to_usize};
use crate::packed::{self, Packer};

pub(crate) const HEADER: usize = 72;
const ALIGN: usize = 8;
const MAGIC: [u8; 4] = *b"Wfr1";
const COVERED: usize = 12;
const CHAIN: usize = 56;

// The digest is the last field, so that the payload follows it without a gap.
const _: () = assert!(CHAIN + 16 == HEADER && HEADER.is_multiple_of(ALIGN));

pub(crate) const KIND_DATA: u8 = 1;
pub(crate) const KIND_SEAL: u8 = 2;
pub(crate) const KIND_START: u8 = 3;
const KIND_PACKED: u8 = 4;

/// Bytes that a seal takes.
pub(crate) const SEAL_BYTES: u64 = 72;
/// Bytes that a start frame takes.
pub(crate) const START_BYTES: u64 = 88;
/// Bytes that a record takes beside its own.
pub(crate) const RECORD_OVERHEAD: usize = 4;

/// The whole length of a frame with this much payload.
pub(crate) fn frame_bytes(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGN)
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: u8,
    pub(crate) segment: u64,
    pub(crate) epoch: u64,
    pub(crate) first: u64,
    pub(crate) durable: u64,
    pub(crate) records: u32,
    pub(crate) payload: u32,
    pub(crate) chain: Chain,
    payload_crc: u32,
}

/// The bytes found at the place of a frame header.
pub(crate) enum HeaderFound {
    Blank,
    Unsound,
    Sound(FrameHeader),
}

impl FrameHeader {
    /// Length of the frame in bytes, with header and padding.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = u64::from(self.payload) + 72;
        bytes.next_multiple_of(8)
    }

    /// Reads a header; `bytes` are at least [`HEADER`] long.
    pub(crate) fn parse(bytes: &[u8], seed: u32) -> HeaderFound {
        let bytes = &bytes[..HEADER];
        if bytes[..4] != MAGIC {
            return if is_zero(bytes) {
                HeaderFound::Blank
            } else {
                HeaderFound::Unsound
            };
        }
        if crc(seed, &bytes[8..]) != get_u32(bytes, 4) || !is_zero(&bytes[13..16]) {
            return HeaderFound::Unsound;
        }
        let limited = [16, 24, 32, 40].map(|at| get_u64(bytes, at));
        // Positions begin at 1.
        if limited.iter().any(|number| *number >= NUMBER_LIMIT) || limited[2] == 0 {
            return HeaderFound::Unsound;
        }
        HeaderFound::Sound(Self {
            payload_crc: get_u32(bytes, 8),
            kind: bytes[12],
            segment: get_u64(bytes, 16),
            epoch: get_u64(bytes, 24),
            first: get_u64(bytes, 32),
            durable: get_u64(bytes, 40),
            records: get_u32(bytes, 48),
            payload: get_u32(bytes, 52),
            chain: get_16(bytes, CHAIN),
        })
    }

    /// Whether the payload is the one that was written; `frame` is the whole frame.
    pub(crate) fn payload_is_sound(&self, frame: &[u8], seed: u32) -> bool {
        crc(seed, &frame[COVERED..]) == self.payload_crc
    }

    /// Whether the frame follows the one whose digest is `before`; `frame` is the whole frame of this
    /// header, which is changed during the call and then restored.
    pub(crate) fn follows(&self, frame: &mut [u8], before: &Chain) -> bool {
        let digest = digest(frame, before);
        frame[CHAIN..HEADER].copy_from_slice(&self.chain);
        digest == self.chain
    }

    /// Whether the frame has records.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.kind, KIND_DATA | KIND_PACKED)
    }

    /// Whether the frame's kind is a known one.
    pub(crate) fn is_known(&self) -> bool {
        self.is_data() || matches!(self.kind, KIND_SEAL | KIND_START)
    }

    /// Returns the records of a frame, or `None` when its payload does not consist of the number that the
    /// header states. A packed payload is unpacked into `buffer`.
    pub(crate) fn records<'a>(
        &self,
        frame: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Option<Records<'a>> {
        let end = HEADER + to_usize(u64::from(self.payload));
        let (payload, padding) = (frame.get(HEADER..end)?, frame.get(end..)?);
        if !is_zero(padding) {
            return None;
        }
        let payload = match self.kind {
            KIND_PACKED => packed::unpack(payload, buffer)?,
            _ => payload,
        };
        let mut at = 0;
        for _ in 0..self.records {
            let head = payload.get(at..at + RECORD_OVERHEAD)?;
            at += RECORD_OVERHEAD + to_usize(u64::from(get_u32(head, 0)));
        }
        (at == payload.len()).then_some(Records::of(payload))
    }

    /// Returns the records again, after [`FrameHeader::records`] returned some for the same `frame` and
    /// `buffer`.
    pub(crate) fn records_again<'a>(&self, frame: &'a [u8], buffer: &'a [u8]) -> Records<'a> {
        let payload = &frame[HEADER..HEADER + to_usize(u64::from(self.payload))];
        Records::of(match self.kind {
            KIND_PACKED => &buffer[..packed::unpacked_bytes(payload)],
            _ => payload,
        })
    }
}

/// The records of one frame whose structure has been checked.
pub(crate) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Iterates over bytes that are records one after the other, each with its length before it.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let length = to_usize(u64::from(get_u32(self.rest, 0)));
        let (record, rest) = self.rest[RECORD_OVERHEAD..].split_at(length);
        self.rest = rest;
        Some(record)
    }
}

/// Where a frame goes and what it states.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) epoch: u64,
    pub(crate) first: u64,
    pub(crate) durable: u64,
    pub(crate) seed: u32,
}

/// Appends a data frame to `buffer`. The `count` records lie one after the other, each with its length
/// before it; they are packed where that makes them smaller. Advances the chain digest.
pub(crate) fn push_data(
    buffer: &mut Vec<u8>,
    packer: &mut Packer,
    place: Place,
    chain: &mut Chain,
    (count, records): (usize, &[u8]),
) {
    let (kind, payload) = match packer.pack(records) {
        Some(packed) => (KIND_PACKED, packed),
        None => (KIND_DATA, records),
    };
    push(buffer, kind, place, chain, to_u32(count), |buffer| {
        buffer.extend_from_slice(payload);
    });
}

/// Appends a seal to `buffer`; advances the chain digest.
pub(crate) fn push_seal(buffer: &mut Vec<u8>, place: Place, chain: &mut Chain) {
    push(buffer, KIND_SEAL, place, chain, 0, |_| {});
}

/// Appends the first frame of a segment to `buffer`; advances the chain digest.
pub(crate) fn push_start(buffer: &mut Vec<u8>, place: Place, chain: &mut Chain) {
    let before = *chain;
    push(buffer, KIND_START, place, chain, 0, |buffer| {
        buffer.extend_from_slice(&before)
    });
}

fn push(
    buffer: &mut Vec<u8>,
    kind: u8,
    place: Place,
    chain: &mut Chain,
    records: u32,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let start = buffer.len();
    buffer.resize(start + HEADER, 0);
    payload(buffer);
    let payload_bytes = to_u32(buffer.len() - start - HEADER);
    buffer.resize(start + frame_bytes(buffer.len() - start - HEADER), 0);
    let frame = &mut buffer[start..];
    frame[..4].copy_from_slice(&MAGIC);
    frame[12] = kind;
    frame[16..24].copy_from_slice(&place.segment.to_le_bytes());
    frame[24..32].copy_from_slice(&place.epoch.to_le_bytes());
    frame[32..40].copy_from_slice(&place.first.to_le_bytes());
    frame[40..48].copy_from_slice(&place.durable.to_le_bytes());
    frame[48..52].copy_from_slice(&records.to_le_bytes());
    frame[52..56].copy_from_slice(&payload_bytes.to_le_bytes());
    *chain = digest(frame, chain);
    frame[CHAIN..HEADER].copy_from_slice(chain);
    let payload_crc = crc(place.seed, &frame[COVERED..]);
    frame[8..12].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = crc(place.seed, &frame[8..HEADER]);
    frame[4..8].copy_from_slice(&header_crc.to_le_bytes());
}

/// Returns the digest of a frame that follows the one with the digest `before`, which is put into the
/// frame's own digest field.
///
/// The frame is hashed in one call: BLAKE3 then takes sixteen kibibytes of a long input at a time, but over
/// several calls at first no more than it has already taken.
fn digest(frame: &mut [u8], before: &Chain) -> Chain {
    frame[CHAIN..HEADER].copy_from_slice(before);
    get_16(blake3::hash(&frame[COVERED..]).as_bytes(), 0)
}

/// Finds the first sound frame header in `bytes`, at a multiple of 8; `bytes` begin at one. Ignores headers
/// that do not lie in `bytes` as a whole.
pub(crate) fn find_sound(bytes: &[u8], seed: u32) -> Option<(usize, FrameHeader)> {
    let last = bytes.len().checked_sub(HEADER)?;
    (0..=last).step_by(ALIGN).find_map(|at| {
        if bytes[at] != MAGIC[0] || bytes[at..at + 4] != MAGIC {
            return None;
        }
        match FrameHeader::parse(&bytes[at..], seed) {
            HeaderFound::Sound(header) => Some((at, header)),
            HeaderFound::Blank | HeaderFound::Unsound => None,
        }
    })
}

fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::batched::Batched;
    use crate::format::to_u64;

    const PLACE: Place = Place {
        segment: 2,
        epoch: 1,
        first: 5,
        durable: 4,
        seed: 99,
    };

    fn sound(bytes: &[u8]) -> FrameHeader {
        match FrameHeader::parse(bytes, PLACE.seed) {
            HeaderFound::Sound(header) => header,
            _ => panic!("the header is not sound"),
        }
    }

    #[test]
    fn a_frame_gives_back_its_records() {
        let (mut packer, mut unpacked) = (Packer::default(), Vec::new());
        let random = |number: u32| blake3::hash(&number.to_le_bytes()).as_bytes().to_vec();
        for (records, kind) in [
            (vec![vec![]], KIND_DATA),
            (vec![vec![1, 2, 3], vec![], vec![0; 100]], KIND_DATA),
            ((0..200).map(random).collect(), KIND_DATA),
            (vec![b"alike".repeat(40); 200], KIND_PACKED),
            (vec![vec![], vec![7; 100_000], vec![1, 2]], KIND_PACKED),
        ] {
            let mut buffer = Vec::new();
            let mut chain = [3; 16];
            let mut batched = Batched::of(&records);
            let batch = batched.batches(usize::MAX).next().unwrap();
            assert_eq!(
                batch.payload_bytes(),
                records.iter().map(Vec::len).sum::<usize>()
            );
            batch.frame(&mut buffer, &mut packer, PLACE, &mut chain);
            let header = sound(&buffer);
            assert_eq!(header.kind, kind);
            if kind == KIND_DATA {
                assert_eq!(batch.frame_bytes(), to_u64(buffer.len()));
            } else {
                assert!(batch.frame_bytes() > 2 * to_u64(buffer.len()));
            }
            assert_eq!(header.bytes(), u64::try_from(buffer.len()).unwrap());
            assert!(header.payload_is_sound(&buffer, PLACE.seed));
            let written = buffer.clone();
            assert!(header.follows(&mut buffer, &[3; 16]));
            assert!(!header.follows(&mut buffer, &[4; 16]));
            assert_eq!(buffer, written);
            assert_eq!(header.chain, chain);
            let found: Vec<_> = header
                .records(&buffer, &mut unpacked)
                .unwrap()
                .map(<[u8]>::to_vec)
                .collect();
            assert_eq!(found, records);
            assert!(header.records_again(&buffer, &unpacked).eq(records.iter()));
        }
    }

    #[test]
    fn marks_have_the_length_that_is_set_aside_for_them() {
        let mut buffer = Vec::new();
        push_seal(&mut buffer, PLACE, &mut [0; 16]);
        assert_eq!(buffer.len(), to_usize(SEAL_BYTES));
        buffer.clear();
        push_start(&mut buffer, PLACE, &mut [0; 16]);
        assert_eq!(buffer.len(), to_usize(START_BYTES));
    }

    #[test]
    fn every_flipped_bit_of_a_frame_is_found() {
        for records in [vec![vec![7; 21], vec![]], vec![vec![7; 5_000], vec![]]] {
            every_flipped_bit_is_found(&records);
        }
    }

    fn every_flipped_bit_is_found(records: &[Vec<u8>]) {
        let mut buffer = Vec::new();
        let mut batched = Batched::of(records);
        let batch = batched.batches(usize::MAX).next().unwrap();
        batch.frame(&mut buffer, &mut Packer::default(), PLACE, &mut [3; 16]);
        assert!(buffer.len() < 200);
        for bit in 0..buffer.len() * 8 {
            let mut flipped = buffer.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let passed = match FrameHeader::parse(&flipped, PLACE.seed) {
                HeaderFound::Sound(header) => header.payload_is_sound(&flipped, PLACE.seed),
                _ => false,
            };
            assert!(!passed, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_is_sound_in_its_own_log_only() {
        let mut buffer = Vec::new();
        push_seal(&mut buffer, PLACE, &mut [0; 16]);
        assert!(matches!(
            FrameHeader::parse(&buffer, 98),
            HeaderFound::Unsound
        ));
        assert!(matches!(
            FrameHeader::parse(&[0; HEADER], 98),
            HeaderFound::Blank
        ));
    }

    #[test]
    fn a_header_is_found_again_behind_other_bytes() {
        let mut buffer = vec![0x57; 24];
        push_seal(&mut buffer, PLACE, &mut [0; 16]);
        assert_eq!(find_sound(&buffer, PLACE.seed).unwrap().0, 24);
        assert!(find_sound(&buffer[..buffer.len() - 1], PLACE.seed).is_none());
        assert!(find_sound(&buffer[..10], PLACE.seed).is_none());
    }
}
