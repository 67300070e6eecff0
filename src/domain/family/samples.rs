//! A family for the tests: mother-1 with father and aunt, and booking-1 at branch-1; beside it
//! another mother with an account and a booking of her own.

use serde_json::{Value, json};

use crate::base::actor::{Actor, ActorKind};
use crate::domain::scenario::{Scenario, member};

/// The path of the first mother's account.
pub(super) const ACCOUNT_PATH: &[(&str, &str)] = &[("familyAccountId", "account-1")];

/// Makes a service that knows the families; this uses four identifiers.
pub(super) fn family() -> Scenario {
    let mut service = Scenario::new();
    for (number, members) in [(1, json!(["father", "aunt"])), (2, json!(["grandmother"]))] {
        let account = json!({"motherMemberId": format!("mother-{number}"), "memberIds": members});
        service.fact("family-account", &format!("account-{number}"), 3, account);
        let booking = json!({
            "motherUserId": format!("user-{number}"),
            "motherMemberId": format!("mother-{number}"),
            "branchProfileId": format!("branch-{number}"),
            "state": "active",
        });
        service.fact(
            "reservation-booking",
            &format!("booking-{number}"),
            5,
            booking,
        );
    }
    service
}

/// Returns the identifier that the scenario generates as its `number`th.
pub(super) fn minted(number: u64) -> String {
    format!("01990000-0000-7000-8000-{number:012x}")
}

/// The first mother.
pub(super) fn mother() -> Actor {
    member(ActorKind::Mother, "user-1", "mother-1")
}

/// The father, who pays and reads.
pub(super) fn payer() -> Actor {
    member(ActorKind::FamilyMember, "user-3", "father")
}

/// Returns the body that lets the father pay.
pub(super) fn payment() -> Value {
    json!({
        "familyAccountId": "account-1",
        "payerMemberId": "father",
        "motherMemberId": "mother-1",
        "reservationBookingId": "booking-1",
        "scopes": ["reservation_deposit"],
        "maximumAuthorizedAmountKrw": 500_000,
        "expiresAt": "2026-12-01T09:00:00+09:00",
    })
}

/// Returns the body that lets the father read.
pub(super) fn access() -> Value {
    json!({
        "granteeMemberId": "father",
        "reservationBookingId": "booking-1",
        "scopes": ["summary"],
        "expiresAt": "2026-12-01T09:00:00+09:00",
    })
}
