//! A map from digests to small values, in little more memory than its entries take side by side.
//!
//! Entries are numbered without gaps, in chunks of one size: growing neither copies them nor leaves
//! outgrown memory behind. The hash index has numbers of four bytes.

use std::marker::PhantomData;

use super::hash_index::{Entry, HashIndex};
use super::memory::Piece;
use crate::base::digest::Digest;

/// Entries of a chunk.
const CHUNK: usize = 64;
/// Bytes of a key.
const KEY: usize = size_of::<Digest>();

/// A value of always so many bytes.
pub(super) trait Fixed: Copy {
    const BYTES: usize;
    fn write(self, bytes: &mut [u8]);
    fn read(bytes: &[u8]) -> Self;
}

impl Fixed for u64 {
    const BYTES: usize = size_of::<Self>();

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        let bytes = bytes.try_into().expect("a value has its bytes");
        Self::from_le_bytes(bytes)
    }
}

impl Fixed for Digest {
    const BYTES: usize = KEY;

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0);
    }

    fn read(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("a digest has its bytes"))
    }
}

/// The map.
pub(super) struct CompactMap<V> {
    index: HashIndex,
    chunks: Vec<Piece>,
    len: u32,
    values: PhantomData<V>,
}

impl<V> Default for CompactMap<V> {
    fn default() -> Self {
        Self {
            index: HashIndex::default(),
            chunks: Vec::new(),
            len: 0,
            values: PhantomData,
        }
    }
}

/// Where the entry of this number is: its chunk, and where it begins there.
fn place<V: Fixed>(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / CHUNK, number % CHUNK * (KEY + V::BYTES))
}

fn key_at<V: Fixed>(chunks: &[Piece], number: u32) -> Digest {
    let (chunk, start) = place::<V>(number);
    Digest::read(&chunks[chunk][start..][..KEY])
}

fn value_at<V: Fixed>(chunks: &[Piece], number: u32) -> V {
    let (chunk, start) = place::<V>(number);
    V::read(&chunks[chunk][start + KEY..][..V::BYTES])
}

fn at<V: Fixed>(chunks: &[Piece], number: u32) -> (Digest, V) {
    (key_at::<V>(chunks, number), value_at(chunks, number))
}

fn put<V: Fixed>(chunks: &mut [Piece], number: u32, (key, value): (Digest, V)) {
    let (chunk, start) = place::<V>(number);
    let entry = &mut chunks[chunk][start..][..KEY + V::BYTES];
    let (of_key, of_value) = entry.split_at_mut(KEY);
    key.write(of_key);
    value.write(of_value);
}

/// Makes room for the entry of this number, the one after the last.
fn make_room<V: Fixed>(chunks: &mut Vec<Piece>, number: u32) {
    if number as usize == chunks.len() * CHUNK {
        let bytes = CHUNK * (KEY + V::BYTES);
        let mut chunk = Piece::with_room_for(bytes);
        chunk.resize(bytes);
        chunks.push(chunk);
    }
}

impl<V: Fixed> CompactMap<V> {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// The value of this key.
    pub(super) fn get(&self, key: Digest) -> Option<V> {
        let key_of = |number| key_at::<V>(&self.chunks, number);
        let number = self.index.find(key, key_of)?;
        Some(value_at(&self.chunks, number))
    }

    /// The entries of these numbers, as far as there are any. Removing one gives its number to the
    /// last one, and changes no other number.
    pub(super) fn range(
        &self,
        numbers: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (Digest, V)> {
        let end = u32::try_from(numbers.end).map_or(self.len, |end| end.min(self.len));
        let start = u32::try_from(numbers.start).map_or(end, |start| start.min(end));
        (start..end).map(|number| at(&self.chunks, number))
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Digest, V)> {
        (0..self.len).map(|number| at(&self.chunks, number))
    }

    /// Makes room for this key before it comes, with such a value.
    pub(super) fn reserve(&mut self, key: Digest, value: V) {
        let chunks = &mut self.chunks;
        self.index
            .reserve(key, |number| key_at::<V>(chunks, number));
        make_room::<V>(chunks, self.len);
        // Where it is going to be, and where it is looked for: the processor has that at hand then.
        put(chunks, self.len, (key, value));
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
        let chunks = &mut self.chunks;
        match self.index.entry(key, |number| key_at::<V>(chunks, number)) {
            Entry::Occupied(entry) => {
                may(Some(value_at(chunks, entry.get())))?;
                put(chunks, entry.get(), (key, value));
            }
            Entry::Vacant(entry) => {
                may(None)?;
                let number = self.len;
                // Digests fill the shards evenly, and one of that size would be 100 GiB.
                let len = number.checked_add(1).expect("a shard has no 2^32 entries");
                make_room::<V>(chunks, number);
                put(chunks, number, (key, value));
                entry.insert(number);
                self.len = len;
            }
        }
        Ok(())
    }

    /// Removes this key; its value. The last entry gets its number.
    pub(super) fn remove(&mut self, key: Digest) -> Option<V> {
        let chunks = &mut self.chunks;
        let number = self
            .index
            .remove(key, |number| key_at::<V>(chunks, number))?;
        let value = value_at(chunks, number);
        let last = self.len - 1;
        if number != last {
            let moved = at::<V>(chunks, last);
            self.index.moved(moved.0, last, number);
            put(chunks, number, moved);
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
