//! Facts come in, as one body and as a stream, and are read.

use carebook::base::actor::{Actor, ActorKind};
use carebook::domain::reference::samples;
use serde_json::{Value, json};

use crate::support::stage::{Stage, assert_faults, assert_reads, assert_refused, with, without};
use crate::support::{Answer, Client, Server, World};

const PATH: &str = "/reference-facts";

fn actor_fact(id: &str, revision: i64, lifecycle: &str) -> Value {
    json!({"kind": "actor", "id": id, "revision": revision, "facts": {"lifecycle": lifecycle}})
}

/// Sends the facts as lines.
fn lines(client: &mut Client, token: &str, facts: &[Value]) -> Answer {
    let lines: String = facts.iter().map(|fact| format!("{fact}\n")).collect();
    client.put_lines(token, &lines)
}

#[track_caller]
fn counts(answer: &Answer) -> [u64; 5] {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 6, "{body}");
    ["applied", "unchanged", "stale", "conflict", "invalid"]
        .map(|name| body[name].as_u64().unwrap())
}

type Send = fn(&mut Client, &str, &[Value]) -> Answer;

/// The two ways in: as one body, and as lines.
const WAYS: [Send; 2] = [Client::put_facts, lines];

#[test]
fn each_fact_is_compared_with_what_the_store_has() {
    for (way, send) in WAYS.iter().enumerate() {
        let stage = Stage::new();
        let token = stage.workflow();
        let mut client = stage.client();
        let id = |name: &str| format!("{name}-{way}-{}", stage.number);
        let (a, b) = (id("a"), id("b"));
        let answer = send(
            &mut client,
            &token,
            &[actor_fact(&a, 5, "active"), actor_fact(&b, 1, "active")],
        );
        assert_eq!(counts(&answer), [2, 0, 0, 0, 0]);
        assert_eq!(answer.json()["problems"], json!([]));
        assert!(answer.position().is_some());
        // In their order, also facts of one resource.
        let answer = send(
            &mut client,
            &token,
            &[
                actor_fact(&a, 5, "active"),
                actor_fact(&a, 5, "inactive"),
                actor_fact(&a, 4, "inactive"),
                actor_fact(&a, 7, "withdrawn"),
                actor_fact(&a, 6, "active"),
                actor_fact(&a, 0, "active"),
                actor_fact(&a, 8, "elsewhere"),
                actor_fact(&b, 2, "inactive"),
                actor_fact(&b, 3, "active"),
            ],
        );
        assert_eq!(counts(&answer), [3, 1, 2, 1, 2]);
        let problem = |index: u64, result: &str, faults: Value| {
            json!({"index": index, "kind": "actor", "id": a, "result": result,
                "fieldErrors": faults})
        };
        let fault = |path: &str, code: &str| {
            let errors = answer.json()["problems"].as_array().unwrap().clone();
            let errors = errors
                .iter()
                .flat_map(|one| one["fieldErrors"].as_array().unwrap().clone());
            let found = errors
                .into_iter()
                .find(|error| error["fieldPath"] == path)
                .unwrap();
            assert_eq!(found["code"], code);
            json!([found])
        };
        assert_eq!(
            answer.json()["problems"],
            json!([
                problem(1, "conflict", fault("facts", "not_allowed")),
                problem(2, "stale", json!([])),
                problem(4, "stale", json!([])),
                problem(5, "invalid", fault("revision", "out_of_range")),
                problem(6, "invalid", fault("facts.lifecycle", "not_allowed")),
            ])
        );
        let body = actor_fact(&a, 7, "withdrawn");
        assert_reads(
            &mut client,
            &token,
            &format!("{PATH}/actor/{a}"),
            "7",
            &body,
        );
        let body = actor_fact(&b, 3, "active");
        assert_reads(
            &mut client,
            &token,
            &format!("{PATH}/actor/{b}"),
            "3",
            &body,
        );
    }
}

#[test]
fn a_fact_s_faults_are_reported_by_their_place_inside_it() {
    let stage = Stage::new();
    let token = stage.workflow();
    let mut client = stage.client();
    let plan = json!({"kind": "payment-product-plan", "id": "new", "revision": 1,
        "facts": stage.sample("payment-product-plan", "plan-direct")});
    let shares = json!({"kind": "reservation-financial-facts", "id": "new", "revision": 1,
        "facts": stage.sample("reservation-financial-facts", "reservation-booking-1")});
    let cases = [
        (
            with(plan.clone(), "/kind", json!("planet")),
            vec![("kind", "not_allowed")],
        ),
        (without(plan.clone(), "/kind"), vec![("kind", "required")]),
        (
            with(plan.clone(), "/id", json!("")),
            vec![("id", "too_short")],
        ),
        (
            with(plan.clone(), "/revision", json!(-1)),
            vec![("revision", "out_of_range")],
        ),
        (
            with(plan.clone(), "/revision", json!(1.5)),
            vec![("revision", "wrong_type")],
        ),
        (
            with(plan.clone(), "/facts", json!([])),
            vec![("facts", "wrong_type")],
        ),
        (
            with(plan.clone(), "/extra", json!(1)),
            vec![("extra", "unknown_field")],
        ),
        (
            with(plan.clone(), "/facts/extra", json!(1)),
            vec![("facts.extra", "unknown_field")],
        ),
        (
            with(plan.clone(), "/facts/cardRateBps", json!(10_001)),
            vec![("facts.cardRateBps", "out_of_range")],
        ),
        (
            without(
                with(plan, "/facts/merchantOfRecord", json!("x")),
                "/facts/providerRoutingKey",
            ),
            vec![
                ("facts.merchantOfRecord", "not_allowed"),
                ("facts.providerRoutingKey", "required"),
            ],
        ),
        (
            with(shares, "/facts/headquartersShareBasisPoints", json!(3_001)),
            vec![("facts.headquartersShareBasisPoints", "out_of_range")],
        ),
        (json!("text"), vec![("", "wrong_type")]),
        (json!(null), vec![("", "wrong_type")]),
    ];
    let facts: Vec<Value> = cases.iter().map(|(fact, _)| fact.clone()).collect();
    for send in WAYS {
        let answer = send(&mut client, &token, &facts);
        assert_eq!(counts(&answer), [0, 0, 0, 0, cases.len() as u64]);
        let problems = answer.json()["problems"].as_array().unwrap().clone();
        assert_eq!(problems.len(), cases.len());
        for (index, (problem, (fact, faults))) in problems.iter().zip(&cases).enumerate() {
            assert_eq!(problem["index"], index);
            assert_eq!(problem["result"], "invalid");
            assert_eq!(problem["kind"], fact["kind"]);
            let mut found: Vec<_> = problem["fieldErrors"]
                .as_array()
                .unwrap()
                .iter()
                .map(|fault| {
                    assert!(fault["message"].is_string());
                    (
                        fault["fieldPath"].as_str().unwrap(),
                        fault["code"].as_str().unwrap(),
                    )
                })
                .collect();
            found.sort();
            assert_eq!(found, *faults, "{fact}");
        }
    }
    let answer = client.get(&format!("{PATH}/payment-product-plan/new"), &token);
    assert_refused(&answer, 404, "not_found", &[]);
}

#[test]
fn days_in_the_wrong_order_are_told_of_a_fact_that_is_not_stored() {
    let stage = Stage::new();
    let token = stage.workflow();
    let mut client = stage.client();
    let facts = [
        ("regional-benefit-policy", "benefit-seoul-jung"),
        ("settlement-account", "settlement-account-1"),
    ]
    .map(|(kind, id)| {
        let facts = with(
            stage.sample(kind, id),
            "/effectiveUntil",
            json!("1999-12-31"),
        );
        json!({"kind": kind, "id": stage.id("backwards"), "revision": 1, "facts": facts})
    });
    for send in WAYS {
        let answer = send(&mut client, &token, &facts);
        assert_eq!(counts(&answer), [0, 0, 0, 0, 2]);
        for problem in answer.json()["problems"].as_array().unwrap() {
            assert_eq!(problem["result"], "invalid");
            let faults = problem["fieldErrors"].as_array().unwrap();
            assert_eq!(faults.len(), 1, "{problem}");
            assert_eq!(faults[0]["fieldPath"], "facts.effectiveUntil");
            assert_eq!(faults[0]["code"], "out_of_range");
        }
    }
}

#[test]
fn a_line_is_cut_at_its_end_and_blank_ones_count_only() {
    let stage = Stage::new();
    let token = stage.workflow();
    let mut client = stage.client();
    let id = stage.id("line-1");
    let text = format!(
        "\n{}\r\n  \t\n{{not json\n[1]\n{}",
        actor_fact(&id, 1, "active"),
        actor_fact(&id, 2, "active"),
    );
    let answer = client.put_lines(&token, &text);
    assert_eq!(counts(&answer), [2, 0, 0, 0, 2]);
    let problems = answer.json()["problems"].clone();
    assert_eq!(problems[0]["index"], 3);
    assert_eq!(problems[0]["kind"], Value::Null);
    assert_eq!(problems[0]["id"], Value::Null);
    assert_eq!(problems[0]["fieldErrors"][0]["code"], "malformed_json");
    assert_eq!(problems[0]["fieldErrors"][0]["fieldPath"], "");
    assert_eq!(problems[1]["index"], 4);
    for empty in ["", "\n", "\r\n\r\n"] {
        assert_eq!(counts(&client.put_lines(&token, empty)), [0; 5]);
    }
    assert_eq!(counts(&client.put_facts(&token, &[])), [0; 5]);
}

#[test]
fn the_first_hundred_problems_are_told_and_all_are_counted() {
    let stage = Stage::new();
    let token = stage.workflow();
    let facts: Vec<Value> = (0..150).map(|_| actor_fact("bad", 1, "bad")).collect();
    for send in WAYS {
        let answer = send(&mut stage.client(), &token, &facts);
        assert_eq!(counts(&answer), [0, 0, 0, 0, 150]);
        let problems = answer.json()["problems"].as_array().unwrap().clone();
        let indices = problems
            .iter()
            .map(|problem| problem["index"].as_u64().unwrap());
        assert!(indices.eq(0..100));
    }
}

#[test]
fn a_body_that_is_no_batch_is_invalid() {
    let stage = Stage::new();
    let token = stage.workflow();
    let mut client = stage.client();
    for (body, path, code) in [
        (json!({}), "facts", "required"),
        (json!({"facts": {}}), "facts", "wrong_type"),
        (json!({"facts": null}), "facts", "wrong_type"),
        (json!({"facts": [], "more": 1}), "more", "unknown_field"),
        (json!([]), "", "wrong_type"),
    ] {
        assert_faults(&client.post(PATH, &token, &body), 400, &[(path, code)]);
    }
    let bearer = format!("Bearer {token}");
    for kind in ["text/plain", "application/ndjson"] {
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", kind)];
        let answer = client.request("POST", PATH, &headers, b"");
        assert_refused(&answer, 415, "unsupported_media_type", &[]);
    }
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let answer = client.request("POST", PATH, &headers, b"");
    assert_faults(&answer, 400, &[("", "malformed_json")]);
    let large = vec![b' '; (1 << 20) + 1];
    let answer = client.request("POST", PATH, &headers, &large);
    assert_refused(&answer, 413, "body_too_large", &[]);
}

#[test]
fn a_stream_may_be_larger_than_any_body() {
    let stage = Stage::new();
    let mut text = String::new();
    for number in 0..6_000 {
        let id = format!("{}-{number}-{}", "x".repeat(300), stage.number);
        text.push_str(&actor_fact(&id, 1, "active").to_string());
        text.push('\n');
    }
    assert!(text.len() > 2 << 20);
    let mut client = stage.client();
    assert_eq!(
        counts(&client.put_lines(&stage.workflow(), &text)),
        [6_000, 0, 0, 0, 0]
    );
    assert_eq!(
        counts(&client.put_lines(&stage.workflow(), &text)),
        [0, 6_000, 0, 0, 0]
    );
}

#[test]
fn facts_are_a_workflows_with_the_permission() {
    let stage = Stage::new();
    let mut client = stage.client();
    let workflow = stage.actor(ActorKind::SystemWorkflow);
    let with_permissions = |kind: ActorKind, permissions: &[&str]| {
        stage.token(&Actor {
            kind,
            permissions: permissions.iter().map(|name| (*name).into()).collect(),
            ..workflow.clone()
        })
    };
    let fact = format!("{PATH}/actor/{}", stage.id("mother-1"));
    let unknown = format!("{PATH}/planet/x");
    let both = ["facts:write", "facts:read"];
    for kind in ActorKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActorKind::SystemWorkflow)
    {
        let token = with_permissions(kind, &both);
        for path in [&fact, &unknown] {
            assert_refused(&client.get(path, &token), 403, "permission_denied", &[]);
        }
        for send in WAYS {
            let answer = send(&mut client, &token, &[]);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }
    let kind = ActorKind::SystemWorkflow;
    let reads = with_permissions(kind, &["facts:read"]);
    let writes = with_permissions(kind, &["facts:write"]);
    let neither = with_permissions(kind, &["facts:Write"]);
    for token in [&reads, &writes] {
        assert_eq!(client.get(&fact, token).status, 200);
        assert_refused(&client.get(&unknown, token), 404, "not_found", &[]);
    }
    assert_refused(&client.get(&fact, &neither), 403, "permission_denied", &[]);
    for token in [&reads, &neither] {
        let answer = client.put_facts(token, &[actor_fact("x", 1, "active")]);
        assert_refused(&answer, 403, "permission_denied", &[]);
    }
    assert_eq!(client.put_facts(&writes, &[]).status, 200);
    // The shape of a body is checked before the permission.
    let answer = client.post(PATH, &neither, &json!({}));
    assert_faults(&answer, 400, &[("facts", "required")]);
}

#[test]
fn an_owner_has_one_profile() {
    let stage = Stage::new();
    let facts = stage.sample("mother-profile", "mother-profile-1");
    let second = stage.named(json!({"kind": "mother-profile", "id": "mother-profile-2",
        "revision": 1, "facts": facts}));
    let mut client = stage.client();
    let answer = client.put_facts(&stage.workflow(), &[second]);
    assert_eq!(counts(&answer), [0, 0, 0, 1, 0]);
    let problem = &answer.json()["problems"][0];
    assert_eq!(problem["result"], "conflict");
    assert_eq!(problem["fieldErrors"][0]["fieldPath"], "facts.ownerSubject");
    assert_eq!(problem["fieldErrors"][0]["code"], "not_unique");
}

#[test]
fn facts_are_compared_as_values() {
    let stage = Stage::new();
    let mut client = stage.client();
    let fact = |published: &str| {
        json!({"kind": "consent-version", "id": format!("terms@{}", stage.number), "revision": 1,
            "facts": {"publishedAt": published, "required": false, "current": false}})
    };
    for (published, expected) in [
        ("2026-01-01T00:00:00Z", [1, 0, 0, 0, 0]),
        ("2026-01-01T09:00:00.0004+09:00", [0, 1, 0, 0, 0]),
        ("2026-01-01T00:00:00.001Z", [0, 0, 0, 1, 0]),
    ] {
        let answer = client.put_facts(&stage.workflow(), &[fact(published)]);
        assert_eq!(counts(&answer), expected, "{published}");
    }
}

#[test]
fn every_sample_is_read_as_it_came_in() {
    let stage = Stage::new();
    let token = stage.workflow();
    let mut client = stage.client();
    for line in samples::lines() {
        let sent = stage.named(serde_json::from_str(line).unwrap());
        let id = sent["id"].as_str().unwrap().replace('@', "%40");
        let path = format!("{PATH}/{}/{id}", sent["kind"].as_str().unwrap());
        let read = client.get(&path, &token);
        assert_eq!(read.status, 200, "{path}");
        let read = read.json();
        assert_eq!(read.as_object().unwrap().len(), 4);
        for member in ["kind", "id", "revision"] {
            assert_eq!(read[member], sent[member]);
        }
        // What may be absent reads as null.
        for (member, value) in read["facts"].as_object().unwrap() {
            assert_eq!(
                value,
                sent["facts"].get(member).unwrap_or(&Value::Null),
                "{path} {member}"
            );
        }
        assert!(
            sent["facts"]
                .as_object()
                .unwrap()
                .keys()
                .all(|name| read["facts"].get(name).is_some())
        );
    }
}

#[test]
fn applied_facts_survive_a_kill() {
    let world = World::new();
    let server = Server::start(&world);
    let token = world.workflow();
    let facts: Vec<Value> = (0..300)
        .map(|number| actor_fact(&format!("a{number}"), number + 1, "active"))
        .collect();
    let mut client = server.client();
    for (half, send) in facts.chunks(150).zip(WAYS) {
        assert_eq!(counts(&send(&mut client, &token, half)), [150, 0, 0, 0, 0]);
    }
    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    for send in WAYS {
        assert_eq!(
            counts(&send(&mut client, &token, &facts)),
            [0, 300, 0, 0, 0]
        );
    }
    assert_reads(
        &mut client,
        &token,
        &format!("{PATH}/actor/a299"),
        "300",
        &facts[299],
    );
}
