//! The interface of the webhooks' dispatcher: its messages, its sender, and its figures.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

use super::attempt_slots::{ATTEMPTS_MAX, AttemptSlot};
use crate::base::time::Timestamp;
use crate::domain::event_id::EventId;
use crate::domain::webhook::deliveries::WebhookDeliveries;
use crate::domain::webhook::subscription::{EventTypePatterns, WebhookSubscription};
use crate::engine::channel::schedule::Failure;
use crate::engine::feed::{NoPage, Page};

/// How long a stop waits for the progress to be recorded.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A delivery to be sent.
#[derive(Clone, Debug)]
pub struct OutgoingEvent {
    /// Identifier of the subscription.
    pub subscription: Uuid,
    /// URL of the receiver.
    pub url: Box<str>,
    /// Identifier of the delivery for the receiver: `{log id}-{event id}`.
    pub id: String,
    /// The event, as JSON.
    pub body: Bytes,
    /// The numbers of the secrets that sign it, the present one first.
    pub secret_numbers: Vec<u32>,
    /// The time of the attempt.
    pub now: Timestamp,
}

/// Outcome of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The receiver has taken it.
    Taken,
    /// The receiver says that it is gone.
    Gone,
    /// The receiver has not taken the delivery, or the outcome is unknown.
    Failed(Failure),
}

/// A delivery being sent.
pub type Sending = Pin<Box<dyn Future<Output = Delivered> + Send>>;

/// Sends deliveries to their receivers.
pub trait Sender: Send + Sync + 'static {
    /// Maximum number of deliveries that it sends at once.
    fn attempts_max(&self) -> usize {
        ATTEMPTS_MAX
    }

    /// Sends one delivery, within a bounded time.
    fn send(self: Arc<Self>, outgoing: OutgoingEvent) -> Sending;
}

/// A subscription's figures, for monitoring.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionFigures {
    /// Identifier of the subscription.
    pub subscription: Uuid,
    /// Number of waiting deliveries.
    pub waiting: usize,
    /// Number of dead deliveries.
    pub dead: usize,
    /// Since when the oldest delivery waits, by the wall clock: since the time of its event, or since it was first
    /// seen where the former is unknown or later; `None` also while the subscription is paused.
    pub oldest: Option<Timestamp>,
    /// Whether the subscription is paused, so that waiting deliveries are no fault.
    pub is_paused: bool,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Number of attempts.
    pub attempts: u64,
    /// Number of failed attempts.
    pub failures: u64,
    /// Total duration of the attempts.
    pub attempt_time: Duration,
    /// First position of the log that the subscription still needs.
    pub needed_from: u64,
}

/// Handle of the dispatcher, for talking to it.
#[derive(Clone)]
pub struct Webhooks {
    pub(super) messages: mpsc::UnboundedSender<Message>,
    pub(super) figures: Arc<Mutex<Arc<Vec<SubscriptionFigures>>>>,
}

impl Webhooks {
    /// Tells the dispatcher that the subscription was created, changed or deleted.
    pub fn changed(&self, subscription: Uuid) {
        self.tell(Message::Changed(subscription, None));
    }

    /// Tells the dispatcher to try a delivery at once.
    pub fn retried(&self, subscription: Uuid, id: EventId) {
        self.tell(Message::Changed(subscription, Some(id)));
    }

    /// Returns the subscriptions' figures, at most about a second old.
    #[must_use]
    pub fn figures(&self) -> Arc<Vec<SubscriptionFigures>> {
        Arc::clone(&self.figures.lock())
    }

    /// Stops sending, and records the progress of all subscriptions. Takes no longer than a second.
    pub async fn stop(&self) {
        let (stopped, is_stopped) = oneshot::channel();
        self.tell(Message::Stop(stopped));
        // A dispatcher that has ended counts as stopped, too.
        let _ = timeout(STOP_TIMEOUT, is_stopped).await;
    }

    pub(super) fn tell(&self, message: Message) {
        // The dispatcher may have ended: then nothing is delivered any more.
        let _ = self.messages.send(message);
    }
}

pub(super) enum Message {
    Changed(Uuid, Option<EventId>),
    Loaded(Box<Loaded>),
    Ended(Box<Attempted>),
    Page(Uuid, u64, Result<Page, NoPage>),
    /// The time of a waiting event.
    Dated(Uuid, u64, EventId, Timestamp),
    Recorded(Uuid, u64, bool),
    Stop(oneshot::Sender<()>),
}

/// What the log stores of a subscription.
pub(super) struct Loaded {
    pub(super) id: Uuid,
    pub(super) stored: Option<Stored>,
    /// A delivery to be tried at once.
    pub(super) retried: Option<EventId>,
}

/// A subscription and its deliveries.
pub(super) struct Stored {
    pub(super) subscription: WebhookSubscription,
    /// Position of the subscription's last commit.
    pub(super) position: u64,
    pub(super) deliveries: WebhookDeliveries,
    /// The last event examined for the subscription, as far as recorded; otherwise its creation, or the change that
    /// enabled it again.
    pub(super) examined: EventId,
    /// Event types of the subscription at `examined`, if they were looked up and the log still has them.
    pub(super) types: EventTypePatterns,
}

/// An attempt that has ended.
pub(super) struct Attempted {
    pub(super) subscription: Uuid,
    pub(super) run: u64,
    pub(super) id: EventId,
    /// The URL that it was made at.
    pub(super) url: Box<str>,
    pub(super) turn: AttemptSlot,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

pub(super) enum Outcome {
    Sent(Delivered),
    /// The log has given the event up; it begins at this position.
    Lost(u64),
    /// The log could not be read.
    Unread,
    /// It does not count: nothing was sent, since it could not be confirmed that this process is still the writer, or
    /// the subscription was paused or deleted just before; or it failed at a URL that is the subscription's no more.
    Abandoned,
}
