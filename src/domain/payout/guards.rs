//! The common parts of both commands on a payout: the way their bodies name it, and the checks of its
//! time, of its booking, and of whether the instruction to pay describes the same payout.

use super::state::Payout;
use crate::base::json::{FaultCode, Reader};
use crate::base::time::Timestamp;
use crate::domain::reference::kinds::payout_instruction::PayoutInstructionFact;
use crate::domain::reference::kinds::reservation_booking::BookingState;
use crate::domain::resource::ReadView;

/// Maximum time, in seconds, that the reporter's clock may be ahead of this service's.
const CLOCK_SKEW_SECONDS_MAX: i64 = 300;

/// Checks that the reported event has happened: notes a fault at `occurredAt` when that is too far in
/// the future by this service's clock.
pub(super) fn has_happened(at: &mut Reader, occurred_at: Option<&Timestamp>) {
    let latest = at.now().plus_seconds(CLOCK_SKEW_SECONDS_MAX);
    if occurred_at.is_some_and(|occurred_at| *occurred_at > latest) {
        at.untimely_at("occurredAt", FaultCode::OutOfRange);
    }
}

/// Implements the payout's part of a command, for the two types that `json_object` makes of its body:
/// the rule `plausible`, and `payout()`.
macro_rules! about_payout {
    ($Command:ident, $Fields:ident) => {
        fn plausible(at: &mut $crate::base::json::Reader, fields: &$Fields<'_>) {
            $crate::domain::payout::guards::has_happened(at, fields.occurred_at);
        }

        impl $Command {
            /// Returns the payout that the command is about.
            fn payout(&self) -> $crate::domain::payout::state::Payout {
                $crate::domain::payout::state::Payout {
                    reservation_booking_id: self.reservation_booking_id.clone(),
                    contract_assignment_key: self.contract_assignment_key.clone(),
                    caregiver_payout_instruction_id: self.caregiver_payout_instruction_id.clone(),
                    caregiver_role: self.caregiver_role.clone(),
                    handoff_order: self.handoff_order.0,
                    caregiver_id: self.caregiver_id.clone(),
                }
            }
        }
    };
}
pub(super) use about_payout;

/// Whether commands on payouts of a booking in this state are accepted: also after the care.
pub(super) fn is_dealt_with(state: BookingState) -> bool {
    match state {
        BookingState::Active | BookingState::Completed => true,
        BookingState::Cancelled => false,
    }
}

/// Returns the fields in which the instruction that the payout names describes another payout; none
/// when the instruction is not known here.
pub(super) fn mismatches(payout: &Payout, view: &ReadView<'_>) -> Vec<&'static str> {
    let instruction = view.fact::<PayoutInstructionFact>(&payout.caregiver_payout_instruction_id);
    let Some(instruction) = instruction else {
        return Vec::new();
    };
    let known = &instruction.facts;
    [
        (
            "reservationBookingId",
            known.reservation_booking_id == payout.reservation_booking_id,
        ),
        (
            "contractAssignmentKey",
            known.contract_assignment_key == payout.contract_assignment_key,
        ),
        (
            "caregiverRole",
            known.caregiver_role == payout.caregiver_role,
        ),
        ("handoffOrder", known.handoff_order == payout.handoff_order),
    ]
    .into_iter()
    .filter_map(|(member, same)| (!same).then_some(member))
    .collect()
}
