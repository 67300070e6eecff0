//! Appends for many threads: they queue records, one thread writes them.
//!
//! The journal thread takes all that is queued, writes it as one batch with one
//! write and one sync, tells that it is durable, and takes what has queued in
//! the meantime. Where several wait for each batch, the next one follows no sooner than 0.4 or
//! 0.6 ms after the one before began, unless enough are queued; whoever is alone is never kept
//! waiting.
//! The helper thread makes segments ahead of need, keeps the manifest, and watches the free space.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::archive;
use crate::error::{BoxError, Error, UpkeepError};
use crate::format::{self, RECORD_BYTES_MAX, to_u64};
use crate::frame::Batched;
use crate::log::{Log, Options};
use crate::reader::Reader;
use crate::segment::{self, Compacted, Maker, Prepared, Removable, Retired};
use crate::snapshot::{Finished, SnapshotInfo, SnapshotWriter};
use crate::storage::{Lock, Storage};
use crate::survey::Record;
use crate::writer::{Before, Writer};

/// How often the free space is looked at, and again when it was too little.
const WATCH: Duration = Duration::from_millis(500);
const WATCH_LOW: Duration = Duration::from_millis(100);
/// How long the disk is left to the batches between two pieces of the next segment.
const REST: Duration = Duration::from_millis(2);

/// From one batch of several records to the next takes so long at the least, unless enough are
/// queued before: while the disk could take another batch every 0.15 ms, each costs processor
/// time for a sync and for waking all who wait, and that is what there is too little of.
const GATHER: Duration = Duration::from_micros(400);
/// The same while more than twice [`MANY`] are in flight: half of them take longer to come.
const GATHER_OF_CROWD: Duration = Duration::from_micros(600);
/// So many records in a batch are of several who wait, and the next ones are gathered.
const FEW: usize = 3;
/// So many queued records are enough, where nobody knows how many are in flight.
const MANY: usize = 16;
/// So many queued records are worth a batch, whoever may still have some.
const QUIET_MAX: usize = 32;

/// What the journal thread tells; called on that thread, which does nothing
/// else in the meantime.
pub trait Events: Send {
    /// Every record up to this position will survive a power cut. Positions rise.
    fn durable(&mut self, position: u64);

    /// The log has failed and nothing more becomes durable. Called once at
    /// most, as the last call. What was appended and not reported durable may
    /// be found after a restart or not.
    fn failed(&mut self, error: &Error);

    /// How many are in flight: they wait for what they have appended, or may append soon. By
    /// this the journal thread knows when there is nobody worth waiting for. 0, as without an own
    /// implementation, when that is not known.
    fn in_flight(&self) -> usize {
        0
    }
}

/// What is gathered for a batch while so many are in flight: how many records are enough, and how
/// long after the batch before it begins at the latest.
///
/// Nearly all of a few: of those that were just answered, each may be about to append. Not quite
/// half of many: they are written while the others are worked on, and neither side waits.
fn gathered(in_flight: usize) -> (usize, Duration) {
    if in_flight == 0 {
        return (MANY, GATHER);
    }
    let nearly_all = in_flight - in_flight / 8;
    let enough = nearly_all.min(MANY.max(in_flight * 7 / 16));
    let is_crowd = in_flight > 2 * MANY;
    (enough, if is_crowd { GATHER_OF_CROWD } else { GATHER })
}

/// Why a record was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The log has failed or was shut down, for this reason.
    Stopped(Arc<str>),
    /// The record has more than [`RECORD_BYTES_MAX`] bytes.
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(reason) => write!(f, "the log takes no more records: {reason}"),
            Self::TooLarge { bytes } => {
                write!(
                    f,
                    "a record of {bytes} bytes is too large, the limit is {RECORD_BYTES_MAX}"
                )
            }
        }
    }
}

impl std::error::Error for Failed {}

/// Why nothing new should be appended just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The disk has less free space than is to be kept.
    Space {
        /// Free bytes; `None` when the system does not tell.
        free: Option<u64>,
        /// The reserve.
        reserve: u64,
    },
    /// The current segment is nearly full, and there is no other.
    Segment {
        /// Why none could be made.
        why: Arc<str>,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space {
                free: Some(free),
                reserve,
            } => write!(
                f,
                "{free} bytes are free on the disk of the log, and {reserve} are the reserve"
            ),
            Self::Space { free: None, .. } => {
                f.write_str("the system does not tell how much space the disk of the log has")
            }
            Self::Segment { why } => write!(f, "the log has no other segment: {why}"),
        }
    }
}

/// What the disk of a log has free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub free: u64,
    /// Bytes of the reserve.
    pub reserve: u64,
    /// Bytes of the segment that will be made next.
    pub next_segment: u64,
}

impl Space {
    /// Bytes that may be written beside the log without keeping from it its reserve, nor its next
    /// segment.
    #[must_use]
    pub fn spare(&self) -> u64 {
        self.free
            .saturating_sub(self.reserve)
            .saturating_sub(self.next_segment)
    }
}

/// Batches that were written and synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// How many: each is one write and one sync.
    pub count: u64,
    /// How long that took, in all.
    pub time: Duration,
}

/// An open log that any number of threads append to.
///
/// Dropping it shuts it down.
pub struct Appender {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// The journal thread waits here when there is nothing to do.
    work: Condvar,
    depot: Mutex<Depot>,
    /// Journal and helper thread wait here for each other.
    exchange: Condvar,
    durable: AtomicU64,
    appended: AtomicU64,
    queued_bytes: AtomicUsize,
    batches: AtomicU64,
    batch_nanos: AtomicU64,
    /// Bytes of the records since the newest snapshot began.
    log_bytes: AtomicU64,
    /// One upkeep at a time.
    upkeep: Mutex<()>,
    stopping: AtomicBool,
    helper_failed: AtomicBool,
    room: Room,
    reader: Arc<Reader>,
    /// Given back at shutdown.
    lock: Mutex<Option<Lock>>,
}

struct Queue {
    records: Batched,
    next: u64,
    /// How many records have to be queued for the journal thread to be woken; none while it is
    /// awake.
    wake_at: Option<usize>,
    /// Why nothing more is taken.
    closed: Option<Arc<str>>,
}

/// What journal and helper thread hand each other.
struct Depot {
    ready: Option<Prepared>,
    /// Length of the frame that the journal thread waits to write.
    wanted: Option<u64>,
    retired: Vec<Retired>,
    unused: Vec<Prepared>,
    /// Why no other segment could be made. It is tried again.
    blocked: Option<Arc<str>>,
    failure: Option<Error>,
    /// What the helper thread is asked to do with the manifest.
    request: Option<Request>,
    done: Option<Result<Done, Error>>,
    stop: bool,
    /// The helper thread does nothing any more.
    ended: bool,
}

/// A change of the manifest that only the helper thread can make.
enum Request {
    Install(Box<Finished>),
    Removable,
    Forget(Vec<Removable>),
}

enum Done {
    Installed(SnapshotInfo),
    Removable(Vec<Removable>),
    Forgotten(Compacted),
}

/// Whether records can be taken without running into a full disk.
struct Room {
    /// Free space is below the reserve.
    low: AtomicBool,
    /// Free bytes; the largest number when nobody knows.
    free: AtomicU64,
    reserve: u64,
    /// Bytes of the next segment.
    next: AtomicU64,
    /// No segment could be made.
    blocked: AtomicBool,
    /// Bytes left in the current segment.
    left: AtomicU64,
    /// Bytes of the current segment.
    size: AtomicU64,
    /// Bytes that must be left when there is no other segment.
    margin: u64,
}

impl Room {
    /// Whether the next segment, of which so many bytes are made, will be ready
    /// while a quarter of the current one is left.
    fn is_ahead(&self, made: u64, of: u64) -> bool {
        let left = u128::from(self.left.load(Ordering::Relaxed));
        let size = u128::from(self.size.load(Ordering::Relaxed));
        let missing = u128::from(of.saturating_sub(made));
        missing * size * 4 <= left * u128::from(of) * 3
    }

    fn available(&self) -> bool {
        if self.low.load(Ordering::Relaxed) {
            return false;
        }
        !self.blocked.load(Ordering::Relaxed) || self.left.load(Ordering::Relaxed) >= self.margin
    }
}

impl Appender {
    pub(crate) fn start(log: Log, events: Box<dyn Events>) -> Result<Arc<Self>, Error> {
        let Log {
            options,
            lock,
            reader,
            writer,
            maker,
            log_bytes,
            ..
        } = log;
        let last = writer.next() - 1;
        let batch_bytes_max = options.batch_bytes_max.clamp(1, RECORD_BYTES_MAX);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                records: Batched::default(),
                next: last + 1,
                wake_at: None,
                closed: None,
            }),
            work: Condvar::new(),
            depot: Mutex::new(Depot {
                ready: None,
                wanted: None,
                retired: Vec::new(),
                unused: Vec::new(),
                blocked: None,
                failure: None,
                request: None,
                done: None,
                stop: false,
                ended: false,
            }),
            exchange: Condvar::new(),
            durable: AtomicU64::new(last),
            appended: AtomicU64::new(last),
            queued_bytes: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            batch_nanos: AtomicU64::new(0),
            log_bytes: AtomicU64::new(log_bytes),
            upkeep: Mutex::new(()),
            stopping: AtomicBool::new(false),
            helper_failed: AtomicBool::new(false),
            room: Room {
                low: AtomicBool::new(false),
                free: AtomicU64::new(u64::MAX),
                reserve: options.reserve_bytes,
                next: AtomicU64::new(maker.next_bytes()),
                // Until the helper thread knows better.
                blocked: AtomicBool::new(writer.segment_bytes() == 0),
                left: AtomicU64::new(writer.left()),
                size: AtomicU64::new(writer.segment_bytes()),
                margin: to_u64(batch_bytes_max).saturating_mul(2),
            },
            reader,
            lock: Mutex::new(Some(lock)),
        });
        shared.look_at_free_space()?;
        let helper = Helper {
            shared: Arc::clone(&shared),
            maker,
        };
        let journal = Journal {
            shared: Arc::clone(&shared),
            writer,
            batch_bytes_max,
            options,
            batch_began: Instant::now(),
            batch_records: 0,
        };
        // Held as an appender from here on, so that a thread that was started
        // is stopped again when the other one cannot be.
        let appender = Arc::new(Self {
            shared,
            threads: Mutex::new(Vec::new()),
        });
        appender.spawn("wal-helper", || helper.run())?;
        appender.spawn("wal-journal", || journal.run(events))?;
        Ok(appender)
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        self.threads
            .lock()
            .push(thread.map_err(Error::io("start a thread for", name))?);
        Ok(())
    }

    /// The place in the order: while the value lives, nobody else appends. The
    /// order of positions is the order in which callers get here.
    pub fn sequence(&self) -> Sequence<'_> {
        Sequence {
            shared: &self.shared,
            queue: Some(self.shared.queue.lock()),
        }
    }

    /// Wakes the journal thread for what was appended by [`Sequence::end_quietly`].
    pub fn wake(&self) {
        let mut queue = self.shared.queue.lock();
        let wake = queue.needs_waking();
        drop(queue);
        if wake {
            self.shared.work.notify_one();
        }
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
        }
    }

    /// Whether the disk has space for more. When not, callers should append
    /// nothing new; what they have begun still finds place. Becomes true again
    /// by itself.
    pub fn has_room(&self) -> bool {
        self.shared.room.available()
    }

    /// Why [`Appender::has_room`] says no; `None` when it says yes.
    pub fn lack(&self) -> Option<Lack> {
        let room = &self.shared.room;
        if room.available() {
            return None;
        }
        let free = room.free.load(Ordering::Relaxed);
        if room.low.load(Ordering::Relaxed) {
            let free = (free != u64::MAX).then_some(free);
            let reserve = room.reserve;
            return Some(Lack::Space { free, reserve });
        }
        let why = self.shared.depot.lock().blocked.clone();
        Some(Lack::Segment {
            why: why.unwrap_or_else(|| "it is being made".into()),
        })
    }

    /// What the disk has free now, and what of it is the log's.
    ///
    /// # Errors
    /// [`Error::Io`] when the system does not tell the free space.
    pub fn space(&self) -> Result<Space, Error> {
        let (room, storage) = (&self.shared.room, self.shared.reader.storage());
        let free = storage.free_bytes().map_err(|source| {
            Error::io("ask for the free space of", storage.describe(""))(source)
        })?;
        Ok(Space {
            free,
            reserve: room.reserve,
            next_segment: room.next.load(Ordering::Relaxed),
        })
    }

    /// Bytes that the newest snapshot keeps of records; 0 when there is none.
    pub fn kept_bytes(&self) -> u64 {
        self.shared.reader.kept_bytes()
    }

    /// When the newest snapshot was written; `None` when there is none, or nobody knows.
    pub fn snapshot_written(&self) -> Option<SystemTime> {
        let reader = &self.shared.reader;
        let newest = reader.snapshots().first().copied()?;
        let name = format::snapshot_name(newest.number);
        reader.storage().modified(&name).ok()
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
        self.shared.reader.read(position)
    }

    /// Bytes of the records that were written since the newest snapshot began.
    pub fn log_bytes_since_snapshot(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Relaxed)
    }

    /// The snapshots there are, newest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.shared.reader.snapshots()
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
        self.shared.reader.begin_snapshot(covers, log_bytes)
    }

    /// Makes a snapshot the newest one: waits until `upto`, the last position of
    /// which anything is in it, is durable, syncs it, reads it back, gives it
    /// its name and lists it; the oldest of three is removed.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing and passes; [`Error::Stopped`] when the
    /// log has failed or was shut down.
    pub fn install(&self, writer: SnapshotWriter, upto: u64) -> Result<SnapshotInfo, Error> {
        self.install_gently(writer, upto, &mut || Ok(()))
    }

    /// The same, and calls `breathe` after each little piece that was read back, and while it
    /// waits: there, the caller can rest to leave processors to commits, or give the snapshot up
    /// by an error, which leaves nothing of it.
    ///
    /// # Errors
    /// Those of [`Appender::install`], and that of `breathe`.
    pub fn install_gently(
        &self,
        writer: SnapshotWriter,
        upto: u64,
        breathe: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<SnapshotInfo, Error> {
        let shared = &self.shared;
        while self.durable() < upto {
            if let Some(reason) = shared.queue.lock().closed.clone() {
                return Err(Error::Stopped { reason });
            }
            breathe()?;
            thread::sleep(Duration::from_millis(1));
        }
        let _alone = shared.upkeep.lock();
        let finished = writer.finish(upto, breathe)?;
        let log_bytes = finished.log_bytes;
        match self.ask(Request::Install(Box::new(finished)))? {
            Done::Installed(info) => {
                shared.log_bytes.fetch_sub(log_bytes, Ordering::Relaxed);
                Ok(info)
            }
            _ => unreachable!("each request has its own answer"),
        }
    }

    /// Removes the segments that the older snapshot covers, or moves them to
    /// the archive. Interrupted anywhere, it can be done again.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing and passes; [`Error::Stopped`] when the
    /// log has failed or was shut down.
    pub fn compact(&self, archive: Option<&dyn Storage>) -> Result<Compacted, Error> {
        self.compact_gently(archive, &mut || Ok(()))
    }

    /// The same, and calls `breathe` after each little piece that was copied to the archive: an
    /// error ends it, and nothing is removed that is not copied.
    ///
    /// # Errors
    /// Those of [`Appender::compact`], and that of `breathe`.
    pub fn compact_gently(
        &self,
        archive: Option<&dyn Storage>,
        breathe: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Compacted, Error> {
        let shared = &self.shared;
        let _alone = shared.upkeep.lock();
        let Done::Removable(segments) = self.ask(Request::Removable)? else {
            unreachable!("each request has its own answer");
        };
        // What takes long is done here: commits may wait for the helper thread.
        let storage = shared.reader.storage();
        if let Some(archive) = archive {
            archive::keep_in(storage, shared.reader.log(), archive, &segments, breathe)?;
        }
        let Done::Forgotten(compacted) = self.ask(Request::Forget(segments.clone()))? else {
            unreachable!("each request has its own answer");
        };
        segment::remove(storage, &segments);
        Ok(compacted)
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
        self.shared.reader.history(upto.min(self.durable()), visit)
    }

    /// Has the helper thread do something.
    fn ask(&self, request: Request) -> Result<Done, Error> {
        let shared = &self.shared;
        let mut depot = shared.depot.lock();
        depot.done = None;
        depot.request = Some(request);
        shared.exchange.notify_all();
        loop {
            if let Some(done) = depot.done.take() {
                return done;
            }
            if depot.ended {
                depot.request = None;
                return Err(Error::Stopped {
                    reason: "the log has ended".into(),
                });
            }
            shared.exchange.wait(&mut depot);
        }
    }

    /// Takes no more records, writes what is queued, seals the log, ends the
    /// threads and gives back the lock. A second call does nothing. Must not be
    /// called while the same thread holds a [`Sequence`].
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
        // The journal thread may be waiting for a segment that will not come.
        drop(self.shared.depot.lock());
        self.shared.exchange.notify_all();
        // The journal thread stops the helper, or there is only a helper.
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.len() == 1 {
            self.shared.stop_helper();
        }
        // In a callback, on the journal thread, there is nothing to wait for.
        let own = thread::current().id();
        if threads.iter().all(|thread| thread.thread().id() != own) {
            for thread in threads {
                // A panic was caught and told where it happened.
                let _ = thread.join();
            }
        }
        self.shared.lock.lock().take();
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
        // Whoever wants to know calls it himself.
        let _ = self.shutdown();
    }
}

/// The right to append next. Dropping it lets others append, and wakes the
/// journal thread when it sleeps; one that gathers a batch wakes by itself.
pub struct Sequence<'a> {
    shared: &'a Shared,
    queue: Option<MutexGuard<'a, Queue>>,
}

impl Sequence<'_> {
    fn queue(&self) -> &Queue {
        self.queue
            .as_ref()
            .expect("the guard is there until the value is dropped")
    }

    /// The position that the next record will get.
    pub fn next(&self) -> u64 {
        self.queue().next
    }

    /// Appends a record; gives its position.
    ///
    /// # Errors
    /// [`Failed`], and the record has no position then.
    pub fn push(&mut self, payload: impl AsRef<[u8]>) -> Result<u64, Failed> {
        let payload = payload.as_ref();
        self.take(payload.len(), |records| records.push(payload))
    }

    /// As [`Sequence::push`], of a record that the caller does not need any more: a large one is
    /// not copied while others wait.
    ///
    /// # Errors
    /// [`Failed`], and the record has no position then.
    pub fn push_owned(&mut self, payload: Vec<u8>) -> Result<u64, Failed> {
        self.take(payload.len(), |records| records.push_owned(payload))
    }

    fn take(&mut self, bytes: usize, push: impl FnOnce(&mut Batched)) -> Result<u64, Failed> {
        if let Some(reason) = &self.queue().closed {
            return Err(Failed::Stopped(Arc::clone(reason)));
        }
        if bytes > RECORD_BYTES_MAX {
            return Err(Failed::TooLarge { bytes });
        }
        self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queue = self
            .queue
            .as_mut()
            .expect("the guard is there until the value is dropped");
        let position = queue.next;
        queue.next += 1;
        push(&mut queue.records);
        self.shared.appended.store(position, Ordering::Release);
        Ok(position)
    }
}

impl Sequence<'_> {
    /// Lets others append, and leaves a sleeping journal thread asleep while little is queued:
    /// the caller wakes it by [`Appender::wake`] when it has appended what it has at
    /// hand, so that all of that becomes one batch.
    pub fn end_quietly(mut self) {
        if self.queue().records.count() < QUIET_MAX {
            self.queue = None;
        }
    }
}

impl Queue {
    /// Whether the journal thread sleeps although there is something to write. It is taken for
    /// awake from then on.
    fn needs_waking(&mut self) -> bool {
        let wake = self.wake_at.is_some_and(|at| self.records.count() >= at);
        if wake {
            self.wake_at = None;
        }
        wake
    }
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        let Some(mut queue) = self.queue.take() else {
            return;
        };
        let wake = queue.needs_waking();
        drop(queue);
        if wake {
            self.shared.work.notify_one();
        }
    }
}

impl Shared {
    fn look_at_free_space(&self) -> Result<u64, Error> {
        let storage = self.reader.storage();
        let free = storage.free_bytes().map_err(|source| {
            Error::io("ask for the free space of", storage.describe(""))(source)
        })?;
        self.room.free.store(free, Ordering::Relaxed);
        let is_low = free < self.room.reserve;
        self.room.low.store(is_low, Ordering::Relaxed);
        Ok(free)
    }

    /// The free space; `None` when the system does not tell, which is no reason
    /// to end: nothing new is taken until it does.
    fn free_space(&self) -> Option<u64> {
        let free = self.look_at_free_space().ok();
        if free.is_none() {
            self.room.free.store(u64::MAX, Ordering::Relaxed);
            self.room.low.store(true, Ordering::Relaxed);
        }
        free
    }

    /// How much of the next segment is written at once, after a rest if there is
    /// time: a sync of a batch waits behind what else the disk is given.
    fn pace(&self, made: u64, of: u64) -> u64 {
        let mut depot = self.depot.lock();
        if depot.wanted.is_some() || depot.request.is_some() || depot.stop {
            return segment::PIECE;
        }
        if self.room.is_ahead(made, of) {
            self.exchange.wait_for(&mut depot, REST);
        }
        segment::PIECE_BESIDE
    }

    fn stop_helper(&self) {
        self.depot.lock().stop = true;
        self.exchange.notify_all();
    }
}

enum Task {
    Write,
    Seal,
    Stop,
}

struct Journal {
    shared: Arc<Shared>,
    writer: Writer,
    batch_bytes_max: usize,
    options: Options,
    /// When the last records were taken, and how many they were.
    batch_began: Instant,
    batch_records: usize,
}

impl Journal {
    fn run(mut self, mut events: Box<dyn Events>) {
        // A panic here, ours or a callback's, must not leave callers waiting
        // for a thread that is gone.
        let ended = catch_unwind(AssertUnwindSafe(|| self.work(events.as_mut())));
        let error = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(Error::Stopped {
                reason: "the journal thread panicked".into(),
            }),
        };
        if let Some(error) = error {
            {
                let mut queue = self.shared.queue.lock();
                queue.closed = Some(error.to_string().into());
                queue.records.clear(0);
            }
            let _ = catch_unwind(AssertUnwindSafe(|| events.failed(&error)));
        }
        self.shared.stop_helper();
    }

    fn work(&mut self, events: &mut dyn Events) -> Result<(), Error> {
        let mut records = Batched::default();
        loop {
            match self.wait(&mut records, events)? {
                Task::Write => {
                    self.write(&mut records, events)?;
                    // One huge batch must not keep its memory for good.
                    records.clear(self.batch_bytes_max);
                }
                Task::Seal => self.writer.seal()?,
                Task::Stop => return self.writer.seal(),
            }
        }
    }

    /// Waits for something to do; takes all records that are queued.
    fn wait(&mut self, records: &mut Batched, events: &dyn Events) -> Result<Task, Error> {
        let shared = Arc::clone(&self.shared);
        let (enough, apart) = gathered(events.in_flight());
        let mut queue = shared.queue.lock();
        let seal_at = self
            .writer
            .unsealed()
            .then(|| Instant::now() + self.options.seal_after);
        // Whoever is alone is not kept waiting.
        let mut gather_until = (self.batch_records >= FEW).then(|| self.batch_began + apart);
        loop {
            if shared.helper_failed.load(Ordering::SeqCst) {
                drop(queue);
                let failure = shared.depot.lock().failure.take();
                return Err(failure.unwrap_or(Error::Stopped {
                    reason: "the helper thread panicked".into(),
                }));
            }
            let stopping = shared.stopping.load(Ordering::SeqCst);
            if let Some(until) = gather_until
                && queue.records.count() < enough
                && !stopping
            {
                queue.wake_at = Some(enough);
                if shared.work.wait_until(&mut queue, until).timed_out() {
                    gather_until = None;
                }
                queue.wake_at = None;
                continue;
            }
            if !queue.records.is_empty() {
                std::mem::swap(records, &mut queue.records);
                self.batch_began = Instant::now();
                self.batch_records = records.count();
                return Ok(Task::Write);
            }
            if stopping {
                return Ok(Task::Stop);
            }
            queue.wake_at = Some(1);
            match seal_at {
                None => shared.work.wait(&mut queue),
                Some(at) => {
                    let late = shared.work.wait_until(&mut queue, at).timed_out();
                    if late && queue.records.is_empty() && !shared.stopping.load(Ordering::SeqCst) {
                        queue.wake_at = None;
                        return Ok(Task::Seal);
                    }
                }
            }
            queue.wake_at = None;
        }
    }

    fn write(&mut self, records: &mut Batched, events: &mut dyn Events) -> Result<(), Error> {
        for batch in records.batches(self.batch_bytes_max) {
            let frame = batch.frame_bytes();
            if !self.writer.fits(frame) {
                self.next_segment(frame)?;
            }
            let started = Instant::now();
            let last = self.writer.commit(batch)?;
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.shared.batch_nanos.fetch_add(nanos, Ordering::Relaxed);
            self.shared.batches.fetch_add(1, Ordering::Relaxed);
            self.shared
                .log_bytes
                .fetch_add(to_u64(batch.payload_bytes()), Ordering::Relaxed);
            let left = self.writer.left();
            self.shared.room.left.store(left, Ordering::Relaxed);
            self.shared
                .queued_bytes
                .fetch_sub(batch.payload_bytes(), Ordering::Relaxed);
            self.shared.durable.store(last, Ordering::Release);
            events.durable(last);
        }
        Ok(())
    }

    /// Goes on in the segment that the helper thread has ready, or waits for it.
    fn next_segment(&mut self, frame: u64) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut depot = shared.depot.lock();
        let prepared = loop {
            if let Some(prepared) = depot.ready.take_if(|prepared| prepared.fits(frame)) {
                break prepared;
            }
            if shared.helper_failed.load(Ordering::SeqCst) {
                let failure = depot.failure.take();
                return Err(failure.unwrap_or(Error::Stopped {
                    reason: "the helper thread panicked".into(),
                }));
            }
            if let Some(why) = &depot.blocked
                && shared.stopping.load(Ordering::SeqCst)
            {
                let why = std::io::Error::other(why.to_string());
                return Err(Error::io("make a segment in", shared.reader.describe(""))(
                    why,
                ));
            }
            depot.wanted = Some(frame);
            shared.room.left.store(0, Ordering::Relaxed);
            shared.exchange.notify_all();
            shared.exchange.wait(&mut depot);
        };
        depot.wanted = None;
        match self.writer.switch(prepared) {
            Before::None => {}
            Before::Retired(retired) => depot.retired.push(retired),
            Before::Unused(unused) => depot.unused.push(unused),
        }
        let (size, left) = (self.writer.segment_bytes(), self.writer.left());
        shared.room.size.store(size, Ordering::Relaxed);
        shared.room.left.store(left, Ordering::Relaxed);
        drop(depot);
        shared.exchange.notify_all();
        Ok(())
    }
}

struct Helper {
    shared: Arc<Shared>,
    maker: Maker,
}

impl Helper {
    fn carry_out(&mut self, request: Request) -> Result<Done, UpkeepError> {
        let reader = &self.shared.reader;
        Ok(match request {
            Request::Install(finished) => Done::Installed(self.maker.install(*finished, reader)?),
            Request::Removable => Done::Removable(self.maker.removable()),
            Request::Forget(segments) => Done::Forgotten(self.maker.forget(&segments, reader)?),
        })
    }

    fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.work()));
        self.shared.depot.lock().ended = true;
        self.shared.exchange.notify_all();
        let failure = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        self.shared.depot.lock().failure = failure;
        self.shared.helper_failed.store(true, Ordering::SeqCst);
        // Under their locks, so that neither wait misses it.
        drop(self.shared.depot.lock());
        self.shared.exchange.notify_all();
        drop(self.shared.queue.lock());
        self.shared.work.notify_all();
    }

    /// Makes the next segment, with room for the frame that is waited for; or why there is none,
    /// which passes.
    fn prepare(
        &mut self,
        wanted: Option<u64>,
        free: Option<u64>,
    ) -> Result<Result<Prepared, Arc<str>>, Error> {
        let shared = Arc::clone(&self.shared);
        // What the journal thread waits for was appended already: the
        // reserve is there for just that.
        // Where nobody knows how much there is, that is tried without a
        // bound, and what is wrong with the disk is told by it.
        let room = match wanted {
            Some(_) => free,
            None => Some(free.unwrap_or(0).saturating_sub(shared.room.reserve)),
        };
        let mut pace = |made, of| shared.pace(made, of);
        let made = self.maker.prepare(wanted.unwrap_or(0), room, &mut pace);
        match made {
            Ok(Some(made)) => Ok(Ok(made)),
            Ok(None) => Ok(Err("there is no space for it".into())),
            // While records find place, even a disk that fails is given time. Who waits for the
            // segment, waits only for what can come back: space, descriptors, memory.
            Err(UpkeepError::Passing(error)) if wanted.is_none() || error.is_shortage() => {
                Ok(Err(error.to_string().into()))
            }
            Err(error) => Err(error.into_inner().into_final()),
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        loop {
            let free = shared.free_space();
            let mut depot = shared.depot.lock();
            if depot.stop {
                return Ok(());
            }
            for retired in depot.retired.drain(..) {
                self.maker.retire(retired);
            }
            if let Some(request) = depot.request.take() {
                drop(depot);
                let (done, failure) = match self.carry_out(request) {
                    Ok(done) => (Ok(done), None),
                    Err(UpkeepError::Passing(error)) => (Err(error), None),
                    Err(UpkeepError::Final(error)) => {
                        let reason = error.to_string().into();
                        (Err(Error::Stopped { reason }), Some(error.into_final()))
                    }
                };
                shared.depot.lock().done = Some(done);
                shared.exchange.notify_all();
                match failure {
                    Some(error) => return Err(error),
                    None => continue,
                }
            }
            let wanted = depot.wanted;
            let too_small = depot
                .ready
                .take_if(|ready| wanted.is_some_and(|frame| !ready.fits(frame)));
            for unused in depot.unused.drain(..).chain(too_small) {
                self.maker.give_up(&unused);
            }
            if depot.ready.is_none() {
                drop(depot);
                let made = self.prepare(wanted, free)?;
                shared.free_space();
                let next = self.maker.next_bytes();
                shared.room.next.store(next, Ordering::Relaxed);
                depot = shared.depot.lock();
                (depot.ready, depot.blocked) = match made {
                    Ok(made) => (Some(made), None),
                    Err(why) => (None, Some(why)),
                };
                let is_blocked = depot.blocked.is_some();
                shared.room.blocked.store(is_blocked, Ordering::Relaxed);
                shared.exchange.notify_all();
            }
            let fitting = |depot: &Depot| match (&depot.ready, depot.wanted) {
                (None, _) => depot.blocked.is_some(),
                (Some(ready), Some(frame)) => ready.fits(frame),
                (Some(_), None) => true,
            };
            let asked = depot.request.is_some();
            if !depot.stop && !asked && depot.retired.is_empty() && fitting(&depot) {
                let low = depot.blocked.is_some() || shared.room.low.load(Ordering::Relaxed);
                shared
                    .exchange
                    .wait_for(&mut depot, if low { WATCH_LOW } else { WATCH });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_of_a_few_and_not_quite_half_of_many_are_gathered() {
        for (in_flight, enough) in [
            (0, 16),
            (1, 1),
            (3, 3),
            (8, 7),
            (16, 14),
            (18, 16),
            (32, 16),
        ] {
            assert_eq!(gathered(in_flight), (enough, GATHER), "{in_flight}");
        }
        for (in_flight, enough) in [(33, 16), (64, 28), (256, 112)] {
            assert_eq!(
                gathered(in_flight),
                (enough, GATHER_OF_CROWD),
                "{in_flight}"
            );
        }
    }

    #[test]
    fn the_next_segment_has_time_while_it_will_be_there_with_a_quarter_left() {
        let room = |left: u64| Room {
            low: AtomicBool::new(false),
            free: AtomicU64::new(0),
            reserve: 0,
            next: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            left: AtomicU64::new(left),
            size: AtomicU64::new(100),
            margin: 0,
        };
        assert!(room(100).is_ahead(50, 200));
        assert!(!room(100).is_ahead(49, 200));
        assert!(room(50).is_ahead(125, 200));
        assert!(!room(50).is_ahead(124, 200));
        assert!(!room(0).is_ahead(199, 200) && room(0).is_ahead(200, 200));
    }
}
