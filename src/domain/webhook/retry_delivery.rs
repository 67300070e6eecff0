//! A delivery that is dead, or pauses, is to be tried again at once.
//!
//! Resource: the subscription's deliveries. Rejections, in the order tested: the actor may not
//! manage webhooks (403); the subscription is unknown, or has no such delivery (404); the receiver
//! is gone, or the subscription has only just begun anew (409).

use schemars::JsonSchema;
use serde::Serialize;

use super::deliveries::{DeliveriesEvent, WebhookDeliveries};
use super::subscription::{WebhookSubscription, may_manage};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{Reader, Shape};
use crate::base::text::Ident;
use crate::domain::event_id::EventId;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, Parts, Request, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{module_doc, rejections};

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

/// What is answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookRetry")]
pub struct RetryBody<'a> {
    subscription_id: &'a str,
    event_id: String,
}

/// The operation.
pub struct RetryDelivery;

impl Operation for RetryDelivery {
    type Command = Command;
    type Resource = WebhookDeliveries;
    type Answer = RetryBody<'static>;

    const SAYS: &'static str = module_doc!("retry_delivery.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("create_webhook_subscription"),
        path: &["$subscriptionId", "1-0"],
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        // Its causes are brought about in the tests below: the example has no delivery yet.
        Ladder::of_managers()
            .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
            .then(Reason::SubscriptionNotFound, Case::at_unknown)
    }

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::deliveries::{Delivery, Progress};
    use super::*;
    use crate::base::time::Instant;
    use crate::domain::scenario::{Scenario, Then, actor};

    const RETRY: &str = "retry_webhook_delivery";

    fn id(position: u64) -> EventId {
        EventId {
            position,
            number: 0,
        }
    }

    fn delivery(position: u64) -> Delivery {
        Delivery {
            id: id(position),
            event_type: "carebook.branch.created".into(),
            subject: "admin/branches/1".into(),
            attempts: 10,
            next_attempt_at: Some(Instant::from_millis(5)),
            last_status: Some(500),
            last_error: None,
            gap_from: None,
        }
    }

    /// A subscription with one delivery that waits (at 3) and one that is dead (at 4).
    fn subscribed() -> (Scenario, String) {
        let mut scenario = Scenario::new();
        let mut workflow = actor(ActorKind::SystemWorkflow, "workflow");
        workflow.permissions = vec!["webhooks:manage".into()];
        scenario.acting(workflow);
        let body = json!({"url": "https://example.com/", "types": ["carebook.*"]});
        let made = scenario.when("create_webhook_subscription", &[], &body);
        let subscription = made.committed()["subscriptionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let begun: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        let progress = Progress {
            examined: id(4),
            waiting: vec![delivery(3)],
            dead: vec![delivery(4)],
            ..Progress::default()
        };
        let event = DeliveriesEvent::Progressed(Box::new(progress));
        scenario.given(&WebhookDeliveries::apply(
            Some(begun),
            &event,
            Instant::default(),
        ));
        (scenario, subscription)
    }

    fn retry(scenario: &mut Scenario, subscription: &str, event: &str) -> Then {
        let path = [("subscriptionId", subscription), ("eventId", event)];
        scenario.when(RETRY, &path, &json!({}))
    }

    #[test]
    fn a_dead_delivery_waits_again_from_the_start_and_one_that_pauses_is_due_at_once() {
        let (mut scenario, subscription) = subscribed();
        let answer = retry(&mut scenario, &subscription, "4-0").committed();
        assert_eq!(answer["eventId"], "4-0");
        retry(&mut scenario, &subscription, "3-0").committed();
        let state: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        assert_eq!(state.dead, []);
        let waiting = state.waiting.iter();
        let waiting: Vec<_> = waiting
            .map(|one| (one.id, one.attempts, one.next_attempt_at))
            .collect();
        assert_eq!(waiting, [(id(3), 10, None), (id(4), 0, None)]);
    }

    #[test]
    fn what_cannot_be_retried_is_refused() {
        let (mut scenario, subscription) = subscribed();
        assert_eq!(
            retry(&mut scenario, &subscription, "5-0").code(),
            "webhook_delivery_not_found"
        );
        assert_eq!(
            retry(&mut scenario, &subscription, "x").faults(),
            [("eventId".to_owned(), "pattern")]
        );
        assert_eq!(
            retry(&mut scenario, "unknown", "3-0").code(),
            "webhook_subscription_not_found"
        );
        let known: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        for (changed, code) in [
            (
                WebhookDeliveries {
                    is_gone: true,
                    ..known.clone()
                },
                "webhook_subscription_gone",
            ),
            (
                WebhookDeliveries {
                    examined: None,
                    ..known
                },
                "webhook_subscription_starting",
            ),
        ] {
            scenario.given(&changed);
            assert_eq!(retry(&mut scenario, &subscription, "3-0").code(), code);
        }
        scenario.acting(actor(ActorKind::SystemWorkflow, "workflow"));
        assert_eq!(
            retry(&mut scenario, &subscription, "3-0").code(),
            "permission_denied"
        );
    }

    #[test]
    fn a_receiver_that_was_gone_begins_anew_and_progress_of_before_changes_nothing() {
        let (mut scenario, subscription) = subscribed();
        let known: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        let gone = DeliveriesEvent::Progressed(Box::new(Progress {
            examined: id(7),
            is_gone: true,
            ..Progress::default()
        }));
        scenario.given(&WebhookDeliveries::apply(
            Some(known),
            &gone,
            Instant::default(),
        ));
        let path = [("subscriptionId", subscription.as_str())];
        let read = |scenario: &Scenario| -> Value {
            scenario.read("read_webhook_subscription", &path).unwrap().1
        };
        let gone = read(&scenario);
        assert_eq!(
            (&gone["status"], &gone["waiting"]),
            (&json!("gone"), &json!(0))
        );
        let body = json!({"expectedRevision": 1, "status": "enabled"});
        let update = "update_webhook_subscription";
        let answer = scenario.when(update, &path, &body).committed();
        assert_eq!(answer["status"], "enabled");
        let state: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        assert_eq!((state.generation, state.examined), (1, None));
        assert_eq!(state.dead.len(), 1, "what is dead stays listed");
    }

    #[test]
    fn a_deleted_subscription_is_nowhere_and_its_url_is_forgotten() {
        let (mut scenario, subscription) = subscribed();
        let path = [("subscriptionId", subscription.as_str())];
        let body = json!({"query": {"expectedRevision": 1}});
        scenario
            .when("delete_webhook_subscription", &path, &body)
            .committed();
        assert!(scenario.read("read_webhook_subscription", &path).is_err());
        let state: WebhookSubscription = scenario.state(&[&subscription]).unwrap();
        assert!(state.url.is_empty() && state.is_deleted);
        let state: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        assert!(state.waiting.is_empty() && state.dead.is_empty());
        assert_eq!(
            retry(&mut scenario, &subscription, "3-0").code(),
            "webhook_subscription_not_found"
        );
    }

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        let (mut scenario, _) = subscribed();
        let mut create = |url: &str| {
            let body = json!({"url": url, "types": ["carebook.*"]});
            scenario.when("create_webhook_subscription", &[], &body)
        };
        assert_eq!(
            create("http://example.com/").faults(),
            [("url".to_owned(), "not_allowed")]
        );
        create("http://127.0.0.1:8080/x").committed();
        create("http://localhost/").committed();
    }
}
