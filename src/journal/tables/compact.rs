//! A map from digests to small values, in little more memory than its entries take side by side.
//!
//! Its entries are numbered, and the hash index has numbers of four bytes.

use super::hash_index::{Entry, HashIndex};
use super::numbered::{Fixed, Numbered};
use super::slot::POSITION_MAX;
use crate::base::digest::Digest;

/// A commit's position, at most [`POSITION_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(pub(super) u64);

impl Fixed for Position {
    const BYTES: usize = 6;

    fn write(self, bytes: &mut [u8]) {
        assert!(self.0 <= POSITION_MAX, "no log has that many records");
        let [used @ .., _, _] = self.0.to_le_bytes();
        bytes.copy_from_slice(&used);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut all = [0; 8];
        all[..Self::BYTES].copy_from_slice(bytes);
        Self(u64::from_le_bytes(all))
    }
}

impl Fixed for Digest {
    const BYTES: usize = size_of::<Self>();

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0);
    }

    fn read(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("a digest has its bytes"))
    }
}

impl<K: Fixed, V: Fixed> Fixed for (K, V) {
    const BYTES: usize = K::BYTES + V::BYTES;

    fn write(self, bytes: &mut [u8]) {
        let (key, value) = bytes.split_at_mut(K::BYTES);
        self.0.write(key);
        self.1.write(value);
    }

    fn read(bytes: &[u8]) -> Self {
        let (key, value) = bytes.split_at(K::BYTES);
        (K::read(key), V::read(value))
    }
}

/// The map.
pub(super) struct CompactMap<V> {
    index: HashIndex,
    entries: Numbered<(Digest, V)>,
}

impl<V: Fixed> Default for CompactMap<V> {
    fn default() -> Self {
        Self {
            index: HashIndex::default(),
            entries: Numbered::default(),
        }
    }
}

impl<V: Fixed> CompactMap<V> {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of this key.
    pub(super) fn get(&self, key: Digest) -> Option<V> {
        let key_of = |number| self.entries.at(number).0;
        let number = self.index.find(key, key_of)?;
        Some(self.entries.at(number).1)
    }

    /// The entries of these numbers, as far as there are any. Removing one gives its number to the
    /// last one, and changes no other number.
    pub(super) fn range(
        &self,
        numbers: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (Digest, V)> {
        self.entries.range(numbers)
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Digest, V)> {
        self.entries.range(0..self.len())
    }

    /// Makes room for this key before it comes, with such a value.
    pub(super) fn reserve(&mut self, key: Digest, value: V) {
        let entries = &self.entries;
        self.index.reserve(key, |number| entries.at(number).0);
        self.entries.reserve((key, value));
        // Where it is looked for: the processor has that at hand then.
        std::hint::black_box(self.get(key).is_some());
    }

    /// Gives this key a value; the value that it had.
    pub(super) fn insert(&mut self, key: Digest, value: V) -> Option<V> {
        let mut before = None;
        let Ok(()) = self.insert_if(key, value, |value| {
            before = value;
            Ok::<_, std::convert::Infallible>(())
        });
        before
    }

    /// Gives this key a value, unless `may` objects to the value that it has.
    ///
    /// # Errors
    /// That of `may`.
    pub(super) fn insert_if<E>(
        &mut self,
        key: Digest,
        value: V,
        may: impl FnOnce(Option<V>) -> Result<(), E>,
    ) -> Result<(), E> {
        let entries = &mut self.entries;
        match self.index.entry(key, |number| entries.at(number).0) {
            Entry::Occupied(entry) => {
                may(Some(entries.at(entry.get()).1))?;
                entries.set(entry.get(), (key, value));
            }
            Entry::Vacant(entry) => {
                may(None)?;
                entry.insert(entries.push((key, value)));
            }
        }
        Ok(())
    }

    /// Removes this key; its value. The last entry gets its number.
    pub(super) fn remove(&mut self, key: Digest) -> Option<V> {
        let entries = &mut self.entries;
        let number = self.index.remove(key, |number| entries.at(number).0)?;
        let (_, value) = entries.at(number);
        if let Some((moved, from)) = entries.remove(number) {
            self.index.moved(moved.0, from, number);
        }
        Some(value)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::numbered::CHUNK;
    use super::*;

    #[test]
    fn random_changes_leave_what_a_map_would_have() {
        let seed: u64 =
            std::env::var("SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
        println!("SEED={seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let mut map = CompactMap::<Position>::default();
        let mut model = HashMap::new();
        let mut adds = 3;
        for round in 0..60_000 {
            // The map grows and shrinks in turns.
            if round % 10_000 == 0 {
                adds = 7 - adds;
            }
            let number = random.random_range(0..2_000_u32);
            let mut key = Digest([0; 16]);
            key.0[..4].copy_from_slice(&number.to_le_bytes());
            // Few hashes, so that keys meet in the index.
            key.0[8] = number.to_le_bytes()[0];
            assert_eq!(map.get(key), model.get(&key).copied(), "SEED={seed}");
            if random.random_ratio(adds, 7) {
                let value = Position(random.random_range(0..=POSITION_MAX));
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
        let mut map = CompactMap::<Position>::default();
        for number in 0..1_000 {
            let key = numbered(number);
            for _ in 0..2 {
                map.reserve(key, Position(7));
                assert_eq!(map.get(key), None);
                assert!(map.iter().count() == map.len() && map.len() == map.index.len());
            }
            let chunks = map.entries.noted();
            assert_eq!(map.insert(key, Position(number)), None);
            assert_eq!(map.entries.noted(), chunks);
            assert_eq!(map.entries.chunks(), map.len().div_ceil(CHUNK));
            map.reserve(key, Position(7));
            assert_eq!(map.get(key), Some(Position(number)));
        }
        for number in 0..1_000 {
            map.reserve(numbered(number), Position(7));
            assert_eq!(map.remove(numbered(number)), Some(Position(number)));
        }
        assert_eq!((map.len(), map.entries.chunks()), (0, 0));
    }
}
