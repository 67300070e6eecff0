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

mod asked;
mod attempt;
mod queue;
mod receivers;

use std::any::Any;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub use self::receivers::{Delivery, NamedReceiver, Outgoing, Pattern, Receiver, Refused};

use self::queue::Queue;
use super::core::Shared;
use crate::base::time::Instant;
use crate::domain::operation::{Change, OutboxMessage};
use crate::domain::outbox::message::{Message, MessageStatus, born, numbers_near, unsettled_near};
use crate::domain::resource::ReadView;

/// The upper bounds of the buckets of attempts' durations, in milliseconds.
pub const ATTEMPT_BUCKETS: [u64; 8] = [5, 25, 100, 250, 1_000, 2_500, 5_000, 15_000];

/// The pauses between attempts, the first one after the first attempt. After one attempt more than
/// there are pauses a message is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(pub Vec<Duration>);

impl Default for Schedule {
    fn default() -> Self {
        const SECONDS: [u64; 9] = [
            5,
            30,
            2 * 60,
            10 * 60,
            30 * 60,
            2 * 3_600,
            5 * 3_600,
            10 * 3_600,
            14 * 3_600,
        ];
        Self(SECONDS.map(Duration::from_secs).into())
    }
}

impl Schedule {
    /// The pause after a message was tried so often, up to a fifth longer by chance, so that what
    /// failed together is not tried together; `None` when that was the last attempt.
    fn pause(&self, tried: u32) -> Option<Duration> {
        let index = usize::try_from(tried).ok()?.checked_sub(1)?;
        let pause = *self.0.get(index)?;
        let chance = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
        Some(pause + pause / 5 * chance / 255)
    }
}

/// What there is for one receiver.
struct Line {
    to: NamedReceiver,
    queue: Mutex<Queue>,
    news: Notify,
    attempts: AtomicU64,
    taken: AtomicU64,
    /// The last one is for what took longer than every bound.
    durations: [AtomicU64; ATTEMPT_BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// The receivers, and what waits for them.
struct Lines {
    lines: Vec<Arc<Line>>,
    schedule: Schedule,
    has_receiver: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// Brings messages to receivers.
#[derive(Default)]
pub(crate) struct Outbox {
    lines: OnceLock<Lines>,
    /// Messages that wait and have no receiver.
    unclaimed: AtomicI64,
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
    pub(crate) fn deliver_to(&self, receivers: Vec<NamedReceiver>, schedule: Schedule) {
        let patterns: Vec<Pattern> = receivers.iter().map(|to| to.topics.clone()).collect();
        let lines = Lines {
            lines: receivers
                .into_iter()
                .map(|to| Arc::new(Line::new(to)))
                .collect(),
            schedule,
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

    fn line(&self, topic: &str) -> Option<&Arc<Line>> {
        let lines = self.lines.get()?.lines.iter();
        let matching = lines.filter(|line| line.to.topics.matches(topic));
        matching.max_by_key(|line| line.to.topics.length())
    }

    fn schedule(&self) -> Schedule {
        let lines = self.lines.get();
        lines
            .map(|lines| lines.schedule.clone())
            .unwrap_or_default()
    }

    /// The commit at `position` has left the message so.
    pub(crate) fn touched(&self, position: u64, message: &Message) {
        if let Some(line) = self.line(&message.topic) {
            line.queue.lock().put(position, message);
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
        let lines = self.lines.get().map_or(&[][..], |lines| &lines.lines);
        OutboxFigures {
            receivers: lines.iter().map(|line| line.figures(now)).collect(),
            unclaimed: self.unclaimed.load(Ordering::Relaxed).max(0).unsigned_abs(),
        }
    }
}

impl Line {
    fn new(to: NamedReceiver) -> Self {
        Self {
            to,
            queue: Mutex::default(),
            news: Notify::new(),
            attempts: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            durations: Default::default(),
            micros: AtomicU64::new(0),
        }
    }

    fn count(&self, took: Duration, is_taken: bool) {
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
            dead: queue.dead(),
            oldest_age: Duration::from_millis(age.unwrap_or_default()),
            attempts: count(&self.attempts),
            taken: count(&self.taken),
            durations: self.durations.each_ref().map(count),
            duration: Duration::from_micros(count(&self.micros)),
        }
    }
}

impl Shared {
    /// The messages that a commit sends; what their births change is added to `changes`.
    pub(crate) fn born(
        &self,
        sent: &[OutboxMessage],
        at: Instant,
        changes: &mut Vec<Change>,
    ) -> Vec<Message> {
        let births = sent.iter().map(|message| born(message, self.log_id, at));
        let (messages, births): (Vec<_>, Vec<_>) = births.unzip();
        changes.extend(births);
        messages
    }

    /// The commit at `position` has sent these messages, and left its own resource so, which may be
    /// a message.
    pub(crate) fn touch(&self, position: u64, sent: &[Message], own: &(dyn Any + Send)) {
        for message in sent.iter().chain(own.downcast_ref::<Message>()) {
            self.outbox.touched(position, message);
        }
    }

    /// Queues what waits since before the start, and begins to deliver. To be called once, on a
    /// lane.
    pub(crate) fn start_deliveries(self: &Arc<Self>, last: i64) {
        let lines = self.outbox.lines.get();
        for line in lines.map_or(&[][..], |lines| &lines.lines) {
            let (shared, line) = (Arc::clone(self), Arc::clone(line));
            tokio::spawn(async move { shared.deliver(&line).await });
        }
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || shared.queue_unsettled(last));
    }

    /// Queues the messages up to the number `last` that were not settled when the log was opened.
    fn queue_unsettled(&self, last: i64) {
        let mut first = 0;
        while first <= last {
            let view = ReadView::new(&self.tables);
            let mut messages = view.all_listed_with_positions::<Message>(unsettled_near(first));
            messages.sort_unstable_by_key(|(message, _)| message.number);
            for (message, position) in messages {
                if message.number > last {
                    continue;
                }
                match self.outbox.line(&message.topic) {
                    Some(line) => {
                        line.queue.lock().put(position, &message);
                        line.news.notify_one();
                    }
                    None if message.status == MessageStatus::Waiting => {
                        self.outbox.unclaimed.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {}
                }
            }
            first = numbers_near(first).end;
        }
        let unclaimed = self.outbox.unclaimed.load(Ordering::Relaxed);
        if unclaimed > 0 {
            tracing::warn!(
                messages = unclaimed,
                "messages wait for receivers: none is named for their topics"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_those_of_the_schedule_and_up_to_a_fifth_longer() {
        let schedule = Schedule::default();
        let mut tried = 0;
        for seconds in [5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 50_400] {
            tried += 1;
            let pause = schedule.pause(tried);
            let whole = Duration::from_secs(seconds);
            assert!(
                pause.is_some_and(|pause| pause >= whole && pause <= whole / 5 * 6),
                "{pause:?} after {tried}"
            );
        }
        assert_eq!(schedule.pause(10), None, "that was the last attempt");
    }
}
