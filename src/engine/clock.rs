//! The clock. Nothing else in the service reads it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::time::Instant;

/// A clock that never goes back.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Instant;
    /// From here on, the present is not before `instant`: the log's last commit.
    fn not_before(&self, instant: Instant);
}

/// The system's clock, held at its highest reading when it is set back.
#[derive(Debug, Default)]
pub struct SystemClock {
    highest: AtomicI64,
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let before = self.highest.fetch_max(millis, Ordering::Relaxed);
        Instant::from_millis(before.max(millis))
    }

    fn not_before(&self, instant: Instant) {
        self.highest.fetch_max(instant.millis(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back_behind_the_last_commit() {
        let clock = SystemClock::default();
        let ahead = clock.now().plus_seconds(3_600);
        clock.not_before(ahead);
        assert!(clock.now() >= ahead);
    }
}
