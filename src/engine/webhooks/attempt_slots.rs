//! Slots for the attempts in flight over all subscriptions, and the order in which subscriptions get them.
//!
//! A silent receiver holds a slot for as long as an attempt may take, and so may one of which nothing is known. So the
//! slots are counted by what is known of the receivers, and each kind has a reserve that the others leave to it,
//! however much they want. Within a kind, subscriptions that wait come before newcomers.

use std::collections::{BTreeSet, VecDeque};

use uuid::Uuid;

use crate::engine::channel::ReceiverHealth;

/// The kinds, in the order in which a slot that becomes free is offered to them.
const KINDS: [ReceiverHealth; 5] = [
    ReceiverHealth::Taking,
    ReceiverHealth::Failing,
    ReceiverHealth::Unknown,
    ReceiverHealth::Slow,
    ReceiverHealth::Silent,
];

/// Maximum number of attempts in flight, over all subscriptions.
pub const ATTEMPTS_MAX: usize = 1_024;
/// The least that a sender may lower [`ATTEMPTS_MAX`] to: each kind of receivers has some of them.
pub const ATTEMPTS_MIN: usize = 16;

/// Number of slots that the other kinds leave to this one, of [`ATTEMPTS_MAX`].
const fn reserve(health: ReceiverHealth) -> usize {
    match health {
        ReceiverHealth::Taking => 512,
        ReceiverHealth::Unknown => 128,
        ReceiverHealth::Failing => 64,
        ReceiverHealth::Slow | ReceiverHealth::Silent => 32,
    }
}

/// Number of slots that a subscription may have while its kind is crowded.
const fn share(health: ReceiverHealth) -> usize {
    match health {
        ReceiverHealth::Taking | ReceiverHealth::Slow => 4,
        ReceiverHealth::Failing | ReceiverHealth::Unknown | ReceiverHealth::Silent => 1,
    }
}

/// The taken slots, and the subscriptions that wait for one.
#[derive(Debug)]
pub(super) struct AttemptSlots {
    /// Number of slots, over all kinds.
    all: usize,
    taking: Kind,
    slow: Kind,
    failing: Kind,
    unknown: Kind,
    silent: Kind,
}

/// A slot, held until its attempt ends.
#[derive(Debug)]
pub(super) struct AttemptSlot {
    health: ReceiverHealth,
}

#[derive(Debug, Default)]
struct Kind {
    taken: usize,
    /// Subscriptions in the order of their arrival; those missing in `waits` wait no longer.
    waiting: VecDeque<Uuid>,
    waits: BTreeSet<Uuid>,
}

impl AttemptSlots {
    /// So many slots, within [`ATTEMPTS_MIN`] and [`ATTEMPTS_MAX`].
    pub(super) fn up_to(most: usize) -> Self {
        Self {
            all: most.clamp(ATTEMPTS_MIN, ATTEMPTS_MAX),
            taking: Kind::default(),
            slow: Kind::default(),
            failing: Kind::default(),
            unknown: Kind::default(),
            silent: Kind::default(),
        }
    }

    /// Number of slots that the other kinds leave to this one, of those that there are.
    fn reserve(&self, health: ReceiverHealth) -> usize {
        (reserve(health) * self.all / ATTEMPTS_MAX).max(1)
    }

    /// Number of slots from which on a kind is crowded: half of its reserve. Slow receivers may have more, since one that
    /// is alone brings little with few requests.
    fn crowd(&self, health: ReceiverHealth) -> usize {
        match health {
            ReceiverHealth::Slow => 4 * self.reserve(health),
            _ => self.reserve(health) / 2,
        }
    }

    /// Takes a slot for a subscription that has `own` attempts in flight; `None` while there is none for it. Then the
    /// caller tries again when one of its own attempts ends, or when [`AttemptSlots::next`] names the subscription.
    pub(super) fn begin(
        &mut self,
        id: Uuid,
        own: usize,
        health: ReceiverHealth,
    ) -> Option<AttemptSlot> {
        let is_crowded = self.kind(health).taken >= self.crowd(health);
        if is_crowded && own >= share(health) {
            return None;
        }
        let has_one = self.has_one(health);
        let kind = self.kind_mut(health);
        if !has_one {
            if kind.waits.insert(id) {
                kind.waiting.push_back(id);
            }
            return None;
        }
        kind.waits.remove(&id);
        kind.taken += 1;
        Some(AttemptSlot { health })
    }

    /// Returns a slot whose attempt has ended.
    pub(super) fn end(&mut self, turn: &AttemptSlot) {
        self.kind_mut(turn.health).taken -= 1;
    }

    /// Returns the next waiting subscription for which there is a slot. To be called until it returns `None`, before
    /// any other subscription tries to begin.
    pub(super) fn next(&mut self) -> Option<Uuid> {
        KINDS.into_iter().find_map(|health| {
            let has_one = self.has_one(health);
            has_one.then(|| self.kind_mut(health).next()).flatten()
        })
    }

    fn kind(&self, health: ReceiverHealth) -> &Kind {
        match health {
            ReceiverHealth::Taking => &self.taking,
            ReceiverHealth::Slow => &self.slow,
            ReceiverHealth::Failing => &self.failing,
            ReceiverHealth::Unknown => &self.unknown,
            ReceiverHealth::Silent => &self.silent,
        }
    }

    fn kind_mut(&mut self, health: ReceiverHealth) -> &mut Kind {
        match health {
            ReceiverHealth::Taking => &mut self.taking,
            ReceiverHealth::Slow => &mut self.slow,
            ReceiverHealth::Failing => &mut self.failing,
            ReceiverHealth::Unknown => &mut self.unknown,
            ReceiverHealth::Silent => &mut self.silent,
        }
    }

    /// Whether there is a slot for this kind: one that neither is taken nor belongs to the reserve of another kind.
    fn has_one(&self, health: ReceiverHealth) -> bool {
        let spoken_for = KINDS.into_iter().map(|other| {
            let taken = self.kind(other).taken;
            match other == health {
                true => taken,
                false => taken.max(self.reserve(other)),
            }
        });
        spoken_for.sum::<usize>() < self.all
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
    use super::ReceiverHealth::{Failing, Silent, Slow, Taking, Unknown};
    use super::*;

    fn id(number: usize) -> Uuid {
        Uuid::from_u128(number as u128)
    }

    /// Takes slots for these subscriptions, each of which wants `most`.
    fn taken(
        turns: &mut AttemptSlots,
        ids: std::ops::Range<usize>,
        most: usize,
        health: ReceiverHealth,
    ) -> Vec<AttemptSlot> {
        let mut taken = Vec::new();
        for one in ids {
            let own = (0..most).map_while(|own| turns.begin(id(one), own, health));
            taken.extend(own);
        }
        taken
    }

    /// Number of slots that one kind may have while the others have none.
    fn most(health: ReceiverHealth) -> usize {
        let others = KINDS.into_iter().filter(|other| *other != health);
        ATTEMPTS_MAX - others.map(reserve).sum::<usize>()
    }

    #[test]
    fn an_accepting_receiver_begins_at_once_despite_many_silent_ones() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let silent = taken(&mut turns, 0..5_000, 1, Silent);
        assert_eq!(silent.len(), most(Silent));
        assert!(turns.begin(id(9_000), 0, Taking).is_some());
    }

    #[test]
    fn fast_receivers_have_half_of_all_slots_despite_many_slow_ones() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let slow = taken(&mut turns, 0..5_000, 32, Slow);
        assert_eq!(slow.len(), most(Slow));
        let soon = taken(&mut turns, 9_000..9_500, 32, Taking);
        assert_eq!(soon.len(), ATTEMPTS_MAX / 2);
        assert_eq!(slow.len() + soon.len(), 288 + 512);
        // Those that fail and are new have what is theirs, too.
        assert!(turns.begin(id(9_600), 0, Failing).is_some());
        assert!(turns.begin(id(9_601), 0, Unknown).is_some());
    }

    #[test]
    fn with_fewer_slots_each_kind_of_receiver_keeps_its_share() {
        for most in [0, ATTEMPTS_MIN, 88, 1_000] {
            let mut turns = AttemptSlots::up_to(most);
            let all = turns.all;
            assert_eq!(all, most.max(ATTEMPTS_MIN));
            let silent = taken(&mut turns, 0..5_000, 1, Silent).len();
            let well = taken(&mut turns, 5_000..9_000, 1, Taking).len();
            assert!(well >= all / 2, "{well} of {all}");
            assert!(turns.begin(id(9_000), 0, Failing).is_some());
            assert!(turns.begin(id(9_001), 0, Unknown).is_some());
            assert!(turns.begin(id(9_002), 0, Slow).is_some());
            assert!(silent + well + 3 <= all, "{silent} and {well} of {all}");
        }
    }

    #[test]
    fn new_and_once_failed_receivers_begin_at_once_despite_many_silent_ones() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let silent = taken(&mut turns, 0..5_000, 1, Silent);
        assert_eq!(silent.len(), most(Silent));
        assert!(turns.begin(id(9_000), 0, Unknown).is_some());
        assert!(turns.begin(id(9_001), 0, Failing).is_some());
    }

    #[test]
    fn a_once_failed_receiver_begins_at_once_despite_many_new_or_silent_ones() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        // After a start nothing may be known of any receiver; none of these answers.
        let new = taken(&mut turns, 0..5_000, 4, Unknown);
        assert_eq!(new.len(), most(Unknown));
        let silent = taken(&mut turns, 5_000..9_000, 1, Silent);
        assert_eq!(silent.len(), reserve(Silent));
        assert!(turns.begin(id(9_000), 0, Failing).is_some());
        assert!(turns.begin(id(9_001), 0, Taking).is_some());
    }

    #[test]
    fn many_new_receivers_get_one_attempt_each_so_that_more_can_begin() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let few = reserve(Unknown) / 2 / 4;
        let alone = taken(&mut turns, 0..few, 4, Unknown);
        assert_eq!(alone.len(), few * 4);
        let crowd = taken(&mut turns, few..100, 4, Unknown);
        assert_eq!(crowd.len(), 100 - few);
    }

    #[test]
    fn silent_receivers_are_tried_despite_many_of_any_other_kind() {
        for health in [Taking, Slow, Failing, Unknown] {
            let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
            let others = taken(&mut turns, 0..5_000, 4, health);
            assert_eq!(others.len(), most(health));
            assert!(turns.begin(id(9_000), 0, Silent).is_some());
        }
    }

    #[test]
    fn a_receiver_of_unknown_health_begins_at_once_despite_many_accepting() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        // Eight subscriptions have all the slots that they want; each further one has its share.
        let well = taken(&mut turns, 0..5_000, 32, Taking);
        assert_eq!(well.len(), 768);
        assert!(turns.begin(id(8), 3, Taking).is_none());
        assert!(turns.begin(id(9_000), 0, Unknown).is_some());
    }

    #[test]
    fn in_a_crowd_each_has_its_share_and_no_more_until_the_crowd_is_gone() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let mut well = taken(&mut turns, 0..8, 32, Taking);
        assert_eq!(well.len(), 256);
        assert!(turns.begin(id(0), share(Taking), Taking).is_none());
        // The subscription is not named: it has attempts in flight, and tries again when one ends.
        turns.end(&well.pop().unwrap());
        assert_eq!(turns.next(), None);
        assert!(turns.begin(id(0), share(Taking), Taking).is_some());
    }

    #[test]
    fn an_accepting_receiver_keeps_all_its_slots_despite_many_silent_ones() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let silent = taken(&mut turns, 0..5_000, 1, Silent);
        let well = taken(&mut turns, 9_000..9_001, 32, Taking);
        assert_eq!((silent.len(), well.len()), (most(Silent), 32));
    }

    #[test]
    fn those_that_wait_are_named_in_their_order_as_turns_end_and_each_once() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let first = most(Silent);
        let mut silent = taken(&mut turns, 0..first + 72, 1, Silent);
        assert_eq!(silent.len(), first);
        // The others wait, however often they ask.
        assert!(turns.begin(id(first), 0, Silent).is_none());
        let mut named = Vec::new();
        turns.end(&silent.pop().unwrap());
        // One of them gets the free slot before it is named, and is not named any more.
        let early = turns.begin(id(first + 1), 0, Silent).unwrap();
        assert_eq!(turns.next(), None);
        turns.end(&early);
        // A subscription with nothing to send when it is named leaves its slot to the next.
        while let Some(next) = turns.next() {
            named.push(next);
        }
        let others = (first..first + 72).filter(|number| *number != first + 1);
        assert_eq!(named, others.map(id).collect::<Vec<_>>());
        for turn in &silent {
            turns.end(turn);
        }
        assert_eq!(turns.silent.taken, 0);
    }

    #[test]
    fn a_waiting_subscription_precedes_one_whose_attempt_has_just_ended() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let mut silent = taken(&mut turns, 0..most(Silent), 1, Silent);
        assert!(turns.begin(id(9_000), 0, Silent).is_none());
        for _ in 0..100 {
            turns.end(&silent.pop().unwrap());
            let next = turns.next().unwrap();
            silent.insert(0, turns.begin(next, 0, Silent).unwrap());
            // The subscription whose attempt has just ended wants another slot, and waits in line.
            let other = if next == id(0) { id(9_000) } else { id(0) };
            assert!(turns.begin(other, 0, Silent).is_none());
        }
    }

    #[test]
    fn all_kinds_together_have_a_bound() {
        let mut turns = AttemptSlots::up_to(ATTEMPTS_MAX);
        let mut well = taken(&mut turns, 0..1_000, 32, Taking);
        let failing = taken(&mut turns, 1_000..2_000, 4, Failing);
        let new = taken(&mut turns, 2_000..3_000, 4, Unknown);
        let slow = taken(&mut turns, 4_000..5_000, 32, Slow);
        let silent = taken(&mut turns, 3_000..4_000, 1, Silent);
        let taking = [well.len(), slow.len()];
        let all = [failing.len(), new.len(), silent.len()];
        assert_eq!((taking, all), ([768, 32], [64, 128, 32]));
        let all = taking.iter().chain(&all);
        assert_eq!(all.sum::<usize>(), ATTEMPTS_MAX);
        // The slot that becomes free may go to any kind.
        turns.end(&well.pop().unwrap());
        let next = turns.next().unwrap();
        assert!(turns.begin(next, 0, Taking).is_some());
        assert_eq!(turns.next(), None);
    }
}
