//! Reads what a segment of an archive states about itself.

use std::io;

use crate::error::Error;
use crate::format::{
    self, Chain, FIRST_FRAME, HeaderFound as SegmentFound, LogId, SegmentHeader, get_16, to_u64,
    to_usize,
};
use crate::frame::{self, FrameHeader, HEADER, HeaderFound, KIND_START};
use crate::manifest::{Manifest, Seal, Segment};
use crate::storage::{File, Storage};
use crate::window::{WINDOW, Window};

/// Bytes at the end of a segment in which its last frame is looked for first.
const TAIL: u64 = 64 << 10;
/// Maximum length of a frame, in bytes: the length of its payload has four bytes.
const FRAME_BYTES_MAX: u64 = (1 << 32) + 72;

/// The fault of a segment whose end is not where its file ends.
const NO_LAST_FRAME: &str = "no whole frame ends where the file ends";

/// A segment of an archive, as it describes itself.
#[derive(Clone, Copy)]
pub(super) struct Archived {
    pub(super) segment: Segment,
    pub(super) seal: Seal,
    /// The digest before its first frame.
    pub(super) before: Chain,
}

impl Archived {
    /// Whether the manifest's log continues this segment.
    pub(super) fn leads_to(&self, manifest: &Manifest) -> bool {
        self.seal.chain == manifest.first_chain && self.seal.last + 1 == manifest.first_position
    }
}

/// The records that an archive's copy of a segment has after the end of the log's own copy.
#[derive(Clone, Copy)]
pub(super) enum Behind {
    /// No records.
    Nothing,
    /// Records that go on from the log's own; the seal is that of the whole copy.
    More(Seal),
    /// Records that do not go on from the log's own.
    OfAnotherPast,
}

/// Reads what an archive's copy of a segment has after the end of the log's own copy, which ends as `own`
/// states. The digest at that end stands for all bytes before it: where both copies are whole, they are
/// compared by it. What the archive's copy has before that end may be damaged, it is not used.
pub(super) fn behind(
    archive: &dyn Storage,
    log: &LogId,
    name: &str,
    number: u64,
    own: &Seal,
) -> Result<Behind, Error> {
    let failed = |source| Error::io("read", archive.describe(name))(source);
    let file = archive.open_read(name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let seed = format::crc_seed(log);
    let last = last_frame(file.as_ref(), length, seed).map_err(failed)?;
    let Some(last) = last.filter(|last| last.segment == number) else {
        if length == own.length {
            return Ok(Behind::Nothing);
        }
        return Err(Error::Damaged {
            file: archive.describe(name),
            offset: length,
            position: None,
            what: NO_LAST_FRAME.to_owned(),
        });
    };
    let seal = Seal {
        length,
        first: own.first,
        last: last_position(&last),
        chain: last.chain,
    };
    if seal.last < own.last || seal.chain == own.chain {
        return Ok(Behind::Nothing);
    }
    let mut window = Window::new(file.as_ref(), length);
    let goes_on = goes_on_from(&mut window, own, seed).map_err(failed)?;
    Ok(match goes_on {
        true => Behind::More(seal),
        false if seal.last == own.last => Behind::Nothing,
        false => Behind::OfAnotherPast,
    })
}

/// Whether the frames of a copy lead to the digest with which the log's own copy ends, or those after that
/// end go on from this digest.
fn goes_on_from(window: &mut Window<'_>, own: &Seal, seed: u32) -> io::Result<bool> {
    if chain_at(window, own.length, seed)? == Some(own.chain) {
        return Ok(true);
    }
    let Some(header) = header_at(window, own.length, seed)? else {
        return Ok(false);
    };
    let frame = window.get_mut(own.length, to_usize(header.bytes()))?;
    Ok(to_u64(frame.len()) == header.bytes() && header.follows(frame, &own.chain))
}

/// Whether the first frame of a segment, which may be damaged elsewhere, states a position before this one.
pub(super) fn begins_before(
    archive: &dyn Storage,
    log: &LogId,
    name: &str,
    position: u64,
) -> io::Result<bool> {
    let file = archive.open_read(name)?;
    let mut window = Window::with_piece(file.as_ref(), file.length()?, HEADER);
    let header = header_at(&mut window, FIRST_FRAME, format::crc_seed(log))?;
    Ok(header.is_some_and(|header| header.first < position))
}

/// Returns the digest after the frame that ends at an offset; `None` when none does.
fn chain_at(window: &mut Window<'_>, offset: u64, seed: u32) -> io::Result<Option<Chain>> {
    let (mut at, mut chain) = (FIRST_FRAME, None);
    while at < offset {
        let Some(header) = header_at(window, at, seed)? else {
            return Ok(None);
        };
        at += header.bytes();
        chain = Some(header.chain);
    }
    Ok(chain.filter(|_| at == offset))
}

/// Returns the header of the frame at an offset, when it is sound.
fn header_at(window: &mut Window<'_>, offset: u64, seed: u32) -> io::Result<Option<FrameHeader>> {
    let head = window.get(offset, HEADER)?;
    if head.len() < HEADER {
        return Ok(None);
    }
    Ok(match FrameHeader::parse(head, seed) {
        HeaderFound::Sound(header) => Some(header),
        HeaderFound::Blank | HeaderFound::Unsound => None,
    })
}

/// Returns the last position up to the end of a frame.
fn last_position(frame: &FrameHeader) -> u64 {
    (frame.first + u64::from(frame.records)).saturating_sub(1)
}

/// Reads what a segment states about itself.
pub(super) fn describe(
    archive: &dyn Storage,
    log: &LogId,
    name: &str,
    number: u64,
) -> Result<Archived, Error> {
    let failed = |source| Error::io("read", archive.describe(name))(source);
    let damaged = |offset, what: &str| Error::Damaged {
        file: archive.describe(name),
        offset,
        position: None,
        what: what.to_owned(),
    };
    let file = archive.open_read(name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut window = Window::with_piece(file.as_ref(), length, to_usize(FIRST_FRAME));
    let block = window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?;
    let header = match SegmentHeader::parse(block) {
        SegmentFound::Sound(header) => header,
        SegmentFound::Damaged { offset, what } => return Err(damaged(offset, what)),
        SegmentFound::Unsupported(version) => {
            return Err(Error::Unsupported {
                file: archive.describe(name),
                version,
                newest: format::SEGMENT_VERSION,
            });
        }
    };
    if (header.log, header.number) != (*log, number) {
        return Err(damaged(16, "the file holds another segment"));
    }
    let seed = format::crc_seed(log);
    let start = sound_frame(&mut window, FIRST_FRAME, seed).map_err(failed)?;
    let (start, before) = match start {
        Some((start, Some(before))) => (start, before),
        _ => return Err(damaged(FIRST_FRAME, "the first frame was altered")),
    };
    let last = last_frame(file.as_ref(), length, seed).map_err(failed)?;
    let Some(last) = last else {
        return Err(damaged(length, NO_LAST_FRAME));
    };
    let seal = Seal {
        length,
        first: start.first,
        last: last_position(&last),
        chain: last.chain,
    };
    let segment = Segment {
        number,
        epoch: header.epoch,
        seal: Some(seal),
    };
    Ok(Archived {
        segment,
        seal,
        before,
    })
}

/// Returns the frame at an offset, when it is sound, and the digest in it when it is a start frame.
fn sound_frame(
    window: &mut Window<'_>,
    offset: u64,
    seed: u32,
) -> io::Result<Option<(FrameHeader, Option<Chain>)>> {
    let Some(header) = header_at(window, offset, seed)? else {
        return Ok(None);
    };
    let bytes = window.get(offset, to_usize(header.bytes()))?;
    if to_u64(bytes.len()) != header.bytes() || !header.payload_is_sound(bytes, seed) {
        return Ok(None);
    }
    let digest = (header.kind == KIND_START && header.payload == 16).then(|| get_16(bytes, HEADER));
    Ok(Some((header, digest)))
}

/// Finds the sound frame that ends where the file ends. Searches piece by piece, and no farther back
/// than the largest frame reaches: damage may have made the file any length.
fn last_frame(file: &dyn File, length: u64, seed: u32) -> io::Result<Option<FrameHeader>> {
    let mut tail = TAIL;
    loop {
        let from = length.saturating_sub(tail).max(FIRST_FRAME) / 8 * 8;
        let found = last_frame_from(file, (from, length), seed)?;
        if found.is_some() || from == FIRST_FRAME || tail == FRAME_BYTES_MAX {
            return Ok(found);
        }
        tail = (tail * 16).min(FRAME_BYTES_MAX);
    }
}

/// Finds that frame if it begins in this range, which ends where the file does.
fn last_frame_from(
    file: &dyn File,
    (from, length): (u64, u64),
    seed: u32,
) -> io::Result<Option<FrameHeader>> {
    let mut window = Window::new(file, length);
    let mut at = from;
    while at < length {
        let wanted = WINDOW.min(to_usize(length - at));
        let piece = window.get(at, wanted)?;
        if piece.is_empty() {
            break;
        }
        let Some((found, header)) = frame::find_sound(piece, seed) else {
            // A header may begin in the last bytes of this piece.
            at += to_u64(piece.len().saturating_sub(HEADER) / 8 * 8 + 8);
            continue;
        };
        at += to_u64(found);
        if at + header.bytes() == length {
            let bytes = window.get(at, to_usize(header.bytes()))?;
            if to_u64(bytes.len()) == header.bytes() && header.payload_is_sound(bytes, seed) {
                return Ok(Some(header));
            }
        }
        at += 8;
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::log::Log;
    use crate::options::Options;
    use crate::storage::extended::Extended;
    use crate::storage::sim::SimDisk;
    use crate::visitor::Discard;

    #[test]
    fn a_segment_that_has_grown_takes_no_more_memory_than_one_piece() {
        let disk = SimDisk::new();
        let (mut log, report) =
            Log::open(disk.storage(), Options::default(), &mut Discard).unwrap();
        log.append(&[vec![1; 100]]).unwrap();
        log.seal().unwrap();
        drop(log);
        let extended = Extended::new(&disk, 40 << 30);
        let name = format::segment_name(1);
        match describe(&extended, &report.log_id, &name, 1).map(drop) {
            Err(Error::Damaged { offset, what, .. }) => {
                assert_eq!(offset, 40 << 30);
                assert!(what.contains("no whole frame ends"), "{what}");
            }
            other => panic!("{other:?}"),
        }
        assert!(extended.largest() <= to_u64(WINDOW));
    }
}
