//! Reads a log while another process writes it, and leaves no trace: no lock is taken, nothing is written,
//! and the writer never waits.
//!
//! Only what is proved durable is shown: what a sealed segment holds, and in an open one each batch that a
//! later frame follows, because the writer writes no frame before the one before it was synced. The last
//! batch of a log that goes quiet is proved by the seal that the writer appends then
//! ([`crate::Options::seal_after`]).
//!
//! The files change under the reader: frames come, segments come and go, the manifest is replaced. So nothing
//! that looks like damage is believed at once. A hole is looked at again, because what was written in the
//! meantime may fill it; and while the manifest has changed since it was read, the reading begins anew at the
//! last record that was shown.

mod files;
mod shown;
mod steps;

use std::io;
use std::sync::Arc;

pub use self::shown::{FrameInfo, LiveEnd, LiveRecord, OnRecord, SegmentFile};

use self::files::{Files, MISSING, Next, Opened, Place, load};
use self::steps::{HeldBack, Pass, Turn};
use crate::error::Error;
use crate::format::{self, FIRST_FRAME, to_usize};
use crate::frame::FrameHeader;
use crate::manifest::{Identity, Manifest, Segment};
use crate::opening::expect_finished;
use crate::scan::{self, End, Expected, Step};
use crate::snapshot::{self, Shown};
use crate::storage::Storage;
use crate::visitor::{SnapshotInfo, Visitor};
use crate::window::Window;

/// Reads a log from a position on; see the module.
pub struct LiveReader {
    files: Files,
    /// The position asked for.
    asked: u64,
    /// The next position to show.
    from: u64,
    /// The highest position that is proved durable.
    mark: u64,
    /// The place after the last record that was passed; `None` before the first reading.
    place: Option<Place>,
    /// Whether the bytes after a blank end have been searched.
    searched: bool,
    /// The buffer into which batches are unpacked.
    buffer: Vec<u8>,
}

impl LiveReader {
    /// A reader of the log in a directory that shows the records from this
    /// position on; from the log's first one when that is later.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::Unfinished`], [`Error::Damaged`] when the manifest is damaged,
    /// [`Error::Unsupported`], [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, from: u64) -> Result<Self, Error> {
        expect_finished(storage.as_ref())?;
        let manifest = load(storage.as_ref())?;
        Ok(Self {
            files: Files {
                storage,
                archive: None,
                log: manifest.log,
            },
            asked: from.max(1),
            from: from.max(1),
            mark: 0,
            place: None,
            searched: false,
            buffer: Vec::new(),
        })
    }

    /// As [`LiveReader::open`], and shows also segments that compactions have moved to an archive: those in
    /// the log's folder that lead without a gap to the first position that the log has and, when the log is a
    /// backup's, those that continue after its last.
    ///
    /// # Errors
    /// As [`LiveReader::open`]. Reading fails when an archived segment that is to be shown is damaged, and
    /// when positions are missing before one that is to be shown, or after it.
    pub fn open_with_archive(
        storage: Arc<dyn Storage>,
        archive: Arc<dyn Storage>,
        from: u64,
    ) -> Result<Self, Error> {
        let reader = Self::open(storage, from)?;
        let files = reader.files.with_archive(archive);
        Ok(Self { files, ..reader })
    }

    /// Whether an error is damage of a file in the archive.
    pub fn is_of_archive(&self, error: &Error) -> bool {
        self.files.is_of_archive(error)
    }

    /// The log's random name.
    pub fn log_id(&self) -> [u8; 16] {
        self.files.log
    }

    /// Which log it is, and which it continues.
    ///
    /// # Errors
    /// As [`LiveReader::open`].
    pub fn identity(&self) -> Result<Identity, Error> {
        Ok(self.manifest()?.identity())
    }

    /// The files of the log as the manifest lists them now, oldest first.
    ///
    /// # Errors
    /// As [`LiveReader::open`].
    pub fn segments(&self) -> Result<Vec<SegmentFile>, Error> {
        loop {
            let manifest = self.manifest()?;
            let mut files = Vec::with_capacity(manifest.segments.len());
            let mut gone = false;
            for segment in &manifest.segments {
                let name = format::segment_name(segment.number);
                let bytes = match self.files.storage.open_read(&name) {
                    Ok(file) => file.length(),
                    Err(error) => Err(error),
                };
                let bytes = match bytes {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        gone = true;
                        0
                    }
                    Err(error) => return Err(self.files.failed(&name)(error)),
                };
                files.push(SegmentFile {
                    number: segment.number,
                    file: self.files.storage.describe(&name),
                    epoch: segment.epoch,
                    sealed: segment.seal.map(|seal| (seal.first, seal.last)),
                    bytes,
                });
            }
            if !gone || self.manifest()? == manifest {
                return Ok(files);
            }
        }
    }

    /// The snapshots that the manifest lists now, newest first.
    ///
    /// # Errors
    /// As [`LiveReader::open`].
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>, Error> {
        let manifest = self.manifest()?;
        let listed = manifest.snapshots.iter().rev();
        Ok(listed.map(SnapshotInfo::from).collect())
    }

    /// The first position that the log has now: 1 until a compaction.
    ///
    /// # Errors
    /// As [`LiveReader::open`].
    pub fn first_position(&self) -> Result<u64, Error> {
        Ok(self.manifest()?.first_position)
    }

    /// Shows a snapshot to the visitor: what it keeps, then its entries. The newest one that can be read, or
    /// the oldest one when `oldest` is set: the log goes on from that one in any case. When the visitor
    /// refuses one, or one is damaged, the next is shown after another [`Visitor::snapshot`]. What
    /// [`LiveReader::read_on`] shows stays the same. Returns `None` when there is no snapshot.
    ///
    /// # Errors
    /// [`Error::Damaged`] when there are some and none can be read, and as
    /// [`LiveReader::open`].
    pub fn show_snapshot(
        &self,
        oldest: bool,
        visitor: &mut dyn Visitor,
    ) -> Result<Option<SnapshotInfo>, Error> {
        loop {
            let manifest = self.manifest()?;
            let mut listed: Vec<_> = manifest.snapshots.iter().collect();
            if !oldest {
                listed.reverse();
            }
            let mut bad = None;
            for snapshot in &listed {
                let name = format::snapshot_name(snapshot.number);
                let storage = self.files.storage.as_ref();
                let (offset, what) =
                    match snapshot::show(storage, &name, &self.files.log, snapshot, visitor) {
                        Ok(Shown::Whole(_)) => return Ok(Some(SnapshotInfo::from(*snapshot))),
                        Ok(Shown::Bad { offset, what }) => (offset, what),
                        Err(error) if error.is_of_other_form() => return Err(error),
                        Err(Error::Visitor { source, .. }) => (0, source.to_string()),
                        Err(error) => return Err(error),
                    };
                bad.get_or_insert(Error::Damaged {
                    file: self.files.storage.describe(&name),
                    offset,
                    position: None,
                    what,
                });
            }
            match bad {
                None => return Ok(None),
                // The writer has put others in their place.
                Some(_) if self.manifest()? != manifest => {}
                Some(error) => return Err(error),
            }
        }
    }

    /// Shows what is durable and was not shown yet, in order, to its present
    /// end. Called again, it goes on where it stopped.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the place of the damage,
    /// [`Error::Visitor`] with the error of `look`, and as
    /// [`LiveReader::open`].
    pub fn read_on(&mut self, look: &mut OnRecord<'_>) -> Result<LiveEnd, Error> {
        let mut missed = None;
        loop {
            let (manifest, behind) = self.files.manifest(self.asked, self.from)?;
            if self.from < manifest.first_position {
                let last = manifest.first_position - 1;
                missed = Some((missed.map_or(self.from, |(first, _)| first), last));
                self.from = manifest.first_position;
                self.place = None;
            }
            match self.pass(&manifest, look)? {
                Pass::End { stopped, unproved } => {
                    if let Some(damage) = behind.filter(|_| !stopped) {
                        return Err(damage);
                    }
                    return Ok(LiveEnd {
                        first_position: manifest.first_position,
                        next_position: self.place.map_or(self.from, |place| place.next),
                        stopped,
                        unproved,
                        missed,
                    });
                }
                Pass::Doubt(error) => {
                    if self.manifest()? == manifest {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn manifest(&self) -> Result<Manifest, Error> {
        Ok(self.files.manifest(self.asked, self.from)?.0)
    }

    /// Returns where to begin: after the last record that was passed, or at the first segment that may hold
    /// the position asked for.
    fn begin(&self, manifest: &Manifest) -> Option<(usize, Place)> {
        let segments = &manifest.segments;
        if let Some(place) = self.place {
            let listed = segments.iter().position(|one| one.number == place.segment);
            if let Some(index) = listed {
                return Some((index, place));
            }
        }
        // Segments that were passed before are not read again, even when the file of the last one is gone.
        let wanted = self.place.map_or(self.from, |place| place.next);
        let passed = |segment: &&Segment| segment.seal.is_some_and(|seal| seal.last < wanted);
        let index = segments.iter().take_while(passed).count();
        let first = segments.get(index)?;
        let before = index
            .checked_sub(1)
            .and_then(|before| segments[before].seal);
        Some((
            index,
            Place {
                segment: first.number,
                offset: FIRST_FRAME,
                next: before.map_or(manifest.first_position, |seal| seal.last + 1),
                chain: before.map_or(manifest.first_chain, |seal| seal.chain),
            },
        ))
    }

    fn pass(&mut self, manifest: &Manifest, look: &mut OnRecord<'_>) -> Result<Pass, Error> {
        let sealed = manifest.segments.iter().filter_map(|segment| segment.seal);
        let sealed = sealed.map(|seal| seal.last).max().unwrap_or(0);
        let snapshots = manifest.snapshots.iter().map(|snapshot| snapshot.upto);
        self.mark = (self.mark.max(sealed))
            .max(manifest.first_position - 1)
            // A snapshot is listed only once all that is in it was durable.
            .max(snapshots.max().unwrap_or(0));
        let Some((mut index, mut place)) = self.begin(manifest) else {
            return Ok(Pass::END);
        };
        let mut held: Option<HeldBack> = None;
        loop {
            let segment = &manifest.segments[index];
            let opened = match self.files.open_segment(segment)? {
                Ok(opened) => opened,
                Err(doubt) => return Ok(Pass::Doubt(doubt)),
            };
            let mut window = opened.window();
            let hole =
                match self.frames(segment, &opened, &mut window, &mut place, &mut held, look)? {
                    Some(hole) => hole,
                    None => return Ok(Pass::STOPPED),
                };
            match self.behind_frames(manifest, index, &opened, &place, &hole)? {
                Turn::Again => {}
                Turn::Segment(next) => {
                    index = next;
                    place.segment = manifest.segments[next].number;
                    place.offset = FIRST_FRAME;
                }
                Turn::End => {
                    let unproved = held.map_or(0, |held| u64::from(held.header.records));
                    return Ok(Pass::End {
                        stopped: false,
                        unproved,
                    });
                }
                Turn::Doubt(doubt) => return Ok(Pass::Doubt(doubt)),
            }
        }
    }

    /// Decides what to do where the frames of a segment end.
    fn behind_frames(
        &mut self,
        manifest: &Manifest,
        index: usize,
        opened: &Opened,
        place: &Place,
        hole: &End,
    ) -> Result<Turn, Error> {
        let segment = &manifest.segments[index];
        let damage = |what| Turn::Doubt(self.files.damage(&opened.name, place, what));
        if let Some(seal) = segment.seal {
            let found = (place.offset, place.next - 1, place.chain);
            if found != (seal.length, seal.last, seal.chain) {
                let what = "the records in this segment are not those that the manifest lists";
                return Ok(damage(hole.what().unwrap_or(what)));
            }
        }
        // A hole in an open segment may be filled by now, which the second look decides: a frame
        // that was half written when it was read may look like one of another kind.
        let unless_filled = |turn| -> Result<Turn, Error> {
            Ok(match self.files.filled(segment, opened, place)? {
                true => Turn::Again,
                false => turn,
            })
        };
        if let End::Impossible(what) = *hole
            && segment.seal.is_none()
        {
            return unless_filled(damage(what));
        }
        match self
            .files
            .following(manifest, index, place, self.searched)?
        {
            Next::Segment(next) => match (segment.seal, hole.what()) {
                (None, Some(what)) => unless_filled(damage(what)),
                _ => Ok(Turn::Segment(next)),
            },
            Next::Nothing => {
                let blank = matches!(hole, End::Blank);
                if segment.seal.is_some() || !self.lost(opened, place, blank)? {
                    return Ok(Turn::End);
                }
                let what = hole.what().unwrap_or(MISSING);
                match self.files.filled(segment, opened, place)? {
                    true => Ok(Turn::Again),
                    false => Ok(Turn::Doubt(self.files.damage(&opened.name, place, what))),
                }
            }
            Next::Doubt(doubt) if segment.seal.is_some() => Ok(Turn::Doubt(doubt)),
            // What follows does not fit, because of the fault found here.
            Next::Doubt(doubt) => unless_filled(hole.what().map_or(Turn::Doubt(doubt), damage)),
        }
    }

    /// Reads frames for as long as they follow each other; returns why there is
    /// no further one, or `None` when the visitor breaks.
    fn frames(
        &mut self,
        segment: &Segment,
        opened: &Opened,
        window: &mut Window<'_>,
        place: &mut Place,
        held: &mut Option<HeldBack>,
        look: &mut OnRecord<'_>,
    ) -> Result<Option<End>, Error> {
        let failed = self.files.failed(&opened.name);
        loop {
            let expected = Expected {
                segment,
                limit: opened.limit,
                seed: format::crc_seed(&self.files.log),
                next: place.next,
                chain: &place.chain,
            };
            let (missing, buffer) = (&mut 0, &mut self.buffer);
            let step = scan::step(window, place.offset, &expected, missing, buffer);
            let header = match step.map_err(&failed)? {
                Step::Frame(header) => header,
                Step::End(end) => return Ok(Some(end)),
            };
            self.mark = self.mark.max(header.durable);
            if let Some(held) = held.take()
                && self.show(&held.bytes, held.header, held.batch, held.behind, look)?
            {
                return Ok(None);
            }
            let batch = FrameInfo {
                segment: segment.number,
                offset: place.offset,
                epoch: segment.epoch,
                first: header.first,
                records: header.records,
                bytes: header.bytes(),
            };
            place.offset += header.bytes();
            place.next += u64::from(header.records);
            place.chain = header.chain;
            if !header.is_data() {
                continue;
            }
            let frame = window.get(batch.offset, to_usize(batch.bytes));
            let frame = frame.map_err(&failed)?;
            if place.next - 1 > self.mark {
                *held = Some(HeldBack {
                    bytes: frame.to_vec(),
                    header,
                    batch,
                    behind: *place,
                });
                continue;
            }
            if self.show(frame, header, batch, *place, look)? {
                return Ok(None);
            }
        }
    }

    /// Shows the records of a batch that is proved durable; returns whether the visitor broke.
    fn show(
        &mut self,
        frame: &[u8],
        header: FrameHeader,
        batch: FrameInfo,
        behind: Place,
        look: &mut OnRecord<'_>,
    ) -> Result<bool, Error> {
        let records = header
            .records(frame, &mut self.buffer)
            .into_iter()
            .flatten();
        for (position, payload) in (header.first..).zip(records) {
            if position < self.from {
                continue;
            }
            let record = LiveRecord {
                position,
                payload,
                batch,
            };
            let looked = look(record).map_err(|source| Error::Visitor { position, source })?;
            self.from = position + 1;
            if looked.is_break() {
                // The rest of the batch is left for the next time.
                if self.from == behind.next {
                    self.place = Some(behind);
                }
                return Ok(true);
            }
        }
        self.from = self.from.max(behind.next);
        self.place = Some(behind);
        Ok(false)
    }

    /// Whether a frame after the end states that more was durable. After a blank end, the search is done only
    /// once, since a reader that comes back often must not read all the zeros of a segment each time.
    fn lost(&mut self, opened: &Opened, place: &Place, blank: bool) -> Result<bool, Error> {
        if self.mark >= place.next {
            return Ok(true);
        }
        if blank && std::mem::replace(&mut self.searched, true) {
            return Ok(false);
        }
        self.files.marked(opened, place)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::storage::meanwhile::Meanwhile;
    use crate::storage::sim::SimDisk;
    use crate::{Discard, Log, Options};

    /// Writes a log of many small segments, and closes it properly; returns the number of its records.
    fn several_segments(disk: &SimDisk) -> u64 {
        let options = Options {
            segment_bytes_min: 8 << 10,
            segment_bytes_max: 8 << 10,
            reserve_bytes: 0,
            ..Options::default()
        };
        let (mut log, _) = Log::open(disk.storage(), options, &mut Discard).unwrap();
        for number in 0..40_u8 {
            log.append(&[vec![number; 700]]).unwrap();
        }
        log.seal().unwrap();
        log.last_position()
    }

    fn positions(reader: &mut LiveReader, most: usize) -> Result<(Vec<u64>, LiveEnd), Error> {
        let mut seen = Vec::new();
        let end = reader.read_on(&mut |record| {
            seen.push(record.position);
            Ok(if seen.len() == most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok((seen, end))
    }

    /// Removes the first two segments as a compaction does.
    fn compact(disk: &SimDisk) -> u64 {
        let storage = disk.storage();
        let mut manifest = Manifest::load(storage.as_ref()).unwrap().unwrap();
        let removed: Vec<_> = manifest.segments.drain(..2).collect();
        let seal = removed[1].seal.unwrap();
        manifest.generation += 1;
        manifest.first_position = seal.last + 1;
        manifest.first_chain = seal.chain;
        manifest.store(storage.as_ref()).unwrap();
        for segment in removed {
            disk.take_away(&format::segment_name(segment.number));
        }
        seal.last + 1
    }

    #[test]
    fn a_segment_that_a_compaction_removed_is_told_from_one_that_is_lost() {
        let disk = SimDisk::new();
        let last = several_segments(&disk);
        let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
        let (seen, end) = positions(&mut reader, 3).unwrap();
        assert_eq!((seen, end.stopped), (vec![1, 2, 3], true));
        let first = compact(&disk);
        let (seen, end) = positions(&mut reader, usize::MAX).unwrap();
        assert_eq!(end.missed, Some((4, first - 1)));
        assert_eq!(seen, (first..=last).collect::<Vec<_>>());
        assert_eq!((end.first_position, end.next_position), (first, last + 1));

        let mut late = LiveReader::open(disk.storage(), first + 1).unwrap();
        let (seen, end) = positions(&mut late, usize::MAX).unwrap();
        assert_eq!(end.missed, None, "nobody asked for what is gone");
        assert_eq!(seen, (first + 1..=last).collect::<Vec<_>>());

        let listed = LiveReader::open(disk.storage(), 1).unwrap().segments();
        let lost = listed.unwrap()[0].number;
        disk.take_away(&format::segment_name(lost));
        let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
        match positions(&mut reader, usize::MAX) {
            Err(Error::Damaged { file, position, .. }) => {
                assert!(file.ends_with(&format::segment_name(lost)), "{file}");
                assert_eq!(position, Some(first));
            }
            other => panic!("a lost segment is damage: {other:?}"),
        }
    }

    /// Two segments that were listed while they were blank are begun, one after the other, before
    /// each call of the reader in turn: also between its looks at the first and at the second.
    #[test]
    fn segments_begun_between_a_reader_s_looks_are_not_taken_for_missing() {
        let mut at = 0;
        let places = loop {
            let disk = SimDisk::new();
            several_segments(&disk);
            let mut manifest = Manifest::load(disk.storage().as_ref()).unwrap().unwrap();
            manifest.segments.truncate(3);
            let last = manifest.segments[2].seal.unwrap().last;
            let mut begun = Vec::new();
            for segment in &mut manifest.segments[1..] {
                segment.seal = None;
                let name = format::segment_name(segment.number);
                let bytes = disk.bytes(&name).unwrap();
                let mut blank = bytes.clone();
                blank[to_usize(FIRST_FRAME)..].fill(0);
                disk.put(&name, &blank);
                begun.push((name, bytes));
            }
            manifest.generation += 1;
            manifest.store(disk.storage().as_ref()).unwrap();
            let source = Arc::new(Meanwhile::new(&disk, at, move |disk| {
                for (name, bytes) in &begun {
                    disk.put(name, bytes);
                }
            }));
            let storage = Arc::clone(&source) as Arc<dyn Storage>;
            let mut reader = LiveReader::open(storage, 1).unwrap();
            let mut seen = Vec::new();
            let mut read = || {
                let now = positions(&mut reader, usize::MAX);
                seen.extend(
                    now.unwrap_or_else(|error| panic!("before call {at}: {error}"))
                        .0,
                );
            };
            read();
            read();
            if source.calls() <= at {
                break at;
            }
            read();
            // Nothing proves the last record yet.
            assert_eq!(seen, (1..last).collect::<Vec<_>>(), "before call {at}");
            at += 1;
        };
        assert!(places > 20, "{places} places");
    }

    #[test]
    fn a_reader_at_the_very_end_of_what_is_removed_misses_nothing() {
        let disk = SimDisk::new();
        let last = several_segments(&disk);
        let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
        let listed = reader.segments().unwrap();
        let (_, end_of_second) = listed[1].sealed.unwrap();
        let most = usize::try_from(end_of_second).unwrap();
        positions(&mut reader, most).unwrap();
        assert_eq!(compact(&disk), end_of_second + 1);
        let (seen, end) = positions(&mut reader, usize::MAX).unwrap();
        assert_eq!(end.missed, None);
        assert_eq!(seen, (end_of_second + 1..=last).collect::<Vec<_>>());
    }

    #[test]
    fn another_log_in_the_same_directory_is_not_taken_for_the_same() {
        let (disk, other) = (SimDisk::new(), SimDisk::new());
        several_segments(&disk);
        several_segments(&other);
        let mut reader = LiveReader::open(disk.storage(), 1).unwrap();
        positions(&mut reader, usize::MAX).unwrap();
        let mut manifest = Manifest::load(other.storage().as_ref()).unwrap().unwrap();
        manifest.log = [0xee; 16];
        manifest.store(disk.storage().as_ref()).unwrap();
        let again = positions(&mut reader, usize::MAX);
        assert!(matches!(again, Err(Error::Stopped { .. })), "{again:?}");
    }
}
