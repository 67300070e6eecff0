//! Facts that other systems own, stored here as revisioned resources, on which the operations depend.
//!
//! Each kind has a schema in a file of its own in [`kinds`], and a row in [`FACTS`].
//!
//! [`FACTS`]: crate::domain::fact_kinds::FACTS

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::event::{Changed, EventType, PublicEvent, PublicEvents};
use super::index::IndexKey;
use super::listing::Filter;
use super::operation::Commit;
use super::resource::{Kind, ReadView, Resource};
use super::stored::Older;
use crate::base::codec;
use crate::base::json::{FaultCode, FromJson, Json, Reader, Shape};
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::base::time::Timestamp;

pub mod basis_points;
pub mod fact_lines;
pub mod kinds;
pub mod put;
pub mod read_fact;
pub mod samples;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod schema_tests;

/// The schema of one kind of fact.
pub trait FactKind:
    FromJson
    + Serialize
    + DeserializeOwned
    + Clone
    + PartialEq
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// The kind; its name is also its name in requests and responses.
    const KIND: Kind;
    /// The meaning of its identifiers, in a few words.
    const ID: &'static str;

    /// Returns the shape of its identifiers: [`FactKind::id_fault`] accepts the same ones.
    fn id_shape() -> Shape {
        Ident::shape()
    }

    /// Returns the fault of this identifier for a fact of this kind, where the kind's identifiers have
    /// a form or bounds of their own.
    fn id_fault(_id: &str) -> Option<FaultCode> {
        None
    }

    /// Returns the unique keys that the fact holds among all resources.
    fn unique_keys(&self, _id: &str) -> Vec<IndexKey> {
        Vec::new()
    }

    /// See [`Resource::filter_values`].
    fn filter_values(&self) -> Vec<(Filter, &str)> {
        Vec::new()
    }

    /// Returns the keys of the lists that the fact is in.
    fn secondary_keys(&self, _id: &str) -> Vec<IndexKey> {
        Vec::new()
    }
}

/// A kind whose facts are each a resource of their own, [`Fact`]. The facts of other kinds are stored
/// in a resource that adds this service's own data, under the same identifier ([`FactHolder`]): their
/// bytes are read only as that resource.
pub trait HeldAlone: FactKind {
    /// The type of its identifier: `str` where no other identifier could be mistaken for it.
    type Id: AsRef<str> + ?Sized;

    /// See [`Resource::OLDER`].
    const OLDER: &'static [Older<Fact<Self>, FactEvent<Self>>] = &[];
}

/// Whether `text` can be read as a `T`.
fn has_form<T: FromJson>(text: &str) -> bool {
    fault_of::<T>(text).is_none()
}

/// Returns the fault of this text as a `T`.
fn fault_of<T: FromJson>(text: &str) -> Option<FaultCode> {
    let mut at = Reader::new(Timestamp::default());
    T::read(&Json::Text(text.into()), &mut at);
    at.into_faults().first().map(|fault| fault.code)
}

/// A fact that is changed only by its own system, or as a whole by an operation. Its identifier and its
/// revision come first, so that they can be decoded without the facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Fact<K: FactKind> {
    /// Its identifier, opaque.
    pub id: Box<str>,
    /// Its revision, as its system counts.
    pub revision: Revision,
    /// The facts.
    pub facts: K,
}

/// What can happen to a fact.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum FactEvent<K: FactKind> {
    /// A new revision is stored.
    Put(Box<Fact<K>>),
}

impl<K: HeldAlone> Resource for Fact<K> {
    const KIND: Kind = K::KIND;
    type Event = FactEvent<K>;
    const OLDER: &'static [Older<Self, FactEvent<K>>] = K::OLDER;

    fn apply(_: Option<Self>, event: &FactEvent<K>, _: Timestamp) -> Self {
        match event {
            FactEvent::Put(fact) => (**fact).clone(),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![String::from(&*self.id)]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        self.facts.unique_keys(&self.id)
    }

    fn secondary_keys(&self) -> Vec<IndexKey> {
        self.facts.secondary_keys(&self.id)
    }

    fn filter_values(&self) -> Vec<(Filter, &str)> {
        self.facts.filter_values()
    }
}

impl<K: HeldAlone> PublicEvents for Fact<K> {
    const READ_AT: &'static str = "reference-facts/{}/{}";

    const TYPES: &'static [EventType] = &[EventType::fact_put(K::KIND.name)];

    fn public_events(
        FactEvent::Put(fact): &FactEvent<K>,
        changed: &Changed<'_>,
    ) -> Vec<PublicEvent> {
        vec![PublicEvent::fact(
            K::KIND.name,
            &fact.id,
            fact.revision,
            changed,
        )]
    }
}

impl ReadView<'_> {
    /// Returns the fact of kind `K` with this identifier.
    ///
    /// ```
    /// # use carebook::base::text::{BookingId, MemberId};
    /// # use carebook::domain::{reference::kinds::reservation_booking::ReservationBooking, resource::ReadView};
    /// fn is_known(view: &ReadView<'_>, booking: &BookingId) -> bool {
    ///     view.fact::<ReservationBooking>(booking).is_some()
    /// }
    /// ```
    ///
    /// The identifier of another type does not compile:
    ///
    /// ```compile_fail,E0308
    /// # use carebook::base::text::{BookingId, MemberId};
    /// # use carebook::domain::{reference::kinds::reservation_booking::ReservationBooking, resource::ReadView};
    /// fn is_known(view: &ReadView<'_>, mother: &MemberId) -> bool {
    ///     view.fact::<ReservationBooking>(mother).is_some()
    /// }
    /// ```
    ///
    /// A fact that another resource stores must be read as that resource:
    ///
    /// ```compile_fail,E0277
    /// # use carebook::domain::{reference::kinds::mother_profile::MotherProfileFact, resource::ReadView};
    /// fn is_known(view: &ReadView<'_>, mother: &str) -> bool {
    ///     view.fact::<MotherProfileFact>(mother).is_some()
    /// }
    /// ```
    #[must_use]
    pub fn fact<K: HeldAlone>(&self, id: &K::Id) -> Option<Fact<K>> {
        self.get(&[id.as_ref()])
    }
}

/// A resource that receives a system's facts: [`Fact`] itself, or a resource that adds this service's
/// own data to them.
pub trait FactHolder: Resource {
    /// The kind of the facts that it receives.
    type Facts: FactKind;

    /// The path of the field that is at fault, within the fact, where another resource has its unique key or where
    /// [`FactHolder::put`] refuses it.
    const CONFLICT_AT: &'static str = "facts";

    /// Returns the current fact with its revision, if there is one.
    fn fact(&self) -> Option<(Revision, &Self::Facts)>;

    /// Returns the revision of the current fact with this identifier, if there is one.
    fn revision_in(view: &ReadView<'_>, id: &str) -> Option<Revision> {
        let holder = view.get::<Self>(&[id])?;
        holder.fact().map(|(revision, _)| revision)
    }

    /// Returns the event that puts a new revision of the fact in place, or `None` when it conflicts
    /// with this service's own data (`conflict`).
    fn put(
        state: Option<&Self>,
        id: &str,
        revision: Revision,
        facts: &Self::Facts,
    ) -> Option<Self::Event>;
}

impl<K: HeldAlone> FactHolder for Fact<K> {
    type Facts = K;

    fn fact(&self) -> Option<(Revision, &K)> {
        Some((self.revision, &self.facts))
    }

    /// Decodes the identifier and the revision, with which the state begins, and not the facts.
    fn revision_in(view: &ReadView<'_>, id: &str) -> Option<Revision> {
        view.prefix(K::KIND.key(&[id]), |state| {
            let first = codec::decode_prefix::<(&str, Revision)>(state);
            let (_, revision) = first.expect("a state was encoded by this program");
            revision
        })
    }

    fn put(_: Option<&Self>, id: &str, revision: Revision, facts: &K) -> Option<FactEvent<K>> {
        Some(FactEvent::Put(Box::new(Self {
            id: id.into(),
            revision,
            facts: facts.clone(),
        })))
    }
}

impl<R: Resource> Commit<R> {
    /// Adds a fact that this commit creates, at its first revision. Its identifier must be fresh, as
    /// with [`Commit::create`].
    pub fn born_fact<H: FactHolder>(&mut self, id: &str, facts: &H::Facts) -> H {
        let event = H::put(None, id, Revision::FIRST, facts);
        self.create(&event.expect("nothing stands against the first revision of a fact"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::kinds::family_account::FamilyAccount;
    use super::*;
    use crate::domain::scenario::Scenario;

    type Account = Fact<FamilyAccount>;

    /// Makes a world with one account, at revision 7.
    fn world() -> Scenario {
        let mut service = Scenario::new();
        let account = json!({"motherMemberId": "mother-1", "memberIds": ["father"]});
        service.fact("family-account", "account-1", 7, account);
        service
    }

    #[test]
    fn a_fact_begins_with_its_identifier_and_its_revision() {
        let account = world().state::<Account>(&["account-1"]).unwrap();
        let state = codec::encode(&account);
        let first: (&str, Revision) = codec::decode_prefix(&state).unwrap();
        assert_eq!(first, ("account-1", Revision::new(7)));
    }

    #[test]
    fn a_fact_whose_revision_alone_was_read_is_in_the_read_set() {
        let service = world();
        for id in ["account-1", "no-such"] {
            let whole = service.view(|view| {
                let account = view.get::<Account>(&[id]);
                (account.map(|account| account.revision), view.seen())
            });
            let first = service.view(|view| (Account::revision_in(view, id), view.seen()));
            assert_eq!(first, whole, "{id}");
            assert_eq!(first.1.len(), 1, "{id}");
        }
    }
}
