//! Kinds of resources with their types erased, as the registry holds them, and the way from the log's
//! bytes back to states.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::change::Change;
use super::decoded::Decoded;
use super::event::{Changed, EventType, PublicEvent, PublicEvents};
use super::follow::event_name;
use super::index::IndexKey;
use super::listing::{Filter, List, ListItem, ListPlace, Shared};
use super::rank::Rank;
use super::resource::{Kind, Resource};
use super::stored::{Older, Versioned};
use super::version::version;
use crate::base::codec::{self, DecodeError};
use crate::base::{digest::Digest, revision::Revision, time::Timestamp};

/// The index entries of a resource, as they follow from its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Its key.
    pub key: Digest,
    /// Its unique keys.
    pub unique: Vec<IndexKey>,
    /// Its secondary keys.
    pub secondary: Vec<IndexKey>,
    /// The lists in which it has a rank.
    pub ranks: Vec<(IndexKey, Rank)>,
    /// Its place in the list of its kind.
    pub place: Option<ListPlace>,
}

/// What replaying an event finds out about its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Its key.
    pub key: Digest,
    /// Its index entries, if the event was its first one.
    pub born: Option<Entries>,
}

/// When the resources of a kind get into its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Never: the kind has no list.
    Never,
    /// From their first commit on.
    FromBirth,
    /// From some later commit on.
    Later,
}

/// Returns how bytes of the version `found` are read, if it is an older one; `None` if it is the
/// present one.
fn older<R: Resource>(found: u16) -> Result<Option<&'static Older<R, R::Event>>, DecodeError> {
    let known = version::<R>();
    if found == known {
        return Ok(None);
    }
    let older = found.checked_sub(1).map(usize::from);
    let older = older.and_then(|older| R::OLDER.get(older));
    match older {
        Some(older) => Ok(Some(older)),
        None => Err(unknown_version(R::KIND, found, known)),
    }
}

fn unknown_version(kind: Kind, found: u16, known: u16) -> DecodeError {
    match found {
        0 => DecodeError::Malformed(format!("a {} of version 0, which none is of", kind.name)),
        _ => DecodeError::other_version(format_args!("a {}", kind.name), found, known),
    }
}

fn read_event<R: Resource>(event: Versioned<'_>) -> Result<R::Event, DecodeError> {
    match older::<R>(event.version)? {
        None => codec::decode(event.bytes),
        Some(older) => (older.event)(event.bytes),
    }
}

/// A kind of resource with its types erased: turns the log's bytes back into states.
pub trait AnyResource: Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> Kind;
    /// Returns the version of its stored form ([`version`]). States in memory have this version, and
    /// so has every state that is passed here as bytes without a version.
    fn version(&self) -> u16;
    /// Converts a state's bytes to the present version.
    ///
    /// # Errors
    /// When the bytes are no state of that version, or this program does not know it.
    fn present<'a>(&self, state: Versioned<'a>) -> Result<Cow<'a, [u8]>, DecodeError>;
    /// Applies an event to a state's bytes, like [`Resource::apply`], and puts the bytes of the state
    /// after it into `next`.
    ///
    /// # Errors
    /// A sentence that says why the event cannot follow on the state.
    fn replay(
        &self,
        state: Option<&[u8]>,
        event: Versioned<'_>,
        at: Timestamp,
        next: &mut Vec<u8>,
    ) -> Result<Replayed, String>;
    /// Returns the change that an event makes of a resource, as the process had it that committed the
    /// event: the state after it, and the changes of indexes and lists.
    ///
    /// # Errors
    /// As [`AnyResource::replay`].
    fn change(
        &self,
        state: Option<&[u8]>,
        event: Versioned<'_>,
        at: Timestamp,
    ) -> Result<Change, String>;
    /// Returns a walk through the states of a resource, starting with `from`, or before its birth
    /// where that is `None`.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn retrace(&self, from: Option<Versioned<'_>>) -> Result<Box<dyn Retracing>, DecodeError>;
    /// Returns the index entries of a resource in this state.
    ///
    /// # Errors
    /// A sentence that says why the bytes are no such state, or why the state is invalid.
    fn entries(&self, state: &[u8]) -> Result<Entries, String>;
    /// Returns the unique keys of a state.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn unique_keys(&self, state: &[u8]) -> Result<Vec<IndexKey>, DecodeError>;
    /// Decodes a state, and returns the resource and whether it has this unique key.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn decode_with_name(
        &self,
        state: &[u8],
        name: IndexKey,
    ) -> Result<(bool, Decoded), DecodeError>;
    /// Returns the revision of a state.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn revision(&self, state: &[u8]) -> Result<Revision, DecodeError>;
    /// Shows a state as JSON, for people and tools: its fields under the names that they have in the
    /// code, and values derived from them ([`Resource::derived`]); bytes as hexadecimal digits. The
    /// form of this JSON is not part of any contract.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn state_json(&self, state: &[u8]) -> Result<Value, DecodeError>;
    /// Shows an event as JSON, like [`AnyResource::state_json`]: an object whose one field is the
    /// event's name.
    ///
    /// # Errors
    /// When the bytes are no such event.
    fn event_json(&self, event: Versioned<'_>) -> Result<Value, DecodeError>;
    /// Returns the parts of a state's identifier.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn id(&self, state: &[u8]) -> Result<Vec<String>, DecodeError>;
    /// Returns the number of the parts of an identifier.
    fn id_parts(&self) -> usize;
    /// Returns the public events of the change that this event makes.
    ///
    /// # Errors
    /// When the bytes are no such event.
    fn public_events(
        &self,
        event: Versioned<'_>,
        changed: &Changed<'_>,
    ) -> Result<Vec<PublicEvent>, DecodeError>;
    /// Returns the types of its public events.
    fn event_types(&self) -> &'static [EventType];
    /// Returns the path at which such a resource is read ([`PublicEvents::READ_AT`]).
    fn read_at(&self) -> &'static str;
    /// Returns when a resource gets into the list of its kind.
    fn listed(&self) -> Listed;
    /// Whether several resources are one item of the list: the resource that ranks highest in the
    /// ranked list whose key the item has.
    fn is_together(&self) -> bool;
    /// Returns how many resources share a value of this filter; `None` when the kind does not have
    /// it.
    fn filter(&self, filter: Filter) -> Option<Shared>;
    /// Returns the filters whose values come from a booking's fact.
    fn by_booking(&self) -> &'static [Filter];
    /// Returns the place of a resource in the list of its kind; `None` when it is not listed.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn place(&self, state: &[u8]) -> Result<Option<ListPlace>, DecodeError>;
    /// Returns a resource as a page of the list needs it, with the decoded resource; `None` when it
    /// is not listed.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn item(&self, state: &[u8]) -> Result<Option<(ListItem, Decoded)>, DecodeError>;
    /// Returns the forms of state and event, and of all types that they contain.
    #[cfg(test)]
    fn forms(&self) -> Vec<String>;
}

/// A walk through the states of a resource, one after another, as its events have made them. A state
/// is decoded once, and encoded only on request, so that many events cost little.
pub trait Retracing {
    /// Advances to the state after this event, which was committed at `at`.
    ///
    /// # Errors
    /// A sentence that says why the event cannot follow on the state.
    fn apply(&mut self, event: Versioned<'_>, at: Timestamp) -> Result<(), String>;
    /// Returns the bytes of the state, in the present version; `None` before the birth.
    fn state(&self) -> Option<Vec<u8>>;
    /// Returns the revision of the state; [`Revision::NONE`] before the birth.
    fn revision(&self) -> Revision;
}

impl<R: Resource> Retracing for Option<R> {
    fn apply(&mut self, event: Versioned<'_>, at: Timestamp) -> Result<(), String> {
        let event = read_event::<R>(event).map_err(|error| format!("the event: {error}"))?;
        *self = Some(applied(self.take(), &event, at)?);
        Ok(())
    }

    fn state(&self) -> Option<Vec<u8>> {
        self.as_ref().map(codec::encode)
    }

    fn revision(&self) -> Revision {
        self.as_ref().map_or(Revision::NONE, R::revision)
    }
}

/// Returns the state after an event, or a sentence that says why the event cannot follow.
fn applied<R: Resource>(before: Option<R>, event: &R::Event, at: Timestamp) -> Result<R, String> {
    let revision = before.as_ref().map(R::revision);
    let apply = std::panic::AssertUnwindSafe(|| R::apply(before, event, at));
    std::panic::catch_unwind(apply).map_err(|_| {
        let event = event_name(event);
        format!("{event} does not follow on revision {revision:?}")
    })
}

/// Decodes a state and the event that is to follow on it.
fn decoded<R: Resource>(
    state: Option<&[u8]>,
    event: Versioned<'_>,
) -> Result<(Option<R>, R::Event), String> {
    let state = state.map(codec::decode).transpose();
    let state = state.map_err(|error| format!("the state: {error}"))?;
    let event = read_event::<R>(event).map_err(|error| format!("the event: {error}"))?;
    Ok((state, event))
}

/// Returns the state after an event, if the event can follow and the state after it is valid.
fn valid_after<R: Resource>(
    before: Option<R>,
    event: &R::Event,
    at: Timestamp,
) -> Result<R, String> {
    let after = applied(before, event, at)?;
    after.validate()?;
    Ok(after)
}

/// A function that finds a kind of resource by its tag.
pub type Kinds = fn(u16) -> Option<&'static dyn AnyResource>;

/// Finds the kind with this tag, which must be able to read bytes of this version.
///
/// # Errors
/// [`DecodeError::OtherVersion`] when there is no such kind, or it does not know the version.
pub fn known(
    kinds: Kinds,
    tag: u16,
    version: u16,
) -> Result<&'static dyn AnyResource, DecodeError> {
    let Some(resource) = kinds(tag) else {
        return Err(DecodeError::OtherVersion(format!(
            "resource kind {tag} is not known here: it was written by a newer carebook, run that one"
        )));
    };
    let known = resource.version();
    if (1..=known).contains(&version) {
        Ok(resource)
    } else {
        Err(unknown_version(resource.kind(), version, known))
    }
}

/// Returns the value as JSON.
fn json_of<T: Serialize>(value: &T) -> Result<Value, DecodeError> {
    serde_json::to_value(value).map_err(|error| DecodeError::Malformed(error.to_string()))
}

/// Returns how the kind `R` is listed, if it is.
fn list_of<R: Resource>() -> Option<&'static List<R>> {
    const { &R::LIST }.as_ref()
}

/// Returns the index entries of a resource, which has this key.
fn entries<R: Resource>(state: &R, key: Digest) -> Entries {
    Entries {
        key,
        unique: state.unique_keys(),
        secondary: state.secondary_keys(),
        ranks: state.ranked(),
        place: list_of::<R>().and_then(|list| list.place(state, key)),
    }
}

/// Erases the type of the resource `R`.
pub struct Registered<R>(std::marker::PhantomData<R>);

impl<R> Registered<R> {
    /// The one value of the type.
    pub const NEW: Self = Self(std::marker::PhantomData);
}

impl<R: PublicEvents> AnyResource for Registered<R> {
    fn kind(&self) -> Kind {
        R::KIND
    }

    fn version(&self) -> u16 {
        version::<R>()
    }

    fn present<'a>(&self, state: Versioned<'a>) -> Result<Cow<'a, [u8]>, DecodeError> {
        Ok(match older::<R>(state.version)? {
            None => Cow::Borrowed(state.bytes),
            Some(older) => Cow::Owned(codec::encode(&(older.state)(state.bytes)?)),
        })
    }

    fn replay(
        &self,
        state: Option<&[u8]>,
        event: Versioned<'_>,
        at: Timestamp,
        next: &mut Vec<u8>,
    ) -> Result<Replayed, String> {
        let is_first = state.is_none();
        let (before, event) = decoded::<R>(state, event)?;
        let after = valid_after(before, &event, at)?;
        codec::encode_into(&after, next);
        let key = after.key();
        let born = is_first.then(|| entries(&after, key));
        Ok(Replayed { key, born })
    }

    fn change(
        &self,
        state: Option<&[u8]>,
        event: Versioned<'_>,
        at: Timestamp,
    ) -> Result<Change, String> {
        let (before, event) = decoded::<R>(state, event)?;
        let after = valid_after(before.clone(), &event, at)?;
        Ok(Change::of(before.as_ref(), &event, &after))
    }

    fn retrace(&self, from: Option<Versioned<'_>>) -> Result<Box<dyn Retracing>, DecodeError> {
        let state: Option<R> = match from {
            None => None,
            Some(from) => Some(codec::decode(&self.present(from)?)?),
        };
        Ok(Box::new(state))
    }

    fn entries(&self, state: &[u8]) -> Result<Entries, String> {
        let state: R = codec::decode(state).map_err(|error| error.to_string())?;
        state.validate()?;
        Ok(entries(&state, state.key()))
    }

    fn unique_keys(&self, state: &[u8]) -> Result<Vec<IndexKey>, DecodeError> {
        codec::decode::<R>(state).map(|state| state.unique_keys())
    }

    fn decode_with_name(
        &self,
        state: &[u8],
        name: IndexKey,
    ) -> Result<(bool, Decoded), DecodeError> {
        let state: R = codec::decode(state)?;
        let has_it = state.has_unique_key(name);
        Ok((has_it, Box::new(state) as Decoded))
    }

    fn revision(&self, state: &[u8]) -> Result<Revision, DecodeError> {
        codec::decode::<R>(state).map(|state| state.revision())
    }

    fn state_json(&self, state: &[u8]) -> Result<Value, DecodeError> {
        let state: R = codec::decode(state)?;
        let mut json = json_of(&state)?;
        if let Value::Object(fields) = &mut json {
            let derived = state.derived().into_iter();
            fields.extend(derived.map(|(name, value)| (name.to_owned(), value)));
        }
        Ok(json)
    }

    fn event_json(&self, event: Versioned<'_>) -> Result<Value, DecodeError> {
        json_of(&read_event::<R>(event)?)
    }

    fn id(&self, state: &[u8]) -> Result<Vec<String>, DecodeError> {
        let id = codec::decode::<R>(state)?.id();
        debug_assert_eq!(id.len(), R::ID_PARTS, "of a {}", R::KIND.name);
        Ok(id)
    }

    fn id_parts(&self) -> usize {
        R::ID_PARTS
    }

    fn public_events(
        &self,
        event: Versioned<'_>,
        changed: &Changed<'_>,
    ) -> Result<Vec<PublicEvent>, DecodeError> {
        Ok(R::public_events(&read_event::<R>(event)?, changed))
    }

    fn event_types(&self) -> &'static [EventType] {
        R::TYPES
    }

    fn read_at(&self) -> &'static str {
        R::READ_AT
    }

    fn listed(&self) -> Listed {
        match list_of::<R>() {
            None => Listed::Never,
            Some(list) if list.from_when.is_some() => Listed::Later,
            Some(_) => Listed::FromBirth,
        }
    }

    fn is_together(&self) -> bool {
        list_of::<R>().is_some_and(|list| list.together.is_some())
    }

    fn filter(&self, filter: Filter) -> Option<Shared> {
        list_of::<R>()?.shared(filter)
    }

    fn by_booking(&self) -> &'static [Filter] {
        list_of::<R>().map_or(&[], |list| list.by_booking)
    }

    fn place(&self, state: &[u8]) -> Result<Option<ListPlace>, DecodeError> {
        let Some(list) = list_of::<R>() else {
            return Ok(None);
        };
        let state: R = codec::decode(state)?;
        Ok(list.place(&state, state.key()))
    }

    fn item(&self, state: &[u8]) -> Result<Option<(ListItem, Decoded)>, DecodeError> {
        let Some(list) = list_of::<R>() else {
            return Ok(None);
        };
        let state: R = codec::decode(state)?;
        let item = list.item(&state, state.path());
        Ok(item.map(|item| (item, Box::new(state) as Decoded)))
    }

    #[cfg(test)]
    fn forms(&self) -> Vec<String> {
        let forms = crate::base::forms::Forms::default();
        let state = format!("state: {}", forms.trace::<R>());
        let event = format!("event: {}", forms.trace::<R::Event>());
        [vec![state, event], forms.lines()].concat()
    }
}
