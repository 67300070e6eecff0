//! How a subscription and its deliveries look from outside.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use uuid::Uuid;

use super::deliveries::{Delivery, WebhookDeliveries};
use super::subscription::{EventTypePatterns, WebhookSubscription};
use crate::base::revision::Revision;
use crate::base::time::Instant;
use crate::domain::event_id::EventId;
use crate::domain::response_body::response_body;
use crate::wire_enum;

wire_enum! {
    /// A subscription's status.
    pub enum SubscriptionStatus {
        /// Deliveries go out.
        Enabled = "enabled",
        /// They wait.
        Paused = "paused",
        /// The newest attempt has failed; they go on.
        Failing = "failing",
        /// The receiver said that it is gone.
        Gone = "gone",
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookFailure")]
struct LastFailureBody<'a> {
    event_id: String,
    at: Instant,
    status: Option<u16>,
    error: &'a str,
}

/// A subscription as it is answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookSubscription")]
pub struct SubscriptionBody<'a> {
    subscription_id: Uuid,
    url: &'a str,
    types: &'a EventTypePatterns,
    description: Option<&'a str>,
    status: SubscriptionStatus,
    revision: Revision,
    created_at: Instant,
    delivered_through: Option<String>,
    waiting: usize,
    dead: usize,
    last_failure: Option<LastFailureBody<'a>>,
    /// Where the response has a secret: its number, which is replaced by the secret when the
    /// response is sent. No secret is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    secret_number: Option<u32>,
}

/// A subscription with its secret, as its schema.
pub struct SubscriptionWithSecret;

impl JsonSchema for SubscriptionWithSecret {
    fn schema_name() -> Cow<'static, str> {
        "WebhookSubscriptionWithSecret".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let mut schema = SubscriptionBody::json_schema(schemas);
        let secret = serde_json::json!({
            "type": "string",
            "pattern": "^whsec_[A-Za-z0-9+/]{43}=$",
            "description": "Signs what is sent. It is told here and when it is rotated, and nowhere else."
        });
        if let Some(properties) = schema
            .get_mut("properties")
            .and_then(|of| of.as_object_mut())
        {
            properties.insert("secret".to_owned(), secret);
        }
        if let Some(required) = schema.get_mut("required").and_then(|of| of.as_array_mut()) {
            required.push("secret".into());
        }
        schema
    }
}

impl<'a> SubscriptionBody<'a> {
    /// A subscription and its deliveries, which `position` is the last commit of, where that is
    /// known.
    #[must_use]
    pub fn new(
        subscription: &'a WebhookSubscription,
        deliveries: &'a WebhookDeliveries,
        position: Option<u64>,
    ) -> Self {
        let status = if deliveries.is_gone {
            SubscriptionStatus::Gone
        } else if subscription.is_paused {
            SubscriptionStatus::Paused
        } else if deliveries.is_failing {
            SubscriptionStatus::Failing
        } else {
            SubscriptionStatus::Enabled
        };
        let last_failure = deliveries.last_failure.as_ref();
        Self {
            subscription_id: subscription.subscription_id,
            url: &subscription.url,
            types: &subscription.types,
            description: subscription.description.text(),
            status,
            revision: subscription.revision,
            created_at: subscription.created_at,
            delivered_through: delivered_through(deliveries, position).map(|id| id.to_string()),
            waiting: deliveries.waiting.len(),
            dead: deliveries.dead.len(),
            last_failure: last_failure.map(|failure| LastFailureBody {
                event_id: failure.id.to_string(),
                at: failure.at,
                status: failure.status,
                error: &failure.error,
            }),
            secret_number: None,
        }
    }

    /// The same, where the response has the secret of this number.
    #[must_use]
    pub fn telling_secret(mut self, number: u32) -> Self {
        self.secret_number = Some(number);
        self
    }
}

/// The identifier up to which nothing waits: an event before the first one that waits, or the last
/// one that was examined.
fn delivered_through(deliveries: &WebhookDeliveries, position: Option<u64>) -> Option<EventId> {
    let Some(first) = deliveries.waiting.first() else {
        let begun = || {
            position.map(|position| EventId {
                position,
                number: 0,
            })
        };
        return deliveries.examined.or_else(begun);
    };
    Some(match first.id.number.checked_sub(1) {
        Some(number) => EventId { number, ..first.id },
        None => EventId {
            position: first.id.position.saturating_sub(1),
            number: 0,
        },
    })
}

response_body! {
    /// A delivery as it is listed.
    #[schemars(rename = "WebhookDelivery")]
    pub struct DeliveryBody<'a> from (delivery: &'a Delivery) {} as {
        event_id: String = delivery.id.to_string(),
        #[serde(rename = "type")]
        event_type: &'a str = &delivery.event_type,
        subject: &'a str = &delivery.subject,
        attempts: u32 = delivery.attempts,
        next_attempt_at: Option<Instant> = delivery.next_attempt_at,
        last_status: Option<u16> = delivery.last_status,
        last_error: Option<&'a str> = delivery.last_error.as_deref(),
    }
}
