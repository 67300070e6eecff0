//! Counts the messages that wait or are dead, and have no receiver.
//!
//! Messages from before the start are read list by list while others are settled. So the numbers of messages are kept,
//! not only a count: a message that is settled before it is read is neither counted later nor subtracted.

use parking_lot::Mutex;
use roaring::RoaringTreemap;

/// The messages without a receiver, by their numbers.
#[derive(Default)]
pub(super) struct Unclaimed(Mutex<Known>);

#[derive(Default)]
struct Known {
    unsettled: RoaringTreemap,
    /// Numbers that were settled before they were known: of messages from before the start, and of those whose birth
    /// is reported later than their end, since both are reported after the sequencer is released.
    settled: RoaringTreemap,
}

impl Unclaimed {
    /// Notes a new message.
    pub(super) fn born(&self, number: i64) {
        let number = number.cast_unsigned();
        let mut known = self.0.lock();
        if !known.settled.remove(number) {
            known.unsettled.insert(number);
        }
    }

    /// Notes that a message was taken or skipped, which is final.
    pub(super) fn settled(&self, number: i64) {
        let number = number.cast_unsigned();
        let mut known = self.0.lock();
        if !known.unsettled.remove(number) {
            known.settled.insert(number);
        }
    }

    /// Notes a message from before the start that was not settled when it was read.
    pub(super) fn found(&self, number: i64) {
        let number = number.cast_unsigned();
        let mut known = self.0.lock();
        if !known.settled.contains(number) {
            known.unsettled.insert(number);
        }
    }

    /// Returns the number of messages that wait or are dead.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unsettled.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn all_unsettled_messages_are_counted_whatever_settles_during_the_read() {
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
            settle(&mut unsettled, &mut random, next);
            let count = u64::try_from(unsettled.len()).ok();
            assert_eq!(Some(unclaimed.count()), count, "SEED={seed}");
        }
    }

    #[test]
    fn a_message_settled_before_it_is_read_is_neither_counted_nor_subtracted() {
        let unclaimed = Unclaimed::default();
        // Before the list is read that it was in, or after that.
        unclaimed.settled(1);
        unclaimed.settled(2);
        for number in 2..=5 {
            unclaimed.found(number);
        }
        unclaimed.settled(3);
        assert_eq!(unclaimed.count(), 2);
        unclaimed.settled(4);
        unclaimed.settled(5);
        assert_eq!(unclaimed.count(), 0);
        assert!(unclaimed.0.lock().unsettled.is_empty());
    }

    #[test]
    fn a_message_whose_end_is_reported_before_its_birth_is_not_counted() {
        let unclaimed = Unclaimed::default();
        unclaimed.settled(7);
        unclaimed.born(7);
        assert_eq!(unclaimed.count(), 0);
        assert!(unclaimed.0.lock().settled.is_empty());
    }
}
