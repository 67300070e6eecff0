//! The lists of the kinds that can be listed: their resources in the order of their creation and, for each value of a
//! filter, the resources that have it.
//!
//! A kind numbers its resources without gaps, in the order in which they were first listed; a resource is never
//! removed. A number takes four bytes. For a value shared by many, the numbers are kept in a compressed bitmap, in
//! far less space. Values shared by few lie in one tree of values and numbers. Both return the numbers of a value in
//! order, from any place, in either direction, and add or remove one at a cost that does not grow with their count.
//!
//! A list only finds candidates: its readers check whether each has the value. So a surplus entry costs one check; a
//! missing one would be a fault.
//!
//! For each resource half of its key is noted, which suffices to find it in the table of states; for an item of
//! several resources, half of the name of their list with ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::extent::Extent;
use super::half_key::{HalfKey, HalfKeyCollisions, Noted};
use super::hash_index::{Entry, HashIndex};
use super::listed_at::ListedAt;
use super::pair::Pair;
use crate::base::digest::Digest;
use crate::domain::listing::{Shared, ValueHash};
use crate::journal::parallel::join;
use parking_lot::RwLock;
use roaring::RoaringBitmap;

/// Upper bound, exclusive, of the tags of kinds that can be listed.
const KINDS: usize = 256;
/// Number of resources of a chunk: growing moves at most one descriptor per chunk.
const CHUNK: usize = 1_024;
/// Highest count determined exactly for a value shared by few, which takes a look at each.
const COUNTED: usize = 64;

/// Identifies the resources under one value.
pub type Set = (Shared, ValueHash);

/// A listed resource, or several that are one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Key of the resource; for several, the name of their list with ranks.
    pub entry: Digest,
    /// Place in the order of creation.
    pub listed_at: ListedAt,
}

/// Resources with consecutive numbers. Each position is stored as the distance from that of the first one.
struct Chunk {
    first: u64,
    resources: Vec<InChunk>,
    /// Births that do not fit into `InChunk`, by index.
    far: BTreeMap<usize, ListedAt>,
}

/// A resource in a chunk, in packed bytes: half of its key, and when it was first listed.
#[derive(Clone, Copy)]
struct InChunk {
    entry: HalfKey,
    /// Distance of its position from the chunk's first; [`FAR`] for one stored in `far`.
    after: [u8; 3],
    number: u8,
}

/// Mark for a position that is not stored as a distance.
const FAR: u32 = (1 << 24) - 1;

impl Default for Chunk {
    fn default() -> Self {
        Self {
            first: 0,
            resources: Vec::with_capacity(CHUNK),
            far: BTreeMap::new(),
        }
    }
}

impl Chunk {
    fn push(&mut self, entry: HalfKey, listed_at: ListedAt) {
        if self.resources.is_empty() {
            self.first = listed_at.position;
        }
        let after = listed_at.position.checked_sub(self.first);
        let after = after.and_then(|after| u32::try_from(after).ok());
        let (after, number) = match (after, u8::try_from(listed_at.number)) {
            (Some(after), Ok(number)) if after < FAR => (after, number),
            _ => {
                self.far.insert(self.resources.len(), listed_at);
                (FAR, 0)
            }
        };
        let [after @ .., _] = after.to_le_bytes();
        self.resources.push(InChunk {
            entry,
            after,
            number,
        });
    }

    fn listed_at(&self, place: usize) -> ListedAt {
        let InChunk { after, number, .. } = self.resources[place];
        let [a, b, c] = after;
        match u32::from_le_bytes([a, b, c, 0]) {
            FAR => self.far[&place],
            after => ListedAt {
                position: self.first + u64::from(after),
                number: number.into(),
            },
        }
    }
}

/// The list of one kind.
#[derive(Default)]
pub(super) struct KindList {
    chunks: Vec<Chunk>,
    len: u32,
    numbers: HashIndex,
    /// Keys that are stored in full, by number.
    whole: BTreeMap<u32, Digest>,
    many: BTreeMap<ValueHash, RoaringBitmap>,
    few: BTreeSet<Pair>,
    /// Number of times that an item without a resource to show was shown again, under its old number.
    shown_again: u64,
}

fn half_key(chunks: &[Chunk], number: u32) -> HalfKey {
    let number = number as usize;
    chunks[number / CHUNK].resources[number % CHUNK].entry
}

fn noted(chunks: &[Chunk], whole: &BTreeMap<u32, Digest>, number: u32) -> Noted {
    match whole.get(&number) {
        Some(whole) => Noted::Later(*whole),
        None => Noted::First(half_key(chunks, number)),
    }
}

impl KindList {
    /// Number of listed resources.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns how many resources were listed so far, and how often one was shown again.
    pub(super) fn extent(&self) -> Extent {
        Extent {
            len: self.len,
            shown_again: self.shown_again,
        }
    }

    /// Notes that an item without a resource to show is shown again.
    pub(super) fn show_again(&mut self) {
        self.shown_again += 1;
    }

    /// Returns the key of the resource with this number.
    pub(super) fn entry(&self, number: u32) -> Noted {
        noted(&self.chunks, &self.whole, number)
    }

    /// Returns when the resource with this number was first listed.
    pub(super) fn listed_at_of(&self, number: u32) -> ListedAt {
        let number = number as usize;
        self.chunks[number / CHUNK].listed_at(number % CHUNK)
    }

    /// Returns when the resource with this key was first listed.
    pub(super) fn listed_at(&self, entry: Noted) -> Option<ListedAt> {
        let key = entry.half().alike();
        let number = self.numbers.find_if(key, |it| self.entry(it) == entry)?;
        Some(self.listed_at_of(number))
    }

    /// Makes room for one more resource, with this key.
    pub(super) fn reserve(&mut self, key: Digest) {
        let chunks = &mut self.chunks;
        self.numbers
            .reserve(key, |number| half_key(chunks, number).alike());
        if self.len as usize == chunks.len() * CHUNK {
            chunks.push(Chunk::default());
        }
    }

    /// Returns the number of the resource with this key, and whether it is new; a new one is entered with this birth,
    /// after all others.
    pub(super) fn enter(&mut self, entry: Noted, listed_at: ListedAt) -> (u32, bool) {
        let (chunks, whole) = (&mut self.chunks, &mut self.whole);
        let key = entry.half();
        let key_of = |number| half_key(chunks, number).alike();
        let is_it = |number| noted(chunks, whole, number) == entry;
        let place = match self.numbers.entry_if(key.alike(), key_of, is_it) {
            Entry::Occupied(place) => return (place.get(), false),
            Entry::Vacant(place) => place,
        };
        let number = self.len;
        place.insert(number);
        // A kind with so many resources would take more memory than any machine has.
        self.len = number.checked_add(1).expect("a kind has no 2^32 resources");
        if number as usize == chunks.len() * CHUNK {
            chunks.push(Chunk::default());
        }
        chunks[number as usize / CHUNK].push(key, listed_at);
        if let Noted::Later(all) = entry {
            whole.insert(number, all);
        }
        (number, true)
    }

    pub(super) fn add(&mut self, (shared, value): Set, number: u32) {
        match shared {
            Shared::ByMany => {
                self.many.entry(value).or_default().insert(number);
            }
            Shared::ByFew => {
                self.few.insert(Pair::new(value, number));
            }
        }
    }

    pub(super) fn remove(&mut self, (shared, value): Set, number: u32) {
        match shared {
            Shared::ByMany => {
                if let Some(numbers) = self.many.get_mut(&value) {
                    numbers.remove(number);
                }
            }
            Shared::ByFew => {
                self.few.remove(&Pair::new(value, number));
            }
        }
    }

    /// Builds the list of these items in order, no two of which have the same entry.
    fn of(ranges: Vec<ListRange>) -> Self {
        let count: usize = ranges.iter().map(|range| range.resources.len()).sum();
        let len = u32::try_from(count).expect("a kind has no 2^32 resources");
        let by_number = || {
            let mut chunks = Vec::with_capacity(count.div_ceil(CHUNK));
            let all = ranges.iter().flat_map(|range| &range.resources);
            for (number, (entry, listed_at)) in all.enumerate() {
                if number.is_multiple_of(CHUNK) {
                    chunks.push(Chunk::default());
                }
                chunks[number / CHUNK].push(*entry, *listed_at);
            }
            let all = (0..).zip(chunks.iter().flat_map(|chunk| &chunk.resources));
            let numbers = HashIndex::of(count, all.map(|(number, it)| (it.entry.alike(), number)));
            (chunks, numbers)
        };
        let by_value = || {
            let mut many: BTreeMap<ValueHash, RoaringBitmap> = BTreeMap::new();
            for (value, numbers) in ranges.iter().flat_map(|range| &range.many) {
                *many.entry(*value).or_default() |= numbers;
            }
            let few = ranges.iter().flat_map(|range| &range.few);
            (many, few.copied().collect())
        };
        let ((chunks, numbers), (many, few)) = join(by_number, by_value);
        let whole = ranges.iter().flat_map(|range| range.whole.iter().copied());
        Self {
            chunks,
            len,
            numbers,
            whole: whole.collect(),
            many,
            few,
            shown_again: 0,
        }
    }

    pub(super) fn has(&self, (shared, value): Set, number: u32) -> bool {
        match shared {
            Shared::ByMany => {
                let numbers = self.many.get(&value);
                numbers.is_some_and(|numbers| numbers.contains(number))
            }
            Shared::ByFew => self.few.contains(&Pair::new(value, number)),
        }
    }

    /// Returns the numbers, out of these, that have one of these values. Each value is searched from one number to
    /// the next: most have none of the values, and are skipped with one search.
    pub(super) fn with_any(&self, sets: &[Set], numbers: &[u32]) -> RoaringBitmap {
        let mut left: RoaringBitmap = numbers.iter().copied().collect();
        let mut found = RoaringBitmap::new();
        for set in sets {
            let mut from = left.min();
            while let Some(number) = self.first(*set, from) {
                if left.remove(number) {
                    found.insert(number);
                }
                let beyond = number.checked_add(1);
                from = beyond.and_then(|beyond| left.range(beyond..).next());
            }
        }
        found
    }

    /// Returns about how many resources have this value.
    pub(super) fn count(&self, (shared, value): Set) -> u64 {
        match shared {
            Shared::ByMany => self.many.get(&value).map_or(0, RoaringBitmap::len),
            Shared::ByFew => {
                let range = Pair::new(value, 0)..=Pair::new(value, u32::MAX);
                let counted = self.few.range(range).take(COUNTED).count();
                u64::try_from(counted).unwrap_or(u64::MAX)
            }
        }
    }

    /// Returns at most `most` numbers from this one on that have a value, in order.
    pub(super) fn numbers_of(&self, set: Set, from: u32, most: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut next = self.first(set, Some(from));
        while let Some(number) = next
            && numbers.len() < most
        {
            numbers.push(number);
            next = self.first(set, number.checked_add(1));
        }
        numbers
    }

    /// Returns the first number from this one on that has a value.
    pub(super) fn first(&self, (shared, value): Set, from: Option<u32>) -> Option<u32> {
        let from = from?;
        match shared {
            Shared::ByMany => self.many.get(&value)?.range(from..).next(),
            Shared::ByFew => {
                let range = Pair::new(value, from)..=Pair::new(value, u32::MAX);
                self.few.range(range).next().map(|pair| pair.number())
            }
        }
    }

    /// Returns the last number before this one that has a value.
    pub(super) fn last(&self, (shared, value): Set, before: u32) -> Option<u32> {
        match shared {
            Shared::ByMany => self.many.get(&value)?.range(..before).next_back(),
            Shared::ByFew => {
                let range = Pair::new(value, 0)..Pair::new(value, before);
                self.few.range(range).next_back().map(|pair| pair.number())
            }
        }
    }

    /// Counts the resources first listed before this birth; the one with this birth counts where `with` is set.
    pub(super) fn listed_before(&self, listed_at: ListedAt, with: bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.listed_at_of(middle);
            if found < listed_at || with && found == listed_at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The lists of all kinds. While a list is locked, nothing else is.
pub(super) struct Lists(Box<[OnceLock<RwLock<KindList>>]>);

impl Default for Lists {
    fn default() -> Self {
        Self((0..KINDS).map(|_| OnceLock::new()).collect())
    }
}

/// An item to be listed while tables are built, with its values.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) listed_at: ListedAt,
    pub(super) entry: Digest,
    pub(super) sets: &'a [Set],
}

/// Consecutive items, in order, while tables are built.
#[derive(Default)]
pub(super) struct ListRange {
    resources: Vec<(HalfKey, ListedAt)>,
    whole: Vec<(u32, Digest)>,
    many: BTreeMap<ValueHash, RoaringBitmap>,
    few: Vec<Pair>,
}

impl ListRange {
    /// Builds the range of these items, the first of which has the number `first`.
    pub(super) fn of<'a>(
        first: usize,
        items: impl Iterator<Item = Listed<'a>>,
        later: &HalfKeyCollisions,
    ) -> Self {
        let first = u32::try_from(first).expect("a kind has no 2^32 resources");
        let mut range = Self::default();
        for (number, item) in (first..).zip(items) {
            range
                .resources
                .push((HalfKey::of(item.entry), item.listed_at));
            if later.has(item.entry) {
                range.whole.push((number, item.entry));
            }
            for (shared, value) in item.sets {
                match shared {
                    Shared::ByMany => {
                        // Appending would first search for the highest number, word by word.
                        range.many.entry(*value).or_default().insert(number);
                    }
                    Shared::ByFew => range.few.push(Pair::new(*value, number)),
                }
            }
        }
        range
    }
}

impl Lists {
    /// Returns the list of the kind with this tag.
    pub(super) fn of(&self, kind: u16) -> &RwLock<KindList> {
        self.0[usize::from(kind)].get_or_init(RwLock::default)
    }

    /// Empties all lists.
    pub(super) fn clear(&self) {
        for list in self.0.iter().filter_map(OnceLock::get) {
            *list.write() = KindList::default();
        }
    }

    /// Replaces the list of a kind by one of these ranges.
    pub(super) fn build(&self, kind: u16, ranges: Vec<ListRange>) {
        *self.of(kind).write() = KindList::of(ranges);
    }

    /// Returns the whole content: by kind, each item in order with its values.
    pub(super) fn all(&self) -> Vec<(u16, Noted, ListedAt, Vec<ValueHash>)> {
        let mut all = Vec::new();
        for (kind, list) in (0..).zip(&self.0) {
            let Some(list) = list.get() else {
                continue;
            };
            let list = list.read();
            let mut values: BTreeMap<u32, BTreeSet<ValueHash>> = BTreeMap::new();
            for (value, numbers) in &list.many {
                for number in numbers {
                    values.entry(number).or_default().insert(*value);
                }
            }
            for pair in &list.few {
                let values = values.entry(pair.number()).or_default();
                values.insert(pair.value());
            }
            for number in 0..list.len {
                let values = values.remove(&number).unwrap_or_default();
                let (entry, listed_at) = (list.entry(number), list.listed_at_of(number));
                all.push((kind, entry, listed_at, values.into_iter().collect()));
            }
        }
        all
    }
}

/// Effects of a change on lists, prepared before it is published.
#[derive(Default)]
pub(super) struct PreparedLists {
    /// Values that a booking's fact gives to a newly listed resource, and the position of the fact's last commit.
    pub(super) by_booking: Option<(u64, Vec<Set>)>,
    /// Kinds bound to bookings, each with the extent of its list when the booking's resources were entered under its
    /// new values.
    pub(super) entered: Vec<(u16, Extent)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_is_kept_as_it_was_however_far_it_lies_from_the_one_before() {
        let at = |position, number| ListedAt { position, number };
        let far = u64::from(FAR);
        let births = [
            at(1 << 40, 7),
            at((1 << 40) + 1, 0),
            at((1 << 40) + 1, u32::from(u8::MAX)),
            at((1 << 40) + 1, u32::from(u8::MAX) + 1),
            at((1 << 40) + far - 1, 1),
            at((1 << 40) + far, 1),
            at(u64::MAX, u32::MAX),
            // A birth guessed while tables were built may be earlier.
            at(3, 1 << 31),
        ];
        let keys: Vec<_> = (0..births.len())
            .map(|key| Digest::of(1, &[key.to_string()]))
            .collect();
        let mut list = KindList::default();
        for (key, listed_at) in keys.iter().zip(births) {
            list.reserve(*key);
            let noted = Noted::First(HalfKey::of(*key));
            let (_, is_new) = list.enter(noted, listed_at);
            assert!(is_new);
        }
        for ((number, key), listed_at) in (0..).zip(&keys).zip(births) {
            let noted = Noted::First(HalfKey::of(*key));
            assert_eq!(list.listed_at(noted), Some(listed_at));
            assert_eq!(list.entry(number), noted);
        }
        assert_eq!(size_of::<InChunk>(), 12);
    }
}
