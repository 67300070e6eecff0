//! A shard of the table of states: a slab, and a hash index of the states' keys.

use std::collections::HashSet;

use super::half_key::{Alike, HalfKey, HalfKeyCollisions};
use super::hash_index::{Entry, HashIndex};
use super::slab::{Alone, Place, Slab};
use super::stored_state::StoredState;
use crate::base::digest::Digest;

/// States by their keys. The hash index only has places, of four bytes; the keys needed for comparisons, and for
/// hashing when it grows, are in the slab.
#[derive(Default)]
pub(super) struct States {
    index: HashIndex,
    slab: Slab,
    /// Number of added states that are not in the index yet.
    noted: usize,
    /// Keys of states that have moved, while the places are visited.
    moved: Option<Vec<Digest>>,
}

/// A state found while the shard is locked.
pub(super) enum StateRef<'a> {
    /// A state to be copied while the shard is locked.
    Small(StoredState<'a>),
    /// A shared state: the shard can be unlocked.
    Large(Alone),
}

impl States {
    /// Number of states, without those that are only noted.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    fn place(&self, key: Digest) -> Option<Place> {
        let key_of = |place| self.slab.key(Place::of(place));
        self.index.find(key, key_of).map(Place::of)
    }

    /// Returns the state with this key.
    pub(super) fn get(&self, key: Digest) -> Option<StoredState<'_>> {
        let place = self.place(key)?;
        Some(self.slab.get(place))
    }

    /// Returns the key with this half of a state for which `is_meant` holds.
    pub(super) fn key_like(
        &self,
        half: HalfKey,
        is_meant: impl Fn(StoredState<'_>) -> bool,
    ) -> Option<Digest> {
        let place = self.index.find_if(half.alike(), |place| {
            let place = Place::of(place);
            HalfKey::of(self.slab.key(place)) == half && is_meant(self.slab.get(place))
        })?;
        Some(self.slab.key(Place::of(place)))
    }

    /// Returns the key with this half that is not later.
    pub(super) fn first_like(&self, half: HalfKey, later: &HalfKeyCollisions) -> Option<Digest> {
        self.key_like(half, |state| !later.has(state.key))
    }

    /// Returns the state with this key, in a form that needs the lock only briefly.
    pub(super) fn look(&self, key: Digest) -> Option<StateRef<'_>> {
        let place = self.place(key)?;
        Some(match self.slab.page_of(place) {
            Some(page) => StateRef::Large(Alone::clone(page)),
            None => StateRef::Small(self.slab.get(place)),
        })
    }

    /// Notes the keys of states that move from here on.
    pub(super) fn watch(&mut self) {
        self.moved = Some(Vec::new());
    }

    /// Returns the states that have moved since [`States::watch`].
    pub(super) fn watched(&mut self) -> Vec<Digest> {
        self.moved.take().unwrap_or_default()
    }

    /// Number of pages to visit.
    pub(super) fn pages(&self) -> usize {
        self.slab.pages()
    }

    /// Returns the keys of the states in one page.
    pub(super) fn keys_in(&self, page: usize) -> impl Iterator<Item = Digest> {
        self.slab.keys_in(page)
    }

    /// Makes room for a state before it is put; `alone` says whether it will have a page of its own.
    pub(super) fn reserve(&mut self, state: StoredState<'_>, alone: bool) {
        let slab = &mut self.slab;
        let key_of = |place| slab.key(Place::of(place));
        self.index.reserve(state.key, key_of);
        let place = self.index.find(state.key, key_of).map(Place::of);
        if alone {
            slab.reserve_number();
        } else if place.is_none_or(|place| !slab.fits(place, state)) {
            slab.reserve(state);
        }
    }

    /// Stores a state, replacing the one with its key. `page` is its own page, if it is large. Returns the own page
    /// of the previous state, to be freed after the shard is unlocked.
    pub(super) fn put(
        &mut self,
        state: StoredState<'_>,
        page: Option<Alone>,
        later: &HalfKeyCollisions,
    ) -> Option<Alone> {
        let slab = &mut self.slab;
        let note = |moved: &mut Option<Vec<Digest>>, key| {
            if let Some(keys) = moved {
                keys.push(key);
            }
        };
        let add = |slab: &mut Slab, page: Option<Alone>| match page {
            Some(page) => slab.add_page(page),
            None => slab.add(state),
        };
        let alike = Alike::to(state.key);
        let key_of = |place| alike.seen(slab.key(Place::of(place)));
        match self.index.entry(state.key, key_of) {
            Entry::Vacant(entry) => {
                alike.note_if_later(later);
                entry.insert(add(slab, page).number());
                note(&mut self.moved, state.key);
                None
            }
            Entry::Occupied(mut entry) => {
                let place = Place::of(entry.get());
                let page = match page {
                    Some(page) => match slab.exchange(place, page) {
                        Ok(before) => return Some(before),
                        Err(page) => Some(page),
                    },
                    None if slab.replace(place, state) => return None,
                    None => None,
                };
                let before = slab.page_of(place).map(Alone::clone);
                entry.set(add(slab, page).number());
                note(&mut self.moved, state.key);
                if let Some((moved, from)) = slab.remove(place) {
                    note(&mut self.moved, moved);
                    self.index.moved(moved, from.number(), place.number());
                }
                before
            }
        }
    }

    /// Loads into the processor's cache the data read for the state with this key.
    pub(super) fn prefetch(&self, key: Digest) {
        self.index.prefetch(key);
    }

    /// Iterates over all states, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = StoredState<'_>> {
        self.slab.iter()
    }

    /// Adds a state that is not found before [`States::index_noted`]. For recovery, as long as the shard has no
    /// indexed state.
    pub(super) fn note(&mut self, state: StoredState<'_>) {
        assert_eq!(self.index.len(), 0, "others are there already");
        self.slab.add(state);
        self.noted += 1;
    }

    /// Builds an index of all noted states, at once.
    ///
    /// # Errors
    /// Of the states that share a key with another one, the one with the lowest position.
    pub(super) fn index_noted(&mut self, later: &HalfKeyCollisions) -> Result<(), StoredState<'_>> {
        let noted = std::mem::take(&mut self.noted);
        if noted == 0 {
            return Ok(());
        }
        let slab = &self.slab;
        let key_of = |place| slab.key(Place::of(place));
        let are_same = |one, other| {
            let (key, alike) = (key_of(one), Alike::to(key_of(one)));
            let is_same = alike.seen(key_of(other)) == key;
            if !is_same {
                alike.note_if_later(later);
            }
            is_same
        };
        let all = slab.places().map(|(key, place)| (key, place.number()));
        if let Some(index) = HashIndex::of_different(noted, all, are_same) {
            self.index = index;
            return Ok(());
        }
        let mut keys = HashSet::new();
        let again = slab.iter().filter(|state| !keys.insert(state.key));
        let twice: HashSet<_> = again.map(|state| state.key).collect();
        let twice = slab.iter().filter(|state| twice.contains(&state.key));
        let first = twice.min_by_key(|state| (state.position, state.kind, state.key));
        Err(first.expect("two states have one key"))
    }

    /// Replaces the state with this key by the bytes that `change` returns; leaves it if `change` returns none. For
    /// recovery, during which the places are not visited.
    ///
    /// # Errors
    /// The error of `change`.
    pub(super) fn amend<'n, E>(
        &mut self,
        position: u64,
        kind: u16,
        key: Digest,
        later: &HalfKeyCollisions,
        change: impl FnOnce(Option<StoredState<'_>>) -> Result<Option<&'n [u8]>, E>,
    ) -> Result<(), E> {
        let slab = &mut self.slab;
        let with = |bytes| StoredState {
            kind,
            key,
            position,
            bytes,
        };
        let alike = Alike::to(key);
        let key_of = |place| alike.seen(slab.key(Place::of(place)));
        match self.index.entry(key, key_of) {
            Entry::Vacant(entry) => {
                if let Some(bytes) = change(None)? {
                    alike.note_if_later(later);
                    entry.insert(slab.add(with(bytes)).number());
                }
            }
            Entry::Occupied(mut entry) => {
                let place = Place::of(entry.get());
                let Some(bytes) = change(Some(slab.get(place)))? else {
                    return Ok(());
                };
                if slab.replace(place, with(bytes)) {
                    return Ok(());
                }
                entry.set(slab.add(with(bytes)).number());
                if let Some((moved, from)) = slab.remove(place) {
                    self.index.moved(moved, from.number(), place.number());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::slab;
    use super::*;

    #[test]
    fn random_changes_leave_what_a_map_would_have() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut states, later) = (States::default(), HalfKeyCollisions::default());
        let mut model: HashMap<Digest, (u16, u64, Vec<u8>)> = HashMap::new();
        for position in 1..30_000 {
            let number = random.random_range(0..2_000_u32);
            // Few hashes, so that keys collide in the index.
            let mut key = Digest([0; 16]);
            key.0[..4].copy_from_slice(&number.to_le_bytes());
            key.0[8] = number.to_le_bytes()[0];
            let kind = random.random();
            let most = [40, 400, 12_000][random.random_range(0..3)];
            let length = random.random_range(0..most);
            let bytes = vec![random.random(); length];
            let (leave, fail) = (random.random_ratio(1, 10), random.random_ratio(1, 10));
            let amended = states.amend(position, kind, key, &later, |before| {
                let before = before.map(|it| (it.kind, it.position, it.bytes.to_vec()));
                assert_eq!(before.as_ref(), model.get(&key), "SEED={seed}");
                match (fail, leave) {
                    (true, _) => Err("no"),
                    (_, true) => Ok(None),
                    _ => Ok(Some(bytes.as_slice())),
                }
            });
            assert_eq!(amended.is_err(), fail);
            if !leave && !fail {
                model.insert(key, (kind, position, bytes));
            }
        }
        assert_eq!(states.len(), model.len());
        assert_eq!(states.iter().count(), model.len());
        for state in states.iter() {
            let it = (state.kind, state.position, state.bytes.to_vec());
            assert_eq!(Some(&it), model.get(&state.key), "SEED={seed}");
            assert_eq!(states.get(state.key), Some(state));
        }
        assert_eq!(states.get(Digest([9; 16])), None);
    }

    #[test]
    fn room_that_is_made_alters_nothing_and_is_where_the_state_goes() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut states, later) = (States::default(), HalfKeyCollisions::default());
        let mut model: HashMap<Digest, (u64, Vec<u8>)> = HashMap::new();
        for position in 1..20_000 {
            let mut key = Digest([5; 16]);
            let number: u32 = random.random_range(0..2_000);
            key.0[4..8].copy_from_slice(&number.to_le_bytes());
            let most = [40, 400, 12_000][random.random_range(0..3)];
            let bytes = vec![random.random(); random.random_range(0..most)];
            let state = StoredState {
                kind: 3,
                key,
                position,
                bytes: &bytes,
            };
            let page = slab::alone(state);
            for _ in 0..random.random_range(1..3) {
                states.reserve(state, page.is_some());
            }
            let before = states.get(key).map(|it| (it.position, it.bytes.to_vec()));
            assert_eq!(before.as_ref(), model.get(&key), "SEED={seed}");
            assert_eq!(states.iter().count(), model.len(), "SEED={seed}");
            let memory = states.slab.memory();
            let is_alone = page.is_some();
            states.put(state, page, &later);
            // A page that becomes empty returns its memory.
            if !is_alone && before.is_none() {
                assert_eq!(states.slab.memory(), memory, "SEED={seed}");
            }
            model.insert(key, (position, bytes));
        }
        for state in states.iter() {
            let it = (state.position, state.bytes.to_vec());
            assert_eq!(Some(&it), model.get(&state.key), "SEED={seed}");
        }
        assert_eq!(states.len(), model.len());
    }

    #[test]
    fn noted_states_are_found_after_indexing_and_a_duplicate_is_reported() {
        // Three keys have the same half.
        fn key(number: u16) -> Digest {
            let mut key = Digest::of(1, &[number.max(3).to_string()]);
            key.0[15] = number.min(3).to_le_bytes()[0];
            key
        }
        fn state(number: u16, bytes: &[u8]) -> StoredState<'_> {
            StoredState {
                kind: 3,
                key: key(number),
                position: u64::from(number),
                bytes,
            }
        }
        let lengths = [20, 300, 12_000];
        let bytes = |number: u16| vec![7; lengths[usize::from(number % 3)]];
        let noted = |count| {
            let mut states = States::default();
            (1..=count).for_each(|number| states.note(state(number, &bytes(number))));
            states
        };
        let (mut states, later) = (noted(2_000), HalfKeyCollisions::default());
        assert_eq!(states.index_noted(&later), Ok(()));
        assert_eq!(states.index_noted(&later), Ok(()));
        assert_eq!(states.len(), 2_000);
        for number in 1..=2_000 {
            let bytes = bytes(number);
            assert_eq!(states.get(key(number)), Some(state(number, &bytes)));
        }
        assert_eq!(states.get(key(0)), None);
        let alike = [1, 2, 3].map(key);
        assert!(
            alike
                .iter()
                .all(|key| HalfKey::of(*key) == HalfKey::of(alike[0]))
        );
        let first = alike.iter().filter(|key| !later.has(**key));
        assert_eq!(first.count(), 1);
        let (half, first) = (HalfKey::of(alike[0]), |key: &Digest| !later.has(*key));
        assert_eq!(
            states.first_like(half, &later).as_ref(),
            alike.iter().find(|key| first(key))
        );
        assert!((4..=2_000).all(|number| !later.has(key(number))));
        // These states change like any others.
        let changed = states.amend(9_000, 3, key(77), &later, |before| {
            assert!(before.is_some());
            Ok::<_, Infallible>(Some(b"changed"))
        });
        assert_eq!(changed, Ok(()));
        assert_eq!(states.get(key(77)).unwrap().position, 9_000);
        for twice in [1, 3, 700] {
            let mut states = noted(1_000);
            states.note(state(twice, b"again"));
            let told = states.index_noted(&later).unwrap_err();
            assert_eq!(told.key, key(twice));
        }
        // Several duplicates, in any order and of any size.
        let mut states = noted(1_000);
        for twice in [700, 9, 8, 10] {
            states.note(state(twice, &bytes(twice + 1)));
        }
        let told = states.index_noted(&later).unwrap_err();
        assert_eq!((told.key, told.position), (key(8), 8));
    }

    #[test]
    fn a_state_that_is_put_again_takes_no_memory_anew() {
        let (mut states, later) = (States::default(), HalfKeyCollisions::default());
        let mut put = |length: usize| {
            for key in 0..200 {
                let bytes = vec![1; length];
                let done = states.amend(1, 2, Digest([key; 16]), &later, |_| {
                    Ok::<_, Infallible>(Some(&bytes))
                });
                assert_eq!(done, Ok(()));
            }
            states.slab.allocated()
        };
        let first = put(259);
        for length in [260, 300, 5_000, 20_000, 259] {
            put(length);
        }
        assert_eq!(put(259), first);
    }
}
