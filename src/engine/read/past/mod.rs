//! Histories and past states: what a read gave at earlier commits, rebuilt from the log.
//!
//! An actor that may read the resource now may read its past; an old body is rendered by the same
//! read, on all state as of its position. The log is read on blocking threads, few at a time, and a
//! long way back in pieces, so that short requests have their turn between.

mod history_cursors;
mod log;
mod look;
mod page;
mod query;
mod revisions;

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use self::history_cursors::{HistoryCursors, PIECE};
use self::log::LogRecords;
use self::look::Look;
pub use self::page::HistoryEntry;
use self::query::Stop;
pub use self::query::{HistoryPage, PastFound, PastQuery};
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::{self, ReadRow};
use crate::domain::read::{HistorySource, Numbered};
use crate::domain::rejection::Rejection;
use crate::domain::resource::{ReadView, Resource};
use crate::engine::Engine;
use crate::engine::core::{CommandResult, Shared};
use crate::engine::limits::fair_queue::QueueError;
use crate::journal::past::{AsOf, Descent, KnownLists, Lost, Past, Wanted};

/// How often a page goes on where nothing was to be shown.
const ROUNDS_MAX: usize = 16;

/// Why there is nothing to show.
#[derive(Debug)]
pub enum NoPast {
    /// The log no longer has it.
    Gone {
        /// The position that this rests on.
        position: u64,
    },
    /// The place to go on from is not one of this history.
    NoSuchPlace,
    /// As with any read.
    Answered(CommandResult),
}

impl Shared {
    /// Answers a query for the past of the resource that `row` reads; the position is the one that the response
    /// depends on.
    async fn past(
        self: &Arc<Self>,
        row: &'static ReadRow,
        history: HistorySource,
        actor: &Arc<Actor>,
        path: &[(&str, &str)],
        query: PastQuery,
    ) -> Result<(PastFound, u64), NoPast> {
        // Who may read now, and what there is now.
        let present = self.read(row.read, actor, path).await;
        let (present, position) = present.map_err(NoPast::Answered)?;
        let now = self.clock.now();
        if matches!(query, PastQuery::At(time) if time >= now) {
            return Ok((PastFound::Body(present), position));
        }
        // It may be large, and thousands may wait for their look.
        drop(present.body);
        let path = path.iter();
        let look = Look {
            shared: Arc::clone(self),
            row,
            history,
            actor: Arc::clone(actor),
            path: path
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            is_begun: false,
            keys: Vec::new(),
            upto: self.journal.durable().max(position),
            present: present.tag,
            now,
            at: None,
            begin: None,
            cursors: HistoryCursors::default(),
            lists: KnownLists::default(),
            instead: (None, 0),
        };
        let position = look.upto;
        let piece = move |mut look: Look| match look.at(query) {
            Ok(None) => ControlFlow::Continue(look),
            Ok(Some(found)) => ControlFlow::Break(Ok(found)),
            Err(stop) => ControlFlow::Break(Err(stop)),
        };
        let looked = self.past_queue.run_in_pieces(&actor.subject, look, piece);
        let found = looked.await.map_err(|error| match error {
            QueueError::QueueFull => NoPast::Answered(CommandResult::Overloaded),
            QueueError::Failed => NoPast::Answered(CommandResult::Fault),
        })?;
        // Time has passed.
        let may_act = self.may_act(&actor.subject).await;
        may_act.map_err(NoPast::Answered)?;
        found
            .map(|found| (found, position))
            .map_err(|stop| match stop {
                Stop::Lost(Lost::Gone) => NoPast::Gone { position },
                Stop::Lost(Lost::Unavailable | Lost::Unfinished) => {
                    NoPast::Answered(CommandResult::Unavailable)
                }
                Stop::Lost(Lost::Damaged(what)) => {
                    tracing::error!(what, "a past state cannot be rebuilt");
                    NoPast::Answered(CommandResult::Fault)
                }
                Stop::NoSuchPlace => NoPast::NoSuchPlace,
                Stop::NotFound => NoPast::Answered(CommandResult::Refused {
                    rejection: Box::new(Rejection::not_found()),
                    position,
                }),
            })
    }

    /// The resource with this key as of a position, for the service itself; `None` when there was
    /// none.
    ///
    /// # Errors
    /// Why the log does not say. A look that panics is [`Lost::Damaged`].
    pub(in crate::engine) async fn as_of<R: Resource + Send + 'static>(
        self: &Arc<Self>,
        key: Digest,
        upto: u64,
    ) -> Result<Option<R>, Lost> {
        let shared = Arc::clone(self);
        let looking = move || {
            shared.with_past(|past| {
                let source = AsOf::new(past, upto);
                let found = ReadView::new(&source).at::<R>(key);
                source.check().map(|()| found)
            })
        };
        let looked = self.past_queue.run("", true, looking).await;
        looked.unwrap_or_else(|why| Err(Lost::Damaged(format!("{why:?}"))))
    }

    fn with_past<T>(&self, look: impl FnOnce(&Past<'_>) -> T) -> T {
        let records = LogRecords(&self.journal);
        look(&Past::new(
            &records,
            &self.tables,
            catalogue::resource,
            self.log_id,
        ))
    }
}

impl Look {
    /// What is asked for; `None` when others shall have their turn before it goes on.
    fn at(&mut self, query: PastQuery) -> Result<Option<PastFound>, Stop> {
        self.begin();
        let shared = Arc::clone(&self.shared);
        let records = LogRecords(&shared.journal);
        // A page of several resources cannot be begun again: its cursors have gone on by then. No read of such has lists.
        let most = match self.alone() {
            Some(_) => PIECE,
            None => usize::MAX,
        };
        let lists = std::mem::take(&mut self.lists);
        let past = Past::new(&records, &shared.tables, catalogue::resource, shared.log_id);
        let past = past.in_pieces(lists, most);
        let found = self.at_in(&past, query);
        self.lists = past.into_known_lists();
        match found {
            Err(Stop::Lost(Lost::Unfinished)) => Ok(None),
            found => found,
        }
    }

    fn at_in(&mut self, past: &Past<'_>, query: PastQuery) -> Result<Option<PastFound>, Stop> {
        match query {
            PastQuery::History { from, limit } => {
                let page = self.shown_page(past, from, limit)?;
                Ok(page.map(PastFound::Page))
            }
            PastQuery::Revision(number) => {
                let body = match self.history.numbered {
                    Numbered::ByPosition => self.at_position(past, number),
                    Numbered::ByRevision => self.at_revision(past, number),
                };
                Ok(body?.map(PastFound::Body))
            }
            PastQuery::At(time) => {
                let upto = match self.at {
                    Some(at) => at,
                    None => past.position_at(time, self.upto)?,
                };
                self.at = Some(upto);
                if let Some(Descent::Further(..)) = self.descended(past, Wanted::Upto(upto))? {
                    return Ok(None);
                }
                if !self.all_descended(past, upto)? {
                    return Ok(None);
                }
                if let (Some(key), Some((position, above))) = (self.alone(), self.begin) {
                    past.begin_at(key, position, above);
                }
                let body = self.body(past, upto, time)?;
                body.map(|body| Some(PastFound::Body(body)))
                    .ok_or(Stop::NotFound)
            }
        }
    }

    /// A page that has something to show, or ends the history; `None` when others shall have their turn
    /// before it goes on.
    fn shown_page(
        &mut self,
        past: &Past<'_>,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Option<HistoryPage>, Stop> {
        if from.is_some_and(|from| from > self.upto) {
            return Err(Stop::NoSuchPlace);
        }
        if !self.all_descended(past, from.unwrap_or(self.upto))? {
            return Ok(None);
        }
        let (instead, rounds) = self.instead;
        let mut cursors = std::mem::take(&mut self.cursors);
        let page = self.page(past, &mut cursors, instead.or(from), limit)?;
        self.cursors = cursors;
        if page.revisions.is_empty() && page.next.is_some() && rounds + 1 < ROUNDS_MAX {
            self.instead = (page.next, rounds + 1);
            return Ok(None);
        }
        Ok(Some(page))
    }
}

impl Engine {
    /// Reads a past state of the resource that `row` reads, which `history` finds.
    ///
    /// # Errors
    /// Returns the reason when there is nothing to show.
    pub async fn past(
        &self,
        row: &'static ReadRow,
        history: HistorySource,
        actor: &Arc<Actor>,
        path: &[(&str, &str)],
        query: PastQuery,
    ) -> Result<(PastFound, u64), NoPast> {
        let looked = pin!(self.shared.past(row, history, actor, path, query));
        let looked = unless_its_future_panics(looked).await;
        looked.unwrap_or(Err(NoPast::Answered(CommandResult::Fault)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Poll;

    use parking_lot::Mutex;

    use super::page::PAGE_STATES_MAX;
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::time::Timestamp;
    use crate::cli::runtime::on_lane;
    use crate::domain::fact_kinds::FACTS;
    use crate::domain::read::{ReadRequest, Representation};
    use crate::domain::reference::Fact;
    use crate::domain::reference::kinds::actor::ActorFact;
    use crate::domain::reference::kinds::consent_version::required_at;
    use crate::domain::reference::read_fact::{FACTS_READ, read_fact};
    use crate::engine::Engine;
    use crate::engine::limits::fair_queue::PAST_READS_MAX;
    use crate::engine::sample::{engine, put, put_fact};

    /// Puts a consent version that is in force, and required or not.
    async fn put_version(engine: &Engine, number: usize, revision: usize, is_required: bool) {
        let text = format!(
            "{{\"kind\":\"consent-version\",\"id\":\"policy-{number}@1\",\"revision\":{revision},\
             \"facts\":{{\"publishedAt\":\"2020-01-01T00:00:00Z\",\"required\":{is_required},\
             \"current\":true}}}}"
        );
        put(engine, &text).await;
    }

    #[test]
    fn past_required_consents_are_found_without_rereading_other_versions() {
        let engine = engine();
        let now = Timestamp::parse("2026-11-20T00:00:00Z").unwrap();
        let work = async {
            for number in 0..200_usize {
                put_version(&engine, number, 1, number.is_multiple_of(40)).await;
            }
            let mut expected = Vec::new();
            for round in 0..20_usize {
                // Some come to be required, and some are so no more.
                put_version(
                    &engine,
                    10 * (round % 7),
                    round + 2,
                    round.is_multiple_of(3),
                )
                .await;
                let required = required_at(&ReadView::new(&engine.shared.tables), now);
                expected.push((engine.durable(), required));
            }
            engine.shared.with_past(|past| {
                for (position, required) in expected.iter().rev() {
                    let source = AsOf::new(past, *position);
                    assert_eq!(required_at(&ReadView::new(&source), now), *required);
                    assert_eq!(source.check(), Ok(()));
                }
                assert!(past.states() < 300, "{}", past.states());
            });
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    /// How often keys were found.
    static FOUND: AtomicUsize = AtomicUsize::new(0);

    fn found_keys(request: &ReadRequest<'_>) -> Vec<Digest> {
        FOUND.fetch_add(1, Ordering::Relaxed);
        actor_key(request)
    }

    fn actor_key(request: &ReadRequest<'_>) -> Vec<Digest> {
        vec![Fact::<ActorFact>::KIND.key(&[request.param("id")])]
    }

    fn history(keys: fn(&ReadRequest<'_>) -> Vec<Digest>) -> HistorySource {
        HistorySource::of::<Fact<ActorFact>>(Numbered::ByRevision, keys)
    }

    /// The actor that the facts are about, who may read them.
    fn reader() -> Arc<Actor> {
        Arc::new(Actor {
            subject: "somebody".into(),
            kind: ActorKind::SystemWorkflow,
            permissions: vec![FACTS_READ.into()],
            ..Actor::nobody()
        })
    }

    fn read_fact_row() -> &'static ReadRow {
        let mut rows = catalogue::READS.iter();
        rows.find(|row| row.name == "read_fact").unwrap()
    }

    /// Its path, for the fact about that actor.
    const PATH: [(&str, &str); 2] = [("kind", "actor"), ("id", "somebody")];

    /// Whether it waits.
    async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
        let polled = poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context)));
        polled.await.is_pending()
    }

    #[test]
    fn a_look_that_waits_for_its_first_turn_holds_no_keys_and_finds_them_once() {
        let engine = engine();
        let work = async {
            put_fact(&engine, 1).await;
            put_fact(&engine, 2).await;
            let queue = &engine.shared.past_queue;
            let mut held = Vec::new();
            for _ in 0..PAST_READS_MAX {
                let (end, may_end) = mpsc::channel::<()>();
                let mut holds = pin!(queue.run("other", false, move || may_end.recv().is_ok()));
                assert!(waits(&mut holds).await);
                held.push(end);
            }
            let (actor, history) = (reader(), history(found_keys));
            let query = PastQuery::Revision(1);
            let mut looked = pin!(engine.past(read_fact_row(), history, &actor, &PATH, query));
            while queue.waiting() == 0 {
                assert!(waits(&mut looked).await);
                tokio::task::yield_now().await;
            }
            assert_eq!(FOUND.load(Ordering::Relaxed), 0);
            drop(held);
            let (found, _) = looked.await.unwrap();
            assert!(matches!(found, PastFound::Body(body) if body.tag == "1"));
            assert_eq!(FOUND.load(Ordering::Relaxed), 1);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    /// A body for which as many states are read as half a page may rest on.
    fn reads_much(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
        for key in actor_key(request) {
            for _ in 0..PAGE_STATES_MAX / 2 {
                assert!(request.view.at::<Fact<ActorFact>>(key).is_some());
            }
        }
        read_fact(request, FACTS)
    }

    /// How many consents were required each time that the body was made.
    static REQUIRED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    /// A body that rests on the required consents.
    fn reads_consents(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
        let required = required_at(request.view, request.now);
        REQUIRED.lock().push(required.len());
        read_fact(request, FACTS)
    }

    #[test]
    fn a_body_that_depends_on_many_changed_versions_is_read_in_pieces() {
        const VERSIONS: usize = 300;
        let engine = engine();
        let row = ReadRow {
            read: reads_consents,
            ..*read_fact_row()
        };
        let row: &'static ReadRow = Box::leak(Box::new(row));
        let work = async {
            for number in 0..VERSIONS {
                put_version(&engine, number, 1, number.is_multiple_of(40)).await;
            }
            put_fact(&engine, 1).await;
            for number in 0..VERSIONS {
                put_version(&engine, number, 2, false).await;
            }
            put_fact(&engine, 2).await;
            for number in 0..VERSIONS {
                put_version(&engine, number, 3, false).await;
            }
            let actor = reader();
            let query = PastQuery::Revision(1);
            let looked = engine.past(row, history(actor_key), &actor, &PATH, query);
            let (found, _) = looked.await.unwrap();
            assert!(matches!(found, PastFound::Body(body) if body.tag == "1"));
            let required = std::mem::take(&mut *REQUIRED.lock());
            // The present body comes first. For each version a record is read at least.
            assert_eq!((required.first(), required.last()), (Some(&0), Some(&8)));
            assert!(required.len() > 1 + VERSIONS / PIECE, "{required:?}");
            let query = PastQuery::History {
                from: None,
                limit: 100,
            };
            let looked = engine.past(row, history(actor_key), &actor, &PATH, query);
            let (found, _) = looked.await.unwrap();
            let PastFound::Page(page) = found else {
                panic!("a page");
            };
            assert_eq!((page.revisions.len(), page.next), (2, None));
            let required = std::mem::take(&mut *REQUIRED.lock());
            assert_eq!(required.last(), Some(&8));
            assert!(required.len() > 2 + VERSIONS / PIECE, "{required:?}");
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_page_of_a_history_ends_where_its_bodies_rest_on_many_states() {
        let engine = engine();
        let row = ReadRow {
            read: reads_much,
            ..*read_fact_row()
        };
        let row: &'static ReadRow = Box::leak(Box::new(row));
        let work = async {
            let mut positions = Vec::new();
            for revision in 1..=3 {
                put_fact(&engine, revision).await;
                positions.push(engine.durable());
            }
            let query = PastQuery::History {
                from: None,
                limit: 100,
            };
            let actor = reader();
            let looked = engine.past(row, history(actor_key), &actor, &PATH, query);
            let (found, _) = looked.await.unwrap();
            let PastFound::Page(page) = found else {
                panic!("a page");
            };
            assert_eq!((page.revisions.len(), page.is_complete), (1, true));
            assert_eq!(page.next, Some(positions[1]));
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }
}
