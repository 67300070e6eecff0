//! An actor with authority to pay pre-registers the payment of an obligation.
//!
//! Resource: the obligation. Rejections, in the order tested: the actor's kind can have no
//! authority to pay (403); the obligation is unknown (404); the actor has no authority over it
//! (403); the obligation is not open, it is pre-registered by another actor or with other facts, or
//! its product plan is unknown or is not for it (409). Those with authority are the mother who
//! owes, a member of her family with an active delegation on the booking that covers the amount,
//! and finance operators of the branch or of the head office, by their token and by a relationship.
//! The payer, the fee and the cash receipt are frozen. A cash receipt that is rejected does not
//! stop the pre-registration. The same actor with the same facts and another key gets what was
//! recorded before; nothing is committed then.

use std::sync::Arc;

use super::authority::{Authority, may_ever_pay};
use super::decide_cash_receipt_eligibility::{ReceiptRequest, eligibility};
use super::obligation::{
    CashReceiptEligibilitySnapshot, MethodFeeQuote, Obligation, ObligationEvent,
    PaymentActorSnapshot, PreRegistration, PreRegistrationBody, ProviderFeeSnapshot, ReceiptWish,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{NonEmpty, Nullable};
use crate::base::text::{Ident, PaymentId};
use crate::base::won::Won;
use crate::domain::example::Example;
use crate::domain::family::payment_authority::RESERVATION_DEPOSIT;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::payment_words::{
    FeeBucket, MethodLabel, ObligationPurpose, PaymentMethod, PreRegistrationStatus,
    ReceiptRequestState, RequestedReceiptPurpose,
};
use crate::domain::reference::basis_points::BasisPoints;
use crate::domain::reference::kinds::payment_obligation::{ObligationState, PaymentObligation};
use crate::domain::reference::kinds::payment_product_plan::PaymentProductPlan;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// What the customer asks of a cash receipt.
    pub struct CashReceiptIssueRequest {
        /// Whether one is wanted.
        pub request_state: ReceiptRequestState = "requestState",
        /// What it is wanted for.
        pub purpose: RequestedReceiptPurpose = "purpose",
        /// For whom it is to be registered.
        pub registration_identity_reference: Nullable<Ident> = "registrationIdentityReference" personal Register,
    }
}

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The obligation.
        pub payment_id: PaymentId = "paymentId",
        /// The cash receipt.
        pub cash_receipt_issue_request: CashReceiptIssueRequest = "cashReceiptIssueRequest",
    }
}

impl CashReceiptIssueRequest {
    fn wish(&self) -> ReceiptWish {
        ReceiptWish {
            request_state: self.request_state,
            purpose: self.purpose,
            registration_identity_reference: self.registration_identity_reference.0.clone(),
        }
    }
}

rejections! {
    /// Why no payment is pre-registered.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a mother, a member of her family or a finance operator may pre-register a payment.",
        /// The obligation is unknown.
        ObligationNotFound = Missing "payment_obligation_not_found" []
            "There is no payment obligation with this identifier.",
        /// Authority over the obligation.
        NoPaymentAuthority = Forbidden "permission_denied" []
            "You have no authority to pay this obligation.",
        /// It is paid, or given up.
        ObligationNotOpen = Conflict "payment_obligation_conflict" ["paymentId"]
            "The payment obligation is not open.",
        /// Another actor was first.
        RegisteredByAnother = Conflict "payment_obligation_conflict" ["paymentId"]
            "Another actor has pre-registered the payment.",
        /// The actor has asked for something else before.
        RegisteredOtherwise = Conflict "payment_obligation_conflict" ["cashReceiptIssueRequest"]
            "The payment is pre-registered with other facts.",
        /// The plan is unknown, or has no such obligations.
        NotUnderThePlan = Conflict "payment_obligation_conflict" ["paymentId"]
            "The obligation's product plan is unknown, or has no obligations of its purpose.",
    }
}

/// The operation.
pub struct PreRegisterPayment;

impl Operation for PreRegisterPayment {
    type Command = Command;
    type Resource = Obligation;
    type Answer = PreRegistrationBody<'static>;

    const DOC: &'static str = module_doc!("pre_register_payment.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        body: r#"{
  "paymentId": "payment-1",
  "cashReceiptIssueRequest": {
    "requestState": "requested",
    "purpose": "income_deduction",
    "registrationIdentityReference": "identity-1"
  }
}"#,
        changed_value: (
            "/cashReceiptIssueRequest/purpose",
            r#""business_expense_proof""#,
        ),
        needs_facts: &[
            ("reservation-booking", "reservation-booking-1"),
            ("payment-obligation", "payment-1"),
        ],
        unique_ids: &["reservation-booking-1", "payment-1"],
        id_in_response: "payment-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        const PAYMENT: &str = "payment-1";
        // The example is this mother's payment; other kinds of actors need a delegation or a
        // relationship.
        Ladder::of(&[ActorKind::Mother])
            .then(Reason::NotPermitted, |case| {
                case.by(ActorKind::SystemWorkflow)
            })
            .then(Reason::ObligationNotFound, |case| {
                case.set("/paymentId", "unknown")
            })
            .then(Reason::NoPaymentAuthority, Case::by_a_stranger)
            .then(Reason::ObligationNotOpen, |case| {
                case.alter(PAYMENT, |obligation: &mut Obligation| {
                    Arc::make_mut(&mut obligation.fact).state = ObligationState::Paid;
                })
            })
            .then(Reason::RegisteredByAnother, |case| {
                let done: Obligation = case.done(PAYMENT);
                case.alter(PAYMENT, |obligation: &mut Obligation| {
                    obligation.pre_registration = done.pre_registration.map(|mut registration| {
                        Arc::make_mut(&mut registration).actor.actor_user_id = "another".into();
                        registration
                    });
                })
            })
            .then(Reason::RegisteredOtherwise, |case| {
                let done: Obligation = case.done(PAYMENT);
                case.alter(PAYMENT, |obligation: &mut Obligation| {
                    obligation.pre_registration = done.pre_registration;
                })
                .set("/cashReceiptIssueRequest/purpose", "business_expense_proof")
            })
            .then(Reason::NotUnderThePlan, |case| {
                case.alter(PAYMENT, |obligation: &mut Obligation| {
                    let fact = Arc::make_mut(&mut obligation.fact);
                    fact.payment_product_plan_code = Ident::from_trusted("unknown");
                })
            })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(Obligation::KIND.key(&[&command.payment_id]))
    }

    fn decide(
        state: Option<&Obligation>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Obligation>, Rejection> {
        let actor = context.actor;
        if !may_ever_pay(actor.kind) {
            return Err(Reason::NotPermitted.into());
        }
        let Some(obligation) = state else {
            return Err(Reason::ObligationNotFound.into());
        };
        let authority = Authority::over(obligation, actor, &context.view, context.now);
        let Some(authority) = authority else {
            return Err(Reason::NoPaymentAuthority.into());
        };
        if obligation.fact.state != ObligationState::Open {
            return Err(Reason::ObligationNotOpen.into());
        }
        let wish = command.cash_receipt_issue_request.wish();
        if let Some(standing) = &obligation.pre_registration {
            if standing.actor.actor_user_id != actor.subject {
                return Err(Reason::RegisteredByAnother.into());
            }
            if standing.cash_receipt.wish() != wish {
                return Err(Reason::RegisteredOtherwise.into());
            }
            let status = PreRegistrationStatus::AlreadyPreRegistered;
            let body = to_json(&PreRegistrationBody::new(standing, status));
            return Ok(Decision::Answer(body));
        }
        let fact = &obligation.fact;
        let purpose = ObligationPurpose::from(fact.payment_purpose);
        let plan = context
            .view
            .fact::<PaymentProductPlan>(&fact.payment_product_plan_code)
            .map(|plan| plan.facts)
            .filter(|plan| plan.obligation_purposes.contains(&purpose));
        let Some(plan) = plan else {
            return Err(Reason::NotUnderThePlan.into());
        };
        let request = ReceiptRequest {
            state: wish.request_state,
            purpose: wish.purpose,
            registration_identity_reference: wish.registration_identity_reference.as_ref(),
        };
        let registration = PreRegistration {
            reservation_booking_id: fact.reservation_booking_id.clone(),
            payment_method: fact.payment_method,
            payment_purpose: fact.payment_purpose,
            amount_krw: fact.amount_krw.into(),
            payment_product_plan_code: fact.payment_product_plan_code.clone(),
            fee: fee_snapshot(&plan, fact.payment_method, fact.amount_krw.into()),
            actor: actor_snapshot(authority, fact, context),
            cash_receipt: CashReceiptEligibilitySnapshot::new(
                context.ids.id(),
                &obligation.payment_id,
                fact,
                &wish,
                &eligibility(&plan, purpose, request),
                context.at,
            ),
        };
        let status = PreRegistrationStatus::PreRegistered;
        let body = to_json(&PreRegistrationBody::new(&registration, status));
        let event = ObligationEvent::PreRegistered(Arc::new(registration));
        Commit::new(state, event, context.at).answer(body)
    }
}

fn actor_snapshot(
    authority: Authority,
    fact: &PaymentObligation,
    context: &Context<'_>,
) -> PaymentActorSnapshot {
    let delegation = authority.delegation;
    let scope = delegation.as_ref().map(|_| RESERVATION_DEPOSIT.into());
    PaymentActorSnapshot {
        payment_actor_snapshot_id: context.ids.id(),
        actor_user_id: context.actor.subject.clone(),
        actor_member_id: authority.member_id,
        actor_kind: authority.kind,
        mother_user_id: fact.mother_user_id.clone(),
        mother_member_id: fact.mother_member_id.clone(),
        branch_profile_id: fact.branch_profile_id.clone(),
        payment_delegation_id: delegation.as_ref().map(|held| held.payment_delegation_id),
        payment_delegation_scope: scope,
        payment_delegation_revision: delegation.as_ref().map(|held| held.revision),
        maximum_authorized_amount_krw: delegation
            .as_ref()
            .map(|held| held.maximum_authorized_amount_krw),
        family_account_id: delegation.map(|held| held.family_account_id),
        authority_evidence: authority.evidence,
        idempotency_key: context.key.into(),
        authorized_at: context.at,
    }
}

fn fee_snapshot(
    plan: &PaymentProductPlan,
    method: PaymentMethod,
    amount_krw: Won,
) -> ProviderFeeSnapshot {
    let (bucket, label, rate) = match method {
        PaymentMethod::Card => (FeeBucket::Card, MethodLabel::Card, plan.card_rate_bps),
        PaymentMethod::Bank => (
            FeeBucket::BankTransfer,
            MethodLabel::BankTransfer,
            plan.bank_rate_bps,
        ),
        PaymentMethod::VirtualAccount => (
            FeeBucket::VirtualAccount,
            MethodLabel::VirtualAccount,
            plan.virtual_account_rate_bps,
        ),
    };
    let NonEmpty(targets) = &plan.settlement_line_targets;
    ProviderFeeSnapshot {
        provider_routing_key: plan.provider_routing_key.clone(),
        settlement_participation: plan.settlement_participation,
        ledger_recognition_timing: plan.ledger_recognition_timing,
        fee_recognition_basis: plan.fee_recognition_basis,
        settlement_line_targets: targets.clone(),
        freezes_customer_visible_amount_after_payment: plan
            .freezes_customer_visible_amount_after_payment,
        later_catalog_changes_can_alter_exposed_result: plan
            .later_catalog_changes_can_alter_exposed_result,
        method_fee_quote: MethodFeeQuote {
            bucket,
            display_method_name: label,
            amount_krw,
            fee_amount_krw: fee(amount_krw, rate),
            rate_basis_points: rate,
        },
    }
}

/// Returns the fee on an amount, in won, halves rounded up.
fn fee(amount_krw: Won, rate: BasisPoints) -> Won {
    let whole = i128::from(BasisPoints::WHOLE);
    let product = i128::from(amount_krw) * i128::from(rate.number());
    let rounded = (product + whole / 2) / whole;
    Won::of_sum(rounded).expect("a fee is no more than its amount: a rate is at most the whole")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {

    use serde_json::{Value, json};

    use super::super::samples::{
        DELEGATION_MAXIMUM, PAYMENT, body, branch_operator, delegate, father,
        headquarters_operator, mother, obligation, pre_register, service,
    };
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::base::json::{FromJson, Json, Reader};
    use crate::base::text::MemberId;
    use crate::base::time::Timestamp;
    use crate::domain::reference::kinds::payment_product_plan;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, member, with};

    const NAME: &str = "pre_register_payment";

    /// Makes a service with everything that is needed, in which the mother acts.
    fn ready() -> Scenario {
        let mut service = service();
        service.acting(mother());
        service
    }

    /// Makes the service of [`ready`] with the obligation changed.
    fn owing(changes: &[(&str, Value)]) -> Scenario {
        let mut service = ready();
        service.fact(
            "payment-obligation",
            PAYMENT,
            2,
            with(&obligation(), changes),
        );
        service
    }

    /// Makes the service of [`ready`] with the plan changed.
    fn under(changes: &[(&str, Value)]) -> Scenario {
        let mut service = ready();
        let plan = with(&payment_product_plan::sample(), changes);
        service.fact("payment-product-plan", "plan-1", 2, plan);
        service
    }

    /// Pre-registers in the service of [`ready`], with another request for a receipt.
    fn wishing(changes: &[(&str, Value)]) -> Then {
        ready().when(NAME, &[], &with(&body(), changes))
    }

    #[track_caller]
    fn refused(service: &mut Scenario, body: &Value) -> (Class, &'static str) {
        let before = service.state::<Obligation>(&[PAYMENT]);
        let refusal = service.when(NAME, &[], body).refusal();
        assert_eq!(service.state::<Obligation>(&[PAYMENT]), before);
        assert!(service.outbox.is_empty());
        (refusal.class, refusal.code)
    }

    const FORBIDDEN: (Class, &str) = (Class::Forbidden, "permission_denied");
    const NOT_FOUND: (Class, &str) = (Class::Missing, "payment_obligation_not_found");
    const CONFLICT: (Class, &str) = (Class::Conflict, "payment_obligation_conflict");

    fn is_uuid_v7(value: &Value) -> bool {
        uuid::Uuid::parse_str(value.as_str().unwrap())
            .unwrap()
            .get_version_num()
            == 7
    }

    #[test]
    fn the_mother_pre_registers_and_all_three_snapshots_are_told() {
        let mut service = ready();
        let answer = service.when_keyed(NAME, "key-1", &[], &body()).committed();
        let actor_snapshot = &answer["paymentActorSnapshot"]["paymentActorSnapshotId"];
        let receipt_snapshot =
            &answer["cashReceiptEligibilitySnapshot"]["cashReceiptEligibilitySnapshotId"];
        assert!(is_uuid_v7(actor_snapshot) && is_uuid_v7(receipt_snapshot));
        assert_ne!(actor_snapshot, receipt_snapshot);
        assert_eq!(
            answer,
            json!({
                "reservationBookingId": "booking-1",
                "paymentId": "payment-1",
                "paymentMethod": "card",
                "paymentPurpose": "customer_share_deposit",
                "amountKrw": 330_000,
                "paymentProductPlanCode": "plan-1",
                "providerFeeSnapshot": {
                    "providerRoutingKey": "route-1",
                    "settlementParticipation": "customer_charge",
                    "ledgerRecognitionTiming": "immediate",
                    "feeRecognitionBasis": "gateway_gross_amount",
                    "settlementLineTargets": ["customer_charge"],
                    "freezesCustomerVisibleAmountAfterPayment": true,
                    "laterCatalogChangesCanAlterExposedResult": false,
                    "methodFeeQuote": {
                        "bucket": "card",
                        "displayMethodName": "카드",
                        "amountKrw": 330_000,
                        "feeAmountKrw": 10_560,
                        "rateBasisPoints": 320,
                    },
                },
                "paymentActorSnapshot": {
                    "paymentActorSnapshotId": actor_snapshot,
                    "actorUserId": "mother-1",
                    "actorMemberId": "member-1",
                    "actorKind": "mother",
                    "motherUserId": "mother-1",
                    "motherMemberId": "member-1",
                    "branchProfileId": "branch-1",
                    "familyAccountId": null,
                    "paymentDelegationId": null,
                    "paymentDelegationScope": null,
                    "paymentDelegationRevision": null,
                    "maximumAuthorizedAmountKrw": null,
                    "authorityEvidence": ["payment-obligation/payment-1@1"],
                    "idempotencyKey": "key-1",
                    "authorizedAt": "2026-11-20T12:00:00.000Z",
                },
                "cashReceiptEligibilitySnapshot": {
                    "cashReceiptEligibilitySnapshotId": receipt_snapshot,
                    "paymentId": "payment-1",
                    "paymentProductPlanCode": "plan-1",
                    "obligationPurpose": "customer_share_deposit",
                    "requestState": "requested",
                    "requestedPurpose": "income_deduction",
                    "registrationIdentityReference": "identity-1",
                    "decisionState": "accepted",
                    "merchantOfRecord": "operator",
                    "collectionChannel": "provider_collected",
                    "receiptIssuer": "provider_on_behalf_of_operator",
                    "acceptedPurpose": "income_deduction",
                    "denialReasonCode": null,
                    "providerIssueAllowed": true,
                    "decidedAt": "2026-11-20T12:00:00.000Z",
                },
                "preRegistrationStatus": "pre_registered",
                "gatewayCode": null,
                "gatewayMessage": null,
            })
        );
        assert!(service.outbox.is_empty());
    }

    #[test]
    fn a_payer_of_the_family_pays_by_a_delegation_that_the_snapshot_holds() {
        let mut service = service();
        let delegation = delegate(&mut service, DELEGATION_MAXIMUM, "2026-12-01T00:00:00Z");
        service.acting(father());
        let answer = service.when_keyed(NAME, "key-1", &[], &body()).committed();
        let snapshot = &answer["paymentActorSnapshot"];
        assert_eq!(
            *snapshot,
            json!({
                "paymentActorSnapshotId": snapshot["paymentActorSnapshotId"],
                "actorUserId": "father-user",
                "actorMemberId": "father",
                "actorKind": "delegated_family_payer",
                "motherUserId": "mother-1",
                "motherMemberId": "member-1",
                "branchProfileId": "branch-1",
                "familyAccountId": "family-1",
                "paymentDelegationId": delegation,
                "paymentDelegationScope": "reservation_deposit",
                "paymentDelegationRevision": 1,
                "maximumAuthorizedAmountKrw": DELEGATION_MAXIMUM,
                "authorityEvidence": [
                    "payment-obligation/payment-1@1",
                    format!("payment-delegation/{delegation}@1"),
                ],
                "idempotencyKey": "key-1",
                "authorizedAt": "2026-11-20T12:00:00.000Z",
            })
        );
    }

    #[test]
    fn finance_operators_pay_by_permission_and_relationship() {
        for (operator, object, kind) in [
            (
                branch_operator(),
                "branch/branch-1",
                "branch_finance_operator",
            ),
            (
                headquarters_operator(),
                "headquarters",
                "headquarters_finance_operator",
            ),
        ] {
            let mut service = service();
            let relationship = |state: &str| {
                json!({
                    "object": object,
                    "relation": "finance_operator",
                    "subject": &*operator.subject,
                    "state": state,
                })
            };
            service.acting(operator.clone());
            assert_eq!(
                refused(&mut service, &body()),
                FORBIDDEN,
                "{kind}: no relationship"
            );
            service.fact("relationship", "relation-2", 7, relationship("applied"));
            service.fact("relationship", "relation-1", 3, relationship("applied"));
            service.acting(Actor {
                permissions: vec!["payment:authorise".into()],
                ..operator.clone()
            });
            assert_eq!(
                refused(&mut service, &body()),
                FORBIDDEN,
                "{kind}: no permission"
            );
            service.acting(operator.clone());
            let answer = pre_register(&mut service).committed();
            let snapshot = &answer["paymentActorSnapshot"];
            assert_eq!(snapshot["actorKind"], kind);
            assert_eq!(snapshot["actorUserId"], &*operator.subject);
            assert_eq!(snapshot["actorMemberId"], &*operator.subject);
            assert_eq!(
                snapshot["authorityEvidence"],
                json!([
                    "payment-obligation/payment-1@1",
                    "relationship/relation-1@3"
                ])
            );
            for member in [
                "familyAccountId",
                "paymentDelegationId",
                "paymentDelegationScope",
                "paymentDelegationRevision",
                "maximumAuthorizedAmountKrw",
            ] {
                assert_eq!(snapshot[member], Value::Null, "{member}");
            }
            for (id, revision) in [("relation-1", 4), ("relation-2", 8)] {
                service.fact("relationship", id, revision, relationship("revoked"));
            }
            assert_eq!(refused(&mut service, &body()), FORBIDDEN, "{kind}: revoked");
        }
    }

    #[test]
    fn an_operator_who_is_a_member_is_told_as_one() {
        let mut service = service();
        let relationship = json!({
            "object": "headquarters",
            "relation": "finance_operator",
            "subject": "hq-operator",
            "state": "applied",
        });
        service.fact("relationship", "relation-1", 1, relationship);
        service.acting(Actor {
            member_id: Some(MemberId::from_trusted("member-9")),
            ..headquarters_operator()
        });
        let answer = pre_register(&mut service).committed();
        assert_eq!(answer["paymentActorSnapshot"]["actorMemberId"], "member-9");
    }

    #[test]
    fn a_relationship_counts_only_for_its_object_relation_and_subject() {
        for (operator, object, relation, subject) in [
            (
                branch_operator(),
                "branch/branch-2",
                "finance_operator",
                "branch-operator",
            ),
            (
                branch_operator(),
                "headquarters",
                "finance_operator",
                "branch-operator",
            ),
            (
                branch_operator(),
                "branch/branch-1",
                "manager",
                "branch-operator",
            ),
            (
                branch_operator(),
                "branch/branch-1",
                "finance_operator",
                "hq-operator",
            ),
            (
                headquarters_operator(),
                "branch/branch-1",
                "finance_operator",
                "hq-operator",
            ),
        ] {
            let mut service = service();
            let relationship = json!({
                "object": object,
                "relation": relation,
                "subject": subject,
                "state": "applied",
            });
            service.fact("relationship", "relation-1", 1, relationship);
            service.acting(operator);
            assert_eq!(
                refused(&mut service, &body()),
                FORBIDDEN,
                "{object} {relation} {subject}"
            );
        }
    }

    #[test]
    fn kinds_that_never_pay_are_refused_before_anything_is_looked_up() {
        let unknown = with(&body(), &[("paymentId", json!("no-such"))]);
        for kind in ActorKind::ALL {
            let mut service = service();
            service.acting(Actor {
                permissions: vec!["payment:authorize".into()],
                branch_profile_ids: vec!["branch-1".into()],
                ..member(kind, "mother-1", "member-1")
            });
            let expected = if may_ever_pay(kind) {
                NOT_FOUND
            } else {
                FORBIDDEN
            };
            assert_eq!(refused(&mut service, &unknown), expected, "{kind}");
            if !may_ever_pay(kind) {
                assert_eq!(refused(&mut service, &body()), FORBIDDEN, "{kind}");
            }
        }
        let payers = ActorKind::ALL
            .into_iter()
            .filter(|kind| may_ever_pay(*kind));
        assert_eq!(payers.count(), 4);
    }

    #[test]
    fn a_mother_pays_only_what_she_owes_as_user_and_as_member() {
        for other in [
            member(ActorKind::Mother, "mother-2", "member-1"),
            member(ActorKind::Mother, "mother-1", "member-2"),
            actor(ActorKind::Mother, "mother-1"),
        ] {
            // The refusal does not reveal that the obligation is not open.
            let mut service = owing(&[("state", json!("paid"))]);
            service.acting(other);
            assert_eq!(refused(&mut service, &body()), FORBIDDEN);
        }
    }

    #[test]
    fn a_delegation_counts_while_it_covers_the_amount_on_this_booking() {
        let until = "2026-12-01T00:00:00Z";
        let given = |maximum: i64| {
            let mut service = service();
            delegate(&mut service, maximum, until);
            service.acting(father());
            service
        };
        // A maximum of exactly the amount is enough, and so is a delegation in its last
        // millisecond.
        let mut service = given(330_000);
        service.at("2026-11-30T23:59:59.999Z");
        pre_register(&mut service).committed();
        let mut service = given(329_999);
        assert_eq!(refused(&mut service, &body()), FORBIDDEN, "too little");
        let mut service = given(330_000);
        service.at(until);
        assert_eq!(refused(&mut service, &body()), FORBIDDEN, "over");
        let mut service = given(330_000);
        let elsewhere = with(
            &obligation(),
            &[("reservationBookingId", json!("booking-2"))],
        );
        service.fact("payment-obligation", PAYMENT, 2, elsewhere);
        assert_eq!(refused(&mut service, &body()), FORBIDDEN, "another booking");
        let mut service = given(330_000);
        let another = with(&obligation(), &[("motherMemberId", json!("member-2"))]);
        service.fact("payment-obligation", PAYMENT, 2, another);
        assert_eq!(refused(&mut service, &body()), FORBIDDEN, "another mother");
        for other in [
            member(ActorKind::FamilyMember, "father-user", "aunt"),
            actor(ActorKind::FamilyMember, "father-user"),
        ] {
            let mut service = given(330_000);
            service.acting(other);
            assert_eq!(refused(&mut service, &body()), FORBIDDEN, "another payer");
        }
    }

    #[test]
    fn a_consultations_obligation_is_the_mothers_alone() {
        let mut service = service();
        delegate(&mut service, DELEGATION_MAXIMUM, "2026-12-01T00:00:00Z");
        for (id, object, subject) in [
            ("relation-1", "branch/branch-1", "branch-operator"),
            ("relation-2", "headquarters", "hq-operator"),
        ] {
            let relationship = json!({
                "object": object,
                "relation": "finance_operator",
                "subject": subject,
                "state": "applied",
            });
            service.fact("relationship", id, 1, relationship);
        }
        let obligation: Obligation = service.state(&[PAYMENT]).unwrap();
        service.given(&Obligation {
            mother_alone: true,
            ..obligation
        });
        for other in [father(), branch_operator(), headquarters_operator()] {
            service.acting(other);
            assert_eq!(refused(&mut service, &body()), FORBIDDEN);
        }
        service.acting(mother());
        pre_register(&mut service).committed();
    }

    #[test]
    fn an_obligation_that_is_not_open_is_a_conflict() {
        for state in ["paid", "cancelled"] {
            let mut service = owing(&[("state", json!(state))]);
            assert_eq!(refused(&mut service, &body()), CONFLICT, "{state}");
        }
        // The same holds when it was pre-registered before.
        let mut service = ready();
        pre_register(&mut service).committed();
        let paid = with(&obligation(), &[("state", json!("paid"))]);
        service.fact("payment-obligation", PAYMENT, 2, paid);
        assert_eq!(refused(&mut service, &body()), CONFLICT);
    }

    #[test]
    fn the_same_again_under_another_key_is_told_what_was_recorded() {
        let mut service = ready();
        let first = service.when_keyed(NAME, "key-1", &[], &body()).committed();
        // Plan and obligation have changed since, and time has passed.
        let plan = with(
            &payment_product_plan::sample(),
            &[("cardRateBps", json!(1)), ("obligationPurposes", json!([]))],
        );
        service.fact("payment-product-plan", "plan-1", 2, plan);
        let later = with(
            &obligation(),
            &[("amountKrw", json!(1)), ("paymentMethod", json!("bank"))],
        );
        service.fact("payment-obligation", PAYMENT, 2, later);
        service.at("2026-11-21T12:00:00Z");
        let state = service.state::<Obligation>(&[PAYMENT]);
        for key in ["key-2", "key-3"] {
            let again = service.when_keyed(NAME, key, &[], &body()).answered();
            let mut expected = first.clone();
            expected["preRegistrationStatus"] = json!("already_pre_registered");
            assert_eq!(again, expected);
        }
        assert_eq!(service.state::<Obligation>(&[PAYMENT]), state);
    }

    #[test]
    fn a_pre_registration_by_another_actor_or_with_other_facts_is_a_conflict() {
        let mut service = service();
        delegate(&mut service, DELEGATION_MAXIMUM, "2026-12-01T00:00:00Z");
        service.acting(mother());
        pre_register(&mut service).committed();
        service.acting(father());
        assert_eq!(refused(&mut service, &body()), CONFLICT, "another actor");
        service.acting(mother());
        for (member, value) in [
            ("requestState", json!("not_requested")),
            ("purpose", json!("business_expense_proof")),
            ("registrationIdentityReference", json!("identity-2")),
            ("registrationIdentityReference", Value::Null),
        ] {
            let place = format!("cashReceiptIssueRequest.{member}");
            let other = with(&body(), &[(&place, value)]);
            assert_eq!(refused(&mut service, &other), CONFLICT, "{member}");
            let refusal = service.when(NAME, &[], &other).refusal();
            assert_eq!(refusal.conflicting, ["cashReceiptIssueRequest"]);
        }
    }

    #[test]
    fn a_plan_that_is_unknown_or_not_for_the_purpose_is_a_conflict() {
        let mut service = owing(&[("paymentProductPlanCode", json!("no-such"))]);
        assert_eq!(refused(&mut service, &body()), CONFLICT);
        let mut service = under(&[("obligationPurposes", json!(["service_balance"]))]);
        assert_eq!(refused(&mut service, &body()), CONFLICT);
    }

    #[test]
    fn each_method_has_its_bucket_label_and_rate() {
        for (method, bucket, label, rate, fee) in [
            ("card", "card", "카드", 320, 10_560),
            ("bank", "bank_transfer", "계좌이체", 180, 5_940),
            ("vcnt", "virtual_account", "가상계좌", 0, 0),
        ] {
            let mut service = owing(&[("paymentMethod", json!(method))]);
            let answer = pre_register(&mut service).committed();
            assert_eq!(answer["paymentMethod"], method);
            assert_eq!(
                answer["providerFeeSnapshot"]["methodFeeQuote"],
                json!({
                    "bucket": bucket,
                    "displayMethodName": label,
                    "amountKrw": 330_000,
                    "feeAmountKrw": fee,
                    "rateBasisPoints": rate,
                })
            );
        }
    }

    #[test]
    fn fees_round_halves_up_and_are_exact_at_every_size() {
        let rate = |points: i64| {
            BasisPoints::read(&Json::Int(points), &mut Reader::new(Timestamp::default())).unwrap()
        };
        for (amount, points, expected) in [
            (1, 0, 0),
            (1, 4_999, 0),
            (1, 5_000, 1),
            (1, 10_000, 1),
            (3, 5_000, 2),
            (15_625, 320, 500),
            (15_640, 320, 500),
            (15_641, 320, 501),
            (i64::MAX, 10_000, i64::MAX),
            (i64::MAX, 5_000, i64::MAX / 2 + 1),
            (i64::MAX, 1, 922_337_203_685_478),
        ] {
            assert_eq!(
                fee(Won::new(amount), rate(points)).number(),
                expected,
                "{amount} at {points}"
            );
        }
        let mut largest = owing(&[("amountKrw", json!(i64::MAX))]);
        let answer = pre_register(&mut largest).committed();
        assert_eq!(answer["amountKrw"], i64::MAX);
        assert_eq!(
            answer["providerFeeSnapshot"]["methodFeeQuote"]["feeAmountKrw"],
            295_147_905_179_352_826_i64
        );
    }

    #[test]
    fn the_terms_of_the_plan_are_copied_as_they_stand() {
        let mut service = under(&[
            (
                "settlementLineTargets",
                json!(["service_balance", "non_settlement"]),
            ),
            ("feeRecognitionBasis", json!("none")),
            ("freezesCustomerVisibleAmountAfterPayment", json!(false)),
            ("laterCatalogChangesCanAlterExposedResult", json!(true)),
            ("ledgerRecognitionTiming", json!("not_recognized")),
            ("settlementParticipation", json!("not_participating")),
        ]);
        let answer = pre_register(&mut service).committed();
        let mut snapshot = answer["providerFeeSnapshot"].clone();
        snapshot.as_object_mut().unwrap().remove("methodFeeQuote");
        assert_eq!(
            snapshot,
            json!({
                "providerRoutingKey": "route-1",
                "settlementParticipation": "not_participating",
                "ledgerRecognitionTiming": "not_recognized",
                "feeRecognitionBasis": "none",
                "settlementLineTargets": ["service_balance", "non_settlement"],
                "freezesCustomerVisibleAmountAfterPayment": false,
                "laterCatalogChangesCanAlterExposedResult": true,
            })
        );
    }

    #[test]
    fn a_rejected_or_unwanted_cash_receipt_does_not_stop_pre_registration() {
        for (member, value, decision, denial) in [
            (
                "registrationIdentityReference",
                Value::Null,
                "rejected",
                json!("registration_identity_missing"),
            ),
            (
                "purpose",
                json!("unknown"),
                "rejected",
                json!("purpose_unknown"),
            ),
            (
                "requestState",
                json!("unknown"),
                "rejected",
                json!("request_state_unknown"),
            ),
            (
                "requestState",
                json!("not_requested"),
                "not_requested",
                Value::Null,
            ),
        ] {
            let place = format!("cashReceiptIssueRequest.{member}");
            let answer = wishing(&[(&place, value)]).committed();
            assert_eq!(answer["preRegistrationStatus"], "pre_registered");
            let snapshot = &answer["cashReceiptEligibilitySnapshot"];
            assert_eq!(snapshot["decisionState"], decision, "{member}");
            assert_eq!(snapshot["denialReasonCode"], denial, "{member}");
            assert_eq!(snapshot["acceptedPurpose"], Value::Null, "{member}");
            assert_eq!(snapshot["providerIssueAllowed"], false, "{member}");
        }
    }
}
