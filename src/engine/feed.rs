//! The feed: what is committed, as public events, to whoever follows. An event is told once its
//! commit is durable.
//!
//! Readers ask for pages: what comes after an identifier. Those who are near the end share the
//! events of the last commits in memory, so that a thousand of them cost one reading of the log;
//! one that is behind reads the log itself, on a thread that no command waits for.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use wal::Appender;

use super::core::Shared;
use crate::base::digest::hex;
use crate::catalogue;
use crate::domain::event::Name;
use crate::journal::events::{Event, EventId, Teller};

/// Readers that are at most so many positions behind share what they read.
const NEAR: u64 = 4_096;
/// Bytes of events that are shared.
const SHARED_BYTES_MAX: usize = 8 << 20;
/// Bytes of records, and how many of them, that are looked at for one page.
const PAGE_BYTES_MAX: usize = 4 << 20;
const PAGE_RECORDS_MAX: u64 = 10_000;
/// The news once no more of them will come.
const ENDED: u64 = u64::MAX;

/// Which types of events are wanted: one, or all that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePattern {
    text: Box<str>,
    /// Whether more may follow.
    is_beginning: bool,
}

impl TypePattern {
    /// A type, or its beginning with `*` as the last character; `None` for a `*` elsewhere, or
    /// alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (text, is_beginning) = match text.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (text, false),
        };
        let text = Box::from(text);
        let pattern = Self { text, is_beginning };
        (!pattern.text.is_empty() && !pattern.text.contains('*')).then_some(pattern)
    }

    /// Whether events of this type are wanted.
    #[must_use]
    pub fn matches(&self, event_type: &str) -> bool {
        match self.is_beginning {
            true => event_type.starts_with(&*self.text),
            false => event_type == &*self.text,
        }
    }
}

/// Which events are wanted: all of a subject, where one is named, and of some types, where there
/// are patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The types.
    pub types: Vec<TypePattern>,
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
    /// The log cannot be read, or has ended.
    Unavailable,
}

/// What readers of the feed share.
pub struct Feed {
    log_id: Box<str>,
    teller: Arc<Teller>,
    /// The highest durable position.
    news: watch::Sender<u64>,
    recent: Mutex<Recent>,
}

/// The events of commits that follow each other.
#[derive(Default)]
struct Recent {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Their first position; nothing before it is here.
    from: u64,
    /// The last one that was looked at.
    upto: EventId,
}

impl Recent {
    /// From this position on, of which nothing was looked at yet.
    fn begin_at(&mut self, from: u64) {
        *self = Self {
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
    fn covers(&self, after: EventId) -> bool {
        self.from <= after.position.max(1)
    }

    fn push(&mut self, event: Event) {
        self.bytes += event.json.len();
        self.events.push_back(Arc::new(event));
    }

    /// Lets the oldest go.
    fn trim(&mut self) {
        while self.bytes > SHARED_BYTES_MAX
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
        }
    }

    /// Everything up to this position is durable.
    pub(super) fn durable(&self, position: u64) {
        self.news.send_modify(|news| *news = position.max(*news));
    }

    /// Nobody waits for more.
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

    /// Whether the feed has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.news.borrow() == ENDED
    }
}

impl Shared {
    /// At most `limit` of the events after `after` that are wanted.
    pub(super) async fn events(
        &self,
        after: EventId,
        filter: &Arc<EventFilter>,
        limit: usize,
    ) -> Result<Page, NoPage> {
        let durable = self.journal.durable();
        if after.position > durable {
            return Err(NoPage::Future);
        }
        let first = self.journal.first();
        // What is left of a commit that was given up is not known: it was read to its end.
        if after.position + 1 < first {
            return Err(gone(first));
        }
        if durable - after.position <= NEAR
            && let Some(page) = self.shared_page(after, filter, limit, durable).await
        {
            return page;
        }
        self.page_of_log(after, filter, limit, durable).await
    }

    /// The page out of what is shared, which is read on to the end; `None` for a reader who is
    /// behind it.
    async fn shared_page(
        &self,
        after: EventId,
        filter: &EventFilter,
        limit: usize,
        durable: u64,
    ) -> Option<Result<Page, NoPage>> {
        let mut recent = self.feed.recent.lock().await;
        if recent.from == 0 || recent.upto.position < after.position {
            recent.begin_at(after.position.max(self.journal.first()).max(1));
        } else if !recent.covers(after) {
            return None;
        }
        while recent.upto.position < durable {
            let from = recent.upto.position + 1;
            let read = self
                .read_events(from, durable, usize::MAX, Arc::default())
                .await;
            match read {
                Ok(read) => {
                    recent.upto = read.upto;
                    read.events.into_iter().for_each(|event| recent.push(event));
                }
                Err(why) => {
                    *recent = Recent::default();
                    return Some(Err(why));
                }
            }
        }
        recent.trim();
        let begin = recent.events.partition_point(|event| event.id <= after);
        let mut wanted = recent
            .events
            .range(begin..)
            .filter(|event| filter.wants(event.name, &event.subject));
        let events: Vec<_> = wanted.by_ref().take(limit).cloned().collect();
        let is_all = events.len() < limit || wanted.next().is_none();
        let next = match (is_all, events.last()) {
            (false, Some(last)) => last.id,
            _ => recent.upto.max(after),
        };
        Some(Ok(Page {
            end: is_all && recent.upto.position >= self.journal.durable(),
            events,
            next,
            durable,
        }))
    }

    async fn page_of_log(
        &self,
        after: EventId,
        filter: &Arc<EventFilter>,
        limit: usize,
        durable: u64,
    ) -> Result<Page, NoPage> {
        // The rest of the commit may be wanted, as long as it is kept.
        let from = after.position.max(self.journal.first());
        let wanted = Wanted {
            after,
            filter: Arc::clone(filter),
        };
        let read = self
            .read_events(from, durable, limit, Arc::new(wanted))
            .await?;
        Ok(Page {
            end: read.is_whole && read.upto.position >= self.journal.durable(),
            events: read.events.into_iter().map(Arc::new).collect(),
            next: read.upto.max(after),
            durable,
        })
    }

    /// Reads events of the log where nobody waits for the thread.
    async fn read_events(
        &self,
        from: u64,
        durable: u64,
        limit: usize,
        wanted: Arc<Wanted>,
    ) -> Result<Read, NoPage> {
        let (journal, teller) = (Arc::clone(&self.journal), Arc::clone(&self.feed.teller));
        let read = tokio::task::spawn_blocking(move || {
            read(&journal, &teller, from, durable, limit, &wanted)
        });
        read.await.unwrap_or(Err(NoPage::Unavailable))
    }
}

/// Which events a reading of the log gives.
#[derive(Default)]
struct Wanted {
    after: EventId,
    filter: Arc<EventFilter>,
}

/// What a reading of the log gave.
struct Read {
    events: Vec<Event>,
    /// The last event that was looked at; of a commit that tells nothing, its number is 0.
    upto: EventId,
    /// Whether all events of the last commit were looked at.
    is_whole: bool,
}

fn gone(first: u64) -> NoPage {
    let earliest = EventId {
        position: first,
        number: 0,
    };
    NoPage::Gone { earliest }
}

fn read(
    journal: &Appender,
    teller: &Teller,
    from: u64,
    durable: u64,
    limit: usize,
    wanted: &Wanted,
) -> Result<Read, NoPage> {
    let Wanted { after, filter } = wanted;
    let mut read = Read {
        events: Vec::new(),
        upto: EventId::NONE,
        is_whole: true,
    };
    let mut bytes = 0;
    let upto = durable.min(from.saturating_add(PAGE_RECORDS_MAX));
    let shown = journal.records(from, upto, &mut |record| {
        let position = record.position;
        // One that is wanted and has no place any more: its commit is looked at again.
        let left_over = std::cell::Cell::new(None);
        let taken = std::cell::Cell::new(read.events.len());
        let wants = |id: EventId, name: Name, subject: &str| {
            if id <= *after || left_over.get().is_some() || !filter.wants(name, subject) {
                return false;
            }
            if taken.get() >= limit {
                left_over.set(Some(id));
                return false;
            }
            taken.set(taken.get() + 1);
            true
        };
        let events = &mut read.events;
        let count = teller.tell(position, record.payload, &wants, &mut |event| {
            events.push(event)
        })?;
        if left_over.get().is_some() {
            read.is_whole = false;
            let last = read.events.last().map_or(EventId::NONE, |event| event.id);
            read.upto = read.upto.max(last);
            return Ok(ControlFlow::Break(()));
        }
        read.upto = EventId {
            position,
            number: count.saturating_sub(1),
        };
        bytes += record.payload.len();
        Ok(match bytes >= PAGE_BYTES_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    });
    match shown {
        Ok(_) => Ok(read),
        // What was read before is a page of its own.
        Err(wal::Error::Gone { .. }) if read.upto != EventId::NONE => Ok(read),
        Err(wal::Error::Gone { first, .. }) => Err(gone(first)),
        Err(error) => {
            tracing::error!(%error, "the log cannot be read for its events");
            Err(NoPage::Unavailable)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_type_or_its_beginning() {
        let matches = |pattern: &str, event_type| {
            TypePattern::parse(pattern).is_some_and(|pattern| pattern.matches(event_type))
        };
        assert!(matches(
            "carebook.branch.created",
            "carebook.branch.created"
        ));
        assert!(!matches(
            "carebook.branch.created",
            "carebook.branch.created2"
        ));
        assert!(matches("carebook.branch.*", "carebook.branch.created"));
        assert!(!matches("carebook.branch.*", "carebook.branches.created"));
        for bad in ["", "*", "a*b", "*a", "a**"] {
            assert_eq!(TypePattern::parse(bad), None, "{bad}");
        }
    }
}
