//! Lists: by what a kind's resources are found, and what of them an actor may be shown.
//!
//! A kind that can be listed says so beside its state, in [`Resource::LIST`]: one line for each
//! filter. What a booking's own fact says of it (its branch, its mother) is a filter of everything
//! that is bound to the booking, and follows that fact ([`Resource::filter_values`]).
//!
//! [`Resource::LIST`]: super::resource::Resource::LIST
//! [`Resource::filter_values`]: super::resource::Resource::filter_values

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::Digest;

/// What resources are found by in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// The branch that it belongs to.
    Branch,
    /// The booking that it belongs to.
    Booking,
    /// Its status.
    Status,
    /// The payment that it is about.
    Payment,
    /// The mother whom it concerns, as a user.
    Mother,
    /// The mother who granted it, as a member. No parameter: what she may read is found by it.
    GrantedBy,
    /// The member to whom it was granted. No parameter: what the member may read is found by it.
    GrantedTo,
    /// The branch that the fact it rests on names by now, where that is another one than its own.
    /// No parameter, and so are the next two.
    MovedToBranch,
    /// The mother whom the fact that it rests on names by now, where that is another one.
    MovedToMother,
    /// The booking that the fact it rests on names by now, where that is another one.
    MovedToBooking,
    /// The branch that a charge names, which counts while nothing is known of its booking. No
    /// parameter.
    ChargedBranch,
}

impl Filter {
    /// Those that a request can name, in the order of the documents.
    pub const PUBLIC: [Self; 5] = [
        Self::Branch,
        Self::Booking,
        Self::Status,
        Self::Payment,
        Self::Mother,
    ];

    /// The name of its parameter; `None` for one that no request can name.
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

/// How many resources share one value of a filter, which decides how they are kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Thousands: a status, a branch.
    ByMany,
    /// A few, mostly: a booking, a payment.
    ByFew,
}

/// A filter of a kind.
pub struct ListFilter<R: 'static> {
    /// Which one.
    pub filter: Filter,
    /// How many share a value.
    pub shared: Shared,
    value: fn(&R) -> Option<Cow<'_, str>>,
}

/// A filter whose values are shared by many resources.
pub const fn by_many<R>(filter: Filter, value: fn(&R) -> Option<Cow<'_, str>>) -> ListFilter<R> {
    ListFilter {
        filter,
        shared: Shared::ByMany,
        value,
    }
}

/// A filter whose values are shared by few resources.
pub const fn by_few<R>(filter: Filter, value: fn(&R) -> Option<Cow<'_, str>>) -> ListFilter<R> {
    ListFilter {
        filter,
        shared: Shared::ByFew,
        value,
    }
}

/// A value of a filter.
pub fn is(value: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(value))
}

/// How the resources of a kind are listed.
pub struct List<R: 'static> {
    /// What they are found by.
    pub filters: &'static [ListFilter<R>],
    /// The booking that one is bound to: the current values of its fact are what it is found by
    /// under [`List::by_booking`].
    pub booking: fn(&R) -> Option<&str>,
    /// The filters whose values come from the booking's fact.
    pub by_booking: &'static [Filter],
    /// Whether one is listed, where that is not from its first commit on; once it is, it stays so.
    pub from_when: Option<fn(&R) -> bool>,
    /// Where several are one item of the list: the key of the list with ranks that they are in, the
    /// highest of which is shown.
    pub together: Option<fn(&R) -> Digest>,
}

impl<R> List<R> {
    /// A list with these filters, whose resources are bound to no booking.
    #[must_use]
    pub const fn by(filters: &'static [ListFilter<R>]) -> Self {
        Self {
            filters,
            booking: |_| None,
            by_booking: &[],
            from_when: None,
            together: None,
        }
    }

    /// With what a booking's fact says as further filters.
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

    /// How many share a value of this filter; `None` when the kind does not have it.
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

    /// What a commit makes of the place of the resource with this key; `None` when nothing.
    pub fn moved(&self, before: Option<&R>, next: &R, key: Digest) -> Option<ListMove> {
        let before = before.filter(|before| self.is_listed(before));
        // Most commits leave a resource's place as it is: texts are compared sooner than hashed.
        let stays = match before {
            None => !self.is_listed(next),
            Some(before) => {
                let has_same = |own: &ListFilter<R>| (own.value)(before) == (own.value)(next);
                self.is_listed(next)
                    && self.filters.iter().all(has_same)
                    && (self.booking)(before) == (self.booking)(next)
            }
        };
        // Of several that are one item another one may be shown from here on.
        if stays && self.together.is_none() {
            return None;
        }
        let bound = (self.booking)(next);
        let now = bound.map(BookingHash::of);
        let was = |before: &R| match (self.booking)(before) {
            id if id == bound => now,
            id => id.map(BookingHash::of),
        };
        let after = self.is_listed(next);
        Some(ListMove {
            before: before.map(|before| self.place_of(before, key, was(before))),
            after: after.then(|| self.place_of(next, key, now)),
        })
    }

    /// The place of the resource with this key; `None` while it is not listed.
    pub fn place(&self, state: &R, key: Digest) -> Option<ListPlace> {
        let booking = || (self.booking)(state).map(BookingHash::of);
        self.is_listed(state)
            .then(|| self.place_of(state, key, booking()))
    }

    /// The place of one that is listed, and bound to this booking.
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

    /// What a page needs to know of a resource that is listed.
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

/// A filter and a value of it, as a 64-bit hash that is good for this process only: keyed at
/// random, so that collisions cannot be searched for. What is found by it is checked for having the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueHash(pub u64);

impl ValueHash {
    /// Of this value.
    #[must_use]
    pub fn of(filter: Filter, value: &str) -> Self {
        static KEYED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYED.hash_one((filter, value)))
    }
}

/// A booking that something is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookingHash {
    /// The key of its fact.
    pub fact: Digest,
    /// What is bound to it is found by this.
    pub value: ValueHash,
}

impl BookingHash {
    /// The kind of a booking's fact.
    pub const KIND: u16 = 3;

    /// Of this booking.
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
    /// The item that it is, or is one of: its own key, or the name that several share.
    pub entry: Digest,
    /// What it is found by.
    pub values: Vec<(Shared, ValueHash)>,
    /// The booking whose fact says by what else.
    pub booking: Option<BookingHash>,
}

/// What a commit makes of a resource's place in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMove {
    /// The place before; `None` when it was not listed.
    pub before: Option<ListPlace>,
    /// The place from here on.
    pub after: Option<ListPlace>,
}

/// What a commit makes of that by which others are found: of a booking's fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadMove {
    /// What is bound to it is found by this.
    pub bound: ValueHash,
    /// Each filter with its value before and from here on.
    pub leads: Vec<(Filter, Option<ValueHash>, ValueHash)>,
}

/// A resource, as a page of a list needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    /// The values of the parameters of the path at which it is read.
    pub path: Vec<String>,
    /// What it is found by, of its own.
    pub values: Vec<(Filter, String)>,
    /// The booking that it is bound to.
    pub booking: Option<String>,
}

/// How many values of a filter a scope has at most: an actor whose own are found by more is looked
/// for among all, page by page.
pub const SCOPE_MAX: usize = 1_000;

/// What of a list an actor may be shown: never less than the reads by id give, and no more than is
/// looked at one by one. What it is shown is decided by the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anything.
    All,
    /// What has one of these values; nothing when there is none.
    Of(Vec<(Filter, String)>),
}

impl Scope {
    /// Nothing of the list.
    pub const NOTHING: Self = Self::Of(Vec::new());

    /// What has one of these values of a filter.
    pub fn any<S: AsRef<str>>(filter: Filter, values: impl IntoIterator<Item = S>) -> Self {
        let one = |value: S| (filter, value.as_ref().to_owned());
        Self::Of(values.into_iter().map(one).collect())
    }

    /// What belongs to the branches that the actor manages.
    #[must_use]
    pub fn managed_by(actor: &Actor) -> Self {
        match actor.kind {
            ActorKind::BranchManager => Self::any(Filter::Branch, &actor.branch_profile_ids),
            _ => Self::NOTHING,
        }
    }

    /// What is in this one or in the other.
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

    /// Status, booking, whether it is listed.
    #[derive(Clone, Copy)]
    struct One(&'static str, Option<&'static str>, bool);

    const PLAIN: List<One> = List {
        filters: &[by_many(Filter::Status, |it: &One| is(it.0))],
        booking: |it| it.1,
        by_booking: &[Filter::Branch],
        from_when: Some(|it| it.2),
        together: None,
    };
    const TOGETHER: List<One> = List {
        together: Some(|it| Digest::of(1, &[it.1.unwrap_or_default()])),
        ..PLAIN
    };

    #[test]
    fn a_move_is_told_when_a_place_differs_and_of_what_is_listed_together_always() {
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
}
