//! Anybody who may act at all asks whether a cash receipt can be issued for a payment under a
//! product plan.
//!
//! Resource: the plan, a fact; it is read, and nothing changes. Rejections, in the order tested:
//! a value outside its enumeration, the plan is unknown, it has no obligation of this purpose
//! (all of them invalid requests). A receipt that may not be issued is a decision like another,
//! and no rejection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::Ident;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Context, Decision, Operation, to_json};
use crate::domain::payment_words::{
    CollectionChannel, MerchantOfRecord, ObligationPurpose, ReceiptDecision, ReceiptDenial,
    ReceiptIssuer, ReceiptPurpose, ReceiptRequestState, RequestedReceiptPurpose,
};
use crate::domain::reference::kinds::payment_product_plan::PaymentProductPlan;
use crate::domain::reference::{Fact, FactKind};
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, path_and_body, rejections};

path_and_body! {
    /// The content of a request.
    pub struct Command {
        /// The plan.
        pub plan_code: Ident = "planCode",
        body: Body,
    }
}

json_object! {
    /// The body of the request.
    pub struct Body {
        /// What is paid for.
        pub obligation_purpose: ObligationPurpose = "obligationPurpose",
        /// Whether a receipt is wanted.
        pub request_state: ReceiptRequestState = "requestState",
        /// What it is wanted for.
        pub purpose: RequestedReceiptPurpose = "purpose",
        /// For whom it is to be registered.
        pub registration_identity_reference: Option<Ident> = "registrationIdentityReference" personal Register,
    }
}

rejections! {
    /// Why nothing is decided.
    pub enum Reason {
        /// The plan is unknown.
        ProductPlanNotFound = Invalid "product_plan_not_found" []
            "There is no payment product plan with this code.",
        /// The plan has no such obligations.
        ObligationPurposeNotInPlan = Invalid "obligation_purpose_not_in_plan" []
            "The payment product plan has no obligations of this purpose.",
    }
}

/// A customer's request for a cash receipt.
#[derive(Clone, Copy, Debug)]
pub struct ReceiptRequest<'a> {
    /// Whether a receipt is wanted.
    pub state: ReceiptRequestState,
    /// The purpose for which it is wanted.
    pub purpose: RequestedReceiptPurpose,
    /// The identity under which it is to be registered.
    pub registration_identity_reference: Option<&'a Ident>,
}

/// Whether a cash receipt may be issued, with the facts of the plan that it follows from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CashReceiptEligibility")]
pub struct Eligibility {
    /// What is decided.
    pub decision_state: ReceiptDecision,
    /// Who sells.
    pub merchant_of_record: MerchantOfRecord,
    /// Who takes the money.
    pub collection_channel: CollectionChannel,
    /// Who issues the receipt.
    pub receipt_issuer: ReceiptIssuer,
    /// What the receipt is for; there is one only when it is accepted.
    pub accepted_purpose: Option<ReceiptPurpose>,
    /// Why it is rejected; there is a reason only then.
    pub denial_reason_code: Option<ReceiptDenial>,
    /// Whether the payment provider may issue it.
    pub provider_issue_allowed: bool,
}

/// Decides on a cash receipt for an obligation of this purpose under this plan. The
/// pre-registration of a payment stores the same decision.
#[must_use]
pub fn eligibility(
    plan: &PaymentProductPlan,
    obligation: ObligationPurpose,
    request: ReceiptRequest<'_>,
) -> Eligibility {
    let (decision_state, outcome) = if request.state == ReceiptRequestState::NotRequested {
        (ReceiptDecision::NotRequested, None)
    } else {
        match accepted_purpose(plan, obligation, request) {
            Ok(purpose) => (ReceiptDecision::Accepted, Some(Ok(purpose))),
            Err(denial) => (ReceiptDecision::Rejected, Some(Err(denial))),
        }
    };
    Eligibility {
        decision_state,
        merchant_of_record: plan.merchant_of_record,
        collection_channel: plan.collection_channel,
        receipt_issuer: plan.receipt_issuer,
        accepted_purpose: outcome.and_then(Result::ok),
        denial_reason_code: outcome.and_then(Result::err),
        provider_issue_allowed: decision_state == ReceiptDecision::Accepted
            && plan.receipt_issuer == ReceiptIssuer::ProviderOnBehalfOfOperator,
    }
}

/// Returns the purpose for which a receipt is issued, or the first reason why it is not.
fn accepted_purpose(
    plan: &PaymentProductPlan,
    obligation: ObligationPurpose,
    request: ReceiptRequest<'_>,
) -> Result<ReceiptPurpose, ReceiptDenial> {
    if request.state == ReceiptRequestState::Unknown {
        return Err(ReceiptDenial::RequestStateUnknown);
    }
    if plan.merchant_of_record != MerchantOfRecord::Operator {
        return Err(ReceiptDenial::MerchantNotOperator);
    }
    if !plan.receiptable_purposes.contains(&obligation) {
        return Err(ReceiptDenial::ObligationNotReceiptable);
    }
    let Some(purpose) = request.purpose.known() else {
        return Err(ReceiptDenial::PurposeUnknown);
    };
    if !plan.accepted_receipt_purposes.contains(&purpose) {
        return Err(ReceiptDenial::PurposeNotAccepted);
    }
    if request.registration_identity_reference.is_none() {
        return Err(ReceiptDenial::RegistrationIdentityMissing);
    }
    Ok(purpose)
}

/// The operation.
pub struct DecideCashReceiptEligibility;

impl Operation for DecideCashReceiptEligibility {
    type Command = Command;
    type Resource = Fact<PaymentProductPlan>;
    type Answer = Eligibility;

    const DOC: &'static str = module_doc!("decide_cash_receipt_eligibility.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        path: &["plan-customer-share"],
        body: r#"{
  "obligationPurpose": "customer_share_deposit",
  "requestState": "requested",
  "purpose": "income_deduction",
  "registrationIdentityReference": "identity-1"
}"#,
        changed_value: ("/purpose", r#""business_expense_proof""#),
        unique_ids: &["identity-1"],
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&ActorKind::ALL)
            .then(Reason::ProductPlanNotFound, Case::at_unknown)
            .then(Reason::ObligationPurposeNotInPlan, |case| {
                case.set("/obligationPurpose", "gift_coupon_purchase")
            })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(PaymentProductPlan::KIND.key(&[&command.plan_code]))
    }

    fn decide(
        state: Option<&Fact<PaymentProductPlan>>,
        command: &Command,
        _: &Context<'_>,
    ) -> Result<Decision<Fact<PaymentProductPlan>>, Rejection> {
        let body = &command.body;
        let Some(Fact { facts: plan, .. }) = state else {
            return Err(Reason::ProductPlanNotFound.into());
        };
        if !plan.obligation_purposes.contains(&body.obligation_purpose) {
            return Err(Reason::ObligationPurposeNotInPlan.into());
        }
        let request = ReceiptRequest {
            state: body.request_state,
            purpose: body.purpose,
            registration_identity_reference: body.registration_identity_reference.as_ref(),
        };
        let decided = eligibility(plan, body.obligation_purpose, request);
        Ok(Decision::Answer(to_json(&decided)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::json::Reader;
    use crate::base::json::{FromJson, Json};
    use crate::base::time::Timestamp;
    use crate::domain::reference::kinds::payment_product_plan::sample;
    use crate::domain::scenario::{Scenario, Then, actor, with};

    const NAME: &str = "decide_cash_receipt_eligibility";
    const PATH: [(&str, &str); 1] = [("planCode", "plan-1")];

    fn body() -> Value {
        json!({
            "obligationPurpose": "customer_share_deposit",
            "requestState": "requested",
            "purpose": "income_deduction",
            "registrationIdentityReference": "identity-1",
        })
    }

    fn scenario() -> Scenario {
        let mut scenario = Scenario::new();
        scenario
            .fact("payment-product-plan", "plan-1", 1, sample())
            .acting(actor(ActorKind::Mother, "mother-1"));
        scenario
    }

    fn ask(body: &Value) -> Then {
        scenario().when(NAME, &PATH, body)
    }

    fn plan(changes: &[(&str, Value)]) -> PaymentProductPlan {
        let text = with(&sample(), changes).to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        FromJson::read(&json, &mut Reader::new(Timestamp::default())).unwrap()
    }

    #[test]
    fn an_accepted_receipt_is_answered_with_the_plans_facts() {
        assert_eq!(
            ask(&body()).answered(),
            json!({
                "decisionState": "accepted",
                "merchantOfRecord": "operator",
                "collectionChannel": "provider_collected",
                "receiptIssuer": "provider_on_behalf_of_operator",
                "acceptedPurpose": "income_deduction",
                "denialReasonCode": null,
                "providerIssueAllowed": true,
            })
        );
    }

    #[test]
    fn a_rejected_receipt_is_a_decision_and_no_refusal() {
        assert_eq!(
            ask(&with(
                &body(),
                &[("registrationIdentityReference", Value::Null)]
            ))
            .answered(),
            json!({
                "decisionState": "rejected",
                "merchantOfRecord": "operator",
                "collectionChannel": "provider_collected",
                "receiptIssuer": "provider_on_behalf_of_operator",
                "acceptedPurpose": null,
                "denialReasonCode": "registration_identity_missing",
                "providerIssueAllowed": false,
            })
        );
    }

    #[test]
    fn asking_changes_nothing_and_may_be_repeated() {
        let mut scenario = scenario();
        let first = scenario.when(NAME, &PATH, &body()).answered();
        assert_eq!(scenario.when(NAME, &PATH, &body()).answered(), first);
        assert!(scenario.outbox.is_empty());
        let plan: Fact<PaymentProductPlan> = scenario.state(&["plan-1"]).unwrap();
        assert_eq!(plan.revision.number(), 1);
    }

    #[test]
    fn the_plan_is_the_one_that_stands_now() {
        let mut scenario = scenario();
        let mut later = sample();
        later["merchantOfRecord"] = json!("external_partner");
        scenario.fact("payment-product-plan", "plan-1", 2, later);
        let answer = scenario.when(NAME, &PATH, &body()).answered();
        assert_eq!(answer["denialReasonCode"], "merchant_not_operator");
        assert_eq!(answer["merchantOfRecord"], "external_partner");
    }

    #[test]
    fn each_reason_comes_before_those_below_it() {
        // From the last row to the first, each adds one more fault, which hides the faults of the
        // rows before.
        type Change = (&'static str, Value);
        let mut changes: Vec<Change> = Vec::new();
        let mut state = ReceiptRequestState::Requested;
        let mut purpose = RequestedReceiptPurpose::IncomeDeduction;
        let identity = Ident::from_trusted("identity-1");
        let mut reference = Some(&identity);
        let decided = |changes: &[Change], state, purpose, reference| {
            let request = ReceiptRequest {
                state,
                purpose,
                registration_identity_reference: reference,
            };
            let decided = eligibility(
                &plan(changes),
                ObligationPurpose::CustomerShareDeposit,
                request,
            );
            (decided.decision_state, decided.denial_reason_code)
        };
        let rejected = |denial| (ReceiptDecision::Rejected, Some(denial));

        assert_eq!(
            decided(&changes, state, purpose, reference),
            (ReceiptDecision::Accepted, None)
        );
        reference = None;
        assert_eq!(
            decided(&changes, state, purpose, reference),
            rejected(ReceiptDenial::RegistrationIdentityMissing)
        );
        changes.push(("acceptedReceiptPurposes", json!(["business_expense_proof"])));
        assert_eq!(
            decided(&changes, state, purpose, reference),
            rejected(ReceiptDenial::PurposeNotAccepted)
        );
        purpose = RequestedReceiptPurpose::Unknown;
        assert_eq!(
            decided(&changes, state, purpose, reference),
            rejected(ReceiptDenial::PurposeUnknown)
        );
        changes.push(("receiptablePurposes", json!(["service_balance"])));
        assert_eq!(
            decided(&changes, state, purpose, reference),
            rejected(ReceiptDenial::ObligationNotReceiptable)
        );
        changes.push(("merchantOfRecord", json!("caregiver")));
        assert_eq!(
            decided(&changes, state, purpose, reference),
            rejected(ReceiptDenial::MerchantNotOperator)
        );
        state = ReceiptRequestState::Unknown;
        assert_eq!(
            decided(&changes, state, purpose, reference),
            rejected(ReceiptDenial::RequestStateUnknown)
        );
        state = ReceiptRequestState::NotRequested;
        assert_eq!(
            decided(&changes, state, purpose, reference),
            (ReceiptDecision::NotRequested, None)
        );
    }

    #[test]
    fn for_every_plan_and_request_the_members_of_a_decision_agree() {
        let identity = Ident::from_trusted("identity-1");
        let purposes: [&[&str]; 4] = [
            &[],
            &["income_deduction"],
            &["business_expense_proof"],
            &["income_deduction", "business_expense_proof"],
        ];
        let receiptables: [&[&str]; 2] = [&[], &["customer_share_deposit"]];
        let mut accepted = 0;
        let mut decided = 0;
        for merchant in MerchantOfRecord::ALL {
            for issuer in ReceiptIssuer::ALL {
                for receiptable in receiptables {
                    for accepts in purposes {
                        let plan = plan(&[
                            ("merchantOfRecord", json!(merchant)),
                            ("receiptIssuer", json!(issuer)),
                            ("receiptablePurposes", json!(receiptable)),
                            ("acceptedReceiptPurposes", json!(accepts)),
                        ]);
                        for state in ReceiptRequestState::ALL {
                            for purpose in RequestedReceiptPurpose::ALL {
                                for reference in [None, Some(&identity)] {
                                    let request = ReceiptRequest {
                                        state,
                                        purpose,
                                        registration_identity_reference: reference,
                                    };
                                    let due = ObligationPurpose::CustomerShareDeposit;
                                    let is = eligibility(&plan, due, request);
                                    let may = state == ReceiptRequestState::Requested
                                        && merchant == MerchantOfRecord::Operator
                                        && !receiptable.is_empty()
                                        && accepts.contains(&purpose.as_str())
                                        && reference.is_some();
                                    assert_eq!(is.decision_state == ReceiptDecision::Accepted, may);
                                    assert_eq!(
                                        is.decision_state == ReceiptDecision::NotRequested,
                                        state == ReceiptRequestState::NotRequested
                                    );
                                    assert_eq!(
                                        is.denial_reason_code.is_some(),
                                        is.decision_state == ReceiptDecision::Rejected
                                    );
                                    assert_eq!(
                                        is.accepted_purpose,
                                        purpose.known().filter(|_| may)
                                    );
                                    let provider = ReceiptIssuer::ProviderOnBehalfOfOperator;
                                    assert_eq!(
                                        is.provider_issue_allowed,
                                        may && issuer == provider
                                    );
                                    assert_eq!(is.merchant_of_record, merchant);
                                    assert_eq!(is.receipt_issuer, issuer);
                                    accepted += usize::from(may);
                                    decided += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
        assert_eq!((decided, accepted), (3 * 3 * 2 * 4 * 3 * 3 * 2, 3 * 4));
    }
}
