//! A channel: the queue of items to be delivered to one receiver.
//!
//! ```text
//! offered ──▶ waiting ──▶ on its way ──▶ taken
//!               ▲            │ failed
//!               └── pause ◀──┤
//!                            └──▶ dead, after the last pause
//! ```
//!
//! Items of one subject are sent in the order of their identifiers: an item is sent only when its predecessor is
//! taken or dead. Subjects do not wait for each other.
//!
//! A channel has no clock: its owner passes the time in. Pauses are counted by the steady clock; the log stores their
//! ends by the wall clock. A channel that resumes from the log never pauses longer than the schedule says, whatever
//! the wall clock was set to, unless the receiver has asked for a longer pause.

mod now;
mod pace;
mod retry_state;
pub mod schedule;
mod subject;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::base::time::Timestamp;
pub use now::Now;
use pace::Pace;
pub use pace::{Bounds, ReceiverHealth};
pub use retry_state::RetryState;
use schedule::{Failure, pause};
use subject::Subject;

/// The state of an item after its attempt has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled<P> {
    /// The receiver has taken the item.
    Taken(P),
    /// The item waits for the next attempt.
    Waits,
    /// The item is given up, after this many failed attempts.
    Dead {
        /// Payload of the item.
        payload: P,
        /// Number of failed attempts.
        attempts: u32,
    },
}

/// An item that is neither taken nor dead.
#[derive(Debug)]
struct Waiting<P> {
    payload: P,
    subject: u64,
    cost: usize,
    attempts: u32,
    /// When the next attempt is due, by the steady clock; `None`: at once.
    due: Option<Duration>,
    /// Whether the log records this item as it is.
    is_recorded: bool,
    /// Whether the item is to be tried again at once if the attempt in flight fails.
    is_hurried: bool,
    /// Time of the payload, such as of an event, where it is known.
    born: Option<Timestamp>,
    /// When the channel took the item in, by the steady clock.
    seen: Duration,
}

/// Changes of a channel that the log does not record yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded<I> {
    /// Items that wait, and are new or have failed since the last record; [`Channel::retry_state`] gives what to
    /// store of each.
    pub waiting: Vec<I>,
    /// Items that the log stores as waiting, and that do not wait any more.
    pub settled: Vec<I>,
}

/// The queue of items to be delivered to one receiver. An item is identified by `I`, whose order is the order of
/// delivery, and carries a payload `P`.
#[derive(Debug)]
pub struct Channel<I, P> {
    bounds: Bounds,
    waiting: BTreeMap<I, Waiting<P>>,
    cost: usize,
    subjects: HashMap<u64, Subject<I>>,
    ready: BTreeSet<I>,
    pausing: BTreeSet<(Duration, I)>,
    pace: Pace,
    unrecorded: BTreeSet<I>,
    settled: Vec<I>,
}

impl<I: Copy + Ord + Debug, P> Channel<I, P> {
    /// Creates an empty channel.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            waiting: BTreeMap::new(),
            cost: 0,
            subjects: HashMap::new(),
            ready: BTreeSet::new(),
            pausing: BTreeSet::new(),
            pace: Pace::default(),
            unrecorded: BTreeSet::new(),
            settled: Vec::new(),
        }
    }

    /// Takes in an item without any earlier attempt. `cost` is its memory in bytes.
    pub fn offer(&mut self, id: I, subject: &str, cost: usize, payload: P, now: Now) {
        let none = RetryState {
            attempts: 0,
            due: None,
            asked: None,
        };
        self.insert(id, subject, cost, payload, &none, now);
        self.unrecorded.insert(id);
    }

    /// Takes in an item that the log stores as waiting: when the channel resumes after a start, or when a dead item
    /// is to be tried again.
    pub fn resume(
        &mut self,
        id: I,
        subject: &str,
        cost: usize,
        payload: P,
        retry_state: &RetryState,
        now: Now,
    ) {
        self.insert(id, subject, cost, payload, retry_state, now);
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.is_recorded = true;
        }
    }

    fn insert(
        &mut self,
        id: I,
        subject: &str,
        cost: usize,
        payload: P,
        retry_state: &RetryState,
        now: Now,
    ) {
        if self.waiting.contains_key(&id) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        subject.hash(&mut hasher);
        // Two subjects with the same hash wait for each other; nothing worse happens.
        let subject = hasher.finish();
        let (left, is_shortened) = retry_state.pause(now);
        let due = (left > Duration::ZERO).then(|| now.steady + left);
        if is_shortened {
            // The log is to store the shortened pause, which is the one that is shown.
            self.unrecorded.insert(id);
        }
        self.waiting.insert(
            id,
            Waiting {
                payload,
                subject,
                cost,
                attempts: retry_state.attempts,
                due,
                is_recorded: false,
                is_hurried: false,
                born: None,
                seen: now.steady,
            },
        );
        self.cost += cost;
        self.subjects.entry(subject).or_default().waiting.insert(id);
        if retry_state.attempts > 0 {
            self.pace.resume_failing();
        }
        self.schedule(subject);
    }

    /// Enters the next item of a subject in `ready` or in `pausing`, whichever applies now.
    fn schedule(&mut self, hash: u64) {
        let Some(subject) = self.subjects.get_mut(&hash) else {
            return;
        };
        let next = match subject.on_way {
            Some(_) => None,
            None => subject.waiting.first().map(|first| {
                let due = self.waiting.get(first).and_then(|waiting| waiting.due);
                (*first, due)
            }),
        };
        if subject.waiting.is_empty() && subject.on_way.is_none() && subject.next.is_none() {
            self.subjects.remove(&hash);
            return;
        }
        if next == subject.next {
            return;
        }
        match subject.next {
            Some((id, Some(due))) => {
                self.pausing.remove(&(due, id));
                self.ready.remove(&id);
            }
            Some((id, None)) => {
                self.ready.remove(&id);
            }
            None => {}
        }
        match next {
            Some((id, Some(due))) => {
                self.pausing.insert((due, id));
            }
            Some((id, None)) => {
                self.ready.insert(id);
            }
            None => {}
        }
        subject.next = next;
        if subject.waiting.is_empty() && subject.on_way.is_none() {
            self.subjects.remove(&hash);
        }
    }

    /// Whether an item may be sent now, by order, pauses, free places and spacing.
    pub fn has_next(&mut self, now: Now) -> bool {
        while let Some((due, id)) = self.pausing.first().copied()
            && due <= now.steady
        {
            self.pausing.remove(&(due, id));
            self.ready.insert(id);
        }
        !self.ready.is_empty() && self.pace.may_begin(&self.bounds, now.steady)
    }

    /// Returns the next item to be sent, which is in flight from here on; `None` when none may be sent now.
    pub fn next(&mut self, now: Now) -> Option<I> {
        let (id, ()) = self.next_in_turn(now, |_, _| Some(()))?;
        Some(id)
    }

    /// Returns the next item, like [`Channel::next`], if `turn` grants it. `turn` gets the number of attempts in
    /// flight, and what is known of the receiver.
    pub fn next_in_turn<T>(
        &mut self,
        now: Now,
        turn: impl FnOnce(usize, ReceiverHealth) -> Option<T>,
    ) -> Option<(I, T)> {
        if !self.has_next(now) {
            return None;
        }
        let id = *self.ready.first()?;
        let hash = self.waiting.get(&id)?.subject;
        let subject = self.subjects.get_mut(&hash)?;
        let turn = turn(self.pace.on_way(), self.pace.health())?;
        subject.on_way = Some(id);
        self.pace.begins(&self.bounds, now.steady);
        self.schedule(hash);
        self.ready.remove(&id);
        Some((id, turn))
    }

    /// When an item may be ready to be sent again, where no item may be sent now. An attempt that ends may make one
    /// ready sooner.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        let pause_ends = self.pausing.first().map(|(due, _)| *due);
        let held = || self.pace.held_until(&self.bounds);
        let may_begin = (!self.ready.is_empty()).then(held).flatten();
        pause_ends.into_iter().chain(may_begin).min()
    }

    /// Records the outcome of an attempt. `chance` is from 0 to 255. Returns `None` for an item that is not in
    /// flight.
    pub fn ended(
        &mut self,
        id: I,
        outcome: Result<(), &Failure>,
        now: Now,
        chance: u8,
    ) -> Option<Settled<P>> {
        let waiting = self.waiting.get_mut(&id)?;
        let hash = waiting.subject;
        let subject = self.subjects.get_mut(&hash)?;
        if subject.on_way != Some(id) {
            return None;
        }
        subject.on_way = None;
        self.pace.ends();
        let Err(failure) = outcome else {
            self.pace.record_success();
            return self.remove(id).map(|(payload, _)| Settled::Taken(payload));
        };
        self.pace.record_failure();
        waiting.attempts += 1;
        if std::mem::take(&mut waiting.is_hurried) {
            waiting.due = None;
        } else {
            let pause = pause(waiting.attempts, chance, failure.retry_after);
            let Some(pause) = pause.map(|pause| pause / self.bounds.hurry) else {
                let removed = self.remove(id);
                return removed.map(|(payload, attempts)| Settled::Dead { payload, attempts });
            };
            waiting.due = Some(now.steady + pause);
        }
        self.unrecorded.insert(id);
        self.schedule(hash);
        Some(Settled::Waits)
    }

    /// Sets what is known of the receiver otherwise than from the outcome of its newest attempt: from the log, or from
    /// how long that attempt has taken. The next outcome replaces it.
    pub fn set_health(&mut self, health: ReceiverHealth) {
        self.pace.set_health(health);
    }

    /// Records that an attempt was abandoned without an outcome: the item waits as before.
    pub fn abandoned(&mut self, id: I) {
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        let hash = waiting.subject;
        if let Some(subject) = self.subjects.get_mut(&hash)
            && subject.on_way == Some(id)
        {
            subject.on_way = None;
            waiting.is_hurried = false;
            self.pace.ends();
            self.schedule(hash);
        }
    }

    /// Removes an item; returns its payload and the number of its failed attempts.
    pub fn remove(&mut self, id: I) -> Option<(P, u32)> {
        let waiting = self.waiting.remove(&id)?;
        self.cost -= waiting.cost;
        self.unrecorded.remove(&id);
        if waiting.is_recorded {
            self.settled.push(id);
        }
        if let Some(subject) = self.subjects.get_mut(&waiting.subject) {
            subject.waiting.remove(&id);
            if subject.on_way == Some(id) {
                subject.on_way = None;
                self.pace.ends();
            }
        }
        self.schedule(waiting.subject);
        Some((waiting.payload, waiting.attempts))
    }

    /// Removes an item whose attempt, under way still, says nothing of the receiver; `None` if it is not in flight.
    pub fn remove_in_flight(&mut self, id: I) -> Option<(P, u32)> {
        let subject = self.subjects.get(&self.waiting.get(&id)?.subject)?;
        (subject.on_way == Some(id)).then(|| self.remove(id))?
    }

    /// Makes a waiting item due at once, or one in flight once its attempt has failed. Returns whether it waits.
    pub fn hurry(&mut self, id: I) -> bool {
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return false;
        };
        waiting.due = None;
        let hash = waiting.subject;
        let subject = self.subjects.get(&hash);
        waiting.is_hurried = subject.is_some_and(|subject| subject.on_way == Some(id));
        self.unrecorded.insert(id);
        self.schedule(hash);
        true
    }

    /// Whether the channel may take in more items.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.bounds.waiting_max && self.cost < self.bounds.waiting_bytes_max
    }

    /// Returns the payload of a waiting item.
    #[must_use]
    pub fn payload(&self, id: I) -> Option<&P> {
        self.waiting.get(&id).map(|waiting| &waiting.payload)
    }

    /// Returns the payload of a waiting item, to be changed.
    pub fn payload_mut(&mut self, id: I) -> Option<&mut P> {
        self.waiting
            .get_mut(&id)
            .map(|waiting| &mut waiting.payload)
    }

    /// Returns what the log is to store of a waiting item.
    #[must_use]
    pub fn retry_state(&self, id: I, now: Now) -> Option<RetryState> {
        self.waiting.get(&id).map(|waiting| RetryState {
            attempts: waiting.attempts,
            due: waiting.due.map(|due| now.wall_at(due)),
            asked: None,
        })
    }

    /// Marks the ends of all pauses for recording, after the wall clock was set: the log is to store them by the new
    /// time.
    pub fn wall_clock_was_set(&mut self, now: Now) {
        for (id, waiting) in &self.waiting {
            if waiting.due.is_some_and(|due| due > now.steady) {
                self.unrecorded.insert(*id);
            }
        }
    }

    /// Iterates over the waiting items in their order, including those in flight.
    pub fn waiting(&self) -> impl Iterator<Item = (I, &P)> {
        self.waiting
            .iter()
            .map(|(id, waiting)| (*id, &waiting.payload))
    }

    /// Number of waiting items, including those in flight.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the first waiting item.
    #[must_use]
    pub fn oldest(&self) -> Option<I> {
        self.waiting.first_key_value().map(|(id, _)| *id)
    }

    /// Sets the time of an item's payload: the item counts as waiting since then.
    pub fn set_time(&mut self, id: I, at: Timestamp) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.born = Some(at);
        }
    }

    /// Returns the first waiting item if the time of its payload is not known.
    #[must_use]
    pub fn oldest_undated(&self) -> Option<I> {
        let (id, oldest) = self.waiting.first_key_value()?;
        oldest.born.is_none().then_some(*id)
    }

    /// Since when the first item waits, by the wall clock as it is set now: since the time of its payload, but at the
    /// latest since the channel took it in.
    #[must_use]
    pub fn waits_since(&self, now: Now) -> Option<Timestamp> {
        let (_, oldest) = self.waiting.first_key_value()?;
        let seen = now.wall_at(oldest.seen);
        Some(oldest.born.map_or(seen, |born| born.min(seen)))
    }

    /// Number of items that could be sent at once, as far as order and pauses go.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether the newest attempt has failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.pace.is_failing()
    }

    /// Takes the changes that the log does not record yet. They count as recorded from here on; if recording them
    /// fails, [`Channel::not_recorded`] reverts that.
    pub fn take_unrecorded(&mut self) -> Unrecorded<I> {
        let waiting: Vec<_> = std::mem::take(&mut self.unrecorded).into_iter().collect();
        for id in &waiting {
            if let Some(waiting) = self.waiting.get_mut(id) {
                waiting.is_recorded = true;
            }
        }
        Unrecorded {
            waiting,
            settled: std::mem::take(&mut self.settled),
        }
    }

    /// Whether the log records all changes of the channel.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.unrecorded.is_empty() && self.settled.is_empty()
    }

    /// Reverts [`Channel::take_unrecorded`], whose changes were not recorded, or perhaps not.
    pub fn not_recorded(&mut self, unrecorded: Unrecorded<I>) {
        for id in unrecorded.waiting {
            if self.waiting.contains_key(&id) {
                self.unrecorded.insert(id);
            }
        }
        self.settled.extend(unrecorded.settled);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::schedule::PAUSES;
    use super::*;

    const NONE: [u64; 0] = [];

    fn failed(retry_after: Option<u64>) -> Failure {
        Failure {
            status: Some(500),
            error: "it answered 500".into(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn at(seconds: u64) -> Now {
        Now {
            steady: Duration::from_secs(seconds),
            ..set_to(i64::try_from(seconds).unwrap() * 1_000)
        }
    }

    /// The start of the steady clock, with the wall clock and the time of the last commit both at `wall`.
    fn set_to(wall: i64) -> Now {
        Now {
            steady: Duration::ZERO,
            wall: Timestamp::from_millis(wall),
            committed: Timestamp::from_millis(wall),
        }
    }

    fn channel(of: &[(u64, &str)]) -> Channel<u64, ()> {
        let mut channel = Channel::new(Bounds::default());
        for (id, subject) in of {
            channel.offer(*id, subject, 1, (), at(0));
        }
        channel
    }

    fn sent(channel: &mut Channel<u64, ()>, seconds: u64) -> Vec<u64> {
        std::iter::from_fn(|| channel.next(at(seconds))).collect()
    }

    #[test]
    fn an_item_waits_only_for_the_previous_one_of_the_same_subject() {
        let mut channel = channel(&[(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "c")]);
        assert_eq!(sent(&mut channel, 0), [1, 3, 5]);
        assert_eq!(channel.ended(3, Ok(()), at(0), 0), Some(Settled::Taken(())));
        assert_eq!(sent(&mut channel, 0), NONE);
        let fails = failed(None);
        assert_eq!(
            channel.ended(1, Err(&fails), at(1), 0),
            Some(Settled::Waits)
        );
        assert_eq!(
            sent(&mut channel, 5),
            NONE,
            "the second waits for the first"
        );
        assert_eq!(channel.wake_at(), Some(Duration::from_secs(6)));
        assert_eq!(sent(&mut channel, 6), [1]);
        assert_eq!(channel.ended(1, Ok(()), at(7), 0), Some(Settled::Taken(())));
        assert_eq!(sent(&mut channel, 7), [2]);
        assert_eq!(channel.ended(2, Ok(()), at(7), 0), Some(Settled::Taken(())));
        assert_eq!(sent(&mut channel, 7), [4]);
        channel.ended(4, Ok(()), at(7), 0);
        channel.ended(5, Ok(()), at(7), 0);
        assert_eq!(channel.waiting_count(), 0);
        assert!(
            channel.subjects.is_empty(),
            "nothing stays of what is taken"
        );
        assert_eq!((channel.cost, channel.pace.on_way()), (0, 0));
    }

    #[test]
    fn pauses_are_those_of_the_schedule_and_the_tenth_failure_is_the_last() {
        let mut channel = channel(&[(1, "a"), (2, "a")]);
        let fails = failed(None);
        let mut now = 0;
        for pause in [5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 50_400] {
            assert_eq!(sent(&mut channel, now), [1]);
            assert_eq!(
                channel.ended(1, Err(&fails), at(now), 0),
                Some(Settled::Waits)
            );
            assert_eq!(sent(&mut channel, now + pause - 1), NONE);
            now += pause;
        }
        assert_eq!(sent(&mut channel, now), [1]);
        let dead = channel.ended(1, Err(&fails), at(now), 0);
        assert_eq!(
            dead,
            Some(Settled::Dead {
                payload: (),
                attempts: 10
            })
        );
        assert_eq!(
            sent(&mut channel, now),
            [2],
            "what is dead is waited for no more"
        );
    }

    #[test]
    fn a_pause_grows_by_jitter_up_to_a_fifth_and_on_request_up_to_an_hour() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(1, 0, None), Some(5 * second));
        assert_eq!(pause(1, 255, None), Some(6 * second));
        assert_eq!(pause(9, 255, None), Some(60_480 * second));
        assert_eq!(pause(10, 0, None), None);
        assert_eq!(pause(0, 0, None), None);
        assert_eq!(pause(1, 0, Some(50 * second)), Some(50 * second));
        assert_eq!(
            pause(1, 0, Some(2 * second)),
            Some(5 * second),
            "the later of both"
        );
        assert_eq!(pause(1, 0, Some(86_400 * second)), Some(3_600 * second));
        assert_eq!(pause(6, 0, Some(86_400 * second)), Some(7_200 * second));
    }

    #[test]
    fn items_in_flight_are_bounded_and_fewer_while_the_receiver_fails() {
        let mut channel = Channel::new(Bounds::default());
        for id in 0..100 {
            channel.offer(id, &id.to_string(), 1, (), at(0));
        }
        // No outcome says yet that the receiver takes items.
        assert_eq!(sent(&mut channel, 0), [0, 1, 2, 3]);
        channel.ended(0, Ok(()), at(0), 0);
        assert_eq!(sent(&mut channel, 0).len(), 29);
        for id in 1..33 {
            channel.ended(id, Err(&failed(None)), at(0), 0);
        }
        assert_eq!(sent(&mut channel, 0).len(), 4);
        channel.ended(33, Ok(()), at(0), 0);
        assert_eq!(sent(&mut channel, 0).len(), 29);
    }

    #[test]
    fn attempts_at_a_failing_receiver_are_spaced_until_one_is_taken() {
        let millis = |millis| Now {
            steady: Duration::from_millis(millis),
            ..at(0)
        };
        let mut channel = Channel::new(Bounds::default());
        for id in 0..200 {
            channel.offer(id, &id.to_string(), 1, (), at(0));
        }
        let fails = failed(None);
        for id in 0..64 {
            assert_eq!(channel.next(millis(0)), Some(id));
            channel.ended(id, Err(&fails), millis(0), 0);
        }
        for (now, id) in [(100, 64), (200, 65)] {
            assert_eq!(channel.next(millis(now - 1)), None);
            assert_eq!(channel.wake_at(), Some(Duration::from_millis(now)));
            assert_eq!(channel.next(millis(now)), Some(id));
            assert_eq!(channel.next(millis(now)), None);
        }
        // A receiver all of whose places are taken needs no wake-up before an attempt ends or a pause is over.
        assert_eq!(channel.next(millis(300)), Some(66));
        assert_eq!(channel.next(millis(400)), Some(67));
        assert_eq!(channel.wake_at(), Some(Duration::from_secs(5)));
        assert_eq!(channel.next(millis(500)), None);
        channel.ended(64, Err(&fails), millis(500), 0);
        assert_eq!(channel.next(millis(500)), Some(68));
        channel.ended(65, Ok(()), millis(500), 0);
        assert_eq!(
            sent(&mut channel, 1).len(),
            29,
            "all that may be on its way"
        );
    }

    #[test]
    fn a_channel_has_room_up_to_its_bounds() {
        let bounds = Bounds {
            waiting_max: 3,
            waiting_bytes_max: 100,
            ..Bounds::default()
        };
        let mut channel = Channel::new(bounds);
        for id in 0..2 {
            channel.offer(id, "a", 1, (), at(0));
            assert!(channel.has_room());
        }
        channel.offer(2, "a", 1, (), at(0));
        assert!(!channel.has_room());
        channel.remove(1);
        assert!(channel.has_room());
        channel.offer(3, "a", 98, (), at(0));
        channel.remove(2);
        assert!(channel.has_room());
        channel.offer(4, "a", 1, (), at(0));
        channel.remove(0);
        channel.offer(5, "a", 1, (), at(0));
        assert!(!channel.has_room(), "as many bytes as may be");
    }

    /// Returns how long an item with one failed attempt pauses that is due `due` after the last commit, where the
    /// wall clock is `behind` that commit.
    fn pause_left(due: i64, behind: i64, asked: Option<Duration>) -> (Channel<u64, ()>, Duration) {
        const YEAR: i64 = 365 * 86_400_000;
        let mut channel = Channel::new(Bounds::default());
        let retry_state = RetryState {
            attempts: 1,
            due: Some(Timestamp::from_millis(YEAR + due)),
            asked,
        };
        let now = Now {
            committed: Timestamp::from_millis(YEAR),
            ..set_to(YEAR - behind)
        };
        channel.resume(1, "a", 1, (), &retry_state, now);
        let left = channel.wake_at().unwrap_or_default();
        assert_eq!(channel.next(now).is_some(), left == Duration::ZERO);
        (channel, left)
    }

    #[test]
    fn a_wall_clock_that_was_set_makes_no_pause_longer_than_the_schedule() {
        let (second, hour) = (Duration::from_secs(1), 3_600_000);
        let left = |due, behind| pause_left(due, behind, None).1;
        for behind in [1_000, hour, 24 * hour, 364 * 24 * hour] {
            // The item was due 5 s after its failure; the log may have gone on since.
            for due in [5_000, 1_000, 0, -hour / 2] {
                assert!(left(due, behind) <= 6 * second, "{due} {behind}");
            }
        }
        assert_eq!(left(5_000, 24 * hour), 6 * second);
        assert_eq!(left(5_000, 0), 5 * second);
        assert_eq!(left(5_000, -1_000), 4 * second);
        assert_eq!(left(5_000, -24 * hour), Duration::ZERO);
        // An end further ahead than any pause is not believed, either.
        assert_eq!(left(24 * hour, 0), 3_600 * second);
    }

    #[test]
    fn a_pause_that_the_receiver_asked_for_is_kept_by_a_clock_that_was_set() {
        let (second, hour) = (Duration::from_secs(1), 3_600_000);
        let left = |due, behind, asked| pause_left(due, behind, asked).1;
        // Only a pause that the receiver asked for can have been longer than the schedule when it was recorded.
        assert_eq!(left(600_000, 0, None), 600 * second);
        assert_eq!(left(600_000, 50, None), 600 * second);
        assert_eq!(left(600_000, 24 * hour, None), 600 * second);
        // A pause recorded after the clock was set looks like one recorded before, unless the receiver's request is
        // known.
        assert_eq!(left(600_000 - hour, hour, None), 6 * second);
        let asked = Some(600 * second);
        assert_eq!(left(600_000 - hour, hour, asked), 600 * second);
        assert_eq!(left(24 * hour, 0, Some(Duration::ZERO)), 6 * second);
    }

    #[test]
    fn a_pause_is_recorded_with_its_real_end_even_if_the_wall_clock_is_set() {
        let day = 86_400_000;
        let (mut resumed, left) = pause_left(5_000, day, None);
        assert_eq!(left, Duration::from_secs(6));
        // The shortened pause is to be recorded.
        assert_eq!(resumed.take_unrecorded().waiting, [1]);
        let retry_state = resumed.retry_state(1, set_to(day)).unwrap();
        assert_eq!(retry_state.due, Some(Timestamp::from_millis(day + 6_000)));
        assert!(pause_left(5_000, 0, None).0.is_recorded());

        let mut channel = channel(&[(1, "a"), (2, "b"), (3, "c")]);
        assert_eq!(sent(&mut channel, 0), [1, 2, 3]);
        channel.ended(1, Err(&failed(None)), at(0), 0);
        channel.ended(3, Err(&failed(Some(60))), at(0), 0);
        channel.take_unrecorded();
        // At 10 s of the steady clock, with the wall clock set back by a day.
        let now = Now {
            steady: Duration::from_secs(10),
            ..set_to(10_000 - day)
        };
        channel.wall_clock_was_set(now);
        assert_eq!(channel.take_unrecorded().waiting, [3]);
        let retry_state = channel.retry_state(3, now).unwrap();
        assert_eq!(retry_state.due, Some(Timestamp::from_millis(60_000 - day)));
    }

    #[test]
    fn an_item_waits_since_its_own_time_and_at_least_since_it_was_taken_in() {
        let mut channel = channel(&[]);
        assert_eq!(channel.waits_since(at(100)), None);
        let retry_state = RetryState {
            attempts: 0,
            due: None,
            asked: None,
        };
        channel.resume(1, "a", 1, (), &retry_state, at(100));
        channel.offer(2, "a", 1, (), at(110));
        assert_eq!(channel.waits_since(at(130)), Some(at(100).wall));
        assert_eq!(channel.oldest_undated(), Some(1));
        channel.set_time(1, at(40).wall);
        assert_eq!(channel.oldest_undated(), None);
        assert_eq!(channel.waits_since(at(130)), Some(at(40).wall));
        // The event's time lies ahead of a clock that was set back.
        channel.set_time(1, at(4_000).wall);
        assert_eq!(channel.waits_since(at(130)), Some(at(100).wall));
        channel.remove(1);
        assert_eq!(channel.waits_since(at(130)), Some(at(110).wall));
    }

    #[test]
    fn one_that_comes_back_from_the_dead_goes_before_those_behind_it() {
        let mut channel = channel(&[(2, "a"), (3, "a")]);
        assert_eq!(sent(&mut channel, 0), [2]);
        let retry_state = RetryState {
            attempts: 0,
            due: None,
            asked: None,
        };
        channel.resume(1, "a", 1, (), &retry_state, at(0));
        assert_eq!(sent(&mut channel, 0), NONE, "one of a subject at a time");
        channel.ended(2, Ok(()), at(0), 0);
        assert_eq!(sent(&mut channel, 0), [1]);
        channel.ended(1, Err(&failed(None)), at(0), 0);
        assert_eq!(sent(&mut channel, 0), NONE);
        assert!(channel.hurry(1));
        assert_eq!(sent(&mut channel, 0), [1]);
        assert!(!channel.hurry(9));
        channel.abandoned(1);
        assert_eq!(sent(&mut channel, 0), [1]);
    }

    #[test]
    fn one_that_is_hurried_is_due_at_once_and_recorded_so() {
        let mut channel = channel(&[(1, "a")]);
        assert_eq!(sent(&mut channel, 0), [1]);
        channel.ended(1, Err(&failed(None)), at(0), 0);
        assert_eq!(channel.take_unrecorded().waiting, [1]);
        assert!(channel.is_recorded());
        assert!(channel.hurry(1));
        let retry_state = RetryState {
            attempts: 1,
            due: None,
            asked: None,
        };
        assert_eq!(channel.retry_state(1, at(0)), Some(retry_state));
        assert_eq!(channel.take_unrecorded().waiting, [1]);
    }

    #[test]
    fn one_that_is_hurried_while_it_is_on_its_way_is_tried_once_more_at_once() {
        for attempts in [0, 9] {
            let mut channel = Channel::new(Bounds::default());
            let retry_state = RetryState {
                attempts,
                due: None,
                asked: None,
            };
            channel.resume(1, "a", 1, (), &retry_state, at(0));
            assert_eq!(sent(&mut channel, 0), [1]);
            assert!(channel.hurry(1));
            assert_eq!(sent(&mut channel, 0), NONE, "it is on its way");
            let ended = channel.ended(1, Err(&failed(Some(60))), at(0), 0);
            assert_eq!(ended, Some(Settled::Waits));
            assert_eq!(channel.take_unrecorded().waiting, [1]);
            assert_eq!(sent(&mut channel, 0), [1]);
            // The hurry does not last for ever.
            channel.ended(1, Err(&failed(None)), at(0), 0);
            assert_eq!(sent(&mut channel, 0), NONE);
        }
    }

    #[test]
    fn a_receiver_that_has_failed_before_a_start_is_failing_after_it() {
        let mut channel = Channel::new(Bounds::default());
        let retry_state = |attempts| RetryState {
            attempts,
            due: None,
            asked: None,
        };
        channel.resume(1, "a", 1, (), &retry_state(0), at(0));
        assert!(!channel.is_failing());
        channel.resume(2, "b", 1, (), &retry_state(3), at(0));
        assert!(channel.is_failing());
        assert_eq!(sent(&mut channel, 0), [1, 2]);
        channel.ended(2, Ok(()), at(0), 0);
        assert!(!channel.is_failing());
    }

    #[test]
    fn an_item_settled_while_unrecorded_no_longer_waits() {
        let mut channel = channel(&[(1, "a"), (2, "b")]);
        let unrecorded = channel.take_unrecorded();
        assert_eq!(unrecorded.waiting, [1, 2]);
        assert_eq!(sent(&mut channel, 0), [1, 2]);
        channel.ended(1, Ok(()), at(0), 0);
        channel.not_recorded(unrecorded);
        let next = channel.take_unrecorded();
        assert_eq!((next.waiting, next.settled), (vec![2], vec![1]));
    }

    /// What the log records of a channel.
    #[derive(Clone, Default)]
    struct Recorded {
        examined: u64,
        waiting: BTreeMap<u64, RetryState>,
    }

    /// The real outcome of each item, as the receiver and the log know it.
    #[derive(Default)]
    struct Truth {
        taken: BTreeMap<u64, u32>,
        dead: BTreeSet<u64>,
        failed: BTreeMap<u64, u32>,
        /// When each item was last sent and failed, and its failed attempts.
        failed_at: BTreeMap<u64, (u64, u32)>,
    }

    fn subject(id: u64) -> String {
        (id % 7).to_string()
    }

    /// Runs a channel, its log and its receiver through random steps.
    fn run(seed: u64, steps: u32) {
        const LAST: u64 = 120;
        let mut random = SmallRng::seed_from_u64(seed);
        let bounds = Bounds {
            on_way_max: 4,
            on_way_doubtful_max: 2,
            waiting_max: 40,
            waiting_bytes_max: 1_000,
            hurry: 1,
        };
        let mut now = 1_000_000;
        let mut channel = Channel::<u64, u64>::new(bounds);
        let (mut log, mut truth) = (Recorded::default(), Truth::default());
        let mut examined = 0;
        let mut on_way = BTreeSet::new();
        // Items taken since the last recording, which may be delivered again after a crash.
        let mut open = BTreeSet::new();
        let record = |channel: &mut Channel<u64, u64>, log: &mut Recorded, examined, now| {
            let unrecorded = channel.take_unrecorded();
            for id in &unrecorded.waiting {
                if let Some(retry_state) = channel.retry_state(*id, at(now)) {
                    log.waiting.insert(*id, retry_state);
                }
            }
            for id in &unrecorded.settled {
                log.waiting.remove(id);
            }
            log.examined = examined;
        };
        for step in 0..steps {
            let may_fail = step < steps / 2;
            match random.random_range(0..12) {
                0..=2 if examined < LAST && channel.has_room() => {
                    examined += 1;
                    channel.offer(examined, &subject(examined), 10, examined, at(now));
                }
                3..=5 => {
                    if let Some(id) = channel.next(at(now)) {
                        assert_eq!(channel.payload(id), Some(&id));
                        assert!(on_way.insert(id), "{id} is sent once at a time");
                        assert!(on_way.len() <= 4);
                        for other in (1..id).filter(|other| other % 7 == id % 7) {
                            assert!(
                                truth.taken.contains_key(&other) || truth.dead.contains(&other),
                                "{id} is sent before {other} was taken or dead"
                            );
                        }
                        if let Some((when, attempts)) = truth.failed_at.get(&id) {
                            let least = PAUSES[usize::try_from(*attempts - 1).unwrap()];
                            assert!(now >= when + least.as_secs(), "{id} is sent too early");
                        }
                        if truth.taken.contains_key(&id) {
                            assert!(open.contains(&id), "{id} was taken, and the log knew");
                        }
                    }
                }
                6..=8 => {
                    let Some(id) = on_way.iter().copied().nth(random.random_range(0..4)) else {
                        continue;
                    };
                    on_way.remove(&id);
                    open.insert(id);
                    if may_fail && random.random_bool(0.6) {
                        let attempts = truth.failed.entry(id).or_default();
                        *attempts += 1;
                        match channel.ended(id, Err(&failed(None)), at(now), random.random()) {
                            Some(Settled::Waits) => {
                                let attempts = channel.retry_state(id, at(now)).unwrap().attempts;
                                truth.failed_at.insert(id, (now, attempts));
                            }
                            Some(Settled::Dead { payload, attempts }) => {
                                assert_eq!((payload, attempts), (id, 10));
                                truth.dead.insert(id);
                                truth.failed_at.remove(&id);
                                // A dead item is recorded at once.
                                record(&mut channel, &mut log, examined, now);
                                open.retain(|id| *id > examined || channel.payload(*id).is_some());
                            }
                            other => panic!("{other:?}"),
                        }
                    } else {
                        *truth.taken.entry(id).or_default() += 1;
                        truth.failed_at.remove(&id);
                        let settled = channel.ended(id, Ok(()), at(now), 0);
                        assert_eq!(settled, Some(Settled::Taken(id)));
                    }
                }
                9 => {
                    record(&mut channel, &mut log, examined, now);
                    // An item that waits and was taken before a crash may still be delivered again.
                    open.retain(|id| *id > examined || channel.payload(*id).is_some());
                    assert!(channel.is_recorded());
                }
                10 if random.random_bool(0.2) => {
                    // A crash: items in flight may or may not be taken.
                    for id in std::mem::take(&mut on_way) {
                        open.insert(id);
                        if random.random() {
                            *truth.taken.entry(id).or_default() += 1;
                        }
                    }
                    channel = Channel::new(bounds);
                    examined = log.examined;
                    for (id, retry_state) in &log.waiting {
                        let waits = subject(*id);
                        channel.resume(*id, &waits, 10, *id, retry_state, at(now));
                    }
                    // Pauses that the log does not record are forgotten.
                    truth.failed_at.retain(|id, (_, attempts)| {
                        let known = log.waiting.get(id);
                        known.is_some_and(|retry_state| retry_state.attempts == *attempts)
                    });
                }
                _ => {
                    now += match random.random_range(0..3) {
                        0 => 1,
                        1 => 60,
                        _ => channel
                            .wake_at()
                            .map_or(1, |wake| wake.as_secs().saturating_sub(now) + 1),
                    };
                }
            }
        }
        // Nothing fails any more: all items get through.
        for _ in 0..100_000 {
            while examined < LAST && channel.has_room() {
                examined += 1;
                channel.offer(examined, &subject(examined), 10, examined, at(now));
            }
            while let Some(id) = channel.next(at(now)) {
                on_way.insert(id);
            }
            for id in std::mem::take(&mut on_way) {
                *truth.taken.entry(id).or_default() += 1;
                channel.ended(id, Ok(()), at(now), 0);
            }
            now += 1_000;
            if examined == LAST && channel.waiting_count() == 0 {
                break;
            }
        }
        for id in 1..=LAST {
            assert!(
                truth.taken.contains_key(&id) || truth.dead.contains(&id),
                "{id} never came"
            );
        }
        assert!(channel.subjects.is_empty() && channel.pausing.is_empty());
        assert!(channel.ready.is_empty() && channel.cost == 0);
    }

    #[test]
    fn all_items_come_in_order_repeats_bounded_despite_faults_and_crashes() {
        let seed = crate::base::testing::seed();
        let rounds: u64 = std::env::var("ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
        for round in 0..rounds {
            run(seed.wrapping_add(round), 3_000);
        }
    }
}
