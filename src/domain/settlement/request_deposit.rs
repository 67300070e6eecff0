//! Headquarters, or a workflow, asks a branch for a settlement deposit: opens a statement.
//!
//! Resource: the new statement. Rejections, in the order tested: the actor may not ask, or is not
//! the one that the body names (403); the statement code stands with other facts or is another
//! actor's (409). The same code with the same facts from the same actor under another key is a
//! replay.

use super::body::StatementBody;
use super::state::{
    DepositRequested, RemittanceAccountSnapshot, SettlementActorKind, Statement, StatementEvent,
    StatementKind, may_request,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{FaultCode, Nullable, Reader};
use crate::base::text::{BodyKey, Ident, Text};
use crate::base::time::Date;
use crate::domain::example::Example;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{Index, IndexKey, Resource};
use crate::{json_object, rejections};

json_object! {
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
        /// The idempotency key.
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
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters or a system workflow, named in the body as in its token, may request a settlement deposit.",
        /// The code stands.
        StatementCodeConflict = Conflict "statement_code_conflict" ["statementCode"]
            "A statement with this code stands with other facts.",
        /// It was done before under a key that is forgotten by now; the engine finds that.
        FirstAnswerForgotten = Conflict "first_answer_forgotten" []
            "This was done before, under a key that is forgotten by now: read what stands.",
    }
}

/// The operation.
pub struct RequestDeposit;

fn code(command: &Command) -> IndexKey {
    IndexKey::new(Index::StatementCode, &[&command.statement_code])
}

impl Operation for RequestDeposit {
    type Command = Command;
    type Resource = Statement;

    const REJECTIONS: &'static [(Class, &'static str)] = Reason::TABLE;

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
        other: ("/statementCode", r#""statement-code-2""#),
        own: &["statement-code-1"],
        echoed: "statement-code-1",
        ..Example::NEW
    };

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        Some(Statement::KIND.key(&[context.born.to_string()]))
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
        if !may_request(actor) || !command.actor_kind.is_of(actor, &command.actor_profile_id) {
            return Err(Reason::NotPermitted.into());
        }
        if let Some(standing) = context.view.named::<Statement>(code(command)) {
            let opening = standing.opening;
            if opening.subject != actor.subject || opening.fingerprint != context.fingerprint {
                return Err(Reason::StatementCodeConflict.into());
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
            audit_id: context.ids.id(),
        }));
        let commit = Commit::new(None, event, context.at);
        let body = to_json(&StatementBody::new(&commit.next, actor));
        commit.answer(body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{
        deposit_request, faults, headquarters, with, with_profile, without, workflow,
    };
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::domain::scenario::{Scenario, Then, actor};

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
                    "auditId": "01990000-0000-7000-8000-000000000002",
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
    fn every_kind_of_statement_may_be_opened_over_a_period_of_a_day_or_more() {
        for kind in [
            "head_office_to_branch",
            "platform_to_branch",
            "inter_office_service_handoff",
        ] {
            let body = with(
                &deposit_request(),
                &[
                    ("statementKind", json!(kind)),
                    ("settlementPeriodEnd", json!("2026-10-01")),
                ],
            );
            let statement = ask(&body).committed();
            assert_eq!(statement["statementKind"], kind);
            assert_eq!(statement["settlementPeriodEnd"], "2026-10-01");
        }
    }

    #[test]
    fn others_than_headquarters_and_workflows_may_not_ask() {
        for kind in ActorKind::ALL {
            let mut scenario = Scenario::new();
            let mut body = with(&deposit_request(), &[("actorProfileId", json!("somebody"))]);
            if SettlementActorKind::parse(kind.as_str()).is_some() {
                body["actorKind"] = json!(kind);
            }
            let then = scenario
                .acting(actor(kind, "somebody"))
                .when(NAME, &[], &body);
            match kind {
                ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow => {
                    then.committed();
                }
                _ => {
                    let refusal = then.refusal();
                    assert_eq!(refusal.class, Class::Forbidden, "{kind}");
                    assert_eq!(refusal.code, "permission_denied", "{kind}");
                }
            }
        }
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
        // Where the token names a profile, the subject does not stand in for it.
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
    fn a_code_stands_for_one_set_of_facts() {
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        for (member, value) in [
            ("statementKind", json!("platform_to_branch")),
            ("branchProfileId", json!("branch-2")),
            ("settlementPeriodStart", json!("2026-10-02")),
            ("settlementPeriodEnd", json!("2026-10-30")),
            ("remittanceAccountSnapshot.bankName", json!("신한은행")),
            ("remittanceAccountSnapshot.sourceReferenceKey", Value::Null),
            ("messageToBranch", Value::Null),
            ("headOfficePrivateMemo", json!("Never late.")),
        ] {
            let changes = [(member, value), ("idempotencyKey", json!("request-2"))];
            let refusal = scenario
                .when(NAME, &[], &with(&deposit_request(), &changes))
                .refusal();
            assert_eq!(refusal.class, Class::Conflict, "{member}");
            assert_eq!(refusal.code, "statement_code_conflict", "{member}");
            assert_eq!(refusal.conflicting, ["statementCode"], "{member}");
        }
        let id = "01990000-0000-7000-8000-000000000001";
        let statement: Statement = scenario.state(&[id]).unwrap();
        assert_eq!(statement.revision.number(), 1);
        let other_code = [
            ("statementCode", json!("HQ-2026-11")),
            ("idempotencyKey", json!("request-2")),
        ];
        scenario
            .when(NAME, &[], &with(&deposit_request(), &other_code))
            .committed();
    }

    #[test]
    fn the_same_facts_under_another_key_are_a_replay_of_the_first() {
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        let same = with(
            &deposit_request(),
            &[
                ("idempotencyKey", json!("request-2")),
                // The same point in time, written otherwise.
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
    fn who_may_not_ask_does_not_learn_that_a_code_stands() {
        let mut scenario = Scenario::new();
        scenario.when(NAME, &[], &deposit_request()).committed();
        scenario.acting(actor(ActorKind::BranchManager, "workflow"));
        assert_eq!(
            scenario.when(NAME, &[], &deposit_request()).code(),
            "permission_denied"
        );
    }

    #[test]
    fn faults_of_shape_name_their_place() {
        let key = "k".repeat(513);
        let note = "가".repeat(4_001);
        for (path, value, code) in [
            ("statementCode", json!(""), "too_short"),
            ("statementCode", json!(" "), "blank"),
            ("statementCode", json!(key), "too_long"),
            ("statementKind", json!("branch_to_branch"), "not_allowed"),
            ("statementKind", json!(3), "wrong_type"),
            ("branchProfileId", Value::Null, "wrong_type"),
            ("settlementPeriodStart", json!("2026-02-30"), "pattern"),
            (
                "settlementPeriodEnd",
                json!("2026-10-31T00:00:00Z"),
                "pattern",
            ),
            ("settlementPeriodEnd", json!("2026-09-30"), "out_of_range"),
            ("remittanceAccountSnapshot", Value::Null, "wrong_type"),
            (
                "remittanceAccountSnapshot.remittanceAccountSnapshotId",
                json!(""),
                "too_short",
            ),
            ("remittanceAccountSnapshot.bankName", json!(""), "too_short"),
            (
                "remittanceAccountSnapshot.accountHolder",
                json!(note),
                "too_long",
            ),
            (
                "remittanceAccountSnapshot.accountNumberDisplay",
                json!(1234),
                "wrong_type",
            ),
            (
                "remittanceAccountSnapshot.capturedAt",
                json!("2026-11-01"),
                "pattern",
            ),
            (
                "remittanceAccountSnapshot.sourceReferenceKey",
                json!(""),
                "too_short",
            ),
            ("actorKind", json!("mother"), "not_allowed"),
            ("actorProfileId", json!(""), "too_short"),
            ("idempotencyKey", json!(""), "too_short"),
            ("messageToBranch", json!(""), "too_short"),
            ("headOfficePrivateMemo", json!(""), "too_short"),
            ("headOfficePrivateMemo", json!(note), "too_long"),
        ] {
            let then = ask(&with(&deposit_request(), &[(path, value)]));
            assert_eq!(then.faults(), faults([(path, code)]));
        }
    }

    #[test]
    fn every_member_must_be_there_but_the_source_of_the_account() {
        let body = deposit_request();
        for member in body.as_object().unwrap().keys() {
            assert_eq!(
                ask(&without(&body, member)).faults(),
                faults([(member, "required")])
            );
        }
        for member in body["remittanceAccountSnapshot"]
            .as_object()
            .unwrap()
            .keys()
        {
            let path = format!("remittanceAccountSnapshot.{member}");
            let then = ask(&without(&body, &path));
            if member == "sourceReferenceKey" {
                then.committed();
            } else {
                assert_eq!(then.faults(), faults([(&path, "required")]));
            }
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let mut body = with(
            &without(&deposit_request(), "headOfficePrivateMemo"),
            &[
                ("statementKind", json!("other")),
                ("settlementPeriodEnd", json!("2026-09-30")),
                ("remittanceAccountSnapshot.bankName", json!(null)),
            ],
        );
        body["revision"] = json!(1);
        assert_eq!(
            ask(&body).faults(),
            faults([
                ("revision", "unknown_field"),
                ("statementKind", "not_allowed"),
                ("remittanceAccountSnapshot.bankName", "wrong_type"),
                ("headOfficePrivateMemo", "required"),
                ("settlementPeriodEnd", "out_of_range"),
            ])
        );
    }

    #[test]
    fn the_fingerprint_never_changes_and_knows_neither_the_key_nor_absent_from_null() {
        let scenario = Scenario::new();
        let of = |body: &Value| scenario.fingerprint(NAME, &[], body);
        let body = deposit_request();
        assert_eq!(
            of(&body).to_hex(),
            "d6f0f0eeac62777c246390044f2fd667cd274d3d3f003642a1da627667361844"
        );
        assert_eq!(
            of(&with(&body, &[("idempotencyKey", json!("another"))])),
            of(&body)
        );
        let path = "remittanceAccountSnapshot.sourceReferenceKey";
        assert_eq!(
            of(&without(&body, path)),
            of(&with(&body, &[(path, Value::Null)]))
        );
        assert_ne!(of(&without(&body, path)), of(&body));
    }
}
