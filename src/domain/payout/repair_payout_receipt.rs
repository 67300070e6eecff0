//! Headquarters or the branch's manager records the repair of an exception in the receipt of a
//! caregiver's payout.
//!
//! Resource: the payout's receipt state, which is at revision 0 before its first commit.
//! Rejections, in the order tested: the actor is neither, or the booking is unknown or another
//! branch's (403); the booking is cancelled, the instruction speaks of another payout, the expected
//! revision is stale (409).

use super::guards::{about_payout, is_dealt_with, mismatches};
use super::state::{PayoutReceipt, PayoutReceiptBody, PayoutReceiptEvent, ReceiptRepaired};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::AtLeast;
use crate::base::revision::Revision;
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
use crate::{json_object, module_doc, rejections};

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
        /// When it happened: at most 5 minutes ahead of the service's clock.
        pub occurred_at: Timestamp = "occurredAt",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// The receipt state's revision as the actor saw it; 0 when there was none.
        pub expected_revision: AtLeast<0> = "expectedRevision",
        /// Why, in the actor's words.
        pub reason: Text = "reason" personal FreeText,
    }
    rules plausible(Fields)
}

about_payout!(Command, Fields);

rejections! {
    /// Why no repair is recorded.
    pub enum Reason {
        /// Authority by token, and over a booking that can be found.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters or a manager of the booking's branch may record the repair.",
        /// The booking is cancelled.
        ReservationNotActive = Conflict "reservation_not_active" ["reservationBookingId"]
            "The booking is neither active nor completed.",
        /// The instruction speaks of another payout; the fields are named where it is found.
        PayoutInstructionMismatch = Conflict "payout_instruction_mismatch"
            ["caregiverPayoutInstructionId"]
            "The payout instruction names another booking, contract, role or order.",
        /// The revision is stale.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
    }
}

/// The operation.
pub struct RepairPayoutReceipt;

impl Operation for RepairPayoutReceipt {
    type Command = Command;
    type Resource = PayoutReceipt;
    type Answer = PayoutReceiptBody<'static>;

    const DOC: &'static str = module_doc!("repair_payout_receipt.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::HeadquartersAdministrator,
        body: r#"{
  "reservationBookingId": "reservation-booking-1",
  "contractAssignmentKey": "contract-assignment-1",
  "caregiverPayoutInstructionId": "payout-instruction-1",
  "caregiverRole": "primary_caregiver",
  "handoffOrder": 1,
  "caregiverId": "caregiver-1",
  "occurredAt": "2026-11-01T00:00:00Z",
  "idempotencyKey": "key-1",
  "expectedRevision": 0,
  "reason": "The receipt was lost."
}"#,
        changed_value: ("/reason", r#""It was found.""#),
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
        Ladder::of(&[
            ActorKind::BranchManager,
            ActorKind::HeadquartersAdministrator,
        ])
        .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
        .then(Reason::ReservationNotActive, cancelled)
        .then(
            Rejection::from(Reason::PayoutInstructionMismatch).at(&["handoffOrder"]),
            for_another_place,
        )
        .then(Reason::RevisionStale, |case| {
            case.set("/expectedRevision", 9)
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
        let booking = booking.filter(|found| {
            actor.is_headquarters() || actor.manages_branch(&found.facts.branch_profile_id)
        });
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
        let current = receipt.map_or(Revision::NONE, |receipt| receipt.revision);
        if command.expected_revision.0 != current.number() {
            return Err(Reason::RevisionStale.into());
        }
        let event = PayoutReceiptEvent::Repaired(Box::new(ReceiptRepaired {
            payout,
            actor_profile_id: actor.profile_id().into(),
            occurred_at: command.occurred_at,
            reason: command.reason.clone(),
        }));
        let commit = Commit::new(receipt, event, context.at);
        let answer = to_json(&PayoutReceiptBody::new(&commit.next));
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
    use crate::domain::scenario::{Then, assert_conflict, faults, headquarters, manager, with};

    const NAME: &str = "repair_payout_receipt";
    const ID: [&str; 3] = ["booking-1", "contract-1", "instruction-1"];

    fn ask(body: &Value) -> Then {
        service().when(NAME, &[], body)
    }

    #[test]
    fn the_branchs_manager_records_the_first_repair_at_revision_one() {
        let mut service = service();
        let answer = service.when(NAME, &[], &repair()).committed();
        assert_eq!(
            answer,
            json!({
                "reservationBookingId": "booking-1",
                "contractAssignmentKey": "contract-1",
                "caregiverPayoutInstructionId": "instruction-1",
                "receiptState": "repaired",
                "revision": 1,
                "status": "recorded",
                "reason": "The transfer came back.",
                "actorProfileId": "manager-1",
                "occurredAt": "2026-11-20T02:00:00.000Z",
            })
        );
        assert!(service.outbox.is_empty());
        let receipt: PayoutReceipt = service.state(&ID).unwrap();
        assert_eq!(receipt.payout.caregiver_id.unwrap().as_str(), "caregiver-1");
        assert_eq!(receipt.deposit, None);
    }

    #[test]
    fn headquarters_records_the_next_one_under_its_own_profile() {
        let mut service = service();
        service.when(NAME, &[], &repair()).committed();
        let next = with(
            &repair(),
            &[
                ("expectedRevision", json!(1)),
                ("reason", json!("Sent again.")),
                ("caregiverId", Value::Null),
            ],
        );
        let answer = service
            .acting(headquarters())
            .when(NAME, &[], &next)
            .committed();
        assert_eq!(answer["revision"], 2);
        assert_eq!(answer["reason"], "Sent again.");
        assert_eq!(answer["actorProfileId"], "hq-1");
        assert_eq!(answer["receiptState"], "repaired");
    }

    #[test]
    fn a_payout_has_its_receipt_state_by_booking_contract_and_instruction() {
        let mut service = service();
        service.fact("reservation-booking", "booking-2", 1, booking("active"));
        service.when(NAME, &[], &repair()).committed();
        for (member, value) in [
            ("reservationBookingId", "booking-2"),
            ("contractAssignmentKey", "contract-2"),
            ("caregiverPayoutInstructionId", "instruction-2"),
        ] {
            let answer = service
                .when(NAME, &[], &with(&repair(), &[(member, json!(value))]))
                .committed();
            assert_eq!(answer["revision"], 1, "{member}");
            assert_eq!(answer[member], value);
        }
    }

    #[test]
    fn an_acknowledged_payout_may_still_need_a_repair() {
        let mut service = service();
        service
            .when("acknowledge_payout_deposit", &[], &deposit())
            .committed();
        let next = with(&repair(), &[("expectedRevision", json!(1))]);
        let answer = service.when(NAME, &[], &next).committed();
        assert_eq!(answer["receiptState"], "repaired");
        assert_eq!(answer["status"], "recorded");
        assert_eq!(answer["revision"], 2);
    }

    #[test]
    fn over_an_unknown_booking_nobody_has_authority() {
        let unknown = with(&repair(), &[("reservationBookingId", json!("no-such"))]);
        for actor in [headquarters(), manager("manager-1", "branch-1")] {
            let mut service = service();
            let refusal = service.acting(actor).when(NAME, &[], &unknown).refusal();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Forbidden, "permission_denied")
            );
        }
    }

    #[test]
    fn a_completed_booking_is_no_conflict() {
        let mut service = service();
        service.fact("reservation-booking", "booking-1", 9, booking("completed"));
        service.when(NAME, &[], &repair()).committed();
    }

    #[test]
    fn all_that_an_instruction_says_otherwise_is_named() {
        let mut service = service();
        let facts = with(
            &instruction(),
            &[("caregiverRole", json!("x")), ("handoffOrder", json!(7))],
        );
        service.fact("payout-instruction", "instruction-1", 1, facts);
        assert_conflict(
            service.when(NAME, &[], &repair()),
            "payout_instruction_mismatch",
            &["caregiverRole", "handoffOrder"],
        );
    }

    #[test]
    fn an_instruction_may_name_another_caregiver_and_amount() {
        let mut service = service();
        let facts = with(
            &instruction(),
            &[("caregiverId", json!("another")), ("amountKrw", json!(-5))],
        );
        service
            .fact("payout-instruction", "instruction-1", 1, facts)
            .when(NAME, &[], &repair())
            .committed();
    }

    #[test]
    fn occurred_at_may_be_at_most_five_minutes_in_the_future() {
        let at = |when: &str| ask(&with(&repair(), &[("occurredAt", json!(when))]));
        at("2026-11-20T12:05:00Z").committed();
        at("2026-11-20T21:05:00.0009+09:00").committed();
        at("0001-01-01T00:00:00Z").committed();
        assert_eq!(
            at("2026-11-20T12:05:00.001Z").faults(),
            faults([("occurredAt", "out_of_range")])
        );
    }
}
