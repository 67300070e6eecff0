//! The hash index of a shard: from a key to the place of its entry, mostly a number of four bytes.
//!
//! It is a set of hash tables of some hundred entries at most, the *segments*, and grows by one of
//! them at a time (linear hashing): the next segment in a row gives up the entries of the new one.
//! So an insertion touches that many entries at most, however large the index is, while others wait
//! for the shard.
//!
//! It has several parts of uneven shares. The segments of one part double their capacity at one
//! size, and since digests fill all shards evenly, so would those of all shards at about the same
//! time, and the indexes would be half empty just after that. Uneven parts take turns.

use hashbrown::HashTable;
use hashbrown::hash_table;

use crate::base::digest::Digest;

/// Where the parts begin, except the first, of 256: each has 1.19 times the share of the one
/// before, so that four of them make a doubling.
const BEGINS: [u8; 3] = [48, 106, 174];
const PARTS: usize = BEGINS.len() + 1;
/// Keys to a segment, on average over a part, beyond which one more segment is added. So a segment
/// has about twice as many just before it is split, and then fills a table of 128 places, but
/// seldom more.
const LOAD: usize = 48;
/// Segments in a row. Growing sometimes copies a pointer to each row.
const ROW: usize = 8;

/// The index.
pub(super) struct HashIndex<T>([Part<T>; PARTS]);

/// A part of the index: nothing, or one segment and more.
struct Part<T> {
    /// The segments; the last row has empty ones at its end.
    #[expect(
        clippy::vec_box,
        reason = "one more row moves as many pointers as there are rows, not the rows"
    )]
    rows: Vec<Box<[HashTable<T>; ROW]>>,
    segments: usize,
    /// How many keys there are.
    len: usize,
}

/// The entry of a key, present or not.
pub(super) enum Entry<'a, T> {
    /// It is present.
    Occupied(hash_table::OccupiedEntry<'a, T>),
    /// It is not.
    Vacant(Vacant<'a, T>),
}

/// Where an absent key would be.
pub(super) struct Vacant<'a, T> {
    entry: hash_table::VacantEntry<'a, T>,
    len: &'a mut usize,
}

impl<'a, T> Vacant<'a, T> {
    /// Inserts this.
    pub(super) fn insert(self, it: T) -> &'a mut T {
        *self.len += 1;
        self.entry.insert(it).into_mut()
    }
}

impl<T> Default for HashIndex<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            segments: 0,
            len: 0,
        }
    }
}

/// The part of this key. Its byte is used for nothing else: the shard goes by the first two bytes,
/// the segment by [`spread`], the hash table by [`Digest::tail`], of which the lowest bits say
/// where to look, and the highest seven what to compare before a key is compared.
fn part(key: Digest) -> usize {
    let byte = key.0[14];
    BEGINS.iter().filter(|begin| byte >= **begin).count()
}

/// What segments go by: the lowest bits.
fn spread(key: Digest) -> usize {
    let [_, _, _, _, a, b, c, d, ..] = key.0;
    u32::from_le_bytes([a, b, c, d]) as usize
}

/// The segment of a key, of so many, at least one: by as many bits as are needed, or by one less
/// where the segment of that number does not exist yet.
fn segment(spread: usize, segments: usize) -> usize {
    let whole = segments.next_power_of_two();
    let number = spread & (whole - 1);
    if number < segments {
        number
    } else {
        number - whole / 2
    }
}

impl<T> Part<T> {
    fn of(&self, key: Digest) -> Option<&HashTable<T>> {
        if self.segments == 0 {
            return None;
        }
        let number = segment(spread(key), self.segments);
        Some(&self.rows[number / ROW][number % ROW])
    }

    fn of_mut(&mut self, key: Digest) -> Option<&mut HashTable<T>> {
        if self.segments == 0 {
            return None;
        }
        let number = segment(spread(key), self.segments);
        Some(&mut self.rows[number / ROW][number % ROW])
    }

    /// Adds a segment: it takes entries from the next one in the row, by one more bit.
    #[cold]
    fn grow(&mut self, key_of: impl Fn(&T) -> Digest) {
        let new = self.segments;
        if new.is_multiple_of(ROW) {
            let row = std::array::from_fn(|_| HashTable::new());
            self.rows.push(Box::new(row));
        }
        self.segments += 1;
        if new == 0 {
            return;
        }
        let bit = 1 << new.ilog2();
        let from = new - bit;
        // The segment that is split keeps its capacity, since it will fill up again.
        let before = &mut self.rows[from / ROW][from % ROW];
        let half = before.len() / 2 + before.len() / 16;
        let mut go = HashTable::with_capacity(half);
        for it in before.extract_if(|it| spread(key_of(it)) & bit != 0) {
            let hash = key_of(&it).tail();
            go.insert_unique(hash, it, |it| key_of(it).tail());
        }
        self.rows[new / ROW][new % ROW] = go;
    }
}

impl<T> HashIndex<T> {
    /// The entry of this key; `key_of` gives the key of an entry.
    pub(super) fn find(&self, key: Digest, key_of: impl Fn(&T) -> Digest) -> Option<&T> {
        let table = self.0[part(key)].of(key)?;
        table.find(key.tail(), |it| key_of(it) == key)
    }

    /// The entry of this key, present or not.
    pub(super) fn entry(&mut self, key: Digest, key_of: impl Fn(&T) -> Digest) -> Entry<'_, T> {
        let part = &mut self.0[part(key)];
        if part.len >= part.segments * LOAD {
            part.grow(&key_of);
        }
        let number = segment(spread(key), part.segments);
        let table = &mut part.rows[number / ROW][number % ROW];
        match table.entry(key.tail(), |it| key_of(it) == key, |it| key_of(it).tail()) {
            hash_table::Entry::Occupied(entry) => Entry::Occupied(entry),
            hash_table::Entry::Vacant(entry) => Entry::Vacant(Vacant {
                entry,
                len: &mut part.len,
            }),
        }
    }

    /// Makes room for this key before it comes: what has to be moved for that is moved now.
    pub(super) fn reserve(&mut self, key: Digest, key_of: impl Fn(&T) -> Digest) {
        let part = &mut self.0[part(key)];
        if part.len >= part.segments * LOAD {
            part.grow(&key_of);
        }
        if let Some(table) = part.of_mut(key) {
            table.reserve(1, |it| key_of(it).tail());
        }
    }

    /// Removes this key; its entry.
    pub(super) fn remove(&mut self, key: Digest, key_of: impl Fn(&T) -> Digest) -> Option<T> {
        let part = &mut self.0[part(key)];
        let table = part.of_mut(key)?;
        let entry = table.find_entry(key.tail(), |it| key_of(it) == key);
        let (it, _) = entry.ok()?.remove();
        part.len -= 1;
        Some(it)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|part| part.len).sum()
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let rows = self.0.iter().flat_map(|part| &part.rows);
        rows.flat_map(|row| row.iter()).flat_map(HashTable::iter)
    }

    /// All entries, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let rows = self.0.iter_mut().flat_map(|part| &mut part.rows);
        rows.flat_map(|row| row.iter_mut())
            .flat_map(HashTable::iter_mut)
    }
}

impl<T: Copy + PartialEq> HashIndex<T> {
    /// Changes the entry of this key from `from` to `to`.
    pub(super) fn moved(&mut self, key: Digest, from: T, to: T) {
        let table = self.0[part(key)].of_mut(key);
        let it = table.and_then(|table| table.find_mut(key.tail(), |it| *it == from));
        *it.expect("a moved entry is in the index") = to;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::*;

    fn numbered(number: u32) -> Digest {
        Digest::of(1, &[number.to_string()])
    }

    fn numbered_by(number: &u32) -> Digest {
        numbered(*number)
    }

    #[test]
    fn an_insertion_looks_at_no_more_entries_than_a_few_segments_have() {
        let mut index = HashIndex::default();
        let looked = Cell::new(0);
        let key_of = |number: &u32| {
            looked.set(looked.get() + 1);
            numbered(*number)
        };
        let mut most = 0;
        for number in 0..100_000 {
            looked.set(0);
            let Entry::Vacant(entry) = index.entry(numbered(number), key_of) else {
                panic!("{number} is there already");
            };
            entry.insert(number);
            most = most.max(looked.get());
        }
        // One is split, and another one gets more room.
        assert!(most <= 8 * LOAD, "{most}");
        assert_eq!(index.len(), 100_000);
    }

    #[test]
    fn an_insertion_for_which_room_was_made_moves_nothing() {
        let mut index = HashIndex::default();
        let looked = Cell::new(0);
        let key_of = |number: &u32| {
            looked.set(looked.get() + 1);
            numbered(*number)
        };
        let mut most = 0;
        for number in 0..100_000 {
            index.reserve(numbered(number), key_of);
            looked.set(0);
            let Entry::Vacant(entry) = index.entry(numbered(number), key_of) else {
                panic!("{number} is there already");
            };
            entry.insert(number);
            most = most.max(looked.get());
        }
        // Those whose hashes look alike.
        assert!(most <= 8, "{most}");
        for number in 0..100_000 {
            index.reserve(numbered(number), numbered_by);
            assert_eq!(index.find(numbered(number), numbered_by), Some(&number));
        }
        assert_eq!(index.len(), 100_000);
    }

    #[test]
    fn what_is_in_it_is_found_however_far_it_has_grown() {
        let mut index = HashIndex::default();
        let key_of = |number: &u32| numbered(*number);
        for number in 0..20_000 {
            assert_eq!(index.find(numbered(number), key_of), None);
            assert_eq!(index.remove(numbered(number), key_of), None);
            if let Entry::Vacant(entry) = index.entry(numbered(number), key_of) {
                entry.insert(number);
            }
            // What went in just before, long ago, and first of all.
            for other in [number, number / 2, number / 3, 0] {
                assert_eq!(index.find(numbered(other), key_of), Some(&other));
                let entry = index.entry(numbered(other), key_of);
                assert!(matches!(entry, Entry::Occupied(entry) if *entry.get() == other));
            }
        }
        let mut all: Vec<u32> = index.iter().copied().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..20_000));
        assert_eq!(index.iter_mut().count(), 20_000);
        for number in (0..20_000).step_by(2) {
            assert_eq!(index.remove(numbered(number), key_of), Some(number));
            assert_eq!(index.remove(numbered(number), key_of), None);
        }
        assert_eq!((index.len(), index.iter().count()), (10_000, 10_000));
        for number in 0..20_000 {
            let found = index.find(numbered(number), key_of).copied();
            assert_eq!(found, (number % 2 == 1).then_some(number));
        }
    }

    #[test]
    fn keys_that_are_alike_where_segments_look_are_found_as_well() {
        let alike = |number: u32| {
            let mut key = Digest([0; 16]);
            key.0[8..12].copy_from_slice(&number.to_le_bytes());
            key
        };
        let key_of = |number: &u32| alike(*number);
        let mut index = HashIndex::default();
        for number in 0..5_000 {
            if let Entry::Vacant(entry) = index.entry(alike(number), key_of) {
                entry.insert(number);
            }
        }
        for number in 0..5_000 {
            assert_eq!(index.find(alike(number), key_of), Some(&number));
        }
        assert_eq!(index.len(), 5_000);
    }

    #[test]
    fn the_parts_have_growing_shares() {
        let mut shares = [0_u32; PARTS];
        for byte in 0..=u8::MAX {
            let mut key = Digest([0; 16]);
            key.0[14] = byte;
            shares[part(key)] += 1;
        }
        for pair in shares.windows(2) {
            let ratio = f64::from(pair[1]) / f64::from(pair[0]);
            assert!((1.16..1.22).contains(&ratio), "{shares:?}");
        }
    }

    #[test]
    fn the_keys_of_a_segment_differ_in_both_ends_of_their_hash() {
        let keys = (0..1 << 20).map(numbered);
        let hashes: Vec<u64> = keys
            .filter(|key| key.shard(16) == 5 && part(*key) == 2 && spread(*key) % 2 == 1)
            .map(Digest::tail)
            .collect();
        for end in [|hash: u64| hash % 128, |hash: u64| hash >> 57] {
            let mut counts = HashMap::<u64, usize>::new();
            for hash in &hashes {
                *counts.entry(end(*hash)).or_default() += 1;
            }
            assert_eq!(counts.len(), 128);
            let expected = hashes.len() / 128;
            let about = expected / 2..expected * 2;
            assert!(counts.values().all(|count| about.contains(count)));
        }
    }
}
