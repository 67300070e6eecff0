//! The hash index of a shard: maps a key to the number of its entry, of four bytes.
//!
//! The index is a set of *segments* of some dozen entries each, and grows by one segment at a time (linear hashing):
//! the new segment gets its entries from the next old one in order. So an insertion, for which others wait, touches
//! at most that many entries, however large the index is.
//!
//! The entries of a segment lie side by side in no order, after their *tags*: one byte of each key. A key's tag is
//! compared with many tags at a time; where it matches, the keys are compared. Four segments are a *row*, one after
//! the other in one piece of memory. So a lookup in an index that is in no cache waits for the memory twice: for the
//! row's data, and for the tags with the entries next to them. An entry costs one byte more than its own size, and
//! little space is kept free.
//!
//! The index has several parts of uneven shares. The segments of one part grow at about the same time and, since
//! digests fill all shards evenly, so would those of all shards. Uneven parts take turns.

mod filled;

use super::memory::Piece;
use super::tags::{WORD, equal_bytes, word};
use crate::base::digest::Digest;

/// First values, out of 256, of all parts but the first: each part has 1.19 times the share of the one before, so
/// that four of them make a doubling.
const BEGINS: [u8; 3] = [48, 106, 174];
const PARTS: usize = BEGINS.len() + 1;
/// Average number of keys per segment of a part beyond which a segment is added. So a segment has about twice as many
/// just before it is split.
const LOAD: usize = 32;
/// Number of segments of a row. Growth sometimes moves what describes each row, but not its piece of memory.
const ROW: usize = 4;
/// Size of an entry in bytes, without its tag.
const ENTRY: usize = size_of::<u32>();
const TAGGED: usize = ENTRY + 1;
/// Size of a processor's cache line, in bytes.
const LINE: usize = 64;

/// A hash index, in parts.
#[derive(Default)]
pub(super) struct HashIndex([Part; PARTS]);

/// A part of the index, with no segment or more.
#[derive(Default)]
struct Part {
    /// The segments; the last row may have empty ones at its end.
    rows: Vec<Row>,
    segments: usize,
    /// Number of keys.
    len: usize,
}

/// Some segments.
#[derive(Default)]
struct Row {
    /// For each segment, the number of entries up to its end.
    ends: [u32; ROW],
    /// For each segment the tags, then the entries in the same order.
    bytes: Piece,
}

/// Result of a lookup: the entry of a key, or the place for it.
pub(super) enum Entry<'a> {
    /// The key has an entry.
    Occupied(Occupied<'a>),
    /// The key has no entry.
    Vacant(Vacant<'a>),
}

/// The entry of a key.
pub(super) struct Occupied<'a>(&'a mut [u8; ENTRY]);

/// The place for the entry of an absent key.
pub(super) struct Vacant<'a> {
    row: &'a mut Row,
    segment: usize,
    tag: u8,
    len: &'a mut usize,
}

impl Occupied<'_> {
    pub(super) fn get(&self) -> u32 {
        u32::from_le_bytes(*self.0)
    }

    pub(super) fn set(&mut self, entry: u32) {
        *self.0 = entry.to_le_bytes();
    }
}

impl Vacant<'_> {
    /// Inserts this entry.
    pub(super) fn insert(self, entry: u32) {
        *self.len += 1;
        self.row.push(self.segment, self.tag, entry);
    }
}

/// Returns the part of this key. The byte is used for nothing else: the shard is determined by the first two bytes,
/// the segment by [`spread`], and the place within it by [`tag`].
fn part(key: Digest) -> usize {
    let byte = key.0[14];
    BEGINS.iter().filter(|begin| byte >= **begin).count()
}

/// Returns the number whose lowest bits determine the segment.
fn spread(key: Digest) -> usize {
    u32::from_le_bytes(HashIndex::spread_of(key)) as usize
}

/// Returns the byte that is searched for within a segment.
fn tag(key: Digest) -> u8 {
    key.0[8]
}

/// Returns the segment of a key, out of `segments`, at least one: by as many bits as are needed, or by one bit less
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

impl Row {
    /// Returns the offset of a segment's tags, and the number of its entries.
    fn extent(&self, segment: usize) -> (usize, usize) {
        let before = match segment {
            0 => 0,
            _ => self.ends[segment - 1] as usize,
        };
        (before * TAGGED, self.ends[segment] as usize - before)
    }

    /// Returns the offset of the entry at this index of a segment.
    fn place(&self, segment: usize, at: usize) -> usize {
        let (start, count) = self.extent(segment);
        start + count + at * ENTRY
    }

    fn entry(&self, segment: usize, at: usize) -> u32 {
        entry(&self.bytes[self.place(segment, at)..])
    }

    fn entry_mut(&mut self, segment: usize, at: usize) -> &mut [u8; ENTRY] {
        let place = self.place(segment, at);
        let entry = self.bytes[place..].first_chunk_mut();
        entry.expect("an entry has its bytes")
    }

    /// Returns the tags and the entries of a segment.
    fn tagged(&self, segment: usize) -> (&[u8], &[u8]) {
        let (start, count) = self.extent(segment);
        self.bytes[start..][..count * TAGGED].split_at(count)
    }

    /// Returns the index within a segment of the entry that has this tag and for which `is_meant` holds.
    fn find(&self, segment: usize, tag: u8, is_meant: impl Fn(u32) -> bool) -> Option<usize> {
        let (start, count) = self.extent(segment);
        let all = &self.bytes[start..][..count * TAGGED];
        // Bytes beyond the tags belong to entries, and are ignored.
        for first in (0..count).step_by(WORD) {
            let mut equal = equal_bytes(word(&all[first..]), tag);
            while equal != 0 {
                let at = first + equal.trailing_zeros() as usize / 8;
                if at >= count {
                    break;
                }
                if is_meant(entry(&all[count + at * ENTRY..])) {
                    return Some(at);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// Makes room for one more entry, and loads the bytes that the insertion moves into the cache.
    fn reserve(&mut self, segment: usize) {
        let len = self.bytes.len();
        if self.bytes.room() < len + TAGGED {
            self.bytes.move_to_room_for(len + TAGGED);
        }
        self.prefetch(segment);
    }

    /// Loads into the processor's cache the bytes that a lookup reads and that an insertion moves.
    fn prefetch(&self, segment: usize) {
        let (start, _) = self.extent(segment);
        let moved = self.bytes[start..].iter().step_by(LINE);
        std::hint::black_box(moved.fold(0, |all, byte| all ^ byte));
    }

    fn push(&mut self, segment: usize, tag: u8, entry: u32) {
        let len = self.bytes.len();
        if self.bytes.room() < len + TAGGED {
            self.bytes.move_to_room_for(len + TAGGED);
        }
        let (start, count) = self.extent(segment);
        let (tags_end, end) = (start + count, start + count * TAGGED);
        let bytes = self.bytes.lengthened(TAGGED);
        if end < len {
            bytes.copy_within(end..len, end + TAGGED);
        }
        bytes.copy_within(tags_end..end, tags_end + 1);
        bytes[tags_end] = tag;
        bytes[end + 1..][..ENTRY].copy_from_slice(&entry.to_le_bytes());
        self.ends[segment..].iter_mut().for_each(|end| *end += 1);
    }

    /// Removes an entry; the last entry of its segment takes its place.
    fn remove(&mut self, segment: usize, at: usize) -> u32 {
        let len = self.bytes.len();
        let removed = self.entry(segment, at);
        let (start, count) = self.extent(segment);
        let (tags_end, end) = (start + count, start + count * TAGGED);
        let last = self.entry(segment, count - 1);
        *self.entry_mut(segment, at) = last.to_le_bytes();
        let bytes: &mut [u8] = &mut self.bytes;
        bytes[start + at] = bytes[tags_end - 1];
        bytes.copy_within(tags_end..end - ENTRY, tags_end - 1);
        bytes.copy_within(end..len, end - TAGGED);
        self.bytes.truncate(len - TAGGED);
        self.ends[segment..].iter_mut().for_each(|end| *end -= 1);
        removed
    }

    /// Removes the entries for which `goes` holds from a segment, returns them with their tags, and frees the excess
    /// room.
    fn split(&mut self, segment: usize, goes: impl Fn(u32) -> bool) -> Vec<(u8, u32)> {
        let (tags, entries) = self.tagged(segment);
        let entries = entries.chunks_exact(ENTRY).map(entry);
        // All entries are examined before any result is used, so that waits for memory overlap.
        let go: Vec<bool> = entries.clone().map(goes).collect();
        let (mut gone, mut kept) = (Vec::with_capacity(LOAD), Vec::with_capacity(2 * LOAD));
        for ((tag, entry), goes) in tags.iter().copied().zip(entries).zip(go) {
            let side = if goes { &mut gone } else { &mut kept };
            side.push((tag, entry));
        }
        let (start, count) = self.extent(segment);
        let (end, len) = (start + count * TAGGED, self.bytes.len());
        self.bytes.copy_within(end..len, end - gone.len() * TAGGED);
        self.bytes.truncate(len - gone.len() * TAGGED);
        let fewer = number(gone.len());
        self.ends[segment..]
            .iter_mut()
            .for_each(|end| *end -= fewer);
        for (at, (tag, entry)) in kept.into_iter().enumerate() {
            self.set(segment, at, tag, entry);
        }
        self.bytes.move_to_room_for(self.bytes.len());
        gone
    }

    /// Sets the entry at this index of a segment, with its tag.
    fn set(&mut self, segment: usize, at: usize, tag: u8, entry: u32) {
        let (start, _) = self.extent(segment);
        self.bytes[start + at] = tag;
        *self.entry_mut(segment, at) = entry.to_le_bytes();
    }

    #[cfg(test)]
    fn entries(&self) -> impl Iterator<Item = u32> {
        let entries = (0..ROW).flat_map(|segment| self.tagged(segment).1.chunks_exact(ENTRY));
        entries.map(entry)
    }
}

/// Returns the entry that these bytes begin with.
fn entry(bytes: &[u8]) -> u32 {
    let entry = bytes.first_chunk().expect("an entry has its bytes");
    u32::from_le_bytes(*entry)
}

/// Converts a number of entries, of which an index never has too many.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("entries are numbers of four bytes, each once")
}

impl Part {
    /// Returns the row of a key, present or not, and its segment in that row.
    fn place(&self, key: Digest) -> Option<(usize, usize)> {
        if self.segments == 0 {
            return None;
        }
        let number = segment(spread(key), self.segments);
        Some((number / ROW, number % ROW))
    }

    /// Adds a segment if one more key would be too many.
    fn make_room(&mut self, key_of: impl Fn(u32) -> Digest) {
        if self.len >= self.segments * LOAD {
            self.grow(key_of);
        }
    }

    /// Adds a segment, which takes entries from the next old one in order, by one more bit.
    #[cold]
    fn grow(&mut self, key_of: impl Fn(u32) -> Digest) {
        let new = self.segments;
        if new.is_multiple_of(ROW) {
            self.rows.push(Row::default());
        }
        self.segments += 1;
        if new == 0 {
            return;
        }
        let bit = 1 << new.ilog2();
        let from = new - bit;
        let gone = self.rows[from / ROW].split(from % ROW, |it| spread(key_of(it)) & bit != 0);
        let row = &mut self.rows[new / ROW];
        row.bytes
            .move_to_room_for(row.bytes.len() + gone.len() * TAGGED);
        for (tag, entry) in gone {
            row.push(new % ROW, tag, entry);
        }
    }
}

impl HashIndex {
    /// Returns the bytes of a key that determine its segment.
    pub(super) fn spread_of(key: Digest) -> [u8; 4] {
        let [_, _, _, _, a, b, c, d, ..] = key.0;
        [a, b, c, d]
    }

    /// Returns a key with these bytes.
    pub(super) fn with_spread([a, b, c, d]: [u8; 4]) -> Digest {
        Digest([0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Returns the entry of this key; `key_of` returns the key of an entry.
    pub(super) fn find(&self, key: Digest, key_of: impl Fn(u32) -> Digest) -> Option<u32> {
        self.find_if(key, |it| key_of(it) == key)
    }

    /// Returns the entry for which `is_meant` holds, out of those with this key's segment and tag.
    pub(super) fn find_if(&self, key: Digest, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        let part = &self.0[part(key)];
        let (row, segment) = part.place(key)?;
        let row = &part.rows[row];
        let at = row.find(segment, tag(key), is_meant)?;
        Some(row.entry(segment, at))
    }

    /// Looks up the entry of this key, present or not.
    pub(super) fn entry(&mut self, key: Digest, key_of: impl Fn(u32) -> Digest) -> Entry<'_> {
        self.entry_if(key, &key_of, |it| key_of(it) == key)
    }

    /// Looks up the entry for which `is_meant` holds, out of those with this key's segment and tag; otherwise returns
    /// the place for one more. Only the spread of the keys that `key_of` returns matters.
    pub(super) fn entry_if(
        &mut self,
        key: Digest,
        key_of: impl Fn(u32) -> Digest,
        is_meant: impl Fn(u32) -> bool,
    ) -> Entry<'_> {
        let Vacant {
            row,
            segment,
            tag,
            len,
        } = self.vacant(key, key_of);
        match row.find(segment, tag, is_meant) {
            Some(at) => Entry::Occupied(Occupied(row.entry_mut(segment, at))),
            None => Entry::Vacant(Vacant {
                row,
                segment,
                tag,
                len,
            }),
        }
    }

    /// Returns the place for one more entry of this key. Only the spread of the keys that `key_of` returns matters.
    pub(super) fn vacant(&mut self, key: Digest, key_of: impl Fn(u32) -> Digest) -> Vacant<'_> {
        let part = &mut self.0[part(key)];
        part.make_room(key_of);
        let number = segment(spread(key), part.segments);
        Vacant {
            row: &mut part.rows[number / ROW],
            segment: number % ROW,
            tag: tag(key),
            len: &mut part.len,
        }
    }

    /// Makes room for this key before it is inserted, and does the moves needed for that now.
    pub(super) fn reserve(&mut self, key: Digest, key_of: impl Fn(u32) -> Digest) {
        let part = &mut self.0[part(key)];
        part.make_room(key_of);
        if let Some((row, segment)) = part.place(key) {
            part.rows[row].reserve(segment);
        }
    }

    /// Loads into the processor's cache the bytes that a lookup of this key reads.
    pub(super) fn prefetch(&self, key: Digest) {
        let part = &self.0[part(key)];
        if let Some((row, segment)) = part.place(key) {
            part.rows[row].prefetch(segment);
        }
    }

    /// Removes this key; returns its entry.
    pub(super) fn remove(&mut self, key: Digest, key_of: impl Fn(u32) -> Digest) -> Option<u32> {
        self.remove_if(key, |it| key_of(it) == key)
    }

    /// Removes the entry with this key's tag for which `is_meant` holds; returns it.
    pub(super) fn remove_if(&mut self, key: Digest, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        let part = &mut self.0[part(key)];
        let (row, segment) = part.place(key)?;
        let row = &mut part.rows[row];
        let at = row.find(segment, tag(key), is_meant)?;
        part.len -= 1;
        Some(row.remove(segment, at))
    }

    /// Changes the entry of this key from `from` to `to`.
    pub(super) fn moved(&mut self, key: Digest, from: u32, to: u32) {
        let part = &mut self.0[part(key)];
        let entry = part.place(key).and_then(|(row, segment)| {
            let row = &mut part.rows[row];
            let at = row.find(segment, tag(key), |it| it == from)?;
            Some(row.entry_mut(segment, at))
        });
        *entry.expect("a moved entry is in the index") = to.to_le_bytes();
    }

    /// Changes an entry from `from` to `to`; only the spread of its key is known.
    pub(super) fn moved_in_any(&mut self, key: Digest, from: u32, to: u32) {
        let entry = self.0.iter_mut().find_map(|part| {
            let (row, segment) = part.place(key)?;
            let row = &mut part.rows[row];
            let (_, entries) = row.tagged(segment);
            let at = entries
                .chunks_exact(ENTRY)
                .position(|it| entry(it) == from)?;
            Some(row.entry_mut(segment, at))
        });
        *entry.expect("a moved entry is in the index") = to.to_le_bytes();
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|part| part.len).sum()
    }

    /// Iterates over all entries, in no particular order.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let rows = self.0.iter().flat_map(|part| &part.rows);
        rows.flat_map(Row::entries)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::*;

    fn numbered(number: u32) -> Digest {
        Digest::of(1, &[number.to_string()])
    }

    #[test]
    fn an_insertion_looks_at_no_more_entries_than_a_few_segments_have() {
        let mut index = HashIndex::default();
        let looked = Cell::new(0);
        let key_of = |number| {
            looked.set(looked.get() + 1);
            numbered(number)
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
        // The insertion may split one segment, and enlarge another row.
        assert!(most <= 8 * LOAD, "{most}");
        assert_eq!(index.len(), 100_000);
    }

    #[test]
    fn an_insertion_for_which_room_was_made_moves_nothing() {
        let mut index = HashIndex::default();
        let looked = Cell::new(0);
        let key_of = |number| {
            looked.set(looked.get() + 1);
            numbered(number)
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
        // Only entries with the same tag are compared.
        assert!(most <= 8, "{most}");
        for number in 0..100_000 {
            index.reserve(numbered(number), numbered);
            assert_eq!(index.find(numbered(number), numbered), Some(number));
        }
        assert_eq!(index.len(), 100_000);
    }

    #[test]
    fn an_index_is_built_in_one_go_from_distinct_keys_not_from_duplicates() {
        for count in [0, 1, 31, 33, 128, 5_000] {
            let keys: Vec<_> = (0..count).map(numbered).collect();
            let of = |keys: &[Digest]| {
                let all: Vec<_> = keys.iter().copied().zip(0..).collect();
                let are_same = |one: u32, other: u32| keys[one as usize] == keys[other as usize];
                HashIndex::of_different(all.len(), all.into_iter(), are_same)
            };
            let mut index = of(&keys).unwrap();
            assert_eq!(index.len(), keys.len());
            for number in 0..2 * count {
                let expected = (number < count).then_some(number);
                assert_eq!(index.find(numbered(number), numbered), expected);
            }
            // It grows like any other index.
            for number in count..2 * count {
                let Entry::Vacant(entry) = index.entry(numbered(number), numbered) else {
                    panic!("{number} is there already");
                };
                entry.insert(number);
            }
            for number in 0..2 * count {
                assert_eq!(index.find(numbered(number), numbered), Some(number));
            }
            for twice in [0, count / 2, count.saturating_sub(1)] {
                let again = keys.get(twice as usize);
                let keys: Vec<_> = keys.iter().chain(again).copied().collect();
                assert_eq!(of(&keys).is_none(), again.is_some(), "{twice} of {count}");
            }
        }
    }

    #[test]
    fn entries_are_found_however_far_the_index_has_grown() {
        let mut index = HashIndex::default();
        let key_of = numbered;
        for number in 0..20_000 {
            assert_eq!(index.find(numbered(number), key_of), None);
            assert_eq!(index.remove(numbered(number), key_of), None);
            if let Entry::Vacant(entry) = index.entry(numbered(number), key_of) {
                entry.insert(number);
            }
            // An entry inserted just before, long ago, and first of all.
            for other in [number, number / 2, number / 3, 0] {
                assert_eq!(index.find(numbered(other), key_of), Some(other));
                let entry = index.entry(numbered(other), key_of);
                assert!(matches!(entry, Entry::Occupied(entry) if entry.get() == other));
            }
        }
        let mut all: Vec<u32> = index.iter().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..20_000));
        for number in (0..20_000).step_by(2) {
            assert_eq!(index.remove(numbered(number), key_of), Some(number));
            assert_eq!(index.remove(numbered(number), key_of), None);
        }
        assert_eq!((index.len(), index.iter().count()), (10_000, 10_000));
        for number in 0..20_000 {
            let found = index.find(numbered(number), key_of);
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
        let key_of = alike;
        let mut index = HashIndex::default();
        for number in 0..5_000 {
            if let Entry::Vacant(entry) = index.entry(alike(number), key_of) {
                entry.insert(number);
            }
        }
        for number in 0..5_000 {
            assert_eq!(index.find(alike(number), key_of), Some(number));
        }
        assert_eq!(index.len(), 5_000);
    }

    #[test]
    fn each_part_of_an_index_has_a_larger_share_of_keys_than_the_one_before() {
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
    fn an_index_keeps_less_than_a_fifth_of_its_entries_free() {
        let mut index = HashIndex::default();
        for number in 0..20_000 {
            if let Entry::Vacant(entry) = index.entry(numbered(number), numbered) {
                entry.insert(number);
            }
            if number > 2_000 && number % 500 == 0 {
                let rows = index.0.iter().flat_map(|part| &part.rows);
                let room = rows.map(|row| row.bytes.room() / TAGGED);
                let (room, len) = (room.sum::<usize>(), index.len());
                assert!(room < len + len / 5, "{room} for {len}");
            }
        }
    }

    #[test]
    fn an_index_made_at_once_is_like_one_that_has_grown() {
        for count in [0, 1, 5, 31, 32, 33, 1_000, 20_000] {
            let mut index = HashIndex::of(
                count as usize,
                (0..count).map(|number| (numbered(number), number)),
            );
            assert_eq!(index.len(), count as usize);
            let mut all: Vec<u32> = index.iter().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count));
            for number in 0..count {
                assert_eq!(index.find(numbered(number), numbered), Some(number));
            }
            for number in count..2 * count {
                assert_eq!(index.find(numbered(number), numbered), None);
                if let Entry::Vacant(entry) = index.entry(numbered(number), numbered) {
                    entry.insert(number);
                }
                assert_eq!(index.find(numbered(number / 2), numbered), Some(number / 2));
            }
            assert_eq!(index.len(), 2 * count as usize);
        }
    }
}
