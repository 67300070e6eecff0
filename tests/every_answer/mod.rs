//! Each status and code that the API document has for all requests alike is seen: by requests that
//! are made of the document itself, so that none is left out. What one operation alone returns is
//! seen by its own tests, and a step of the gate reports what no test has seen.

mod clock;
mod own;

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::{BodySource, KeySource, MANAGEMENT, OPERATIONS, Purpose, Row};
use carebook::cli::runtime::on_lane;
use carebook::cli::serve::demo::load_samples;
use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};
use carebook::domain::example;
use carebook::engine::role::Role;
use carebook::http::token::{KEYS_WAITING_MAX, KeyRequests, Newer};
use carebook::http::{examples, openapi};
use http_body_util::Full;
use serde_json::{Value, json};
use wal::storage::sim::SimDisk;

use crate::support::document::may_be;
use crate::support::inside::{Broken, Inside, Wanted};
use crate::support::{Answer, Server, World, actor, claims};

const JSON: &str = "application/json";

/// A request for an operation of the document.
struct Asked {
    name: String,
    method: String,
    /// As the document has it.
    form: String,
    path: String,
    body: Option<Value>,
    key: Option<&'static str>,
    row: Option<&'static Row>,
    /// What the document says of it.
    says: Value,
}

impl Asked {
    fn needs_token(&self) -> bool {
        self.says["security"] != json!([])
    }

    /// Whether it can be answered like this.
    fn has(&self, status: u16, code: &str) -> bool {
        may_be(&self.says["responses"][status.to_string()], code)
    }

    fn headers<'a>(&'a self, bearer: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut headers = vec![("Authorization", bearer)];
        headers.extend(self.body.as_ref().map(|_| ("Content-Type", JSON)));
        headers.extend(self.key.map(|key| ("Idempotency-Key", key)));
        headers
    }

    fn text(&self) -> String {
        self.body
            .as_ref()
            .map_or_else(String::new, Value::to_string)
    }

    /// Sends it to a service in this process.
    async fn send(&self, inside: &Inside, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let body = Full::new(Bytes::from(self.text()));
        let headers = self.headers(&bearer);
        inside.send(&self.method, &self.path, &headers, body).await
    }

    #[track_caller]
    fn is_answered(&self, answer: &Answer, status: u16, code: &str) {
        let name = &self.name;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert_eq!(answer.json()["code"], code, "{name}");
    }
}

/// The form with these values in the place of its parameters, and 1 where there are no more.
fn filled(form: &str, values: &[String]) -> String {
    let mut values = values.iter();
    let parts = form.split('/').map(|part| match part.starts_with('{') {
        true => values.next().map_or("1", String::as_str),
        false => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A request for each operation of the document, with its example.
fn all() -> Vec<Asked> {
    let document = openapi::document();
    let mut all = Vec::new();
    for (form, place) in document["paths"].as_object().unwrap() {
        for (method, says) in place.as_object().unwrap() {
            let name = says["operationId"].as_str().unwrap();
            let mut rows = OPERATIONS.iter().chain(MANAGEMENT);
            let row = rows.find(|row| row.name == name);
            let example = row.map(examples::example);
            let values = example.as_ref().map_or(&[][..], |example| &example.path);
            let mut path = filled(form, values);
            let mut body = example.map(|example| example.body);
            if row.is_some_and(|row| row.body == BodySource::Query) {
                (path, body) = (path + "?expectedRevision=1", None);
            }
            if name == "put_reference_facts" {
                body = Some(json!({"facts": [lifecycle("somebody", "active", 1)]}));
            }
            all.push(Asked {
                name: name.to_owned(),
                method: method.to_uppercase(),
                form: form.clone(),
                path,
                body,
                key: row
                    .filter(|row| row.key == KeySource::Header)
                    .map(|_| example::KEY),
                row,
                says: says.clone(),
            });
        }
    }
    all
}

/// An actor who may do whatever a workflow may.
pub fn workflow(subject: &str) -> Actor {
    let permissions = [
        "facts:write",
        "facts:read",
        "events:read",
        "webhooks:manage",
        "outbox:manage",
    ];
    Actor {
        permissions: permissions.map(Into::into).into(),
        ..actor(ActorKind::SystemWorkflow, subject)
    }
}

fn lifecycle(subject: &str, lifecycle: &str, revision: u32) -> Value {
    json!({"kind": "actor", "id": subject, "revision": revision, "facts": {"lifecycle": lifecycle}})
}

#[test]
fn without_a_token_nothing_is_answered_that_needs_one() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    for asked in all().iter().filter(|asked| asked.needs_token()) {
        let headers = [("Content-Type", JSON)];
        let body = asked.text();
        let answer = client.request(&asked.method, &asked.path, &headers, body.as_bytes());
        asked.is_answered(&answer, 401, "authentication_required");
    }
}

#[test]
fn a_path_whose_parameter_is_no_text_leads_nowhere() {
    let world = World::new();
    let server = Server::start(&world);
    let bearer = format!("Bearer {}", world.token(&workflow("workflow-1")));
    let mut count = 0;
    for asked in all().iter().filter(|asked| asked.form.contains('{')) {
        let values = vec!["%FF".to_owned(); 4];
        let path = filled(&asked.form, &values);
        let headers = asked.headers(&bearer);
        let body = asked.text();
        let answer = server
            .client()
            .request(&asked.method, &path, &headers, body.as_bytes());
        asked.is_answered(&answer, 404, "route_not_found");
        assert!(asked.has(404, "route_not_found"), "{}", asked.name);
        count += 1;
    }
    assert!(count > 40, "{count}");
}

#[test]
fn inactive_and_withdrawn_actors_are_refused_on_every_route() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let facts = [
        lifecycle("resting", "inactive", 1),
        lifecycle("leaving", "withdrawn", 1),
    ];
    let put = client.put_facts(&world.workflow(), &facts);
    assert_eq!(put.json()["applied"], 2, "{put:?}");
    for (subject, code) in [
        ("resting", "actor_inactive"),
        ("leaving", "actor_withdrawn"),
    ] {
        let bearer = format!("Bearer {}", world.token(&workflow(subject)));
        for asked in all().iter().filter(|asked| asked.needs_token()) {
            let headers = asked.headers(&bearer);
            let body = asked.text();
            let answer = client.request(&asked.method, &asked.path, &headers, body.as_bytes());
            asked.is_answered(&answer, 403, code);
        }
    }
}

#[test]
fn a_query_that_is_none_is_invalid_wherever_a_token_is_needed() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let bearer = format!("Bearer {}", world.token(&workflow("workflow-1")));
    for asked in all().iter().filter(|asked| asked.needs_token()) {
        let between = if asked.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{between}dryRun=perhaps", asked.path);
        let headers = asked.headers(&bearer);
        let body = asked.text();
        let answer = client.request(&asked.method, &path, &headers, body.as_bytes());
        let status = if asked.has(400, "request_invalid") {
            400
        } else {
            422
        };
        asked.is_answered(&answer, status, "request_invalid");
    }
}

#[test]
fn bodies_too_large_of_another_type_malformed_or_broken_off_are_refused_as_such() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let bearer = format!("Bearer {}", world.token(&workflow("workflow-1")));
    let large = Bytes::from(vec![b' '; (1 << 20) + 1]);
    on_lane(inside.engine(), async {
        let all = all();
        let with_a_body = all.iter().filter(|asked| asked.body.is_some());
        // That there is no dry run of some is no sooner told than that.
        for (asked, query) in with_a_body.flat_map(|asked| [(asked, ""), (asked, "?dryRun=true")]) {
            let method = asked.method.as_str();
            let path = &format!("{}{query}", asked.path);
            let mut headers = asked.headers(&bearer);
            let answer = inside.send(method, path, &headers, Full::new(large.clone()));
            asked.is_answered(&answer.await, 413, "body_too_large");
            let broken = Broken(ErrorKind::BrokenPipe);
            let answer = inside.send(method, path, &headers, broken).await;
            asked.is_answered(&answer, 408, "request_invalid");
            // As hyper refuses chunks: with the status of a body that is no JSON.
            let malformed = Broken(ErrorKind::InvalidInput);
            let answer = inside.send(method, path, &headers, malformed).await;
            let no_json = Full::new(Bytes::from_static(b"x"));
            let status = inside.send(method, path, &headers, no_json).await.status;
            assert!(matches!(status, 400 | 422), "{path}: {status}");
            asked.is_answered(&answer, status, "request_invalid");
            assert_eq!(answer.header("connection"), Some("close"), "{path}");
            headers.retain(|(name, _)| *name != "Content-Type");
            let answer = inside.send(method, path, &headers, Full::new(Bytes::from_static(b"{}")));
            asked.is_answered(&answer.await, 415, "unsupported_media_type");
            headers.push(("Content-Type", "text/plain"));
            let answer = inside.send(method, path, &headers, Full::<Bytes>::default());
            asked.is_answered(&answer.await, 415, "unsupported_media_type");
        }
    })
    .unwrap();
}

/// As many requests wait for newer keys as may, so that the next one is shed.
#[test]
fn tokens_of_unknown_keys_are_shed_everywhere_while_too_many_wait() {
    let world = World::new();
    let keys = Arc::new(KeyRequests::default());
    let wanted = Wanted {
        keys: Some(Arc::clone(&keys)),
        ..Wanted::default()
    };
    let inside = Inside::start(&world, wanted);
    let other = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    let token = other.sign(&claims(&workflow("workflow-1"), 600)).unwrap();
    on_lane(inside.engine(), async {
        let mut waiting: Vec<Pin<Box<dyn Future<Output = Newer>>>> = Vec::new();
        for _ in 0..KEYS_WAITING_MAX {
            waiting.push(Box::pin(keys.newer()));
        }
        std::future::poll_fn(|context| {
            for one in &mut waiting {
                assert!(one.as_mut().poll(context).is_pending());
            }
            Poll::Ready(())
        })
        .await;
        for asked in all().iter().filter(|asked| asked.needs_token()) {
            let answer = asked.send(&inside, &token).await;
            asked.is_answered(&answer, 429, "overloaded");
        }
    })
    .unwrap();
}

/// The one that needs no token, and has no other way to be shed.
#[test]
fn a_command_beyond_the_bound_of_those_in_flight_is_shed() {
    let world = World::new();
    let wanted = Wanted {
        commands_max: 0,
        ..Wanted::default()
    };
    let inside = Inside::start(&world, wanted);
    let token = world.token(&workflow("workflow-1"));
    on_lane(inside.engine(), async {
        for asked in all().iter().filter(|asked| asked.row.is_some()) {
            let answer = asked.send(&inside, &token).await;
            asked.is_answered(&answer, 429, "overloaded");
        }
    })
    .unwrap();
}

#[test]
fn a_panic_in_any_request_is_an_internal_error_of_that_request_alone() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let token = world.token(&workflow("workflow-1"));
    on_lane(inside.engine(), async {
        let mut count = 0;
        for asked in all()
            .iter()
            .filter(|asked| asked.has(500, "internal_error"))
        {
            inside.clock.panic(true);
            let answer = asked.send(&inside, &token).await;
            inside.clock.panic(false);
            asked.is_answered(&answer, 500, "internal_error");
            let answer = asked.send(&inside, &token).await;
            assert_ne!(answer.status, 500, "{}: {answer:?}", asked.name);
            count += 1;
        }
        assert!(count > 70, "{count}");
    })
    .unwrap();
}

/// A service with the sample facts, a webhook subscription with a delivery that waits, and messages
/// that wait; its disk, and the requests with the identifiers that are there.
fn furnished(world: &World) -> (SimDisk, Vec<Asked>) {
    let inside = Inside::start(world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    let token = world.token(&workflow("workflow-1"));
    let mut all = all();
    let (subscription, event, message) = on_lane(inside.engine(), async {
        let deliveries = inside.deliveries.lock().take().unwrap();
        let deliveries = tokio::spawn(deliveries);
        let find = |name: &str| all.iter().find(|asked| asked.name == name).unwrap();
        let created = find("create_webhook_subscription");
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", JSON),
            ("Idempotency-Key", "furnishing"),
        ];
        let mut body = created.body.clone().unwrap();
        body["types"] = json!(["carebook.*"]);
        let body = Full::new(Bytes::from(body.to_string()));
        let answer = inside.send("POST", &created.path, &headers, body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let subscription = answer.json()["subscriptionId"].as_str().unwrap().to_owned();
        let get = async |path: &str| {
            let headers = [("Authorization", bearer.as_str())];
            let found = inside.send("GET", path, &headers, Full::<Bytes>::default());
            found.await.json()
        };
        // The subscription gets its event.
        let body = json!({"facts": [lifecycle("another", "active", 1)]}).to_string();
        let body = Full::new(Bytes::from(body));
        let put = inside
            .send("POST", "/reference-facts", &headers, body)
            .await;
        assert_eq!(put.json()["applied"], 1, "{put:?}");
        // The sample delegation has sent a message.
        let waiting = get("/outbox?state=waiting").await;
        let message = waiting["items"][0]["number"].as_i64().unwrap().to_string();
        let path = format!("/webhook-subscriptions/{subscription}/deliveries");
        let event = loop {
            let event = &get(&(path.clone() + "?state=dead")).await["items"][0]["eventId"];
            if let Some(event) = event.as_str() {
                break event.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        deliveries.abort();
        (subscription, event, message)
    })
    .unwrap();
    inside.engine().shut_down().unwrap();
    for asked in &mut all {
        let values = match &asked.form {
            form if form.starts_with("/webhook-subscriptions/") => {
                vec![subscription.clone(), event.clone()]
            }
            form if form.starts_with("/outbox/") => vec![message.clone()],
            _ => continue,
        };
        let query = asked.path.find('?').map(|at| asked.path.split_off(at));
        asked.path = filled(&asked.form, &values) + query.as_deref().unwrap_or_default();
    }
    (inside.disk.clone(), all)
}

/// Such a service, started again; the requests, and a token for managing its webhooks and messages.
fn reopened(world: &World) -> (Inside, Vec<Asked>, String) {
    let (disk, all) = furnished(world);
    let wanted = Wanted {
        disk,
        ..Wanted::default()
    };
    let token = world.token(&workflow("workflow-1"));
    (Inside::start(world, wanted), all, token)
}

/// Who sends the example of a request.
fn sender(world: &World, asked: &Asked) -> String {
    let row = asked.row.filter(|row| row.purpose == Purpose::Service);
    world.token(&match row {
        Some(row) => example::actor(row.operation.example().actor, &str::to_owned),
        None => workflow("workflow-1"),
    })
}

/// The answer to a request whose commit fails to be synced. Between that it is to fail and that it does, a
/// segment may be made ahead of need, whose sync fails instead, and is tried again: then another copy of
/// the disk is tried.
fn answer_of_a_failing_disk(world: &World, disk: &SimDisk, asked: &Asked, all: &[Asked]) -> Answer {
    for _ in 0..20 {
        let wanted = Wanted {
            disk: disk.after_kill(),
            ..Wanted::default()
        };
        let inside = Inside::start(world, wanted);
        let answer = on_lane(inside.engine(), async {
            if asked.name == "accept_manager_invitation" {
                // There is a branch whose manager is invited.
                let creates = all.iter().find(|asked| asked.name == "create_branch");
                let creates = creates.unwrap();
                let created = creates.send(&inside, &sender(world, creates)).await;
                assert_eq!(created.status, 201, "{created:?}");
            }
            inside.fail_next_commit();
            asked.send(&inside, &sender(world, asked)).await
        });
        let answer = answer.unwrap();
        let ended = inside.engine().shut_down();
        if answer.status < 300 {
            continue;
        }
        assert!(ended.is_err(), "{}: the log has failed", asked.name);
        return answer;
    }
    panic!("{}: no sync of it fails", asked.name)
}

#[test]
fn a_command_committed_when_the_disk_failed_has_an_unknown_outcome() {
    let world = World::new();
    let (disk, all) = furnished(&world);
    let mut count = 0;
    for asked in all.iter().filter(|asked| asked.has(503, "outcome_unknown")) {
        let answer = answer_of_a_failing_disk(&world, &disk, asked, &all);
        asked.is_answered(&answer, 503, "outcome_unknown");
        count += 1;
    }
    assert!(count >= 26, "{count}");
}

/// The requesting actor was changed by a commit that may be lost, on which every response depends.
#[test]
fn after_a_log_failure_no_response_depends_on_what_may_be_lost() {
    let world = World::new();
    let (disk, all) = furnished(&world);
    let wanted = Wanted {
        disk: disk.after_kill(),
        ..Wanted::default()
    };
    let inside = Inside::start(&world, wanted);
    let token = world.token(&workflow("workflow-1"));
    on_lane(inside.engine(), async {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", JSON)];
        let mut revision = 1_000;
        loop {
            inside.fail_next_commit();
            revision += 1;
            let body = json!({"facts": [lifecycle("workflow-1", "active", revision)]});
            let body = Full::new(Bytes::from(body.to_string()));
            let put = inside
                .send("POST", "/reference-facts", &headers, body)
                .await;
            if put.status == 503 {
                assert_eq!(put.json()["code"], "outcome_unknown", "{put:?}");
                break;
            }
            assert_eq!(put.status, 200, "{put:?}");
        }
        let has = |asked: &&Asked| asked.has(503, "service_unavailable");
        for asked in all.iter().filter(has) {
            let answer = asked.send(&inside, &token).await;
            asked.is_answered(&answer, 503, "service_unavailable");
        }
    })
    .unwrap();
}

/// A service that follows another one, which has committed nothing.
fn following(world: &World) -> Inside {
    let wanted = Wanted {
        role: Role::Standby,
        ..Wanted::default()
    };
    Inside::start(world, wanted)
}

#[test]
fn a_standby_sends_every_command_to_its_writer() {
    let world = World::new();
    let inside = following(&world);
    let token = world.token(&workflow("workflow-1"));
    on_lane(inside.engine(), async {
        let mut count = 0;
        let all = all();
        for asked in all.iter().filter(|asked| asked.has(503, "not_the_writer")) {
            let answer = asked.send(&inside, &token).await;
            asked.is_answered(&answer, 503, "not_the_writer");
            count += 1;
        }
        assert!(count > OPERATIONS.len() + MANAGEMENT.len(), "{count}");
        let is_command = |asked: &&Asked| asked.method != "GET";
        assert_eq!(all.iter().filter(is_command).count(), count);
    })
    .unwrap();
    inside.engine().shut_down().unwrap();
}

#[test]
fn every_read_says_that_it_waited_in_vain_for_a_position() {
    let world = World::new();
    let inside = following(&world);
    let token = world.token(&workflow("workflow-1"));
    let bearer = format!("Bearer {token}");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Readers that wait are notified that nothing more comes, so that none takes five seconds.
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                inside.engine().end_feed();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let waited = on_lane(inside.engine(), async {
            let mut count = 0;
            for asked in all() {
                if !asked.has(503, "position_not_reached") {
                    continue;
                }
                let headers = [
                    ("Authorization", bearer.as_str()),
                    ("Carebook-Min-Position", "1"),
                ];
                let answer = inside.send("GET", &asked.path, &headers, Full::<Bytes>::default());
                asked.is_answered(&answer.await, 503, "position_not_reached");
                count += 1;
            }
            count
        });
        is_over.store(true, Ordering::SeqCst);
        assert!(waited.unwrap() > 40);
    });
    inside.engine().shut_down().unwrap();
}

#[test]
fn every_response_with_a_tag_is_304_for_a_reader_that_has_it() {
    let world = World::new();
    let (inside, all, token) = reopened(&world);
    let bearer = format!("Bearer {token}");
    on_lane(inside.engine(), async {
        let mut count = 0;
        for asked in &all {
            let is_list = asked.name.starts_with("list_");
            let is_managed = ["read_outbox_message", "read_webhook_subscription"];
            let is_wanted = is_list || is_managed.contains(&asked.name.as_str());
            if !is_wanted || asked.says["responses"]["304"].is_null() {
                continue;
            }
            let mut headers = vec![("Authorization", bearer.as_str())];
            let found = inside.send("GET", &asked.path, &headers, Full::<Bytes>::default());
            let found = found.await;
            assert_eq!(found.status, 200, "{}: {found:?}", asked.name);
            headers.push(("If-None-Match", found.header("etag").unwrap()));
            let again = inside.send("GET", &asked.path, &headers, Full::<Bytes>::default());
            let again = again.await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{}", asked.name);
            count += 1;
        }
        assert!(count >= 14, "{count}");
    })
    .unwrap();
}
