//! Whether the journal that a node follows still has what the node has read.

use std::time::Instant;

use super::chain::Tail;
use super::connection::{Connection, StreamInfo};
use super::error::StreamError;
use super::extent::{MAY_BE_OLD, has_copies, has_what_was_read};

/// What was found out of that so far.
#[derive(Default)]
pub struct JournalContinuity {
    /// The last message that was compared with the one that was read.
    compared: u64,
    /// Since when the journal ends before what was read.
    short: Option<Instant>,
    /// The end of what had been read at the check before.
    before: Option<Tail>,
}

impl JournalContinuity {
    /// Notes that nobody said anything of the journal for a while.
    pub fn interrupt(&mut self) {
        (self.compared, self.short) = (0, None);
    }

    /// Whether the journal, of which this was said just now, has what was read, as far as that can be known
    /// before the next message comes, which is checked by itself. Blocks.
    ///
    /// A message that came since the check before may follow what this node has read, and have been taken by the
    /// servers after another history of the same length. So what had been read by then is compared again.
    ///
    /// # Errors
    /// [`StreamError::Ahead`] when it has less, and who says so cannot be behind;
    /// [`StreamError::Foreign`] or [`StreamError::Replaced`] when it has something else.
    pub fn check(
        &mut self,
        connection: &Connection,
        tail: &Tail,
        info: &StreamInfo,
    ) -> Result<bool, StreamError> {
        let before = self.before.replace(tail.clone());
        let is_short = info.last < tail.sequence;
        if !is_short {
            self.short = None;
            let still_there = info.first..tail.sequence;
            let before = before.filter(|end| still_there.contains(&end.sequence));
            if let Some(before) = before
                && !is_shown(has_what_was_read(connection, &before, info.last))?
            {
                self.before = Some(before);
                return Ok(false);
            }
            // What was purged was in snapshots, and was the same by then.
            let is_purged = tail.sequence < info.first;
            if is_purged || info.last > tail.sequence || self.compared == tail.sequence {
                return Ok(true);
            }
        }
        self.compared = 0;
        match has_what_was_read(connection, tail, info.last) {
            Err(lost @ StreamError::Ahead { .. }) => {
                let since = *self.short.get_or_insert_with(Instant::now);
                match has_copies(info) && since.elapsed() < MAY_BE_OLD {
                    true => Ok(false),
                    false => Err(lost),
                }
            }
            compared => {
                let is_shown = is_shown(compared)?;
                if is_shown {
                    self.compared = tail.sequence;
                }
                Ok(is_shown)
            }
        }
    }
}

/// Whether the stream has shown what was read. It has not where it was changed meanwhile, or nobody answers.
fn is_shown(compared: Result<(), StreamError>) -> Result<bool, StreamError> {
    match compared {
        Ok(()) => Ok(true),
        Err(
            StreamError::Gap { .. }
            | StreamError::Unreachable { .. }
            | StreamError::Missing { .. }
            | StreamError::Refused { .. },
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stream::fake::{Fake, LOG};
    use crate::stream::message::{Content, Message};

    #[test]
    fn a_writer_that_goes_on_in_another_history_of_the_same_length_does_not_hide_it() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 3));
        let connection = fake.connection();
        let whole = fake.kept.lock().messages.clone();
        let other = fake.written_on(2, 1);
        assert_eq!(whole.len(), other.len());
        let before = fake.tail();
        let (message, _) = before.place(LOG, 1, 0).message(Content::Barrier);
        let mut after = before.clone();
        let sequence = before.sequence + 1;
        after
            .follow(sequence, &Message::read(&message).unwrap())
            .unwrap();
        let next = [message.to_vec()];
        for (history, expected) in [
            (&whole, Ok(true)),
            (&other, Err(StreamError::Replaced { position: 3 })),
        ] {
            let mut continuity = JournalContinuity::default();
            let mut check = |tail: &Tail| {
                let info = connection.block(connection.info_now()).unwrap();
                continuity.check(&connection, tail, &info)
            };
            fake.has(&whole);
            assert_eq!(check(&before), Ok(true));
            fake.has(&[history.as_slice(), &next].concat());
            assert_eq!(check(&after), expected);
        }
    }
}
