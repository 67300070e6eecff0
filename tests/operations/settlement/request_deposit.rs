//! Headquarters, or a workflow, asks a branch for a deposit.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_id, take_time,
    with, without,
};

const PATH: &str = "/settlement-deposit-requests";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("request_deposit"), stage)
}

#[test]
fn a_statement_is_opened_whole_and_those_concerned_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let opened = good.carried_out(&mut client, &stage.headquarters()).json();
    let mut rest = opened.clone();
    let id = take_id(&mut rest, "/statementId");
    take_id(&mut rest, "/transitionAudits/0/auditId");
    let created = take_time(&mut rest, "/createdAt");
    assert_eq!(take_time(&mut rest, "/updatedAt"), created);
    assert_eq!(
        take_time(&mut rest, "/transitionAudits/0/recordedAt"),
        created
    );
    let expected = stage.named(json!({
        "statementId": null,
        "statementCode": "statement-code-1",
        "statementKind": "head_office_to_branch",
        "branchProfileId": "branch-seoul-1",
        "settlementPeriodStart": "2026-10-01",
        "settlementPeriodEnd": "2026-10-31",
        "status": "awaiting_branch_deposit",
        "revision": 1,
        "remittanceAccountSnapshot": {
            "remittanceAccountSnapshotId": "remittance-1",
            "bankName": "한빛은행",
            "accountHolder": "Carebook",
            "accountNumberDisplay": "110-***-000123",
            "capturedAt": "2026-11-01T00:00:00.000Z",
            "sourceReferenceKey": null,
        },
        "requestedByActorProfileId": "headquarters-profile-1",
        "createdAt": null,
        "updatedAt": null,
        "messageToBranch": "By Friday, please.",
        "headOfficePrivateMemo": "Late twice this year.",
        "transitionAudits": [{
            "auditId": null,
            "commandKind": "request_deposit",
            "actorKind": "headquarters_administrator",
            "actorProfileId": "headquarters-profile-1",
            "idempotencyKey": "key-1",
            "expectedRevision": 0,
            "committedRevision": 1,
            "beforeStatus": "awaiting_branch_deposit",
            "afterStatus": "awaiting_branch_deposit",
            "recordedAt": null,
            "reason": null,
            "resultMessage": null,
            "metadata": {},
        }],
        "lineAcknowledgements": [],
        "manualRows": [],
    }));
    assert_eq!(rest, expected);

    let path = format!("/settlement-statements/{id}");
    for reader in [stage.headquarters(), stage.workflow()] {
        assert_reads(&mut client, &reader, &path, "1", &opened);
    }
    let hidden = with(opened, "/headOfficePrivateMemo", Value::Null);
    assert_reads(&mut client, &stage.manager(), &path, "1", &hidden);
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    assert_unreadable(&mut client, &stage.token(&elsewhere), &path);
    for stranger in [stage.mother(), stage.family_member()] {
        assert_unreadable(&mut client, &stranger, &path);
    }
}

#[test]
fn a_workflow_asks_too_under_its_subject_where_it_has_no_profile() {
    let stage = Stage::new();
    let body = with(good(&stage).body, "/actorKind", json!("system_workflow"));
    let body = with(body, "/actorProfileId", stage.named(json!("workflow-1")));
    let body = with(body, "/messageToBranch", Value::Null);
    let body = with(body, "/headOfficePrivateMemo", Value::Null);
    let body = without(body, "/remittanceAccountSnapshot/sourceReferenceKey");
    let answer = stage.client().post(PATH, &stage.workflow(), &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let statement = answer.json();
    assert_eq!(
        statement["requestedByActorProfileId"],
        stage.id("workflow-1")
    );
    assert_eq!(statement["messageToBranch"], Value::Null);
    let account = &statement["remittanceAccountSnapshot"];
    assert_eq!(account.get("sourceReferenceKey"), Some(&Value::Null));
}

#[test]
fn only_who_the_body_names_and_may_ask_asks() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    for kind in ActorKind::ALL {
        if kind == ActorKind::HeadquartersAdministrator {
            continue;
        }
        // Under the profile that the body names; what only some kinds may name is a fault of
        // shape, so that the kind in the body stays headquarters'.
        let actor = Actor {
            kind,
            ..good.actor.clone()
        };
        let answer = good.send(&mut client, &stage.token(&actor), &good.body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    let manager = with(good.body.clone(), "/actorKind", json!("branch_manager"));
    let manager = with(
        manager,
        "/actorProfileId",
        stage.named(json!("manager-profile-1")),
    );
    let answer = client.post(PATH, &stage.manager(), &manager);
    assert_refused(&answer, 403, "permission_denied", &[]);
    let hq = stage.headquarters();
    for (member, value) in [
        ("/actorProfileId", json!("another")),
        // The subject, where the token names a profile.
        ("/actorProfileId", stage.named(json!("headquarters-1"))),
        ("/actorKind", json!("system_workflow")),
    ] {
        let body = with(good.body.clone(), member, value);
        assert_refused(
            &client.post(PATH, &hq, &body),
            403,
            "permission_denied",
            &[],
        );
    }
    good.carried_out(&mut client, &hq);
}

#[test]
fn a_code_stands_for_one_statement_and_finds_it_again_under_another_key() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &hq);
    // The same facts, also otherwise spelt, under a second key: a replay that takes the key.
    let again = with(good.body.clone(), "/idempotencyKey", json!("second"));
    let again = with(
        again,
        "/remittanceAccountSnapshot/capturedAt",
        json!("2026-10-31T19:00:00-05:00"),
    );
    for _ in 0..2 {
        let answer = client.post(PATH, &hq, &again);
        assert_eq!((answer.status, answer.text()), (201, first.text()));
        assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    }
    let other = with(again, "/statementCode", json!("other"));
    let reused = client.post(PATH, &hq, &other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
    // Other facts under the code, or another actor.
    let changed = with(good.body.clone(), "/idempotencyKey", json!("third"));
    let changed = with(changed, "/messageToBranch", Value::Null);
    let conflict = client.post(PATH, &hq, &changed);
    assert_refused(
        &conflict,
        409,
        "statement_code_conflict",
        &["statementCode"],
    );
    let colleague = Actor {
        subject: "colleague".into(),
        ..good.actor.clone()
    };
    let conflict = client.post(PATH, &stage.token(&colleague), &good.body);
    assert_refused(
        &conflict,
        409,
        "statement_code_conflict",
        &["statementCode"],
    );
    // The third key was not taken.
    let fresh = with(
        changed,
        "/statementCode",
        json!(stage.id("statement-code-3")),
    );
    assert_eq!(client.post(PATH, &hq, &fresh).status, 201);
    let id = first.json()["statementId"].as_str().unwrap().to_owned();
    let read = client.get(&format!("/settlement-statements/{id}"), &hq);
    assert_eq!(read.text(), first.text());
}

#[test]
fn faults_of_shape_name_their_places_and_come_all_at_once() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let long = "가".repeat(4_001);
    let account = |member: &str| format!("remittanceAccountSnapshot.{member}");
    for (pointer, value, path, code) in [
        (
            "/settlementPeriodEnd",
            json!("2026-09-30"),
            "settlementPeriodEnd".into(),
            "out_of_range",
        ),
        (
            "/settlementPeriodEnd",
            json!("2026-11-31"),
            "settlementPeriodEnd".into(),
            "pattern",
        ),
        (
            "/settlementPeriodEnd",
            json!("2026-1-31"),
            "settlementPeriodEnd".into(),
            "pattern",
        ),
        (
            "/settlementPeriodEnd",
            json!(20_261_031),
            "settlementPeriodEnd".into(),
            "wrong_type",
        ),
        (
            "/settlementPeriodStart",
            json!(""),
            "settlementPeriodStart".into(),
            "too_short",
        ),
        (
            "/statementKind",
            json!("other"),
            "statementKind".into(),
            "not_allowed",
        ),
        (
            "/statementKind",
            json!(""),
            "statementKind".into(),
            "too_short",
        ),
        (
            "/actorKind",
            json!("mother"),
            "actorKind".into(),
            "not_allowed",
        ),
        (
            "/messageToBranch",
            json!(""),
            "messageToBranch".into(),
            "too_short",
        ),
        (
            "/messageToBranch",
            json!(long),
            "messageToBranch".into(),
            "too_long",
        ),
        (
            "/headOfficePrivateMemo",
            json!(""),
            "headOfficePrivateMemo".into(),
            "too_short",
        ),
        (
            "/statementCode",
            json!(" "),
            "statementCode".into(),
            "blank",
        ),
        (
            "/remittanceAccountSnapshot/bankName",
            json!(""),
            account("bankName"),
            "too_short",
        ),
        (
            "/remittanceAccountSnapshot/bank",
            json!(""),
            account("bank"),
            "unknown_field",
        ),
        (
            "/remittanceAccountSnapshot/capturedAt",
            json!(0),
            account("capturedAt"),
            "wrong_type",
        ),
        (
            "/remittanceAccountSnapshot",
            json!(null),
            "remittanceAccountSnapshot".into(),
            "wrong_type",
        ),
    ] {
        let body = with(good.body.clone(), pointer, value);
        assert_faults(&client.post(PATH, &hq, &body), 400, &[(&path, code)]);
    }
    for member in ["messageToBranch", "headOfficePrivateMemo"] {
        let body = without(good.body.clone(), &format!("/{member}"));
        assert_faults(&client.post(PATH, &hq, &body), 400, &[(member, "required")]);
    }
    let body = with(
        good.body.clone(),
        "/settlementPeriodEnd",
        json!("2026-09-30"),
    );
    let body = with(body, "/remittanceAccountSnapshot/bankName", json!(7));
    let body = without(body, "/remittanceAccountSnapshot/accountHolder");
    let body = without(body, "/statementCode");
    let body = with(body, "/extra", json!({}));
    let faults = [
        ("settlementPeriodEnd", "out_of_range"),
        ("remittanceAccountSnapshot.bankName", "wrong_type"),
        ("remittanceAccountSnapshot.accountHolder", "required"),
        ("statementCode", "required"),
        ("extra", "unknown_field"),
    ];
    assert_faults(&client.post(PATH, &hq, &body), 400, &faults);
    // A day's period, and the longest strings.
    let body = with(
        good.body.clone(),
        "/settlementPeriodEnd",
        json!("2026-10-01"),
    );
    let body = with(body, "/messageToBranch", json!("가".repeat(4_000)));
    let body = with(body, "/branchProfileId", json!("가".repeat(512)));
    assert_eq!(client.post(PATH, &hq, &body).status, 201);
}
