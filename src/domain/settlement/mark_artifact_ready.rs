//! A workflow says that a file of a data-room request is ready to be fetched.
//!
//! Resource: the request. Rejections, in the order tested: the actor is no workflow, or not the one
//! that the body names (403); the request is unknown (404); the expected revision is stale, an
//! artifact with this identifier exists, the artifact was made from older data than were asked for,
//! the request has as many as it may have (409). An earlier artifact of the same kind stays,
//! superseded.

use std::sync::Arc;

use super::data_room::{
    ARTIFACTS_MAX, Artifact, ArtifactReady, DataRoomBody, DataRoomEvent, DataRoomRequest,
};
use super::statement::SettlementActorKind;
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{BodyKey, Ident};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, path_and_body, rejections};

json_object! {
    /// The body of the request.
    pub struct Body {
        /// The artifact.
        pub artifact: Artifact = "artifact",
        /// The actor's kind.
        pub actor_kind: SettlementActorKind = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// The request's revision as the workflow saw it.
        pub expected_revision: i64 = "expectedRevision",
    }
}

path_and_body! {
    /// What is asked for: the data-room request in the path, and the body.
    pub struct Command {
        /// The data-room request.
        pub settlement_data_room_request_id: Ident = "settlementDataRoomRequestId",
        body: Body,
    }
}

rejections! {
    /// Why no artifact is added.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a system workflow, named in the body as in its token, may mark an artifact ready.",
        /// The request is unknown.
        DataRoomRequestNotFound = Missing "data_room_request_not_found" []
            "There is no settlement data-room request with this identifier.",
        /// The revision is stale.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// The artifact's identifier is in use.
        ArtifactIdConflict = Conflict "artifact_id_conflict" ["artifact.artifactId"]
            "An artifact with this identifier already exists in this request.",
        /// The data are too old.
        DatasetRevisionStale = Conflict "dataset_revision_stale" ["artifact.sourceDatasetRevision"]
            "The artifact was made from an older revision of the data set than the request asks for.",
        /// The request has as many artifacts as it may have.
        ArtifactsFull = Conflict "artifacts_full" ["settlementDataRoomRequestId"]
            "The request has 200 artifacts: open another one.",
    }
}

/// The operation.
pub struct MarkArtifactReady;

impl Operation for MarkArtifactReady {
    type Command = Command;
    type Resource = DataRoomRequest;
    type Answer = DataRoomBody<'static>;

    const DOC: &'static str = module_doc!("mark_artifact_ready.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("open_data_room_request"),
        path: &["$requestId"],
        body: r#"{
  "artifact": {
    "artifactId": "artifact-1",
    "artifactKind": "ledger",
    "storageBucket": "exports",
    "storageObjectKey": "2026/10/ledger.csv",
    "exportFormat": "csv",
    "fileName": "ledger.csv",
    "byteSize": 1024,
    "contentSha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "generatedAt": "2026-11-01T00:00:00Z",
    "sourceDatasetRevision": 1
  },
  "actorKind": "system_workflow",
  "actorProfileId": "workflow-1",
  "idempotencyKey": "key-1",
  "expectedRevision": 1
}"#,
        changed_value: ("/artifact/byteSize", "2048"),
        unique_ids: &["artifact-1"],
        id_in_response: "artifact-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use crate::base::json::AtLeast;
        Ladder::of(&[ActorKind::SystemWorkflow])
            .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
            .then(Reason::DataRoomRequestNotFound, Case::at_unknown)
            .then(Reason::RevisionStale, |case| {
                case.set("/expectedRevision", 9)
            })
            .then(Reason::ArtifactIdConflict, |case| {
                let done: DataRoomRequest = case.done(case.parameter());
                case.alter_at_parameter(|request: &mut DataRoomRequest| {
                    request.artifacts.extend(done.artifacts);
                })
            })
            .then(Reason::DatasetRevisionStale, |case| {
                case.alter_at_parameter(|request: &mut DataRoomRequest| {
                    let opening = Arc::make_mut(&mut request.opening);
                    opening.scope.source_dataset_revision = AtLeast(2);
                })
            })
            .then(Reason::ArtifactsFull, |case| {
                let done: DataRoomRequest = case.done(case.parameter());
                case.alter_at_parameter(|request: &mut DataRoomRequest| {
                    let others = (0..ARTIFACTS_MAX).map(|number| {
                        let mut other = done.artifacts[0].clone();
                        let artifact = Arc::make_mut(&mut other.artifact);
                        artifact.artifact_id = Ident::from_trusted(format!("other-{number}"));
                        other
                    });
                    request.artifacts = others.collect();
                })
            })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(DataRoomRequest::KIND.key(&[&command.settlement_data_room_request_id]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.body.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&DataRoomRequest>,
        Command { body, .. }: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<DataRoomRequest>, Rejection> {
        let actor = context.actor;
        if !actor.is_system_workflow() || !body.actor_kind.is_of(actor, &body.actor_profile_id) {
            return Err(Reason::NotPermitted.into());
        }
        let Some(request) = state else {
            return Err(Reason::DataRoomRequestNotFound.into());
        };
        if body.expected_revision != request.revision.number() {
            return Err(Reason::RevisionStale.into());
        }
        let artifact = &body.artifact;
        if request.has_artifact(&artifact.artifact_id) {
            return Err(Reason::ArtifactIdConflict.into());
        }
        if artifact.source_dataset_revision < request.opening.scope.source_dataset_revision.0 {
            return Err(Reason::DatasetRevisionStale.into());
        }
        if request.artifacts.len() >= ARTIFACTS_MAX {
            return Err(Reason::ArtifactsFull.into());
        }
        let event = DataRoomEvent::ArtifactReady(Box::new(ArtifactReady {
            artifact: Arc::new(artifact.clone()),
            actor_kind: actor.kind,
            actor_profile_id: actor.profile_id().into(),
            idempotency_key: context.key.into(),
            action_id: context.ids.id(),
        }));
        let commit = Commit::new(state, event, context.at);
        let answer = to_json(&DataRoomBody::new(&commit.next));
        commit.answer(answer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{
        DATA_ROOM_ID, data_room_request, opened_data_room, ready_artifact, with_profile, workflow,
    };
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::codec;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, with};

    const NAME: &str = "mark_artifact_ready";
    const PATH: [(&str, &str); 1] = [("settlementDataRoomRequestId", DATA_ROOM_ID)];

    /// The first file of an open request.
    fn first() -> Value {
        ready_artifact(1, "lines", 1)
    }

    fn mark(changes: &[(&str, Value)]) -> Then {
        opened_data_room().when(NAME, &PATH, &with(&first(), changes))
    }

    fn revision(scenario: &Scenario) -> i64 {
        let request: DataRoomRequest = scenario.state(&[DATA_ROOM_ID]).unwrap();
        request.revision.number()
    }

    #[track_caller]
    fn conflict(then: Then) -> (&'static str, Vec<String>) {
        let refusal = then.refusal();
        assert_eq!(refusal.class, Class::Conflict);
        let places = refusal.conflicting.iter().map(ToString::to_string);
        (refusal.code, places.collect())
    }

    #[test]
    fn a_request_has_at_most_200_artifacts_and_fits_with_the_longest_texts() {
        let mut scenario = opened_data_room();
        // Every text as long as it may be, of the letters that take most bytes.
        let long = |text: &str, number: i64| {
            let length = if text == "storageObjectKey" {
                1_024
            } else {
                512
            };
            json!(format!("{number:04}{}", "\u{1f37c}".repeat(length - 4)))
        };
        let longest = |number: i64| {
            let mut body = ready_artifact(1, "lines", number + 1);
            for member in [
                "artifactId",
                "artifactKind",
                "storageBucket",
                "storageObjectKey",
                "exportFormat",
                "fileName",
            ] {
                body["artifact"][member] = long(member, number);
            }
            body["idempotencyKey"] = json!(format!("key-{number}"));
            body
        };
        for number in 0..200 {
            let then = scenario.when(NAME, &PATH, &longest(number));
            let Then::Committed(answer) = then else {
                panic!("{number}: {then:?}");
            };
            if number == 199 {
                assert_eq!(answer["artifacts"].as_array().unwrap().len(), 200);
            }
        }
        println!("the two hundredth artifact: {:?}", scenario.cost);
        assert!(scenario.cost.states <= codec::STATE_BYTES_MAX * 3 / 4);
        let then = scenario.when(NAME, &PATH, &longest(200));
        assert_eq!(
            conflict(then),
            (
                "artifacts_full",
                vec!["settlementDataRoomRequestId".to_owned()]
            )
        );
        let mut again = longest(0);
        again["expectedRevision"] = json!(201);
        assert_eq!(
            conflict(scenario.when(NAME, &PATH, &again)).0,
            "artifact_id_conflict"
        );
        assert_eq!(revision(&scenario), 201);
    }

    #[test]
    fn an_artifact_is_added_and_the_request_answered_whole() {
        let mut scenario = opened_data_room();
        scenario.at("2026-11-20T12:30:00Z");
        assert_eq!(
            scenario.when(NAME, &PATH, &first()).committed(),
            json!({
                "requestId": DATA_ROOM_ID,
                "requestCode": "EXPORT-2026-10",
                "scope": data_room_request()["scope"],
                "status": "ready",
                "revision": 2,
                "requestedByActorProfileId": "workflow",
                "createdAt": "2026-11-20T12:00:00.000Z",
                "updatedAt": "2026-11-20T12:30:00.000Z",
                "artifacts": [{
                    "artifactId": "artifact-1",
                    "artifactKind": "lines",
                    "storageBucket": "exports",
                    "storageObjectKey": "2026/10/1.csv",
                    "exportFormat": "csv",
                    "fileName": "정산-1.csv",
                    "byteSize": 1_024,
                    "contentSha256":
                        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                    "generatedAt": "2026-11-20T11:59:00.000Z",
                    "sourceDatasetRevision": 4,
                    "supersededAt": null,
                }],
                "actionJournal": [
                    {
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
                    },
                    {
                        "actionId": "01990000-0000-7000-8000-000000000004",
                        "actionKind": "mark_artifact_ready",
                        "actorKind": "system_workflow",
                        "actorProfileId": "workflow",
                        "idempotencyKey": "ready-1",
                        "expectedRevision": 1,
                        "committedRevision": 2,
                        "recordedAt": "2026-11-20T12:30:00.000Z",
                        "reason": null,
                        "artifactId": "artifact-1",
                        "metadata": {},
                    },
                ],
            })
        );
        assert!(scenario.outbox.is_empty());
    }

    #[test]
    fn a_later_artifact_supersedes_those_of_its_kind_once() {
        let mut scenario = opened_data_room();
        let mut request = Value::Null;
        for (number, kind) in [(1, "lines"), (2, "summary"), (3, "lines"), (4, "lines")] {
            scenario.at(&format!("2026-11-20T12:0{number}:00Z"));
            let body = ready_artifact(number, kind, number.into());
            request = scenario.when(NAME, &PATH, &body).committed();
        }
        assert_eq!(request["revision"], 5);
        assert_eq!(request["status"], "ready");
        let superseded: Vec<_> = request["artifacts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|artifact| (&artifact["artifactId"], &artifact["supersededAt"]))
            .collect();
        assert_eq!(
            superseded,
            [
                (&json!("artifact-1"), &json!("2026-11-20T12:03:00.000Z")),
                (&json!("artifact-2"), &Value::Null),
                (&json!("artifact-3"), &json!("2026-11-20T12:04:00.000Z")),
                (&json!("artifact-4"), &Value::Null),
            ]
        );
        let journal: Vec<_> = request["actionJournal"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (&entry["committedRevision"], &entry["artifactId"]))
            .collect();
        assert_eq!(journal[0], (&json!(1), &Value::Null));
        assert_eq!(journal[4], (&json!(5), &json!("artifact-4")));
    }

    #[test]
    fn a_workflow_other_than_the_requesting_one_may_mark_under_its_profile() {
        let mut scenario = opened_data_room();
        scenario.acting(with_profile(
            actor(ActorKind::SystemWorkflow, "workflow-2"),
            "exporter",
        ));
        let body = with(&first(), &[("actorProfileId", json!("exporter"))]);
        let request = scenario.when(NAME, &PATH, &body).committed();
        assert_eq!(request["requestedByActorProfileId"], "workflow");
        assert_eq!(request["actionJournal"][1]["actorProfileId"], "exporter");
    }

    #[test]
    fn the_body_must_name_the_actor_of_the_token() {
        for changes in [
            [("actorKind", json!("headquarters_administrator"))],
            [("actorProfileId", json!("workflow-2"))],
        ] {
            assert_eq!(mark(&changes).code(), "permission_denied");
        }
        let mut scenario = opened_data_room();
        scenario.acting(with_profile(workflow(), "profile-1"));
        assert_eq!(
            scenario.when(NAME, &PATH, &first()).code(),
            "permission_denied"
        );
    }

    #[test]
    fn an_artifacts_identifier_stands_once_on_a_request_superseded_or_not() {
        let mut scenario = opened_data_room();
        scenario.when(NAME, &PATH, &first()).committed();
        scenario
            .when(NAME, &PATH, &ready_artifact(2, "lines", 2))
            .committed();
        for number in 1..=2 {
            let again = with(
                &ready_artifact(number, "other", 3),
                &[
                    ("artifact.sourceDatasetRevision", json!(1)),
                    ("idempotencyKey", json!("ready-3")),
                ],
            );
            assert_eq!(
                conflict(scenario.when(NAME, &PATH, &again)),
                (
                    "artifact_id_conflict",
                    vec!["artifact.artifactId".to_owned()]
                )
            );
        }
        assert_eq!(revision(&scenario), 3);
    }

    #[test]
    fn another_request_may_have_an_artifact_of_the_same_identifier() {
        let mut scenario = opened_data_room();
        scenario.when(NAME, &PATH, &first()).committed();
        let second = with(
            &data_room_request(),
            &[
                ("requestCode", json!("EXPORT-2")),
                ("idempotencyKey", json!("export-2")),
            ],
        );
        let second = scenario
            .when("open_data_room_request", &[], &second)
            .committed();
        let path = [(PATH[0].0, second["requestId"].as_str().unwrap())];
        let request = scenario.when(NAME, &path, &first()).committed();
        assert_eq!(request["artifacts"][0]["artifactId"], "artifact-1");
    }

    #[test]
    fn an_artifact_is_made_from_the_data_asked_for_or_later_ones() {
        let path = "artifact.sourceDatasetRevision";
        for (made_from, is_stale) in [
            (i64::MIN, true),
            (0, true),
            (3, true),
            (4, false),
            (5, false),
            (i64::MAX, false),
        ] {
            let then = mark(&[(path, json!(made_from))]);
            if is_stale {
                let expected = ("dataset_revision_stale", vec![path.to_owned()]);
                assert_eq!(conflict(then), expected, "{made_from}");
            } else {
                let request = then.committed();
                let artifact = &request["artifacts"][0];
                assert_eq!(artifact["sourceDatasetRevision"], made_from);
            }
        }
    }
}
