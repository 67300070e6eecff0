//! A family member proves that they may pay.

use carebook::base::text::MemberId;
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{Stage, assert_faults, assert_refused, time_in, with};

const MISSING: &str = "payment_grant_missing_or_out_of_scope";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("authorize_payment"), stage)
}

#[test]
fn a_payer_is_answered_with_the_delegation() {
    let stage = Stage::new();
    let grant = Good::of(row_named("grant_payment_authority"), &stage);
    let granted = grant.carried_out(&mut stage.client(), &stage.mother());
    let body = stage.named(json!({
        "familyAccountId": "family-account-1",
        "motherMemberId": "member-mother-1",
        "reservationBookingId": "reservation-booking-1",
        "scope": "reservation_deposit",
        "amountKrw": 500_000,
    }));
    let path = "/family-reservation-payment-authorizations";
    let mut client = stage.client();
    for amount in [500_000, 1] {
        let body = with(body.clone(), "/amountKrw", json!(amount));
        let answer = client.post(path, &stage.family_member(), &body);
        assert_eq!((answer.status, answer.json()), (200, granted.json()));
        assert_eq!(answer.header("idempotent-replayed"), None);
    }
}

#[test]
fn a_payer_without_a_sufficient_delegation_is_told_only_that() {
    let stage = Stage::new();
    let good = good(&stage);
    let payer = stage.family_member();
    let mut client = stage.client();
    for (member, value) in [
        ("/amountKrw", json!(500_001)),
        ("/scope", json!("reservation_balance")),
        ("/familyAccountId", json!("another")),
        ("/motherMemberId", json!("another")),
        ("/reservationBookingId", json!("reservation-booking-2")),
    ] {
        let body = with(good.body.clone(), member, stage.named(value));
        let answer = good.send(&mut client, &payer, &body);
        assert_refused(&answer, 400, MISSING, &[]);
        assert!(answer.position().is_some());
    }
    let other = Actor {
        subject: "aunt".into(),
        member_id: Some(MemberId::from_trusted(stage.id("member-family-2"))),
        ..stage.actor(ActorKind::FamilyMember)
    };
    let answer = good.send(&mut client, &stage.token(&other), &good.body);
    assert_refused(&answer, 400, MISSING, &[]);
}

#[test]
fn a_delegation_is_over_when_it_expires() {
    let path = "/family-reservation-payment-authorizations";
    let mut lasts = Duration::from_millis(2_500);
    let (stage, mut client, ask) = loop {
        let stage = Stage::new();
        let mut client = stage.client();
        let ask = stage.named(json!({
            "familyAccountId": "family-account-1",
            "motherMemberId": "member-mother-1",
            "reservationBookingId": "reservation-booking-1",
            "scope": "reservation_deposit",
            "amountKrw": 1,
        }));
        let started = Instant::now();
        let expires = time_in(i64::try_from(lasts.as_millis()).unwrap());
        let grant = Good::of(row_named("grant_payment_authority"), &stage);
        let body = with(grant.body.clone(), "/expiresAt", json!(expires));
        let granted = grant.send(&mut client, &stage.mother(), &body);
        let asked = client.post(path, &stage.family_member(), &ask);
        // On a machine that has other things to do it may be over by then.
        if started.elapsed() < lasts {
            assert_eq!(granted.status, 201, "{granted:?}");
            assert_eq!(asked.status, 200, "{asked:?}");
            std::thread::sleep(lasts.saturating_sub(started.elapsed()) + Duration::from_millis(20));
            break (stage, client, ask);
        }
        lasts *= 2;
    };
    let payer = stage.family_member();
    assert_refused(&client.post(path, &payer, &ask), 400, MISSING, &[]);
    // Another one may be in force from then on.
    let mut next = Good::of(row_named("grant_payment_authority"), &stage);
    next.key = Some("the next one".to_owned());
    next.carried_out(&mut client, &stage.mother());
    assert_eq!(client.post(path, &payer, &ask).status, 200);
}

#[test]
fn only_a_family_member_whom_the_token_names_may_ask() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    for kind in ActorKind::ALL {
        if kind == ActorKind::FamilyMember {
            continue;
        }
        for member_id in [good.actor.member_id.clone(), None] {
            let actor = Actor {
                kind,
                member_id,
                ..good.actor.clone()
            };
            let answer = good.send(&mut client, &stage.token(&actor), &good.body);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }
    let nameless = Actor {
        member_id: None,
        ..good.actor.clone()
    };
    let answer = good.send(&mut client, &stage.token(&nameless), &good.body);
    assert_refused(&answer, 403, "member_identity_missing", &[]);
}

#[test]
fn an_amount_is_at_least_one_won() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    for amount in [0, -1, i64::MIN] {
        let body = with(good.body.clone(), "/amountKrw", json!(amount));
        let answer = good.send(&mut client, &stage.family_member(), &body);
        assert_faults(&answer, 400, &[("amountKrw", "out_of_range")]);
    }
    let body = with(good.body.clone(), "/scope", json!(""));
    let body = with(body, "/familyAccountId", json!(" \u{3000}"));
    let body = with(body, "/amountKrw", Value::Null);
    let answer = good.send(&mut client, &stage.mother(), &body);
    let faults = [
        ("scope", "too_short"),
        ("familyAccountId", "blank"),
        ("amountKrw", "wrong_type"),
    ];
    assert_faults(&answer, 400, &faults);
}
