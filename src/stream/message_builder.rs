//! Builds a writer's messages, one after the other.

use std::sync::Arc;

use bytes::Bytes;

use super::append::Appending;
use super::chain::Tail;
use super::connection::Connection;
use super::error::StreamError;
use super::message::{Content, MESSAGE_BYTES_MAX, Message, MessageDigest, NUMBER_MAX};

/// A message that was created.
pub(crate) struct Made {
    /// Number of the message among those created after the fence of this epoch, from 1.
    pub(super) number: u64,
    pub(super) bytes: Bytes,
}

/// State from which a writer builds its next message.
pub(super) struct MessageBuilder {
    /// End of the created messages.
    pub(super) tail: Tail,
    /// End of the created messages before the last one.
    pub(super) before: Option<Tail>,
    pub(super) log_id: [u8; 16],
    pub(super) epoch: u64,
    /// Number of messages created after the fence of the epoch.
    pub(super) made: u64,
    pub(super) connection: Arc<Connection>,
    /// Random bytes of this process.
    pub(super) token: [u8; 16],
}

impl MessageBuilder {
    /// Notes that the fence created last is in the stream: the epoch begins after it.
    pub(super) fn begins(&mut self) {
        self.tail.fence = self.tail.sequence;
        self.before = None;
        self.made = 0;
    }

    /// Moves the only message in flight to the next sequence.
    pub(super) fn postpone(&mut self) {
        self.tail.sequence += 1;
        if let Some(before) = &mut self.before {
            before.sequence += 1;
        }
    }

    /// Withdraws the last message, which was not appended. Returns `false` unless it is the only one in flight, so
    /// that no other was created after it.
    pub(super) fn withdraw(&mut self, acknowledged: u64) -> bool {
        if self.made != acknowledged + 1 {
            return false;
        }
        let before = self.before.take();
        before.map(|before| self.tail = before).is_some()
    }

    /// Returns how many messages will be in flight before the next one, given how many are acknowledged; `None` when
    /// the maximum is in flight, so that the next one has to wait.
    pub(super) fn ahead(&self, acknowledged: u64, in_flight_max: usize) -> Option<u8> {
        let in_flight = self.made - acknowledged;
        // The places that the previous writer's messages may still take are used one at a time.
        let oldest = Tail {
            sequence: self.tail.sequence - in_flight,
            ..self.tail.clone()
        };
        let may = match oldest.is_past_void() {
            true => in_flight_max,
            false => 1,
        };
        let ahead = u8::try_from(in_flight).ok()?;
        (usize::from(ahead) < may).then_some(ahead)
    }

    /// Creates the next message, and advances the end past it.
    ///
    /// # Errors
    /// When the message is too large.
    pub(super) fn make(
        &mut self,
        content: Content<'_>,
        ahead: u8,
    ) -> Result<Appending, StreamError> {
        let place = self.tail.place(self.log_id, self.epoch, ahead);
        let (bytes, digest) = place.message(content);
        let message = place.made(content, digest);
        if bytes.len() > MESSAGE_BYTES_MAX || message.next().max(message.epoch) > NUMBER_MAX {
            let what = format!("a message of {} bytes is too large", bytes.len());
            return Err(StreamError::Refused { what });
        }
        debug_assert_eq!(Message::read(&bytes), Ok(message));
        let tail = Tail {
            fence: self.tail.fence,
            ..Tail::after(self.tail.sequence + 1, &message)
        };
        let appending = Appending {
            connection: Arc::clone(&self.connection),
            after: self.tail.sequence,
            id: self.id(&digest),
            bytes: bytes.clone(),
        };
        self.before = Some(std::mem::replace(&mut self.tail, tail));
        self.made += 1;
        Ok(appending)
    }

    /// Returns the identifier by which the servers recognize a message that is sent again; no other message of any
    /// process has the same.
    fn id(&self, digest: &MessageDigest) -> String {
        let token = crate::base::hex::hex(&self.token[..8]);
        let digest = crate::base::hex::hex(&digest[..8]);
        format!("{}:{}:{token}:{digest}", self.epoch, self.tail.next)
    }
}
