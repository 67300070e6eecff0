//! A branch acknowledges that a payout was deposited.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, time_in, with, without,
};

const PATH: &str = "/caregiver-payout-acknowledgements/branch-deposits";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("acknowledge_payout_deposit"), stage)
}

fn read_path(stage: &Stage) -> String {
    format!(
        "/caregiver-payout-receipt-states/{}/{}/{}",
        stage.id("reservation-booking-1"),
        stage.id("contract-assignment-1"),
        stage.id("payout-instruction-1")
    )
}

#[test]
fn an_acknowledgement_is_recorded_whole_and_advances_the_receipt_state() {
    let stage = Stage::new();
    let repair = Good::of(row_named("repair_payout_receipt"), &stage);
    let mut client = stage.client();
    repair.carried_out(&mut client, &stage.headquarters());
    // A key of the repair's is another operation's.
    let good = good(&stage);
    let manager = stage.manager();
    let first = good.carried_out(&mut client, &manager);
    let expected = stage.named(json!({
        "reservationBookingId": "reservation-booking-1",
        "contractAssignmentKey": "contract-assignment-1",
        "caregiverPayoutInstructionId": "payout-instruction-1",
        "acknowledgementKind": "branch_deposit",
        "status": "acknowledged",
    }));
    assert_eq!(first.json(), expected);
    let again = good.send(&mut client, &manager, &good.body);
    assert_eq!((again.status, again.text()), (201, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let state = stage.named(json!({
        "reservationBookingId": "reservation-booking-1",
        "contractAssignmentKey": "contract-assignment-1",
        "caregiverPayoutInstructionId": "payout-instruction-1",
        "receiptState": "acknowledged",
        "revision": 2,
        "status": "acknowledged",
        "reason": null,
        "actorProfileId": "manager-profile-1",
        "occurredAt": "2026-11-01T00:00:00.000Z",
    }));
    let path = read_path(&stage);
    for reader in [stage.headquarters(), manager.clone()] {
        assert_reads(&mut client, &reader, &path, "2", &state);
    }
    // A repair goes on from there.
    let body = with(repair.body.clone(), "/idempotencyKey", json!("second"));
    let body = with(body, "/expectedRevision", json!(2));
    let answer = client.post("/caregiver-payout-receipt-states/repairs", &manager, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["revision"], 3);
    // But the deposit stays acknowledged.
    let once_more = with(good.body.clone(), "/idempotencyKey", json!("third"));
    let refused = client.post(PATH, &manager, &once_more);
    let place = ["caregiverPayoutInstructionId"];
    assert_refused(&refused, 409, "deposit_already_acknowledged", &place);
}

#[test]
fn a_deposit_is_acknowledged_where_nothing_was_repaired() {
    let stage = Stage::new();
    let body = with(good(&stage).body, "/reason", json!("As agreed."));
    let body = without(without(body, "/memo"), "/caregiverId");
    let mut client = stage.client();
    assert_eq!(client.post(PATH, &stage.manager(), &body).status, 201);
    let read = client.get(&read_path(&stage), &stage.manager());
    assert_eq!(read.header("etag"), Some("\"1\""));
    assert_eq!(read.json()["reason"], "As agreed.");
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let mut body = good.body.clone();
    let mut places = Vec::new();
    for (member, value) in [
        ("handoffOrder", json!(2)),
        ("caregiverRole", json!("assistant")),
        ("contractAssignmentKey", json!("another")),
        (
            "reservationBookingId",
            json!(stage.id("reservation-booking-2")),
        ),
    ] {
        body = with(body, &format!("/{member}"), value);
        places.insert(0, member);
        let answer = good.send(&mut client, &manager, &body);
        assert_refused(&answer, 409, "payout_instruction_mismatch", &places);
    }
    let mut facts = stage.sample("reservation-booking", "reservation-booking-2");
    facts["state"] = json!("cancelled");
    stage.fact("reservation-booking", "reservation-booking-2", 2, facts);
    let answer = good.send(&mut client, &manager, &body);
    assert_refused(
        &answer,
        409,
        "reservation_not_active",
        &["reservationBookingId"],
    );
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..good.actor.clone()
    };
    let mut strangers = vec![stage.token(&elsewhere)];
    for kind in ActorKind::ALL {
        if kind != ActorKind::BranchManager {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            strangers.push(stage.token(&actor));
        }
    }
    for stranger in &strangers {
        let answer = good.send(&mut client, stranger, &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    let unknown = with(body, "/reservationBookingId", json!("unknown"));
    let answer = good.send(&mut client, &manager, &unknown);
    assert_refused(&answer, 403, "permission_denied", &[]);
    assert_eq!(client.get(&read_path(&stage), &manager).status, 404);
    good.carried_out(&mut client, &manager);
    let reused = good.send(&mut client, &manager, &good.other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
}

#[test]
fn an_invalid_acknowledgement_is_refused_with_all_its_faults() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (member, value, code) in [
        ("handoffOrder", json!(0), "out_of_range"),
        ("occurredAt", json!(time_in(600_000)), "out_of_range"),
        ("memo", json!(""), "too_short"),
        ("reason", json!(1), "wrong_type"),
        ("expectedRevision", json!(0), "unknown_field"),
    ] {
        let pointer = format!("/{member}");
        let body = with(good.body.clone(), &pointer, value.clone());
        assert_faults(
            &good.send(&mut client, &manager, &body),
            400,
            &[(member, code)],
        );
        all = with(all, &pointer, value);
        faults.push((member, code));
    }
    assert_faults(&good.send(&mut client, &manager, &all), 400, &faults);
    let body = with(good.body.clone(), "/memo", Value::Null);
    let body = with(body, "/reason", Value::Null);
    assert_eq!(good.send(&mut client, &manager, &body).status, 201);
}
