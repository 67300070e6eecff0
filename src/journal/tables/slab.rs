//! The states of one shard, side by side in pages.
//!
//! A state lies in a slot (`slot`). Each size of slots is a *class*: multiples of 4 bytes up to 1 KiB, above it
//! sixteen steps per doubling. A page has slots of one class. Pages begin small and grow with their class, so that
//! unused memory stays a small part.
//!
//! The slots of a class have no holes: when a state is removed, the last one of the class moves into its slot. So
//! years of changing sizes leave no unused slots behind, and no list of free slots is needed. `remove` reports the
//! moved state.
//!
//! A state above 8 KiB has a page of its own, which is shared with its readers. The page is allocated before the
//! shard is locked, and freed after it is unlocked.

use std::sync::Arc;

use super::memory::Piece;
use super::slot::{self, FINE_MAX, STEPS, UNIT, WIDE_HEADER, parse, slot_bytes, write};
use super::stored_state::StoredState;
use crate::base::digest::Digest;

/// Largest size of a slot that shares a page, in bytes.
const SLOT_MAX: usize = 8 << 10;
/// Number of classes that share pages.
const CLASSES: usize = FINE_MAX / UNIT + STEPS * (SLOT_MAX / FINE_MAX).ilog2() as usize;
/// Approximate bytes of the first pages of a class; its later ones have up to [`PAGE_MAX`].
const PAGE_MIN: usize = 1 << 10;
/// Maximum bytes of a page of several slots.
const PAGE_MAX: usize = 32 << 10;
/// Number of a class's pages of one size, before the next ones have twice as many bytes. The unused part of the last
/// page is about an eighth of the class, once it has some pages.
const PAGES_OF_A_SIZE: u32 = 8;
/// Bytes of a usual page of memory, which takes memory from the first written byte on.
const MEMORY_PAGE: usize = 4 << 10;
/// Page number that stands for no page.
const NONE: u32 = u32::MAX;

/// Number of bits of a place that give the start of a slot in its page, in units.
const UNIT_BITS: u32 = (PAGE_MAX / UNIT).ilog2();
/// Maximum number of pages of a shard: 524,288. Except for the small first ones of its classes, each page takes more
/// than 8 KiB, so a shard that has all of them takes at least 4 GiB. Digests of keys fill the 256 shards evenly, so
/// this limit is not reached before all states together take 1 TiB.
const PAGES_MAX: u32 = 1 << (u32::BITS - UNIT_BITS);

/// The place of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    fn new(page: u32, start: usize) -> Self {
        let units = u32::try_from(start / UNIT).expect("a page is small");
        Self(page << UNIT_BITS | units)
    }

    /// Converts a number back to its place.
    pub(super) fn of(number: u32) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }

    fn page(self) -> usize {
        (self.0 >> UNIT_BITS) as usize
    }

    fn start(self) -> usize {
        (self.0 & ((1 << UNIT_BITS) - 1)) as usize * UNIT
    }
}

/// The page of one state above [`SLOT_MAX`]: its header and its bytes.
pub(super) type Alone = Arc<Vec<u8>>;

/// A page: slots of one class, or one state above [`SLOT_MAX`].
struct Page {
    /// The used bytes; the capacity is the page's size, or a little more.
    bytes: Piece,
    /// The state, if it is above [`SLOT_MAX`]; then there are no slots.
    alone: Option<Alone>,
    /// The previous page of the class; for a vacant page, the next vacant one.
    before: u32,
    /// Bytes of each slot, if the page has slots.
    slot: u32,
}

#[derive(Clone, Copy)]
struct Class {
    /// The only page of the class that may have room.
    last: u32,
    pages: u32,
}

/// The states of one shard.
pub(super) struct Slab {
    pages: Vec<Page>,
    /// A page number that can be reused.
    vacant: u32,
    classes: Box<[Class; CLASSES]>,
    /// Memory prepared for the next page.
    ready: Piece,
}

impl Default for Slab {
    fn default() -> Self {
        let class = Class {
            last: NONE,
            pages: 0,
        };
        Self {
            pages: Vec::new(),
            vacant: NONE,
            classes: Box::new([class; CLASSES]),
            ready: Piece::default(),
        }
    }
}

/// Returns the class of slots of this size; `None` for a page of its own.
fn class_of(slot: usize) -> Option<usize> {
    if slot <= FINE_MAX {
        Some(slot / UNIT - 1)
    } else if slot <= SLOT_MAX {
        let doubling = (slot - 1).ilog2();
        let base = 1 << doubling;
        let doublings = (doubling - FINE_MAX.ilog2()) as usize;
        Some(FINE_MAX / UNIT + doublings * STEPS + (slot - base) / (base / STEPS) - 1)
    } else {
        None
    }
}

/// Returns the bytes of the next page of a class with `pages` pages; the allocated piece may be a little larger.
fn page_bytes(pages: u32, slot: usize) -> usize {
    let doublings = (pages / PAGES_OF_A_SIZE).min((PAGE_MAX / PAGE_MIN).ilog2());
    let slots = (PAGE_MIN << doublings) / slot;
    slots.max(1) * slot
}

impl Page {
    /// Returns the slot, or the large state, that begins at this offset.
    fn at(&self, start: usize) -> &[u8] {
        match &self.alone {
            Some(alone) => alone,
            None => &self.bytes[start..][..self.slot as usize],
        }
    }

    /// Iterates over the states in the page.
    fn states(&self) -> impl Iterator<Item = StoredState<'_>> {
        let (content, slot): (&[u8], _) = match &self.alone {
            Some(alone) => (alone, alone.len()),
            None => (&self.bytes, (self.slot as usize).max(1)),
        };
        let slots = content.chunks(slot);
        slots.map(|slot| parse(slot).expect("a page is full of states up to its end"))
    }
}

/// Whether one more slot fits into a page.
fn has_room(page: &Piece, slot: usize) -> bool {
    page.room().min(PAGE_MAX) - page.len() >= slot
}

/// Creates the page of a state that needs one of its own; `None` if it shares one.
pub(super) fn alone(state: StoredState<'_>) -> Option<Alone> {
    let slot = slot_bytes(state.bytes.len());
    if class_of(slot).is_some() {
        return None;
    }
    Some(Arc::new(slot::page_of_one(state, slot)))
}

/// Sets the commit position of a state's page, which must not be shared yet.
pub(super) fn committed_at(page: &mut Alone, position: u64) {
    let page = Arc::get_mut(page).expect("nobody else has the page yet");
    slot::set_position(page, position);
}

/// Returns the state of a page.
pub(super) fn state_of(page: &Alone) -> StoredState<'_> {
    parse(page).expect("a page begins with a state")
}

impl Slab {
    /// Returns the key of the state at this place.
    pub(super) fn key(&self, place: Place) -> Digest {
        let slot = self.pages[place.page()].at(place.start());
        Digest(*slot.first_chunk().expect("a slot begins with its key"))
    }

    /// Returns the state at this place.
    pub(super) fn get(&self, place: Place) -> StoredState<'_> {
        let slot = self.pages[place.page()].at(place.start());
        parse(slot).expect("a place is that of a state")
    }

    /// Returns the page of the state at this place, if it has one of its own.
    pub(super) fn page_of(&self, place: Place) -> Option<&Alone> {
        self.pages[place.page()].alone.as_ref()
    }

    /// Number of pages, including vacant ones.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the keys of the states in the page of this number.
    pub(super) fn keys_in(&self, page: usize) -> impl Iterator<Item = Digest> {
        let pages = self.pages.get(page).into_iter();
        pages.flat_map(Page::states).map(|state| state.key)
    }

    /// Iterates over all states, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = StoredState<'_>> {
        self.pages.iter().flat_map(Page::states)
    }

    /// Iterates over the keys of all states, each with its place, in no particular order.
    pub(super) fn places(&self) -> impl Iterator<Item = (Digest, Place)> {
        (0..).zip(&self.pages).flat_map(|(number, page)| {
            let starts = (0..).step_by((page.slot as usize).max(1));
            let states = page.states().zip(starts);
            states.map(move |(state, start)| (state.key, Place::new(number, start)))
        })
    }

    /// Adds a state.
    pub(super) fn add(&mut self, state: StoredState<'_>) -> Place {
        let slot = slot_bytes(state.bytes.len());
        let class = class_of(slot);
        let number = match class {
            Some(class) => self.page_with_room(class, slot),
            None => return self.add_page(alone(state).expect("it shares no page")),
        };
        let page = &mut self.pages[number as usize].bytes;
        let start = page.len();
        write(&mut page.lengthened(slot)[start..], state);
        Place::new(number, start)
    }

    /// Adds a state that has a page of its own.
    pub(super) fn add_page(&mut self, page: Alone) -> Place {
        let number = self.open(0, NONE, 0);
        self.pages[number as usize].alone = Some(page);
        Place::new(number, 0)
    }

    /// Replaces a large state by another; returns the old page, or the new one if the old state has none.
    pub(super) fn exchange(&mut self, place: Place, page: Alone) -> Result<Alone, Alone> {
        match &mut self.pages[place.page()].alone {
            Some(before) => Ok(std::mem::replace(before, page)),
            None => Err(page),
        }
    }

    /// Makes room for a state that will share a page, before it is added. Touches the memory that the state will get,
    /// which is the most expensive part.
    pub(super) fn reserve(&mut self, state: StoredState<'_>) {
        self.reserve_number();
        let slot = slot_bytes(state.bytes.len());
        let Some(class) = class_of(slot) else {
            return;
        };
        let Class { last, pages } = self.classes[class];
        let page = match self.pages.get_mut(last as usize) {
            Some(Page { bytes, .. }) if has_room(bytes, slot) => bytes,
            _ => {
                let capacity = page_bytes(pages, slot);
                self.ready.move_to_room_for(capacity);
                &mut self.ready
            }
        };
        let start = page.len();
        // The memory pages that the previous slot reaches into have been touched already.
        let first = page.as_ptr().addr() + start;
        if start == 0 || (first - 1) / MEMORY_PAGE != (first + slot - 1) / MEMORY_PAGE {
            page.resize(start + slot);
            page.truncate(start);
        }
    }

    /// Makes room for the number of one more page.
    pub(super) fn reserve_number(&mut self) {
        self.pages.reserve(1);
    }

    /// Whether a state takes a slot of the same size as the one at this place.
    pub(super) fn fits(&self, place: Place, state: StoredState<'_>) -> bool {
        self.slot_at(place) == slot_bytes(state.bytes.len())
    }

    /// Replaces a state by another if the slot sizes are equal; returns whether they were.
    pub(super) fn replace(&mut self, place: Place, state: StoredState<'_>) -> bool {
        if !self.fits(place, state) {
            return false;
        }
        if let Some(alone) = alone(state) {
            return self.exchange(place, alone).is_ok();
        }
        let slot = self.slot_at(place);
        let page = &mut self.pages[place.page()].bytes;
        write(&mut page[place.start()..][..slot], state);
        true
    }

    /// Returns the bytes of the slot at this place; for a large state, of the slot that it would have.
    fn slot_at(&self, place: Place) -> usize {
        let page = &self.pages[place.page()];
        match &page.alone {
            Some(alone) => slot_bytes(alone.len() - WIDE_HEADER),
            None => page.slot as usize,
        }
    }

    /// Removes a state. If another one moves into its slot, returns that one's key and previous place.
    pub(super) fn remove(&mut self, place: Place) -> Option<(Digest, Place)> {
        let slot = self.slot_at(place);
        let Some(class) = class_of(slot) else {
            self.close(place.page());
            return None;
        };
        let last = self.classes[class].last;
        let start = self.pages[last as usize].bytes.len() - slot;
        let from = Place::new(last, start);
        let moved = (from != place).then(|| {
            self.copy(from, place, slot);
            (self.key(place), from)
        });
        let page = &mut self.pages[last as usize];
        page.bytes.truncate(start);
        if start == 0 {
            self.classes[class].last = page.before;
            self.classes[class].pages -= 1;
            self.close(last as usize);
        }
        moved
    }

    /// Returns the last page of a class, or a new one if it is full.
    fn page_with_room(&mut self, class: usize, slot: usize) -> u32 {
        let Class { last, pages } = self.classes[class];
        if let Some(Page { bytes, .. }) = self.pages.get(last as usize)
            && has_room(bytes, slot)
        {
            return last;
        }
        let number = self.open(page_bytes(pages, slot), last, slot);
        self.classes[class] = Class {
            last: number,
            pages: pages + 1,
        };
        number
    }

    fn open(&mut self, capacity: usize, before: u32, slot: usize) -> u32 {
        let bytes = if capacity > 0 && self.ready.room() == Piece::room_for(capacity) {
            std::mem::take(&mut self.ready)
        } else {
            Piece::with_room_for(capacity)
        };
        let page = Page {
            bytes,
            alone: None,
            before,
            slot: u32::try_from(slot).expect("slots of a class are small"),
        };
        let number = self.vacant;
        if let Some(vacant) = self.pages.get_mut(number as usize) {
            self.vacant = vacant.before;
            *vacant = page;
            return number;
        }
        let number = u32::try_from(self.pages.len()).ok();
        let number = number.filter(|number| *number < PAGES_MAX);
        let number = number.expect("a shard has at most 524,288 pages");
        self.pages.push(page);
        number
    }

    fn close(&mut self, page: usize) {
        let number = u32::try_from(page).expect("its number was a u32");
        let page = &mut self.pages[page];
        page.bytes = Piece::default();
        page.alone = None;
        page.before = self.vacant;
        self.vacant = number;
    }

    fn copy(&mut self, from: Place, to: Place, slot: usize) {
        let source = from.start()..from.start() + slot;
        if from.page() == to.page() {
            let page = &mut self.pages[to.page()].bytes;
            page.copy_within(source, to.start());
            return;
        }
        let pages = self.pages.get_disjoint_mut([from.page(), to.page()]);
        let [from, target] = pages.expect("two existing pages");
        target.bytes[to.start()..][..slot].copy_from_slice(&from.bytes[source]);
    }

    /// Returns the bytes taken from the allocator, including those of a prepared page, and the address of the list of
    /// pages.
    #[cfg(test)]
    pub(super) fn memory(&self) -> (usize, *const u8) {
        let noted = self.pages.as_ptr().cast();
        (self.allocated() + self.ready.room(), noted)
    }

    /// Returns the bytes allocated for pages.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let alone = |page: &Page| page.alone.as_ref().map_or(0, |alone| alone.capacity());
        let pages = self.pages.iter();
        pages.map(|page| page.bytes.room() + alone(page)).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::HashMap;

    use super::super::slot::header_bytes;
    use super::*;

    fn state(key: u64, bytes: &[u8]) -> StoredState<'_> {
        let mut digest = [7; 16];
        digest[8..].copy_from_slice(&key.to_le_bytes());
        StoredState {
            kind: 3,
            key: Digest(digest),
            position: key + 1,
            bytes,
        }
    }

    #[test]
    fn a_slot_wastes_little_and_the_classes_are_numbered_without_gaps() {
        let mut slot_before = slot_bytes(0);
        let mut next = slot_before / UNIT;
        assert_eq!(class_of(slot_before), Some(next - 1));
        for length in 0..100_000 {
            let slot = slot_bytes(length);
            let needed = header_bytes(slot) + length;
            let spare = slot - needed;
            assert!(spare < UNIT.max(needed / STEPS), "{length}: {slot}");
            assert!(slot.is_multiple_of(UNIT));
            assert_eq!(
                slot_bytes(slot - header_bytes(slot)),
                slot,
                "a slot is full at its size"
            );
            if let Some(class) = class_of(slot)
                && slot != slot_before
            {
                assert_eq!(class, next, "{slot}");
                (next, slot_before) = (next + 1, slot);
            }
            assert_eq!(class_of(slot).is_none(), slot > SLOT_MAX);
        }
        assert_eq!(next, CLASSES);
        for slot in [2 * UNIT, 288, 592, FINE_MAX, 2 * FINE_MAX, SLOT_MAX] {
            let mut all = 0;
            for pages in 0..100 {
                let page = page_bytes(pages, slot);
                assert!(page.is_multiple_of(slot) && (slot..=PAGE_MAX).contains(&page));
                assert!(page <= PAGE_MIN.max(slot).max(all / 2), "{slot}: {pages}");
                assert!(
                    pages < 2 * PAGES_OF_A_SIZE || page <= all / 4,
                    "{slot}: {pages}"
                );
                all += page;
            }
            assert_eq!(page_bytes(1_000_000, slot), PAGE_MAX / slot * slot);
        }
    }

    #[test]
    fn a_state_of_each_size_is_had_back_as_it_was_put() {
        let mut slab = Slab::default();
        let lengths = (0..1_100).chain((1_100..20_000).step_by(97));
        let lengths: Vec<usize> = lengths.chain([65_535, 65_536, 1 << 20]).collect();
        let bytes: Vec<u8> = (0..1 << 20)
            .map(|place: u32| place.to_le_bytes()[0])
            .collect();
        let places: Vec<Place> = lengths
            .iter()
            .map(|length| slab.add(state(*length as u64, &bytes[..*length])))
            .collect();
        for (length, place) in lengths.iter().zip(places) {
            let expected = state(*length as u64, &bytes[..*length]);
            assert_eq!(slab.get(place), expected);
            assert_eq!(slab.key(place), expected.key);
            let shorter = StoredState {
                bytes: &bytes[1..(*length).max(1)],
                ..expected
            };
            if slab.replace(place, shorter) {
                assert_eq!(slab.get(place), shorter);
            }
        }
        assert_eq!(slab.iter().count(), lengths.len());
    }

    #[test]
    fn a_few_states_take_little_memory() {
        let mut slab = Slab::default();
        for key in 0..3 {
            slab.add(state(key, &[1; 259]));
        }
        assert!(slab.allocated() <= PAGE_MIN);
    }

    /// Returns the bytes that pages of `count` slots of this size take.
    fn needed(slot: usize, count: usize) -> usize {
        if class_of(slot).is_none() {
            return slot * count;
        }
        let (mut bytes, mut fit, mut pages) = (0, 0, 0);
        while fit < count {
            let room = Piece::room_for(page_bytes(pages, slot));
            bytes += room;
            fit += room.min(PAGE_MAX) / slot;
            pages += 1;
        }
        bytes
    }

    #[test]
    fn after_random_changes_all_states_are_there_and_nothing_is_left_behind() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let mut slab = Slab::default();
        let mut model: HashMap<u64, (Place, Vec<u8>)> = HashMap::new();
        let mut largest = 64;
        for round in 0..40_000 {
            // The sizes drift, so that classes fill and empty again.
            if round % 5_000 == 0 {
                largest = [64, 300, 1_200, 9_000, 30_000][random.random_range(0..5)];
            }
            let key = random.random_range(0..3_000);
            let length = random.random_range(0..=largest);
            let bytes = vec![random.random::<u8>(); length];
            let before = model.get(&key).map(|(place, _)| *place);
            let goes = random.random_ratio(1, 8);
            let mut moved = None;
            match before {
                None => {
                    let place = slab.add(state(key, &bytes));
                    model.insert(key, (place, bytes));
                }
                Some(place) if goes => {
                    moved = slab.remove(place).map(|moved| (moved, place));
                    model.remove(&key);
                }
                Some(place) if slab.replace(place, state(key, &bytes)) => {
                    model.insert(key, (place, bytes));
                }
                Some(place) => {
                    let new = slab.add(state(key, &bytes));
                    model.insert(key, (new, bytes));
                    moved = slab.remove(place).map(|moved| (moved, place));
                }
            }
            if let Some(((key, from), to)) = moved {
                let (_, number) = key.0.split_at(8);
                let number = u64::from_le_bytes(number.try_into().unwrap());
                let entry = model.get_mut(&number).unwrap();
                assert_eq!(entry.0, from, "SEED={seed}");
                entry.0 = to;
            }
            if round % 1_000 == 999 {
                let mut slots = HashMap::new();
                for (key, (place, bytes)) in &model {
                    assert_eq!(slab.get(*place), state(*key, bytes), "SEED={seed}");
                    *slots.entry(slot_bytes(bytes.len())).or_default() += 1;
                }
                assert_eq!(slab.iter().count(), model.len(), "SEED={seed}");
                let mut seen: Vec<_> = slab.iter().map(|state| state.key).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len(), model.len(), "SEED={seed}");
                let needed = slots.iter().map(|(slot, count)| needed(*slot, *count));
                assert_eq!(slab.allocated(), needed.sum::<usize>(), "SEED={seed}");
            }
        }
        let full = |page: &Page| page.states().next().is_some();
        while let Some(first) = slab.pages.iter().position(full) {
            slab.remove(Place::new(u32::try_from(first).unwrap(), 0));
        }
        assert_eq!(
            (slab.iter().count(), slab.allocated()),
            (0, 0),
            "SEED={seed}"
        );
        assert!(slab.pages.len() < 10_000, "numbers of pages are used again");
    }
}
