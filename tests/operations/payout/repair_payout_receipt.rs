//! A payout's receipt state is repaired.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, time_in, with, without,
};

const PATH: &str = "/caregiver-payout-receipt-states/repairs";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("repair_payout_receipt"), stage)
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
fn a_repair_is_recorded_whole_and_those_concerned_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, manager) = (stage.headquarters(), stage.manager());
    let mut client = stage.client();
    let path = read_path(&stage);
    assert_unreadable(&mut client, &hq, &path);
    let first = good.carried_out(&mut client, &hq);
    let expected = stage.named(json!({
        "reservationBookingId": "reservation-booking-1",
        "contractAssignmentKey": "contract-assignment-1",
        "caregiverPayoutInstructionId": "payout-instruction-1",
        "receiptState": "repaired",
        "revision": 1,
        "status": "recorded",
        "reason": "The receipt was lost.",
        "actorProfileId": "headquarters-profile-1",
        "occurredAt": "2026-11-01T00:00:00.000Z",
    }));
    assert_eq!(first.json(), expected);
    for reader in [&hq, &manager] {
        assert_reads(&mut client, reader, &path, "1", &expected);
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    for stranger in [stage.token(&elsewhere), stage.mother(), stage.workflow()] {
        assert_unreadable(&mut client, &stranger, &path);
    }
    let again = good.send(&mut client, &hq, &good.body);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    // The manager repairs it once more; the caregiver need not be named.
    let second = with(
        without(good.body.clone(), "/caregiverId"),
        "/expectedRevision",
        json!(1),
    );
    let answer = client.post(PATH, &manager, &second);
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = with(expected, "/revision", json!(2));
    let expected = with(
        expected,
        "/actorProfileId",
        json!(stage.id("manager-profile-1")),
    );
    assert_eq!(answer.json(), expected);
    assert_reads(&mut client, &manager, &path, "2", &expected);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, manager) = (stage.headquarters(), stage.manager());
    let mut client = stage.client();
    let booking = |state: &str| {
        let mut facts = stage.sample("reservation-booking", "reservation-booking-2");
        facts["state"] = json!(state);
        facts
    };
    let stale = with(good.body.clone(), "/expectedRevision", json!(1));
    let answer = good.send(&mut client, &hq, &stale);
    assert_refused(&answer, 409, "revision_stale", &["expectedRevision"]);
    let mut body = stale;
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
        let answer = good.send(&mut client, &hq, &body);
        assert_refused(&answer, 409, "payout_instruction_mismatch", &places);
    }
    stage.fact(
        "reservation-booking",
        "reservation-booking-2",
        2,
        booking("cancelled"),
    );
    let answer = good.send(&mut client, &hq, &body);
    assert_refused(
        &answer,
        409,
        "reservation_not_active",
        &["reservationBookingId"],
    );
    stage.fact(
        "reservation-booking",
        "reservation-booking-2",
        3,
        booking("completed"),
    );
    let answer = good.send(&mut client, &hq, &body);
    assert_refused(&answer, 409, "payout_instruction_mismatch", &places);
    stage.fact(
        "reservation-booking",
        "reservation-booking-2",
        4,
        booking("cancelled"),
    );
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    let mut strangers = vec![stage.token(&elsewhere)];
    strangers.extend(
        ActorKind::ALL
            .into_iter()
            .filter(|kind| {
                !matches!(
                    kind,
                    ActorKind::BranchManager | ActorKind::HeadquartersAdministrator
                )
            })
            .map(|kind| stage.token_of(kind)),
    );
    for stranger in &strangers {
        let answer = good.send(&mut client, stranger, &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    // For an unknown booking no actor is permitted.
    let unknown = with(good.body.clone(), "/reservationBookingId", json!("unknown"));
    for token in [&hq, &manager] {
        let answer = good.send(&mut client, token, &unknown);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    assert_unreadable(&mut client, &hq, &read_path(&stage));
    good.carried_out(&mut client, &hq);
    let reused = good.send(&mut client, &hq, &good.other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
}

#[test]
fn an_invalid_repair_is_refused_with_all_its_faults() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let ahead = json!(time_in(600_000));
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (member, value, code) in [
        ("handoffOrder", json!(0), "out_of_range"),
        ("expectedRevision", json!(-1), "out_of_range"),
        ("occurredAt", ahead, "out_of_range"),
        ("caregiverRole", json!(" "), "blank"),
        ("caregiverId", json!(""), "too_short"),
        ("reason", Value::Null, "wrong_type"),
    ] {
        let pointer = format!("/{member}");
        let body = with(good.body.clone(), &pointer, value.clone());
        assert_faults(&good.send(&mut client, &hq, &body), 400, &[(member, code)]);
        all = with(all, &pointer, value);
        faults.push((member, code));
    }
    assert_faults(&good.send(&mut client, &hq, &all), 400, &faults);
    let soon = with(good.body.clone(), "/occurredAt", json!(time_in(290_000)));
    let soon = with(soon, "/caregiverId", Value::Null);
    assert_eq!(good.send(&mut client, &hq, &soon).status, 200);
}
