//! The names of the files, and their beginnings: magic words and versions. Built and parsed here only. All integers
//! are little-endian.
//!
//! Every file begins with the same 16 bytes, in every version, so that a newer
//! version is not taken for damage:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC32 of the 12 bytes before |
//!
//! A segment's header fills one block of 4096 bytes:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning, magic `walsegmt` |
//! | 16 | 16 | log id |
//! | 32 | 8 | epoch |
//! | 40 | 8 | segment number |
//! | 48 | 8 | bytes of the file when it was made |
//! | 56 | 4 | zeros |
//! | 60 | 4 | CRC32 of the 60 bytes before |
//! | 64 | 4032 | zeros |
//!
//! The first position and the chain digest at the start are in the first frame
//! (see `frame`), because a segment is made before they are known.

/// The newest version of the format of any file; all versions up to it are read.
pub const FORMAT_VERSION: u32 = 3;
/// The version of a segment. Version 1, whose frames are not packed, is read as well.
pub(crate) const SEGMENT_VERSION: u32 = 2;
/// The version of a snapshot. Versions 1, whose blocks are not packed, and 2, which have no notes, are read as well.
pub(crate) const SNAPSHOT_VERSION: u32 = 3;
/// The version of a file of ancestors.
pub(crate) const ANCESTORS_VERSION: u32 = 1;
/// The version of a manifest that lists no snapshots.
pub(crate) const MANIFEST_VERSION_PLAIN: u32 = 1;
/// The version of a manifest that lists snapshots.
pub(crate) const MANIFEST_VERSION_SNAPSHOTS: u32 = 2;
/// The version of a manifest that lists ancestors.
pub(crate) const MANIFEST_VERSION: u32 = 3;

/// The largest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const MANIFEST_TEMP: &str = "manifest.new";
/// File that a backup or a restore makes first in its directory, and removes last.
pub(crate) const COPY_TEMP: &str = "copy.new";
pub(crate) const LOCK: &str = "lock";
/// File of a snapshot that is carried here from another process (see `seed`).
pub(crate) const CARRIED: &str = "carried";
pub(crate) const QUARANTINE: &str = "quarantine";

const SEGMENT_PREFIX: &str = "segment-";
const SEGMENT_SUFFIX: &str = ".log";
const ANCESTORS_PREFIX: &str = "ancestors-";
const SNAPSHOT_PREFIX: &str = "snapshot-";
const SNAPSHOT_SUFFIX: &str = ".snap";
/// Suffix added to the name of a snapshot that cannot be read.
const BAD_SUFFIX: &str = ".bad";
const TEMP_SUFFIX: &str = ".new";
const NUMBER_DIGITS: usize = 16;

pub(crate) const MANIFEST_MAGIC: [u8; 8] = *b"walmanif";
const SEGMENT_MAGIC: [u8; 8] = *b"walsegmt";
pub(crate) const SNAPSHOT_MAGIC: [u8; 8] = *b"walsnaps";
pub(crate) const ANCESTORS_MAGIC: [u8; 8] = *b"walances";

/// Length of the beginning that all files share, in bytes.
pub(crate) const PRELUDE: usize = 16;
/// Offset of the first frame of a segment; before it is the header block.
pub(crate) const FIRST_FRAME: u64 = 4096;
/// Files grow in whole blocks.
pub(crate) const BLOCK: u64 = 4096;

pub(crate) type LogId = [u8; 16];
pub(crate) type Chain = [u8; 16];

/// Limit that no number in a log ever reaches: positions, epochs, counts and lengths below it can be added without
/// an overflow. At a thousand million records each second, a log would take seventy years to get there.
pub(crate) const NUMBER_LIMIT: u64 = 1 << 61;

static ZEROS: [u8; 4096] = [0; 4096];

/// `segment-0000000000000007.log`
pub(crate) fn segment_name(number: u64) -> String {
    format!(
        "{SEGMENT_PREFIX}{number:0width$}{SEGMENT_SUFFIX}",
        width = NUMBER_DIGITS
    )
}

/// The name a segment has until it is complete.
pub(crate) fn segment_temp_name(number: u64) -> String {
    format!("{}{TEMP_SUFFIX}", segment_name(number))
}

/// The number in a segment's name; `None` for every other file.
pub(crate) fn parse_segment_name(name: &str) -> Option<u64> {
    let digits = name
        .strip_prefix(SEGMENT_PREFIX)?
        .strip_suffix(SEGMENT_SUFFIX)?;
    let number = digits.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// `snapshot-0000000000000003.snap`
pub(crate) fn snapshot_name(number: u64) -> String {
    format!(
        "{SNAPSHOT_PREFIX}{number:0width$}{SNAPSHOT_SUFFIX}",
        width = NUMBER_DIGITS
    )
}

/// The name a snapshot has until it is complete and checked.
pub(crate) fn snapshot_temp_name(number: u64) -> String {
    format!("{}{TEMP_SUFFIX}", snapshot_name(number))
}

/// The name of a snapshot that could not be read, which is kept for people to look at; `copy` counts
/// up from 1 when a name is taken.
pub(crate) fn snapshot_bad_name(number: u64, copy: u32) -> String {
    let first = format!("{}{BAD_SUFFIX}", snapshot_name(number));
    match copy {
        1 => first,
        copy => format!("{first}.{copy}"),
    }
}

/// `ancestors-` and the id of the log whose ancestors are in it.
pub(crate) fn ancestors_name(log: &LogId) -> String {
    let digits: String = log.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{ANCESTORS_PREFIX}{digits}")
}

/// Whether a name is that of a file of ancestors.
pub(crate) fn is_ancestors_name(name: &str) -> bool {
    name.starts_with(ANCESTORS_PREFIX)
}

/// The name that a file of ancestors has until it is complete.
pub(crate) fn ancestors_temp_name(log: &LogId) -> String {
    format!("{}{TEMP_SUFFIX}", ancestors_name(log))
}

/// The name that a recovery gives to a file it gives up; `copy` counts up when a name is taken.
pub(crate) fn given_up_name(name: &str, copy: u32) -> String {
    format!("{name}.given-up.{copy}")
}

/// The number in a snapshot's name; `None` for every other file.
pub(crate) fn parse_snapshot_name(name: &str) -> Option<u64> {
    let digits = name
        .strip_prefix(SNAPSHOT_PREFIX)?
        .strip_suffix(SNAPSHOT_SUFFIX)?;
    let number = digits.parse().ok()?;
    (snapshot_name(number) == name).then_some(number)
}

/// Whether a name is that of an unfinished file, as a crash leaves it.
pub(crate) fn is_temp_name(name: &str) -> bool {
    name == MANIFEST_TEMP
        || name == COPY_TEMP
        || name.strip_suffix(TEMP_SUFFIX).is_some_and(|rest| {
            let is_of_ancestors = rest.starts_with(ANCESTORS_PREFIX);
            is_of_ancestors
                || parse_segment_name(rest).is_some()
                || parse_snapshot_name(rest).is_some()
        })
}

/// The path of the file that keeps the bytes of a torn tail; `copy` counts up when a name is taken.
pub(crate) fn quarantine_name(segment: u64, offset: u64, copy: u32) -> String {
    format!(
        "{QUARANTINE}/segment-{segment:0width$}-offset-{offset}.{copy}.bytes",
        width = NUMBER_DIGITS
    )
}

/// The chain digest that the first frame of a log follows.
pub(crate) fn first_chain(log: &LogId) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"wal chain 1");
    hasher.update(log);
    short_digest(&hasher)
}

pub(crate) fn short_digest(hasher: &blake3::Hasher) -> Chain {
    let mut chain = Chain::default();
    chain.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    chain
}

/// The value that every frame's CRC starts from: a frame of another log, or one
/// embedded in a record's payload, is not valid in this one.
pub(crate) fn crc_seed(log: &LogId) -> u32 {
    crc32fast::hash(log)
}

/// The beginning of a file, as found.
pub(crate) enum Prelude {
    Version(u32),
    Damaged(&'static str),
}

pub(crate) fn prelude(magic: &[u8; 8], version: u32) -> [u8; PRELUDE] {
    let mut bytes = [0; PRELUDE];
    bytes[..8].copy_from_slice(magic);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn parse_prelude(bytes: &[u8], magic: &[u8; 8]) -> Prelude {
    if bytes.len() < PRELUDE {
        return Prelude::Damaged("the file is too short to be one");
    }
    if bytes[..8] != *magic {
        return Prelude::Damaged("the file does not begin as one does");
    }
    if crc32fast::hash(&bytes[..12]) != get_u32(bytes, 12) {
        return Prelude::Damaged("the checksum of the file's beginning is wrong");
    }
    Prelude::Version(get_u32(bytes, 8))
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) log: LogId,
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) size: u64,
}

/// A segment's header, as found.
pub(crate) enum HeaderFound {
    Sound(SegmentHeader),
    Unsupported(u32),
    Damaged { offset: u64, what: &'static str },
}

impl SegmentHeader {
    /// Encodes the whole header block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; to_usize(FIRST_FRAME)];
        block[..PRELUDE].copy_from_slice(&prelude(&SEGMENT_MAGIC, SEGMENT_VERSION));
        block[16..32].copy_from_slice(&self.log);
        block[32..40].copy_from_slice(&self.epoch.to_le_bytes());
        block[40..48].copy_from_slice(&self.number.to_le_bytes());
        block[48..56].copy_from_slice(&self.size.to_le_bytes());
        let crc = crc32fast::hash(&block[..60]);
        block[60..64].copy_from_slice(&crc.to_le_bytes());
        block
    }

    pub(crate) fn parse(block: &[u8]) -> HeaderFound {
        match parse_prelude(block, &SEGMENT_MAGIC) {
            Prelude::Damaged(what) => return HeaderFound::Damaged { offset: 0, what },
            Prelude::Version(1..=SEGMENT_VERSION) => {}
            Prelude::Version(other) => return HeaderFound::Unsupported(other),
        }
        if block.len() < to_usize(FIRST_FRAME) {
            return HeaderFound::Damaged {
                offset: to_u64(block.len()),
                what: "the header block is cut off",
            };
        }
        if crc32fast::hash(&block[..60]) != get_u32(block, 60) {
            return HeaderFound::Damaged {
                offset: 16,
                what: "the checksum of the segment's header is wrong",
            };
        }
        if !is_zero(&block[56..60]) || !is_zero(&block[64..]) {
            return HeaderFound::Damaged {
                offset: 56,
                what: "the unused part of the segment's header is not zero",
            };
        }
        HeaderFound::Sound(Self {
            log: get_16(block, 16),
            epoch: get_u64(block, 32),
            number: get_u64(block, 40),
            size: get_u64(block, 48),
        })
    }
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(
        bytes[at..at + 8]
            .try_into()
            .expect("a slice of eight bytes"),
    )
}

pub(crate) fn get_16(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes[at..at + 16]
        .try_into()
        .expect("a slice of sixteen bytes")
}

pub(crate) fn to_u64(length: usize) -> u64 {
    u64::try_from(length).expect("no machine counts memory in more than 64 bits")
}

pub(crate) fn to_usize(length: u64) -> usize {
    usize::try_from(length).expect("64-bit machines only: lengths in memory fit")
}

pub(crate) fn to_u32(length: usize) -> u32 {
    u32::try_from(length).expect("records are bounded well below 4 GiB")
}

/// Whether all bytes are zero; as quick as comparing memory.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(ZEROS.len())
        .all(|chunk| *chunk == ZEROS[..chunk.len()])
}

pub(crate) const fn round_up(length: u64, unit: u64) -> u64 {
    length.div_ceil(unit) * unit
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_are_parsed_as_they_are_built() {
        for number in [1, 7, 12_345_678, u64::from(u32::MAX)] {
            assert_eq!(parse_segment_name(&segment_name(number)), Some(number));
            assert_eq!(parse_segment_name(&segment_temp_name(number)), None);
            assert!(is_temp_name(&segment_temp_name(number)));
        }
        for other in [
            "segment-1.log",
            "segment-+000000000000001.log",
            "lock",
            "segment-.log",
        ] {
            assert_eq!(parse_segment_name(other), None, "{other}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_segment_header_is_found() {
        let header = SegmentHeader {
            log: [7; 16],
            epoch: 3,
            number: 9,
            size: 8192,
        };
        let block = header.encode();
        assert!(
            matches!(SegmentHeader::parse(&block), HeaderFound::Sound(found) if found == header)
        );
        for bit in 0..block.len() * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(SegmentHeader::parse(&flipped), HeaderFound::Damaged { .. }),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_newer_version_is_not_taken_for_damage() {
        let header = SegmentHeader {
            log: [7; 16],
            epoch: 3,
            number: 9,
            size: 8192,
        };
        let mut block = header.encode();
        block[8] = 3;
        let crc = crc32fast::hash(&block[..12]);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(
            SegmentHeader::parse(&block),
            HeaderFound::Unsupported(3)
        ));
    }
}
