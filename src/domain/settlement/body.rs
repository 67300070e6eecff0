//! A statement as readers see it.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::state::may_request;
use super::statement::{
    InterOfficeAcknowledgement, LineAcknowledgement, RemittanceAccountSnapshot, Statement,
    StatementKind, StatementStatus, TransitionAudit, TransitionCommand,
};
use crate::base::actor::{Actor, ActorKind};
use crate::base::revision::Revision;
use crate::base::text::{BranchProfileId, Ident, Text};
use crate::base::time::{Date, Timestamp};
use crate::domain::resource::Resource as _;
use crate::domain::response_body::response_body;

response_body! {
    /// A statement as its readers see it.
    #[schemars(rename = "SettlementStatement")]
    pub struct StatementBody<'a> from (statement: &'a Statement, actor: &Actor) {
        // The statement as `actor` may see it: the head office's private memo is for the head
        // office and its workflows.
        let opening = &statement.opening;
        let memo = opening.head_office_private_memo.as_ref();
    } as {
        statement_id: Uuid = opening.statement_id,
        statement_code: &'a Ident = &opening.statement_code,
        statement_kind: StatementKind = opening.statement_kind,
        branch_profile_id: &'a BranchProfileId = &opening.branch_profile_id,
        settlement_period_start: Date = opening.settlement_period_start,
        settlement_period_end: Date = opening.settlement_period_end,
        status: StatementStatus = statement.status(),
        revision: Revision = statement.revision(),
        remittance_account_snapshot: &'a RemittanceAccountSnapshot =
            &opening.remittance_account_snapshot,
        requested_by_actor_profile_id: &'a str = opening.actor_profile_id(),
        created_at: Timestamp = statement.created_at,
        updated_at: Timestamp = statement.updated_at(),
        message_to_branch: Option<&'a Text> = opening.message_to_branch.as_ref(),
        head_office_private_memo: Option<&'a Text> = memo.filter(|_| may_request(actor)),
        transition_audits: Vec<AuditBody<'a>> = statement
            .transition_audits()
            .map(AuditBody::new)
            .collect(),
        line_acknowledgements: &'a [LineAcknowledgement] = &statement.line_acknowledgements,
        /// Rows added by hand are the work of a system outside this service.
        manual_rows: [(); 0] = [],
    }
}

response_body! {
    #[schemars(rename = "StatementTransition")]
    struct AuditBody<'a> from (audit: TransitionAudit<'a>) {} as {
        audit_id: Uuid = audit.audit_id,
        command_kind: TransitionCommand = audit.command_kind,
        actor_kind: ActorKind = audit.actor_kind,
        actor_profile_id: &'a str = audit.actor_profile_id,
        idempotency_key: &'a str = audit.idempotency_key,
        expected_revision: Revision = audit.expected_revision,
        committed_revision: Revision = audit.committed_revision,
        before_status: StatementStatus = audit.before_status,
        after_status: StatementStatus = audit.after_status,
        recorded_at: Timestamp = audit.recorded_at,
        reason: Option<&'a Text> = audit.reason,
        /// No command leaves a message of its own.
        result_message: Option<&'a str> = None,
        metadata: Metadata<'a> = match audit.inter_office {
            Some(facts) => Metadata::InterOffice(facts),
            None => Metadata::Nothing {},
        },
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TransitionMetadata")]
enum Metadata<'a> {
    InterOffice(&'a InterOfficeAcknowledgement),
    Nothing {},
}
