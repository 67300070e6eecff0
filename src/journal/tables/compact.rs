//! A map from digests to small values, in little more memory than its entries take side by side.
//!
//! Entries are numbered without gaps, in chunks of one size: growing neither copies them nor leaves
//! outgrown memory to the allocator. The hash index has numbers of four bytes.

use super::hash_index::{Entry, HashIndex};
use crate::base::digest::Digest;

/// Entries of a chunk.
const CHUNK: usize = 64;

type Chunk<V> = Box<[(Digest, V); CHUNK]>;

/// The map.
pub(super) struct CompactMap<V> {
    index: HashIndex<u32>,
    chunks: Vec<Chunk<V>>,
    len: u32,
}

impl<V> Default for CompactMap<V> {
    fn default() -> Self {
        Self {
            index: HashIndex::default(),
            chunks: Vec::new(),
            len: 0,
        }
    }
}

fn at<V>(chunks: &[Chunk<V>], number: u32) -> &(Digest, V) {
    let number = number as usize;
    &chunks[number / CHUNK][number % CHUNK]
}

fn at_mut<V>(chunks: &mut [Chunk<V>], number: u32) -> &mut (Digest, V) {
    let number = number as usize;
    &mut chunks[number / CHUNK][number % CHUNK]
}

impl<V: Copy> CompactMap<V> {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// The value of this key.
    pub(super) fn get(&self, key: Digest) -> Option<V> {
        let key_of = |number: &u32| at(&self.chunks, *number).0;
        let number = self.index.find(key, key_of)?;
        Some(at(&self.chunks, *number).1)
    }

    /// The entries of these numbers, as far as there are any. Removing one gives its number to the
    /// last one, and changes no other number.
    pub(super) fn range(
        &self,
        numbers: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (Digest, V)> {
        let end = numbers.end.min(self.len());
        let numbers = numbers.start.min(end)..end;
        numbers.map(|number| self.chunks[number / CHUNK][number % CHUNK])
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Digest, V)> {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        entries.take(self.len()).copied()
    }

    /// Makes room for this key before it comes, with such a value.
    pub(super) fn reserve(&mut self, key: Digest, value: V) {
        let chunks = &mut self.chunks;
        self.index.reserve(key, |number| at(chunks, *number).0);
        if self.len as usize == chunks.len() * CHUNK {
            chunks.push(Box::new([(key, value); CHUNK]));
        }
        // Where it is going to be, and where it is looked for: the processor has that at hand then.
        *at_mut(chunks, self.len) = (key, value);
        std::hint::black_box(self.get(key));
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
        let chunks = &mut self.chunks;
        match self.index.entry(key, |number| at(chunks, *number).0) {
            Entry::Occupied(entry) => {
                let (_, place) = at_mut(chunks, *entry);
                may(Some(*place))?;
                *place = value;
            }
            Entry::Vacant(entry) => {
                may(None)?;
                let number = self.len;
                // Digests fill the shards evenly, and one of that size would be 100 GiB.
                let len = number.checked_add(1).expect("a shard has no 2^32 entries");
                if number as usize == chunks.len() * CHUNK {
                    chunks.push(Box::new([(key, value); CHUNK]));
                }
                *at_mut(chunks, number) = (key, value);
                entry.insert(number);
                self.len = len;
            }
        }
        Ok(())
    }

    /// Removes this key; its value. The last entry gets its number.
    pub(super) fn remove(&mut self, key: Digest) -> Option<V> {
        let chunks = &mut self.chunks;
        let number = self.index.remove(key, |number| at(chunks, *number).0)?;
        let (_, value) = *at(chunks, number);
        let last = self.len - 1;
        if number != last {
            let moved = *at(chunks, last);
            self.index.moved(moved.0, last, number);
            *at_mut(chunks, number) = moved;
        }
        self.len = last;
        chunks.truncate((last as usize).div_ceil(CHUNK));
        Some(value)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn random_changes_leave_what_a_map_would_have() {
        let seed: u64 =
            std::env::var("SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
        println!("SEED={seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let mut map = CompactMap::<u64>::default();
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
                let value = random.random();
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
            assert_eq!(map.chunks.len(), model.len().div_ceil(CHUNK), "SEED={seed}");
            if round % 1_000 == 0 {
                assert_eq!(map.iter().collect::<HashMap<_, _>>(), model, "SEED={seed}");
                assert_eq!(map.iter().count(), model.len(), "SEED={seed}");
            }
        }
        for key in model.into_keys() {
            assert!(map.remove(key).is_some(), "SEED={seed}");
        }
        assert_eq!((map.len(), map.iter().count(), map.chunks.len()), (0, 0, 0));
    }

    #[test]
    fn room_that_is_made_alters_nothing_and_is_where_the_entry_goes() {
        let numbered = |number: u64| Digest::of(1, &[number.to_string()]);
        let mut map = CompactMap::<u64>::default();
        for number in 0..1_000 {
            let key = numbered(number);
            for _ in 0..2 {
                map.reserve(key, 7);
                assert_eq!(map.get(key), None);
                assert!(map.iter().count() == map.len() && map.len() == map.index.len());
            }
            let chunks = map.chunks.as_ptr();
            assert_eq!(map.insert(key, number), None);
            assert_eq!(map.chunks.as_ptr(), chunks);
            assert_eq!(map.chunks.len(), map.len().div_ceil(CHUNK));
            map.reserve(key, 7);
            assert_eq!(map.get(key), Some(number));
        }
        for number in 0..1_000 {
            map.reserve(numbered(number), 7);
            assert_eq!(map.remove(numbered(number)), Some(number));
        }
        assert_eq!((map.len(), map.chunks.len()), (0, 0));
    }
}
