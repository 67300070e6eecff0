//! Whether the journal that a node follows still has what the node has read.

use std::time::Instant;

use crate::stream::chain::Tail;
use crate::stream::connection::{Connection, StreamInfo};
use crate::stream::error::StreamError;
use crate::stream::extent::{MAY_BE_OLD, has_copies, has_what_was_read};

/// What was found out of that so far.
#[derive(Default)]
pub(super) struct JournalContinuity {
    /// The last message that was compared with the one that was read.
    compared: u64,
    /// Since when the journal ends before what was read.
    short: Option<Instant>,
}

impl JournalContinuity {
    /// Whether the journal, of which this was said just now, has what was read, as far as that can be known
    /// before the next message comes, which is checked by itself. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Ahead`] when it has less, and who says so cannot be behind;
    /// [`StreamError::Foreign`] or [`StreamError::Replaced`] when it has something else.
    pub(super) fn check(
        &mut self,
        connection: &Connection,
        tail: &Tail,
        info: &StreamInfo,
    ) -> Result<bool, StreamError> {
        let is_short = info.last < tail.sequence;
        if !is_short {
            self.short = None;
            // What was purged was in snapshots, and was the same by then.
            let is_purged = tail.sequence < info.first;
            if is_purged || info.last > tail.sequence || self.compared == tail.sequence {
                return Ok(true);
            }
        }
        self.compared = 0;
        match has_what_was_read(connection, tail, info.last) {
            Ok(()) => {
                self.compared = tail.sequence;
                Ok(true)
            }
            Err(lost @ StreamError::Ahead { .. }) => {
                let since = *self.short.get_or_insert_with(Instant::now);
                match has_copies(info) && since.elapsed() < MAY_BE_OLD {
                    true => Ok(false),
                    false => Err(lost),
                }
            }
            // It was changed meanwhile, or nobody answers.
            Err(
                StreamError::Gap { .. }
                | StreamError::Unreachable { .. }
                | StreamError::Missing { .. }
                | StreamError::Refused { .. },
            ) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
