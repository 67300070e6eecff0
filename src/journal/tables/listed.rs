//! Items that recovery finds, shard by shard, and the lists that are built of them.
//!
//! Until the lists are built, an item takes some forty bytes, and sixteen for each of its values. Almost all items
//! are found together with their births. The births of the others are noted one after another; when all states are
//! there, they are looked up in a table of one shard, which is small.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::listed_at::{Births, ListedAt};
use super::lists::{ListRange, Listed, Set};
use super::ordered::in_ranges;
use super::pieces::Pieces;
use super::{SHARDS, Tables};
use crate::base::digest::{Digest, DigestBuild};
use crate::catalogue;
use crate::domain::listing::ListPlace;
use crate::domain::registered::AnyResource;

/// Numbers of guessed births begin here, above those of all real changes.
const GUESSED: u32 = 1 << 31;

/// When the resources of a shard were first listed.
pub(in crate::journal) type BirthsOfShard = HashMap<Digest, ListedAt, DigestBuild>;

/// Notes a birth; the earliest one counts.
fn note(births: &mut BirthsOfShard, entry: Digest, listed_at: ListedAt) {
    let known = births.entry(entry).or_insert(listed_at);
    *known = listed_at.min(*known);
}

/// Items found in a shard.
#[derive(Default)]
pub(in crate::journal) struct FoundLists {
    births: BirthsOfShard,
    items: Pieces<Item>,
    sets: Pieces<Set>,
    /// Items whose births are unknown, by their indexes.
    guessed: Vec<u32>,
    /// Resources of which several are one item.
    together: Vec<Together>,
}

/// All items of a shard.
pub(in crate::journal) struct AllListed {
    items: Vec<Item>,
    sets: Vec<Set>,
    guessed: Vec<u32>,
    together: Vec<Together>,
}

/// An item; its values follow those of the item before.
struct Item {
    kind: u16,
    values: u16,
    first_value: u32,
    entry: Digest,
    /// Birth of the item; until it is known, the position of the last commit.
    listed_at: ListedAt,
}

impl Item {
    fn values(&self) -> Range<usize> {
        let first = self.first_value as usize;
        first..first + usize::from(self.values)
    }
}

/// Converts a number of resources or values, of which a shard never has too many.
fn count(many: usize) -> u32 {
    u32::try_from(many).expect("a shard has no 2^32 values")
}

/// A resource of which several are one item.
struct Together {
    kind: u16,
    key: Digest,
    position: u64,
    place: ListPlace,
}

impl FoundLists {
    fn with(births: BirthsOfShard) -> Self {
        Self {
            births,
            ..Self::default()
        }
    }

    /// Notes a resource listed under these values, which follow from its own state alone. Where its birth is unknown,
    /// `position` is that of its last change.
    pub(in crate::journal) fn push(
        &mut self,
        kind: &dyn AnyResource,
        (key, position): (Digest, u64),
        listed_at: Option<ListedAt>,
        values: Vec<Set>,
    ) {
        if listed_at.is_none() {
            self.guessed.push(count(self.items.len()));
        }
        let listed_at = listed_at.unwrap_or(ListedAt {
            position,
            number: GUESSED,
        });
        self.add(kind.kind().tag, listed_at, key, values.into_iter());
    }

    /// Removes the items that have changed since they were found, and sets the births, which are known by now.
    pub(in crate::journal) fn begin(
        &mut self,
        births: BirthsOfShard,
        changed: &HashSet<Digest, DigestBuild>,
    ) {
        self.births = births;
        if changed.is_empty() {
            return;
        }
        let items = std::mem::take(&mut self.items);
        let guessed = std::mem::take(&mut self.guessed);
        let mut guessed = guessed.into_iter().peekable();
        for (number, item) in (0..).zip(items.into_vec()) {
            let is_guessed = guessed.next_if_eq(&number).is_some();
            match (changed.contains(&item.entry), is_guessed) {
                (true, true) => {}
                (true, false) => note(&mut self.births, item.entry, item.listed_at),
                (false, is_guessed) => {
                    if is_guessed {
                        self.guessed.push(count(self.items.len()));
                    }
                    self.items.push(item);
                }
            }
        }
    }

    fn add(
        &mut self,
        kind: u16,
        listed_at: ListedAt,
        entry: Digest,
        sets: impl Iterator<Item = Set>,
    ) {
        let before = self.sets.len();
        self.sets.extend(sets);
        self.items.push(Item {
            kind,
            values: u16::try_from(self.sets.len() - before).expect("a resource has few values"),
            first_value: count(before),
            entry,
            listed_at,
        });
    }

    /// Ends the search of a shard. The items have their births by now, and are sorted.
    pub(in crate::journal) fn end(self) -> AllListed {
        let mut all = AllListed {
            items: self.items.into_vec(),
            sets: self.sets.into_vec(),
            guessed: self.guessed,
            together: self.together,
        };
        // Guessed births refer to items by their indexes, so those items are not sorted yet.
        if all.guessed.is_empty() {
            all.order();
        }
        all
    }
}

impl AllListed {
    /// Sorts the items, and their values with them: both are read in sequence from here on.
    fn order(&mut self) {
        let place = |item: &Item| (item.kind, item.listed_at);
        if self.items.is_sorted_by_key(place) {
            return;
        }
        self.items.sort_unstable_by_key(place);
        let mut sets = Vec::with_capacity(self.sets.len());
        for item in &mut self.items {
            let values = item.values();
            item.first_value = count(sets.len());
            sets.extend_from_slice(&self.sets[values]);
        }
        self.sets = sets;
    }

    fn at(&self, item: &Item) -> Listed<'_> {
        Listed {
            listed_at: item.listed_at,
            entry: item.entry,
            sets: &self.sets[item.values()],
        }
    }
}

impl Tables {
    /// Notes when this item was first listed, while tables are built; the earliest birth counts.
    pub(in crate::journal) fn note_birth(
        &self,
        kind: &dyn AnyResource,
        entry: Digest,
        listed_at: ListedAt,
    ) {
        if !kind.is_together() {
            self.births.shard(entry).write().push((entry, listed_at));
            return;
        }
        let mut births = self.together.lock();
        let (_, known) = births.entry(entry).or_insert((kind.kind().tag, listed_at));
        *known = listed_at.min(*known);
    }

    /// Takes the births noted in a shard.
    pub(in crate::journal) fn births_of_shard(&self, shard: usize) -> BirthsOfShard {
        let noted = std::mem::take(&mut *self.births.0[shard].write());
        let mut births = BirthsOfShard::default();
        births.reserve(noted.len());
        for (entry, listed_at) in noted {
            note(&mut births, entry, listed_at);
        }
        births
    }

    /// Notes a resource found at this place of its list, with its last change at `position`. All states are in the
    /// tables.
    pub(in crate::journal) fn found_listed(
        &self,
        found: &mut FoundLists,
        (kind, key, position): (&dyn AnyResource, Digest, u64),
        place: ListPlace,
    ) {
        let tag = kind.kind().tag;
        if kind.is_together() {
            found.together.push(Together {
                kind: tag,
                key,
                position,
                place,
            });
            return;
        }
        let known = found.births.get(&place.entry).copied();
        let booking = place.booking;
        let led = booking.map_or_else(Vec::new, |booking| self.by_booking(kind, booking).1);
        let values = place.values.into_iter().chain(led).collect();
        found.push(kind, (place.entry, position), known, values);
    }

    /// Builds the lists from the items that recovery has found, with the births noted.
    pub(in crate::journal) fn build_lists(&self, found: Vec<AllListed>) {
        let together = std::mem::take(&mut *self.together.lock());
        self.list_all(found, &together, u64::MAX);
    }

    /// Builds the lists again, once the log has shown which changes were the first ones of their resources; resources
    /// not in `births` were listed before `first`.
    pub fn place_births(&self, births: &HashMap<Digest, ListedAt>, first: u64) {
        let mut known: BirthsOfShard = births
            .iter()
            .map(|(key, listed_at)| (*key, *listed_at))
            .collect();
        let mut together = Births::default();
        self.each_listed(|kind, _, _, place| {
            // Births that are not guessed stay.
            let tag = kind.kind().tag;
            let listed_at = self.entry_listed_at(kind, place.entry);
            if let Some(listed_at) = listed_at.filter(|listed_at| listed_at.number < GUESSED) {
                known.insert(place.entry, listed_at);
            }
            if kind.is_together()
                && let Some(listed_at) = known.get(&place.entry)
            {
                together.insert(place.entry, (tag, *listed_at));
            }
        });
        let mut found = FoundLists::with(known);
        self.each_listed(|kind, key, position, place| {
            self.found_listed(&mut found, (kind, key, position), place);
        });
        self.list_all(vec![found.end()], &together, first.saturating_sub(1));
    }

    /// Passes every listed resource to `visit`: its kind, its key, the position of its last commit and its place.
    fn each_listed(&self, mut visit: impl FnMut(&dyn AnyResource, Digest, u64, ListPlace)) {
        for shard in 0..SHARDS {
            let Ok(()) = self.each_of_shard(shard, |standing| {
                let kind = catalogue::resource(standing.kind);
                let place = kind.and_then(|kind| kind.place(standing.bytes).ok()?);
                if let (Some(kind), Some(place)) = (kind, place) {
                    visit(kind, standing.key, standing.position, place);
                }
                Ok::<_, std::convert::Infallible>(())
            });
        }
    }

    fn list_all(&self, mut found: Vec<AllListed>, together: &Births, guessed_upto: u64) {
        let several = found.iter_mut().flat_map(|found| found.together.drain(..));
        let several: Vec<Together> = several.collect();
        let (several, is_guessed) = self.listed_together(several, together, guessed_upto);
        let is_guessed = guess(&mut found, guessed_upto) || is_guessed;
        self.has_guessed_births.store(is_guessed, Ordering::Release);
        found.push(several.end());
        let mut kinds: BTreeMap<u16, Vec<(&AllListed, &[Item])>> = BTreeMap::new();
        for found in &mut found {
            found.order();
        }
        for found in &found {
            for of_kind in found.items.chunk_by(|one, other| one.kind == other.kind) {
                let runs = kinds.entry(of_kind[0].kind).or_default();
                runs.push((found, of_kind));
            }
        }
        self.lists.clear();
        for (tag, runs) in kinds {
            let Some(kind) = catalogue::resource(tag) else {
                continue;
            };
            let later = self.later_of(kind);
            let (found, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
            let by = (
                |item: &Item| item.listed_at.position,
                |item: &Item| item.listed_at,
            );
            let ranges = in_ranges(&runs, by, |first, items| {
                let listed = items.map(|(run, item)| found[run].at(item));
                ListRange::of(first, listed, later)
            });
            self.lists.build(tag, ranges);
        }
    }

    /// Returns the items that consist of several resources, and whether any of their births is guessed.
    fn listed_together(
        &self,
        mut several: Vec<Together>,
        births: &Births,
        guessed_upto: u64,
    ) -> (FoundLists, bool) {
        several.sort_unstable_by_key(|found| (found.position, found.key));
        let mut items: HashMap<Digest, (u16, ListedAt, Option<ListPlace>)> = HashMap::new();
        let mut is_guessed = false;
        for (number, found) in (GUESSED..).zip(several) {
            let known = births
                .get(&found.place.entry)
                .map(|(_, listed_at)| *listed_at);
            is_guessed |= known.is_none();
            let guess = ListedAt {
                position: found.position.min(guessed_upto),
                number,
            };
            let listed_at = known.unwrap_or(guess);
            let item = items.entry(found.place.entry);
            let (_, known, _) = item.or_insert((found.kind, listed_at, Some(found.place)));
            *known = listed_at.min(*known);
        }
        // An item may have no resource left. It keeps its place for a later resource, as it does while the service
        // runs.
        for (entry, (kind, listed_at)) in births {
            items.entry(*entry).or_insert_with(|| {
                // Its secondary key, by which it is found, is created as well.
                let mut shard = self.secondary.shard(*entry).write();
                shard.get_mut(*entry, &self.later_lists).keep();
                (*kind, *listed_at, None)
            });
        }
        let mut all = FoundLists::default();
        for (entry, (kind, listed_at, place)) in items {
            let Some(resource) = catalogue::resource(kind) else {
                continue;
            };
            let mut sets = Vec::new();
            if let Some(place) = place {
                let shown = self.shown(resource, entry);
                sets = shown.map_or_else(Vec::new, |shown| shown.values);
                if let Some(booking) = place.booking {
                    sets.extend(self.by_booking(resource, booking).1);
                }
            }
            all.add(kind, listed_at, entry, sets.into_iter());
        }
        (all, is_guessed)
    }
}

/// Sets the births of items without one: no later than the last commit, and in the order of these. Returns whether
/// there were any.
fn guess(found: &mut [AllListed], guessed_upto: u64) -> bool {
    let mut guessed = Vec::new();
    for (shard, found) in found.iter().enumerate() {
        guessed.extend(found.guessed.iter().map(|number| {
            let item = &found.items[*number as usize];
            (item.listed_at.position, item.entry, shard, *number as usize)
        }));
    }
    guessed.sort_unstable();
    for (number, (position, _, shard, item)) in (GUESSED..).zip(&guessed) {
        found[*shard].items[*item].listed_at = ListedAt {
            position: (*position).min(guessed_upto),
            number,
        };
    }
    !guessed.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::lists::Candidate;
    use super::super::{Change, ListPlan};
    use super::*;
    use crate::domain::listing::{ListMove, Shared, ValueHash};

    /// Enters a resource that the lists take for a statement.
    fn put(tables: &Tables, key: Digest) {
        let put = tables.amend(1, 100, key, |_| Ok::<_, ()>(Some(b"state")));
        assert_eq!(put, Ok(()));
    }

    #[test]
    fn resources_whose_keys_are_alike_by_half_are_listed_each_as_itself() {
        let tables = Tables::default();
        let statements = catalogue::resource(100).unwrap();
        // Byte 11 of a key leads to no place in an index.
        let keys: Vec<_> = (1..=3)
            .map(|number| {
                let mut key = Digest([9; 16]);
                key.0[11] = number;
                key
            })
            .collect();
        let value = |number| (Shared::ByMany, ValueHash(number));
        let place = |key, number| ListPlace {
            entry: key,
            values: vec![value(number)],
            booking: None,
        };
        let publish = |position, key, before: Option<u64>, after| {
            let moved = ListMove {
                before: before.map(|before| place(key, before)),
                after: Some(place(key, after)),
            };
            let change = super::super::tests::change(0, b"state");
            let list = Some(moved);
            tables.publish(
                position,
                Change {
                    key,
                    list,
                    ..change
                },
            );
        };
        for (position, key) in (1..).zip(&keys) {
            publish(position, *key, None, position);
        }
        publish(7, keys[1], Some(2), 1);
        let expected = || {
            let listed_at = |position| ListedAt {
                position,
                number: 0,
            };
            let candidate = |key: usize, position| Candidate {
                entry: keys[key],
                listed_at: listed_at(position),
            };
            let listed = [(0, 1, 1), (1, 2, 1), (2, 3, 3)];
            let listed = listed.map(|(key, position, value)| {
                (100, candidate(key, position), vec![ValueHash(value)])
            });
            listed.to_vec()
        };
        assert_eq!(tables.listed_now(), expected());
        for (position, key) in (1..).zip(&keys) {
            let listed_at = tables.listed_at(100, *key, b"state");
            assert_eq!(listed_at.unwrap().position, position);
        }
        let plan = ListPlan {
            filters: vec![value(1)],
            ..ListPlan::default()
        };
        let path = tables.access_path(100, plan);
        let found = tables.look_into_list(100, &path, None, 9).candidates;
        let found: Vec<_> = found.iter().map(|found| found.entry).collect();
        assert_eq!(found, keys[..2]);
        // Builds the lists again, from states in another order.
        let again = Tables::default();
        for (position, key) in (1..).zip(&keys) {
            let listed_at = ListedAt {
                position,
                number: 0,
            };
            again.note_birth(statements, *key, listed_at);
        }
        keys.iter().rev().for_each(|key| put(&again, *key));
        let mut found = FoundLists::with(again.births_of_shard(9));
        for (key, value) in keys.iter().zip([1, 1, 3]) {
            again.found_listed(&mut found, (statements, *key, 8), place(*key, value));
        }
        again.build_lists(vec![found.end()]);
        assert_eq!(again.listed_now(), expected());
    }

    #[test]
    fn an_item_of_which_nothing_is_left_keeps_its_place_without_being_shown() {
        let tables = Tables::default();
        let mut kinds = catalogue::RESOURCES.iter().copied();
        let kind = kinds.find(|kind| kind.is_together()).unwrap();
        let listed_at = ListedAt {
            position: 3,
            number: 0,
        };
        tables.note_birth(kind, Digest([4; 16]), listed_at);
        tables.build_lists(Vec::new());
        let tag = kind.kind().tag;
        assert_eq!((tables.in_list(tag), tables.listed_now()), (1, Vec::new()));
        let path = tables.access_path(tag, ListPlan::default());
        let found = tables.look_into_list(tag, &path, None, 9);
        assert_eq!(found.candidates.len(), 1);
        assert_eq!(found.candidates[0].entry, Digest([4; 16]));
        assert_eq!(
            tables.entry_listed_at(kind, Digest([4; 16])),
            Some(listed_at)
        );
    }

    #[test]
    fn only_items_changed_since_the_scan_are_listed_anew_in_their_place() {
        let tables = Tables::default();
        let statements = catalogue::resource(100).unwrap();
        let key = |number: u8| Digest([number; 16]);
        (1..=5).for_each(|number| put(&tables, key(number)));
        let value = |number: u8| (Shared::ByMany, ValueHash(number.into()));
        let mut found = FoundLists::default();
        for number in 1..=5 {
            let listed_at = ListedAt {
                position: u64::from(10 - number),
                number: 0,
            };
            // The births of two items are unknown.
            let listed_at = (number != 2 && number != 3).then_some(listed_at);
            let resource = (key(number), u64::from(number));
            found.push(statements, resource, listed_at, vec![value(number)]);
        }
        let changed = [key(3), key(5)].into_iter().collect();
        found.begin(BirthsOfShard::default(), &changed);
        for number in [3, 5] {
            let place = ListPlace {
                entry: key(number),
                values: vec![value(9)],
                booking: None,
            };
            tables.found_listed(&mut found, (statements, key(number), 20), place);
        }
        tables.build_lists(vec![found.end()]);
        assert!(tables.has_guessed_births());
        let listed = tables.listed_now().into_iter();
        let listed: Vec<_> = listed
            .map(|(_, candidate, values)| (candidate.entry.0[0], values[0].0))
            .collect();
        assert_eq!(listed, [(2, 2), (5, 9), (4, 4), (1, 1), (3, 9)]);
    }

    #[test]
    fn items_are_listed_by_birth_and_those_without_one_by_their_last_commit() {
        let tables = Tables::default();
        let statements = catalogue::resource(100).unwrap();
        let key = |number: u8| Digest([number; 16]);
        (1..=5).for_each(|number| put(&tables, key(number)));
        let place = |number: u8| ListPlace {
            entry: key(number),
            values: vec![
                (Shared::ByMany, ValueHash(7)),
                (Shared::ByFew, ValueHash(u64::from(number))),
            ],
            booking: None,
        };
        let build = |births: &[(u8, u64, u32)]| {
            for (key_of, position, number) in births {
                let listed_at = ListedAt {
                    position: *position,
                    number: *number,
                };
                tables.note_birth(statements, key(*key_of), listed_at);
            }
            let found = (1..=5).map(|number| {
                let mut found = FoundLists::with(tables.births_of_shard(usize::from(number)));
                let changed = 20 - u64::from(number);
                let resource = (statements, key(number), changed);
                tables.found_listed(&mut found, resource, place(number));
                found.end()
            });
            tables.build_lists(found.collect());
            let listed = tables.listed_now().into_iter();
            let listed = listed.map(|(kind, candidate, values)| {
                let number = candidate.entry.0[0];
                assert_eq!((kind, candidate.entry), (100, key(number)));
                let both = [ValueHash(7), ValueHash(u64::from(number))];
                assert!(both.iter().all(|value| values.contains(value)));
                number
            });
            listed.collect::<Vec<_>>()
        };
        let births = [(1, 9, 0), (2, 4, 1), (2, 8, 0), (3, 4, 0)];
        assert_eq!(build(&births), [3, 2, 1, 5, 4]);
        assert!(tables.has_guessed_births());
        let births = [(1, 9, 0), (2, 4, 1), (3, 4, 0), (4, 1, 0), (5, 5, 0)];
        assert_eq!(build(&births), [4, 3, 2, 5, 1]);
        assert!(!tables.has_guessed_births());
    }
}
