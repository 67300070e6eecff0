//! Drafts are confirmed, seen from outside: keys, bodies of conflicts, and races.

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::text::MemberId;
use serde_json::{Value, json};

use crate::support::{Client, Server, World, actor};

const PLAN: &str = r#"{"obligationPurposes":["customer_share_deposit"],"receiptablePurposes":[],
    "acceptedReceiptPurposes":[],"merchantOfRecord":"operator",
    "collectionChannel":"provider_collected","receiptIssuer":"none","providerRoutingKey":"route-1",
    "settlementParticipation":"customer_charge","ledgerRecognitionTiming":"immediate",
    "feeRecognitionBasis":"gateway_gross_amount","settlementLineTargets":["customer_charge"],
    "freezesCustomerVisibleAmountAfterPayment":true,
    "laterCatalogChangesCanAlterExposedResult":false,
    "cardRateBps":250,"bankRateBps":100,"virtualAccountRateBps":50}"#;

fn fact(kind: &str, id: &str, revision: i64, facts: &Value) -> Value {
    json!({"kind": kind, "id": id, "revision": revision, "facts": facts})
}

fn draft(id: &str, intent: &str) -> Value {
    let facts = json!({"ownerSubject": "user-1", "motherMemberId": "mother-1",
        "branchProfileId": "branch-1", "intent": intent, "expiresAt": "2099-12-31T00:00:00Z",
        "currentReviewProjectionId": format!("review-of-{id}"), "disabledReasonCodes": []});
    fact("reservation-draft", id, 1, &facts)
}

fn review(draft: &str, revision: i64, source: Option<&str>) -> Value {
    let facts = json!({"draftId": draft, "reviewedFacts": {"careDays": 10},
        "extensionSourceReservationId": source, "extensionCatalogRevision": 1,
        "dependencies": [{"kind": "payment-product-plan", "id": "plan-1", "revision": 1,
            "fieldPath": "plan"}],
        "payment": {"payableAmountKrw": 300_000, "eligiblePaymentMethodCodes": ["card"],
            "paymentPurpose": "customer_share_deposit", "paymentProductPlanCode": "plan-1"}});
    fact(
        "final-review-projection",
        &format!("review-of-{draft}"),
        revision,
        &facts,
    )
}

fn booking(id: &str) -> Value {
    let facts = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
        "branchProfileId": "branch-1", "state": "active"});
    fact("reservation-booking", id, 1, &facts)
}

fn catalog(bookings: &[String]) -> Value {
    let facts = json!({"eligibleReservationBookingIds": bookings});
    fact("extension-eligibility", "user-1", 1, &facts)
}

fn plan() -> Value {
    fact(
        "payment-product-plan",
        "plan-1",
        1,
        &serde_json::from_str(PLAN).unwrap(),
    )
}

fn owner(world: &World) -> String {
    world.token(&Actor {
        member_id: Some(MemberId::from_trusted("mother-1")),
        ..actor(ActorKind::Mother, "user-1")
    })
}

#[track_caller]
fn put(client: &mut Client, world: &World, facts: &[Value]) {
    let answer = client.put_facts(&world.workflow(), facts);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["applied"], facts.len(), "{answer:?}");
}

fn path(draft: &str) -> String {
    format!("/customer-reservation-drafts/{draft}/confirm")
}

fn body(draft: &str, draft_revision: i64, review_revision: i64) -> Value {
    json!({
        "expectedDraftRevision": draft_revision,
        "reservationDraftStepAuthorityProjectionId": format!("review-of-{draft}"),
        "expectedReviewRevision": review_revision,
    })
}

#[test]
fn a_confirmation_is_replayed_by_key_and_conflicts_have_their_own_shape() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    put(
        &mut client,
        &world,
        &[
            draft("d-1", "full_reservation"),
            review("d-1", 1, None),
            plan(),
        ],
    );
    let token = owner(&world);
    let first = client.post_keyed(&path("d-1"), &token, "k-1", &body("d-1", 1, 1));
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(first.header("idempotent-replayed"), None);
    server.kill();

    let server = Server::start(&world);
    let mut client = server.client();
    let again = client.post_keyed(&path("d-1"), &token, "k-1", &body("d-1", 1, 1));
    assert_eq!(again.status, 201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let (before, tail) = first.text().split_at(first.text().len() - "false}".len());
    assert_eq!(tail, "false}");
    assert_eq!(again.text(), format!("{before}true}}"));

    let conflict = |code: &str, expected: i64, refresh: bool, paths: &[&str], reasons: &[&str]| {
        json!({
            "conflictCode": code,
            "draftId": "d-1",
            "expectedDraftRevision": expected,
            "currentDraftRevision": 2,
            "reservationDraftStepAuthorityProjectionId": "review-of-d-1",
            "expectedReviewRevision": 1,
            "currentReviewRevision": 1,
            "refreshRequired": refresh,
            "conflictingFieldPaths": paths,
            "disabledReasonCodes": reasons,
        })
    };
    for (key, revision, expected) in [
        (
            "k-1",
            2,
            conflict("idempotency_key_reused", 2, false, &[], &[]),
        ),
        (
            "k-2",
            1,
            conflict(
                "draft_revision_mismatch",
                1,
                true,
                &["expectedDraftRevision"],
                &[],
            ),
        ),
        (
            "k-2",
            2,
            conflict(
                "confirmation_not_ready",
                2,
                false,
                &[],
                &["draft_already_confirmed"],
            ),
        ),
    ] {
        let refused = client.post_keyed(&path("d-1"), &token, key, &body("d-1", revision, 1));
        assert_eq!((refused.status, refused.json()), (409, expected));
        assert!(refused.position() >= first.position());
    }
    let missing = client.post_keyed(&path("d-2"), &token, "k-2", &body("d-1", 2, 1));
    let code = missing.json()["code"].clone();
    assert_eq!((missing.status, code), (404, json!("draft_not_found")));
    let invalid = client.post_keyed(&path("d-1"), &token, "k-2", &json!({}));
    assert_eq!(invalid.status, 400);
    assert_eq!(invalid.faults().len(), 3);

    // What was born is served as what came in is.
    let born = first.json();
    let id = born["reservationBookingId"].as_str().unwrap();
    let read = client.get(
        &format!("/reference-facts/reservation-booking/{id}"),
        &world.workflow(),
    );
    assert_eq!((read.status, read.header("etag")), (200, Some("\"1\"")));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn only_one_of_many_concurrent_drafts_extending_a_booking_is_confirmed() {
    const DRAFTS: usize = 8;
    const ROUNDS: usize = 5;
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let bookings: Vec<_> = (0..ROUNDS)
        .map(|round| format!("booking-{round}"))
        .collect();
    put(&mut client, &world, &[plan(), catalog(&bookings)]);
    let token = owner(&world);
    for (round, source) in bookings.iter().enumerate() {
        let ids: Vec<_> = (0..DRAFTS)
            .map(|number| format!("d-{round}-{number}"))
            .collect();
        let mut facts = vec![booking(source)];
        for id in &ids {
            facts.extend([draft(id, "extension"), review(id, 1, Some(source))]);
        }
        put(&mut client, &world, &facts);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let ask = |id| {
                let (mut client, token) = (server.client(), &token);
                scope.spawn(move || client.post_keyed(&path(id), token, id, &body(id, 1, 1)))
            };
            let asked: Vec<_> = ids.iter().map(|id| ask(id.as_str())).collect();
            asked
                .into_iter()
                .map(|asked| asked.join().unwrap())
                .collect()
        });
        let confirmed = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(confirmed, 1, "{answers:?}");
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            assert_eq!(answer.status, 409, "{answer:?}");
            assert_eq!(
                answer.json()["disabledReasonCodes"],
                json!(["extension_duplicate"])
            );
        }
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_review_changed_during_its_confirmation_is_decided_as_it_stands() {
    const ROUNDS: usize = 60;
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let sources = |round: usize| [0, 1].map(|number| format!("booking-{round}-{number}"));
    let bookings: Vec<_> = (0..ROUNDS).flat_map(sources).collect();
    let mut facts: Vec<_> = bookings.iter().map(|id| booking(id)).collect();
    facts.extend([plan(), catalog(&bookings)]);
    for round in 0..ROUNDS {
        for id in [format!("first-{round}"), format!("second-{round}")] {
            let [source, _] = sources(round);
            facts.extend([draft(&id, "extension"), review(&id, 1, Some(&source))]);
        }
    }
    put(&mut client, &world, &facts);
    let (token, workflow) = (owner(&world), world.workflow());
    let (mut firsts, mut changes) = (server.client(), server.client());
    for round in 0..ROUNDS {
        // Both extend one booking; while the second waits for the first, its source changes.
        let (first, second) = (format!("first-{round}"), format!("second-{round}"));
        let [_, other] = sources(round);
        let answer = std::thread::scope(|scope| {
            let ahead = scope
                .spawn(|| firsts.post_keyed(&path(&first), &token, &first, &body(&first, 1, 1)));
            let change = scope.spawn(|| {
                let changed = review(&second, 2, Some(&other));
                changes.put_facts(&workflow, &[changed])
            });
            let answer = client.post_keyed(&path(&second), &token, &second, &body(&second, 1, 2));
            assert_eq!(ahead.join().unwrap().status, 201);
            assert_eq!(change.join().unwrap().json()["applied"], 1);
            answer
        });
        match answer.status {
            201 => assert_eq!(answer.json()["acceptedReviewRevision"], 2),
            _ => assert_eq!(
                (answer.status, &answer.json()["conflictCode"]),
                (409, &json!("final_review_revision_mismatch")),
                "{answer:?}"
            ),
        }
    }
    assert_eq!(server.stop(), Some(0));
}
