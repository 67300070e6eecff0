//! The parts of the walk whose order is chosen by hand.

use super::step::Call::{Operation, Read};
use super::step::{Part, STEP, Step};
use crate::base::actor::ActorKind;

/// Replaces the sample data's booking by the one that the walk itself has created.
const BOOKING: (&str, &str) = ("reservation-booking-1", "$reservationBookingId");

/// The scripted parts.
pub(super) static SCRIPTED: &[Part] = &[
    Part {
        title: "A mother and her family",
        steps: &[
            Step {
                call: Operation("update_mother_profile"),
                title: "A mother completes her profile and accepts the published consent.",
                look: "`profileRevision` and `addressRevision` are 2, `profileCompleteness` is `complete`, \
                       and `start_reservation` is among `allowedNextActions`.",
                ..STEP
            },
            Step {
                call: Operation("confirm_reservation_draft"),
                title: "She confirms her reviewed draft: a booking and a payment obligation come into being.",
                kept: &["reservationBookingId", "paymentObligationId"],
                look: "The handoff asks for 300,000 won. The booking and the obligation are kept in \
                       `$reservationBookingId` and `$paymentObligationId`: the next steps use them at once.",
                ..STEP
            },
            Step {
                call: Operation("grant_payment_authority"),
                title: "She lets a member of her family pay for this booking, up to 500,000 won.",
                with: &[BOOKING],
                kept: &["paymentDelegationId"],
                look: "`authorityEvidence` names the facts that the grant rests on, with their revisions.",
                ..STEP
            },
            Step {
                call: Operation("authorize_payment"),
                title: "The payer proves the authority to pay 300,000 won.",
                with: &[BOOKING],
                look: "The delegation. With an `amountKrw` of 500001 it is a 400 \
                       `payment_grant_missing_or_out_of_scope`.",
                ..STEP
            },
            Step {
                call: Operation("grant_care_history_access"),
                title: "She lets the same member read the care history of the booking.",
                with: &[BOOKING],
                look: "A grant at `revision` 1.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::FamilyMember,
                    "/family-payment-delegations/$paymentDelegationId",
                ),
                title: "The payer reads the delegation.",
                look: "The body of the grant, unchanged. For actors who are not concerned it is a 404.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Payments",
        steps: &[
            Step {
                call: Operation("decide_cash_receipt_eligibility"),
                title: "The payer asks whether a cash receipt can be issued.",
                by: Some(ActorKind::FamilyMember),
                look: "`decisionState` is `accepted`, and the provider may issue it.",
                ..STEP
            },
            Step {
                call: Operation("pre_register_payment"),
                title: "The payer pre-registers the payment of the booking.",
                by: Some(ActorKind::FamilyMember),
                with: &[("payment-1", "$paymentObligationId")],
                look: "Three frozen snapshots: who pays by which delegation, the fee of 7,500 won \
                       (2.5 % of 300,000), and the decision on the receipt.",
                ..STEP
            },
            Step {
                call: Operation("capture_adjustment_payment"),
                title: "The mother pays the latest change of an earlier booking.",
                look: "`adjustmentStatus` is `paid`, and the settlement continues: \
                       `settlementContinuationStatus` is `queued`.",
                ..STEP
            },
            Step {
                call: Operation("finalize_charge"),
                title: "A backend finalizes the charge of that booking; no token is needed.",
                with: &[
                    (
                        r#""quotedOn""#,
                        r#""serviceAddressLevel2": "중구",
  "quotedOn""#,
                    ),
                    (
                        r#""ownPriceKrw": 1000000"#,
                        r#""ownPriceKrw": 1000000,
  "couponDiscountAmountKrw": 50000,
  "amountByComponentCode": {"night_care": 30000}"#,
                    ),
                ],
                look: "The district's benefit is 10 % of the price, but at most 120,000 won, so that \
                       the mother pays 860,000. Of the gross 1,530,000 the caregiver gets 1,071,000, \
                       headquarters 153,000 and the branch the rest, 306,000.",
                ..STEP
            },
            Step {
                call: Operation("administer_gateway"),
                title: "Headquarters looks a payment up at the gateway.",
                look: "An audit, whatever the gateway says; here `operationStatus` is `succeeded`.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Caregivers",
        steps: &[
            Step {
                call: Operation("assign_caregiver"),
                title: "The manager of the branch assigns a caregiver out of the frozen candidates.",
                look: "A decision of the kind `assign`. The roster was at revision 0 before it and is at 1 now.",
                ..STEP
            },
            Step {
                call: Operation("repair_payout_receipt"),
                title: "Headquarters repairs the receipt state of a payout.",
                look: "`receiptState` is `repaired`, at `revision` 1.",
                ..STEP
            },
            Step {
                call: Operation("acknowledge_payout_deposit"),
                title: "The manager acknowledges that this payout was deposited.",
                look: "`status` is `acknowledged`.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::BranchManager,
                    "/caregiver-payout-receipt-states/reservation-booking-1/contract-assignment-1/payout-instruction-1",
                ),
                title: "The manager reads the state of the payout.",
                look: "The acknowledgement has advanced the receipt state to `revision` 2.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Settlement",
        steps: &[
            Step {
                call: Operation("request_deposit"),
                title: "Headquarters asks the branch for a deposit.",
                kept: &["statementId"],
                look: "A statement that is `awaiting_branch_deposit`; its identifier is kept in `$statementId`.",
                ..STEP
            },
            Step {
                call: Operation("snapshot_settlement_account"),
                title: "The manager freezes the settlement account of the branch for the statement.",
                with: &[(r#""statement-1""#, r#""$statementId""#)],
                look: "A copy of the account that no later change of it alters.",
                ..STEP
            },
            Step {
                call: Operation("acknowledge_deposit"),
                title: "The manager acknowledges the deposit, line by line.",
                look: "`status` is `awaiting_confirmation`. The memo of headquarters is null: it is not \
                       for branches.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::HeadquartersAdministrator,
                    "/settlement-statements/$statementId",
                ),
                title: "Headquarters reads the statement.",
                look: "The same statement, with the memo, and both transitions in `transitionAudits`.",
                ..STEP
            },
            Step {
                call: Operation("open_data_room_request"),
                title: "Headquarters asks for an export of the settlement lines.",
                kept: &["requestId"],
                look: "A request that is `open`; its identifier is kept in `$requestId`.",
                ..STEP
            },
            Step {
                call: Operation("mark_artifact_ready"),
                title: "The workflow that made the export says that it is ready.",
                look: "`status` is `ready`, and the journal has both commands.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Branches",
        steps: &[
            Step {
                call: Operation("create_branch"),
                title: "Headquarters creates a branch and invites its first manager.",
                kept: &["branchId"],
                look: "`outcomeStatus` is `completed`: the embedded directory has done all side effects in \
                       the commit. The branch is kept in `$branchId`.",
                ..STEP
            },
            Step {
                call: Operation("accept_manager_invitation"),
                title: "The invited manager accepts.",
                look: "The membership is active; the relationship is `queued` in the outbox.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::HeadquartersAdministrator,
                    "/admin/branches/$branchId",
                ),
                title: "Headquarters reads the branch.",
                look: "It is at `revision` 2, its invitation is `accepted`.",
                ..STEP
            },
            Step {
                call: Operation("update_branch_office_profile"),
                title: "Headquarters renames the branch in Seoul.",
                look: "`revisionNumber` is 2.",
                ..STEP
            },
        ],
    },
];
