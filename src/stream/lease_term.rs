//! Until when the writer's lease is held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the servers keep what was not renewed.
pub const TTL: Duration = Duration::from_secs(8);
/// How much sooner than that the holder takes it for lost: clocks differ in speed, and the
/// servers' answer took its time.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

/// Until when the lease is held, as far as is known.
#[derive(Debug, Default)]
pub struct LeaseTerm {
    until: Mutex<Option<Instant>>,
    renewed: Mutex<Option<Instant>>,
    /// Whether another process may have had it meanwhile.
    is_broken: AtomicBool,
}

impl LeaseTerm {
    /// Whether it is held for certain, and no other process has had it since it was taken.
    #[must_use]
    pub fn holds(&self) -> bool {
        let until = *self.until.lock();
        !self.is_broken.load(Ordering::Acquire) && until.is_some_and(|until| Instant::now() < until)
    }

    /// How long ago it was renewed; `None` when it never was.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.renewed.lock().map(|renewed| renewed.elapsed())
    }

    /// It was made or changed by what was sent then.
    pub(super) fn renewed(&self, sent: Instant) {
        *self.until.lock() = Some(sent + TTL.saturating_sub(MARGIN));
        *self.renewed.lock() = Some(sent);
    }

    /// It expired and was made again: another process may have had it, and have written.
    pub(super) fn breaks(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    pub(super) fn lost(&self) {
        *self.until.lock() = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_for_lost_two_seconds_before_the_servers_forget_it() {
        let term = LeaseTerm::default();
        assert!(!term.holds());
        let ago = |long: Duration| Instant::now().checked_sub(long).unwrap();
        term.renewed(ago(TTL - MARGIN - Duration::from_secs(2)));
        assert!(term.holds());
        term.renewed(ago(TTL - MARGIN));
        assert!(!term.holds());
        assert!(term.age().unwrap() >= TTL - MARGIN);
        term.renewed(Instant::now());
        assert!(term.holds());
        term.lost();
        assert!(!term.holds());
    }

    #[test]
    fn a_lease_that_another_process_may_have_had_is_never_held_again() {
        let term = LeaseTerm::default();
        term.renewed(Instant::now());
        term.breaks();
        assert!(!term.holds());
        term.renewed(Instant::now());
        assert!(!term.holds());
    }
}
