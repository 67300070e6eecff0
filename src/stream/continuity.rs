//! Checks that the journal that a node follows still has everything that the node has read.

use std::time::Instant;

use super::chain::Tail;
use super::connection::{Connection, StreamInfo};
use super::error::StreamError;
use super::extent::{STALE_ANSWER_MAX, has_copies, has_what_was_read};
use super::message::Message;

/// Progress of that check.
#[derive(Default)]
pub struct JournalContinuity {
    /// Sequence of the last message that was compared with the journal.
    compared: u64,
    /// Since when the journal ends before the last message that was read.
    short: Option<Instant>,
    /// The end of the messages read at the previous check.
    before: Option<Tail>,
    /// Since when the servers do not show the last of those messages.
    unshown: Option<Instant>,
}

impl JournalContinuity {
    /// Restarts the check after a time in which the servers were not reached.
    pub fn interrupt(&mut self) {
        (self.compared, self.short, self.unshown) = (0, None, None);
    }

    /// Checks, against stream information just received, that the journal still has everything that this node has read,
    /// as far as that can be known before the next message. Returns `false` if that is not known yet. Blocks.
    ///
    /// A message that came since the previous check may follow what this node has read, although the servers accepted
    /// it after another history of the same length. So the end of what had been read at that check is compared again,
    /// once the servers show it. A message that they do not show for a while is lost; the reader reports that.
    ///
    /// # Errors
    /// [`StreamError::Ahead`] when it has less, and the answer cannot be stale; [`StreamError::Foreign`] or
    /// [`StreamError::Replaced`] when it has something else.
    pub fn check(
        &mut self,
        connection: &Connection,
        tail: &Tail,
        info: &StreamInfo,
    ) -> Result<bool, StreamError> {
        let before = self.before.replace(tail.clone());
        let unshown = self.unshown.take();
        let is_short = info.last < tail.sequence;
        if !is_short {
            self.short = None;
            let still_there = info.first..tail.sequence;
            let before = before.filter(|end| still_there.contains(&end.sequence));
            if let Some(before) = before
                && !is_shown(shows(connection, &before, info.last))?
            {
                let since = unshown.unwrap_or_else(Instant::now);
                if since.elapsed() < STALE_ANSWER_MAX {
                    (self.before, self.unshown) = (Some(before), Some(since));
                    return Ok(false);
                }
            }
            // Purged messages are in snapshots, and were compared before.
            let is_purged = tail.sequence < info.first;
            if is_purged || info.last > tail.sequence || self.compared == tail.sequence {
                return Ok(true);
            }
        }
        self.compared = 0;
        let compared = match is_short {
            true => has_what_was_read(connection, tail, info.last),
            false => shows(connection, tail, info.last),
        };
        match compared {
            Err(lost @ StreamError::Ahead { .. }) => {
                let since = *self.short.get_or_insert_with(Instant::now);
                match has_copies(info) && since.elapsed() < STALE_ANSWER_MAX {
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

/// Checks that the stream has the last message that was read, which is not purged. Requests that message once, which is
/// enough unless it is void: nothing may wait here for long, since the writer may have to be replaced. Blocks.
///
/// # Errors
/// The errors of [`has_what_was_read`]; [`StreamError::Gap`] when the message is not there.
fn shows(connection: &Connection, end: &Tail, last: u64) -> Result<(), StreamError> {
    let found = connection.block(connection.message_now(end.sequence))?;
    let found = found.ok_or(StreamError::Gap {
        missing: end.sequence,
        sequence: end.sequence + 1,
    })?;
    let ahead = match Message::read(&found) {
        Ok(message) if message.digest == end.digest => return Ok(()),
        Ok(message) => message.ahead,
        Err(_) => 0,
    };
    let compared = has_what_was_read(connection, end, last);
    if matches!(compared, Err(StreamError::Replaced { .. })) {
        // Once the messages before it are purged, nothing shows whether it is void.
        let first = connection.block(connection.info_now())?.first;
        if first > 1 && end.sequence < first + u64::from(ahead) {
            return Ok(());
        }
    }
    compared
}

/// Whether the comparison had a result. It has none if the stream was changed meanwhile, or no server answers.
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
    use crate::stream::message::{Content, Node};

    fn check(
        continuity: &mut JournalContinuity,
        connection: &Connection,
        tail: &Tail,
    ) -> Result<bool, StreamError> {
        let info = connection.block(connection.info_now()).unwrap();
        continuity.check(connection, tail, &info)
    }

    /// Returns the message of an epoch after this end, which was made with so many in flight before it.
    fn next(tail: &Tail, epoch: u64, ahead: u8, content: Content<'_>) -> Vec<u8> {
        tail.place(LOG, epoch, ahead).message(content).0.to_vec()
    }

    fn follow(tail: &Tail, message: &[u8]) -> Tail {
        let mut after = tail.clone();
        let sequence = tail.sequence + 1;
        after
            .follow(sequence, &Message::read(message).unwrap())
            .unwrap();
        after
    }

    #[test]
    fn another_history_of_equal_length_is_seen_even_if_a_writer_continues_it() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 3));
        let connection = fake.connection();
        let whole = fake.kept.lock().messages.clone();
        let other = fake.written_on(2, 1);
        assert_eq!(whole.len(), other.len());
        let before = fake.tail();
        let message = next(&before, 1, 0, Content::Barrier);
        let after = follow(&before, &message);
        let next = [message];
        for (history, expected) in [
            (&whole, Ok(true)),
            (&other, Err(StreamError::Replaced { position: 3 })),
        ] {
            let mut continuity = JournalContinuity::default();
            fake.has(&whole);
            assert_eq!(check(&mut continuity, &connection, &before), Ok(true));
            fake.has(&[history.as_slice(), &next].concat());
            // A server that does not show it for a moment ends nothing, and hides nothing.
            fake.kept.lock().hidden = Some(before.sequence);
            assert_eq!(check(&mut continuity, &connection, &after), Ok(false));
            fake.kept.lock().hidden = None;
            assert_eq!(check(&mut continuity, &connection, &after), expected);
        }
    }

    #[test]
    fn a_message_that_stays_away_holds_up_nothing_for_ever() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 3));
        let connection = fake.connection();
        let before = fake.tail();
        let message = next(&before, 1, 0, Content::Barrier);
        let after = follow(&before, &message);
        let mut continuity = JournalContinuity::default();
        assert_eq!(check(&mut continuity, &connection, &before), Ok(true));
        {
            let mut kept = fake.kept.lock();
            kept.messages.push(message);
            kept.hidden = Some(before.sequence);
        }
        assert_eq!(check(&mut continuity, &connection, &after), Ok(false));
        let since = continuity.unshown.unwrap();
        continuity.unshown = since.checked_sub(STALE_ANSWER_MAX);
        assert!(continuity.unshown.is_some());
        assert_eq!(check(&mut continuity, &connection, &after), Ok(true));
        assert_eq!(check(&mut continuity, &connection, &after), Ok(true));
        // A while in which nobody said anything does not count.
        continuity.unshown = since.checked_sub(STALE_ANSWER_MAX);
        continuity.interrupt();
        assert_eq!(continuity.unshown, None);
    }

    #[test]
    fn a_purge_before_a_void_message_does_not_look_like_another_history() {
        let fake = Fake::with_room(64 << 20);
        let connection = fake.connection();
        let fence = |name| {
            let token = [1; 16];
            Content::Fence(Node { token, name })
        };
        // Of two messages in flight, the fence of another writer takes the place of the first.
        let begins = next(&Tail::beginning(), 1, 0, fence("a"));
        let begun = follow(&Tail::beginning(), &begins);
        let flying = follow(&begun, &next(&begun, 1, 0, Content::Barrier));
        let void = next(&flying, 1, 1, Content::Barrier);
        let fenced = next(&begun, 2, 0, fence("b"));
        let before = follow(&follow(&begun, &fenced), &void);
        assert_eq!(before.epoch, 2);
        let own = next(&before, 2, 0, Content::Barrier);
        let after = follow(&before, &own);
        for first in 1..=4_u64 {
            let mut continuity = JournalContinuity::default();
            {
                let mut kept = fake.kept.lock();
                kept.first = first.min(before.sequence);
                kept.messages = vec![begins.clone(), fenced.clone(), void.clone()];
            }
            assert_eq!(check(&mut continuity, &connection, &before), Ok(true));
            {
                let mut kept = fake.kept.lock();
                kept.first = first;
                kept.messages.push(own.clone());
            }
            assert_eq!(check(&mut continuity, &connection, &after), Ok(true));
        }
    }
}
