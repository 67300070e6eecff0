//! The secondary index: the resources that share a secondary key, and the last change of that set
//! or of one of them.
//!
//! An empty list keeps the position at which it was last touched, by which decisions that have read it are validated.
//! Once all commits up to that position are published, the list may be removed. Every absent list of the shard counts
//! as touched at the *floor*, the highest such position of all removed lists, so the position of a list never falls. It
//! still rises above any position read before whenever a commit touches the list: the floor is never above the commits
//! that are wholly published, and a commit that is being published, or comes later, has a higher position. When the
//! floor rises, a decision that read an absent list may be made again needlessly.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use super::half_key::{Alike, HalfKey, HalfKeyCollisions};
use super::hash_index::{Entry, HashIndex};
use crate::base::digest::Digest;
use crate::domain::rank::Rank;

/// Maximum number of resources that are kept in a vector, which takes the least memory. More are kept in a tree, so
/// that adding one to a long list stays cheap.
const FEW: usize = 64;

/// Number of lists in a chunk: growing moves only a pointer to each chunk, never the lists.
const CHUNK: usize = 16;

/// The secondary index of a shard. Its lists are numbered without gaps.
#[derive(Default)]
pub(super) struct SecondaryIndex {
    index: HashIndex,
    chunks: Vec<Vec<(Digest, List)>>,
    /// The position at which absent lists count as touched.
    floor: u64,
}

fn at(chunks: &[Vec<(Digest, List)>], number: u32) -> &(Digest, List) {
    let number = number as usize;
    &chunks[number / CHUNK][number % CHUNK]
}

impl SecondaryIndex {
    /// The list of this key.
    pub(super) fn get(&self, name: Digest) -> Option<&List> {
        let number = self.index.find(name, |number| at(&self.chunks, number).0)?;
        Some(&at(&self.chunks, number).1)
    }

    /// Returns the number of lists.
    pub(super) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    /// Returns the position at which the list of this key was last touched; the floor if it is absent.
    pub(super) fn touched(&self, name: Digest) -> u64 {
        self.get(name).map_or(self.floor, |list| list.touched)
    }

    /// Removes the empty lists among those with these numbers that were last touched at `upto` or before, and returns
    /// how many it removed. All commits up to `upto` must be published. The last list takes the number of a removed
    /// one.
    pub(super) fn remove_empty(&mut self, numbers: Range<usize>, upto: u64) -> usize {
        let mut removed = 0;
        for number in numbers.rev() {
            let chunk = self.chunks.get(number / CHUNK);
            let found = chunk.and_then(|chunk| chunk.get(number % CHUNK));
            if let Some((name, list)) = found
                && list.may_be_removed(upto)
            {
                let name = *name;
                self.floor = self.floor.max(list.touched);
                self.remove(number, name);
                removed += 1;
            }
        }
        removed
    }

    fn remove(&mut self, number: usize, name: Digest) {
        let chunks = &self.chunks;
        self.index.remove(name, |number| at(chunks, number).0);
        // Chunks that `make_room` has added, and that are still empty.
        while self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
        }
        let Some(moved) = self.chunks.last_mut().and_then(Vec::pop) else {
            return;
        };
        let last = self.len();
        if last != number {
            self.index
                .moved(moved.0, number_of(last), number_of(number));
            self.chunks[number / CHUNK][number % CHUNK] = moved;
        }
    }

    /// Returns the list of this key. Where there is none it creates an empty one, which counts as touched at the floor,
    /// as it did while it was absent.
    pub(super) fn get_mut(&mut self, name: Digest, later: &HalfKeyCollisions) -> &mut List {
        let touched = self.floor;
        let chunks = &mut self.chunks;
        let alike = Alike::to(name);
        let key_of = |number| alike.seen(at(chunks, number).0);
        let number = match self.index.entry(name, key_of) {
            Entry::Occupied(entry) => entry.get() as usize,
            Entry::Vacant(entry) => {
                alike.note_if_later(later);
                make_room(chunks);
                let last = chunks.len() - 1;
                let number = last * CHUNK + chunks[last].len();
                entry.insert(number_of(number));
                let list = List {
                    touched,
                    ..List::default()
                };
                chunks[last].push((name, list));
                number
            }
        };
        &mut chunks[number / CHUNK][number % CHUNK].1
    }

    /// The name of the list with this half of one, that is not later.
    pub(super) fn first_like(&self, half: HalfKey, later: &HalfKeyCollisions) -> Option<Digest> {
        let number = self.index.find_if(half.alike(), |number| {
            let name = at(&self.chunks, number).0;
            HalfKey::of(name) == half && !later.has(name)
        })?;
        Some(at(&self.chunks, number).0)
    }

    /// Makes room for a list of this name, and finds this key's place in it.
    pub(super) fn reserve(&mut self, name: Digest, key: Digest) {
        let chunks = &mut self.chunks;
        self.index.reserve(name, |number| at(chunks, number).0);
        make_room(chunks);
        if let Some(list) = self.get(name) {
            std::hint::black_box(list.has(key));
        }
    }

    /// All lists with their keys, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Digest, &List)> {
        let lists = self.chunks.iter().flatten();
        lists.map(|(name, list)| (*name, list))
    }

    /// All lists, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut List> {
        self.chunks.iter_mut().flatten().map(|(_, list)| list)
    }
}

fn number_of(place: usize) -> u32 {
    u32::try_from(place).expect("a shard has no 2^32 lists")
}

/// Makes room for one more list.
fn make_room(chunks: &mut Vec<Vec<(Digest, List)>>) {
    if chunks.last().is_none_or(|last| last.len() == CHUNK) {
        chunks.push(Vec::with_capacity(CHUNK));
    }
}

/// The resources that share a secondary key.
#[derive(Default)]
pub(super) struct List {
    /// The position of the last commit by which a resource joined or left, or changed while it was
    /// here; 0 if that was before the start. It is kept when all have left, see above.
    pub(super) touched: u64,
    members: Members,
}

/// The resource keys, each once.
enum Members {
    /// In ascending order, except while tables are built.
    Few(Vec<Digest>),
    Many(BTreeSet<Digest>),
    /// By their ranks: in a list with ranks every resource has one.
    Ranked(BTreeSet<(Rank, Digest)>),
}

impl Default for Members {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl List {
    pub(super) fn len(&self) -> usize {
        match &self.members {
            Members::Few(members) => members.len(),
            Members::Many(members) => members.len(),
            Members::Ranked(members) => members.len(),
        }
    }

    /// Whether the list is empty, and was last touched at `upto` or before. A list that had ranks stays: an item may be
    /// found by it.
    fn may_be_removed(&self, upto: u64) -> bool {
        let is_ranked = matches!(self.members, Members::Ranked(_));
        !is_ranked && self.len() == 0 && self.touched <= upto
    }

    /// Keeps an empty list from being removed, as if it had had ranks.
    pub(super) fn keep(&mut self) {
        if self.len() == 0 {
            self.members = Members::Ranked(BTreeSet::new());
        }
    }

    /// Whether this is one of the members; of those with ranks that is not known.
    fn has(&self, key: Digest) -> bool {
        match &self.members {
            Members::Few(members) => members.binary_search(&key).is_ok(),
            Members::Many(members) => members.contains(&key),
            Members::Ranked(_) => false,
        }
    }

    /// The resource keys in ascending order, of their ranks if they have any.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = Digest> + '_> {
        match &self.members {
            Members::Few(members) => Box::new(members.iter().copied()),
            Members::Many(members) => Box::new(members.iter().copied()),
            Members::Ranked(members) => Box::new(members.iter().map(|(_, key)| *key)),
        }
    }

    /// Replaces the rank of a resource.
    pub(super) fn rank(&mut self, key: Digest, before: Option<&Rank>, after: Option<&Rank>) {
        if before == after {
            self.keep();
            return;
        }
        if !matches!(self.members, Members::Ranked(_)) {
            self.members = Members::Ranked(BTreeSet::new());
        }
        let Members::Ranked(members) = &mut self.members else {
            return;
        };
        if let Some(rank) = before {
            members.remove(&(rank.clone(), key));
        }
        if let Some(rank) = after {
            members.insert((rank.clone(), key));
        }
    }

    /// The resource with the highest rank, if they have ranks.
    pub(super) fn last_ranked(&self) -> Option<Digest> {
        match &self.members {
            Members::Ranked(members) => members.last().map(|(_, key)| *key),
            Members::Few(_) | Members::Many(_) => None,
        }
    }

    pub(super) fn join(&mut self, key: Digest) {
        match &mut self.members {
            Members::Few(members) => {
                let Err(place) = members.binary_search(&key) else {
                    return;
                };
                members.insert(place, key);
                self.grow();
            }
            Members::Many(members) => {
                members.insert(key);
            }
            Members::Ranked(_) => {}
        }
    }

    pub(super) fn leave(&mut self, key: Digest) {
        match &mut self.members {
            Members::Few(members) => {
                if let Ok(place) = members.binary_search(&key) {
                    members.remove(place);
                }
            }
            Members::Many(members) => {
                members.remove(&key);
            }
            Members::Ranked(_) => {}
        }
    }

    /// Adds a resource without ordering, while tables are built: [`List::order`] comes after all.
    pub(super) fn push(&mut self, key: Digest) {
        match &mut self.members {
            Members::Few(members) => members.push(key),
            Members::Many(members) => {
                members.insert(key);
            }
            Members::Ranked(_) => {}
        }
    }

    /// Puts the resources in order.
    pub(super) fn order(&mut self) {
        if let Members::Few(members) = &mut self.members {
            members.sort_unstable();
            members.dedup();
            self.grow();
        }
    }

    fn grow(&mut self) {
        if let Members::Few(members) = &mut self.members
            && members.len() > FEW
        {
            self.members = Members::Many(std::mem::take(members).into_iter().collect());
        }
    }

    /// Copies up to `most` keys that come after the last one of `into`; whether there may be more.
    pub(super) fn copy_on(&self, into: &mut Vec<Digest>, most: usize) -> bool {
        let after = into.last().copied();
        let before = into.len();
        match &self.members {
            Members::Few(members) => {
                let from = after.map_or(0, |after| members.partition_point(|key| *key <= after));
                into.extend(members[from..].iter().take(most));
            }
            Members::Many(members) => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                into.extend(members.range((from, Bound::Unbounded)).take(most));
            }
            // Such a list is copied with its ranks.
            Members::Ranked(_) => {}
        }
        into.len() - before == most
    }

    /// As [`List::copy_on`], of a list with ranks, after the last one that is copied already.
    pub(super) fn copy_ranked_on(&self, into: &mut Vec<(Rank, Digest)>, most: usize) -> bool {
        let before = into.len();
        if let Members::Ranked(members) = &self.members {
            let from = into
                .last()
                .cloned()
                .map_or(Bound::Unbounded, Bound::Excluded);
            into.extend(members.range((from, Bound::Unbounded)).take(most).cloned());
        }
        into.len() - before == most
    }

    /// The lowest rank above this one, in a list with ranks; the lowest of all where there is none.
    /// Downwards, the highest rank below it.
    pub(super) fn next_rank(&self, after: Option<&Rank>, downwards: bool) -> Option<&Rank> {
        let Members::Ranked(members) = &self.members else {
            return None;
        };
        let beyond = |byte| match after {
            Some(rank) => Bound::Excluded((rank.clone(), Digest([byte; 16]))),
            None => Bound::Unbounded,
        };
        let next = match downwards {
            true => members.range((Bound::Unbounded, beyond(0))).next_back(),
            false => members.range((beyond(u8::MAX), Bound::Unbounded)).next(),
        };
        next.map(|(rank, _)| rank)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::base::time::Timestamp;

    #[test]
    fn random_changes_leave_what_a_set_would_have() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut list, mut model) = (List::default(), BTreeSet::new());
        let mut joins = 3;
        for round in 0..20_000 {
            // The list grows and shrinks in turns.
            if round % 1_000 == 0 {
                joins = 7 - joins;
            }
            let key = Digest([random.random_range(0..200); 16]);
            if random.random_ratio(joins, 7) {
                list.join(key);
                model.insert(key);
            } else {
                list.leave(key);
                model.remove(&key);
            }
            assert_eq!(list.len(), model.len(), "SEED={seed}");
            if round % 50 == 0 {
                let mut copied = Vec::new();
                while list.copy_on(&mut copied, random.random_range(1..40)) {}
                assert!(copied.iter().eq(&model), "SEED={seed}");
                assert!(list.iter().eq(model.iter().copied()), "SEED={seed}");
            }
        }
    }

    #[test]
    fn from_each_rank_on_the_next_one_is_found_in_either_direction() {
        let rank = |number: u8| {
            Rank::new(Timestamp::from_millis(i64::from(number / 2)), {
                if number.is_multiple_of(2) { "a" } else { "b" }
            })
        };
        let mut list = List::default();
        assert_eq!(list.next_rank(None, false), None);
        for number in [4, 1, 3, 0, 2] {
            list.rank(Digest([9 - number; 16]), None, Some(&rank(number)));
        }
        list.rank(Digest([9 - 2; 16]), Some(&rank(2)), None);
        for (downwards, expected) in [(false, [0, 1, 3, 4]), (true, [4, 3, 1, 0])] {
            let mut found = Vec::new();
            while let Some(next) = list.next_rank(found.last(), downwards) {
                found.push(next.clone());
            }
            assert_eq!(found, expected.map(rank));
        }
        // Also from one on that has left.
        assert_eq!(list.next_rank(Some(&rank(2)), false), Some(&rank(3)));
        assert_eq!(list.next_rank(Some(&rank(2)), true), Some(&rank(1)));
        let mut plain = List::default();
        plain.join(Digest([1; 16]));
        assert_eq!(plain.next_rank(None, false), None);
    }

    #[test]
    fn of_names_with_the_same_half_key_the_first_is_found() {
        let (mut index, later) = (SecondaryIndex::default(), HalfKeyCollisions::default());
        let names = [1, 2, 3].map(|number| {
            let mut name = Digest([7; 16]);
            name.0[15] = number;
            name
        });
        for name in names {
            index.get_mut(name, &later).join(name);
            assert_eq!(index.first_like(HalfKey::of(name), &later), Some(names[0]));
        }
        assert_eq!(names.map(|name| later.has(name)), [false, true, true]);
        let other = HalfKey::of(Digest([8; 16]));
        assert_eq!(index.first_like(other, &later), None);
    }

    /// What a list would have that is never removed: when it was touched, and its members.
    type Model = BTreeMap<Digest, (u64, BTreeSet<Digest>)>;

    #[test]
    fn a_reader_sees_that_a_list_was_touched_whatever_is_removed_meanwhile() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut index, later) = (SecondaryIndex::default(), HalfKeyCollisions::default());
        let mut model = Model::new();
        let (mut read, mut removed) = (Vec::new(), 0);
        let digest = |number: u32| Digest::of(1, &[number.to_string()]);
        for position in 1..=6_000_u64 {
            // A commit touches some lists; in between they are read, and swept up to the one before.
            for _ in 0..random.random_range(1..4) {
                let (name, key) = (
                    digest(random.random_range(0..60)),
                    digest(random.random_range(0..3)),
                );
                let (touched, members) = model.entry(name).or_default();
                *touched = position;
                let list = index.get_mut(name, &later);
                list.touched = position;
                match random.random_ratio(1, 3) {
                    true => {
                        list.join(key);
                        members.insert(key);
                    }
                    false => {
                        list.leave(key);
                        members.remove(&key);
                    }
                }
                let other = digest(random.random_range(0..70));
                let touched = model.get(&other).map_or(0, |(touched, _)| *touched);
                read.push((other, index.touched(other), touched));
                if random.random_ratio(1, 20) {
                    let upto = random.random_range(0..position);
                    removed += index.remove_empty(0..index.len(), upto);
                }
            }
            if position.is_multiple_of(50) {
                for (name, told, truly) in read.drain(..) {
                    let touched = model.get(&name).map_or(0, |(touched, _)| *touched);
                    let now = index.touched(name);
                    assert!(now >= told && now >= touched, "SEED={seed}");
                    assert!(touched == truly || now > told, "SEED={seed}");
                }
                for (name, (_, members)) in &model {
                    let there: Option<BTreeSet<Digest>> =
                        index.get(*name).map(|list| list.iter().collect());
                    assert_eq!(there.unwrap_or_default(), *members, "SEED={seed}");
                }
                assert_eq!(index.iter().count(), index.len(), "SEED={seed}");
            }
        }
        assert!(removed > 100, "{removed} SEED={seed}");
    }

    #[test]
    fn there_are_as_many_lists_as_are_in_use_however_many_keys_come_and_go() {
        let (mut index, later) = (SecondaryIndex::default(), HalfKeyCollisions::default());
        let digest = |number: u64| Digest::of(1, &[number.to_string()]);
        for position in 1..=10_000_u64 {
            // The resource has another key after each commit.
            for (number, joins) in [(position - 1, false), (position, true)] {
                let list = index.get_mut(digest(number), &later);
                list.touched = position;
                match joins {
                    true => list.join(digest(0)),
                    false => list.leave(digest(0)),
                }
            }
            index.reserve(digest(position + 1), digest(0));
            if position.is_multiple_of(100) {
                assert_eq!(index.remove_empty(0..index.len(), position - 1), 99);
                assert_eq!(index.remove_empty(0..index.len(), position), 1);
                assert_eq!((index.len(), index.index.len()), (1, 1));
                assert!(index.get(digest(position)).is_some());
                assert_eq!(index.touched(digest(0)), position);
            }
        }
        // What an item is found by stays though nothing is in it.
        index.get_mut(digest(7), &later).keep();
        assert_eq!(index.remove_empty(0..index.len(), 10_000), 0);
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn keys_pushed_in_any_order_are_sorted() {
        for count in [0, 1, 60, 65, 200] {
            let mut list = List::default();
            for key in (0..count).rev().chain(0..count / 2) {
                list.push(Digest([key; 16]));
            }
            list.order();
            assert!(list.iter().eq((0..count).map(|key| Digest([key; 16]))));
        }
    }
}
