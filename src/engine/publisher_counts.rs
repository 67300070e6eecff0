//! Counters of the publisher, and its figures.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::channel::Now;
use crate::base::time::Timestamp;

/// Counters of the publisher.
#[derive(Debug, Default)]
pub(super) struct PublisherCounts {
    /// Whether there is a publisher.
    pub(super) is_on: AtomicBool,
    /// Position up to which everything is published.
    pub(super) through: AtomicU64,
    pub(super) published: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) micros: AtomicU64,
    /// Time of the commit whose event awaits its acknowledgement; 0 when none does.
    pub(super) waits_since: AtomicI64,
    /// When the publisher got that event, by the steady clock, in milliseconds.
    pub(super) seen_since: AtomicU64,
    pub(super) is_failing: AtomicBool,
}

/// The publisher's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PublisherFigures {
    /// Number of positions of the log whose events are not published yet.
    pub waiting: u64,
    /// Number of events acknowledged since the start.
    pub published: u64,
    /// Number of failed attempts.
    pub failures: u64,
    /// Number of times that the log had given events up before they were published.
    pub gaps: u64,
    /// Total duration of the acknowledged attempts.
    pub took: Duration,
    /// Age of the oldest waiting event.
    pub oldest: Duration,
    /// Whether the newest attempt failed.
    pub is_failing: bool,
}

impl PublisherCounts {
    /// Returns the figures at `now`, when everything up to `durable` is durable; `None` where there is no publisher.
    pub(super) fn figures(&self, durable: u64, now: Now) -> Option<PublisherFigures> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let oldest = match self.waits_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => {
                let seen = Duration::from_millis(self.seen_since.load(Ordering::Relaxed));
                now.age(Timestamp::from_millis(since), seen)
            }
        };
        Some(PublisherFigures {
            waiting: durable.saturating_sub(self.through.load(Ordering::Relaxed)),
            published: self.published.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            gaps: self.gaps.load(Ordering::Relaxed),
            took: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
            oldest,
            is_failing: self.is_failing.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_event_grows_older_also_while_its_commit_lies_ahead_of_the_clock() {
        let counts = PublisherCounts::default();
        counts.is_on.store(true, Ordering::Release);
        let oldest = |steady, wall| {
            let now = Now {
                steady: Duration::from_secs(steady),
                wall: Timestamp::from_millis(wall),
                committed: Timestamp::from_millis(wall),
            };
            counts.figures(9, now).unwrap().oldest
        };
        assert_eq!(oldest(90, 90_000), Duration::ZERO);
        counts.waits_since.store(3_600_000, Ordering::Relaxed);
        counts.seen_since.store(30_000, Ordering::Relaxed);
        assert_eq!(oldest(90, 90_000), Duration::from_secs(60));
        assert_eq!(oldest(90, 3_700_000), Duration::from_secs(100));
    }
}
