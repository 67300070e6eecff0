//! A branch manager acknowledges the deposit that a statement asks for.
//!
//! Resource: the statement. Rejections, in the order tested: the actor is no branch manager, or
//! not the one that the body names (403); the statement is unknown (404) or another branch's
//! (403); the facts of a handoff between branches are missing or out of place (invalid); an
//! expected revision is stale, the statement awaits no deposit, a line was acknowledged before
//! (409). The head office's private memo is hidden from the answer.

use std::collections::BTreeSet;

use super::state::{
    AcknowledgementSide, DepositAcknowledged, InterOfficeAcknowledgement, LineAcknowledgement,
    OnlyBranchManager, Statement, StatementEvent, StatementKind, StatementStatus, StatementView,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{AtLeast, FaultCode, NonEmpty, Nullable, Reader};
use crate::base::text::{BodyKey, Ident, Text};
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::Resource;
use crate::{members, rejections};

/// How far ahead of this service's clock a branch's clock may be.
const CLOCK_SKEW_SECONDS_MAX: i64 = 300;

members! {
    /// The body of the request.
    pub struct Command {
        /// The statement.
        pub statement_id: Ident = "statementId",
        /// The actor's kind.
        pub actor_kind: OnlyBranchManager = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The key of idempotency.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// The statement's revision as the branch saw it.
        pub expected_revision: AtLeast<1> = "expectedRevision",
        /// Why, in the actor's words.
        pub reason: Nullable<Text> = "reason",
        /// The lines acknowledged.
        pub line_acknowledgements: NonEmpty<LineAcknowledgement> = "lineAcknowledgements",
        /// The facts of a handoff between branches.
        pub inter_office_acknowledgement: Option<InterOfficeAcknowledgement> = "interOfficeAcknowledgement",
    }
    rules consistent(actor_profile_id, line_acknowledgements, inter_office_acknowledgement)
}

fn consistent(
    at: &mut Reader,
    actor: Option<&Ident>,
    lines: Option<&NonEmpty<LineAcknowledgement>>,
    inter_office: Option<&Option<InterOfficeAcknowledgement>>,
) {
    if let Some(NonEmpty(lines)) = lines {
        lines_consistent(at, actor, lines);
    }
    if let Some(Some(facts)) = inter_office {
        let lines = lines.map(|NonEmpty(lines)| lines.as_slice());
        at.inside("interOfficeAcknowledgement", |at| {
            inter_office_consistent(at, actor, lines, facts);
        });
    }
}

fn lines_consistent(at: &mut Reader, actor: Option<&Ident>, lines: &[LineAcknowledgement]) {
    let latest = at.now().plus_seconds(CLOCK_SKEW_SECONDS_MAX);
    let mut ids = BTreeSet::new();
    let mut keys = BTreeSet::new();
    at.inside("lineAcknowledgements", |at| {
        for (index, line) in lines.iter().enumerate() {
            at.item(index, |at| {
                if !ids.insert(&line.line_acknowledgement_id) {
                    at.fault_at::<()>("lineAcknowledgementId", FaultCode::NotUnique);
                }
                if !keys.insert(&line.settlement_line_key) {
                    at.fault_at::<()>("settlementLineKey", FaultCode::NotUnique);
                }
                if actor.is_some_and(|actor| *actor != line.acknowledged_by_actor_profile_id) {
                    at.fault_at::<()>("acknowledgedByActorProfileId", FaultCode::NotAllowed);
                }
                if line.acknowledged_at > latest {
                    at.fault_at::<()>("acknowledgedAt", FaultCode::OutOfRange);
                }
            });
        }
    });
}

fn inter_office_consistent(
    at: &mut Reader,
    actor: Option<&Ident>,
    lines: Option<&[LineAcknowledgement]>,
    facts: &InterOfficeAcknowledgement,
) {
    let own_side = match facts.acknowledgement_side {
        AcknowledgementSide::ServiceDeliveryBranch => &facts.service_delivery_branch_profile_id,
        AcknowledgementSide::CustomerRelationshipBranch => {
            &facts.customer_relationship_branch_profile_id
        }
    };
    if facts.acknowledging_branch_profile_id != *own_side {
        at.fault_at::<()>("acknowledgingBranchProfileId", FaultCode::NotAllowed);
    }
    if actor.is_some_and(|actor| *actor != facts.actor_profile_id) {
        at.fault_at::<()>("actorProfileId", FaultCode::NotAllowed);
    }
    if let Some(lines) = lines {
        let acknowledged: BTreeSet<_> = lines.iter().map(|line| &line.settlement_line_key).collect();
        let projected: BTreeSet<_> = facts.projected_settlement_line_keys.0.iter().collect();
        if acknowledged != projected {
            at.fault_at::<()>("projectedSettlementLineKeys", FaultCode::NotAllowed);
        }
    }
}

rejections! {
    /// Why no deposit is acknowledged.
    pub enum Refusal {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a branch manager, named in the body as in the token, may acknowledge a deposit.",
        /// The statement is unknown.
        StatementNotFound = Missing "statement_not_found" []
            "There is no settlement statement with this identifier.",
        /// Authority by resource.
        NotThisBranch = Forbidden "permission_denied" []
            "Only a manager of the statement's branch may acknowledge its deposit.",
        /// A revision is stale; the members are named where it is found.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// The statement awaits no deposit.
        StatementNotAcknowledgeable = Conflict "statement_not_acknowledgeable" []
            "The statement does not await a deposit.",
        /// A line was acknowledged before.
        LineAlreadyAcknowledged = Conflict "line_already_acknowledged" ["lineAcknowledgements"]
            "A line of the statement was acknowledged before.",
    }
}

/// The operation.
pub struct AcknowledgeDeposit;

impl Operation for AcknowledgeDeposit {
    type Command = Command;
    type Resource = Statement;

    const REJECTIONS: &'static [(Class, &'static str)] = Refusal::TABLE;

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(Statement::KIND.key(&[&command.statement_id]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&Statement>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Statement>, Rejection> {
        let actor = context.actor;
        if actor.kind != ActorKind::BranchManager
            || actor.profile_id() != command.actor_profile_id.as_str()
        {
            return Err(Refusal::NotPermitted.into());
        }
        let Some(statement) = state else {
            return Err(Refusal::StatementNotFound.into());
        };
        let branch = &statement.opening.branch_profile_id;
        let inter_office = command.inter_office_acknowledgement.as_ref();
        if !actor.manages_branch(branch)
            || inter_office.is_some_and(|facts| facts.acknowledging_branch_profile_id != *branch)
        {
            return Err(Refusal::NotThisBranch.into());
        }
        let between_offices =
            statement.opening.statement_kind == StatementKind::InterOfficeServiceHandoff;
        if between_offices != inter_office.is_some() {
            let code = if between_offices {
                FaultCode::Required
            } else {
                FaultCode::NotAllowed
            };
            return Err(Rejection::invalid_at("interOfficeAcknowledgement", code));
        }
        let stale = stale_members(statement, command);
        if !stale.is_empty() {
            return Err(Rejection::revision_stale(&stale));
        }
        if !matches!(
            statement.status,
            StatementStatus::AwaitingBranchDeposit | StatementStatus::Arrears
        ) {
            return Err(Refusal::StatementNotAcknowledgeable.into());
        }
        let NonEmpty(lines) = &command.line_acknowledgements;
        if lines.iter().any(|line| stands(statement, line)) {
            return Err(Refusal::LineAlreadyAcknowledged.into());
        }
        let event = StatementEvent::DepositAcknowledged(Box::new(DepositAcknowledged {
            audit_id: context.mint.id(),
            actor_profile_id: actor.profile_id().into(),
            idempotency_key: context.key.into(),
            reason: command.reason.0.clone(),
            lines: lines.clone(),
            inter_office: inter_office.cloned(),
        }));
        let commit = Commit::new(state, event, context.now);
        let body = to_json(&StatementView::new(&commit.next, actor));
        commit.answer(body)
    }
}

fn stale_members(statement: &Statement, command: &Command) -> Vec<&'static str> {
    let current = statement.revision.number();
    let inter_office = command.inter_office_acknowledgement.as_ref();
    let mut stale = Vec::new();
    if command.expected_revision.0 != current {
        stale.push("expectedRevision");
    }
    if inter_office.is_some_and(|facts| facts.expected_statement_revision != current) {
        stale.push("interOfficeAcknowledgement.expectedStatementRevision");
    }
    stale
}

fn stands(statement: &Statement, line: &LineAcknowledgement) -> bool {
    statement.line_acknowledgements.iter().any(|standing| {
        standing.settlement_line_key == line.settlement_line_key
            || standing.line_acknowledgement_id == line.line_acknowledgement_id
    })
}
