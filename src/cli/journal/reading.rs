//! Reading a stream for a command.

use crate::stream::chain::Tail;
use crate::stream::connection::{Connection, StreamInfo};
use crate::stream::error::StreamError;
use crate::stream::message::{Content, Message};
use crate::stream::reader::tail_at;

use super::super::exit::Failure;

/// The end of a stream.
pub(super) struct End {
    pub(super) tail: Tail,
    /// The node that began the last epoch.
    pub(super) writer: Option<String>,
}

/// The end of the stream, and who began its last epoch: found by halves, since epochs rise.
pub(super) fn end_of(connection: &Connection, info: &StreamInfo) -> Result<End, Failure> {
    let find = || {
        if info.last == 0 {
            return Ok(End {
                tail: Tail::beginning(),
                writer: None,
            });
        }
        let tail = tail_at(connection, info.last)?;
        let (mut low, mut high) = (info.first.max(1), info.last);
        while low < high {
            let middle = low + (high - low) / 2;
            if tail_at(connection, middle)?.epoch == tail.epoch {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let writer = node_at(connection, low)?;
        Ok(End { tail, writer })
    };
    find().map_err(|error| Failure::of_journal(&error))
}

/// The node that begins an epoch with the message at a sequence.
fn node_at(connection: &Connection, sequence: u64) -> Result<Option<String>, StreamError> {
    let bytes = connection.message_within(sequence)?;
    let message = Message::read(&bytes).map_err(|malformed| StreamError::Broken {
        sequence,
        what: malformed.to_string(),
    })?;
    Ok(match message.content {
        Content::Fence(node) => Some(node.name.to_owned()),
        Content::Batch(_) | Content::Barrier => None,
    })
}
