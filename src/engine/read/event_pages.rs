//! Pages of the feed: from the events shared by readers near the end, or from the log itself.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use wal::Appender;

use crate::domain::event::Name;
use crate::domain::event_id::EventId;
use crate::engine::core::Shared;
use crate::engine::feed::{EventFilter, EventReader, Feed, NoPage, Page, Recent};
use crate::engine::limits::fair_queue::QueueError;
use crate::journal::events::{Event, EventBuilder};

/// Maximum distance from the end, in positions, of readers that share what they read.
const NEAR: u64 = 4_096;
/// Maximum bytes of records examined for one page; `PAGE_RECORDS_MAX` limits their number.
const PAGE_BYTES_MAX: usize = 4 << 20;
const PAGE_RECORDS_MAX: u64 = 10_000;

impl Shared {
    /// Returns at most `limit` of the wanted events after `after`.
    pub(in crate::engine) async fn events(
        &self,
        reader: EventReader<'_>,
        after: EventId,
        filter: &Arc<EventFilter>,
        limit: usize,
    ) -> Result<Page, NoPage> {
        let durable = self.journal.durable();
        if after.position > durable {
            return Err(NoPage::Future);
        }
        let first = self.journal.first();
        // Whether a commit that was given up had further events is unknown: a reader within the last one goes on as if
        // it had none.
        if after.position + 1 < first {
            return Err(gone(first));
        }
        if durable - after.position <= NEAR
            && let Some(page) = self.shared_page(after, filter, limit, durable).await
        {
            return page;
        }
        self.page_of_log(reader, after, filter, limit, durable)
            .await
    }

    /// Reads a single event and nothing else of the log, so that the repeated deliveries of a receiver that is down
    /// do not take readings from readers that follow. `None` where the log has no event with this identifier.
    pub(in crate::engine) async fn event(&self, id: EventId) -> Result<Option<Event>, NoPage> {
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
            limit: 1,
            ..Wanted::default()
        };
        let reading = self.reading(id.position..=id.position, wanted);
        let read = self.feed.single_readings.read(reading).await;
        let read = read.unwrap_or(Err(NoPage::Unavailable))?;
        let found = read.events.into_iter().next();
        Ok(found.filter(|event| event.id == id))
    }

    /// Returns the page from the shared events, after reading on towards the end; `None` for a reader that is behind
    /// them, or will be once the next ones are there. All readers near the end wait for the lock on the shared
    /// events. So a reading under it waits only for readings of the end, and reads at most twice as much as may be
    /// shared.
    async fn shared_page(
        &self,
        after: EventId,
        filter: &EventFilter,
        limit: usize,
        durable: u64,
    ) -> Option<Result<Page, NoPage>> {
        let mut recent = self.feed.recent.lock().await;
        // The shared events start over where the next event is far back, or given up. They do not where a reader
        // begins ahead of them: the readers that follow them would then be behind.
        let is_given_up = recent.upto.position + 1 < self.journal.first();
        if recent.from == 0 || is_given_up || durable.saturating_sub(recent.upto.position) > NEAR {
            recent.begin_at(after.position.max(self.journal.first()).max(1));
        } else if !recent.covers(after) {
            return None;
        }
        let mut bytes = 0;
        while recent.upto.position < durable {
            if bytes >= recent.bytes_max {
                if recent.upto.position >= after.position {
                    break;
                }
                // The events in between exceed the maximum: readers that need them read the log.
                recent.begin_at(after.position);
                bytes = 0;
            }
            let positions = recent.upto.position + 1..=durable;
            let all = Wanted {
                bytes_max: recent.bytes_max / 2,
                ..Wanted::default()
            };
            let read = self
                .feed
                .end_readings
                .read(self.reading(positions, all))
                .await;
            match read.unwrap_or(Err(NoPage::Unavailable)) {
                Ok(read) => {
                    bytes += read.bytes;
                    recent.upto = read.upto;
                    read.events.into_iter().for_each(|event| recent.push(event));
                    recent.trim();
                    if !recent.covers(after) {
                        return None;
                    }
                }
                // The events were given up meanwhile, but this reader needs none of them.
                Err(NoPage::Gone { earliest }) if after.position + 1 >= earliest.position => {
                    recent.begin_at(after.position.max(earliest.position));
                }
                Err(why) => {
                    *recent = Recent::default();
                    return Some(Err(why));
                }
            }
        }
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
        reader: EventReader<'_>,
        after: EventId,
        filter: &Arc<EventFilter>,
        limit: usize,
        durable: u64,
    ) -> Result<Page, NoPage> {
        // More events of the commit may be wanted, as long as it is kept.
        let from = after.position.max(self.journal.first());
        let wanted = Wanted {
            after,
            filter: Arc::clone(filter),
            limit,
            ..Wanted::default()
        };
        let reading = self.reading(from..=durable, wanted);
        let read = self.feed.read_behind(reader, reading).await?;
        let next = read.upto.max(after);
        Ok(Page {
            end: read.is_whole && next.position >= self.journal.durable(),
            events: read.events.into_iter().map(Arc::new).collect(),
            next,
            durable,
        })
    }

    /// Returns a function that reads events of the log, for a thread where it may wait for the disk.
    fn reading(
        &self,
        positions: RangeInclusive<u64>,
        wanted: Wanted,
    ) -> impl FnOnce() -> Result<Read, NoPage> + Send + 'static + use<> {
        let (journal, builder) = (Arc::clone(&self.journal), Arc::clone(&self.feed.builder));
        move || read(&journal, &builder, positions, &wanted)
    }
}

impl Feed {
    /// Reads for a reader that is behind the shared events, when it is that reader's turn.
    async fn read_behind<T: Send + 'static>(
        &self,
        reader: EventReader<'_>,
        reading: impl FnOnce() -> Result<T, NoPage> + Send + 'static,
    ) -> Result<T, NoPage> {
        let readings = match reader {
            EventReader::Delivery => &self.delivery_readings,
            // Each webhook requests one page at a time, so that all are served in turn.
            EventReader::Webhook => &self.webhook_readings,
            EventReader::Client { subject, is_begun } => {
                return match self.catching_up.run(subject, is_begun, reading).await {
                    Ok(read) => read,
                    Err(QueueError::QueueFull) => Err(NoPage::QueueFull),
                    Err(QueueError::Failed) => Err(NoPage::Unavailable),
                };
            }
        };
        let read = readings.read(reading).await;
        read.unwrap_or(Err(NoPage::Unavailable))
    }
}

/// The events that a reading of the log returns.
struct Wanted {
    after: EventId,
    filter: Arc<EventFilter>,
    /// Maximum number of events.
    limit: usize,
    /// Bytes of records at which the reading ends, including the record that reaches it.
    bytes_max: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            after: EventId::NONE,
            filter: Arc::default(),
            limit: usize::MAX,
            bytes_max: PAGE_BYTES_MAX,
        }
    }
}

/// Result of a reading of the log.
struct Read {
    events: Vec<Event>,
    /// Bytes of the examined records.
    bytes: usize,
    /// The last examined event; after a commit without events, its number is 0.
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
    builder: &EventBuilder,
    positions: RangeInclusive<u64>,
    wanted: &Wanted,
) -> Result<Read, NoPage> {
    let Wanted { after, filter, .. } = wanted;
    let mut read = Read {
        events: Vec::new(),
        bytes: 0,
        upto: EventId::NONE,
        is_whole: true,
    };
    let (from, last) = positions.into_inner();
    let upto = last.min(from.saturating_add(PAGE_RECORDS_MAX));
    let shown = journal.records(from, upto, &mut |record| {
        let position = record.position;
        // The first wanted event without a place in the page: its commit is read again for the next page.
        let left_over = std::cell::Cell::new(None);
        let taken = std::cell::Cell::new(read.events.len());
        let wants = |id: EventId, name: Name, subject: &str| {
            if id <= *after || left_over.get().is_some() || !filter.wants(name, subject) {
                return false;
            }
            if taken.get() >= wanted.limit {
                left_over.set(Some(id));
                return false;
            }
            taken.set(taken.get() + 1);
            true
        };
        let events = &mut read.events;
        let count = builder.tell(position, record.payload, &wants, &mut |event| {
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
        // The commit that is read again for its remaining events must not end the reading by itself.
        if position > after.position {
            read.bytes += record.payload.len();
        }
        Ok(match read.bytes >= wanted.bytes_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    });
    match shown {
        Ok(_) => Ok(read),
        // The events read before the gap make up a page of their own.
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
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::sync::mpsc;
    use std::task::Poll;
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;
    use crate::cli::runtime::on_lane;
    use crate::domain::reference::samples;
    use crate::engine::Engine;
    use crate::engine::feed::CATCHING_UP_MAX;
    use crate::engine::sample::{engine, put, put_fact};

    const MANY: EventReader<'static> = EventReader::Client {
        subject: "many",
        is_begun: false,
    };
    const FEW: EventReader<'static> = EventReader::Client {
        subject: "few",
        is_begun: false,
    };
    const OTHER: EventReader<'static> = EventReader::Client {
        subject: "other",
        is_begun: true,
    };
    /// Timeout for what is expected to happen at once.
    const NEVER: Duration = Duration::from_secs(60);

    /// Polls the future once; `None` when it is not ready.
    async fn at_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let looked = poll_fn(|context| match Pin::new(&mut *future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        });
        looked.await
    }

    /// Takes all readings for clients that are behind; each is released once its sender is dropped.
    async fn all_turns(feed: &Feed) -> Vec<mpsc::Sender<()>> {
        let mut held = Vec::new();
        for _ in 0..CATCHING_UP_MAX {
            let (end, may_end) = mpsc::channel::<()>();
            let reading = move || {
                let _ = may_end.recv();
                Ok(())
            };
            let mut one = pin!(feed.read_behind(OTHER, reading));
            assert!(at_once(&mut one).await.is_none());
            held.push(end);
        }
        held
    }

    /// Returns a page that must not wait for readers that are behind.
    async fn page(engine: &Engine, reader: EventReader<'_>, after: EventId) -> Page {
        let filter = Arc::default();
        let page = engine.events(reader, after, &filter, 100);
        let page = timeout(NEVER, page).await;
        page.expect("it waits for who is behind").unwrap()
    }

    #[test]
    fn a_reader_that_is_behind_delays_neither_those_at_the_end_nor_deliveries() {
        let engine = engine();
        let work = async {
            for revision in 1..=3 {
                put_fact(&engine, revision).await;
            }
            let last = engine.durable();
            let held = all_turns(engine.feed()).await;
            let at_end = page(&engine, MANY, EventId::behind(last - 1)).await;
            assert!(at_end.end && !at_end.events.is_empty());
            // This page needs a reading of its own, and none is free.
            let filter = Arc::default();
            let mut behind = pin!(engine.events(MANY, EventId::NONE, &filter, 100));
            assert!(at_once(&mut behind).await.is_none());
            put_fact(&engine, 4).await;
            let at_end = page(&engine, MANY, at_end.next).await;
            assert!(at_end.end && !at_end.events.is_empty());
            let delivered = page(&engine, EventReader::Delivery, EventId::NONE).await;
            assert_eq!(delivered.next.position, engine.durable());
            let webhook = page(&engine, EventReader::Webhook, EventId::NONE).await;
            assert_eq!(webhook.next.position, engine.durable());
            assert!(at_once(&mut behind).await.is_none());
            drop(held);
            let caught_up = behind.await.unwrap();
            assert_eq!(caught_up.next.position, last);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_reader_that_starts_at_the_end_takes_no_events_from_those_following() {
        let engine = engine();
        let work = async {
            put_fact(&engine, 1).await;
            let before = EventId::behind(engine.durable());
            put_fact(&engine, 2).await;
            let _held = all_turns(engine.feed()).await;
            let first = page(&engine, FEW, before).await;
            put_fact(&engine, 3).await;
            put_fact(&engine, 4).await;
            let other = page(&engine, MANY, EventId::behind(engine.durable())).await;
            assert!(other.end && other.events.is_empty());
            let next = page(&engine, FEW, first.next).await;
            assert!(next.end && next.events.len() > 1);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    /// Reads all events after `after`, page by page.
    async fn followed(engine: &Engine, reader: EventReader<'_>, after: EventId) -> Vec<EventId> {
        let (mut ids, mut next) = (Vec::new(), after);
        loop {
            let page = page(engine, reader, next).await;
            assert!(page.next > next || page.end, "it comes no further");
            ids.extend(page.events.iter().map(|event| event.id));
            next = page.next;
            if page.end {
                return ids;
            }
        }
    }

    #[test]
    fn events_with_no_room_among_the_shared_ones_still_reach_every_reader() {
        let engine = engine();
        let work = async {
            put_fact(&engine, 1).await;
            let after = EventId::behind(engine.durable());
            for revision in 2..=41 {
                put_fact(&engine, revision).await;
            }
            let near_end = EventId::behind(engine.durable() - 1);
            let all = followed(&engine, EventReader::Delivery, after).await;
            assert_eq!(all.len(), 40);
            let bytes = engine.feed().recent.lock().await.bytes();
            // From room for all of them to room for less than one.
            for share in [1, 2, 3, 7, 20, 60] {
                for reader in [MANY, EventReader::Delivery, EventReader::Webhook] {
                    for (from, begin) in [(0, after), (1, after), (1, near_end)] {
                        let mut recent = engine.feed().recent.lock().await;
                        *recent = Recent::default();
                        recent.bytes_max = bytes / share;
                        // Either nothing was read since the start, or the events before `after` are missing.
                        if from > 0 {
                            recent.begin_at(after.position);
                        }
                        drop(recent);
                        let ids = followed(&engine, reader, begin).await;
                        let expected = all.iter().filter(|id| **id > begin);
                        assert!(expected.eq(&ids), "{share} {reader:?} {from}: {ids:?}");
                        let recent = engine.feed().recent.lock().await;
                        assert!(recent.bytes() <= recent.bytes_max);
                    }
                }
            }
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    /// Applies a fact whose record has 4 KiB and more, though its event is small.
    async fn put_large(engine: &Engine, revision: u32) {
        let mut lines = samples::NDJSON
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let large = |fact: &Value| fact["kind"] == "final-review-projection";
        let mut fact: Value = lines.find(large).unwrap();
        fact["revision"] = revision.into();
        fact["facts"]["reviewedFacts"] = json!({"said": "x".repeat(4_096)});
        put(engine, &fact.to_string()).await;
    }

    #[test]
    fn a_reader_at_the_end_waits_for_no_more_than_the_shared_events_have_room() {
        let engine = engine();
        let work = async {
            put_fact(&engine, 1).await;
            let after = EventId::behind(engine.durable());
            for revision in 1..=40 {
                put_large(&engine, revision).await;
            }
            let ids = followed(&engine, MANY, after).await;
            let mut recent = engine.feed().recent.lock().await;
            // All events have room; only their records are large.
            assert!(ids.len() == 40 && recent.bytes() < 30_000);
            recent.bytes_max = 30_000;
            recent.begin_at(after.position);
            drop(recent);
            let first = page(&engine, MANY, after).await;
            assert_eq!(first.next.position, after.position + 8);
            assert!(!first.end && first.events.len() == 8);
            assert_eq!(followed(&engine, MANY, after).await, ids);
            engine.feed().recent.lock().await.begin_at(after.position);
            let last = EventId::behind(engine.durable() - 1);
            let at_end = page(&engine, FEW, last).await;
            assert!(at_end.end && at_end.events.len() == 1);
            // The events in between were skipped.
            assert_eq!(engine.feed().recent.lock().await.from, last.position);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_reading_goes_on_behind_a_commit_that_is_larger_than_a_page() {
        let engine = engine();
        let work = async {
            for revision in 1..=2 {
                put_large(&engine, revision).await;
            }
            let last = engine.durable();
            let after = EventId::behind(last - 1);
            let wanted = Wanted {
                after,
                bytes_max: 1,
                ..Wanted::default()
            };
            let reading = engine.shared.reading(after.position..=last, wanted);
            let read = reading().unwrap_or_else(|why| panic!("{why:?}"));
            assert_eq!((read.events.len(), read.upto.position), (1, last));
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    #[tokio::test]
    async fn a_subject_with_many_readers_behind_delays_another_one_by_one_reading() {
        let feed = Arc::new(Feed::new([0; 16]));
        let mut held = all_turns(&feed).await;
        let (told, order) = mpsc::channel();
        let mut asked = Vec::new();
        let many = (0..5).map(|number| ("many", number, MANY));
        let others = (0..2).map(|number| ("other", number, OTHER));
        for (name, number, reader) in many.chain([("few", 0, FEW)]).chain(others) {
            let (own, told) = (Arc::clone(&feed), told.clone());
            let reading = move || {
                told.send((name, number)).unwrap();
                Ok(())
            };
            let mut one = Box::pin(async move { own.read_behind(reader, reading).await });
            assert!(at_once(&mut one).await.is_none());
            asked.push(one);
        }
        let mut asked: JoinSet<_> = asked.into_iter().collect();
        held.truncate(1);
        while let Some(read) = asked.join_next().await {
            assert_eq!(read.unwrap(), Ok(()));
        }
        let order: Vec<_> = order.try_iter().collect();
        let expected = [
            ("many", 0),
            ("few", 0),
            ("other", 0),
            ("many", 1),
            ("other", 1),
            ("many", 2),
            ("many", 3),
            ("many", 4),
        ];
        assert_eq!(order, expected);
    }

    #[tokio::test]
    async fn a_subject_over_its_bound_is_refused_others_and_begun_reads_are_not() {
        let feed = Feed::new([0; 16]);
        let held = all_turns(&feed).await;
        let (mut asked, mut refused) = (Vec::new(), None);
        while refused.is_none() && asked.len() < 10_000 {
            let mut one = Box::pin(feed.read_behind(MANY, || Ok(())));
            refused = at_once(&mut one).await;
            asked.push(one);
        }
        assert_eq!(refused, Some(Err(NoPage::QueueFull)));
        let begun = EventReader::Client {
            subject: "many",
            is_begun: true,
        };
        for reader in [begun, FEW] {
            let mut one = Box::pin(feed.read_behind(reader, || Ok(())));
            assert_eq!(at_once(&mut one).await, None);
        }
        drop((asked, held));
        // The request has its turn once the readers that have gone are skipped.
        assert_eq!(feed.read_behind(begun, || Ok(6)).await, Ok(6));
        assert_eq!(feed.read_behind(MANY, || Ok(7)).await, Ok(7));
    }
}
