//! Headquarters, or a workflow, asks a branch for a settlement deposit: opens a statement.
//!
//! Resource: the new statement. Rejections, in the order tested: the actor may not ask, or is not
//! the one that the body names (403); the statement code is in use with other facts or is another
//! actor's (409). The same code with the same facts from the same actor under another key is a
//! replay.

use std::sync::Arc;

use super::body::StatementBody;
use super::state::may_request;
use super::statement::{
    DepositRequested, RemittanceAccountSnapshot, SettlementActorKind, Statement, StatementEvent,
    StatementKind,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{FaultCode, Nullable, Reader};
use crate::base::text::{BodyKey, BranchProfileId, Ident, Text};
use crate::base::time::Date;
use crate::domain::example::Example;
use crate::domain::index::{Index, IndexKey};
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The statement's code: a natural key, one statement to a code.
        pub statement_code: Ident = "statementCode",
        /// What it settles.
        pub statement_kind: StatementKind = "statementKind",
        /// The branch that is asked.
        pub branch_profile_id: BranchProfileId = "branchProfileId",
        /// First day of the period, which is part of it.
        pub settlement_period_start: Date = "settlementPeriodStart",
        /// Last day of the period, which is part of it too: the first day again for a period of one day.
        pub settlement_period_end: Date = "settlementPeriodEnd",
        /// Where to remit.
        pub remittance_account_snapshot: RemittanceAccountSnapshot = "remittanceAccountSnapshot",
        /// The actor's kind.
        pub actor_kind: SettlementActorKind = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// For the branch to read.
        pub message_to_branch: Nullable<Text> = "messageToBranch" personal FreeText,
        /// For the head office alone.
        pub head_office_private_memo: Nullable<Text> = "headOfficePrivateMemo" personal FreeText,
    }
    rules period_in_order(Fields)
}

fn period_in_order(at: &mut Reader, fields: &Fields<'_>) {
    if let (Some(start), Some(end)) = (fields.settlement_period_start, fields.settlement_period_end)
        && start > end
    {
        at.fault_at::<()>("settlementPeriodEnd", FaultCode::OutOfRange);
    }
}

rejections! {
    /// Why no deposit is requested.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters or a system workflow, named in the body as in its token, may request a settlement deposit.",
        /// The code is in use.
        StatementCodeConflict = Conflict "statement_code_conflict" ["statementCode"]
            "A statement with this code exists with other content.",
        /// It was done before under a key that is forgotten by now; the engine finds that.
        FirstAnswerForgotten = Conflict "first_answer_forgotten" []
            "This was done before, under an idempotency key that is forgotten by now: read the resource.",
    }
}

/// The operation.
pub struct RequestDeposit;

fn code(command: &Command) -> IndexKey {
    IndexKey::new(Index::StatementCode, &[&command.statement_code])
}

fn asked(command: &Command, context: &Context<'_>) -> DepositRequested {
    let actor = context.actor;
    DepositRequested {
        statement_id: context.new_id,
        statement_code: command.statement_code.clone(),
        statement_kind: command.statement_kind,
        branch_profile_id: command.branch_profile_id.clone(),
        settlement_period_start: command.settlement_period_start,
        settlement_period_end: command.settlement_period_end,
        remittance_account_snapshot: command.remittance_account_snapshot.clone(),
        message_to_branch: command.message_to_branch.0.clone(),
        head_office_private_memo: command.head_office_private_memo.0.clone(),
        subject: actor.subject.clone(),
        actor_kind: command.actor_kind.kind(),
        other_profile_id: (*command.actor_profile_id != *actor.subject)
            .then(|| command.actor_profile_id.as_str().into()),
        idempotency_key: context.key.into(),
        other_audit_id: None,
    }
}

impl Operation for RequestDeposit {
    type Command = Command;
    type Resource = Statement;
    type Answer = StatementBody<'static>;

    const DOC: &'static str = module_doc!("request_deposit.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::HeadquartersAdministrator,
        body: r#"{
  "statementCode": "statement-code-1",
  "statementKind": "head_office_to_branch",
  "branchProfileId": "branch-seoul-1",
  "settlementPeriodStart": "2026-10-01",
  "settlementPeriodEnd": "2026-10-31",
  "remittanceAccountSnapshot": {
    "remittanceAccountSnapshotId": "remittance-1",
    "bankName": "한빛은행",
    "accountHolder": "Carebook",
    "accountNumberDisplay": "110-***-000123",
    "capturedAt": "2026-11-01T09:00:00+09:00",
    "sourceReferenceKey": null
  },
  "actorKind": "headquarters_administrator",
  "actorProfileId": "headquarters-profile-1",
  "idempotencyKey": "key-1",
  "messageToBranch": "By Friday, please.",
  "headOfficePrivateMemo": "Late twice this year."
}"#,
        changed_value: ("/statementCode", r#""statement-code-2""#),
        unique_ids: &["statement-code-1"],
        id_in_response: "statement-code-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&[
            ActorKind::HeadquartersAdministrator,
            ActorKind::SystemWorkflow,
        ])
        .then(Reason::NotPermitted, |case| {
            case.by(ActorKind::BranchManager)
        })
        .then(Reason::StatementCodeConflict, |case| {
            case.done_before(|before| {
                before.set("/statementKind", "platform_to_branch");
            })
        })
        .then_by_engine(Reason::FirstAnswerForgotten)
    }

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        Some(Statement::KIND.key(&[context.new_id.to_string()]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn unique_keys(command: &Command, _: &Context<'_>) -> Vec<IndexKey> {
        vec![code(command)]
    }

    fn decide(
        _: Option<&Statement>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Statement>, Rejection> {
        let actor = context.actor;
        let opening = asked(command, context);
        let standing = context.view.named::<Statement>(code(command));
        // The subject's own command is replayed, even if the token has lost its authority since.
        if let Some(standing) = &standing
            && standing.opening.says_the_same_as(&opening)
        {
            return Ok(Decision::ReplayOf(standing.opening.idempotency_key.clone()));
        }
        if !may_request(actor) || !command.actor_kind.is_of(actor, &command.actor_profile_id) {
            return Err(Reason::NotPermitted.into());
        }
        if standing.is_some() {
            return Err(Reason::StatementCodeConflict.into());
        }
        let event = StatementEvent::DepositRequested(Arc::new(opening));
        let commit = Commit::new(None, event, context.at);
        let body = to_json(&StatementBody::new(&commit.next, actor));
        commit.answer(body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{deposit_request, with_profile, workflow};

    use crate::base::actor::ActorKind;
    use crate::domain::scenario::{Scenario, Then, actor, faults, headquarters, with, without};

    const NAME: &str = "request_deposit";

    fn ask(body: &Value) -> Then {
        Scenario::new().when(NAME, &[], body)
    }

    #[test]
    fn a_statement_is_opened_and_answered_whole() {
        assert_eq!(
            ask(&deposit_request()).committed(),
            json!({
                "statementId": "01990000-0000-7000-8000-000000000001",
                "statementCode": "HQ-2026-10",
                "statementKind": "head_office_to_branch",
                "branchProfileId": "branch-1",
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": "2026-10-31",
                "status": "awaiting_branch_deposit",
                "revision": 1,
                "remittanceAccountSnapshot": {
                    "remittanceAccountSnapshotId": "account-snapshot-1",
                    "bankName": "한국은행",
                    "accountHolder": "Carebook",
                    "accountNumberDisplay": "***-**-1234",
                    "capturedAt": "2026-11-01T00:00:00.000Z",
                    "sourceReferenceKey": "account-1@3",
                },
                "requestedByActorProfileId": "workflow",
                "createdAt": "2026-11-20T12:00:00.000Z",
                "updatedAt": "2026-11-20T12:00:00.000Z",
                "messageToBranch": "By Friday, please.",
                "headOfficePrivateMemo": "Late twice this year.",
                "transitionAudits": [{
                    "auditId": "01990000-0000-7000-80ff-fffffffffffe",
                    "commandKind": "request_deposit",
                    "actorKind": "system_workflow",
                    "actorProfileId": "workflow",
                    "idempotencyKey": "request-1",
                    "expectedRevision": 0,
                    "committedRevision": 1,
                    "beforeStatus": "awaiting_branch_deposit",
                    "afterStatus": "awaiting_branch_deposit",
                    "recordedAt": "2026-11-20T12:00:00.000Z",
                    "reason": null,
                    "resultMessage": null,
                    "metadata": {},
                }],
                "lineAcknowledgements": [],
                "manualRows": [],
            })
        );
    }

    #[test]
    fn headquarters_asks_under_its_profile_and_may_leave_out_what_may_be_null() {
        let body = with(
            &without(
                &deposit_request(),
                "remittanceAccountSnapshot.sourceReferenceKey",
            ),
            &[
                ("actorKind", json!("headquarters_administrator")),
                ("actorProfileId", json!("hq-1")),
                ("messageToBranch", Value::Null),
                ("headOfficePrivateMemo", Value::Null),
            ],
        );
        let mut scenario = Scenario::new();
        let statement = scenario
            .acting(headquarters())
            .when(NAME, &[], &body)
            .committed();
        assert_eq!(statement["requestedByActorProfileId"], "hq-1");
        assert_eq!(
            statement["transitionAudits"][0]["actorKind"],
            "headquarters_administrator"
        );
        assert_eq!(statement["transitionAudits"][0]["actorProfileId"], "hq-1");
        let account = &statement["remittanceAccountSnapshot"];
        assert_eq!(account.get("sourceReferenceKey"), Some(&Value::Null));
        assert_eq!(statement.get("messageToBranch"), Some(&Value::Null));
        assert_eq!(statement.get("headOfficePrivateMemo"), Some(&Value::Null));
        assert!(scenario.outbox.is_empty());
    }

    #[test]
    fn the_body_must_name_the_actor_of_the_token() {
        let other_kind = with(
            &deposit_request(),
            &[("actorKind", json!("headquarters_administrator"))],
        );
        assert_eq!(ask(&other_kind).code(), "permission_denied");
        let other_profile = with(
            &deposit_request(),
            &[("actorProfileId", json!("workflow-2"))],
        );
        assert_eq!(ask(&other_profile).code(), "permission_denied");
        // Where the token names a profile, the subject does not count as one.
        let mut scenario = Scenario::new();
        scenario.acting(with_profile(workflow(), "profile-1"));
        assert_eq!(
            scenario.when(NAME, &[], &deposit_request()).code(),
            "permission_denied"
        );
        let own_profile = with(
            &deposit_request(),
            &[("actorProfileId", json!("profile-1"))],
        );
        scenario.when(NAME, &[], &own_profile).committed();
    }

    #[test]
    fn the_same_facts_under_another_key_are_a_replay_of_the_first() {
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        let same = with(
            &deposit_request(),
            &[
                ("idempotencyKey", json!("request-2")),
                // The same point in time in another spelling.
                (
                    "remittanceAccountSnapshot.capturedAt",
                    json!("2026-11-01T00:00:00.0004Z"),
                ),
            ],
        );
        for _ in 0..2 {
            let then = scenario.when(NAME, &[], &same);
            assert!(
                matches!(&then, Then::ReplayOf(key) if key == "request-1"),
                "{then:?}"
            );
        }
    }

    #[test]
    fn the_same_code_with_any_other_fact_is_a_conflict() {
        let account = "remittanceAccountSnapshot";
        let changes = [
            ("statementKind".to_owned(), json!("platform_to_branch")),
            ("branchProfileId".to_owned(), json!("branch-2")),
            ("settlementPeriodStart".to_owned(), json!("2026-10-02")),
            ("settlementPeriodEnd".to_owned(), json!("2026-10-30")),
            ("messageToBranch".to_owned(), Value::Null),
            ("headOfficePrivateMemo".to_owned(), json!("Late once.")),
            (
                format!("{account}.remittanceAccountSnapshotId"),
                json!("account-snapshot-2"),
            ),
            (format!("{account}.bankName"), json!("국민은행")),
            (format!("{account}.accountHolder"), json!("carebook")),
            (
                format!("{account}.accountNumberDisplay"),
                json!("***-**-1235"),
            ),
            (
                format!("{account}.capturedAt"),
                json!("2026-11-01T00:00:00.001Z"),
            ),
            (format!("{account}.sourceReferenceKey"), Value::Null),
        ];
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        for (path, value) in changes {
            let other = with(
                &deposit_request(),
                &[(&path, value), ("idempotencyKey", json!("request-2"))],
            );
            let code = scenario.when(NAME, &[], &other).code();
            assert_eq!(code, "statement_code_conflict", "{path}");
        }
    }

    #[test]
    fn a_used_code_under_another_profile_or_actor_kind_is_a_conflict() {
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        let under_profile = with(&deposit_request(), &[("actorProfileId", json!("hq-1"))]);
        scenario.acting(with_profile(workflow(), "hq-1"));
        let code = scenario.when(NAME, &[], &under_profile).code();
        assert_eq!(code, "statement_code_conflict");
        let as_headquarters = with(
            &deposit_request(),
            &[("actorKind", json!("headquarters_administrator"))],
        );
        scenario.acting(actor(ActorKind::HeadquartersAdministrator, "workflow"));
        let code = scenario.when(NAME, &[], &as_headquarters).code();
        assert_eq!(code, "statement_code_conflict");
    }

    #[test]
    fn another_actors_code_is_a_conflict_though_the_facts_are_the_same() {
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        let second = with_profile(actor(ActorKind::SystemWorkflow, "workflow-2"), "workflow");
        let code = scenario
            .acting(second)
            .when(NAME, &[], &deposit_request())
            .code();
        assert_eq!(code, "statement_code_conflict");
    }

    #[test]
    fn a_period_has_a_day_at_least_and_its_order_is_told_with_other_faults() {
        let of_a_day = [("settlementPeriodEnd", json!("2026-10-01"))];
        ask(&with(&deposit_request(), &of_a_day)).committed();
        let backwards = [
            ("statementKind", json!("other")),
            ("settlementPeriodEnd", json!("2026-09-30")),
        ];
        assert_eq!(
            ask(&with(&deposit_request(), &backwards)).faults(),
            faults([
                ("statementKind", "not_allowed"),
                ("settlementPeriodEnd", "out_of_range"),
            ])
        );
    }
}
