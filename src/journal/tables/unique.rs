//! The unique index of a shard: maps a name to the resource that has it.
//!
//! For a name, the index stores the four bytes that its hash index uses and, for its holder, half of the key; the
//! holder's state tells whether it has this very name. So an entry takes a third of the two digests' size. Finding
//! out that a name is free is as fast as with whole digests; finding its holder means reading a state.

use super::chunked_vec::{ChunkedVec, FixedSize};
use super::half_key::HalfKey;
use super::hash_index::HashIndex;
use crate::base::digest::Digest;

/// The unique index.
#[derive(Default)]
pub(super) struct UniqueIndex {
    index: HashIndex,
    names: ChunkedVec<Name>,
}

/// A name as it is stored. A holder may have two names with the same stored form, and then has two entries.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    spread: [u8; 4],
    holder: HalfKey,
}

impl Name {
    fn of(name: Digest, holder: HalfKey) -> Self {
        Self {
            spread: HashIndex::spread_of(name),
            holder,
        }
    }

    /// Returns a digest that has only the bytes by which the index spreads entries.
    fn spread(self) -> Digest {
        HashIndex::with_spread(self.spread)
    }
}

impl FixedSize for Name {
    const BYTES: usize = 4 + HalfKey::BYTES;

    fn write(self, bytes: &mut [u8]) {
        let (spread, holder) = bytes.split_at_mut(4);
        spread.copy_from_slice(&self.spread);
        holder.copy_from_slice(&self.holder.0);
    }

    fn read(bytes: &[u8]) -> Self {
        let (spread, holder) = bytes.split_at(4);
        Self {
            spread: spread.try_into().expect("an entry has its bytes"),
            holder: HalfKey(holder.try_into().expect("an entry has its bytes")),
        }
    }
}

impl UniqueIndex {
    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the holder of a name: `has_it` checks each candidate.
    pub(super) fn holder(
        &self,
        name: Digest,
        has_it: impl Fn(HalfKey) -> Option<Digest>,
    ) -> Option<Digest> {
        let spread = HashIndex::spread_of(name);
        let found = std::cell::Cell::new(None);
        self.index.find_if(name, |number| {
            let entry = self.names.at(number);
            if entry.spread == spread {
                found.set(has_it(entry.holder));
            }
            found.get().is_some()
        })?;
        found.get()
    }

    /// Whether this resource is entered under a name, or under one with the same stored form.
    pub(super) fn is_entered(&self, name: Digest, holder: Digest) -> bool {
        let entry = Name::of(name, HalfKey::of(holder));
        let found = self.index.find_if(name, |it| self.names.at(it) == entry);
        found.is_some()
    }

    /// Enters resources under names, each with its holder, at once; returns `false` if that is not possible, since a
    /// name occurs twice. To be called while the index is empty.
    pub(super) fn fill(&mut self, all: &[(Digest, Digest)]) -> bool {
        for (name, holder) in all {
            self.names.push(Name::of(*name, HalfKey::of(*holder)));
        }
        let names = (0..).zip(all).map(|(number, (name, _))| (*name, number));
        let name = |number: u32| all[number as usize].0;
        match HashIndex::of_different(all.len(), names, |one, other| name(one) == name(other)) {
            Some(index) => self.index = index,
            None => *self = Self::default(),
        }
        self.len() == all.len()
    }

    /// Makes room for this name before it is entered.
    pub(super) fn reserve(&mut self, name: Digest, holder: Digest) {
        let names = &self.names;
        let key_of = |number| names.at(number).spread();
        self.index.reserve(name, key_of);
        self.names.reserve(Name::of(name, HalfKey::of(holder)));
        std::hint::black_box(self.is_entered(name, holder));
    }

    /// Enters a resource under a name, which nobody else has.
    pub(super) fn enter(&mut self, name: Digest, holder: Digest) {
        let entry = Name::of(name, HalfKey::of(holder));
        let names = &self.names;
        let vacant = self.index.vacant(name, |number| names.at(number).spread());
        vacant.insert(self.names.push(entry));
    }

    /// Removes the entry of a resource under a name.
    pub(super) fn leave(&mut self, name: Digest, holder: Digest) {
        let entry = Name::of(name, HalfKey::of(holder));
        let names = &mut self.names;
        let Some(number) = self.index.remove_if(name, |it| names.at(it) == entry) else {
            return;
        };
        if let Some((moved, from)) = names.remove(number) {
            self.index.moved_in_any(moved.spread(), from, number);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Returns names in groups of three that differ only in their last byte.
    fn name(number: u32) -> Digest {
        let mut name = Digest::of(1, &[(number / 3).to_string()]);
        name.0[15] = number.to_le_bytes()[0] % 3;
        name
    }

    #[test]
    fn random_changes_leave_what_a_map_would_have_whatever_looks_alike() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let mut index = UniqueIndex::default();
        let mut model: HashMap<Digest, Digest> = HashMap::new();
        let mut adds = 3;
        for round in 0..60_000 {
            // The index alternately grows and shrinks.
            if round % 10_000 == 0 {
                adds = 7 - adds;
            }
            let name = name(random.random_range(0..3_000));
            let holders = &model;
            let has_it = |name| {
                move |holder| {
                    let known = holders.get(&name).copied();
                    known.filter(|known| HalfKey::of(*known) == holder)
                }
            };
            assert_eq!(index.holder(name, has_it(name)), model.get(&name).copied());
            let is_added = random.random_ratio(adds, 7);
            match (model.get(&name).copied(), is_added) {
                (None, true) => {
                    // Few holders, so that one has names with the same stored form.
                    let holder = Digest::of(2, &[random.random_range(0..5).to_string()]);
                    if random.random() {
                        index.reserve(name, holder);
                    }
                    index.enter(name, holder);
                    model.insert(name, holder);
                }
                (Some(holder), false) => {
                    assert!(index.is_entered(name, holder), "SEED={seed}");
                    index.leave(name, holder);
                    model.remove(&name);
                }
                _ => {}
            }
            assert_eq!(index.len(), model.len(), "SEED={seed}");
        }
        for (name, holder) in model {
            index.leave(name, holder);
        }
        assert_eq!((index.len(), index.names.chunks()), (0, 0));
    }

    #[test]
    fn names_entered_together_are_found_and_left_and_a_duplicate_enters_none() {
        let holder = |number: u32| Digest::of(2, &[number.to_string()]);
        let all: Vec<_> = (0..250)
            .map(|number| (name(number), holder(number)))
            .collect();
        let mut index = UniqueIndex::default();
        assert!(index.fill(&all));
        for (name, holder) in &all {
            let has_it = |half| (half == HalfKey::of(*holder)).then_some(*holder);
            assert_eq!(index.holder(*name, has_it), Some(*holder));
        }
        for (name, holder) in &all {
            assert!(index.is_entered(*name, *holder));
            index.leave(*name, *holder);
        }
        assert_eq!((index.len(), index.names.chunks()), (0, 0));
        let twice = [all.as_slice(), &[(name(125), holder(7))]].concat();
        assert!(!index.fill(&twice));
        assert_eq!((index.len(), index.names.chunks()), (0, 0));
        assert!(index.fill(&[]));
    }
}
