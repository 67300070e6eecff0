//! The present, by both clocks.

use std::time::Duration;

use crate::base::time::Timestamp;

/// The present, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since some fixed instant, by a clock that cannot be set.
    pub steady: Duration,
    /// Time by the wall clock.
    pub wall: Timestamp,
    /// Time that a commit would be recorded with now: that of the wall clock, or that of the last commit where it
    /// lies ahead of the wall clock.
    pub committed: Timestamp,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the duration from one time to a later one; zero if `to` is earlier.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    let millis = to.millis().saturating_sub(from.millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

impl Now {
    /// Converts a time of the steady clock into one of the wall clock, as that is set now.
    #[must_use]
    pub fn wall_at(&self, steady: Duration) -> Timestamp {
        let ahead = millis(steady.saturating_sub(self.steady));
        let ago = millis(self.steady.saturating_sub(steady));
        let wall = self.wall.millis();
        Timestamp::from_millis(wall.saturating_add(ahead).saturating_sub(ago))
    }

    /// Returns the age of something with the timestamp `born` that was first seen at `seen` of the steady clock: the
    /// greater of the two ages, since the wall clock may have been set back after `born`.
    #[must_use]
    pub fn age(&self, born: Timestamp, seen: Duration) -> Duration {
        between(born.min(self.wall_at(seen)), self.wall)
    }
}
