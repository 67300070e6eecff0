//! One append: sent again, byte for byte, until its outcome is known; and the outcome of one attempt, for writers
//! with several messages in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SEQUENCE, NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use bytes::Bytes;
use serde_json::Value;
use tokio::time::sleep;

use super::connection::{Connection, Unanswered};
use super::error::StreamError;
use super::message::{Content, Message};

/// How long the outcome of an append is sought.
pub(super) const OUTCOME_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after an attempt without an answer.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// Pause after a refusal for lack of room.
pub(super) const PAUSE_WHEN_FULL: Duration = Duration::from_millis(500);

/// Error codes of the servers that are handled here.
mod code {
    pub(super) const ACCOUNT_RESOURCES_EXCEEDED: u64 = 10_002;
    pub(super) const INSUFFICIENT_RESOURCES: u64 = 10_023;
    pub(super) const STORAGE_RESOURCES_EXCEEDED: u64 = 10_047;
    pub(super) const MESSAGE_EXCEEDS_MAXIMUM: u64 = 10_054;
    pub(super) const WRONG_LAST_SEQUENCE: u64 = 10_071;
    pub(super) const STORE_FAILED: u64 = 10_077;
    pub(super) const DUPLICATE_IN_PROCESS: u64 = 10_158;
    pub(super) const WRONG_LAST_SEQUENCE_NOW: u64 = 10_164;
}

/// Outcome of an append.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// The message is in the stream, at the sequence after the expected one.
    Ours,
    /// Another message is at that sequence.
    Other(Other),
}

/// A message in the place of one's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Other {
    /// Epoch of the message, and the name of its node, where they are known.
    pub(super) by: Option<(u64, String)>,
    /// Number of messages that were in flight before it.
    pub(super) ahead: u8,
    /// Id of the message's log.
    pub(super) log_id: Option<[u8; 16]>,
}

/// Outcome of one attempt.
pub(super) enum Attempt {
    Acknowledged,
    /// A message is at the place, or was.
    Taken,
    /// Nothing was appended, for lack of room.
    Full(String),
    /// It is unknown whether the message was appended.
    Unknown(String),
}

/// Notified of retries during an append.
pub(super) trait Watched: Sync {
    /// Notifies of a retry and its reason. Returns whether to go on trying when nothing was appended.
    fn tries_again(&self, why: &str, is_full: bool) -> bool;
}

/// A message to be appended to the stream.
#[derive(Clone)]
pub(super) struct Appending {
    pub(super) connection: Arc<Connection>,
    /// Last sequence of the stream that the message expects.
    pub(super) after: u64,
    /// Identifier by which the servers recognize the message when it is sent again.
    pub(super) id: String,
    pub(super) bytes: Bytes,
}

impl Appending {
    /// Appends the message, while no other one is in flight.
    ///
    /// # Errors
    /// [`StreamError::Unknown`] when the outcome does not become known in time; another error when the servers refuse
    /// the message as such, or the stream lacks the predecessor.
    pub(super) async fn run(&self, watched: &dyn Watched) -> Result<Appended, StreamError> {
        let mut until = Instant::now() + OUTCOME_TIMEOUT;
        // Whether an earlier attempt may still be in flight.
        let mut is_unknown = false;
        loop {
            let attempt = match self.until_it_follows().await {
                Ok(()) => self.attempt().await?,
                Err(StreamError::Unreachable { what }) => Attempt::Unknown(what),
                Err(error) => return Err(error),
            };
            let why = match attempt {
                Attempt::Acknowledged => return Ok(Appended::Ours),
                Attempt::Taken => match self.at_the_place().await? {
                    Some(appended) => return Ok(appended),
                    // An earlier attempt is being replicated, or the server is behind.
                    None => "the stream does not show the latest messages yet".to_owned(),
                },
                Attempt::Full(why) => {
                    // An attempt with unknown outcome may have taken the last room.
                    if is_unknown && let Some(appended) = self.at_the_place().await? {
                        return Ok(appended);
                    }
                    if !watched.tries_again(&why, true) {
                        return Err(given_up_when_full(&why, is_unknown));
                    }
                    until = Instant::now() + OUTCOME_TIMEOUT;
                    sleep(PAUSE_WHEN_FULL).await;
                    continue;
                }
                Attempt::Unknown(why) => {
                    is_unknown = true;
                    why
                }
            };
            watched.tries_again(&why, false);
            if Instant::now() >= until {
                let what = format!("no answer for {} s, {why}", OUTCOME_TIMEOUT.as_secs());
                return Err(StreamError::Unknown { what });
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends the message, and waits for the answer.
    ///
    /// # Errors
    /// When the servers refuse the message as such.
    pub(super) async fn attempt(&self) -> Result<Attempt, StreamError> {
        let names = self.connection.names();
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_STREAM, names.stream.as_str());
        headers.insert(NATS_EXPECTED_LAST_SEQUENCE, self.after.to_string());
        headers.insert(NATS_MESSAGE_ID, self.id.as_str());
        let asked = self
            .connection
            .ask_once(&names.subject, Some(headers), self.bytes.clone());
        let answer = match asked.await {
            Ok(answer) => answer,
            Err(error) => return Ok(Attempt::Unknown(error.to_string())),
        };
        let Ok(answer) = serde_json::from_slice::<Value>(&answer) else {
            return Ok(Attempt::Unknown("an answer is no JSON".to_owned()));
        };
        let error = &answer["error"];
        if error.is_null() {
            let is_there = answer["seq"].as_u64() == Some(self.after + 1);
            let is_new = answer["duplicate"].as_bool() != Some(true);
            let is_of_stream = answer["stream"].as_str() == Some(&names.stream);
            // Where the servers say that they already have the message, its bytes are compared later.
            return Ok(match is_there && is_new && is_of_stream {
                true => Attempt::Acknowledged,
                false => Attempt::Taken,
            });
        }
        let number = error["err_code"].as_u64().unwrap_or(0);
        let description = error["description"].as_str().unwrap_or_default();
        let said = format!("{description} (error {number})");
        Ok(match number {
            code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_NOW => Attempt::Taken,
            code::STORE_FAILED if description.contains("maximum") => Attempt::Full(said),
            code::ACCOUNT_RESOURCES_EXCEEDED
            | code::INSUFFICIENT_RESOURCES
            | code::STORAGE_RESOURCES_EXCEEDED => Attempt::Full(said),
            code::DUPLICATE_IN_PROCESS => Attempt::Unknown(said),
            code::MESSAGE_EXCEEDS_MAXIMUM => {
                let what = format!("the stream refuses a message of this length: {said}");
                return Err(StreamError::Refused { what });
            }
            _ if error["code"].as_u64().unwrap_or(0) >= 500 => Attempt::Unknown(said),
            _ => {
                let what = format!("the stream refuses a message: {said}");
                return Err(StreamError::Refused { what });
            }
        })
    }

    /// Returns the message at the place of this one; `None` when the servers show none.
    ///
    /// # Errors
    /// When the servers refuse to show the message.
    pub(super) async fn at_the_place(&self) -> Result<Option<Appended>, StreamError> {
        let found = match self.connection.message(self.after + 1).await {
            Ok(found) => found,
            Err(StreamError::Unreachable { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(found) = found else {
            return Ok(None);
        };
        if found == self.bytes {
            return Ok(Some(Appended::Ours));
        }
        let Ok(message) = Message::read(&found) else {
            return Ok(Some(Appended::Other(Other::default())));
        };
        let name = match message.content {
            Content::Fence(node) => node.name.to_owned(),
            Content::Batch(_) | Content::Barrier => "an unknown process".to_owned(),
        };
        Ok(Some(Appended::Other(Other {
            by: Some((message.epoch, name)),
            ahead: message.ahead,
            log_id: Some(message.log_id),
        })))
    }
}

/// Returns the error for the end of the wait for room in a full stream.
pub(super) fn given_up_when_full(why: &str, is_unknown: bool) -> StreamError {
    match is_unknown {
        true => StreamError::Unknown {
            what: format!("an answer was lost, and then the journal was full: {why}"),
        },
        false => StreamError::Refused {
            what: format!("the journal is full, and took nothing: {why}"),
        },
    }
}

impl From<Unanswered> for StreamError {
    fn from(error: Unanswered) -> Self {
        Self::Unreachable {
            what: error.to_string(),
        }
    }
}
