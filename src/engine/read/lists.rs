//! Lists, page by page. An index returns candidates in order; each is read at one instant by the same function that
//! reads it by its id, which decides whether, and how much of it, the actor may see.
//!
//! The cost of a page is bounded by the resources and bytes examined for it, and it yields to other tasks. The page
//! is sent when every position assigned by its end is durable.

use std::pin::pin;

use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::base::text::BookingId;
use crate::catalogue::ListRow;
use crate::domain::index::IndexKey;
use crate::domain::listing::{Filter, ListItem, Scope, ValueHash};
use crate::domain::read::ReadRequest;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::resource::{ReadView, Resource as _};
use crate::engine::Engine;
use crate::engine::core::{CommandResult, MayAct, Shared};
use crate::engine::limits::repeats::Repeats;
use crate::journal::tables::{Candidate, ListPlan, ListedAt, Set};

/// Number of resources that may be examined for each item that a page may have.
pub const EXAMINED_PER_ITEM: usize = 10;
/// Bytes of items at which a page ends early.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// Bytes of states at which a page ends early: a large state may be a small item, or none. The maximum is higher than
/// that of a page's items, since states joined to an item are counted, too.
const STATES_BYTES_MAX: usize = 8 << 20;
/// Number of resources after which the task yields to others.
const TURN: usize = 16;
/// Bytes of states after which the task yields earlier.
const TURN_BYTES: usize = 64 << 10;

/// Request for a page of a list.
pub struct ListRequest<'a> {
    /// The list.
    pub row: &'static ListRow,
    /// Sender of the request.
    pub actor: &'a Actor,
    /// Values that each item must have, all of them.
    pub filters: Vec<(Filter, String)>,
    /// Whether the newest come first.
    pub newest_first: bool,
    /// Place after which the page begins; `None` for the first page.
    pub after: Option<ListedAt>,
    /// Maximum number of items.
    pub limit: usize,
}

/// A page of a list whose places are of the type `P`.
#[derive(Debug)]
pub struct ListPage<P = ListedAt> {
    /// Items as JSON, separated by commas.
    pub items: Vec<u8>,
    /// Number of items.
    pub count: usize,
    /// Place after which the next page begins; `None` after the last page.
    pub next: Option<P>,
    /// Position that the page depends on.
    pub position: u64,
}

impl<P> Default for ListPage<P> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            count: 0,
            next: None,
            position: 0,
        }
    }
}

impl<P> ListPage<P> {
    /// Adds an item to a page with at most `limit` items; returns whether there was room for it. Before, `grow` is
    /// called with the number of bytes to be added.
    ///
    /// # Errors
    /// Returns 429 when there is no room for any item at all.
    pub(in crate::engine) fn add(
        &mut self,
        item: &[u8],
        limit: usize,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<bool, CommandResult> {
        let is_full = self.count == limit
            || self.count > 0 && self.items.len() + item.len() > PAGE_BYTES_MAX
            || !grow(item.len() + 1);
        if is_full && self.count == 0 {
            return Err(CommandResult::Overloaded);
        }
        if is_full {
            return Ok(false);
        }
        if self.count > 0 {
            self.items.push(b',');
        }
        self.items.extend_from_slice(item);
        self.count += 1;
        Ok(true)
    }
}

/// Work done for a page.
#[derive(Default)]
struct LookedAt {
    /// Total bytes of decoded states.
    bytes: usize,
    /// Number of resources, and bytes of their states, since the last yield.
    in_turn: (usize, usize),
}

impl LookedAt {
    /// Counts a resource for which this many bytes of states were decoded.
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.in_turn.0 += 1;
        self.in_turn.1 += bytes;
    }

    /// Whether to yield before the next resource; if so, starts a new turn.
    fn ends_turn(&mut self) -> bool {
        let (resources, bytes) = self.in_turn;
        let ends = resources >= TURN || bytes >= TURN_BYTES;
        if ends {
            self.in_turn = (0, 0);
        }
        ends
    }

    /// Whether the page's maximum of work is reached. Before the first resource it never is.
    fn is_enough(&self) -> bool {
        self.bytes >= STATES_BYTES_MAX
    }
}

impl Engine {
    /// Returns a page of a list. Before each item, `grow` is called with the bytes to be added; where it refuses, the
    /// page ends, or is 429 if it is empty.
    ///
    /// # Errors
    /// Returns the response when there is no page.
    pub async fn list(
        &self,
        request: &ListRequest<'_>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage, CommandResult> {
        let found = unless_its_future_panics(pin!(self.shared.list(request, grow))).await;
        found.unwrap_or(Err(CommandResult::Fault))
    }

    /// Returns the content of the lists, for comparison within one process: by kind, each item in the order of
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
        self.once_durable(page, may_act).await
    }

    /// Returns the page once the position that it depends on is durable, if the actor may still act.
    pub(in crate::engine) async fn once_durable<P>(
        &self,
        page: ListPage<P>,
        may_act: MayAct,
    ) -> Result<ListPage<P>, CommandResult> {
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
        let path = self.tables.access_path(kind, self.plan(request));
        let most = request.limit.saturating_mul(EXAMINED_PER_ITEM);
        let mut page = ListPage::default();
        // The last item on the page, and the last resource examined.
        let (mut last, mut passed) = (None, None);
        let (mut after, mut examined) = (request.after, 0);
        let mut looked_at = LookedAt::default();
        loop {
            let found = self
                .tables
                .look_into_list(kind, &path, after, most - examined);
            examined += found.examined;
            for candidate in found.candidates {
                if looked_at.is_enough() {
                    page.next = passed;
                    return Ok(page);
                }
                if looked_at.ends_turn() {
                    tokio::task::yield_now().await;
                }
                passed = Some(candidate.listed_at);
                let item = self.item(request, candidate.entry, may_act, &mut looked_at);
                let Some(item) = item.await? else {
                    continue;
                };
                if !page.add(&item, request.limit, grow)? {
                    page.next = last;
                    return Ok(page);
                }
                last = Some(candidate.listed_at);
            }
            match found.on {
                Some(on) if examined < most && !looked_at.is_enough() => {
                    after = Some(on);
                    // For an actor with many resources the search took a while, though it may have found nothing.
                    looked_at.in_turn = (0, 0);
                    tokio::task::yield_now().await;
                }
                on => {
                    page.next = on;
                    return Ok(page);
                }
            }
        }
    }

    /// Chooses the index by which the list is read.
    fn plan(&self, request: &ListRequest<'_>) -> ListPlan {
        let kind = request.row.resource;
        let view = ReadView::new(&self.tables);
        let scope = (request.row.scope)(&ReadRequest {
            actor: request.actor,
            path: &[],
            view: &view,
            now: self.clock.now(),
            access_checked: false,
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

    /// Reads the item at one instant, if the actor may see it and it matches the filters.
    async fn item(
        &self,
        request: &ListRequest<'_>,
        entry: Digest,
        may_act: MayAct,
        looked_at: &mut LookedAt,
    ) -> Result<Option<Vec<u8>>, CommandResult> {
        let mut repeats = Repeats::default();
        loop {
            let read = {
                let view = ReadView::new(&self.tables);
                self.read_lifecycle(Some(may_act), &view).map(|()| {
                    let item = self.look_at(request, entry, &view);
                    looked_at.add(view.decoded_bytes());
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
        let item = view.decode_ahead(key, |bytes| kind.item(bytes).ok().flatten())?;
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
            access_checked: false,
        });
        found.ok().map(|found| found.body)
    }
}

/// Whether the item has this value, either its own or that of its booking's fact.
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
    fact.is_some_and(|fact| fact.filter_values().contains(&(filter, value)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns how many of the items fit on a page, where `left` bytes may still be in flight.
    fn taken(items: &[usize], limit: usize, mut left: usize) -> Result<usize, CommandResult> {
        let mut page = ListPage::<ListedAt>::default();
        for bytes in items {
            let mut grow = |bytes| {
                let rest = left.checked_sub(bytes);
                left = rest.unwrap_or(left);
                rest.is_some()
            };
            if !page.add(&vec![b'1'; *bytes], limit, &mut grow)? {
                break;
            }
        }
        let texts: Vec<_> = page.items.split(|byte| *byte == b',').collect();
        assert_eq!(texts.len(), page.count);
        Ok(page.count)
    }

    #[test]
    fn others_have_their_turn_after_16_resources_or_64_kib_of_their_states() {
        const KIB: usize = 1 << 10;
        let turns = |bytes: usize, count| {
            let mut looked_at = LookedAt::default();
            let mut ended = Vec::new();
            for number in 0..count {
                if looked_at.ends_turn() {
                    ended.push(number);
                }
                looked_at.add(bytes);
            }
            ended
        };
        assert_eq!(turns(100, 40), [16, 32]);
        assert_eq!(turns(16 * KIB, 10), [4, 8]);
        assert_eq!(turns(64 * KIB, 3), [1, 2]);
        assert_eq!(turns(1 << 20, 3), [1, 2]);
    }

    #[test]
    fn a_page_looks_at_no_more_than_8_mib_of_states_and_at_one_of_any_size() {
        let looked_at = |bytes: usize| {
            let mut looked_at = LookedAt::default();
            let mut count = 0;
            while !looked_at.is_enough() {
                looked_at.add(bytes);
                count += 1;
            }
            count
        };
        assert_eq!(looked_at(1 << 20), 8);
        assert_eq!(looked_at(3 << 20), 3);
        assert_eq!(looked_at(99 << 20), 1);
    }

    #[test]
    fn a_page_ends_at_its_limit_at_4_mib_and_where_there_is_no_room_for_more() {
        const MIB: usize = 1 << 20;
        assert_eq!(taken(&[1; 9], 3, 99).unwrap(), 3);
        assert_eq!(taken(&[MIB; 9], 9, 99 * MIB).unwrap(), 3);
        assert_eq!(taken(&[MIB - 1; 9], 9, 99 * MIB).unwrap(), 4);
        // An item larger than the maximum is a page of its own.
        assert_eq!(taken(&[5 * MIB, 1], 9, 99 * MIB).unwrap(), 1);
        assert_eq!(taken(&[9; 9], 9, 25).unwrap(), 2);
        let refused = taken(&[9; 9], 9, 9);
        assert!(matches!(refused, Err(CommandResult::Overloaded)));
    }
}
