//! A workflow says that a file of a data-room request is ready to be fetched.
//!
//! Resource: the request. Rejections, in the order tested: the actor is no workflow, or not the
//! one that the body names (403); the request is unknown (404); the expected revision is stale,
//! an artifact with this identifier stands, the artifact was made from older data than were asked
//! for, the request has as many as it may have (409). An earlier artifact of the same kind stays, superseded.

use super::data_room::{
    ARTIFACTS_MAX, Artifact, ArtifactReady, DataRoomBody, DataRoomEvent, DataRoomRequest,
};
use super::state::SettlementActorKind;
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{BodyKey, Ident};
use crate::domain::example::Example;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, path_and_body, rejections};

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
        pub settlement_data_room_request_id = "settlementDataRoomRequestId",
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
        /// The artifact's identifier stands.
        ArtifactIdConflict = Conflict "artifact_id_conflict" ["artifact.artifactId"]
            "An artifact with this identifier stands on the request.",
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

    const REJECTIONS: &'static [(Class, &'static str)] = Reason::TABLE;

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
        other: ("/artifact/byteSize", "2048"),
        own: &["artifact-1"],
        echoed: "artifact-1",
        ..Example::NEW
    };

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
            artifact: artifact.clone(),
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
        DATA_ROOM_ID, data_room_request, faults, opened_data_room, ready_artifact, with,
        with_profile, without, workflow,
    };
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::codec;
    use crate::domain::scenario::{Scenario, Then, actor};

    const NAME: &str = "mark_artifact_ready";
    const PATH: [(&str, &str); 1] = [("settlementDataRoomRequestId", DATA_ROOM_ID)];
    const UNKNOWN: [(&str, &str); 1] = [("settlementDataRoomRequestId", "no-such-request")];

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
    fn a_request_has_two_hundred_artifacts_at_most_and_they_fit_whatever_they_are() {
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
    fn another_workflow_than_the_one_that_asked_may_mark_under_its_own_profile() {
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
    fn others_than_workflows_may_not_mark_and_learn_nothing_of_the_request() {
        for kind in ActorKind::ALL {
            if kind == ActorKind::SystemWorkflow {
                continue;
            }
            let mut scenario = opened_data_room();
            let mut who = actor(kind, "workflow");
            who.branch_profile_ids = vec!["branch-1".into()];
            scenario.acting(who);
            for named in SettlementActorKind::ALL {
                let body = with(&first(), &[("actorKind", json!(named))]);
                for path in [PATH, UNKNOWN] {
                    let refusal = scenario.when(NAME, &path, &body).refusal();
                    assert_eq!(refusal.class, Class::Forbidden, "{kind}");
                    assert_eq!(refusal.code, "permission_denied", "{kind}");
                }
            }
            assert_eq!(revision(&scenario), 1);
        }
    }

    #[test]
    fn the_body_must_name_the_actor_of_the_token_before_anything_is_looked_up() {
        for changes in [
            [("actorKind", json!("headquarters_administrator"))],
            [("actorKind", json!("branch_manager"))],
            [("actorProfileId", json!("workflow-2"))],
        ] {
            assert_eq!(mark(&changes).code(), "permission_denied");
            let then = opened_data_room().when(NAME, &UNKNOWN, &with(&first(), &changes));
            assert_eq!(then.code(), "permission_denied");
        }
        let mut scenario = opened_data_room();
        scenario.acting(with_profile(workflow(), "profile-1"));
        assert_eq!(
            scenario.when(NAME, &PATH, &first()).code(),
            "permission_denied"
        );
    }

    #[test]
    fn an_unknown_request_is_missing_whatever_revision_is_expected() {
        for expected in [0, 1, 7] {
            let body = ready_artifact(1, "lines", expected);
            let refusal = opened_data_room().when(NAME, &UNKNOWN, &body).refusal();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Missing, "data_room_request_not_found")
            );
        }
        // Identifiers are opaque: another spelling is another one.
        let upper = DATA_ROOM_ID.to_uppercase() + " ";
        let path = [("settlementDataRoomRequestId", upper.as_str())];
        let then = opened_data_room().when(NAME, &path, &first());
        assert_eq!(then.code(), "data_room_request_not_found");
    }

    #[test]
    fn a_stale_revision_comes_before_the_artifact() {
        let mut scenario = opened_data_room();
        scenario.when(NAME, &PATH, &first()).committed();
        for expected in [i64::MIN, -1, 0, 1, 3] {
            let body = with(
                &ready_artifact(1, "lines", expected),
                &[("artifact.sourceDatasetRevision", json!(0))],
            );
            assert_eq!(
                conflict(scenario.when(NAME, &PATH, &body)),
                ("revision_stale", vec!["expectedRevision".to_owned()])
            );
        }
        assert_eq!(revision(&scenario), 2);
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

    #[test]
    fn bounds_are_inclusive() {
        let longest = "가".repeat(512);
        let request = mark(&[
            ("artifact.byteSize", json!(0)),
            ("artifact.storageObjectKey", json!("k".repeat(1_024))),
            ("artifact.artifactId", json!(longest)),
            ("artifact.fileName", json!(longest)),
        ])
        .committed();
        assert_eq!(request["artifacts"][0]["byteSize"], 0);
        assert_eq!(request["actionJournal"][1]["artifactId"], longest);
    }

    #[test]
    fn faults_of_shape_name_their_place() {
        let long = "k".repeat(513);
        for (path, value, code) in [
            ("artifact", Value::Null, "wrong_type"),
            ("artifact.artifactId", json!(""), "too_short"),
            ("artifact.artifactKind", json!(" "), "blank"),
            ("artifact.artifactKind", json!(long), "too_long"),
            ("artifact.storageBucket", json!(long), "too_long"),
            ("artifact.storageBucket", json!({}), "wrong_type"),
            (
                "artifact.storageObjectKey",
                json!("k".repeat(1_025)),
                "too_long",
            ),
            ("artifact.exportFormat", json!(long), "too_long"),
            ("artifact.fileName", json!(long), "too_long"),
            ("artifact.byteSize", json!(-1), "out_of_range"),
            ("artifact.byteSize", json!(0.5), "wrong_type"),
            ("artifact.byteSize", json!("1"), "wrong_type"),
            ("artifact.contentSha256", json!("A".repeat(64)), "pattern"),
            ("artifact.contentSha256", json!("a".repeat(63)), "pattern"),
            ("artifact.contentSha256", json!("a".repeat(65)), "pattern"),
            ("artifact.contentSha256", json!(""), "too_short"),
            ("artifact.generatedAt", json!("2026-11-20"), "pattern"),
            ("artifact.generatedAt", Value::Null, "wrong_type"),
            ("artifact.sourceDatasetRevision", json!("4"), "wrong_type"),
            ("actorKind", json!("mother"), "not_allowed"),
            ("actorProfileId", json!(""), "too_short"),
            ("idempotencyKey", json!(long), "too_long"),
            ("expectedRevision", Value::Null, "wrong_type"),
            ("expectedRevision", json!(1e3), "wrong_type"),
        ] {
            assert_eq!(mark(&[(path, value)]).faults(), faults([(path, code)]));
        }
    }

    #[test]
    fn every_member_must_be_there() {
        let body = first();
        for member in body.as_object().unwrap().keys() {
            let then = opened_data_room().when(NAME, &PATH, &without(&body, member));
            assert_eq!(then.faults(), faults([(member, "required")]));
        }
        for member in body["artifact"].as_object().unwrap().keys() {
            let path = format!("artifact.{member}");
            let then = opened_data_room().when(NAME, &PATH, &without(&body, &path));
            assert_eq!(then.faults(), faults([(&path, "required")]));
        }
    }

    #[test]
    fn all_faults_are_told_at_once_the_paths_too() {
        let mut body = with(
            &without(&first(), "actorKind"),
            &[
                ("artifact.byteSize", json!(-1)),
                ("artifact.contentSha256", json!("x")),
            ],
        );
        body["artifact"]["supersededAt"] = Value::Null;
        body["reason"] = Value::Null;
        let path = [(PATH[0].0, " ")];
        assert_eq!(
            opened_data_room().when(NAME, &path, &body).faults(),
            faults([
                ("settlementDataRoomRequestId", "blank"),
                ("reason", "unknown_field"),
                ("artifact.supersededAt", "unknown_field"),
                ("artifact.byteSize", "out_of_range"),
                ("artifact.contentSha256", "pattern"),
                ("actorKind", "required"),
            ])
        );
    }

    #[test]
    fn the_fingerprint_never_changes_and_knows_the_path_but_not_the_key() {
        let scenario = Scenario::new();
        let of = |body: &Value| scenario.fingerprint(NAME, &PATH, body);
        assert_eq!(
            of(&first()).to_hex(),
            "e10ce609fddec605a1c24adeef4909e127f96087100b73c3405798afe44873a3"
        );
        let spelt_otherwise = [
            ("idempotencyKey", json!("another")),
            ("artifact.generatedAt", json!("2026-11-20T11:59:00.0001Z")),
        ];
        assert_eq!(of(&with(&first(), &spelt_otherwise)), of(&first()));
        assert_ne!(scenario.fingerprint(NAME, &UNKNOWN, &first()), of(&first()));
        let other = [("artifact.byteSize", json!(1_025))];
        assert_ne!(of(&with(&first(), &other)), of(&first()));
    }
}
