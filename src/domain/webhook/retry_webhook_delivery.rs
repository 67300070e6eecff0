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

/// The content of a request: the subscription and the event, in the path.
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
        // The body must have no field.
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
pub struct RetryWebhookDelivery;

impl Operation for RetryWebhookDelivery {
    type Command = Command;
    type Resource = WebhookDeliveries;
    type Answer = RetryBody<'static>;

    const DOC: &'static str = module_doc!("retry_webhook_delivery.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("create_webhook_subscription"),
        // The delivery has to have failed.
        runs_alone: false,
        path: &["$subscriptionId", "1-0"],
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        // The tests below cover the other rejections: the example has no delivery yet.
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

    use super::super::deliveries::{DEAD_BYTES_MAX, DEAD_MAX, Delivery, Progress};
    use super::super::record_progress::RecordProgress;
    use super::*;
    use crate::base::time::Timestamp;
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
            next_attempt_at: Some(Timestamp::from_millis(5)),
            last_status: Some(500),
            last_error: None,
            gap_from: None,
        }
    }

    /// Makes a service with a subscription that has one waiting delivery (at 3) and one dead
    /// delivery (at 4).
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
        let progress = Progress {
            examined: id(4),
            waiting: vec![delivery(3)],
            dead: vec![delivery(4)],
            ..Progress::default()
        };
        report(&mut scenario, &subscription, progress);
        (scenario, subscription)
    }

    /// Records this report of the dispatcher; returns the deliveries after it.
    fn report(
        scenario: &mut Scenario,
        subscription: &str,
        progress: Progress,
    ) -> WebhookDeliveries {
        let deliveries = WebhookDeliveries::KIND.key(&[subscription]);
        scenario.recorded(&RecordProgress {
            deliveries,
            progress,
        });
        scenario.state(&[subscription]).unwrap()
    }

    fn read(scenario: &Scenario, subscription: &str) -> Value {
        let path = [("subscriptionId", subscription)];
        scenario.read("read_webhook_subscription", &path).unwrap().1
    }

    fn update(scenario: &mut Scenario, subscription: &str, body: &Value) -> Then {
        let path = [("subscriptionId", subscription)];
        scenario.when("update_webhook_subscription", &path, body)
    }

    fn retry(scenario: &mut Scenario, subscription: &str, event: &str) -> Then {
        let path = [("subscriptionId", subscription), ("eventId", event)];
        scenario.when(RETRY, &path, &json!({}))
    }

    #[test]
    fn a_retried_dead_delivery_starts_over_and_a_waiting_one_is_due_at_once() {
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
    fn a_delivery_that_cannot_be_retried_is_rejected() {
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
    fn a_gone_receiver_starts_anew_when_enabled_and_ignores_old_progress() {
        let (mut scenario, subscription) = subscribed();
        let gone = Progress {
            examined: id(7),
            is_failing: true,
            is_gone: true,
            ..Progress::default()
        };
        report(&mut scenario, &subscription, gone.clone());
        let told = read(&scenario, &subscription);
        assert_eq!(
            (&told["status"], &told["waiting"]),
            (&json!("gone"), &json!(0))
        );
        // Only the status `enabled` starts deliveries anew.
        for (revision, status) in [(1, None), (2, Some("paused"))] {
            let body = match status {
                None => json!({"expectedRevision": revision, "description": "Of the ledger."}),
                Some(status) => json!({"expectedRevision": revision, "status": status}),
            };
            let answer = update(&mut scenario, &subscription, &body).committed();
            assert_eq!(answer["status"], "gone", "{body}");
        }
        let body = json!({"expectedRevision": 3, "status": "enabled"});
        let answer = update(&mut scenario, &subscription, &body).committed();
        assert_eq!(answer["status"], "enabled", "nor is it failing");
        assert_eq!(
            answer["deliveredThrough"],
            Value::Null,
            "where it begins is known once that is committed"
        );
        let begun: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        assert_eq!((begun.generation, begun.examined), (1, None));
        assert_eq!(begun.dead.len(), 1, "what is dead stays listed");
        assert_eq!(report(&mut scenario, &subscription, gone), begun);
    }

    #[test]
    fn an_update_leaves_what_it_does_not_name() {
        let (mut scenario, subscription) = subscribed();
        let paused = json!({"expectedRevision": 1, "status": "paused", "description": "Mine."});
        update(&mut scenario, &subscription, &paused).committed();
        let types = json!({"expectedRevision": 2, "types": ["carebook.branch.*"]});
        let answer = update(&mut scenario, &subscription, &types).committed();
        assert_eq!(answer["status"], "paused");
        assert_eq!(answer["description"], "Mine.");
        assert_eq!(answer["url"], "https://example.com/");
        assert_eq!(answer["types"], json!(["carebook.branch.*"]));
    }

    #[test]
    fn the_first_applicable_rejection_wins() {
        let (mut scenario, subscription) = subscribed();
        let plain = json!({"expectedRevision": 9, "url": "http://example.com/"});
        assert_eq!(
            update(&mut scenario, &subscription, &plain).faults(),
            [("url".to_owned(), "not_allowed")],
            "before the stale revision"
        );
        assert_eq!(
            update(&mut scenario, "unknown", &plain).code(),
            "webhook_subscription_not_found"
        );
        let gone = Progress {
            examined: id(7),
            is_gone: true,
            ..Progress::default()
        };
        report(&mut scenario, &subscription, gone);
        assert_eq!(
            retry(&mut scenario, &subscription, "5-0").code(),
            "webhook_delivery_not_found",
            "before the receiver that is gone"
        );
        scenario.acting(actor(ActorKind::Mother, "mother"));
        let plain = json!({"url": "http://example.com/", "types": ["carebook.*"]});
        let made = scenario.when("create_webhook_subscription", &[], &plain);
        assert_eq!(made.code(), "permission_denied");
    }

    #[test]
    fn one_that_fails_while_it_is_paused_is_paused() {
        let (mut scenario, subscription) = subscribed();
        let failing = Progress {
            examined: id(4),
            is_failing: true,
            ..Progress::default()
        };
        report(&mut scenario, &subscription, failing);
        assert_eq!(read(&scenario, &subscription)["status"], "failing");
        let paused = json!({"expectedRevision": 1, "status": "paused"});
        let answer = update(&mut scenario, &subscription, &paused).committed();
        assert_eq!(answer["status"], "paused");
        assert_eq!(read(&scenario, &subscription)["status"], "paused");
    }

    #[test]
    fn it_is_told_to_have_delivered_what_lies_before_the_first_that_waits() {
        let (mut scenario, subscription) = subscribed();
        let through =
            |scenario: &Scenario| read(scenario, &subscription)["deliveredThrough"].clone();
        assert_eq!(through(&scenario), "2-0", "3-0 waits");
        let within_a_commit = Progress {
            examined: id(9),
            waiting: vec![Delivery {
                id: EventId {
                    position: 7,
                    number: 2,
                },
                ..delivery(7)
            }],
            settled: vec![id(3)],
            ..Progress::default()
        };
        report(&mut scenario, &subscription, within_a_commit);
        assert_eq!(through(&scenario), "7-1", "7-2 waits");
    }

    #[test]
    fn progress_reported_twice_is_stored_once() {
        let (mut scenario, subscription) = subscribed();
        let again = Progress {
            examined: id(4),
            waiting: vec![delivery(3)],
            dead: vec![delivery(4)],
            ..Progress::default()
        };
        let state = report(&mut scenario, &subscription, again);
        assert_eq!(state.waiting, [delivery(3)]);
        assert_eq!(state.dead, [delivery(4)]);
        assert_eq!(state.validate(), Ok(()));
    }

    #[test]
    fn beyond_the_bound_the_oldest_dead_deliveries_are_forgotten() {
        let (mut scenario, subscription) = subscribed();
        let all = u64::try_from(DEAD_MAX).unwrap() + 1;
        let small = |position| Delivery {
            event_type: Box::default(),
            subject: Box::default(),
            ..delivery(position)
        };
        let dying = |dead: Vec<Delivery>| Progress {
            examined: id(all + 9),
            settled: vec![id(3)],
            dead,
            ..Progress::default()
        };
        let many = dying((5..5 + all).map(small).collect());
        let state = report(&mut scenario, &subscription, many);
        assert_eq!(state.dead.len(), DEAD_MAX);
        assert_eq!(state.dead[0].id, id(6), "4 and 5 are forgotten");
        let large = |position| Delivery {
            last_error: Some("x".repeat(DEAD_BYTES_MAX / 2).into()),
            ..small(position)
        };
        let large = dying(vec![large(all + 7), large(all + 8)]);
        let state = report(&mut scenario, &subscription, large);
        assert_eq!(
            state.dead.len(),
            1,
            "both have more bytes than there is room for"
        );
        assert_eq!(state.dead[0].id, id(all + 8));
    }

    #[test]
    fn a_deleted_subscription_is_nowhere_and_what_was_said_of_it_is_forgotten() {
        let (mut scenario, subscription) = subscribed();
        let path = [("subscriptionId", subscription.as_str())];
        let described = json!({"expectedRevision": 1, "description": "For Ms Kim."});
        update(&mut scenario, &subscription, &described).committed();
        let body = json!({"query": {"expectedRevision": 2}});
        scenario
            .when("delete_webhook_subscription", &path, &body)
            .committed();
        assert!(scenario.read("read_webhook_subscription", &path).is_err());
        let state: WebhookSubscription = scenario.state(&[&subscription]).unwrap();
        assert!(state.url.is_empty() && state.is_deleted);
        assert_eq!(state.description.text(), None);
        let state: WebhookDeliveries = scenario.state(&[&subscription]).unwrap();
        assert!(state.waiting.is_empty() && state.dead.is_empty());
        let late = Progress {
            examined: id(9),
            dead: vec![delivery(9)],
            ..Progress::default()
        };
        assert_eq!(
            report(&mut scenario, &subscription, late),
            state,
            "what was on its way changes nothing"
        );
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
