//! The checkpointer: takes snapshots while commands go on, forgets old idempotency keys, and has
//! the log remove what its snapshots cover.
//!
//! ```text
//! forget old keys ──durable──▶ covers := durable position ──▶ kept records up to there
//!     ──▶ states, a few at a time ──durable──▶ install ──▶ compact
//! ```
//!
//! No command waits for it. States are copied one after the other, each as it is at that moment, so
//! a snapshot has no common instant: it has everything up to the position that it covers, and some
//! later changes, which replay skips.
//!
//! It has a thread of its own with the lowest priority, which pauses in proportion to its work
//! while commands are in flight. A snapshot that fails is discarded and tried again later: commands
//! do not need it.
//!
//! This file has the checkpointer's settings, figures and requests; the work is done in `checkpoint/snapshots.rs` and
//! `checkpoint/log_upkeep.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use wal::storage::Storage;
use wal::{Compacted, SnapshotInfo};

use super::clock::instant_of;
use super::log_space::retention::{LogRetention, NeededFrom};
use crate::base::reminder::Reminder;
use crate::base::time::Timestamp;
use crate::journal::counters::{Counters, Marks};
use crate::journal::replay::Recovered;

/// When snapshots are taken, what they forget, and where covered segments go.
#[derive(Clone)]
pub struct CheckpointPolicy {
    /// Bytes of records since the last snapshot after which the next one is taken; the size of the
    /// last snapshot if that is larger.
    pub log_bytes: u64,
    /// How long after the last snapshot the next one is taken, when anything was committed since.
    pub interval: Duration,
    /// How long idempotency keys are kept; `None`: for ever.
    pub retention: Option<Duration>,
    /// What the log keeps of the records that its snapshots cover.
    pub log: LogRetention,
    /// Where segments that the log no longer keeps are moved; without it they are deleted.
    pub archive: Option<Arc<dyn Storage>>,
    /// Whether the oldest covered segments may be removed before their time where the disk lacks room for the next
    /// one. Segments that are to go to an archive never are.
    pub gives_up_for_room: bool,
    /// How often the thread checks whether there is something to do.
    pub look: Duration,
    /// How long after a failure the next attempt is made.
    pub pause: Duration,
}

impl Default for CheckpointPolicy {
    /// Takes a snapshot after 256 MiB or an hour. Keeps keys for ever, and of the log only what no snapshot covers;
    /// deletes the rest, early where the disk lacks room. The thread checks each second, and waits a minute after a
    /// failure.
    fn default() -> Self {
        Self {
            log_bytes: 256 << 20,
            interval: Duration::from_secs(3_600),
            retention: None,
            log: LogRetention::NOTHING,
            archive: None,
            gives_up_for_room: true,
            look: Duration::from_secs(1),
            pause: Duration::from_secs(60),
        }
    }
}

/// Counts and sizes of the checkpointer's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointFigures {
    /// Snapshots taken since the start.
    pub snapshots: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// The position up to which the newest snapshot covers the log; 0 when there is none.
    pub covers: u64,
    /// Bytes of the newest snapshot.
    pub bytes: u64,
    /// Duration of the last snapshot.
    pub took: Duration,
    /// When the newest snapshot was written; `None` if there is none.
    pub at: Option<Timestamp>,
    /// Number of segments removed from the log.
    pub compacted_segments: u64,
    /// Bytes of the segments removed from the log.
    pub compacted_bytes: u64,
    /// Number of forgotten idempotency keys.
    pub forgotten_keys: u64,
    /// Number of attempts that did not begin, or were abandoned, for lack of disk space.
    pub without_room: u64,
    /// Estimate of the last snapshot's size in bytes, made before it began: rather too high.
    pub estimate: u64,
    /// The first position that the log keeps as a record.
    pub log_first: u64,
    /// Bytes of the log, without the segment that is being written.
    pub log_bytes: u64,
    /// Bytes of the log that are kept only because deliveries need them; part of `log_bytes`.
    pub log_kept_for_delivery_bytes: u64,
    /// Bytes that were removed from the log early, because the disk was nearly full.
    pub log_given_up_bytes: u64,
    /// How often the thread has checked whether there is something to do.
    pub looks: u64,
}

/// A snapshot, and what was removed from the log after it.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    /// The snapshot.
    pub snapshot: SnapshotInfo,
    /// What was removed from the log.
    pub compacted: Compacted,
}

/// Progress of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Number of resources written to the snapshot, and their total.
    Writing(u64, u64),
    /// Bytes in the archive of the segments that leave the log, and their total.
    Archiving(u64, u64),
}

/// Called with the progress of a checkpoint.
pub type OnProgress<'a> = &'a mut dyn FnMut(Step);

/// What the checkpointer remembers from one snapshot to the next. Locked while one is taken.
pub(super) struct Known {
    /// Counters over the records that the newest snapshot covers.
    pub(super) covered: Counters,
    /// Ages of positions, by the running time.
    pub(super) marks: Marks,
}

/// The checkpointer, as the engine holds it.
pub(crate) struct Checkpointer {
    pub(super) policy: Mutex<CheckpointPolicy>,
    pub(super) known: Mutex<Known>,
    pub(super) figures: Mutex<CheckpointFigures>,
    /// Position from which deliveries need the log.
    pub(super) needed_from: NeededFrom,
    /// Decides when to warn that much of the log is kept for deliveries.
    pub(super) reminder: Mutex<Reminder>,
    /// Bytes that the log gave up by itself, as far as they were reported.
    pub(super) given_up: AtomicU64,
    pub(super) wake_up: Arc<WakeUp>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

/// Where the checkpointer's thread waits.
#[derive(Default)]
pub(super) struct WakeUp {
    pub(super) stop: AtomicBool,
    pub(super) requested: Mutex<bool>,
    pub(super) condvar: Condvar,
}

impl WakeUp {
    /// Waits for a wake-up, at most this long; returns whether a snapshot was requested.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut requested = self.requested.lock();
        while !*requested && !self.stops() {
            if self.condvar.wait_until(&mut requested, until).timed_out() {
                break;
            }
        }
        std::mem::take(&mut *requested)
    }

    /// Pauses, unless the thread has to stop. A request made meanwhile is kept.
    pub(super) fn rest(&self, duration: Duration) {
        let until = Instant::now() + duration;
        let mut requested = self.requested.lock();
        while !self.stops() && !self.condvar.wait_until(&mut requested, until).timed_out() {}
    }

    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        let _requested = self.requested.lock();
        self.stop.store(true, Ordering::Release);
        self.condvar.notify_all();
    }

    pub(super) fn request(&self) {
        *self.requested.lock() = true;
        self.condvar.notify_all();
    }
}

impl Checkpointer {
    /// Creates the checkpointer of a recovered log whose records begin at `first`; `newest` is its newest snapshot,
    /// if any, written at `written`.
    pub(crate) fn new(
        recovered: &Recovered,
        first: u64,
        newest: Option<&SnapshotInfo>,
        written: Option<SystemTime>,
    ) -> Self {
        let mut marks = recovered.counters.marks.clone();
        marks.drop_before(recovered.tables.forgotten().min(first - 1));
        Self {
            policy: Mutex::default(),
            known: Mutex::new(Known {
                covered: recovered.covered.clone(),
                marks,
            }),
            figures: Mutex::new(CheckpointFigures {
                log_first: first,
                covers: newest.map_or(0, |newest| newest.covers),
                bytes: newest.map_or(0, |newest| newest.bytes),
                at: written.and_then(instant_of),
                ..CheckpointFigures::default()
            }),
            needed_from: NeededFrom::default(),
            reminder: Mutex::default(),
            given_up: AtomicU64::new(0),
            wake_up: Arc::default(),
            thread: Mutex::default(),
        }
    }

    pub(crate) fn figures(&self) -> CheckpointFigures {
        *self.figures.lock()
    }

    pub(crate) fn set_policy(&self, policy: CheckpointPolicy) {
        *self.policy.lock() = policy;
    }

    /// Requests a snapshot without waiting for it.
    pub(crate) fn request(&self) {
        self.wake_up.request();
    }

    /// Ends the thread. A snapshot that is being taken is abandoned.
    pub(crate) fn stop(&self) {
        self.wake_up.stop();
        if let Some(thread) = self.thread.lock().take() {
            // The panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Decides when the next snapshot is taken.
pub(super) struct Schedule {
    /// When the last attempt ended, or else when the thread began.
    pub(super) last: Instant,
    pub(super) failed: bool,
}

impl Schedule {
    /// Whether to take a snapshot now: one was requested, or one is due by the time since the last attempt and, after
    /// a failure, the pause is over.
    pub(super) fn wants(
        &self,
        now: Instant,
        requested: bool,
        pause: Duration,
        is_due: impl FnOnce(Duration) -> bool,
    ) -> bool {
        requested || (self.may_begin(now, pause) && is_due(now.duration_since(self.last)))
    }

    /// Whether the pause after the last attempt is over, if that attempt failed.
    pub(super) fn may_begin(&self, now: Instant, pause: Duration) -> bool {
        !self.failed || now.duration_since(self.last) >= pause
    }

    pub(super) fn ended(&mut self, now: Instant, failed: bool) {
        *self = Self { last: now, failed };
    }
}

/// Whether a snapshot is due `since` after the last one: by the bytes written since, or by its age if anything was
/// committed since.
pub(super) fn is_due(
    policy: &CheckpointPolicy,
    since: Duration,
    log_bytes: u64,
    snapshot_bytes: u64,
    is_news: impl FnOnce() -> bool,
) -> bool {
    log_bytes >= policy.log_bytes.max(snapshot_bytes) || (since >= policy.interval && is_news())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_snapshot_is_due_by_log_size_or_by_age_if_anything_was_committed() {
        let policy = CheckpointPolicy {
            log_bytes: 100,
            interval: seconds(3_600),
            ..CheckpointPolicy::default()
        };
        for (since, log_bytes, snapshot_bytes, is_news, expected) in [
            (0, 99, 0, true, false),
            (0, 100, 0, true, true),
            (0, 100, 100, true, true),
            // A large state is written anew only after as many bytes of log.
            (0, 100, 101, true, false),
            (0, 101, 101, true, true),
            (3_599, 1, 0, true, false),
            (3_600, 1, 0, true, true),
            (3_600, 0, 0, false, false),
            (9_000, 99, 0, false, false),
        ] {
            let due = is_due(&policy, seconds(since), log_bytes, snapshot_bytes, || {
                is_news
            });
            assert_eq!(due, expected, "{since} s, {log_bytes} bytes");
        }
        // Finding out whether anything was committed is slow, so it is done only when it decides.
        let is_due = is_due(&policy, seconds(3_599), 1, 0, || panic!("asked"));
        assert!(!is_due);
    }

    #[test]
    fn an_attempt_follows_a_failure_after_a_pause_and_a_request_at_once() {
        let begun = Instant::now();
        let mut schedule = Schedule {
            last: begun,
            failed: false,
        };
        let wants = |schedule: &Schedule, after: u64, requested, due| {
            schedule.wants(begun + seconds(after), requested, seconds(60), |since| {
                assert_eq!(begun + seconds(after) - schedule.last, since);
                due
            })
        };
        assert!(wants(&schedule, 0, false, true));
        assert!(!wants(&schedule, 9_000, false, false));
        assert!(wants(&schedule, 0, true, false));
        schedule.ended(begun + seconds(100), true);
        assert!(!wants(&schedule, 100, false, true));
        assert!(!wants(&schedule, 159, false, true));
        assert!(wants(&schedule, 159, true, true));
        assert!(wants(&schedule, 160, false, true));
        assert!(!wants(&schedule, 160, false, false));
        schedule.ended(begun + seconds(200), false);
        assert!(wants(&schedule, 200, false, true));
    }

    #[test]
    fn a_wait_ends_with_a_request_a_stop_or_its_timeout() {
        let wake_up = WakeUp::default();
        let begun = Instant::now();
        let at_most = Duration::from_millis(60);
        std::thread::scope(|scope| {
            // A notification without a request or a stop does not end the wait.
            scope.spawn(|| {
                for _ in 0..20 {
                    wake_up.condvar.notify_all();
                    std::thread::yield_now();
                }
            });
            assert!(!wake_up.wait(at_most));
        });
        assert!(begun.elapsed() >= at_most);
        wake_up.request();
        assert!(wake_up.wait(seconds(3_600)), "asked for before it waited");
        assert!(
            !wake_up.wait(Duration::ZERO),
            "each request is answered once"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| wake_up.request());
            assert!(wake_up.wait(seconds(3_600)));
        });
        wake_up.stop();
        assert!(!wake_up.wait(seconds(3_600)));
        wake_up.rest(seconds(3_600));
    }

    #[test]
    fn a_rest_lasts_its_full_time_despite_requests_and_ends_with_the_service() {
        let wake_up = WakeUp::default();
        let begun = Instant::now();
        let duration = Duration::from_millis(60);
        std::thread::scope(|scope| {
            scope.spawn(|| wake_up.request());
            wake_up.rest(duration);
        });
        assert!(begun.elapsed() >= duration);
        assert!(wake_up.wait(seconds(3_600)), "the request is kept");
        std::thread::scope(|scope| {
            scope.spawn(|| wake_up.stop());
            wake_up.rest(seconds(3_600));
        });
    }
}
