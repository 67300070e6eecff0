//! The entry functions of fuzzers: bytes of any kind in the place of a frame, a segment, a manifest or a snapshot. Each
//! function panics when a promise is broken: accepted bytes are those that would be written, `verify` and a start
//! agree, a refusal changes nothing, and the next start finds the same.
//!
//! Checksums would stop a fuzzer at the first byte it changes, so the first
//! bytes of an input say which of them are made right before it is read.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::batched::Batched;
use crate::error::{BoxError, Error};
use crate::format::{self, Chain, FIRST_FRAME, get_16, get_u32, to_u32, to_u64, to_usize};
use crate::frame::{self, FrameHeader, HEADER, HeaderFound, Place, frame_bytes};
use crate::log::Log;
use crate::manifest::{self, Manifest};
use crate::options::Options;
use crate::packed::Packer;
use crate::snapshot;
use crate::storage::sim::SimDisk;
use crate::visitor::{Record, Visitor};
use crate::{Salvage, SnapshotInfo, verify};

/// Bit in the first byte of an input: make the checksums right.
const CHECKSUMS: u8 = 1;
/// Bit in the first byte: make the digests right, too.
const DIGESTS: u8 = 2;
/// Bit in the first byte: the input is a whole file, not edits to a sound one.
const WHOLE: u8 = 4;

fn options() -> Options {
    Options {
        segment_bytes_min: 8 << 10,
        segment_bytes_max: 16 << 10,
        batch_bytes_max: 4 << 10,
        reserve_bytes: 0,
        seal_after: Duration::from_millis(5),
        create: false,
        ..Options::default()
    }
}

/// A sound log of three epochs, with a torn tail's place at its end: the last
/// segment is open. With snapshots, its beginning is compacted away.
fn template(with_snapshots: bool) -> &'static SimDisk {
    static DISKS: [OnceLock<SimDisk>; 2] = [const { OnceLock::new() }; 2];
    DISKS[usize::from(with_snapshots)].get_or_init(|| {
        let disk = SimDisk::new();
        build(&disk, with_snapshots).expect("a simulated disk does not fail by itself");
        disk.after_kill()
    })
}

fn build(disk: &SimDisk, with_snapshots: bool) -> Result<(), BoxError> {
    let mut number = 0_usize;
    for epoch in 0..3_u64 {
        let options = Options {
            create: true,
            ..options()
        };
        let (mut log, _) = Log::open(disk.storage(), options, &mut Seen::default())?;
        for batch in 0..8_u8 {
            let records: Vec<Vec<u8>> = (0..3_usize)
                .map(|record| vec![batch; (number * 37 + record * 301) % 1500])
                .collect();
            number += records.len();
            log.append(&records)?;
        }
        if with_snapshots && epoch < 2 {
            let covers = log.last_position() - 3;
            let mut writer = log.begin_snapshot(covers)?;
            for position in (1..=covers).step_by(2) {
                let kept = position.to_le_bytes().repeat(20);
                // Some have notes; there are enough of both kinds for a block that is packed.
                match position {
                    15..42 => {
                        writer.keep_noted(position, &kept[..to_usize(position % 9)], &kept)?
                    }
                    _ => writer.keep(position, &kept)?,
                }
            }
            for entry in 0..20_u8 {
                writer.entry(&vec![entry; usize::from(entry) * 9])?;
            }
            let upto = log.last_position();
            log.install(writer, upto)?;
            log.compact(&crate::retention::Keep::NOTHING, None)?;
        }
        log.seal()?;
    }
    Ok(())
}

/// Collects what a log shows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    takes_notes: bool,
    notes: Vec<(u64, Vec<u8>)>,
    kept: Vec<(u64, Vec<u8>)>,
    entries: Vec<Vec<u8>>,
    records: Vec<(u64, Vec<u8>)>,
}

impl Visitor for Seen {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.records
            .push((record.position, record.payload.to_vec()));
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        self.reset();
        Ok(())
    }

    fn takes_notes(&self) -> bool {
        self.takes_notes
    }

    fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
        self.notes.push((position, note.to_vec()));
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.kept.push((record.position, record.payload.to_vec()));
        Ok(())
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.entries.push(entry.to_vec());
        Ok(())
    }

    fn reset(&mut self) {
        *self = Self {
            takes_notes: self.takes_notes,
            ..Self::default()
        };
    }
}

/// Checks that a start that takes notes sees what a verification saw, except the records that have
/// notes.
fn takes_notes_of(disk: &SimDisk, verified: &Seen) {
    let mut seen = Seen {
        takes_notes: true,
        ..Seen::default()
    };
    let opened = Log::open(disk.after_kill().storage(), options(), &mut seen);
    assert!(opened.is_ok(), "{:?}", opened.err());
    let has_none = |(position, _): &&(u64, Vec<u8>)| {
        let mut notes = verified.notes.iter();
        notes.all(|(of, _)| of != position)
    };
    assert!(seen.kept.iter().eq(verified.kept.iter().filter(has_none)));
    assert_eq!(
        (&seen.notes, &seen.entries, &seen.records),
        (&verified.notes, &verified.entries, &verified.records)
    );
}

/// Checks that, whatever is on the disk, `verify`, a start, the start after it and a survey of its
/// damage agree with each other.
fn is_consistent(disk: &SimDisk) {
    let mut verified = Seen::default();
    let report = verify(disk.storage(), &mut verified);
    assert_eq!(disk.calls(), 0, "verify changes nothing");
    let copy = disk.after_kill();
    let mut seen = Seen::default();
    match Log::open(copy.storage(), options(), &mut seen) {
        Err(error) => {
            assert!(
                report.is_err(),
                "verify accepts what a start refuses: {error}"
            );
            assert_eq!(copy.calls(), 0, "a refusal changes nothing: {error}");
            assert!(
                matches!(
                    error,
                    Error::Damaged { .. } | Error::Unsupported { .. } | Error::NoLog { .. }
                ),
                "{error}"
            );
            // Whatever can be kept, the survey must not panic.
            let _ = Salvage::survey(disk.after_kill().storage());
        }
        Ok((mut log, opened)) => {
            if let Ok(report) = report {
                assert_eq!(report.last_position, opened.last_position);
                assert_eq!(verified, seen, "verify and a start show the same");
                takes_notes_of(disk, &verified);
            }
            let dense = (opened.last_position + 1 - to_u64(seen.records.len())..)
                .zip(&seen.records)
                .all(|(expected, (position, _))| expected == *position);
            assert!(dense, "positions have no gaps");
            for (position, bytes) in &seen.records {
                let read = log.read(*position);
                assert!(
                    matches!(&read, Ok(Some(found)) if found == bytes),
                    "position {position} was shown and reads as {read:?}"
                );
            }
            let appended = log.append(&[b"after".to_vec()]);
            assert!(
                matches!(appended, Ok(last) if last == opened.last_position + 1),
                "{appended:?}"
            );
            drop(log);
            seen.records
                .push((opened.last_position + 1, b"after".to_vec()));
            let mut again = Seen::default();
            let reopened = Log::open(copy.after_kill().storage(), options(), &mut again);
            assert!(reopened.is_ok(), "{:?}", reopened.err());
            assert_eq!(seen, again, "what was found is found again");
        }
    }
}

/// Edits a file: each three bytes are an offset and a value; or returns the whole file of the input.
fn edited(original: &[u8], flags: u8, input: &[u8]) -> Vec<u8> {
    if flags & WHOLE != 0 {
        return input.to_vec();
    }
    let mut bytes = original.to_vec();
    for edit in input.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        // The last value but one truncates, the last one extends.
        match edit[2] {
            0xfe => bytes.truncate(at),
            0xff => bytes.resize(bytes.len().max(at), 0),
            value => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
        }
    }
    bytes
}

fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// Makes the checksums of a frame right, and its digest when that of the frame
/// before is given.
fn mend_frame(frame: &mut [u8], seed: u32, before: Option<&mut Chain>) {
    if let Some(chain) = before {
        frame[56..HEADER].copy_from_slice(chain);
        *chain = get_16(blake3::hash(&frame[12..]).as_bytes(), 0);
        frame[56..HEADER].copy_from_slice(chain);
    }
    let payload = crc(seed, &frame[12..]);
    frame[8..12].copy_from_slice(&payload.to_le_bytes());
    let header = crc(seed, &frame[8..HEADER]);
    frame[4..8].copy_from_slice(&header.to_le_bytes());
}

/// One frame: what is sound is encoded as it was read; where it is packed, the records are the same.
pub fn frame(input: &[u8]) {
    const SEED: u32 = 99;
    let Some((&flags, input)) = input.split_first() else {
        return;
    };
    let mut bytes = input.to_vec();
    bytes.resize(bytes.len().max(HEADER), 0);
    if flags & CHECKSUMS != 0 {
        bytes[..4].copy_from_slice(b"Wfr1");
        bytes[13..16].fill(0);
        // The length of the payload that is there, whatever the header states.
        let payload = to_usize(u64::from(get_u32(&bytes, 52))).min(bytes.len() - HEADER);
        bytes[52..56].copy_from_slice(&to_u32(payload).to_le_bytes());
        bytes.resize(frame_bytes(payload), 0);
        mend_frame(
            &mut bytes,
            SEED,
            (flags & DIGESTS != 0).then_some(&mut [7; 16]),
        );
    }
    let found = frame::find_sound(&bytes, SEED);
    let HeaderFound::Sound(header) = FrameHeader::parse(&bytes, SEED) else {
        assert!(found.is_none_or(|(at, _)| at > 0));
        return;
    };
    assert!(found.is_some_and(|(at, first)| at == 0 && first == header));
    let Some(whole) = bytes.get_mut(..to_usize(header.bytes())) else {
        return;
    };
    if !header.payload_is_sound(whole, SEED) {
        return;
    }
    if flags & (CHECKSUMS | DIGESTS) == CHECKSUMS | DIGESTS {
        assert!(header.follows(whole, &[7; 16]));
    }
    let mut buffer = Vec::new();
    let Some(records) = header.records(whole, &mut buffer) else {
        return;
    };
    let records: Vec<_> = records.map(<[u8]>::to_vec).collect();
    assert_eq!(to_u64(records.len()), u64::from(header.records));
    if !header.is_data() || records.is_empty() {
        return;
    }
    let mut batched = Batched::of(&records);
    let Some(batch) = batched.batches(usize::MAX).next() else {
        return;
    };
    let place = Place {
        segment: header.segment,
        epoch: header.epoch,
        first: header.first,
        durable: header.durable,
        seed: SEED,
    };
    let (mut again, mut chain) = (Vec::new(), [7; 16]);
    batch.frame(&mut again, &mut Packer::default(), place, &mut chain);
    let HeaderFound::Sound(header_again) = FrameHeader::parse(&again, SEED) else {
        panic!("what was written is sound");
    };
    let found = header_again.records(&again, &mut buffer);
    assert!(
        found.is_some_and(|found| found.eq(&records)),
        "the same records"
    );
    // There are many ways to pack the same.
    if header.kind == frame::KIND_DATA && header_again.kind == frame::KIND_DATA {
        assert_eq!(again[12..56], whole[12..56], "the same header");
        assert_eq!(again[HEADER..], whole[HEADER..], "the same payload");
    }
}

/// One segment of a log: the first byte says what is made right, the second
/// which segment, and of which log.
pub fn segment(input: &[u8]) {
    let [flags, which, input @ ..] = input else {
        return;
    };
    let disk = template(which & 0x80 != 0).after_kill();
    let names: Vec<_> = disk
        .names()
        .into_iter()
        .filter(|name| format::parse_segment_name(name).is_some())
        .collect();
    let name = &names[usize::from(which & 0x7f) % names.len()];
    let original = disk.bytes(name).unwrap_or_default();
    let mut bytes = edited(&original, *flags, input);
    if flags & CHECKSUMS != 0 {
        mend_segment(&mut bytes, &original, flags & DIGESTS != 0);
    }
    disk.put(name, &bytes);
    is_consistent(&disk);
}

fn mend_segment(bytes: &mut [u8], original: &[u8], digests: bool) {
    if bytes.len() < to_usize(FIRST_FRAME) || original.len() < to_usize(FIRST_FRAME) + 88 {
        return;
    }
    for end in [12, 60] {
        let crc = crc32fast::hash(&bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let seed = format::crc_seed(&get_16(bytes, 16));
    // The payload of a start frame is the digest before it.
    let mut chain = get_16(original, to_usize(FIRST_FRAME) + HEADER);
    let mut at = to_usize(FIRST_FRAME);
    while bytes.len() >= at + HEADER && bytes[at..at + 4] == *b"Wfr1" {
        let payload = to_usize(u64::from(get_u32(bytes, at + 52)));
        let Some(frame) = bytes.get_mut(at..at + frame_bytes(payload)) else {
            return;
        };
        mend_frame(frame, seed, digests.then_some(&mut chain));
        at += frame_bytes(payload);
    }
}

/// A manifest: what is accepted is what would be written.
pub fn manifest(input: &[u8]) {
    let [flags, which, input @ ..] = input else {
        return;
    };
    let disk = template(which & 0x80 != 0).after_kill();
    let original = disk.bytes(format::MANIFEST).unwrap_or_default();
    let mut bytes = edited(&original, *flags, input);
    if flags & CHECKSUMS != 0 {
        mend_manifest(&mut bytes, flags & DIGESTS != 0);
    }
    manifest::encodes_as_it_parses(&bytes);
    disk.put(format::MANIFEST, &bytes);
    is_consistent(&disk);
}

fn mend_manifest(bytes: &mut [u8], digest: bool) {
    let Some(end) = bytes.len().checked_sub(20).filter(|end| *end >= 88) else {
        return;
    };
    let prelude = crc32fast::hash(&bytes[..12]);
    bytes[12..16].copy_from_slice(&prelude.to_le_bytes());
    if digest {
        let digest = blake3::hash(&bytes[..end]);
        bytes[end..end + 16].copy_from_slice(&digest.as_bytes()[..16]);
    }
    let crc = crc32fast::hash(&bytes[..end + 16]);
    bytes[end + 16..].copy_from_slice(&crc.to_le_bytes());
}

/// A snapshot: the newest one, which the manifest lists as it is when digests
/// are made right.
pub fn snapshot(input: &[u8]) {
    let [flags, input @ ..] = input else {
        return;
    };
    let disk = template(true).after_kill();
    let Some(mut manifest) = Manifest::load(disk.storage().as_ref()).ok().flatten() else {
        return;
    };
    let Some(listed) = manifest.snapshots.last_mut() else {
        return;
    };
    let name = format::snapshot_name(listed.number);
    let mut bytes = edited(&disk.bytes(&name).unwrap_or_default(), *flags, input);
    if flags & CHECKSUMS != 0 {
        let digests = flags & DIGESTS != 0;
        let chain = snapshot::mend(&mut bytes, &manifest.log, digests);
        if digests {
            listed.length = to_u64(bytes.len());
            listed.chain = chain;
        }
    }
    disk.put(&name, &bytes);
    let found = snapshot::introduce(disk.storage().as_ref(), &name, &manifest.log);
    assert!(found.is_ok(), "reading a snapshot failed");
    let storage: Arc<dyn crate::storage::Storage> = disk.storage();
    let stored = manifest.store(storage.as_ref());
    assert!(stored.is_ok());
    is_consistent(&disk.after_kill());
}
