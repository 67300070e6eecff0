//! Events are to be brought to a URL.
//!
//! Resource: the subscription, which is born. Rejections, in the order tested: the actor may not
//! manage webhooks (403); the URL is one of plain HTTP beyond this machine (400); there are as many
//! subscriptions as there may be (409).

use super::body::{SubscriptionBody, SubscriptionWithSecret};
use super::deliveries::{DeliveriesEvent, WebhookDeliveries};
use super::subscription::{
    Description, EventTypePatterns, SUBSCRIPTIONS_MAX, SubscriptionCreated, SubscriptionEvent,
    WebhookSubscription, may_manage, subscriptions,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::FaultCode;
use crate::base::text::ReceiverUrl;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// What is asked for.
    pub struct Command {
        /// Where events are brought.
        pub url: ReceiverUrl = "url",
        /// Which types of events.
        pub types: EventTypePatterns = "types",
        /// What it is for.
        pub description: Option<Description> = "description",
    }
}

rejections! {
    /// Why there is no subscription.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a workflow or the head office with the permission webhooks:manage may do this.",
        /// There are too many.
        SubscriptionsFull = Conflict "webhook_subscriptions_full" []
            "There are 5,000 webhook subscriptions: delete one first.",
    }
}

/// The operation.
pub struct CreateWebhookSubscription;

/// Refuses a URL whose requests others could read, unless they stay on this machine, or plain HTTP
/// is allowed.
pub(super) fn check_scheme(url: &ReceiverUrl, context: &Context<'_>) -> Result<(), Rejection> {
    if url.is_plain() && !url.is_to_loopback() && !context.plain_webhooks {
        return Err(Rejection::invalid_at("url", FaultCode::NotAllowed));
    }
    Ok(())
}

impl Operation for CreateWebhookSubscription {
    type Command = Command;
    type Resource = WebhookSubscription;
    type Answer = SubscriptionWithSecret;

    const DOC: &'static str = module_doc!("create_webhook_subscription.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        body: r#"{
  "url": "https://receiver.example.com/events",
  "types": ["carebook.settlement-statement.*"],
  "description": null
}"#,
        changed_value: ("/url", "\"https://other.example.com/events\""),
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of_managers()
            .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
            .then(Reason::SubscriptionsFull, |case| {
                for number in 0..SUBSCRIPTIONS_MAX as u128 {
                    case.service.given(&WebhookSubscription {
                        subscription_id: uuid::Uuid::from_u128(number),
                        revision: crate::base::revision::Revision::FIRST,
                        created_at: crate::base::time::Timestamp::default(),
                        url: "https://example.com".into(),
                        types: EventTypePatterns(Vec::new()),
                        description: Description::default(),
                        is_paused: false,
                        is_deleted: false,
                        secret_number: 1,
                        rotated_at: None,
                    });
                }
                case
            })
    }

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        Some(WebhookSubscription::KIND.key(&[context.new_id.to_string()]))
    }

    fn decide(
        _: Option<&WebhookSubscription>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<WebhookSubscription>, Rejection> {
        if !may_manage(context.actor) {
            return Err(Reason::NotPermitted.into());
        }
        check_scheme(&command.url, context)?;
        if context.view.ranked(subscriptions()).len() >= SUBSCRIPTIONS_MAX {
            return Err(Reason::SubscriptionsFull.into());
        }
        let event = SubscriptionEvent::Created(Box::new(SubscriptionCreated {
            subscription_id: context.new_id,
            url: command.url.clone(),
            types: command.types.clone(),
            description: command.description.clone().unwrap_or_default(),
        }));
        let mut commit = Commit::new(None, event, context.at);
        let deliveries: WebhookDeliveries = commit.create(&DeliveriesEvent::Begun {
            subscription_id: context.new_id,
        });
        let body = SubscriptionBody::new(&commit.next, &deliveries, None);
        let answer = to_json(&body.telling_secret(commit.next.secret_number));
        commit.answer(answer)
    }
}
