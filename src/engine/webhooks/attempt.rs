//! An attempt at a delivery.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::handle::{Delivered, Outcome, OutgoingEvent, Sender};
use crate::base::panics::unless_its_future_panics;
use crate::domain::event_id::EventId;
use crate::engine::channel::schedule::Failure;
use crate::engine::core::Shared;
use crate::engine::role::writer_proof::CONFIRM_AGAIN;

/// An attempt that is about to be made.
pub(super) struct Attempt {
    pub(super) outgoing: OutgoingEvent,
    pub(super) id: EventId,
    /// Whether the attempt has a body to send; otherwise it is read from the log.
    pub(super) has_body: bool,
}

impl Attempt {
    /// Makes the attempt; returns its outcome, and how long its receiver took.
    pub(super) async fn make(
        self,
        shared: &Arc<Shared>,
        sender: Arc<dyn Sender>,
    ) -> (Outcome, Duration) {
        let mut began = Instant::now();
        let sent = unless_its_future_panics(pin!(self.send(shared, sender, &mut began))).await;
        let outcome = sent.unwrap_or_else(|| {
            Outcome::Sent(Delivered::Failed(Failure {
                status: None,
                error: "a fault of the service".into(),
                retry_after: None,
            }))
        });
        (outcome, began.elapsed())
    }

    async fn send(
        mut self,
        shared: &Arc<Shared>,
        sender: Arc<dyn Sender>,
        began: &mut Instant,
    ) -> Outcome {
        if !self.has_body {
            match shared.one_event(self.id).await {
                Ok(event) => self.outgoing.body = event.json,
                Err(outcome) => return outcome,
            }
        }
        // The subscription is checked last, since it may change during the earlier waits.
        let (id, url) = (self.outgoing.subscription, self.outgoing.url.clone());
        let may_send = shared.writer_proof.confirm_now().await && shared.is_sent_events(id, &url);
        if !may_send {
            sleep(CONFIRM_AGAIN).await;
            return Outcome::Abandoned;
        }
        self.outgoing.now = shared.clock.now();
        *began = Instant::now();
        let delivered = sender.send(self.outgoing).await;
        // The receiver that is gone, or has failed, may not be the one that is sent events by now.
        let is_of_old_url = match &delivered {
            Delivered::Taken => false,
            Delivered::Gone => !shared.is_sent_events(id, &url),
            Delivered::Failed(_) => !shared.has_url(id, &url),
        };
        match is_of_old_url {
            true => Outcome::Abandoned,
            false => Outcome::Sent(delivered),
        }
    }
}
