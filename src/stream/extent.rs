//! What a stream still has, and what came before its first message.
//!
//! A stream is purged below snapshots that were read back. Before that, the end of what goes is listed
//! beside them: the first message that is left is checked against it, and a stream that has lost more is
//! known by it.

use super::chain::Tail;
use super::connection::{Connection, StreamInfo};
use super::error::StreamError;
use super::listing::{Shelf, listed};
use super::message::Message;

/// The messages that are read: those after an end, up to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The end of what is not read any more; the beginning where that is nothing.
    pub base: Tail,
    /// The last sequence.
    pub last: u64,
}

impl Extent {
    /// That of a stream, as its list of snapshots says. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Gap`] or [`StreamError::Lost`] when the stream has less than was left of it; when
    /// the servers do not answer.
    pub fn of(connection: &Connection, info: &StreamInfo) -> Result<Self, StreamError> {
        match listed(connection) {
            Ok(shelf) => Self::beside(connection, info, &shelf),
            // Where nothing is missing nobody needs it.
            Err(StreamError::Refused { .. }) if info.first <= 1 => {
                Self::beside(connection, info, &Shelf::default())
            }
            Err(error) => Err(error),
        }
    }

    /// As [`Extent::of`], by this list.
    ///
    /// # Errors
    /// As [`Extent::of`].
    pub fn beside(
        connection: &Connection,
        info: &StreamInfo,
        shelf: &Shelf,
    ) -> Result<Self, StreamError> {
        let last = info.last;
        let gap = |missing| StreamError::Gap {
            missing,
            sequence: info.first,
        };
        let log_id = match last {
            0 => None,
            _ => alone(connection, info.first.max(1))?.and_then(|(tail, _)| tail.log_id),
        };
        // What is listed of another log is of a stream that was there before.
        let purged = shelf.purged.as_ref();
        let Some(base) = purged.filter(|tail| log_id.is_some() && tail.log_id == log_id) else {
            let base = Tail::beginning();
            return match info.first {
                0 | 1 => Ok(Self { base, last }),
                _ => Err(gap(1)),
            };
        };
        if last <= base.sequence {
            let end = alone(connection, last)?;
            return Err(StreamError::Lost {
                snapshot: base.next - 1,
                journal: end.map_or(0, |(tail, _)| tail.next - 1),
            });
        }
        match info.first > base.sequence + 1 {
            true => Err(gap(base.sequence + 1)),
            false => Ok(Self {
                base: base.clone(),
                last,
            }),
        }
    }

    /// The end of all of it. Blocks.
    ///
    /// # Errors
    /// Those of [`tail_at`].
    pub fn end(&self, connection: &Connection) -> Result<Tail, StreamError> {
        tail_at(connection, &self.base, self.last)
    }

    /// The end of what comes before the message that holds a position, or that would hold it next. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Purged`] when the position is not read any more; when a message is missing or is none,
    /// or the servers do not answer.
    pub fn before_position(
        &self,
        connection: &Connection,
        position: u64,
    ) -> Result<Tail, StreamError> {
        if position < self.base.next {
            let (end, first) = (position - 1, self.base.next);
            return Err(StreamError::Purged { end, first });
        }
        // Sequences from `low` on may hold it; those below do not.
        let lowest = self.base.sequence + 1;
        let (mut low, mut high) = (lowest, self.last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if tail_at(connection, &self.base, middle)?.next > position {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        tail_at(connection, &self.base, low - 1)
    }
}

/// The end of what is read up to a message, without what comes before it, but for the end of what is not
/// read any more. Blocks.
///
/// # Errors
/// When it is missing or is none, or the servers do not answer.
pub fn tail_at(connection: &Connection, base: &Tail, sequence: u64) -> Result<Tail, StreamError> {
    if sequence == base.sequence {
        return Ok(base.clone());
    }
    let missing = StreamError::Gap {
        missing: sequence,
        sequence: sequence + 1,
    };
    let (mut tail, ahead) = alone(connection, sequence)?.ok_or(missing)?;
    // One that was made while others were in flight may be void.
    let lowest = sequence.saturating_sub(ahead.into()).max(1);
    for before in (lowest..sequence).rev() {
        let other = match before == base.sequence {
            true => Some(base.clone()),
            false => alone(connection, before)?.map(|(other, _)| other),
        };
        let Some(other) = other else {
            break;
        };
        if other.epoch > tail.epoch {
            tail = tail_at(connection, base, before)?;
            tail.sequence = sequence;
            break;
        }
    }
    Ok(tail)
}

/// The end after one message as if it were not void, and how many were in flight before it; `None`
/// when there is none at this sequence.
fn alone(connection: &Connection, sequence: u64) -> Result<Option<(Tail, u8)>, StreamError> {
    let Some(payload) = connection.block(connection.message(sequence))? else {
        return Ok(None);
    };
    let message = Message::read(&payload).map_err(|malformed| StreamError::Broken {
        sequence,
        what: malformed.to_string(),
    })?;
    Ok(Some((Tail::after(sequence, &message), message.ahead)))
}
