//! A mother pays the latest change of her booking's charge.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_id, take_time, with,
};

fn good(stage: &Stage) -> Good {
    Good::of(row_named("capture_adjustment_payment"), stage)
}

fn read_path(stage: &Stage) -> String {
    format!(
        "/reservation-payment-change-adjustments/{}",
        stage.id("reservation-booking-1")
    )
}

#[test]
fn a_payment_is_captured_whole_and_those_concerned_read_the_adjustment() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, mother) = (stage.headquarters(), stage.mother());
    let mut client = stage.client();
    let path = read_path(&stage);
    let before = client.get(&path, &mother);
    let tag = before.header("etag").unwrap().trim_matches('"').to_owned();
    let mut unpaid = before.json();
    assert_reads(&mut client, &mother, &path, &tag, &unpaid);
    let updated = take_time(&mut unpaid, "/updatedAt");
    let expected = stage.named(json!({
        "paymentChangeAdjustmentId": "adjustment-2",
        "reservationBookingId": "reservation-booking-1",
        "motherUserId": "mother-1",
        "customerDeltaKrw": 50_000,
        "couponAdjustmentKrw": -10_000,
        "pureCustomerAmountKrw": 50_000,
        "motherPayableAdjustmentKrw": 40_000,
        "adjustmentStatus": "payable",
        "preRegistration": {
            "paymentId": "adjustment-payment-2",
            "providerName": "sample-gateway",
            "preRegisteredAt": "2025-06-02T01:00:00.000Z",
        },
        "paymentReceipt": null,
        "settlementContinuationStatus": null,
        "settlementContinuationWorkflowRequestId": null,
        "settlementContinuationReason": null,
        "settlementContinuationRecordedAt": null,
        "requestedAt": "2025-06-02T00:00:00.000Z",
        "completedAt": null,
        "updatedAt": null,
    }));
    assert_eq!(unpaid, expected);

    let first = good.carried_out(&mut client, &mother);
    let mut rest = first.json();
    take_id(&mut rest, "/settlementContinuationWorkflowRequestId");
    let paid = take_time(&mut rest, "/paymentReceipt/depositedAt");
    assert!(paid >= updated);
    for time in [
        "/settlementContinuationRecordedAt",
        "/completedAt",
        "/updatedAt",
    ] {
        assert_eq!(take_time(&mut rest, time), paid);
    }
    let expected = with(expected, "/adjustmentStatus", json!("paid"));
    let expected = with(expected, "/settlementContinuationStatus", json!("queued"));
    let receipt = json!({
        "paymentId": good.body["paymentId"],
        "providerName": "sample-gateway",
        "providerContext": good.body["providerContext"],
        "depositedAt": null,
    });
    assert_eq!(rest, with(expected, "/paymentReceipt", receipt));
    let position = first.position().unwrap().to_string();
    for reader in [&mother, &hq, &stage.manager()] {
        assert_reads(&mut client, reader, &path, &position, &first.json());
    }
    let neighbour = Actor {
        subject: "neighbour".into(),
        ..good.actor.clone()
    };
    for stranger in [
        stage.token(&neighbour),
        stage.family_member(),
        stage.workflow(),
    ] {
        assert_unreadable(&mut client, &stranger, &path);
    }
    // A payer with authority for the booking sees it as well.
    Good::of(row_named("grant_payment_authority"), &stage).carried_out(&mut client, &mother);
    assert_reads(
        &mut client,
        &stage.family_member(),
        &path,
        &position,
        &first.json(),
    );

    let again = good.send(&mut client, &mother, &good.body);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    // What is paid is not its own system's to change any more.
    let mut facts = stage.sample("payment-change-adjustment", "adjustment-2");
    facts["adjustmentStatus"] = json!("cancelled");
    let fact = json!({"kind": "payment-change-adjustment", "id": "adjustment-2", "revision": 2,
        "facts": facts});
    let refused = client.put_facts(&stage.workflow(), &[stage.named(fact)]);
    let told = refused.json();
    assert_eq!(told["conflict"], 1, "{refused:?}");
    assert_eq!(
        told["problems"][0]["fieldErrors"][0]["fieldPath"],
        "revision"
    );
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let adjustment = |number: i64, status: &str, payable: i64, user: &str| {
        let mut facts = stage.sample("payment-change-adjustment", "adjustment-3");
        facts["reservationBookingId"] = json!("reservation-booking-1");
        facts["requestedAt"] = json!(format!("2025-07-0{number}T00:00:00Z"));
        facts["adjustmentStatus"] = json!(status);
        facts["motherPayableAdjustmentKrw"] = json!(payable);
        facts["motherUserId"] = json!(user);
        stage.fact(
            "payment-change-adjustment",
            &format!("later-{number}"),
            1,
            facts,
        );
    };
    let mut body = with(good.body.clone(), "/providerName", json!("another"));
    let answer = good.send(&mut client, &mother, &body);
    assert_refused(&answer, 409, "payment_mismatch", &["providerName"]);
    body = with(body, "/paymentId", json!("another"));
    let answer = good.send(&mut client, &mother, &body);
    assert_refused(
        &answer,
        409,
        "payment_mismatch",
        &["paymentId", "providerName"],
    );
    adjustment(1, "requested", 10_000, "mother-1");
    let answer = good.send(&mut client, &mother, &body);
    assert_refused(&answer, 409, "adjustment_not_payable", &[]);
    adjustment(2, "payable", 0, "mother-1");
    let answer = good.send(&mut client, &mother, &body);
    assert_refused(&answer, 409, "adjustment_not_payable", &[]);
    adjustment(3, "payable", 10_000, "somebody");
    let answer = good.send(&mut client, &mother, &body);
    assert_refused(&answer, 403, "permission_denied", &[]);
    let nowhere = "/reservation-payment-change-adjustments/unknown/mother-payments";
    let answer = client.post(nowhere, &mother, &body);
    assert_refused(&answer, 404, "adjustment_not_found", &[]);
    // Another mother's, as the body has it.
    let other = with(body.clone(), "/motherUserId", json!("somebody"));
    let answer = client.post(nowhere, &mother, &other);
    assert_refused(&answer, 403, "permission_denied", &[]);
    for kind in ActorKind::ALL {
        if kind != ActorKind::Mother {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            let answer = client.post(nowhere, &stage.token(&actor), &body);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }

    // The latest that is hers and payable, which no payment was prepared for.
    adjustment(4, "payable", 10_000, "mother-1");
    let answer = good.send(&mut client, &mother, &body);
    assert_eq!(
        (answer.status, answer.header("idempotent-replayed")),
        (200, None)
    );
    assert_eq!(answer.json()["preRegistration"], Value::Null);
    assert_eq!(answer.json()["paymentReceipt"]["paymentId"], "another");
    let second = with(body.clone(), "/paymentId", json!("second"));
    let refused = good.send(&mut client, &mother, &second);
    assert_refused(&refused, 409, "adjustment_not_payable", &[]);
    let reused = with(body, "/providerContext", json!({}));
    let refused = good.send(&mut client, &mother, &reused);
    assert_refused(&refused, 409, "idempotency_key_reused", &[]);
}

#[test]
fn an_invalid_payment_is_refused_with_all_its_faults() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (member, value, code) in [
        ("motherUserId", json!(" "), "blank"),
        ("paymentId", json!(""), "too_short"),
        ("providerName", json!("p".repeat(513)), "too_long"),
        ("providerContext", json!("text"), "wrong_type"),
        ("amountKrw", json!(1), "unknown_field"),
    ] {
        let pointer = format!("/{member}");
        let body = with(good.body.clone(), &pointer, value.clone());
        assert_faults(
            &good.send(&mut client, &mother, &body),
            400,
            &[(member, code)],
        );
        all = with(all, &pointer, value);
        faults.push((member, code));
    }
    assert_faults(&good.send(&mut client, &mother, &all), 400, &faults);
    let body = with(good.body.clone(), "/providerContext", json!({}));
    assert_eq!(good.send(&mut client, &mother, &body).status, 200);
}
