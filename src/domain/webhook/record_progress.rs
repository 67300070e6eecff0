//! The dispatcher reports how far deliveries have come.
//!
//! Resource: the subscription's deliveries. Nobody asks for this from outside: it has no path, and
//! what is reported of deliveries that have begun anew since, or ended, changes nothing.

use super::deliveries::{DeliveriesEvent, Progress, WebhookDeliveries};
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::json::{Reader, Shape};
use crate::domain::example::Example;
use crate::domain::operation::{
    AnyCommand, AnyDecision, AnyOperation, AnyState, Commit, Context, Decision, Parts, erase,
    own_state,
};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{IndexKey, ReadView};

/// The operation: nothing that comes from outside asks for it.
pub struct RecordProgress;

impl AnyOperation for RecordProgress {
    fn read(&self, _: &'static str, _: &Parts<'_>, _: &mut Reader) -> Option<Box<dyn AnyCommand>> {
        None
    }

    fn replayed(&self, body: Vec<u8>) -> Vec<u8> {
        body
    }

    fn rejections(&self) -> &'static [(Class, &'static str)] {
        &[]
    }

    fn shape(&self) -> Shape {
        Shape::Object(Vec::new())
    }

    fn example(&self) -> &'static Example {
        &Example::NEW
    }

    #[cfg(test)]
    fn ladder(&self) -> crate::domain::ladder::Ladder {
        crate::domain::ladder::Ladder::new()
    }
}

/// The command.
pub struct Report {
    /// The key of the deliveries.
    pub deliveries: Digest,
    /// How far they have come.
    pub progress: Progress,
}

impl Report {
    fn ladder(
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

impl AnyCommand for Report {
    fn key(&self) -> Option<&str> {
        None
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(b"record_webhook_progress")
    }

    fn key_reused(&self, _: &Actor, _: &ReadView<'_>) -> Option<Vec<u8>> {
        None
    }

    fn target(&self, _: &Context<'_>) -> Option<Digest> {
        Some(self.deliveries)
    }

    fn unique_keys(&self, _: &Context<'_>) -> Vec<IndexKey> {
        Vec::new()
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        let state = own_state::<WebhookDeliveries>(target, slot, context);
        let decision = self.ladder(state, context)?;
        Ok(erase(state, decision, target))
    }
}
