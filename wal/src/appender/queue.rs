//! The queue of records that wait for the journal thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::batched::{Batched, Spare};
use crate::format::{RECORD_BYTES_MAX, to_u64};

/// Upper bounds of the buckets in which batches are counted by the time that they took.
pub const BATCH_BOUNDS: [Duration; 13] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// Number of queued records that are worth a batch, even while more may come.
const QUIET_MAX: usize = 32;

/// Why a record was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The log has failed or was shut down, for this reason.
    Stopped(Arc<str>),
    /// The record has more than [`RECORD_BYTES_MAX`] bytes.
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
}

impl fmt::Display for Refused {
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

impl std::error::Error for Refused {}

/// The state that the appending threads share with the journal thread.
pub(super) struct Shared {
    pub(super) queue: Mutex<Queue>,
    /// The journal thread waits here when there is nothing to do.
    pub(super) work: Condvar,
    pub(super) durable: AtomicU64,
    pub(super) appended: AtomicU64,
    pub(super) queued_bytes: AtomicUsize,
    pub(super) batches: AtomicU64,
    pub(super) batch_nanos: AtomicU64,
    /// Batches by how long they took, in the buckets of [`BATCH_BOUNDS`] and one beyond.
    pub(super) batches_by_time: [AtomicU64; BATCH_BOUNDS.len() + 1],
    /// Bytes of the records since the newest snapshot began.
    pub(super) log_bytes: AtomicU64,
    pub(super) stopping: AtomicBool,
    /// Why the journal thread has ended, unless it was told to stop and all went well.
    pub(super) failure: OnceLock<Arc<str>>,
    /// The journal thread, once it runs.
    pub(super) journal: OnceLock<ThreadId>,
}

/// The records that the journal thread has not taken yet.
pub(super) struct Queue {
    pub(super) records: Batched,
    pub(super) next: u64,
    /// Number of queued records at which the journal thread is woken; `None` while it is awake.
    pub(super) wake_at: Option<usize>,
    /// Why no more records are accepted.
    pub(super) closed: Option<Arc<str>>,
}

impl Queue {
    /// Whether the journal thread sleeps although there is something to write. If so, it counts as
    /// awake from then on.
    fn needs_waking(&mut self) -> bool {
        let wake = self.wake_at.is_some_and(|at| self.records.count() >= at);
        if wake {
            self.wake_at = None;
        }
        wake
    }
}

impl Shared {
    /// Creates the state of a log whose last record is at `last`, with `log_bytes` bytes of records
    /// since the newest snapshot.
    pub(super) fn new(last: u64, log_bytes: u64) -> Self {
        Self {
            queue: Mutex::new(Queue {
                records: Batched::with_room(),
                next: last + 1,
                wake_at: None,
                closed: None,
            }),
            work: Condvar::new(),
            durable: AtomicU64::new(last),
            appended: AtomicU64::new(last),
            queued_bytes: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            batch_nanos: AtomicU64::new(0),
            batches_by_time: Default::default(),
            log_bytes: AtomicU64::new(log_bytes),
            stopping: AtomicBool::new(false),
            failure: OnceLock::new(),
            journal: OnceLock::new(),
        }
    }

    /// Wakes the journal thread when it sleeps although there is something to write.
    pub(super) fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        let wake = queue.needs_waking();
        drop(queue);
        if wake {
            self.work.notify_one();
        }
    }

    /// Counts a batch of `bytes` bytes of records, and that all up to `last` is durable.
    pub(super) fn note_durable(&self, bytes: usize, took: Duration, last: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.batch_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        let bucket = BATCH_BOUNDS.partition_point(|bound| *bound < took);
        self.batches_by_time[bucket].fetch_add(1, Ordering::Relaxed);
        self.log_bytes.fetch_add(to_u64(bytes), Ordering::Relaxed);
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.durable.store(last, Ordering::Release);
    }
}

/// The right to append next. Dropping it lets others append, and wakes the journal thread when it
/// sleeps; while the thread gathers a batch, it wakes by itself.
pub struct Sequence<'a> {
    shared: &'a Shared,
    queue: Option<MutexGuard<'a, Queue>>,
}

impl<'a> Sequence<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        let mut queue = shared.queue.lock();
        if queue.records.needs_spare() {
            // The spare piece is made while others may append, so that they need not wait for it.
            let spare = MutexGuard::unlocked(&mut queue, Spare::default);
            queue.records.keep_spare(spare);
        }
        Self {
            shared,
            queue: Some(queue),
        }
    }

    fn queue(&self) -> &Queue {
        self.queue
            .as_ref()
            .expect("the guard is there until the value is dropped")
    }

    /// The position that the next record will get.
    pub fn next(&self) -> u64 {
        self.queue().next
    }

    /// Appends a record; returns its position.
    ///
    /// # Errors
    /// [`Refused`], and the record has no position then.
    pub fn push(&mut self, payload: impl AsRef<[u8]>) -> Result<u64, Refused> {
        let payload = payload.as_ref();
        self.take(payload.len(), |records| records.push(payload))
    }

    /// As [`Sequence::push`], for a record that the caller no longer needs: a large one is moved, so
    /// that it is not copied while others wait. A small one is copied, and left for the caller to
    /// free later.
    ///
    /// # Errors
    /// [`Refused`], and the record has no position then.
    pub fn push_taking(&mut self, payload: &mut Vec<u8>) -> Result<u64, Refused> {
        self.take(payload.len(), |records| records.push_taking(payload))
    }

    fn take(&mut self, bytes: usize, push: impl FnOnce(&mut Batched)) -> Result<u64, Refused> {
        if let Some(reason) = &self.queue().closed {
            return Err(Refused::Stopped(Arc::clone(reason)));
        }
        if bytes > RECORD_BYTES_MAX {
            return Err(Refused::TooLarge { bytes });
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

    /// Lets others append, and leaves a sleeping journal thread asleep while little is queued:
    /// the caller wakes it by [`crate::Appender::wake`] when it has appended what it has at
    /// hand, so that all of that becomes one batch.
    pub fn end_quietly(mut self) {
        if self.queue().records.count() < QUIET_MAX {
            self.queue = None;
        }
    }
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.shared.wake(queue);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_next_append_finds_memory_however_much_is_queued() {
        let shared = Shared::new(0, 0);
        for position in 1..2_000 {
            let mut sequence = Sequence::new(&shared);
            assert!(!sequence.queue().records.needs_spare());
            assert_eq!(sequence.push([0; 1_000]), Ok(position));
        }
    }
}
