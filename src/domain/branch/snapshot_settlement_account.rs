//! Headquarters, its finance operators, or a manager of the branch snapshot a verified settlement
//! account of the branch for a settlement statement.
//!
//! Resource: the snapshot, by the identifier that its taker gives it. Rejections, in the order
//! tested: the actor may not settle for the branch (403); profile or account are unknown, or the
//! account is another branch's, the account's revision is stale, the account is not verified, the
//! snapshot's identifier is in use (409). The same identifier with the same facts from the same
//! subject under another key is a replay, whatever has become of the account since.

use super::account_snapshot::{
    AccountSnapshot, AccountSnapshotEvent, SnapshotBody, SnapshotTaken, may_settle,
};
use super::office_profile::BranchOfficeProfile;
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{BodyKey, BranchProfileId, Ident, StatementId};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::reference::kinds::settlement_account::{
    SettlementAccountFact, VerificationState,
};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The snapshot's identifier: a natural key, one snapshot to an identifier.
        pub snapshot_id: Ident = "snapshotId",
        /// The statement; it need not exist.
        pub settlement_statement_id: StatementId = "settlementStatementId",
        /// The branch.
        pub branch_office_profile_id: BranchProfileId = "branchOfficeProfileId",
        /// The account.
        pub settlement_account_id: Ident = "settlementAccountId",
        /// The account's revision as the actor saw it.
        pub expected_settlement_account_revision: i64 = "expectedSettlementAccountRevision",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
    }
}

rejections! {
    /// Why no snapshot is taken.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters, its finance operators and managers of the branch may settle for it.",
        /// It was done before under a key that is forgotten by now; the engine finds that.
        FirstAnswerForgotten = Conflict "first_answer_forgotten" []
            "This was done before, under an idempotency key that is forgotten by now: read the resource.",
        /// Profile or account; the fields are named where they are found.
        SettlementAccountConflict = Conflict "settlement_account_conflict" ["settlementAccountId"]
            "There is no such settlement account of this branch.",
        /// The account's revision is stale.
        RevisionStale = Conflict "revision_stale" ["expectedSettlementAccountRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// The account is not known to be the branch's.
        SettlementAccountUnverified = Conflict "settlement_account_unverified"
            ["settlementAccountId"]
            "The settlement account is not verified.",
        /// The identifier is in use.
        SnapshotIdConflict = Conflict "snapshot_id_conflict" ["snapshotId"]
            "A snapshot with this identifier already exists with other facts, or is another actor's.",
    }
}

/// The operation.
pub struct SnapshotSettlementAccount;

impl Operation for SnapshotSettlementAccount {
    type Command = Command;
    type Resource = AccountSnapshot;
    type Answer = SnapshotBody<'static>;

    const DOC: &'static str = module_doc!("snapshot_settlement_account.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::BranchManager,
        body: r#"{
  "snapshotId": "snapshot-1",
  "settlementStatementId": "statement-1",
  "branchOfficeProfileId": "branch-seoul-1",
  "settlementAccountId": "settlement-account-1",
  "expectedSettlementAccountRevision": 1,
  "idempotencyKey": "key-1"
}"#,
        changed_value: ("/settlementStatementId", r#""statement-2""#),
        needs_facts: &[("settlement-account", "settlement-account-1")],
        unique_ids: &["settlement-account-1", "snapshot-1", "statement-1"],
        id_in_response: "snapshot-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use crate::domain::reference::Fact;
        Ladder::of(&[
            ActorKind::BranchManager,
            ActorKind::HeadquartersAdministrator,
            ActorKind::HeadquartersFinanceOperator,
        ])
        .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
        .then_by_engine(Reason::FirstAnswerForgotten)
        .then(Reason::SettlementAccountConflict, |case| {
            case.set("/settlementAccountId", "unknown")
        })
        .then(Reason::RevisionStale, |case| {
            case.set("/expectedSettlementAccountRevision", 9)
        })
        .then(Reason::SettlementAccountUnverified, |case| {
            case.alter(
                "settlement-account-1",
                |account: &mut Fact<SettlementAccountFact>| {
                    account.facts.verification_state = VerificationState::Pending;
                },
            )
        })
        .then(Reason::SnapshotIdConflict, |case| {
            case.done_before(|before| {
                before.set("/settlementStatementId", "statement-2");
            })
        })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(AccountSnapshot::KIND.key(&[&command.snapshot_id]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&AccountSnapshot>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<AccountSnapshot>, Rejection> {
        let actor = context.actor;
        // The subject's own command is replayed, even if the token has lost its authority since.
        if let Some(AccountSnapshot { taken, .. }) = state
            && taken.subject == actor.subject
            && taken.fingerprint == context.fingerprint
        {
            return Ok(Decision::ReplayOf(taken.idempotency_key.clone()));
        }
        if !may_settle(actor, &command.branch_office_profile_id) {
            return Err(Reason::NotPermitted.into());
        }
        let branch = &command.branch_office_profile_id;
        let profile = context.view.get::<BranchOfficeProfile>(&[branch]);
        let account = context
            .view
            .fact::<SettlementAccountFact>(&command.settlement_account_id);
        let account = account.filter(|found| found.facts.branch_office_profile_id == *branch);
        let mut at_fault = Vec::new();
        if profile.is_none() {
            at_fault.push("branchOfficeProfileId");
        }
        if account.is_none() {
            at_fault.push("settlementAccountId");
        }
        let (Some(profile), Some(account)) = (profile, account) else {
            return Err(Rejection::from(Reason::SettlementAccountConflict).at(&at_fault));
        };
        if command.expected_settlement_account_revision != account.revision.number() {
            return Err(Reason::RevisionStale.into());
        }
        if account.facts.verification_state != VerificationState::Verified {
            return Err(Reason::SettlementAccountUnverified.into());
        }
        if state.is_some() {
            return Err(Reason::SnapshotIdConflict.into());
        }
        let facts = account.facts;
        let event = AccountSnapshotEvent::Taken(Box::new(SnapshotTaken {
            snapshot_id: command.snapshot_id.clone(),
            settlement_statement_id: command.settlement_statement_id.clone(),
            branch_office_profile_id: branch.clone(),
            branch_office_profile_revision: profile.revision,
            settlement_account_id: command.settlement_account_id.clone(),
            settlement_account_revision: account.revision,
            purpose: facts.purpose,
            bank_name: facts.bank_name,
            account_holder: facts.account_holder,
            masked_account_reference: facts.masked_account_reference,
            verification_state: facts.verification_state,
            effective_from: facts.effective_from,
            effective_until: facts.effective_until,
            subject: actor.subject.clone(),
            idempotency_key: context.key.into(),
            fingerprint: context.fingerprint,
        }));
        let commit = Commit::new(None, event, context.at);
        let body = to_json(&SnapshotBody::new(&commit.next));
        commit.answer(body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::read_account_snapshot::samples::{account, profile, ready, snapshot};
    use super::super::samples::created;

    use crate::domain::scenario::{Scenario, Then, assert_conflict, headquarters, with, without};

    const NAME: &str = "snapshot_settlement_account";

    fn ask(body: &Value) -> Then {
        ready().when(NAME, &[], body)
    }

    #[test]
    fn the_account_is_copied_with_the_revisions_that_it_rests_on() {
        let mut scenario = ready();
        let answer = scenario.when(NAME, &[], &snapshot()).committed();
        assert_eq!(
            answer,
            json!({
                "snapshotId": "snapshot-1",
                "settlementStatementId": "statement-1",
                "branchOfficeProfileId": "branch-1",
                "branchOfficeProfileRevision": 4,
                "settlementAccountId": "account-1",
                "settlementAccountRevision": 2,
                "purpose": "settlement",
                "bankName": "한국은행",
                "accountHolder": "서울산후케어",
                "maskedAccountReference": "***-**-1234",
                "verificationState": "verified",
                "effectiveFrom": "2026-01-01",
                "effectiveUntil": "2026-12-31",
                "snapshotForStatementAt": "2026-11-20T12:00:00.000Z",
                "snapshotForStatementByActorId": "manager-1",
                "idempotencyKey": "key-1",
            })
        );
        assert!(scenario.outbox.is_empty());
    }

    #[test]
    fn an_account_without_an_end_is_copied_so() {
        let mut scenario = ready();
        let facts = without(&account("branch-1", "verified"), "effectiveUntil");
        scenario.fact("settlement-account", "account-1", 3, facts);
        let body = with(
            &snapshot(),
            &[("expectedSettlementAccountRevision", json!(3))],
        );
        let answer = scenario.when(NAME, &[], &body).committed();
        assert_eq!(answer.get("effectiveUntil"), Some(&Value::Null));
    }

    #[test]
    fn a_branch_that_was_created_here_may_be_settled_for() {
        let (mut scenario, branch) = created();
        let id = branch["branchId"].as_str().unwrap();
        scenario.fact(
            "settlement-account",
            "account-1",
            2,
            account(id, "verified"),
        );
        let body = with(&snapshot(), &[("branchOfficeProfileId", json!(id))]);
        let answer = scenario.when(NAME, &[], &body).committed();
        assert_eq!(answer["branchOfficeProfileRevision"], 1);
    }

    #[test]
    fn an_unknown_or_foreign_account_is_a_conflict_before_a_stale_revision() {
        for other in ["account-9", "account-2"] {
            let body = with(
                &snapshot(),
                &[
                    ("settlementAccountId", json!(other)),
                    ("expectedSettlementAccountRevision", json!(9)),
                ],
            );
            assert_conflict(
                ask(&body),
                "settlement_account_conflict",
                &["settlementAccountId"],
            );
        }
    }

    #[test]
    fn a_profile_that_is_unknown_is_a_conflict() {
        let mut scenario = Scenario::new();
        scenario.acting(headquarters());
        let both = ["branchOfficeProfileId", "settlementAccountId"];
        let then = scenario.when(NAME, &[], &snapshot());
        assert_conflict(then, "settlement_account_conflict", &both);
        let facts = account("branch-1", "verified");
        scenario.fact("settlement-account", "account-1", 2, facts);
        let then = scenario.when(NAME, &[], &snapshot());
        assert_conflict(then, "settlement_account_conflict", &both[..1]);
        scenario.fact("branch-office-profile", "branch-1", 1, profile());
        scenario.when(NAME, &[], &snapshot()).committed();
    }

    #[test]
    fn an_unverified_account_is_reported_before_an_identifier_in_use() {
        let mut scenario = ready();
        scenario.when(NAME, &[], &snapshot()).committed();
        for (revision, state) in [(3, "pending"), (4, "rejected")] {
            let facts = account("branch-1", state);
            scenario.fact("settlement-account", "account-1", revision, facts);
            let body = with(
                &snapshot(),
                &[
                    ("expectedSettlementAccountRevision", json!(revision)),
                    ("idempotencyKey", json!("key-2")),
                ],
            );
            assert_conflict(
                scenario.when(NAME, &[], &body),
                "settlement_account_unverified",
                &["settlementAccountId"],
            );
        }
    }

    #[test]
    fn an_identifier_stands_for_one_set_of_facts_of_one_subject() {
        let mut scenario = ready();
        let first = scenario.when(NAME, &[], &snapshot()).committed();
        let other_statement = with(
            &snapshot(),
            &[
                ("settlementStatementId", json!("statement-2")),
                ("idempotencyKey", json!("key-2")),
            ],
        );
        let then = scenario.when(NAME, &[], &other_statement);
        assert_conflict(then, "snapshot_id_conflict", &["snapshotId"]);
        scenario.acting(headquarters());
        let then = scenario.when(NAME, &[], &snapshot());
        assert_conflict(then, "snapshot_id_conflict", &["snapshotId"]);
        let path = [("snapshotId", "snapshot-1")];
        let (_, read) = scenario.read("read_account_snapshot", &path).unwrap();
        assert_eq!(read, first);
        let other_id = with(&snapshot(), &[("snapshotId", json!("snapshot-2"))]);
        scenario.when(NAME, &[], &other_id).committed();
    }

    #[test]
    fn the_same_facts_under_another_key_replay_whatever_the_account_became() {
        let mut scenario = ready();
        scenario.when(NAME, &[], &snapshot()).committed();
        let facts = account("branch-1", "rejected");
        scenario.fact("settlement-account", "account-1", 3, facts);
        let again = with(&snapshot(), &[("idempotencyKey", json!("key-2"))]);
        for _ in 0..2 {
            let then = scenario.when(NAME, &[], &again);
            assert!(
                matches!(&then, Then::ReplayOf(key) if key == "key-1"),
                "{then:?}"
            );
        }
    }
}
