//! Statements of version 1, which also stored values that follow from their transitions: the opening a
//! second time, each transition's revisions and the status before it, and the statement's own.

use serde::Deserialize;
use uuid::Uuid;

use super::statement::{
    InterOfficeAcknowledgement, LineAcknowledgement, Statement, StatementStatus, Transition,
    TransitionAudit, TransitionCommand,
};
use super::version_2::OldOpening;
use crate::base::actor::ActorKind;
use crate::base::codec::{self, DecodeError};
use crate::base::revision::Revision;
use crate::base::text::Text;
use crate::base::time::Timestamp;

#[derive(Deserialize)]
#[cfg_attr(test, derive(Clone, serde::Serialize))]
struct OldStatement {
    opening: OldOpening,
    status: StatementStatus,
    revision: Revision,
    created_at: Timestamp,
    updated_at: Timestamp,
    transition_audits: Vec<OldAudit>,
    line_acknowledgements: Vec<LineAcknowledgement>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(Clone, serde::Serialize))]
struct OldAudit {
    audit_id: Uuid,
    command_kind: TransitionCommand,
    actor_kind: ActorKind,
    actor_profile_id: Box<str>,
    idempotency_key: Box<str>,
    expected_revision: Revision,
    committed_revision: Revision,
    before_status: StatementStatus,
    after_status: StatementStatus,
    recorded_at: Timestamp,
    reason: Option<Text>,
    inter_office: Option<InterOfficeAcknowledgement>,
}

impl OldAudit {
    fn whole(&self) -> TransitionAudit<'_> {
        TransitionAudit {
            audit_id: self.audit_id,
            command_kind: self.command_kind,
            actor_kind: self.actor_kind,
            actor_profile_id: &self.actor_profile_id,
            idempotency_key: &self.idempotency_key,
            expected_revision: self.expected_revision,
            committed_revision: self.committed_revision,
            before_status: self.before_status,
            after_status: self.after_status,
            recorded_at: self.recorded_at,
            reason: self.reason.as_ref(),
            inter_office: self.inter_office.as_ref(),
        }
    }

    fn stored(&self) -> Transition {
        Transition {
            audit_id: self.audit_id,
            command_kind: self.command_kind,
            actor_kind: self.actor_kind,
            actor_profile_id: self.actor_profile_id.clone(),
            idempotency_key: self.idempotency_key.clone(),
            after_status: self.after_status,
            recorded_at: self.recorded_at,
            reason: self.reason.clone(),
            inter_office: self.inter_office.clone(),
        }
    }
}

/// Reads a statement of version 1.
///
/// # Errors
/// When the bytes are no such statement, and when a value that is no longer stored differs from the
/// one that follows from the rest: no difference is dropped silently.
pub(super) fn read(bytes: &[u8]) -> Result<Statement, DecodeError> {
    let old: OldStatement = codec::decode(bytes)?;
    let moved = old.transition_audits.iter().skip(1);
    let statement = Statement {
        opening: old.opening.into_present(),
        created_at: old.created_at,
        transitions: moved.map(OldAudit::stored).collect(),
        line_acknowledgements: old.line_acknowledgements,
    };
    let audits = old.transition_audits.iter().map(OldAudit::whole);
    let is_last = |last: TransitionAudit<'_>| {
        let stands = (last.after_status, last.committed_revision, last.recorded_at);
        stands == (old.status, old.revision, old.updated_at)
    };
    let is_same = statement.transition_audits().eq(audits)
        && statement.transition_audits().last().is_some_and(is_last);
    match is_same {
        true => Ok(statement),
        false => Err(DecodeError::Malformed(
            "the audits of a statement of version 1 are not a chain that leads to what it is"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::samples::acknowledged;
    use super::super::version_2::tests::old as version_2;
    use super::*;
    use crate::domain::resource::Resource as _;

    impl OldAudit {
        fn of(audit: TransitionAudit<'_>) -> Self {
            Self {
                audit_id: audit.audit_id,
                command_kind: audit.command_kind,
                actor_kind: audit.actor_kind,
                actor_profile_id: audit.actor_profile_id.into(),
                idempotency_key: audit.idempotency_key.into(),
                expected_revision: audit.expected_revision,
                committed_revision: audit.committed_revision,
                before_status: audit.before_status,
                after_status: audit.after_status,
                recorded_at: audit.recorded_at,
                reason: audit.reason.cloned(),
                inter_office: audit.inter_office.cloned(),
            }
        }
    }

    fn old(statement: &Statement) -> OldStatement {
        OldStatement {
            opening: version_2(&statement.opening),
            status: statement.status(),
            revision: statement.revision(),
            created_at: statement.created_at,
            updated_at: statement.updated_at(),
            transition_audits: statement.transition_audits().map(OldAudit::of).collect(),
            line_acknowledgements: statement.line_acknowledgements.clone(),
        }
    }

    #[test]
    fn a_statement_of_version_1_is_what_it_was_and_takes_less() {
        for moves in [0, 1] {
            let mut statement = acknowledged();
            statement.transitions.truncate(moves);
            let bytes = codec::encode(&old(&statement));
            assert_eq!(read(&bytes).unwrap(), statement, "{moves} moves");
            let now = codec::encode(&statement);
            assert!(now.len() + 50 < bytes.len(), "{} bytes", now.len());
        }
    }

    #[test]
    fn a_statement_of_version_1_whose_audits_do_not_lead_to_it_is_refused() {
        let whole = old(&acknowledged());
        let damages: [fn(&mut OldStatement); 12] = [
            |it| it.revision = Revision::FIRST,
            |it| it.status = StatementStatus::Settled,
            |it| it.updated_at = Timestamp::default(),
            |it| it.created_at = Timestamp::default(),
            |it| it.transition_audits.swap(0, 1),
            |it| it.transition_audits.clear(),
            |it| it.transition_audits[0].audit_id = Uuid::nil(),
            |it| it.transition_audits[0].reason = it.opening.message_to_branch.clone(),
            |it| it.transition_audits[0].after_status = StatementStatus::Reconciliation,
            |it| it.transition_audits[1].before_status = StatementStatus::Arrears,
            |it| it.transition_audits[1].expected_revision = Revision::NONE,
            |it| it.transition_audits[1].committed_revision = Revision::new(3),
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut damaged = whole.clone();
            damage(&mut damaged);
            let error = read(&codec::encode(&damaged)).unwrap_err().to_string();
            assert!(
                error.contains("are not a chain"),
                "damage {number}: {error}"
            );
        }
    }
}
