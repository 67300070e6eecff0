//! A statement as it is shown.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::state::{
    InterOfficeAcknowledgement, LineAcknowledgement, RemittanceAccountSnapshot, Statement,
    StatementKind, StatementStatus, TransitionAudit, TransitionCommand, may_request,
};
use crate::base::actor::{Actor, ActorKind};
use crate::base::revision::Revision;
use crate::base::text::{BranchProfileId, Ident, Text};
use crate::base::time::{Date, Instant};

/// A statement as its readers see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SettlementStatement")]
pub struct StatementBody<'a> {
    statement_id: Uuid,
    statement_code: &'a Ident,
    statement_kind: StatementKind,
    branch_profile_id: &'a BranchProfileId,
    settlement_period_start: Date,
    settlement_period_end: Date,
    status: StatementStatus,
    revision: Revision,
    remittance_account_snapshot: &'a RemittanceAccountSnapshot,
    requested_by_actor_profile_id: &'a str,
    created_at: Instant,
    updated_at: Instant,
    message_to_branch: Option<&'a Text>,
    head_office_private_memo: Option<&'a Text>,
    transition_audits: Vec<AuditBody<'a>>,
    line_acknowledgements: &'a [LineAcknowledgement],
    /// Rows added by hand are the work of a system outside this service.
    manual_rows: [(); 0],
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StatementTransition")]
struct AuditBody<'a> {
    audit_id: Uuid,
    command_kind: TransitionCommand,
    actor_kind: ActorKind,
    actor_profile_id: &'a str,
    idempotency_key: &'a str,
    expected_revision: Revision,
    committed_revision: Revision,
    before_status: StatementStatus,
    after_status: StatementStatus,
    recorded_at: Instant,
    reason: Option<&'a Text>,
    /// No command leaves a message of its own.
    result_message: Option<&'a str>,
    metadata: Metadata<'a>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TransitionMetadata")]
enum Metadata<'a> {
    InterOffice(&'a InterOfficeAcknowledgement),
    Nothing {},
}

impl<'a> StatementBody<'a> {
    /// The statement as `actor` may see it: the head office's private memo is for the head
    /// office and its workflows.
    #[must_use]
    pub fn new(statement: &'a Statement, actor: &Actor) -> Self {
        let opening = &statement.opening;
        let memo = opening.head_office_private_memo.as_ref();
        Self {
            statement_id: opening.statement_id,
            statement_code: &opening.statement_code,
            statement_kind: opening.statement_kind,
            branch_profile_id: &opening.branch_profile_id,
            settlement_period_start: opening.settlement_period_start,
            settlement_period_end: opening.settlement_period_end,
            status: statement.status,
            revision: statement.revision,
            remittance_account_snapshot: &opening.remittance_account_snapshot,
            requested_by_actor_profile_id: &opening.actor_profile_id,
            created_at: statement.created_at,
            updated_at: statement.updated_at,
            message_to_branch: opening.message_to_branch.as_ref(),
            head_office_private_memo: memo.filter(|_| may_request(actor)),
            transition_audits: statement
                .transition_audits
                .iter()
                .map(AuditBody::new)
                .collect(),
            line_acknowledgements: &statement.line_acknowledgements,
            manual_rows: [],
        }
    }
}

impl<'a> AuditBody<'a> {
    fn new(audit: &'a TransitionAudit) -> Self {
        Self {
            audit_id: audit.audit_id,
            command_kind: audit.command_kind,
            actor_kind: audit.actor_kind,
            actor_profile_id: &audit.actor_profile_id,
            idempotency_key: &audit.idempotency_key,
            expected_revision: audit.expected_revision,
            committed_revision: audit.committed_revision,
            before_status: audit.before_status,
            after_status: audit.after_status,
            recorded_at: audit.recorded_at,
            reason: audit.reason.as_ref(),
            result_message: None,
            metadata: match &audit.inter_office {
                Some(facts) => Metadata::InterOffice(facts),
                None => Metadata::Nothing {},
            },
        }
    }
}
