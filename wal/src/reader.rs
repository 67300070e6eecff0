//! Reads records by position while others are written.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::error::{BoxError, Error};
use crate::format::{self, LogId, to_usize};
use crate::frame::{FrameHeader, HEADER, HeaderFound};
use crate::index::{Entry, Index, Noted};
use crate::manifest::{Manifest, Sealed};
use crate::retention::{self, Keep, Retained};
use crate::snapshot::{Kept, SnapshotFile};
use crate::storage::{File, Storage};
use crate::visitor::{OnRange, Record, SnapshotInfo};
use crate::window::Window;

/// Bytes read at once when looking for one record. The first read is small, since the next header
/// is mostly far away, or the record is already in it; reads grow while short frames are skipped
/// one after the other.
const PIECES: Range<usize> = 4 << 10..64 << 10;
/// Largest read buffer, in bytes, that a thread keeps for its next lookup.
const PIECE_KEPT: usize = 256 << 10;
/// Bytes read at once for a range of records: about the size of a page of a thousand.
const PIECE_OF_RANGE: usize = 256 << 10;
/// Maximum number of files kept open for reading.
const FILES_MAX: usize = 128;

thread_local! {
    static PIECE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

pub(crate) struct Reader {
    storage: Arc<dyn Storage>,
    log: LogId,
    seed: u32,
    index: RwLock<Index>,
    files: Mutex<HashMap<u64, Arc<dyn File>>>,
    /// The first position that the log has.
    first: AtomicU64,
    /// The newest segment in which a frame was written, and the position of its first frame.
    newest: (AtomicU64, AtomicU64),
    /// The records that the newest snapshot keeps, some of which the log may no longer have.
    kept: RwLock<Option<Arc<Kept>>>,
    /// Newest first.
    snapshots: RwLock<Vec<SnapshotInfo>>,
    sealed: RwLock<SealedLog>,
}

/// The facts from which `Reader::retained` decides what is to be kept.
#[derive(Default)]
struct SealedLog {
    segments: Vec<Sealed>,
    /// The position up to which every snapshot covers the records.
    covered: Option<u64>,
}

impl Reader {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        log: &LogId,
        index: Index,
        first: u64,
        kept: Option<Kept>,
    ) -> Self {
        let seed = format::crc_seed(log);
        Self {
            storage,
            log: *log,
            seed,
            index: RwLock::new(index),
            files: Mutex::new(HashMap::new()),
            first: AtomicU64::new(first),
            newest: (AtomicU64::new(0), AtomicU64::new(0)),
            kept: RwLock::new(kept.map(Arc::new)),
            snapshots: RwLock::default(),
            sealed: RwLock::default(),
        }
    }

    /// Begins a snapshot, which gets the number after the newest one's.
    pub(crate) fn begin_snapshot(&self, covers: u64) -> Result<SnapshotFile, Error> {
        let newest = self.snapshots.read().first().copied();
        assert!(
            newest.is_none_or(|newest| newest.covers <= covers),
            "snapshots cover more and more"
        );
        let number = newest.map_or(1, |newest| newest.number + 1);
        let storage = Arc::clone(&self.storage);
        SnapshotFile::begin(storage, self.log, number, covers)
    }

    /// The snapshots there are, newest first.
    pub(crate) fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.snapshots.read().clone()
    }

    /// Bytes of the records that the newest snapshot keeps.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.read().as_ref().map_or(0, |kept| kept.bytes)
    }

    /// Size of the newest snapshot before packing, in bytes.
    pub(crate) fn unpacked_snapshot_bytes(&self) -> u64 {
        self.kept.read().as_ref().map_or(0, |kept| kept.unpacked)
    }

    /// Sets the list of snapshots, newest first.
    pub(crate) fn set_snapshots(&self, snapshots: Vec<SnapshotInfo>) {
        *self.snapshots.write() = snapshots;
    }

    /// Takes the sealed segments, and the position that snapshots cover, from the manifest.
    pub(crate) fn set_sealed(&self, manifest: &Manifest) {
        *self.sealed.write() = SealedLog {
            segments: manifest.sealed(),
            covered: manifest.covered(),
        };
    }

    /// Returns what a compaction would leave.
    pub(crate) fn retained(&self, keep: &Keep) -> Retained {
        let sealed = self.sealed.read();
        retention::removable(&sealed.segments, sealed.covered, keep).1
    }

    /// Makes a snapshot the newest one.
    pub(crate) fn installed(&self, kept: Kept, snapshots: Vec<SnapshotInfo>) {
        *self.kept.write() = Some(Arc::new(kept));
        self.set_snapshots(snapshots);
    }

    /// Lets the log begin at this position, after these segments: drops their index entries and
    /// files.
    pub(crate) fn forget_before(&self, position: u64, segments: &[Sealed]) {
        self.first.store(position, Ordering::Release);
        self.index.write().forget_before(position);
        let mut files = self.files.lock();
        for segment in segments {
            files.remove(&segment.number);
        }
    }

    pub(crate) fn log(&self) -> &LogId {
        &self.log
    }

    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    pub(crate) fn describe(&self, name: &str) -> String {
        self.storage.describe(name)
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    /// Notes a data frame that is durable.
    pub(crate) fn note(&self, position: u64, segment: u64, offset: u64) {
        // Only one thread writes.
        if self.newest.0.load(Ordering::Relaxed) != segment {
            self.newest.0.store(segment, Ordering::Relaxed);
            self.newest.1.store(position, Ordering::Release);
        }
        self.index.write().note(position, segment, offset);
    }

    /// Returns the record at a durable position, or what the newest snapshot kept of it.
    pub(crate) fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let first = self.first.load(Ordering::Acquire);
            if position < first {
                let kept = self.kept.read().clone();
                return kept.map_or(Ok(None), |kept| kept.read(position));
            }
            match self.read_in_log(position) {
                // The record's segment has been removed meanwhile.
                Ok(None) | Err(Error::Io { .. }) if self.first.load(Ordering::Acquire) != first => {
                }
                read => return read,
            }
        }
    }

    /// Shows the records that the newest snapshot kept, then the log's records after the position
    /// that the snapshot covers, up to a durable position. No segment may be removed meanwhile.
    pub(crate) fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        let mut visit = |record: Record<'_>| {
            let position = record.position;
            visit(record).map_err(|source| Error::Visitor { position, source })
        };
        let kept = self.kept.read().clone();
        let mut next = self.first.load(Ordering::Acquire);
        if let Some(kept) = kept {
            kept.each(&mut |record| match record.position <= upto {
                true => visit(record),
                false => Ok(()),
            })?;
            next = kept.covers + 1;
        }
        let mut visit = |record: Record<'_>| visit(record).map(ControlFlow::Continue);
        while next <= upto {
            if self.scan(&mut next, upto, &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the position of the first frame of the newest segment that was written; 0 before the
    /// first write.
    pub(crate) fn newest_part(&self) -> u64 {
        self.newest.1.load(Ordering::Acquire)
    }

    /// The first position that the log has.
    pub(crate) fn first(&self) -> u64 {
        self.first.load(Ordering::Acquire)
    }

    /// Shows the records from a position to a durable one, until `visit` breaks; returns the
    /// position after the last one shown. Segments may be removed meanwhile.
    pub(crate) fn records(
        &self,
        from: u64,
        upto: u64,
        visit: &mut OnRange<'_>,
    ) -> Result<u64, Error> {
        let mut visit = |record: Record<'_>| {
            let position = record.position;
            visit(record).map_err(|source| Error::Visitor { position, source })
        };
        let mut next = from;
        while next <= upto {
            let shown = self.scan(&mut next, upto, &mut visit);
            match shown {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error @ Error::Visitor { .. }) => return Err(error),
                // The record's segment was removed, before the read or during it.
                Err(_) if next < self.first() => {
                    let first = self.first();
                    return Err(Error::Gone {
                        position: next,
                        first,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(next)
    }

    /// See [`Index::spread`].
    pub(crate) fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64> {
        self.index.read().spread(from, upto, count)
    }

    /// Shows the records from `next` on, to `upto`, to the end of their segment, or until `visit`
    /// breaks. Each record shown advances `next`, also when an error follows; without an error, at
    /// least one was shown.
    fn scan(
        &self,
        next: &mut u64,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<ControlFlow<()>, Error> {
        let mut passed = Vec::new();
        let entry = self.index.read().before(*next);
        let Some(entry) = entry else {
            return Err(Error::Damaged {
                file: self.storage.describe(format::MANIFEST),
                offset: 0,
                position: Some(*next),
                what: "it lists no segment with this record".to_owned(),
            });
        };
        let shown = self.scan_from(entry, next, upto, visit, &mut passed);
        if !passed.is_empty() {
            self.index.write().extend(entry.segment, &passed);
        }
        shown
    }

    /// Does the work of `scan` from an entry of the index; adds to `passed` the frames that are
    /// worth noting in the index.
    fn scan_from(
        &self,
        entry: Entry,
        next: &mut u64,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<ControlFlow<()>, Error>,
        passed: &mut Vec<Noted>,
    ) -> Result<ControlFlow<()>, Error> {
        let (from, name) = (*next, format::segment_name(entry.segment));
        let failed = |source| Error::io("read", self.storage.describe(&name))(source);
        let file = self.file(entry.segment, &name)?;
        let length = file.length().map_err(failed)?;
        let mut window = Window::with_piece(file.as_ref(), length, PIECE_OF_RANGE);
        let (mut offset, mut buffer) = (entry.offset, Vec::new());
        let what = loop {
            if *next > upto {
                return Ok(ControlFlow::Continue(()));
            }
            let head = window.get(offset, HEADER).map_err(failed)?;
            if head.len() < HEADER {
                break "the file ends here, but its records go on";
            }
            let header = match FrameHeader::parse(head, self.seed) {
                HeaderFound::Sound(header) if header.segment == entry.segment => header,
                _ => break "a frame's header was altered since it was written",
            };
            if header.first > *next {
                break "a frame was altered since it was written";
            }
            let is_worth_noting = passed.last().map_or(entry.known, Index::known_after);
            if offset >= is_worth_noting {
                passed.push((header.first, offset));
            }
            if header.is_data() && header.first + u64::from(header.records) > *next {
                let bytes = to_usize(header.bytes());
                let frame = window.get(offset, bytes).map_err(failed)?;
                let sound = frame.len() == bytes && header.payload_is_sound(frame, self.seed);
                let records = match sound {
                    true => header.records(frame, &mut buffer),
                    false => None,
                };
                let Some(records) = records else {
                    break "a frame's payload was altered since it was written";
                };
                for (position, payload) in (header.first..).zip(records) {
                    if position < *next {
                        continue;
                    }
                    if position > upto {
                        break;
                    }
                    let looked = visit(Record { position, payload })?;
                    *next = position + 1;
                    if looked.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            offset += header.bytes();
        };
        if *next > from {
            // The next record is in the next segment; if it is missing there, the next call finds
            // out.
            return Ok(ControlFlow::Continue(()));
        }
        Err(Error::Damaged {
            file: self.storage.describe(&name),
            offset,
            position: Some(from),
            what: what.to_owned(),
        })
    }

    fn read_in_log(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(entry) = self.index.read().before(position) else {
            return Ok(None);
        };
        let mut passed = Vec::new();
        let read = self.read_from(entry, position, &mut passed);
        if !passed.is_empty() {
            self.index.write().extend(entry.segment, &passed);
        }
        read.map(Some)
    }

    fn read_from(
        &self,
        entry: Entry,
        position: u64,
        passed: &mut Vec<Noted>,
    ) -> Result<Vec<u8>, Error> {
        let name = format::segment_name(entry.segment);
        let failed = |source| Error::io("read", self.storage.describe(&name))(source);
        let file = self.file(entry.segment, &name)?;
        let length = file.length().map_err(failed)?;
        let mut window = Window::growing(file.as_ref(), length, PIECES, PIECE.take());
        let read = self.read_through(&mut window, entry, position, passed);
        let piece = window.into_bytes();
        if piece.capacity() <= PIECE_KEPT {
            PIECE.set(piece);
        }
        read
    }

    /// Returns the record at a position in the segment that the window reads; adds to `passed` the
    /// frames that are worth noting in the index.
    fn read_through(
        &self,
        window: &mut Window<'_>,
        entry: Entry,
        position: u64,
        passed: &mut Vec<Noted>,
    ) -> Result<Vec<u8>, Error> {
        let name = || format::segment_name(entry.segment);
        let failed = |source| Error::io("read", self.storage.describe(&name()))(source);
        let mut offset = entry.offset;
        loop {
            let damaged = |what: &str| Error::Damaged {
                file: self.storage.describe(&name()),
                offset,
                position: Some(position),
                what: what.to_owned(),
            };
            let head = window.get(offset, HEADER).map_err(failed)?;
            if head.len() < HEADER {
                return Err(damaged("the file has become shorter"));
            }
            let HeaderFound::Sound(header) = FrameHeader::parse(head, self.seed) else {
                return Err(damaged("a frame's header was altered since it was written"));
            };
            if header.segment != entry.segment || header.first > position {
                return Err(damaged("a frame was altered since it was written"));
            }
            if offset >= passed.last().map_or(entry.known, Index::known_after) {
                passed.push((header.first, offset));
            }
            let skipped = position - header.first;
            if !header.is_data() || skipped >= u64::from(header.records) {
                offset += header.bytes();
                continue;
            }
            let frame = window
                .get(offset, to_usize(header.bytes()))
                .map_err(failed)?;
            let whole = frame.len() == to_usize(header.bytes());
            if !whole || !header.payload_is_sound(frame, self.seed) {
                return Err(damaged(
                    "a frame's payload was altered since it was written",
                ));
            }
            let mut buffer = BUFFER.take();
            let record = header
                .records(frame, &mut buffer)
                .and_then(|mut records| records.nth(to_usize(skipped)))
                .map(<[u8]>::to_vec);
            if buffer.capacity() <= PIECE_KEPT {
                BUFFER.set(buffer);
            }
            return match record {
                Some(record) => Ok(record),
                None => Err(damaged("a frame's payload is not made of records")),
            };
        }
    }

    fn file(&self, segment: u64, name: &str) -> Result<Arc<dyn File>, Error> {
        if let Some(file) = self.files.lock().get(&segment) {
            return Ok(Arc::clone(file));
        }
        let file = self
            .storage
            .open_read(name)
            .map_err(Error::io("open", self.storage.describe(name)))?;
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.clear();
        }
        // A removed file keeps its disk space for as long as it is open, so it is not cached here.
        if self.index.read().has(segment) {
            files.insert(segment, Arc::clone(&file));
        }
        Ok(file)
    }
}
