//! Time. Decisions and records use no other source of the system's time; deadlines elsewhere are counted by monotonic
//! clocks.
//!
//! Three times are distinguished, since a system clock may be set forward and back, on purpose or
//! by mistake, by seconds or by years:
//!
//! | Time | Used for |
//! |---|---|
//! | the system's | rules: whether a token or a grant has expired, whether something lies ahead,
//! what day it is |
//! | that of commits | what is recorded: the system's, but never decreasing |
//! | the time that the service has run | the age of idempotency keys |

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::time::Timestamp;

/// The service warns when the last commit lies at least this far ahead of the system's clock: clock synchronization
/// makes smaller steps.
const WARN_FROM: Duration = Duration::from_secs(1);
/// How often the warning is repeated while the cause lasts.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Converts a system time, such as that of a file; `None` before 1970.
pub(crate) fn instant_of(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    let millis = i64::try_from(since.as_millis()).ok()?;
    Some(Timestamp::from_millis(millis))
}

/// Source of the system's time.
pub trait Clock: Send + Sync {
    /// The present time of the system. It may be set forward and back at any time.
    fn now(&self) -> Timestamp;
    /// The time since some fixed moment in the past, the same one for as long as this process runs.
    /// It does not change when the clock is set.
    fn steady(&self) -> Duration;
}

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    began: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The times of commits, which never decrease.
#[derive(Debug)]
pub(crate) struct CommitTimes {
    last: AtomicI64,
}

impl CommitTimes {
    /// Continues after a log whose last commit has this time.
    pub(crate) fn after(last: Option<Timestamp>) -> Self {
        Self {
            last: AtomicI64::new(last.unwrap_or_default().millis()),
        }
    }

    /// Returns the time to record for a decision made at `now`.
    pub(crate) fn at(&self, now: Timestamp) -> Timestamp {
        let last = self.last.load(Ordering::Relaxed);
        Timestamp::from_millis(now.millis().max(last))
    }

    /// Whether the next commit may have this time. The caller holds the log's sequencer.
    pub(crate) fn can_be_next(&self, at: Timestamp) -> bool {
        at.millis() >= self.last.load(Ordering::Relaxed)
    }

    /// Sets the time of the last commit. The caller holds the log's sequencer.
    pub(crate) fn advance_to(&self, at: Timestamp) {
        self.last.store(at.millis(), Ordering::Relaxed);
    }

    /// Returns how far the last commit lies ahead of `now`.
    pub(crate) fn ahead_of(&self, now: Timestamp) -> Duration {
        let ahead = self.at(now).millis().saturating_sub(now.millis());
        Duration::from_millis(u64::try_from(ahead).unwrap_or(0))
    }
}

/// How far ahead of the clock a slow decision's time is set.
///
/// A decision records the time at which it began. Meanwhile other commits get later times, and times of commits never
/// decrease: a slow decision would be overtaken each time. After the first time, it records the time by which it will
/// presumably be done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lead(Duration);

impl Lead {
    /// Longest lead; shorter than the difference that causes a warning.
    const MAX: Duration = Duration::from_millis(500);

    /// Returns the lead for the next attempt of a decision that took from `began` to `ended`.
    pub(crate) fn after(began: Timestamp, ended: Timestamp) -> Self {
        let took = ended.millis().saturating_sub(began.millis());
        let took = Duration::from_millis(u64::try_from(took).unwrap_or(0));
        Self(took.saturating_mul(2).min(Self::MAX))
    }

    /// Returns the time to record for a decision that begins at `now`.
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        let ahead = i64::try_from(self.0.as_millis()).unwrap_or(0);
        Timestamp::from_millis(now.millis().saturating_add(ahead))
    }
}

/// How long the service has run, whatever its clock was set to; measures the age of idempotency keys. It continues
/// from the newest snapshot, so it does not advance while no server runs. It begins with the clock's time when the log
/// is empty, and with the time of the first record when a log without a snapshot is replayed; it has nothing to do with
/// the clock after that: only differences count.
#[derive(Debug)]
pub(crate) struct RunningTime {
    began: Timestamp,
    began_steady: Duration,
}

impl RunningTime {
    /// Continues a running time from `reached`.
    pub(crate) fn from(reached: Timestamp, clock: &dyn Clock) -> Self {
        Self {
            began: reached,
            began_steady: clock.steady(),
        }
    }

    /// Returns the running time so far.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Timestamp {
        let ran = clock.steady().saturating_sub(self.began_steady);
        let ran = i64::try_from(ran.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.began.millis().saturating_add(ran))
    }
}

/// Decides when to warn that the last commit lies ahead of the system's clock.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    last_warning: Option<Duration>,
}

impl Alarm {
    /// Whether to warn now: at once, and each minute while the cause lasts.
    pub(crate) fn is_due(&mut self, ahead: Duration, steady: Duration) -> bool {
        if ahead < WARN_FROM {
            self.last_warning = None;
            return false;
        }
        let due = self
            .last_warning
            .is_none_or(|last| steady.saturating_sub(last) >= WARN_EVERY);
        if due {
            self.last_warning = Some(steady);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn the_times_of_commits_do_not_fall_when_the_clock_is_set_back() {
        let times = CommitTimes::after(Some(at(5_000)));
        assert_eq!(times.at(at(4_000)), at(5_000));
        assert_eq!(times.at(at(6_000)), at(6_000));
        assert!(times.can_be_next(at(5_000)) && !times.can_be_next(at(4_999)));
        times.advance_to(at(6_000));
        assert!(!times.can_be_next(at(5_000)));
        assert_eq!(times.ahead_of(at(4_500)), Duration::from_millis(1_500));
        assert_eq!(times.ahead_of(at(7_000)), Duration::ZERO);
    }

    #[test]
    fn the_lead_is_twice_the_decisions_duration_and_at_most_half_a_second() {
        assert_eq!(Lead::default().before(at(5)), at(5));
        for (began, ended, ahead) in [
            (7, 7, 0),
            (7, 107, 200),
            (7, 1_007, 500),
            // The clock was set back.
            (7, 6, 0),
            (i64::MIN, i64::MAX, 500),
        ] {
            let lead = Lead::after(at(began), at(ended));
            assert_eq!(lead.before(at(1_000)), at(1_000 + ahead), "{began} {ended}");
        }
        assert!(Lead::MAX < WARN_FROM);
    }

    #[test]
    fn a_last_commit_ahead_of_the_clock_is_told_at_once_and_each_minute() {
        let mut alarm = Alarm::default();
        let (ahead, second) = (Duration::from_secs(5), Duration::from_secs(1));
        assert!(!alarm.is_due(Duration::from_millis(999), second));
        let told: Vec<u32> = (0..200)
            .filter(|now| alarm.is_due(ahead, second * *now))
            .collect();
        assert_eq!(told, [0, 60, 120, 180]);
        assert!(!alarm.is_due(Duration::ZERO, second * 201));
        assert!(alarm.is_due(ahead, second * 202), "it is so again");
    }
}
