//! The outbox: brings messages to the receivers that the operator has named for their topics.
//!
//! ```text
//! commit: the message is born ──durable──▶ queue of its receiver ──▶ attempt
//!     taken               ──▶ commit: taken            ──durable──▶ the next of that resource
//!     not taken           ──▶ commit: when it is tried next
//!     not at the last one ──▶ commit: dead             ──durable──▶ the next of that resource
//! ```
//!
//! Nothing leaves before the commit that it depends on is durable, so a receiver never gets a
//! message that a crash undoes. It may get a message twice: after a crash, or when its response was
//! late; it recognizes it by the message's identifier. Messages about one resource go to one
//! receiver in their order; resources and receivers do not wait for each other.
//!
//! A message whose topic has no receiver waits, and costs a state in the tables.

mod queue;
mod receivers;
mod unclaimed;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub(super) use self::queue::Next;
pub use self::receivers::{Delivery, NamedReceiver, OutgoingMessage, Pattern, Receiver};

use self::queue::Queue;
use self::unclaimed::Unclaimed;
use super::channel::schedule::CLOCK_STEP;
use super::channel::{Bounds, Now};
use crate::base::revision::Revision;
use crate::domain::outbox::message::Message;

/// The upper bounds of the buckets of attempts' durations, in milliseconds.
pub const ATTEMPT_BUCKETS: [u64; 8] = [5, 25, 100, 250, 1_000, 2_500, 5_000, 15_000];

/// The messages for one receiver, and its figures.
pub(super) struct ReceiverQueue {
    pub(super) to: NamedReceiver,
    pub(super) messages: Mutex<Queue>,
    /// Something has changed among the messages.
    pub(super) news: Notify,
    /// How many times shorter than the schedule pauses are: 1 but in tests.
    pub(super) hurry: u32,
    attempts: AtomicU64,
    taken: AtomicU64,
    /// The last one is for what took longer than every bound.
    durations: [AtomicU64; ATTEMPT_BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// The receivers, and what waits for them.
struct ReceiverQueues {
    queues: Vec<Arc<ReceiverQueue>>,
    has_receiver: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// Brings messages to receivers.
#[derive(Default)]
pub(crate) struct Outbox {
    queues: OnceLock<ReceiverQueues>,
    /// Messages that wait or are dead, and have no receiver.
    unclaimed: Unclaimed,
    /// A message has got another status.
    progress: Notify,
}

/// A receiver's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiverFigures {
    /// The topics that it is named for.
    pub name: String,
    /// Messages that wait for it.
    pub waiting: usize,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Messages that it has not taken at any attempt.
    pub dead: usize,
    /// The age of the oldest of all these.
    pub oldest_age: Duration,
    /// Attempts.
    pub attempts: u64,
    /// Attempts at which it took the message.
    pub taken: u64,
    /// Attempts by how long they took, in the buckets of [`ATTEMPT_BUCKETS`] and one beyond.
    pub durations: [u64; ATTEMPT_BUCKETS.len() + 1],
    /// How long they took in all.
    pub duration: Duration,
}

/// The outbox's figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboxFigures {
    /// Each receiver.
    pub receivers: Vec<ReceiverFigures>,
    /// Messages that wait or are dead, and have no receiver.
    pub unclaimed: u64,
}

impl Outbox {
    /// The receiver of the longest matching topic takes a message. To be called once, before the
    /// first command.
    pub(crate) fn deliver_to(&self, receivers: Vec<NamedReceiver>, bounds: Bounds) {
        let patterns: Vec<Pattern> = receivers.iter().map(|to| to.topics.clone()).collect();
        let queues = ReceiverQueues {
            queues: receivers
                .into_iter()
                .map(|to| Arc::new(ReceiverQueue::new(to, bounds)))
                .collect(),
            has_receiver: Box::new(move |topic| {
                patterns.iter().any(|pattern| pattern.matches(topic))
            }),
        };
        if self.queues.set(queues).is_err() {
            tracing::error!("the receivers are already set; the new ones are ignored");
        }
    }

    /// Whether a receiver is named for messages of a topic.
    pub(crate) fn has_receiver(&self) -> &dyn Fn(&str) -> bool {
        match self.queues.get() {
            Some(queues) => &*queues.has_receiver,
            None => &|_| false,
        }
    }

    /// The queues of all receivers.
    pub(super) fn queues(&self) -> &[Arc<ReceiverQueue>] {
        self.queues.get().map_or(&[], |queues| &queues.queues)
    }

    /// The queue of the receiver of a topic.
    pub(super) fn queue_of(&self, topic: &str) -> Option<&Arc<ReceiverQueue>> {
        let queues = self.queues.get()?.queues.iter();
        let matching = queues.filter(|queue| queue.to.topics.matches(topic));
        matching.max_by_key(|queue| queue.to.topics.length())
    }

    /// Takes a message from before the start as the commit at `position` has left it.
    pub(super) fn found(&self, position: u64, message: &Message, now: Now) {
        match self.queue_of(&message.topic) {
            Some(queue) => queue.put(position, message, now),
            None => self.unclaimed.found(message.number),
        }
    }

    /// Returns the number of messages that wait or are dead, and have no receiver.
    pub(super) fn unclaimed(&self) -> u64 {
        self.unclaimed.count()
    }

    /// The commit at `position` has left the message so.
    pub(crate) fn touched(&self, position: u64, message: &Message, now: Now) {
        if let Some(queue) = self.queue_of(&message.topic) {
            queue.put(position, message, now);
        } else {
            let is_born = message.revision == Revision::FIRST;
            match (is_born, message.unsettled.is_some()) {
                (true, true) => self.unclaimed.born(message.number),
                (false, false) => self.unclaimed.settled(message.number),
                // Dead or waiting, it has none; what the embedded directory did never had.
                (false, true) | (true, false) => {}
            }
        }
        if message.revision > Revision::FIRST {
            self.progress.notify_waiters();
        }
    }

    /// Has a message that waits show when it is really tried next: that is counted by the steady clock,
    /// and recorded by the wall clock, which may have been set since.
    pub(crate) fn show_due(&self, message: &mut Message, now: Now) {
        let Some(queue) = self.queue_of(&message.topic) else {
            return;
        };
        let unsettled = message.unsettled.as_mut();
        let pausing = unsettled.and_then(|unsettled| {
            let tried = unsettled.tried;
            unsettled.next_attempt_at.as_mut().map(|due| (due, tried))
        });
        if let Some((shown, tried)) = pausing
            && let Some(due) = queue.messages.lock().due(message.number, tried, now)
            && Duration::from_millis(due.millis().abs_diff(shown.millis())) >= CLOCK_STEP
        {
            *shown = due;
        }
    }

    /// The next time that a message gets another status.
    pub(crate) fn progress(&self) -> Notified<'_> {
        self.progress.notified()
    }

    /// Its figures.
    pub(crate) fn figures(&self, now: Now) -> OutboxFigures {
        OutboxFigures {
            receivers: self
                .queues()
                .iter()
                .map(|queue| queue.figures(now))
                .collect(),
            unclaimed: self.unclaimed(),
        }
    }
}

impl ReceiverQueue {
    fn new(to: NamedReceiver, bounds: Bounds) -> Self {
        Self {
            to,
            messages: Mutex::new(Queue::new(bounds)),
            news: Notify::new(),
            hurry: bounds.hurry,
            attempts: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            durations: Default::default(),
            micros: AtomicU64::new(0),
        }
    }

    /// Takes the message as the commit at `position` has left it.
    fn put(&self, position: u64, message: &Message, now: Now) {
        self.messages.lock().put(position, message, now);
        self.news.notify_one();
    }

    /// An attempt took so long.
    pub(super) fn count(&self, took: Duration, is_taken: bool) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = ATTEMPT_BUCKETS.partition_point(|bound| *bound < millis);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.durations[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.taken.fetch_add(u64::from(is_taken), Ordering::Relaxed);
    }

    fn figures(&self, now: Now) -> ReceiverFigures {
        let messages = self.messages.lock();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReceiverFigures {
            name: self.to.topics.to_string(),
            waiting: messages.waiting(),
            is_failing: messages.is_failing(),
            dead: messages.dead(),
            oldest_age: messages.oldest_age(now),
            attempts: count(&self.attempts),
            taken: count(&self.taken),
            durations: self.durations.each_ref().map(count),
            duration: Duration::from_micros(count(&self.micros)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::codec::Blob;
    use crate::base::time::Timestamp;
    use crate::domain::outbox::message::{About, Born, Failure, MessageEvent};
    use crate::domain::resource::Resource as _;

    fn birth(number: i64, body: Option<Blob>) -> MessageEvent {
        MessageEvent::Born(Box::new(Born {
            number,
            topic: "a.b".into(),
            resource: "a/1".into(),
            reference: None,
            log_id: [0; 16],
            body,
        }))
    }

    /// The count of messages without a receiver after these events of the one with this number.
    fn unclaimed(outbox: &Outbox, number: i64, body: Option<Blob>, events: &[MessageEvent]) -> u64 {
        let birth = birth(number, body);
        let now = Now {
            steady: Duration::ZERO,
            wall: Timestamp::default(),
            committed: Timestamp::default(),
        };
        let mut message = None;
        for (position, event) in (1..).zip([&birth].into_iter().chain(events)) {
            let next = Message::apply(message.take(), event, now.wall);
            outbox.touched(position, &next, now);
            message = Some(next);
        }
        outbox.figures(now).unclaimed
    }

    #[test]
    fn a_message_without_a_receiver_is_counted_until_settled_even_if_dead() {
        let dead = || MessageEvent::Dead {
            about: About::default(),
            failure: Failure {
                status: None,
                error: "it broke off".into(),
            },
        };
        let skipped = || MessageEvent::Skipped {
            about: About::default(),
            reason: "nobody needs it".into(),
        };
        let outbox = Outbox::default();
        let body = || Some(Blob(b"{}".to_vec()));
        assert_eq!(unclaimed(&outbox, 1, body(), &[]), 1);
        assert_eq!(unclaimed(&outbox, 2, body(), &[dead()]), 2);
        assert_eq!(
            unclaimed(&outbox, 3, body(), &[dead(), MessageEvent::Retried {}]),
            3
        );
        assert_eq!(unclaimed(&outbox, 4, body(), &[skipped()]), 3);
        assert_eq!(unclaimed(&outbox, 5, body(), &[dead(), skipped()]), 3);
        // The embedded directory has done at once what this one asked for.
        assert_eq!(unclaimed(&outbox, 6, None, &[]), 3);
    }

    /// A receiver that is asked nothing.
    struct Unasked;

    impl Receiver for Unasked {
        fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_message_shows_its_real_next_attempt_after_the_clock_was_set_back() {
        let outbox = Outbox::default();
        let receiver = NamedReceiver {
            topics: "a.*".parse().unwrap(),
            receiver: Arc::new(Unasked),
        };
        outbox.deliver_to(vec![receiver], Bounds::default());
        let day = 86_400_000;
        let failed = MessageEvent::Failed {
            next_attempt_at: Timestamp::from_millis(day + 5_000),
            failure: Failure {
                status: Some(503),
                error: "it answered 503".into(),
            },
        };
        let born = Message::apply(
            None,
            &birth(1, Some(Blob(b"{}".to_vec()))),
            Timestamp::default(),
        );
        let mut message = Message::apply(Some(born), &failed, Timestamp::from_millis(day));
        let now = Now {
            steady: Duration::ZERO,
            wall: Timestamp::default(),
            committed: Timestamp::from_millis(day),
        };
        outbox.touched(2, &message, now);
        outbox.show_due(&mut message, now);
        let shown = message.unsettled.unwrap().next_attempt_at;
        assert_eq!(shown, Some(Timestamp::from_millis(6_000)));
    }
}
