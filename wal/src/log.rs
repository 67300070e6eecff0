//! An open log, for one thread.

use std::sync::Arc;

use crate::ancestry;
use crate::appender::{Appender, Events, OpenLog};
use crate::batched::Batched;
use crate::error::{BoxError, Error, MaintenanceError};
use crate::files;
use crate::format::{RECORD_BYTES_MAX, to_u64};
use crate::index::Index;
use crate::lock;
use crate::manifest::Manifest;
use crate::medium::{BatchWriter, Medium};
use crate::opening::{begin, expect_finished, no_manifest, report};
use crate::options::Options;
use crate::reader::Reader;
use crate::recovery::{self, Findings};
use crate::report::Report;
use crate::retention::Keep;
use crate::segment::{self, Compacted, Maker, Prepared};
use crate::snapshot::{SnapshotFile, SnapshotWriter};
use crate::storage::{Lock, Storage};
use crate::survey;
use crate::visitor::{OnRange, Record, SnapshotInfo, Visitor};
use crate::writer::{Before, Writer};

/// An open log. By itself it appends for one thread, each batch as its caller
/// gives it; [`Log::start`] turns it into an [`Appender`] for many.
pub struct Log {
    options: Options,
    lock: Lock,
    reader: Arc<Reader>,
    writer: Writer,
    maker: Maker,
    /// Bytes of the records since the snapshot.
    log_bytes: u64,
    failed: bool,
}

impl Log {
    /// Locks the log, shows the newest good snapshot and every record after it to the visitor,
    /// checking all of that while reading it once, sets aside what a crash left unfinished, and
    /// begins a new epoch with a new segment. Of the segments that the snapshot covers it checks
    /// only that they exist and follow each other: [`crate::verify()`] reads them.
    ///
    /// When the disk has no space for that, nothing is changed, and the log is open for reading:
    /// appends wait, or fail for now, until space is back.
    ///
    /// # Errors
    /// [`Error::Held`] when another process has it open; [`Error::Damaged`] when something acknowledged is gone or
    /// altered, and nothing has been changed then; [`Error::Visitor`] when the visitor gave up; [`Error::NoLog`],
    /// [`Error::Unfinished`], [`Error::Unsupported`], [`Error::Io`]. After an error, everything that the visitor
    /// received must be discarded.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        visitor: &mut dyn Visitor,
    ) -> Result<(Self, Report), Error> {
        if !options.create && Manifest::load(storage.as_ref())?.is_none() {
            // A directory without a log gets not even a lock file.
            return Err(no_manifest(storage.as_ref())?);
        }
        let lock = lock::take(storage.as_ref())?;
        expect_finished(storage.as_ref())?;
        let loaded = Manifest::load(storage.as_ref())?;
        let created = loaded.is_none();
        let manifest = match loaded {
            Some(manifest) => manifest,
            None => create(storage.as_ref(), &options)?,
        };
        visitor.identity(&manifest.identity());
        let begun = begin(storage.as_ref(), &manifest, visitor)?;
        let mut index = Index::new();
        let covered = begun.covered();
        let survey =
            survey::survey_behind(storage.as_ref(), &manifest, covered, visitor, &mut index)?;
        recovery::judge(&survey)?;
        visitor.end().map_err(|source| Error::Visitor {
            position: survey.next - 1,
            source,
        })?;
        let first = manifest.first_position;
        let (next, chain, log_bytes) = (survey.next, survey.chain, survey.shown_bytes);
        let found = Findings::new(storage.as_ref(), manifest, survey, begun.bad.clone());
        let before = Report {
            created,
            ..report(&found.manifest, &found.survey, Vec::new(), &begun)
        };
        let log_id = found.manifest.log;
        ancestry::mend(storage.as_ref(), &found.manifest.identity());
        let (min, max) = (options.segment_bytes_min, options.segment_bytes_max);
        let mut maker = Maker::new(Arc::clone(&storage), found, min, max);
        // Without space for a segment, the log can be read all the same; appends wait.
        let segment = or_none_for_want(maker.prepare(0, None, &mut segment::alone))?;
        let report = Report {
            epoch: maker.manifest().epoch,
            torn: maker.tails().to_vec(),
            ..before
        };
        let reader = Reader::new(Arc::clone(&storage), &log_id, index, first, begun.kept);
        reader.set_snapshots(report.snapshots.clone());
        reader.set_sealed(maker.manifest());
        let reader = Arc::new(reader);
        let writer = Writer::new(Arc::clone(&reader), segment, next, chain, &options);
        Ok((
            Self {
                options,
                lock,
                reader,
                writer,
                maker,
                log_bytes,
                failed: false,
            },
            report,
        ))
    }

    /// Appends records as one batch, which is found whole or not at all
    /// however large it is; returns the last position once it is durable.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk failed: nothing can be appended after that ([`Error::Stopped`]).
    /// When no new segment can be made, for instance on a full disk, the error passes, and nothing
    /// was written.
    ///
    /// # Panics
    /// When a record is larger than [`RECORD_BYTES_MAX`], or all together are
    /// larger than 4 GiB.
    pub fn append(&mut self, records: &[Vec<u8>]) -> Result<u64, Error> {
        self.alive()?;
        assert!(
            records
                .iter()
                .all(|record| record.len() <= RECORD_BYTES_MAX),
            "a record is too large"
        );
        if records.is_empty() {
            return Ok(self.last_position());
        }
        let mut records = Batched::of(records);
        let mut batches = records.batches(usize::MAX);
        let batch = batches.next().expect("some records make one batch");
        let frame = batch.frame_bytes();
        if !self.writer.fits(frame) {
            let prepared = match self.maker.prepare(frame, None, &mut segment::alone) {
                Ok(prepared) => prepared.expect("without a bound on its size a segment is made"),
                Err(error) => {
                    self.failed = !error.is_passing();
                    return Err(error.into_inner());
                }
            };
            self.writer.sync().inspect_err(|_| self.failed = true)?;
            match self.writer.switch(prepared) {
                Before::None => {}
                Before::Retired(retired) => self.maker.retire(retired, &self.reader),
                Before::Unused(unused) => self.maker.give_up(&unused),
            }
        }
        self.log_bytes += to_u64(batch.payload_bytes());
        let done = self.writer.commit(batch);
        self.failed = done.is_err();
        done
    }

    /// Begins a snapshot that covers every record up to a position.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing.
    ///
    /// # Panics
    /// When the position is above the last one, or below what a snapshot covers.
    pub fn begin_snapshot(&self, covers: u64) -> Result<SnapshotWriter, Error> {
        assert!(
            covers <= self.last_position(),
            "a snapshot covers what was appended"
        );
        let snapshot = self.reader.begin_snapshot(covers)?;
        Ok(SnapshotWriter::new(Box::new(snapshot), self.log_bytes))
    }

    /// Makes a snapshot the newest one: syncs it, reads it back, gives it its name and lists it;
    /// the oldest of three is removed. `upto` is the last position whose record contributed to it.
    ///
    /// # Errors
    /// [`Error::Io`]: before the snapshot is given its name, that harms nothing;
    /// afterwards the log has failed ([`Error::Stopped`]).
    pub fn install(&mut self, writer: SnapshotWriter, upto: u64) -> Result<SnapshotInfo, Error> {
        self.alive()?;
        assert!(
            upto <= self.last_position(),
            "a snapshot never holds what is not durable"
        );
        let log_bytes = writer.log_bytes();
        let snapshot: SnapshotFile = writer.into_target().of();
        let finished = snapshot.finish(upto, &mut || Ok(()))?;
        match self.maker.install(finished, &self.reader) {
            Ok(info) => {
                self.log_bytes -= log_bytes;
                Ok(info)
            }
            Err(error) => {
                self.failed = !error.is_passing();
                Err(error.into_inner())
            }
        }
    }

    /// Removes the segments that the older snapshot covers and that are not to be kept, or moves
    /// them to the archive.
    ///
    /// # Errors
    /// [`Error::Io`]: when the manifest cannot be replaced, the log has failed
    /// ([`Error::Stopped`]); all others pass, and the call can be repeated.
    pub fn compact(
        &mut self,
        keep: &Keep,
        archive: Option<&dyn Storage>,
    ) -> Result<Compacted, Error> {
        self.alive()?;
        let compacted = self.maker.compact(keep, archive, &self.reader);
        compacted.map_err(|error| {
            self.failed = !error.is_passing();
            error.into_inner()
        })
    }

    /// The snapshots there are, newest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.reader.snapshots()
    }

    /// Shows, in order, the records that the newest snapshot kept and the log's records after the
    /// position that it covers, up to a position.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`], and [`Error::Visitor`] with what `visit` gives.
    pub fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.reader.history(upto.min(self.last_position()), visit)
    }

    /// Writes a seal, after which the last batch cannot be taken for an
    /// unfinished one.
    ///
    /// # Errors
    /// [`Error::Io`], which is final, and [`Error::Stopped`].
    pub fn seal(&mut self) -> Result<(), Error> {
        self.alive()?;
        let done = self.writer.seal();
        self.failed = done.is_err();
        done
    }

    /// The position of the last record; one less than the first live position
    /// when there are none.
    pub fn last_position(&self) -> u64 {
        self.writer.next() - 1
    }

    /// The record at a position, or what the newest snapshot kept of it when the
    /// log no longer has it; `None` when there is neither.
    ///
    /// # Errors
    /// [`Error::Damaged`] when its bytes have changed, [`Error::Io`].
    pub fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        if position > self.last_position() {
            return Ok(None);
        }
        self.reader.read(position)
    }

    /// Shows the records from a position to another one, or to the end, in order and without gaps,
    /// until `visit` breaks; returns the position after the last one that was shown.
    ///
    /// # Errors
    /// [`Error::Gone`] when the log no longer has the next record to show, [`Error::Damaged`],
    /// [`Error::Io`], and [`Error::Visitor`] with what `visit` gives.
    pub fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error> {
        let upto = upto.min(self.last_position());
        self.reader.records(from.max(1), upto, visit)
    }

    /// Starts the journal thread, which appends for any number of callers.
    ///
    /// # Errors
    /// [`Error::Io`] when threads cannot be started or the disk not be asked
    /// for its free space, [`Error::Stopped`] when an earlier append failed.
    pub fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error> {
        self.into_parts()?.start(events)
    }

    /// Returns the parts that [`Log::start`] starts, for another medium that wraps this one.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk cannot be asked for its free space, [`Error::Stopped`] when an
    /// earlier append failed.
    pub fn into_parts(self) -> Result<Parts, Error> {
        self.alive()?;
        let Self {
            options,
            lock,
            reader,
            writer,
            maker,
            log_bytes,
            ..
        } = self;
        let (medium, writer) = files::split(&options, lock, reader, writer, maker)?;
        Ok(Parts {
            medium,
            writer,
            options,
            log_bytes,
        })
    }

    fn alive(&self) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Stopped {
                reason: "an earlier write failed".into(),
            });
        }
        Ok(())
    }
}

impl OpenLog for Log {
    fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error> {
        Self::start(self, events)
    }
}

/// The two sides of an open log, and what an appender on them needs to know.
pub struct Parts {
    /// The side that any thread uses.
    pub medium: Arc<dyn Medium>,
    /// The side of the journal thread.
    pub writer: Box<dyn BatchWriter>,
    /// How the log is kept.
    pub options: Options,
    /// Bytes of the records since the snapshot.
    pub log_bytes: u64,
}

impl Parts {
    /// Starts the journal thread, which appends for any number of callers.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error> {
        let Self {
            medium,
            writer,
            options,
            log_bytes,
        } = self;
        Appender::start(medium, writer, &options, log_bytes, events)
    }
}

/// Returns the prepared segment; `None` when space, or whatever else it needs, is lacking for now.
fn or_none_for_want(
    prepared: Result<Option<Prepared>, MaintenanceError>,
) -> Result<Option<Prepared>, Error> {
    match prepared {
        Ok(prepared) => Ok(prepared),
        Err(MaintenanceError::Passing(error)) if error.is_shortage() => Ok(None),
        Err(error) => Err(error.into_inner()),
    }
}

fn create(storage: &dyn Storage, options: &Options) -> Result<Manifest, Error> {
    match no_manifest(storage)? {
        Error::NoLog { .. } if options.create => {}
        error => return Err(error),
    }
    let id = match options.log_id {
        Some(id) => id,
        None => storage
            .random_id()
            .map_err(Error::io("find a random name for", storage.describe("")))?,
    };
    let manifest = Manifest {
        ancestors: options.ancestors.clone(),
        ..Manifest::new(id)
    };
    manifest.store(storage)?;
    Ok(manifest)
}
