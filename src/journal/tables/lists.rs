//! The lists of the kinds that can be listed: their resources in the order of their creation, and
//! under each value of a filter those that have it.
//!
//! A kind numbers its resources without gaps, in the order in which they came to be listed; a
//! resource is never removed. A number takes four bytes, and under a value that many share numbers
//! are kept in a compressed bitmap, in far less. What few share lies in one tree of values and
//! numbers. Both give the numbers of a value in order, from any place, in either direction, and take
//! in or give up one at a cost that does not grow with how many there are.
//!
//! A list only finds candidates: its readers check whether each has the value. So one too many
//! costs a check; one that is missing would be a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::at_once::both;
use super::born::Born;
use super::hash_index::{Entry, HashIndex};
use crate::base::digest::Digest;
use crate::domain::listing::{Shared, ValueHash};
use parking_lot::RwLock;
use roaring::RoaringBitmap;

/// Tags of kinds that can be listed are below this.
const KINDS: usize = 256;
/// Resources of a chunk of numbers: growing never moves more than a pointer to each chunk.
const CHUNK: usize = 1_024;
/// Up to so many that share a value are counted, where that takes looking at each.
const COUNTED: usize = 64;

/// What is kept under one value.
pub type Set = (Shared, ValueHash);

/// A resource that is listed, or several that are one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its key; the name of the list with ranks where it is several.
    pub entry: Digest,
    /// Its place in the order of creation.
    pub born: Born,
}

/// A value of a filter and a resource that has it: 64 bits in halves, and the resource's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair([u32; 2], u32);

impl Pair {
    fn new(value: ValueHash, number: u32) -> Self {
        let [a, b, c, d, e, f, g, h] = value.0.to_be_bytes();
        let halves = [
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([e, f, g, h]),
        ];
        Self(halves, number)
    }
}

/// Resources with numbers in a row. The position of each is kept as what it is more than the first
/// one's.
struct Chunk {
    first: u64,
    resources: Vec<InChunk>,
    /// The births that do not fit into what is kept of each, by place.
    far: BTreeMap<usize, Born>,
}

/// A resource in a chunk, in bytes that lie close: its key, and when it came to be listed.
#[derive(Clone, Copy)]
struct InChunk {
    entry: Digest,
    /// Of its position, what it is more than the chunk's first; [`FAR`] for one that is kept aside.
    after: [u8; 4],
    number: [u8; 2],
}

/// What is no distance from the chunk's first position.
const FAR: u32 = u32::MAX;

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
    fn push(&mut self, entry: Digest, born: Born) {
        if self.resources.is_empty() {
            self.first = born.position;
        }
        let after = born.position.checked_sub(self.first);
        let after = after.and_then(|after| u32::try_from(after).ok());
        let (after, number) = match (after, u16::try_from(born.number)) {
            (Some(after), Ok(number)) if after != FAR => (after, number),
            _ => {
                self.far.insert(self.resources.len(), born);
                (FAR, 0)
            }
        };
        self.resources.push(InChunk {
            entry,
            after: after.to_le_bytes(),
            number: number.to_le_bytes(),
        });
    }

    fn at(&self, place: usize) -> Candidate {
        let InChunk {
            entry,
            after,
            number,
        } = self.resources[place];
        let born = match u32::from_le_bytes(after) {
            FAR => self.far[&place],
            after => Born {
                position: self.first + u64::from(after),
                number: u16::from_le_bytes(number).into(),
            },
        };
        Candidate { entry, born }
    }
}

/// The list of one kind.
#[derive(Default)]
pub(super) struct KindList {
    chunks: Vec<Chunk>,
    len: u32,
    numbers: HashIndex,
    many: BTreeMap<ValueHash, RoaringBitmap>,
    few: BTreeSet<Pair>,
}

fn entry(chunks: &[Chunk], number: u32) -> Digest {
    let number = number as usize;
    chunks[number / CHUNK].resources[number % CHUNK].entry
}

impl KindList {
    /// How many resources are listed.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn at(&self, number: u32) -> Candidate {
        let number = number as usize;
        self.chunks[number / CHUNK].at(number % CHUNK)
    }

    /// The key of the resource with this number.
    pub(super) fn entry(&self, number: u32) -> Digest {
        entry(&self.chunks, number)
    }

    /// When the resource with this key came to be listed.
    pub(super) fn born(&self, entry: Digest) -> Option<Born> {
        let number = self.numbers.find(entry, |number| self.entry(number))?;
        Some(self.at(number).born)
    }

    /// Makes room for one more, with such a key.
    pub(super) fn reserve(&mut self, key: Digest) {
        let chunks = &mut self.chunks;
        self.numbers.reserve(key, |number| entry(chunks, number));
        if self.len as usize == chunks.len() * CHUNK {
            chunks.push(Chunk::default());
        }
    }

    /// The number of the resource with this key, and whether it is new: then it was born so, after
    /// all others.
    pub(super) fn enter(&mut self, key: Digest, born: Born) -> (u32, bool) {
        let chunks = &mut self.chunks;
        let place = self.numbers.entry(key, |number| entry(chunks, number));
        match place {
            Entry::Occupied(place) => (place.get(), false),
            Entry::Vacant(place) => {
                let number = self.len;
                place.insert(number);
                // A kind of so many would take more memory than any machine has.
                self.len = number.checked_add(1).expect("a kind has no 2^32 resources");
                if number as usize == chunks.len() * CHUNK {
                    chunks.push(Chunk::default());
                }
                chunks[number as usize / CHUNK].push(key, born);
                (number, true)
            }
        }
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

    /// Of so many items, each with another entry, in order.
    fn of<'a>(count: usize, at: impl Fn(usize) -> Listed<'a> + Sync) -> Self {
        let len = u32::try_from(count).expect("a kind has no 2^32 resources");
        let by_number = || {
            let mut chunks = Vec::with_capacity(count.div_ceil(CHUNK));
            for number in 0..count {
                if number.is_multiple_of(CHUNK) {
                    chunks.push(Chunk::default());
                }
                let Listed { born, entry, .. } = at(number);
                chunks[number / CHUNK].push(entry, born);
            }
            let all = (0..).zip(chunks.iter().flat_map(|chunk| &chunk.resources));
            let numbers = HashIndex::of(all.map(|(number, it)| (it.entry, number)));
            (chunks, numbers)
        };
        let by_value = || {
            let mut many: BTreeMap<ValueHash, RoaringBitmap> = BTreeMap::new();
            let mut few = Vec::new();
            for (number, at) in (0..len).zip((0..count).map(&at)) {
                for (shared, value) in at.sets {
                    match shared {
                        Shared::ByMany => {
                            // One that is the last already stays so.
                            let _ = many.entry(*value).or_default().try_push(number);
                        }
                        Shared::ByFew => few.push(Pair::new(*value, number)),
                    }
                }
            }
            few.sort_unstable();
            (many, few.into_iter().collect())
        };
        let ((chunks, numbers), (many, few)) = both(by_number, by_value);
        Self {
            chunks,
            len,
            numbers,
            many,
            few,
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

    /// About how many have this value.
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

    /// The numbers from this one on that have a value, in order, so many at most.
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

    /// The first number from this one on that has a value.
    pub(super) fn first(&self, (shared, value): Set, from: Option<u32>) -> Option<u32> {
        let from = from?;
        match shared {
            Shared::ByMany => self.many.get(&value)?.range(from..).next(),
            Shared::ByFew => {
                let range = Pair::new(value, from)..=Pair::new(value, u32::MAX);
                self.few.range(range).next().map(|pair| pair.1)
            }
        }
    }

    /// The last number before this one that has a value.
    pub(super) fn last(&self, (shared, value): Set, before: u32) -> Option<u32> {
        match shared {
            Shared::ByMany => self.many.get(&value)?.range(..before).next_back(),
            Shared::ByFew => {
                let range = Pair::new(value, 0)..Pair::new(value, before);
                self.few.range(range).next_back().map(|pair| pair.1)
            }
        }
    }

    /// How many were first listed before this one, which counts itself where `with` is set.
    pub(super) fn born_before(&self, born: Born, with: bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.at(middle).born;
            if found < born || with && found == born {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The lists of all kinds. While one is locked nothing else is.
pub(super) struct Lists(Box<[OnceLock<RwLock<KindList>>]>);

impl Default for Lists {
    fn default() -> Self {
        Self((0..KINDS).map(|_| OnceLock::new()).collect())
    }
}

/// An item to be listed, while tables are built, with what it is found by.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) born: Born,
    pub(super) entry: Digest,
    pub(super) sets: &'a [Set],
}

impl Lists {
    /// The list of the kind with this tag.
    pub(super) fn of(&self, kind: u16) -> &RwLock<KindList> {
        self.0[usize::from(kind)].get_or_init(RwLock::default)
    }

    /// Empties all lists.
    pub(super) fn clear(&self) {
        for list in self.0.iter().filter_map(OnceLock::get) {
            *list.write() = KindList::default();
        }
    }

    /// Puts the list of a kind in place: of so many items, each with another entry, in order.
    pub(super) fn build<'a>(
        &self,
        kind: u16,
        count: usize,
        at: impl Fn(usize) -> Listed<'a> + Sync,
    ) {
        *self.of(kind).write() = KindList::of(count, at);
    }

    /// Everything: by kinds, each item in order with its values.
    pub(super) fn all(&self) -> Vec<(u16, Candidate, Vec<ValueHash>)> {
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
            for Pair([high, low], number) in &list.few {
                let value = ValueHash(u64::from(*high) << 32 | u64::from(*low));
                values.entry(*number).or_default().insert(value);
            }
            for number in 0..list.len {
                let values = values.remove(&number).unwrap_or_default();
                all.push((kind, list.at(number), values.into_iter().collect()));
            }
        }
        all
    }
}

/// What is known of a change's effect on lists before it is published.
#[derive(Default)]
pub(super) struct ReadyLists {
    /// The values that a booking's fact gives to a resource that is newly listed, and the position
    /// of the fact's last commit.
    pub(super) by_booking: Option<(u64, Vec<Set>)>,
    /// The kinds bound to bookings, each with how many were in its list when those of the booking
    /// were entered under its new values.
    pub(super) entered: Vec<(u16, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_is_kept_as_it_was_however_far_it_lies_from_the_one_before() {
        let at = |position, number| Born { position, number };
        let far = u64::from(FAR);
        let births = [
            at(1 << 40, 7),
            at((1 << 40) + 1, 0),
            at((1 << 40) + 1, u32::from(u16::MAX)),
            at((1 << 40) + 1, u32::from(u16::MAX) + 1),
            at((1 << 40) + far - 1, 1),
            at((1 << 40) + far, 1),
            at(u64::MAX, u32::MAX),
            // What was guessed while tables were built may lie before.
            at(3, 1 << 31),
        ];
        let keys: Vec<_> = (0..births.len())
            .map(|key| Digest::of(1, &[key.to_string()]))
            .collect();
        let mut list = KindList::default();
        for (key, born) in keys.iter().zip(births) {
            list.reserve(*key);
            assert!(list.enter(*key, born).1);
        }
        for ((number, key), born) in (0..).zip(&keys).zip(births) {
            assert_eq!(list.born(*key), Some(born));
            assert_eq!(list.entry(number), *key);
        }
        assert_eq!(size_of::<InChunk>(), 22);
    }
}
