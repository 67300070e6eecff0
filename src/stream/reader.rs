//! Reads the messages of the stream from one on, in order, and checks each against its predecessor.

use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Maximum number of messages fetched ahead of those taken.
const AHEAD: usize = 64;
/// Number of messages requested at once.
const FETCHED: i64 = 64;
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// How long no message may be sent before the reader is silent.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How long messages may be requested by their sequences, while none is sent, before fetching begins again.
const REFETCH_AFTER: Duration = Duration::from_secs(3);
/// Maximum time for which messages are requested by their sequences before the caller's other checks.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// A message that was read and checked.
#[derive(Clone, Debug)]
pub struct Received {
    /// Sequence of the message.
    pub sequence: u64,
    /// Epoch of its writer.
    pub epoch: u64,
    /// Position of its first record, or of the next record where it has none.
    pub first: u64,
    /// Number of later messages, as far as was known when it was sent.
    pub pending: u64,
    /// Name of the node, if the message begins its epoch.
    pub fence: Option<String>,
    /// Whether the message is void, since its writer was fenced before it came. It has no records then.
    pub is_void: bool,
    count: u32,
    content: Bytes,
}

impl Received {
    /// Returns the message's records, if it has any.
    #[must_use]
    pub fn records(&self) -> Option<Records<'_>> {
        Records::of(&self.content, self.count)
    }
}

/// Sequence of a message, the number of later ones, and its bytes.
type Sent = (u64, u64, Bytes);

/// Reads the stream; waits while the connection is lost.
pub struct Reader {
    connection: Arc<Connection>,
    messages: mpsc::Receiver<Sent>,
    task: JoinHandle<()>,
    tail: Tail,
    /// Sequence of the last message that was requested by its sequence.
    asked: u64,
    /// When a message was sent last, instead of requested by its sequence.
    sent: Instant,
    /// When the first message was requested successfully since then, or fetching began again.
    missed: Option<Instant>,
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
            asked: 0,
            sent: Instant::now(),
            missed: None,
        }
    }

    /// Whether no message was sent for a while, so that one that is in the stream has to be requested.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.sent.elapsed() > SILENCE_MAX
    }

    /// Returns the end of the messages read.
    #[must_use]
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Returns the next message; `None` when none came in this time. For a thread that may block.
    ///
    /// # Errors
    /// When the next message is not the expected one; nothing after it may be used.
    pub fn next(&mut self, within: Duration) -> Result<Option<Received>, StreamError> {
        let connection = Arc::clone(&self.connection);
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let next = connection.block(async { timeout(left, self.messages.recv()).await });
            let Ok(sent) = next else {
                return Ok(None);
            };
            // The task fetches for as long as there is a receiver.
            let Some((sequence, pending, payload)) = sent else {
                let what = "the task that reads the journal has failed, see the log".to_owned();
                return Err(StreamError::Refused { what });
            };
            // A message that was requested by its sequence comes once more.
            (self.sent, self.missed) = (Instant::now(), None);
            if sequence > self.asked {
                return self.checked(sequence, pending, payload).map(Some);
            }
        }
    }

    /// Requests the next message by its sequence, so that it does not depend on a server that sends messages and may
    /// hang. `None` when there is none, or no answer. For a thread that may block.
    ///
    /// # Errors
    /// The errors of [`Reader::next`].
    pub fn ask(&mut self) -> Result<Option<Received>, StreamError> {
        let sequence = self.tail.sequence + 1;
        let asked = self.connection.message_now(sequence);
        let payload = match self.connection.block(asked) {
            Ok(Some(payload)) => payload,
            Err(error) if error.is_damage() => return Err(error),
            Ok(None) | Err(_) => return Ok(None),
        };
        self.asked = sequence;
        let missed = *self.missed.get_or_insert_with(Instant::now);
        // The answer does not include the number of later messages.
        let received = self.checked(sequence, u64::MAX, payload)?;
        if missed.elapsed() > REFETCH_AFTER {
            self.fetch_again();
        }
        Ok(Some(received))
    }

    /// Requests messages by their sequences up to `last`, for a second at most and until one has no answer, and
    /// calls `apply` with each. For a thread that may block.
    ///
    /// # Errors
    /// The errors of [`Reader::next`] and of `apply`.
    pub fn ask_up_to<E: From<StreamError>>(
        &mut self,
        last: u64,
        mut apply: impl FnMut(&Received) -> Result<(), E>,
    ) -> Result<(), E> {
        let began = Instant::now();
        while self.tail.sequence < last && began.elapsed() < ASK_TIMEOUT {
            let Some(received) = self.ask()? else {
                break;
            };
            apply(&received)?;
        }
        Ok(())
    }

    /// Begins to fetch from the next message on: the server that has the consumer may hang, and another one may get the
    /// new one.
    fn fetch_again(&mut self) {
        let next = self.tail.sequence + 1;
        tracing::debug!(
            next,
            "reading the journal starts again, since no messages are sent"
        );
        let (sender, messages) = mpsc::channel(AHEAD);
        self.task.abort();
        let fetching = fetch(Arc::clone(&self.connection), next, sender);
        self.task = self.connection.handle().spawn(fetching);
        self.messages = messages;
        self.missed = Some(Instant::now());
    }

    fn checked(
        &mut self,
        sequence: u64,
        pending: u64,
        payload: Bytes,
    ) -> Result<Received, StreamError> {
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
        Ok(Received {
            sequence,
            epoch: message.epoch,
            first: message.first,
            pending,
            fence,
            is_void,
            count,
            content: payload.slice(HEAD_BYTES..payload.len() - DIGEST_BYTES),
        })
    }
}

impl Reader {
    /// Determines whether the missing messages were purged before they were read here.
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
            // Whether they were purged cannot be determined.
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
            tracing::debug!(%why, next, "reading the journal starts again");
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
            // A consumer that was created anew has started with the first message.
            return Ok(());
        }
        if sender
            .send((sequence, pending, message.payload.clone()))
            .await
            .is_err()
        {
            return Ok(());
        }
        // The receiver rejects a message that is not the next one.
        *next = sequence + 1;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stream::fake::Fake;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn unsent_messages_are_requested_and_skipped_if_they_arrive_later() {
        let fake = Fake::with_room(64 << 20);
        let link = fake.writer(1);
        let record = [1, 0, 0, 0, 9];
        for _ in 0..2 {
            let content = Content::Batch(Records::of(&record, 1).unwrap());
            let appended = link.connection().block(link.append(content));
            assert_eq!(appended, Ok(()));
        }
        // The fake server creates no consumers.
        let connection = fake.connection();
        let mut reader = Reader::after(&connection, Tail::beginning());
        let (sender, messages) = mpsc::channel(AHEAD);
        reader.task.abort();
        reader.messages = messages;
        assert!(reader.next(SOON).unwrap().is_none());
        let begins = reader.ask().unwrap().unwrap();
        assert_eq!(
            (begins.sequence, begins.fence),
            (1, Some("node".to_owned()))
        );
        let batch = reader.ask().unwrap().unwrap();
        assert_eq!((batch.sequence, batch.first), (2, 1));
        assert_eq!(batch.records().unwrap().iter().count(), 1);
        for (sequence, message) in (1..).zip(fake.kept.lock().messages.clone()) {
            sender.try_send((sequence, 0, message.into())).unwrap();
        }
        let last = reader.next(Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!((last.sequence, last.first), (3, 2));
        assert!(reader.next(SOON).unwrap().is_none());
        assert!(reader.ask().unwrap().is_none());
        assert_eq!(*reader.tail(), fake.tail());
    }

    /// Returns a time that lies back by more than `long`.
    fn before(long: Duration) -> Instant {
        let long = long + Duration::from_millis(10);
        Instant::now().checked_sub(long).unwrap()
    }

    /// Returns the sequences of what is asked for up to the end.
    fn asked(reader: &mut Reader, last: u64) -> Vec<u64> {
        let mut sequences = Vec::new();
        let all = reader.ask_up_to(last, |received| {
            sequences.push(received.sequence);
            Ok::<(), StreamError>(())
        });
        assert_eq!(all, Ok(()));
        sequences
    }

    #[test]
    fn a_reader_requests_messages_until_the_server_sends_one_unasked() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 4));
        let connection = fake.connection();
        let mut reader = Reader::after(&connection, Tail::beginning());
        let (sender, messages) = mpsc::channel(AHEAD);
        reader.task.abort();
        reader.messages = messages;
        assert!(!reader.is_silent());
        reader.sent = before(SILENCE_MAX);
        assert_eq!(asked(&mut reader, 2), [1, 2]);
        assert!(reader.is_silent(), "nothing was sent");
        assert_eq!(asked(&mut reader, 5), [3, 4, 5]);
        assert!(reader.is_silent(), "nothing was sent");
        // Even one that was read already shows that the server sends.
        let first = fake.kept.lock().messages[0].clone();
        sender.try_send((1, 0, first.into())).unwrap();
        assert!(reader.next(SOON).unwrap().is_none());
        assert!(!reader.is_silent());
        assert_eq!(reader.missed, None);
    }

    #[test]
    fn fetching_restarts_when_existing_messages_are_not_sent() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 4));
        let connection = fake.connection();
        let mut reader = Reader::after(&connection, Tail::beginning());
        let (sender, messages) = mpsc::channel(AHEAD);
        reader.messages = messages;
        assert_eq!(asked(&mut reader, 2), [1, 2]);
        assert!(!sender.is_closed(), "it may be sent yet");
        reader.missed = Some(before(REFETCH_AFTER));
        assert_eq!(asked(&mut reader, 4), [3, 4]);
        assert!(sender.is_closed(), "another one is created");
        let missed = reader.missed.unwrap();
        assert!(missed.elapsed() < REFETCH_AFTER, "once in a while");
    }
}
