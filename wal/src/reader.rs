//! Finds one record again, while others are written.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::error::Error;
use crate::format::{self, LogId, to_usize};
use crate::frame::{FrameHeader, HEADER, HeaderFound, KIND_DATA};
use crate::storage::{File, Storage};
use crate::survey::Window;

/// Bytes of log between two entries of the index, at least.
const STRIDE: u64 = 32 << 10;
/// Bytes read at once: a stride and the next header.
const PIECE: usize = 36 << 10;
/// Files kept open for reading.
const FILES_MAX: usize = 128;

#[derive(Clone, Copy)]
struct Entry {
    position: u64,
    segment: u64,
    offset: u64,
}

/// Where some of the frames are: the first data frame of each segment and one
/// in each 32 KiB.
pub(crate) struct Index {
    entries: Vec<Entry>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Notes a data frame; frames come in order.
    pub(crate) fn note(&mut self, position: u64, segment: u64, offset: u64) {
        let close = |last: &Entry| last.segment == segment && offset - last.offset < STRIDE;
        if !self.entries.last().is_some_and(close) {
            self.entries.push(Entry {
                position,
                segment,
                offset,
            });
        }
    }

    fn before(&self, position: u64) -> Option<Entry> {
        let behind = self
            .entries
            .partition_point(|entry| entry.position <= position);
        self.entries.get(behind.checked_sub(1)?).copied()
    }
}

pub(crate) struct Reader {
    storage: Arc<dyn Storage>,
    seed: u32,
    index: RwLock<Index>,
    files: Mutex<HashMap<u64, Arc<dyn File>>>,
}

impl Reader {
    pub(crate) fn new(storage: Arc<dyn Storage>, log: &LogId, index: Index) -> Self {
        let seed = format::crc_seed(log);
        Self {
            storage,
            seed,
            index: RwLock::new(index),
            files: Mutex::new(HashMap::new()),
        }
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
        self.index.write().note(position, segment, offset);
    }

    /// The record at a position that is durable; `None` before the first live one.
    pub(crate) fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(Entry {
            segment,
            mut offset,
            ..
        }) = self.index.read().before(position)
        else {
            return Ok(None);
        };
        let name = format::segment_name(segment);
        let failed = |source| Error::io("read", self.storage.describe(&name))(source);
        let file = self.file(segment, &name)?;
        let length = file.length().map_err(failed)?;
        let mut window = Window::with_piece(file.as_ref(), length, PIECE);
        loop {
            let damaged = |what: &str| Error::Damaged {
                file: self.storage.describe(&name),
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
            if header.segment != segment || header.first > position {
                return Err(damaged("a frame was altered since it was written"));
            }
            let skipped = position - header.first;
            if header.kind != KIND_DATA || skipped >= u64::from(header.records) {
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
            let record = header
                .records(frame)
                .and_then(|mut records| records.nth(to_usize(skipped)));
            return match record {
                Some(record) => Ok(Some(record.to_vec())),
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
        files.insert(segment, Arc::clone(&file));
        Ok(file)
    }
}
