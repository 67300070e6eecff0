//! A subscription gets a new secret; the one before signs beside it for 24 hours.
//!
//! Resource: the subscription. Rejections, in the order tested: the actor may not manage webhooks
//! (403); the subscription is unknown (404); the expected revision is stale (409).

use super::addressed::{Addressed, Reason, key_of};
use super::body::{SubscriptionBody, SubscriptionWithSecret};
use super::subscription::{SubscriptionEvent, WebhookSubscription};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::Ident;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, path_and_body};

json_object! {
    /// The body of the request.
    pub struct Body {
        /// The subscription's revision as the actor saw it.
        pub expected_revision: i64 = "expectedRevision",
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
pub struct RotateWebhookSecret;

impl Operation for RotateWebhookSecret {
    type Command = Command;
    type Resource = WebhookSubscription;
    type Answer = SubscriptionWithSecret;

    const DOC: &'static str = module_doc!("rotate_webhook_secret.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("create_webhook_subscription"),
        path: &["$subscriptionId"],
        body: r#"{"expectedRevision": 1}"#,
        changed_value: ("/expectedRevision", "2"),
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
        let expected = body.expected_revision;
        let addressed = Addressed::at_revision(state, expected, context, || Ok(()))?;
        let secret_number = addressed.subscription.secret_number + 1;
        let event = SubscriptionEvent::SecretRotated { secret_number };
        let commit = Commit::new(state, event, context.at);
        let position = Some(addressed.position);
        let body = SubscriptionBody::new(&commit.next, &addressed.deliveries, position);
        let answer = to_json(&body.telling_secret(secret_number));
        commit.answer(answer)
    }
}
