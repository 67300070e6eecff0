//! Builds a new log from the records of another one: with a new log id, so that the two are never confused, and with
//! the same positions.

use std::io;
use std::sync::Arc;

use crate::ancestry;
use crate::batched::Batched;
use crate::error::{BoxError, Error};
use crate::format::{self, Chain, FIRST_FRAME, LogId, SegmentHeader, to_u64};
use crate::frame::{self, Place, RECORD_OVERHEAD};
use crate::manifest::{Ancestor, Identity, Manifest, Seal, Segment};
use crate::packed::Packer;
use crate::snapshot::{SnapshotFile, SnapshotTarget as _};
use crate::storage::{File, Storage, write_all_at};
use crate::visitor::{Record, SnapshotInfo, Visitor};

/// Payload bytes of a batch.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes at which a segment is closed.
const SEGMENT_BYTES: u64 = 64 << 20;

/// The first numbers of the new log's files: above those that are there.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) segment: u64,
    pub(crate) snapshot: u64,
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
}

impl Numbers {
    /// The numbers for an empty directory.
    pub(crate) const FIRST: Self = Self {
        segment: 1,
        snapshot: 1,
        generation: 0,
        epoch: 0,
    };
}

/// Writes the files of a log; its manifest comes last, so that the remains of an interruption are never mistaken for a
/// log.
pub(crate) struct Builder {
    storage: Arc<dyn Storage>,
    log: LogId,
    numbers: Numbers,
    manifest: Manifest,
    /// The logs that it continues, if known from the beginning.
    ancestors: Option<Vec<Ancestor>>,
    /// The log whose records are taken over.
    source: Identity,
    /// The snapshot that is being shown, and its last position.
    snapshot: Option<(SnapshotFile, u64)>,
    /// The note of the snapshot's next kept record, which is at this position.
    note: Option<(u64, Vec<u8>)>,
    /// The last position that is taken over.
    upto: u64,
    records: Batched,
    packer: Packer,
    records_bytes: usize,
    /// The position after the last record that was taken over.
    next: u64,
    /// The position after the last record that is in a frame.
    framed: u64,
    chain: Chain,
    open: Option<Open>,
}

struct Open {
    file: Arc<dyn File>,
    number: u64,
    first: u64,
    end: u64,
}

impl Builder {
    /// Begins a log with a new id that takes over what is shown to it: snapshots, the oldest first,
    /// then records, up to a position.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        numbers: Numbers,
        source: Identity,
        upto: u64,
    ) -> Result<Self, Error> {
        let log = storage
            .random_id()
            .map_err(Error::io("find a random name for", storage.describe("")))?;
        Ok(Self::of(storage, log, numbers, source, upto))
    }

    /// Begins the same log, under its own id, in another directory, which is empty.
    pub(crate) fn of_same_log(storage: Arc<dyn Storage>, identity: Identity) -> Self {
        let ancestors = Some(identity.ancestors.clone());
        Self {
            ancestors,
            ..Self::of(storage, identity.log_id, Numbers::FIRST, identity, u64::MAX)
        }
    }

    fn of(
        storage: Arc<dyn Storage>,
        log: LogId,
        numbers: Numbers,
        source: Identity,
        upto: u64,
    ) -> Self {
        let mut manifest = Manifest::new(log);
        manifest.generation = numbers.generation;
        manifest.epoch = numbers.epoch;
        manifest.next_number = numbers.segment;
        let chain = manifest.first_chain;
        Self {
            storage,
            log,
            numbers,
            manifest,
            ancestors: None,
            source,
            snapshot: None,
            note: None,
            upto,
            records: Batched::default(),
            packer: Packer::default(),
            records_bytes: 0,
            next: 1,
            framed: 1,
            chain,
            open: None,
        }
    }

    /// Sets the position with which the records begin, which is 1 otherwise.
    pub(crate) fn begin_at(&mut self, first: u64) {
        self.manifest.first_position = first;
        self.next = first;
        self.framed = first;
    }

    /// The position after the last record that was taken over.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Ends the snapshot that was shown as a whole.
    pub(crate) fn end_snapshot(&mut self) -> Result<(), Error> {
        let Some((writer, upto)) = self.snapshot.take() else {
            return Ok(());
        };
        let mut finished = writer.finish(upto, &mut || Ok(()))?;
        let name = format::snapshot_name(finished.listed.number);
        expect_free(self.storage.as_ref(), &name)?;
        finished.rename()?;
        self.manifest.snapshots.push(finished.listed);
        self.numbers.snapshot += 1;
        Ok(())
    }

    /// Syncs everything and puts the manifest in place.
    pub(crate) fn finish(mut self) -> Result<Manifest, Error> {
        self.end_snapshot()?;
        self.flush()?;
        self.close()?;
        let storage = self.storage.as_ref();
        for segment in &self.manifest.segments {
            let temp = format::segment_temp_name(segment.number);
            let name = format::segment_name(segment.number);
            expect_free(storage, &name)?;
            storage
                .rename(&temp, &name)
                .map_err(Error::io("rename", storage.describe(&temp)))?;
        }
        let handed_on = || self.source.handed_on(self.next - 1);
        self.manifest.ancestors = self.ancestors.unwrap_or_else(handed_on);
        ancestry::store(storage, &self.manifest.identity())?;
        storage
            .sync_dir("")
            .map_err(Error::io("sync", storage.describe("")))?;
        self.manifest.generation += 1;
        self.manifest.store(storage)?;
        Ok(self.manifest)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let mut records = std::mem::take(&mut self.records);
        for batch in records.batches(BATCH_BYTES) {
            let mut buffer = Vec::new();
            let frame = batch.frame_bytes();
            let full = |open: &Open| open.end > FIRST_FRAME && open.end + frame > SEGMENT_BYTES;
            if self.open.as_ref().is_some_and(full) {
                self.close()?;
            }
            let begins = self.open.is_none();
            if begins {
                self.open = Some(self.begin()?);
            }
            let Some(open) = &mut self.open else {
                continue;
            };
            let place = Place {
                segment: open.number,
                epoch: self.numbers.epoch,
                first: self.framed,
                durable: self.framed - 1,
                seed: format::crc_seed(&self.log),
            };
            if begins {
                frame::push_start(&mut buffer, place, &mut self.chain);
            }
            batch.frame(&mut buffer, &mut self.packer, place, &mut self.chain);
            self.framed += to_u64(batch.count());
            let name = || {
                self.storage
                    .describe(&format::segment_temp_name(open.number))
            };
            write_all_at(open.file.as_ref(), &buffer, open.end)
                .map_err(|source| Error::io("write", name())(source))?;
            open.end += to_u64(buffer.len());
        }
        self.records_bytes = 0;
        Ok(())
    }

    fn begin(&mut self) -> Result<Open, Error> {
        let number = self.manifest.next_number;
        self.manifest.next_number += 1;
        // Until the segment is whole, it has a temporary name, so that the remains of an
        // interruption are removed.
        let name = format::segment_temp_name(number);
        let file = self
            .storage
            .create(&name)
            .map_err(Error::io("create", self.storage.describe(&name)))?;
        Ok(Open {
            file,
            number,
            first: self.framed,
            end: FIRST_FRAME,
        })
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let header = SegmentHeader {
            log: self.log,
            epoch: self.numbers.epoch,
            number: open.number,
            size: open.end,
        };
        let name = self
            .storage
            .describe(&format::segment_temp_name(open.number));
        write_all_at(open.file.as_ref(), &header.encode(), 0)
            .and_then(|()| open.file.sync())
            .map_err(Error::io("write", name))?;
        self.manifest.segments.push(Segment {
            number: open.number,
            epoch: self.numbers.epoch,
            seal: Some(Seal {
                length: open.end,
                first: open.first,
                last: self.framed - 1,
                chain: self.chain,
            }),
        });
        Ok(())
    }
}

/// Refuses a name that a file has: new files get numbers above those that are there, so that file
/// is not the builder's own, and would be lost.
fn expect_free(storage: &dyn Storage, name: &str) -> Result<(), Error> {
    match storage.open_read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("open", storage.describe(name))(error)),
        Ok(_) => Err(Error::io("write", storage.describe(name))(
            io::ErrorKind::AlreadyExists.into(),
        )),
    }
}

impl Visitor for Builder {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        if record.position > self.upto || record.position < self.next {
            return Ok(());
        }
        if record.position > self.next {
            return Err(format!("the record at position {} is missing", self.next).into());
        }
        self.records.push(record.payload);
        self.records_bytes += record.payload.len() + RECORD_OVERHEAD;
        self.next += 1;
        if self.records_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        // Dropping a snapshot that was not ended removes what it has written.
        self.snapshot = None;
        let storage = Arc::clone(&self.storage);
        let number = self.numbers.snapshot;
        let writer = SnapshotFile::begin(storage, self.log, number, info.covers)?;
        self.snapshot = Some((writer, info.upto));
        Ok(())
    }

    fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
        self.note = Some((position, note.to_vec()));
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        let (writer, _) = self.snapshot.as_mut().ok_or("no snapshot has begun")?;
        let note = self.note.take();
        let note = note.filter(|(position, _)| *position == record.position);
        let note = note.as_ref().map(|(_, note)| note.as_slice());
        Ok(writer.keep(record.position, note, record.payload)?)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        let (writer, _) = self.snapshot.as_mut().ok_or("no snapshot has begun")?;
        Ok(writer.entry(entry)?)
    }

    fn reset(&mut self) {
        self.snapshot = None;
    }
}
