//! The contents of the list of a subscription's deliveries.

use super::body::DeliveryBody;
use super::deliveries::Delivery;
use super::read_subscription::found;
use crate::domain::operation::to_json;
use crate::domain::read::ReadRequest;
use crate::domain::rejection::Rejection;

/// Returns the deliveries that wait, or are dead (the parameter `state`), in the order of their
/// events.
///
/// # Errors
/// `permission_denied` without the permission; `not_found`.
pub fn deliveries(request: &ReadRequest<'_>) -> Result<Vec<Delivery>, Rejection> {
    let (_, deliveries, _) = found(request)?;
    Ok(match request.param("state") {
        "dead" => deliveries.dead,
        _ => deliveries.waiting,
    })
}

/// Returns a delivery as an item of the list.
#[must_use]
pub fn delivery_item(delivery: &Delivery) -> Vec<u8> {
    to_json(&DeliveryBody::new(delivery))
}
