//! A subscription is deleted, and what waits for its receiver with it.
//!
//! Resource: the subscription. Rejections, in the order tested: the actor may not manage webhooks
//! (403); the subscription is unknown (404); the expected revision is stale (409).

use super::addressed::{Addressed, Reason, key_of};
use super::deliveries::DeliveriesEvent;
use super::subscription::{SubscriptionEvent, WebhookSubscription};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::QueryInteger;
use crate::base::text::Ident;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, path_and_body};

json_object! {
    /// The query of the request.
    pub struct Query {
        /// The subscription's revision as the actor saw it.
        pub expected_revision: QueryInteger = "expectedRevision",
    }
}

json_object! {
    /// What comes beside the path: no body, but a query.
    pub struct Body {
        /// The query.
        pub query: Query = "query",
    }
}

path_and_body! {
    /// The content of a request: the subscription in the path, and the query.
    pub struct Command {
        /// The subscription.
        pub subscription_id: Ident = "subscriptionId",
        body: Body,
    }
}

/// The operation.
pub struct DeleteWebhookSubscription;

impl Operation for DeleteWebhookSubscription {
    type Command = Command;
    type Resource = WebhookSubscription;
    type Answer = ();

    const DOC: &'static str = module_doc!("delete_webhook_subscription.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("create_webhook_subscription"),
        path: &["$subscriptionId"],
        body: r#"{"query": {"expectedRevision": 1}}"#,
        changed_value: ("/query/expectedRevision", "2"),
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
        let expected = body.query.expected_revision.0;
        let addressed = Addressed::at_revision(state, expected, context, || Ok(()))?;
        let mut commit = Commit::new(state, SubscriptionEvent::Deleted, context.at);
        commit.change(Some(&addressed.deliveries), &DeliveriesEvent::Ended);
        // A deleted subscription has no body.
        commit.answer(to_json(&()))
    }
}
