//! The order in which messages go to one receiver.
//!
//! Of each resource the first message that waits is tried when it is due; those behind it wait until
//! it is settled or dead. So many attempts at most are on their way at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::digest::Digest;
use crate::base::time::Instant;
use crate::domain::outbox::message::{Message, MessageStatus};

/// Attempts that may be on their way to one receiver at once.
pub(super) const ON_THEIR_WAY: usize = 32;

/// The messages for one receiver.
#[derive(Default)]
pub(super) struct Queue {
    messages: BTreeMap<i64, Waiting>,
    resources: HashMap<Digest, About>,
    /// The first message of each resource that is not on its way, by when it is due.
    due: BTreeSet<(Instant, i64)>,
    dead: BTreeMap<i64, Instant>,
    on_their_way: usize,
}

/// A message that waits.
struct Waiting {
    resource: Digest,
    due: Instant,
    born: Instant,
    /// The position of its last commit, before which it must not leave.
    position: u64,
}

/// The messages about one resource.
#[derive(Default)]
struct About {
    waiting: BTreeSet<i64>,
    /// What stands in the order of what is due.
    queued: Option<(Instant, i64)>,
    is_on_its_way: bool,
}

/// A message that is to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) number: i64,
    pub(super) position: u64,
    pub(super) resource: Digest,
}

impl Queue {
    /// The commit at `position` has left the message so.
    pub(super) fn put(&mut self, position: u64, message: &Message) {
        const RESOURCES: u16 = 0x7001;
        let resource = Digest::of(RESOURCES, &[&*message.resource]);
        match (&message.unsettled, message.status) {
            (Some(unsettled), MessageStatus::Waiting) => {
                self.dead.remove(&message.number);
                let waiting = Waiting {
                    resource,
                    due: unsettled.next_attempt_at.unwrap_or_default(),
                    born: unsettled.at,
                    position,
                };
                self.messages.insert(message.number, waiting);
                let about = self.resources.entry(resource).or_default();
                about.waiting.insert(message.number);
                self.order(resource);
            }
            (unsettled, _) => {
                self.remove(message.number);
                if let Some(unsettled) = unsettled {
                    self.dead.insert(message.number, unsettled.at);
                }
            }
        }
    }

    /// The message of this number waits no more.
    pub(super) fn remove(&mut self, number: i64) {
        self.dead.remove(&number);
        if let Some(waiting) = self.messages.remove(&number) {
            if let Some(about) = self.resources.get_mut(&waiting.resource) {
                about.waiting.remove(&number);
            }
            self.order(waiting.resource);
        }
    }

    /// The next message that is due, if another attempt may be on its way.
    pub(super) fn next(&mut self, now: Instant) -> Option<Next> {
        let (due, number) = *self.due.first()?;
        if due > now || self.on_their_way >= ON_THEIR_WAY {
            return None;
        }
        let waiting = self.messages.get(&number)?;
        let next = Next {
            number,
            position: waiting.position,
            resource: waiting.resource,
        };
        self.on_their_way += 1;
        self.resources
            .entry(next.resource)
            .or_default()
            .is_on_its_way = true;
        self.order(next.resource);
        Some(next)
    }

    /// An attempt is over, and what became of it was put before.
    pub(super) fn ended(&mut self, attempt: Next) {
        self.on_their_way -= 1;
        if let Some(about) = self.resources.get_mut(&attempt.resource) {
            about.is_on_its_way = false;
        }
        self.order(attempt.resource);
    }

    /// When the next message is due, if another attempt may be on its way.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let first = self
            .due
            .first()
            .filter(|_| self.on_their_way < ON_THEIR_WAY);
        first.map(|(due, _)| *due)
    }

    /// How many messages wait.
    pub(super) fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// How many are dead.
    pub(super) fn dead(&self) -> usize {
        self.dead.len()
    }

    /// When the oldest of all was born.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let waiting = self
            .messages
            .first_key_value()
            .map(|(_, waiting)| waiting.born);
        let dead = self.dead.first_key_value().map(|(_, born)| *born);
        waiting.into_iter().chain(dead).min()
    }

    /// Has the first message about the resource stand among those that are due, unless one is on
    /// its way.
    fn order(&mut self, resource: Digest) {
        let Some(about) = self.resources.get_mut(&resource) else {
            return;
        };
        if let Some(queued) = about.queued.take() {
            self.due.remove(&queued);
        }
        if about.is_on_its_way {
            return;
        }
        let first = about.waiting.first().copied();
        let Some(first) = first else {
            self.resources.remove(&resource);
            return;
        };
        if let Some(waiting) = self.messages.get(&first) {
            about.queued = Some((waiting.due, first));
            self.due.insert((waiting.due, first));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::codec::Blob;
    use crate::base::revision::Revision;
    use crate::domain::outbox::message::Unsettled;

    fn at(millis: i64) -> Instant {
        Instant::from_millis(millis)
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
                at: at(number),
                body: Blob(Vec::new()),
                tried: 0,
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

    fn numbers(queue: &mut Queue, now: i64) -> Vec<Next> {
        std::iter::from_fn(|| queue.next(at(now))).collect()
    }

    #[test]
    fn a_message_waits_until_the_one_before_it_about_its_resource_is_settled_or_dead() {
        for status in [
            MessageStatus::Taken,
            MessageStatus::Skipped,
            MessageStatus::Dead,
        ] {
            let mut queue = Queue::default();
            let first = message(1, "a", None);
            for message in [&message(2, "a", None), &first, &message(3, "b", None)] {
                queue.put(9, message);
            }
            let next = numbers(&mut queue, 10);
            assert_eq!(
                next.iter().map(|next| next.number).collect::<Vec<_>>(),
                [1, 3]
            );
            // It was not taken, and is due later: what is behind it waits, too.
            queue.put(10, &message(1, "a", Some(50)));
            queue.ended(next[0]);
            assert_eq!((queue.next(at(49)), queue.next_due()), (None, Some(at(50))));
            let again = queue.next(at(50)).unwrap();
            assert_eq!((again.number, again.position), (1, 10));
            queue.put(11, &settled(&first, status));
            assert_eq!(queue.next(at(50)), None, "its attempt is not over");
            queue.ended(again);
            assert_eq!(queue.next(at(50)).unwrap().number, 2);
            let is_dead = status == MessageStatus::Dead;
            assert_eq!((queue.waiting(), queue.dead()), (2, usize::from(is_dead)));
            assert_eq!(queue.oldest(), Some(at(if is_dead { 1 } else { 2 })));
        }
    }

    #[test]
    fn what_is_retried_goes_before_what_came_after_it() {
        let mut queue = Queue::default();
        let dead = message(1, "a", None);
        queue.put(1, &settled(&dead, MessageStatus::Dead));
        queue.put(2, &message(2, "a", Some(9)));
        queue.put(3, &dead);
        assert_eq!(queue.dead(), 0);
        assert_eq!(queue.next(at(9)).unwrap().number, 1);
        assert_eq!(queue.next(at(9)), None);
    }

    #[test]
    fn only_so_many_attempts_are_on_their_way_at_once() {
        let mut queue = Queue::default();
        for number in 1..=40 {
            queue.put(1, &message(number, &number.to_string(), None));
        }
        let next = numbers(&mut queue, 0);
        assert_eq!(next.len(), ON_THEIR_WAY);
        assert_eq!(
            queue.next_due(),
            None,
            "nobody is to wake up for what cannot leave"
        );
        for attempt in &next {
            queue.remove(attempt.number);
            queue.ended(*attempt);
        }
        assert_eq!(numbers(&mut queue, 0).len(), 8);
    }
}
