//! Statements and commands that the tests of this group share.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::statement::Statement;
use crate::base::actor::{Actor, ActorKind};
use crate::domain::scenario::{Scenario, actor, manager, with};

/// An actor who acts under a profile that is not the subject.
pub(super) fn with_profile(actor: Actor, profile: &str) -> Actor {
    Actor {
        actor_profile_id: Some(profile.into()),
        ..actor
    }
}

/// Makes the workflow that acts when a scenario begins.
pub(super) fn workflow() -> Actor {
    actor(ActorKind::SystemWorkflow, "workflow")
}

/// Returns the body by which the workflow asks `branch-1` for a deposit.
pub(super) fn deposit_request() -> Value {
    json!({
        "statementCode": "HQ-2026-10",
        "statementKind": "head_office_to_branch",
        "branchProfileId": "branch-1",
        "settlementPeriodStart": "2026-10-01",
        "settlementPeriodEnd": "2026-10-31",
        "remittanceAccountSnapshot": {
            "remittanceAccountSnapshotId": "account-snapshot-1",
            "bankName": "한국은행",
            "accountHolder": "Carebook",
            "accountNumberDisplay": "***-**-1234",
            "capturedAt": "2026-11-01T09:00:00+09:00",
            "sourceReferenceKey": "account-1@3",
        },
        "actorKind": "system_workflow",
        "actorProfileId": "workflow",
        "idempotencyKey": "request-1",
        "messageToBranch": "By Friday, please.",
        "headOfficePrivateMemo": "Late twice this year.",
    })
}

/// Makes a service with one statement of this kind, which the workflow has opened for `branch-1`;
/// also returns the statement's identifier.
pub(super) fn opened(kind: &str) -> (Scenario, String) {
    let mut scenario = Scenario::new();
    let body = with(&deposit_request(), &[("statementKind", json!(kind))]);
    let statement = scenario.when("request_deposit", &[], &body).committed();
    let id = statement["statementId"].as_str().unwrap().to_owned();
    (scenario, id)
}

/// Returns the body by which the manager of `branch-1` acknowledges a line of a statement, at its
/// first revision.
pub(super) fn acknowledgement(statement: &str) -> Value {
    json!({
        "statementId": statement,
        "actorKind": "branch_manager",
        "actorProfileId": "manager-1",
        "idempotencyKey": "acknowledgement-key-1",
        "expectedRevision": 1,
        "reason": null,
        "lineAcknowledgements": [{
            "lineAcknowledgementId": "acknowledgement-1",
            "settlementLineKey": "line-1",
            "settlementLineKind": "delivery_fee",
            "acknowledgedByActorProfileId": "manager-1",
            "acknowledgedAt": "2026-11-20T11:00:00Z",
            "acknowledgementNote": null,
        }],
    })
}

/// Makes a statement whose deposit was requested and acknowledged.
pub(super) fn acknowledged() -> Statement {
    let (mut scenario, id) = opened("head_office_to_branch");
    scenario.acting(manager("manager-1", "branch-1"));
    scenario
        .when("acknowledge_deposit", &[], &acknowledgement(&id))
        .committed();
    scenario.state(&[&id]).unwrap()
}

/// Returns the body by which the workflow asks for an export of what `branch-1` settled in October.
pub(super) fn data_room_request() -> Value {
    json!({
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
        "actorKind": "system_workflow",
        "actorProfileId": "workflow",
        "idempotencyKey": "export-1",
    })
}

/// The identifier of the request that [`opened_data_room`] opens.
pub(super) const DATA_ROOM_ID: &str = "01990000-0000-7000-8000-000000000001";

/// Makes a service with one data-room request, [`DATA_ROOM_ID`], which the workflow has opened.
pub(super) fn opened_data_room() -> Scenario {
    let mut scenario = Scenario::new();
    let request = scenario.when("open_data_room_request", &[], &data_room_request());
    assert_eq!(request.committed()["requestId"], DATA_ROOM_ID);
    scenario
}

/// Returns the body by which the workflow reports that the file with this number is ready, at this
/// revision of the request.
pub(super) fn ready_artifact(number: u32, kind: &str, expected_revision: i64) -> Value {
    json!({
        "artifact": {
            "artifactId": format!("artifact-{number}"),
            "artifactKind": kind,
            "storageBucket": "exports",
            "storageObjectKey": format!("2026/10/{number}.csv"),
            "exportFormat": "csv",
            "fileName": format!("정산-{number}.csv"),
            "byteSize": 1_024,
            "contentSha256": "0123456789abcdef".repeat(4),
            "generatedAt": "2026-11-20T20:59:00+09:00",
            "sourceDatasetRevision": 4,
        },
        "actorKind": "system_workflow",
        "actorProfileId": "workflow",
        "idempotencyKey": format!("ready-{number}"),
        "expectedRevision": expected_revision,
    })
}
