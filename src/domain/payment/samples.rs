//! The shared samples of this group's tests: an open obligation with everything around it.

use serde_json::{Value, json};

use crate::base::actor::{Actor, ActorKind};
use crate::domain::reference::kinds::{payment_obligation, payment_product_plan};
use crate::domain::scenario::{Scenario, Then, actor, member};

/// The identifier of the obligation.
pub(crate) const PAYMENT: &str = "payment-1";
/// Maximum amount that the father may pay by default, in won.
pub(crate) const DELEGATION_MAXIMUM: i64 = 500_000;

/// The facts of the obligation: a deposit of 330,000 won by card.
pub(crate) fn obligation() -> Value {
    payment_obligation::sample()
}

/// Makes a service that knows the obligation, its plan, its booking and the family.
pub(crate) fn service() -> Scenario {
    let mut service = Scenario::new();
    service
        .fact(
            "payment-product-plan",
            "plan-1",
            1,
            payment_product_plan::sample(),
        )
        .fact("payment-obligation", PAYMENT, 1, obligation())
        .fact(
            "family-account",
            "family-1",
            1,
            json!({"motherMemberId": "member-1", "memberIds": ["father", "aunt"]}),
        )
        .fact(
            "reservation-booking",
            "booking-1",
            1,
            json!({
                "motherUserId": "mother-1",
                "motherMemberId": "member-1",
                "branchProfileId": "branch-1",
                "state": "active",
            }),
        );
    service
}

/// Lets the mother delegate payments to the father; returns the delegation's identifier.
pub(crate) fn delegate(service: &mut Scenario, maximum: i64, until: &str) -> String {
    let body = json!({
        "familyAccountId": "family-1",
        "payerMemberId": "father",
        "motherMemberId": "member-1",
        "reservationBookingId": "booking-1",
        "scopes": ["reservation_deposit"],
        "maximumAuthorizedAmountKrw": maximum,
        "expiresAt": until,
    });
    service.acting(mother());
    let granted = service
        .when("grant_payment_authority", &[], &body)
        .committed();
    service.outbox.clear();
    granted["paymentDelegationId"].as_str().unwrap().to_owned()
}

/// Returns the body that pre-registers the payment, with a receipt.
pub(crate) fn body() -> Value {
    json!({
        "paymentId": PAYMENT,
        "cashReceiptIssueRequest": {
            "requestState": "requested",
            "purpose": "income_deduction",
            "registrationIdentityReference": "identity-1",
        },
    })
}

/// Pre-registers the payment as the scenario's actor.
pub(crate) fn pre_register(service: &mut Scenario) -> Then {
    service.when("pre_register_payment", &[], &body())
}

/// The mother who owes.
pub(crate) fn mother() -> Actor {
    member(ActorKind::Mother, "mother-1", "member-1")
}

/// The member of her family who may pay.
pub(crate) fn father() -> Actor {
    member(ActorKind::FamilyMember, "father-user", "father")
}

/// Makes a person who works on a branch's payments, according to the token.
pub(crate) fn branch_operator() -> Actor {
    Actor {
        permissions: vec!["payment:authorize".into()],
        ..actor(ActorKind::BranchFinanceOperator, "branch-operator")
    }
}

/// Makes a person who works on payments from the head office, according to the token.
pub(crate) fn headquarters_operator() -> Actor {
    Actor {
        permissions: vec!["payment:authorize".into()],
        ..actor(ActorKind::HeadquartersFinanceOperator, "hq-operator")
    }
}

/// A headquarters administrator who may operate the gateway.
pub(crate) fn administrator() -> Actor {
    Actor {
        permissions: vec!["payment:administer".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "admin-1")
    }
}
