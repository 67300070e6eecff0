//! The contract of a resource, and the read-only view of other resources' committed state.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::decoded::{Decoded, Kept};
use super::index::IndexKey;
use super::listing::{Filter, List};
use super::rank::Rank;
use super::stored::Older;
use crate::base::codec;
use crate::base::{digest::Digest, revision::Revision, time::Timestamp};

/// A kind of resource: a number that never changes (the log stores it) and a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The number in records and snapshots.
    pub tag: u16,
    /// The word for people and tools.
    pub name: &'static str,
}

impl Kind {
    /// Returns the key of the resource of this kind with this identifier (all its parts, where it has
    /// several).
    #[must_use]
    pub fn key<S: AsRef<str>>(&self, id: &[S]) -> Digest {
        Digest::of(self.tag, id)
    }
}

/// A resource: its state, and how an event changes it.
///
/// The same code runs when a command is decided, in recovery, and in tests, so it uses neither a clock
/// nor randomness.
pub trait Resource:
    Serialize + DeserializeOwned + Clone + PartialEq + fmt::Debug + Send + Sync + 'static
{
    /// Its kind.
    const KIND: Kind;

    /// What can happen to it.
    type Event: Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static;

    /// The older versions of its stored form, the first one first: the one place that converts older stored forms to the
    /// present one. The number of its version ([`version`](super::version::version)) is one more than the number of
    /// these. A change of the stored form adds the previous one here; `docs/changing-stored-types.md` says how.
    const OLDER: &'static [Older<Self, Self::Event>] = &[];

    /// The number of the parts of its identifier.
    const ID_PARTS: usize = 1;

    /// How the kind is listed, if it is.
    const LIST: Option<List<Self>> = None;

    /// Returns the state after `event`, which was committed at `at`.
    ///
    /// # Panics
    /// When the event cannot follow on the state: `decide` has accepted what it must refuse, or the log
    /// was not written by this program.
    fn apply(state: Option<Self>, event: &Self::Event, at: Timestamp) -> Self;

    /// Returns the parts of its identifier, as many as [`Resource::ID_PARTS`].
    fn id(&self) -> Vec<String>;

    /// Returns the values of the parameters of the path at which it is read: by default, its
    /// identifier, which is passed as `id`.
    fn path_by(&self, id: Vec<String>) -> Vec<String> {
        id
    }

    /// Returns the same as [`Resource::path_by`], for callers without the identifier.
    fn path(&self) -> Vec<String> {
        self.path_by(self.id())
    }

    /// Returns the number of commits that it has seen.
    fn revision(&self) -> Revision;

    /// Returns the revision that its readers know: by default, [`Resource::revision`].
    fn read_revision(&self) -> Revision {
        self.revision()
    }

    /// Returns its keys in unique indexes: a statement's code, a profile's owner. The engine keeps them
    /// unique among all resources.
    fn unique_keys(&self) -> Vec<IndexKey> {
        Vec::new()
    }

    /// Whether `name` is one of its [`Resource::unique_keys`].
    fn has_unique_key(&self, name: IndexKey) -> bool {
        self.unique_keys().contains(&name)
    }

    /// Returns the unique keys that only `before` holds, and those that only `next`, the state after a
    /// commit, holds; both in ascending order. `None` where the kind has to compare all of them.
    fn unique_keys_moved(_before: &Self, _next: &Self) -> Option<(Vec<IndexKey>, Vec<IndexKey>)> {
        None
    }

    /// Returns its keys in secondary indexes (*lists*), each once: the adjustments of a booking, the
    /// policies of a service type. Unlike a unique key, a list's key is shared by all resources in the
    /// list. [`ReadView::listed`] finds them.
    fn secondary_keys(&self) -> Vec<IndexKey> {
        Vec::new()
    }

    /// Returns the lists in which it has a rank, each once, with that rank. [`ReadView::last_ranked`]
    /// finds the highest-ranked resource; finding it, or the one behind any rank, costs the same
    /// however long the list is. A list is either ranked, or one of [`Resource::secondary_keys`].
    fn ranked(&self) -> Vec<(IndexKey, Rank)> {
        Vec::new()
    }

    /// Returns the values by which lists find the resources that are bound to this one.
    fn filter_values(&self) -> Vec<(Filter, &str)> {
        Vec::new()
    }

    /// Returns values, with their names, that people and tools see beside the state's fields: they
    /// follow from the fields, so they are not stored.
    fn derived(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Checks that the state is a possible one: before each commit, in recovery, and in `verify`.
    ///
    /// # Errors
    /// A sentence that says what is impossible.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the resource's key in every index.
    fn key(&self) -> Digest {
        Self::KIND.key(&self.id())
    }
}

/// A source of committed state.
pub trait Source {
    /// Passes the state's bytes to `read` and returns the position of the resource's last commit;
    /// `None` when there is no such resource.
    fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64>;

    /// Returns the key of the resource that holds the unique key `name`.
    fn holder(&self, name: IndexKey) -> Option<Digest>;

    /// Returns the position of the last commit by which a resource has joined or left `list`, or has
    /// changed while in it; 0 when there was none since the start. For an empty list it may be the position
    /// of a later commit. It never falls, and each commit that touches the list raises it.
    fn secondary_touched(&self, list: IndexKey) -> u64;

    /// Returns the keys of the resources in `list`, in ascending order, each once. When commits change
    /// the list meanwhile, resources that these commits add or remove may or may not be among them.
    fn listed(&self, list: IndexKey) -> Vec<Digest>;

    /// Returns the key of the highest-ranked resource in `list`, which must be a ranked one.
    fn last_ranked(&self, list: IndexKey) -> Option<Digest>;

    /// Returns the keys of all resources that have a rank in `list`, in ascending order of their ranks.
    fn ranked(&self, list: IndexKey) -> Vec<Digest>;

    /// Like [`Source::listed`], for a `list` whose resources, past and present, are all in `wider`: a source as of an
    /// earlier position finds there the resources that have left `list` since.
    fn listed_within(&self, list: IndexKey, _wider: IndexKey) -> Vec<Digest> {
        self.listed(list)
    }

    /// Takes the decoded resource with this key, if it is kept, and its last commit is still the same.
    fn take_decoded(&self, _key: Digest) -> Option<Kept> {
        None
    }

    /// Keeps a decoded resource for its next read, which mostly follows at once. It may be forgotten.
    fn keep_decoded(&self, _key: Digest, _kept: Kept) {}
}

/// A read-only view of committed state that records what was read from it (the read set), so that a
/// response can name the position that it depends on, and a commit can be validated.
pub struct ReadView<'a> {
    source: &'a dyn Source,
    seen: RefCell<Vec<(Digest, u64)>>,
    unique_seen: RefCell<Vec<(IndexKey, Option<Digest>)>>,
    secondary_seen: RefCell<Vec<(IndexKey, u64)>>,
    /// Resources read through lists, each with the position of its last commit.
    in_lists: RefCell<Vec<(Digest, u64)>>,
    /// A resource that was decoded before it is read, with its key and the position of its last commit.
    ahead: RefCell<Option<(Digest, u64, Decoded)>>,
    /// Number of bytes of the states that were decoded.
    decoded_bytes: Cell<usize>,
}

impl<'a> ReadView<'a> {
    /// Makes a view of `source` with an empty read set.
    #[must_use]
    pub fn new(source: &'a dyn Source) -> Self {
        Self {
            source,
            seen: RefCell::default(),
            unique_seen: RefCell::default(),
            secondary_seen: RefCell::default(),
            in_lists: RefCell::default(),
            ahead: RefCell::default(),
            decoded_bytes: Cell::default(),
        }
    }

    /// The resource with this identifier.
    #[must_use]
    pub fn get<R: Resource>(&self, id: &[&str]) -> Option<R> {
        self.at(R::KIND.key(id))
    }

    /// Returns the position of the last commit to the resource with this key, as this view has read it;
    /// 0 when it was not read, or does not exist.
    #[must_use]
    pub fn position(&self, key: Digest) -> u64 {
        let (seen, in_lists) = (self.seen.borrow(), self.in_lists.borrow());
        let read = in_lists.iter().chain(seen.iter());
        read.rev()
            .find(|(known, _)| *known == key)
            .map_or(0, |(_, position)| *position)
    }

    /// Returns the resource with this key, which must be of the kind `R`.
    ///
    /// # Panics
    /// When the state of that key is of another kind.
    #[must_use]
    pub fn at<R: Resource>(&self, key: Digest) -> Option<R> {
        let (state, position) = self.state(key);
        self.seen.borrow_mut().push((key, position));
        state
    }

    /// Returns a state and the position of its last commit; 0 when there is none.
    fn state<R: Resource>(&self, key: Digest) -> (Option<R>, u64) {
        let ahead = self.ahead.borrow_mut().take_if(|(known, ..)| *known == key);
        if let Some((_, position, decoded)) = ahead
            && let Ok(state) = decoded.downcast::<R>()
        {
            return (Some(*state), position);
        }
        if let Some(kept) = self.source.take_decoded(key)
            && let Ok(state) = kept.resource.downcast::<R>()
        {
            let decoded = self.decoded_bytes.get();
            self.decoded_bytes.set(decoded + kept.bytes);
            return (Some(*state), kept.position);
        }
        let mut state = None;
        let position = self.read_counted(key, &mut |bytes| {
            state = Some(codec::decode(bytes).expect("a state was encoded by this program"));
        });
        (state, position)
    }

    /// Passes the bytes of a state to `read`, and counts them; returns the position of the resource's
    /// last commit, 0 when there is none.
    fn read_counted(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> u64 {
        let position = self.source.read(key, &mut |bytes| {
            let decoded = self.decoded_bytes.get();
            self.decoded_bytes.set(decoded + bytes.len());
            read(bytes);
        });
        position.unwrap_or(0)
    }

    /// Returns the key of the highest-ranked resource in `list`, which must be a ranked one.
    pub(crate) fn last_ranked_key(&self, list: IndexKey) -> Option<Digest> {
        self.see_list(list);
        self.source.last_ranked(list)
    }

    /// Adds the resource with this key to the read set, at this position, without reading it: its actor
    /// has its state in memory.
    pub(crate) fn note(&self, key: Digest, position: u64) {
        self.seen.borrow_mut().push((key, position));
    }

    /// Returns what `decode` makes of the first fields of the state with this key.
    pub(crate) fn prefix<T>(&self, key: Digest, decode: impl Fn(&[u8]) -> T) -> Option<T> {
        let mut found = None;
        let position = self.read_counted(key, &mut |bytes| found = Some(decode(bytes)));
        self.seen.borrow_mut().push((key, position));
        found
    }

    /// Returns the resource that holds the unique key `name`.
    #[must_use]
    pub fn named<R: Resource>(&self, name: IndexKey) -> Option<R> {
        self.holder(name).and_then(|key| self.at(key))
    }

    /// Returns the key of the resource that holds the unique key `name`.
    #[must_use]
    pub fn holder(&self, name: IndexKey) -> Option<Digest> {
        let holder = self.source.holder(name);
        self.unique_seen.borrow_mut().push((name, holder));
        holder
    }

    /// Returns the keys of the resources in `list`, in ascending order (which has no meaning: sort by
    /// what matters).
    #[must_use]
    pub fn listed(&self, list: IndexKey) -> Vec<Digest> {
        self.see_list(list);
        self.source.listed(list)
    }

    /// Must be called before a list is read, so that validation sees whatever is committed in between.
    fn see_list(&self, list: IndexKey) {
        let touched = self.source.secondary_touched(list);
        self.secondary_seen.borrow_mut().push((list, touched));
    }

    /// Returns the resources in `list`, which must all be of the kind `R`, in the order of their keys.
    /// They are not added to the read set one by one: the list's position covers their changes.
    #[must_use]
    pub fn all_listed<R: Resource>(&self, list: IndexKey) -> Vec<R> {
        let all = self.all_listed_with_positions(list).into_iter();
        all.map(|(state, _)| state).collect()
    }

    /// Returns the same as [`ReadView::all_listed`]; `None` when there are more than `most`.
    #[must_use]
    pub fn at_most_listed<R: Resource>(&self, list: IndexKey, most: usize) -> Option<Vec<R>> {
        let keys = self.listed(list);
        if keys.len() > most {
            return None;
        }
        let all = keys.into_iter();
        Some(all.filter_map(|key| self.at(key)).collect())
    }

    /// Returns the same as [`ReadView::all_listed`], each with the position of its last commit.
    #[must_use]
    pub fn all_listed_with_positions<R: Resource>(&self, list: IndexKey) -> Vec<(R, u64)> {
        self.in_list(self.listed(list))
    }

    /// Like [`ReadView::all_listed`]; see [`Source::listed_within`].
    #[must_use]
    pub fn all_listed_within<R: Resource>(&self, list: IndexKey, wider: IndexKey) -> Vec<R> {
        self.see_list(list);
        let all = self.in_list(self.source.listed_within(list, wider));
        all.into_iter().map(|(state, _)| state).collect()
    }

    fn in_list<R: Resource>(&self, keys: Vec<Digest>) -> Vec<(R, u64)> {
        let read = |key| {
            let (state, position) = self.state(key);
            self.in_lists.borrow_mut().push((key, position));
            Some((state?, position))
        };
        keys.into_iter().filter_map(read).collect()
    }

    /// Returns the highest-ranked resource in `list`, which must be a ranked one. The cost does not
    /// depend on the number of resources in it.
    #[must_use]
    pub fn last_ranked<R: Resource>(&self, list: IndexKey) -> Option<R> {
        self.see_list(list);
        let key = self.source.last_ranked(list)?;
        let (state, position) = self.state(key);
        self.in_lists.borrow_mut().push((key, position));
        state
    }

    /// Returns the resources that have a rank in `list`, which must all be of the kind `R`, in
    /// ascending order of their ranks.
    #[must_use]
    pub fn all_ranked<R: Resource>(&self, list: IndexKey) -> Vec<R> {
        let keys = self.ranked(list).into_iter();
        keys.filter_map(|key| self.at(key)).collect()
    }

    /// Returns the keys of all resources that have a rank in `list`, in ascending order of their ranks.
    #[must_use]
    pub fn ranked(&self, list: IndexKey) -> Vec<Digest> {
        self.see_list(list);
        self.source.ranked(list)
    }

    /// Returns how many resources were read through secondary indexes.
    #[must_use]
    pub fn read_in_secondary(&self) -> usize {
        self.in_lists.borrow().len()
    }

    /// Whether anything was read.
    #[must_use]
    pub fn has_read(&self) -> bool {
        let read = !self.seen.borrow().is_empty() || !self.unique_seen.borrow().is_empty();
        read || !self.secondary_seen.borrow().is_empty()
    }

    /// Returns the resources in the read set, each with the position of its last commit (0: it did not
    /// exist).
    #[must_use]
    pub fn seen(&self) -> Vec<(Digest, u64)> {
        self.seen.borrow().clone()
    }

    /// Returns the unique keys that were looked up, each with its holder.
    #[must_use]
    pub fn unique_seen(&self) -> Vec<(IndexKey, Option<Digest>)> {
        self.unique_seen.borrow().clone()
    }

    /// Returns the lists that were looked up, each with the position of the last commit that touched
    /// it. While that position stays, the list contains the same resources, each in the same state.
    #[must_use]
    pub fn secondary_seen(&self) -> Vec<(IndexKey, u64)> {
        self.secondary_seen.borrow().clone()
    }

    /// Returns what `decode` makes of the state with this key, whatever its kind. The next read of the
    /// resource takes the decoded value, so that a large state is not decoded twice.
    pub(crate) fn decode_ahead<T>(
        &self,
        key: Digest,
        decode: impl Fn(&[u8]) -> Option<(T, Decoded)>,
    ) -> Option<T> {
        let mut found = None;
        let position = self.read_counted(key, &mut |bytes| found = decode(bytes));
        self.seen.borrow_mut().push((key, position));
        let (made, decoded) = found?;
        *self.ahead.borrow_mut() = Some((key, position, decoded));
        Some(made)
    }

    /// Keeps a resource, as this view has read it, for the next view of the same source.
    pub(crate) fn keep<R: Resource>(&self, resource: R) {
        let key = resource.key();
        let position = self.position(key);
        if position > 0 {
            let kept = Kept {
                position,
                bytes: self.decoded_bytes(),
                resource: Box::new(resource),
            };
            self.source.keep_decoded(key, kept);
        }
    }

    /// Returns how many bytes of states were decoded.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.decoded_bytes.get()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::change::Change;
    use super::super::index::Index;
    use super::super::registered::{AnyResource as _, Registered};
    use super::super::stored::Versioned;
    use super::*;
    use crate::domain::event::{Changed, EventType, PublicEvent, PublicEvents};

    /// A resource in the list of its owner.
    #[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Thing {
        number: u8,
        owner: String,
    }

    fn list(owner: &str) -> IndexKey {
        IndexKey::new(Index::ProfileOwner, &[owner])
    }

    impl Resource for Thing {
        const KIND: Kind = Kind {
            tag: 0x7fff,
            name: "thing",
        };
        type Event = Thing;

        fn apply(_: Option<Self>, event: &Self, _: Timestamp) -> Self {
            event.clone()
        }

        fn id(&self) -> Vec<String> {
            vec![self.number.to_string()]
        }

        fn revision(&self) -> Revision {
            Revision::FIRST
        }

        fn secondary_keys(&self) -> Vec<IndexKey> {
            vec![list(&self.owner)]
        }
    }

    impl PublicEvents for Thing {
        const READ_AT: &'static str = "things/{}";
        const TYPES: &'static [EventType] = &[];

        fn public_events(_: &Self::Event, _: &Changed<'_>) -> Vec<PublicEvent> {
            Vec::new()
        }
    }

    /// A source with two things in one list.
    struct Two;

    impl Source for Two {
        fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64> {
            let thing = [1, 2].map(|number| Thing {
                number,
                owner: "a".to_owned(),
            });
            let thing = thing.into_iter().find(|thing| thing.key() == key)?;
            read(&codec::encode(&thing));
            Some(u64::from(thing.number))
        }

        fn holder(&self, _: IndexKey) -> Option<Digest> {
            None
        }

        fn secondary_touched(&self, name: IndexKey) -> u64 {
            if name == list("a") { 2 } else { 0 }
        }

        fn listed(&self, name: IndexKey) -> Vec<Digest> {
            if name != list("a") {
                return Vec::new();
            }
            let mut keys = vec![Thing::KIND.key(&["1"]), Thing::KIND.key(&["2"])];
            keys.sort();
            keys
        }

        fn last_ranked(&self, _: IndexKey) -> Option<Digest> {
            None
        }

        fn ranked(&self, _: IndexKey) -> Vec<Digest> {
            Vec::new()
        }
    }

    #[test]
    fn a_view_remembers_the_lists_that_were_read_and_when_they_were_touched() {
        let view = ReadView::new(&Two);
        assert_eq!(view.all_listed::<Thing>(list("b")), []);
        let mut numbers: Vec<_> = view
            .all_listed::<Thing>(list("a"))
            .iter()
            .map(|thing| thing.number)
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(view.secondary_seen(), [(list("b"), 0), (list("a"), 2)]);
        assert_eq!(view.seen(), [], "the list tells of those that stand in it");
        assert_eq!(view.unique_seen(), [], "a list is no name");
    }

    #[test]
    fn a_state_decoded_ahead_is_used_once_by_the_next_read_of_it_alone() {
        let view = ReadView::new(&Two);
        let [one, two] = ["1", "2"].map(|number| Thing::KIND.key(&[number]));
        let number_at = |key| view.at::<Thing>(key).unwrap().number;
        let number = view.decode_ahead(one, |bytes| {
            let thing: Thing = codec::decode(bytes).unwrap();
            Some((thing.number, Box::new(thing) as Decoded))
        });
        assert_eq!(number, Some(1));
        let bytes = view.decoded_bytes();
        assert!(bytes > 0);
        assert_eq!(number_at(two), 2, "not the one that is at hand");
        assert_eq!(view.decoded_bytes(), 2 * bytes);
        assert_eq!(number_at(one), 1);
        assert_eq!(view.decoded_bytes(), 2 * bytes, "it is not decoded again");
        assert_eq!(number_at(one), 1);
        assert_eq!(view.decoded_bytes(), 3 * bytes, "it is taken once");
        assert_eq!(view.seen(), [(one, 1), (two, 2), (one, 1), (one, 1)]);
        let nothing = Thing::KIND.key(&["3"]);
        let found = view.decode_ahead(nothing, |_| Some(((), Box::new(()) as Decoded)));
        assert_eq!(found, None);
        assert_eq!(view.seen().last(), Some(&(nothing, 0)));
    }

    #[test]
    fn a_change_names_the_lists_left_and_joined_and_a_state_those_it_is_in() {
        let thing = |owner: &str| Thing {
            number: 1,
            owner: owner.to_owned(),
        };
        let change = |before: Option<&Thing>, next: &Thing| Change::of(before, next, next);
        let born = change(None, &thing("a"));
        assert_eq!(
            (born.secondary_left, born.secondary_joined),
            (vec![], vec![list("a")])
        );
        let moved = change(Some(&thing("a")), &thing("b"));
        assert_eq!(
            (moved.secondary_left, moved.secondary_joined),
            (vec![list("a")], vec![list("b")])
        );
        let registered = Registered::<Thing>::NEW;
        let mut state = Vec::new();
        let event = codec::encode(&thing("b"));
        let event = Versioned {
            version: 1,
            bytes: &event,
        };
        let before = codec::encode(&thing("a"));
        let mut replay = |before| {
            let replayed = registered.replay(before, event, Timestamp::default(), &mut state);
            (replayed.unwrap(), state.clone())
        };
        let (replayed, state) = replay(Some(before.as_slice()));
        assert_eq!((replayed.key, &state), (moved.key, &moved.state));
        assert_eq!(replayed.born, None);
        let entries = registered.entries(&state).unwrap();
        assert_eq!(replay(None).0.born.as_ref(), Some(&entries));
        assert_eq!(
            (entries.key, entries.unique, entries.secondary),
            (moved.key, vec![], vec![list("b")])
        );
        assert!(registered.entries(b"no thing").is_err());
    }
}
