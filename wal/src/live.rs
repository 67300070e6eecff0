//! Reads a log while another process writes it, and leaves no trace: no lock is
//! taken, nothing is written, and the writer never waits.
//!
//! Only what is proved durable is shown: what a sealed segment holds, and in an
//! open one each batch that a later frame follows, because the writer writes no
//! frame before the one before it was synced. The last batch of a log that goes
//! quiet is proved by the seal that the writer appends then
//! ([`crate::Options::seal_after`]).
//!
//! The files change under the reader: frames come, segments come and go, the
//! manifest is replaced. So nothing that looks like damage is believed at once.
//! A hole is looked at again, because what was written in the meantime may fill
//! it; and while the manifest has changed since it was read, the reading begins
//! anew at the last record that was shown.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::archive::{Shelf, WithShelf};
use crate::error::{BoxError, Error};
use crate::format::{self, Chain, FIRST_FRAME, FORMAT_VERSION, LogId, to_u64, to_usize};
use crate::frame::{self, FrameHeader, HEADER, KIND_DATA};
use crate::manifest::{Manifest, Segment};
use crate::snapshot::{self, Shown, SnapshotInfo};
use crate::storage::{File, Storage};
use crate::survey::{self, End, Expected, Step, Visitor, Window, header_fault};
use crate::verify::no_manifest;

/// Bytes read at once. Less than a whole survey reads: a reader that follows a
/// log comes back often for little.
const PIECE: usize = 256 << 10;

const MISSING: &str = "the frame that belongs here is missing";

/// The batch that a record was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of the segment that it is in.
    pub segment: u64,
    /// Where in the segment its frame begins, in bytes.
    pub offset: u64,
    /// Which opening of the log wrote it, counted from 1.
    pub epoch: u64,
    /// Its first position.
    pub first: u64,
    /// How many records it has.
    pub records: u32,
    /// Bytes of its frame.
    pub bytes: u64,
}

/// A record as the reader shows it.
#[derive(Clone, Copy, Debug)]
pub struct LiveRecord<'a> {
    /// Its place in the log: 1, 2, 3 …
    pub position: u64,
    /// Its bytes.
    pub payload: &'a [u8],
    /// Where it was found.
    pub batch: Batch,
}

/// Whoever looks at the records: breaks to see no more of them now, and ends
/// the reading with an error of its own.
pub type Look<'a> = dyn FnMut(LiveRecord<'_>) -> Result<ControlFlow<()>, BoxError> + 'a;

/// How far a reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEnd {
    /// The first position that the log still has.
    pub first_position: u64,
    /// The position after the last record that was passed.
    pub next_position: u64,
    /// Whether whoever looks wanted no more.
    pub stopped: bool,
    /// Records behind the last one shown that are whole, but not proved durable
    /// yet: they are shown when they are.
    pub unproved: u64,
    /// Records that were asked for and that a compaction has removed from the
    /// log before they could be shown: the first and the last position.
    pub missed: Option<(u64, u64)>,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Its number.
    pub number: u64,
    /// Its path.
    pub file: String,
    /// Which opening of the log made it.
    pub epoch: u64,
    /// First and last position, once it is sealed; the last one is less than the
    /// first when it has no records.
    pub sealed: Option<(u64, u64)>,
    /// Its length now.
    pub bytes: u64,
}

/// Reads a log from a position on; see the module.
pub struct LiveReader {
    storage: Arc<dyn Storage>,
    /// Where compactions have moved segments to.
    archive: Option<Arc<WithShelf>>,
    log: LogId,
    /// The position asked for.
    asked: u64,
    /// The next position to show.
    from: u64,
    /// The highest position that is proved durable.
    mark: u64,
    /// Behind the last record that was passed; nothing before the first reading.
    place: Option<Place>,
    /// Whether what is behind the end has been looked at.
    searched: bool,
}

/// Where the next frame is expected.
#[derive(Clone, Copy)]
struct Place {
    segment: u64,
    offset: u64,
    /// The position that it begins with.
    next: u64,
    chain: Chain,
}

/// A batch that was read and is not proved yet.
struct Held {
    bytes: Vec<u8>,
    header: FrameHeader,
    batch: Batch,
    behind: Place,
}

/// How one pass over the files ended.
enum Pass {
    End {
        stopped: bool,
        unproved: u64,
    },
    /// Damage, or the work of somebody who changes the manifest just now.
    Doubt(Error),
}

impl Pass {
    const END: Self = Self::End {
        stopped: false,
        unproved: 0,
    };
    const STOPPED: Self = Self::End {
        stopped: true,
        unproved: 0,
    };
}

impl LiveReader {
    /// A reader of the log in a directory that shows the records from this
    /// position on; from the log's first one when that is later.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::Damaged`] when the manifest is damaged,
    /// [`Error::Unsupported`], [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, from: u64) -> Result<Self, Error> {
        let manifest = load(storage.as_ref())?;
        Ok(Self {
            storage,
            archive: None,
            log: manifest.log,
            asked: from.max(1),
            from: from.max(1),
            mark: 0,
            place: None,
            searched: false,
        })
    }

    /// The same, and shows what compactions have moved to an archive as if it were
    /// still there: those segments of the log, in its folder, that go on without a gap
    /// before the first position that the log has.
    ///
    /// # Errors
    /// As [`LiveReader::open`]; a segment of the archive that is damaged is told when
    /// a position in it is to be shown.
    pub fn open_with_archive(
        storage: Arc<dyn Storage>,
        archive: Arc<dyn Storage>,
        from: u64,
    ) -> Result<Self, Error> {
        let reader = Self::open(storage, from)?;
        let shelf = Shelf::new(archive, reader.log);
        let both = Arc::new(WithShelf::new(Arc::clone(&reader.storage), shelf, &[]));
        Ok(Self {
            storage: Arc::clone(&both) as Arc<dyn Storage>,
            archive: Some(both),
            ..reader
        })
    }

    /// The log's random name.
    pub fn log_id(&self) -> [u8; 16] {
        self.log
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
                let bytes = match self.storage.open_read(&name) {
                    Ok(file) => file.length(),
                    Err(error) => Err(error),
                };
                let bytes = match bytes {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        gone = true;
                        0
                    }
                    Err(error) => return Err(self.failed(&name)(error)),
                };
                files.push(SegmentFile {
                    number: segment.number,
                    file: self.storage.describe(&name),
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

    /// Shows a snapshot to the visitor: what it keeps, then its entries. The
    /// newest one that can be read, or the oldest one when `oldest` is set: the
    /// log goes on from that one in any case. When the visitor refuses one, or one
    /// is damaged, the next is shown after another [`Visitor::snapshot`]. Nothing
    /// is changed in what [`LiveReader::read_on`] shows; `None` when there is none.
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
                let storage = self.storage.as_ref();
                let (offset, what) =
                    match snapshot::show(storage, &name, &self.log, snapshot, visitor) {
                        Ok(Shown::Whole(_)) => return Ok(Some(SnapshotInfo::from(*snapshot))),
                        Ok(Shown::Bad { offset, what }) => (offset, what),
                        Err(error) if error.is_of_other_form() => return Err(error),
                        Err(Error::Visitor { source, .. }) => (0, source.to_string()),
                        Err(error) => return Err(error),
                    };
                bad.get_or_insert(Error::Damaged {
                    file: self.storage.describe(&name),
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
    /// [`Error::Damaged`] with the place of the damage, [`Error::Visitor`] with
    /// the error of whoever looks, and as [`LiveReader::open`].
    pub fn read_on(&mut self, look: &mut Look<'_>) -> Result<LiveEnd, Error> {
        let mut missed = None;
        loop {
            let manifest = self.manifest()?;
            if self.from < manifest.first_position {
                let last = manifest.first_position - 1;
                missed = Some((missed.map_or(self.from, |(first, _)| first), last));
                self.from = manifest.first_position;
                self.place = None;
            }
            match self.pass(&manifest, look)? {
                Pass::End { stopped, unproved } => {
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
        let mut manifest = load(self.storage.as_ref())?;
        if manifest.log != self.log {
            return Err(Error::Stopped {
                reason: "another log has taken its place".into(),
            });
        }
        if let Some(archive) = &self.archive {
            let damage = archive.shelf().put_before(&mut manifest, self.asked)?;
            if let Some(damage) = damage.filter(|_| self.from < manifest.first_position) {
                return Err(damage);
            }
        }
        Ok(manifest)
    }

    fn failed(&self, name: &str) -> impl Fn(io::Error) -> Error + use<> {
        let file = self.storage.describe(name);
        move |source| Error::Io {
            what: "read",
            file: file.clone(),
            source,
        }
    }

    /// Where to begin: behind the last record that was passed, or at the first
    /// segment that may hold the position asked for.
    fn begin(&self, manifest: &Manifest) -> Option<(usize, Place)> {
        let segments = &manifest.segments;
        if let Some(place) = self.place {
            let listed = segments.iter().position(|one| one.number == place.segment);
            if let Some(index) = listed {
                return Some((index, place));
            }
        }
        // What was passed before is not read again, also when its file is gone.
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

    fn pass(&mut self, manifest: &Manifest, look: &mut Look<'_>) -> Result<Pass, Error> {
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
        let mut held: Option<Held> = None;
        loop {
            let segment = &manifest.segments[index];
            let opened = match self.open_segment(segment)? {
                Ok(opened) => opened,
                Err(doubt) => return Ok(Pass::Doubt(doubt)),
            };
            let mut window = opened.window();
            let hole =
                match self.frames(segment, &opened, &mut window, &mut place, &mut held, look)? {
                    Some(hole) => hole,
                    None => return Ok(Pass::STOPPED),
                };
            if let Some(seal) = segment.seal {
                let found = (place.offset, place.next - 1, place.chain);
                if found != (seal.length, seal.last, seal.chain) {
                    let what = hole.what().unwrap_or(
                        "the records in this segment are not those that the manifest lists",
                    );
                    return Ok(Pass::Doubt(self.damage(&opened.name, &place, what)));
                }
            }
            if let End::Impossible(what) = hole
                && segment.seal.is_none()
            {
                // A frame that was half written when it was read may look like one of another
                // kind; the second look decides.
                if self.filled(segment, &opened, &place)? {
                    continue;
                }
                return Ok(Pass::Doubt(self.damage(&opened.name, &place, what)));
            }
            match self.following(manifest, index, &place)? {
                Next::Segment(next) => {
                    if let (None, Some(what)) = (segment.seal, hole.what()) {
                        if self.filled(segment, &opened, &place)? {
                            continue;
                        }
                        return Ok(Pass::Doubt(self.damage(&opened.name, &place, what)));
                    }
                    index = next;
                    place.segment = manifest.segments[next].number;
                    place.offset = FIRST_FRAME;
                }
                Next::Nothing => {
                    let blank = matches!(hole, End::Blank);
                    if segment.seal.is_some() || !self.lost(&opened, &place, blank)? {
                        let unproved = held.map_or(0, |held| u64::from(held.header.records));
                        return Ok(Pass::End {
                            stopped: false,
                            unproved,
                        });
                    }
                    if self.filled(segment, &opened, &place)? {
                        continue;
                    }
                    let what = hole.what().unwrap_or(MISSING);
                    return Ok(Pass::Doubt(self.damage(&opened.name, &place, what)));
                }
                Next::Doubt(doubt) => {
                    if segment.seal.is_some() {
                        return Ok(Pass::Doubt(doubt));
                    }
                    if self.filled(segment, &opened, &place)? {
                        continue;
                    }
                    // What follows does not fit because of what is wrong here.
                    return Ok(Pass::Doubt(match hole.what() {
                        Some(what) => self.damage(&opened.name, &place, what),
                        None => doubt,
                    }));
                }
            }
        }
    }

    /// Reads frames for as long as they follow each other; gives why there is
    /// no further one, or nothing when whoever looks wants no more.
    fn frames(
        &mut self,
        segment: &Segment,
        opened: &Opened,
        window: &mut Window<'_>,
        place: &mut Place,
        held: &mut Option<Held>,
        look: &mut Look<'_>,
    ) -> Result<Option<End>, Error> {
        let failed = self.failed(&opened.name);
        loop {
            let expected = Expected {
                segment,
                limit: opened.limit,
                seed: format::crc_seed(&self.log),
                next: place.next,
                chain: &place.chain,
            };
            let mut missing = 0;
            let step = survey::step(window, place.offset, &expected, &mut missing);
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
            let batch = Batch {
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
            if header.kind != KIND_DATA {
                continue;
            }
            let frame = window.get(batch.offset, to_usize(batch.bytes));
            let frame = frame.map_err(&failed)?;
            if place.next - 1 > self.mark {
                *held = Some(Held {
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

    /// Shows the records of a batch that is proved; whether it is enough.
    fn show(
        &mut self,
        frame: &[u8],
        header: FrameHeader,
        batch: Batch,
        behind: Place,
        look: &mut Look<'_>,
    ) -> Result<bool, Error> {
        for (position, payload) in (header.first..).zip(header.records(frame).into_iter().flatten())
        {
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

    fn open_segment(&self, segment: &Segment) -> Result<Result<Opened, Error>, Error> {
        let name = format::segment_name(segment.number);
        let start = Place {
            segment: segment.number,
            offset: 0,
            next: segment.seal.map_or(0, |seal| seal.first),
            chain: Chain::default(),
        };
        let failed = self.failed(&name);
        let file = match self.storage.open_read(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(self.damage(&name, &start, "the file is missing")));
            }
            Err(error) => return Err(failed(error)),
        };
        let length = file.length().map_err(&failed)?;
        let mut window = Window::with_piece(file.as_ref(), length, to_usize(FIRST_FRAME));
        let block = window.get(0, to_usize(FIRST_FRAME)).map_err(&failed)?;
        let fault = header_fault(block, segment, self.log, length);
        let fault = fault.map_err(|version| Error::Unsupported {
            file: self.storage.describe(&name),
            version,
            newest: FORMAT_VERSION,
        })?;
        if let Some((offset, what)) = fault {
            return Ok(Err(self.damage(&name, &Place { offset, ..start }, what)));
        }
        let limit = segment.seal.map_or(length, |seal| seal.length);
        if limit > length {
            let what = "the file ends here, but its records go on";
            let offset = length;
            return Ok(Err(self.damage(&name, &Place { offset, ..start }, what)));
        }
        Ok(Ok(Opened {
            name,
            file,
            limit,
            length,
        }))
    }

    /// Whether there is a frame now where there was none; read anew.
    fn filled(&self, segment: &Segment, opened: &Opened, place: &Place) -> Result<bool, Error> {
        let step = self.look_at(segment, opened, place)?;
        Ok(matches!(step, Step::Frame(_)))
    }

    fn look_at(&self, segment: &Segment, opened: &Opened, place: &Place) -> Result<Step, Error> {
        let expected = Expected {
            segment,
            limit: opened.limit,
            seed: format::crc_seed(&self.log),
            next: place.next,
            chain: &place.chain,
        };
        // Mostly there is nothing, and a reader that follows a log asks often.
        let mut window = Window::with_piece(opened.file.as_ref(), opened.length, HEADER);
        survey::step(&mut window, place.offset, &expected, &mut 0)
            .map_err(self.failed(&opened.name))
    }

    /// What follows in the segments behind this one. Those that were made ahead
    /// and never used are passed over.
    fn following(&self, manifest: &Manifest, index: usize, place: &Place) -> Result<Next, Error> {
        for (next, segment) in manifest.segments.iter().enumerate().skip(index + 1) {
            let opened = match self.open_segment(segment)? {
                Ok(opened) => opened,
                Err(doubt) => return Ok(Next::Doubt(doubt)),
            };
            let start = Place {
                segment: segment.number,
                offset: FIRST_FRAME,
                ..*place
            };
            match self.look_at(segment, &opened, &start)? {
                Step::Frame(_) => return Ok(Next::Segment(next)),
                Step::End(End::Unfinished("the records before this segment are missing")) => {
                    // A segment that was blank a moment ago may have been filled, and this one begun.
                    for passed in index + 1..next {
                        let segment = &manifest.segments[passed];
                        if let Ok(opened) = self.open_segment(segment)? {
                            let start = Place {
                                segment: segment.number,
                                ..start
                            };
                            if self.filled(segment, &opened, &start)? {
                                return Ok(Next::Segment(passed));
                            }
                        }
                    }
                    let name = format::segment_name(manifest.segments[index].number);
                    let what =
                        "the frame that belongs here is missing: a later segment goes on behind it";
                    return Ok(Next::Doubt(self.damage(&name, place, what)));
                }
                // Made ahead, or being written just now, or torn by a crash: nothing durable
                // begins there, unless a mark says so.
                Step::End(end @ (End::Blank | End::Unfinished(_))) if segment.seal.is_none() => {
                    let blank = matches!(end, End::Blank);
                    if (blank && self.searched) || !self.marked(&opened, &start)? {
                        continue;
                    }
                    if self.filled(segment, &opened, &start)? {
                        return Ok(Next::Segment(next));
                    }
                    let what = end.what().unwrap_or(MISSING);
                    return Ok(Next::Doubt(self.damage(&opened.name, &start, what)));
                }
                Step::End(end) => {
                    let what = end.what().unwrap_or(MISSING);
                    return Ok(Next::Doubt(self.damage(&opened.name, &start, what)));
                }
            }
        }
        Ok(Next::Nothing)
    }

    /// Whether something behind the end says that more was durable. For a blank
    /// end this is asked once: a reader that comes back often must not read all
    /// the zeros of a segment each time.
    fn lost(&mut self, opened: &Opened, place: &Place, blank: bool) -> Result<bool, Error> {
        if self.mark >= place.next {
            return Ok(true);
        }
        if blank && std::mem::replace(&mut self.searched, true) {
            return Ok(false);
        }
        self.marked(opened, place)
    }

    /// Whether a sound frame behind this place says that what belongs there was
    /// durable.
    fn marked(&self, opened: &Opened, place: &Place) -> Result<bool, Error> {
        let seed = format::crc_seed(&self.log);
        let mut window = opened.window();
        let mut at = place.offset;
        while at < opened.length {
            let piece = PIECE.min(to_usize(opened.length - at));
            let piece = window.get(at, piece).map_err(self.failed(&opened.name))?;
            if piece.is_empty() {
                // The next owner has cut the file off, and has listed what was in it.
                break;
            }
            match frame::find_sound(piece, seed) {
                Some((_, header)) if header.durable >= place.next => return Ok(true),
                Some((found, _)) => at += to_u64(found) + 8,
                // A header may begin in the last bytes of this piece.
                None => at += to_u64(piece.len().saturating_sub(HEADER) / 8 * 8 + 8),
            }
        }
        Ok(false)
    }

    fn damage(&self, name: &str, place: &Place, what: &str) -> Error {
        Error::Damaged {
            file: self.storage.describe(name),
            offset: place.offset,
            position: (place.next > 0).then_some(place.next),
            what: what.to_owned(),
        }
    }
}

/// An open segment's file.
struct Opened {
    name: String,
    file: Arc<dyn File>,
    /// Where its frames end at the latest.
    limit: u64,
    length: u64,
}

impl Opened {
    fn window(&self) -> Window<'_> {
        Window::with_piece(self.file.as_ref(), self.length, PIECE)
    }
}

/// What follows behind a segment.
enum Next {
    Segment(usize),
    Nothing,
    Doubt(Error),
}

impl End {
    fn what(&self) -> Option<&'static str> {
        match *self {
            Self::Blank => None,
            Self::Unfinished(what) | Self::Impossible(what) => Some(what),
        }
    }
}

fn load(storage: &dyn Storage) -> Result<Manifest, Error> {
    match Manifest::load(storage)? {
        Some(manifest) => Ok(manifest),
        None => Err(no_manifest(storage)?),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::storage::meanwhile::Meanwhile;
    use crate::storage::sim::SimDisk;
    use crate::{Log, Options, Record};

    struct Ignore;
    impl Visitor for Ignore {
        fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    /// A log of many small segments, closed in good order; how many records it has.
    fn several_segments(disk: &SimDisk) -> u64 {
        let options = Options {
            segment_bytes_min: 8 << 10,
            segment_bytes_max: 8 << 10,
            reserve_bytes: 0,
            ..Options::default()
        };
        let (mut log, _) = Log::open(disk.storage(), options, &mut Ignore).unwrap();
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
    fn segments_that_are_begun_while_a_reader_looks_away_are_not_taken_for_missing() {
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
            // Nothing proves the last one yet.
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
