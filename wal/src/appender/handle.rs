//! The handle by which any number of threads append to a journal.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::events::Events;
use super::journal::Journal;
use super::queue::{BATCH_BOUNDS, Sequence, Shared};
use crate::error::{BoxError, Error};
use crate::format::RECORD_BYTES_MAX;
use crate::medium::{BatchWriter, Medium};
use crate::options::Options;
use crate::retention::{Keep, Retained};
use crate::segment::Compacted;
use crate::snapshot::SnapshotWriter;
use crate::space::{Lack, Space};
use crate::storage::Storage;
use crate::visitor::{OnRange, Record, SnapshotInfo};

/// Batches that became durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Number of batches: in a log of files, each is one write and one sync.
    pub count: u64,
    /// Total time that these batches took.
    pub time: Duration,
    /// Number of batches by the time that they took, in the buckets of [`BATCH_BOUNDS`]; the last bucket
    /// is for those that took longer than every bound.
    pub by_time: [u64; BATCH_BOUNDS.len() + 1],
}

/// An open log that any number of threads append to.
///
/// Dropping it shuts it down.
pub struct Appender {
    shared: Arc<Shared>,
    medium: Arc<dyn Medium>,
    thread: Mutex<Thread>,
    /// Held while a snapshot is installed or the log is compacted: one at a time.
    maintenance: Mutex<()>,
    /// The first position after those that existed at the start.
    began: u64,
}

/// An open log on some medium, to which nothing is appended yet.
pub trait OpenLog {
    /// Starts the journal thread, which appends for any number of callers.
    ///
    /// # Errors
    /// When the medium has failed already, or threads cannot be started.
    fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error>;
}

/// The journal thread.
enum Thread {
    NotStarted,
    Running(JoinHandle<()>),
    /// Another call waits for the thread to end.
    Ending,
}

impl Appender {
    /// Starts the journal thread on a medium; `log_bytes` are the bytes of its records since the newest
    /// snapshot began. Of the options, only those of batches count.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(
        medium: Arc<dyn Medium>,
        writer: Box<dyn BatchWriter>,
        options: &Options,
        log_bytes: u64,
        events: Box<dyn Events>,
    ) -> Result<Arc<Self>, Error> {
        let began = writer.next();
        let shared = Arc::new(Shared::new(began - 1, log_bytes));
        let journal = Journal {
            shared: Arc::clone(&shared),
            medium: Arc::clone(&medium),
            writer,
            batch_bytes_max: options.batch_bytes_max.clamp(1, RECORD_BYTES_MAX),
            seal_after: options.seal_after,
            batch_began: Instant::now(),
            batch_records: 0,
            begun: VecDeque::new(),
            settled: Instant::now(),
            took: Duration::ZERO,
        };
        let waiting = Arc::downgrade(&shared);
        // From here on, dropping the appender stops what was started, when the rest cannot be started.
        let appender = Arc::new(Self {
            shared,
            medium,
            thread: Mutex::new(Thread::NotStarted),
            maintenance: Mutex::new(()),
            began,
        });
        appender.medium.start(Box::new(move || {
            if let Some(shared) = waiting.upgrade() {
                // The lock is taken first, so that the journal thread does not miss the notification.
                drop(shared.queue.lock());
                shared.work.notify_all();
            }
        }))?;
        let thread = thread::Builder::new().name("wal-journal".to_owned());
        let thread = thread.spawn(|| journal.run(events));
        let thread = thread.map_err(Error::io("start a thread for", "wal-journal"))?;
        *appender.thread.lock() = Thread::Running(thread);
        Ok(appender)
    }

    /// Returns the right to append: while the value lives, no other caller appends. Positions are assigned
    /// in the order in which callers get it.
    pub fn sequence(&self) -> Sequence<'_> {
        Sequence::new(&self.shared)
    }

    /// Wakes the journal thread for records that were appended by [`Sequence::end_quietly`].
    pub fn wake(&self) {
        self.shared.wake(self.shared.queue.lock());
    }

    /// The highest position that is durable.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// The highest position that has been assigned.
    pub fn appended(&self) -> u64 {
        self.shared.appended.load(Ordering::Acquire)
    }

    /// Payload bytes that have been appended and are not durable yet.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queued_bytes.load(Ordering::Relaxed)
    }

    /// Returns the counts of the batches written since the start.
    pub fn batches(&self) -> Batches {
        Batches {
            count: self.shared.batches.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.shared.batch_nanos.load(Ordering::Relaxed)),
            by_time: self
                .shared
                .batches_by_time
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed)),
        }
    }

    /// Whether there is space for more records. When not, callers should append nothing new; there is
    /// still space for what they have begun. Becomes true again by itself.
    pub fn has_room(&self) -> bool {
        self.medium.has_room(self.queued_bytes())
    }

    /// Why [`Appender::has_room`] says no; `None` when it says yes.
    pub fn lack(&self) -> Option<Lack> {
        self.medium.lack(self.queued_bytes())
    }

    /// Returns the free space now, and how much of it the log needs itself.
    ///
    /// # Errors
    /// [`Error::Io`] when the system does not tell the free space.
    pub fn space(&self) -> Result<Space, Error> {
        self.medium.space()
    }

    /// As [`Appender::space`], but as of the last look at the disk, a second ago or so: the disk is not
    /// asked, so this never waits for it. `None` when the system does not tell.
    pub fn known_space(&self) -> Option<Space> {
        self.medium.known_space()
    }

    /// Bytes that kept records take in the newest snapshot; 0 when there is none.
    pub fn kept_bytes(&self) -> u64 {
        self.medium.kept_bytes()
    }

    /// Size of the newest snapshot before packing, in bytes; 0 when there is none. Comparable with
    /// [`Appender::log_bytes_since_snapshot`].
    pub fn unpacked_snapshot_bytes(&self) -> u64 {
        self.medium.unpacked_snapshot_bytes()
    }

    /// When the newest snapshot was written; `None` when there is none, or that is not known.
    pub fn snapshot_written(&self) -> Option<SystemTime> {
        self.medium.snapshot_written()
    }

    /// The record at a position, or what the newest snapshot kept of it when the
    /// log no longer has it; `None` when it is not durable yet, or was not kept.
    ///
    /// # Errors
    /// [`Error::Damaged`] when its bytes have changed, [`Error::Io`].
    pub fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        if position > self.durable() {
            return Ok(None);
        }
        self.medium.read(position)
    }

    /// The first position that is kept as a record, whatever snapshots keep of earlier ones; the position
    /// after the last when there is none.
    pub fn first(&self) -> u64 {
        self.medium.first()
    }

    /// The first position of the newest part of the log that is removed as a whole, or of the records
    /// appended since the start: earlier records may be removed while those appended now are kept. Updated
    /// a little late when a part begins.
    pub fn newest_part(&self) -> u64 {
        self.medium.newest_part().max(self.began)
    }

    /// Shows the durable records from a position to another one, or to the end, in order and
    /// without gaps, until `visit` breaks; returns the position after the last one that was shown.
    /// It blocks neither batches nor compactions.
    ///
    /// # Errors
    /// [`Error::Gone`] when the next record to show is no longer kept, from the beginning or by a compaction meanwhile;
    /// those of [`Appender::read`]; [`Error::Visitor`] with what `visit` gives. All records before the one that the
    /// error concerns were shown.
    pub fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error> {
        let upto = upto.min(self.durable());
        self.medium.records(from.max(1), upto, visit)
    }

    /// Returns up to `count` positions, in order, that divide the durable records from a position to another one, or to
    /// the end, into parts of about as many bytes, as they are stored. A part begins with each of them, the first with
    /// `from`; where there are no records, there is no part.
    pub fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64> {
        let upto = upto.min(self.durable());
        self.medium.spread(from.max(1), upto, count)
    }

    /// Bytes of the records that were written since the newest snapshot began.
    pub fn log_bytes_since_snapshot(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Relaxed)
    }

    /// The snapshots there are, newest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.medium.snapshots()
    }

    /// Begins a snapshot that covers every record up to a durable position.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing.
    ///
    /// # Panics
    /// When the position is not durable, or below what a snapshot covers.
    pub fn begin_snapshot(&self, covers: u64) -> Result<SnapshotWriter, Error> {
        assert!(
            covers <= self.durable(),
            "a snapshot covers what is durable"
        );
        let log_bytes = self.log_bytes_since_snapshot();
        let target = self.medium.begin_snapshot(covers)?;
        Ok(SnapshotWriter::new(target, log_bytes))
    }

    /// Makes a snapshot the newest one: waits until `upto`, the last position whose record contributed to
    /// it, is durable, syncs it, reads it back, gives it its name and lists it; the oldest of three is
    /// removed.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing and passes; [`Error::Stopped`] when the
    /// log has failed or was shut down.
    pub fn install(&self, writer: SnapshotWriter, upto: u64) -> Result<SnapshotInfo, Error> {
        self.install_throttled(writer, upto, &mut || Ok(()))
    }

    /// As [`Appender::install`], and calls `throttle` after each item that is read back, and while it
    /// waits: the callback can pause there, to leave processors to commits, or end the work by an error,
    /// which leaves nothing of the snapshot.
    ///
    /// # Errors
    /// Those of [`Appender::install`], and that of `throttle`.
    pub fn install_throttled(
        &self,
        writer: SnapshotWriter,
        upto: u64,
        throttle: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<SnapshotInfo, Error> {
        while self.durable() < upto {
            if let Some(reason) = self.shared.queue.lock().closed.clone() {
                return Err(Error::Stopped { reason });
            }
            throttle()?;
            thread::sleep(Duration::from_millis(1));
        }
        let _alone = self.maintenance.lock();
        let log_bytes = writer.log_bytes();
        let info = self.medium.install(writer.into_target(), upto, throttle)?;
        self.shared
            .log_bytes
            .fetch_sub(log_bytes, Ordering::Relaxed);
        Ok(info)
    }

    /// Returns what [`Appender::compact`] would leave now.
    pub fn retained(&self, keep: &Keep) -> Retained {
        self.medium.retained(keep)
    }

    /// Sets whether the log may remove records that the older snapshot covers, the oldest first and
    /// without an archive, before [`Appender::has_room`] says no. It may not until this is called.
    pub fn give_up_for_room(&self, may: bool) {
        self.medium.give_up_for_room(may);
    }

    /// Bytes that were removed as [`Appender::give_up_for_room`] allows.
    pub fn given_up_bytes(&self) -> u64 {
        self.medium.given_up_bytes()
    }

    /// Removes the records that the older snapshot covers and that are not to be kept, or moves them to
    /// the archive. Can be repeated after an interruption at any point.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing and passes; [`Error::Stopped`] when the
    /// log has failed or was shut down.
    pub fn compact(&self, keep: &Keep, archive: Option<&dyn Storage>) -> Result<Compacted, Error> {
        self.compact_throttled(keep, archive, &mut |_, _| Ok(()))
    }

    /// As [`Appender::compact`], and calls `copying` before each chunk that is copied to the archive, with
    /// the bytes copied so far and the total: an error ends it, and nothing is removed that is not copied.
    ///
    /// # Errors
    /// Those of [`Appender::compact`], and that of `copying`.
    pub fn compact_throttled(
        &self,
        keep: &Keep,
        archive: Option<&dyn Storage>,
        copying: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<Compacted, Error> {
        let _alone = self.maintenance.lock();
        self.medium.compact(keep, archive, copying)
    }

    /// Shows, in order, the records that the newest snapshot kept and the log's records after the position
    /// that it covers, up to a durable position. Not to be called while another thread compacts.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`], and [`Error::Visitor`] with what `visit` gives.
    pub fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.medium.history(upto.min(self.durable()), visit)
    }

    /// Accepts no more records, writes those that are queued, seals the log, ends the threads and releases
    /// the lock: before it returns, or, when a callback on the journal thread calls it, when that thread
    /// ends. A second call does nothing. Must not be called while the same thread holds a [`Sequence`].
    ///
    /// # Errors
    /// [`Error::Stopped`] with the reason when the log has failed: also when all was durable by then,
    /// and when only its end could not be written.
    pub fn shutdown(&self) -> Result<(), Error> {
        {
            let mut queue = self.shared.queue.lock();
            if queue.closed.is_none() {
                queue.closed = Some("it was shut down".into());
            }
            self.shared.stopping.store(true, Ordering::SeqCst);
            self.shared.work.notify_all();
        }
        // The journal thread may be waiting for space that will not come.
        self.medium.drain();
        // In a callback, queued records are still to be written, and no other process may write before
        // that: the journal thread releases the lock at its end.
        if self.shared.journal.get() != Some(&thread::current().id()) {
            match std::mem::replace(&mut *self.thread.lock(), Thread::Ending) {
                // There is no journal thread to stop the medium.
                Thread::NotStarted => self.medium.stop(),
                // A panic was caught and reported where it happened.
                Thread::Running(thread) => drop(thread.join()),
                Thread::Ending => {}
            }
            self.medium.close();
        }
        if let Some(reason) = self.shared.failure.get() {
            return Err(Error::Stopped {
                reason: Arc::clone(reason),
            });
        }
        // The journal thread was never started, or is still to write them.
        if self.durable() < self.appended() {
            let reason = self.shared.queue.lock().closed.clone();
            return Err(Error::Stopped {
                reason: reason.unwrap_or_default(),
            });
        }
        Ok(())
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // A caller that needs the result calls `shutdown` directly.
        let _ = self.shutdown();
    }
}
