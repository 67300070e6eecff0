//! The data of a settlement statement: its opening, and its transitions since; and the events of both.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::actor::{Actor, ActorKind};
use crate::base::json::{AtLeast, NonEmpty, Nullable};
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{BranchProfileId, Ident, Text};
use crate::base::time::{Date, Timestamp};
use crate::{json_object, wire_enum};

wire_enum! {
    /// What a statement settles.
    pub enum StatementKind {
        /// The head office with a branch.
        HeadOfficeToBranch = "head_office_to_branch",
        /// The platform with a branch.
        PlatformToBranch = "platform_to_branch",
        /// Two branches, one of which served a customer of the other.
        InterOfficeServiceHandoff = "inter_office_service_handoff",
    }
}

wire_enum! {
    /// A statement's status.
    pub enum StatementStatus {
        /// The branch is asked to deposit.
        AwaitingBranchDeposit = "awaiting_branch_deposit",
        /// The branch has acknowledged; the head office has to confirm.
        AwaitingConfirmation = "awaiting_confirmation",
        /// Done.
        Settled = "settled",
        /// Under discussion.
        Reconciliation = "reconciliation",
        /// The branch is late.
        Arrears = "arrears",
    }
}

wire_enum! {
    /// What a line of a statement is about.
    pub enum SettlementLineKind {
        /// Membership fee due.
        MembershipDue = "membership_due",
        /// Delivery fee.
        DeliveryFee = "delivery_fee",
        /// Compensation of a caregiver.
        CaregiverCompensation = "caregiver_compensation",
        /// Commission on a voucher service.
        VoucherServiceCommission = "voucher_service_commission",
        /// Commission on a gift coupon.
        GiftCouponCommission = "gift_coupon_commission",
        /// Commission on a gift coupon that was cancelled.
        CancelledGiftCouponCommission = "cancelled_gift_coupon_commission",
        /// Cost of a promotional coupon.
        PromotionalCouponCost = "promotional_coupon_cost",
        /// A branch's share of a service handed over.
        InterOfficeBranchShare = "inter_office_branch_share",
        /// The fee for a service handed over.
        InterOfficeServiceFee = "inter_office_service_fee",
        /// A correction by hand.
        BranchAdjustment = "branch_adjustment",
    }
}

wire_enum! {
    /// The kinds of actor that settlement commands name in their bodies.
    pub enum SettlementActorKind {
        /// The head office.
        HeadquartersAdministrator = "headquarters_administrator",
        /// A branch.
        BranchManager = "branch_manager",
        /// A workflow of the platform.
        SystemWorkflow = "system_workflow",
    }
}

impl SettlementActorKind {
    /// Returns the actor's kind of this name.
    #[must_use]
    pub fn kind(self) -> ActorKind {
        match self {
            Self::HeadquartersAdministrator => ActorKind::HeadquartersAdministrator,
            Self::BranchManager => ActorKind::BranchManager,
            Self::SystemWorkflow => ActorKind::SystemWorkflow,
        }
    }

    /// Whether the actor is of this kind and acts under the profile named: the actor in a body must be
    /// the one in the token.
    #[must_use]
    pub fn is_of(self, actor: &Actor, actor_profile_id: &str) -> bool {
        self.kind() == actor.kind && actor.profile_id() == actor_profile_id
    }
}

wire_enum! {
    /// Commands that move a statement.
    pub enum TransitionCommand {
        /// Opens it.
        RequestDeposit = "request_deposit",
        /// Acknowledges the branch's deposit.
        AcknowledgeBranchDeposit = "acknowledge_branch_deposit",
    }
}

wire_enum! {
    /// On which side of a handoff between branches the acknowledging branch is.
    pub enum AcknowledgementSide {
        /// The branch that delivered the service.
        ServiceDeliveryBranch = "service_delivery_branch",
        /// The branch whose customer it was.
        CustomerRelationshipBranch = "customer_relationship_branch",
    }
}

json_object! {
    /// The account to which the branch is asked to remit, as it was when the statement opened.
    pub struct RemittanceAccountSnapshot {
        /// The snapshot's identifier.
        pub remittance_account_snapshot_id: Ident = "remittanceAccountSnapshotId",
        /// The bank.
        pub bank_name: Text = "bankName" personal Bank,
        /// The holder.
        pub account_holder: Text = "accountHolder" personal Bank,
        /// The number as it may be shown.
        pub account_number_display: Text = "accountNumberDisplay" personal Bank,
        /// When the snapshot was taken.
        pub captured_at: Timestamp = "capturedAt",
        /// Where it was taken from.
        pub source_reference_key: Option<Ident> = "sourceReferenceKey",
    }
}

json_object! {
    /// One line of a statement that the branch acknowledges.
    pub struct LineAcknowledgement {
        /// The acknowledgement's identifier; each once in a request.
        pub line_acknowledgement_id: Ident = "lineAcknowledgementId",
        /// The line; each once in a request.
        pub settlement_line_key: Ident = "settlementLineKey",
        /// What the line is about.
        pub settlement_line_kind: SettlementLineKind = "settlementLineKind",
        /// Who acknowledges: the `actorProfileId` of the request.
        pub acknowledged_by_actor_profile_id: Ident = "acknowledgedByActorProfileId",
        /// When: at most 5 minutes ahead of the service's clock.
        pub acknowledged_at: Timestamp = "acknowledgedAt",
        /// The evidence.
        pub source_evidence_key: Option<Ident> = "sourceEvidenceKey",
        /// A note.
        pub acknowledgement_note: Nullable<Text> = "acknowledgementNote" personal FreeText,
    }
}

json_object! {
    /// What a branch says of a service handed over between branches.
    pub struct InterOfficeAcknowledgement {
        /// The settlement between the two.
        pub inter_office_settlement_code: Ident = "interOfficeSettlementCode",
        /// The reservation served.
        pub reservation_id: Ident = "reservationId",
        /// The side of the acknowledging branch.
        pub acknowledgement_side: AcknowledgementSide = "acknowledgementSide",
        /// The acknowledging branch: the statement's.
        pub acknowledging_branch_profile_id: BranchProfileId = "acknowledgingBranchProfileId",
        /// The branch that delivered the service: the acknowledging one, if this is its side.
        pub service_delivery_branch_profile_id: BranchProfileId = "serviceDeliveryBranchProfileId",
        /// The branch whose customer it was: the acknowledging one, if this is its side.
        pub customer_relationship_branch_profile_id: BranchProfileId = "customerRelationshipBranchProfileId",
        /// The actor's kind.
        pub actor_kind: OnlyBranchManager = "actorKind",
        /// The actor's profile: the `actorProfileId` of the request.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The statement's revision as the branch saw it.
        pub expected_statement_revision: i64 = "expectedStatementRevision",
        /// The data set on which the lines were projected.
        pub dataset_revision: AtLeast<1> = "datasetRevision",
        /// The lines projected: each `settlementLineKey` of `lineAcknowledgements`, and no other.
        pub projected_settlement_line_keys: NonEmpty<Ident> = "projectedSettlementLineKeys",
    }
}

wire_enum! {
    /// The only kind of actor that acknowledges.
    pub enum OnlyBranchManager {
        /// A branch manager.
        BranchManager = "branch_manager",
    }
}

/// One transition of a statement after its opening, as it is stored: values that follow from the
/// transitions before are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The identifier of its audit.
    pub audit_id: Uuid,
    /// The command.
    pub command_kind: TransitionCommand,
    /// The actor's kind.
    pub actor_kind: ActorKind,
    /// The actor's profile.
    pub actor_profile_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
    /// The status after.
    pub after_status: StatementStatus,
    /// The time.
    pub recorded_at: Timestamp,
    /// The reason, in the actor's words.
    pub reason: Option<Text>,
    /// The facts of a handoff between branches, where there was one.
    pub inter_office: Option<InterOfficeAcknowledgement>,
}

/// One transition of a statement, with all its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitionAudit<'a> {
    /// The audit's identifier.
    pub audit_id: Uuid,
    /// The command.
    pub command_kind: TransitionCommand,
    /// The actor's kind.
    pub actor_kind: ActorKind,
    /// The actor's profile.
    pub actor_profile_id: &'a str,
    /// The command's key.
    pub idempotency_key: &'a str,
    /// The revision that the command expected.
    pub expected_revision: Revision,
    /// The revision that it made.
    pub committed_revision: Revision,
    /// The status before.
    pub before_status: StatementStatus,
    /// The status after.
    pub after_status: StatementStatus,
    /// The time.
    pub recorded_at: Timestamp,
    /// The reason, in the actor's words.
    pub reason: Option<&'a Text>,
    /// The facts of a handoff between branches, where there was one.
    pub inter_office: Option<&'a InterOfficeAcknowledgement>,
}

/// A settlement statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The content of its opening.
    #[serde(with = "shared")]
    pub opening: Arc<DepositRequested>,
    /// The time of its opening.
    pub created_at: Timestamp,
    /// Its transitions after that, oldest first.
    pub transitions: Vec<Transition>,
    /// The acknowledged lines, in the order in which they were acknowledged.
    pub line_acknowledgements: Vec<LineAcknowledgement>,
}

/// The event that a statement is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositRequested {
    /// The statement's identifier.
    pub statement_id: Uuid,
    /// Its code, which only one statement has.
    pub statement_code: Ident,
    /// The kind of settlement.
    pub statement_kind: StatementKind,
    /// The branch that is asked.
    pub branch_profile_id: BranchProfileId,
    /// First day of the period.
    pub settlement_period_start: Date,
    /// Last day of the period.
    pub settlement_period_end: Date,
    /// The account to remit to.
    pub remittance_account_snapshot: RemittanceAccountSnapshot,
    /// A message to the branch.
    pub message_to_branch: Option<Text>,
    /// A memo that only the head office may read.
    pub head_office_private_memo: Option<Text>,
    /// The actor who asked: the token's subject.
    pub subject: Box<str>,
    /// The kind of actor who asked.
    pub actor_kind: ActorKind,
    /// The profile under which the actor asked, where it is not the subject.
    pub other_profile_id: Option<Box<str>>,
    /// The opening command's key.
    pub idempotency_key: Box<str>,
    /// The identifier of the opening's audit, if it cannot be computed from the statement's.
    pub other_audit_id: Option<Uuid>,
}

/// The event that the branch acknowledges its deposit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositAcknowledged {
    /// The identifier of the audit.
    pub audit_id: Uuid,
    /// The profile of the branch manager.
    pub actor_profile_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
    /// The reason, in the actor's words.
    pub reason: Option<Text>,
    /// The lines.
    pub lines: Vec<LineAcknowledgement>,
    /// The facts of a handoff between branches.
    pub inter_office: Option<InterOfficeAcknowledgement>,
}

/// What can happen to a statement. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StatementEvent {
    /// It is opened.
    DepositRequested(#[serde(with = "shared")] Arc<DepositRequested>),
    /// The branch acknowledges its deposit.
    DepositAcknowledged(Box<DepositAcknowledged>),
}

impl DepositRequested {
    /// The bits that are inverted between the identifier of a statement and that of its opening's
    /// audit. These bits are random, so that no other identifier is the same.
    const OPPOSITE: u128 = (1 << 56) - 1;

    /// Returns the profile of the actor who asked.
    #[must_use]
    pub fn actor_profile_id(&self) -> &str {
        self.other_profile_id.as_deref().unwrap_or(&self.subject)
    }

    /// Whether the same actor has asked for the same: everything is equal except the command's key and
    /// the identifiers that were made for the statement.
    #[must_use]
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let Self {
            statement_id: _,
            statement_code,
            statement_kind,
            branch_profile_id,
            settlement_period_start,
            settlement_period_end,
            remittance_account_snapshot,
            message_to_branch,
            head_office_private_memo,
            subject,
            actor_kind,
            other_profile_id,
            idempotency_key: _,
            other_audit_id: _,
        } = self;
        *statement_code == other.statement_code
            && *statement_kind == other.statement_kind
            && *branch_profile_id == other.branch_profile_id
            && *settlement_period_start == other.settlement_period_start
            && *settlement_period_end == other.settlement_period_end
            && *remittance_account_snapshot == other.remittance_account_snapshot
            && *message_to_branch == other.message_to_branch
            && *head_office_private_memo == other.head_office_private_memo
            && *subject == other.subject
            && *actor_kind == other.actor_kind
            && *other_profile_id == other.other_profile_id
    }

    /// Returns the identifier of the opening's audit.
    #[must_use]
    pub fn audit_id(&self) -> Uuid {
        self.other_audit_id
            .unwrap_or_else(|| Self::audit_of(self.statement_id))
    }

    /// Returns the computed identifier of the audit of this statement's opening.
    #[must_use]
    pub fn audit_of(statement_id: Uuid) -> Uuid {
        Uuid::from_u128(statement_id.as_u128() ^ Self::OPPOSITE)
    }
}

impl Statement {
    /// The status of a statement after its opening.
    const OPENED_IN: StatementStatus = StatementStatus::AwaitingBranchDeposit;

    /// Returns its status: the one after its last transition.
    #[must_use]
    pub fn status(&self) -> StatementStatus {
        let last = self.transitions.last();
        last.map_or(Self::OPENED_IN, |last| last.after_status)
    }

    /// Returns the time of its last change.
    #[must_use]
    pub fn updated_at(&self) -> Timestamp {
        let last = self.transitions.last();
        last.map_or(self.created_at, |last| last.recorded_at)
    }

    /// Returns all its transitions, the opening first.
    pub fn transition_audits(&self) -> impl Iterator<Item = TransitionAudit<'_>> {
        let mut revision = Revision::FIRST;
        let mut status = Self::OPENED_IN;
        let opening = self.opening_audit();
        std::iter::once(opening).chain(self.transitions.iter().map(move |moved| {
            let expected_revision = revision;
            revision = revision.next();
            TransitionAudit {
                audit_id: moved.audit_id,
                command_kind: moved.command_kind,
                actor_kind: moved.actor_kind,
                actor_profile_id: &moved.actor_profile_id,
                idempotency_key: &moved.idempotency_key,
                expected_revision,
                committed_revision: revision,
                before_status: std::mem::replace(&mut status, moved.after_status),
                after_status: moved.after_status,
                recorded_at: moved.recorded_at,
                reason: moved.reason.as_ref(),
                inter_office: moved.inter_office.as_ref(),
            }
        }))
    }

    fn opening_audit(&self) -> TransitionAudit<'_> {
        let opening = &self.opening;
        TransitionAudit {
            audit_id: opening.audit_id(),
            command_kind: TransitionCommand::RequestDeposit,
            actor_kind: opening.actor_kind,
            actor_profile_id: opening.actor_profile_id(),
            idempotency_key: &opening.idempotency_key,
            expected_revision: Revision::NONE,
            committed_revision: Revision::FIRST,
            before_status: Self::OPENED_IN,
            after_status: Self::OPENED_IN,
            recorded_at: self.created_at,
            reason: None,
            inter_office: None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::samples::acknowledged;
    use super::*;
    use crate::domain::resource::Resource as _;

    #[test]
    fn a_statement_stands_where_its_last_move_has_left_it() {
        let mut statement = acknowledged();
        assert_eq!(statement.validate(), Ok(()));
        assert_eq!(statement.revision().number(), 2);
        assert_eq!(statement.status(), StatementStatus::AwaitingConfirmation);
        assert_eq!(statement.updated_at(), statement.transitions[0].recorded_at);
        let audits: Vec<_> = statement.transition_audits().collect();
        assert_eq!(audits.len(), 2);
        assert_eq!(audits[0].committed_revision, audits[1].expected_revision);
        assert_eq!(audits[0].after_status, audits[1].before_status);
        assert_eq!(audits[1].committed_revision, statement.revision());
        assert_eq!(audits[1].after_status, statement.status());
        let opened = audits[0].audit_id;
        assert_ne!(opened, statement.opening.statement_id);
        assert_eq!(opened.get_version_num(), 7);
        assert_eq!(opened.get_variant(), uuid::Variant::RFC4122);
        statement.transitions[0].command_kind = TransitionCommand::RequestDeposit;
        assert_eq!(statement.validate(), Err("it is opened twice".to_owned()));
    }
}
