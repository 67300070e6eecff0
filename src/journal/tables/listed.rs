//! What recovery finds to be listed, shard by shard, and the lists that are made of it.
//!
//! The births of a shard's resources were noted one after another. When all states are there, they
//! are looked up in a table of that shard alone, which is small, and what is found lies side by side:
//! an item takes some fifty bytes and sixteen for each of its values until the lists are made.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::born::{Births, Born};
use super::lists::{Listed, Set};
use super::{SHARDS, Tables};
use crate::base::digest::{Digest, DigestBuild};
use crate::catalogue;
use crate::domain::listing::ListPlace;
use crate::domain::registered::AnyResource;

/// The numbers of births that are guessed begin behind all that changes have.
const GUESSED: u32 = 1 << 31;

/// When the resources of a shard came to be listed.
type BirthsOfShard = HashMap<Digest, Born, DigestBuild>;

/// What was found in a shard that is to be listed.
#[derive(Default)]
pub(in crate::journal) struct FoundLists {
    births: BirthsOfShard,
    items: Vec<Item>,
    sets: Vec<Set>,
    /// The items whose birth is not known.
    guessed: Vec<u32>,
    /// Resources of which several are one item.
    together: Vec<Together>,
}

/// An item; its values come after those of the one before.
struct Item {
    kind: u16,
    values: u16,
    first_value: u32,
    entry: Digest,
    /// While it is not known, the position of the last commit.
    born: Born,
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

    fn push(&mut self, kind: u16, born: Born, entry: Digest, sets: impl Iterator<Item = Set>) {
        let before = self.sets.len();
        self.sets.extend(sets);
        let number = |count: usize| u32::try_from(count).expect("a shard has no 2^32 values");
        self.items.push(Item {
            kind,
            values: u16::try_from(self.sets.len() - before).expect("a resource has few values"),
            first_value: number(before),
            entry,
            born,
        });
    }

    /// Ends what is found of a shard: its births are in the items by now, which are put in order,
    /// so that putting all in order takes less.
    pub(in crate::journal) fn order(&mut self) {
        self.births = BirthsOfShard::default();
        // What is guessed goes by the number of an item.
        if self.guessed.is_empty() {
            self.items
                .sort_unstable_by_key(|item| (item.kind, item.born));
        }
    }

    fn at(&self, item: u32) -> Listed<'_> {
        let item = &self.items[item as usize];
        let first = item.first_value as usize;
        Listed {
            born: item.born,
            entry: item.entry,
            sets: &self.sets[first..first + usize::from(item.values)],
        }
    }
}

impl Tables {
    /// Notes when this item came to be listed, while tables are built; the earliest counts.
    pub(in crate::journal) fn note_birth(&self, kind: &dyn AnyResource, entry: Digest, born: Born) {
        if !kind.is_together() {
            self.births.shard(entry).write().push((entry, born));
            return;
        }
        let mut births = self.together.lock();
        let (_, known) = births.entry(entry).or_insert((kind.kind().tag, born));
        *known = born.min(*known);
    }

    /// For what is to be listed of a shard, the births in which were noted.
    pub(in crate::journal) fn listed_of_shard(&self, shard: usize) -> FoundLists {
        let noted = std::mem::take(&mut *self.births.0[shard].write());
        let mut births = BirthsOfShard::default();
        births.reserve(noted.len());
        for (entry, born) in noted {
            let known = births.entry(entry).or_insert(born);
            *known = born.min(*known);
        }
        FoundLists::with(births)
    }

    /// A resource has been found at this place of its list, last changed at `position`. All states
    /// are in the tables.
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
        if known.is_none() {
            let number = u32::try_from(found.items.len()).expect("a shard has no 2^32 resources");
            found.guessed.push(number);
        }
        let born = known.unwrap_or(Born {
            position,
            number: GUESSED,
        });
        let booking = place.booking;
        let led = booking.map_or_else(Vec::new, |booking| self.by_booking(kind, booking).1);
        let values = place.values.into_iter().chain(led);
        found.push(tag, born, place.entry, values);
    }

    /// Builds the lists of what recovery has found, with the births that were noted.
    pub(in crate::journal) fn build_lists(&self, found: Vec<FoundLists>) {
        let together = std::mem::take(&mut *self.together.lock());
        self.list_all(found, &together, u64::MAX);
    }

    /// Builds the lists again, when it is known from the log which changes were the first ones of
    /// their resources; what is not among them was born before `first`.
    pub fn place_births(&self, births: &HashMap<Digest, Born>, first: u64) {
        let mut known: BirthsOfShard = births.iter().map(|(key, born)| (*key, *born)).collect();
        let mut together = Births::default();
        self.each_listed(|kind, _, _, place| {
            // What is not guessed stays.
            let tag = kind.kind().tag;
            let born = self.lists.of(tag).read().born(place.entry);
            if let Some(born) = born.filter(|born| born.number < GUESSED) {
                known.insert(place.entry, born);
            }
            if kind.is_together()
                && let Some(born) = known.get(&place.entry)
            {
                together.insert(place.entry, (tag, *born));
            }
        });
        let mut found = FoundLists::with(known);
        self.each_listed(|kind, key, position, place| {
            self.found_listed(&mut found, (kind, key, position), place);
        });
        self.list_all(vec![found], &together, first.saturating_sub(1));
    }

    /// Passes every resource that is listed to `visit`: its kind, its key, the position of its last
    /// commit and its place.
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

    fn list_all(&self, mut found: Vec<FoundLists>, together: &Births, guessed_upto: u64) {
        let several = found.iter_mut().flat_map(|found| found.together.drain(..));
        let several: Vec<Together> = several.collect();
        let (several, is_guessed) = self.listed_together(several, together, guessed_upto);
        let is_guessed = guess(&mut found, guessed_upto) || is_guessed;
        self.has_guessed_births.store(is_guessed, Ordering::Release);
        found.push(several);
        let count = found.iter().map(|found| found.items.len()).sum();
        let mut all: Vec<(u16, Born, u32, u32)> = Vec::with_capacity(count);
        for (shard, found) in (0..).zip(&found) {
            let items = (0..).zip(&found.items);
            all.extend(items.map(|(number, item)| (item.kind, item.born, shard, number)));
        }
        // It is made of parts in order, mostly, of which this makes use.
        all.sort();
        self.lists.clear();
        for of_kind in all.chunk_by(|one, other| one.0 == other.0) {
            self.lists.build(of_kind[0].0, of_kind.len(), |number| {
                let (_, _, shard, number) = of_kind[number];
                found[shard as usize].at(number)
            });
        }
    }

    /// The items that are several resources, and whether the birth of one is guessed.
    fn listed_together(
        &self,
        mut several: Vec<Together>,
        births: &Births,
        guessed_upto: u64,
    ) -> (FoundLists, bool) {
        several.sort_unstable_by_key(|found| (found.position, found.key));
        let mut items: HashMap<Digest, (u16, Born, Option<ListPlace>)> = HashMap::new();
        let mut is_guessed = false;
        for (number, found) in (GUESSED..).zip(several) {
            let known = births.get(&found.place.entry).map(|(_, born)| *born);
            is_guessed |= known.is_none();
            let guess = Born {
                position: found.position.min(guessed_upto),
                number,
            };
            let born = known.unwrap_or(guess);
            let item = items.entry(found.place.entry);
            let (_, known, _) = item.or_insert((found.kind, born, Some(found.place)));
            *known = born.min(*known);
        }
        // Of what is one item nothing may be left: it keeps its place, as it does while the service
        // runs, for when there is something again.
        for (entry, (kind, born)) in births {
            items.entry(*entry).or_insert((*kind, *born, None));
        }
        let mut all = FoundLists::default();
        for (entry, (kind, born, place)) in items {
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
            all.push(kind, born, entry, sets.into_iter());
        }
        (all, is_guessed)
    }
}

/// Gives births to what has none: as far back as the last commit at most, in the order of these.
/// Whether there was any.
fn guess(found: &mut [FoundLists], guessed_upto: u64) -> bool {
    let mut guessed = Vec::new();
    for (shard, found) in found.iter().enumerate() {
        guessed.extend(found.guessed.iter().map(|number| {
            let item = &found.items[*number as usize];
            (item.born.position, item.entry, shard, *number as usize)
        }));
    }
    guessed.sort_unstable();
    for (number, (position, _, shard, item)) in (GUESSED..).zip(&guessed) {
        found[*shard].items[*item].born = Born {
            position: (*position).min(guessed_upto),
            number,
        };
    }
    !guessed.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::domain::listing::{Shared, ValueHash};

    #[test]
    fn items_are_listed_as_they_were_born_and_what_has_no_birth_by_its_last_commit() {
        let tables = Tables::default();
        let statements = catalogue::resource(100).unwrap();
        let key = |number: u8| Digest([number; 16]);
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
                let born = Born {
                    position: *position,
                    number: *number,
                };
                tables.note_birth(statements, key(*key_of), born);
            }
            let found = (1..=5).map(|number| {
                let mut found = tables.listed_of_shard(usize::from(number));
                let changed = 20 - u64::from(number);
                let resource = (statements, key(number), changed);
                tables.found_listed(&mut found, resource, place(number));
                found.order();
                found
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
