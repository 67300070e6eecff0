//! Reading a stream for a command.

use crate::stream::chain::Tail;
use crate::stream::connection::{Connection, StreamInfo};
use crate::stream::error::StreamError;
use crate::stream::message::{Content, Message};

use super::super::exit::Failure;

/// The end of a stream.
pub(super) struct End {
    pub(super) tail: Tail,
    /// The node that began the last epoch.
    pub(super) writer: Option<String>,
}

/// The message at a sequence, by itself: where it ends, and who begins an epoch with it.
fn message_at(
    connection: &Connection,
    sequence: u64,
) -> Result<(Tail, Option<String>), StreamError> {
    let bytes = connection.message_within(sequence)?;
    let message = Message::read(&bytes).map_err(|malformed| StreamError::Broken {
        sequence,
        what: malformed.to_string(),
    })?;
    let fence = match message.content {
        Content::Fence(node) => Some(node.name.to_owned()),
        Content::Batch(_) | Content::Barrier => None,
    };
    Ok((Tail::after(sequence, &message), fence))
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
        let (tail, mut writer) = message_at(connection, info.last)?;
        let (mut low, mut high) = (info.first.max(1), info.last);
        while low < high {
            let middle = low + (high - low) / 2;
            let (at, fence) = message_at(connection, middle)?;
            if at.epoch == tail.epoch {
                high = middle;
                writer = fence;
            } else {
                low = middle + 1;
            }
        }
        Ok(End { tail, writer })
    };
    find().map_err(|error| Failure::of_journal(&error))
}
