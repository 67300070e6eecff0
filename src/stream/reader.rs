//! The messages of the stream from one on, in order, each checked against the one before.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::chain::{Follows, Tail};
use super::connection::Connection;
use super::error::StreamError;
use super::listing::listed;
use super::message::{Content, DIGEST_BYTES, HEAD_BYTES, Message, Records};

/// How many messages are fetched ahead of those that are taken.
const AHEAD: usize = 64;
/// How many are asked for at once.
const FETCHED: i64 = 64;
/// How long after a failure it is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// A message that was read and checked.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its sequence.
    pub sequence: u64,
    /// The epoch of its writer.
    pub epoch: u64,
    /// The position of its first record, or of the next one where it has none.
    pub first: u64,
    /// How many messages come after it, as far as was known when it was sent.
    pub pending: u64,
    /// The name of the node that begins its epoch with it.
    pub fence: Option<String>,
    /// Whether it is passed over: its writer was fenced before it came. It has no records then.
    pub is_void: bool,
    count: u32,
    content: Bytes,
}

impl Received {
    /// Its records, if it has any.
    #[must_use]
    pub fn records(&self) -> Option<Records<'_>> {
        Records::of(&self.content, self.count)
    }
}

/// Messages with their sequences, and how many come after each.
type Sent = (u64, u64, Bytes);

/// Reads the stream. Lost connections are waited for.
pub struct Reader {
    connection: Arc<Connection>,
    messages: mpsc::Receiver<Sent>,
    task: JoinHandle<()>,
    tail: Tail,
}

impl Reader {
    /// Begins with the message after a tail.
    #[must_use]
    pub fn after(connection: &Arc<Connection>, tail: Tail) -> Self {
        let (sender, messages) = mpsc::channel(AHEAD);
        let fetching = fetch(Arc::clone(connection), tail.sequence + 1, sender);
        Self {
            task: connection.handle().spawn(fetching),
            connection: Arc::clone(connection),
            messages,
            tail,
        }
    }

    /// The end of what was read.
    #[must_use]
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// The next message; `None` when none came in this time. For a thread that may wait.
    ///
    /// # Errors
    /// When what comes next is not what has to come: nothing after it is to be used.
    pub fn next(&mut self, within: Duration) -> Result<Option<Received>, StreamError> {
        let connection = Arc::clone(&self.connection);
        let next = connection.block(async { timeout(within, self.messages.recv()).await });
        let (sequence, pending, payload) = match next {
            Ok(Some(sent)) => sent,
            // It fetches for as long as there is a receiver.
            Ok(None) => {
                let what = "what reads the journal has failed, see the log".to_owned();
                return Err(StreamError::Refused { what });
            }
            Err(_) => return Ok(None),
        };
        let message = Message::read(&payload).map_err(|malformed| StreamError::Broken {
            sequence,
            what: malformed.to_string(),
        })?;
        let followed = self.tail.follow(sequence, &message);
        let is_void = followed.map_err(|error| self.purged(error))? == Follows::Void;
        let (count, fence) = match message.content {
            Content::Batch(records) if !is_void => (records.count(), None),
            Content::Fence(node) if !is_void => (0, Some(node.name.to_owned())),
            _ => (0, None),
        };
        Ok(Some(Received {
            sequence,
            epoch: message.epoch,
            first: message.first,
            pending,
            fence,
            is_void,
            count,
            content: payload.slice(HEAD_BYTES..payload.len() - DIGEST_BYTES),
        }))
    }
}

impl Reader {
    /// What is missing may have been purged before it was read here.
    fn purged(&self, error: StreamError) -> StreamError {
        let end = self.tail.next - 1;
        let StreamError::Gap { sequence, .. } = error else {
            return error;
        };
        let is_ours = |log_id| self.tail.log_id.is_none() || self.tail.log_id == log_id;
        match listed(&self.connection).map(|list| list.purged) {
            Ok(Some(base)) if base.sequence + 1 >= sequence && is_ours(base.log_id) => {
                let first = base.next;
                StreamError::Purged { end, first }
            }
            // That cannot be found out.
            Err(silent @ StreamError::Unreachable { .. }) => silent,
            _ => error,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends the messages from a sequence on, for as long as there is a receiver.
async fn fetch(connection: Arc<Connection>, from: u64, sender: mpsc::Sender<Sent>) {
    let mut next = from;
    while !sender.is_closed() {
        if let Err(why) = fetch_some(&connection, &mut next, &sender).await {
            tracing::debug!(%why, next, "reading the journal begins again");
        }
        sleep(PAUSE).await;
    }
}

/// Sends messages until something fails.
async fn fetch_some(
    connection: &Connection,
    next: &mut u64,
    sender: &mpsc::Sender<Sent>,
) -> Result<(), async_nats::Error> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: *next,
        },
        max_batch: FETCHED,
        ..OrderedConfig::default()
    };
    let stream = &connection.names().stream;
    let context = connection.context();
    let consumer = context.create_consumer_on_stream(config, stream).await?;
    let mut messages = consumer.messages().await?;
    while let Some(message) = messages.next().await {
        let message = message?;
        let (sequence, pending) = {
            let info = message.info()?;
            (info.stream_sequence, info.pending)
        };
        if sequence < *next {
            // A consumer that was made again has begun with the first message.
            return Ok(());
        }
        if sender
            .send((sequence, pending, message.payload.clone()))
            .await
            .is_err()
        {
            return Ok(());
        }
        // The receiver rejects what is not the next one.
        *next = sequence + 1;
    }
    Ok(())
}
