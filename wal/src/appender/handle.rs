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
    /// How many: in a log of files each is one write and one sync.
    pub count: u64,
    /// How long that took, in all.
    pub time: Duration,
    /// How many took so long, in the buckets of [`BATCH_BOUNDS`]; the last one is for those that took
    /// longer than every bound.
    pub by_time: [u64; BATCH_BOUNDS.len() + 1],
}

/// An open log that any number of threads append to.
///
/// Dropping it shuts it down.
pub struct Appender {
    shared: Arc<Shared>,
    medium: Arc<dyn Medium>,
    thread: Mutex<Thread>,
    /// One snapshot or compaction at a time.
    maintenance: Mutex<()>,
    /// The position after the last one that was there at the start.
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
    /// Another call waits for its end.
    Ending,
}

impl Appender {
    /// Starts the journal thread on a medium, of which so many bytes of records came after the
    /// newest snapshot began. Of the options, those of batches count.
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
        // Held as an appender from here on, so that what was started is stopped again when the
        // rest cannot be.
        let appender = Arc::new(Self {
            shared,
            medium,
            thread: Mutex::new(Thread::NotStarted),
            maintenance: Mutex::new(()),
            began,
        });
        appender.medium.start(Box::new(move || {
            if let Some(shared) = waiting.upgrade() {
                // Under its lock, so that the journal thread does not miss it.
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

    /// The right to append: while the value lives, no other caller appends.
    /// Positions are given in the order in which callers get here.
    pub fn sequence(&self) -> Sequence<'_> {
        Sequence::new(&self.shared)
    }

    /// Wakes the journal thread for what was appended by [`Sequence::end_quietly`].
    pub fn wake(&self) {
        self.shared.wake(self.shared.queue.lock());
    }

    /// The highest position that is durable.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// The highest position that has been given.
    pub fn appended(&self) -> u64 {
        self.shared.appended.load(Ordering::Acquire)
    }

    /// Payload bytes that have been appended and are not durable yet.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queued_bytes.load(Ordering::Relaxed)
    }

    /// What was written since the start.
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

    /// Whether there is space for more. When not, callers should append
    /// nothing new; what they have begun still finds room. Becomes true again
    /// by itself.
    pub fn has_room(&self) -> bool {
        self.medium.has_room(self.queued_bytes())
    }

    /// Why [`Appender::has_room`] says no; `None` when it says yes.
    pub fn lack(&self) -> Option<Lack> {
        self.medium.lack(self.queued_bytes())
    }

    /// What is free now, and what of it is the log's.
    ///
    /// # Errors
    /// [`Error::Io`] when the system does not tell the free space.
    pub fn space(&self) -> Result<Space, Error> {
        self.medium.space()
    }

    /// What [`Appender::space`] would say, as it was when last looked at, which is a second ago or
    /// so: the disk is not asked, so this never waits for it. `None` when the system does not tell.
    pub fn known_space(&self) -> Option<Space> {
        self.medium.known_space()
    }

    /// Bytes that the newest snapshot takes for what it keeps of records; 0 when there is none.
    pub fn kept_bytes(&self) -> u64 {
        self.medium.kept_bytes()
    }

    /// Bytes of the newest snapshot, before it was packed; 0 when there is none. What is comparable to
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

    /// The first position that is kept as a record, whatever snapshots have of those before it; the
    /// one after the last when there is none.
    pub fn first(&self) -> u64 {
        self.medium.first()
    }

    /// The first position of the newest part of the log that is given up as a whole, or of what was
    /// appended since the start: what lies before may be given up while what is appended now is kept.
    /// Known a little late when a part begins.
    pub fn newest_part(&self) -> u64 {
        self.medium.newest_part().max(self.began)
    }

    /// Shows the durable records from a position to another one, or to the end, in order and
    /// without gaps, until `visit` breaks; returns the position after the last one that was shown.
    /// It blocks neither batches nor compactions.
    ///
    /// # Errors
    /// [`Error::Gone`] when the next record to show is no longer kept, from the beginning or by a
    /// compaction meanwhile; those of [`Appender::read`]; [`Error::Visitor`] with what `visit`
    /// gives. What comes before the record that an error is about was shown.
    pub fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error> {
        let upto = upto.min(self.durable());
        self.medium.records(from.max(1), upto, visit)
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

    /// Makes a snapshot the newest one: waits until `upto`, the last position of
    /// which anything is in it, is durable, syncs it, reads it back, gives it
    /// its name and lists it; the oldest of three is removed.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing and passes; [`Error::Stopped`] when the
    /// log has failed or was shut down.
    pub fn install(&self, writer: SnapshotWriter, upto: u64) -> Result<SnapshotInfo, Error> {
        self.install_throttled(writer, upto, &mut || Ok(()))
    }

    /// As [`Appender::install`], and calls `throttle` after each item that is read back, and while
    /// it waits: its caller can pause there, to leave processors to commits, or end the work by an
    /// error, which leaves nothing of the snapshot.
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

    /// What [`Appender::compact`] would leave now.
    pub fn retained(&self, keep: &Keep) -> Retained {
        self.medium.retained(keep)
    }

    /// Whether records that the older snapshot covers may be removed by themselves, the oldest
    /// first and without an archive, before [`Appender::has_room`] says no. They are not until this
    /// is said.
    pub fn give_up_for_room(&self, may: bool) {
        self.medium.give_up_for_room(may);
    }

    /// Bytes that were removed so.
    pub fn given_up_bytes(&self) -> u64 {
        self.medium.given_up_bytes()
    }

    /// Removes what the older snapshot covers and is not to be kept, or moves it to
    /// the archive. Interrupted anywhere, it can be done again.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing and passes; [`Error::Stopped`] when the
    /// log has failed or was shut down.
    pub fn compact(&self, keep: &Keep, archive: Option<&dyn Storage>) -> Result<Compacted, Error> {
        self.compact_throttled(keep, archive, &mut |_, _| Ok(()))
    }

    /// As [`Appender::compact`], and calls `copying` before each chunk that is copied to the archive,
    /// with the bytes that are there by then and those that will be: an error ends it, and nothing is
    /// removed that is not copied.
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

    /// Shows, in order, what the newest snapshot kept and the log's records
    /// after what it covers, up to a durable position. Not to be called while
    /// another thread compacts.
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

    /// Takes no more records, writes what is queued, seals the log, ends the
    /// threads and gives back the lock: before it returns, or, where a callback on
    /// the journal thread calls it, when that thread ends. A second call does nothing.
    /// Must not be called while the same thread holds a [`Sequence`].
    ///
    /// # Errors
    /// [`Error::Stopped`] with the reason when the log has failed before all
    /// was durable.
    pub fn shutdown(&self) -> Result<(), Error> {
        {
            let mut queue = self.shared.queue.lock();
            if queue.closed.is_none() {
                queue.closed = Some("it was shut down".into());
            }
            self.shared.stopping.store(true, Ordering::SeqCst);
            self.shared.work.notify_all();
        }
        // The journal thread may be waiting for room that will not come.
        self.medium.drain();
        // In a callback, what is queued is still to be written, and nobody else may write until it is: the
        // journal thread gives back the lock at its end.
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
        // A caller that needs the result calls it directly.
        let _ = self.shutdown();
    }
}
