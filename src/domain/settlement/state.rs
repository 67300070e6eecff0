//! The settlement statement as a resource: how events change it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::statement::{
    DepositAcknowledged, DepositRequested, Statement, StatementEvent, StatementKind,
    StatementStatus, Transition, TransitionCommand,
};
use super::{version_1, version_2};
use crate::base::actor::{Actor, ActorKind};
use crate::base::revision::Revision;
use crate::base::text::{BranchProfileId, Ident};
use crate::base::time::{Date, Timestamp};
use crate::domain::follow::cannot_follow;
use crate::domain::index::{Index, IndexKey};
use crate::domain::listing::{Filter, List, by_many, is};
use crate::domain::resource::{Kind, Resource};
use crate::domain::stored::Older;
use crate::public_events;

impl Resource for Statement {
    const KIND: Kind = Kind {
        tag: 100,
        name: "settlement-statement",
    };
    type Event = StatementEvent;
    const OLDER: &'static [Older<Self, StatementEvent>] = &[
        Older {
            state: version_1::read,
            event: version_2::read_event,
        },
        Older {
            state: version_2::read,
            event: version_2::read_event,
        },
    ];
    const LIST: Option<List<Self>> = Some(List::<Self>::by(&[
        by_many(Filter::Branch, |it| is(&it.opening.branch_profile_id)),
        by_many(Filter::Status, |it| is(it.status().as_str())),
    ]));

    fn apply(state: Option<Self>, event: &StatementEvent, at: Timestamp) -> Self {
        match (state, event) {
            (None, StatementEvent::DepositRequested(opening)) => Self::opened(opening, at),
            (Some(mut statement), StatementEvent::DepositAcknowledged(acknowledged)) => {
                statement.acknowledge(acknowledged, at);
                statement
            }
            (state, event) => cannot_follow(event, "a statement", state.is_some()),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.opening.statement_id.to_string()]
    }

    fn revision(&self) -> Revision {
        let moved = self.transitions.iter();
        moved.fold(Revision::FIRST, |revision, _| revision.next())
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        vec![IndexKey::new(
            Index::StatementCode,
            &[&self.opening.statement_code],
        )]
    }

    fn derived(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("status", json!(self.status())),
            ("revision", json!(self.revision())),
            ("updated_at", json!(self.updated_at())),
        ]
    }

    fn validate(&self) -> Result<(), String> {
        let mut moved = self.transitions.iter();
        if moved.any(|moved| moved.command_kind == TransitionCommand::RequestDeposit) {
            return Err("it is opened twice".to_owned());
        }
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
    fn opened(opening: &Arc<DepositRequested>, at: Timestamp) -> Self {
        Self {
            opening: Arc::clone(opening),
            created_at: at,
            transitions: Vec::new(),
            line_acknowledgements: Vec::new(),
        }
    }

    fn acknowledge(&mut self, acknowledged: &DepositAcknowledged, at: Timestamp) {
        self.transitions.push(Transition {
            audit_id: acknowledged.audit_id,
            command_kind: TransitionCommand::AcknowledgeBranchDeposit,
            actor_kind: ActorKind::BranchManager,
            actor_profile_id: acknowledged.actor_profile_id.clone(),
            idempotency_key: acknowledged.idempotency_key.clone(),
            after_status: StatementStatus::AwaitingConfirmation,
            recorded_at: at,
            reason: acknowledged.reason.clone(),
            inter_office: acknowledged.inter_office.clone(),
        });
        self.line_acknowledgements
            .extend(acknowledged.lines.iter().cloned());
    }
}

/// Whether the actor may ask for deposits and see all of a statement, as headquarters and workflows
/// do.
#[must_use]
pub fn may_request(actor: &Actor) -> bool {
    matches!(
        actor.kind,
        ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow
    )
}
