//! One append: sent again, byte for byte, until it is known what became of it; and what one attempt
//! has come to, for those that have several in flight.

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

/// For how long it is tried to find out what became of an append.
pub(super) const KNOWN_WITHIN: Duration = Duration::from_secs(30);
/// How long after an attempt without an answer the next one begins.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How long after a refusal for lack of room the next attempt begins.
pub(super) const PAUSE_WHEN_FULL: Duration = Duration::from_millis(500);

/// The refusals of the servers that mean something here.
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

/// What has become of an append.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is in the stream, at the sequence after the expected one.
    Ours,
    /// Another message is there.
    Other(Other),
}

/// A message that is in the place of one's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Other {
    /// Its epoch, and the name of its node, where they are known.
    pub(super) by: Option<(u64, String)>,
    /// How many messages were in flight before it.
    pub(super) ahead: u8,
    /// Its log.
    pub(super) log_id: Option<[u8; 16]>,
}

/// What one attempt has come to.
pub(super) enum Attempt {
    Acknowledged,
    /// Something is at the place, or was.
    Taken,
    /// Nothing was appended, for lack of room.
    Full(String),
    /// Whether it was appended is unknown.
    Unknown(String),
}

/// Notified of retries while an append takes its time.
pub(super) trait Watched: Sync {
    /// It is tried again for this reason. Returns whether to go on trying when nothing was appended.
    fn tries_again(&self, why: &str, is_full: bool) -> bool;
}

/// A message on its way into the stream.
#[derive(Clone)]
pub(super) struct Appending {
    pub(super) connection: Arc<Connection>,
    /// The sequence that the message expects to be the last one.
    pub(super) after: u64,
    /// The identifier by which the servers recognize it when it is sent again.
    pub(super) id: String,
    pub(super) bytes: Bytes,
}

impl Appending {
    /// Appends it, while nothing else is in flight.
    ///
    /// # Errors
    /// [`StreamError::Unknown`] when it is not known in time what became of it; when the servers
    /// refuse it for what it is, or the stream does not have what it is to follow.
    pub(super) async fn run(&self, watched: &dyn Watched) -> Result<Appended, StreamError> {
        let mut until = Instant::now() + KNOWN_WITHIN;
        // Whether an earlier attempt may still be on its way.
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
                    // An attempt of ours is being replicated, or the server is behind.
                    None => "the stream does not show yet what came after".to_owned(),
                },
                Attempt::Full(why) => {
                    // An attempt with unknown outcome may have had the last room.
                    if is_unknown && let Some(appended) = self.at_the_place().await? {
                        return Ok(appended);
                    }
                    if !watched.tries_again(&why, true) {
                        return Err(given_up_when_full(&why, is_unknown));
                    }
                    until = Instant::now() + KNOWN_WITHIN;
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
                let what = format!("no answer for {} s, {why}", KNOWN_WITHIN.as_secs());
                return Err(StreamError::Unknown { what });
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends it, and waits for the answer.
    ///
    /// # Errors
    /// When the servers refuse it for what it is.
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
            // Of a message that the servers say they have already the bytes are compared.
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

    /// What is where this message belongs; `None` when nothing is, as far as is shown.
    ///
    /// # Errors
    /// When the servers refuse to show it.
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
            Content::Batch(_) | Content::Barrier => "a process that did not say who".to_owned(),
        };
        Ok(Some(Appended::Other(Other {
            by: Some((message.epoch, name)),
            ahead: message.ahead,
            log_id: Some(message.log_id),
        })))
    }
}

/// The error when a full stream is not waited for any more.
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
