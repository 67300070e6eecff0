//! The feed: committed changes as public events, for readers that follow the log. An event is handed out once its
//! commit is durable.
//!
//! Readers request pages: the events after an identifier. Readers near the end share the events of the last commits
//! in memory, so that a thousand of them cost one reading of the log. A reader that is behind reads the log itself,
//! on a thread that no command waits for. However many are behind, they delay neither those near the end nor
//! deliveries, since each kind of reader has readings of its own. Clients that are behind take turns by their
//! subjects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::limits::fair_queue::FairQueue;
use super::limits::readings::Readings;
use crate::base::hex::hex;
use crate::base::text::EventTypePattern;
use crate::catalogue;
use crate::domain::event::Name;
use crate::domain::event_id::EventId;
use crate::journal::events::{Event, EventBuilder};
use tokio::sync::{Mutex, watch};

/// Maximum bytes of the events shared in memory.
const SHARED_BYTES_MAX: usize = 8 << 20;
/// Maximum concurrent readings of the log's end, whose result all readers near it share. Each reading of any kind
/// holds a thread and a window of a segment.
const END_READINGS_MAX: usize = 1;
/// Maximum concurrent readings for NATS and for all webhooks near the end, where they are behind the shared events.
const DELIVERY_READINGS_MAX: usize = 1;
/// Maximum concurrent readings for webhooks that are behind, each of one page.
const WEBHOOK_READINGS_MAX: usize = 1;
/// Maximum concurrent readings for clients that are behind; more would not be faster.
pub(super) const CATCHING_UP_MAX: usize = 2;
/// Maximum concurrent readings of single events, each of one record.
const SINGLE_READINGS_MAX: usize = 2;
/// Value of `news` after the end of the feed.
const ENDED: u64 = u64::MAX;

/// Selects events: those of one subject, where one is named, and of some types, where there are patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Patterns of the wanted types; empty: all types.
    pub types: Vec<EventTypePattern>,
    /// The wanted subject; `None`: all subjects.
    pub subject: Option<Box<str>>,
}

impl EventFilter {
    /// Whether an event of this name and subject is wanted.
    #[must_use]
    pub fn wants(&self, name: Name, subject: &str) -> bool {
        if self.subject.as_deref().is_some_and(|only| only != subject) {
            return false;
        }
        let is_type = || {
            let event_type = name.event_type();
            self.types
                .iter()
                .any(|pattern| pattern.matches(&event_type))
        };
        self.types.is_empty() || is_type()
    }
}

/// The reader of a page, which determines the queue in which it waits where the log is read for it alone.
#[derive(Clone, Copy, Debug)]
pub enum EventReader<'s> {
    /// The publisher, or the reader that feeds all webhooks near the end of the log: neither waits for any other
    /// reader.
    Delivery,
    /// A webhook that is behind: such webhooks wait for each other.
    Webhook,
    /// A client.
    Client {
        /// The actor's subject.
        subject: &'s str,
        /// Whether the client continues after an earlier page: then it is never refused.
        is_begun: bool,
    },
}

/// Some events, in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The wanted events.
    pub events: Vec<Arc<Event>>,
    /// The last event examined, wanted or not: where the next page begins.
    pub next: EventId,
    /// Whether no durable event follows `next`.
    pub end: bool,
    /// The highest durable position when the page was made.
    pub durable: u64,
}

/// Why there is no page.
#[derive(Debug, PartialEq, Eq)]
pub enum NoPage {
    /// Events after the identifier are no longer kept.
    Gone {
        /// The earliest identifier that may still be kept.
        earliest: EventId,
    },
    /// The identifier lies beyond the last durable commit.
    Future,
    /// The reader is refused: too many of this client's subject, or of all subjects, wait for a reading.
    QueueFull,
    /// The log cannot be read, or has ended.
    Unavailable,
}

/// State that the readers of the feed share.
pub struct Feed {
    log_id: Box<str>,
    pub(super) builder: Arc<EventBuilder>,
    /// The highest durable position.
    news: watch::Sender<u64>,
    pub(super) recent: Mutex<Recent>,
    /// Limits readings of the log's end, which is shared.
    pub(super) end_readings: Readings,
    /// Limits readings for deliveries that are behind the shared events.
    pub(super) delivery_readings: Readings,
    /// Limits readings for webhooks that are behind.
    pub(super) webhook_readings: Readings,
    /// Limits readings for clients that are behind.
    pub(super) catching_up: Arc<FairQueue>,
    /// Limits readings of single events that are delivered once more.
    pub(super) single_readings: Readings,
}

/// The events of consecutive commits.
pub(super) struct Recent {
    pub(super) events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Maximum bytes of the events.
    pub(super) bytes_max: usize,
    /// The first position covered; no earlier event is here.
    pub(super) from: u64,
    /// The last event examined.
    pub(super) upto: EventId,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            bytes_max: SHARED_BYTES_MAX,
            from: 0,
            upto: EventId::NONE,
        }
    }
}

impl Recent {
    /// Starts over at this position, none of whose events was examined yet.
    pub(super) fn begin_at(&mut self, from: u64) {
        *self = Self {
            bytes_max: self.bytes_max,
            from,
            upto: EventId {
                position: from - 1,
                number: 0,
            },
            ..Self::default()
        };
    }

    /// Whether all examined events after this identifier are here. More events of the identifier's own commit may be
    /// wanted, so that commit counts as well.
    pub(super) fn covers(&self, after: EventId) -> bool {
        self.from <= after.position.max(1)
    }

    /// Returns the bytes of the events.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.json.len();
        self.events.push_back(Arc::new(event));
    }

    /// Drops the oldest events beyond the maximum, commit by commit.
    pub(super) fn trim(&mut self) {
        while self.bytes > self.bytes_max
            && let Some(gone) = self.events.pop_front()
        {
            self.bytes -= gone.json.len();
            self.from = gone.id.position + 1;
            while let Some(same) = self.events.front()
                && same.id.position < self.from
            {
                self.bytes -= same.json.len();
                self.events.pop_front();
            }
        }
    }
}

impl Feed {
    /// Creates the feed of the log with this identity.
    pub(super) fn new(log_id: [u8; 16]) -> Self {
        let log_id = hex(&log_id);
        Self {
            builder: Arc::new(EventBuilder::new(&log_id, catalogue::resource)),
            log_id: log_id.into(),
            news: watch::Sender::new(0),
            recent: Mutex::default(),
            end_readings: Readings::new(END_READINGS_MAX),
            delivery_readings: Readings::new(DELIVERY_READINGS_MAX),
            webhook_readings: Readings::new(WEBHOOK_READINGS_MAX),
            catching_up: FairQueue::new(CATCHING_UP_MAX),
            single_readings: Readings::new(SINGLE_READINGS_MAX),
        }
    }

    /// Records that everything up to this position is durable.
    pub(super) fn durable(&self, position: u64) {
        self.news.send_modify(|news| *news = position.max(*news));
    }

    /// Ends the feed: no reader waits for more.
    pub(super) fn end(&self) {
        self.news.send_replace(ENDED);
    }

    /// Waits until a position beyond this one is durable; returns whether more may come.
    pub async fn beyond(&self, position: u64) -> bool {
        let mut news = self.news.subscribe();
        let news = news.wait_for(|durable| *durable > position).await;
        news.is_ok_and(|durable| *durable != ENDED)
    }

    /// Returns the identity of the log: an event's identifier is unique only within its log.
    #[must_use]
    pub fn log_id(&self) -> &str {
        &self.log_id
    }

    /// Waits until the feed has ended.
    pub async fn ended(&self) {
        while self.beyond(ENDED - 1).await {}
    }

    /// Waits until this long after the end of the feed: for work to which a stop grants a little time.
    pub async fn ended_for(&self, long: Duration) {
        self.ended().await;
        tokio::time::sleep(long).await;
    }

    /// Whether the feed has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.news.borrow() == ENDED
    }
}
