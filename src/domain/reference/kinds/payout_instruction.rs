//! `payout-instruction`, by instruction: the amount that a caregiver is to be paid.

use crate::base::text::{AssignmentKey, BookingId, CaregiverId, Ident, PayoutInstructionId};
use crate::base::won::Won;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// What is known of an instruction.
    pub struct PayoutInstructionFact {
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// The assignment under contract.
        pub contract_assignment_key: AssignmentKey = "contractAssignmentKey",
        /// As what the caregiver serves.
        pub caregiver_role: Ident = "caregiverRole",
        /// The place in the order of handoffs.
        pub handoff_order: i64 = "handoffOrder",
        /// The caregiver, where known.
        pub caregiver_id: Option<CaregiverId> = "caregiverId",
        /// The amount, in won.
        pub amount_krw: Won = "amountKrw",
    }
}

impl HeldAlone for PayoutInstructionFact {
    type Id = PayoutInstructionId;
}

impl FactKind for PayoutInstructionFact {
    const KIND: Kind = Kind {
        tag: 12,
        name: "payout-instruction",
    };
    const ID: &'static str = "the instruction, `caregiverPayoutInstructionId`";
}
