//! Pages of the feed: out of what readers near the end share, or of the log itself.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use wal::Appender;

use super::core::Shared;
use super::feed::{EventFilter, NoPage, Page, Recent};
use super::readings::Readings;
use crate::domain::event::Name;
use crate::journal::events::{Event, EventId, Teller};

/// Readers that are at most so many positions behind share what they read.
const NEAR: u64 = 4_096;
/// Bytes of records, and how many of them, that are looked at for one page.
const PAGE_BYTES_MAX: usize = 4 << 20;
const PAGE_RECORDS_MAX: u64 = 10_000;

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

    /// One event, by itself: nothing else of the log is read for it, and what a receiver that is
    /// down costs does not keep those who follow from their readings. `None` where the log has none
    /// of this identifier.
    pub(super) async fn event(&self, id: EventId) -> Result<Option<Event>, NoPage> {
        let first = self.journal.first();
        if id.position < first {
            return Err(gone(first));
        }
        let after = match id.number.checked_sub(1) {
            Some(number) => EventId { number, ..id },
            None => EventId::behind(id.position.saturating_sub(1)),
        };
        let wanted = Wanted {
            after,
            filter: Arc::default(),
        };
        let read = self.read_events(
            &self.feed.single_readings,
            id.position..=id.position,
            1,
            wanted,
        );
        let found = read.await?.events.into_iter().next();
        Ok(found.filter(|event| event.id == id))
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
            let positions = recent.upto.position + 1..=durable;
            let all = Wanted::default();
            let read = self.read_events(&self.feed.readings, positions, usize::MAX, all);
            match read.await {
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
        let read = self.read_events(&self.feed.readings, from..=durable, limit, wanted);
        let read = read.await?;
        let next = read.upto.max(after);
        Ok(Page {
            end: read.is_whole && next.position >= self.journal.durable(),
            events: read.events.into_iter().map(Arc::new).collect(),
            next,
            durable,
        })
    }

    /// Reads events of the log on a blocking thread, within the bound of readings.
    async fn read_events(
        &self,
        readings: &Readings,
        positions: RangeInclusive<u64>,
        limit: usize,
        wanted: Wanted,
    ) -> Result<Read, NoPage> {
        let (journal, teller) = (Arc::clone(&self.journal), Arc::clone(&self.feed.teller));
        let reading = move || read(&journal, &teller, positions, limit, &wanted);
        let read = readings.read(reading).await;
        read.unwrap_or(Err(NoPage::Unavailable))
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
    /// The last event that was examined; after a commit without events, its number is 0.
    upto: EventId,
    /// Whether all events of the last commit were examined.
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
    positions: RangeInclusive<u64>,
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
    let (from, last) = positions.into_inner();
    let upto = last.min(from.saturating_add(PAGE_RECORDS_MAX));
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
