//! The hash index of a shard: from a key to the place of its entry, mostly a number of four bytes.
//!
//! It is a set of *segments* of some dozen entries each, and grows by one of them at a time (linear
//! hashing): the next segment in a row gives up the entries of the new one. So an insertion touches
//! that many entries at most, however large the index is, while others wait for the shard.
//!
//! The entries of a segment lie side by side in no order, and so do their *tags*: a byte of each key,
//! among which a key's own is looked for many at a time. Whatever has it is compared. So an entry
//! costs a byte more than itself, and little is kept free: a segment grows by an eighth or so.
//!
//! It has several parts of uneven shares. The segments of one part grow at about the same time, and
//! since digests fill all shards evenly, so would those of all shards. Uneven parts take turns.

use super::at_once::both;
use crate::base::digest::Digest;

/// Where the parts begin, except the first, of 256: each has 1.19 times the share of the one
/// before, so that four of them make a doubling.
const BEGINS: [u8; 3] = [48, 106, 174];
const PARTS: usize = BEGINS.len() + 1;
/// Keys to a segment, on average over a part, beyond which one more segment is added. So a segment
/// has about twice as many just before it is split.
const LOAD: usize = 32;
/// Segments in a row. Growing sometimes copies a pointer to each row.
const ROW: usize = 8;
/// A segment has room for a multiple of so many entries.
const STEP: usize = 8;

/// The index.
pub(super) struct HashIndex<T>([Part<T>; PARTS]);

/// A part of the index: nothing, or one segment and more.
struct Part<T> {
    /// The segments; the last row has empty ones at its end.
    #[expect(
        clippy::vec_box,
        reason = "one more row moves as many pointers as there are rows, not the rows"
    )]
    rows: Vec<Box<[Segment<T>; ROW]>>,
    segments: usize,
    /// How many keys there are.
    len: usize,
}

/// Some entries, each with its tag at the same place.
struct Segment<T> {
    tags: Vec<u8>,
    entries: Vec<T>,
}

/// The entry of a key, present or not.
pub(super) enum Entry<'a, T> {
    /// It is present.
    Occupied(&'a mut T),
    /// It is not.
    Vacant(Vacant<'a, T>),
}

/// Where an absent key would be.
pub(super) struct Vacant<'a, T> {
    segment: &'a mut Segment<T>,
    tag: u8,
    len: &'a mut usize,
}

impl<'a, T> Vacant<'a, T> {
    /// Inserts this.
    pub(super) fn insert(self, it: T) -> &'a mut T {
        *self.len += 1;
        self.segment.push(self.tag, it)
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

impl<T> Default for Segment<T> {
    fn default() -> Self {
        Self {
            tags: Vec::new(),
            entries: Vec::new(),
        }
    }
}

/// The part of this key. Its byte is used for nothing else: the shard goes by the first two bytes,
/// the segment by [`spread`], and within it [`tag`] is looked for.
fn part(key: Digest) -> usize {
    let byte = key.0[14];
    BEGINS.iter().filter(|begin| byte >= **begin).count()
}

/// What segments go by: the lowest bits.
fn spread(key: Digest) -> usize {
    let [_, _, _, _, a, b, c, d, ..] = key.0;
    u32::from_le_bytes([a, b, c, d]) as usize
}

/// What is looked for within a segment.
fn tag(key: Digest) -> u8 {
    key.0[8]
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

/// How many entries a segment gets room for that is to have so many.
fn room(entries: usize) -> usize {
    let step = if entries > STEP * STEP {
        2 * STEP
    } else {
        STEP
    };
    entries.next_multiple_of(step)
}

impl<T> Segment<T> {
    fn with_room_for(entries: usize) -> Self {
        Self {
            tags: Vec::with_capacity(room(entries)),
            entries: Vec::with_capacity(room(entries)),
        }
    }

    /// Where the entry is that has this tag and is meant.
    fn find(&self, tag: u8, is_meant: impl Fn(&T) -> bool) -> Option<usize> {
        memchr::memchr_iter(tag, &self.tags).find(|at| is_meant(&self.entries[*at]))
    }

    /// Makes room for one more.
    fn reserve(&mut self) {
        let len = self.entries.len();
        if len == self.entries.capacity() || len == self.tags.capacity() {
            let more = room(len + 1) - len;
            self.tags.reserve_exact(more);
            self.entries.reserve_exact(more);
        }
    }

    fn push(&mut self, tag: u8, it: T) -> &mut T {
        self.reserve();
        self.tags.push(tag);
        self.entries.push(it);
        self.entries.last_mut().expect("one was just added")
    }

    /// Takes out those that are meant, and gives back the room that is left.
    fn split(&mut self, is_meant: impl Fn(&T) -> bool) -> Self {
        let mut taken = Self::with_room_for(self.entries.len() / 2);
        let mut at = 0;
        while at < self.entries.len() {
            if is_meant(&self.entries[at]) {
                taken.push(self.tags.swap_remove(at), self.entries.swap_remove(at));
            } else {
                at += 1;
            }
        }
        self.tags.shrink_to(room(at));
        self.entries.shrink_to(room(at));
        taken
    }
}

impl<T> Part<T> {
    fn of(&self, key: Digest) -> Option<&Segment<T>> {
        if self.segments == 0 {
            return None;
        }
        let number = segment(spread(key), self.segments);
        Some(&self.rows[number / ROW][number % ROW])
    }

    fn of_mut(&mut self, key: Digest) -> Option<&mut Segment<T>> {
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
            self.rows.push(Box::default());
        }
        self.segments += 1;
        if new == 0 {
            return;
        }
        let bit = 1 << new.ilog2();
        let from = new - bit;
        let before = &mut self.rows[from / ROW][from % ROW];
        let go = before.split(|it| spread(key_of(it)) & bit != 0);
        self.rows[new / ROW][new % ROW] = go;
    }

    /// Of so many entries, each given with the spread and the tag of its key.
    fn filled(entries: Vec<(usize, u8, T)>) -> Self {
        let len = entries.len();
        let segments = len.div_ceil(LOAD);
        let mut counts = vec![0; segments];
        for (spread, _, _) in &entries {
            counts[segment(*spread, segments)] += 1;
        }
        let mut part = Self {
            rows: Vec::with_capacity(segments.div_ceil(ROW)),
            segments,
            len,
        };
        for counts in counts.chunks(ROW) {
            let count = |at| counts.get(at).copied().unwrap_or(0);
            let row = std::array::from_fn(|at| Segment::with_room_for(count(at)));
            part.rows.push(Box::new(row));
        }
        for (spread, tag, it) in entries {
            let number = segment(spread, segments);
            part.rows[number / ROW][number % ROW].push(tag, it);
        }
        part
    }
}

impl<T: Send> HashIndex<T> {
    /// Of these entries, no two of which have the same key, by two threads.
    pub(super) fn of(all: impl Iterator<Item = (Digest, T)>) -> Self {
        let mut parts: [Vec<_>; PARTS] = Default::default();
        for (key, it) in all {
            parts[part(key)].push((spread(key), tag(key), it));
        }
        let [a, b, c, d] = parts;
        let (first, last) = both(
            || [Part::filled(a), Part::filled(d)],
            || [Part::filled(b), Part::filled(c)],
        );
        let ([a, d], [b, c]) = (first, last);
        Self([a, b, c, d])
    }
}

impl<T> HashIndex<T> {
    /// The entry of this key; `key_of` gives the key of an entry.
    pub(super) fn find(&self, key: Digest, key_of: impl Fn(&T) -> Digest) -> Option<&T> {
        let segment = self.0[part(key)].of(key)?;
        let at = segment.find(tag(key), |it| key_of(it) == key)?;
        Some(&segment.entries[at])
    }

    /// The entry of this key, present or not.
    pub(super) fn entry(&mut self, key: Digest, key_of: impl Fn(&T) -> Digest) -> Entry<'_, T> {
        let part = &mut self.0[part(key)];
        if part.len >= part.segments * LOAD {
            part.grow(&key_of);
        }
        let number = segment(spread(key), part.segments);
        let segment = &mut part.rows[number / ROW][number % ROW];
        let tag = tag(key);
        match segment.find(tag, |it| key_of(it) == key) {
            Some(at) => Entry::Occupied(&mut segment.entries[at]),
            None => Entry::Vacant(Vacant {
                segment,
                tag,
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
        if let Some(segment) = part.of_mut(key) {
            segment.reserve();
        }
    }

    /// Removes this key; its entry.
    pub(super) fn remove(&mut self, key: Digest, key_of: impl Fn(&T) -> Digest) -> Option<T> {
        let part = &mut self.0[part(key)];
        let segment = part.of_mut(key)?;
        let at = segment.find(tag(key), |it| key_of(it) == key)?;
        segment.tags.swap_remove(at);
        let it = segment.entries.swap_remove(at);
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
        rows.flat_map(|row| row.iter())
            .flat_map(|segment| &segment.entries)
    }

    /// All entries, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let rows = self.0.iter_mut().flat_map(|part| &mut part.rows);
        rows.flat_map(|row| row.iter_mut())
            .flat_map(|segment| &mut segment.entries)
    }
}

impl<T: Copy + PartialEq> HashIndex<T> {
    /// Changes the entry of this key from `from` to `to`.
    pub(super) fn moved(&mut self, key: Digest, from: T, to: T) {
        let segment = self.0[part(key)].of_mut(key);
        let it = segment.and_then(|segment| {
            let at = segment.find(tag(key), |it| *it == from)?;
            segment.entries.get_mut(at)
        });
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
                assert!(matches!(entry, Entry::Occupied(entry) if *entry == other));
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
    fn the_keys_of_a_segment_differ_in_what_is_looked_for() {
        let keys = (0..1 << 20).map(numbered);
        let of_one = |key: &Digest| key.shard(16) == 5 && part(*key) == 2 && spread(*key) % 2 == 1;
        let tags: Vec<u8> = keys.filter(of_one).map(tag).collect();
        let mut counts = HashMap::<u8, usize>::new();
        for tag in &tags {
            *counts.entry(*tag).or_default() += 1;
        }
        assert_eq!(counts.len(), 256);
        let expected = tags.len() / 256;
        let about = expected / 2..expected * 2;
        assert!(counts.values().all(|count| about.contains(count)));
    }

    #[test]
    fn little_is_kept_free() {
        let mut index = HashIndex::default();
        for number in 0..20_000 {
            if let Entry::Vacant(entry) = index.entry(numbered(number), numbered_by) {
                entry.insert(number);
            }
            if number > 2_000 && number % 500 == 0 {
                let rows = index.0.iter().flat_map(|part| &part.rows);
                let room = rows.flat_map(|row| row.iter()).map(|segment| {
                    assert_eq!(segment.tags.len(), segment.entries.len());
                    segment.tags.capacity().max(segment.entries.capacity())
                });
                let (room, len) = (room.sum::<usize>(), index.len());
                assert!(room < len + len / 5, "{room} for {len}");
            }
        }
    }

    #[test]
    fn an_index_made_at_once_is_like_one_that_has_grown() {
        for count in [0, 1, 5, 31, 32, 33, 1_000, 20_000] {
            let mut index = HashIndex::of((0..count).map(|number| (numbered(number), number)));
            assert_eq!(index.len(), count as usize);
            let mut all: Vec<u32> = index.iter().copied().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count));
            for number in 0..count {
                assert_eq!(index.find(numbered(number), numbered_by), Some(&number));
            }
            for number in count..2 * count {
                assert_eq!(index.find(numbered(number), numbered_by), None);
                if let Entry::Vacant(entry) = index.entry(numbered(number), numbered_by) {
                    entry.insert(number);
                }
                assert_eq!(
                    index.find(numbered(number / 2), numbered_by),
                    Some(&(number / 2))
                );
            }
            assert_eq!(index.len(), 2 * count as usize);
        }
    }
}
