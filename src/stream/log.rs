//! The journal as the log of an appender: batches go to the stream first, then to the directory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use wal::storage::Storage;
use wal::{
    Appender, Batch, BatchWriter, BoxError, Compacted, Error, Events, Keep, Lack, Medium, OnRange,
    OpenLog, Parts, Record, Retained, SnapshotInfo, SnapshotTarget, Space, WakeUp,
};

use super::error::StreamError;
use super::handle::JournalHandle;
use super::message::{Content, DIGEST_BYTES, HEAD_BYTES, Records};

/// A log whose batches are in the stream before they are in the directory.
///
/// While another process is the writer, the records appended here came from the stream, and go to the directory only.
pub struct StreamLog {
    /// The log in the directory.
    pub directory: Parts,
    /// The handle of the stream.
    pub link: Arc<JournalHandle>,
}

impl OpenLog for StreamLog {
    fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error> {
        let Self { directory, link } = self;
        let medium = Beside {
            directory: directory.medium,
            link: Arc::clone(&link),
        };
        let writer = Writer {
            directory: directory.writer,
            link,
            begun: VecDeque::new(),
        };
        let parts = Parts {
            medium: Arc::new(medium),
            writer: Box::new(writer),
            options: directory.options,
            log_bytes: directory.log_bytes,
        };
        parts.start(events)
    }
}

/// Converts the error that ended the handle's use into one of the log.
fn ended(error: &StreamError) -> Error {
    Error::Stopped {
        reason: error.to_string().into(),
    }
}

/// The part of the log that the journal's thread uses.
struct Writer {
    directory: Box<dyn BatchWriter>,
    link: Arc<JournalHandle>,
    /// Batches in flight to the stream, the oldest first. Each goes to the directory once it is acknowledged.
    begun: VecDeque<Begun>,
}

/// A batch in flight to the stream.
struct Begun {
    /// Number of the batch's message.
    number: u64,
    /// Bytes of the message.
    bytes: Bytes,
    count: usize,
}

impl BatchWriter for Writer {
    fn next(&self) -> u64 {
        self.directory.next()
    }

    fn make_room(&mut self, batch: Batch<'_>) -> Result<(), Error> {
        self.directory.make_room(batch)
    }

    fn commit(&mut self, batch: Batch<'_>) -> Result<u64, Error> {
        self.directory.commit(batch)
    }

    fn begin(&mut self, batch: Batch<'_>) -> Result<Option<u64>, Error> {
        if !self.link.writes() {
            if let Some(error) = self.link.ended() {
                return Err(ended(error));
            }
            return self.commit(batch).map(Some);
        }
        let none = || Error::Stopped {
            reason: "the batch is malformed".into(),
        };
        let count = u32::try_from(batch.count()).ok();
        let records = count.and_then(|count| Records::of(batch.bytes(), count));
        let content = Content::Batch(records.ok_or_else(none)?);
        let made = match self.link.begin(content) {
            // A barrier has taken the place meanwhile.
            Ok(None) => {
                let in_turn = self.link.begin_in_turn(content);
                self.link.connection().block(in_turn)
            }
            Ok(Some(made)) => Ok(made),
            Err(error) => Err(error),
        };
        let made = made.map_err(|error| ended(&error))?;
        self.begun.push_back(Begun {
            number: made.number,
            bytes: made.bytes,
            count: batch.count(),
        });
        Ok(None)
    }

    fn may_begin(&self) -> bool {
        self.link.may_begin()
    }

    fn has_settled(&self) -> bool {
        let oldest = self.begun.front();
        oldest.is_some_and(|oldest| oldest.number <= self.link.acknowledged())
    }

    fn settle(&mut self) -> Result<Option<u64>, Error> {
        if !self.has_settled() {
            return Ok(None);
        }
        let Some(begun) = self.begun.pop_front() else {
            return Ok(None);
        };
        let content = &begun.bytes[HEAD_BYTES..begun.bytes.len() - DIGEST_BYTES];
        let batch = Batch::of(content, begun.count).ok_or_else(|| Error::Stopped {
            reason: "the batch is malformed".into(),
        })?;
        self.directory.make_room(batch)?;
        self.directory.commit(batch).map(Some)
    }

    fn is_unsealed(&self) -> bool {
        self.directory.is_unsealed()
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.directory.seal()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.directory.finish()
    }

    fn failure(&mut self) -> Option<Error> {
        match self.link.ended() {
            Some(error) => Some(ended(error)),
            None => self.directory.failure(),
        }
    }
}

/// The part of the log that all other threads use.
struct Beside {
    directory: Arc<dyn Medium>,
    link: Arc<JournalHandle>,
}

impl Medium for Beside {
    fn start(&self, wake_up: WakeUp) -> Result<(), Error> {
        let wake_up: Arc<dyn Fn() + Send + Sync> = Arc::from(wake_up);
        let of_link = Arc::clone(&wake_up);
        self.link.wake_by(Box::new(move || of_link()));
        self.directory.start(Box::new(move || wake_up()))
    }

    fn drain(&self) {
        self.link.drain();
        self.directory.drain();
    }

    fn stop(&self) {
        self.directory.stop();
    }

    fn close(&self) {
        self.directory.close();
    }

    fn has_room(&self, queued: usize) -> bool {
        self.directory.has_room(queued) && self.link.lack(queued).is_none()
    }

    fn lack(&self, queued: usize) -> Option<Lack> {
        let of_stream = || self.link.lack(queued).map(|why| Lack::Journal { why });
        self.directory.lack(queued).or_else(of_stream)
    }

    fn space(&self) -> Result<Space, Error> {
        self.directory.space()
    }

    fn known_space(&self) -> Option<Space> {
        self.directory.known_space()
    }

    fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        self.directory.read(position)
    }

    fn first(&self) -> u64 {
        self.directory.first()
    }

    fn newest_part(&self) -> u64 {
        self.directory.newest_part()
    }

    fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error> {
        self.directory.records(from, upto, visit)
    }

    fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64> {
        self.directory.spread(from, upto, count)
    }

    fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.directory.history(upto, visit)
    }

    fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.directory.snapshots()
    }

    fn snapshot_written(&self) -> Option<SystemTime> {
        self.directory.snapshot_written()
    }

    fn kept_bytes(&self) -> u64 {
        self.directory.kept_bytes()
    }

    fn unpacked_snapshot_bytes(&self) -> u64 {
        self.directory.unpacked_snapshot_bytes()
    }

    fn begin_snapshot(&self, covers: u64) -> Result<Box<dyn SnapshotTarget>, Error> {
        self.directory.begin_snapshot(covers)
    }

    fn install(
        &self,
        snapshot: Box<dyn SnapshotTarget>,
        upto: u64,
        throttle: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<SnapshotInfo, Error> {
        self.directory.install(snapshot, upto, throttle)
    }

    fn retained(&self, keep: &Keep) -> Retained {
        self.directory.retained(keep)
    }

    fn give_up_for_room(&self, may: bool) {
        self.directory.give_up_for_room(may);
    }

    fn given_up_bytes(&self) -> u64 {
        self.directory.given_up_bytes()
    }

    fn compact(
        &self,
        keep: &Keep,
        archive: Option<&dyn Storage>,
        copying: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<Compacted, Error> {
        self.directory.compact(keep, archive, copying)
    }
}
