//! The messages that wait or are dead, and have no receiver.
//!
//! Those from before the start are found one list after the other while others are settled, so each
//! is known by its number: one that is settled first is neither counted later nor subtracted.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// These messages.
#[derive(Default)]
pub(in crate::engine) struct Unclaimed(Mutex<Known>);

#[derive(Default)]
struct Known {
    unsettled: Numbers,
    /// Those that were settled while those from before the start are being found.
    settled: Numbers,
    /// Whether those from before the start are found.
    is_complete: bool,
}

impl Unclaimed {
    /// This message is born.
    pub(super) fn born(&self, number: i64) {
        self.0.lock().unsettled.insert(number);
    }

    /// This message was taken or skipped, for good.
    pub(super) fn settled(&self, number: i64) {
        let mut known = self.0.lock();
        known.unsettled.remove(number);
        if !known.is_complete {
            known.settled.insert(number);
        }
    }

    /// This message is from before the start, and was not settled when it was read.
    pub(in crate::engine) fn found(&self, number: i64) {
        let mut known = self.0.lock();
        if !known.settled.has(number) {
            known.unsettled.insert(number);
        }
    }

    /// All from before the start are found.
    pub(in crate::engine) fn all_found(&self) {
        let mut known = self.0.lock();
        known.is_complete = true;
        known.settled = Numbers::default();
    }

    /// How many there are.
    pub(in crate::engine) fn count(&self) -> u64 {
        self.0.lock().unsettled.count
    }
}

/// Numbers, many of which follow each other: a bit for each.
#[derive(Default)]
struct Numbers {
    /// Under a number divided by 64: which of the 64.
    bits: BTreeMap<i64, u64>,
    count: u64,
}

/// Where a number is.
fn place(number: i64) -> (i64, u64) {
    (number.div_euclid(64), 1_u64 << number.rem_euclid(64))
}

impl Numbers {
    fn has(&self, number: i64) -> bool {
        let (place, bit) = place(number);
        self.bits.get(&place).is_some_and(|bits| bits & bit != 0)
    }

    fn insert(&mut self, number: i64) {
        let (place, bit) = place(number);
        let bits = self.bits.entry(place).or_default();
        self.count += u64::from(*bits & bit == 0);
        *bits |= bit;
    }

    fn remove(&mut self, number: i64) {
        let (place, bit) = place(number);
        let Some(bits) = self.bits.get_mut(&place) else {
            return;
        };
        self.count -= u64::from(*bits & bit != 0);
        *bits &= !bit;
        if *bits == 0 {
            self.bits.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn whatever_is_settled_while_old_messages_are_found_what_is_left_is_counted() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..100 {
            let unclaimed = Unclaimed::default();
            let mut unsettled: BTreeSet<i64> = (0..300).collect();
            let mut next = 300;
            let settle = |unsettled: &mut BTreeSet<i64>, random: &mut SmallRng, next: i64| {
                for _ in 0..random.random_range(0..20) {
                    let number = random.random_range(0..next);
                    if unsettled.remove(&number) {
                        unclaimed.settled(number);
                    }
                }
            };
            for first in (0..300_i64).step_by(100) {
                settle(&mut unsettled, &mut random, next);
                let read: Vec<_> = unsettled.range(first..first + 100).copied().collect();
                settle(&mut unsettled, &mut random, next);
                for number in read {
                    unclaimed.found(number);
                }
                unclaimed.born(next);
                unsettled.insert(next);
                next += 1;
            }
            settle(&mut unsettled, &mut random, next);
            unclaimed.all_found();
            settle(&mut unsettled, &mut random, next);
            let count = u64::try_from(unsettled.len()).ok();
            assert_eq!(Some(unclaimed.count()), count, "SEED={seed}");
        }
    }

    #[test]
    fn what_is_settled_before_it_is_found_is_neither_counted_nor_subtracted() {
        let unclaimed = Unclaimed::default();
        // Before the list is read that it was in, or after that.
        unclaimed.settled(1);
        unclaimed.settled(2);
        for number in 2..=5 {
            unclaimed.found(number);
        }
        unclaimed.settled(3);
        unclaimed.all_found();
        unclaimed.settled(3);
        assert_eq!(unclaimed.count(), 2);
        unclaimed.settled(4);
        unclaimed.settled(5);
        assert_eq!(unclaimed.count(), 0);
        let known = unclaimed.0.lock();
        assert!(known.unsettled.bits.is_empty() && known.settled.bits.is_empty());
    }
}
