//! A mother updates her own profile.

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::ProblemShape;
use serde_json::{Value, json};

use crate::support::Answer;
use crate::support::good::{Good, assert_problem, row_named};
use crate::support::stage::{Stage, assert_reads, is_new_id, is_tag_of, take_time, with, without};

const PATH: &str = "/mother/profile";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("update_mother_profile"), stage)
}

#[track_caller]
fn assert_profile_problem(answer: &Answer, status: u16, code: &str) {
    assert_problem(ProblemShape::Profile, answer, status, code);
}

/// The profile as its first fact gives it, but for the time of its commit.
fn born(stage: &Stage) -> Value {
    stage.named(json!({
        "motherAccountId": "mother-account-1",
        "motherProfileId": "mother-profile-1",
        "accountLifecycle": "active",
        "profileCompleteness": "incomplete",
        "profileRevision": 1,
        "addressRevision": 1,
        "fullName": "김하늘",
        "birthDate": "1992-03-14",
        "email": "mother-1@example.com",
        "primaryPhoneNumber": "+821012345678",
        "address": {
            "postalCode": "04524",
            "roadAddress": "서울특별시 중구 세종대로 110",
            "detailAddress": "101동 1001호",
        },
        "verifiedContacts": {
            "email": {
                "receiptId": "email-receipt-1",
                "normalizedValue": "mother-1@example.com",
                "verifiedAt": "2025-02-01T00:00:00.000Z",
                "verificationAuthority": "identity_provider_auth",
            },
            "phone": {
                "receiptId": "phone-receipt-1",
                "normalizedValue": "+821012345678",
                "verifiedAt": "2025-02-01T00:05:00.000Z",
                "verificationAuthority": "identity_provider_auth",
            },
        },
        "consentReceipts": [],
        "ownershipRelationship": {
            "state": "applied",
            "relationshipReceiptId": "relationship-receipt-1",
            "appliedAt": "2025-02-01T00:10:00.000Z",
        },
        "allowedNextActions":
            ["accept_current_consent", "complete_profile", "update_profile", "request_withdrawal"],
        "createdAt": "2025-02-01T00:00:00.000Z",
        "updatedAt": null,
        "idempotentReplay": false,
    }))
}

#[test]
fn a_profile_is_updated_whole_and_read_by_its_owner_alone() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let before = client.get(PATH, &mother);
    let mut rest = before.json();
    take_time(&mut rest, "/updatedAt");
    assert_eq!(rest, born(&stage));
    assert_reads(&mut client, &mother, PATH, "1", &before.json());

    let updated = good.carried_out(&mut client, &mother).json();
    let mut rest = updated.clone();
    let at = take_time(&mut rest, "/updatedAt");
    let receipt = rest["consentReceipts"][0].take();
    assert!(is_new_id(&receipt["consentReceiptId"]));
    let receipt_id = receipt["consentReceiptId"].clone();
    let expected = json!({"consentReceiptId": receipt_id, "policyKey": "privacy",
        "versionLabel": "2025-01", "acceptedAt": at, "captureSource": "explicit_mother_action"});
    assert_eq!(receipt, expected);
    let mut expected = born(&stage);
    for (member, value) in [
        ("profileRevision", json!(2)),
        ("addressRevision", json!(2)),
        ("address", good.body["address"].clone()),
        ("consentReceipts", json!([null])),
        ("profileCompleteness", json!("complete")),
        (
            "allowedNextActions",
            json!(["update_profile", "start_reservation", "request_withdrawal"]),
        ),
    ] {
        expected[member] = value;
    }
    assert_eq!(rest, expected);
    assert_reads(&mut client, &mother, PATH, "2", &updated);

    // The fact's own revision stays; the next one changes what it owns, and nothing else.
    let fact = format!(
        "/reference-facts/mother-profile/{}",
        stage.id("mother-profile-1")
    );
    assert_eq!(client.get(&fact, &stage.workflow()).json()["revision"], 1);
    let mut facts = stage.sample("mother-profile", "mother-profile-1");
    facts["accountLifecycle"] = json!("withdrawal_pending");
    facts["fullName"] = json!("somebody else");
    stage.fact("mother-profile", "mother-profile-1", 2, facts);
    let after = client.get(PATH, &mother);
    assert!(is_tag_of(PATH, "3", after.header("etag").unwrap()));
    let after = after.json();
    assert_eq!(
        (&after["profileRevision"], &after["addressRevision"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(after["fullName"], "김하늘");
    assert_eq!(after["accountLifecycle"], "withdrawal_pending");
    assert_eq!(after["allowedNextActions"], json!([]));

    for kind in ActorKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActorKind::Mother)
    {
        assert_profile_problem(&client.get(PATH, &stage.token_of(kind)), 404, "not_found");
    }
    let other = Actor {
        subject: "other".into(),
        ..good.actor.clone()
    };
    assert_profile_problem(&client.get(PATH, &stage.token(&other)), 404, "not_found");
}

#[test]
fn a_version_accepted_before_gets_no_second_receipt() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &mother).json();
    let next = with(good.body.clone(), "/expectedProfileRevision", json!(2));
    let next = with(next, "/expectedAddressRevision", json!(2));
    let both = json!([
        {"policyKey": "marketing", "versionLabel": "2025-01"},
        {"policyKey": "privacy", "versionLabel": "2025-01"},
    ]);
    let next = with(next, "/consentAcceptances", both);
    let second = client.send_json("PATCH", PATH, &mother, &[("Idempotency-Key", "2")], &next);
    assert_eq!(second.status, 201, "{second:?}");
    let receipts = second.json()["consentReceipts"].clone();
    assert_eq!(receipts.as_array().unwrap().len(), 2);
    assert_eq!(receipts[0], first["consentReceipts"][0]);
    assert_eq!(receipts[1]["policyKey"], "marketing");
    let third = with(next, "/expectedProfileRevision", json!(3));
    let third = without(
        with(third, "/expectedAddressRevision", json!(3)),
        "/consentAcceptances",
    );
    let third = client.send_json("PATCH", PATH, &mother, &[("Idempotency-Key", "3")], &third);
    assert_eq!(third.json()["profileRevision"], 4);
    assert_eq!(third.json()["consentReceipts"], receipts);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let before = client.get(PATH, &mother);
    let mut send = |token: &str, body: &Value| good.send(&mut client, token, body);

    let unpublished = json!([{"policyKey": "privacy", "versionLabel": "2098-01"}]);
    let mut body = with(
        good.body.clone(),
        "/consentAcceptances",
        unpublished.clone(),
    );
    assert_profile_problem(&send(&mother, &body), 422, "consent_version_not_published");
    let future = json!({"publishedAt": "2098-01-01T00:00:00Z", "required": true, "current": true});
    stage.fact(
        "consent-version",
        &format!("privacy@2098-{}", stage.number),
        1,
        future,
    );
    let label = format!("2098-{}", stage.number);
    let ahead = json!([{"policyKey": "privacy", "versionLabel": label}]);
    let ahead = with(good.body.clone(), "/consentAcceptances", ahead);
    assert_profile_problem(&send(&mother, &ahead), 422, "consent_version_not_published");

    for revision in ["/expectedProfileRevision", "/expectedAddressRevision"] {
        let stale = with(body.clone(), revision, json!(2));
        assert_profile_problem(&send(&mother, &stale), 409, "revision_stale");
    }
    body = with(body, "/expectedAddressRevision", json!(2));
    for kind in ActorKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActorKind::Mother)
    {
        let actor = Actor {
            kind,
            ..good.actor.clone()
        };
        assert_profile_problem(&send(&stage.token(&actor), &body), 403, "permission_denied");
    }
    let other = Actor {
        subject: "other".into(),
        ..good.actor.clone()
    };
    assert_profile_problem(
        &send(&stage.token(&other), &body),
        404,
        "mother_profile_not_found",
    );
    assert_eq!(stage.client().get(PATH, &mother).text(), before.text());

    // A contact that is not, or no longer, verified; returned before the consents.
    let mut facts = stage.sample("mother-profile", "mother-profile-1");
    facts["verifiedPhone"] = Value::Null;
    stage.fact("mother-profile", "mother-profile-1", 2, facts.clone());
    let unverified = with(good.body.clone(), "/expectedProfileRevision", json!(2));
    let unverified = with(unverified, "/consentAcceptances", unpublished);
    assert_profile_problem(&send(&mother, &unverified), 422, "contact_unverified");
    let read = stage.client().get(PATH, &mother).json();
    assert_eq!(read["verifiedContacts"]["phone"], Value::Null);
    assert_eq!(read["allowedNextActions"][0], "verify_contact");
    facts["verifiedPhone"] = json!({"receiptId": "r", "normalizedValue": "+821000000000",
        "verifiedAt": "2026-01-01T00:00:00Z"});
    stage.fact("mother-profile", "mother-profile-1", 3, facts.clone());
    let unverified = with(unverified, "/expectedProfileRevision", json!(3));
    assert_profile_problem(&send(&mother, &unverified), 422, "contact_unverified");
    // An account that is not active; returned before the revisions.
    for (revision, lifecycle) in [(4, "withdrawal_pending"), (5, "withdrawn")] {
        facts["accountLifecycle"] = json!(lifecycle);
        stage.fact(
            "mother-profile",
            "mother-profile-1",
            revision,
            facts.clone(),
        );
        assert_profile_problem(&send(&mother, &unverified), 403, "permission_denied");
        assert_eq!(stage.client().get(PATH, &mother).status, 200);
    }
    // After all that, the key is free.
    let facts = stage.sample("mother-profile", "mother-profile-1");
    stage.fact("mother-profile", "mother-profile-1", 6, facts);
    let revision = stage.client().get(PATH, &mother).json()["profileRevision"].clone();
    let fresh = with(good.body.clone(), "/expectedProfileRevision", revision);
    let done = send(&mother, &fresh);
    assert_eq!(done.status, 201, "{done:?}");
    assert_eq!(done.header("idempotent-replayed"), None);
}

#[test]
fn an_invalid_profile_is_refused_and_changes_nothing() {
    let stage = Stage::new();
    let good = good(&stage);
    let mother = stage.mother();
    let mut client = stage.client();
    let before = client.get(PATH, &mother);
    let consent =
        |policy: &str, version: &str| json!([{"policyKey": policy, "versionLabel": version}]);
    let twice = json!([
        {"policyKey": "privacy", "versionLabel": "2025-01"},
        {"versionLabel": "2025-01", "policyKey": "privacy"},
    ]);
    for (pointer, value) in [
        ("/expectedProfileRevision", json!(0)),
        ("/expectedAddressRevision", json!(-1)),
        ("/fullName", json!("")),
        ("/fullName", json!(" \t")),
        ("/fullName", json!("가".repeat(101))),
        ("/birthDate", json!("1899-12-31")),
        ("/birthDate", json!("2098-01-01")),
        ("/birthDate", json!("1992-02-30")),
        ("/address/postalCode", json!("0452")),
        ("/address/postalCode", json!("045245")),
        ("/address/postalCode", json!("0452a")),
        ("/address/postalCode", json!("０４５２４")),
        ("/address/roadAddress", json!("")),
        ("/address/roadAddress", json!("가".repeat(301))),
        ("/address/detailAddress", json!("  ")),
        ("/address/detailAddress", Value::Null),
        ("/address/city", json!("Seoul")),
        ("/consentAcceptances", json!([])),
        ("/consentAcceptances", twice),
        ("/consentAcceptances", consent("Privacy", "1")),
        ("/consentAcceptances", consent("1privacy", "1")),
        ("/consentAcceptances", consent("privacy", "-1")),
        ("/consentAcceptances", consent("privacy", "v 1")),
        ("/consentAcceptances", consent(&"p".repeat(121), "1")),
        ("/consentAcceptances", consent("", "1")),
        ("/email", json!("new@example.com")),
    ] {
        let body = with(good.body.clone(), pointer, value);
        let answer = good.send(&mut client, &mother, &body);
        assert_profile_problem(&answer, 422, "request_invalid");
    }
    assert_eq!(client.get(PATH, &mother).text(), before.text());
    // At the bounds.
    let body = with(good.body.clone(), "/fullName", json!("가".repeat(100)));
    let body = with(body, "/birthDate", json!("1900-01-01"));
    let body = with(body, "/address/roadAddress", json!("가".repeat(300)));
    let body = with(body, "/consentAcceptances", Value::Null);
    assert_eq!(good.send(&mut client, &mother, &body).status, 201);
}
