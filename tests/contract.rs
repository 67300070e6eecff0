//! What holds for every operation and every read alike, driven by the catalogue: a new row is
//! tested here without a line of its own, but for the example in its own file.

use std::collections::BTreeSet;
use std::sync::Barrier;

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::{
    Invalid, KeySource, LISTS, OPERATIONS, ProblemShape, READS, ReadRow, Row, Success,
};
use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::events::reader;
use crate::support::good::{Good, assert_problem, code, method, row_named};
use crate::support::stage::{Stage, assert_reads, stripped, theatre, with};
use crate::support::{Answer, Client, Server, World, claims};
use crate::walk::matches;

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn invalid_status(row: &Row) -> u16 {
    match row.invalid {
        Invalid::BadRequest => 400,
        Invalid::Unprocessable => 422,
    }
}

/// A path of this form: each parameter some identifier that nothing has.
fn some_path(form: &str) -> String {
    let steps = form.split('/').map(|step| match step.strip_prefix('{') {
        Some(_) => "nothing-has-this",
        None => step,
    });
    steps.collect::<Vec<_>>().join("/")
}

/// The body's fields with these in the place of the last ones of their names: as text, so that
/// fields can be repeated.
fn text_of(members: &[(String, Value)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| format!("{}: {value}", json!(name)))
        .collect();
    format!("{{{}}}", members.join(", "))
}

fn members_of(body: &Value) -> Vec<(String, Value)> {
    let members = body.as_object().unwrap();
    members
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// An invalid request, rejected before the engine with exactly these faults; where the shape of the
/// row's problems has no faults, the code alone.
#[track_caller]
fn assert_invalid(row: &Row, answer: &Answer, faults: &[(String, &str)], what: &str) {
    let what = format!("{} {what}: {answer:?}", row.name);
    assert_eq!(answer.status, invalid_status(row), "{what}");
    assert_problem(row.problem, answer, invalid_status(row), "request_invalid");
    assert_eq!(answer.position(), None, "{what}");
    if row.problem == ProblemShape::Full {
        let mut found = answer.faults();
        found.sort();
        let mut expected: Vec<_> = faults
            .iter()
            .map(|(path, code)| (path.clone(), (*code).to_owned()))
            .collect();
        expected.sort();
        assert_eq!(found, expected, "{what}");
        for fault in answer.json()["fieldErrors"].as_array().unwrap() {
            assert_eq!(fault.as_object().unwrap().len(), 3, "{what}");
            assert!(fault["message"].as_str().unwrap().ends_with('.'), "{what}");
        }
    }
}

fn fault(path: &str, code: &'static str) -> Vec<(String, &'static str)> {
    vec![(path.to_owned(), code)]
}

/// An answer's body but for what a replay may show otherwise.
fn comparable(answer: &Answer) -> Value {
    let mut body = answer.json();
    let members = body.as_object_mut().unwrap();
    members.remove("idempotentReplay");
    members.remove("replayedFromAuditId");
    body
}

#[track_caller]
fn assert_replay(row: &Row, first: &Answer, again: &Answer) {
    let what = format!("{}: {again:?}", row.name);
    let status = match row.success {
        Success::Created => 201,
        _ => 200,
    };
    assert_eq!(again.status, status, "{what}");
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{what}");
    assert_eq!(comparable(again), comparable(first), "{what}");
    if let Some(was) = first.json().get("idempotentReplay") {
        assert_eq!(was, false, "{what}");
        assert_eq!(again.json()["idempotentReplay"], true, "{what}");
    } else if first.json().get("replayedFromAuditId").is_none() {
        assert_eq!(again.text(), first.text(), "{what}");
    }
    assert!(again.position() >= first.position(), "{what}");
}

/// The body with its fields in another order, and white space between them.
fn spelt_otherwise(body: &Value) -> String {
    let mut members = members_of(body);
    members.reverse();
    text_of(&members)
        .replace("{", "{\n\t")
        .replace("}", " \r\n}")
}

/// The tags of the operations of which this holds.
fn tags(holds: impl Fn(&Row) -> bool) -> Vec<u16> {
    let rows = OPERATIONS.iter().filter(|row| holds(row));
    rows.map(|row| row.tag).collect()
}

#[test]
fn the_catalogue_has_the_tokens_keys_and_statuses_of_the_contract() {
    assert_eq!(tags(|row| !row.bearer), [13]);
    assert_eq!(tags(|row| row.key == KeySource::None), [1, 17]);
    let in_header = [2, 3, 4, 7, 14, 18, 20];
    assert_eq!(tags(|row| row.key == KeySource::Header), in_header);
    let of_all = KeySource::BodyOfAll {
        reused: "charge_snapshot_reused",
    };
    assert_eq!(tags(|row| row.key == of_all), [13]);
    let in_body = [5, 6, 8, 9, 10, 11, 12, 15, 16, 19, 21];
    assert_eq!(tags(|row| row.key == KeySource::Body), in_body);
    assert_eq!(tags(|row| invalid_status(row) == 422), [3, 7, 13, 14]);
    let created_once = tags(|row| row.success == Success::CreatedOnce);
    assert_eq!(created_once, [3, 7, 14]);
    let created = tags(|row| row.success == Success::Created);
    assert_eq!(created, [2, 4, 5, 9, 10, 12, 16, 18]);
    let ok = tags(|row| row.success == Success::Ok);
    assert_eq!(ok, [1, 6, 8, 11, 13, 15, 17, 19, 20, 21]);
}

#[test]
fn the_catalogue_has_the_methods_and_paths_of_the_contract() {
    const CHARGES: &str = "/reservation-financial-lifecycles/{reservationBookingId}";
    const ADJUSTMENTS: &str = "/reservation-payment-change-adjustments/{reservationBookingId}";
    let charge = format!("{CHARGES}/regional-benefit-charge-finalizations");
    let payment = format!("{ADJUSTMENTS}/mother-payments");
    let paths = [
        "/family-reservation-payment-authorizations",
        "/family-payment-delegations",
        "/admin/branches",
        "/family-accounts/{familyAccountId}/reservation-care-history-access-grants",
        "/settlement-data-room-export-requests",
        "/settlement-data-room-requests/{settlementDataRoomRequestId}/ready-artifacts",
        "/mother/profile",
        "/settlement-branch-deposit-acknowledgements",
        "/settlement-deposit-requests",
        "/care-team-assignment-decisions/assign-from-candidate-snapshot",
        "/caregiver-payout-receipt-states/repairs",
        "/caregiver-payout-acknowledgements/branch-deposits",
        charge.as_str(),
        "/branch/manager-invitations/accept",
        payment.as_str(),
        "/branch-settlement-account-statement-snapshots",
        "/payment-product-plans/{planCode}/cash-receipt-eligibility-decisions",
        "/customer-reservation-drafts/{draftId}/confirm",
        "/branch-office-profile-updates",
        "/reservation-payment-pre-registrations",
        "/billing-engine-payment-admin-operations",
    ];
    let found: Vec<_> = OPERATIONS.iter().map(|row| row.path).collect();
    assert_eq!(found, paths);
    assert_eq!(tags(|_| true), (1..=21).collect::<Vec<u16>>());
    assert_eq!(tags(|row| method(row) == "PATCH"), [7]);
    assert_eq!(tags(|row| method(row) != "POST"), [7]);
}

#[test]
fn a_good_request_is_carried_out_once_and_answered_again_and_again() {
    let mut by_code = 0;
    for row in OPERATIONS {
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        let mut client = stage.client();
        let before = client.get("/reference-facts/actor/nobody", &stage.workflow());
        let first = good.carried_out(&mut client, &token);
        assert_eq!(first.header("content-type"), Some("application/json"));
        assert!(first.position() >= before.position(), "{first:?}");
        assert!(first.position().is_some());

        let mut client = stage.client();
        let again = good.send(&mut client, &token, &good.body);
        if row.key == KeySource::None {
            assert_eq!(again.text(), first.text(), "{}", row.name);
            assert_eq!(again.header("idempotent-replayed"), None, "{}", row.name);
            continue;
        }
        assert_replay(row, &first, &again);
        let spelt = spelt_otherwise(&good.body);
        let again = good.send_bytes(&mut client, &token, spelt.as_bytes());
        assert_replay(row, &first, &again);

        let reused = good.send(&mut client, &token, &good.other);
        let expected = match row.key {
            KeySource::BodyOfAll { reused } => reused,
            _ => "idempotency_key_reused",
        };
        assert_eq!(reused.status, 409, "{}: {reused:?}", row.name);
        assert_eq!(code(&reused), expected, "{}", row.name);
        if let Some(message) = reused.json()["message"].as_str() {
            let key = match row.name {
                "finalize_charge" => "finalizedChargeSnapshotId",
                "capture_adjustment_payment" => "paymentId",
                "update_branch_office_profile" => "commandId",
                _ => "idempotency key",
            };
            let expected = format!("The {key} was used before with other request content.");
            assert_eq!(message, expected, "{}", row.name);
        }
        assert_eq!(reused.header("idempotent-replayed"), None, "{}", row.name);
        assert!(reused.position() >= first.position(), "{}", row.name);
        if !row.bearer {
            continue;
        }
        // Whatever the token has lost since, the first outcome is its subject's.
        let lesser = stage.token(&stripped(&good.actor));
        let again = good.send(&mut client, &lesser, &good.body);
        assert_replay(row, &first, &again);
        let reused = good.send(&mut client, &lesser, &good.other);
        assert_eq!(code(&reused), expected, "{}", row.name);
        // Also where it is found by its code, under another key.
        let declared = row.operation.rejections();
        let has_key = good.body.get("idempotencyKey").is_some();
        if has_key
            && declared
                .iter()
                .any(|one| one.code == "first_answer_forgotten")
        {
            let body = with(good.body.clone(), "/idempotencyKey", json!("another"));
            assert_replay(row, &first, &good.send(&mut client, &lesser, &body));
            by_code += 1;
            // Another one without authority is not told that the code stands.
            let stranger = Actor {
                subject: "stranger".into(),
                ..stripped(&good.actor)
            };
            let refused = good.send(&mut client, &stage.token(&stranger), &good.body);
            assert_problem(row.problem, &refused, 403, "permission_denied");
        }
        // But not a subject's that may not act at all.
        stage.lifecycle(&good.actor.subject, "withdrawn");
        let refused = good.send(&mut client, &token, &good.body);
        assert_problem(row.problem, &refused, 403, "actor_withdrawn");
    }
    assert_eq!(by_code, 3);
}

#[test]
fn every_response_is_replayed_after_a_kill() {
    let world = World::new();
    let server = Server::start(&world);
    let theatre = std::sync::Arc::new(crate::support::stage::Theatre { world, server });
    let mut done = Vec::new();
    for row in OPERATIONS.iter().filter(|row| row.key != KeySource::None) {
        let stage = Stage::at(std::sync::Arc::clone(&theatre));
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        let first = good.carried_out(&mut stage.client(), &token);
        // What the organization waits for is done.
        done.push((
            row,
            token,
            good.path.clone(),
            good.key.clone(),
            good.body.clone(),
            first,
        ));
    }
    let Ok(theatre) = std::sync::Arc::try_unwrap(theatre) else {
        panic!("no stage is left");
    };
    theatre.server.kill();
    let server = Server::start(&theatre.world);
    let mut client = server.client();
    for (row, token, path, key, body, first) in &done {
        let mut headers = Vec::new();
        if let Some(key) = key {
            headers.push(("Idempotency-Key", key.as_str()));
        }
        let again = client.send_json(method(row), path, token, &headers, body);
        assert_replay(row, first, &again);
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_refusal_takes_no_key() {
    for row in OPERATIONS {
        if row.key == KeySource::None || !row.bearer {
            continue;
        }
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        let mut client = stage.client();
        let lesser = stage.token(&stripped(&good.actor));
        // The owner of a draft may confirm it, whatever else the token says: its own facts are
        // rejected instead.
        let refused = match row.tag {
            18 => good.send(&mut client, &token, &good.other),
            _ => good.send(&mut client, &lesser, &good.other),
        };
        let status = if row.tag == 18 { 409 } else { 403 };
        assert_eq!(refused.status, status, "{}: {refused:?}", row.name);
        assert_eq!(refused.header("idempotent-replayed"), None);
        assert!(refused.position().is_some(), "{}", row.name);
        good.carried_out(&mut client, &token);
    }
}

#[test]
fn a_key_is_its_subjects_own() {
    for row in OPERATIONS {
        if !matches!(row.key, KeySource::Header | KeySource::Body) || !row.bearer {
            continue;
        }
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        let mut client = stage.client();
        good.carried_out(&mut client, &token);
        let other = stage.token(&Actor {
            subject: format!("{}-other", good.actor.subject).into(),
            ..good.actor.clone()
        });
        for body in [&good.body, &good.other] {
            let answer = good.send(&mut client, &other, body);
            assert_eq!(answer.header("idempotent-replayed"), None, "{}", row.name);
            if answer.status >= 400 {
                assert_ne!(code(&answer), "idempotency_key_reused", "{}", row.name);
            }
        }
    }
}

#[test]
fn one_of_identical_commands_is_carried_out_and_the_others_are_replays() {
    const AT_ONCE: usize = 32;
    for row in OPERATIONS.iter().filter(|row| row.key != KeySource::None) {
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        let barrier = Barrier::new(AT_ONCE);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let send = || {
                let mut client = stage.client();
                barrier.wait();
                good.send(&mut client, &token, &good.body)
            };
            let sending: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(send)).collect();
            sending.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let is_replay = |answer: &&Answer| answer.header("idempotent-replayed").is_some();
        let first: Vec<_> = answers.iter().filter(|answer| !is_replay(answer)).collect();
        assert_eq!(first.len(), 1, "{}: {first:?}", row.name);
        for again in answers.iter().filter(is_replay) {
            assert_replay(row, first[0], again);
        }
    }
}

/// Every place that needs a token: method, path, shape of its problems.
fn places_with_tokens() -> Vec<(&'static str, String, ProblemShape)> {
    let operations = OPERATIONS
        .iter()
        .filter(|row| row.bearer)
        .map(|row| (method(row), some_path(row.path), row.problem));
    let reads = READS
        .iter()
        .map(|row| ("GET", some_path(row.path), row.problem));
    let facts = ("POST", "/reference-facts".to_owned(), ProblemShape::Full);
    operations.chain(reads).chain([facts]).collect()
}

#[test]
fn without_a_valid_token_nothing_is_looked_at() {
    let theatre = theatre();
    let world = &theatre.world;
    let actor = Actor {
        permissions: vec!["facts:write".into()],
        ..crate::support::actor(ActorKind::SystemWorkflow, "workflow")
    };
    let foreign = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    let good = claims(&actor, 3_600);
    let sign = |change: &dyn Fn(&mut Value)| {
        let mut claims = serde_json::to_value(&good).unwrap();
        change(&mut claims);
        world.key.sign(&claims).unwrap()
    };
    let now = good_now();
    let without = |name: &'static str| {
        sign(&move |claims| {
            claims.as_object_mut().unwrap().remove(name).unwrap();
        })
    };
    let tokens = [
        foreign.sign(&good).unwrap(),
        sign(&|claims| claims["exp"] = json!(now - 31)),
        // For longer than this test may take.
        sign(&|claims| claims["nbf"] = json!(now + 3_600)),
        sign(&|claims| claims["iss"] = json!("https://elsewhere.test")),
        sign(&|claims| claims["aud"] = json!(["another"])),
        sign(&|claims| claims["actor_kind"] = json!("superuser")),
        sign(&|claims| claims["sub"] = json!("")),
        without("exp"),
        without("sub"),
        without("actor_kind"),
        "no.jwt.atall".to_owned(),
        "garbage".to_owned(),
    ];
    let mut client = theatre.server.client();
    for (method, path, shape) in places_with_tokens() {
        let mut assert_unauthenticated = |headers: &[(&str, &str)], challenge: &str| {
            // Nor at the body, its type and its length.
            let answer = client.request(method, &path, headers, b"[no json");
            assert_problem(shape, &answer, 401, "authentication_required");
            assert_eq!(answer.header("www-authenticate"), Some(challenge));
            assert_eq!(answer.position(), None);
        };
        assert_unauthenticated(&[], "Bearer");
        assert_unauthenticated(&[("Authorization", "Basic dTpw")], "Bearer");
        let invalid = r#"Bearer error="invalid_token""#;
        for token in &tokens {
            assert_unauthenticated(&[("Authorization", &format!("Bearer {token}"))], invalid);
        }
        let token = world.key.sign(&good).unwrap();
        let header = format!("Bearer {token}");
        assert_unauthenticated(
            &[("Authorization", &header), ("Authorization", &header)],
            invalid,
        );
    }
}

fn good_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_secs()).unwrap()
}

#[test]
fn a_token_is_good_within_the_leeway_and_for_one_of_several_audiences() {
    let theatre = theatre();
    let actor = crate::support::actor(ActorKind::HeadquartersAdministrator, "hq");
    let now = good_now();
    for (name, value) in [
        ("exp", json!(now - 10)),
        ("nbf", json!(now + 10)),
        ("aud", json!(["another", crate::support::AUDIENCE])),
    ] {
        let mut claims = serde_json::to_value(claims(&actor, 3_600)).unwrap();
        claims[name] = value;
        let token = theatre.world.key.sign(&claims).unwrap();
        let answer = theatre
            .server
            .client()
            .get("/settlement-statements/x", &token);
        assert_eq!(answer.status, 404, "{name}: {answer:?}");
    }
}

#[test]
fn an_operation_that_needs_no_token_ignores_the_one_sent() {
    for row in OPERATIONS.iter().filter(|row| !row.bearer) {
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let mut client = stage.client();
        let body = good.body.to_string();
        let headers = [("Authorization", "Bearer garbage"), JSON];
        let answer = client.request(good.method(), &good.path, &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{}: {answer:?}", row.name);
    }
}

#[test]
fn inactive_and_withdrawn_actors_may_do_nothing() {
    for lifecycle in ["inactive", "withdrawn"] {
        let expected = format!("actor_{lifecycle}");
        let gone = |stage: &Stage, actor: &Actor| {
            let subject = format!("{}-{lifecycle}", actor.subject);
            stage.lifecycle(&subject, lifecycle);
            stage.token(&Actor {
                subject: subject.into(),
                ..actor.clone()
            })
        };
        for row in OPERATIONS.iter().filter(|row| row.bearer) {
            let stage = Stage::new();
            let good = Good::of(row, &stage);
            let token = gone(&stage, &good.actor);
            let mut client = stage.client();
            let refused = good.send(&mut client, &token, &good.body);
            assert_problem(row.problem, &refused, 403, &expected);
            assert!(refused.position().is_some());
            // What is wrong with the request itself is reported first.
            let refused = good.send(&mut client, &token, &json!({"unknown": 1}));
            assert_eq!(refused.status, invalid_status(row), "{}", row.name);
        }
        let stage = Stage::new();
        let token = gone(&stage, &stage.actor(ActorKind::SystemWorkflow));
        let mut client = stage.client();
        for ReadRow { path, problem, .. } in READS {
            let refused = client.get(&some_path(path), &token);
            assert_problem(*problem, &refused, 403, &expected);
        }
        for refused in [client.put_facts(&token, &[]), client.put_lines(&token, "")] {
            assert_problem(ProblemShape::Full, &refused, 403, &expected);
        }
        stage.lifecycle(&format!("{}-{lifecycle}", stage.id("workflow-1")), "active");
        assert_eq!(client.put_facts(&token, &[]).status, 200);
    }
}

/// The methods that each path of the service has.
fn methods_by_path() -> Vec<(String, BTreeSet<&'static str>, ProblemShape)> {
    let mut places: Vec<(String, BTreeSet<&'static str>, ProblemShape)> = Vec::new();
    let mut add = |path: &str, methods: &[&'static str], shape| {
        let path = some_path(path);
        match places.iter_mut().find(|(known, ..)| *known == path) {
            Some((_, known, _)) => known.extend(methods),
            None => places.push((path, methods.iter().copied().collect(), shape)),
        }
    };
    for row in OPERATIONS {
        add(row.path, &[method(row)], row.problem);
    }
    for row in READS {
        add(row.path, &["GET", "HEAD"], row.problem);
    }
    for row in LISTS.iter() {
        add(row.path, &["GET", "HEAD"], ProblemShape::Full);
    }
    add("/reference-facts", &["POST"], ProblemShape::Full);
    add("/healthz", &["GET", "HEAD"], ProblemShape::Full);
    add("/readyz", &["GET", "HEAD"], ProblemShape::Full);
    places
}

fn allowed(answer: &Answer) -> BTreeSet<&str> {
    answer.header("allow").unwrap().split(", ").collect()
}

#[test]
fn another_method_is_told_which_there_are_and_needs_no_token_for_that() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    for (path, mut methods, shape) in methods_by_path() {
        methods.insert("OPTIONS");
        for method in [
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW",
        ] {
            if methods.contains(method) {
                continue;
            }
            let answer = client.request(method, &path, &[], b"");
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(allowed(&answer), methods, "{method} {path}");
            assert_eq!(answer.position(), None);
            if method != "HEAD" {
                assert_problem(shape, &answer, 405, "method_not_allowed");
            }
        }
        let answer = client.request("OPTIONS", &path, &[], b"");
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{path}");
        assert_eq!(allowed(&answer), methods, "{path}");
    }
}

#[test]
fn another_path_is_not_found_and_needs_no_token_for_that() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    let mut paths: Vec<_> = ["/", "/nothing", "//healthz", "/HEALTHZ", "/healthz/x"]
        .map(str::to_owned)
        .into();
    for (path, ..) in methods_by_path() {
        paths.push(format!("{path}/"));
        paths.push(format!("/v1{path}"));
    }
    for path in paths {
        for method in ["GET", "POST", "PATCH", "DELETE", "OPTIONS"] {
            let answer = client.request(method, &path, &[], b"");
            let shape = match path.starts_with("/mother/profile/") {
                true => ProblemShape::Profile,
                false => ProblemShape::Full,
            };
            assert_problem(shape, &answer, 404, "route_not_found");
            assert_eq!(answer.position(), None);
        }
    }
}

#[test]
fn a_query_does_not_change_what_is_asked_for() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    assert_eq!(
        client.request("GET", "/healthz?a=b/c", &[], b"").status,
        200
    );
}

#[test]
fn a_body_of_another_type_is_refused_before_it_is_read() {
    let stage = Stage::new();
    let mut client = stage.client();
    for row in OPERATIONS {
        let good = Good::of(row, &stage_for(row, &stage));
        let bearer = format!("Bearer {}", good.token(&stage));
        for kind in [
            None,
            Some("text/plain"),
            Some("application/jsonp"),
            Some("application/x-ndjson"),
            Some("application/merge-patch+json"),
            Some(""),
        ] {
            let mut headers = vec![("Authorization", bearer.as_str())];
            headers.extend(kind.map(|kind| ("Content-Type", kind)));
            for body in [&b""[..], b"no json", b"{}"] {
                // What has no body needs no type of one.
                if kind.is_none() && body.is_empty() {
                    continue;
                }
                let answer = client.request(good.method(), &good.path, &headers, body);
                assert_problem(row.problem, &answer, 415, "unsupported_media_type");
                assert_eq!(answer.position(), None);
            }
        }
        for kind in [
            "application/json; charset=utf-8",
            "Application/JSON;charset=UTF-8",
        ] {
            let headers = [("Authorization", bearer.as_str()), ("Content-Type", kind)];
            let answer = client.request(good.method(), &good.path, &headers, b"[]");
            assert_eq!(answer.status, invalid_status(row), "{kind}");
        }
    }
}

/// For requests that change nothing: the given stage, but for an operation whose good request
/// first carries another one out that can be carried out once.
fn stage_for(row: &Row, stage: &Stage) -> Stage {
    let theatre = std::sync::Arc::clone(&stage.theatre);
    if row.operation.example().after.is_some() {
        return Stage::at(theatre);
    }
    Stage {
        theatre,
        number: stage.number,
    }
}

#[test]
fn a_body_larger_than_a_mebibyte_is_refused_and_the_refusal_arrives() {
    const LIMIT: usize = 1 << 20;
    let stage = Stage::new();
    let large = format!("{{\"{}\":1}}", "x".repeat(LIMIT - 6)).into_bytes();
    assert_eq!(large.len(), LIMIT);
    for row in OPERATIONS {
        let mut client = stage.client();
        let token = stage.headquarters();
        let bearer = format!("Bearer {token}");
        let path = some_path(row.path);
        let headers = [("Authorization", bearer.as_str()), JSON];
        let mut larger = large.clone();
        larger.push(b' ');
        let answer = client.request(method(row), &path, &headers, &larger);
        assert_problem(row.problem, &answer, 413, "body_too_large");
        assert_eq!(answer.position(), None);
        // The connection goes on; a body as long as may be is read.
        let answer = client.request(method(row), &path, &headers, &large);
        assert_eq!(answer.status, invalid_status(row), "{}", row.name);
    }
    // As long as a sender might send before it listens.
    let mut client = stage.client();
    let bearer = format!("Bearer {}", stage.headquarters());
    let headers = [("Authorization", bearer.as_str()), JSON];
    let path = "/settlement-deposit-requests";
    let answer = client.request("POST", path, &headers, &vec![b' '; 6 * LIMIT]);
    assert_problem(ProblemShape::Full, &answer, 413, "body_too_large");
    // Without a length, and without a token.
    for (headers, expected) in [
        (format!("Authorization: {bearer}\r\n"), 413),
        (String::new(), 401),
    ] {
        let mut client = stage.client();
        client.send_raw(
            format!(
                "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                 Transfer-Encoding: chunked\r\n{headers}\r\n"
            )
            .as_bytes(),
        );
        for _ in 0..20 {
            client.send_raw(b"10000\r\n");
            client.send_raw(&vec![b' '; 0x10000]);
            client.send_raw(b"\r\n");
        }
        client.send_raw(b"0\r\n\r\n");
        let answer = client.read_answer("POST").unwrap();
        assert_eq!(answer.status, expected, "{answer:?}");
        assert_eq!(client.get("/healthz", "").status, 200);
    }
}

#[test]
fn a_client_that_expects_100_continue_for_a_large_body_gets_the_refusal() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    let bearer = theatre.world.headquarters();
    client.send_raw(
        format!(
            "POST /settlement-deposit-requests HTTP/1.1\r\nHost: test\r\n\
             Content-Type: application/json\r\nContent-Length: 3000000\r\n\
             Expect: 100-continue\r\nAuthorization: Bearer {bearer}\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(client.read_answer("POST").unwrap().status, 413);
}

/// `depth` arrays within each other.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn a_body_that_is_no_json_object_is_the_only_fault_reported() {
    let stage = Stage::new();
    let mut client = stage.client();
    for row in OPERATIONS {
        let good = Good::of(row, &stage_for(row, &stage));
        let token = good.token(&stage);
        let bearer = format!("Bearer {token}");
        let mut text = good.body.to_string();
        text.pop();
        let deepest = format!("{text}, \"unknown\": {}}}", nested(31));
        let too_deep = format!("{text}, \"unknown\": {}}}", nested(32));
        let mut not_utf8 = text.clone().into_bytes();
        not_utf8.extend_from_slice(b", \"unknown\": \"\xff\"}");
        let whole = good.body.to_string();
        for (body, code) in [
            (&b""[..], "malformed_json"),
            (b"  ", "malformed_json"),
            (b"{", "malformed_json"),
            (text.as_bytes(), "malformed_json"),
            (format!("{whole}{{}}").as_bytes(), "malformed_json"),
            (format!("{text},}}").as_bytes(), "malformed_json"),
            (b"{'a': 1}", "malformed_json"),
            (b"{\"a\": NaN}", "malformed_json"),
            (b"{\"a\": 01}", "malformed_json"),
            (not_utf8.as_slice(), "malformed_json"),
            (too_deep.as_bytes(), "malformed_json"),
            (nested(33).as_bytes(), "malformed_json"),
            (nested(32).as_bytes(), "wrong_type"),
            (b"[]", "wrong_type"),
            (b"null", "wrong_type"),
            (b"true", "wrong_type"),
            (b"1", "wrong_type"),
            (b"\"{}\"", "wrong_type"),
        ] {
            let shown = String::from_utf8_lossy(body).into_owned();
            // Alone: without the fault of the header that is not there.
            let headers = [("Authorization", bearer.as_str()), JSON];
            let answer = client.request(good.method(), &good.path, &headers, body);
            assert_invalid(row, &answer, &fault("", code), &shown);
        }
        // What has no body needs no type of one.
        let untyped = [("Authorization", bearer.as_str())];
        let answer = client.request(good.method(), &good.path, &untyped, b"");
        assert_invalid(row, &answer, &fault("", "malformed_json"), "no body");
        let answer = good.send_bytes(&mut client, &token, deepest.as_bytes());
        assert_invalid(row, &answer, &fault("unknown", "unknown_field"), "31 deep");
    }
}

/// The fields that an operation requires, from its response to an empty body.
fn required(good: &Good, client: &mut Client, token: &str) -> Vec<String> {
    let answer = good.send(client, token, &json!({}));
    let row = good.row;
    assert_eq!(answer.status, invalid_status(row), "{}", row.name);
    if row.problem != ProblemShape::Full {
        return good.body.as_object().unwrap().keys().cloned().collect();
    }
    let faults = answer.faults();
    for (path, code) in &faults {
        assert_eq!(code, "required", "{}: {path}", row.name);
        assert!(good.body.get(path).is_some(), "{}: {path}", row.name);
    }
    faults.into_iter().map(|(path, _)| path).collect()
}

#[test]
fn missing_unknown_repeated_and_ill_typed_members_are_reported_by_path() {
    let beyond_floats = &"9".repeat(400);
    let stage = Stage::new();
    let mut client = stage.client();
    for row in OPERATIONS {
        let good = Good::of(row, &stage_for(row, &stage));
        let token = good.token(&stage);
        let required = required(&good, &mut client, &token);
        assert!(!required.is_empty(), "{}", row.name);
        let members = members_of(&good.body);
        let mut send_text = |text: &str| good.send_bytes(&mut client, &token, text.as_bytes());
        let mut send = |members: &[(String, Value)]| send_text(&text_of(members));
        for name in &required {
            // EP7's one optional field is not in its problems.
            if name == "consentAcceptances" {
                continue;
            }
            let mut less = members.clone();
            less.retain(|(known, _)| known != name);
            assert_invalid(row, &send(&less), &fault(name, "required"), "without");
        }
        for (index, (name, value)) in members.iter().enumerate() {
            let ill = match value {
                Value::Object(_) => json!("text"),
                Value::Array(_) => json!({}),
                Value::Number(_) => json!("1"),
                _ => json!(true),
            };
            let mut other = members.clone();
            other[index].1 = ill;
            assert_invalid(row, &send(&other), &fault(name, "wrong_type"), "ill-typed");
        }
        for (name, value) in &members {
            if value.is_number() {
                for (number, code) in [
                    ("1.0", "wrong_type"),
                    ("1e3", "wrong_type"),
                    ("0.5", "wrong_type"),
                    ("9223372036854775808", "out_of_range"),
                    ("-9223372036854775809", "out_of_range"),
                    ("100000000000000000000000000", "out_of_range"),
                    (beyond_floats, "out_of_range"),
                    ("1e400", "out_of_range"),
                    ("0.1e-999", "wrong_type"),
                    ("01e999", ""),
                    ("1.e999", ""),
                    ("-", ""),
                    ("-0.0", "wrong_type"),
                ] {
                    let text = text_of(&members[..]);
                    let was = format!("{}: {value}", json!(name));
                    let text = text.replace(&was, &format!("{}: {number}", json!(name)));
                    let faults = match code {
                        "" => fault("", "malformed_json"),
                        code => fault(name, code),
                    };
                    assert_invalid(row, &send_text(&text), &faults, number);
                }
            }
        }
        let mut send = |members: &[(String, Value)]| send_text(&text_of(members));
        for (name, value) in &members {
            let mut twice = members.clone();
            twice.push((name.clone(), value.clone()));
            assert_invalid(row, &send(&twice), &fault(name, "duplicate_field"), "twice");
        }
        let mut more = members.clone();
        more.push(("unknownMember".to_owned(), Value::Null));
        more.push(("또".to_owned(), json!([])));
        let unknown = [
            fault("unknownMember", "unknown_field"),
            fault("또", "unknown_field"),
        ]
        .concat();
        assert_invalid(row, &send(&more), &unknown, "unknown");
        // All together.
        let (first, value) = &members[0];
        let mut all: Vec<_> = Vec::new();
        let mut faults = unknown.clone();
        for name in &required {
            if name != first && name != "consentAcceptances" {
                faults.extend(fault(name, "required"));
            }
        }
        faults.extend(fault(first, "duplicate_field"));
        all.extend([
            (first.clone(), value.clone()),
            (first.clone(), value.clone()),
        ]);
        all.extend(more[members.len()..].to_vec());
        assert_invalid(row, &send(&all), &faults, "all together");
    }
}

#[test]
fn faults_of_a_key_in_the_header_are_told_together_with_those_of_the_body() {
    let stage = Stage::new();
    let mut client = stage.client();
    for row in OPERATIONS.iter().filter(|row| row.key == KeySource::Header) {
        let good = Good::of(row, &stage_for(row, &stage));
        let token = good.token(&stage);
        let bearer = format!("Bearer {token}");
        let name = "header.Idempotency-Key";
        let long = "k".repeat(256);
        let cases: [(&[&str], &str); 6] = [
            (&[], "required"),
            (&[""], "too_short"),
            (&["a", "b"], "not_unique"),
            (&["a", "a"], "not_unique"),
            (&[&long], "too_long"),
            (&["키"], "pattern"),
        ];
        for (keys, code) in cases {
            let mut headers = vec![("Authorization", bearer.as_str()), JSON];
            headers.extend(keys.iter().map(|key| ("Idempotency-Key", *key)));
            let mut send = |body: &Value| {
                let body = body.to_string();
                client.request(good.method(), &good.path, &headers, body.as_bytes())
            };
            assert_invalid(row, &send(&good.body), &fault(name, code), "key");
            let mut body = good.body.clone();
            body["unknown"] = json!(1);
            let both = [fault(name, code), fault("unknown", "unknown_field")].concat();
            assert_invalid(row, &send(&body), &both, "key and body");
        }
    }
    // As long as may be, with spaces inside.
    let stage = Stage::new();
    let mut good = Good::of(row_named("grant_payment_authority"), &stage);
    good.key = Some(format!("{} ~!", "k".repeat(252)));
    let token = good.token(&stage);
    let first = good.carried_out(&mut stage.client(), &token);
    assert_replay(
        good.row,
        &first,
        &good.send(&mut stage.client(), &token, &good.body),
    );
}

#[test]
fn a_parameter_of_a_path_is_an_identifier_like_one_in_a_body() {
    let stage = Stage::new();
    let mut client = stage.client();
    let with_parameter = OPERATIONS.iter().filter(|row| row.path.contains('{'));
    let mut count = 0;
    for row in with_parameter {
        let good = Good::of(row, &stage_for(row, &stage));
        let bearer = format!("Bearer {}", good.token(&stage));
        let name = row.path.split(['{', '}']).nth(1).unwrap();
        let long = "x".repeat(513);
        for (value, code) in [("%20%09", "blank"), (long.as_str(), "too_long")] {
            let path = some_path(row.path).replace("nothing-has-this", value);
            let headers = [
                ("Authorization", bearer.as_str()),
                ("Idempotency-Key", "key"),
                JSON,
            ];
            let mut body = good.body.clone();
            body["unknown"] = json!(1);
            let answer =
                client.request(good.method(), &path, &headers, body.to_string().as_bytes());
            let faults = [fault(name, code), fault("unknown", "unknown_field")].concat();
            assert_invalid(row, &answer, &faults, value);
        }
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn a_request_keeps_its_callers_id_and_gets_one_otherwise() {
    let stage = Stage::new();
    let mut client = stage.client();
    let bearer = format!("Bearer {}", stage.headquarters());
    let longest = "r".repeat(128);
    let longer = "r".repeat(129);
    let paths = ["/healthz", "/nothing", "/settlement-statements/x"];
    for path in paths {
        for kept in ["a", "!~", "my-request/1", &longest] {
            let headers = [("X-Request-Id", kept), ("Authorization", &bearer)];
            let answer = client.request("GET", path, &headers, b"");
            assert_eq!(answer.header("x-request-id"), Some(kept));
        }
        let replaced: [&[&str]; 6] = [&[], &[""], &["a b"], &[&longer], &["é"], &["a", "b"]];
        let mut seen = BTreeSet::new();
        for ids in replaced {
            let headers: Vec<_> = ids.iter().map(|id| ("X-Request-Id", *id)).collect();
            let answer = client.request("GET", path, &headers, b"");
            let id = json!(answer.header("x-request-id").unwrap());
            assert!(crate::support::stage::is_new_id(&id), "{ids:?}: {id}");
            assert!(seen.insert(id.to_string()));
        }
    }
    for row in OPERATIONS {
        let answer = client.request(
            method(row),
            &some_path(row.path),
            &[("X-Request-Id", "z")],
            b"",
        );
        assert_eq!(answer.header("x-request-id"), Some("z"), "{}", row.name);
    }
}

#[test]
fn reads_of_what_nobody_has_heard_of_say_no_more_than_that() {
    let stage = Stage::new();
    let mut client = stage.client();
    for ReadRow {
        name,
        path,
        problem,
        ..
    } in READS
    {
        if *name == "read_organization" {
            continue;
        }
        // The one who may read all but mothers' profiles, and may read every fact.
        let token = match *name {
            "read_fact" => stage.workflow(),
            _ => stage.headquarters(),
        };
        let answer = client.get(&some_path(path), &token);
        assert_problem(*problem, &answer, 404, "not_found");
        assert!(answer.position().is_some(), "{name}");
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("If-None-Match", "*")];
        let answer = client.request("GET", &some_path(path), &headers, b"");
        assert_eq!(answer.status, 404, "{name}");
        let head = client.request("HEAD", &some_path(path), &headers, b"");
        assert_eq!((head.status, head.body.len()), (404, 0), "{name}");
        assert_eq!(
            head.header("content-length"),
            answer.header("content-length")
        );
    }
}

#[test]
fn no_answer_rests_on_more_than_one_that_was_asked_for_later() {
    let stage = Stage::new();
    let (mut one, mut other) = (stage.client(), stage.client());
    let (hq, workflow) = (stage.headquarters(), stage.workflow());
    let good = Good::of(row_named("request_deposit"), &stage);
    let opened = good.carried_out(&mut one, &hq);
    let path = format!(
        "/settlement-statements/{}",
        opened.json()["statementId"].as_str().unwrap()
    );
    let mut last = opened.position().unwrap();
    for round in 0..20 {
        // Something else is committed meanwhile.
        stage.lifecycle(&format!("somebody-{round}"), "active");
        for answer in [
            other.get(&path, &hq),
            good.send(&mut one, &hq, &good.body),
            good.send(&mut other, &hq, &good.other),
            one.get(&path, &stage.mother()),
            other.get("/settlement-statements/none", &workflow),
            one.get(&path, &hq),
        ] {
            let position = answer.position().unwrap();
            assert!(position >= last, "{answer:?} after {last}");
            last = position;
        }
    }
}

#[test]
fn shed_requests_are_told_when_to_retry_and_are_not_carried_out() {
    let world = World::new();
    let server = Server::start(&world);
    let theatre = std::sync::Arc::new(crate::support::stage::Theatre { world, server });
    let stage = Stage::at(theatre);
    let good = Good::of(row_named("request_deposit"), &stage);
    let hq = stage.headquarters();
    let first = good.carried_out(&mut stage.client(), &hq);
    let statement = first.json()["statementId"].as_str().unwrap().to_owned();
    let other_key = with_key(&good.other, "key-other");
    let world = std::sync::Arc::try_unwrap(stage.theatre).map(|theatre| {
        assert_eq!(theatre.server.stop(), Some(0));
        theatre.world
    });
    let Ok(world) = world else {
        panic!("no stage is left");
    };

    // No room for one more command.
    let server = Server::start_with(&world, &["--commands-shed"]);
    let mut client = server.client();
    for row in OPERATIONS {
        let headers = [("Authorization", format!("Bearer {hq}"))];
        let headers = [("Authorization", headers[0].1.as_str()), JSON];
        let asked = std::time::Instant::now();
        let answer = client.request(method(row), &some_path(row.path), &headers, b"{}");
        assert_problem(row.problem, &answer, 429, "overloaded");
        assert_eq!(answer.position(), None);
        let waited = asked.elapsed();
        assert!(waited.as_millis() >= 20, "who comes back at once waits");
        // The body was not looked at, but the token was.
        let no_json = [headers[0], ("Content-Type", "text/plain")];
        let answer = client.request(method(row), &some_path(row.path), &no_json, b"{");
        assert_problem(row.problem, &answer, 429, "overloaded");
        if row.bearer {
            let path = some_path(row.path);
            let answer = client.request(method(row), &path, &[JSON], b"{}");
            assert_eq!(answer.status, 401, "{}", row.name);
        }
    }
    let read = client.get(&format!("/settlement-statements/{statement}"), &hq);
    assert_eq!(read.status, 200);
    assert_eq!(server.stop(), Some(0));

    // No room on the disk: what is stored is read and replayed, nothing is added.
    let server = Server::start_with(&world, &["--reserve-bytes", "1000000000000000"]);
    let mut client = server.client();
    let refused = good.send(&mut client, &hq, &other_key);
    assert_problem(ProblemShape::Full, &refused, 503, "service_unavailable");
    assert_replay(good.row, &first, &good.send(&mut client, &hq, &good.body));
    let read = client.get(&format!("/settlement-statements/{statement}"), &hq);
    assert_eq!(read.text(), first.text());
    let ready = client.request("GET", "/readyz", &[], b"");
    assert_problem(ProblemShape::Full, &ready, 503, "service_unavailable");
    assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
    let fact =
        json!({"kind": "actor", "id": "new", "revision": 1, "facts": {"lifecycle": "active"}});
    let refused = client.put_facts(&world.workflow(), &[fact]);
    assert_problem(ProblemShape::Full, &refused, 503, "service_unavailable");
    assert_eq!(server.stop(), Some(0));

    // There is room again, and nothing had been done.
    let server = Server::start(&world);
    let mut client = server.client();
    let done = good.send(&mut client, &hq, &other_key);
    assert_eq!(
        (done.status, done.header("idempotent-replayed")),
        (201, None)
    );
}

fn with_key(body: &Value, key: &str) -> Value {
    let mut body = body.clone();
    body["idempotencyKey"] = json!(key);
    body
}

/// Where a read gives what an operation has answered from this position, and by which tag: both as the
/// commit's event says, the position where it has no revision.
fn read_of(
    row: &Row,
    position: u64,
    client: &mut Client,
    stage: &Stage,
) -> Option<(String, String)> {
    let schema = |of: &dyn Fn(&mut SchemaGenerator) -> Schema| {
        let settings = SchemaSettings::default().for_serialize();
        of(&mut settings.into_generator())
    };
    let answer = schema(&|schemas| row.operation.answer(schemas));
    let mut reads = READS.iter();
    let read = reads.find(|read| schema(&|schemas| (read.body)(schemas)) == answer)?;
    let page = format!("/events?limit=1000&after={}-0", position - 1);
    let page = client.get(&page, &stage.token(&reader())).json();
    let told = page["events"].as_array().unwrap().iter();
    let mut told = told.filter(|event| event["sequence"] == format!("{position:020}"));
    let place = |event: &Value| format!("/{}", event["subject"].as_str().unwrap());
    // A path without parameters is that of the reader's own.
    let is_own = read.parameters().next().is_none();
    let event = told.find(|event| is_own || matches(read.path, &place(event)));
    let event = event.unwrap_or_else(|| panic!("nothing is told of {}: {page}", row.name));
    let path = match is_own {
        true => read.path.to_owned(),
        false => place(event),
    };
    let tag = match &event["data"]["revision"] {
        Value::Null => position.to_string(),
        revision => revision.to_string(),
    };
    Some((path, tag))
}

#[test]
fn the_result_of_an_operation_is_read_as_its_response_showed_it() {
    let mut read = 0;
    for row in OPERATIONS {
        // Without a key nothing is brought about; a roster is read with all of its decisions.
        if row.key == KeySource::None || row.name == "assign_caregiver" {
            continue;
        }
        let stage = Stage::new();
        let good = Good::of(row, &stage);
        let token = good.token(&stage);
        let mut client = stage.client();
        let first = good.carried_out(&mut client, &token);
        let answer = first.json();
        let Some((path, tag)) = read_of(row, first.position().unwrap(), &mut client, &stage) else {
            continue;
        };
        read += 1;
        // Who needs no token to act needs one to read.
        let reader = if row.bearer { token } else { stage.mother() };
        assert_reads(&mut client, &reader, &path, &tag, &answer);
        // A replay moves nothing, a refusal neither.
        let reader = &reader;
        good.send(&mut client, reader, &good.body);
        good.send(&mut client, reader, &good.other);
        assert_reads(&mut client, reader, &path, &tag, &answer);
        if row.tag != 7 {
            let hq = stage.headquarters();
            assert_eq!(client.get(&path, &hq).status, 200, "{}", row.name);
        }
        let stranger = Actor {
            subject: "stranger".into(),
            ..stripped(&good.actor)
        };
        let unread = client.get(&path, &stage.token(&stranger));
        assert_problem(row_problem(&path), &unread, 404, "not_found");
    }
    assert!(read > 14, "{read}");
}

fn row_problem(path: &str) -> ProblemShape {
    if path == "/mother/profile" {
        ProblemShape::Profile
    } else {
        ProblemShape::Full
    }
}

/// Every value of a body that has a shape, as pointer, place, and value; what is any object to
/// the operation has none.
fn values_within(body: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), String::new(), body.clone())];
    while let Some((pointer, place, value)) = open.pop() {
        match &value {
            Value::Object(members) if place != "providerContext" => {
                for (name, inner) in members {
                    let dot = if place.is_empty() { "" } else { "." };
                    let place = format!("{place}{dot}{name}");
                    open.push((format!("{pointer}/{name}"), place, inner.clone()));
                }
            }
            Value::Array(items) => {
                for (index, inner) in items.iter().enumerate() {
                    let place = format!("{place}[{index}]");
                    open.push((format!("{pointer}/{index}"), place, inner.clone()));
                }
            }
            _ => {}
        }
        found.push((pointer, place, value));
    }
    found.retain(|(pointer, ..)| !pointer.is_empty());
    found
}

#[test]
fn faults_inside_of_members_are_told_by_their_places() {
    let stage = Stage::new();
    let mut client = stage.client();
    let mut objects = 0;
    for row in OPERATIONS {
        let good = Good::of(row, &stage_for(row, &stage));
        let token = good.token(&stage);
        for (pointer, place, value) in values_within(&good.body) {
            let mut send = |value: Value| {
                let mut body = good.body.clone();
                *body.pointer_mut(&pointer).unwrap() = value;
                good.send(&mut client, &token, &body)
            };
            if pointer.matches('/').count() > 1 {
                let ill = if value.is_boolean() {
                    json!(0)
                } else {
                    json!(false)
                };
                assert_invalid(row, &send(ill), &fault(&place, "wrong_type"), "ill-typed");
            }
            let Value::Object(members) = &value else {
                continue;
            };
            if place == "providerContext" {
                continue;
            }
            objects += 1;
            let mut more = value.clone();
            more["unknownMember"] = json!({});
            let unknown = format!("{place}.unknownMember");
            assert_invalid(
                row,
                &send(more),
                &fault(&unknown, "unknown_field"),
                "unknown",
            );
            let answer = send(json!({}));
            assert_eq!(answer.status, invalid_status(row), "{}: {place}", row.name);
            if row.problem == ProblemShape::Full {
                let faults = answer.faults();
                assert!(!faults.is_empty());
                for (path, code) in faults {
                    assert_eq!(code, "required", "{}: {path}", row.name);
                    let name = path.strip_prefix(&format!("{place}.")).unwrap();
                    assert!(members.contains_key(name), "{}: {path}", row.name);
                }
            }
            // A repeated field is reported once, by its place.
            for (name, inner) in members {
                let once = format!("{}:{inner}", json!(name));
                let text = good.body.to_string();
                let object = value.to_string();
                let twice = object.replacen('{', &format!("{{{once},"), 1);
                let text = text.replacen(&object, &twice, 1);
                let answer = good.send_bytes(&mut client, &token, text.as_bytes());
                let place = format!("{place}.{name}");
                assert_invalid(row, &answer, &fault(&place, "duplicate_field"), "twice");
            }
        }
    }
    assert!(objects > 5);
}

#[test]
fn strings_have_the_bounds_of_their_kind() {
    const PLAIN: [&str; 11] = [
        "reason",
        "memo",
        "messageToBranch",
        "headOfficePrivateMemo",
        "bankName",
        "accountHolder",
        "accountNumberDisplay",
        "legalName",
        "displayName",
        "addressLine",
        "serviceAddressLevel1",
    ];
    const OPAQUE: [&str; 10] = [
        "role",
        "caregiverRole",
        "scope",
        "serviceType",
        "providerName",
        "storageBucket",
        "exportFormat",
        "artifactKind",
        "fileName",
        "idempotencyKey",
    ];
    // These have a form, or a bound, of their own.
    const OWN: [&str; 4] = [
        "branchCode",
        "currencyCode",
        "storageObjectKey",
        "postalCode",
    ];
    let stage = Stage::new();
    let mut client = stage.client();
    let (mut plain, mut opaque) = (BTreeSet::new(), BTreeSet::new());
    for row in OPERATIONS
        .iter()
        .filter(|row| row.problem == ProblemShape::Full)
    {
        let good = Good::of(row, &stage_for(row, &stage));
        let token = good.token(&stage);
        for (pointer, place, value) in values_within(&good.body) {
            if !value.is_string() {
                continue;
            }
            let name = place.rsplit('.').next().unwrap().to_owned();
            let mut assert_fault = |text: String, code| {
                let mut body = good.body.clone();
                *body.pointer_mut(&pointer).unwrap() = json!(text);
                let answer = good.send(&mut client, &token, &body);
                assert_invalid(row, &answer, &fault(&place, code), code);
            };
            assert_fault(String::new(), "too_short");
            let ends = |ending: &str| name.ends_with(ending);
            let is_opaque = OPAQUE.contains(&name.as_str())
                || ["Id", "Key", "Code", "Reference"]
                    .iter()
                    .any(|ending| ends(ending));
            if OWN.contains(&name.as_str()) {
                continue;
            }
            if is_opaque {
                assert_fault("가".repeat(513), "too_long");
                assert_fault(" \u{a0}\t".to_owned(), "blank");
                opaque.insert(name);
            } else if PLAIN.contains(&name.as_str()) {
                assert_fault("가".repeat(4_001), "too_long");
                plain.insert(name);
            }
        }
    }
    assert_eq!(plain.len(), PLAIN.len(), "{plain:?}");
    assert!(opaque.len() > 30, "{opaque:?}");
}
