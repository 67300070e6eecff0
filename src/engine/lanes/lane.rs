//! Lanes: one for each runtime. A lane's gate holds each response until everything that it depends
//! on is durable. A lane also notifies the log's thread when all its ready tasks have appended.
//!
//! The log's thread wakes a lane once for a batch; the lane then wakes its own tasks, which costs
//! no system call. In the other direction, a lane wakes the log's thread once for all commands that
//! were ready, so that they share a write and a sync.

use std::cell::Cell;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use wal::{Appender, Sequence};

thread_local! {
    /// Number of the lane that the present thread is.
    static LANE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the lane of the present thread, out of `count` lanes; the first lane for a thread that is no lane.
#[must_use]
pub fn here(count: usize) -> usize {
    own().unwrap_or(0).min(count.saturating_sub(1))
}

/// Returns the lane of the present thread; `None` for a thread that is no lane.
#[must_use]
pub fn own() -> Option<usize> {
    LANE.get()
}

/// Makes the present thread a lane until this guard is dropped.
struct Here;

impl Here {
    fn is(lane: usize) -> Self {
        LANE.set(Some(lane));
        Self
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        LANE.set(None);
    }
}

/// The log has failed: the awaited position may never become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFailed;

/// All lanes.
pub struct Lanes {
    durable: AtomicU64,
    failed: AtomicBool,
    log: OnceLock<Weak<Appender>>,
    lanes: Box<[Lane]>,
}

#[derive(Default)]
struct Lane {
    news: Notify,
    /// Whether something was appended of which the log's thread may not have been notified.
    appended: AtomicBool,
    /// Whether the lane was asked for a sign of life, and has not answered yet.
    asked: AtomicBool,
    waiting: Mutex<WaitingTasks>,
}

/// The least number of waiting tasks among which those that have gone are looked for.
const SWEEP_MIN: usize = 1_024;

/// The tasks of a lane that wait. Of those that have gone, no more are kept than of those that still wait, or
/// [`SWEEP_MIN`].
#[derive(Default)]
struct WaitingTasks {
    tasks: BinaryHeap<Waiting>,
    /// How many there are when those that have gone are looked for next.
    sweep_at: usize,
}

impl WaitingTasks {
    fn push(&mut self, waiting: Waiting) {
        if self.tasks.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.tasks.retain(|task| !task.release.is_closed());
            self.sweep_at = self.tasks.len() * 2;
        }
        self.tasks.push(waiting);
    }
}

/// A task that waits for a position; the lowest position comes first.
struct Waiting {
    position: u64,
    release: oneshot::Sender<()>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.position.cmp(&self.position)
    }
}

impl Lanes {
    /// Creates `count` lanes (at least one); no position is durable yet.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            durable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            log: OnceLock::new(),
            lanes: (0..count.max(1)).map(|_| Lane::default()).collect(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Sets the log that lanes append to. To be called once.
    pub fn append_to(&self, log: &Arc<Appender>) {
        // There is one log for as long as there are lanes.
        let _ = self.log.set(Arc::downgrade(log));
    }

    /// Releases the sequencer, and then calls `given_back` at once. On a lane, the log's thread is woken when all
    /// ready tasks have had their turn; elsewhere at once.
    pub fn end(&self, sequence: Sequence<'_>, given_back: impl FnOnce()) {
        let own = LANE.get().and_then(|lane| self.lanes.get(lane));
        let Some(own) = own.filter(|_| self.log.get().is_some()) else {
            drop(sequence);
            return given_back();
        };
        sequence.end_quietly();
        given_back();
        if !own.appended.swap(true, Ordering::Relaxed) {
            own.news.notify_one();
        }
    }

    /// Records that everything up to `position` is durable.
    pub fn durable(&self, position: u64) {
        self.durable.store(position, Ordering::Release);
        for lane in &self.lanes {
            // A task that begins to wait after this sees the new position itself.
            let first = lane.waiting.lock().tasks.peek().map(|first| first.position);
            if first.is_some_and(|first| first <= position) {
                lane.news.notify_one();
            }
        }
    }

    /// Records that the log has failed.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        for lane in &self.lanes {
            lane.news.notify_one();
        }
    }

    /// Whether the log has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Asks each lane for a sign of life: whether its tasks still get their turns.
    pub(in crate::engine) fn ask(&self) {
        for lane in &self.lanes {
            lane.asked.store(true, Ordering::Relaxed);
            lane.news.notify_one();
        }
    }

    /// Returns a lane that has not answered since it was asked.
    pub(in crate::engine) fn silent(&self) -> Option<usize> {
        let mut lanes = self.lanes.iter();
        lanes.position(|lane| lane.asked.load(Ordering::Relaxed))
    }

    /// Makes the present thread lane number `lane`, and runs that lane's gate. Never returns: it is
    /// a task of the lane's runtime, which runs tasks in the order in which they were woken.
    pub async fn run(self: Arc<Self>, lane: usize) {
        let _here = Here::is(lane);
        let own = &self.lanes[lane];
        loop {
            own.news.notified().await;
            if own.asked.load(Ordering::Relaxed) {
                own.asked.store(false, Ordering::Relaxed);
            }
            if own.appended.swap(false, Ordering::Relaxed)
                && let Some(log) = self.log.get().and_then(Weak::upgrade)
            {
                log.wake();
            }
            self.release_durable(lane);
        }
    }

    /// Releases the lane's tasks whose position is durable; all of them, once the log has failed.
    fn release_durable(&self, lane: usize) {
        let failed = self.has_failed();
        let durable = self.durable.load(Ordering::Acquire);
        let mut waiting = self.lanes[lane].waiting.lock();
        while let Some(first) = waiting.tasks.peek() {
            if !failed && first.position > durable {
                break;
            }
            if let Some(first) = waiting.tasks.pop() {
                // A waiter that has gone needs no notification.
                let _ = first.release.send(());
            }
        }
        waiting.sweep_at = waiting.sweep_at.min(2 * waiting.tasks.len());
    }

    /// Waits until `position` is durable.
    ///
    /// # Errors
    /// [`LogFailed`] when the log fails before it is.
    pub async fn wait(&self, position: u64) -> Result<(), LogFailed> {
        if self.durable.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        let lane = here(self.lanes.len());
        let (sender, receiver) = oneshot::channel();
        self.lanes[lane].waiting.lock().push(Waiting {
            position,
            release: sender,
        });
        // Repeated, since a position that became durable before the waiter was entered would be missed, as would a
        // failure.
        if self.durable.load(Ordering::Acquire) >= position || self.has_failed() {
            self.release_durable(lane);
        }
        let _ = receiver.await;
        if self.durable.load(Ordering::Acquire) >= position {
            Ok(())
        } else {
            Err(LogFailed)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn waits_of_clients_that_have_gone_are_not_kept_until_the_log_goes_on() {
        let lanes = Arc::new(Lanes::new(1));
        tokio::spawn(Arc::clone(&lanes).run(0));
        let last = tokio::spawn({
            let lanes = Arc::clone(&lanes);
            async move { lanes.wait(9).await }
        });
        tokio::task::yield_now().await;
        for _ in 0..SWEEP_MIN * 10 {
            let mut gone = Box::pin(lanes.wait(2));
            std::future::poll_fn(|context| {
                assert!(gone.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        let kept = || lanes.lanes[0].waiting.lock().tasks.len();
        assert!(kept() <= SWEEP_MIN, "{} waits are kept", kept());
        lanes.durable(9);
        assert_eq!(last.await.unwrap(), Ok(()));
    }

    #[test]
    fn cancelled_waits_are_kept_to_a_bound_that_no_earlier_peak_raises() {
        let lanes = Lanes::new(1);
        let wait = |position| {
            let mut waits = Box::pin(lanes.wait(position));
            let looked = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(looked.is_pending());
            waits
        };
        let mut many = Vec::new();
        for _ in 0..SWEEP_MIN * 4 {
            many.push(wait(1));
        }
        lanes.durable(1);
        lanes.release_durable(0);
        drop(many);
        for _ in 0..SWEEP_MIN * 4 {
            drop(wait(2));
        }
        let kept = lanes.lanes[0].waiting.lock().tasks.len();
        assert!(kept <= SWEEP_MIN, "{kept} waits are kept");
    }

    #[tokio::test]
    async fn answers_leave_once_their_position_is_durable_and_not_before() {
        let lanes = Arc::new(Lanes::new(1));
        tokio::spawn(Arc::clone(&lanes).run(0));
        let wait = |position| {
            let lanes = Arc::clone(&lanes);
            tokio::spawn(async move { lanes.wait(position).await })
        };
        let (third, first, second) = (wait(3), wait(1), wait(2));
        tokio::task::yield_now().await;
        assert!(!first.is_finished());
        lanes.durable(2);
        assert_eq!(first.await.unwrap(), Ok(()));
        assert_eq!(second.await.unwrap(), Ok(()));
        assert!(!third.is_finished());
        lanes.fail();
        assert_eq!(third.await.unwrap(), Err(LogFailed));
        assert_eq!(lanes.wait(2).await, Ok(()));
        assert_eq!(lanes.wait(3).await, Err(LogFailed));
    }

    struct Nothing;

    impl wal::Visitor for Nothing {
        fn record(&mut self, _: wal::Record<'_>) -> Result<(), wal::BoxError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_lanes_appends_are_written_once_its_earlier_tasks_had_their_turn() {
        let storage = wal::storage::sim::SimDisk::new().storage();
        let (log, _) = wal::Log::open(storage, wal::Options::default(), &mut Nothing).unwrap();
        let lanes = Arc::new(Lanes::new(1));
        let events = crate::engine::JournalEvents {
            lanes: Arc::clone(&lanes),
            admission: Arc::new(crate::engine::limits::admission::Admission::new(1)),
            feed: std::sync::Arc::new(crate::engine::feed::Feed::new([0; 16])),
            awaited: Arc::default(),
            on_fatal: None,
        };
        let log = log.start(Box::new(events)).unwrap();
        lanes.append_to(&log);
        let append = |lanes: Arc<Lanes>, log: Arc<Appender>| {
            let mut sequence = log.sequence();
            let position = sequence.push(b"record").unwrap();
            lanes.end(sequence, || ());
            async move { lanes.wait(position).await }
        };
        // The thread is no lane yet, so the log's thread is notified at once. The gate is needed for the release.
        let early = append(Arc::clone(&lanes), Arc::clone(&log));
        let gate = tokio::spawn(Arc::clone(&lanes).run(0));
        assert_eq!(early.await, Ok(()));
        for _ in 0..50 {
            let tasks: Vec<_> = (0..5)
                .map(|_| tokio::spawn(append(Arc::clone(&lanes), Arc::clone(&log))))
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap(), Ok(()));
            }
        }
        gate.abort();
        let _ = gate.await;
        assert_eq!(LANE.get(), None, "without its gate a thread is no lane");
        log.shutdown().unwrap();
    }
}
