//! Reports: statements about a resource that need no idempotency key, because repeating them does
//! no harm. The service itself reports that a message was taken, or the progress of deliveries; a
//! request that brings reference facts reports what other systems know. The resource's actor
//! decides a report like a command.

use super::erased::{AnyCommand, AnyDecision, AnyState, erase, own_state};
use super::index::IndexKey;
use super::operation::{Context, Decision};
use super::rejection::Rejection;
use super::resource::{ReadView, Resource};
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};

/// A statement about a resource.
pub trait Report: Send + Sync + 'static {
    /// The resource.
    type Resource: Resource;

    /// Returns the resource's key.
    fn resource(&self) -> Digest;

    /// See [`Operation::unique_keys`](super::operation::Operation::unique_keys).
    fn unique_keys(&self) -> Vec<IndexKey> {
        Vec::new()
    }

    /// Decides like [`Operation::decide`](super::operation::Operation::decide).
    ///
    /// # Errors
    /// The reason why nothing is recorded.
    fn decide(
        &self,
        state: Option<&Self::Resource>,
        context: &Context<'_>,
    ) -> Result<Decision<Self::Resource>, Rejection>;
}

impl<T: Report> AnyCommand for T {
    fn key(&self) -> Option<&str> {
        None
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::NONE
    }

    fn fingerprint_as_sent(&self) -> Option<Fingerprint> {
        None
    }

    fn key_reused(&self, _: &Actor, _: &ReadView<'_>) -> Option<Vec<u8>> {
        None
    }

    fn target(&self, _: &Context<'_>) -> Option<Digest> {
        Some(self.resource())
    }

    fn unique_keys(&self, _: &Context<'_>) -> Vec<IndexKey> {
        Report::unique_keys(self)
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        let state = own_state::<T::Resource>(target, slot, context);
        let decision = Report::decide(self, state, context)?;
        Ok(erase(state, decision, target))
    }
}
