//! Reads a subscription, and tells which of its deliveries are dead, so that they can be retried.

use super::body::SubscriptionBody;
use super::deliveries::WebhookDeliveries;
use super::subscription::{WebhookSubscription, may_manage};
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// Rejects actors that may not manage webhooks.
///
/// # Errors
/// `permission_denied` without the permission.
pub fn check_authority(request: &ReadRequest<'_>) -> Result<(), Rejection> {
    if may_manage(request.actor) {
        return Ok(());
    }
    Err(Rejection::permission_denied(
        "Only a workflow or the head office with the permission webhooks:manage may read this.",
    ))
}

/// Returns the subscription in the path, with its deliveries and the position of their last commit.
pub(super) fn found(
    request: &ReadRequest<'_>,
) -> Result<(WebhookSubscription, WebhookDeliveries, u64), Rejection> {
    check_authority(request)?;
    let id = [request.param("subscriptionId")];
    let subscription = request.view.get::<WebhookSubscription>(&id);
    let subscription = subscription.filter(|subscription| !subscription.is_deleted);
    let deliveries = request.view.get::<WebhookDeliveries>(&id);
    let (Some(subscription), Some(deliveries)) = (subscription, deliveries) else {
        return Err(Rejection::not_found());
    };
    let position = request.view.position(deliveries.key());
    Ok((subscription, deliveries, position))
}

/// Reads a subscription.
///
/// # Errors
/// `permission_denied` without the permission; `not_found`.
pub fn read_subscription(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let (subscription, deliveries, position) = found(request)?;
    let body = SubscriptionBody::new(&subscription, &deliveries, Some(position));
    Representation::at_revision_and_digest(&subscription, &body)
}

/// Reads whether the delivery of the event in the path is dead: `true` or `false`.
///
/// # Errors
/// As [`read_subscription`].
pub fn read_whether_dead(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let (subscription, deliveries, _) = found(request)?;
    let id = request.param("eventId").parse();
    let is_dead = id.is_ok_and(|id| deliveries.is_dead(id));
    Representation::at_revision(&subscription, &is_dead)
}
