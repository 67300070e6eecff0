//! A caregiver is assigned out of the frozen candidates.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, with,
};

const PATH: &str = "/care-team-assignment-decisions/assign-from-candidate-snapshot";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("assign_caregiver"), stage)
}

/// The first decision's request, with other values.
fn changed(stage: &Stage, body: &Value, changes: &[(&str, Value)]) -> Value {
    let mut body = body.clone();
    for (member, value) in changes {
        body[*member] = stage.named(value.clone());
    }
    body
}

#[test]
fn a_decision_is_recorded_whole_and_those_who_staff_the_booking_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, manager) = (stage.headquarters(), stage.manager());
    let mut client = stage.client();
    let path = format!("/care-team-rosters/{}", stage.id("reservation-booking-1"));
    assert_unreadable(&mut client, &hq, &path);
    let first = good.carried_out(&mut client, &manager);
    let evidence = |decision: &Value| {
        json!(format!(
            "care-team-assignment/{}",
            decision.as_str().unwrap()
        ))
    };
    let own_evidence = evidence(&good.body["assignmentDecisionId"]);
    let decision = stage.named(json!({
        "assignmentDecisionId": good.body["assignmentDecisionId"],
        "reservationBookingId": "reservation-booking-1",
        "decisionKind": "assign",
        "role": "primary_caregiver",
        "handoffOrder": 1,
        "targetAssignmentKey": "assignment-1",
        "expectedReservationRevision": 1,
        "expectedRosterRevision": 0,
        "actorId": "manager-1",
        "reasonCode": "first_choice",
        "idempotencyKey": "key-1",
        "evidenceKey": own_evidence,
        "previousAssignmentKey": null,
        "selectedCandidateSnapshotId": "candidate-snapshot-1",
        "scheduleProofId": "schedule-proof-1",
        "replacementOfAssignmentKey": null,
        "otherAreaService": false,
    }));
    let expected = stage.named(json!({
        "rosterDecisionId": "roster-decision-1",
        "reservationBookingId": "reservation-booking-1",
        "expectedRosterRevision": 0,
        "evidenceKey": own_evidence,
        "assignmentDecisions": [decision],
        "status": "recorded",
    }));
    assert_eq!(first.json(), expected);
    for reader in [&hq, &manager] {
        assert_reads(&mut client, reader, &path, "1", &expected);
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..good.actor.clone()
    };
    for stranger in [stage.token(&elsewhere), stage.mother(), stage.workflow()] {
        assert_unreadable(&mut client, &stranger, &path);
    }
    let again = good.send(&mut client, &manager, &good.body);
    assert_eq!((again.status, again.text()), (201, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));

    // Headquarters replaces the caregiver, in the same roster decision.
    let replacing = changed(
        &stage,
        &good.body,
        &[
            ("assignmentDecisionId", json!("replacement-1")),
            ("targetAssignmentKey", json!("assignment-2")),
            ("replacementOfAssignmentKey", json!("assignment-1")),
            ("caregiverProfileId", json!("caregiver-profile-2")),
            ("scheduleProofId", json!("schedule-proof-2")),
            ("expectedRosterRevision", json!(1)),
        ],
    );
    let answer = client.post(PATH, &hq, &replacing);
    assert_eq!(answer.status, 201, "{answer:?}");
    let evidence = evidence(&replacing["assignmentDecisionId"]);
    let mut second = decision.clone();
    for (member, value) in [
        ("assignmentDecisionId", json!("replacement-1")),
        ("decisionKind", json!("replace")),
        ("targetAssignmentKey", json!("assignment-2")),
        ("expectedRosterRevision", json!(1)),
        ("actorId", json!("headquarters-1")),
        ("evidenceKey", evidence.clone()),
        ("previousAssignmentKey", json!("assignment-1")),
        ("replacementOfAssignmentKey", json!("assignment-1")),
        ("scheduleProofId", json!("schedule-proof-2")),
        ("otherAreaService", json!(true)),
    ] {
        second[member] = stage.named(value);
    }
    let expected = with(expected, "/expectedRosterRevision", json!(1));
    let expected = with(expected, "/evidenceKey", evidence);
    let expected = with(expected, "/assignmentDecisions", json!([decision, second]));
    assert_eq!(answer.json(), expected);
    assert_reads(&mut client, &manager, &path, "2", &expected);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, manager) = (stage.headquarters(), stage.manager());
    let mut client = stage.client();
    good.carried_out(&mut client, &manager);
    let fresh = [
        ("assignmentDecisionId", json!("second-1")),
        ("targetAssignmentKey", json!("assignment-2")),
        ("expectedRosterRevision", json!(1)),
        ("idempotencyKey", json!("second")),
    ];
    let fresh = changed(&stage, &good.body, &fresh);

    // From the last rejection to the first, one more thing is wrong in each.
    let mut body = fresh.clone();
    body["assignmentDecisionId"] = good.body["assignmentDecisionId"].clone();
    let answer = client.post(PATH, &manager, &body);
    let place = ["assignmentDecisionId"];
    assert_refused(&answer, 409, "assignment_decision_conflict", &place);
    let candidate = ["caregiverProfileId", "role", "scheduleProofId"];
    let both = ["expectedReservationRevision", "expectedRosterRevision"];
    let snapshot = ["selectedCandidateSnapshotId"];
    let steps: [(&str, Value, &str, &[&str]); 9] = [
        (
            "replacementOfAssignmentKey",
            json!("nothing"),
            "replacement_not_found",
            &["replacementOfAssignmentKey"],
        ),
        (
            "targetAssignmentKey",
            json!("assignment-1"),
            "assignment_slot_taken",
            &["targetAssignmentKey"],
        ),
        (
            "expectedRosterRevision",
            json!(0),
            "revision_stale",
            &both[1..],
        ),
        (
            "expectedReservationRevision",
            json!(2),
            "revision_stale",
            &both,
        ),
        (
            "scheduleProofId",
            json!("schedule-proof-2"),
            "candidate_snapshot_conflict",
            &candidate,
        ),
        (
            "matchingRequestKey",
            json!("another"),
            "candidate_snapshot_conflict",
            &["matchingRequestKey"],
        ),
        (
            "expectedCandidateSnapshotRevision",
            json!(2),
            "candidate_snapshot_conflict",
            &["expectedCandidateSnapshotRevision"],
        ),
        (
            "selectedCandidateSnapshotId",
            json!("unknown"),
            "candidate_snapshot_conflict",
            &snapshot,
        ),
        // A snapshot of another booking is as unknown.
        (
            "reservationBookingId",
            json!("reservation-booking-2"),
            "candidate_snapshot_conflict",
            &snapshot,
        ),
    ];
    for (member, value, code, places) in steps {
        body = changed(&stage, &body, &[(member, value)]);
        assert_refused(&client.post(PATH, &manager, &body), 409, code, places);
    }
    let mut facts = stage.sample("reservation-booking", "reservation-booking-2");
    for (revision, state) in [(2, "completed"), (3, "cancelled")] {
        facts["state"] = json!(state);
        stage.fact(
            "reservation-booking",
            "reservation-booking-2",
            revision,
            facts.clone(),
        );
        let answer = client.post(PATH, &manager, &body);
        assert_refused(
            &answer,
            409,
            "reservation_not_active",
            &["reservationBookingId"],
        );
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..good.actor.clone()
    };
    let mut strangers = vec![stage.token(&elsewhere)];
    for kind in ActorKind::ALL {
        if !matches!(
            kind,
            ActorKind::BranchManager | ActorKind::HeadquartersAdministrator
        ) {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            strangers.push(stage.token(&actor));
        }
    }
    for stranger in &strangers {
        assert_refused(
            &client.post(PATH, stranger, &body),
            403,
            "permission_denied",
            &[],
        );
    }
    let unknown = with(body, "/reservationBookingId", json!("unknown"));
    for token in [&hq, &manager] {
        assert_refused(
            &client.post(PATH, token, &unknown),
            403,
            "permission_denied",
            &[],
        );
    }
    let reused = good.send(&mut client, &manager, &good.other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);

    // A snapshot whose time is over, though all else is as it was.
    let mut facts = stage.sample("candidate-snapshot", "candidate-snapshot-1");
    facts["expiresAt"] = json!("2025-01-01T00:00:00Z");
    stage.fact(
        "candidate-snapshot",
        "candidate-snapshot-1",
        2,
        facts.clone(),
    );
    let again = with(
        fresh.clone(),
        "/expectedCandidateSnapshotRevision",
        json!(2),
    );
    let answer = client.post(PATH, &manager, &again);
    assert_refused(&answer, 409, "candidate_snapshot_conflict", &snapshot);
    facts["expiresAt"] = json!("2099-01-01T00:00:00Z");
    stage.fact("candidate-snapshot", "candidate-snapshot-1", 3, facts);
    let again = with(fresh, "/expectedCandidateSnapshotRevision", json!(3));
    let answer = client.post(PATH, &manager, &again);
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn an_invalid_decision_is_refused_with_all_its_faults() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (member, value, code) in [
        ("handoffOrder", json!(0), "out_of_range"),
        ("role", json!(""), "too_short"),
        ("reasonCode", json!("r".repeat(513)), "too_long"),
        ("expectedRosterRevision", json!("0"), "wrong_type"),
        ("replacementOfAssignmentKey", json!(" "), "blank"),
        ("otherAreaService", json!(true), "unknown_field"),
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
    let body = with(
        good.body.clone(),
        "/replacementOfAssignmentKey",
        Value::Null,
    );
    assert_eq!(good.send(&mut client, &manager, &body).status, 201);
}
