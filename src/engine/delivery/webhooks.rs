//! What passes between the dispatcher of webhooks, those who talk to it, and what sends for it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

use super::attempt_slots::AttemptSlot;
use crate::base::time::Timestamp;
use crate::domain::webhook::deliveries::WebhookDeliveries;
use crate::domain::webhook::subscription::{EventTypePatterns, WebhookSubscription};
use crate::engine::channel::schedule::Failure;
use crate::engine::feed::{NoPage, Page};
use crate::journal::events::EventId;

/// How long a stop waits for progress to be written.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A delivery on its way out.
#[derive(Clone, Debug)]
pub struct OutgoingEvent {
    /// The subscription.
    pub subscription: Uuid,
    /// Where it goes.
    pub url: Box<str>,
    /// What the receiver knows it by: `{log id}-{event id}`.
    pub id: String,
    /// The event.
    pub body: Bytes,
    /// The numbers of the secrets that sign it, the present one first.
    pub secret_numbers: Vec<u32>,
    /// The time of the attempt.
    pub now: Timestamp,
}

/// What a delivery has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The receiver has taken it.
    Taken,
    /// The receiver says that it is gone.
    Gone,
    /// It has not taken it, or that is unknown.
    Failed(Failure),
}

/// A delivery being sent.
pub type Sending = Pin<Box<dyn Future<Output = Delivered> + Send>>;

/// What carries deliveries out.
pub trait Sender: Send + Sync + 'static {
    /// Sends one, within a bounded time.
    fn send(self: Arc<Self>, outgoing: OutgoingEvent) -> Sending;
}

/// A subscription's figures, for monitoring.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionFigures {
    /// The subscription.
    pub subscription: Uuid,
    /// Deliveries that wait.
    pub waiting: usize,
    /// Deliveries that are dead.
    pub dead: usize,
    /// Since when the oldest waits, by the wall clock: since its own time, or since it was first seen
    /// where that is not known, or earlier; `None` also while the subscription is paused.
    pub oldest: Option<Timestamp>,
    /// Whether it is paused, so that what waits is no fault.
    pub is_paused: bool,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Attempts that were made.
    pub attempts: u64,
    /// Attempts that have failed.
    pub failures: u64,
    /// How long the attempts took, in all.
    pub attempt_time: Duration,
    /// The first position that it still needs of the log.
    pub needed_from: u64,
}

/// The dispatcher, for those who talk to it.
#[derive(Clone)]
pub struct Webhooks {
    pub(super) messages: mpsc::UnboundedSender<Message>,
    pub(super) figures: Arc<Mutex<Arc<Vec<SubscriptionFigures>>>>,
}

impl Webhooks {
    /// The subscription was created, changed or deleted.
    pub fn changed(&self, subscription: Uuid) {
        self.tell(Message::Changed(subscription, None));
    }

    /// A delivery is to be tried at once.
    pub fn retried(&self, subscription: Uuid, id: EventId) {
        self.tell(Message::Changed(subscription, Some(id)));
    }

    /// The subscriptions' figures, as of the last second.
    #[must_use]
    pub fn figures(&self) -> Arc<Vec<SubscriptionFigures>> {
        Arc::clone(&self.figures.lock())
    }

    /// Sends nothing more, and writes how far all are. Takes no longer than a second.
    pub async fn stop(&self) {
        let (stopped, is_stopped) = oneshot::channel();
        self.tell(Message::Stop(stopped));
        // A dispatcher that has ended is stopped, too.
        let _ = timeout(STOP_TIMEOUT, is_stopped).await;
    }

    pub(super) fn tell(&self, message: Message) {
        // It has ended: then nothing is delivered any more.
        let _ = self.messages.send(message);
    }
}

pub(super) enum Message {
    Changed(Uuid, Option<EventId>),
    Loaded(Box<Loaded>),
    Ended(Box<Attempted>),
    Page(Uuid, u64, Result<Page, NoPage>),
    /// The time of an event that waits.
    Dated(Uuid, u64, EventId, Timestamp),
    Recorded(Uuid, u64, bool),
    Stop(oneshot::Sender<()>),
}

/// What the log has of a subscription.
pub(super) struct Loaded {
    pub(super) id: Uuid,
    pub(super) stored: Option<Stored>,
    /// A delivery that is to be tried at once.
    pub(super) retried: Option<EventId>,
}

/// A subscription and its deliveries.
pub(super) struct Stored {
    pub(super) subscription: WebhookSubscription,
    /// The last commit to it.
    pub(super) position: u64,
    pub(super) deliveries: WebhookDeliveries,
    /// The last event that was examined for it, as far as is recorded; otherwise its creation, or
    /// the change since which it is enabled again.
    pub(super) examined: EventId,
    /// The types that it had then, where that was asked for and the log still says it.
    pub(super) types: EventTypePatterns,
}

/// An attempt that has ended.
pub(super) struct Attempted {
    pub(super) subscription: Uuid,
    pub(super) run: u64,
    pub(super) id: EventId,
    pub(super) turn: AttemptSlot,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

pub(super) enum Outcome {
    Sent(Delivered),
    /// The log has given the event up; it begins here.
    Lost(u64),
    /// The log could not be read.
    Unread,
    /// Nothing was sent: it is not confirmed that this process writes still, or its subscription was
    /// paused or deleted just before.
    CalledBack,
}
