//! Finds the resource of a list with ranks that ranked highest as of a position.
//!
//! The list has the present order. A resource not changed since the position already had its present rank then, so
//! only the highest of those can have been the highest. For a resource changed since, the rank is derived from its
//! state as of then; it applies down to the change before, and is kept.

use std::cmp::Reverse;

use super::resource_change::Lost;
use crate::base::digest::Digest;
use crate::domain::rank::Rank;
use crate::domain::resource::IndexKey;

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
        Self { members, highest }
    }

    /// Returns the resource that ranked highest in this list as of a position. `make` derives ranks that are not
    /// known.
    pub(super) fn highest(
        &mut self,
        list: IndexKey,
        upto: u64,
        make: impl Fn(Digest) -> Result<RanksAsOf, Lost>,
    ) -> Result<Option<Digest>, Lost> {
        let count = self.members.partition_point(|member| member.tip > upto);
        let (changed, others) = self.members.split_at_mut(count);
        let other = self.highest.get(count).map_or(0..0, |index| {
            let place = index - count;
            place..place + 1
        });
        let mut best: Option<(&Rank, Digest)> = None;
        for member in changed.iter_mut().chain(&mut others[other]) {
            let key = member.key;
            let known = member.known.as_ref();
            let is_known = known.is_some_and(|known| known.from <= upto && upto <= known.upto);
            if !is_known {
                member.known = Some(make(key)?);
            }
            let mut ranks = member.known.iter().flat_map(|known| &known.ranks);
            if let Some((_, rank)) = ranks.find(|(of, _)| *of == list) {
                best = best.max(Some((rank, key)));
            }
        }
        Ok(best.map(|(_, key)| key))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

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
    fn positions_that_are_looked_at_downwards_have_each_later_record_read_once_and_no_other() {
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
}
