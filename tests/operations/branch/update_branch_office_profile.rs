//! How a branch presents itself is updated.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_time, with,
};

const PATH: &str = "/branch-office-profile-updates";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("update_branch_office_profile"), stage)
}

/// The read of a profile without an update.
fn untouched(stage: &Stage, revision: i64, effective_at: Value) -> Value {
    json!({
        "revisionId": null,
        "branchOfficeProfileId": stage.id("branch-seoul-1"),
        "revisionNumber": revision,
        "factGroup": "profile",
        "actorId": null,
        "reason": null,
        "effectiveAt": effective_at,
    })
}

#[test]
fn a_profile_is_updated_whole_and_so_is_its_fact() {
    let stage = Stage::new();
    let good = good(&stage);
    let (manager, workflow) = (stage.manager(), stage.workflow());
    let mut client = stage.client();
    let path = format!("/branch-office-profiles/{}", stage.id("branch-seoul-1"));
    let before = client.get(&path, &manager).json();
    assert_eq!(before, untouched(&stage, 1, before["effectiveAt"].clone()));
    assert_reads(&mut client, &manager, &path, "1", &before);

    let first = good.carried_out(&mut client, &manager);
    let updated = first.json();
    let mut rest = updated.clone();
    take_time(&mut rest, "/effectiveAt");
    let expected = stage.named(json!({
        "revisionId": "revision-1",
        "branchOfficeProfileId": "branch-seoul-1",
        "revisionNumber": 2,
        "factGroup": "profile",
        "actorId": "manager-1",
        "reason": "A new name.",
        "effectiveAt": null,
    }));
    assert_eq!(rest, expected);
    for reader in [&manager, &stage.headquarters()] {
        assert_reads(&mut client, reader, &path, "2", &updated);
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    for stranger in [stage.token(&elsewhere), stage.mother(), workflow.clone()] {
        assert_unreadable(&mut client, &stranger, &path);
    }
    let fact = format!(
        "/reference-facts/branch-office-profile/{}",
        stage.id("branch-seoul-1")
    );
    let fact = client.get(&fact, &workflow).json();
    assert_eq!(fact["revision"], 2);
    assert_eq!(fact["facts"]["displayName"], "서울 본점");
    assert_eq!(fact["facts"]["legalName"], "서울산후케어 주식회사");

    let again = good.send(&mut client, &manager, &good.body);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    // A later fact is not an update.
    let facts = stage.sample("branch-office-profile", "branch-seoul-1");
    stage.fact("branch-office-profile", "branch-seoul-1", 3, facts);
    let after = client.get(&path, &manager).json();
    assert_eq!(after, untouched(&stage, 3, after["effectiveAt"].clone()));
    assert!(after["effectiveAt"].as_str() >= updated["effectiveAt"].as_str());
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, manager) = (stage.headquarters(), stage.manager());
    let mut client = stage.client();
    good.carried_out(&mut client, &manager);
    let next = with(good.body.clone(), "/commandId", json!("second"));
    let next = with(next, "/expectedRevision", json!(2));
    // Its revision's identifier is taken, also by another profile's.
    let answer = client.post(PATH, &manager, &next);
    assert_refused(&answer, 409, "revision_id_conflict", &["revisionId"]);
    let facts = stage.sample("branch-office-profile", "branch-seoul-1");
    stage.fact("branch-office-profile", "branch-busan-1", 2, facts);
    let other = with(
        next.clone(),
        "/branchOfficeProfileId",
        json!(stage.id("branch-busan-1")),
    );
    let answer = client.post(PATH, &hq, &other);
    assert_refused(&answer, 409, "revision_id_conflict", &["revisionId"]);
    for revision in [1, 3, 0] {
        let stale = with(next.clone(), "/expectedRevision", json!(revision));
        let answer = client.post(PATH, &manager, &stale);
        assert_refused(&answer, 409, "revision_stale", &["expectedRevision"]);
    }
    let stale = with(other, "/expectedRevision", json!(1));
    assert_refused(
        &client.post(PATH, &manager, &stale),
        403,
        "permission_denied",
        &[],
    );
    let unknown = with(stale.clone(), "/branchOfficeProfileId", json!("unknown"));
    assert_refused(
        &client.post(PATH, &hq, &unknown),
        403,
        "permission_denied",
        &[],
    );
    for kind in ActorKind::ALL {
        if !matches!(
            kind,
            ActorKind::BranchManager | ActorKind::HeadquartersAdministrator
        ) {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            let answer = client.post(PATH, &stage.token(&actor), &next);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }
    let reused = good.send(&mut client, &manager, &good.other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
    let mut faulty = good.body.clone();
    let mut faults = Vec::new();
    for member in [
        "commandId",
        "revisionId",
        "branchOfficeProfileId",
        "displayName",
        "legalName",
        "contactEmail",
        "primaryPhoneNumber",
        "addressLine",
        "businessRegistrationReference",
        "reason",
    ] {
        faulty = with(faulty, &format!("/{member}"), json!(""));
        faults.push((member, "too_short"));
    }
    assert_faults(&client.post(PATH, &manager, &faulty), 400, &faults);
    // Headquarters goes on where the manager was, under the command that was refused.
    let fresh = with(next, "/revisionId", json!(stage.id("revision-2")));
    let done = client.post(PATH, &hq, &fresh);
    assert_eq!(
        (done.status, done.json()["revisionNumber"].clone()),
        (200, json!(3))
    );
}
