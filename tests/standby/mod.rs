//! A service that follows another one, in this process: what it answers, what it refuses, what it
//! waits for, and what comes with taking its writer's place.

mod cursors;
mod sending;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use carebook::base::actor::{Actor, ActorKind};
use carebook::base::text::MemberId;
use carebook::catalogue::{KeySource, MANAGEMENT, OPERATIONS};
use carebook::cli::runtime::on_lane;
use carebook::cli::serve::demo::load_samples;
use carebook::engine::position_waiters::{WAITING_MAX, WAITING_OF_ONE_MAX};
use carebook::engine::role::Role;
use carebook::engine::role::writer_proof::{Confirming, WriterProof};
use carebook::http::examples;
use http_body_util::Full;
use serde_json::{Value, json};
use wal::storage::sim::SimDisk;

use crate::every_answer::workflow;
use crate::support::inside::{Inside, Wanted};
use crate::support::{Answer, PATIENCE, World, actor, until};

/// What a service in this process has committed, from the beginning.
fn records(disk: &SimDisk) -> Vec<Vec<u8>> {
    struct Records(Vec<Vec<u8>>);
    impl wal::Visitor for Records {
        fn record(&mut self, record: wal::Record<'_>) -> Result<(), wal::BoxError> {
            self.0.push(record.payload.to_vec());
            Ok(())
        }
    }
    let mut records = Records(Vec::new());
    let storage = disk.after_kill().storage();
    wal::verify(storage, &mut records).unwrap();
    records.0
}

/// The records of the sample world.
fn sample_records(world: &World) -> Vec<Vec<u8>> {
    let inside = Inside::start(world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    inside.engine().shut_down().unwrap();
    records(&inside.disk)
}

/// A service that follows one that has the sample world, and has all of it.
fn follower(world: &World) -> Inside {
    let wanted = Wanted {
        role: Role::Standby,
        ..Wanted::default()
    };
    let inside = Inside::start(world, wanted);
    feed(&inside, &sample_records(world));
    inside
}

fn feed(inside: &Inside, records: &[Vec<u8>]) {
    let engine = inside.engine();
    let first = engine.appended() + 1;
    engine
        .apply(first, records.iter().map(Vec::as_slice))
        .unwrap();
    engine.heard(engine.appended());
    until("what was applied is durable", || {
        engine.durable() == engine.appended()
    });
}

async fn get(inside: &Inside, token: &str, path: &str, min_position: Option<&str>) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![("Authorization", bearer.as_str())];
    headers.extend(min_position.map(|position| ("Carebook-Min-Position", position)));
    inside
        .send("GET", path, &headers, Full::<Bytes>::default())
        .await
}

/// What is read with a position everywhere: a read, a history, a list, events, what is managed.
const READS: [&str; 6] = [
    "/organization",
    "/branch-office-profiles/branch-seoul-1/history",
    "/admin/branches",
    "/events",
    "/outbox",
    "/webhook-subscriptions",
];

fn readers(world: &World) -> [String; 2] {
    let headquarters = Actor {
        permissions: vec!["branch:create".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "hq-1")
    };
    [
        world.token(&headquarters),
        world.token(&workflow("workflow-1")),
    ]
}

/// Each of [`READS`] by an actor who may read it.
async fn read_all(inside: &Inside, world: &World, min_position: Option<&str>) -> Vec<Answer> {
    let [headquarters, workflow] = readers(world);
    let mut answers = Vec::new();
    for (number, path) in READS.iter().enumerate() {
        let token = if number < 3 { &headquarters } else { &workflow };
        answers.push(get(inside, token, path, min_position).await);
    }
    answers
}

#[test]
fn a_standby_refuses_commands_and_names_its_writer_to_token_holders() {
    let world = World::new();
    let inside = follower(&world);
    let digest = inside.engine().digest();
    let token = world.token(&workflow("workflow-1"));
    on_lane(inside.engine(), async {
        for is_known in [false, true] {
            let writer = "https://10.0.0.7:8080";
            inside
                .engine()
                .set_writer_address(is_known.then_some(writer));
            let mut all: Vec<(&str, String, Value)> = Vec::new();
            for row in OPERATIONS.iter().chain(MANAGEMENT) {
                let example = examples::example(row);
                let mut values = example.path.iter().map(String::as_str);
                let path = row.path.split('/').map(|part| match part.starts_with('{') {
                    true => values.next().unwrap_or("1"),
                    false => part,
                });
                let path = path.collect::<Vec<_>>().join("/");
                let method = match row.method {
                    carebook::catalogue::Method::Post => "POST",
                    carebook::catalogue::Method::Patch => "PATCH",
                    carebook::catalogue::Method::Delete => "DELETE",
                };
                let is_service = row.purpose == carebook::catalogue::Purpose::Service;
                let dry = is_service
                    .then(|| (method, format!("{path}?dryRun=true"), example.body.clone()));
                all.push((method, path, example.body));
                all.extend(dry);
            }
            assert!(all.len() >= 2 * OPERATIONS.len() + MANAGEMENT.len());
            all.push(("POST", "/reference-facts".to_owned(), json!({"facts": []})));
            for (method, path, body) in all {
                let bearer = format!("Bearer {token}");
                let headers = [
                    ("Authorization", bearer.as_str()),
                    ("Content-Type", "application/json"),
                    ("Idempotency-Key", "key-1"),
                ];
                let body = Full::new(Bytes::from(body.to_string()));
                let answer = inside.send(method, &path, &headers, body).await;
                assert_eq!(answer.status, 503, "{method} {path}: {answer:?}");
                assert_eq!(answer.json()["code"], "not_the_writer", "{method} {path}");
                assert_eq!(answer.header("retry-after"), Some("1"), "{method} {path}");
                let told = is_known.then_some(writer);
                assert_eq!(answer.header("carebook-writer"), told, "{method} {path}");
            }
        }
        let headers = [("Content-Type", "application/json")];
        let unknown = inside.send(
            "POST",
            "/settlement-deposit-requests",
            &headers,
            Full::<Bytes>::default(),
        );
        let unknown = unknown.await;
        assert_eq!(
            (unknown.status, unknown.header("carebook-writer")),
            (401, None)
        );
    })
    .unwrap();
    assert_eq!(inside.engine().digest(), digest);
    inside.engine().shut_down().unwrap();
}

#[test]
fn a_standby_s_reads_name_their_position_and_wait_for_one_that_comes() {
    let world = World::new();
    let all = sample_records(&world);
    let (early, late) = all.split_at(all.len() - 1);
    let wanted = Wanted {
        role: Role::Standby,
        ..Wanted::default()
    };
    let inside = Arc::new(Inside::start(&world, wanted));
    feed(&inside, early);
    let last = all.len().to_string();
    let [_, workflow] = readers(&world);
    // The reader of events has one that this standby does not have yet.
    let after = format!("/events?after={last}-0");
    let (feeding, fed) = (Arc::clone(&inside), late.to_vec());
    on_lane(inside.engine(), async {
        for answer in read_all(&inside, &world, None).await {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.position(), Some(early.len() as u64), "{answer:?}");
        }
        let waiting = async {
            let mut answers = vec![get(&inside, &workflow, &after, None).await];
            answers.extend(read_all(&inside, &world, Some(&last)).await);
            answers
        };
        let comes = async {
            let waits = async {
                while inside.engine().figures().min_position.0 == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(PATIENCE, waits).await.unwrap();
            std::thread::spawn(move || feed(&feeding, &fed));
        };
        let (waited, ()) = tokio::join!(waiting, comes);
        for answer in waited {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.position(), Some(all.len() as u64), "{answer:?}");
        }
    })
    .unwrap();
    inside.engine().shut_down().unwrap();
}

/// What is asked for in vain, on a writer as on a standby.
async fn asked_in_vain(inside: &Inside, world: &World) {
    for answer in read_all(inside, world, Some("0")).await {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    for bad in ["", "-1", "1x", "9223372036854775808"] {
        for answer in read_all(inside, world, Some(bad)).await {
            assert_eq!(answer.status, 400, "{bad}: {answer:?}");
            let fault = &answer.json()["fieldErrors"][0];
            assert_eq!(fault["fieldPath"], "header.Carebook-Min-Position", "{bad}");
        }
    }
    let [headquarters, workflow] = readers(world);
    // What is wrong with the rest of a request is reported at once, and not after that position.
    let never = Some("9223372036854775807");
    for path in READS {
        let query = match path {
            "/organization" => "dryRun=true",
            _ => "limit=0",
        };
        for token in [&headquarters, &workflow] {
            let answer = get(inside, token, &format!("{path}?{query}"), never).await;
            assert_eq!(answer.status, 400, "{path}: {answer:?}");
        }
    }
    // No log comes to this position.
    let beyond = "/events?after=9223372036854775808-0";
    let answer = get(inside, &workflow, beyond, None).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.json()["fieldErrors"][0]["fieldPath"], "query.after");
    let began = Instant::now();
    // Events after one that nobody has, as a page and as a stream.
    let bearer = format!("Bearer {workflow}");
    let stream = [
        ("Authorization", bearer.as_str()),
        ("Accept", "text/event-stream"),
        ("Last-Event-ID", "9999-0"),
    ];
    let (future, page, stream) = tokio::join!(
        get(inside, &headquarters, "/organization", never),
        get(inside, &workflow, "/events?after=9999-0", None),
        inside.send("GET", "/events", &stream, Full::<Bytes>::default()),
    );
    for answer in [page, stream] {
        match inside.engine().is_standby() {
            true => {
                assert_eq!(answer.status, 503, "{answer:?}");
                assert_eq!(answer.json()["code"], "position_not_reached");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
            false => {
                assert_eq!(answer.status, 400, "{answer:?}");
                let fault = &answer.json()["fieldErrors"][0];
                assert_eq!(fault["fieldPath"], "query.after");
            }
        }
        assert_eq!(answer.position(), Some(inside.engine().durable()));
    }
    assert_eq!(future.status, 503, "{future:?}");
    assert_eq!(future.json()["code"], "position_not_reached");
    assert_eq!(future.position(), Some(inside.engine().durable()));
    assert!(began.elapsed() >= Duration::from_secs(5));
    // What needs no token does not wait.
    let health = get(inside, &headquarters, "/healthz", Some("bad")).await;
    assert_eq!(health.status, 200);
}

#[test]
fn a_future_position_is_awaited_five_seconds_and_an_invalid_one_not() {
    let world = World::new();
    let standby = follower(&world);
    let writer = Inside::start(&world, Wanted::default());
    load_samples(writer.engine()).unwrap();
    // Both wait at the same time.
    std::thread::scope(|scope| {
        for inside in [&standby, &writer] {
            scope.spawn(|| {
                on_lane(inside.engine(), asked_in_vain(inside, &world)).unwrap();
                inside.engine().shut_down().unwrap();
            });
        }
    });
}

#[test]
fn readers_that_wait_for_a_position_are_limited_and_the_next_gets_429() {
    let world = World::new();
    let inside = follower(&world);
    let [headquarters, _] = readers(&world);
    on_lane(inside.engine(), async {
        let future = "9999";
        let tokens = (0..=WAITING_MAX / WAITING_OF_ONE_MAX).map(|number| {
            world.token(&actor(
                ActorKind::SystemWorkflow,
                &format!("waiting-{number}"),
            ))
        });
        let tokens: Vec<_> = tokens.collect();
        let wait = |subject: usize| get(&inside, &tokens[subject], "/organization", Some(future));
        let mut all = Vec::new();
        for number in 0..WAITING_MAX {
            let subject = number / WAITING_OF_ONE_MAX;
            let mut waiting = Box::pin(wait(subject));
            let looked = futures_poll(waiting.as_mut()).await;
            assert!(looked.is_none(), "{looked:?}");
            all.push(waiting);
        }
        // One of them has as many as it may have, and of all there are as many for anybody.
        for subject in [0, tokens.len() - 1] {
            let crowded = wait(subject).await;
            assert_eq!(crowded.status, 429, "{crowded:?}");
            assert_eq!(crowded.header("retry-after"), Some("1"));
        }
        // Who leaves makes room, and others are not kept from reading.
        drop(all);
        let other = get(&inside, &headquarters, "/organization", None).await;
        assert_eq!(other.status, 200);
        assert_eq!(inside.engine().figures().min_position.0, 0);
    })
    .unwrap();
    inside.engine().shut_down().unwrap();
}

/// The result of a future that has one at once.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(result) => Some(result),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn readiness_and_metrics_tell_what_a_service_is_and_how_far_behind() {
    let world = World::new();
    let all = sample_records(&world);
    let wanted = Wanted {
        role: Role::Standby,
        ..Wanted::default()
    };
    let inside = Inside::start(&world, wanted);
    on_lane(inside.engine(), async {
        let get = |path: &'static str| inside.send("GET", path, &[], Full::<Bytes>::default());
        let metric = async |name: &str| {
            let page = get("/metrics").await;
            let page = page.text();
            let line = page
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.map(|value| value.parse::<f64>().unwrap())
        };
        // It has never been where its writer is.
        assert_eq!(get("/readyz").await.status, 503);
        assert_eq!(
            metric("carebook_unready{reason=\"behind\"}").await,
            Some(1.0)
        );
        assert_eq!(metric("carebook_role{role=\"standby\"}").await, Some(1.0));
        assert_eq!(metric("carebook_role{role=\"writer\"}").await, Some(0.0));
        inside.engine().heard(all.len() as u64);
        assert_eq!(
            metric("carebook_standby_lag_positions").await,
            Some(all.len() as f64)
        );
        feed(&inside, &all);
        let ready = get("/readyz").await;
        assert_eq!(ready.status, 200, "{ready:?}");
        assert_eq!(ready.json()["standby"]["lagPositions"], 0);
        assert_eq!(metric("carebook_standby_lag_positions").await, Some(0.0));
        assert_eq!(metric("carebook_ready").await, Some(1.0));
        // Nothing is heard of the writer for a while: what it has committed since is not known.
        inside.clock.run(Duration::from_secs(31));
        assert_eq!(get("/readyz").await.status, 503);
        assert!(metric("carebook_standby_lag_seconds").await.unwrap() >= 31.0);
        inside.engine().heard(all.len() as u64);
        assert_eq!(get("/readyz").await.status, 200);
        inside.engine().promote().unwrap();
        assert_eq!(get("/readyz").await.json().get("standby"), None);
        assert_eq!(metric("carebook_role{role=\"writer\"}").await, Some(1.0));
        assert_eq!(metric("carebook_standby_lag_positions").await, Some(0.0));
    })
    .unwrap();
    inside.engine().shut_down().unwrap();
}

/// A right that is there until it is taken.
struct UntilTaken(AtomicBool);

impl WriterProof for UntilTaken {
    fn confirm(&self, _: Instant) -> Confirming<'_> {
        Box::pin(async { self.0.load(Ordering::SeqCst) })
    }
}

#[test]
fn a_possibly_replaced_writer_sends_no_response_based_on_its_state() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    let right = Arc::new(UntilTaken(AtomicBool::new(true)));
    inside.engine().answer_by(Arc::clone(&right) as _);
    on_lane(inside.engine(), async {
        for answer in read_all(&inside, &world, None).await {
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        right.0.store(false, Ordering::SeqCst);
        for answer in read_all(&inside, &world, None).await {
            assert_eq!(answer.status, 503, "{answer:?}");
            assert_eq!(answer.json()["code"], "service_unavailable");
            assert_eq!(answer.position(), None);
        }
        let [headquarters, _] = readers(&world);
        // Rejected by its state, or committed: the response does not say which.
        for (code, key) in [("S-1", "key-1"), ("S-2", "key-2")] {
            let answer = request_deposit(&inside, &world, &headquarters, code, key).await;
            assert_eq!(answer.status, 503, "{answer:?}");
            assert_eq!(answer.json()["code"], "outcome_unknown");
            assert_eq!(answer.position(), None);
        }
        // What commits nothing in any case is not in doubt.
        let without_key = OPERATIONS.iter().filter(|row| row.key == KeySource::None);
        let mut decided = 0;
        for row in without_key.filter(|row| row.bearer) {
            let example = examples::example(row);
            let mut values = example.path.iter().map(String::as_str);
            let path = row.path.split('/').map(|part| match part.starts_with('{') {
                true => values.next().unwrap(),
                false => part,
            });
            let path = path.collect::<Vec<_>>().join("/");
            let payer = Actor {
                member_id: Some(MemberId::from_trusted("member-1".to_owned())),
                ..actor(ActorKind::Mother, "mother-1")
            };
            let bearer = format!("Bearer {}", world.token(&payer));
            let headers = [
                ("Authorization", bearer.as_str()),
                ("Content-Type", "application/json"),
            ];
            let body = Full::new(Bytes::from(example.body.to_string()));
            let answer = inside.send("POST", &path, &headers, body).await;
            assert_eq!(answer.status, 503, "{}: {answer:?}", row.name);
            assert_eq!(answer.json()["code"], "service_unavailable", "{}", row.name);
            decided += 1;
        }
        assert!(decided > 0);
        // What rests on nothing goes out.
        let no_token = inside
            .send("GET", "/organization", &[], Full::<Bytes>::default())
            .await;
        assert_eq!(no_token.status, 401);
        right.0.store(true, Ordering::SeqCst);
        inside.engine().lose_writer_proof("it was told to");
        for answer in read_all(&inside, &world, None).await {
            assert_eq!(answer.status, 503, "{answer:?}");
        }
        let after = request_deposit(&inside, &world, &headquarters, "S-3", "key-3").await;
        assert_eq!(after.status, 503, "{after:?}");
    })
    .unwrap();
}

async fn request_deposit(
    inside: &Inside,
    world: &World,
    token: &str,
    code: &str,
    key: &str,
) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let mut body = world.deposit_request(code, key);
    if key == "key-3" {
        body["settlementPeriodStart"] = json!("2026-10-02");
    }
    let body = Full::new(Bytes::from(body.to_string()));
    inside
        .send("POST", "/settlement-deposit-requests", &headers, body)
        .await
}

#[test]
fn a_promoted_standby_goes_on_where_its_writer_ended() {
    let world = World::new();
    let writer = Inside::start(&world, Wanted::default());
    load_samples(writer.engine()).unwrap();
    let [headquarters, _] = readers(&world);
    let first = on_lane(
        writer.engine(),
        request_deposit(&writer, &world, &headquarters, "S-1", "key-1"),
    );
    let first = first.unwrap();
    assert_eq!(first.status, 201, "{first:?}");
    writer.engine().shut_down().unwrap();
    let wanted = Wanted {
        role: Role::Standby,
        ..Wanted::default()
    };
    let standby = Inside::start(&world, wanted);
    feed(&standby, &records(&writer.disk));
    assert_eq!(standby.engine().digest(), writer.engine().digest());
    on_lane(standby.engine(), async {
        let refused = request_deposit(&standby, &world, &headquarters, "S-2", "key-2").await;
        assert_eq!(refused.json()["code"], "not_the_writer");
        standby.engine().promote().unwrap();
        assert!(
            standby.engine().promote().is_err(),
            "it is the writer already"
        );
        // What the one before has answered is answered again, and its codes are taken.
        let again = request_deposit(&standby, &world, &headquarters, "S-1", "key-1").await;
        assert_eq!(
            again.header("idempotent-replayed"),
            Some("true"),
            "{again:?}"
        );
        assert_eq!(again.json(), first.json());
        let taken = request_deposit(&standby, &world, &headquarters, "S-1", "key-3").await;
        assert_eq!(taken.json()["code"], "statement_code_conflict", "{taken:?}");
        let next = request_deposit(&standby, &world, &headquarters, "S-2", "key-2").await;
        assert_eq!(next.status, 201, "{next:?}");
        assert_eq!(next.position(), Some(first.position().unwrap() + 1));
    })
    .unwrap();
    standby.engine().shut_down().unwrap();
    // And its own log is as good as any.
    let reopened = Inside::start(
        &world,
        Wanted {
            disk: standby.disk.after_kill(),
            ..Wanted::default()
        },
    );
    assert_eq!(reopened.engine().digest(), standby.engine().digest());
    reopened.engine().shut_down().unwrap();
}

#[test]
fn records_that_do_not_follow_are_not_applied_and_leave_nothing() {
    let world = World::new();
    let all = sample_records(&world);
    let inside = {
        let wanted = Wanted {
            role: Role::Standby,
            ..Wanted::default()
        };
        let inside = Inside::start(&world, wanted);
        feed(&inside, &all[..10]);
        inside
    };
    let engine = inside.engine();
    let digest = engine.digest();
    let refused = |first: u64, record: &[u8]| {
        let error = engine.apply(first, [record]).unwrap_err().to_string();
        assert_eq!(
            (engine.appended(), engine.digest()),
            (10, digest),
            "{error}"
        );
        error
    };
    assert_eq!(
        refused(12, &all[11]),
        "position 12 came, and 11 is the next one"
    );
    // The same change a second time, one out of its order, one that was cut, none.
    for record in [&all[3], &all[9]] {
        assert!(refused(11, record).starts_with("position 11: "));
    }
    for bad in [&all[10][..all[10].len() - 1], b"", b"\xff\xff"] {
        assert!(refused(11, bad).starts_with("position 11: "));
    }
    // It goes on with what does follow, and what it has is passed over.
    let rest = all[5..].iter().map(Vec::as_slice);
    engine.apply(6, rest).unwrap();
    assert_eq!(engine.appended(), all.len() as u64);
    engine.shut_down().unwrap();
    let ended = engine.apply(all.len() as u64 + 1, [all[0].as_slice()]);
    assert_eq!(ended.unwrap_err().to_string(), "the service ends");
}
