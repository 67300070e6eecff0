//! The settlement statement: its state and its events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::actor::Actor;
use crate::base::actor::ActorKind;
use crate::base::digest::Fingerprint;
use crate::base::json::{AtLeast, NonEmpty, Nullable};
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{BranchProfileId, Ident, Text};
use crate::base::time::{Date, Instant};
use crate::domain::listing::{Filter, List, by_many, is};
use crate::domain::resource::{Index, IndexKey, Kind, Resource, event_name};
use crate::{json_object, public_events, wire_enum};

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
    /// Whether the actor is of this kind and acts under the profile named: what a body says of
    /// its actor must be what the token says.
    #[must_use]
    pub fn is_of(self, actor: &Actor, actor_profile_id: &str) -> bool {
        self.as_str() == actor.kind.as_str() && actor.profile_id() == actor_profile_id
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
        pub captured_at: Instant = "capturedAt",
        /// Where it was taken from.
        pub source_reference_key: Option<Ident> = "sourceReferenceKey",
    }
}

json_object! {
    /// One line of a statement that the branch acknowledges.
    pub struct LineAcknowledgement {
        /// The acknowledgement's identifier.
        pub line_acknowledgement_id: Ident = "lineAcknowledgementId",
        /// The line.
        pub settlement_line_key: Ident = "settlementLineKey",
        /// What the line is about.
        pub settlement_line_kind: SettlementLineKind = "settlementLineKind",
        /// Who acknowledges.
        pub acknowledged_by_actor_profile_id: Ident = "acknowledgedByActorProfileId",
        /// When.
        pub acknowledged_at: Instant = "acknowledgedAt",
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
        /// The acknowledging branch.
        pub acknowledging_branch_profile_id: BranchProfileId = "acknowledgingBranchProfileId",
        /// The branch that delivered the service.
        pub service_delivery_branch_profile_id: BranchProfileId = "serviceDeliveryBranchProfileId",
        /// The branch whose customer it was.
        pub customer_relationship_branch_profile_id: BranchProfileId = "customerRelationshipBranchProfileId",
        /// The actor's kind.
        pub actor_kind: OnlyBranchManager = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The statement's revision as the branch saw it.
        pub expected_statement_revision: i64 = "expectedStatementRevision",
        /// The data set on which the lines were projected.
        pub dataset_revision: AtLeast<1> = "datasetRevision",
        /// The lines projected.
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

/// One move of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionAudit {
    /// The audit's identifier.
    pub audit_id: Uuid,
    /// The command.
    pub command_kind: TransitionCommand,
    /// The actor's kind.
    pub actor_kind: ActorKind,
    /// The actor's profile.
    pub actor_profile_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
    /// The revision that the command expected.
    pub expected_revision: Revision,
    /// The revision that it made.
    pub committed_revision: Revision,
    /// The status before.
    pub before_status: StatementStatus,
    /// The status after.
    pub after_status: StatementStatus,
    /// When.
    pub recorded_at: Instant,
    /// Why, in the actor's words.
    pub reason: Option<Text>,
    /// The facts of a handoff between branches, where there was one.
    pub inter_office: Option<InterOfficeAcknowledgement>,
}

/// A settlement statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// What the opening said.
    #[serde(with = "shared")]
    pub opening: Arc<DepositRequested>,
    /// Its status.
    pub status: StatementStatus,
    /// How many commits it has seen.
    pub revision: Revision,
    /// When it opened.
    pub created_at: Instant,
    /// When it last changed.
    pub updated_at: Instant,
    /// Its moves, oldest first.
    pub transition_audits: Vec<TransitionAudit>,
    /// The lines acknowledged, in the order of their coming.
    pub line_acknowledgements: Vec<LineAcknowledgement>,
}

/// A statement is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositRequested {
    /// The statement's identifier.
    pub statement_id: Uuid,
    /// Its code, one statement to a code.
    pub statement_code: Ident,
    /// What it settles.
    pub statement_kind: StatementKind,
    /// The branch that is asked.
    pub branch_profile_id: BranchProfileId,
    /// First day of the period.
    pub settlement_period_start: Date,
    /// Last day of the period.
    pub settlement_period_end: Date,
    /// Where to remit.
    pub remittance_account_snapshot: RemittanceAccountSnapshot,
    /// For the branch to read.
    pub message_to_branch: Option<Text>,
    /// For the head office alone.
    pub head_office_private_memo: Option<Text>,
    /// Who asked: the token's subject.
    pub subject: Box<str>,
    /// The kind of actor who asked.
    pub actor_kind: ActorKind,
    /// The profile of the actor who asked.
    pub actor_profile_id: Box<str>,
    /// The opening command's key.
    pub idempotency_key: Box<str>,
    /// The fingerprint of the opening command's facts.
    pub fingerprint: Fingerprint,
    /// The identifier of the opening's audit.
    pub audit_id: Uuid,
}

/// The branch acknowledges its deposit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositAcknowledged {
    /// The identifier of the audit.
    pub audit_id: Uuid,
    /// The profile of the branch manager.
    pub actor_profile_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
    /// Why, in the actor's words.
    pub reason: Option<Text>,
    /// The lines.
    pub lines: Vec<LineAcknowledgement>,
    /// The facts of a handoff between branches.
    pub inter_office: Option<InterOfficeAcknowledgement>,
}

/// What can happen to a statement. New events go at the end: records store their index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StatementEvent {
    /// It is opened.
    DepositRequested(#[serde(with = "shared")] Arc<DepositRequested>),
    /// The branch acknowledges.
    DepositAcknowledged(Box<DepositAcknowledged>),
}

impl Resource for Statement {
    const KIND: Kind = Kind {
        tag: 100,
        name: "settlement-statement",
    };
    type Event = StatementEvent;
    const LIST: Option<List<Self>> = Some(List::<Self>::by(&[
        by_many(Filter::Branch, |it| is(&it.opening.branch_profile_id)),
        by_many(Filter::Status, |it| is(it.status.as_str())),
    ]));

    fn apply(state: Option<Self>, event: &StatementEvent, at: Instant) -> Self {
        match (state, event) {
            (None, StatementEvent::DepositRequested(opening)) => Self::opened(opening, at),
            (Some(mut statement), StatementEvent::DepositAcknowledged(acknowledged)) => {
                statement.acknowledge(acknowledged, at);
                statement
            }
            (state, event) => panic!(
                "{} cannot follow on a statement that {}",
                event_name(event),
                if state.is_some() {
                    "exists"
                } else {
                    "does not exist"
                }
            ),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.opening.statement_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        vec![IndexKey::new(
            Index::StatementCode,
            &[&self.opening.statement_code],
        )]
    }

    fn validate(&self) -> Result<(), String> {
        let audits = self.transition_audits.len();
        if i64::try_from(audits) != Ok(self.revision.number()) {
            return Err(format!("{audits} audits at revision {}", self.revision));
        }
        self.audits_follow_on_each_other()?;
        if self.opening.settlement_period_start > self.opening.settlement_period_end {
            return Err("the period ends before it starts".to_owned());
        }
        Ok(())
    }
}

public_events! {
    Statement by StatementEvent, read at "settlement-statements/{}", revision own;

    /// A branch is asked for its deposit: the statement is opened.
    DepositRequested(opening) => "deposit-requested" {
        "statementCode": Ident = opening.statement_code,
        "statementKind": StatementKind = opening.statement_kind,
        "branchProfileId": BranchProfileId = opening.branch_profile_id,
        "settlementPeriodStart": Date = opening.settlement_period_start,
        "settlementPeriodEnd": Date = opening.settlement_period_end,
        "status": StatementStatus = StatementStatus::AwaitingBranchDeposit,
    },
    /// The branch has acknowledged its deposit.
    DepositAcknowledged(acknowledged) => "deposit-acknowledged" {
        "status": StatementStatus = StatementStatus::AwaitingConfirmation,
        "lineAcknowledgementIds": Vec<Ident> = acknowledged.line_ids(),
        "interOfficeSettlementCode": Option<Ident> = acknowledged.inter_office_code(),
    },
}

impl DepositAcknowledged {
    fn line_ids(&self) -> Vec<Ident> {
        let lines = self.lines.iter();
        lines
            .map(|line| line.line_acknowledgement_id.clone())
            .collect()
    }

    fn inter_office_code(&self) -> Option<Ident> {
        let inter_office = self.inter_office.as_ref()?;
        Some(inter_office.inter_office_settlement_code.clone())
    }
}

impl Statement {
    /// Whether the audits are a chain: the first one opens, each goes on from the revision and the
    /// status that the one before has left, and the last one left the statement's current state.
    fn audits_follow_on_each_other(&self) -> Result<(), String> {
        let mut revision = Revision::NONE;
        // Its opening leaves a statement's first status as it is.
        let mut status = StatementStatus::AwaitingBranchDeposit;
        for audit in &self.transition_audits {
            let opens = audit.command_kind == TransitionCommand::RequestDeposit;
            if opens != (revision == Revision::NONE) {
                return Err(format!(
                    "{} after revision {revision}",
                    audit.command_kind.as_str()
                ));
            }
            if audit.expected_revision != revision || audit.committed_revision != revision.next() {
                return Err(format!(
                    "an audit from revision {} to {} after revision {revision}",
                    audit.expected_revision, audit.committed_revision
                ));
            }
            if audit.before_status != status {
                return Err(format!(
                    "an audit from {} where the statement was {}",
                    audit.before_status.as_str(),
                    status.as_str()
                ));
            }
            revision = audit.committed_revision;
            status = audit.after_status;
        }
        if self.status != status {
            return Err(format!(
                "{} after an audit that left it {}",
                self.status.as_str(),
                status.as_str()
            ));
        }
        Ok(())
    }

    fn opened(opening: &Arc<DepositRequested>, at: Instant) -> Self {
        Self {
            status: StatementStatus::AwaitingBranchDeposit,
            revision: Revision::FIRST,
            created_at: at,
            updated_at: at,
            transition_audits: vec![TransitionAudit {
                audit_id: opening.audit_id,
                command_kind: TransitionCommand::RequestDeposit,
                actor_kind: opening.actor_kind,
                actor_profile_id: opening.actor_profile_id.clone(),
                idempotency_key: opening.idempotency_key.clone(),
                expected_revision: Revision::NONE,
                committed_revision: Revision::FIRST,
                before_status: StatementStatus::AwaitingBranchDeposit,
                after_status: StatementStatus::AwaitingBranchDeposit,
                recorded_at: at,
                reason: None,
                inter_office: None,
            }],
            line_acknowledgements: Vec::new(),
            opening: Arc::clone(opening),
        }
    }

    fn acknowledge(&mut self, acknowledged: &DepositAcknowledged, at: Instant) {
        let committed = self.revision.next();
        self.transition_audits.push(TransitionAudit {
            audit_id: acknowledged.audit_id,
            command_kind: TransitionCommand::AcknowledgeBranchDeposit,
            actor_kind: ActorKind::BranchManager,
            actor_profile_id: acknowledged.actor_profile_id.clone(),
            idempotency_key: acknowledged.idempotency_key.clone(),
            expected_revision: self.revision,
            committed_revision: committed,
            before_status: self.status,
            after_status: StatementStatus::AwaitingConfirmation,
            recorded_at: at,
            reason: acknowledged.reason.clone(),
            inter_office: acknowledged.inter_office.clone(),
        });
        self.line_acknowledgements
            .extend(acknowledged.lines.iter().cloned());
        self.status = StatementStatus::AwaitingConfirmation;
        self.revision = committed;
        self.updated_at = at;
    }
}

/// Headquarters and workflows ask for deposits, and see all of a statement.
#[must_use]
pub fn may_request(actor: &Actor) -> bool {
    matches!(
        actor.kind,
        ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::samples::opened;
    use super::*;
    use crate::domain::scenario::manager;

    /// A statement whose deposit was requested and acknowledged.
    fn acknowledged() -> Statement {
        let (mut scenario, id) = opened("head_office_to_branch");
        let body = json!({
            "statementId": id,
            "actorKind": "branch_manager",
            "actorProfileId": "manager-1",
            "idempotencyKey": "acknowledgement-key-1",
            "expectedRevision": 1,
            "reason": null,
            "lineAcknowledgements": [{
                "lineAcknowledgementId": "acknowledgement-1",
                "settlementLineKey": "line-1",
                "settlementLineKind": "delivery_fee",
                "acknowledgedByActorProfileId": "manager-1",
                "acknowledgedAt": "2026-11-20T11:00:00Z",
                "acknowledgementNote": null,
            }],
        });
        scenario.acting(manager("manager-1", "branch-1"));
        scenario.when("acknowledge_deposit", &[], &body).committed();
        scenario.state(&[&id]).unwrap()
    }

    #[test]
    fn a_statement_stands_where_the_chain_of_its_audits_has_left_it() {
        let statement = acknowledged();
        assert_eq!(statement.validate(), Ok(()));
        let damages: [fn(&mut Statement); 9] = [
            |statement| statement.revision = Revision::FIRST,
            |statement| statement.status = StatementStatus::Settled,
            |statement| statement.status = StatementStatus::AwaitingBranchDeposit,
            |statement| statement.transition_audits.swap(0, 1),
            |statement| {
                statement.transition_audits[1].before_status = StatementStatus::Arrears;
            },
            |statement| {
                statement.transition_audits[0].after_status = StatementStatus::Reconciliation;
            },
            |statement| statement.transition_audits[1].expected_revision = Revision::NONE,
            |statement| statement.transition_audits[1].committed_revision = Revision::new(3),
            |statement| {
                statement.transition_audits[1].command_kind = TransitionCommand::RequestDeposit;
            },
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut damaged = statement.clone();
            damage(&mut damaged);
            assert!(damaged.validate().is_err(), "damage {number}");
        }
    }
}
