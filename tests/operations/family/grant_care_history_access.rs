//! A mother lets a member of her family read the care history of one reservation.

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::text::MemberId;
use serde_json::json;

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_id, take_time, with,
};

fn good(stage: &Stage) -> Good {
    Good::of(row_named("grant_care_history_access"), stage)
}

#[test]
fn a_grant_is_given_at_revision_one_and_those_concerned_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let granted = good.carried_out(&mut client, &stage.mother()).json();
    let mut rest = granted.clone();
    let id = take_id(&mut rest, "/reservationCareHistoryAccessGrantId");
    take_time(&mut rest, "/grantedAt");
    let expected = stage.named(json!({
        "reservationCareHistoryAccessGrantId": null,
        "granteeMemberId": "member-family-1",
        "motherMemberId": "member-mother-1",
        "reservationBookingId": "reservation-booking-1",
        "scopes": ["summary"],
        "grantedByMemberId": "member-mother-1",
        "grantedAt": null,
        "expiresAt": "2099-01-01T00:00:00.000Z",
        "revokedAt": null,
        "revision": 1,
        "authorityEvidence":
            ["family-account/family-account-1@1", "reservation-booking/reservation-booking-1@1"],
        "revokedByMemberId": null,
        "revocationReasonCode": null,
    }));
    assert_eq!(rest, expected);
    let path = format!("/reservation-care-history-access-grants/{id}");
    for reader in [stage.mother(), stage.family_member(), stage.headquarters()] {
        assert_reads(&mut client, &reader, &path, "1", &granted);
    }
    let aunt = Actor {
        member_id: Some(MemberId::from_trusted(stage.id("member-family-2"))),
        ..stage.actor(ActorKind::FamilyMember)
    };
    assert_unreadable(&mut client, &stage.token(&aunt), &path);
    assert_unreadable(&mut client, &stage.workflow(), &path);
    // A grant of one kind is none of the other.
    let other = format!("/family-payment-delegations/{id}");
    assert_unreadable(&mut client, &stage.mother(), &other);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let account = json!({"motherMemberId": "member-other",
        "memberIds": ["member-other", "member-family-1"]});
    stage.fact("family-account", "family-account-9", 1, account);
    let booking = json!({"motherUserId": "other", "motherMemberId": "member-other",
        "branchProfileId": "branch-seoul-1", "state": "active"});
    stage.fact("reservation-booking", "reservation-booking-9", 1, booking);

    let mut body = with(
        good.body.clone(),
        "/expiresAt",
        json!("2020-01-01T00:00:00Z"),
    );
    let mut steps = Vec::new();
    steps.push((
        body.clone(),
        409,
        "grant_expiry_conflict",
        vec!["expiresAt"],
    ));
    body = with(body, "/scopes", json!(["summary", "details"]));
    steps.push((body.clone(), 409, "grant_scope_conflict", vec!["scopes"]));
    body = with(
        body,
        "/reservationBookingId",
        stage.named(json!("reservation-booking-9")),
    );
    steps.push((body.clone(), 403, "permission_denied", vec![]));
    body = with(body, "/reservationBookingId", json!("unknown"));
    steps.push((body.clone(), 404, "reservation_booking_not_found", vec![]));
    body = with(body, "/granteeMemberId", json!("nobody"));
    steps.push((body.clone(), 404, "grantee_not_found", vec![]));
    for (body, status, code, places) in &steps {
        let answer = good.send(&mut client, &mother, body);
        assert_refused(&answer, *status, code, places);
    }
    let bad = steps.pop().unwrap().0;
    let mut elsewhere = Good::of(row_named("grant_care_history_access"), &stage);
    elsewhere.path = "/family-accounts/unknown/reservation-care-history-access-grants".to_owned();
    let answer = elsewhere.send(&mut client, &mother, &bad);
    assert_refused(&answer, 404, "family_account_not_found", &[]);
    elsewhere.path = elsewhere
        .path
        .replace("unknown", &stage.id("family-account-9"));
    let answer = elsewhere.send(&mut client, &mother, &good.body);
    assert_refused(&answer, 403, "permission_denied", &[]);
    elsewhere.path = elsewhere
        .path
        .replace(&stage.id("family-account-9"), "unknown");
    for kind in ActorKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActorKind::Mother)
    {
        let actor = Actor {
            kind,
            ..stage.actor(ActorKind::Mother)
        };
        let answer = elsewhere.send(&mut client, &stage.token(&actor), &bad);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    for scopes in [
        json!([]),
        json!(["summary", "summary"]),
        json!(["reservation_deposit"]),
    ] {
        let body = with(good.body.clone(), "/scopes", scopes);
        let answer = good.send(&mut client, &mother, &body);
        assert_refused(&answer, 409, "grant_scope_conflict", &["scopes"]);
    }

    let granted = good.carried_out(&mut client, &mother);
    let mut next = Good::of(row_named("grant_care_history_access"), &stage);
    next.key = Some("another".to_owned());
    let places = ["granteeMemberId", "reservationBookingId", "scopes"];
    let answer = next.send(&mut client, &mother, &next.body);
    assert_refused(&answer, 409, "grant_overlap", &places);
    let id = granted.json()["reservationCareHistoryAccessGrantId"].clone();
    let path = format!(
        "/reservation-care-history-access-grants/{}",
        id.as_str().unwrap()
    );
    assert_eq!(client.get(&path, &mother).text(), granted.text());
    assert_eq!(next.send(&mut client, &mother, &next.other).status, 201);
}

#[test]
fn the_mother_is_nobody_that_a_body_could_name() {
    let stage = Stage::new();
    let good = good(&stage);
    let body = with(
        good.body.clone(),
        "/motherMemberId",
        json!("member-mother-1"),
    );
    let body = with(body, "/expiresAt", json!(1));
    let answer = good.send(&mut stage.client(), &stage.mother(), &body);
    let faults = [
        ("motherMemberId", "unknown_field"),
        ("expiresAt", "wrong_type"),
    ];
    assert_faults(&answer, 400, &faults);
}
