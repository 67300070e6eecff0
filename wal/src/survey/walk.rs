//! Reads every segment of a log, from its first live record to its end.

mod passed;

use std::io;
use std::sync::Arc;

use super::found::{FrameEnd, Location, OpenSegment, Survey, end_location, ends_early, location};
use super::unlisted::unlisted;
use crate::error::Error;
use crate::format::{self, Chain, FIRST_FRAME, LogId, SEGMENT_VERSION, to_u64, to_usize};
use crate::frame::{self, FrameHeader, HEADER};
use crate::index::Index;
use crate::manifest::{Manifest, Segment};
use crate::scan::{self, End, Expected, Step, header_fault};
use crate::storage::{File, Storage};
use crate::verdict::{After, Hole, Mark, Observation};
use crate::visitor::{Record, Visitor};
use crate::window::{WINDOW, Window, nonzero};

/// Reads every segment that the manifest lists; shows the records after `covered`.
pub(crate) fn survey(
    storage: &dyn Storage,
    manifest: &Manifest,
    covered: u64,
    visitor: &mut dyn Visitor,
    index: &mut Index,
) -> Result<Survey, Error> {
    let mut walk = Walk::new(storage, manifest, visitor, index)?;
    walk.covered = covered;
    walk.read(manifest)
}

/// Reads the records after `covered`. Of the segments before it, checks only that they exist and follow each other:
/// whose they are, how long, and the digest that they begin with.
pub(crate) fn survey_behind(
    storage: &dyn Storage,
    manifest: &Manifest,
    covered: u64,
    visitor: &mut dyn Visitor,
    index: &mut Index,
) -> Result<Survey, Error> {
    let mut walk = Walk::new(storage, manifest, visitor, index)?;
    walk.covered = covered;
    walk.is_all_read = false;
    walk.read(manifest)
}

/// Reads the records after `covered`, up to a position; nothing after that position is examined.
pub(crate) fn survey_upto(
    storage: &dyn Storage,
    manifest: &Manifest,
    covered: u64,
    upto: u64,
    visitor: &mut dyn Visitor,
    index: &mut Index,
) -> Result<Survey, Error> {
    let mut walk = Walk::new(storage, manifest, visitor, index)?;
    walk.covered = covered;
    walk.upto = upto;
    walk.read(manifest)
}

/// The result of reading a segment.
enum SegmentScan {
    /// Everything is as it should be; the log may go on in the next segment.
    Whole,
    Hole(Hole, Location),
    /// After a hole: the segment's first frame follows the last one before the hole.
    GoesOn,
    Structure(Location),
}

struct Walk<'a> {
    storage: &'a dyn Storage,
    visitor: &'a mut dyn Visitor,
    index: &'a mut Index,
    log: LogId,
    seed: u32,
    next: u64,
    chain: Chain,
    mark: u64,
    after: After,
    /// The position up to which a snapshot has been shown.
    covered: u64,
    /// The last position that is needed.
    upto: u64,
    /// Whether segments that the shown snapshot covers are read all the same.
    is_all_read: bool,
    records: u64,
    /// Bytes of the records that were shown.
    shown_bytes: u64,
    bytes: u64,
    bytes_done: u64,
    bytes_total: u64,
    bytes_told: u64,
    segments: u64,
    last_frame: Option<(u64, u64)>,
    open: Vec<OpenSegment>,
    leftovers: Vec<String>,
    given_up: Vec<String>,
    /// The buffer into which batches are unpacked.
    buffer: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(
        storage: &'a dyn Storage,
        manifest: &Manifest,
        visitor: &'a mut dyn Visitor,
        index: &'a mut Index,
    ) -> Result<Self, Error> {
        let sealed = manifest.segments.iter().filter_map(|segment| segment.seal);
        // A snapshot is listed only once all that is in it was durable.
        let snapshots = manifest.snapshots.iter().map(|snapshot| snapshot.upto);
        Ok(Self {
            storage,
            visitor,
            index,
            log: manifest.log,
            seed: format::crc_seed(&manifest.log),
            next: manifest.first_position,
            chain: manifest.first_chain,
            // Sealed records were durable, and so were those that a compaction removed.
            mark: sealed
                .map(|seal| seal.last)
                .max()
                .unwrap_or(0)
                .max(manifest.first_position - 1)
                .max(snapshots.max().unwrap_or(0)),
            after: After::Zeros,
            covered: 0,
            upto: u64::MAX,
            is_all_read: true,
            records: 0,
            shown_bytes: 0,
            bytes: 0,
            bytes_done: 0,
            bytes_total: 0,
            bytes_told: 0,
            segments: 0,
            last_frame: None,
            open: Vec::new(),
            leftovers: Vec::new(),
            given_up: Vec::new(),
            buffer: Vec::new(),
        })
    }

    fn read(mut self, manifest: &Manifest) -> Result<Survey, Error> {
        let mut hole: Option<(Hole, Location)> = None;
        self.bytes_total = self.bytes_listed(manifest)?;
        for segment in &manifest.segments {
            if self.has_all() {
                break;
            }
            let name = format::segment_name(segment.number);
            let found = match self.open(&name)? {
                None => {
                    SegmentScan::Structure(location(self.storage, &name, 0, "the file is missing"))
                }
                Some(file) => match self.passed_over(segment) {
                    Some(seal) => self.pass_over(segment, &seal, file.as_ref())?,
                    None => self.segment(segment, file.as_ref(), hole.is_some())?,
                },
            };
            match (found, &hole) {
                (SegmentScan::Whole, _) | (SegmentScan::Hole(..), Some(_)) => {}
                (SegmentScan::Hole(kind, place), None) => hole = Some((kind, place)),
                (SegmentScan::Structure(place), _) => {
                    return Ok(self.finish((Hole::Structure, place)));
                }
                (SegmentScan::GoesOn, None) => {}
                (SegmentScan::GoesOn, Some((_, place))) => {
                    let what = "there are bytes behind the last frame of a segment after which another follows";
                    let place = Location {
                        what: what.to_owned(),
                        ..place.clone()
                    };
                    return Ok(self.finish((Hole::Structure, place)));
                }
            }
        }
        if !self.has_all() {
            let others = unlisted(self.storage, manifest)?;
            (self.leftovers, self.given_up) = (others.leftovers, others.given_up);
            if let Some(place) = others.fault {
                return Ok(self.finish((Hole::Structure, place)));
            }
        }
        let end = end_location(self.storage, manifest, self.last_frame);
        Ok(self.finish(hole.unwrap_or((Hole::Blank, end))))
    }

    fn open(&self, name: &str) -> Result<Option<Arc<dyn File>>, Error> {
        match self.storage.open_read(name) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("open", self.storage.describe(name))(error)),
        }
    }

    /// Returns the number of bytes to read, for a progress bar.
    fn bytes_listed(&self, manifest: &Manifest) -> Result<u64, Error> {
        let mut bytes = 0;
        for segment in &manifest.segments {
            let is_behind = segment.seal.is_some_and(|seal| seal.first > self.upto);
            if is_behind || self.passed_over(segment).is_some() {
                continue;
            }
            let name = format::segment_name(segment.number);
            bytes += match segment.seal {
                Some(seal) => seal.length,
                None => match self.open(&name)? {
                    None => 0,
                    Some(file) => file.length().map_err(|source| {
                        Error::io("read", self.storage.describe(&name))(source)
                    })?,
                },
            };
        }
        Ok(bytes)
    }

    /// Reads one segment; after a hole (`behind`), only for the marks in it.
    fn segment(
        &mut self,
        segment: &Segment,
        file: &dyn File,
        behind: bool,
    ) -> Result<SegmentScan, Error> {
        let name = format::segment_name(segment.number);
        let storage = self.storage;
        let failed = |source| Error::io("read", storage.describe(&name))(source);
        let length = file.length().map_err(failed)?;
        let mut window = Window::new(file, length);
        if let Some(place) = self.fault_of_file(&mut window, segment, length)? {
            return Ok(SegmentScan::Structure(place));
        }
        let (first, limit) = (self.next, segment.seal.map_or(length, |seal| seal.length));
        let mut open = OpenSegment {
            number: segment.number,
            epoch: segment.epoch,
            frames: 0,
            first,
            last: first - 1,
            end: FIRST_FRAME,
            chain: self.chain,
            ends: Vec::new(),
            torn: None,
        };
        if behind
            && let Step::Frame(_) = self
                .step(&mut window, segment, FIRST_FRAME, limit)
                .map_err(failed)?
        {
            return Ok(SegmentScan::GoesOn);
        }
        let end = if behind {
            End::Blank
        } else {
            self.frames(&mut window, segment, limit, &mut open)?
        };
        let fault = match end {
            End::Blank => None,
            End::Unfinished(what) => Some(what),
            End::Impossible(what) => {
                return Ok(SegmentScan::Structure(location(
                    storage, &name, open.end, what,
                )));
            }
        };
        self.bytes_done += limit;
        let found = match &segment.seal {
            _ if self.has_all() => SegmentScan::Whole,
            None => {
                open.torn = self.rest(&mut window, open.end, length).map_err(failed)?;
                match (behind, open.hole(fault)) {
                    (false, Some((hole, what))) => {
                        SegmentScan::Hole(hole, location(storage, &name, open.end, what))
                    }
                    _ => SegmentScan::Whole,
                }
            }
            Some(seal) => match open
                .difference(seal, fault, &mut window, length)
                .map_err(failed)?
            {
                Some((offset, what)) => {
                    return Ok(SegmentScan::Structure(location(
                        storage, &name, offset, what,
                    )));
                }
                None => SegmentScan::Whole,
            },
        };
        if open.frames > 0 {
            self.segments += 1;
            self.bytes += open.end;
        }
        if segment.seal.is_none() {
            self.open.push(open);
        }
        Ok(found)
    }

    /// Why a file cannot be the segment that the manifest lists.
    fn fault_of_file(
        &self,
        window: &mut Window<'_>,
        segment: &Segment,
        length: u64,
    ) -> Result<Option<Location>, Error> {
        let name = format::segment_name(segment.number);
        let failed = |source| Error::io("read", self.storage.describe(&name))(source);
        let block = window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?;
        let fault = header_fault(block, segment, self.log, length);
        if let Some((offset, what)) = fault.map_err(|version| self.unsupported(&name, version))? {
            return Ok(Some(location(self.storage, &name, offset, what)));
        }
        let limit = segment.seal.map_or(length, |seal| seal.length);
        let is_read_whole = segment.seal.is_none_or(|seal| seal.last <= self.upto);
        Ok((is_read_whole && limit > length)
            .then(|| location(self.storage, &name, length, ends_early(limit))))
    }

    /// Reads frames for as long as they follow each other.
    fn frames(
        &mut self,
        window: &mut Window<'_>,
        segment: &Segment,
        limit: u64,
        open: &mut OpenSegment,
    ) -> Result<End, Error> {
        let (storage, name) = (self.storage, format::segment_name(segment.number));
        let failed = |source| Error::io("read", storage.describe(&name))(source);
        while !self.has_all() {
            let header = match self
                .step(window, segment, open.end, limit)
                .map_err(failed)?
            {
                Step::Frame(header) => header,
                Step::End(end) => return Ok(end),
            };
            if header.is_data() {
                let frame = window
                    .get(open.end, to_usize(header.bytes()))
                    .map_err(failed)?;
                self.index.note(header.first, segment.number, open.end);
                self.data(&header, frame)?;
            }
            self.mark = self.mark.max(header.durable);
            self.chain = header.chain;
            open.frames += 1;
            open.end += header.bytes();
            open.last = self.next - 1;
            open.chain = self.chain;
            if segment.seal.is_none() {
                let proved_by = if header.is_data() {
                    open.last
                } else {
                    self.next
                };
                open.ends.push(FrameEnd {
                    proved_by,
                    end: open.end,
                    next: self.next,
                    chain: self.chain,
                });
            }
            self.last_frame = Some((segment.number, open.end));
            self.report_progress(open.end);
        }
        Ok(End::Blank)
    }

    /// Whether all positions that are needed were read.
    fn has_all(&self) -> bool {
        self.next > self.upto
    }

    /// Reads and checks the place where the next frame may be.
    fn step(
        &mut self,
        window: &mut Window<'_>,
        segment: &Segment,
        offset: u64,
        limit: u64,
    ) -> io::Result<Step> {
        let expected = Expected {
            segment,
            limit,
            seed: self.seed,
            next: self.next,
            chain: &self.chain,
        };
        scan::step(window, offset, &expected, &mut self.mark, &mut self.buffer)
    }

    /// Hands the records of a sound frame to the visitor.
    fn data(&mut self, header: &FrameHeader, frame: &[u8]) -> Result<(), Error> {
        for payload in header.records_again(frame, &self.buffer) {
            let position = self.next;
            self.next += 1;
            if position <= self.covered {
                continue;
            }
            self.visitor
                .record(Record { position, payload })
                .map_err(|source| Error::Visitor { position, source })?;
            self.records += 1;
            self.shown_bytes += to_u64(payload.len());
        }
        Ok(())
    }

    /// Searches everything after the end of an open segment's frames for marks; returns the range
    /// from there to the last byte that is not zero.
    fn rest(
        &mut self,
        window: &mut Window<'_>,
        from: u64,
        length: u64,
    ) -> io::Result<Option<(u64, u64)>> {
        let Some((first, end)) = nonzero(window, from, length)? else {
            return Ok(None);
        };
        self.after = self.after.max(After::Bytes);
        // Frames begin at multiples of 8, and so do the pieces looked at here.
        let mut at = first / 8 * 8;
        while at < end {
            let piece = window.get(at, WINDOW.min(to_usize(length - at)))?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match frame::find_sound(piece, self.seed) {
                Some((found, header)) => {
                    self.mark = self.mark.max(header.durable);
                    self.after = self.after.max(After::Frames);
                    at += to_u64(found) + 8;
                }
                // A header may begin in the last bytes of this piece.
                None => at += to_u64(piece.len().saturating_sub(HEADER) / 8 * 8 + 8),
            }
        }
        Ok(Some((from, end)))
    }

    fn report_progress(&mut self, offset: u64) {
        let done = self.bytes_done + offset;
        if done - self.bytes_told >= to_u64(WINDOW) {
            self.bytes_told = done;
            self.visitor.progress(done, self.bytes_total);
        }
    }

    fn unsupported(&self, name: &str, version: u32) -> Error {
        Error::Unsupported {
            file: self.storage.describe(name),
            version,
            newest: SEGMENT_VERSION,
        }
    }

    fn finish(self, (hole, location): (Hole, Location)) -> Survey {
        let mark = if self.mark < self.next || self.has_all() {
            Mark::Below
        } else {
            Mark::AtOrAbove
        };
        self.visitor.progress(self.bytes_total, self.bytes_total);
        Survey {
            observation: Observation {
                hole,
                after: self.after,
                mark,
            },
            location,
            next: self.next,
            chain: self.chain,
            mark: self.mark,
            records: self.records,
            shown_bytes: self.shown_bytes,
            bytes: self.bytes,
            segments: self.segments,
            open: self.open,
            leftovers: self.leftovers,
            given_up: self.given_up,
        }
    }
}
