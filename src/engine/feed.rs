//! The feed: what is committed, as public events, for readers that follow. An event is given out
//! once its commit is durable.
//!
//! Readers ask for pages: what comes after an identifier. Those who are near the end share the
//! events of the last commits in memory, so that a thousand of them cost one reading of the log;
//! one that is behind reads the log itself, on a thread that no command waits for. However many are
//! behind, they delay neither those near the end nor what is delivered: the readings of each kind
//! have room of their own. Clients who are behind take turns by their subjects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::limits::fair_queue::FairQueue;
use super::limits::readings::Readings;
use crate::base::hex::hex;
use crate::base::text::EventTypePattern;
use crate::catalogue;
use crate::domain::event::Name;
use crate::journal::events::{Event, EventId, Teller};
use tokio::sync::{Mutex, watch};

/// Bytes of events that are shared.
const SHARED_BYTES_MAX: usize = 8 << 20;
/// Readings of the log's end that are under way at once, for all who share it: they wait for the same
/// one. Each reading of any kind holds a thread and a window of a segment.
const END_READINGS_MAX: usize = 1;
/// Readings at once for NATS and for all webhooks near the end, where they are behind what is shared.
const DELIVERY_READINGS_MAX: usize = 1;
/// Readings at once for webhooks that are behind, each with a page at a time.
const WEBHOOK_READINGS_MAX: usize = 1;
/// Readings at once for clients who are behind; more of them are not done sooner.
pub(super) const CATCHING_UP_MAX: usize = 2;
/// Readings at once of single events, each of one record.
const SINGLE_READINGS_MAX: usize = 2;
/// The news once no more of them will come.
const ENDED: u64 = u64::MAX;

/// Which events are wanted: all of a subject, where one is named, and of some types, where there
/// are patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The types.
    pub types: Vec<EventTypePattern>,
    /// The subject.
    pub subject: Option<Box<str>>,
}

impl EventFilter {
    /// Whether such an event is wanted.
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

/// Who asks for a page, which says for whom it waits where the log has to be read for it alone.
#[derive(Clone, Copy, Debug)]
pub enum EventReader<'s> {
    /// The publisher, or what feeds all webhooks that are near the end of the log: neither waits for
    /// any other reader.
    Delivery,
    /// A webhook that is behind: those wait for each other.
    Webhook,
    /// A client.
    Client {
        /// The actor's subject.
        subject: &'s str,
        /// Whether it goes on with what it was given before: then it is never refused.
        is_begun: bool,
    },
}

/// Some events, in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Those that are wanted.
    pub events: Vec<Arc<Event>>,
    /// The last one that was looked at, wanted or not: where to go on.
    pub next: EventId,
    /// Whether nothing durable lies behind it.
    pub end: bool,
    /// The highest durable position when it was made.
    pub durable: u64,
}

/// Why there is no page.
#[derive(Debug, PartialEq, Eq)]
pub enum NoPage {
    /// Events after the identifier are no longer kept.
    Gone {
        /// The earliest that may be.
        earliest: EventId,
    },
    /// The identifier lies beyond the last durable commit.
    Future,
    /// So many of this client's subject, or of all, wait for a reading already that this one is
    /// refused.
    QueueFull,
    /// The log cannot be read, or has ended.
    Unavailable,
}

/// What readers of the feed share.
pub struct Feed {
    log_id: Box<str>,
    pub(super) teller: Arc<Teller>,
    /// The highest durable position.
    news: watch::Sender<u64>,
    pub(super) recent: Mutex<Recent>,
    /// Readings of the log's end, which is shared.
    pub(super) end_readings: Readings,
    /// Those for what is delivered, where it is behind that.
    pub(super) delivery_readings: Readings,
    /// Those for webhooks that are behind.
    pub(super) webhook_readings: Readings,
    /// Those for clients who are behind.
    pub(super) catching_up: Arc<FairQueue>,
    /// Those of single events, which are delivered once more.
    pub(super) single_readings: Readings,
}

/// The events of commits that follow each other.
pub(super) struct Recent {
    pub(super) events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The bytes of events that there is room for.
    pub(super) bytes_max: usize,
    /// Their first position; nothing before it is here.
    pub(super) from: u64,
    /// The last one that was examined.
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
    /// Begins anew at this position, of which no event was examined yet.
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

    /// Whether all that comes after this identifier is here, as far as it was looked at. Of its own
    /// commit more may be wanted.
    pub(super) fn covers(&self, after: EventId) -> bool {
        self.from <= after.position.max(1)
    }

    /// The bytes of the events.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.json.len();
        self.events.push_back(Arc::new(event));
    }

    /// Lets the oldest go.
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
    /// The feed of the log with this identity.
    pub(super) fn new(log_id: [u8; 16]) -> Self {
        let log_id = hex(&log_id);
        Self {
            teller: Arc::new(Teller::new(&log_id, catalogue::resource)),
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

    /// Everything up to this position is durable.
    pub(super) fn durable(&self, position: u64) {
        self.news.send_modify(|news| *news = position.max(*news));
    }

    /// Ends the feed: no reader waits for more.
    pub(super) fn end(&self) {
        self.news.send_replace(ENDED);
    }

    /// Waits until something beyond this position is durable; whether more may come.
    pub async fn beyond(&self, position: u64) -> bool {
        let mut news = self.news.subscribe();
        let news = news.wait_for(|durable| *durable > position).await;
        news.is_ok_and(|durable| *durable != ENDED)
    }

    /// The identity of the log: an event's identifier names it within its log alone.
    #[must_use]
    pub fn log_id(&self) -> &str {
        &self.log_id
    }

    /// Waits until the feed has ended.
    pub async fn ended(&self) {
        while self.beyond(ENDED - 1).await {}
    }

    /// Waits until the feed has ended so long ago: for what a stop gives a little time.
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
