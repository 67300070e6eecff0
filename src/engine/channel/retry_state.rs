//! What the log stores of an item that waits for its next attempt, and how long that item pauses.

use std::time::Duration;

use super::now::{Now, between};
use super::schedule::longest_pause;
use crate::base::time::Timestamp;

/// What the log stores of a waiting item, and the pause its receiver asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryState {
    /// Number of failed attempts.
    pub attempts: u32,
    /// When the next attempt is due, by the wall clock; `None`: at once.
    pub due: Option<Timestamp>,
    /// How long a pause the receiver asked for; `None` where that is unknown, since the log does not store it.
    pub asked: Option<Duration>,
}

impl RetryState {
    /// Returns how long the item pauses from now on, and whether that is shorter than until the stored end.
    pub(super) fn pause(&self, now: Now) -> (Duration, bool) {
        let Some(due) = self.due else {
            return (Duration::ZERO, false);
        };
        // The wall clock may have been set back since, or be that of another machine. The pause was recorded no later
        // than the last commit, so its length was at least the distance from that commit's time to its end: a longer
        // pause than the schedule's was asked for by the receiver.
        let asked = self.asked.unwrap_or_else(|| between(now.committed, due));
        let (recorded, most) = (between(now.wall, due), longest_pause(self.attempts, asked));
        (recorded.min(most), most < recorded)
    }
}
