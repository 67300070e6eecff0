//! Branches, people and commands that the tests of this group share.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::create_branch::{self, CreateBranch};
use super::deliveries::BranchDeliveries;
use super::onboarding::DirectoryAnswers;
use super::organization::Organization;
use super::state::{BRANCH_CREATE, Branch};
use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::Digest;
use crate::catalogue::{OPERATIONS, Row};
use crate::domain::erased::{AnyOperation, Erased};
use crate::domain::example::Example;
use crate::domain::index::IndexKey;
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Context, Decision, Operation};
use crate::domain::rejection::{Class, Declared, Rejection};
use crate::domain::scenario::{Scenario, actor, with};

/// Returns a refusal's class, code and conflicting fields.
pub(super) fn summary(refusal: &Rejection) -> (Class, &'static str, Vec<&str>) {
    let places = refusal.conflicting.iter().map(AsRef::as_ref).collect();
    (refusal.class, refusal.code, places)
}

/// Returns the identifier that the scenario generates as its `number`th.
pub(super) fn minted(number: u64) -> String {
    format!("01990000-0000-7000-8000-{number:012x}")
}

/// An administrator of the head office who may create branches.
pub(super) fn administrator() -> Actor {
    Actor {
        permissions: vec![BRANCH_CREATE.into()],
        ..actor(ActorKind::HeadquartersAdministrator, "admin-1")
    }
}

/// The actor, with an e-mail address.
pub(super) fn with_email(actor: Actor, email: &str, verified: bool) -> Actor {
    Actor {
        email: Some(email.into()),
        email_verified: verified,
        ..actor
    }
}

/// Makes the holder of the invitation of [`creation`]; the token does not name the branch yet.
pub(super) fn invitee() -> Actor {
    with_email(
        actor(ActorKind::BranchManager, "manager-1"),
        "mina.kim@example.org",
        true,
    )
}

/// Returns the body that creates the first branch.
pub(super) fn creation() -> Value {
    json!({
        "commandId": "command-1",
        "branchCode": "SEOUL-1",
        "expectedOrganizationRevision": 1,
        "legalName": "서울산후케어 주식회사",
        "displayName": "서울 1지점",
        "businessIdentity": {"jurisdiction": "KR", "registrationNumber": "124-81-00998"},
        "contact": {"email": "seoul@example.org", "phoneNumber": "+82212345678"},
        "address": {
            "postalCode": "04524",
            "roadAddress": "서울 중구 세종대로 110",
            "detailAddress": "1층",
        },
        "managerInvitation": {"email": "Mina.Kim@Example.org", "displayName": "김 미나"},
        "initialLifecycleStatus": "preparing",
        "initialMembershipFeePolicy": {
            "policyVersion": "2026-1",
            "monthlyFeeAmount": 300_000,
            "currencyCode": "KRW",
            "effectiveFrom": "2026-12-01",
        },
        "reason": "The first one in Seoul.",
    })
}

/// Returns the body that creates a second branch, which has nothing in common with the first.
pub(super) fn second_creation() -> Value {
    with(
        &creation(),
        &[
            ("commandId", json!("command-2")),
            ("branchCode", json!("SEOUL-2")),
            ("expectedOrganizationRevision", json!(2)),
            ("businessIdentity.registrationNumber", json!("220-81-62517")),
            ("managerInvitation.email", json!("juno@example.org")),
        ],
    )
}

/// Makes a service in which the administrator has created one branch; also returns the answer.
pub(super) fn created() -> (Scenario, Value) {
    created_with(DirectoryAnswers::EMBEDDED)
}

/// Does the same with a directory that gives these answers.
pub(super) fn created_with(answers: DirectoryAnswers) -> (Scenario, Value) {
    let mut scenario = Scenario::new();
    scenario.acting(administrator());
    let row = row("create_branch");
    let operation: &dyn AnyOperation = match answers {
        DirectoryAnswers::EMBEDDED => row.operation,
        SILENT => &Erased::<Silent>::NEW,
        INVITATION_LATE => &Erased::<InvitationLate>::NEW,
        other => panic!("no such directory: {other:?}"),
    };
    let answer = scenario
        .when_decided_by(operation, row, "key-1", &[], &creation())
        .committed();
    (scenario, answer)
}

/// Returns the row of an operation.
pub(super) fn row(name: &str) -> &'static Row {
    OPERATIONS.iter().find(|row| row.name == name).unwrap()
}

/// Returns the branch that this response is about.
pub(super) fn branch_of(scenario: &Scenario, answer: &Value) -> Branch {
    let id = answer["branchId"].as_str().unwrap();
    scenario.state(&[id]).unwrap()
}

/// Returns the deliveries of the branch that this response is about.
pub(super) fn deliveries_of(scenario: &Scenario, answer: &Value) -> BranchDeliveries {
    let id = answer["branchId"].as_str().unwrap();
    scenario.state(&[id]).unwrap()
}

/// The answers of a directory that completes nothing in time.
pub(super) const SILENT: DirectoryAnswers = {
    use super::onboarding::SideEffectStatus::Pending;
    DirectoryAnswers {
        operator_identity: Pending,
        authorization_relationship: Pending,
        manager_invitation: Pending,
    }
};

/// The answers of a directory that is late with the invitation alone.
pub(super) const INVITATION_LATE: DirectoryAnswers = DirectoryAnswers {
    manager_invitation: super::onboarding::SideEffectStatus::Pending,
    ..DirectoryAnswers::EMBEDDED
};

/// Declares the creation of a branch with other answers of the directory.
macro_rules! elsewhere {
    ($name:ident, $answers:expr) => {
        struct $name;

        impl Operation for $name {
            type Command = create_branch::Command;
            type Resource = Organization;
            type Answer = super::body::BranchBody<'static>;
            const DOC: &'static str = CreateBranch::DOC;
            const REJECTIONS: &'static [Declared] = CreateBranch::REJECTIONS;
            const EXAMPLE: Example = CreateBranch::EXAMPLE;

            fn ladder() -> Ladder {
                CreateBranch::ladder()
            }

            fn target(command: &create_branch::Command, context: &Context<'_>) -> Option<Digest> {
                CreateBranch::target(command, context)
            }

            fn unique_keys(
                command: &create_branch::Command,
                context: &Context<'_>,
            ) -> Vec<IndexKey> {
                CreateBranch::unique_keys(command, context)
            }

            fn decide(
                state: Option<&Organization>,
                command: &create_branch::Command,
                context: &Context<'_>,
            ) -> Result<Decision<Organization>, Rejection> {
                create_branch::create(state, command, context, $answers)
            }
        }
    };
}

elsewhere!(Silent, SILENT);
elsewhere!(InvitationLate, INVITATION_LATE);
