//! A reservation's whole way over HTTP: from its draft to its finalized charge, with the plug
//! pulled on the way and at its end.

use carebook::base::actor::ActorKind;
use carebook::domain::reference::samples;
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, World, run};

/// A command that was carried out.
struct Done {
    path: String,
    token: String,
    key: Option<&'static str>,
    body: Value,
    answer: Answer,
}

impl Done {
    fn send(&self, client: &mut Client) -> Answer {
        let key: Vec<_> = self
            .key
            .iter()
            .map(|key| ("Idempotency-Key", *key))
            .collect();
        client.send_json("POST", &self.path, &self.token, &key, &self.body)
    }
}

/// Carries the command out and expects this status.
#[track_caller]
fn carry_out(
    client: &mut Client,
    status: u16,
    path: &str,
    token: &str,
    key: Option<&'static str>,
    body: Value,
) -> Done {
    let mut done = Done {
        path: path.to_owned(),
        token: token.to_owned(),
        key,
        body,
        answer: Answer {
            status: 0,
            headers: Vec::new(),
            body: Vec::new(),
        },
    };
    done.answer = done.send(client);
    assert_eq!(done.answer.status, status, "{path}: {:?}", done.answer);
    assert_eq!(done.answer.header("idempotent-replayed"), None);
    done
}

#[track_caller]
fn assert_replayed(client: &mut Client, done: &[Done]) {
    for done in done {
        let again = done.send(client);
        let what = format!("{}: {again:?}", done.path);
        assert_eq!(again.status, done.answer.status, "{what}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{what}");
        let mut expected = done.answer.json();
        if let Some(replay) = expected.get_mut("idempotentReplay") {
            *replay = json!(true);
        }
        assert_eq!(again.json(), expected, "{what}");
    }
}

fn text(body: &Value, member: &str) -> String {
    body[member].as_str().unwrap().to_owned()
}

#[track_caller]
fn put(client: &mut Client, workflow: &str, facts: &[Value]) {
    let answer = client.put_facts(workflow, facts);
    assert_eq!(answer.json()["applied"], facts.len(), "{answer:?}");
}

#[test]
fn a_draft_becomes_a_paid_and_finalized_reservation_and_stays_one() {
    let world = World::new();
    let token = |kind: ActorKind| {
        let actor = samples::sample_actors()
            .into_iter()
            .find(|actor| actor.kind == kind);
        world.token(&actor.unwrap())
    };
    let mother = token(ActorKind::Mother);
    let payer = token(ActorKind::FamilyMember);
    let hq = token(ActorKind::HeadquartersAdministrator);
    let workflow = world.workflow();
    let server = Server::start(&world);
    let mut client = server.client();
    let answer = client.put_lines(&workflow, samples::NDJSON);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["problems"], json!([]));

    // A draft of this mother's, reviewed.
    let draft = json!({"ownerSubject": "mother-1", "motherMemberId": "member-mother-1",
        "branchProfileId": "branch-seoul-1", "intent": "full_reservation",
        "expiresAt": "2099-12-31T00:00:00Z", "currentReviewProjectionId": "review-way",
        "disabledReasonCodes": []});
    let review = json!({"draftId": "draft-way", "reviewedFacts": {"careDays": 10},
        "dependencies": [{"kind": "payment-product-plan", "id": "plan-customer-share",
            "revision": 1, "fieldPath": "plan"}],
        "payment": {"payableAmountKrw": 333_300, "eligiblePaymentMethodCodes": ["bank", "card"],
            "paymentPurpose": "customer_share_deposit",
            "paymentProductPlanCode": "plan-customer-share"}});
    let facts = [
        json!({"kind": "reservation-draft", "id": "draft-way", "revision": 4, "facts": draft}),
        json!({"kind": "final-review-projection", "id": "review-way", "revision": 2, "facts": review}),
    ];
    put(&mut client, &workflow, &facts);

    // Confirmed: a booking and an obligation are born.
    let mut done = Vec::new();
    let confirmed = carry_out(
        &mut client,
        201,
        "/customer-reservation-drafts/draft-way/confirm",
        &mother,
        Some("confirm"),
        json!({"expectedDraftRevision": 4, "expectedReviewRevision": 2,
            "reservationDraftStepAuthorityProjectionId": "review-way"}),
    );
    let outcome = confirmed.answer.json();
    let booking = text(&outcome, "reservationBookingId");
    let handoff = &outcome["reservationCreationPaymentHandoff"];
    let payment = text(handoff, "paymentObligationId");
    assert_eq!(handoff["payableAmountKrw"], 333_300);
    assert_eq!(handoff["handoffState"], "preparation_required");
    done.push(confirmed);

    // A member of the family may pay for it, and knows.
    let granted = carry_out(
        &mut client,
        201,
        "/family-payment-delegations",
        &mother,
        Some("grant"),
        json!({"familyAccountId": "family-account-1", "payerMemberId": "member-family-1",
            "motherMemberId": "member-mother-1", "reservationBookingId": booking,
            "scopes": ["reservation_deposit"], "maximumAuthorizedAmountKrw": 333_300,
            "expiresAt": "2099-01-01T00:00:00Z"}),
    );
    let delegation = granted.answer.json();
    let evidence = json!([
        "family-account/family-account-1@1",
        format!("reservation-booking/{booking}@1"),
    ]);
    assert_eq!(delegation["authorityEvidence"], evidence);
    let ask = |amount: i64| {
        json!({"familyAccountId": "family-account-1", "motherMemberId": "member-mother-1",
            "reservationBookingId": booking, "scope": "reservation_deposit", "amountKrw": amount})
    };
    let authorizations = "/family-reservation-payment-authorizations";
    let authorized = client.post(authorizations, &payer, &ask(333_300));
    assert_eq!(
        (authorized.status, authorized.json()),
        (200, delegation.clone())
    );
    assert_eq!(
        client.post(authorizations, &payer, &ask(333_301)).status,
        400
    );
    done.push(granted);

    // The plug is pulled.
    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_replayed(&mut client, &done);
    let authorized = client.post(authorizations, &payer, &ask(333_300));
    assert_eq!(
        (authorized.status, authorized.json()),
        (200, delegation.clone())
    );

    // The payer pre-registers the payment under that delegation.
    let registered = carry_out(
        &mut client,
        200,
        "/reservation-payment-pre-registrations",
        &payer,
        Some("register"),
        json!({"paymentId": payment, "cashReceiptIssueRequest": {"requestState": "requested",
            "purpose": "income_deduction", "registrationIdentityReference": "identity-1"}}),
    );
    let registration = registered.answer.json();
    assert_eq!(registration["reservationBookingId"], booking);
    assert_eq!(registration["paymentMethod"], "bank");
    let snapshot = &registration["paymentActorSnapshot"];
    for (member, value) in [
        ("actorKind", json!("delegated_family_payer")),
        ("actorUserId", json!("family-1")),
        ("actorMemberId", json!("member-family-1")),
        ("familyAccountId", json!("family-account-1")),
        (
            "paymentDelegationId",
            delegation["paymentDelegationId"].clone(),
        ),
        ("paymentDelegationScope", json!("reservation_deposit")),
        ("paymentDelegationRevision", json!(1)),
        ("maximumAuthorizedAmountKrw", json!(333_300)),
        ("idempotencyKey", json!("register")),
    ] {
        assert_eq!(snapshot[member], value, "{member}");
    }
    // 333,300 × 150 / 10,000 is 4,999.5.
    let quote = &registration["providerFeeSnapshot"]["methodFeeQuote"];
    assert_eq!(quote["feeAmountKrw"], 5_000);
    assert_eq!(quote["displayMethodName"], "계좌이체");
    let receipt = &registration["cashReceiptEligibilitySnapshot"];
    assert_eq!(receipt["decisionState"], "accepted");
    done.push(registered);

    // The charge changes, and the mother pays the difference.
    let adjustment = json!({"reservationBookingId": booking, "motherUserId": "mother-1",
        "customerDeltaKrw": 20_000, "couponAdjustmentKrw": 0, "pureCustomerAmountKrw": 20_000,
        "motherPayableAdjustmentKrw": 20_000, "adjustmentStatus": "payable",
        "requestedAt": "2026-01-01T00:00:00Z"});
    let shares = json!({"caregiverShareBasisPoints": 7_000, "headquartersShareBasisPoints": 1_000});
    let facts = [
        json!({"kind": "payment-change-adjustment", "id": "adjustment-way", "revision": 1, "facts": adjustment}),
        json!({"kind": "reservation-financial-facts", "id": booking, "revision": 1, "facts": shares}),
    ];
    put(&mut client, &workflow, &facts);
    let captured = carry_out(
        &mut client,
        200,
        &format!("/reservation-payment-change-adjustments/{booking}/mother-payments"),
        &mother,
        None,
        json!({"motherUserId": "mother-1", "paymentId": "adjustment-payment-way",
            "providerName": "gateway", "providerContext": {"z": [1, null], "a": "1"}}),
    );
    let paid = captured.answer.json();
    assert_eq!(paid["adjustmentStatus"], "paid");
    let context = json!({"z": [1, null], "a": "1"});
    assert_eq!(paid["paymentReceipt"]["providerContext"], context);
    done.push(captured);

    // The charge is finalized.
    let finalized = carry_out(
        &mut client,
        200,
        &format!(
            "/reservation-financial-lifecycles/{booking}/regional-benefit-charge-finalizations"
        ),
        "",
        None,
        json!({"branchProfileId": "branch-seoul-1", "finalizedChargeSnapshotId": "charge-way",
            "capturedOn": "2026-01-10", "serviceType": "postpartum_care",
            "serviceAddressLevel1": "서울특별시", "serviceAddressLevel2": "중구",
            "quotedOn": "2026-01-01", "servicePriceKrw": 999_999, "ownPriceKrw": 353_300,
            "preReservationPaymentAmountKrw": 333_300}),
    );
    // The benefit is floor(99,999.9); the mother is left with nothing to pay.
    let lifecycle = finalized.answer.json();
    assert_eq!(lifecycle["motherVisiblePayableKrw"], 0);
    assert_eq!(lifecycle["caregiverPayoutKrw"], 699_999);
    assert_eq!(lifecycle["hqSettlementKrw"], 99_999);
    assert_eq!(lifecycle["branchSettlementKrw"], 200_001);
    done.push(finalized);

    // All of it is there, and stays.
    let delegation = text(&delegation, "paymentDelegationId");
    let reads = [
        (&mother, format!("/family-payment-delegations/{delegation}")),
        (
            &payer,
            format!("/reservation-payment-pre-registrations/{payment}"),
        ),
        (
            &mother,
            format!("/reservation-payment-change-adjustments/{booking}"),
        ),
        (&hq, format!("/reservation-financial-lifecycles/{booking}")),
        (
            &workflow,
            "/reference-facts/reservation-draft/draft-way".to_owned(),
        ),
        (
            &workflow,
            format!("/reference-facts/reservation-booking/{booking}"),
        ),
        (
            &workflow,
            format!("/reference-facts/payment-obligation/{payment}"),
        ),
        (
            &workflow,
            "/reference-facts/payment-change-adjustment/adjustment-way".to_owned(),
        ),
    ];
    let read_all = |client: &mut Client| -> Vec<_> {
        let read = |(token, path): &(&String, String)| {
            let answer = client.get(path, token);
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            (
                answer.text().to_owned(),
                answer.header("etag").unwrap().to_owned(),
            )
        };
        reads.iter().map(read).collect()
    };
    let before = read_all(&mut client);
    for (index, done) in [(0, &done[1]), (1, &done[2]), (2, &done[3]), (3, &done[4])] {
        assert_eq!(before[index].0, done.answer.text(), "{}", done.path);
    }
    assert_eq!(before[4].1, "\"5\"", "confirming advances the draft by one");
    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_eq!(read_all(&mut client), before);
    assert_replayed(&mut client, &done);
    assert_eq!(read_all(&mut client), before);
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    let (code, _, complaint) = run(&["verify", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{complaint}");
}
