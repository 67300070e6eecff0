//! Reads a log from its first live record to its end and says what is there.
//! Changes nothing and judges nothing: that is `recovery`'s.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::error::{BoxError, Error};
use crate::format::{
    self, Chain, FIRST_FRAME, FORMAT_VERSION, SegmentHeader, is_zero, to_u64, to_usize,
};
use crate::frame::{self, FrameHeader, HEADER, KIND_DATA, KIND_SEAL, KIND_START};
use crate::manifest::{Ancestor, Identity, Manifest, Segment};
use crate::reader::Index;
use crate::recovery::{After, Hole, Mark, Observation};
use crate::snapshot::{self, BadSnapshot, SnapshotInfo};
use crate::storage::{File, Storage};

const WINDOW: usize = 1 << 20;

/// One record, as it was appended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its place in the log: 1, 2, 3 …
    pub position: u64,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Sees what a log holds: the newest good snapshot, where there is one, and
/// every record after the position that it covers, in order.
pub trait Visitor {
    /// Which log it is: told once, before everything else.
    fn identity(&mut self, _identity: &Identity) {}

    /// The next record. When the log is refused in the end, what was seen
    /// before must be thrown away.
    ///
    /// # Errors
    /// Whatever the caller finds wrong with it: that ends the reading.
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError>;

    /// A snapshot begins. What was seen before, of a newer one that turned out
    /// to be damaged, must be thrown away.
    ///
    /// # Errors
    /// That it cannot be used, as without an own implementation: the snapshot is
    /// passed over.
    fn snapshot(&mut self, _info: &SnapshotInfo) -> Result<(), BoxError> {
        Err("snapshots are not read here".into())
    }

    /// The next record that the snapshot keeps, as it was kept.
    ///
    /// # Errors
    /// That it cannot be used: the snapshot is passed over.
    fn kept(&mut self, _record: Record<'_>) -> Result<(), BoxError> {
        Err("snapshots are not read here".into())
    }

    /// The snapshot's next entry.
    ///
    /// # Errors
    /// That it cannot be used: the snapshot is passed over.
    fn entry(&mut self, _entry: &[u8]) -> Result<(), BoxError> {
        Err("snapshots are not read here".into())
    }

    /// No snapshot can be used, and the log begins with its first record. What
    /// was seen before must be thrown away.
    fn reset(&mut self) {}

    /// Everything was shown; nothing has been changed yet.
    ///
    /// # Errors
    /// Whatever the caller finds wrong with the whole.
    fn end(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// How far the reading of a snapshot is, in bytes.
    fn progress_of_snapshot(&mut self, _bytes_done: u64, _bytes_total: u64) {}

    /// How far the reading is, in bytes; called about once for each MiB.
    fn progress(&mut self, _bytes_done: u64, _bytes_total: u64) {}
}

/// Bytes at a log's end that belong to no batch: what a crash leaves of a write
/// that nobody was told had succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment's file.
    pub file: String,
    /// Where they begin in it, in bytes.
    pub offset: u64,
    /// How many, without the zeros at their end.
    pub bytes: u64,
    /// The file in `quarantine/` that keeps them; `None` after a `verify`.
    pub kept_in: Option<String>,
}

/// What was found in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The log's random name, given when it was made.
    pub log_id: [u8; 16],
    /// The logs that it was restored or recovered from, the oldest first.
    pub ancestors: Vec<Ancestor>,
    /// Whether the log was made just now.
    pub created: bool,
    /// How many times the log has been opened, this time included.
    pub epoch: u64,
    /// Segments that hold records.
    pub segments: u64,
    /// Records that were shown: those after the snapshot.
    pub records: u64,
    /// The first live position: 1 until a compaction.
    pub first_position: u64,
    /// The last position; one less than the first when there are no records.
    pub last_position: u64,
    /// Bytes that all this takes, headers included.
    pub bytes: u64,
    /// The highest position that the log itself proves to have been durable.
    pub durable_mark: u64,
    /// What a crash left behind; mostly nothing.
    pub torn: Vec<TornTail>,
    /// The snapshot that was shown.
    pub snapshot: Option<SnapshotInfo>,
    /// The snapshots there are, newest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Snapshots that were passed over because they cannot be read.
    pub bad_snapshots: Vec<BadSnapshot>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.created {
            return write!(f, "a new log was made");
        }
        write!(
            f,
            "{} records (positions {} to {}) in {} segments, {} bytes, epoch {}",
            self.last_position + 1 - self.first_position,
            self.first_position,
            self.last_position,
            self.segments,
            self.bytes,
            self.epoch
        )?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, "; snapshot up to position {}", snapshot.covers)?;
        }
        for bad in &self.bad_snapshots {
            write!(
                f,
                "; the snapshot {} is damaged at offset {} ({}) and was passed over",
                bad.file, bad.offset, bad.what
            )?;
        }
        for torn in &self.torn {
            write!(
                f,
                "; an unfinished write of {} bytes in {} at offset {}",
                torn.bytes, torn.file, torn.offset
            )?;
            if let Some(kept) = &torn.kept_in {
                write!(f, " was kept in {kept}")?;
            }
        }
        Ok(())
    }
}

/// Where something is.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) what: String,
}

/// A segment that is open in the manifest, as found.
#[derive(Clone, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    /// Sound frames that follow what is before them.
    pub(crate) frames: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Where they end.
    pub(crate) end: u64,
    pub(crate) chain: Chain,
    /// The ends of the frames, for what is above the mark.
    ends: Vec<FrameEnd>,
    /// Bytes behind `end` that are not zero, as a range.
    pub(crate) torn: Option<(u64, u64)>,
}

/// Where a frame of an open segment ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameEnd {
    /// The mark that proves the frame durable. Frames without records count with
    /// the position they were written before: a mark that reaches it was written
    /// later.
    proved_by: u64,
    pub(crate) end: u64,
    /// The position after its last record.
    pub(crate) next: u64,
    pub(crate) chain: Chain,
}

impl OpenSegment {
    /// Where the first frame begins that no mark covers.
    pub(crate) fn unproved_from(&self, mark: u64) -> u64 {
        self.proved(mark).map_or(FIRST_FRAME, |last| last.end)
    }

    /// The last frame that a mark covers.
    pub(crate) fn proved(&self, mark: u64) -> Option<FrameEnd> {
        let proved = self.ends.iter().take_while(|end| end.proved_by <= mark);
        proved.last().copied()
    }
}

/// What is in a log's directory.
pub(crate) struct Survey {
    pub(crate) observation: Observation,
    /// Where the log ends, or what is wrong with it.
    pub(crate) spot: Spot,
    /// The position after the last readable record.
    pub(crate) next: u64,
    pub(crate) chain: Chain,
    /// The highest durable mark found anywhere.
    pub(crate) mark: u64,
    pub(crate) records: u64,
    /// Bytes of the records that were shown.
    pub(crate) shown_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) segments: u64,
    pub(crate) open: Vec<OpenSegment>,
    /// Files that a crash left: to be removed.
    pub(crate) leftovers: Vec<String>,
    /// Files that are not this log's own: what it was before a recovery that was
    /// interrupted. To be kept under another name.
    pub(crate) given_up: Vec<String>,
}

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
    let mut hole: Option<(Hole, Spot)> = None;
    walk.bytes_total = walk.bytes_listed(manifest)?;
    for segment in &manifest.segments {
        let name = format::segment_name(segment.number);
        let found = match walk.open(&name)? {
            None => Found::Structure(spot(storage, &name, 0, "the file is missing")),
            Some(file) => walk.segment(segment, file.as_ref(), hole.is_some())?,
        };
        match (found, &hole) {
            (Found::Whole, _) | (Found::Hole(..), Some(_)) => {}
            (Found::Hole(kind, place), None) => hole = Some((kind, place)),
            (Found::Structure(place), _) => return Ok(walk.finish((Hole::Structure, place))),
            (Found::GoesOn, None) => {}
            (Found::GoesOn, Some((_, place))) => {
                let what = "there are bytes behind the last frame of a segment after which another follows";
                let place = Spot {
                    what: what.to_owned(),
                    ..place.clone()
                };
                return Ok(walk.finish((Hole::Structure, place)));
            }
        }
    }
    if let Some(place) = walk.unlisted(manifest)? {
        return Ok(walk.finish((Hole::Structure, place)));
    }
    let end = walk.end_spot(storage, manifest);
    Ok(walk.finish(hole.unwrap_or((Hole::Blank, end))))
}

/// Whether a directory without a manifest holds what only a log leaves there, or a
/// backup or restore that was interrupted. A log of which nothing was made but the
/// first manifest's beginning is none yet.
pub(crate) fn orphan(storage: &dyn Storage) -> Result<Option<String>, Error> {
    let names = storage
        .list("")
        .map_err(Error::io("list", storage.describe("")))?;
    Ok(names.into_iter().find(|name| {
        format::parse_segment_name(name).is_some()
            || format::parse_snapshot_name(name).is_some()
            || (format::is_temp_name(name) && name != format::MANIFEST_TEMP)
    }))
}

fn spot(storage: &dyn Storage, name: &str, offset: u64, what: impl Into<String>) -> Spot {
    Spot {
        file: storage.describe(name),
        offset,
        what: what.into(),
    }
}

enum Found {
    /// Everything is as it should be; the log may go on in the next segment.
    Whole,
    Hole(Hole, Spot),
    /// Behind a hole: the first frame follows the last one before the hole.
    GoesOn,
    Structure(Spot),
}

/// What is at one offset.
pub(crate) enum Step {
    /// A sound frame that follows the one before.
    Frame(FrameHeader),
    End(End),
}

/// Why there is no further frame.
pub(crate) enum End {
    Blank,
    Unfinished(&'static str),
    Impossible(&'static str),
}

struct Walk<'a> {
    storage: &'a dyn Storage,
    visitor: &'a mut dyn Visitor,
    index: &'a mut Index,
    log: format::LogId,
    seed: u32,
    next: u64,
    chain: Chain,
    mark: u64,
    after: After,
    /// Up to here a snapshot has been shown.
    covered: u64,
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
            // What is sealed was durable, and what was compacted away was too.
            mark: sealed
                .map(|seal| seal.last)
                .max()
                .unwrap_or(0)
                .max(manifest.first_position - 1)
                .max(snapshots.max().unwrap_or(0)),
            after: After::Zeros,
            covered: 0,
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
        })
    }

    fn open(&self, name: &str) -> Result<Option<Arc<dyn File>>, Error> {
        match self.storage.open_read(name) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("open", self.storage.describe(name))(error)),
        }
    }

    /// How much there is to read, for a bar that shows progress.
    fn bytes_listed(&self, manifest: &Manifest) -> Result<u64, Error> {
        let mut bytes = 0;
        for segment in &manifest.segments {
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

    /// Reads one segment; behind a hole only for the marks in it.
    fn segment(
        &mut self,
        segment: &Segment,
        file: &dyn File,
        behind: bool,
    ) -> Result<Found, Error> {
        let name = format::segment_name(segment.number);
        let storage = self.storage;
        let failed = |source| Error::io("read", storage.describe(&name))(source);
        let length = file.length().map_err(failed)?;
        let mut window = Window::new(file, length);
        if let Some((offset, what)) = header_fault(
            window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?,
            segment,
            self.log,
            length,
        )
        .map_err(|version| self.unsupported(&name, version))?
        {
            return Ok(Found::Structure(spot(self.storage, &name, offset, what)));
        }
        let (first, limit) = (self.next, segment.seal.map_or(length, |seal| seal.length));
        if limit > length {
            let what = format!("the file ends here, but its records go on to offset {limit}");
            return Ok(Found::Structure(spot(self.storage, &name, length, what)));
        }
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
            return Ok(Found::GoesOn);
        }
        let end = if behind {
            End::Blank
        } else {
            self.frames(&mut window, segment, limit, &mut open)?
        };
        let place = |what| spot(storage, &name, open.end, what);
        let fault = match end {
            End::Blank => None,
            End::Unfinished(what) => Some(what),
            End::Impossible(what) => return Ok(Found::Structure(place(what))),
        };
        self.bytes_done += limit;
        let Some(seal) = segment.seal else {
            open.torn = self.rest(&mut window, open.end, length).map_err(failed)?;
            let found = match fault {
                _ if behind => Found::Whole,
                Some(what) => Found::Hole(Hole::Unfinished, place(what)),
                None if open.torn.is_some() => Found::Hole(
                    Hole::Blank,
                    place("a frame is missing here, and bytes follow"),
                ),
                None => Found::Whole,
            };
            self.settle(&open);
            self.open.push(open);
            return Ok(found);
        };
        if open.end != seal.length {
            let what = fault.unwrap_or("the frame that belongs here is missing");
            return Ok(Found::Structure(spot(self.storage, &name, open.end, what)));
        }
        if (first, open.last, open.chain) != (seal.first, seal.last, seal.chain) {
            let what = "the records in this segment are not those that the manifest lists";
            return Ok(Found::Structure(spot(
                self.storage,
                &name,
                FIRST_FRAME,
                what,
            )));
        }
        if let Some((offset, _)) = nonzero(&mut window, seal.length, length).map_err(failed)? {
            let what = "there are bytes behind the end of a sealed segment";
            return Ok(Found::Structure(spot(self.storage, &name, offset, what)));
        }
        self.settle(&open);
        Ok(Found::Whole)
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
        loop {
            let header = match self
                .step(window, segment, open.end, limit)
                .map_err(failed)?
            {
                Step::Frame(header) => header,
                Step::End(end) => return Ok(end),
            };
            if header.kind == KIND_DATA {
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
                let proved_by = if header.kind == KIND_DATA {
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
            self.told(open.end);
        }
    }

    /// Looks at the place where the next frame may be.
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
        step(window, offset, &expected, &mut self.mark)
    }

    /// Hands the records of a sound frame to the visitor.
    fn data(&mut self, header: &FrameHeader, frame: &[u8]) -> Result<(), Error> {
        for payload in header.records(frame).into_iter().flatten() {
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

    /// Looks at everything behind the end of an open segment's frames; gives
    /// the range of what is not zero there.
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

    fn settle(&mut self, segment: &OpenSegment) {
        if segment.frames > 0 {
            self.segments += 1;
            self.bytes += segment.end;
        }
    }

    fn told(&mut self, offset: u64) {
        let done = self.bytes_done + offset;
        if done - self.bytes_told >= to_u64(WINDOW) {
            self.bytes_told = done;
            self.visitor.progress(done, self.bytes_total);
        }
    }

    /// Files that the manifest does not know: what a crash leaves of a segment
    /// that was made or removed is blank, and a snapshot says whose it is; those of an
    /// ancestor were to be given up; anything else is a fault.
    fn unlisted(&mut self, manifest: &Manifest) -> Result<Option<Spot>, Error> {
        let names = self
            .storage
            .list("")
            .map_err(Error::io("list", self.storage.describe("")))?;
        for name in names {
            let unlisted_snapshot = format::parse_snapshot_name(&name).is_some_and(|number| {
                manifest
                    .snapshots
                    .iter()
                    .all(|listed| listed.number != number)
            });
            if unlisted_snapshot {
                let is_ours = snapshot::is_of(self.storage, &name, &self.log)?;
                let found = if is_ours {
                    &mut self.leftovers
                } else {
                    &mut self.given_up
                };
                found.push(name);
                continue;
            }
            if format::is_temp_name(&name) {
                self.leftovers.push(name);
                continue;
            }
            let Some(number) = format::parse_segment_name(&name) else {
                continue;
            };
            if manifest
                .segments
                .iter()
                .any(|segment| segment.number == number)
            {
                continue;
            }
            let failed = |source| Error::io("read", self.storage.describe(&name))(source);
            let file = self.storage.open_read(&name).map_err(failed)?;
            let length = file.length().map_err(failed)?;
            let mut window = Window::new(file.as_ref(), length);
            let block = window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?;
            let found = match SegmentHeader::parse(block) {
                format::HeaderFound::Sound(header) if header.number == number => Some(header.log),
                _ => None,
            };
            let first_listed = manifest.segments.first().map(|segment| segment.number);
            let first_listed = first_listed.unwrap_or(manifest.next_number);
            let is_ancestors = match found {
                Some(log) if log == self.log => false,
                // What an interrupted recovery has made has numbers that were not given yet.
                Some(_) if number >= manifest.next_number => true,
                Some(log) => manifest.ancestors.iter().any(|one| one.log_id == log),
                // A log that was recovered has higher numbers than what it was before.
                None => !manifest.ancestors.is_empty() && number < first_listed,
            };
            if is_ancestors {
                self.given_up.push(name);
                continue;
            }
            if found != Some(self.log) {
                let what = "the manifest does not list this file, and it is no segment of this log";
                return Ok(Some(spot(self.storage, &name, 0, what)));
            }
            // A compaction was interrupted: the manifest begins after it already.
            if number < first_listed && manifest.first_position > 1 {
                self.leftovers.push(name);
                continue;
            }
            if let Some((offset, _)) = nonzero(&mut window, FIRST_FRAME, length).map_err(failed)? {
                let what = "the manifest does not list this segment, yet it is not empty: the manifest is \
                            older than it, or the file was put here";
                return Ok(Some(spot(self.storage, &name, offset, what)));
            }
            self.leftovers.push(name);
        }
        Ok(None)
    }

    fn unsupported(&self, name: &str, version: u32) -> Error {
        Error::Unsupported {
            file: self.storage.describe(name),
            version,
            newest: FORMAT_VERSION,
        }
    }

    /// Where the last frame of an unbroken log ends.
    fn end_spot(&self, storage: &dyn Storage, manifest: &Manifest) -> Spot {
        let last = self.last_frame.or_else(|| {
            manifest
                .segments
                .first()
                .map(|segment| (segment.number, FIRST_FRAME))
        });
        match last {
            Some((number, offset)) => spot(
                storage,
                &format::segment_name(number),
                offset,
                "the log ends here",
            ),
            None => spot(storage, format::MANIFEST, 0, "the log has no segments"),
        }
    }

    fn finish(self, (hole, spot): (Hole, Spot)) -> Survey {
        let mark = if self.mark < self.next {
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
            spot,
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

/// What the next frame has to follow.
pub(crate) struct Expected<'a> {
    pub(crate) segment: &'a Segment,
    /// Where the segment's frames end at the latest.
    pub(crate) limit: u64,
    pub(crate) seed: u32,
    /// The position of the next record.
    pub(crate) next: u64,
    /// The digest after the last frame.
    pub(crate) chain: &'a Chain,
}

/// Looks at the place where the next frame may be. A mark that speaks of records
/// which are missing is noted in `mark`.
pub(crate) fn step(
    window: &mut Window<'_>,
    offset: u64,
    expected: &Expected<'_>,
    mark: &mut u64,
) -> io::Result<Step> {
    let room = expected.limit - offset;
    if room < to_u64(HEADER) {
        let blank = is_zero(window.get(offset, to_usize(room))?);
        return Ok(if blank {
            Step::End(End::Blank)
        } else {
            Step::End(End::Unfinished("the frame is cut off"))
        });
    }
    let head = window.get(offset, HEADER)?;
    if head.len() < HEADER {
        // Whoever has the log open has cut the file off since its length was asked for.
        return Ok(Step::End(End::Unfinished("the file has become shorter")));
    }
    let header = match FrameHeader::parse(head, expected.seed) {
        frame::HeaderFound::Blank => return Ok(Step::End(End::Blank)),
        frame::HeaderFound::Unsound => {
            return Ok(Step::End(End::Unfinished(
                "the frame's header is unfinished or altered",
            )));
        }
        frame::HeaderFound::Sound(header) => header,
    };
    let starts = offset == FIRST_FRAME;
    if header.segment != expected.segment.number || header.epoch != expected.segment.epoch {
        return Ok(Step::End(End::Impossible(
            "the frame belongs to another segment",
        )));
    }
    if !matches!(header.kind, KIND_DATA | KIND_SEAL | KIND_START)
        || (header.kind == KIND_START) != starts
        || (header.kind == KIND_DATA) != (header.records > 0)
        || header.durable >= header.first
    {
        return Ok(Step::End(End::Impossible(
            "the frame's header contradicts itself",
        )));
    }
    if header.bytes() > room {
        return Ok(Step::End(End::Unfinished("the frame is cut off")));
    }
    let bytes = window.get(offset, to_usize(header.bytes()))?;
    if to_u64(bytes.len()) != header.bytes() || !header.payload_is_sound(bytes, expected.seed) {
        return Ok(Step::End(End::Unfinished(
            "the frame's payload is unfinished or altered",
        )));
    }
    if starts && header.first > expected.next {
        *mark = (*mark).max(header.durable);
        return Ok(Step::End(End::Unfinished(
            "the records before this segment are missing",
        )));
    }
    if header.first != expected.next || !header.follows(bytes, expected.chain) {
        return Ok(Step::End(End::Impossible(
            "the frame does not follow the one before it: something was altered, removed or moved",
        )));
    }
    let made = match header.kind {
        KIND_START => {
            bytes[HEADER..HEADER + usize::from(header.payload == 16) * 16] == *expected.chain
        }
        KIND_SEAL => header.payload == 0,
        _ => header.records(bytes).is_some(),
    };
    if !made {
        return Ok(Step::End(End::Impossible(
            "the frame's payload is not what its kind demands",
        )));
    }
    Ok(Step::Frame(header))
}

/// What is wrong with a segment's header: nothing, an offset and a sentence, or
/// a version that is too new.
pub(crate) fn header_fault(
    block: &[u8],
    segment: &Segment,
    log: format::LogId,
    length: u64,
) -> Result<Option<(u64, &'static str)>, u32> {
    let header = match SegmentHeader::parse(block) {
        format::HeaderFound::Sound(header) => header,
        format::HeaderFound::Unsupported(version) => return Err(version),
        format::HeaderFound::Damaged { offset, what } => return Ok(Some((offset, what))),
    };
    Ok(if header.log != log {
        Some((16, "the segment belongs to another log"))
    } else if header.number != segment.number {
        Some((40, "the file holds another segment of this log"))
    } else if header.epoch != segment.epoch {
        Some((32, "the segment belongs to another epoch"))
    } else if segment.seal.is_none() && length != header.size {
        Some((
            length,
            "the file has lost its end, or the manifest is older than it",
        ))
    } else {
        None
    })
}

/// The range from the first to behind the last byte that is not zero.
pub(crate) fn nonzero(
    window: &mut Window<'_>,
    from: u64,
    to: u64,
) -> io::Result<Option<(u64, u64)>> {
    let (mut at, mut range) = (from, None);
    while at < to {
        let piece = window.get(at, WINDOW.min(to_usize(to - at)))?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !is_zero(piece) {
            let first = piece.iter().position(|byte| *byte != 0).unwrap_or(0);
            let last = piece.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            let (start, _) = range.unwrap_or((at + to_u64(first), 0));
            range = Some((start, at + to_u64(last) + 1));
        }
        at += to_u64(piece.len());
    }
    Ok(range)
}

/// A piece of a file in memory that moves along.
pub(crate) struct Window<'a> {
    file: &'a dyn File,
    length: u64,
    piece: usize,
    bytes: Vec<u8>,
    start: u64,
}

impl<'a> Window<'a> {
    pub(crate) fn new(file: &'a dyn File, length: u64) -> Self {
        Self::with_piece(file, length, WINDOW)
    }

    /// A window that reads at least `piece` bytes at a time.
    pub(crate) fn with_piece(file: &'a dyn File, length: u64, piece: usize) -> Self {
        Self {
            file,
            length,
            piece,
            bytes: Vec::new(),
            start: 0,
        }
    }

    /// The bytes at an offset; fewer only at the end of the file.
    pub(crate) fn get(&mut self, offset: u64, wanted: usize) -> io::Result<&[u8]> {
        let left = to_usize(self.length.saturating_sub(offset));
        let wanted = wanted.min(left);
        let end = self.start + to_u64(self.bytes.len());
        if offset < self.start || offset + to_u64(wanted) > end {
            let size = wanted.max(self.piece.min(left));
            self.bytes.resize(size, 0);
            self.start = offset;
            let read = self.file.read_at(&mut self.bytes, offset)?;
            self.bytes.truncate(read);
        }
        let at = to_usize(offset - self.start);
        let upto = (at + wanted).min(self.bytes.len());
        Ok(&self.bytes[at.min(upto)..upto])
    }
}
