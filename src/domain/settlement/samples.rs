//! Statements and commands that the tests of this group share.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::base::actor::{Actor, ActorKind};
use crate::domain::scenario::{Scenario, actor};

/// Sets members of `body` to other values; a path of several members is written with dots.
pub(super) fn with(body: &Value, changes: &[(&str, Value)]) -> Value {
    let mut body = body.clone();
    for (path, value) in changes {
        *body
            .pointer_mut(&pointer(path))
            .unwrap_or_else(|| panic!("{path}")) = value.clone();
    }
    body
}

/// Leaves the member at `path` out of `body`.
pub(super) fn without(body: &Value, path: &str) -> Value {
    let mut body = body.clone();
    let pointer = pointer(path);
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    parent.remove(member).unwrap_or_else(|| panic!("{path}"));
    body
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Places and codes as a scenario tells them.
pub(super) fn faults<const N: usize>(
    faults: [(&str, &'static str); N],
) -> Vec<(String, &'static str)> {
    faults.map(|(path, code)| (path.to_owned(), code)).into()
}

/// An actor who acts under a profile that is not the subject.
pub(super) fn with_profile(actor: Actor, profile: &str) -> Actor {
    Actor {
        actor_profile_id: Some(profile.into()),
        ..actor
    }
}

/// An administrator of the head office, whose profile is `hq-1`.
pub(super) fn headquarters() -> Actor {
    with_profile(
        actor(ActorKind::HeadquartersAdministrator, "user-hq"),
        "hq-1",
    )
}

/// A workflow, as which a scenario begins.
pub(super) fn workflow() -> Actor {
    actor(ActorKind::SystemWorkflow, "workflow")
}

/// The workflow asks `branch-1` for a deposit.
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

/// A service with one statement of this kind, which the workflow has opened for `branch-1`; and
/// the statement's identifier.
pub(super) fn opened(kind: &str) -> (Scenario, String) {
    let mut scenario = Scenario::new();
    let body = with(&deposit_request(), &[("statementKind", json!(kind))]);
    let statement = scenario.when("request_deposit", &[], &body).committed();
    let id = statement["statementId"].as_str().unwrap().to_owned();
    (scenario, id)
}
