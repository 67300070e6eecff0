//! The lists of the kinds that can be listed: their resources in the order of their creation, and
//! under each value of a filter those that have it.
//!
//! A kind numbers its resources without gaps, in the order in which they came to be listed; a
//! resource is never removed. A number takes four bytes, and under a value that many share numbers
//! are kept in a compressed bitmap, in far less. What few share lies in one tree of values and
//! numbers. Both give the numbers of a value in order, from any place, in either direction, and take
//! in or give up one at a cost that does not grow with how many there are.
//!
//! A list finds candidates and no more: whoever looks at one sees for itself whether it has the
//! value. So one that is too many costs a look; one that is missing would be a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use parking_lot::RwLock;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::hash_index::{Entry, HashIndex};
use crate::base::digest::Digest;
use crate::domain::listing::{Shared, ValueHash};

/// Tags of kinds that can be listed are below this.
const KINDS: usize = 256;
/// Resources of a chunk of numbers: growing never moves more than a pointer to each chunk.
const CHUNK: usize = 1_024;
/// Resources that are looked at while a list is locked.
const LOOKED_AT: usize = 64;
/// Up to so many that share a value are counted, where that takes looking at each.
const COUNTED: usize = 64;

/// When a resource came to be listed: the position of the commit, and the number of the change
/// within it. No two of a kind have the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Born {
    /// The commit's position.
    pub position: u64,
    /// The number of the change within it, from 0.
    pub number: u32,
}

impl fmt::Display for Born {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position, self.number)
    }
}

/// A text that says no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBirth;

impl FromStr for Born {
    type Err = NoBirth;

    fn from_str(text: &str) -> Result<Self, NoBirth> {
        let (position, number) = text.split_once('-').ok_or(NoBirth)?;
        let born = Self {
            position: position.parse().map_err(|_| NoBirth)?,
            number: number.parse().map_err(|_| NoBirth)?,
        };
        // One text for one place.
        (born.to_string() == text).then_some(born).ok_or(NoBirth)
    }
}

/// What is kept under one value.
pub type Set = (Shared, ValueHash);

/// What is looked for in a list.
#[derive(Clone, Debug, Default)]
pub struct ListPlan {
    /// What has one of these values; `None`: whatever there is.
    pub scope: Option<Vec<Set>>,
    /// What has all of these.
    pub filters: Vec<Set>,
    /// Whether the newest comes first.
    pub newest_first: bool,
}

/// A resource that is listed, or several that are one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its key; the name of the list with ranks where it is several.
    pub entry: Digest,
    /// Its place in the order of creation.
    pub born: Born,
}

/// What a look into a list has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Some that come next.
    pub candidates: Vec<Candidate>,
    /// How many were looked at for that.
    pub examined: usize,
    /// The place to go on from, if something may lie beyond.
    pub on: Option<Born>,
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

/// A resource by its number: its key, and when it came to be listed, in words of four bytes.
#[derive(Clone, Copy)]
struct Numbered {
    entry: Digest,
    position: [u32; 2],
    number: u32,
}

impl Numbered {
    fn new(entry: Digest, born: Born) -> Self {
        let [a, b, c, d, e, f, g, h] = born.position.to_le_bytes();
        Self {
            entry,
            position: [
                u32::from_le_bytes([a, b, c, d]),
                u32::from_le_bytes([e, f, g, h]),
            ],
            number: born.number,
        }
    }

    fn born(self) -> Born {
        let [low, high] = self.position.map(u64::from);
        Born {
            position: high << 32 | low,
            number: self.number,
        }
    }
}

/// The list of one kind.
#[derive(Default)]
pub(super) struct KindList {
    chunks: Vec<Vec<Numbered>>,
    len: u32,
    numbers: HashIndex<u32>,
    many: BTreeMap<ValueHash, RoaringBitmap>,
    few: BTreeSet<Pair>,
}

fn numbered(chunks: &[Vec<Numbered>], number: u32) -> Numbered {
    let number = number as usize;
    chunks[number / CHUNK][number % CHUNK]
}

impl KindList {
    /// How many resources are listed.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    fn at(&self, number: u32) -> Numbered {
        numbered(&self.chunks, number)
    }

    /// The key of the resource with this number.
    pub(super) fn entry(&self, number: u32) -> Digest {
        self.at(number).entry
    }

    /// When the resource with this key came to be listed.
    pub(super) fn born(&self, entry: Digest) -> Option<Born> {
        let number = self.numbers.find(entry, |number| self.entry(*number))?;
        Some(self.at(*number).born())
    }

    /// Makes room for one more, with such a key.
    pub(super) fn reserve(&mut self, entry: Digest) {
        let chunks = &mut self.chunks;
        self.numbers
            .reserve(entry, |number| numbered(chunks, *number).entry);
        if self.len as usize == chunks.len() * CHUNK {
            chunks.push(Vec::with_capacity(CHUNK));
        }
    }

    /// The number of the resource with this key, and whether it is new: then it was born so, after
    /// all others.
    pub(super) fn enter(&mut self, entry: Digest, born: Born) -> (u32, bool) {
        let chunks = &mut self.chunks;
        let place = self
            .numbers
            .entry(entry, |number| numbered(chunks, *number).entry);
        match place {
            Entry::Occupied(place) => (*place.get(), false),
            Entry::Vacant(place) => {
                let number = self.len;
                place.insert(number);
                // A kind of so many would take more memory than any machine has.
                self.len = number.checked_add(1).expect("a kind has no 2^32 resources");
                if number as usize == chunks.len() * CHUNK {
                    chunks.push(Vec::with_capacity(CHUNK));
                }
                chunks[number as usize / CHUNK].push(Numbered::new(entry, born));
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

    /// Takes in pairs of values that few share, while tables are built.
    fn add_few(&mut self, mut pairs: Vec<Pair>) {
        pairs.sort_unstable();
        self.few = pairs.into_iter().collect();
    }

    fn has(&self, (shared, value): Set, number: u32) -> bool {
        match shared {
            Shared::ByMany => {
                let numbers = self.many.get(&value);
                numbers.is_some_and(|numbers| numbers.contains(number))
            }
            Shared::ByFew => self.few.contains(&Pair::new(value, number)),
        }
    }

    /// About how many have this value.
    fn count(&self, (shared, value): Set) -> u64 {
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
    fn first(&self, (shared, value): Set, from: Option<u32>) -> Option<u32> {
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
    fn last(&self, (shared, value): Set, before: u32) -> Option<u32> {
        match shared {
            Shared::ByMany => self.many.get(&value)?.range(..before).next_back(),
            Shared::ByFew => {
                let range = Pair::new(value, 0)..Pair::new(value, before);
                self.few.range(range).next_back().map(|pair| pair.1)
            }
        }
    }

    /// How many were born before this, or just so where `with` says.
    fn born_before(&self, born: Born, with: bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.at(middle).born();
            if found < born || with && found == born {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Some of what is looked for, after this place; at most `most` resources are looked at.
    fn look(&self, plan: &ListPlan, after: Option<Born>, most: usize) -> Found {
        let mut walk = Walk::new(self, plan, after);
        let mut found = Found::default();
        let mut last = None;
        while let Some(number) = walk.next() {
            if found.examined == most.min(LOOKED_AT) {
                found.on = last;
                return found;
            }
            found.examined += 1;
            let numbered = self.at(number);
            last = Some(numbered.born());
            if walk.has_the_rest(number) {
                found.candidates.push(Candidate {
                    entry: numbered.entry,
                    born: numbered.born(),
                });
            }
        }
        found
    }
}

/// A way through a list, in order: by whatever leads past the fewest.
struct Walk<'a> {
    list: &'a KindList,
    newest_first: bool,
    /// Where it goes on if everything is looked at.
    next: Option<u32>,
    /// Or else what it goes by, each with its next number.
    heads: Option<Vec<(Set, Option<u32>)>>,
    /// One of which it must have, where it does not go by them.
    scope: Option<&'a [Set]>,
    /// All of which it must have.
    filters: Vec<Set>,
}

impl<'a> Walk<'a> {
    fn new(list: &'a KindList, plan: &'a ListPlan, after: Option<Born>) -> Self {
        let mut filters = plan.filters.clone();
        let mut scope = plan.scope.as_deref();
        let counts = filters.iter().map(|filter| list.count(*filter));
        let fewest = counts.enumerate().min_by_key(|(_, count)| *count);
        let in_scope = scope.map(|scope| {
            let counts = scope.iter().map(|set| list.count(*set));
            counts.fold(0, u64::saturating_add)
        });
        let sets = match (in_scope, fewest) {
            (Some(count), fewest) if fewest.is_none_or(|(_, fewest)| count <= fewest) => {
                let mut sets = scope.take().unwrap_or_default().to_vec();
                sets.sort_unstable_by_key(|(_, value)| *value);
                sets.dedup();
                Some(sets)
            }
            (_, Some((index, _))) => Some(vec![filters.swap_remove(index)]),
            (_, None) => None,
        };
        let newest_first = plan.newest_first;
        let next = match (newest_first, after) {
            (true, after) => {
                let end = after.map_or(list.len, |after| list.born_before(after, false));
                end.checked_sub(1)
            }
            (false, after) => {
                let start = after.map_or(0, |after| list.born_before(after, true));
                (start < list.len).then_some(start)
            }
        };
        let head = |set: Set| {
            let next = next?;
            match newest_first {
                // There is no number as high as that.
                true => list.last(set, next + 1),
                false => list.first(set, Some(next)),
            }
        };
        Self {
            list,
            newest_first,
            next,
            heads: sets.map(|sets| sets.into_iter().map(|set| (set, head(set))).collect()),
            scope,
            filters,
        }
    }

    fn next(&mut self) -> Option<u32> {
        let Some(heads) = &mut self.heads else {
            let number = self.next?;
            self.next = match self.newest_first {
                true => number.checked_sub(1),
                false => Some(number + 1).filter(|next| *next < self.list.len),
            };
            return Some(number);
        };
        let numbers = heads.iter().filter_map(|(_, head)| *head);
        let number = match self.newest_first {
            true => numbers.max(),
            false => numbers.min(),
        }?;
        for (set, head) in heads.iter_mut().filter(|(_, head)| *head == Some(number)) {
            *head = match self.newest_first {
                true => self.list.last(*set, number),
                false => self.list.first(*set, number.checked_add(1)),
            };
        }
        Some(number)
    }

    fn has_the_rest(&self, number: u32) -> bool {
        let has = |set: &Set| self.list.has(*set, number);
        self.filters.iter().all(has) && self.scope.is_none_or(|scope| scope.iter().any(has))
    }
}

/// The lists of all kinds. While one is locked nothing else is.
pub(super) struct Lists(Box<[OnceLock<RwLock<KindList>>]>);

impl Default for Lists {
    fn default() -> Self {
        Self((0..KINDS).map(|_| OnceLock::new()).collect())
    }
}

/// A resource to be listed, while tables are built.
pub(super) struct Listed {
    pub(super) kind: u16,
    pub(super) born: Born,
    pub(super) entry: Digest,
    pub(super) sets: Vec<Set>,
}

impl Lists {
    /// The list of the kind with this tag.
    pub(super) fn of(&self, kind: u16) -> &RwLock<KindList> {
        self.0[usize::from(kind)].get_or_init(RwLock::default)
    }

    /// Fills the lists with what is to be listed, in no order, in the place of what they have.
    pub(super) fn build(&self, mut all: Vec<Listed>) {
        all.sort_unstable_by_key(|listed| (listed.kind, listed.born));
        for list in self.0.iter().filter_map(OnceLock::get) {
            *list.write() = KindList::default();
        }
        for of_kind in all.chunk_by(|one, other| one.kind == other.kind) {
            let mut list = KindList::default();
            let mut few = Vec::new();
            for listed in of_kind {
                let (number, _) = list.enter(listed.entry, listed.born);
                for (shared, value) in &listed.sets {
                    match shared {
                        Shared::ByMany => list.add((*shared, *value), number),
                        Shared::ByFew => few.push(Pair::new(*value, number)),
                    }
                }
            }
            list.add_few(few);
            *self.of(of_kind[0].kind).write() = list;
        }
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
                let numbered = list.at(number);
                let candidate = Candidate {
                    entry: numbered.entry,
                    born: numbered.born(),
                };
                let values = values.remove(&number).unwrap_or_default();
                all.push((kind, candidate, values.into_iter().collect()));
            }
        }
        all
    }

    /// Some of what is looked for in the list of a kind, after this place; at most `most` resources
    /// are looked at.
    pub(super) fn look(
        &self,
        kind: u16,
        plan: &ListPlan,
        after: Option<Born>,
        most: usize,
    ) -> Found {
        self.of(kind).read().look(plan, after, most)
    }
}
