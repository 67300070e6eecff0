//! An export is ready.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, take_id, take_time, with,
};

fn good(stage: &Stage) -> Good {
    Good::of(row_named("mark_artifact_ready"), stage)
}

fn read_path(good: &Good) -> String {
    good.path.trim_end_matches("/ready-artifacts").to_owned()
}

/// The next artifact of this kind, at this revision.
fn next(stage: &Stage, body: &Value, number: i64, kind: &str) -> Value {
    let id = stage.id(&format!("artifact-{number}"));
    let body = with(body.clone(), "/artifact/artifactId", json!(id));
    let body = with(body, "/artifact/artifactKind", json!(kind));
    let body = with(body, "/idempotencyKey", json!(format!("key of {id}")));
    with(body, "/expectedRevision", json!(number))
}

#[test]
fn an_artifact_is_added_whole_and_a_later_one_of_its_kind_takes_its_place() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, workflow) = (stage.headquarters(), stage.workflow());
    let mut client = stage.client();
    let path = read_path(&good);
    let opened = client.get(&path, &hq).json();
    let first = good.carried_out(&mut client, &workflow);
    let ready = first.json();
    let mut rest = ready.clone();
    let recorded = take_time(&mut rest, "/actionJournal/1/recordedAt");
    assert_eq!(take_time(&mut rest, "/updatedAt"), recorded);
    take_id(&mut rest, "/actionJournal/1/actionId");
    let mut artifact = good.body["artifact"].clone();
    artifact["generatedAt"] = json!("2026-11-01T00:00:00.000Z");
    artifact["supersededAt"] = Value::Null;
    let expected = with(opened.clone(), "/status", json!("ready"));
    let expected = with(expected, "/revision", json!(2));
    let expected = with(expected, "/updatedAt", Value::Null);
    let expected = with(expected, "/artifacts", json!([artifact]));
    let entry = stage.named(json!({
        "actionId": null,
        "actionKind": "mark_artifact_ready",
        "actorKind": "system_workflow",
        "actorProfileId": "workflow-1",
        "idempotencyKey": "key-1",
        "expectedRevision": 1,
        "committedRevision": 2,
        "recordedAt": null,
        "reason": null,
        "artifactId": "artifact-1",
        "metadata": {},
    }));
    let journal = json!([opened["actionJournal"][0], entry]);
    assert_eq!(rest, with(expected, "/actionJournal", journal));
    for reader in [&hq, &workflow, &stage.manager()] {
        assert_reads(&mut client, reader, &path, "2", &ready);
    }
    let again = good.send(&mut client, &workflow, &good.body);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));

    // Another kind leaves it alone, its own does not.
    let other = next(&stage, &good.body, 2, "summary");
    let after = client.post(&good.path, &workflow, &other).json();
    assert_eq!(after["artifacts"][0], ready["artifacts"][0]);
    let own = next(&stage, &good.body, 3, "ledger");
    let mut after = client.post(&good.path, &workflow, &own).json();
    assert_reads(&mut client, &workflow, &path, "4", &after);
    let superseded = take_time(&mut after, "/artifacts/0/supersededAt");
    assert_eq!(json!(superseded), after["updatedAt"]);
    for index in [1, 2] {
        assert_eq!(after["artifacts"][index]["supersededAt"], Value::Null);
    }
    assert_eq!(after["actionJournal"].as_array().unwrap().len(), 4);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let workflow = stage.workflow();
    let mut client = stage.client();
    good.carried_out(&mut client, &workflow);
    let fresh = next(&stage, &good.body, 2, "ledger");

    let mut body = with(fresh.clone(), "/artifact/sourceDatasetRevision", json!(0));
    let answer = client.post(&good.path, &workflow, &body);
    let place = ["artifact.sourceDatasetRevision"];
    assert_refused(&answer, 409, "dataset_revision_stale", &place);
    let standing = good.body["artifact"]["artifactId"].clone();
    body = with(body, "/artifact/artifactId", standing);
    let answer = client.post(&good.path, &workflow, &body);
    assert_refused(
        &answer,
        409,
        "artifact_id_conflict",
        &["artifact.artifactId"],
    );
    for revision in [1, 3] {
        body = with(body, "/expectedRevision", json!(revision));
        let answer = client.post(&good.path, &workflow, &body);
        assert_refused(&answer, 409, "revision_stale", &["expectedRevision"]);
    }
    let unknown = "/settlement-data-room-requests/unknown/ready-artifacts";
    let answer = client.post(unknown, &workflow, &body);
    assert_refused(&answer, 404, "data_room_request_not_found", &[]);
    for (pointer, value) in [
        ("/actorProfileId", json!("another")),
        ("/actorKind", json!("headquarters_administrator")),
    ] {
        let body = with(body.clone(), pointer, value);
        let answer = client.post(unknown, &workflow, &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    for kind in [
        ActorKind::HeadquartersAdministrator,
        ActorKind::BranchManager,
    ] {
        let actor = stage.actor(kind);
        let body = with(fresh.clone(), "/actorKind", json!(kind.as_str()));
        let body = with(body, "/actorProfileId", json!(actor.profile_id()));
        let answer = client.post(&good.path, &stage.token(&actor), &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    for kind in ActorKind::ALL {
        if kind != ActorKind::SystemWorkflow {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            let answer = client.post(&good.path, &stage.token(&actor), &fresh);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }
    let reused = good.send(&mut client, &workflow, &good.other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
    let done = client.post(&good.path, &workflow, &fresh);
    assert_eq!(
        (done.status, done.header("idempotent-replayed")),
        (200, None)
    );
}

#[test]
fn a_faulty_artifact_is_invalid_and_every_fault_is_reported() {
    let stage = Stage::new();
    let good = good(&stage);
    let workflow = stage.workflow();
    let mut client = stage.client();
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (member, value, code) in [
        ("byteSize", json!(-1), "out_of_range"),
        ("contentSha256", json!("A".repeat(64)), "pattern"),
        ("storageObjectKey", json!("k".repeat(1_025)), "too_long"),
        ("storageBucket", json!("b".repeat(513)), "too_long"),
        ("fileName", json!(" "), "blank"),
        ("generatedAt", json!("2026-11-01"), "pattern"),
        ("artifactKind", Value::Null, "wrong_type"),
    ] {
        let pointer = format!("/artifact/{member}");
        let path = format!("artifact.{member}");
        let body = with(good.body.clone(), &pointer, value.clone());
        let answer = good.send(&mut client, &workflow, &body);
        assert_faults(&answer, 400, &[(&path, code)]);
        all = with(all, &pointer, value);
        faults.push((path, code));
    }
    all = with(all, "/actorKind", json!("mother"));
    faults.push(("actorKind".to_owned(), "not_allowed"));
    let faults: Vec<_> = faults
        .iter()
        .map(|(path, code)| (path.as_str(), *code))
        .collect();
    assert_faults(&good.send(&mut client, &workflow, &all), 400, &faults);
    let short = with(
        good.body.clone(),
        "/artifact/contentSha256",
        json!("a".repeat(63)),
    );
    let answer = good.send(&mut client, &workflow, &short);
    assert_eq!(answer.faults()[0].0, "artifact.contentSha256");
    // At the bounds.
    let body = with(good.body.clone(), "/artifact/byteSize", json!(0));
    let body = with(body, "/artifact/storageObjectKey", json!("k".repeat(1_024)));
    assert_eq!(good.send(&mut client, &workflow, &body).status, 200);
}
