//! An export of settlement records is asked for.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_id, take_time,
    with, without,
};

const PATH: &str = "/settlement-data-room-export-requests";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("open_data_room_request"), stage)
}

/// The request as the stage's actor of this kind sends it.
fn as_sent_by(stage: &Stage, kind: ActorKind) -> Value {
    let actor = stage.actor(kind);
    let body = with(good(stage).body, "/actorKind", json!(kind.as_str()));
    with(body, "/actorProfileId", json!(actor.profile_id()))
}

#[test]
fn a_request_is_opened_whole_and_those_concerned_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let opened = good.carried_out(&mut client, &stage.headquarters()).json();
    let mut rest = opened.clone();
    let id = take_id(&mut rest, "/requestId");
    take_id(&mut rest, "/actionJournal/0/actionId");
    let created = take_time(&mut rest, "/createdAt");
    for time in ["/updatedAt", "/actionJournal/0/recordedAt"] {
        assert_eq!(take_time(&mut rest, time), created);
    }
    let expected = stage.named(json!({
        "requestId": null,
        "requestCode": "request-code-1",
        "scope": {
            "collection": "settlement_lines",
            "settlementPeriodStart": "2026-10-01",
            "settlementPeriodEnd": "2026-10-31",
            "branchProfileId": "branch-seoul-1",
            "externalRecipientCode": null,
            "sourceDatasetRevision": 1,
            "sourceEvidenceKeys": ["evidence-1"],
        },
        "status": "open",
        "revision": 1,
        "requestedByActorProfileId": "headquarters-profile-1",
        "createdAt": null,
        "updatedAt": null,
        "artifacts": [],
        "actionJournal": [{
            "actionId": null,
            "actionKind": "open_request",
            "actorKind": "headquarters_administrator",
            "actorProfileId": "headquarters-profile-1",
            "idempotencyKey": "key-1",
            "expectedRevision": 0,
            "committedRevision": 1,
            "recordedAt": null,
            "reason": null,
            "artifactId": null,
            "metadata": {},
        }],
    }));
    assert_eq!(rest, expected);
    let path = format!("/settlement-data-room-requests/{id}");
    for reader in [stage.headquarters(), stage.workflow(), stage.manager()] {
        assert_reads(&mut client, &reader, &path, "1", &opened);
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    for stranger in [
        stage.token(&elsewhere),
        stage.mother(),
        stage.family_member(),
    ] {
        assert_unreadable(&mut client, &stranger, &path);
    }
}

#[test]
fn a_code_stands_for_one_request_and_finds_it_again_under_another_key() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &hq);
    let second = with(good.body.clone(), "/idempotencyKey", json!("second"));
    for body in [&good.body, &second, &second] {
        let again = client.post(PATH, &hq, body);
        assert_eq!((again.status, again.text()), (201, first.text()));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    }
    let other = with(second, "/requestCode", json!("other"));
    let reused = client.post(PATH, &hq, &other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
    let changed = with(good.body.clone(), "/idempotencyKey", json!("third"));
    let changed = with(changed, "/scope/sourceDatasetRevision", json!(2));
    let conflict = client.post(PATH, &hq, &changed);
    assert_refused(&conflict, 409, "request_code_conflict", &["requestCode"]);
    let manager = as_sent_by(&stage, ActorKind::BranchManager);
    let conflict = client.post(PATH, &stage.manager(), &manager);
    assert_refused(&conflict, 409, "request_code_conflict", &["requestCode"]);
    let fresh = with(changed, "/requestCode", json!(stage.id("request-code-3")));
    assert_eq!(client.post(PATH, &hq, &fresh).status, 201);
}

#[test]
fn only_who_the_body_names_and_may_ask_asks() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let manager = as_sent_by(&stage, ActorKind::BranchManager);
    for branch in [Value::Null, json!("elsewhere")] {
        let body = with(manager.clone(), "/scope/branchProfileId", branch);
        let answer = client.post(PATH, &stage.manager(), &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    for (pointer, value) in [
        ("/actorProfileId", json!("another")),
        ("/actorKind", json!("branch_manager")),
    ] {
        let body = with(good.body.clone(), pointer, value);
        let answer = client.post(PATH, &stage.headquarters(), &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    for kind in ActorKind::ALL {
        if kind != ActorKind::HeadquartersAdministrator {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            let answer = good.send(&mut client, &stage.token(&actor), &good.body);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }
    assert_eq!(client.post(PATH, &stage.manager(), &manager).status, 201);
    // A workflow, for no one branch.
    let workflow = as_sent_by(&stage, ActorKind::SystemWorkflow);
    let workflow = with(workflow, "/requestCode", json!(stage.id("request-code-4")));
    let workflow = with(workflow, "/scope/branchProfileId", Value::Null);
    let opened = client.post(PATH, &stage.workflow(), &workflow);
    assert_eq!(opened.status, 201, "{opened:?}");
    let path = format!(
        "/settlement-data-room-requests/{}",
        opened.json()["requestId"].as_str().unwrap()
    );
    assert_unreadable(&mut client, &stage.manager(), &path);
    assert_eq!(
        client.get(&path, &stage.headquarters()).text(),
        opened.text()
    );
}

#[test]
fn faults_of_shape_name_their_places_and_come_all_at_once() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (pointer, value, path, code) in [
        (
            "/scope/settlementPeriodEnd",
            json!("2026-09-30"),
            "scope.settlementPeriodEnd",
            "out_of_range",
        ),
        (
            "/scope/sourceDatasetRevision",
            json!(0),
            "scope.sourceDatasetRevision",
            "out_of_range",
        ),
        (
            "/scope/sourceEvidenceKeys",
            json!(["a", "b", "a"]),
            "scope.sourceEvidenceKeys[2]",
            "not_unique",
        ),
        (
            "/scope/collection",
            json!("Lines"),
            "scope.collection",
            "pattern",
        ),
        (
            "/scope/externalRecipientCode",
            json!(""),
            "scope.externalRecipientCode",
            "too_short",
        ),
        ("/actorKind", json!("mother"), "actorKind", "not_allowed"),
        ("/requestCode", json!(" "), "requestCode", "blank"),
        ("/idempotencyKey", json!(7), "idempotencyKey", "wrong_type"),
    ] {
        let body = with(good.body.clone(), pointer, value.clone());
        assert_faults(&client.post(PATH, &hq, &body), 400, &[(path, code)]);
        all = with(all, pointer, value);
        faults.push((path, code));
    }
    for member in ["branchProfileId", "externalRecipientCode"] {
        let pointer = format!("/scope/{member}");
        let path = format!("scope.{member}");
        let body = without(good.body.clone(), &pointer);
        assert_faults(&client.post(PATH, &hq, &body), 400, &[(&path, "required")]);
    }
    let none = with(good.body.clone(), "/scope/sourceEvidenceKeys", json!([]));
    let fault = [("scope.sourceEvidenceKeys", "too_short")];
    assert_faults(&client.post(PATH, &hq, &none), 400, &fault);
    all = without(all, "/scope/branchProfileId");
    faults.push(("scope.branchProfileId", "required"));
    assert_faults(&client.post(PATH, &hq, &all), 400, &faults);
    let body = with(
        good.body.clone(),
        "/scope/settlementPeriodEnd",
        json!("2026-10-01"),
    );
    let body = with(
        body,
        "/scope/collection",
        json!(format!("a{}", "_".repeat(63))),
    );
    assert_eq!(client.post(PATH, &hq, &body).status, 201);
}
