//! Cash receipts, pre-registrations and gateway operations, as the service's description has them.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{Command, Who};
use super::expected::{Answer, Expected};
use super::state::{
    Access, FactHeld, Faults, Found, Held, Model, facts_of, fingerprint, moment, n, s, seen, texts,
};

/// What the plan says about a cash receipt.
fn receipt_decision(
    plan: &Value,
    obligation: &str,
    state: &str,
    purpose: &str,
    reference: &Value,
) -> Value {
    let denial = if state == "not_requested" {
        None
    } else if state == "unknown" {
        Some("request_state_unknown")
    } else if s(plan, "merchantOfRecord") != "operator" {
        Some("merchant_not_operator")
    } else if !texts(plan, "receiptablePurposes").contains(&obligation) {
        Some("obligation_not_receiptable")
    } else if purpose == "unknown" {
        Some("purpose_unknown")
    } else if !texts(plan, "acceptedReceiptPurposes").contains(&purpose) {
        Some("purpose_not_accepted")
    } else if reference.is_null() {
        Some("registration_identity_missing")
    } else {
        None
    };
    let decision = match (state, denial) {
        ("not_requested", _) => "not_requested",
        (_, Some(_)) => "rejected",
        (_, None) => "accepted",
    };
    let accepted = decision == "accepted";
    let by_operator = s(plan, "receiptIssuer") == "provider_on_behalf_of_operator";
    json!({
        "decisionState": decision,
        "merchantOfRecord": plan["merchantOfRecord"],
        "collectionChannel": plan["collectionChannel"],
        "receiptIssuer": plan["receiptIssuer"],
        "acceptedPurpose": accepted.then_some(purpose),
        "denialReasonCode": denial,
        "providerIssueAllowed": accepted && by_operator,
    })
}

impl Model {
    pub fn decide_cash_receipt_eligibility(&self, command: &Command) -> Expected {
        let body = &command.body;
        let Some(plan) = self.fact("payment-product-plan", &command.params[0]) else {
            return Expected::refused(400, "product_plan_not_found").anywhere();
        };
        let obligation = s(body, "obligationPurpose");
        if !texts(&plan.facts, "obligationPurposes").contains(&obligation) {
            return Expected::refused(400, "obligation_purpose_not_in_plan").anywhere();
        }
        let decision = receipt_decision(
            &plan.facts,
            obligation,
            s(body, "requestState"),
            s(body, "purpose"),
            &body["registrationIdentityReference"],
        );
        Expected::found(200, decision)
    }

    /// Who pays, when this actor may: the fields of the actor's snapshot that depend on it.
    fn payer(&self, id: &str, obligation: &FactHeld, who: &Who) -> Option<Value> {
        let facts = &obligation.facts;
        let of = |kind: &str| {
            json!({
                "actorKind": kind,
                "actorMemberId": who.member.unwrap_or(who.subject),
                "familyAccountId": null,
                "paymentDelegationId": null,
                "paymentDelegationScope": null,
                "paymentDelegationRevision": null,
                "maximumAuthorizedAmountKrw": null,
            })
        };
        let operates = |object: String| {
            who.may("payment:authorize")
                && self.facts_of_kind("relationship").any(|(_, fact)| {
                    s(&fact.facts, "object") == object
                        && s(&fact.facts, "relation") == "finance_operator"
                        && s(&fact.facts, "subject") == who.subject
                        && s(&fact.facts, "state") == "applied"
                })
        };
        if self.consultations.contains(id) && who.kind != ActorKind::Mother {
            return None;
        }
        match who.kind {
            ActorKind::Mother => {
                let own = s(facts, "motherUserId") == who.subject
                    && who.member == Some(s(facts, "motherMemberId"));
                own.then(|| of("mother"))
            }
            ActorKind::FamilyMember => {
                let booking = s(facts, "reservationBookingId");
                let found = self.delegation(booking, who.member?)?;
                let maximum = n(&found.body, "maximumAuthorizedAmountKrw");
                if maximum < n(facts, "amountKrw") {
                    return None;
                }
                let mut payer = of("delegated_family_payer");
                payer["familyAccountId"] = json!(found.account);
                payer["paymentDelegationId"] = json!(found.id);
                payer["paymentDelegationScope"] = json!("reservation_deposit");
                payer["paymentDelegationRevision"] = json!(1);
                payer["maximumAuthorizedAmountKrw"] = json!(maximum);
                Some(payer)
            }
            ActorKind::BranchFinanceOperator => {
                operates(format!("branch/{}", s(facts, "branchProfileId")))
                    .then(|| of("branch_finance_operator"))
            }
            ActorKind::HeadquartersFinanceOperator => {
                operates("headquarters".to_owned()).then(|| of("headquarters_finance_operator"))
            }
            _ => None,
        }
    }

    pub fn pre_register_payment(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        if !matches!(
            who.kind,
            ActorKind::Mother
                | ActorKind::FamilyMember
                | ActorKind::BranchFinanceOperator
                | ActorKind::HeadquartersFinanceOperator
        ) {
            return Expected::forbidden();
        }
        let id = s(body, "paymentId").to_owned();
        let Some(obligation) = self.fact("payment-obligation", &id).cloned() else {
            return Expected::missing("payment_obligation_not_found");
        };
        let Some(payer) = self.payer(&id, &obligation, who) else {
            return Expected::forbidden();
        };
        let conflict = Expected::conflict("payment_obligation_conflict").anywhere();
        let facts = facts_of(command);
        if s(&obligation.facts, "state") != "open" {
            return conflict;
        }
        if let Some(held) = self.registrations.iter().find(|held| held.id == id) {
            if held.facts != facts || held.subject != who.subject {
                return conflict;
            }
            let mut view = held.body.clone();
            view["preRegistrationStatus"] = json!("already_pre_registered");
            return Expected::found(200, view);
        }
        let of = |member: &str| obligation.facts[member].clone();
        let purpose = s(&obligation.facts, "paymentPurpose");
        let plan = self.fact(
            "payment-product-plan",
            s(&obligation.facts, "paymentProductPlanCode"),
        );
        let plan = plan.filter(|plan| texts(&plan.facts, "obligationPurposes").contains(&purpose));
        let Some(plan) = plan.map(|plan| plan.facts.clone()) else {
            return conflict;
        };
        let amount = n(&obligation.facts, "amountKrw");
        let (bucket, name, rate) = match s(&obligation.facts, "paymentMethod") {
            "card" => ("card", "카드", "cardRateBps"),
            "bank" => ("bank_transfer", "계좌이체", "bankRateBps"),
            _ => ("virtual_account", "가상계좌", "virtualAccountRateBps"),
        };
        let fee = (i128::from(amount) * i128::from(n(&plan, rate)) + 5_000) / 10_000;
        let request = &body["cashReceiptIssueRequest"];
        let mut receipt = receipt_decision(
            &plan,
            purpose,
            s(request, "requestState"),
            s(request, "purpose"),
            &request["registrationIdentityReference"],
        );
        receipt["cashReceiptEligibilitySnapshotId"] = self.made(
            answer,
            "/cashReceiptEligibilitySnapshot/cashReceiptEligibilitySnapshotId",
        );
        receipt["paymentId"] = json!(id);
        receipt["paymentProductPlanCode"] = of("paymentProductPlanCode");
        receipt["obligationPurpose"] = json!(purpose);
        receipt["requestState"] = request["requestState"].clone();
        receipt["requestedPurpose"] = request["purpose"].clone();
        receipt["registrationIdentityReference"] = request["registrationIdentityReference"].clone();
        receipt["decidedAt"] = json!(moment(self.now));
        let mut actor = payer;
        actor["paymentActorSnapshotId"] =
            self.made(answer, "/paymentActorSnapshot/paymentActorSnapshotId");
        actor["actorUserId"] = json!(who.subject);
        for member in ["motherUserId", "motherMemberId", "branchProfileId"] {
            actor[member] = of(member);
        }
        let evidence = seen(answer, "/paymentActorSnapshot/authorityEvidence");
        let some = evidence.as_array().is_some_and(|items| !items.is_empty());
        actor["authorityEvidence"] = if some {
            evidence
        } else {
            json!(["(at least one)"])
        };
        actor["idempotencyKey"] = json!(command.key);
        actor["authorizedAt"] = json!(moment(self.now));
        let view = json!({
            "reservationBookingId": of("reservationBookingId"),
            "paymentId": id,
            "paymentMethod": of("paymentMethod"),
            "paymentPurpose": purpose,
            "amountKrw": amount,
            "paymentProductPlanCode": of("paymentProductPlanCode"),
            "providerFeeSnapshot": {
                "providerRoutingKey": plan["providerRoutingKey"],
                "settlementParticipation": plan["settlementParticipation"],
                "ledgerRecognitionTiming": plan["ledgerRecognitionTiming"],
                "feeRecognitionBasis": plan["feeRecognitionBasis"],
                "settlementLineTargets": plan["settlementLineTargets"],
                "freezesCustomerVisibleAmountAfterPayment":
                    plan["freezesCustomerVisibleAmountAfterPayment"],
                "laterCatalogChangesCanAlterExposedResult":
                    plan["laterCatalogChangesCanAlterExposedResult"],
                "methodFeeQuote": {
                    "bucket": bucket,
                    "displayMethodName": name,
                    "amountKrw": amount,
                    "feeAmountKrw": i64::try_from(fee).unwrap(),
                    "rateBasisPoints": plan[rate],
                },
            },
            "paymentActorSnapshot": actor,
            "cashReceiptEligibilitySnapshot": receipt,
            "preRegistrationStatus": "pre_registered",
            "gatewayCode": null,
            "gatewayMessage": null,
        });
        self.registrations.push(Held {
            id,
            body: view.clone(),
            subject: who.subject.to_owned(),
            facts,
            position: answer.position,
        });
        Expected::done(200, view)
    }

    pub fn read_registration(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .registrations
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let view = found.body.clone();
        let actor = &view["paymentActorSnapshot"];
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::Mother if s(actor, "motherUserId") == who.subject => {
                // Without the member's id she may not act on it.
                if who.member.is_some() {
                    Access::Yes
                } else {
                    Access::Undetermined
                }
            }
            ActorKind::Mother | ActorKind::SystemWorkflow => Access::No,
            ActorKind::BranchManager => {
                Access::when(who.branches.contains(&s(actor, "branchProfileId")))
            }
            // Who may act on what is owed may read it.
            _ if self
                .fact("payment-obligation", &found.id)
                .is_some_and(|owed| self.payer(&found.id, owed, who).is_some()) =>
            {
                Access::Yes
            }
            _ => Access::Undetermined,
        };
        (Some((view, None)), access)
    }

    pub fn gateway_faults(&self, body: &Value, faults: &mut Faults) {
        let action = s(body, "operationAction");
        let mut required = |member: &str| {
            if body[member].is_null() {
                faults.add(member, "required");
            }
        };
        if action == "search_payments" {
            required("searchKey");
        } else {
            required("paymentId");
        }
        if action == "record_chargeback" {
            required("amountKrw");
        }
        faults.least(body, "expectedRevision", 0);
        faults.least(body, "amountKrw", 1);
    }

    /// What an operation is on.
    pub fn gateway_subject(body: &Value) -> String {
        if s(body, "operationAction") == "search_payments" {
            format!("search {}", s(body, "searchKey"))
        } else {
            format!("payment {}", s(body, "paymentId"))
        }
    }

    pub fn administer_gateway(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        let kind = matches!(
            who.kind,
            ActorKind::HeadquartersAdministrator | ActorKind::HeadquartersFinanceOperator
        );
        if !kind || !who.may("payment:administer") {
            return Expected::forbidden();
        }
        let subject = Self::gateway_subject(body);
        let revision = self
            .gateway_revisions
            .get(&subject)
            .copied()
            .unwrap_or_default();
        if n(body, "expectedRevision") != revision {
            return Expected::stale("expectedRevision");
        }
        self.gateway_revisions.insert(subject, revision + 1);
        let action = s(body, "operationAction");
        let id = s(body, "paymentId");
        let payment = self.fact("gateway-payment", id).cloned();
        let amount = n(body, "amountKrw");
        let (status, code) = match (action, payment) {
            ("search_payments", _) => (200, "ok"),
            (_, None) => (404, "payment_not_found"),
            ("close_virtual_account", Some(payment)) => {
                if s(&payment.facts, "virtualAccountState") == "open" {
                    let mut facts = payment.facts;
                    facts["virtualAccountState"] = json!("closed");
                    self.set_fact("gateway-payment", id, payment.revision + 1, facts);
                    (200, "ok")
                } else {
                    (409, "virtual_account_not_open")
                }
            }
            ("record_chargeback", Some(payment)) => {
                let left = n(&payment.facts, "amountKrw") - n(&payment.facts, "chargedBackKrw");
                if amount > left {
                    (422, "chargeback_exceeds_amount")
                } else {
                    let mut facts = payment.facts;
                    facts["chargedBackKrw"] = json!(n(&facts, "chargedBackKrw") + amount);
                    facts["chargebackState"] = json!("recorded");
                    self.set_fact("gateway-payment", id, payment.revision + 1, facts);
                    (200, "ok")
                }
            }
            _ => (200, "ok"),
        };
        let audit_id = self.new_id(answer, "/billingAdminOperationAuditId");
        let message = seen(answer, "/providerMessage");
        let is_sentence =
            message.is_null() || message.as_str().is_some_and(|text| !text.is_empty());
        let view = json!({
            "billingAdminOperationAuditId": audit_id,
            "operationAction": action,
            "operationStatus": if status == 200 { "succeeded" } else { "failed" },
            "actorUserId": who.subject,
            "reason": body["reason"],
            "idempotencyKey": body["idempotencyKey"],
            "expectedRevision": revision,
            "commandFingerprint": fingerprint(answer, "/commandFingerprint"),
            "providerEvidenceFingerprint": fingerprint(answer, "/providerEvidenceFingerprint"),
            "recordedAt": moment(self.now),
            "reservationBookingId": body["reservationBookingId"],
            "paymentId": body["paymentId"],
            "searchKey": body["searchKey"],
            "amountKrw": body["amountKrw"],
            "providerStatusCode": status,
            "providerResultCode": code,
            "providerMessage": if is_sentence { message } else { json!("(a sentence or null)") },
            "replayedFromAuditId": null,
        });
        self.audits.push(Held {
            id: audit_id.as_str().unwrap_or_default().to_owned(),
            body: view.clone(),
            subject: who.subject.to_owned(),
            facts: facts_of(command),
            position: answer.position,
        });
        Expected::done(200, view)
    }

    pub fn read_audit(&self, command: &Command, who: &Who) -> Found {
        let found = self.audits.iter().find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::HeadquartersFinanceOperator => Access::when(who.may("payment:administer")),
            _ => Access::No,
        };
        let tag = found.position.map(|position| position.to_string());
        (Some((found.body.clone(), tag)), access)
    }
}
