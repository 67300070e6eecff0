//! Reading a stream for a command.

use crate::stream::chain::Tail;
use crate::stream::connection::Connection;
use crate::stream::error::StreamError;
use crate::stream::extent::{Extent, tail_at};
use crate::stream::message::{Content, Message};

use super::super::exit::Failure;

/// The end of a stream.
pub(super) struct End {
    pub(super) tail: Tail,
    /// The node that began the last epoch; `None` if the message with its name was purged.
    pub(super) writer: Option<String>,
}

/// Returns the end of the stream, and the node that began its last epoch. A binary search finds that node, since epochs
/// rise.
pub(super) fn end_of(connection: &Connection, extent: &Extent) -> Result<End, Failure> {
    let find = || {
        let tail = extent.end(connection)?;
        if extent.last == 0 {
            return Ok(End { tail, writer: None });
        }
        let (mut low, mut high) = (extent.base.sequence + 1, extent.last);
        while low < high {
            let middle = low + (high - low) / 2;
            if tail_at(connection, &extent.base, middle)?.epoch == tail.epoch {
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

/// Returns the node that begins an epoch with the message at a sequence.
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
