//! Headquarters, a workflow or a branch's manager asks for an export of settlement records: opens
//! a data-room request.
//!
//! Resource: the new request. Rejections, in the order tested: the actor may not ask for this
//! scope, or is not the one that the body names (403); the request code is in use with other facts
//! or is another actor's (409). The same code with the same facts from the same actor under another
//! key is a replay.

use std::sync::Arc;

use super::data_room::{
    DataRoomBody, DataRoomEvent, DataRoomOpened, DataRoomRequest, DataRoomScope, may_open,
};
use super::statement::SettlementActorKind;
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{BodyKey, Ident};
use crate::domain::example::Example;
use crate::domain::index::IndexKey;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The data-room request's code: a natural key, one request to a code.
        pub request_code: Ident = "requestCode",
        /// What is asked for.
        pub scope: DataRoomScope = "scope",
        /// The actor's kind.
        pub actor_kind: SettlementActorKind = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
    }
}

rejections! {
    /// Why no request is opened.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters, a system workflow, or a manager of the scope's branch, named in the body as in the token, may open a data-room request.",
        /// The code is in use.
        RequestCodeConflict = Conflict "request_code_conflict" ["requestCode"]
            "A data-room request with this code already exists with other facts.",
        /// It was done before under a key that is forgotten by now; the engine finds that.
        FirstAnswerForgotten = Conflict "first_answer_forgotten" []
            "This was done before, under an idempotency key that is forgotten by now: read the resource.",
    }
}

/// The operation.
pub struct OpenDataRoomRequest;

impl Operation for OpenDataRoomRequest {
    type Command = Command;
    type Resource = DataRoomRequest;
    type Answer = DataRoomBody<'static>;

    const DOC: &'static str = module_doc!("open_data_room_request.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::HeadquartersAdministrator,
        body: r#"{
  "requestCode": "request-code-1",
  "scope": {
    "collection": "settlement_lines",
    "settlementPeriodStart": "2026-10-01",
    "settlementPeriodEnd": "2026-10-31",
    "branchProfileId": "branch-seoul-1",
    "externalRecipientCode": null,
    "sourceDatasetRevision": 1,
    "sourceEvidenceKeys": ["evidence-1"]
  },
  "actorKind": "headquarters_administrator",
  "actorProfileId": "headquarters-profile-1",
  "idempotencyKey": "key-1"
}"#,
        changed_value: ("/requestCode", r#""request-code-2""#),
        unique_ids: &["request-code-1"],
        id_in_response: "request-code-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&[
            ActorKind::BranchManager,
            ActorKind::HeadquartersAdministrator,
            ActorKind::SystemWorkflow,
        ])
        .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
        .then(Reason::RequestCodeConflict, |case| {
            case.done_before(|before| {
                before.set("/scope/sourceDatasetRevision", 2);
            })
        })
        .then_by_engine(Reason::FirstAnswerForgotten)
    }

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        Some(DataRoomRequest::KIND.key(&[context.new_id.to_string()]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn unique_keys(command: &Command, _: &Context<'_>) -> Vec<IndexKey> {
        vec![DataRoomRequest::code(&command.request_code)]
    }

    fn decide(
        _: Option<&DataRoomRequest>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<DataRoomRequest>, Rejection> {
        let actor = context.actor;
        let code = DataRoomRequest::code(&command.request_code);
        let standing = context.view.named::<DataRoomRequest>(code);
        // A replay is its subject's, whatever the token has lost since.
        if let Some(DataRoomRequest { opening, .. }) = &standing
            && opening.subject == actor.subject
            && opening.fingerprint == context.fingerprint
        {
            return Ok(Decision::ReplayOf(opening.idempotency_key.clone()));
        }
        if !may_open(actor, &command.scope)
            || !command.actor_kind.is_of(actor, &command.actor_profile_id)
        {
            return Err(Reason::NotPermitted.into());
        }
        if standing.is_some() {
            return Err(Reason::RequestCodeConflict.into());
        }
        let event = DataRoomEvent::Opened(Arc::new(DataRoomOpened {
            request_id: context.new_id,
            request_code: command.request_code.clone(),
            scope: command.scope.clone(),
            subject: actor.subject.clone(),
            actor_kind: actor.kind,
            actor_profile_id: actor.profile_id().into(),
            idempotency_key: context.key.into(),
            fingerprint: context.fingerprint,
            action_id: context.ids.id(),
        }));
        let commit = Commit::new(None, event, context.at);
        let body = to_json(&DataRoomBody::new(&commit.next));
        commit.answer(body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::data_room::{EVIDENCE_KEYS_MAX, EvidenceKeys};
    use super::super::samples::{
        DATA_ROOM_ID, data_room_request, opened_data_room, with_profile, workflow,
    };
    use crate::base::actor::{Actor, ActorKind};
    use crate::base::json::read_straight;
    use crate::base::time::Timestamp;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, faults, headquarters, manager, with};

    const NAME: &str = "open_data_room_request";

    fn open(body: &Value) -> Then {
        Scenario::new().when(NAME, &[], body)
    }

    fn open_by(who: Actor, body: &Value) -> Then {
        Scenario::new().acting(who).when(NAME, &[], body)
    }

    /// The body as a manager with the profile `manager-1` sends it.
    fn by_manager(changes: &[(&str, Value)]) -> Value {
        let named = [
            ("actorKind", json!("branch_manager")),
            ("actorProfileId", json!("manager-1")),
        ];
        with(&with(&data_room_request(), &named), changes)
    }

    #[test]
    fn a_request_is_opened_and_answered_whole() {
        let mut scenario = Scenario::new();
        assert_eq!(
            scenario.when(NAME, &[], &data_room_request()).committed(),
            json!({
                "requestId": DATA_ROOM_ID,
                "requestCode": "EXPORT-2026-10",
                "scope": {
                    "collection": "settlement_lines",
                    "settlementPeriodStart": "2026-10-01",
                    "settlementPeriodEnd": "2026-10-31",
                    "branchProfileId": "branch-1",
                    "externalRecipientCode": "auditor-1",
                    "sourceDatasetRevision": 4,
                    "sourceEvidenceKeys": ["evidence-2", "evidence-1"],
                },
                "status": "open",
                "revision": 1,
                "requestedByActorProfileId": "workflow",
                "createdAt": "2026-11-20T12:00:00.000Z",
                "updatedAt": "2026-11-20T12:00:00.000Z",
                "artifacts": [],
                "actionJournal": [{
                    "actionId": "01990000-0000-7000-8000-000000000002",
                    "actionKind": "open_request",
                    "actorKind": "system_workflow",
                    "actorProfileId": "workflow",
                    "idempotencyKey": "export-1",
                    "expectedRevision": 0,
                    "committedRevision": 1,
                    "recordedAt": "2026-11-20T12:00:00.000Z",
                    "reason": null,
                    "artifactId": null,
                    "metadata": {},
                }],
            })
        );
        assert!(scenario.outbox.is_empty());
    }

    #[test]
    fn headquarters_may_ask_for_all_branches_and_for_nobody_outside() {
        let body = with(
            &data_room_request(),
            &[
                ("actorKind", json!("headquarters_administrator")),
                ("actorProfileId", json!("hq-1")),
                ("scope.branchProfileId", Value::Null),
                ("scope.externalRecipientCode", Value::Null),
            ],
        );
        let request = open_by(headquarters(), &body).committed();
        assert_eq!(request["scope"], body["scope"]);
        assert_eq!(request["requestedByActorProfileId"], "hq-1");
        let entry = &request["actionJournal"][0];
        assert_eq!(entry["actorKind"], "headquarters_administrator");
        assert_eq!(entry["actorProfileId"], "hq-1");
    }

    #[test]
    fn a_manager_asks_for_an_own_branch_alone() {
        let of_two = || {
            let mut of_two = with_profile(manager("user-9", "branch-7"), "manager-1");
            of_two.branch_profile_ids.push("branch-1".into());
            of_two
        };
        let request = open_by(of_two(), &by_manager(&[])).committed();
        assert_eq!(request["requestedByActorProfileId"], "manager-1");
        assert_eq!(request["actionJournal"][0]["actorKind"], "branch_manager");
        for branch in [json!("branch-2"), json!("branch"), Value::Null] {
            let body = by_manager(&[("scope.branchProfileId", branch.clone())]);
            let refusal = open_by(of_two(), &body).refusal();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Forbidden, "permission_denied"),
                "{branch}"
            );
        }
    }

    #[test]
    fn the_body_must_name_the_actor_of_the_token() {
        let other_kind = with(
            &data_room_request(),
            &[("actorKind", json!("headquarters_administrator"))],
        );
        assert_eq!(open(&other_kind).code(), "permission_denied");
        let other_profile = with(
            &data_room_request(),
            &[("actorProfileId", json!("workflow-2"))],
        );
        assert_eq!(open(&other_profile).code(), "permission_denied");
        // Where the token names a profile, the subject does not replace it.
        let profiled = with_profile(workflow(), "profile-1");
        assert_eq!(
            open_by(profiled, &data_room_request()).code(),
            "permission_denied"
        );
    }

    #[test]
    fn a_statement_may_have_the_same_code() {
        let mut scenario = opened_data_room();
        let statement = with(
            &super::super::samples::deposit_request(),
            &[("statementCode", json!("EXPORT-2026-10"))],
        );
        scenario
            .when("request_deposit", &[], &statement)
            .committed();
    }

    #[test]
    fn the_same_facts_under_another_key_are_a_replay_of_the_first() {
        let mut scenario = opened_data_room();
        let same = with(
            &data_room_request(),
            &[("idempotencyKey", json!("export-2"))],
        );
        for _ in 0..2 {
            let then = scenario.when(NAME, &[], &same);
            assert!(
                matches!(&then, Then::ReplayOf(key) if key == "export-1"),
                "{then:?}"
            );
        }
    }

    #[test]
    fn another_actors_code_is_a_conflict_though_the_facts_are_the_same() {
        let mut scenario = opened_data_room();
        let second = with_profile(actor(ActorKind::SystemWorkflow, "workflow-2"), "workflow");
        let then = scenario
            .acting(second)
            .when(NAME, &[], &data_room_request());
        assert_eq!(then.code(), "request_code_conflict");
    }

    #[test]
    fn a_period_has_a_day_at_least() {
        let ends = |day: &str| {
            let end = [("scope.settlementPeriodEnd", json!(day))];
            open(&with(&data_room_request(), &end))
        };
        ends("2026-10-01").committed();
        let place = "scope.settlementPeriodEnd";
        assert_eq!(
            ends("2026-09-30").faults(),
            faults([(place, "out_of_range")])
        );
    }

    #[test]
    fn each_repeated_or_faulty_key_of_evidence_is_told_of() {
        let keys = json!(["a", "b", "a", "", "c", "b", 5, "a"]);
        let then = open(&with(
            &data_room_request(),
            &[("scope.sourceEvidenceKeys", keys)],
        ));
        assert_eq!(
            then.faults(),
            faults([
                ("scope.sourceEvidenceKeys[2]", "not_unique"),
                ("scope.sourceEvidenceKeys[3]", "too_short"),
                ("scope.sourceEvidenceKeys[5]", "not_unique"),
                ("scope.sourceEvidenceKeys[6]", "wrong_type"),
                ("scope.sourceEvidenceKeys[7]", "not_unique"),
            ])
        );
    }

    #[test]
    fn evidence_keys_are_read_without_a_tree_unless_repeated_or_faulty() {
        let straight = |keys: &str| {
            read_straight::<EvidenceKeys>(keys.as_bytes(), Timestamp::default())
                .map(|(keys, _)| json!(keys))
        };
        for keys in [r#"["b"]"#, r#"["b","a","c"]"#] {
            assert_eq!(straight(keys), serde_json::from_str(keys).ok(), "{keys}");
        }
        for keys in [r#"["b","a","b"]"#, "[]", r#"["a",""]"#, r#"["a",5]"#] {
            assert_eq!(straight(keys), None, "{keys}");
        }
    }

    #[test]
    fn a_request_rests_on_a_thousand_keys_of_evidence_at_most() {
        let keys = |count: usize| -> Vec<_> { (0..count).map(|key| key.to_string()).collect() };
        let ask = |count| {
            let keys = json!(keys(count));
            open(&with(
                &data_room_request(),
                &[("scope.sourceEvidenceKeys", keys)],
            ))
        };
        ask(EVIDENCE_KEYS_MAX).committed();
        let fault = ("scope.sourceEvidenceKeys", "too_long");
        assert_eq!(ask(EVIDENCE_KEYS_MAX + 1).faults(), faults([fault]));
        for (count, is_read) in [(EVIDENCE_KEYS_MAX, true), (EVIDENCE_KEYS_MAX + 1, false)] {
            let text = json!(keys(count)).to_string();
            let read = read_straight::<EvidenceKeys>(text.as_bytes(), Timestamp::default());
            assert_eq!(read.is_some(), is_read, "{count}");
        }
    }
}
