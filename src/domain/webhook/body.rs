//! Subscriptions and their deliveries as readers see them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use uuid::Uuid;

use super::deliveries::{Delivery, LastFailure, WebhookDeliveries};
use super::subscription::{EventTypePatterns, WebhookSubscription};
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
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

response_body! {
    #[schemars(rename = "WebhookFailure")]
    struct LastFailureBody<'a> from (failure: &'a LastFailure) {} as {
        event_id: String = failure.id.to_string(),
        at: Timestamp = failure.at,
        status: Option<u16> = failure.status,
        error: &'a str = &failure.error,
    }
}

response_body! {
    /// A subscription as it is answered.
    #[schemars(rename = "WebhookSubscription")]
    pub struct SubscriptionBody<'a> from (
        subscription: &'a WebhookSubscription,
        deliveries: &'a WebhookDeliveries,
        position: Option<u64>
    ) {
        // `position` is the last commit of the deliveries, where that is known.
        let status = if deliveries.is_gone {
            SubscriptionStatus::Gone
        } else if subscription.is_paused {
            SubscriptionStatus::Paused
        } else if deliveries.is_failing {
            SubscriptionStatus::Failing
        } else {
            SubscriptionStatus::Enabled
        };
    } as {
        subscription_id: Uuid = subscription.subscription_id,
        url: &'a str = &subscription.url,
        types: &'a EventTypePatterns = &subscription.types,
        description: Option<&'a str> = subscription.description.text(),
        status: SubscriptionStatus = status,
        revision: Revision = subscription.revision,
        created_at: Timestamp = subscription.created_at,
        delivered_through: Option<String> =
            delivered_through(deliveries, position).map(|id| id.to_string()),
        waiting: usize = deliveries.waiting.len(),
        dead: usize = deliveries.dead.len(),
        last_failure: Option<LastFailureBody<'a>> =
            deliveries.last_failure.as_ref().map(LastFailureBody::new),
        /// Where the response has a secret: its number, which is replaced by the secret when the
        /// response is sent. No secret is stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(skip)]
        secret_number: Option<u32> = None,
    }
}

/// Stands for the schema of a subscription with its secret.
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
    /// Returns the same body for a response that contains the secret of this number.
    #[must_use]
    pub fn telling_secret(mut self, number: u32) -> Self {
        self.secret_number = Some(number);
        self
    }
}

/// Returns the identifier of the event up to which no delivery waits: an identifier before the
/// first waiting event, or that of the last examined one.
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
        next_attempt_at: Option<Timestamp> = delivery.next_attempt_at,
        last_status: Option<u16> = delivery.last_status,
        last_error: Option<&'a str> = delivery.last_error.as_deref(),
    }
}
