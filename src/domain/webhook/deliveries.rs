//! How far the deliveries of a subscription are: what was examined, what waits, what is dead.
//!
//! They are a resource beside the subscription, whose revision does not change while events go out.
//! What was taken is not kept: everything up to where the log was examined, and not listed here.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::revision::Revision;
use crate::base::time::Instant;
use crate::domain::event_id::EventId;
use crate::domain::resource::{Kind, Resource, event_name};
use crate::public_events;

/// How many dead deliveries are kept; of more, the oldest are forgotten.
pub const DEAD_MAX: usize = 10_000;
/// Bytes of what is kept of dead deliveries, about.
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
    /// Attempts that have failed.
    pub attempts: u32,
    /// When the next one is due; `None`: at once, or never where it is dead.
    pub next_attempt_at: Option<Instant>,
    /// The status that the receiver answered with last.
    pub last_status: Option<u16>,
    /// What was wrong with the last attempt.
    pub last_error: Option<Box<str>>,
    /// Where a gap begins, which this delivery reports in the place of an event: the first position
    /// that the log had given up.
    pub gap_from: Option<u64>,
}

impl Delivery {
    /// What it takes of memory, about, in bytes.
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
    /// When.
    pub at: Instant,
    /// The status that the receiver answered with.
    pub status: Option<u16>,
    /// What was wrong.
    pub error: Box<str>,
}

/// The deliveries of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookDeliveries {
    /// The subscription.
    pub subscription_id: Uuid,
    /// How many commits they have seen.
    pub revision: Revision,
    /// How often they began anew: progress of a time before is not theirs.
    pub generation: u32,
    /// Events up to this one were examined; `None`: those up to the commit that (re)started them.
    pub examined: Option<EventId>,
    /// What waits, in the order of the events.
    pub waiting: Vec<Delivery>,
    /// What is dead, in the order of the events.
    pub dead: Vec<Delivery>,
    /// The newest failure.
    pub last_failure: Option<LastFailure>,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Whether the receiver said that it is gone.
    pub is_gone: bool,
}

/// How far deliveries have come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Of which time ([`WebhookDeliveries::generation`]).
    pub generation: u32,
    /// Events up to this one were examined.
    pub examined: EventId,
    /// What waits, as far as it is new or an attempt has failed.
    pub waiting: Vec<Delivery>,
    /// What waited and does not any more.
    pub settled: Vec<EventId>,
    /// What has died.
    pub dead: Vec<Delivery>,
    /// The newest failure, where there was one.
    pub failure: Option<LastFailure>,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Whether the receiver said that it is gone.
    pub is_gone: bool,
}

/// What can happen to deliveries. New events go at the end: records store their index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DeliveriesEvent {
    /// The subscription is created.
    Begun {
        /// The subscription.
        subscription_id: Uuid,
    },
    /// They have come further.
    Progressed(Box<Progress>),
    /// A delivery is to be tried at once, though it is dead, or pauses.
    Retried {
        /// The event.
        id: EventId,
    },
    /// The receiver is back: they begin with the next event.
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

    fn apply(state: Option<Self>, event: &DeliveriesEvent, _: Instant) -> Self {
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
            if !list.is_sorted_by(|one, next| one.id < next.id) {
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
        let replaced: std::collections::BTreeSet<_> = gone.chain(changed).collect();
        self.waiting
            .retain(|waiting| !replaced.contains(&waiting.id));
        self.waiting.extend(progress.waiting.iter().cloned());
        self.waiting.sort_by_key(|waiting| waiting.id);
        self.dead.retain(|dead| !replaced.contains(&dead.id));
        self.dead.extend(progress.dead.iter().cloned());
        self.dead.sort_by_key(|dead| dead.id);
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
            let place = self.waiting.partition_point(|waiting| waiting.id < id);
            self.waiting.insert(place, delivery);
        } else if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.next_attempt_at = None;
        }
    }

    /// Whether this delivery is dead.
    #[must_use]
    pub fn is_dead(&self, id: EventId) -> bool {
        self.dead.binary_search_by_key(&id, |dead| dead.id).is_ok()
    }

    /// Whether this delivery waits.
    #[must_use]
    pub fn waits(&self, id: EventId) -> bool {
        let found = self.waiting.binary_search_by_key(&id, |waiting| waiting.id);
        found.is_ok()
    }
}
