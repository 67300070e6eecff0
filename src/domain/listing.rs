//! Lists: the filters by which a kind's resources are found, and the part of a list that an actor
//! may be shown.
//!
//! A kind that can be listed declares it beside its state, in [`Resource::LIST`]: one line for each
//! filter. The values that a booking's own fact gives (its branch, its mother) are filters of all
//! resources that are bound to the booking, and follow that fact ([`Resource::filter_values`]).
//!
//! [`Resource::LIST`]: super::resource::Resource::LIST
//! [`Resource::filter_values`]: super::resource::Resource::filter_values

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::Digest;

/// The properties by which lists find resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// The branch that the resource belongs to.
    Branch,
    /// The booking that the resource belongs to.
    Booking,
    /// The resource's status.
    Status,
    /// The payment that the resource is about.
    Payment,
    /// The mother whom the resource concerns, as a user.
    Mother,
    /// The mother who granted it, as a member. No parameter: it finds what she may read.
    GrantedBy,
    /// The member to whom it was granted. No parameter: it finds what the member may read.
    GrantedTo,
    /// The branch that the resource's fact names now, where that differs from the resource's own.
    /// No parameter.
    MovedToBranch,
    /// The mother whom the resource's fact names now, where that differs from its own. No
    /// parameter.
    MovedToMother,
    /// The booking that the resource's fact names now, where that differs from its own. No
    /// parameter.
    MovedToBooking,
    /// The branch that a charge names, which counts while no fact of its booking is known. No
    /// parameter.
    ChargedBranch,
}

impl Filter {
    /// The filters that a request can name, in the order of the documents.
    pub const PUBLIC: [Self; 5] = [
        Self::Branch,
        Self::Booking,
        Self::Status,
        Self::Payment,
        Self::Mother,
    ];

    /// Returns the name of its parameter; `None` for a filter that no request can name.
    #[must_use]
    pub const fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Branch => Some("branchProfileId"),
            Self::Booking => Some("reservationBookingId"),
            Self::Status => Some("status"),
            Self::Payment => Some("paymentId"),
            Self::Mother => Some("motherUserId"),
            Self::GrantedBy
            | Self::GrantedTo
            | Self::MovedToBranch
            | Self::MovedToMother
            | Self::MovedToBooking
            | Self::ChargedBranch => None,
        }
    }
}

/// How many resources share one value of a filter; this decides how the index stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Thousands: a status, a branch.
    ByMany,
    /// A few, mostly: a booking, a payment.
    ByFew,
}

/// A filter of a kind.
pub struct ListFilter<R: 'static> {
    /// The property.
    pub filter: Filter,
    /// How many resources share a value.
    pub shared: Shared,
    value: fn(&R) -> Option<Cow<'_, str>>,
}

/// Makes a filter whose values are shared by many resources.
pub const fn by_many<R>(filter: Filter, value: fn(&R) -> Option<Cow<'_, str>>) -> ListFilter<R> {
    ListFilter {
        filter,
        shared: Shared::ByMany,
        value,
    }
}

/// Makes a filter whose values are shared by few resources.
pub const fn by_few<R>(filter: Filter, value: fn(&R) -> Option<Cow<'_, str>>) -> ListFilter<R> {
    ListFilter {
        filter,
        shared: Shared::ByFew,
        value,
    }
}

/// Returns `value` as the value of a filter.
pub fn is(value: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(value))
}

/// How the resources of a kind are listed.
pub struct List<R: 'static> {
    /// The filters on the resource's own values.
    pub filters: &'static [ListFilter<R>],
    /// The booking that a resource is bound to: the current values of that booking's fact are the
    /// resource's values of the filters in [`List::by_booking`].
    pub booking: fn(&R) -> Option<&str>,
    /// The filters whose values come from the booking's fact.
    pub by_booking: &'static [Filter],
    /// Whether a resource is listed, if not from its first commit on; once listed, it stays so.
    pub from_when: Option<fn(&R) -> bool>,
    /// If several resources are one item of the list: the key of the ranked list that they share,
    /// whose highest-ranked resource is shown.
    pub together: Option<fn(&R) -> Digest>,
    /// Whether a resource, once listed, stays listed, bound to the same booking, and with the same values.
    pub fixed: bool,
}

impl<R> List<R> {
    /// Makes a list with these filters, whose resources are bound to no booking.
    #[must_use]
    pub const fn by(filters: &'static [ListFilter<R>]) -> Self {
        Self {
            filters,
            booking: |_| None,
            by_booking: &[],
            from_when: None,
            together: None,
            fixed: false,
        }
    }

    /// Declares that a listed resource never changes its values.
    #[must_use]
    pub const fn fixed(self) -> Self {
        Self {
            fixed: true,
            ..self
        }
    }

    /// Adds filters whose values come from the fact of the resource's booking.
    #[must_use]
    pub const fn bound(
        self,
        booking: fn(&R) -> Option<&str>,
        by_booking: &'static [Filter],
    ) -> Self {
        Self {
            booking,
            by_booking,
            ..self
        }
    }

    /// Returns how many resources share a value of this filter; `None` when the kind does not have
    /// it.
    #[must_use]
    pub fn shared(&self, filter: Filter) -> Option<Shared> {
        let own = self.filters.iter().find(|own| own.filter == filter);
        own.map(|own| own.shared).or_else(|| {
            self.by_booking.contains(&filter).then_some(match filter {
                Filter::Branch | Filter::Status => Shared::ByMany,
                _ => Shared::ByFew,
            })
        })
    }

    fn is_listed(&self, state: &R) -> bool {
        self.from_when.is_none_or(|is_listed| is_listed(state))
    }

    /// Returns how a commit changes the place of the resource with this key; `None` when it does
    /// not.
    pub fn moved(&self, before: Option<&R>, next: &R, key: Digest) -> Option<ListMove> {
        let before = before.filter(|before| self.is_listed(before));
        // Where several resources are one item, the commit may change which of them is shown.
        if self.together.is_none() {
            // Making a value's text may take an allocation, which fixed values are spared.
            if self.fixed && before.is_some() {
                debug_assert!(self.stays(before, next), "values that are fixed change");
                return None;
            }
            if self.stays(before, next) {
                return None;
            }
        }
        let bound = (self.booking)(next);
        let now = bound.map(BookingHash::of);
        let was = |before: &R| match (self.booking)(before) {
            id if id == bound => now,
            id => id.map(BookingHash::of),
        };
        let after = self.is_listed(next).then(|| self.place_of(next, key, now));
        let before = before.map(|before| match &after {
            Some(after) => self.place_before(before, was(before), next, after),
            None => self.place_of(before, key, was(before)),
        });
        Some(ListMove { before, after })
    }

    /// Whether a commit leaves the place as it is, as most do; comparing texts is faster than hashing
    /// them.
    fn stays(&self, before: Option<&R>, next: &R) -> bool {
        let Some(before) = before else {
            return !self.is_listed(next);
        };
        let has_same = |own: &ListFilter<R>| (own.value)(before) == (own.value)(next);
        self.is_listed(next)
            && self.filters.iter().all(has_same)
            && (self.booking)(before) == (self.booking)(next)
    }

    /// Returns the place of the resource with this key; `None` while it is not listed.
    pub fn place(&self, state: &R, key: Digest) -> Option<ListPlace> {
        let booking = || (self.booking)(state).map(BookingHash::of);
        self.is_listed(state)
            .then(|| self.place_of(state, key, booking()))
    }

    /// Returns the place of a listed resource that is bound to this booking.
    fn place_of(&self, state: &R, key: Digest, booking: Option<BookingHash>) -> ListPlace {
        let value = |own: &ListFilter<R>| {
            let value = (own.value)(state)?;
            Some((own.shared, ValueHash::of(own.filter, &value)))
        };
        ListPlace {
            entry: self.together.map_or(key, |together| together(state)),
            values: self.filters.iter().filter_map(value).collect(),
            booking,
        }
    }

    /// Returns the place of a listed resource that was bound to this booking before the commit that
    /// makes it `next`, whose place is `after`. Values that stay are not hashed again.
    fn place_before(
        &self,
        before: &R,
        booking: Option<BookingHash>,
        next: &R,
        after: &ListPlace,
    ) -> ListPlace {
        let mut hashed = after.values.iter().copied();
        let value = |own: &ListFilter<R>| {
            let (old, new) = ((own.value)(before), (own.value)(next));
            // The place has the values in the order of the filters, without those that are missing.
            let hashed = new.as_ref().and_then(|_| hashed.next());
            if old == new {
                return hashed;
            }
            Some((own.shared, ValueHash::of(own.filter, &old?)))
        };
        ListPlace {
            entry: self
                .together
                .map_or(after.entry, |together| together(before)),
            values: self.filters.iter().filter_map(value).collect(),
            booking,
        }
    }

    /// Returns what a page needs to know of the resource; `None` while it is not listed.
    pub fn item(&self, state: &R, path: Vec<String>) -> Option<ListItem> {
        if !self.is_listed(state) {
            return None;
        }
        let value = |own: &ListFilter<R>| Some((own.filter, (own.value)(state)?.into_owned()));
        Some(ListItem {
            path,
            values: self.filters.iter().filter_map(value).collect(),
            booking: (self.booking)(state).map(ToOwned::to_owned),
        })
    }
}

/// A filter with a value, as a 64-bit hash that is valid in this process only: keyed at random, so
/// that collisions cannot be searched for. Resources found by it are checked for having the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueHash(pub u64);

impl ValueHash {
    /// Hashes this value of this filter.
    #[must_use]
    pub fn of(filter: Filter, value: &str) -> Self {
        static KEYED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYED.hash_one((filter, value)))
    }
}

/// A booking that resources are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookingHash {
    /// The key of its fact.
    pub fact: Digest,
    /// The hash by which the resources bound to it are found.
    pub value: ValueHash,
}

impl BookingHash {
    /// The kind of a booking's fact.
    pub const KIND: u16 = 3;

    /// Makes the hash of this booking.
    #[must_use]
    pub fn of(id: &str) -> Self {
        Self {
            fact: Digest::of(Self::KIND, &[id]),
            value: ValueHash::of(Filter::Booking, id),
        }
    }
}

/// A resource's place in its kind's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPlace {
    /// The key of the item that the resource is, or belongs to: its own key, or that of the list
    /// that several share.
    pub entry: Digest,
    /// The values by which it is found.
    pub values: Vec<(Shared, ValueHash)>,
    /// The booking whose fact gives further values.
    pub booking: Option<BookingHash>,
}

/// The change of a resource's place in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMove {
    /// The place before; `None` when it was not listed.
    pub before: Option<ListPlace>,
    /// The place after.
    pub after: Option<ListPlace>,
}

/// The change of the values by which other resources are found: those of a booking's fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadMove {
    /// The hash by which the resources bound to the booking are found.
    pub bound: ValueHash,
    /// Each filter with its value before and after.
    pub leads: Vec<(Filter, Option<ValueHash>, ValueHash)>,
}

/// A resource, as a page of a list needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    /// The values of the parameters of the path at which it is read.
    pub path: Vec<String>,
    /// The values of its own by which it is found.
    pub values: Vec<(Filter, String)>,
    /// The booking that it is bound to.
    pub booking: Option<String>,
}

/// Maximum number of values of a filter in a scope. For an actor with more values, the whole list
/// is searched page by page.
pub const SCOPE_MAX: usize = 1_000;

/// The part of a list that an actor may be shown: at least everything that the reads by id allow,
/// and not much more, since each resource is then checked one by one. The read decides what the
/// actor is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every resource.
    All,
    /// The resources that have one of these values; none when there are no values.
    Of(Vec<(Filter, String)>),
}

impl Scope {
    /// No resource.
    pub const NOTHING: Self = Self::Of(Vec::new());

    /// Makes the scope of resources that have one of these values of a filter.
    pub fn any<S: AsRef<str>>(filter: Filter, values: impl IntoIterator<Item = S>) -> Self {
        let one = |value: S| (filter, value.as_ref().to_owned());
        Self::Of(values.into_iter().map(one).collect())
    }

    /// Makes the scope of resources that belong to the branches that the actor manages.
    #[must_use]
    pub fn managed_by(actor: &Actor) -> Self {
        match actor.kind {
            ActorKind::BranchManager => Self::any(Filter::Branch, &actor.branch_profile_ids),
            _ => Self::NOTHING,
        }
    }

    /// Makes the scope of resources that are in this one or in the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Of(one), Self::Of(other)) => Self::Of([one, other].concat()),
            _ => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resource: status, booking, whether it is listed.
    #[derive(Clone, Copy)]
    struct One(&'static str, Option<&'static str>, bool);

    const PLAIN: List<One> = List {
        filters: &[
            by_many(Filter::Branch, |it: &One| is(it.1?)),
            by_many(Filter::Status, |it: &One| is(it.0)),
        ],
        booking: |it| it.1,
        by_booking: &[Filter::Mother],
        from_when: Some(|it| it.2),
        together: None,
        fixed: false,
    };
    const TOGETHER: List<One> = List {
        together: Some(|it| Digest::of(1, &[it.1.unwrap_or_default()])),
        ..PLAIN
    };

    #[test]
    fn a_move_is_recorded_if_its_place_differs_or_it_is_listed_together() {
        let key = Digest::of(100, &["one"]);
        let mut all = vec![];
        for status in ["open", "closed"] {
            for booking in [None, Some("a"), Some("b")] {
                all.extend([false, true].map(|is_listed| One(status, booking, is_listed)));
            }
        }
        let befores = all.iter().map(Some).chain([None]);
        for (before, next) in befores.flat_map(|before| all.iter().map(move |next| (before, next)))
        {
            for list in [PLAIN, TOGETHER] {
                let places = ListMove {
                    before: before.and_then(|before| list.place(before, key)),
                    after: list.place(next, key),
                };
                let is_told = places.before != places.after || list.together.is_some();
                assert_eq!(list.moved(before, next, key), is_told.then_some(places));
            }
        }
    }

    #[test]
    fn a_list_of_fixed_values_records_a_move_only_when_a_resource_joins() {
        let key = Digest::of(100, &["one"]);
        let fixed = PLAIN.fixed();
        let (unlisted, listed) = (One("open", Some("a"), false), One("open", Some("a"), true));
        for before in [None, Some(&unlisted)] {
            assert_eq!(fixed.moved(before, &unlisted, key), None);
            let joined = ListMove {
                before: None,
                after: fixed.place(&listed, key),
            };
            assert_eq!(fixed.moved(before, &listed, key), Some(joined));
        }
        assert_eq!(fixed.moved(Some(&listed), &listed, key), None);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "values that are fixed change")]
    fn a_list_is_fixed_only_where_no_value_changes() {
        let key = Digest::of(100, &["one"]);
        let (open, closed) = (One("open", None, true), One("closed", None, true));
        let _ = PLAIN.fixed().moved(Some(&open), &closed, key);
    }
}
