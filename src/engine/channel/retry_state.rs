//! What the log stores of an item that waits for its next attempt, and how long that pauses.

use std::time::Duration;

use super::now::{Now, between};
use super::schedule::longest_pause;
use crate::base::time::Timestamp;

/// What the log stores of an item that waits, and what is known of it beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryState {
    /// Attempts that have failed.
    pub attempts: u32,
    /// When the next one is due, by the wall clock; `None`: at once.
    pub due: Option<Timestamp>,
    /// How long the receiver has asked to be left alone; `None` where that is not known, for the log
    /// does not store it.
    pub asked: Option<Duration>,
}

impl RetryState {
    /// How long the item pauses from now on, and whether that is less than its end says.
    pub(super) fn pause(&self, now: Now) -> (Duration, bool) {
        let Some(due) = self.due else {
            return (Duration::ZERO, false);
        };
        // The wall clock may have been set back since, or be another machine's. The pause was
        // recorded no later than the last commit, so it was at least as long as its end lies ahead of
        // that commit's time: by so much, if any, the receiver has asked for it.
        let asked = self.asked.unwrap_or_else(|| between(now.committed, due));
        let (recorded, most) = (between(now.wall, due), longest_pause(self.attempts, asked));
        (recorded.min(most), most < recorded)
    }
}
