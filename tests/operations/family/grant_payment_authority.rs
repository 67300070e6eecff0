//! A mother lets a member of her family pay for one reservation.

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::text::MemberId;
use serde_json::json;

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_id, take_time, with,
};

fn good(stage: &Stage) -> Good {
    Good::of(row_named("grant_payment_authority"), stage)
}

#[test]
fn a_delegation_is_granted_whole_and_those_concerned_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let granted = good.carried_out(&mut client, &stage.mother()).json();
    let mut rest = granted.clone();
    let id = take_id(&mut rest, "/paymentDelegationId");
    take_time(&mut rest, "/grantedAt");
    let expected = stage.named(json!({
        "paymentDelegationId": null,
        "payerMemberId": "member-family-1",
        "motherMemberId": "member-mother-1",
        "scopes": ["reservation_deposit"],
        "grantedByMemberId": "member-mother-1",
        "grantedAt": null,
        "expiresAt": "2099-01-01T00:00:00.000Z",
        "maximumAuthorizedAmountKrw": 500_000,
        "reservationBookingId": "reservation-booking-1",
        "revokedAt": null,
        "delegationRevision": 1,
        "authorityEvidence":
            ["family-account/family-account-1@1", "reservation-booking/reservation-booking-1@1"],
        "revokedByMemberId": null,
        "revocationReasonCode": null,
    }));
    assert_eq!(rest, expected);
    let path = format!("/family-payment-delegations/{id}");
    for reader in [
        stage.mother(),
        stage.family_member(),
        stage.manager(),
        stage.headquarters(),
    ] {
        assert_reads(&mut client, &reader, &path, "1", &granted);
    }
    let aunt = Actor {
        member_id: Some(MemberId::from_trusted(stage.id("member-family-2"))),
        ..stage.actor(ActorKind::FamilyMember)
    };
    let elsewhere = Actor {
        branch_profile_ids: vec!["branch-elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    let neighbour = Actor {
        subject: "neighbour".into(),
        member_id: Some(MemberId::from_trusted("member-neighbour")),
        ..stage.actor(ActorKind::Mother)
    };
    for stranger in [aunt, elsewhere, neighbour] {
        assert_unreadable(&mut client, &stage.token(&stranger), &path);
    }
    for kind in [
        ActorKind::SystemWorkflow,
        ActorKind::BranchFinanceOperator,
        ActorKind::HeadquartersFinanceOperator,
    ] {
        assert_unreadable(&mut client, &stage.token_of(kind), &path);
    }
    let upper = format!("/family-payment-delegations/{}", id.to_uppercase());
    assert_unreadable(&mut client, &stage.headquarters(), &upper);
}

#[test]
fn an_instant_in_another_offset_and_below_milliseconds_is_the_same_fact() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &stage.mother());
    for spelling in ["2099-01-01T00:00:00Z", "2098-12-31T19:00:00.000999-05:00"] {
        let body = with(good.body.clone(), "/expiresAt", json!(spelling));
        let again = good.send(&mut client, &stage.mother(), &body);
        assert_eq!(
            again.header("idempotent-replayed"),
            Some("true"),
            "{again:?}"
        );
        assert_eq!(again.text(), first.text());
    }
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let other_mother = json!({"motherMemberId": "member-other", "memberIds": ["member-other"]});
    stage.fact("family-account", "family-account-9", 1, other_mother);
    let other_booking = json!({"motherUserId": "other", "motherMemberId": "member-other",
        "branchProfileId": "branch-seoul-1", "state": "active"});
    stage.fact(
        "reservation-booking",
        "reservation-booking-9",
        1,
        other_booking,
    );

    // From the last rejection to the first, one more thing is wrong in each.
    let mut body = with(
        good.body.clone(),
        "/expiresAt",
        json!("2020-01-01T00:00:00Z"),
    );
    let mut steps = Vec::new();
    steps.push((
        body.clone(),
        409,
        "delegation_expiry_conflict",
        vec!["expiresAt"],
    ));
    body = with(body, "/scopes", json!([]));
    steps.push((
        body.clone(),
        409,
        "delegation_scope_conflict",
        vec!["scopes"],
    ));
    body = with(
        body,
        "/reservationBookingId",
        stage.named(json!("reservation-booking-9")),
    );
    let places = vec!["reservationBookingId", "scopes"];
    steps.push((body.clone(), 409, "delegation_scope_conflict", places));
    body = with(body, "/payerMemberId", json!("nobody"));
    let places = vec!["payerMemberId", "reservationBookingId", "scopes"];
    steps.push((body.clone(), 409, "delegation_scope_conflict", places));
    body = with(
        body,
        "/familyAccountId",
        stage.named(json!("family-account-9")),
    );
    steps.push((body.clone(), 403, "permission_denied", vec![]));
    body = with(body, "/familyAccountId", json!("unknown"));
    steps.push((body.clone(), 404, "family_account_not_found", vec![]));
    body = with(body, "/motherMemberId", json!("member-other"));
    steps.push((body, 403, "permission_denied", vec![]));
    for (body, status, code, places) in &steps {
        let answer = good.send(&mut client, &mother, body);
        assert_refused(&answer, *status, code, places);
    }
    for scopes in [
        json!(["reservation_deposit", "reservation_deposit"]),
        json!(["reservation_balance"]),
        json!(["reservation_deposit", "reservation_balance"]),
    ] {
        let body = with(good.body.clone(), "/scopes", scopes);
        let answer = good.send(&mut client, &mother, &body);
        assert_refused(&answer, 409, "delegation_scope_conflict", &["scopes"]);
    }
    for (kind, member) in [
        (ActorKind::FamilyMember, "member-mother-1"),
        (ActorKind::HeadquartersAdministrator, "member-mother-1"),
        (ActorKind::Mother, "member-other"),
    ] {
        let actor = Actor {
            kind,
            member_id: Some(MemberId::from_trusted(stage.id(member))),
            ..stage.actor(ActorKind::Mother)
        };
        let answer = good.send(&mut client, &stage.token(&actor), &good.body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    // No key was taken, no authority given.
    let ask = stage.named(json!({
        "familyAccountId": "family-account-1", "motherMemberId": "member-mother-1",
        "reservationBookingId": "reservation-booking-1", "scope": "reservation_deposit",
        "amountKrw": 1,
    }));
    let path = "/family-reservation-payment-authorizations";
    let answer = client.post(path, &stage.family_member(), &ask);
    assert_refused(&answer, 400, "payment_grant_missing_or_out_of_scope", &[]);
    let granted = good.carried_out(&mut client, &mother);

    // And one in force shares a scope, under whatever key.
    let mut next = Good::of(row_named("grant_payment_authority"), &stage);
    next.key = Some("another".to_owned());
    let places = ["payerMemberId", "reservationBookingId", "scopes"];
    for body in [&next.body, &next.other] {
        let answer = next.send(&mut client, &mother, body);
        assert_refused(&answer, 409, "delegation_overlap", &places);
    }
    let id = granted.json()["paymentDelegationId"]
        .as_str()
        .unwrap()
        .to_owned();
    let read = client.get(&format!("/family-payment-delegations/{id}"), &mother);
    assert_eq!(read.text(), granted.text());
    let other = with(
        next.body.clone(),
        "/payerMemberId",
        stage.named(json!("member-family-2")),
    );
    assert_eq!(next.send(&mut client, &mother, &other).status, 201);
}

#[test]
fn faults_of_shape_name_their_places() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let long = "가".repeat(513);
    for (pointer, value, path, code) in [
        (
            "/maximumAuthorizedAmountKrw",
            json!(0),
            "maximumAuthorizedAmountKrw",
            "out_of_range",
        ),
        (
            "/expiresAt",
            json!("2026-02-30T00:00:00Z"),
            "expiresAt",
            "pattern",
        ),
        (
            "/expiresAt",
            json!("2026-02-28T23:59:60Z"),
            "expiresAt",
            "pattern",
        ),
        (
            "/expiresAt",
            json!("2026-02-28 23:59:00Z"),
            "expiresAt",
            "pattern",
        ),
        ("/expiresAt", json!("2026-02-28"), "expiresAt", "pattern"),
        ("/expiresAt", json!(""), "expiresAt", "too_short"),
        ("/scopes", json!([""]), "scopes[0]", "too_short"),
        ("/scopes", json!(["a", 1]), "scopes[1]", "wrong_type"),
        ("/payerMemberId", json!(long), "payerMemberId", "too_long"),
        ("/payerMemberId", json!(null), "payerMemberId", "wrong_type"),
    ] {
        let body = with(good.body.clone(), pointer, value);
        let answer = good.send(&mut client, &stage.mother(), &body);
        assert_faults(&answer, 400, &[(path, code)]);
    }
}
