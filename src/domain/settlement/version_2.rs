//! Statements of version 2, whose opening stored the fingerprint of the command beside the facts that
//! it was computed from, and always the profile and the audit's identifier, even where they follow from
//! other values.

use std::sync::Arc;

use serde::Deserialize;
use uuid::Uuid;

use super::statement::{
    DepositAcknowledged, DepositRequested, LineAcknowledgement, RemittanceAccountSnapshot,
    Statement, StatementEvent, StatementKind, Transition,
};
use crate::base::actor::ActorKind;
use crate::base::codec::{self, DecodeError};
use crate::base::digest::Fingerprint;
use crate::base::text::{BranchProfileId, Ident, Text};
use crate::base::time::{Date, Timestamp};

#[derive(Deserialize)]
#[cfg_attr(test, derive(Clone, serde::Serialize))]
pub(super) struct OldOpening {
    statement_id: Uuid,
    statement_code: Ident,
    statement_kind: StatementKind,
    branch_profile_id: BranchProfileId,
    settlement_period_start: Date,
    settlement_period_end: Date,
    remittance_account_snapshot: RemittanceAccountSnapshot,
    pub(super) message_to_branch: Option<Text>,
    head_office_private_memo: Option<Text>,
    subject: Box<str>,
    actor_kind: ActorKind,
    actor_profile_id: Box<str>,
    idempotency_key: Box<str>,
    // The facts themselves now show whether another command is the same.
    #[serde(rename = "fingerprint")]
    _fingerprint: Fingerprint,
    audit_id: Uuid,
}

impl OldOpening {
    pub(super) fn into_present(self) -> Arc<DepositRequested> {
        let is_other = self.actor_profile_id != self.subject;
        let follows = self.audit_id == DepositRequested::audit_of(self.statement_id);
        Arc::new(DepositRequested {
            statement_id: self.statement_id,
            statement_code: self.statement_code,
            statement_kind: self.statement_kind,
            branch_profile_id: self.branch_profile_id,
            settlement_period_start: self.settlement_period_start,
            settlement_period_end: self.settlement_period_end,
            remittance_account_snapshot: self.remittance_account_snapshot,
            message_to_branch: self.message_to_branch,
            head_office_private_memo: self.head_office_private_memo,
            subject: self.subject,
            actor_kind: self.actor_kind,
            other_profile_id: is_other.then_some(self.actor_profile_id),
            idempotency_key: self.idempotency_key,
            other_audit_id: (!follows).then_some(self.audit_id),
        })
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct OldStatement {
    opening: OldOpening,
    created_at: Timestamp,
    transitions: Vec<Transition>,
    line_acknowledgements: Vec<LineAcknowledgement>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
enum OldEvent {
    DepositRequested(Box<OldOpening>),
    DepositAcknowledged(Box<DepositAcknowledged>),
}

/// Reads a statement of version 2.
///
/// # Errors
/// When the bytes are no such statement.
pub(super) fn read(bytes: &[u8]) -> Result<Statement, DecodeError> {
    let old: OldStatement = codec::decode(bytes)?;
    Ok(Statement {
        opening: old.opening.into_present(),
        created_at: old.created_at,
        transitions: old.transitions,
        line_acknowledgements: old.line_acknowledgements,
    })
}

/// Reads an event of versions 1 and 2.
///
/// # Errors
/// When the bytes are no such event.
pub(super) fn read_event(bytes: &[u8]) -> Result<StatementEvent, DecodeError> {
    Ok(match codec::decode(bytes)? {
        OldEvent::DepositRequested(opening) => {
            StatementEvent::DepositRequested(opening.into_present())
        }
        OldEvent::DepositAcknowledged(moved) => StatementEvent::DepositAcknowledged(moved),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::super::samples::acknowledged;
    use super::*;

    /// Returns this opening in the form of version 2.
    pub(in super::super) fn old(opening: &DepositRequested) -> OldOpening {
        OldOpening {
            statement_id: opening.statement_id,
            statement_code: opening.statement_code.clone(),
            statement_kind: opening.statement_kind,
            branch_profile_id: opening.branch_profile_id.clone(),
            settlement_period_start: opening.settlement_period_start,
            settlement_period_end: opening.settlement_period_end,
            remittance_account_snapshot: opening.remittance_account_snapshot.clone(),
            message_to_branch: opening.message_to_branch.clone(),
            head_office_private_memo: opening.head_office_private_memo.clone(),
            subject: opening.subject.clone(),
            actor_kind: opening.actor_kind,
            actor_profile_id: opening.actor_profile_id().into(),
            idempotency_key: opening.idempotency_key.clone(),
            _fingerprint: Fingerprint::of(b"facts"),
            audit_id: opening.audit_id(),
        }
    }

    /// Returns a statement whose opening has only a computed profile and audit identifier, and one
    /// whose opening has others.
    fn statements() -> [Statement; 2] {
        let plain = acknowledged();
        let mut other = plain.clone();
        let opening = Arc::make_mut(&mut other.opening);
        opening.other_profile_id = Some("profile-2".into());
        opening.other_audit_id = Some(Uuid::from_u128(7));
        [plain, other]
    }

    #[test]
    fn a_statement_of_version_2_is_what_it_was_and_takes_less() {
        for statement in statements() {
            let bytes = codec::encode(&OldStatement {
                opening: old(&statement.opening),
                created_at: statement.created_at,
                transitions: statement.transitions.clone(),
                line_acknowledgements: statement.line_acknowledgements.clone(),
            });
            assert_eq!(read(&bytes).unwrap(), statement);
            let now = codec::encode(&statement);
            assert!(now.len() + 30 <= bytes.len(), "{} bytes", now.len());
        }
    }

    #[test]
    fn an_event_of_version_2_is_what_it_was() {
        for statement in statements() {
            let event = OldEvent::DepositRequested(Box::new(old(&statement.opening)));
            let read = read_event(&codec::encode(&event)).unwrap();
            let StatementEvent::DepositRequested(opening) = read else {
                panic!("{read:?}");
            };
            assert_eq!(opening, statement.opening);
        }
    }
}
