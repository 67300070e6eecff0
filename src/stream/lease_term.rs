//! The term of the writer's lease.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the servers keep a lease that is not renewed.
pub const TTL: Duration = Duration::from_secs(8);
/// How much earlier the holder treats the lease as lost: clocks differ in speed, and the servers' answer took some
/// time.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

/// The term of the lease, as far as is known.
#[derive(Debug, Default)]
pub struct LeaseTerm {
    until: Mutex<Option<Instant>>,
    renewed: Mutex<Option<Instant>>,
    /// Whether another process may have held the lease meanwhile.
    is_broken: AtomicBool,
}

impl LeaseTerm {
    /// Whether the lease is certainly held, and no other process has held it since it was taken.
    #[must_use]
    pub fn holds(&self) -> bool {
        let until = *self.until.lock();
        !self.is_broken.load(Ordering::Acquire) && until.is_some_and(|until| Instant::now() < until)
    }

    /// Returns how long ago the lease was renewed; `None` when it never was.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.renewed.lock().map(|renewed| renewed.elapsed())
    }

    /// Notes that the request sent at `sent` has created or renewed the lease.
    pub(super) fn renewed(&self, sent: Instant) {
        *self.until.lock() = Some(sent + TTL.saturating_sub(MARGIN));
        *self.renewed.lock() = Some(sent);
    }

    /// Notes that the lease expired and is created again: another process may have held it, and have written.
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
