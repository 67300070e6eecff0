//! Lists, page by page. An index gives candidates in order; each is read at one instant by the very
//! function that reads it by id, which decides whether the actor is shown it, and what of it.
//!
//! A page costs by what is looked at for it, which is bounded, and gives others their turn. It goes
//! out when everything that had a position by its end is durable.

use std::pin::pin;

use super::Engine;
use super::core::{CommandResult, MayAct, Shared};
use super::repeats::Repeats;
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::base::text::BookingId;
use crate::catalogue::ListRow;
use crate::domain::listing::{Filter, ListItem, Scope, ValueHash};
use crate::domain::read::ReadRequest;
use crate::domain::reference::reservation_booking::ReservationBooking;
use crate::domain::resource::{IndexKey, ReadView, Resource as _};
use crate::journal::tables::{Born, Candidate, ListPlan, Set};

/// How many resources are looked at for each item that a page may have.
pub const EXAMINED_PER_ITEM: usize = 10;
/// Bytes of items after which a page ends early.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// After so many resources others have their turn.
const TURN: usize = 16;

/// What is asked for of a list.
pub struct ListRequest<'a> {
    /// The list.
    pub row: &'static ListRow,
    /// Who asks.
    pub actor: &'a Actor,
    /// What the items have to have, all of it.
    pub filters: Vec<(Filter, String)>,
    /// Whether the newest come first.
    pub newest_first: bool,
    /// Where it goes on; `None` for the first page.
    pub after: Option<Born>,
    /// The most items.
    pub limit: usize,
}

/// A page.
#[derive(Debug, Default)]
pub struct ListPage {
    /// The items as JSON, with commas between.
    pub items: Vec<u8>,
    /// How many there are.
    pub count: usize,
    /// Where the next page goes on; `None` when nothing lies beyond.
    pub next: Option<Born>,
    /// The position that it depends on.
    pub position: u64,
}

impl Engine {
    /// A page of a list. `grow` is asked for so many bytes more before each item; where it refuses,
    /// the page ends, and is 429 if it has none.
    ///
    /// # Errors
    /// The answer, when there is no page.
    pub async fn list(
        &self,
        request: &ListRequest<'_>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage, CommandResult> {
        let found = unless_its_future_panics(pin!(self.shared.list(request, grow))).await;
        found.unwrap_or(Err(CommandResult::Fault))
    }

    /// What the lists hold, for comparison within one process: by kinds, each item in order of
    /// creation with its values.
    #[must_use]
    pub fn listed_now(&self) -> Vec<(u16, Candidate, Vec<ValueHash>)> {
        self.shared.tables.listed_now()
    }
}

impl Shared {
    async fn list(
        &self,
        request: &ListRequest<'_>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage, CommandResult> {
        let may_act = self.may_act(&request.actor.subject).await?;
        let mut page = self.page(request, may_act, grow).await?;
        page.position = self.journal.appended();
        if self.lanes.wait(page.position).await.is_err() {
            return Err(CommandResult::Unavailable);
        }
        self.may_still_act(may_act).await?;
        Ok(page)
    }

    async fn page(
        &self,
        request: &ListRequest<'_>,
        may_act: MayAct,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage, CommandResult> {
        let kind = request.row.resource.kind().tag;
        let plan = self.plan(request);
        let most = request.limit.saturating_mul(EXAMINED_PER_ITEM);
        let (mut page, mut last) = (ListPage::default(), None);
        let (mut after, mut examined, mut looked_at) = (request.after, 0, 0);
        loop {
            let found = self
                .tables
                .look_into_list(kind, &plan, after, most - examined);
            examined += found.examined;
            for candidate in found.candidates {
                looked_at += 1;
                if looked_at % TURN == 0 {
                    tokio::task::yield_now().await;
                }
                let Some(item) = self.item(request, candidate.entry, may_act).await? else {
                    continue;
                };
                let is_full = page.count == request.limit
                    || page.count > 0 && page.items.len() + item.len() > PAGE_BYTES_MAX
                    || !grow(item.len() + 1);
                if is_full && page.count == 0 {
                    return Err(CommandResult::Overloaded);
                }
                if is_full {
                    page.next = last;
                    return Ok(page);
                }
                if page.count > 0 {
                    page.items.push(b',');
                }
                page.items.extend_from_slice(&item);
                page.count += 1;
                last = Some(candidate.born);
            }
            match found.on {
                Some(on) if examined < most => after = Some(on),
                on => {
                    page.next = on;
                    return Ok(page);
                }
            }
        }
    }

    /// By what the list is gone through.
    fn plan(&self, request: &ListRequest<'_>) -> ListPlan {
        let kind = request.row.resource;
        let view = ReadView::new(&self.tables);
        let scope = (request.row.scope)(&ReadRequest {
            actor: request.actor,
            path: &[],
            view: &view,
            now: self.clock.now(),
            is_judged: false,
        });
        let set = |(filter, value): &(Filter, String)| -> Option<Set> {
            Some((kind.filter(*filter)?, ValueHash::of(*filter, value)))
        };
        ListPlan {
            scope: match &scope {
                Scope::All => None,
                Scope::Of(values) => Some(values.iter().filter_map(set).collect()),
            },
            filters: request.filters.iter().filter_map(set).collect(),
            newest_first: request.newest_first,
        }
    }

    /// The item, at one instant, if the actor may see it and it is what is looked for.
    async fn item(
        &self,
        request: &ListRequest<'_>,
        entry: Digest,
        may_act: MayAct,
    ) -> Result<Option<Vec<u8>>, CommandResult> {
        let mut repeats = Repeats::default();
        loop {
            let read = {
                let view = ReadView::new(&self.tables);
                self.read_lifecycle(Some(may_act), &view).map(|()| {
                    let item = self.look_at(request, entry, &view);
                    let read_set = Self::read_set(0, &view);
                    self.is_valid_at_one_instant(&read_set).then_some(item)
                })
            };
            match read {
                Ok(Some(item)) => return Ok(item),
                Ok(None) => {}
                Err(refused) => return Err(self.refuse(refused.0, refused.1).await),
            }
            if repeats.rest().await.is_err() {
                return Err(CommandResult::Unavailable);
            }
        }
    }

    fn look_at(
        &self,
        request: &ListRequest<'_>,
        entry: Digest,
        view: &ReadView<'_>,
    ) -> Option<Vec<u8>> {
        let kind = request.row.resource;
        let key = match kind.is_together() {
            true => view.last_ranked_key(IndexKey(entry))?,
            false => entry,
        };
        let mut item = None;
        view.read_bytes(key, &mut |bytes| item = kind.item(bytes).ok().flatten());
        let item: ListItem = item?;
        let has = |(filter, value): &(Filter, String)| has(&item, *filter, value, view);
        if !request.filters.iter().all(has) {
            return None;
        }
        let read = request.row.read;
        let values = item.path.iter().map(String::as_str);
        let path: Vec<_> = read.parameters().zip(values).collect();
        let found = (read.read)(&ReadRequest {
            actor: request.actor,
            path: &path,
            view,
            now: self.clock.now(),
            is_judged: false,
        });
        found.ok().map(|found| found.body)
    }
}

/// Whether the item has this value, of its own or by its booking's fact.
fn has(item: &ListItem, filter: Filter, value: &str, view: &ReadView<'_>) -> bool {
    let own = item.values.iter().find(|(known, _)| *known == filter);
    if let Some((_, own)) = own {
        return own == value;
    }
    let booking = item.booking.as_deref();
    let fact = booking.and_then(|booking| {
        let booking = BookingId::from_trusted(booking);
        view.fact::<ReservationBooking>(&booking)
    });
    fact.is_some_and(|fact| fact.leads().contains(&(filter, value)))
}
