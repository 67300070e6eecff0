//! The list of the segments that make up the log. Replaced as a whole: written
//! beside, synced, renamed, directory synced.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning (see `format`), magic `walmanif` |
//! | 16 | 16 | log id |
//! | 32 | 8 | generation: counts the manifests of this log |
//! | 40 | 8 | epoch: counts the starts |
//! | 48 | 8 | number of the next segment |
//! | 56 | 8 | first live position: 1 until a compaction removes segments |
//! | 64 | 16 | chain digest before the first live position |
//! | 80 | 4 | snapshots, two at most (version 1: zeros) |
//! | 84 | 4 | segments |
//! | 88 | 64 each | segments, see below |
//! | … | 48 each | snapshots, see below |
//! | … | 16 | first 128 bits of BLAKE3 of all bytes before |
//! | … | 4 | CRC32 of all bytes before |
//!
//! A segment:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | number |
//! | 8 | 8 | epoch |
//! | 16 | 4 | state: 1 open, 2 sealed |
//! | 20 | 4 | zeros |
//! | 24 | 8 | sealed: end of the last frame |
//! | 32 | 8 | sealed: first position (the next one, when it has no records) |
//! | 40 | 8 | sealed: last position (one less than the first, when it has no records) |
//! | 48 | 16 | sealed: chain digest after the last frame |
//!
//! An open segment has zeros there.
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
//! A manifest that lists no snapshots is written as version 1, which earlier
//! releases read; one that does is version 2.

use std::io;

use crate::error::Error;
use crate::format::{
    self, Chain, FORMAT_VERSION, LogId, MANIFEST, MANIFEST_MAGIC, MANIFEST_TEMP, MANIFEST_VERSION,
    MANIFEST_VERSION_PLAIN, NUMBER_LIMIT, PRELUDE, Prelude, get_16, get_u32, get_u64, is_zero,
    to_u32, to_u64, to_usize,
};
use crate::storage::{Storage, write_all_at};

const HEAD: usize = 88;
const ENTRY: usize = 64;
const SNAPSHOT_ENTRY: usize = 48;
const TAIL: usize = 20;
/// How many snapshots are kept.
pub(crate) const SNAPSHOTS_MAX: usize = 2;
const OPEN: u32 = 1;
const SEALED: u32 = 2;

/// What a sealed segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// End of the last frame, in bytes from the start of the file.
    pub(crate) length: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The digest after the last frame.
    pub(crate) chain: Chain,
}

/// One segment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    /// `None` while frames may be appended.
    pub(crate) seal: Option<Seal>,
}

/// One snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    /// Every record up to this position is in it.
    pub(crate) covers: u64,
    /// The last position of which anything is in it.
    pub(crate) upto: u64,
    /// Length of the file in bytes.
    pub(crate) length: u64,
    /// The digest of its last block.
    pub(crate) chain: Chain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) log: LogId,
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
    pub(crate) next_number: u64,
    pub(crate) first_position: u64,
    pub(crate) first_chain: Chain,
    pub(crate) segments: Vec<Segment>,
    /// Oldest first; two at most.
    pub(crate) snapshots: Vec<Snapshot>,
}

impl Manifest {
    /// Of a log without segments.
    pub(crate) fn new(log: LogId) -> Self {
        Self {
            log,
            generation: 0,
            epoch: 0,
            next_number: 1,
            first_position: 1,
            first_chain: format::first_chain(&log),
            segments: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    fn version(&self) -> u32 {
        if self.snapshots.is_empty() {
            MANIFEST_VERSION_PLAIN
        } else {
            MANIFEST_VERSION
        }
    }

    fn encode(&self) -> Vec<u8> {
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
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(&digest.as_bytes()[..16]);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a manifest; the error is an offset and what is wrong there.
    fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        match format::parse_prelude(bytes, &MANIFEST_MAGIC) {
            Prelude::Damaged(what) => return Err(Bad::Damaged(0, what)),
            Prelude::Version(MANIFEST_VERSION_PLAIN | MANIFEST_VERSION) => {}
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
        let plain = get_u32(bytes, 8) == MANIFEST_VERSION_PLAIN;
        let snapshots = to_usize(u64::from(get_u32(body, 80)));
        let count = to_usize(u64::from(get_u32(body, 84)));
        let entries = count * ENTRY;
        if (snapshots == 0) != plain
            || snapshots > SNAPSHOTS_MAX
            || body.len() - HEAD != entries + snapshots * SNAPSHOT_ENTRY
        {
            return Err(Bad::Damaged(
                80,
                "the manifest does not have the length it states",
            ));
        }
        let mut manifest = Self {
            log: get_16(body, 16),
            generation: get_u64(body, 32),
            epoch: get_u64(body, 40),
            next_number: get_u64(body, 48),
            first_position: get_u64(body, 56),
            first_chain: get_16(body, 64),
            segments: Vec::with_capacity(count),
            snapshots: Vec::with_capacity(snapshots),
        };
        let (segments, snapshots) = body[HEAD..].split_at(entries);
        for entry in snapshots.chunks_exact(SNAPSHOT_ENTRY) {
            manifest.snapshots.push(Snapshot {
                number: get_u64(entry, 0),
                covers: get_u64(entry, 8),
                upto: get_u64(entry, 16),
                length: get_u64(entry, 24),
                chain: get_16(entry, 32),
            });
        }
        for (index, entry) in segments.chunks_exact(ENTRY).enumerate() {
            let seal = match get_u32(entry, 16) {
                OPEN if is_zero(&entry[20..]) => None,
                SEALED if is_zero(&entry[20..24]) => Some(Seal {
                    length: get_u64(entry, 24),
                    first: get_u64(entry, 32),
                    last: get_u64(entry, 40),
                    chain: get_16(entry, 48),
                }),
                _ => {
                    return Err(Bad::Damaged(
                        HEAD + index * ENTRY,
                        "a segment in the manifest has no known state",
                    ));
                }
            };
            manifest.segments.push(Segment {
                number: get_u64(entry, 0),
                epoch: get_u64(entry, 8),
                seal,
            });
        }
        if !manifest.is_within_limits() {
            return Err(Bad::Damaged(
                PRELUDE,
                "the manifest has numbers that no log reaches",
            ));
        }
        let rising = manifest
            .segments
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number);
        let sealed = manifest
            .segments
            .iter()
            .filter_map(|segment| segment.seal)
            .all(|seal| {
                seal.length >= format::FIRST_FRAME && (1..=seal.last + 1).contains(&seal.first)
            });
        let below = manifest
            .segments
            .iter()
            .all(|segment| segment.number < manifest.next_number);
        let snapshots_rise = manifest
            .snapshots
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number && pair[0].covers <= pair[1].covers);
        let snapshots_reach = manifest.snapshots.iter().all(|snapshot| {
            snapshot.covers <= snapshot.upto
                && manifest.first_position <= snapshot.covers.saturating_add(1)
        });
        if manifest.first_position == 0 || !rising || !below {
            return Err(Bad::Damaged(
                HEAD,
                "the segments in the manifest are not in order",
            ));
        }
        if !sealed {
            return Err(Bad::Damaged(
                HEAD,
                "the end of a segment in the manifest is not one",
            ));
        }
        if !snapshots_rise || !snapshots_reach {
            return Err(Bad::Damaged(
                HEAD + entries,
                "the snapshots in the manifest are not in order",
            ));
        }
        Ok(manifest)
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
        own.into_iter()
            .chain(sealed)
            .chain(segments)
            .chain(snapshots)
            .all(|number| number < NUMBER_LIMIT)
    }

    /// The manifest of a directory, or `None` when it has none.
    pub(crate) fn load(storage: &dyn Storage) -> Result<Option<Self>, Error> {
        let name = storage.describe(MANIFEST);
        let file = match storage.open_read(MANIFEST) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", name)(error)),
        };
        let length = file.length().map_err(Error::io("read", name.as_str()))?;
        let mut bytes = vec![0; to_usize(length)];
        let read = file
            .read_at(&mut bytes, 0)
            .map_err(Error::io("read", name.as_str()))?;
        bytes.truncate(read);
        match Self::parse(&bytes) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(Bad::Version(version)) => Err(Error::Unsupported {
                file: name,
                version,
                newest: FORMAT_VERSION,
            }),
            Err(Bad::Damaged(offset, what)) => Err(Error::Damaged {
                file: name,
                offset: to_u64(offset),
                position: None,
                what: what.to_owned(),
            }),
        }
    }

    /// Puts this manifest in the place of the one before. When it returns, this
    /// one is durable; after an error, either may be.
    pub(crate) fn store(&self, storage: &dyn Storage) -> Result<(), Error> {
        self.write_beside(storage)?;
        Self::put_in_place(storage)
    }

    /// Writes this manifest beside the one in force.
    pub(crate) fn write_beside(&self, storage: &dyn Storage) -> Result<(), Error> {
        let name = storage.describe(MANIFEST_TEMP);
        // A file whose sync failed must never be taken for written: each attempt makes a new one.
        remove_if_there(storage, MANIFEST_TEMP)?;
        let file = storage
            .create(MANIFEST_TEMP)
            .map_err(Error::io("create", name.as_str()))?;
        write_all_at(file.as_ref(), &self.encode(), 0)
            .map_err(Error::io("write", name.as_str()))?;
        file.sync().map_err(Error::io("sync", name))
    }

    /// Makes the manifest that was written beside the one in force.
    pub(crate) fn put_in_place(storage: &dyn Storage) -> Result<(), Error> {
        let name = storage.describe(MANIFEST_TEMP);
        storage
            .rename(MANIFEST_TEMP, MANIFEST)
            .map_err(Error::io("rename", name))?;
        storage
            .sync_dir("")
            .map_err(Error::io("sync", storage.describe("")))
    }
}

/// Removes a file; that there is none is as good.
pub(crate) fn remove_if_there(storage: &dyn Storage, name: &str) -> Result<(), Error> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", storage.describe(name))(error))
        }
        _ => Ok(()),
    }
}

/// For fuzzers: a manifest that is accepted is the one that would be written.
#[cfg(feature = "fuzzing")]
pub(crate) fn encodes_as_it_parses(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert!(manifest.encode() == bytes, "it is encoded in another way");
    }
}

enum Bad {
    Version(u32),
    Damaged(usize, &'static str),
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
        manifest
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let mut manifest = example();
        assert!(Manifest::parse(&manifest.encode()).is_ok_and(|found| found == manifest));
        manifest.snapshots.clear();
        let plain = manifest.encode();
        assert_eq!(get_u32(&plain, 8), MANIFEST_VERSION_PLAIN);
        assert!(Manifest::parse(&plain).is_ok_and(|found| found == manifest));
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
