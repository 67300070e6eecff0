//! The bytes of a manifest.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning that every file has, with the magic `walmanif` |
//! | 16 | 16 | log id |
//! | 32 | 8 | generation: counts the manifests of this log |
//! | 40 | 8 | epoch: counts the starts |
//! | 48 | 8 | number of the next segment |
//! | 56 | 8 | first live position: 1 until a compaction removes segments |
//! | 64 | 16 | chain digest before the first live position |
//! | 80 | 4 | number of snapshots, two at most (version 1: zero) |
//! | 84 | 4 | number of segments |
//! | 88 | 8 | number of ancestors (4 bytes) and zeros (4 bytes); versions 1 and 2 lack these 8 bytes |
//! | … | 64 each | the segments, oldest first: the table of a segment is below |
//! | … | 48 each | the snapshots, oldest first: the table of a snapshot is below |
//! | … | 24 each | the ancestors, oldest first (only in version 3): the table of an ancestor is below |
//! | … | 16 | first 128 bits of BLAKE3 of all bytes before |
//! | … | 4 | CRC32 of all bytes before |
//!
//! A segment; of an open one, the bytes from offset 24 on are zeros:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | number |
//! | 8 | 8 | epoch |
//! | 16 | 4 | state: 1 open, 2 sealed |
//! | 20 | 4 | zeros |
//! | 24 | 8 | offset in the file where its last frame ends |
//! | 32 | 8 | position of its first record; without records, the next position |
//! | 40 | 8 | position of its last record; without records, the position before the next one |
//! | 48 | 16 | chain digest after its last frame |
//!
//! A snapshot:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | number |
//! | 8 | 8 | covers: every record up to this position is in it |
//! | 16 | 8 | upto: the last position of which anything is in it |
//! | 24 | 8 | length of the file |
//! | 32 | 16 | chain digest of its last block |
//!
//! An ancestor is a log that this one was restored or recovered from; the oldest
//! comes first:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | log id |
//! | 16 | 8 | upto: the last position that was appended under this id |
//!
//! A manifest without ancestors is written as version 1 when it lists no
//! snapshots, else as version 2, which earlier releases read; one with ancestors is
//! version 3.

use super::types::{Ancestor, Manifest, SNAPSHOTS_MAX, Seal, Segment, Snapshot};
use crate::format::{
    self, MANIFEST_MAGIC, MANIFEST_VERSION, MANIFEST_VERSION_PLAIN, MANIFEST_VERSION_SNAPSHOTS,
    NUMBER_LIMIT, PRELUDE, Prelude, get_16, get_u32, get_u64, is_zero, to_u32, to_u64, to_usize,
};

const HEAD: usize = 88;
/// Bytes that version 3 adds to the head.
const ANCESTORS: usize = 8;
const ANCESTOR_ENTRY: usize = 24;
/// Number of bytes at the beginning that contain the head of every version.
pub(super) const BEGINNING: usize = HEAD + ANCESTORS;
const ENTRY: usize = 64;
const SNAPSHOT_ENTRY: usize = 48;
const TAIL: usize = 20;
const OPEN: u32 = 1;
const SEALED: u32 = 2;

/// Why bytes are no manifest.
pub(super) enum Bad {
    /// It has a version that this release does not know.
    Version(u32),
    /// An offset, and what is wrong there.
    Damaged(usize, &'static str),
}

impl Manifest {
    fn version(&self) -> u32 {
        match (self.ancestors.is_empty(), self.snapshots.is_empty()) {
            (true, true) => MANIFEST_VERSION_PLAIN,
            (true, false) => MANIFEST_VERSION_SNAPSHOTS,
            (false, _) => MANIFEST_VERSION,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (segments, snapshots) = (self.segments.len(), self.snapshots.len());
        let length = HEAD + ENTRY * segments + SNAPSHOT_ENTRY * snapshots + TAIL;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&format::prelude(&MANIFEST_MAGIC, self.version()));
        bytes.extend_from_slice(&self.log);
        for number in [
            self.generation,
            self.epoch,
            self.next_number,
            self.first_position,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.first_chain);
        bytes.extend_from_slice(&to_u32(snapshots).to_le_bytes());
        bytes.extend_from_slice(&to_u32(segments).to_le_bytes());
        if !self.ancestors.is_empty() {
            let ancestors = to_u32(self.ancestors.len());
            bytes.extend_from_slice(&ancestors.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        for segment in &self.segments {
            bytes.extend_from_slice(&segment.number.to_le_bytes());
            bytes.extend_from_slice(&segment.epoch.to_le_bytes());
            let state = if segment.seal.is_some() { SEALED } else { OPEN };
            bytes.extend_from_slice(&state.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
            let seal = segment.seal.unwrap_or(Seal {
                length: 0,
                first: 0,
                last: 0,
                chain: [0; 16],
            });
            for number in [seal.length, seal.first, seal.last] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&seal.chain);
        }
        for snapshot in &self.snapshots {
            let Snapshot {
                number,
                covers,
                upto,
                length,
                chain,
            } = snapshot;
            for number in [number, covers, upto, length] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(chain);
        }
        for ancestor in &self.ancestors {
            bytes.extend_from_slice(&ancestor.log_id);
            bytes.extend_from_slice(&ancestor.upto.to_le_bytes());
        }
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(&digest.as_bytes()[..16]);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns the length of a manifest that begins with these bytes, at least [`BEGINNING`] of
    /// them if it has that many; `None` when they are not the beginning of a manifest that can be
    /// read.
    pub(super) fn stated_length(beginning: &[u8]) -> Option<u64> {
        let version = match format::parse_prelude(beginning, &MANIFEST_MAGIC) {
            Prelude::Version(version @ 1..=MANIFEST_VERSION) => version,
            Prelude::Version(_) | Prelude::Damaged(_) => return None,
        };
        let head = match version {
            MANIFEST_VERSION => BEGINNING,
            _ => HEAD,
        };
        if beginning.len() < head {
            return None;
        }
        let entries = |at, bytes: usize| u64::from(get_u32(beginning, at)) * to_u64(bytes);
        let ancestors = match version {
            MANIFEST_VERSION => entries(HEAD, ANCESTOR_ENTRY),
            _ => 0,
        };
        let listed = entries(80, SNAPSHOT_ENTRY) + entries(84, ENTRY) + ancestors;
        Some(to_u64(head) + listed + to_u64(TAIL))
    }

    /// Reads a manifest.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        let body = unaltered(bytes)?;
        let version = get_u32(body, 8);
        let snapshots = to_usize(u64::from(get_u32(body, 80)));
        let segments = to_usize(u64::from(get_u32(body, 84)));
        let wrong = || Bad::Damaged(80, "the manifest does not have the length it states");
        let (head, ancestors) = if version == MANIFEST_VERSION {
            if body.len() < HEAD + ANCESTORS || !is_zero(&body[HEAD + 4..HEAD + ANCESTORS]) {
                return Err(wrong());
            }
            let ancestors = to_usize(u64::from(get_u32(body, HEAD)));
            (HEAD + ANCESTORS, ancestors)
        } else {
            (HEAD, 0)
        };
        let snapshots_at = head + segments * ENTRY;
        let ancestors_at = snapshots_at + snapshots * SNAPSHOT_ENTRY;
        if snapshots > SNAPSHOTS_MAX || body.len() != ancestors_at + ancestors * ANCESTOR_ENTRY {
            return Err(wrong());
        }
        let mut manifest = Self {
            log: get_16(body, 16),
            generation: get_u64(body, 32),
            epoch: get_u64(body, 40),
            next_number: get_u64(body, 48),
            first_position: get_u64(body, 56),
            first_chain: get_16(body, 64),
            segments: Vec::with_capacity(segments),
            snapshots: Vec::with_capacity(snapshots),
            ancestors: Vec::with_capacity(ancestors),
        };
        let entries = body[head..snapshots_at].chunks_exact(ENTRY);
        for (index, entry) in entries.enumerate() {
            let what = "a segment in the manifest has no known state";
            let segment = segment(entry).ok_or(Bad::Damaged(head + index * ENTRY, what))?;
            manifest.segments.push(segment);
        }
        for entry in body[snapshots_at..ancestors_at].chunks_exact(SNAPSHOT_ENTRY) {
            manifest.snapshots.push(Snapshot {
                number: get_u64(entry, 0),
                covers: get_u64(entry, 8),
                upto: get_u64(entry, 16),
                length: get_u64(entry, 24),
                chain: get_16(entry, 32),
            });
        }
        for entry in body[ancestors_at..].chunks_exact(ANCESTOR_ENTRY) {
            manifest.ancestors.push(Ancestor {
                log_id: get_16(entry, 0),
                upto: get_u64(entry, 16),
            });
        }
        if manifest.version() != version {
            return Err(wrong());
        }
        if !manifest.is_within_limits() {
            let what = "the manifest has numbers that no log reaches";
            return Err(Bad::Damaged(PRELUDE, what));
        }
        if let Some(what) = manifest.fault_of_segments() {
            return Err(Bad::Damaged(HEAD, what));
        }
        if !manifest.has_snapshots_in_order() {
            let what = "the snapshots in the manifest are not in order";
            return Err(Bad::Damaged(snapshots_at, what));
        }
        let uptos = manifest.ancestors.iter().map(|ancestor| ancestor.upto);
        let uptos: Vec<_> = [0].into_iter().chain(uptos).collect();
        if !uptos.windows(2).all(|pair| pair[0] < pair[1]) {
            let what = "the ancestors in the manifest are not in order";
            return Err(Bad::Damaged(ancestors_at, what));
        }
        Ok(manifest)
    }

    /// Returns what cannot be true of the segments, if anything.
    fn fault_of_segments(&self) -> Option<&'static str> {
        let rising = self
            .segments
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number);
        let below = self
            .segments
            .iter()
            .all(|segment| segment.number < self.next_number);
        if self.first_position == 0 || !rising || !below {
            return Some("the segments in the manifest are not in order");
        }
        let mut seals = self.segments.iter().filter_map(|segment| segment.seal);
        let sealed = seals.all(|seal| {
            seal.length >= format::FIRST_FRAME && (1..=seal.last + 1).contains(&seal.first)
        });
        (!sealed).then_some("the end of a segment in the manifest is not one")
    }

    fn has_snapshots_in_order(&self) -> bool {
        let rise = self
            .snapshots
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number && pair[0].covers <= pair[1].covers);
        let reach = self.snapshots.iter().all(|snapshot| {
            snapshot.covers <= snapshot.upto
                && self.first_position <= snapshot.covers.saturating_add(1)
        });
        rise && reach
    }

    /// Whether all numbers can be counted up without an overflow.
    fn is_within_limits(&self) -> bool {
        let own = [
            self.generation,
            self.epoch,
            self.next_number,
            self.first_position,
        ];
        let sealed = self.segments.iter().filter_map(|segment| segment.seal);
        let sealed = sealed.flat_map(|seal| [seal.length, seal.first, seal.last]);
        let segments = self.segments.iter();
        let segments = segments.flat_map(|segment| [segment.number, segment.epoch]);
        let snapshots = self.snapshots.iter();
        let snapshots = snapshots.flat_map(|snapshot| {
            [
                snapshot.number,
                snapshot.covers,
                snapshot.upto,
                snapshot.length,
            ]
        });
        let ancestors = self.ancestors.iter().map(|ancestor| ancestor.upto);
        own.into_iter()
            .chain(ancestors)
            .chain(sealed)
            .chain(segments)
            .chain(snapshots)
            .all(|number| number < NUMBER_LIMIT)
    }
}

/// The bytes before digest and checksum, when both are right.
fn unaltered(bytes: &[u8]) -> Result<&[u8], Bad> {
    match format::parse_prelude(bytes, &MANIFEST_MAGIC) {
        Prelude::Damaged(what) => return Err(Bad::Damaged(0, what)),
        Prelude::Version(1..=MANIFEST_VERSION) => {}
        Prelude::Version(other) => return Err(Bad::Version(other)),
    }
    if bytes.len() < HEAD + TAIL {
        return Err(Bad::Damaged(bytes.len(), "the manifest is cut off"));
    }
    let (covered, crc) = bytes.split_at(bytes.len() - 4);
    if crc32fast::hash(covered) != get_u32(crc, 0) {
        return Err(Bad::Damaged(PRELUDE, "the manifest's checksum is wrong"));
    }
    let (body, digest) = covered.split_at(covered.len() - 16);
    if blake3::hash(body).as_bytes()[..16] != *digest {
        return Err(Bad::Damaged(PRELUDE, "the manifest's digest is wrong"));
    }
    Ok(body)
}

/// Reads an entry; `None` when it has no known state.
fn segment(entry: &[u8]) -> Option<Segment> {
    let seal = match get_u32(entry, 16) {
        OPEN if is_zero(&entry[20..]) => None,
        SEALED if is_zero(&entry[20..24]) => Some(Seal {
            length: get_u64(entry, 24),
            first: get_u64(entry, 32),
            last: get_u64(entry, 40),
            chain: get_16(entry, 48),
        }),
        _ => return None,
    };
    Some(Segment {
        number: get_u64(entry, 0),
        epoch: get_u64(entry, 8),
        seal,
    })
}

/// For fuzzers: a manifest that is accepted is the one that would be written.
#[cfg(feature = "fuzzing")]
pub(crate) fn encodes_as_it_parses(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert!(manifest.encode() == bytes, "it is encoded in another way");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let mut manifest = Manifest::new([5; 16]);
        manifest.epoch = 2;
        manifest.next_number = 4;
        let seal = Seal {
            length: 9000,
            first: 1,
            last: 12,
            chain: [8; 16],
        };
        manifest.segments.push(Segment {
            number: 1,
            epoch: 1,
            seal: Some(seal),
        });
        manifest.segments.push(Segment {
            number: 3,
            epoch: 2,
            seal: None,
        });
        for number in [4, 6] {
            manifest.snapshots.push(Snapshot {
                number,
                covers: number,
                upto: number + 1,
                length: 500,
                chain: [9; 16],
            });
        }
        for (number, upto) in [(1, 5), (2, 12)] {
            manifest.ancestors.push(Ancestor {
                log_id: [number; 16],
                upto,
            });
        }
        manifest
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let mut manifest = example();
        for version in [MANIFEST_VERSION, MANIFEST_VERSION_SNAPSHOTS] {
            let bytes = manifest.encode();
            assert_eq!(get_u32(&bytes, 8), version);
            assert!(Manifest::parse(&bytes).is_ok_and(|found| found == manifest));
            manifest.ancestors.clear();
        }
        manifest.snapshots.clear();
        let plain = manifest.encode();
        assert_eq!(get_u32(&plain, 8), MANIFEST_VERSION_PLAIN);
        assert!(Manifest::parse(&plain).is_ok_and(|found| found == manifest));
    }

    #[test]
    fn a_log_hands_on_who_appended_what_of_it() {
        let identity = example().identity();
        let handed_on = |last| {
            let ancestors = identity.handed_on(last);
            let all = ancestors.iter();
            all.map(|one| (one.log_id[0], one.upto)).collect::<Vec<_>>()
        };
        assert_eq!(handed_on(20), [(1, 5), (2, 12), (5, 20)]);
        assert_eq!(handed_on(13), [(1, 5), (2, 12), (5, 13)]);
        assert_eq!(handed_on(12), [(1, 5), (2, 12)]);
        assert_eq!(handed_on(6), [(1, 5), (2, 6)]);
        assert_eq!(handed_on(3), [(1, 3)]);
        assert_eq!(handed_on(0), []);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_of_a_manifest_is_found() {
        let bytes = example().encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Manifest::parse(&flipped), Err(Bad::Damaged(..))),
                "bit {bit}"
            );
        }
        for length in 0..bytes.len() {
            assert!(
                matches!(Manifest::parse(&bytes[..length]), Err(Bad::Damaged(..))),
                "length {length}"
            );
        }
    }
}
