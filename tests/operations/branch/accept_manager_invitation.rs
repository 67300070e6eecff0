//! The invited manager accepts.

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::ProblemShape;
use serde_json::{Value, json};

use crate::support::Answer;
use crate::support::good::{Good, assert_problem, row_named};
use crate::support::stage::{Stage, assert_reads, take_id, take_time, with};

const PATH: &str = "/branch/manager-invitations/accept";

/// A branch whose invitation to the stage's manager is pending.
fn branch(stage: &Stage) -> Value {
    let good = Good::of(row_named("create_branch"), stage);
    good.carried_out(&mut stage.client(), &stage.headquarters())
        .json()
}

fn accept(stage: &Stage, actor: &Actor, key: &str, revision: i64) -> Answer {
    let body = json!({"expectedOnboardingRevision": revision});
    stage
        .client()
        .post_keyed(PATH, &stage.token(actor), key, &body)
}

#[track_caller]
fn assert_refusal(answer: &Answer, status: u16, code: &str) {
    assert_problem(ProblemShape::Invitation, answer, status, code);
    assert_eq!(answer.header("idempotent-replayed"), None);
}

#[test]
fn an_invitation_is_accepted_whole_and_the_branch_shows_it() {
    let stage = Stage::new();
    let branch = branch(&stage);
    let manager = stage.actor(ActorKind::BranchManager);
    let first = accept(&stage, &manager, "k-1", 1);
    assert_eq!(first.status, 201, "{first:?}");
    let mut rest = first.json();
    for id in ["/activationId", "/invitationId", "/memberProfileId"] {
        take_id(&mut rest, id);
    }
    let membership = take_id(&mut rest, "/branchMembershipId");
    take_time(&mut rest, "/acceptedAt");
    let message = rest["relationshipOutboxMessageId"].as_i64().unwrap();
    let before = branch["sideEffects"][2]["outboxMessageId"]
        .as_i64()
        .unwrap();
    assert!(message > before, "{message} after {before}");
    assert_eq!(
        rest,
        json!({
            "activationId": null,
            "invitationId": null,
            "memberProfileId": null,
            "branchMembershipId": null,
            "branchId": branch["branchId"],
            "acceptedOnboardingRevision": 1,
            "relationshipOutboxMessageId": message,
            "authorizationRelationshipStatus": "queued",
            "acceptedAt": null,
            "idempotentReplay": false,
        })
    );
    let again = accept(&stage, &manager, "k-1", 1);
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(
        again.json(),
        with(first.json(), "/idempotentReplay", json!(true))
    );

    let mut expected = branch.clone();
    for (pointer, value) in [
        ("/revision", json!(2)),
        ("/managerInvitationStatus", json!("accepted")),
        ("/allowedNextActions", json!(["update_branch_profile"])),
        ("/managerMembership/managerMembershipId", json!(membership)),
        (
            "/managerMembership/managerMembershipStatus",
            json!("active"),
        ),
        (
            "/managerMembership/sideEffects",
            json!([{
                "kind": "authorization_relationship",
                "status": "pending",
                "outboxMessageId": message,
            }]),
        ),
        (
            "/managerInvitation/managerInvitationStatus",
            json!("accepted"),
        ),
        ("/managerInvitation/allowedNextActions", json!([])),
    ] {
        expected = with(expected, pointer, value);
    }
    let path = format!("/admin/branches/{}", branch["branchId"].as_str().unwrap());
    for reader in [stage.headquarters(), stage.manager()] {
        assert_reads(&mut stage.client(), &reader, &path, "2", &expected);
    }
    // A new token that names the branch manages it.
    let at_work = Actor {
        branch_profile_ids: vec![branch["branchId"].as_str().unwrap().into()],
        email: None,
        ..manager
    };
    let token = stage.token(&at_work);
    assert_reads(&mut stage.client(), &token, &path, "2", &expected);
    let profile = format!(
        "/branch-office-profiles/{}",
        branch["branchId"].as_str().unwrap()
    );
    assert_eq!(stage.client().get(&profile, &token).status, 200);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let manager = stage.actor(ActorKind::BranchManager);
    // No manager is invited yet.
    assert_refusal(
        &accept(&stage, &manager, "k-1", 1),
        403,
        "permission_denied",
    );
    let branch = branch(&stage);
    let path = format!("/admin/branches/{}", branch["branchId"].as_str().unwrap());
    let unverified = Actor {
        email_verified: false,
        ..manager.clone()
    };
    let without_address = Actor {
        email: None,
        ..manager.clone()
    };
    let other_address = Actor {
        email: Some(format!("other-{}", manager.email.as_deref().unwrap()).into()),
        ..manager.clone()
    };
    for actor in [&unverified, &without_address, &other_address] {
        assert_refusal(&accept(&stage, actor, "k-1", 9), 403, "permission_denied");
    }
    for revision in [0, 2, -1] {
        assert_refusal(
            &accept(&stage, &manager, "k-1", revision),
            409,
            "revision_stale",
        );
    }
    let unchanged = stage.client().get(&path, &stage.headquarters());
    assert_eq!(unchanged.json(), branch);

    // The address in other letters, and any kind of actor.
    let shouting = Actor {
        kind: ActorKind::Mother,
        email: Some(manager.email.as_deref().unwrap().to_uppercase().into()),
        ..manager.clone()
    };
    assert_eq!(accept(&stage, &shouting, "k-1", 1).status, 201);
    assert_refusal(
        &accept(&stage, &manager, "k-1", 2),
        409,
        "idempotency_key_reused",
    );
    assert_refusal(&accept(&stage, &manager, "k-2", 1), 409, "revision_stale");
    assert_refusal(
        &accept(&stage, &manager, "k-2", 2),
        409,
        "activation_conflict",
    );
    // It was this subject's to accept, and no other's.
    let successor = Actor {
        subject: stage.id("successor-1").into(),
        ..manager
    };
    assert_refusal(
        &accept(&stage, &successor, "k-1", 2),
        403,
        "permission_denied",
    );
}

#[test]
fn an_invalid_acceptance_is_refused() {
    let stage = Stage::new();
    let manager = stage.manager();
    let mut client = stage.client();
    for body in [
        json!({}),
        json!({"expectedOnboardingRevision": "1"}),
        json!({"expectedOnboardingRevision": null}),
        json!({"expectedOnboardingRevision": 1, "branchId": "x"}),
    ] {
        let answer = client.post_keyed(PATH, &manager, "k-1", &body);
        assert_refusal(&answer, 422, "request_invalid");
    }
    let no_key = client.post(PATH, &manager, &json!({"expectedOnboardingRevision": 1}));
    assert_refusal(&no_key, 422, "request_invalid");
}
