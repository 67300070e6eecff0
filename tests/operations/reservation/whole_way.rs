//! A reservation's whole way over HTTP: from its draft to its finalized charge, with the plug
//! pulled on the way and at its end.

use carebook::base::actor::ActorKind;
use carebook::domain::reference::samples;
use carebook::domain::sample_actors::sample_actors;
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

/// A service, those who act on a reservation's way, and what they have carried out.
struct Way {
    world: World,
    server: Server,
    client: Client,
    mother: String,
    payer: String,
    headquarters: String,
    workflow: String,
    done: Vec<Done>,
}

impl Way {
    /// A service with the samples.
    fn begin() -> Self {
        let world = World::new();
        let token = |kind: ActorKind| {
            let actor = sample_actors().into_iter().find(|actor| actor.kind == kind);
            world.token(&actor.unwrap())
        };
        let mother = token(ActorKind::Mother);
        let payer = token(ActorKind::FamilyMember);
        let headquarters = token(ActorKind::HeadquartersAdministrator);
        let workflow = world.workflow();
        let server = Server::start(&world);
        let mut client = server.client();
        let answer = client.put_lines(&workflow, samples::NDJSON);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["problems"], json!([]));
        Self {
            world,
            server,
            client,
            mother,
            payer,
            headquarters,
            workflow,
            done: Vec::new(),
        }
    }

    /// The plug is pulled, and the service started again.
    fn pull_the_plug(mut self) -> Self {
        self.server.kill();
        self.server = Server::start(&self.world);
        self.client = self.server.client();
        self
    }

    #[track_caller]
    fn put(&mut self, facts: &[Value]) {
        let answer = self.client.put_facts(&self.workflow, facts);
        assert_eq!(answer.json()["applied"], facts.len(), "{answer:?}");
    }

    /// A draft of this mother's, reviewed.
    fn draft(&mut self) {
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
        self.put(&facts);
    }

    /// Confirmed: a booking and an obligation are born, of which these are the identifiers.
    fn confirm(&mut self) -> (String, String) {
        let confirmed = carry_out(
            &mut self.client,
            201,
            "/customer-reservation-drafts/draft-way/confirm",
            &self.mother,
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
        self.done.push(confirmed);
        (booking, payment)
    }

    /// A member of the family may pay for the booking: the delegation.
    fn grant(&mut self, booking: &str) -> Value {
        let granted = carry_out(
            &mut self.client,
            201,
            "/family-payment-delegations",
            &self.mother,
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
        self.done.push(granted);
        delegation
    }

    /// That member is told so, up to what was granted.
    #[track_caller]
    fn assert_authorized(&mut self, booking: &str, delegation: &Value) {
        let mut ask = |amount: i64| {
            let body = json!({"familyAccountId": "family-account-1",
                "motherMemberId": "member-mother-1", "reservationBookingId": booking,
                "scope": "reservation_deposit", "amountKrw": amount});
            let path = "/family-reservation-payment-authorizations";
            self.client.post(path, &self.payer, &body)
        };
        let authorized = ask(333_300);
        assert_eq!((authorized.status, &authorized.json()), (200, delegation));
        assert_eq!(ask(333_301).status, 400);
    }

    /// The payer pre-registers the payment under that delegation.
    fn pre_register(&mut self, booking: &str, payment: &str, delegation: &Value) {
        let registered = carry_out(
            &mut self.client,
            200,
            "/reservation-payment-pre-registrations",
            &self.payer,
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
        self.done.push(registered);
    }

    /// The charge changes, and the mother pays the difference.
    fn pay_difference(&mut self, booking: &str) {
        let adjustment = json!({"reservationBookingId": booking, "motherUserId": "mother-1",
            "customerDeltaKrw": 20_000, "couponAdjustmentKrw": 0, "pureCustomerAmountKrw": 20_000,
            "motherPayableAdjustmentKrw": 20_000, "adjustmentStatus": "payable",
            "requestedAt": "2026-01-01T00:00:00Z"});
        let shares =
            json!({"caregiverShareBasisPoints": 7_000, "headquartersShareBasisPoints": 1_000});
        let facts = [
            json!({"kind": "payment-change-adjustment", "id": "adjustment-way", "revision": 1, "facts": adjustment}),
            json!({"kind": "reservation-financial-facts", "id": booking, "revision": 1, "facts": shares}),
        ];
        self.put(&facts);
        let captured = carry_out(
            &mut self.client,
            200,
            &format!("/reservation-payment-change-adjustments/{booking}/mother-payments"),
            &self.mother,
            None,
            json!({"motherUserId": "mother-1", "paymentId": "adjustment-payment-way",
                "providerName": "gateway", "providerContext": {"z": [1, null], "a": "1"}}),
        );
        let paid = captured.answer.json();
        assert_eq!(paid["adjustmentStatus"], "paid");
        let context = json!({"z": [1, null], "a": "1"});
        assert_eq!(paid["paymentReceipt"]["providerContext"], context);
        self.done.push(captured);
    }

    /// The charge is finalized.
    fn finalize(&mut self, booking: &str) {
        let finalized = carry_out(
            &mut self.client,
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
        self.done.push(finalized);
    }

    /// What can be read of it all, each with its tag; first what the commands after the first one have
    /// answered, then the draft.
    fn read_all(
        &mut self,
        booking: &str,
        payment: &str,
        delegation: &str,
    ) -> Vec<(String, String)> {
        let reads = [
            (
                &self.mother,
                format!("/family-payment-delegations/{delegation}"),
            ),
            (
                &self.payer,
                format!("/reservation-payment-pre-registrations/{payment}"),
            ),
            (
                &self.mother,
                format!("/reservation-payment-change-adjustments/{booking}"),
            ),
            (
                &self.headquarters,
                format!("/reservation-financial-lifecycles/{booking}"),
            ),
            (
                &self.workflow,
                "/reference-facts/reservation-draft/draft-way".to_owned(),
            ),
            (
                &self.workflow,
                format!("/reference-facts/reservation-booking/{booking}"),
            ),
            (
                &self.workflow,
                format!("/reference-facts/payment-obligation/{payment}"),
            ),
            (
                &self.workflow,
                "/reference-facts/payment-change-adjustment/adjustment-way".to_owned(),
            ),
        ];
        let read = |(token, path): (&String, String)| {
            let answer = self.client.get(&path, token);
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let tag = answer.header("etag").unwrap().to_owned();
            (answer.text().to_owned(), tag)
        };
        reads.map(read).into()
    }
}

#[test]
fn a_draft_becomes_a_paid_and_finalized_reservation_and_stays_one() {
    let mut way = Way::begin();
    way.draft();
    let (booking, payment) = way.confirm();
    let delegation = way.grant(&booking);
    way.assert_authorized(&booking, &delegation);
    let mut way = way.pull_the_plug();
    assert_replayed(&mut way.client, &way.done);
    way.assert_authorized(&booking, &delegation);
    way.pre_register(&booking, &payment, &delegation);
    way.pay_difference(&booking);
    way.finalize(&booking);

    // All of it is there, and stays.
    let delegation = text(&delegation, "paymentDelegationId");
    let before = way.read_all(&booking, &payment, &delegation);
    for ((read, _), done) in before.iter().zip(&way.done[1..]) {
        assert_eq!(read, done.answer.text(), "{}", done.path);
    }
    assert_eq!(before[4].1, "\"5\"", "confirming advances the draft by one");
    let mut way = way.pull_the_plug();
    assert_eq!(way.read_all(&booking, &payment, &delegation), before);
    assert_replayed(&mut way.client, &way.done);
    assert_eq!(way.read_all(&booking, &payment, &delegation), before);
    assert_eq!(way.server.stop(), Some(0));
    let data = way.world.data();
    let (code, _, complaint) = run(&["verify", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{complaint}");
}
