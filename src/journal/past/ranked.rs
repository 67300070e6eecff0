//! Finds the resource of a list with ranks that ranked highest as of a position.
//!
//! The list has the present order. A resource not changed since the position already had its present rank then, so
//! only the highest of those can have been the highest. For a resource changed since, the rank is derived from its
//! state as of then; it applies down to the change before, and is kept. Those are kept sorted by their ranks: a position
//! below the last one costs as much as there are changes in between.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::resource_change::Lost;
use crate::base::digest::Digest;
use crate::domain::index::IndexKey;
use crate::domain::rank::Rank;

/// The ranks that a resource had from position `from` to `upto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanksAsOf {
    pub(super) from: u64,
    pub(super) upto: u64,
    pub(super) ranks: Vec<(IndexKey, Rank)>,
}

impl RanksAsOf {
    /// Returns the ranks, namely none, of a resource that did not exist as of this position.
    #[must_use]
    pub fn unborn(upto: u64) -> Self {
        Self {
            from: 0,
            upto,
            ranks: Vec::new(),
        }
    }
}

/// The resources of a list with ranks.
pub(super) struct Ranked {
    /// Members in descending order of their last changes.
    members: Vec<Member>,
    /// For each index: the index of the member that ranks highest at present, out of this one and those after it.
    highest: Vec<usize>,
    /// The position that was looked at last, if all went well.
    looked: Option<u64>,
    /// The members that were changed since that position.
    changed: ChangedSince,
    /// How often a member was sorted in.
    #[cfg(test)]
    entered: usize,
}

/// The members that were changed since a position, sorted by their ranks as of then.
#[derive(Default)]
struct ChangedSince {
    /// Their number: they are the first ones.
    count: usize,
    /// The ranks of those that were in the list.
    ranks: BTreeSet<(Rank, Digest)>,
    /// For each, the position from which on it has had that rank, or none; and its index.
    begins: BinaryHeap<(u64, usize)>,
}

struct Member {
    key: Digest,
    /// Position of the resource's last change.
    tip: u64,
    /// Place of the resource in the present order.
    place: usize,
    /// Known ranks of the resource.
    known: Option<RanksAsOf>,
}

impl Ranked {
    /// Creates the list of these resources, given in their present order, which was read before the positions of
    /// their last changes: changes in between count as later ones. Ranks may be known for each.
    pub(super) fn of(
        keys: Vec<Digest>,
        tip: impl Fn(Digest) -> u64,
        mut known: impl FnMut(Digest) -> Option<RanksAsOf>,
    ) -> Self {
        let mut members = Vec::with_capacity(keys.len());
        for (place, key) in keys.into_iter().enumerate() {
            members.push(Member {
                key,
                tip: tip(key),
                place,
                known: known(key),
            });
        }
        members.sort_unstable_by_key(|member| Reverse(member.tip));
        let mut highest = vec![0; members.len()];
        for index in (0..members.len()).rev() {
            highest[index] = match highest.get(index + 1).copied() {
                Some(below) if members[below].place > members[index].place => below,
                _ => index,
            };
        }
        Self {
            members,
            highest,
            looked: None,
            changed: ChangedSince::default(),
            #[cfg(test)]
            entered: 0,
        }
    }

    /// Returns the resource that ranked highest in this list as of a position. `make` derives ranks that are not
    /// known. At a position below the last one it looks only at the members that were changed in between.
    pub(super) fn highest(
        &mut self,
        list: IndexKey,
        upto: u64,
        make: impl Fn(Digest) -> Result<RanksAsOf, Lost>,
    ) -> Result<Option<Digest>, Lost> {
        // It is set again at the end: after an error, nothing of what is sorted counts.
        let looked = self.looked.take();
        if looked.is_none_or(|looked| looked < upto) {
            self.changed = ChangedSince::default();
        }
        while let Some((from, index)) = self.changed.begins.peek().copied()
            && from > upto
        {
            self.changed.begins.pop();
            let member = &self.members[index];
            if let Some(rank) = member.rank(list) {
                let ranked = (rank.clone(), member.key);
                self.changed.ranks.remove(&ranked);
            }
            self.enter(index, list, upto, &make)?;
        }
        let count = self.members.partition_point(|member| member.tip > upto);
        while self.changed.count < count {
            self.enter(self.changed.count, list, upto, &make)?;
            self.changed.count += 1;
        }
        let mut best = self.changed.ranks.last().map(|(rank, key)| (rank, *key));
        if let Some(index) = self.highest.get(count).copied() {
            let other = &mut self.members[index];
            other.learn(upto, &make)?;
            let other = other.rank(list).map(|rank| (rank, other.key));
            best = best.max(other);
        }
        let best = best.map(|(_, key)| key);
        self.looked = Some(upto);
        Ok(best)
    }

    /// Sorts in a member that was changed since a position, with its rank as of then.
    fn enter(
        &mut self,
        index: usize,
        list: IndexKey,
        upto: u64,
        make: &impl Fn(Digest) -> Result<RanksAsOf, Lost>,
    ) -> Result<(), Lost> {
        #[cfg(test)]
        {
            self.entered += 1;
        }
        let member = &mut self.members[index];
        let from = member.learn(upto, make)?;
        if let Some(rank) = member.rank(list) {
            self.changed.ranks.insert((rank.clone(), member.key));
        }
        self.changed.begins.push((from, index));
        Ok(())
    }
}

impl Member {
    /// Makes its ranks as of a position known; returns the position from which on they are the same.
    fn learn(
        &mut self,
        upto: u64,
        make: &impl Fn(Digest) -> Result<RanksAsOf, Lost>,
    ) -> Result<u64, Lost> {
        if let Some(known) = &self.known
            && (known.from..=known.upto).contains(&upto)
        {
            return Ok(known.from);
        }
        let made = make(self.key)?;
        let from = made.from;
        self.known = Some(made);
        Ok(from)
    }

    /// Returns its known rank in this list.
    fn rank(&self, list: IndexKey) -> Option<&Rank> {
        let mut ranks = self.known.iter().flat_map(|known| &known.ranks);
        ranks.find(|(of, _)| *of == list).map(|(_, rank)| rank)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;
    use crate::domain::resource::Source as _;
    use crate::journal::past::samples::{Adjustments, list};
    use crate::journal::past::{AsOf, Past};

    #[test]
    fn the_highest_one_as_of_a_position_is_as_all_ranks_as_of_then_have_it() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let mut adjustments = Adjustments::default();
        let count = 120;
        for _ in 0..count {
            let id = format!("adjustment-{}", random.random_range(0..15));
            let booking = ["booking-1", "booking-2"][usize::from(random.random_ratio(1, 4))];
            adjustments.put(&id, booking, random.random_range(1..=28));
        }
        let (from_above, at_random) = (adjustments.past(), adjustments.past());
        for upto in (0..=count).rev() {
            let fresh = adjustments.past();
            let expected = AsOf::new(&fresh, upto).ranked(list("booking-1")).pop();
            let highest = |past: &Past<'_>| AsOf::new(past, upto).last_ranked(list("booking-1"));
            assert_eq!(highest(&from_above), expected, "{upto} SEED={seed}");
            assert_eq!(highest(&adjustments.past()), expected, "{upto} SEED={seed}");
        }
        for _ in 0..count {
            let upto = random.random_range(0..=count);
            let fresh = adjustments.past();
            let expected = AsOf::new(&fresh, upto).ranked(list("booking-1")).pop();
            let found = AsOf::new(&at_random, upto).last_ranked(list("booking-1"));
            assert_eq!(found, expected, "{upto} SEED={seed}");
        }
    }

    #[test]
    fn descending_positions_read_each_later_record_once_and_no_other() {
        let mut adjustments = Adjustments::default();
        for number in 0..200 {
            adjustments.put(&format!("{number:03}"), "booking-1", 1);
        }
        let past = adjustments.past();
        for upto in (151..=200).rev() {
            let source = AsOf::new(&past, upto);
            let key = Adjustments::key(&format!("{:03}", upto - 1));
            assert_eq!(source.last_ranked(list("booking-1")), Some(key));
            assert_eq!(source.check(), Ok(()));
        }
        assert_eq!(past.reads(), 49);
    }

    #[test]
    fn looking_downwards_sorts_a_resource_in_once_for_each_of_its_changes() {
        let mut adjustments = Adjustments::default();
        for number in 0..200 {
            // Some are changed a second time.
            let number = if number < 150 { number } else { number - 150 };
            adjustments.put(&format!("{number:03}"), "booking-1", 1);
        }
        let past = adjustments.past();
        let list = list("booking-1");
        let tip = |key| past.tip(key);
        let mut ranked = Ranked::of(past.tables.ranked(list), tip, |_| None);
        for upto in (0..200).rev() {
            let fresh = adjustments.past();
            let expected = AsOf::new(&fresh, upto).last_ranked(list);
            let found = ranked.highest(list, upto, |key| past.ranks_as_of(key, upto));
            assert_eq!(found, Ok(expected), "{upto}");
        }
        assert_eq!(ranked.entered, 200);
        // Upwards they are sorted anew.
        let found = ranked.highest(list, 100, |key| past.ranks_as_of(key, 100));
        assert_eq!(found, Ok(Some(Adjustments::key("099"))));
        assert_eq!(ranked.entered, 300);
    }

    #[test]
    fn an_error_does_not_stay_in_what_is_found_after_it() {
        let mut adjustments = Adjustments::default();
        for number in 0..20 {
            adjustments.put(&format!("{number:03}"), "booking-1", 1);
        }
        let past = adjustments.past();
        let list = list("booking-1");
        let mut ranked = Ranked::of(past.tables.ranked(list), |key| past.tip(key), |_| None);
        for upto in (1..20).rev() {
            let fails = Cell::new(true);
            let mut look = || {
                ranked.highest(list, upto, |key| match fails.replace(false) {
                    true => Err(Lost::Unavailable),
                    false => past.ranks_as_of(key, upto),
                })
            };
            assert_eq!(look(), Err(Lost::Unavailable), "{upto}");
            let key = Adjustments::key(&format!("{:03}", upto - 1));
            assert_eq!(look(), Ok(Some(key)), "{upto}");
        }
    }
}
