//! The present, by both clocks.

use std::time::Duration;

use crate::base::time::Timestamp;

/// The present, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since some fixed instant, by a clock that cannot be set.
    pub steady: Duration,
    /// By the wall clock.
    pub wall: Timestamp,
    /// What a commit is recorded with now: the same, or the time of the last commit where that lies
    /// ahead of the wall clock.
    pub committed: Timestamp,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// From one time to a later one; none to an earlier one.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    let millis = to.millis().saturating_sub(from.millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

impl Now {
    /// What the wall clock says at this time of the steady clock, as it is set now.
    #[must_use]
    pub fn wall_at(&self, steady: Duration) -> Timestamp {
        let ahead = millis(steady.saturating_sub(self.steady));
        let ago = millis(self.steady.saturating_sub(steady));
        let wall = self.wall.millis();
        Timestamp::from_millis(wall.saturating_add(ahead).saturating_sub(ago))
    }

    /// The age of what was born at this time and is seen since this time of the steady clock, by the
    /// one that makes it older: the wall clock may have been set back since its birth.
    #[must_use]
    pub fn age(&self, born: Timestamp, seen: Duration) -> Duration {
        between(born.min(self.wall_at(seen)), self.wall)
    }
}
