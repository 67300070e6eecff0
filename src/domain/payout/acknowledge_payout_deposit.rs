//! The manager of a booking's branch acknowledges that a caregiver's payout was deposited.
//!
//! Resource: the payout's receipt state, which the acknowledgement advances by one revision.
//! Rejections, in the order tested: the actor is not that manager, or the booking is unknown
//! (403); the booking is cancelled, the instruction speaks of another payout, the deposit was
//! acknowledged before (409).

use schemars::JsonSchema;
use serde::Serialize;

use super::guards::{about_payout, is_dealt_with, mismatches};
use super::state::{DepositAcknowledged, PayoutReceipt, PayoutReceiptEvent, ReceiptStatus};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::AtLeast;
use crate::base::text::{
    AssignmentKey, BodyKey, BookingId, CaregiverId, Ident, PayoutInstructionId, Text,
};
use crate::base::time::Timestamp;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, rejections, wire_enum};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// The assignment under contract.
        pub contract_assignment_key: AssignmentKey = "contractAssignmentKey",
        /// The instruction to pay.
        pub caregiver_payout_instruction_id: PayoutInstructionId = "caregiverPayoutInstructionId",
        /// As what the caregiver serves.
        pub caregiver_role: Ident = "caregiverRole",
        /// The place in the order of handoffs.
        pub handoff_order: AtLeast<1> = "handoffOrder",
        /// The caregiver, where named.
        pub caregiver_id: Option<CaregiverId> = "caregiverId",
        /// When the deposit was made: at most 5 minutes ahead of the service's clock.
        pub occurred_at: Timestamp = "occurredAt",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// What the branch notes.
        pub memo: Option<Text> = "memo" personal FreeText,
        /// Why, in the actor's words.
        pub reason: Option<Text> = "reason" personal FreeText,
    }
    rules plausible(Fields)
}

about_payout!(Command, Fields);

rejections! {
    /// Why no deposit is acknowledged.
    pub enum Reason {
        /// Authority by token, and over a booking that can be found.
        NotPermitted = Forbidden "permission_denied" []
            "Only a manager of the booking's branch may acknowledge the deposit.",
        /// The booking is cancelled.
        ReservationNotActive = Conflict "reservation_not_active" ["reservationBookingId"]
            "The booking is neither active nor completed.",
        /// The instruction speaks of another payout; the fields are named where it is found.
        PayoutInstructionMismatch = Conflict "payout_instruction_mismatch"
            ["caregiverPayoutInstructionId"]
            "The payout instruction names another booking, contract, role or order.",
        /// It was acknowledged before.
        DepositAlreadyAcknowledged = Conflict "deposit_already_acknowledged"
            ["caregiverPayoutInstructionId"]
            "The deposit of this payout was acknowledged before.",
    }
}

wire_enum! {
    /// What is acknowledged.
    enum AcknowledgementKind {
        /// A branch's deposit.
        BranchDeposit = "branch_deposit",
    }
}

/// What is answered.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PayoutDepositAcknowledgement")]
#[serde(rename_all = "camelCase")]
pub struct Acknowledgement<'a> {
    reservation_booking_id: &'a BookingId,
    contract_assignment_key: &'a AssignmentKey,
    caregiver_payout_instruction_id: &'a PayoutInstructionId,
    acknowledgement_kind: AcknowledgementKind,
    status: ReceiptStatus,
}

/// The operation.
pub struct AcknowledgePayoutDeposit;

impl Operation for AcknowledgePayoutDeposit {
    type Command = Command;
    type Resource = PayoutReceipt;
    type Answer = Acknowledgement<'static>;

    const DOC: &'static str = module_doc!("acknowledge_payout_deposit.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::BranchManager,
        body: r#"{
  "reservationBookingId": "reservation-booking-1",
  "contractAssignmentKey": "contract-assignment-1",
  "caregiverPayoutInstructionId": "payout-instruction-1",
  "caregiverRole": "primary_caregiver",
  "handoffOrder": 1,
  "caregiverId": "caregiver-1",
  "occurredAt": "2026-11-01T00:00:00Z",
  "idempotencyKey": "key-1",
  "memo": "Paid today."
}"#,
        changed_value: ("/memo", r#""Paid.""#),
        needs_facts: &[
            ("reservation-booking", "reservation-booking-1"),
            ("payout-instruction", "payout-instruction-1"),
        ],
        unique_ids: &["reservation-booking-1", "payout-instruction-1"],
        id_in_response: "payout-instruction-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use super::samples::{cancelled, for_another_place};
        Ladder::of(&[ActorKind::BranchManager])
            .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
            .then(Reason::ReservationNotActive, cancelled)
            .then(
                Rejection::from(Reason::PayoutInstructionMismatch).at(&["handoffOrder"]),
                for_another_place,
            )
            .then(Reason::DepositAlreadyAcknowledged, |case| {
                case.done_before(|_| ())
            })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(command.payout().key())
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn decide(
        receipt: Option<&PayoutReceipt>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<PayoutReceipt>, Rejection> {
        let actor = context.actor;
        let booking = context
            .view
            .fact::<ReservationBooking>(&command.reservation_booking_id);
        let booking = booking.filter(|found| actor.manages_branch(&found.facts.branch_profile_id));
        let Some(booking) = booking else {
            return Err(Reason::NotPermitted.into());
        };
        if !is_dealt_with(booking.facts.state) {
            return Err(Reason::ReservationNotActive.into());
        }
        let payout = command.payout();
        let mismatches = mismatches(&payout, &context.view);
        if !mismatches.is_empty() {
            return Err(Rejection::from(Reason::PayoutInstructionMismatch).at(&mismatches));
        }
        if receipt.is_some_and(|receipt| receipt.deposit.is_some()) {
            return Err(Reason::DepositAlreadyAcknowledged.into());
        }
        let event = PayoutReceiptEvent::DepositAcknowledged(Box::new(DepositAcknowledged {
            payout,
            actor_profile_id: actor.profile_id().into(),
            occurred_at: command.occurred_at,
            memo: command.memo.clone(),
            reason: command.reason.clone(),
        }));
        let commit = Commit::new(receipt, event, context.at);
        let answer = to_json(&Acknowledgement {
            reservation_booking_id: &command.reservation_booking_id,
            contract_assignment_key: &command.contract_assignment_key,
            caregiver_payout_instruction_id: &command.caregiver_payout_instruction_id,
            acknowledgement_kind: AcknowledgementKind::BranchDeposit,
            status: commit.next.receipt_state.status(),
        });
        commit.answer(answer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{booking, deposit, instruction, repair, service};
    use super::*;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, assert_conflict, faults, with};

    const NAME: &str = "acknowledge_payout_deposit";
    const ID: [&str; 3] = ["booking-1", "contract-1", "instruction-1"];

    fn ask(body: &Value) -> Then {
        service().when(NAME, &[], body)
    }

    #[test]
    fn the_branchs_manager_acknowledges_and_the_receipt_state_is_born() {
        let mut service = service();
        let answer = service.when(NAME, &[], &deposit()).committed();
        assert_eq!(
            answer,
            json!({
                "reservationBookingId": "booking-1",
                "contractAssignmentKey": "contract-1",
                "caregiverPayoutInstructionId": "instruction-1",
                "acknowledgementKind": "branch_deposit",
                "status": "acknowledged",
            })
        );
        assert!(service.outbox.is_empty());
        let receipt: PayoutReceipt = service.state(&ID).unwrap();
        assert_eq!(receipt.revision.number(), 1);
        let deposit = receipt.deposit.unwrap();
        assert_eq!(deposit.memo.unwrap().as_str(), "Counted twice.");
        assert_eq!(deposit.occurred_at.to_string(), "2026-11-20T03:00:00.000Z");
        assert_eq!(
            deposit.acknowledged_at.to_string(),
            "2026-11-20T12:00:00.000Z"
        );
    }

    #[test]
    fn after_repairs_the_acknowledgement_advances_the_receipt_state_by_one() {
        let mut service = service();
        service
            .when("repair_payout_receipt", &[], &repair())
            .committed();
        service.when(NAME, &[], &deposit()).committed();
        let receipt: PayoutReceipt = service.state(&ID).unwrap();
        assert_eq!(receipt.revision.number(), 2);
        assert_eq!(receipt.receipt_state.as_str(), "acknowledged");
    }

    #[test]
    fn over_an_unknown_booking_nobody_has_authority() {
        let unknown = with(&deposit(), &[("reservationBookingId", json!("no-such"))]);
        let refusal = ask(&unknown).refusal();
        assert_eq!(
            (refusal.class, refusal.code),
            (Class::Forbidden, "permission_denied")
        );
    }

    #[test]
    fn a_completed_booking_is_no_conflict() {
        let mut service = service();
        service.fact("reservation-booking", "booking-1", 9, booking("completed"));
        service.when(NAME, &[], &deposit()).committed();
    }

    #[test]
    fn an_instruction_of_another_payout_is_a_conflict() {
        for (member, value) in [
            ("reservationBookingId", json!("booking-2")),
            ("contractAssignmentKey", json!("contract-2")),
            ("caregiverRole", json!("assistant")),
            ("handoffOrder", json!(2)),
        ] {
            let mut service = service();
            let facts = with(&instruction(), &[(member, value)]);
            service.fact("payout-instruction", "instruction-1", 1, facts);
            let then = service.when(NAME, &[], &deposit());
            assert_conflict(then, "payout_instruction_mismatch", &[member]);
        }
    }

    #[test]
    fn a_deposit_is_acknowledged_once_also_when_a_repair_came_after_it() {
        let mut service = service();
        service.when(NAME, &[], &deposit()).committed();
        let again = with(&deposit(), &[("idempotencyKey", json!("deposit-key-2"))]);
        let refused = |service: &mut Scenario| {
            assert_conflict(
                service.when(NAME, &[], &again),
                "deposit_already_acknowledged",
                &["caregiverPayoutInstructionId"],
            );
        };
        refused(&mut service);
        let repair = with(&repair(), &[("expectedRevision", json!(1))]);
        service
            .when("repair_payout_receipt", &[], &repair)
            .committed();
        refused(&mut service);
        let other = with(&again, &[("contractAssignmentKey", json!("contract-2"))]);
        service.when(NAME, &[], &other).committed();
    }

    #[test]
    fn a_deposit_may_be_five_minutes_ahead_and_no_longer() {
        let at = |when: &str| ask(&with(&deposit(), &[("occurredAt", json!(when))]));
        at("2026-11-20T12:05:00Z").committed();
        assert_eq!(
            at("2026-11-20T12:05:00.001Z").faults(),
            faults([("occurredAt", "out_of_range")])
        );
    }
}
