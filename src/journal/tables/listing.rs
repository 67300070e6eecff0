//! Keeps lists up to date with commits: a change updates the values of its own resource, and a booking's fact those
//! of all resources bound to it.
//!
//! A booking may have many resources, so most of that work is done before and after the sequencer is held. Before:
//! the resources bound to the booking are entered under the new values. Under the sequencer: those bound to it since,
//! which are very few. After: they are removed from the old values. In between they are listed under both, and
//! readers check which value a resource has. One booking's commits come one after the other, so no two of them do
//! this at once.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use super::extent::Extent;
use super::half_key::{HalfKeyCollisions, Noted};
use super::list_walk::{self, AccessPath, Found, ListPlan};
use super::listed_at::ListedAt;
use super::lists::{Candidate, Set};
use super::{PreparedChange, Tables};
use crate::base::codec;
use crate::base::digest::{Digest, KeyDigest};
use crate::catalogue;
use crate::domain::index::IndexKey;
use crate::domain::listing::{BookingHash, LeadMove, ListMove, ListPlace, Shared, ValueHash};
use crate::domain::reference::Fact;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::registered::{AnyResource, Listed as ListedFrom};
use crate::domain::resource::{Resource as _, Source as _};

/// Number of places changed while a list is locked.
const AT_ONCE: usize = 64;

/// The kinds whose resources follow bookings.
static FOLLOWERS: LazyLock<Vec<&'static dyn AnyResource>> = LazyLock::new(|| {
    let all = catalogue::RESOURCES.iter().copied();
    all.filter(|kind| !kind.by_booking().is_empty()).collect()
});

/// Returns the kinds whose resources follow bookings.
fn followers() -> impl Iterator<Item = &'static dyn AnyResource> {
    FOLLOWERS.iter().copied()
}

/// Returns the sets of a kind that a change of leads affects: each before and after it.
fn led(kind: &dyn AnyResource, lead: &LeadMove) -> impl Iterator<Item = (Option<Set>, Set)> {
    lead.leads.iter().filter_map(|(filter, before, after)| {
        let shared = kind
            .by_booking()
            .contains(filter)
            .then(|| kind.filter(*filter))??;
        Some((before.map(|before| (shared, before)), (shared, *after)))
    })
}

fn bound_to(lead: &LeadMove) -> Set {
    (Shared::ByFew, lead.bound)
}

impl Tables {
    /// Returns the values that the booking's fact gives to resources bound to it, for the filters of this kind, and
    /// the position of the fact's last commit.
    pub(super) fn by_booking(
        &self,
        kind: &dyn AnyResource,
        booking: BookingHash,
    ) -> (u64, Vec<Set>) {
        let mut sets = Vec::new();
        let position = self.read(booking.fact, &mut |bytes| {
            let fact: Option<Fact<ReservationBooking>> = codec::decode(bytes).ok();
            for (filter, value) in fact.iter().flat_map(|fact| fact.filter_values()) {
                if let Some(shared) = kind.filter(filter)
                    && kind.by_booking().contains(&filter)
                {
                    sets.push((shared, ValueHash::of(filter, value)));
                }
            }
        });
        (position.unwrap_or(0), sets)
    }

    /// Returns the place of the resource that is shown for an item of several resources.
    pub(super) fn shown(&self, kind: &dyn AnyResource, entry: Digest) -> Option<ListPlace> {
        let key = self.last_ranked(IndexKey(entry))?;
        self.place(kind, key)
    }

    /// Does what [`Tables::shown`] does, for a change of the resource with this key, whose place is `own`. That one
    /// is usually the one shown; then no state is decoded while the sequencer is held.
    fn shown_beside(
        &self,
        kind: &dyn AnyResource,
        entry: Digest,
        key: Digest,
        own: Option<&ListPlace>,
    ) -> Option<ListPlace> {
        let shown = self.last_ranked(IndexKey(entry))?;
        if shown == key {
            own.cloned()
        } else {
            self.place(kind, shown)
        }
    }

    fn place(&self, kind: &dyn AnyResource, key: Digest) -> Option<ListPlace> {
        let mut place = None;
        self.read(key, &mut |bytes| place = kind.place(bytes).ok().flatten());
        place
    }

    /// Returns the whole digest of an item in the list of a kind.
    fn entry_of(&self, kind: &dyn AnyResource, noted: Noted) -> Digest {
        let half = match noted {
            Noted::Later(whole) => return whole,
            Noted::First(half) => half,
        };
        let like = half.alike();
        let found = match kind.is_together() {
            true => {
                let shard = self.secondary.shard(like).read();
                shard.first_like(half, &self.later_lists)
            }
            false => {
                let shard = self.states.shard(like).read();
                shard.first_like(half, &self.later)
            }
        };
        found.expect("what is listed is in the tables")
    }

    /// Returns the form in which an item is noted in the list of a kind.
    fn noted(&self, kind: &dyn AnyResource, entry: Digest) -> Noted {
        self.later_of(kind).noted(entry)
    }

    /// Returns the later digests among the items of this kind.
    pub(super) fn later_of(&self, kind: &dyn AnyResource) -> &HalfKeyCollisions {
        match kind.is_together() {
            true => &self.later_lists,
            false => &self.later,
        }
    }

    /// Returns when an item of a kind was first listed.
    pub(super) fn entry_listed_at(
        &self,
        kind: &dyn AnyResource,
        entry: Digest,
    ) -> Option<ListedAt> {
        let noted = self.noted(kind, entry);
        self.lists.of(kind.kind().tag).read().listed_at(noted)
    }

    /// Prepares the effects of a change on lists, before the sequencer is held.
    pub(super) fn reserve_in_lists(&self, prepared: &mut PreparedChange) {
        let PreparedChange { change, lists, .. } = prepared;
        if let Some(ListMove { before, after }) = &change.list
            && let Some(kind) = catalogue::resource(change.kind)
            && let Some(place) = after
        {
            // An item that is already listed has its booking's values.
            if before.as_ref().map(|before| before.entry) != Some(place.entry) {
                self.lists.of(change.kind).write().reserve(place.entry);
                let booking = place.booking;
                lists.by_booking = booking.map(|booking| self.by_booking(kind, booking));
            }
        }
        if let Some(lead) = &change.lead {
            lists.entered.clear();
            for kind in followers() {
                let entered = self.enter_led(kind, lead);
                lists.entered.push((kind.kind().tag, entered));
            }
        }
    }

    /// Enters resources bound to a booking under the new values. Returns the extent of the list: resources bound
    /// later are beyond it.
    fn enter_led(&self, kind: &dyn AnyResource, lead: &LeadMove) -> Extent {
        let list = self.lists.of(kind.kind().tag);
        let extent = list.read().extent();
        let mut from = 0;
        loop {
            let numbers = list.read().numbers_of(bound_to(lead), from, AT_ONCE);
            let Some(last) = numbers.last() else {
                return extent;
            };
            from = last + 1;
            let mut list = list.write();
            for (_, set) in led(kind, lead) {
                numbers.iter().for_each(|number| list.add(set, *number));
            }
        }
    }

    /// Returns the places of the resources shown for items of several, where this change may alter them, before it is
    /// published.
    pub(super) fn shown_before(
        &self,
        prepared: &PreparedChange,
    ) -> Vec<(Digest, Option<ListPlace>)> {
        let change = &prepared.change;
        let (Some(moved), Some(kind)) = (&change.list, catalogue::resource(change.kind)) else {
            return Vec::new();
        };
        if !kind.is_together() {
            return Vec::new();
        }
        let places = moved.before.iter().chain(&moved.after);
        let mut entries: Vec<_> = places.map(|place| place.entry).collect();
        entries.dedup();
        let own = moved.before.as_ref();
        let shown = |entry| (entry, self.shown_beside(kind, entry, change.key, own));
        entries.into_iter().map(shown).collect()
    }

    /// Publishes the effects of a change on lists, after the rest of the change.
    pub(super) fn publish_in_lists(
        &self,
        position: u64,
        prepared: &PreparedChange,
        shown: Vec<(Digest, Option<ListPlace>)>,
    ) {
        let change = &prepared.change;
        if change.list.is_none() && change.lead.is_none() {
            return;
        }
        let Some(kind) = catalogue::resource(change.kind) else {
            return;
        };
        let listed_at = ListedAt {
            position,
            number: prepared.number,
        };
        if shown.is_empty() {
            if let Some(moved) = &change.list {
                self.move_in_list(kind, listed_at, prepared, moved);
            }
        } else {
            let own = change.list.as_ref().and_then(|moved| moved.after.as_ref());
            for (entry, before) in shown {
                let after = self.shown_beside(kind, entry, change.key, own);
                self.move_in_list(kind, listed_at, prepared, &ListMove { before, after });
            }
        }
        if let Some(lead) = &change.lead {
            for kind in followers() {
                let tag = kind.kind().tag;
                let entered = prepared
                    .lists
                    .entered
                    .iter()
                    .find(|(known, _)| *known == tag);
                let mut list = self.lists.of(tag).write();
                let from = entered.map_or(0, |(_, then)| then.first_since(list.extent()));
                for number in list.numbers_of(bound_to(lead), from, usize::MAX) {
                    for (_, set) in led(kind, lead) {
                        list.add(set, number);
                    }
                }
            }
        }
    }

    fn move_in_list(
        &self,
        kind: &'static dyn AnyResource,
        listed_at: ListedAt,
        prepared: &PreparedChange,
        moved: &ListMove,
    ) {
        let Some(place) = moved.after.as_ref().or(moved.before.as_ref()) else {
            return;
        };
        let is_known = moved.before.as_ref().map(|before| before.entry) == Some(place.entry);
        let is_left = moved.after.is_none();
        // The booking's values are entered when an item is first shown, and removed when none of its resources is
        // left; changes in between are not tracked here.
        let booking = place.booking.filter(|_| !is_known || is_left);
        // The fact may have changed since it was read.
        let by_booking = booking.map(|booking| match &prepared.lists.by_booking {
            Some((seen, _)) if !is_left && self.position(booking.fact) == *seen => None,
            _ => Some(self.by_booking(kind, booking).1),
        });
        let entry = self.noted(kind, place.entry);
        let mut list = self.lists.of(kind.kind().tag).write();
        let (number, is_new) = list.enter(entry, listed_at);
        if moved.before.is_none() && !is_new {
            list.show_again();
        }
        let none = Vec::new();
        let before = moved.before.as_ref().map_or(&none, |place| &place.values);
        let after = moved.after.as_ref().map_or(&none, |place| &place.values);
        for left in before.iter().filter(|set| !after.contains(set)) {
            list.remove(*left, number);
        }
        for joined in after.iter().filter(|set| is_new || !before.contains(set)) {
            list.add(*joined, number);
        }
        let seen = || prepared.lists.by_booking.iter().flat_map(|(_, sets)| sets);
        match by_booking {
            Some(Some(sets)) if is_left => sets.iter().for_each(|set| list.remove(*set, number)),
            Some(Some(sets)) => sets.iter().for_each(|set| list.add(*set, number)),
            Some(None) => seen().for_each(|set| list.add(*set, number)),
            None => {}
        }
    }

    /// Publishes a commit: all its changes, and the idempotency key that it uses. The caller holds the log's
    /// sequencer; [`Tables::finish_lists`] comes after it.
    pub fn publish_commit(
        &self,
        position: u64,
        changes: &mut [PreparedChange],
        key: Option<KeyDigest>,
    ) {
        let _published = self.begin();
        self.publish_all(position, changes);
        if let Some(key) = key {
            self.take_key(key, position);
        }
    }

    /// Publishes the changes of a commit; [`Tables::finish_lists`] comes after it.
    pub fn publish_all(&self, position: u64, changes: &mut [PreparedChange]) {
        for change in changes {
            self.publish_prepared(position, change);
        }
    }

    /// Completes the lists after a commit: removes resources bound to a booking from the values that its fact had
    /// before. To be called after a commit is published, before the next one of the same booking.
    pub fn finish_lists(&self, changes: &[PreparedChange]) {
        for PreparedChange { change, .. } in changes {
            let Some(lead) = &change.lead else {
                continue;
            };
            if lead.leads.iter().all(|(_, before, _)| before.is_none()) {
                continue;
            }
            for kind in followers() {
                self.leave_led(kind, change.key, lead);
            }
        }
    }

    fn leave_led(&self, kind: &dyn AnyResource, fact: Digest, lead: &LeadMove) {
        let list = self.lists.of(kind.kind().tag);
        let mut from = 0;
        loop {
            let numbers: Vec<_> = {
                let list = list.read();
                let numbers = list.numbers_of(bound_to(lead), from, AT_ONCE);
                numbers
                    .into_iter()
                    .map(|number| (number, list.entry(number)))
                    .collect()
            };
            let Some((last, _)) = numbers.last() else {
                return;
            };
            from = last + 1;
            // The resource was found by a hash of 64 bits, so it may belong to another booking, whose resources must
            // stay.
            let is_bound = |entry: Digest| {
                let place = match kind.is_together() {
                    true => self.shown(kind, entry),
                    false => self.place(kind, entry),
                };
                let booking = place.and_then(|place| place.booking);
                booking.is_some_and(|booking| booking.fact == fact)
            };
            let bound = numbers
                .into_iter()
                .filter(|(_, entry)| is_bound(self.entry_of(kind, *entry)));
            let bound: Vec<_> = bound.collect();
            let mut list = list.write();
            for (before, _) in led(kind, lead) {
                for (number, _) in &bound {
                    if let Some(before) = before {
                        list.remove(before, *number);
                    }
                }
            }
        }
    }

    /// Chooses the values by which the list of a kind is walked for this plan.
    #[must_use]
    pub fn access_path(&self, kind: u16, plan: ListPlan) -> AccessPath {
        AccessPath::of(&self.lists.of(kind).read(), plan)
    }

    /// Searches the list of a kind after this place; examines at most `most` resources, and fewer when that would
    /// take long.
    #[must_use]
    pub fn look_into_list(
        &self,
        kind: u16,
        path: &AccessPath,
        after: Option<ListedAt>,
        most: usize,
    ) -> Found<Candidate> {
        let Found {
            candidates,
            examined,
            on,
        } = list_walk::look(&self.lists.of(kind).read(), path, after, most);
        let candidates = candidates.into_iter().filter_map(|(noted, listed_at)| {
            let entry = self.entry_of(catalogue::resource(kind)?, noted);
            Some(Candidate { entry, listed_at })
        });
        Found {
            candidates: candidates.collect(),
            examined,
            on,
        }
    }

    /// Number of items in the list of this kind.
    #[cfg(test)]
    pub(super) fn in_list(&self, kind: u16) -> u32 {
        self.lists.of(kind).read().len()
    }

    /// Returns when the resource with this key and state was first listed; `None` when it is not listed.
    #[must_use]
    pub fn listed_at(&self, kind: u16, key: Digest, state: &[u8]) -> Option<ListedAt> {
        let resource = catalogue::resource(kind)?;
        if resource.listed() == ListedFrom::Never {
            return None;
        }
        let entry = match resource.is_together() {
            true => resource.place(state).ok()??.entry,
            false => key,
        };
        self.entry_listed_at(resource, entry)
    }

    /// Whether any resource's birth is unknown, since its state comes from a snapshot without births.
    #[must_use]
    pub fn has_guessed_births(&self) -> bool {
        self.has_guessed_births.load(Ordering::Acquire)
    }

    /// Returns the content of the lists: by kind, each item in the order of creation with its values. Leaves out
    /// items without any resource left to show, which keep their places.
    #[must_use]
    pub fn listed_now(&self) -> Vec<(u16, Candidate, Vec<ValueHash>)> {
        let all = self.lists.all().into_iter();
        let shown = all.filter_map(|(kind, noted, listed_at, values)| {
            let resource = catalogue::resource(kind)?;
            let entry = self.entry_of(resource, noted);
            let is_shown = !resource.is_together() || self.shown(resource, entry).is_some();
            is_shown.then_some((kind, Candidate { entry, listed_at }, values))
        });
        shown.collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::revision::Revision;
    use crate::base::time::Timestamp;
    use crate::domain::change::Change;
    use crate::domain::listing::Filter;
    use crate::domain::reference::{FactHolder, samples};
    use crate::domain::reservation::adjustment::PaymentChangeAdjustment;

    type Booking = Fact<ReservationBooking>;

    /// Returns the change that applies the sample fact of this kind, with these fields replaced.
    fn put<H: FactHolder>(before: Option<&H>, id: &str, other: [(&str, &str); 1]) -> (H, Change) {
        let mut lines = samples::NDJSON
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut fact = lines.find(|fact| fact["kind"] == H::KIND.name).unwrap()["facts"].take();
        for (field, value) in other {
            fact[field] = json!(value);
        }
        let fact: H::Facts = serde_json::from_value(fact).unwrap();
        let revision = before.map_or(Revision::FIRST, |before| before.revision().next());
        let event = H::put(before, id, revision, &fact).unwrap();
        let next = H::apply(before.cloned(), &event, Timestamp::default());
        let change = Change::of(before, &event, &next);
        (next, change)
    }

    #[test]
    fn an_item_rebound_to_a_booking_while_it_changes_is_in_its_new_branch() {
        let tables = Tables::default();
        let mut position = 0;
        let mut publish = |change| {
            position += 1;
            tables.publish(position, change);
        };
        let (booking, change) = put::<Booking>(None, "left", [("branchProfileId", "old")]);
        publish(change);
        publish(put::<Booking>(None, "other", [("branchProfileId", "third")]).1);
        let of = |booking| [("reservationBookingId", booking)];
        let (adjustment, change) = put::<PaymentChangeAdjustment>(None, "adjustment", of("left"));
        publish(change);
        let (adjustment, change) = put(Some(&adjustment), "adjustment", of("other"));
        publish(change);
        // No resource is bound to the booking when its change is prepared.
        let (_, moves) = put(Some(&booking), "left", [("branchProfileId", "new")]);
        let mut prepared = PreparedChange::all(vec![moves]);
        tables.reserve(&mut prepared, None);
        publish(put(Some(&adjustment), "adjustment", of("left")).1);
        tables.publish_all(9, &mut prepared);
        tables.finish_lists(&prepared);
        let found_by = |branch| {
            let branch = ValueHash::of(Filter::Branch, branch);
            let listed = tables.listed_now().into_iter();
            listed
                .filter(|(.., values)| values.contains(&branch))
                .count()
        };
        assert_eq!(["old", "third", "new"].map(found_by), [0, 0, 1]);
    }
}
