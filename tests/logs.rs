//! What the running server writes on standard error: a line for each request where that is asked
//! for, and never a token or what describes a person.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carebook::base::actor::ActorKind;
use carebook::catalogue::{LISTS, OPERATIONS, READS};
use carebook::domain::sample_actors::sample_actors;
use carebook::http::access_log::LINES_MAX;
use serde_json::{Value, json};

use crate::support::good::Good;
use crate::support::stage::{Stage, Theatre};
use crate::support::{Answer, Client, PATIENCE, Server, World, carebook, serve_arguments};
use crate::webhooks::receiver::Receiver;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A server that writes its log into this file.
fn logging(world: &World, log: &Path, level: &str, arguments: &[&str]) -> Server {
    let mut command = carebook();
    serve_arguments(&mut command, world)
        .args(arguments)
        .env("RUST_LOG", level)
        .stderr(File::create(log).unwrap());
    Server::spawn_telling(command)
}

fn text(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap()
}

/// The lines of the access log, once there are so many.
#[track_caller]
fn requests(log: &Path, count: usize) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let text = text(log);
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(serde_json::from_str::<Value>);
        let lines: Vec<_> = lines
            .map(|line| line.unwrap())
            .filter(|line| line["target"] == "carebook::access")
            .collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(started.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_request_has_a_line_with_its_outcome_and_none_of_its_content() {
    let world = World::new();
    let log = world.path("log");
    let server = logging(
        &world,
        &log,
        "info",
        &["--log-format", "json", "--access-log"],
    );
    let mut client = server.client();
    let hq = world.headquarters();
    let bearer = format!("Bearer {hq}");
    let body = world.deposit_request("S-1", "key-1").to_string();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("X-Request-Id", "a\"b"),
        ("traceparent", PARENT),
    ];
    let path = "/settlement-deposit-requests";
    let done = client.request("POST", path, &headers, body.as_bytes());
    assert_eq!(done.status, 201);
    let id = done.json()["statementId"].as_str().unwrap().to_owned();
    let missing = client.get("/settlement-statements/nobody?limit=secret", &hq);
    let nowhere = client.request("GET", "/a/secret/path", &[], b"");
    let head = client.request(
        "HEAD",
        &format!("/settlement-statements/{id}"),
        &headers[..1],
        b"",
    );
    let odd = client.request("SECRET", "/healthz", &[], b"");
    let lines = requests(&log, 5);
    let of = |line: &Value, answer: &Answer| {
        assert_eq!(line["status"], answer.status, "{line}");
        assert_eq!(
            line["request_id"],
            answer.header("x-request-id").unwrap(),
            "{line}"
        );
        assert_eq!(line["position"], json!(answer.position()), "{line}");
        assert_eq!(line["bytes"], answer.body.len(), "{line}");
        assert!(line["duration_ms"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    };
    for (line, answer) in lines.iter().zip([&done, &missing, &nowhere, &head, &odd]) {
        of(line, answer);
    }
    let names = |line: &Value| {
        [
            &line["method"],
            &line["route"],
            &line["operation"],
            &line["code"],
        ]
        .map(Clone::clone)
    };
    let statement = "/settlement-statements/{statementId}";
    assert_eq!(
        names(&lines[0]),
        [
            json!("POST"),
            json!(path),
            json!("request_deposit"),
            Value::Null
        ]
    );
    assert_eq!(
        names(&lines[1]),
        [
            json!("GET"),
            json!(statement),
            json!("read_statement"),
            json!("not_found")
        ]
    );
    assert_eq!(
        names(&lines[2]),
        [
            json!("GET"),
            Value::Null,
            json!("other"),
            json!("route_not_found")
        ]
    );
    assert_eq!(
        names(&lines[3]),
        [
            json!("HEAD"),
            json!(statement),
            json!("read_statement"),
            Value::Null
        ]
    );
    assert_eq!(lines[4]["method"], "_OTHER");
    assert_eq!(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(lines[1]["trace_id"], Value::Null);
    assert_eq!(server.stop(), Some(0));
    let all = text(&log);
    assert!(
        !all.to_lowercase().contains("secret") && !all.contains(&hq),
        "{all}"
    );
    assert!(!all.contains(&id), "no identifier of a path: {all}");
}

#[test]
fn requests_of_both_listeners_are_logged_and_traced() {
    let world = World::new();
    let (log, collector) = (world.path("log"), Receiver::start());
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let arguments = [
        "--log-format",
        "json",
        "--access-log",
        "--otlp-endpoint",
        &endpoint,
        "--trace-sample",
        "1",
        "--internal-listen",
        "127.0.0.1:0",
    ];
    let server = logging(&world, &log, "info", &arguments);
    let inside = server.internal.clone().unwrap();
    for (mut client, who) in [
        (server.client(), "from-outside"),
        (Client::connect(&inside), "from-inside"),
    ] {
        let headers = [("X-Request-Id", who)];
        let answer = client.request("GET", "/healthz", &headers, b"");
        assert_eq!(answer.status, 200);
    }
    let lines = requests(&log, 2);
    let names: Vec<_> = lines.iter().map(|line| &line["request_id"]).collect();
    assert_eq!(names, ["from-outside", "from-inside"]);
    let traced = |line: &Value| line["trace_id"].as_str().is_some_and(|id| id.len() == 32);
    assert!(lines.iter().all(traced), "{lines:?}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn with_tracing_each_line_names_its_trace() {
    let world = World::new();
    let log = world.path("log");
    let traced = ["--log-format", "json", "--access-log", "--otlp-endpoint"];
    let traced = [&traced[..], &["http://127.0.0.1:9"]].concat();
    let server = logging(&world, &log, "info", &traced);
    let mut client = server.client();
    client.request("GET", "/healthz", &[], b"");
    client.request("GET", "/healthz", &[("traceparent", PARENT)], b"");
    let lines = requests(&log, 2);
    let new = lines[0]["trace_id"].as_str().unwrap();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(new.len() == 32 && digits(new), "{new}");
    assert!(PARENT.contains(lines[1]["trace_id"].as_str().unwrap()));
    assert!(!PARENT.contains(new), "{new}");
}

#[test]
fn requests_are_logged_only_on_demand_and_as_text_one_line_each() {
    let world = World::new();
    let log = world.path("log");
    let server = logging(&world, &log, "info", &[]);
    assert_eq!(
        server.client().request("GET", "/healthz", &[], b"").status,
        200
    );
    assert_eq!(server.stop(), Some(0));
    assert!(!text(&log).contains("healthz"), "{}", text(&log));
    let server = logging(&world, &log, "info", &["--access-log"]);
    let headers = [("X-Request-Id", "r-1")];
    assert_eq!(
        server
            .client()
            .request("GET", "/healthz", &headers, b"")
            .status,
        200
    );
    // What waits is written before the end.
    assert_eq!(server.stop(), Some(0));
    let all = text(&log);
    let lines: Vec<_> = all
        .lines()
        .filter(|line| line.contains("carebook::access"))
        .collect();
    let [line] = lines[..] else { panic!("{all}") };
    for said in [
        " method=GET route=/healthz operation=healthz status=200 ",
        " request_id=r-1 ",
    ] {
        assert!(line.contains(said), "{line}");
    }
}

#[test]
fn with_json_logs_a_failed_start_and_the_server_s_end_are_logged_in_json() {
    let world = World::new();
    let data = world.data();
    let file = world.path("file");
    std::fs::write(&file, "no directory").unwrap();
    let output = carebook()
        .args(["serve", "--log-format", "json", "--data"])
        .arg(&file)
        .arg("--jwks")
        .arg(world.path("jwks.json"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let start = String::from_utf8(output.stderr).unwrap();
    // A directory that is moved ends the service.
    let log = world.path("log");
    let server = logging(&world, &log, "info", &["--log-format", "json"]);
    std::fs::rename(&data, world.path("moved")).unwrap();
    assert_eq!(server.ended_within(PATIENCE), Some(3));
    let log = text(&log);
    for (said, word) in [
        (start.as_str(), "cannot be used"),
        (log.as_str(), "the log has failed: "),
    ] {
        let lines = said.lines().map(serde_json::from_str::<Value>);
        let lines: Vec<_> = lines.map(|line| line.expect(said)).collect();
        let is_told = |line: &Value| {
            let message = line["message"].as_str().unwrap_or_default();
            line["level"] == "ERROR" && message.contains(word)
        };
        assert!(lines.iter().any(is_told), "{said}");
    }
}

#[test]
fn an_unread_log_delays_no_request_and_its_lost_lines_are_counted() {
    let world = World::new();
    let mut command = carebook();
    serve_arguments(&mut command, &world)
        .arg("--access-log")
        .env("RUST_LOG", "carebook=debug")
        .stderr(Stdio::piped());
    // The pipe is not read, and is open as long as the server is.
    let server = Server::spawn_telling(command);
    let mut client = server.client();
    let mut sent = 0;
    let lost = [
        "carebook_access_log_lost_total",
        "carebook_log_lines_lost_total",
    ];
    loop {
        for _ in 0..500 {
            client.send_raw(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read_answer("GET").unwrap().status, 200);
        }
        sent += 500;
        if lost.iter().all(|lost| server.metric(lost) > 0.0) {
            break;
        }
        assert!(sent < 4 * LINES_MAX, "nothing was lost of {sent}");
    }
    assert!(sent >= LINES_MAX);
    let started = Instant::now();
    assert_eq!(server.stop(), Some(0));
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
}

/// Whether a text describes a person or is free text: what an identifier or a word of the contract
/// does not look like.
fn is_personal(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_date = carebook::base::time::Date::parse(text).is_some();
    text.contains([' ', '@', '+']) || !text.is_ascii() || (is_number && digits >= 7 && !is_date)
}

/// Every text in a value that may not be logged.
fn personal(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if is_personal(text) => {
            found.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| personal(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| personal(field, found)),
        _ => {}
    }
}

#[test]
fn no_log_has_a_token_or_what_describes_a_person_however_much_is_logged() {
    for (level, form) in [
        ("info", "text"),
        ("debug", "json"),
        ("trace,ractor=warn", "text"),
    ] {
        let world = World::new();
        let log = world.path("log");
        let server = logging(&world, &log, level, &["--log-format", form, "--access-log"]);
        let theatre = Arc::new(Theatre { world, server });
        let mut found = BTreeSet::new();
        let mut client = theatre.server.client();
        let mut tokens = Vec::new();
        for row in OPERATIONS {
            // What one operation goes on with is carried out for each.
            let stage = Stage::at(Arc::clone(&theatre));
            let mut client = stage.client();
            for line in carebook::domain::reference::samples::lines() {
                let fact = stage.named(serde_json::from_str(line).unwrap());
                personal(&fact, &mut found);
            }
            tokens.push(stage.workflow());
            tokens.push(stage.mother());
            let good = Good::of(row, &stage);
            let token = good.token(&stage);
            personal(&good.body, &mut found);
            let answer = good.carried_out(&mut client, &token);
            if !answer.body.is_empty() {
                personal(&answer.json(), &mut found);
            }
            // Refused, too: another body under the same key, nonsense, a token that is changed.
            personal(&good.other, &mut found);
            good.send(&mut client, &token, &good.other);
            good.send(&mut client, &token, &json!({"name": "Somebody Unknown"}));
            good.send_bytes(&mut client, &format!("{token}x"), b"{");
            tokens.push(token);
        }
        found.insert("Somebody Unknown".to_owned());
        let kinds = ActorKind::ALL.map(|kind| theatre.world.plain(kind, "somebody"));
        tokens.extend(kinds);
        for token in &tokens {
            let lists = LISTS.iter().map(|row| row.path.to_owned());
            let reads = READS.iter().map(|row| row.path.replace(['{', '}'], ""));
            for path in lists.chain(reads) {
                let answer = client.get(&path, token);
                if answer.status == 200 {
                    personal(&answer.json(), &mut found);
                }
                client.get(&format!("{path}/history"), token);
            }
        }
        let answered = theatre
            .server
            .metric("carebook_requests_total{operation=\"read_mother_profile\",status=\"2xx\"}");
        assert!(answered > 0.0, "a profile was read");
        // The log of what was asked so far is written before the end.
        let Ok(theatre) = Arc::try_unwrap(theatre) else {
            panic!("it is shared")
        };
        assert_eq!(theatre.server.stop(), Some(0));
        let all = text(&log);
        assert!(all.contains("carebook::access"), "{all}");
        assert_eq!(all.contains("a request was answered"), level != "info");
        assert!(found.len() > 20, "{found:?}");
        assert!(found.iter().any(|text| text.contains('@')), "{found:?}");
        for text in &found {
            let shown = all.lines().find(|line| line.contains(text.as_str()));
            assert_eq!(shown, None, "{text} at {level}");
        }
        for token in &tokens {
            for part in token.split('.').skip(1) {
                assert!(!all.contains(part), "a token at {level}");
            }
        }
    }
}

/// The profile's problems say nothing of what is wrong, and the log does.
#[test]
fn faults_hidden_from_a_mother_are_logged_under_her_request_id() {
    let world = World::new();
    let log = world.path("log");
    let server = logging(&world, &log, "carebook=debug", &[]);
    let mother = sample_actors()
        .into_iter()
        .find(|actor| actor.kind == ActorKind::Mother);
    let token = world.token(&mother.unwrap());
    let headers = [("Idempotency-Key", "key"), ("X-Request-Id", "asked-for")];
    let body = json!({"fullName": 7, "expectedProfileRevision": "one", "my own name": 1});
    let mut client = server.client();
    let answer = client.send_json("PATCH", "/mother/profile", &token, &headers, &body);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(server.stop(), Some(0));
    let logged = text(&log);
    let lines = logged.lines().filter(|line| line.contains("is at fault"));
    let lines: Vec<_> = lines.collect();
    for told in [
        "fullName",
        "expectedProfileRevision",
        "wrong_type",
        "unknown_field",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(told)),
            "{told}: {logged}"
        );
    }
    assert!(
        lines.iter().all(|line| line.contains("asked-for")),
        "{lines:?}"
    );
    assert!(!logged.contains("my own name"), "{logged}");
}
