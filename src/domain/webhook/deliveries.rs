//! The state of a subscription's deliveries: which events were examined, which deliveries wait, which
//! are dead.
//!
//! The deliveries are a resource beside the subscription, whose revision does not change while events
//! are sent. Taken deliveries are not stored: an event up to the examined one that is not listed here
//! does not have to be sent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::event_id::EventId;
use crate::domain::follow::event_name;
use crate::domain::resource::{Kind, Resource};
use crate::public_events;

/// Maximum number of dead deliveries that are kept; the oldest ones beyond it are forgotten.
pub const DEAD_MAX: usize = 10_000;
/// Maximum size of the dead deliveries that are kept, in bytes, approximately.
pub const DEAD_BYTES_MAX: usize = 2 << 20;

/// A delivery that waits, or is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The event.
    pub id: EventId,
    /// Its type.
    pub event_type: Box<str>,
    /// Its subject.
    pub subject: Box<str>,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The time of the next attempt; `None`: at once, or never when it is dead.
    pub next_attempt_at: Option<Timestamp>,
    /// The status of the receiver's last response.
    pub last_status: Option<u16>,
    /// The error of the last attempt.
    pub last_error: Option<Box<str>>,
    /// The beginning of a gap that this delivery reports in place of an event: the first position that
    /// the log no longer had.
    pub gap_from: Option<u64>,
}

impl Delivery {
    /// Returns the memory that it takes, approximately, in bytes.
    #[must_use]
    pub fn cost(&self) -> usize {
        let error = self.last_error.as_deref().map_or(0, str::len);
        128 + self.event_type.len() + self.subject.len() + error
    }
}

/// The newest attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    /// The event.
    pub id: EventId,
    /// The time of the attempt.
    pub at: Timestamp,
    /// The status of the receiver's response.
    pub status: Option<u16>,
    /// The error.
    pub error: Box<str>,
}

/// The deliveries of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookDeliveries {
    /// The subscription.
    pub subscription_id: Uuid,
    /// The number of commits that they have seen.
    pub revision: Revision,
    /// The number of times that they started anew; a report of progress from an earlier generation is
    /// ignored.
    pub generation: u32,
    /// The last event that was examined; `None`: the last one of the commit that (re)started them.
    pub examined: Option<EventId>,
    /// The waiting deliveries, in the order of the events.
    pub waiting: Vec<Delivery>,
    /// The dead deliveries, in the order of the events.
    pub dead: Vec<Delivery>,
    /// The newest failure.
    pub last_failure: Option<LastFailure>,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Whether the receiver has answered that it is gone.
    pub is_gone: bool,
}

/// The progress of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The generation of the deliveries ([`WebhookDeliveries::generation`]).
    pub generation: u32,
    /// The last event that was examined.
    pub examined: EventId,
    /// The waiting deliveries that are new, or whose attempt has failed.
    pub waiting: Vec<Delivery>,
    /// The events whose deliveries waited and no longer do.
    pub settled: Vec<EventId>,
    /// The deliveries that have become dead.
    pub dead: Vec<Delivery>,
    /// The newest failure, if there was one.
    pub failure: Option<LastFailure>,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Whether the receiver has answered that it is gone.
    pub is_gone: bool,
}

/// What can happen to deliveries. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveriesEvent {
    /// The subscription is created.
    Begun {
        /// The subscription.
        subscription_id: Uuid,
    },
    /// They have made progress.
    Progressed(Box<Progress>),
    /// A delivery is to be tried at once, though it is dead, or waits for its next attempt.
    Retried {
        /// The event.
        id: EventId,
    },
    /// The receiver is back: deliveries start with the next event.
    Restarted,
    /// The subscription is deleted.
    Ended,
}

impl Resource for WebhookDeliveries {
    const KIND: Kind = Kind {
        tag: 131,
        name: "webhook-deliveries",
    };
    type Event = DeliveriesEvent;

    fn apply(state: Option<Self>, event: &DeliveriesEvent, _: Timestamp) -> Self {
        match (state, event) {
            (None, DeliveriesEvent::Begun { subscription_id }) => Self {
                subscription_id: *subscription_id,
                revision: Revision::FIRST,
                generation: 0,
                examined: None,
                waiting: Vec::new(),
                dead: Vec::new(),
                last_failure: None,
                is_failing: false,
                is_gone: false,
            },
            (Some(mut deliveries), event) => {
                deliveries.change(event);
                deliveries.revision = deliveries.revision.next();
                deliveries
            }
            (None, event) => panic!(
                "a subscription that does not exist has no {}",
                event_name(event)
            ),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.subscription_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        for list in [&self.waiting, &self.dead] {
            // A state that an earlier program has stored may contain a delivery twice, until the next
            // progress.
            if !list.is_sorted_by_key(|delivery| delivery.id) {
                return Err("deliveries are in the order of their events".to_owned());
            }
        }
        if self.dead.len() > DEAD_MAX {
            return Err(format!("{} dead deliveries", self.dead.len()));
        }
        Ok(())
    }
}

public_events! {
    WebhookDeliveries by DeliveriesEvent, read at "webhook-deliveries/{}", revision none;

    // A part of the subscription, which has the events.
    Begun { .. } => nothing,
    Progressed(_) => nothing,
    Retried { .. } => nothing,
    Restarted {} => nothing,
    Ended {} => nothing,
}

/// Replaces the deliveries of the events in `replaced` by `new`, each once, in the order of the events;
/// of several deliveries of one event, the last one counts.
fn replace<'d>(
    deliveries: &mut Vec<Delivery>,
    replaced: &BTreeSet<EventId>,
    new: impl Iterator<Item = &'d Delivery>,
) {
    deliveries.retain(|delivery| !replaced.contains(&delivery.id));
    deliveries.extend(new.cloned());
    deliveries.reverse();
    deliveries.sort_by_key(|delivery| delivery.id);
    deliveries.dedup_by_key(|delivery| delivery.id);
}

impl WebhookDeliveries {
    fn change(&mut self, event: &DeliveriesEvent) {
        match event {
            DeliveriesEvent::Begun { .. } => panic!("deliveries begin once"),
            DeliveriesEvent::Progressed(progress) => self.progress(progress),
            DeliveriesEvent::Retried { id } => self.retry(*id),
            DeliveriesEvent::Restarted => {
                self.generation += 1;
                self.examined = None;
                self.waiting.clear();
                self.is_failing = false;
                self.is_gone = false;
            }
            DeliveriesEvent::Ended => {
                self.generation += 1;
                self.waiting = Vec::new();
                self.dead = Vec::new();
                self.last_failure = None;
            }
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.examined = Some(progress.examined);
        let gone = progress.settled.iter().copied();
        let gone = gone.chain(progress.dead.iter().map(|dead| dead.id));
        let changed = progress.waiting.iter().map(|waiting| waiting.id);
        let waits: BTreeSet<_> = changed.clone().collect();
        let replaced: BTreeSet<_> = gone.chain(changed).collect();
        replace(&mut self.waiting, &replaced, progress.waiting.iter());
        // A delivery that died and waits again is waiting.
        let died = progress.dead.iter();
        let died = died.filter(|dead| !waits.contains(&dead.id));
        replace(&mut self.dead, &replaced, died);
        self.forget_oldest_dead();
        if progress.failure.is_some() {
            self.last_failure.clone_from(&progress.failure);
        }
        self.is_failing = progress.is_failing;
        self.is_gone = progress.is_gone;
        if self.is_gone {
            self.waiting.clear();
        }
    }

    fn forget_oldest_dead(&mut self) {
        let mut bytes = 0;
        let fits = self.dead.iter().rev().take(DEAD_MAX).take_while(|dead| {
            bytes += dead.cost();
            bytes <= DEAD_BYTES_MAX
        });
        let forgotten = self.dead.len() - fits.count();
        self.dead.drain(..forgotten);
    }

    fn retry(&mut self, id: EventId) {
        if let Ok(dead) = self.dead.binary_search_by_key(&id, |dead| dead.id) {
            let delivery = Delivery {
                attempts: 0,
                next_attempt_at: None,
                ..self.dead.remove(dead)
            };
            match self.waiting.binary_search_by_key(&id, |waiting| waiting.id) {
                Ok(place) => self.waiting[place] = delivery,
                Err(place) => self.waiting.insert(place, delivery),
            }
        } else if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.next_attempt_at = None;
        }
    }

    /// Whether this delivery is dead.
    #[must_use]
    pub fn is_dead(&self, id: EventId) -> bool {
        self.dead.binary_search_by_key(&id, |dead| dead.id).is_ok()
    }

    /// Returns a delivery whose retry was requested: it waits, or it is dead because its death was
    /// recorded after the request.
    #[must_use]
    pub fn waiting_or_dead(&self, id: EventId) -> Option<&Delivery> {
        [&self.waiting, &self.dead].into_iter().find_map(|list| {
            let place = list
                .binary_search_by_key(&id, |delivery| delivery.id)
                .ok()?;
            list.get(place)
        })
    }

    /// Whether this delivery waits.
    #[must_use]
    pub fn waits(&self, id: EventId) -> bool {
        let found = self.waiting.binary_search_by_key(&id, |waiting| waiting.id);
        found.is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(position: u64) -> EventId {
        EventId {
            position,
            number: 0,
        }
    }

    fn delivery(position: u64, attempts: u32) -> Delivery {
        Delivery {
            id: id(position),
            event_type: "carebook.branch.created".into(),
            subject: "admin/branches/1".into(),
            attempts,
            next_attempt_at: None,
            last_status: None,
            last_error: None,
            gap_from: None,
        }
    }

    fn after(events: &[DeliveriesEvent]) -> WebhookDeliveries {
        let begun = DeliveriesEvent::Begun {
            subscription_id: Uuid::from_u128(1),
        };
        let begun = WebhookDeliveries::apply(None, &begun, Timestamp::default());
        events.iter().fold(begun, |state, event| {
            WebhookDeliveries::apply(Some(state), event, Timestamp::default())
        })
    }

    fn progressed(waiting: Vec<Delivery>, dead: Vec<Delivery>) -> DeliveriesEvent {
        DeliveriesEvent::Progressed(Box::new(Progress {
            waiting,
            dead,
            ..Progress::default()
        }))
    }

    #[test]
    fn whatever_progress_tells_twice_is_there_once() {
        let (one, two) = (delivery(1, 9), delivery(2, 10));
        let again = delivery(2, 1);
        let twice = progressed(
            vec![one.clone()],
            vec![two.clone(), one.clone(), again.clone()],
        );
        let state = after(&[twice]);
        // A waiting delivery is not dead, and the last report of a delivery counts.
        assert_eq!(
            (&state.waiting, &state.dead),
            (&vec![one.clone()], &vec![again.clone()])
        );
        assert!(state.validate().is_ok());
        let died = progressed(vec![], vec![one.clone()]);
        let state = WebhookDeliveries::apply(Some(state), &died, Timestamp::default());
        assert_eq!((&state.waiting, &state.dead), (&vec![], &vec![one, again]));
    }

    #[test]
    fn a_delivery_dead_after_its_retry_is_found_and_waits_at_next_progress() {
        let retried = DeliveriesEvent::Retried { id: id(1) };
        let died = progressed(vec![], vec![delivery(1, 10)]);
        let state = after(&[progressed(vec![delivery(1, 9)], vec![]), retried, died]);
        let found = state.waiting_or_dead(id(1)).cloned();
        assert_eq!(found, Some(delivery(1, 10)));
        assert_eq!(state.waiting_or_dead(id(2)), None);
        let anew = progressed(vec![delivery(1, 0)], vec![]);
        let state = WebhookDeliveries::apply(Some(state), &anew, Timestamp::default());
        assert_eq!(
            (&state.waiting, &state.dead),
            (&vec![delivery(1, 0)], &vec![])
        );
    }

    #[test]
    fn deliveries_stored_twice_by_earlier_versions_are_read_and_repaired() {
        let mut state = after(&[progressed(vec![], vec![delivery(1, 10)])]);
        state.dead.push(delivery(1, 10));
        state.waiting = vec![delivery(1, 3), delivery(1, 3)];
        assert!(state.validate().is_ok());
        let retried = DeliveriesEvent::Retried { id: id(1) };
        for event in [retried, progressed(vec![delivery(1, 0)], vec![])] {
            state = WebhookDeliveries::apply(Some(state), &event, Timestamp::default());
            assert!(state.validate().is_ok());
        }
        assert_eq!(
            (&state.waiting, &state.dead),
            (&vec![delivery(1, 0)], &vec![])
        );
        state.dead = vec![delivery(2, 10), delivery(1, 10)];
        assert!(state.validate().is_err(), "another order cannot be");
    }
}
