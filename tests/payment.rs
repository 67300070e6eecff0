//! Payments as their users see them: pre-registrations and operations at the gateway, replayed,
//! raced, and read after the plug was pulled.

use std::collections::BTreeSet;

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, World, actor};

const PRE_REGISTRATIONS: &str = "/reservation-payment-pre-registrations";
const OPERATIONS: &str = "/billing-engine-payment-admin-operations";

fn mother(world: &World) -> String {
    world.token(&Actor {
        member_id: Some("member-1".into()),
        ..actor(ActorKind::Mother, "mother-1")
    })
}

fn administrator(world: &World, subject: &str) -> String {
    world.token(&Actor {
        permissions: vec!["payment:administer".into()],
        ..actor(ActorKind::HeadquartersAdministrator, subject)
    })
}

/// The facts of an open obligation with its plan, and of its payment at the gateway.
fn put_facts(client: &mut Client, world: &World) {
    let facts = [
        json!({"kind": "payment-product-plan", "id": "plan-1", "revision": 1, "facts": {
            "obligationPurposes": ["service_balance"],
            "receiptablePurposes": [],
            "acceptedReceiptPurposes": [],
            "merchantOfRecord": "operator",
            "collectionChannel": "provider_collected",
            "receiptIssuer": "none",
            "providerRoutingKey": "route-1",
            "settlementParticipation": "service_balance",
            "ledgerRecognitionTiming": "immediate",
            "feeRecognitionBasis": "service_balance_amount",
            "settlementLineTargets": ["service_balance"],
            "freezesCustomerVisibleAmountAfterPayment": true,
            "laterCatalogChangesCanAlterExposedResult": false,
            "cardRateBps": 320,
            "bankRateBps": 180,
            "virtualAccountRateBps": 30,
        }}),
        json!({"kind": "payment-obligation", "id": "payment-1", "revision": 1, "facts": {
            "reservationBookingId": "booking-1",
            "paymentMethod": "vcnt",
            "paymentPurpose": "service_balance",
            "amountKrw": 500_500,
            "paymentProductPlanCode": "plan-1",
            "motherUserId": "mother-1",
            "motherMemberId": "member-1",
            "branchProfileId": "branch-1",
            "state": "open",
        }}),
        json!({"kind": "gateway-payment", "id": "payment-1", "revision": 1, "facts": {
            "method": "vcnt",
            "amountKrw": 500_500,
            "virtualAccountState": "open",
            "refundState": "none",
            "chargebackState": "none",
            "chargedBackKrw": 0,
            "searchKeys": ["booking-1"],
        }}),
    ];
    let answer = client.put_facts(&world.workflow(), &facts);
    assert_eq!(answer.json()["applied"], 3, "{answer:?}");
}

fn registration() -> Value {
    json!({
        "paymentId": "payment-1",
        "cashReceiptIssueRequest": {
            "requestState": "not_requested",
            "purpose": "unknown",
            "registrationIdentityReference": null,
        },
    })
}

fn operation(action: &str, key: &str, expected_revision: i64) -> Value {
    let mut body = json!({
        "operationAction": action,
        "reason": "A customer called.",
        "idempotencyKey": key,
        "expectedRevision": expected_revision,
    });
    let subject = match action {
        "search_payments" => ("searchKey", "booking-1"),
        _ => ("paymentId", "payment-1"),
    };
    body[subject.0] = json!(subject.1);
    body
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

/// The read is what the operation answered, under the position of its commit.
#[track_caller]
fn assert_read(client: &mut Client, path: &str, token: &str, position: u64, first: &Answer) {
    let read = client.get(path, token);
    assert_eq!((read.status, read.text()), (200, first.text()), "{read:?}");
    assert_eq!(tag(&read), format!("\"{position}\""));
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", &*bearer), ("If-None-Match", &*tag(&read))];
    let again = client.request("GET", path, &headers, b"");
    assert_eq!(again.status, 304);
}

#[test]
fn a_pre_registration_is_replayed_told_again_and_kept() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    put_facts(&mut client, &world);
    let mother = mother(&world);
    let path = format!("{PRE_REGISTRATIONS}/payment-1");
    assert_eq!(client.get(&path, &mother).status, 404);
    let first = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-1", &registration());
    assert_eq!(first.status, 200, "{first:?}");
    assert!(!is_replay(&first));
    let position = first.position().unwrap();
    let body = first.json();
    assert_eq!(body["preRegistrationStatus"], "pre_registered");
    assert_eq!(body["paymentActorSnapshot"]["idempotencyKey"], "key-1");
    // 500,500 × 30 / 10,000 is 1,501.5.
    let quote = &body["providerFeeSnapshot"]["methodFeeQuote"];
    assert_eq!(quote["feeAmountKrw"], 1_502);
    assert_eq!(quote["displayMethodName"], "가상계좌");

    let replay = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-1", &registration());
    assert_eq!((replay.status, replay.text()), (200, first.text()));
    assert!(is_replay(&replay));

    // Another key is told what was recorded, and is not taken: other facts under it are a
    // conflict of the obligation, not of the key.
    let other_key = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-2", &registration());
    assert_eq!(other_key.status, 200);
    assert!(!is_replay(&other_key));
    let mut expected = body;
    expected["preRegistrationStatus"] = json!("already_pre_registered");
    assert_eq!(other_key.json(), expected);
    let mut other_facts = registration();
    other_facts["cashReceiptIssueRequest"]["requestState"] = json!("requested");
    for (key, code) in [
        ("key-2", "payment_obligation_conflict"),
        ("key-1", "idempotency_key_reused"),
    ] {
        let refused = client.post_keyed(PRE_REGISTRATIONS, &mother, key, &other_facts);
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (409, &json!(code))
        );
    }

    let no_key = client.post(PRE_REGISTRATIONS, &mother, &registration());
    assert_eq!(no_key.status, 400);
    let header = ("header.Idempotency-Key".to_owned(), "required".to_owned());
    assert_eq!(no_key.faults(), [header]);

    assert_read(&mut client, &path, &mother, position, &first);
    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_read(&mut client, &path, &mother, position, &first);
    let replay = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-1", &registration());
    assert_eq!(replay.text(), first.text());
}

#[test]
fn a_race_to_pre_register_records_one_snapshot_and_everybody_is_told_of_it() {
    let world = World::new();
    let server = Server::start(&world);
    put_facts(&mut server.client(), &world);
    let mother = mother(&world);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|number| {
                let (server, mother) = (&server, &mother);
                scope.spawn(move || {
                    let key = format!("key-{number}");
                    let mut client = server.client();
                    client.post_keyed(PRE_REGISTRATIONS, mother, &key, &registration())
                })
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 200 && !is_replay(answer))
    );
    let first = |answer: &&Answer| answer.json()["preRegistrationStatus"] == "pre_registered";
    assert_eq!(answers.iter().filter(first).count(), 1);
    let snapshots: BTreeSet<String> = answers
        .iter()
        .map(|answer| answer.json()["paymentActorSnapshot"].to_string())
        .collect();
    assert_eq!(snapshots.len(), 1);
}

#[test]
fn operations_at_the_gateway_are_audited_replayed_and_kept() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    put_facts(&mut client, &world);
    let administrator = administrator(&world, "admin-1");
    let mut kept = Vec::new();
    for (action, key, expected_revision) in [
        ("search_payments", "key-1", 0),
        ("lookup_payment", "key-2", 0),
        ("close_virtual_account", "key-3", 1),
    ] {
        let body = operation(action, key, expected_revision);
        let first = client.post(OPERATIONS, &administrator, &body);
        assert_eq!(first.status, 200, "{first:?}");
        assert!(!is_replay(&first));
        let audit = first.json();
        assert_eq!(audit["operationStatus"], "succeeded", "{action}");
        assert_eq!(audit["replayedFromAuditId"], Value::Null);
        let replay = client.post(OPERATIONS, &administrator, &body);
        assert_eq!(replay.status, 200);
        assert!(is_replay(&replay));
        let mut expected = audit.clone();
        expected["replayedFromAuditId"] = audit["billingAdminOperationAuditId"].clone();
        assert_eq!(replay.json(), expected);
        let id = audit["billingAdminOperationAuditId"].as_str().unwrap();
        let path = format!("{OPERATIONS}/{id}");
        let position = first.position().unwrap();
        assert_read(&mut client, &path, &administrator, position, &first);
        kept.push((path, position, first));
    }
    let fact = client.get(
        "/reference-facts/gateway-payment/payment-1",
        &world.workflow(),
    );
    assert_eq!(fact.json()["revision"], 2, "{fact:?}");
    assert_eq!(fact.json()["facts"]["virtualAccountState"], "closed");

    let stale = client.post(
        OPERATIONS,
        &administrator,
        &operation("lookup_payment", "key-4", 1),
    );
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (409, &json!("revision_stale"))
    );
    let reused = client.post(
        OPERATIONS,
        &administrator,
        &operation("search_payments", "key-2", 1),
    );
    assert_eq!(reused.json()["code"], "idempotency_key_reused");
    let forbidden = client.post(
        OPERATIONS,
        &world.headquarters(),
        &operation("lookup_payment", "key-1", 2),
    );
    assert_eq!(forbidden.status, 403);
    let mut whole = operation("record_chargeback", "key-5", 2);
    whole["paymentId"] = Value::Null;
    let invalid = client.post(OPERATIONS, &administrator, &whole);
    assert_eq!(invalid.status, 400);
    let required = |path: &str| (path.to_owned(), "required".to_owned());
    assert_eq!(
        invalid.faults(),
        [required("paymentId"), required("amountKrw")]
    );

    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    for (path, position, first) in &kept {
        assert_read(&mut client, path, &administrator, *position, first);
    }
    let next = client.post(
        OPERATIONS,
        &administrator,
        &operation("lookup_payment", "key-4", 2),
    );
    assert_eq!(next.status, 200, "{next:?}");
}

#[test]
fn of_operations_on_one_revision_exactly_one_is_recorded() {
    for action in ["record_chargeback", "search_payments"] {
        let world = World::new();
        let server = Server::start(&world);
        put_facts(&mut server.client(), &world);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|number| {
                    let (server, world) = (&server, &world);
                    scope.spawn(move || {
                        let token = administrator(world, &format!("admin-{number}"));
                        let mut body = operation(action, "key-1", 0);
                        body["amountKrw"] = json!(400_000);
                        server.client().post(OPERATIONS, &token, &body)
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        let recorded = answers.iter().filter(|answer| answer.status == 200);
        assert_eq!(recorded.count(), 1, "{action}");
        let stale = |answer: &&Answer| answer.json()["code"] == "revision_stale";
        assert_eq!(answers.iter().filter(stale).count(), 7, "{action}");
        let charged_back = if action == "record_chargeback" {
            400_000
        } else {
            0
        };
        let fact = server.client().get(
            "/reference-facts/gateway-payment/payment-1",
            &world.workflow(),
        );
        assert_eq!(fact.json()["facts"]["chargedBackKrw"], charged_back);
    }
}
