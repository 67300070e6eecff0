//! Many clients at once: of those that want the same, one gets it, and each response says which.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::support::good::{Good, code, row, row_named};
use crate::support::stage::{Stage, is_tag_of, with};
use crate::support::{Answer, Client, Server, World, run, seed};

const CLIENTS: usize = 64;

/// What each of the clients is answered when all act at once; each has a connection of its own.
fn at_once(stage: &Stage, act: impl Fn(usize, &mut Client) -> Answer + Sync) -> Vec<Answer> {
    let barrier = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        let racing: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (barrier, act) = (&barrier, &act);
                scope.spawn(move || {
                    let mut client = stage.client();
                    barrier.wait();
                    act(number, &mut client)
                })
            })
            .collect();
        racing.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// The one success among the answers; all others have this code, and rest on what won.
#[track_caller]
fn winner(answers: &[Answer], lost: &str) -> Answer {
    let won: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status < 300)
        .collect();
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(won[0].header("idempotent-replayed"), None);
    for answer in answers.iter().filter(|answer| answer.status >= 300) {
        assert_eq!(
            (answer.status, code(answer).as_str()),
            (409, lost),
            "{answer:?}"
        );
        assert!(
            answer.position() >= won[0].position(),
            "{answer:?} before {won:?}"
        );
    }
    won[0].clone()
}

#[test]
fn at_each_revision_exactly_one_of_many_commands_that_expect_it_succeeds() {
    let stage = Stage::new();
    let good = Good::of(row_named("update_mother_profile"), &stage);
    let mother = stage.mother();
    for revision in 1..=5 {
        let answers = at_once(&stage, |number, client| {
            let body = with(
                good.body.clone(),
                "/fullName",
                json!(format!("name {number}")),
            );
            let body = with(body, "/expectedProfileRevision", json!(revision));
            let body = with(body, "/expectedAddressRevision", json!(revision));
            let key = format!("{revision} {number}");
            let headers = [("Idempotency-Key", key.as_str())];
            client.send_json("PATCH", "/mother/profile", &mother, &headers, &body)
        });
        let won = winner(&answers, "revision_stale").json();
        assert_eq!(won["profileRevision"], revision + 1);
        let stands = stage.client().get("/mother/profile", &mother);
        assert_eq!(stands.json()["fullName"], won["fullName"]);
        let tag = stands.header("etag").unwrap();
        assert!(is_tag_of(
            "/mother/profile",
            &(revision + 1).to_string(),
            tag
        ));
    }
}

#[test]
fn exactly_one_of_many_acknowledgements_of_a_statement_succeeds() {
    let stage = Stage::new();
    let good = Good::of(row_named("acknowledge_deposit"), &stage);
    let manager = stage.manager();
    let answers = at_once(&stage, |number, client| {
        let key = json!(format!("key {number}"));
        let body = with(good.body.clone(), "/idempotencyKey", key);
        good.send(client, &manager, &body)
    });
    let won = winner(&answers, "revision_stale").json();
    assert_eq!(won["transitionAudits"].as_array().unwrap().len(), 2);
}

#[test]
fn many_requests_for_one_statement_code_open_exactly_one_statement() {
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let hq = stage.headquarters();
    for round in 0..3 {
        let statement_code = stage.id(&format!("raced-{round}"));
        let answers = at_once(&stage, |number, client| {
            let body = with(good.body.clone(), "/statementCode", json!(statement_code));
            let body = with(body, "/idempotencyKey", json!(format!("{round} {number}")));
            let body = with(body, "/messageToBranch", json!(format!("from {number}")));
            good.send(client, &hq, &body)
        });
        winner(&answers, "statement_code_conflict");
        // With the same facts they all speak of one statement, each under a key of its own.
        let statement_code = format!("{statement_code} alike");
        let answers = at_once(&stage, |number, client| {
            let body = with(good.body.clone(), "/statementCode", json!(statement_code));
            let body = with(
                body,
                "/idempotencyKey",
                json!(format!("{round} {number} alike")),
            );
            good.send(client, &hq, &body)
        });
        let first = answers
            .iter()
            .filter(|answer| answer.header("idempotent-replayed").is_none());
        assert_eq!(first.count(), 1);
        for answer in &answers {
            assert_eq!((answer.status, answer.text()), (201, answers[0].text()));
        }
    }
}

#[test]
fn exactly_one_of_a_mother_s_overlapping_grants_stands() {
    let stage = Stage::new();
    let mother = stage.mother();
    for (tag, payer, lost) in [
        (2, "/payerMemberId", "delegation_overlap"),
        (4, "/granteeMemberId", "grant_overlap"),
    ] {
        let good = Good::of(row(tag).unwrap(), &stage);
        // In each round for another one: an existing grant stays.
        for member in ["member-family-1", "member-family-2"] {
            let body = with(good.body.clone(), payer, json!(stage.id(member)));
            let answers = at_once(&stage, |number, client| {
                let expires = json!(format!("2099-01-01T00:00:{:02}Z", number % 60));
                let body = with(body.clone(), "/expiresAt", expires);
                client.post_keyed(&good.path, &mother, &format!("{member} {number}"), &body)
            });
            winner(&answers, lost);
        }
    }
}

#[test]
fn exactly_one_of_many_facts_with_one_revision_is_applied() {
    let stage = Stage::new();
    let workflow = stage.workflow();
    let id = stage.id("raced-1");
    let answers = at_once(&stage, |number, client| {
        let published = format!("2026-01-01T00:00:{:02}Z", number % 60);
        let facts = json!({"publishedAt": published, "required": false, "current": false});
        let fact = json!({"kind": "consent-version", "id": format!("{id}@1"), "revision": 1,
            "facts": facts});
        client.put_facts(&workflow, &[fact])
    });
    let count = |name: &str| -> u64 {
        let counts = answers
            .iter()
            .map(|answer| answer.json()[name].as_u64().unwrap());
        counts.sum()
    };
    assert_eq!(count("applied"), 1);
    assert_eq!(
        count("applied") + count("conflict") + count("unchanged"),
        CLIENTS as u64
    );
    // Minutes have sixty seconds: four of the clients may have sent what another sent.
    assert!(count("unchanged") <= 1);
}

#[test]
fn requests_on_one_connection_are_answered_in_their_order() {
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let mut bytes = Vec::new();
    let requests = 120;
    for number in 0..requests {
        let body = match number % 4 {
            0 => with(
                good.body.clone(),
                "/statementCode",
                json!(stage.id(&format!("p{number}"))),
            ),
            1 => good.body.clone(),
            2 => json!({}),
            _ => Value::Null,
        };
        let (method, path, body) = match body {
            Value::Null => ("GET", "/settlement-statements/none", String::new()),
            body => {
                let key = json!(format!("key {}", number - number % 4 + number % 2));
                let body = with(body, "/idempotencyKey", key);
                ("POST", good.path.as_str(), body.to_string())
            }
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {hq}\r\n\
             Content-Type: application/json\r\nX-Request-Id: r{number}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(body.as_bytes());
    }
    client.send_raw(&bytes);
    for number in 0..requests {
        let answer = client.read_answer("POST").unwrap();
        assert_eq!(
            answer.header("x-request-id"),
            Some(format!("r{number}").as_str())
        );
        let expected = match number % 4 {
            2 => 400,
            3 => 404,
            _ => 201,
        };
        assert_eq!(answer.status, expected, "{number}: {answer:?}");
    }
}

#[test]
fn clients_that_leave_before_their_answers_leave_whole_commits_behind() {
    let seed = seed();
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let hq = stage.headquarters();
    let body_of = |number: usize| {
        let statement_code = json!(stage.id(&format!("left-{number}")));
        let body = with(good.body.clone(), "/statementCode", statement_code);
        with(body, "/idempotencyKey", json!(format!("left {number}"))).to_string()
    };
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (stage, hq, body) = (&stage, &hq, body_of(number));
            scope.spawn(move || {
                let mut client = stage.client();
                let head = format!(
                    "POST /settlement-deposit-requests HTTP/1.1\r\nHost: test\r\n\
                     Authorization: Bearer {hq}\r\nContent-Type: application/json\r\n\
                     Content-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                // Some leave within the request, some right after it.
                let cut =
                    usize::try_from(seed >> 1).unwrap().wrapping_mul(number + 1) % (2 * head.len());
                client.send_raw(&head.as_bytes()[..cut.min(head.len())]);
            });
        }
    });
    // Each command can be sent again, and is then done once.
    let mut client = stage.client();
    for number in 0..CLIENTS {
        let first = good.send_bytes(&mut client, &hq, body_of(number).as_bytes());
        assert_eq!(first.status, 201, "{first:?}");
        let again = good.send_bytes(&mut client, &hq, body_of(number).as_bytes());
        assert_eq!(again.text(), first.text());
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    }
}

#[test]
fn responses_under_load_are_replayed_after_a_kill() {
    let mut random = StdRng::seed_from_u64(seed());
    let world = World::new();
    let hq = world.headquarters();
    let path = "/settlement-deposit-requests";
    let mut acknowledged: Vec<(Value, Answer)> = Vec::new();
    for round in 0..4 {
        let server = Server::start(&world);
        // All that was answered before, whenever that was.
        let mut client = server.client();
        for (body, answer) in &acknowledged {
            let again = client.post(path, &hq, body);
            assert_eq!(
                again.header("idempotent-replayed"),
                Some("true"),
                "{again:?}"
            );
            assert_eq!(again.text(), answer.text());
        }
        let lasts = Duration::from_millis(random.random_range(50..250));
        let answered = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|number| {
                    let (world, hq) = (&world, &hq);
                    let mut client = server.client();
                    scope.spawn(move || {
                        let mut answered = Vec::new();
                        let headers = [
                            ("Authorization", &*format!("Bearer {hq}")),
                            ("Content-Type", "application/json"),
                        ];
                        for count in 0.. {
                            let name = format!("{round}-{number}-{count}");
                            let body = world.deposit_request(&name, &name);
                            let bytes = body.to_string();
                            match client.try_request("POST", path, &headers, bytes.as_bytes()) {
                                Ok(answer) => {
                                    assert_eq!(answer.status, 201, "{answer:?}");
                                    answered.push((body, answer));
                                }
                                Err(_) => break,
                            }
                        }
                        answered
                    })
                })
                .collect();
            std::thread::sleep(lasts);
            server.kill();
            let clients = clients.into_iter();
            clients
                .flat_map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        });
        // No two commits share a position.
        let positions: BTreeSet<_> = answered.iter().map(|(_, one)| one.position()).collect();
        assert_eq!(positions.len(), answered.len());
        acknowledged.extend(answered);
    }
    assert!(!acknowledged.is_empty());
    let (code, out, err) = run(&["verify", "--data", world.data().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{out}{err}");
}
