//! Slots for the attempts in flight over all subscriptions, and the order in which subscriptions get them.
//!
//! A silent receiver holds a slot for as long as an attempt may take. So slots of receivers that take items and of
//! doubtful ones are counted apart: neither kind can take all of them. Within a kind, subscriptions that wait come
//! before newcomers.

use std::collections::{BTreeSet, VecDeque};

use uuid::Uuid;

/// Maximum number of attempts in flight, over all subscriptions.
const ALL_MAX: usize = 1_024;
/// Maximum number of attempts in flight at subscriptions that took the newest attempt.
const TAKING_MAX: usize = 768;
/// Maximum number at doubtful subscriptions: the newest attempt failed, or none has ended yet.
const DOUBTFUL_MAX: usize = 512;
/// Number of slots taken by subscriptions that are not doubtful from which on each subscription is limited to `SHARE`.
const CROWDED: usize = 256;
/// Number of slots that a subscription may have while they are scarce.
const SHARE: usize = 4;

/// The taken slots, and the subscriptions that wait for one.
#[derive(Debug, Default)]
pub(super) struct AttemptSlots {
    taking: Kind,
    doubtful: Kind,
}

/// A slot, held until its attempt ends.
#[derive(Debug)]
pub(super) struct AttemptSlot {
    is_doubtful: bool,
}

#[derive(Debug, Default)]
struct Kind {
    taken: usize,
    /// Subscriptions in the order of their arrival; those missing in `waits` wait no longer.
    waiting: VecDeque<Uuid>,
    waits: BTreeSet<Uuid>,
}

impl AttemptSlots {
    /// Takes a slot for a subscription that has `own` attempts in flight; `None` while there is none for it. Then the
    /// caller tries again when one of its own attempts ends, or when [`AttemptSlots::next`] names the subscription.
    pub(super) fn begin(&mut self, id: Uuid, own: usize, is_doubtful: bool) -> Option<AttemptSlot> {
        if own >= SHARE && self.taking.taken >= CROWDED {
            return None;
        }
        let has_one = self.has_one(is_doubtful);
        let kind = match is_doubtful {
            true => &mut self.doubtful,
            false => &mut self.taking,
        };
        if !has_one {
            if kind.waits.insert(id) {
                kind.waiting.push_back(id);
            }
            return None;
        }
        kind.waits.remove(&id);
        kind.taken += 1;
        Some(AttemptSlot { is_doubtful })
    }

    /// Returns a slot whose attempt has ended.
    pub(super) fn end(&mut self, turn: &AttemptSlot) {
        match turn.is_doubtful {
            true => self.doubtful.taken -= 1,
            false => self.taking.taken -= 1,
        }
    }

    /// Returns the next waiting subscription for which there is a slot. To be called until it returns `None`, before
    /// any other subscription tries to begin.
    pub(super) fn next(&mut self) -> Option<Uuid> {
        let taking = self.has_one(false).then(|| self.taking.next()).flatten();
        taking.or_else(|| self.has_one(true).then(|| self.doubtful.next()).flatten())
    }

    fn taken(&self) -> usize {
        self.taking.taken + self.doubtful.taken
    }

    fn has_one(&self, is_doubtful: bool) -> bool {
        let has_one = match is_doubtful {
            true => self.doubtful.taken < DOUBTFUL_MAX,
            false => self.taking.taken < TAKING_MAX,
        };
        has_one && self.taken() < ALL_MAX
    }
}

impl Kind {
    fn next(&mut self) -> Option<Uuid> {
        loop {
            let next = self.waiting.pop_front()?;
            if self.waits.remove(&next) {
                return Some(next);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(number: usize) -> Uuid {
        Uuid::from_u128(number as u128)
    }

    /// Takes slots for these subscriptions, each of which wants `most`.
    fn taken(
        turns: &mut AttemptSlots,
        ids: std::ops::Range<usize>,
        most: usize,
        doubt: bool,
    ) -> Vec<AttemptSlot> {
        let mut taken = Vec::new();
        for one in ids {
            let own = (0..most).map_while(|own| turns.begin(id(one), own, doubt));
            taken.extend(own);
        }
        taken
    }

    #[test]
    fn however_many_receivers_are_silent_one_that_takes_what_comes_begins_at_once() {
        let mut turns = AttemptSlots::default();
        let silent = taken(&mut turns, 0..5_000, 4, true);
        assert_eq!(silent.len(), DOUBTFUL_MAX);
        assert!(turns.begin(id(9_000), 0, false).is_some());
    }

    #[test]
    fn however_much_others_take_a_receiver_of_which_nothing_is_known_begins_at_once() {
        let mut turns = AttemptSlots::default();
        // Eight subscriptions have all the slots that they want; each further one has its share.
        let well = taken(&mut turns, 0..5_000, 32, false);
        assert_eq!(well.len(), TAKING_MAX);
        assert!(turns.begin(id(8), 3, false).is_none());
        assert!(turns.begin(id(9_000), 0, true).is_some());
    }

    #[test]
    fn in_a_crowd_each_has_its_share_and_no_more_until_the_crowd_is_gone() {
        let mut turns = AttemptSlots::default();
        let mut well = taken(&mut turns, 0..8, 32, false);
        assert_eq!(well.len(), CROWDED);
        assert!(turns.begin(id(0), SHARE, false).is_none());
        // The subscription is not named: it has attempts in flight, and tries again when one ends.
        turns.end(&well.pop().unwrap());
        assert_eq!(turns.next(), None);
        assert!(turns.begin(id(0), SHARE, false).is_some());
    }

    #[test]
    fn however_many_receivers_are_silent_one_that_takes_what_comes_has_as_much_as_ever() {
        let mut turns = AttemptSlots::default();
        let silent = taken(&mut turns, 0..5_000, 4, true);
        let well = taken(&mut turns, 9_000..9_001, 32, false);
        assert_eq!((silent.len(), well.len()), (DOUBTFUL_MAX, 32));
    }

    #[test]
    fn those_that_wait_are_named_in_their_order_as_turns_end_and_each_once() {
        let mut turns = AttemptSlots::default();
        let mut silent = taken(&mut turns, 0..200, 4, true);
        assert_eq!(silent.len(), DOUBTFUL_MAX);
        // 128 subscriptions have slots; the others wait, however often they ask.
        assert!(turns.begin(id(128), 0, true).is_none());
        let mut named = Vec::new();
        turns.end(&silent.pop().unwrap());
        // One of them gets the free slot before it is named, and is not named any more.
        let early = turns.begin(id(129), 0, true).unwrap();
        assert_eq!(turns.next(), None);
        turns.end(&early);
        // A subscription with nothing to send when it is named leaves its slot to the next.
        while let Some(next) = turns.next() {
            named.push(next);
        }
        let all: Vec<_> = (128..200).filter(|number| *number != 129).map(id).collect();
        assert_eq!(named, all);
        for turn in &silent {
            turns.end(turn);
        }
        assert_eq!(turns.taken(), 0);
    }

    #[test]
    fn who_waits_is_before_who_has_just_ended() {
        let mut turns = AttemptSlots::default();
        let mut silent = taken(&mut turns, 0..128, 4, true);
        assert!(turns.begin(id(9_000), 0, true).is_none());
        for _ in 0..100 {
            turns.end(&silent.pop().unwrap());
            let next = turns.next().unwrap();
            silent.insert(0, turns.begin(next, 3, true).unwrap());
            // The subscription whose attempt has just ended wants another slot, and waits in line.
            let other = if next == id(0) { id(9_000) } else { id(0) };
            assert!(turns.begin(other, 3, true).is_none());
        }
    }

    #[test]
    fn both_kinds_together_have_a_bound() {
        let mut turns = AttemptSlots::default();
        let mut well = taken(&mut turns, 0..1_000, 32, false);
        let silent = taken(&mut turns, 1_000..2_000, 4, true);
        assert_eq!(well.len() + silent.len(), ALL_MAX);
        // The slot that becomes free may go to either kind.
        turns.end(&well.pop().unwrap());
        let next = turns.next().unwrap();
        assert!(turns.begin(next, 0, false).is_some());
        assert_eq!(turns.next(), None);
    }
}
