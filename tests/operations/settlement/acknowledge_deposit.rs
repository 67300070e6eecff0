//! A branch manager acknowledges the deposit of a statement.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, is_tag_of, take_id, take_time, time_in,
    with, without,
};

const PATH: &str = "/settlement-branch-deposit-acknowledgements";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("acknowledge_deposit"), stage)
}

fn statement_path(body: &Value) -> String {
    format!(
        "/settlement-statements/{}",
        body["statementId"].as_str().unwrap()
    )
}

/// Opens a handoff between branches; a good acknowledgement of it by the branch that delivered.
fn handoff(stage: &Stage) -> Value {
    let opening = Good::of(row_named("request_deposit"), stage).body;
    let opening = with(
        opening,
        "/statementKind",
        json!("inter_office_service_handoff"),
    );
    let opening = with(opening, "/statementCode", json!(stage.id("handoff-1")));
    let opening = with(opening, "/idempotencyKey", json!("handoff"));
    let opened = stage.client().post(
        "/settlement-deposit-requests",
        &stage.headquarters(),
        &opening,
    );
    assert_eq!(opened.status, 201, "{opened:?}");
    let body = with(
        good(stage).body,
        "/statementId",
        opened.json()["statementId"].clone(),
    );
    with(body, "/interOfficeAcknowledgement", facts(stage))
}

/// What the branch that delivered says of a handoff.
fn facts(stage: &Stage) -> Value {
    stage.named(json!({
        "interOfficeSettlementCode": "handoff-1",
        "reservationId": "reservation-booking-1",
        "acknowledgementSide": "service_delivery_branch",
        "acknowledgingBranchProfileId": "branch-seoul-1",
        "serviceDeliveryBranchProfileId": "branch-seoul-1",
        "customerRelationshipBranchProfileId": "branch-busan-1",
        "actorKind": "branch_manager",
        "actorProfileId": "manager-profile-1",
        "expectedStatementRevision": 1,
        "datasetRevision": 4,
        "projectedSettlementLineKeys": ["line-1"],
    }))
}

#[test]
fn an_acknowledgement_returns_the_statement_without_the_private_memo() {
    let stage = Stage::new();
    let good = good(&stage);
    let (hq, manager) = (stage.headquarters(), stage.manager());
    let mut client = stage.client();
    let path = statement_path(&good.body);
    let before = client.get(&path, &hq).json();
    let body = with(good.body.clone(), "/reason", json!("Paid."));
    let body = with(
        body,
        "/lineAcknowledgements/0/sourceEvidenceKey",
        json!("evidence"),
    );
    let second = stage.named(json!({
        "lineAcknowledgementId": "line-acknowledgement-2",
        "settlementLineKey": "line-2",
        "settlementLineKind": "inter_office_service_fee",
        "acknowledgedByActorProfileId": "manager-profile-1",
        "acknowledgedAt": "2026-11-02T19:00:00.5+09:00",
        "sourceEvidenceKey": null,
        "acknowledgementNote": "by hand",
    }));
    let mut body = body;
    body["lineAcknowledgements"]
        .as_array_mut()
        .unwrap()
        .push(second);
    let answer = good.send(&mut client, &manager, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let acknowledged = answer.json();
    let mut rest = acknowledged.clone();
    take_id(&mut rest, "/transitionAudits/1/auditId");
    let recorded = take_time(&mut rest, "/transitionAudits/1/recordedAt");
    assert_eq!(take_time(&mut rest, "/updatedAt"), recorded);
    let mut expected = before.clone();
    expected["headOfficePrivateMemo"] = Value::Null;
    expected["status"] = json!("awaiting_confirmation");
    expected["revision"] = json!(2);
    expected["updatedAt"] = Value::Null;
    let audit = stage.named(json!({
        "auditId": null,
        "commandKind": "acknowledge_branch_deposit",
        "actorKind": "branch_manager",
        "actorProfileId": "manager-profile-1",
        "idempotencyKey": "key-1",
        "expectedRevision": 1,
        "committedRevision": 2,
        "beforeStatus": "awaiting_branch_deposit",
        "afterStatus": "awaiting_confirmation",
        "recordedAt": null,
        "reason": "Paid.",
        "resultMessage": null,
        "metadata": {},
    }));
    expected["transitionAudits"]
        .as_array_mut()
        .unwrap()
        .push(audit);
    expected["lineAcknowledgements"] = stage.named(json!([
        {
            "lineAcknowledgementId": "line-acknowledgement-1",
            "settlementLineKey": "line-1",
            "settlementLineKind": "membership_due",
            "acknowledgedByActorProfileId": "manager-profile-1",
            "acknowledgedAt": "2026-11-02T10:00:00.000Z",
            "sourceEvidenceKey": "evidence",
            "acknowledgementNote": null,
        },
        {
            "lineAcknowledgementId": "line-acknowledgement-2",
            "settlementLineKey": "line-2",
            "settlementLineKind": "inter_office_service_fee",
            "acknowledgedByActorProfileId": "manager-profile-1",
            "acknowledgedAt": "2026-11-02T10:00:00.500Z",
            "sourceEvidenceKey": null,
            "acknowledgementNote": "by hand",
        },
    ]));
    assert_eq!(rest, expected);
    assert_reads(&mut client, &manager, &path, "2", &acknowledged);
    let seen = client.get(&path, &hq).json();
    assert_eq!(
        seen["headOfficePrivateMemo"],
        before["headOfficePrivateMemo"]
    );
    // A replay hides the memo as the original response did, also from a token that might see it.
    let risen = Actor {
        kind: ActorKind::HeadquartersAdministrator,
        ..good.actor.clone()
    };
    let again = good.send(&mut client, &stage.token(&risen), &body);
    assert_eq!((again.status, again.text()), (200, answer.text()));
}

#[test]
fn a_handoff_between_branches_keeps_what_was_said_of_it() {
    let stage = Stage::new();
    let body = handoff(&stage);
    let mut client = stage.client();
    let answer = client.post(PATH, &stage.manager(), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let metadata = answer.json()["transitionAudits"][1]["metadata"].clone();
    let held = metadata.to_string();
    for (member, value) in body["interOfficeAcknowledgement"].as_object().unwrap() {
        assert!(
            held.contains(&format!("\"{member}\":{value}")),
            "{member}: {held}"
        );
    }
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let path = statement_path(&good.body);
    let before = client.get(&path, &stage.headquarters());

    // A stale revision; a fact of the handoff where none is due; another branch's manager; an
    // unknown statement; another profile.
    let mut body = with(good.body.clone(), "/expectedRevision", json!(2));
    let answer = good.send(&mut client, &manager, &body);
    assert_refused(&answer, 409, "revision_stale", &["expectedRevision"]);
    body = with(body, "/interOfficeAcknowledgement", facts(&stage));
    let answer = good.send(&mut client, &manager, &body);
    assert_faults(
        &answer,
        400,
        &[("interOfficeAcknowledgement", "not_allowed")],
    );
    let elsewhere = stage.token(&Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..good.actor.clone()
    });
    let answer = good.send(&mut client, &elsewhere, &body);
    assert_refused(&answer, 403, "permission_denied", &[]);
    body = with(body, "/statementId", json!("unknown"));
    let answer = good.send(&mut client, &elsewhere, &body);
    assert_refused(&answer, 404, "statement_not_found", &[]);
    for kind in ActorKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActorKind::BranchManager)
    {
        let actor = Actor {
            kind,
            ..good.actor.clone()
        };
        let answer = good.send(&mut client, &stage.token(&actor), &body);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    let unnamed = stage.token(&Actor {
        actor_profile_id: Some("another".into()),
        ..good.actor.clone()
    });
    let answer = good.send(&mut client, &unnamed, &body);
    assert_refused(&answer, 403, "permission_denied", &[]);
    let after = client.get(&path, &stage.headquarters());
    assert_eq!(after.text(), before.text());

    // Once acknowledged it awaits no deposit; the revision is checked first.
    let done = good.carried_out(&mut client, &manager);
    let next = with(good.body.clone(), "/idempotencyKey", json!("next"));
    let answer = good.send(&mut client, &manager, &next);
    assert_refused(&answer, 409, "revision_stale", &["expectedRevision"]);
    let next = with(next, "/expectedRevision", json!(2));
    let answer = good.send(&mut client, &manager, &next);
    assert_refused(&answer, 409, "statement_not_acknowledgeable", &[]);
    let read = client.get(&path, &manager);
    assert_eq!(read.text(), done.text());
    assert!(is_tag_of(&path, "2", read.header("etag").unwrap()));
}

#[test]
fn a_handoff_requires_a_consistent_inter_office_acknowledgement() {
    let stage = Stage::new();
    let body = handoff(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let mut send = |body: &Value| client.post(PATH, &manager, body);
    let at = |member: &str| format!("/interOfficeAcknowledgement/{member}");
    let absent = without(body.clone(), "/interOfficeAcknowledgement");
    let null = with(absent.clone(), "/interOfficeAcknowledgement", Value::Null);
    for body in [absent, null] {
        let stale = with(body, "/expectedRevision", json!(7));
        assert_faults(
            &send(&stale),
            400,
            &[("interOfficeAcknowledgement", "required")],
        );
    }
    for (member, value, place, code) in [
        (
            "actorProfileId",
            json!("another"),
            "actorProfileId",
            "not_allowed",
        ),
        (
            "actorKind",
            json!("system_workflow"),
            "actorKind",
            "not_allowed",
        ),
        (
            "serviceDeliveryBranchProfileId",
            json!("x"),
            "serviceDeliveryBranchProfileId",
            "not_allowed",
        ),
        (
            "acknowledgementSide",
            json!("customer_relationship_branch"),
            "customerRelationshipBranchProfileId",
            "not_allowed",
        ),
        (
            "datasetRevision",
            json!(0),
            "datasetRevision",
            "out_of_range",
        ),
        (
            "projectedSettlementLineKeys",
            json!([]),
            "projectedSettlementLineKeys",
            "too_short",
        ),
        (
            "projectedSettlementLineKeys",
            json!(["x"]),
            "projectedSettlementLineKeys",
            "not_allowed",
        ),
    ] {
        let body = with(body.clone(), &at(member), value);
        let place = format!("interOfficeAcknowledgement.{place}");
        assert_faults(&send(&body), 400, &[(&place, code)]);
    }
    // Both revisions are reported when both are stale.
    let stale = with(body.clone(), &at("expectedStatementRevision"), json!(9));
    let places = ["interOfficeAcknowledgement.expectedStatementRevision"];
    assert_refused(&send(&stale), 409, "revision_stale", &places);
    let stale = with(stale, "/expectedRevision", json!(9));
    assert_refused(
        &send(&stale),
        409,
        "revision_stale",
        &["expectedRevision", places[0]],
    );
    // A branch that is its side's, but not the statement's.
    let other = with(
        body.clone(),
        &at("acknowledgingBranchProfileId"),
        json!("x"),
    );
    let other = with(other, &at("serviceDeliveryBranchProfileId"), json!("x"));
    assert_refused(&send(&other), 403, "permission_denied", &[]);
    assert_eq!(send(&body).status, 200);
}

#[test]
fn lines_are_each_given_once_by_the_actor_and_not_ahead_of_time() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let mut send = |body: &Value| good.send(&mut client, &manager, body);
    let line = "/lineAcknowledgements/0";
    let none = with(good.body.clone(), "/lineAcknowledgements", json!([]));
    assert_faults(&send(&none), 400, &[("lineAcknowledgements", "too_short")]);
    let mut twice = good.body.clone();
    let same = twice["lineAcknowledgements"][0].clone();
    twice["lineAcknowledgements"]
        .as_array_mut()
        .unwrap()
        .push(same);
    let repeated = [
        (
            "lineAcknowledgements[1].lineAcknowledgementId",
            "not_unique",
        ),
        ("lineAcknowledgements[1].settlementLineKey", "not_unique"),
    ];
    assert_faults(&send(&twice), 400, &repeated);
    for (member, value, code) in [
        (
            "acknowledgedByActorProfileId",
            json!("another"),
            "not_allowed",
        ),
        ("settlementLineKind", json!("other"), "not_allowed"),
        ("acknowledgementNote", json!(""), "too_short"),
        ("acknowledgedAt", json!(time_in(310_000)), "out_of_range"),
        ("unknown", json!(1), "unknown_field"),
    ] {
        let body = with(good.body.clone(), &format!("{line}/{member}"), value);
        let place = format!("lineAcknowledgements[0].{member}");
        assert_faults(&send(&body), 400, &[(&place, code)]);
    }
    for member in ["acknowledgementNote", "settlementLineKey"] {
        let body = without(good.body.clone(), &format!("{line}/{member}"));
        let place = format!("lineAcknowledgements[0].{member}");
        assert_faults(&send(&body), 400, &[(&place, "required")]);
    }
    for (member, value, code) in [
        ("expectedRevision", json!(0), "out_of_range"),
        ("reason", json!(""), "too_short"),
        (
            "actorKind",
            json!("headquarters_administrator"),
            "not_allowed",
        ),
    ] {
        let body = with(good.body.clone(), &format!("/{member}"), value);
        assert_faults(&send(&body), 400, &[(member, code)]);
    }
    let soon = with(
        good.body.clone(),
        &format!("{line}/acknowledgedAt"),
        json!(time_in(290_000)),
    );
    assert_eq!(send(&soon).status, 200);
}
