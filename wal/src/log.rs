//! An open log, for one thread.

use std::sync::Arc;
use std::time::Duration;

use crate::appender::{Appender, Events};
use crate::error::Error;
use crate::format::RECORD_BYTES_MAX;
use crate::frame::Batched;
use crate::lock;
use crate::manifest::Manifest;
use crate::reader::{Index, Reader};
use crate::recovery;
use crate::segment::Maker;
use crate::storage::{Lock, Storage};
use crate::survey::{self, Report, Survey, TornTail, Visitor};
use crate::verify::no_manifest;
use crate::writer::Writer;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the first segment after a start; each one after has twice as
    /// many. At least 8 KiB.
    pub segment_bytes_min: u64,
    /// Bytes of the largest segments.
    pub segment_bytes_max: u64,
    /// Payload bytes of a batch, beyond which it is split; a larger record is a
    /// batch by itself.
    pub batch_bytes_max: usize,
    /// Free space of the disk in bytes below which [`Appender::has_room`] says no.
    pub reserve_bytes: u64,
    /// How long nothing must be appended before the last batch gets a seal.
    pub seal_after: Duration,
    /// Whether a log is made where there is none. Without, an empty directory,
    /// perhaps a disk that is not mounted, is [`Error::NoLog`].
    pub create: bool,
}

impl Default for Options {
    /// Segments of 4 to 64 MiB, batches of 1 MiB, a reserve of 64 MiB, a seal
    /// after 50 ms, and a log is made where there is none.
    fn default() -> Self {
        Self {
            segment_bytes_min: 4 << 20,
            segment_bytes_max: 64 << 20,
            batch_bytes_max: 1 << 20,
            reserve_bytes: 64 << 20,
            seal_after: Duration::from_millis(50),
            create: true,
        }
    }
}

/// An open log. By itself it appends for one thread, each batch as its caller
/// gives it; [`Log::start`] turns it into an [`Appender`] for many.
pub struct Log {
    pub(crate) options: Options,
    pub(crate) lock: Lock,
    pub(crate) reader: Arc<Reader>,
    pub(crate) writer: Writer,
    pub(crate) maker: Maker,
    failed: bool,
}

impl Log {
    /// Locks the log, reads it once from its first record to its end, shows
    /// every record to the visitor while checking it, sets aside what a crash
    /// left unfinished, and begins a new epoch with a new segment.
    ///
    /// # Errors
    /// [`Error::Held`] when somebody has it open; [`Error::Damaged`] when
    /// something acknowledged is gone or altered, and nothing has been changed
    /// then; [`Error::Visitor`] when the visitor gave up; [`Error::NoLog`],
    /// [`Error::Unsupported`], [`Error::Io`]. After an error, what the visitor
    /// was shown must be thrown away.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        visitor: &mut dyn Visitor,
    ) -> Result<(Self, Report), Error> {
        let lock = lock::take(storage.as_ref())?;
        let loaded = Manifest::load(storage.as_ref())?;
        let created = loaded.is_none();
        let manifest = match loaded {
            Some(manifest) => manifest,
            None => create(storage.as_ref(), &options)?,
        };
        let mut index = Index::new();
        let survey = survey::survey(storage.as_ref(), &manifest, visitor, &mut index)?;
        recovery::judge(&survey)?;
        let (manifest, torn) = recovery::carry_out(storage.as_ref(), manifest, &survey)?;
        let report = Report {
            created,
            ..report(&manifest, &survey, torn)
        };

        let reader = Arc::new(Reader::new(Arc::clone(&storage), &manifest.log, index));
        let (min, max) = (options.segment_bytes_min, options.segment_bytes_max);
        let mut maker = Maker::new(storage, manifest, min, max);
        let segment = maker
            .prepare(0, None)?
            .expect("without a bound on its size a segment is made");
        let batch = options.batch_bytes_max;
        let writer = Writer::new(
            Arc::clone(&reader),
            segment,
            survey.next,
            survey.chain,
            batch,
        );
        Ok((
            Self {
                options,
                lock,
                reader,
                writer,
                maker,
                failed: false,
            },
            report,
        ))
    }

    /// Appends records as one batch, which is found whole or not at all
    /// however large it is; gives the last position once it is durable.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk failed: nothing can be appended after that
    /// ([`Error::Stopped`]). A disk without space for a new segment is an error
    /// that passes: then nothing was written.
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
        let records = Batched::of(records);
        let mut batches = records.batches(usize::MAX);
        let batch = batches.next().expect("some records make one batch");
        let frame = batch.frame_bytes();
        if !self.writer.fits(frame) {
            let prepared = match self.maker.prepare(frame, None) {
                Ok(prepared) => prepared.expect("without a bound on its size a segment is made"),
                Err(error) => {
                    self.failed = !error.is_full();
                    return Err(error);
                }
            };
            match self.writer.switch(prepared) {
                Ok(retired) => self.maker.retire(retired),
                Err(unused) => self.maker.give_up(&unused),
            }
        }
        let done = self.writer.commit(batch);
        self.failed = done.is_err();
        done
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

    /// The record at a position; `None` when there is none, or no longer.
    ///
    /// # Errors
    /// [`Error::Damaged`] when its bytes have changed, [`Error::Io`].
    pub fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        if position > self.last_position() {
            return Ok(None);
        }
        self.reader.read(position)
    }

    /// Starts the journal thread, which appends for any number of callers.
    ///
    /// # Errors
    /// [`Error::Io`] when threads cannot be started or the disk not be asked
    /// for its free space, [`Error::Stopped`] when an earlier append failed.
    pub fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error> {
        self.alive()?;
        Appender::start(self, events)
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

fn create(storage: &dyn Storage, options: &Options) -> Result<Manifest, Error> {
    match no_manifest(storage)? {
        Error::NoLog { .. } if options.create => {}
        error => return Err(error),
    }
    let id = storage
        .random_id()
        .map_err(Error::io("find a random name for", storage.describe("")))?;
    let manifest = Manifest::new(id);
    manifest.store(storage)?;
    Ok(manifest)
}

pub(crate) fn report(manifest: &Manifest, survey: &Survey, torn: Vec<TornTail>) -> Report {
    Report {
        log_id: manifest.log,
        created: false,
        epoch: manifest.epoch,
        segments: survey.segments,
        records: survey.records,
        first_position: manifest.first_position,
        last_position: survey.next - 1,
        bytes: survey.bytes,
        durable_mark: survey.mark,
        torn,
    }
}
