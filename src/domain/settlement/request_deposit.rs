//! Headquarters, or a workflow, asks a branch for a settlement deposit: opens a statement.
//!
//! Resource: the new statement. Rejections, in the order tested: the actor may not ask, or is not
//! the one that the body names (403); the statement code stands with other facts or is another
//! actor's (409). The same code with the same facts from the same actor under another key is a
//! replay.

use super::state::{
    DepositRequested, RemittanceAccountSnapshot, SettlementActorKind, Statement, StatementEvent,
    StatementKind, StatementView, may_request,
};
use crate::base::digest::Digest;
use crate::base::json::{FaultCode, Nullable, Reader};
use crate::base::text::{BodyKey, Ident, Text};
use crate::base::time::Date;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{Name, Resource, Space};
use crate::{members, rejections};

members! {
    /// The body of the request.
    pub struct Command {
        /// The statement's code.
        pub statement_code: Ident = "statementCode",
        /// What it settles.
        pub statement_kind: StatementKind = "statementKind",
        /// The branch that is asked.
        pub branch_profile_id: Ident = "branchProfileId",
        /// First day of the period.
        pub settlement_period_start: Date = "settlementPeriodStart",
        /// Last day of the period.
        pub settlement_period_end: Date = "settlementPeriodEnd",
        /// Where to remit.
        pub remittance_account_snapshot: RemittanceAccountSnapshot = "remittanceAccountSnapshot",
        /// The actor's kind.
        pub actor_kind: SettlementActorKind = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The key of idempotency.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// For the branch to read.
        pub message_to_branch: Nullable<Text> = "messageToBranch",
        /// For the head office alone.
        pub head_office_private_memo: Nullable<Text> = "headOfficePrivateMemo",
    }
    rules period_in_order(settlement_period_start, settlement_period_end)
}

fn period_in_order(at: &mut Reader, start: Option<&Date>, end: Option<&Date>) {
    if let (Some(start), Some(end)) = (start, end)
        && start > end
    {
        at.fault_at::<()>("settlementPeriodEnd", FaultCode::OutOfRange);
    }
}

rejections! {
    /// Why no deposit is requested.
    pub enum Refusal {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters or a system workflow, named in the body as in its token, may request a settlement deposit.",
        /// The code stands.
        StatementCodeConflict = Conflict "statement_code_conflict" ["statementCode"]
            "A statement with this code stands with other facts.",
    }
}

/// The operation.
pub struct RequestDeposit;

fn code(command: &Command) -> Name {
    Name::new(Space::StatementCode, &[&command.statement_code])
}

impl Operation for RequestDeposit {
    type Command = Command;
    type Resource = Statement;

    const REJECTIONS: &'static [(Class, &'static str)] = Refusal::TABLE;

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        Some(Statement::KIND.key(&[context.born.to_string()]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn names(command: &Command, _: &Context<'_>) -> Vec<Name> {
        vec![code(command)]
    }

    fn decide(
        _: Option<&Statement>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Statement>, Rejection> {
        let actor = context.actor;
        if !may_request(actor) || !command.actor_kind.is_of(actor, &command.actor_profile_id) {
            return Err(Refusal::NotPermitted.into());
        }
        if let Some(standing) = context.view.named::<Statement>(code(command)) {
            let opening = standing.opening;
            if opening.subject != actor.subject || opening.fingerprint != context.fingerprint {
                return Err(Refusal::StatementCodeConflict.into());
            }
            return Ok(Decision::ReplayOf(opening.idempotency_key));
        }
        let event = StatementEvent::DepositRequested(Box::new(DepositRequested {
            statement_id: context.born,
            statement_code: command.statement_code.clone(),
            statement_kind: command.statement_kind,
            branch_profile_id: command.branch_profile_id.clone(),
            settlement_period_start: command.settlement_period_start,
            settlement_period_end: command.settlement_period_end,
            remittance_account_snapshot: command.remittance_account_snapshot.clone(),
            message_to_branch: command.message_to_branch.0.clone(),
            head_office_private_memo: command.head_office_private_memo.0.clone(),
            subject: actor.subject.clone(),
            actor_kind: actor.kind,
            actor_profile_id: actor.profile_id().into(),
            idempotency_key: context.key.into(),
            fingerprint: context.fingerprint,
            audit_id: context.mint.id(),
        }));
        let commit = Commit::new(None, event, context.now);
        let body = to_json(&StatementView::new(&commit.next, actor));
        commit.answer(body)
    }
}
