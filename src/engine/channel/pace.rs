//! Limits how many attempts at one receiver are in flight, and how soon they follow each other.

use std::time::Duration;

/// Number of failures in a row after which further attempts are spaced.
const FAILURES_UNSPACED: u32 = 64;
/// Distance between the starts of spaced attempts, until one is taken. A receiver that fails costs a connection for
/// each event, also at the expense of the other receivers.
const SPACE: Duration = Duration::from_millis(100);

/// Bounds of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of attempts in flight.
    pub on_way_max: usize,
    /// Maximum number of attempts in flight until one is taken, and while the newest attempt has failed: a receiver
    /// that does not answer must not take the places that others need. One that is known not to answer has one.
    pub on_way_doubtful_max: usize,
    /// Maximum number of waiting items; beyond it no more are taken in.
    pub waiting_max: usize,
    /// Maximum total cost of the waiting items, in bytes.
    pub waiting_bytes_max: usize,
    /// Divisor of all pauses: 1 except in tests.
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

/// What is known of a receiver. It decides which slots the receiver's attempts take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiverHealth {
    /// The newest attempt was taken, and soon.
    Taking,
    /// The newest attempt was taken, and only after a long wait.
    Slow,
    /// The newest attempt failed, and soon.
    Failing,
    /// No attempt has ended yet.
    #[default]
    Unknown,
    /// The newest attempt failed, and only after a long wait.
    Silent,
}

/// Attempts in flight, and the outcomes of the newest ones.
#[derive(Debug, Default)]
pub(super) struct Pace {
    on_way: usize,
    health: ReceiverHealth,
    /// Whether the newest attempt that ended was taken.
    takes: bool,
    /// Number of attempts that have failed since the newest one that was taken.
    failures: u32,
    /// When the next attempt may begin, where attempts are spaced.
    next_at: Duration,
}

impl Pace {
    /// Whether the newest attempt has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// What is known of the receiver.
    pub(super) fn health(&self) -> ReceiverHealth {
        self.health
    }

    /// Number of attempts in flight.
    pub(super) fn on_way(&self) -> usize {
        self.on_way
    }

    /// Whether one more attempt may be in flight.
    fn has_place(&self, bounds: &Bounds) -> bool {
        let most = match (self.health, self.takes) {
            // One attempt shows as well as four that the receiver is back, or still takes what comes, as the log says.
            (ReceiverHealth::Silent, _) | (ReceiverHealth::Taking, false) => 1,
            (_, false) => bounds.on_way_doubtful_max,
            (_, true) => bounds.on_way_max,
        };
        self.on_way < most
    }

    /// Returns when the next attempt may begin, where only the spacing of attempts holds it back.
    pub(super) fn held_until(&self, bounds: &Bounds) -> Option<Duration> {
        let is_spaced = self.failures >= FAILURES_UNSPACED && self.has_place(bounds);
        is_spaced.then_some(self.next_at)
    }

    /// Whether an attempt may begin now.
    pub(super) fn may_begin(&self, bounds: &Bounds, now: Duration) -> bool {
        self.has_place(bounds) && self.held_until(bounds).is_none_or(|until| until <= now)
    }

    /// Records that an attempt begins.
    pub(super) fn begins(&mut self, bounds: &Bounds, now: Duration) {
        self.on_way += 1;
        self.next_at = now + SPACE / bounds.hurry;
    }

    /// Records that an attempt is over, whatever its outcome.
    pub(super) fn ends(&mut self) {
        self.on_way -= 1;
    }

    /// Records that the receiver has taken an item.
    pub(super) fn record_success(&mut self) {
        self.takes = true;
        self.health = ReceiverHealth::Taking;
        self.failures = 0;
    }

    /// Records that an attempt has failed.
    pub(super) fn record_failure(&mut self) {
        self.takes = false;
        self.health = ReceiverHealth::Failing;
        self.failures = self.failures.saturating_add(1);
    }

    /// Records a failure before the start: the log has a waiting item with failed attempts.
    pub(super) fn resume_failing(&mut self) {
        self.failures = self.failures.max(1);
    }

    /// Sets what is known of the receiver otherwise than from its newest attempt's outcome. Until an attempt is taken,
    /// no more of them are in flight for that.
    pub(super) fn set_health(&mut self, health: ReceiverHealth) {
        self.health = health;
        self.takes &= matches!(health, ReceiverHealth::Taking | ReceiverHealth::Slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins as many attempts as may be in flight; returns how many that are.
    fn most(mut pace: Pace) -> usize {
        let bounds = Bounds::default();
        while pace.may_begin(&bounds, Duration::ZERO) {
            pace.begins(&bounds, Duration::ZERO);
        }
        pace.on_way()
    }

    #[test]
    fn a_silent_receiver_is_sent_one_at_a_time_until_it_answers() {
        let bounds = Bounds::default();
        let silent = || {
            let mut pace = Pace::default();
            pace.record_failure();
            pace.set_health(ReceiverHealth::Silent);
            pace
        };
        assert_eq!(most(silent()), 1);
        // An answer leads out of it, whatever it says.
        let mut refuses = silent();
        refuses.record_failure();
        assert_eq!(refuses.health(), ReceiverHealth::Failing);
        assert_eq!(most(refuses), bounds.on_way_doubtful_max);
        let mut takes = silent();
        takes.record_success();
        assert_eq!(takes.health(), ReceiverHealth::Taking);
        assert_eq!(most(takes), bounds.on_way_max);
    }

    #[test]
    fn a_receiver_that_takes_slowly_is_sent_as_many_as_one_that_takes_soon() {
        let mut pace = Pace::default();
        pace.record_success();
        pace.set_health(ReceiverHealth::Slow);
        assert_eq!(pace.health(), ReceiverHealth::Slow);
        assert_eq!(most(pace), Bounds::default().on_way_max);
    }

    #[test]
    fn another_receiver_has_few_in_flight_whatever_the_one_before_took() {
        let mut pace = Pace::default();
        pace.record_success();
        pace.set_health(ReceiverHealth::Unknown);
        assert_eq!(most(pace), Bounds::default().on_way_doubtful_max);
    }

    #[test]
    fn after_a_start_a_healthy_receiver_has_one_in_flight_until_it_takes_one() {
        let mut pace = Pace::default();
        pace.set_health(ReceiverHealth::Taking);
        assert_eq!(pace.health(), ReceiverHealth::Taking);
        assert_eq!(most(pace), 1);
    }
}
