//! The messages that a stream still has, and the end of those before its first message.
//!
//! A stream is purged up to snapshots that were read back. Before that, the end of the messages to be purged is
//! listed beside the snapshots. The first remaining message is checked against it, which also reveals a stream that
//! has lost more.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::chain::Tail;
use super::connection::{Connection, StreamInfo};
use super::error::StreamError;
use super::listing::{SnapshotList, listed};
use super::message::Message;

/// The messages to be read: those after `base`, up to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// End of the messages that are not read any more; the beginning of the stream where there are none.
    pub base: Tail,
    /// Sequence of the last message.
    pub last: u64,
}

/// The state of a stream at one time.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// The servers' data about the stream.
    pub info: StreamInfo,
    /// The list beside the stream.
    pub list: SnapshotList,
    /// The messages to be read.
    pub extent: Extent,
}

/// Maximum number of reads, repeated because the stream was changed meanwhile.
const ATTEMPTS_MAX: u32 = 10;
/// How long a deposed leader may not know that it is deposed: its answers until then may be stale.
pub const STALE_ANSWER_MAX: Duration = Duration::from_secs(15);
/// Pause before the state is read again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl StreamState {
    /// Reads the state. Blocks.
    ///
    /// # Errors
    /// The errors of [`StreamState::with`].
    pub fn read(connection: &Connection) -> Result<Self, StreamError> {
        Self::with(connection, |found| Ok(found.clone()))
    }

    /// Reads the state, and calls `work` with it. Repeats both where `work` fails and the stream was purged
    /// meanwhile, or another server may know more. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Gap`], [`StreamError::Lost`] or [`StreamError::Other`] when the stream has fewer messages than
    /// the list says, or others; the errors of `work`; an error when the servers do not answer.
    pub fn with<T>(
        connection: &Connection,
        mut work: impl FnMut(&Self) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        let began = Instant::now();
        for turn in 1.. {
            // The list is read first, so that everything in it was committed before the info.
            let list = listed(connection);
            let info = connection.block(connection.info())?;
            let (first, has_copies) = (info.first, has_copies(&info));
            let list = match list {
                // A stream without missing messages does not need the list.
                Err(StreamError::Refused { .. }) if first <= 1 => SnapshotList::default(),
                other => other?,
            };
            let revision = list.revision;
            let extent = Extent::determine(connection, &info, &list);
            let worked = extent.and_then(|extent| work(&Self { info, list, extent }));
            let Err(error) = worked else {
                return worked;
            };
            let is_less = matches!(error, StreamError::Lost { .. } | StreamError::Ahead { .. });
            let may_be_old = is_less && has_copies && began.elapsed() < STALE_ANSWER_MAX;
            let is_of_place = error.is_damage() || matches!(error, StreamError::Purged { .. });
            if may_be_old {
                sleep(RETRY_PAUSE);
            } else if !is_of_place
                || turn >= ATTEMPTS_MAX
                || !is_changed(connection, revision, first)?
            {
                return Err(error);
            }
        }
        Err(StreamError::Stopped)
    }
}

/// Whether several servers have the stream, so that one that is behind may answer.
#[must_use]
pub fn has_copies(info: &StreamInfo) -> bool {
    info.config["num_replicas"].as_u64() > Some(1)
}

/// Whether the list has another revision, or the stream begins with another message.
fn is_changed(connection: &Connection, revision: u64, first: u64) -> Result<bool, StreamError> {
    let again = match listed(connection) {
        Err(StreamError::Refused { .. }) => revision,
        listed => listed?.revision,
    };
    Ok(again != revision || connection.block(connection.info())?.first != first)
}

impl Extent {
    /// Determines the extent of a stream, from its list and the servers' later data about it. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Gap`], [`StreamError::Lost`], [`StreamError::Other`] or [`StreamError::Broken`]; an error when
    /// the servers do not answer.
    pub fn determine(
        connection: &Connection,
        info: &StreamInfo,
        list: &SnapshotList,
    ) -> Result<Self, StreamError> {
        let last = info.last;
        let log_id = match last {
            0 => None,
            _ => {
                let gap = StreamError::Gap {
                    missing: info.first,
                    sequence: info.first + 1,
                };
                let first = alone(connection, info.first.max(1))?;
                first.ok_or(gap)?.0.log_id
            }
        };
        // Entries of another log's id belong to an earlier stream.
        let purged = list.purged.as_ref();
        let base = purged.filter(|tail| log_id.is_some() && tail.log_id == log_id);
        let base = base.cloned().unwrap_or_else(Tail::beginning);
        let extent = Self { base, last };
        let snapshots = list.snapshots.iter();
        let snapshots: Vec<_> = snapshots.filter(|one| Some(one.log_id) == log_id).collect();
        let ends = snapshots.iter().map(|one| (one.of.0, one.carried.upto));
        let base = &extent.base;
        let (sequence, position) = ends.max().unwrap_or_default();
        if last > 0 && (last < sequence || last <= base.sequence) {
            let end = alone(connection, last)?;
            return Err(StreamError::Lost {
                snapshot: position.max(base.next - 1),
                journal: end.map_or(0, |(tail, _)| tail.next - 1),
            });
        }
        if info.first > base.sequence + 1 {
            return Err(StreamError::Gap {
                missing: base.sequence + 1,
                sequence: info.first,
            });
        }
        if base.sequence > 0 {
            // The remaining messages must follow the end of those listed as purged.
            let sequence = base.sequence + 1;
            let payload = connection.message_within(sequence)?;
            base.clone().follow(sequence, &read(sequence, &payload)?)?;
        }
        for one in snapshots.iter().filter(|one| one.of.0 >= base.sequence) {
            if tail_at(connection, base, one.of.0)?.digest != one.of.1 {
                let covers = one.carried.covers;
                return Err(StreamError::Other { covers });
            }
        }
        Ok(extent)
    }

    /// Checks that a directory that ends at this position lacks nothing that the stream no longer has. It must contain
    /// the stream's first position. Where the stream was never purged, as after an import, it may also end right before
    /// that position; after a purge, nothing would show that such a directory has the same history.
    ///
    /// # Errors
    /// [`StreamError::Purged`] when it ends sooner.
    pub fn is_reached_by(&self, end: u64) -> Result<(), StreamError> {
        let first = self.base.next;
        let least = match self.base.sequence {
            0 => first - 1,
            _ => first,
        };
        match end == 0 || end >= least {
            true => Ok(()),
            false => Err(StreamError::Purged { end, first }),
        }
    }

    /// Judges whether a directory that ends at this position has a record at its end before the stream's first
    /// position. Nothing in the stream shows that it is the record of this history: a copy of the directory may
    /// have been written on alone.
    ///
    /// # Errors
    /// [`StreamError::Purged`] when it has one.
    pub fn has_nothing_before(&self, end: u64, has_record: bool) -> Result<(), StreamError> {
        let first = self.base.next;
        match end > 0 && end < first && has_record {
            true => Err(StreamError::Purged { end, first }),
            false => Ok(()),
        }
    }

    /// The message after which everything is up to a position, and its digest. Blocks.
    ///
    /// # Errors
    /// When the stream does not have the position yet, a message is missing or invalid, or the servers do not answer.
    pub fn having(
        &self,
        connection: &Connection,
        position: u64,
    ) -> Result<(u64, [u8; 32]), StreamError> {
        let tail = match position < self.base.next {
            true => self.base.clone(),
            false => {
                let before = self.before_position(connection, position)?;
                tail_at(connection, &self.base, before.sequence + 1)?
            }
        };
        Ok((tail.sequence, tail.digest))
    }

    /// Returns the end of the whole stream. Blocks.
    ///
    /// # Errors
    /// The errors of [`tail_at`].
    pub fn end(&self, connection: &Connection) -> Result<Tail, StreamError> {
        tail_at(connection, &self.base, self.last)
    }

    /// Returns the end of the messages before the one that has a position, or that would have it next. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Purged`] when the position is not read any more; an error when a message is missing or invalid,
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
        // The message that has the position is at `low` or later: the messages before `low` end below it.
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

/// Returns the end of the messages up to a sequence, without reading those before it; `base` is the end of the
/// messages that are not read any more. Blocks.
///
/// # Errors
/// When the message is missing or invalid, or the servers do not answer.
pub fn tail_at(connection: &Connection, base: &Tail, sequence: u64) -> Result<Tail, StreamError> {
    if sequence == base.sequence {
        return Ok(base.clone());
    }
    let missing = StreamError::Gap {
        missing: sequence,
        sequence: sequence + 1,
    };
    let (mut tail, ahead) = alone(connection, sequence)?.ok_or(missing)?;
    // A message created while others were in flight may be void.
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

/// Checks that the stream, whose last message has the sequence `last`, begins with the messages read up to `tail`.
/// Blocks.
///
/// # Errors
/// [`StreamError::Ahead`] when the stream ends before, [`StreamError::Foreign`] when it belongs to another log,
/// [`StreamError::Replaced`] when it has other messages; an error when the servers do not answer.
pub fn has_what_was_read(
    connection: &Connection,
    tail: &Tail,
    last: u64,
) -> Result<(), StreamError> {
    let found = match last.min(tail.sequence) {
        0 => Tail::beginning(),
        upto => tail_at(connection, &Tail::beginning(), upto)?,
    };
    let position = tail.next - 1;
    match (tail.log_id, found.log_id) {
        (Some(expected), Some(found)) if expected != found => {
            Err(StreamError::Foreign { expected, found })
        }
        _ if found.sequence < tail.sequence => Err(StreamError::Ahead {
            directory: position,
            journal: found.next - 1,
        }),
        _ if found.digest != tail.digest => Err(StreamError::Replaced { position }),
        _ => Ok(()),
    }
}

fn read(sequence: u64, payload: &[u8]) -> Result<Message<'_>, StreamError> {
    Message::read(payload).map_err(|malformed| StreamError::Broken {
        sequence,
        what: malformed.to_string(),
    })
}

/// Returns the end after one message as if it were not void, and how many were in flight before it; `None` when there
/// is no message at this sequence.
fn alone(connection: &Connection, sequence: u64) -> Result<Option<(Tail, u8)>, StreamError> {
    let Some(payload) = connection.block(connection.message(sequence))? else {
        return Ok(None);
    };
    let message = read(sequence, &payload)?;
    Ok(Some((Tail::after(sequence, &message), message.ahead)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stream::fake::Fake;
    use crate::stream::message::{Content, Node};

    #[test]
    fn a_stream_shorter_than_what_was_read_or_different_there_is_detected() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 3));
        let (connection, tail) = (fake.connection(), fake.tail());
        let judged = |messages: &[Vec<u8>]| {
            fake.has(messages);
            let info = connection.block(connection.info_now()).unwrap();
            has_what_was_read(&connection, &tail, info.last)
        };
        let whole = fake.kept.lock().messages.clone();
        let (shorter, other) = (fake.written_on(2, 0), fake.written_on(2, 1));
        assert_eq!(judged(&whole), Ok(()));
        assert_eq!(
            judged(&shorter),
            Err(StreamError::Ahead {
                directory: 3,
                journal: 1
            })
        );
        assert_eq!(
            judged(&[]),
            Err(StreamError::Ahead {
                directory: 3,
                journal: 0
            })
        );
        assert_eq!(judged(&other), Err(StreamError::Replaced { position: 3 }));
        let node = Node {
            token: [1; 16],
            name: "another",
        };
        let place = Tail::beginning().place([8; 16], 1, 0);
        let (foreign, _) = place.message(Content::Fence(node));
        assert_eq!(
            judged(&[foreign.to_vec()]),
            Err(StreamError::Foreign {
                expected: [7; 16],
                found: [8; 16]
            })
        );
        // Later messages are left to their readers.
        fake.has(&whole);
        drop(fake.written(2, 1));
        let longer = fake.kept.lock().messages.clone();
        assert_eq!(judged(&longer), Ok(()));
    }
}
