//! A delivery that is dead, or pauses, is to be tried again at once.
//!
//! Resource: the subscription's deliveries. Rejections, in the order tested: the actor may not
//! manage webhooks (403); the subscription is unknown, or has no such delivery (404); the receiver
//! is gone, or the subscription has only just begun anew (409).

use serde::Serialize;

use super::deliveries::{DeliveriesEvent, WebhookDeliveries};
use super::subscription::{WebhookSubscription, may_manage};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{Reader, Shape};
use crate::base::text::Ident;
use crate::domain::event_id::EventId;
use crate::domain::example::Example;
use crate::domain::operation::{
    Commit, Context, Decision, Operation, Parts, Request, to_json,
};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::Resource;
use crate::rejections;

/// What is asked for: the subscription and the event, in the path.
#[derive(Clone, Debug, Serialize)]
pub struct Command {
    /// The subscription.
    #[serde(rename = "subscriptionId")]
    pub subscription_id: Ident,
    /// The event.
    #[serde(rename = "eventId")]
    pub event_id: EventId,
}

impl Request for Command {
    fn read(parts: &Parts<'_>, at: &mut Reader) -> Option<Self> {
        let subscription_id = parts.param("subscriptionId", at);
        let event_id = parts.param("eventId", at);
        // There is nothing to say.
        let body = at.slots::<0>(parts.body, &[]);
        body.and(Some(Self {
            subscription_id: subscription_id?,
            event_id: event_id?,
        }))
    }

    fn shape() -> Shape {
        Shape::Object(Vec::new())
    }
}

rejections! {
    /// Why nothing is tried.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a workflow or the head office with the permission webhooks:manage may do this.",
        /// The subscription is unknown.
        SubscriptionNotFound = Missing "webhook_subscription_not_found" []
            "There is no webhook subscription with this identifier.",
        /// It has no such delivery.
        DeliveryNotFound = Missing "webhook_delivery_not_found" []
            "The subscription has no delivery of this event that waits or is dead.",
        /// The receiver is gone.
        SubscriptionGone = Conflict "webhook_subscription_gone" []
            "The receiver said that it is gone: enable the subscription first.",
        /// It begins anew.
        SubscriptionStarting = Conflict "webhook_subscription_starting" []
            "The subscription has just begun anew: try again in a moment.",
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryBody<'a> {
    subscription_id: &'a str,
    event_id: String,
}

/// The operation.
pub struct RetryDelivery;

impl Operation for RetryDelivery {
    type Command = Command;
    type Resource = WebhookDeliveries;

    const REJECTIONS: &'static [(Class, &'static str)] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("create_webhook_subscription"),
        path: &["$subscriptionId", "1-0"],
        ..Example::NEW
    };

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(WebhookDeliveries::KIND.key(&[&command.subscription_id]))
    }

    fn decide(
        state: Option<&WebhookDeliveries>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<WebhookDeliveries>, Rejection> {
        if !may_manage(context.actor) {
            return Err(Reason::NotPermitted.into());
        }
        let id = [command.subscription_id.as_str()];
        let subscription = context.view.get::<WebhookSubscription>(&id);
        let subscription = subscription.filter(|subscription| !subscription.is_deleted);
        let (Some(deliveries), Some(_)) = (state, subscription) else {
            return Err(Reason::SubscriptionNotFound.into());
        };
        let id = command.event_id;
        if !deliveries.is_dead(id) && !deliveries.waits(id) {
            return Err(Reason::DeliveryNotFound.into());
        }
        if deliveries.is_gone {
            return Err(Reason::SubscriptionGone.into());
        }
        if deliveries.examined.is_none() {
            return Err(Reason::SubscriptionStarting.into());
        }
        let commit = Commit::new(state, DeliveriesEvent::Retried { id }, context.at);
        let answer = to_json(&RetryBody {
            subscription_id: &command.subscription_id,
            event_id: id.to_string(),
        });
        commit.answer(answer)
    }
}
