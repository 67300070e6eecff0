//! What single operations answer, and seldom.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carebook::base::actor::{Actor, ActorKind};
use carebook::base::digest::{Digest, Fingerprint};
use carebook::base::json::{Json, Reader};
use carebook::catalogue::OPERATIONS;
use carebook::cli::runtime::on_lane;
use carebook::cli::serve::demo::load_samples;
use carebook::domain::erased::{AnyCommand, AnyDecision, AnyState};
use carebook::domain::example;
use carebook::domain::operation::{Context, Parts};
use carebook::domain::rejection::Rejection;
use carebook::domain::settlement::statement::{Statement, StatementStatus};
use carebook::engine::checkpointer::CheckpointPolicy;
use carebook::engine::{CommandRequest, CommandResult, Mode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Asked, all, lifecycle, reopened, sender, workflow};
use crate::support::command::{Around, Wrapped};
use crate::support::good::{Good, code, row_named};
use crate::support::inside::{Inside, Wanted};
use crate::support::stage::Stage;
use crate::support::{Answer, World, claims};

/// The request of this name.
fn named<'a>(all: &'a [Asked], name: &str) -> &'a Asked {
    all.iter().find(|asked| asked.name == name).unwrap()
}

#[track_caller]
fn assert_answered(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.json()["code"], code);
}

#[test]
fn managing_webhooks_and_messages_takes_a_permission_and_existing_ones() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let token = world.token(&workflow("workflow-1"));
    let stranger = world.plain(ActorKind::SystemWorkflow, "workflow-2");
    let all = all();
    on_lane(inside.engine(), async {
        let managed = all.iter().filter(|asked| {
            let row = asked.row;
            row.is_some_and(|row| row.tag > 100)
        });
        for asked in managed {
            let refused = asked.send(&inside, &stranger).await;
            asked.is_answered(&refused, 403, "permission_denied");
            let code = match asked.name.as_str() {
                "create_webhook_subscription" => continue,
                name if name.ends_with("outbox_message") => "message_not_found",
                _ => "webhook_subscription_not_found",
            };
            let missing = asked.send(&inside, &token).await;
            asked.is_answered(&missing, 404, code);
        }
        let listed = named(&all, "list_webhook_deliveries");
        let missing = listed.send(&inside, &token).await;
        listed.is_answered(&missing, 404, "not_found");
    })
    .unwrap();
}

#[test]
fn a_key_with_which_something_was_managed_is_not_taken_for_something_else() {
    let world = World::new();
    let (inside, all, token) = reopened(&world);
    on_lane(inside.engine(), async {
        // Sends the request, and another one under its key: to another path, or with another body.
        let twice =
            async |name: &str, body: Option<Value>, paths: [&str; 2], other: Option<Value>| {
                let asked = named(&all, name);
                let done = inside
                    .send_json(&asked.method, paths[0], &token, name, body)
                    .await;
                assert!((200..300).contains(&done.status), "{name}: {done:?}");
                let reused = inside
                    .send_json(&asked.method, paths[1], &token, name, other)
                    .await;
                assert_answered(&reused, 409, "idempotency_key_reused");
            };
        let path = |name: &str| named(&all, name).path.as_str();
        let update = path("update_webhook_subscription");
        let pause = json!({"expectedRevision": 1, "status": "paused"});
        let enable = json!({"expectedRevision": 1, "status": "enabled"});
        let name = "update_webhook_subscription";
        twice(name, Some(pause), [update; 2], Some(enable)).await;
        let rotate = path("rotate_webhook_secret");
        let revision = |number: u32| Some(json!({"expectedRevision": number}));
        let name = "rotate_webhook_secret";
        twice(name, revision(2), [rotate; 2], revision(9)).await;
        let nothing = || Some(json!({}));
        let name = "retry_webhook_delivery";
        let (retry, other) = (path(name), format!("{update}/deliveries/9999-0/retries"));
        twice(name, nothing(), [retry, &other], nothing()).await;
        let name = "retry_outbox_message";
        twice(
            name,
            nothing(),
            [path(name), "/outbox/9999/retries"],
            nothing(),
        )
        .await;
        let name = "skip_outbox_message";
        let reason = |text: &str| Some(json!({"reason": text}));
        twice(name, reason("One."), [path(name); 2], reason("Another.")).await;
        let of_revision = |number: u32| format!("{update}?expectedRevision={number}");
        let (delete, other) = (of_revision(3), of_revision(9));
        twice("delete_webhook_subscription", None, [&delete, &other], None).await;
        // What was skipped is no longer to be moved.
        let asked = named(&all, "skip_outbox_message");
        let settled = inside.send_json("POST", &asked.path, &token, "other", asked.body.clone());
        assert_answered(&settled.await, 409, "message_settled");
    })
    .unwrap();
}

#[test]
fn a_delivery_of_a_gone_or_starting_subscription_is_not_retried() {
    let world = World::new();
    let (inside, all, token) = reopened(&world);
    let retry = named(&all, "retry_webhook_delivery");
    let subscription = &named(&all, "read_webhook_subscription").path;
    on_lane(inside.engine(), async {
        let deliveries = tokio::spawn(inside.deliveries.lock().take().unwrap());
        inside.receivers.go();
        let fact = json!({"facts": [lifecycle("somebody", "active", 2)]});
        let put = inside
            .send_json("POST", "/reference-facts", &token, "-", Some(fact))
            .await;
        assert_eq!(put.status, 200, "{put:?}");
        loop {
            let read = inside
                .send_json("GET", subscription, &token, "-", None)
                .await;
            if read.json()["status"] == "gone" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        retry.is_answered(
            &retry.send(&inside, &token).await,
            409,
            "webhook_subscription_gone",
        );
        // Nothing begins without this task.
        deliveries.abort();
        assert!(deliveries.await.unwrap_err().is_cancelled());
        let enable = json!({"expectedRevision": 1, "status": "enabled"});
        let enabled = inside.send_json("PATCH", subscription, &token, "enable", Some(enable));
        assert_eq!(enabled.await.status, 200);
        let starting = retry.send(&inside, &token).await;
        retry.is_answered(&starting, 409, "webhook_subscription_starting");
    })
    .unwrap();
}

#[test]
fn there_are_five_thousand_webhook_subscriptions_and_not_one_more() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let token = world.token(&workflow("workflow-1"));
    let all = all();
    let create = named(&all, "create_webhook_subscription");
    on_lane(inside.engine(), async {
        let ask = async |number: usize| {
            let (path, body) = (&create.path, create.body.clone());
            inside
                .send_json("POST", path, &token, &format!("{number}"), body)
                .await
        };
        for number in 0..5_000 {
            assert_eq!(ask(number).await.status, 201);
        }
        let full = ask(5_000).await;
        create.is_answered(&full, 409, "webhook_subscriptions_full");
    })
    .unwrap();
}

/// A service with the sample facts, whose idempotency keys are kept for a day.
fn forgetting(world: &World) -> Inside {
    let inside = Inside::start(world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    inside.engine().checkpoint_by(CheckpointPolicy {
        retention: Some(Duration::from_secs(86_400)),
        ..CheckpointPolicy::default()
    });
    inside
}

/// Two days go by, and every key that was used before is forgotten.
fn forget(inside: &Inside) {
    let snapshot = || {
        let taken = inside.engine().snapshot_now(&mut |_| {});
        assert!(taken.unwrap().is_some());
    };
    snapshot();
    inside.clock.run(Duration::from_secs(2 * 86_400));
    snapshot();
}

/// Sends the example, with another value where one is given, as the actor of the example.
fn ask(world: &World, inside: &Inside, asked: &Asked, change: Option<(&str, Value)>) -> Answer {
    let actor = asked.row.unwrap().operation.example().actor;
    let actor = example::actor(actor, &str::to_owned);
    let token = world.key.sign(&claims(&actor, 6 * 86_400)).unwrap();
    let bearer = format!("Bearer {token}");
    let mut body = asked.body.clone().unwrap();
    if let Some((name, value)) = change {
        body[name] = value;
    }
    let body = Full::new(Bytes::from(body.to_string()));
    let headers = asked.headers(&bearer);
    on_lane(inside.engine(), async {
        inside.send("POST", &asked.path, &headers, body).await
    })
    .unwrap()
}

#[test]
fn a_forgotten_first_response_is_not_replaced_by_another() {
    let world = World::new();
    let inside = forgetting(&world);
    let all = all();
    let asked = [
        ("request_deposit", 201),
        ("open_data_room_request", 201),
        ("snapshot_settlement_account", 201),
        ("capture_adjustment_payment", 200),
        ("finalize_charge", 200),
    ];
    let asked = asked.map(|(name, status)| (named(&all, name), status));
    let ask = |asked: &Asked| ask(&world, &inside, asked, None);
    for (asked, status) in asked {
        assert_eq!(ask(asked).status, status);
        assert_eq!(ask(asked).header("idempotent-replayed"), Some("true"));
    }
    forget(&inside);
    for (asked, _) in asked {
        asked.is_answered(&ask(asked), 409, "first_answer_forgotten");
    }
}

#[test]
fn a_payment_and_a_charge_count_once_though_their_keys_are_forgotten() {
    let world = World::new();
    let inside = forgetting(&world);
    let all = all();
    let [payment, charge] =
        ["capture_adjustment_payment", "finalize_charge"].map(|name| named(&all, name));
    for asked in [payment, charge] {
        assert_eq!(ask(&world, &inside, asked, None).status, 200);
    }
    // Another adjustment of the booking follows, for which no payment is prepared.
    let later = json!({
        "kind": "payment-change-adjustment", "id": "adjustment-later", "revision": 1,
        "facts": {
            "reservationBookingId": "reservation-booking-1", "motherUserId": "mother-1",
            "customerDeltaKrw": 7_000, "couponAdjustmentKrw": 0, "pureCustomerAmountKrw": 7_000,
            "motherPayableAdjustmentKrw": 7_000, "adjustmentStatus": "payable",
            "requestedAt": "2025-07-01T00:00:00Z",
        },
    });
    let token = world.token(&workflow("workflow-1"));
    let body = Some(json!({"facts": [later]}));
    let put = on_lane(inside.engine(), async {
        let path = "/reference-facts";
        inside.send_json("POST", path, &token, "unused", body).await
    });
    assert_eq!(put.unwrap().json()["applied"], 1);
    let again = ask(&world, &inside, payment, None);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    forget(&inside);
    inside.engine().shut_down().unwrap();

    // What is paid and what is finalized is found in the states, and so after a start as well.
    let disk = inside.disk.clone();
    drop(inside);
    let wanted = Wanted {
        disk,
        ..Wanted::default()
    };
    let inside = Inside::start(&world, wanted);
    inside.clock.run(Duration::from_secs(2 * 86_400));
    let forgotten = "first_answer_forgotten";
    payment.is_answered(&ask(&world, &inside, payment, None), 409, forgotten);
    charge.is_answered(&ask(&world, &inside, charge, None), 409, forgotten);
    let change = Some(("providerContext", json!({})));
    let reused = ask(&world, &inside, payment, change);
    payment.is_answered(&reused, 409, "idempotency_key_reused");
    let content = "was used before with other request content.";
    assert_eq!(reused.json()["message"], format!("The paymentId {content}"));
    let change = Some(("servicePriceKrw", json!(1_500_001)));
    let reused = ask(&world, &inside, charge, change);
    charge.is_answered(&reused, 409, "charge_snapshot_reused");
    let message = format!("The finalizedChargeSnapshotId {content}");
    assert_eq!(reused.json()["message"], message);
    // The later adjustment waits for a payment of its own.
    let change = Some(("paymentId", json!("another-payment")));
    let paid = ask(&world, &inside, payment, change);
    assert_eq!(paid.status, 200, "{paid:?}");
    assert_eq!(paid.json()["paymentChangeAdjustmentId"], "adjustment-later");
}

/// A charge as earlier programs recorded it, whose fingerprint was that of what was sent.
struct RecordedAsSent(Box<dyn AnyCommand>);

impl Around for RecordedAsSent {
    fn inner(&self) -> &dyn AnyCommand {
        self.0.as_ref()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint_as_sent().unwrap()
    }
}

#[test]
fn an_older_version_s_charge_with_defaults_is_replayed_for_its_own_body() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    let all = all();
    let asked = named(&all, "finalize_charge");
    let mut body = asked.body.clone().unwrap();
    body["couponDiscountAmountKrw"] = json!(0);
    let row = asked.row.unwrap();
    let text = body.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let parts = Parts {
        path: &[("reservationBookingId", "reservation-booking-1")],
        body: &json,
    };
    let mut at = Reader::new(inside.engine().now());
    let command = row.operation.read(row.name, &parts, &mut at).unwrap();
    let call = CommandRequest {
        row: Some(row),
        actor: Arc::new(Actor::nobody()),
        command: Box::new(Wrapped(RecordedAsSent(command))),
        header_key: None,
    };
    let permit = inside.engine().admit().unwrap();
    let first = on_lane(inside.engine(), async {
        inside.engine().execute(call, permit, Mode::Commit).await
    });
    let first = first.unwrap();
    assert!(
        matches!(first, CommandResult::Done { replay: false, .. }),
        "{first:?}"
    );
    let same = Some(("couponDiscountAmountKrw", json!(0)));
    let again = ask(&world, &inside, asked, same);
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    // Which of the fields were there cannot be told from what is recorded.
    let without = ask(&world, &inside, asked, None);
    asked.is_answered(&without, 409, "charge_snapshot_reused");
}

/// A command before which its statement falls into arrears: a state that no operation brings about yet.
struct InArrears(Box<dyn AnyCommand>);

impl Around for InArrears {
    fn inner(&self) -> &dyn AnyCommand {
        self.0.as_ref()
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        // The state is read by that.
        let _ = self.0.decide(target, slot, context);
        let state = slot.as_mut().unwrap();
        let statement: &mut Statement = state.downcast_mut().unwrap();
        statement.transitions[0].after_status = StatementStatus::Arrears;
        self.0.decide(target, slot, context)
    }
}

#[test]
fn a_line_of_a_statement_in_arrears_is_not_acknowledged_again() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    let all = all();
    let asked = named(&all, "acknowledge_deposit");
    let token = sender(&world, asked);
    on_lane(inside.engine(), async {
        let first = asked.send(&inside, &token).await;
        assert_eq!(first.status, 200, "{first:?}");
        let mut body = asked.body.clone().unwrap();
        body["expectedRevision"] = json!(2);
        body["idempotencyKey"] = json!("before");
        // The statement is left in arrears in the memory of its actor, which has the next command
        // waiting already.
        let row = OPERATIONS.iter().find(|row| row.name == asked.name);
        let row = row.unwrap();
        let text = body.to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        let parts = Parts {
            path: &[],
            body: &json,
        };
        let mut at = Reader::new(inside.engine().now());
        let command = row.operation.read(row.name, &parts, &mut at).unwrap();
        let call = CommandRequest {
            row: Some(row),
            actor: Arc::new(example::actor(
                row.operation.example().actor,
                &str::to_owned,
            )),
            command: Box::new(Wrapped(InArrears(command))),
            header_key: None,
        };
        let permit = inside.engine().admit().unwrap();
        let before = inside.engine().execute(call, permit, Mode::Commit);
        body["idempotencyKey"] = json!("again");
        let again = inside.send_json("POST", &asked.path, &token, "-", Some(body));
        let (_, again) = tokio::join!(before, again);
        asked.is_answered(&again, 409, "line_already_acknowledged");
    })
    .unwrap();
}

#[test]
fn a_request_for_data_has_two_hundred_artifacts_and_not_one_more() {
    let stage = Stage::new();
    let good = Good::of(row_named("mark_artifact_ready"), &stage);
    let (mut client, token) = (stage.client(), good.token(&stage));
    for number in 0..=200 {
        let mut body = good.body.clone();
        body["artifact"]["artifactId"] = json!(format!("{} {number}", stage.id("artifact-1")));
        body["idempotencyKey"] = json!(format!("key {number}"));
        body["expectedRevision"] = json!(number + 1);
        let answer = good.send(&mut client, &token, &body);
        match number {
            200 => assert_answered(&answer, 409, "artifacts_full"),
            _ => assert_eq!(answer.status, 200, "{answer:?}"),
        }
    }
}

#[test]
fn two_hundred_assignments_are_decided_together_and_not_one_more() {
    let stage = Stage::new();
    let good = Good::of(row_named("assign_caregiver"), &stage);
    let (mut client, token) = (stage.client(), good.token(&stage));
    for number in 0..=200 {
        let mut body = good.body.clone();
        for member in ["assignmentDecisionId", "targetAssignmentKey"] {
            body[member] = json!(format!("{} {number}", body[member].as_str().unwrap()));
        }
        body["idempotencyKey"] = json!(format!("key {number}"));
        body["expectedRosterRevision"] = json!(number);
        let answer = good.send(&mut client, &token, &body);
        match number {
            200 => assert_answered(&answer, 409, "roster_decision_full"),
            _ => assert_eq!(answer.status, 201, "{answer:?}"),
        }
    }
}

#[test]
fn a_profile_has_a_thousand_receipts_of_consent_and_not_one_more() {
    let stage = Stage::new();
    let good = Good::of(row_named("update_mother_profile"), &stage);
    let (mut client, token) = (stage.client(), good.token(&stage));
    let policy = format!("many-{}", stage.number);
    let label = |number: u32| format!("2025-{number:04}");
    let facts = (0..=1_000).map(|number| {
        let facts =
            json!({"publishedAt": "2025-01-01T00:00:00Z", "required": false, "current": true});
        let id = format!("{policy}@{}", label(number));
        json!({"kind": "consent-version", "id": id, "revision": 1, "facts": facts}).to_string()
    });
    let facts: Vec<_> = facts.collect();
    let put = client.put_lines(&stage.workflow(), &facts.join("\n"));
    assert_eq!(put.json()["applied"], 1_001, "{put:?}");
    let mut body = good.body.clone();
    let accepted =
        (0..=1_000).map(|number| json!({"policyKey": policy, "versionLabel": label(number)}));
    body["consentAcceptances"] = accepted.collect();
    let full = good.send(&mut client, &token, &body);
    assert_answered(&full, 409, "consent_receipts_full");
    body["consentAcceptances"].as_array_mut().unwrap().pop();
    let most = good.send(&mut client, &token, &body);
    assert_eq!(most.status, 201, "{most:?}");
}

#[test]
fn a_draft_is_confirmed_by_its_present_review_and_before_it_expires() {
    let stage = Stage::new();
    let good = Good::of(row_named("confirm_reservation_draft"), &stage);
    let (mut client, token) = (stage.client(), good.token(&stage));
    let mut refused = |body: &Value, status: u16, of: &str| {
        let answer = good.send(&mut client, &token, body);
        assert_eq!((answer.status, code(&answer)), (status, of.to_owned()));
    };
    let mut body = good.body.clone();
    body["reservationDraftStepAuthorityProjectionId"] = json!("unknown");
    refused(&body, 404, "final_review_projection_not_found");
    let mut body = good.body.clone();
    for (revision, member, value, of) in [
        (
            2,
            "expiresAt",
            json!("2020-01-01T00:00:00Z"),
            "draft_expired",
        ),
        (
            3,
            "currentReviewProjectionId",
            Value::Null,
            "final_review_projection_missing",
        ),
        (
            4,
            "currentReviewProjectionId",
            json!("later"),
            "final_review_projection_superseded",
        ),
    ] {
        let mut draft = stage.sample("reservation-draft", "draft-1");
        draft[member] = value;
        stage.fact("reservation-draft", "draft-1", revision, draft);
        body["expectedDraftRevision"] = json!(revision);
        refused(&body, 409, of);
    }
}

#[test]
fn a_payment_that_is_not_owed_is_not_pre_registered() {
    let stage = Stage::new();
    let good = Good::of(row_named("pre_register_payment"), &stage);
    let mut body = good.body.clone();
    body["paymentId"] = json!("unknown");
    let answer = good.send(&mut stage.client(), &good.token(&stage), &body);
    assert_answered(&answer, 404, "payment_obligation_not_found");
}
