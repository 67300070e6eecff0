//! The predecessor of a message: the stream has to show it before the message is sent again.
//!
//! The servers compare only the number of messages. After a stream has lost its end, another process may append until
//! the stream has as many messages as before; then the servers would accept a message of the lost history.

use std::time::Instant;

use tokio::time::sleep;

use super::append::{Appending, OUTCOME_TIMEOUT, PAUSE};
use super::error::StreamError;
use super::extent::{STALE_ANSWER_MAX, has_copies};
use super::message::{IN_FLIGHT_MAX, Message};

/// The stream does not show the predecessor of a message.
struct Lack {
    /// The error, unless the predecessor is shown soon.
    error: StreamError,
    /// Whether the answer may be stale.
    may_be_old: bool,
}

impl Appending {
    /// Waits until the stream shows the predecessor of this message.
    ///
    /// # Errors
    /// [`StreamError::Ahead`], [`StreamError::Foreign`] or [`StreamError::Replaced`] when the stream has fewer
    /// messages, or others; [`StreamError::Fenced`] when a later writer has purged the predecessor;
    /// [`StreamError::Unreachable`] when no server answers.
    pub(super) async fn until_it_follows(&self) -> Result<(), StreamError> {
        let began = Instant::now();
        while let Some(lack) = self.lack().await.map_err(unless_definite)? {
            if !lack.may_be_old || began.elapsed() >= STALE_ANSWER_MAX {
                return Err(lack.error);
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// As [`Appending::until_it_follows`]; also waits while no server answers.
    ///
    /// # Errors
    /// The same.
    pub(super) async fn until_known_to_follow(&self) -> Result<(), StreamError> {
        let until = Instant::now() + OUTCOME_TIMEOUT;
        loop {
            match self.until_it_follows().await {
                Err(StreamError::Unreachable { .. }) if Instant::now() < until => {
                    sleep(PAUSE).await;
                }
                known => return known,
            }
        }
    }

    async fn lack(&self) -> Result<Option<Lack>, StreamError> {
        if self.after == 0 {
            return Ok(None);
        }
        let own = read(self.after + 1, &self.bytes)?;
        // The messages before it may be void.
        let void_max = u64::from(IN_FLIGHT_MAX) - 1;
        let lowest = self.after.saturating_sub(void_max).max(1);
        for sequence in (lowest..=self.after).rev() {
            let Some(found) = self.connection.message_now(sequence).await? else {
                return self.missing(sequence, &own).await;
            };
            let message = read(sequence, &found)?;
            if message.digest == own.before {
                return Ok(None);
            }
            if message.log_id != own.log_id {
                return Err(StreamError::Foreign {
                    expected: own.log_id,
                    found: message.log_id,
                });
            }
            if message.ahead == 0 || message.epoch >= own.epoch {
                break;
            }
        }
        let position = own.first.saturating_sub(1);
        Err(StreamError::Replaced { position })
    }

    /// Determines why the stream lacks the message at this sequence, which is the predecessor, or comes before void
    /// messages.
    async fn missing(&self, sequence: u64, own: &Message<'_>) -> Result<Option<Lack>, StreamError> {
        let info = self.connection.info_now().await?;
        if info.last < self.after {
            let error = self.lost(info.last, own).await?;
            let may_be_old = has_copies(&info);
            return Ok(Some(Lack { error, may_be_old }));
        }
        if sequence < self.after && sequence < info.first {
            // It was purged, and only void messages are left.
            return Ok(None);
        }
        let is_purged = self.after < info.first && self.after < info.last;
        let error = match is_purged {
            true => StreamError::Fenced { by: None },
            false => StreamError::Gap {
                missing: sequence,
                sequence: sequence + 1,
            },
        };
        // The message may have come in between. Purged messages do not come back.
        let may_be_old = !is_purged;
        Ok(Some(Lack { error, may_be_old }))
    }

    /// Returns the error of a stream that ends before the predecessor.
    async fn lost(&self, last: u64, own: &Message<'_>) -> Result<StreamError, StreamError> {
        let found = match last {
            0 => None,
            last => self.connection.message_now(last).await?,
        };
        let end = found.as_ref().map(|found| read(last, found)).transpose()?;
        Ok(match end {
            Some(end) if end.log_id != own.log_id => StreamError::Foreign {
                expected: own.log_id,
                found: end.log_id,
            },
            end => StreamError::Ahead {
                directory: own.first.saturating_sub(1),
                journal: end.map_or(0, |end| end.next().saturating_sub(1)),
            },
        })
    }
}

/// Returns the error if it is definite; otherwise that the servers gave no answer, which may change soon.
fn unless_definite(error: StreamError) -> StreamError {
    match error.is_damage() || error.is_fenced() {
        true => error,
        false => StreamError::Unreachable {
            what: error.to_string(),
        },
    }
}

fn read(sequence: u64, bytes: &[u8]) -> Result<Message<'_>, StreamError> {
    Message::read(bytes).map_err(|malformed| StreamError::Broken {
        sequence,
        what: malformed.to_string(),
    })
}
