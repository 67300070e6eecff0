//! How many attempts at one receiver may be on their way, and how soon they follow each other.

use std::time::Duration;

/// Attempts that may fail one after the other before the next ones are spaced.
const FAILURES_UNSPACED: u32 = 64;
/// How far apart attempts begin from there on, until one is taken: a connection for each event is
/// what a receiver that fails costs, and costs the others.
const SPACE: Duration = Duration::from_millis(100);

/// Bounds of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Attempts that may be on their way at once.
    pub on_way_max: usize,
    /// The same until one is taken, and while the newest attempt has failed: a receiver that does
    /// not answer must not take what others need.
    pub on_way_doubtful_max: usize,
    /// Items that may wait; beyond that no more are taken in.
    pub waiting_max: usize,
    /// What the items that wait may cost together, in bytes.
    pub waiting_bytes_max: usize,
    /// How many times shorter pauses are than they should be: 1 but in tests.
    pub hurry: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            on_way_max: 32,
            on_way_doubtful_max: 4,
            waiting_max: 10_000,
            waiting_bytes_max: 4 << 20,
            hurry: 1,
        }
    }
}

/// What is on its way, and how it went.
#[derive(Debug, Default)]
pub(super) struct Pace {
    on_way: usize,
    /// Whether the newest attempt that has ended was taken.
    takes: bool,
    /// Attempts that have failed since the newest one that was taken.
    failures: u32,
    /// When the next attempt may begin, where attempts are spaced.
    next_at: Duration,
}

impl Pace {
    /// Whether the newest attempt has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Whether nothing says yet that the next attempt will be taken.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.takes
    }

    /// How many attempts are on their way.
    pub(super) fn on_way(&self) -> usize {
        self.on_way
    }

    /// Whether one more may be on its way.
    fn has_place(&self, bounds: &Bounds) -> bool {
        let most = match self.is_doubtful() {
            true => bounds.on_way_doubtful_max,
            false => bounds.on_way_max,
        };
        self.on_way < most
    }

    /// When the next attempt may begin, where it has a place and is held back for nothing but its
    /// distance from the one before.
    pub(super) fn held_until(&self, bounds: &Bounds) -> Option<Duration> {
        let is_spaced = self.failures >= FAILURES_UNSPACED && self.has_place(bounds);
        is_spaced.then_some(self.next_at)
    }

    /// Whether an attempt may begin now.
    pub(super) fn may_begin(&self, bounds: &Bounds, now: Duration) -> bool {
        self.has_place(bounds) && self.held_until(bounds).is_none_or(|until| until <= now)
    }

    /// An attempt begins.
    pub(super) fn begins(&mut self, bounds: &Bounds, now: Duration) {
        self.on_way += 1;
        self.next_at = now + SPACE / bounds.hurry;
    }

    /// An attempt is over, however it went.
    pub(super) fn ends(&mut self) {
        self.on_way -= 1;
    }

    /// It was taken.
    pub(super) fn is_taken(&mut self) {
        self.takes = true;
        self.failures = 0;
    }

    /// It has failed.
    pub(super) fn has_failed(&mut self) {
        self.takes = false;
        self.failures = self.failures.saturating_add(1);
    }

    /// The log says of something that waits that it has failed before.
    pub(super) fn is_failing_already(&mut self) {
        self.failures = self.failures.max(1);
    }
}
