//! The messages for one receiver: a channel of the waiting ones, and the dead ones.
//!
//! The committed state of a message is authoritative; the channel decides which message is sent next. While an
//! attempt is in flight, changes of its message are held back until it is over, so that the next message about the
//! same resource does not overtake it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::time::Timestamp;
use crate::domain::outbox::message::{Message, MessageStatus};
use crate::engine::channel::schedule::Failure;
use crate::engine::channel::{Bounds, Channel, Now, RetryState, Settled};

/// The messages for one receiver.
pub(in crate::engine) struct Queue {
    channel: Channel<i64, Waiting>,
    /// Creation time of each dead message, and when it was first seen, by the steady clock.
    dead: BTreeMap<i64, (Timestamp, Duration)>,
}

/// Data about a message that the log does not store.
#[derive(Clone, Copy, Default)]
struct Beside {
    /// How long a pause the receiver asked for.
    asked: Option<Duration>,
    /// When the message was first seen, by the steady clock; `None` where the queue knows the time, or the message is
    /// new.
    seen: Option<Duration>,
}

/// A waiting message.
#[derive(Debug)]
struct Waiting {
    /// Position of the message's last commit, which must be durable before the message is sent.
    position: u64,
    born: Timestamp,
    /// When the message was first seen, by the steady clock.
    seen: Duration,
    is_on_its_way: bool,
    /// Newest change of the message during the attempt in flight, with its position.
    since: Option<(u64, Box<Message>)>,
}

/// A message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Next {
    pub(in crate::engine) number: i64,
    pub(in crate::engine) position: u64,
}

impl Queue {
    /// Creates an empty queue.
    pub(in crate::engine) fn new(bounds: Bounds) -> Self {
        Self {
            channel: Channel::new(bounds),
            dead: BTreeMap::new(),
        }
    }

    /// Takes the message as the commit at `position` has left it.
    pub(in crate::engine) fn put(&mut self, position: u64, message: &Message, now: Now) {
        self.put_knowing(position, message, Beside::default(), now);
    }

    /// Takes the message like [`Queue::put`], with data that the log does not store.
    fn put_knowing(&mut self, position: u64, message: &Message, beside: Beside, now: Now) {
        let number = message.number;
        let mut seen = beside.seen;
        match self.channel.payload_mut(number) {
            Some(known) if known.position > position => return,
            Some(known) if known.is_on_its_way => {
                known.position = position;
                known.since = Some((position, Box::new(message.clone())));
                return;
            }
            Some(known) => {
                seen = Some(known.seen);
                self.channel.remove(number);
            }
            None => {}
        }
        let dead = self.dead.remove(&number).map(|(_, seen)| seen);
        let seen = seen.or(dead).unwrap_or(now.steady);
        match (&message.unsettled, message.status) {
            (Some(unsettled), MessageStatus::Waiting) => {
                let waiting = Waiting {
                    position,
                    born: unsettled.at,
                    seen,
                    is_on_its_way: false,
                    since: None,
                };
                let retry_state = RetryState {
                    attempts: unsettled.tried,
                    due: unsettled.next_attempt_at,
                    asked: beside.asked,
                };
                let subject = &message.resource;
                self.channel
                    .resume(number, subject, 0, waiting, &retry_state, now);
            }
            (Some(unsettled), _) => {
                self.dead.insert(number, (unsettled.at, seen));
            }
            (None, _) => {}
        }
        // The log already stores all of this.
        self.channel.take_unrecorded();
    }

    /// Returns the next message that may be sent, which is in flight from here on.
    pub(in crate::engine) fn next(&mut self, now: Now) -> Option<Next> {
        let number = self.channel.next(now)?;
        let waiting = self.channel.payload_mut(number)?;
        waiting.is_on_its_way = true;
        Some(Next {
            number,
            position: waiting.position,
        })
    }

    /// Records the end of an attempt; the resulting state of its message was put before. `outcome` is `None` when
    /// there was nothing to send.
    pub(in crate::engine) fn ended(
        &mut self,
        number: i64,
        outcome: Option<Result<(), &Failure>>,
        now: Now,
    ) {
        let asked = match outcome {
            Some(Err(failure)) => Some(failure.retry_after.unwrap_or_default()),
            Some(Ok(())) | None => None,
        };
        let settled = match outcome {
            Some(outcome) => self.channel.ended(number, outcome, now, 0),
            None => {
                self.channel.abandoned(number);
                None
            }
        };
        let (since, seen) = match settled {
            Some(
                Settled::Taken(waiting)
                | Settled::Dead {
                    payload: waiting, ..
                },
            ) => (waiting.since, Some(waiting.seen)),
            Some(Settled::Waits) | None => {
                let waiting = self.channel.payload_mut(number);
                let since = waiting.and_then(|waiting| {
                    waiting.is_on_its_way = false;
                    waiting.since.take()
                });
                (since, None)
            }
        };
        if let Some((position, message)) = since {
            self.put_knowing(position, &message, Beside { asked, seen }, now);
        }
    }

    /// Returns when a waiting message with `tried` attempts is tried next, by the wall clock as it is set now; `None`
    /// where that is at once, or the message does not wait with that many attempts.
    pub(super) fn due(&self, number: i64, tried: u32, now: Now) -> Option<Timestamp> {
        let retry_state = self.channel.retry_state(number, now)?;
        retry_state.due.filter(|_| retry_state.attempts == tried)
    }

    /// Returns when the next pause ends.
    pub(in crate::engine) fn wake_at(&self) -> Option<Duration> {
        self.channel.wake_at()
    }

    /// Number of waiting messages.
    pub(super) fn waiting(&self) -> usize {
        self.channel.waiting_count()
    }

    /// Number of dead messages.
    pub(super) fn dead(&self) -> usize {
        self.dead.len()
    }

    /// Whether the newest attempt has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.channel.is_failing()
    }

    /// Returns the age of the oldest message, waiting or dead.
    pub(super) fn oldest_age(&self, now: Now) -> Duration {
        let first = self.channel.oldest();
        let waiting = first.and_then(|number| self.channel.payload(number));
        let waiting = waiting.map(|waiting| now.age(waiting.born, waiting.seen));
        let dead = self.dead.first_key_value();
        let dead = dead.map(|(_, (born, seen))| now.age(*born, *seen));
        waiting.into_iter().chain(dead).max().unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::codec::Blob;
    use crate::base::revision::Revision;
    use crate::domain::outbox::message::Unsettled;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn message(number: i64, resource: &str, due: Option<i64>) -> Message {
        Message {
            number,
            revision: Revision::FIRST,
            topic: "a.b".into(),
            resource: resource.into(),
            reference: None,
            status: MessageStatus::Waiting,
            attempts: 0,
            unsettled: Some(Unsettled {
                log_id: [0; 16],
                // The message is older than the queue's knowledge of it.
                at: at(number - 100),
                body: Blob(Vec::new()),
                tried: u32::from(due.is_some()),
                next_attempt_at: due.map(at),
                last_failure: None,
            }),
        }
    }

    fn settled(message: &Message, status: MessageStatus) -> Message {
        Message {
            status,
            unsettled: message
                .unsettled
                .clone()
                .filter(|_| status == MessageStatus::Dead),
            ..message.clone()
        }
    }

    fn now(millis: i64) -> Now {
        Now {
            steady: Duration::from_millis(millis.unsigned_abs()),
            wall: at(millis),
            committed: at(millis),
        }
    }

    fn queue(messages: &[&Message]) -> Queue {
        let mut queue = Queue::new(Bounds::default());
        for message in messages {
            queue.put(9, message, now(0));
        }
        queue
    }

    fn numbers(queue: &mut Queue, at: i64) -> Vec<i64> {
        let next = std::iter::from_fn(|| queue.next(now(at)));
        next.map(|next| next.number).collect()
    }

    fn failed() -> Failure {
        Failure {
            status: Some(500),
            error: "it answered 500".into(),
            retry_after: None,
        }
    }

    const NONE: [i64; 0] = [];

    #[test]
    fn a_message_waits_until_the_previous_one_of_its_resource_is_done_or_dead() {
        for status in [
            MessageStatus::Taken,
            MessageStatus::Skipped,
            MessageStatus::Dead,
        ] {
            let first = message(1, "a", None);
            let mut queue = queue(&[&message(2, "a", None), &first, &message(3, "b", None)]);
            assert_eq!(numbers(&mut queue, 10), [1, 3]);
            // The message was not taken, and is due later: the messages behind it wait, too.
            queue.put(10, &message(1, "a", Some(5_010)), now(10));
            queue.ended(1, Some(Err(&failed())), now(10));
            assert_eq!(queue.wake_at(), Some(Duration::from_millis(5_010)));
            assert_eq!(queue.next(now(5_009)), None);
            let again = queue.next(now(5_010)).unwrap();
            assert_eq!((again.number, again.position), (1, 10));
            queue.put(11, &settled(&first, status), now(5_010));
            assert_eq!(queue.next(now(5_010)), None, "its attempt is not over");
            queue.ended(1, Some(Ok(())), now(5_010));
            assert_eq!(queue.next(now(5_010)).unwrap().number, 2);
            let is_dead = status == MessageStatus::Dead;
            assert_eq!((queue.waiting(), queue.dead()), (2, usize::from(is_dead)));
            let oldest = Duration::from_millis(if is_dead { 5_109 } else { 5_108 });
            assert_eq!(queue.oldest_age(now(5_010)), oldest);
        }
    }

    #[test]
    fn a_retried_message_precedes_later_ones_of_its_resource() {
        let dead = message(1, "a", None);
        let mut queue = queue(&[
            &settled(&dead, MessageStatus::Dead),
            &message(2, "a", Some(9)),
        ]);
        queue.put(10, &dead, now(0));
        assert_eq!(queue.dead(), 0);
        assert_eq!(numbers(&mut queue, 9), [1]);
    }

    #[test]
    fn a_message_skipped_during_an_attempt_is_not_sent_again_on_any_outcome() {
        for outcome in [Some(Ok(())), Some(Err(&failed())), None] {
            let first = message(1, "a", None);
            let mut queue = queue(&[&first, &message(2, "a", None)]);
            assert_eq!(numbers(&mut queue, 0), [1]);
            queue.put(10, &settled(&first, MessageStatus::Skipped), now(0));
            assert_eq!(numbers(&mut queue, 0), NONE);
            queue.ended(1, outcome, now(0));
            assert_eq!(numbers(&mut queue, 1 << 40), [2]);
            assert_eq!((queue.waiting(), queue.dead()), (1, 0));
        }
    }

    #[test]
    fn a_message_retried_during_its_pause_is_sent_at_once() {
        let mut queue = queue(&[&message(1, "a", Some(60_000))]);
        assert_eq!(numbers(&mut queue, 0), NONE);
        queue.put(10, &message(1, "a", None), now(0));
        assert_eq!(numbers(&mut queue, 0), [1]);
    }

    #[test]
    fn of_two_commits_the_later_counts_in_whatever_order_they_arrive() {
        let mut queue = queue(&[&message(1, "a", None)]);
        queue.put(8, &message(1, "a", Some(60_000)), now(0));
        assert_eq!(numbers(&mut queue, 0), [1]);
    }

    #[test]
    fn a_message_waiting_since_before_a_clock_set_back_follows_the_schedule() {
        let day = 86_400_000;
        let waits = message(1, "a", Some(day + 5_000));
        let set_back = |millis| Now {
            committed: at(day),
            ..now(millis)
        };
        let mut queue = Queue::new(Bounds::default());
        queue.put(9, &waits, set_back(0));
        assert_eq!(queue.wake_at(), Some(Duration::from_secs(6)));
        assert_eq!(queue.due(1, 1, set_back(0)), Some(at(6_000)));
        assert_eq!(queue.due(1, 2, set_back(0)), None, "it was tried since");
        // The attempt fails again, and the receiver asks for a pause while commits lie ahead of the clock.
        assert_eq!(queue.next(set_back(6_000)).unwrap().number, 1);
        let mut again = message(1, "a", Some(606_000));
        again.unsettled.as_mut().unwrap().tried = 2;
        queue.put(10, &again, set_back(6_000));
        let failure = Failure {
            retry_after: Some(Duration::from_secs(600)),
            ..failed()
        };
        queue.ended(1, Some(Err(&failure)), set_back(6_000));
        assert_eq!(queue.due(1, 2, set_back(6_000)), Some(at(606_000)));
    }

    #[test]
    fn a_message_grows_older_also_while_it_was_born_ahead_of_the_clock() {
        let later = |millis| Now {
            wall: at(millis - 86_400_000),
            ..now(millis)
        };
        let waits = message(1, "a", None);
        let mut queue = Queue::new(Bounds::default());
        queue.put(9, &waits, later(1_000));
        assert_eq!(queue.oldest_age(later(1_000)), Duration::ZERO);
        assert_eq!(queue.oldest_age(later(61_000)), Duration::from_secs(60));
        // The message has the same age when it was tried, and when it is dead.
        assert_eq!(queue.next(later(61_000)).unwrap().number, 1);
        queue.put(10, &message(1, "a", Some(61_000)), later(61_000));
        queue.ended(1, Some(Err(&failed())), later(61_000));
        assert_eq!(queue.oldest_age(later(62_000)), Duration::from_secs(61));
        queue.put(11, &settled(&waits, MessageStatus::Dead), later(62_000));
        assert_eq!(queue.dead(), 1);
        assert_eq!(queue.oldest_age(later(63_000)), Duration::from_secs(62));
        // The age by the wall clock counts where it is higher.
        assert_eq!(
            queue.oldest_age(now(86_400_000)),
            Duration::from_millis(86_400_099)
        );
    }

    #[test]
    fn only_so_many_attempts_are_on_their_way_at_once() {
        let messages: Vec<_> = (1..=40)
            .map(|number| message(number, &number.to_string(), None))
            .collect();
        let mut queue = queue(&messages.iter().collect::<Vec<_>>());
        let taken = |queue: &mut Queue, message: &Message| {
            queue.put(10, &settled(message, MessageStatus::Taken), now(0));
            queue.ended(message.number, Some(Ok(())), now(0));
        };
        let bounds = Bounds::default();
        // Few, until it is known that the receiver takes messages.
        let (few, most) = (bounds.on_way_doubtful_max, bounds.on_way_max);
        assert_eq!(numbers(&mut queue, 0).len(), few);
        taken(&mut queue, &messages[0]);
        assert_eq!(numbers(&mut queue, 0).len(), most - (few - 1));
        for message in &messages[1..=most] {
            taken(&mut queue, message);
        }
        assert_eq!(numbers(&mut queue, 0).len(), 40 - (most + 1));
    }
}
