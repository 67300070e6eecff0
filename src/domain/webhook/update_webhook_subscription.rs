//! A subscription is changed: where events are brought, which, and whether they are.
//!
//! Resource: the subscription. Rejections, in the order tested: the actor may not manage webhooks
//! (403); the subscription is unknown (404); the URL is one of plain HTTP beyond this machine
//! (400); the expected revision is stale (409). One whose receiver was gone begins anew, with the
//! next event, when it is set to `enabled`.

use super::addressed::{Addressed, Reason, key_of};
use super::body::SubscriptionBody;
use super::create_webhook_subscription::check_scheme;
use super::deliveries::DeliveriesEvent;
use super::subscription::{
    Description, EventTypePatterns, SubscriptionEvent, SubscriptionUpdated, Switch,
    WebhookSubscription,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{Ident, ReceiverUrl};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, path_and_body};

json_object! {
    /// The body of the request: what is absent stays as it is.
    pub struct Body {
        /// The subscription's revision as the actor saw it.
        pub expected_revision: i64 = "expectedRevision",
        /// Where events are brought.
        pub url: Option<ReceiverUrl> = "url",
        /// Which types of events.
        pub types: Option<EventTypePatterns> = "types",
        /// What it is for.
        pub description: Option<Description> = "description",
        /// Whether deliveries go out.
        pub status: Option<Switch> = "status",
    }
}

path_and_body! {
    /// The content of a request: the subscription in the path, and the body.
    pub struct Command {
        /// The subscription.
        pub subscription_id: Ident = "subscriptionId",
        body: Body,
    }
}

/// The operation.
pub struct UpdateWebhookSubscription;

impl Operation for UpdateWebhookSubscription {
    type Command = Command;
    type Resource = WebhookSubscription;
    type Answer = SubscriptionBody<'static>;

    const DOC: &'static str = module_doc!("update_webhook_subscription.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("create_webhook_subscription"),
        path: &["$subscriptionId"],
        body: r#"{"expectedRevision": 1, "status": "paused"}"#,
        changed_value: ("/status", "\"enabled\""),
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        super::addressed::ladder()
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(key_of(&command.subscription_id))
    }

    fn decide(
        state: Option<&WebhookSubscription>,
        Command { body, .. }: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<WebhookSubscription>, Rejection> {
        let check = || {
            body.url
                .as_ref()
                .map_or(Ok(()), |url| check_scheme(url, context))
        };
        let expected = body.expected_revision;
        let addressed = Addressed::at_revision(state, expected, context, check)?;
        let subscription = addressed.subscription;
        let present = match subscription.is_paused {
            true => Switch::Paused,
            false => Switch::Enabled,
        };
        let url = ReceiverUrl::from_trusted(subscription.url.clone());
        let event = SubscriptionEvent::Updated(Box::new(SubscriptionUpdated {
            url: body.url.clone().unwrap_or(url),
            types: body.types.clone().unwrap_or(subscription.types.clone()),
            description: match &body.description {
                Some(description) => description.clone(),
                None => subscription.description.clone(),
            },
            status: body.status.unwrap_or(present),
        }));
        let mut commit = Commit::new(state, event, context.at);
        let mut deliveries = addressed.deliveries;
        let mut position = Some(addressed.position);
        if deliveries.is_gone && body.status == Some(Switch::Enabled) {
            deliveries = commit.change(Some(&deliveries), &DeliveriesEvent::Restarted);
            position = None;
        }
        let answer = to_json(&SubscriptionBody::new(&commit.next, &deliveries, position));
        commit.answer(answer)
    }
}
