//! Records the progress of deliveries that the dispatcher reports.
//!
//! Resource: the subscription's deliveries. No client can request this: it has no path. A report of
//! deliveries that have started anew since, or ended, changes nothing.

use super::deliveries::{DeliveriesEvent, Progress, WebhookDeliveries};
use crate::base::digest::Digest;
use crate::domain::operation::{Commit, Context, Decision};
use crate::domain::rejection::Rejection;
use crate::domain::report::Report;

/// The report.
pub struct RecordProgress {
    /// The key of the deliveries.
    pub deliveries: Digest,
    /// Their progress.
    pub progress: Progress,
}

impl Report for RecordProgress {
    type Resource = WebhookDeliveries;

    fn resource(&self) -> Digest {
        self.deliveries
    }

    fn decide(
        &self,
        state: Option<&WebhookDeliveries>,
        context: &Context<'_>,
    ) -> Result<Decision<WebhookDeliveries>, Rejection> {
        let deliveries = state.ok_or_else(Rejection::not_found)?;
        if deliveries.generation != self.progress.generation {
            return Ok(Decision::Answer(Vec::new()));
        }
        let event = DeliveriesEvent::Progressed(Box::new(self.progress.clone()));
        Commit::new(state, event, context.at).answer(Vec::new())
    }
}
