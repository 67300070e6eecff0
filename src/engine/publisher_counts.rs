//! What the publisher counts, and its figures.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::time::Instant;

/// What the publisher counts.
#[derive(Debug, Default)]
pub(super) struct PublisherCounts {
    /// Whether there is a publisher.
    pub(super) is_on: AtomicBool,
    /// Everything up to this position is published.
    pub(super) through: AtomicU64,
    pub(super) published: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) micros: AtomicU64,
    /// When the commit was made whose event waits for its acknowledgement; 0 when none does.
    pub(super) waits_since: AtomicI64,
    pub(super) is_failing: AtomicBool,
}

/// The publisher's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PublisherFigures {
    /// Positions of the log whose events are not published yet.
    pub waiting: u64,
    /// Events that were acknowledged since the start.
    pub published: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// How often the log had given events up before they were published.
    pub gaps: u64,
    /// How long the acknowledged attempts took together.
    pub took: Duration,
    /// The age of the oldest event that waits.
    pub oldest: Duration,
    /// Whether the newest attempt failed.
    pub is_failing: bool,
}

impl PublisherCounts {
    /// The figures at `now`, when everything up to `durable` is durable; `None` where nothing is
    /// published.
    pub(super) fn figures(&self, durable: u64, now: Instant) -> Option<PublisherFigures> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let oldest = match self.waits_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => {
                let age = now.millis().saturating_sub(since);
                Duration::from_millis(u64::try_from(age).unwrap_or(0))
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
