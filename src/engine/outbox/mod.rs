//! The outbox: brings messages to the receivers that the operator has named for their topics.
//!
//! ```text
//! commit: the message is born ──durable──▶ queue of its receiver ──▶ attempt
//!     taken               ──▶ commit: taken            ──durable──▶ the next of that resource
//!     not taken           ──▶ commit: when it is tried next
//!     not at the last one ──▶ commit: dead             ──durable──▶ the next of that resource
//! ```
//!
//! Nothing leaves before the commit that it depends on is durable, so a receiver never hears of
//! what a crash takes away. It may get a message twice: after a crash, or when its response was
//! late; the message's identifier tells. Messages about one resource go to one receiver in their
//! order; resources and receivers do not wait for each other.
//!
//! A message whose topic has no receiver waits, and costs a state in the tables.

mod queue;
mod receivers;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub(super) use self::queue::Next;
pub use self::receivers::{Delivery, NamedReceiver, Outgoing, Pattern, Receiver};

use self::queue::Queue;
use super::channel::{Bounds, Now};
use crate::base::time::Instant;
use crate::domain::outbox::message::{Message, MessageStatus};

/// The upper bounds of the buckets of attempts' durations, in milliseconds.
pub const ATTEMPT_BUCKETS: [u64; 8] = [5, 25, 100, 250, 1_000, 2_500, 5_000, 15_000];

/// What there is for one receiver.
pub(super) struct Line {
    pub(super) to: NamedReceiver,
    pub(super) queue: Mutex<Queue>,
    /// Something has changed in the queue.
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
struct Lines {
    lines: Vec<Arc<Line>>,
    has_receiver: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// Brings messages to receivers.
#[derive(Default)]
pub(crate) struct Outbox {
    lines: OnceLock<Lines>,
    /// Messages that wait and have no receiver.
    pub(super) unclaimed: AtomicI64,
    /// A message has got another status.
    progress: Notify,
}

/// What is told of a receiver.
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
    /// Since when the oldest of all these is there.
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

/// What is told of the outbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboxFigures {
    /// Each receiver.
    pub receivers: Vec<ReceiverFigures>,
    /// Messages that wait and have no receiver.
    pub unclaimed: u64,
}

impl Outbox {
    /// The receiver of the longest matching topic takes a message. To be called once, before the
    /// first command.
    pub(crate) fn deliver_to(&self, receivers: Vec<NamedReceiver>, bounds: Bounds) {
        let patterns: Vec<Pattern> = receivers.iter().map(|to| to.topics.clone()).collect();
        let lines = Lines {
            lines: receivers
                .into_iter()
                .map(|to| Arc::new(Line::new(to, bounds)))
                .collect(),
            has_receiver: Box::new(move |topic| {
                patterns.iter().any(|pattern| pattern.matches(topic))
            }),
        };
        if self.lines.set(lines).is_err() {
            tracing::error!("the receivers were set before: those stay");
        }
    }

    /// Whether a receiver is named for messages of a topic.
    pub(crate) fn has_receiver(&self) -> &dyn Fn(&str) -> bool {
        match self.lines.get() {
            Some(lines) => &*lines.has_receiver,
            None => &|_| false,
        }
    }

    /// The receivers.
    pub(super) fn lines(&self) -> &[Arc<Line>] {
        self.lines.get().map_or(&[], |lines| &lines.lines)
    }

    /// What there is for the receiver of a topic.
    pub(super) fn line(&self, topic: &str) -> Option<&Arc<Line>> {
        let lines = self.lines.get()?.lines.iter();
        let matching = lines.filter(|line| line.to.topics.matches(topic));
        matching.max_by_key(|line| line.to.topics.length())
    }

    /// The commit at `position` has left the message so.
    pub(crate) fn touched(&self, position: u64, message: &Message, now: Now) {
        if let Some(line) = self.line(&message.topic) {
            line.queue.lock().put(position, message, now);
            line.news.notify_one();
        } else if message.status == MessageStatus::Waiting && message.revision.number() == 1 {
            self.unclaimed.fetch_add(1, Ordering::Relaxed);
        } else if message.status == MessageStatus::Skipped {
            self.unclaimed.fetch_sub(1, Ordering::Relaxed);
        }
        if message.revision.number() > 1 {
            self.progress.notify_waiters();
        }
    }

    /// The next time that a message gets another status.
    pub(crate) fn progress(&self) -> Notified<'_> {
        self.progress.notified()
    }

    /// What is told of it.
    pub(crate) fn figures(&self, now: Instant) -> OutboxFigures {
        OutboxFigures {
            receivers: self.lines().iter().map(|line| line.figures(now)).collect(),
            unclaimed: self.unclaimed.load(Ordering::Relaxed).max(0).unsigned_abs(),
        }
    }
}

impl Line {
    fn new(to: NamedReceiver, bounds: Bounds) -> Self {
        Self {
            to,
            queue: Mutex::new(Queue::new(bounds)),
            news: Notify::new(),
            hurry: bounds.hurry,
            attempts: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            durations: Default::default(),
            micros: AtomicU64::new(0),
        }
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

    fn figures(&self, now: Instant) -> ReceiverFigures {
        let queue = self.queue.lock();
        let age = queue
            .oldest()
            .map(|born| now.millis().saturating_sub(born.millis()));
        let age = age.and_then(|millis| u64::try_from(millis).ok());
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReceiverFigures {
            name: self.to.topics.to_string(),
            waiting: queue.waiting(),
            is_failing: queue.is_failing(),
            dead: queue.dead(),
            oldest_age: Duration::from_millis(age.unwrap_or_default()),
            attempts: count(&self.attempts),
            taken: count(&self.taken),
            durations: self.durations.each_ref().map(count),
            duration: Duration::from_micros(count(&self.micros)),
        }
    }
}
