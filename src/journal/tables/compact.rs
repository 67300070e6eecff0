//! A map from idempotency keys to positions that takes little more memory than its entries.
//!
//! The entries are numbered, and the hash index contains these numbers, of four bytes each.

use super::chunked_vec::{ChunkedVec, FixedSize};
use super::hash_index::{Entry, HashIndex};
use super::slot::POSITION_MAX;
use crate::base::digest::Digest;

/// A key, and the position of its use, at most [`POSITION_MAX`].
type Used = (Digest, u64);

impl FixedSize for Used {
    const BYTES: usize = size_of::<Digest>() + 6;

    fn write(self, bytes: &mut [u8]) {
        let (Digest(key), position) = self;
        assert!(position <= POSITION_MAX, "no log has that many records");
        let [position @ .., _, _] = position.to_le_bytes();
        let (of_key, of_position) = bytes.split_at_mut(key.len());
        of_key.copy_from_slice(&key);
        of_position.copy_from_slice(&position);
    }

    fn read(bytes: &[u8]) -> Self {
        let (key, used) = bytes.split_first_chunk().expect("an entry has its bytes");
        let mut position = [0; 8];
        position[..used.len()].copy_from_slice(used);
        (Digest(*key), u64::from_le_bytes(position))
    }
}

/// A compact map from keys to positions.
#[derive(Default)]
pub(super) struct CompactMap {
    index: HashIndex,
    entries: ChunkedVec<Used>,
}

impl CompactMap {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the position of this key.
    pub(super) fn get(&self, key: Digest) -> Option<u64> {
        let key_of = |number| self.entries.at(number).0;
        let number = self.index.find(key, key_of)?;
        Some(self.entries.at(number).1)
    }

    /// Iterates over the entries with these numbers, as far as there are any. Removing an entry gives its number to
    /// the last one, and changes no other number.
    pub(super) fn range(&self, numbers: std::ops::Range<usize>) -> impl Iterator<Item = Used> {
        self.entries.range(numbers)
    }

    /// Iterates over all entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Used> {
        self.entries.range(0..self.len())
    }

    /// Makes room for this key before it is inserted; `position` only fills the place.
    pub(super) fn reserve(&mut self, key: Digest, position: u64) {
        let entries = &self.entries;
        self.index.reserve(key, |number| entries.at(number).0);
        self.entries.reserve((key, position));
        // Looks the key up, so that the later lookup finds its data in the processor's cache.
        std::hint::black_box(self.get(key).is_some());
    }

    /// Sets the position of this key; returns its previous one.
    pub(super) fn insert(&mut self, key: Digest, position: u64) -> Option<u64> {
        let mut before = None;
        let Ok(()) = self.insert_if(key, position, |position| {
            before = position;
            Ok::<_, std::convert::Infallible>(())
        });
        before
    }

    /// Sets the position of this key, unless `may` rejects its previous one.
    ///
    /// # Errors
    /// The error of `may`.
    pub(super) fn insert_if<E>(
        &mut self,
        key: Digest,
        position: u64,
        may: impl FnOnce(Option<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let entries = &mut self.entries;
        match self.index.entry(key, |number| entries.at(number).0) {
            Entry::Occupied(entry) => {
                may(Some(entries.at(entry.get()).1))?;
                entries.set(entry.get(), (key, position));
            }
            Entry::Vacant(entry) => {
                may(None)?;
                entry.insert(entries.push((key, position)));
            }
        }
        Ok(())
    }

    /// Adds a key that is not found before [`CompactMap::index_noted`].
    pub(super) fn note(&mut self, key: Digest, position: u64) {
        self.entries.push((key, position));
    }

    /// Builds an index of all noted keys; returns `false` if that is not possible, since a key was noted twice.
    pub(super) fn index_noted(&mut self) -> bool {
        let entries = &self.entries;
        let keys = (0..).zip(self.iter().map(|(key, _)| key));
        let keys = keys.map(|(number, key)| (key, number));
        let are_same = |one, other| entries.at(one).0 == entries.at(other).0;
        let index = HashIndex::of_different(self.len(), keys, are_same);
        let is_sound = index.is_some();
        self.index = index.unwrap_or_default();
        is_sound
    }

    /// Removes this key and returns its position. The last entry gets its number.
    pub(super) fn remove(&mut self, key: Digest) -> Option<u64> {
        let entries = &mut self.entries;
        let number = self.index.remove(key, |number| entries.at(number).0)?;
        let (_, position) = entries.at(number);
        if let Some((moved, from)) = entries.remove(number) {
            self.index.moved(moved.0, from, number);
        }
        Some(position)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::chunked_vec::CHUNK;
    use super::*;

    #[test]
    fn random_changes_leave_what_a_map_would_have() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let mut map = CompactMap::default();
        let mut model = HashMap::new();
        let mut adds = 3;
        for round in 0..60_000 {
            // The map alternately grows and shrinks.
            if round % 10_000 == 0 {
                adds = 7 - adds;
            }
            let number = random.random_range(0..2_000_u32);
            let mut key = Digest([0; 16]);
            key.0[..4].copy_from_slice(&number.to_le_bytes());
            // Few hashes, so that keys collide in the index.
            key.0[8] = number.to_le_bytes()[0];
            assert_eq!(map.get(key), model.get(&key).copied(), "SEED={seed}");
            if random.random_ratio(adds, 7) {
                let value = random.random_range(0..=POSITION_MAX);
                if random.random_ratio(1, 5) {
                    let refused = map.insert_if(key, value, Err);
                    assert_eq!(refused, Err(model.get(&key).copied()), "SEED={seed}");
                } else {
                    assert_eq!(
                        map.insert(key, value),
                        model.insert(key, value),
                        "SEED={seed}"
                    );
                }
            } else {
                assert_eq!(map.remove(key), model.remove(&key), "SEED={seed}");
            }
            assert_eq!(map.len(), model.len(), "SEED={seed}");
            assert_eq!(map.index.len(), model.len(), "SEED={seed}");
            assert_eq!(
                map.entries.chunks(),
                model.len().div_ceil(CHUNK),
                "SEED={seed}"
            );
            if round % 1_000 == 0 {
                assert_eq!(map.iter().collect::<HashMap<_, _>>(), model, "SEED={seed}");
                assert_eq!(map.iter().count(), model.len(), "SEED={seed}");
            }
        }
        for key in model.into_keys() {
            assert!(map.remove(key).is_some(), "SEED={seed}");
        }
        assert_eq!(
            (map.len(), map.iter().count(), map.entries.chunks()),
            (0, 0, 0)
        );
    }

    #[test]
    fn room_that_is_made_alters_nothing_and_is_where_the_entry_goes() {
        let numbered = |number: u64| Digest::of(1, &[number.to_string()]);
        let mut map = CompactMap::default();
        for number in 0..1_000 {
            let key = numbered(number);
            for _ in 0..2 {
                map.reserve(key, 7);
                assert_eq!(map.get(key), None);
                assert!(map.iter().count() == map.len() && map.len() == map.index.len());
            }
            let chunks = map.entries.noted();
            assert_eq!(map.insert(key, number), None);
            assert_eq!(map.entries.noted(), chunks);
            assert_eq!(map.entries.chunks(), map.len().div_ceil(CHUNK));
            map.reserve(key, 7);
            assert_eq!(map.get(key), Some(number));
        }
        for number in 0..1_000 {
            map.reserve(numbered(number), 7);
            assert_eq!(map.remove(numbered(number)), Some(number));
        }
        assert_eq!((map.len(), map.entries.chunks()), (0, 0));
    }

    #[test]
    fn noted_keys_are_found_after_indexing_and_a_duplicate_is_reported() {
        let numbered = |number: u64| Digest::of(1, &[number.to_string()]);
        let mut map = CompactMap::default();
        (1..=1_000).for_each(|number| map.note(numbered(number), number));
        assert!(map.index_noted());
        for number in 1..=1_000 {
            assert_eq!(map.get(numbered(number)), Some(number));
        }
        assert_eq!((map.get(numbered(0)), map.len()), (None, 1_000));
        assert_eq!(map.insert(numbered(7), 2_000), Some(7));
        assert_eq!(map.insert(numbered(0), 2_001), None);
        assert_eq!(map.remove(numbered(7)), Some(2_000));
        map.note(numbered(0), 2_002);
        assert!(!map.index_noted());
        let noted: Vec<_> = map.iter().filter(|(key, _)| *key == numbered(0)).collect();
        assert_eq!(noted, [(numbered(0), 2_001), (numbered(0), 2_002)]);
    }
}
