//! The checks of the subscription that a command names: whether the actor may manage it, whether it
//! exists, and its revision.

use super::deliveries::WebhookDeliveries;
use super::subscription::{WebhookSubscription, may_manage};
#[cfg(test)]
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::Context;
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource as _;
use crate::rejections;

rejections! {
    /// Why nothing is changed, in the order tested.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a workflow or the head office with the permission webhooks:manage may do this.",
        /// The subscription is unknown.
        SubscriptionNotFound = Missing "webhook_subscription_not_found" []
            "There is no webhook subscription with this identifier.",
        /// The revision is stale.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
    }
}

/// A subscription, and the state of its deliveries.
pub(super) struct Addressed<'s> {
    pub(super) subscription: &'s WebhookSubscription,
    pub(super) deliveries: WebhookDeliveries,
    /// The position of the last commit of the deliveries.
    pub(super) position: u64,
}

/// Returns the key of the subscription with this identifier.
pub(super) fn key_of(subscription_id: &str) -> Digest {
    WebhookSubscription::KIND.key(&[subscription_id])
}

impl<'s> Addressed<'s> {
    /// Returns the subscription, if it exists at the expected revision and the actor may manage it;
    /// `check` checks the request's content before the revision is compared.
    ///
    /// # Errors
    /// The first of [`Reason`] that applies, or the error of `check`.
    pub(super) fn at_revision(
        state: Option<&'s WebhookSubscription>,
        expected: i64,
        context: &Context<'_>,
        check: impl FnOnce() -> Result<(), Rejection>,
    ) -> Result<Self, Rejection> {
        if !may_manage(context.actor) {
            return Err(Reason::NotPermitted.into());
        }
        let Some(subscription) = state.filter(|state| !state.is_deleted) else {
            return Err(Reason::SubscriptionNotFound.into());
        };
        check()?;
        if expected != subscription.revision.number() {
            return Err(Reason::RevisionStale.into());
        }
        let key = WebhookDeliveries::KIND.key(&subscription.id());
        let Some(deliveries) = context.view.at::<WebhookDeliveries>(key) else {
            return Err(Reason::SubscriptionNotFound.into());
        };
        Ok(Self {
            subscription,
            deliveries,
            position: context.view.position(key),
        })
    }
}

/// Returns a case in which each [`Reason`] applies.
#[cfg(test)]
pub(super) fn ladder() -> Ladder {
    Ladder::of_managers()
        .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
        .then(Reason::SubscriptionNotFound, Case::at_unknown)
        .then(Reason::RevisionStale, |case| {
            // A deletion has a query instead of a body.
            let pointer = match case.body.get("query") {
                Some(_) => "/query/expectedRevision",
                None => "/expectedRevision",
            };
            case.set(pointer, 9)
        })
}
