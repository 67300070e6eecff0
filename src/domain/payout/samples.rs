//! A booking with its payout, and the commands that the tests of this group share.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::domain::ladder::Case;
use crate::domain::reference::Fact;
use crate::domain::reference::kinds::payout_instruction::PayoutInstructionFact;
use crate::domain::reference::kinds::reservation_booking::{BookingState, ReservationBooking};
use crate::domain::scenario::{Scenario, manager};

/// The facts of a booking of `branch-1` in this state.
pub(super) fn booking(state: &str) -> Value {
    json!({
        "motherUserId": "mother-1",
        "motherMemberId": "member-1",
        "branchProfileId": "branch-1",
        "state": state,
    })
}

/// Returns the instruction that the commands name.
pub(super) fn instruction() -> Value {
    json!({
        "reservationBookingId": "booking-1",
        "contractAssignmentKey": "contract-1",
        "caregiverRole": "primary",
        "handoffOrder": 1,
        "caregiverId": "caregiver-1",
        "amountKrw": 1_050_000,
    })
}

/// A service with the booking `booking-1`; the manager of its branch acts.
pub(super) fn service() -> Scenario {
    let mut scenario = Scenario::new();
    scenario
        .fact("reservation-booking", "booking-1", 5, booking("active"))
        .acting(manager("manager-1", "branch-1"));
    scenario
}

/// Returns the body of a repair before any other command.
pub(super) fn repair() -> Value {
    json!({
        "reservationBookingId": "booking-1",
        "contractAssignmentKey": "contract-1",
        "caregiverPayoutInstructionId": "instruction-1",
        "caregiverRole": "primary",
        "handoffOrder": 1,
        "caregiverId": "caregiver-1",
        "occurredAt": "2026-11-20T11:00:00+09:00",
        "idempotencyKey": "repair-key-1",
        "expectedRevision": 0,
        "reason": "The transfer came back.",
    })
}

/// The body of an acknowledgement.
pub(super) fn deposit() -> Value {
    json!({
        "reservationBookingId": "booking-1",
        "contractAssignmentKey": "contract-1",
        "caregiverPayoutInstructionId": "instruction-1",
        "caregiverRole": "primary",
        "handoffOrder": 1,
        "caregiverId": "caregiver-1",
        "occurredAt": "2026-11-20T12:00:00+09:00",
        "idempotencyKey": "deposit-key-1",
        "memo": "Counted twice.",
        "reason": "As agreed.",
    })
}

/// Cancels the booking of the examples.
pub(super) fn cancelled(case: &mut Case) -> &mut Case {
    case.alter(
        "reservation-booking-1",
        |booking: &mut Fact<ReservationBooking>| booking.facts.state = BookingState::Cancelled,
    )
}

/// Changes the instruction of the examples to another place in the order.
pub(super) fn for_another_place(case: &mut Case) -> &mut Case {
    case.alter(
        "payout-instruction-1",
        |instruction: &mut Fact<PayoutInstructionFact>| instruction.facts.handoff_order = 2,
    )
}
