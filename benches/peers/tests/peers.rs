//! The peers as they are run: each test starts the program, which starts the servers. Where these are
//! not installed, the tests say so and pass: what they measure is not carebook's.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

fn peers() -> Command {
    Command::new(env!("CARGO_BIN_EXE_carebook-peers"))
}

fn postgres_is_missing() -> bool {
    let installed = std::fs::read_dir("/usr/lib/postgresql").is_ok();
    missing(installed, "PostgreSQL")
}

fn redis_is_missing() -> bool {
    let found = Command::new("redis-server").arg("--version").output();
    missing(found.is_ok(), "redis-server")
}

fn missing(installed: bool, name: &str) -> bool {
    if !installed {
        eprintln!("skipped: {name} is not installed");
    }
    !installed
}

/// A directory that no other test has, still to be made.
fn data(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("carebook-peers-test-{}-{test}", std::process::id()))
}

/// The service in front of PostgreSQL.
struct Service {
    child: Child,
    address: String,
    data: PathBuf,
}

impl Service {
    fn start(test: &str, arguments: &[&str]) -> Self {
        let data = data(test);
        let mut child = peers()
            .arg("postgres")
            .arg("--data")
            .arg(&data)
            .args(["--pool=4", "--resources=3", "--prepared-log=1"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://127.0.0.1:");
        let address = format!("127.0.0.1:{}", address.unwrap());
        Self {
            child,
            address,
            data,
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, bool, Value) {
        ask(&self.address, method, path, body)
    }

    fn post(&self, path: &str, body: &Value) -> (u16, bool, Value) {
        self.ask("POST", path, &body.to_string())
    }

    fn totals(&self) -> Value {
        let (_, _, mut totals) = self.ask("GET", "/totals", "");
        let totals = totals.as_object_mut().unwrap();
        totals.retain(|name, _| !name.starts_with("log"));
        json!(totals)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// The status of an answer, whether it is a replay, and its body.
fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, bool, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let replayed = head.contains("idempotency-replayed: true");
    (status, replayed, serde_json::from_str(body).unwrap())
}

fn deposit(code: &str, key: &str) -> Value {
    json!({
        "statementCode": code,
        "statementKind": "head_office_to_branch",
        "branchProfileId": "branch-1",
        "settlementPeriodStart": "2026-10-01",
        "settlementPeriodEnd": "2026-10-31",
        "remittanceAccountSnapshot": {"bankName": "Bank"},
        "actorKind": "headquarters_administrator",
        "actorProfileId": "hq-1",
        "idempotencyKey": key,
        "messageToBranch": "a \"quoted\" message",
        "headOfficePrivateMemo": null,
    })
}

#[test]
fn a_deposit_is_opened_once() {
    if postgres_is_missing() {
        return;
    }
    let service = Service::start("deposit", &[]);
    let path = "/settlement-deposit-requests";
    let (status, replayed, opened) = service.post(path, &deposit("code-1", "key-1"));
    assert_eq!((status, replayed), (201, false), "{opened}");
    assert_eq!(opened["statementCode"], "code-1");
    assert_eq!(opened["messageToBranch"], "a \"quoted\" message");
    assert_eq!(opened["revision"], 1);

    let again = service.post(path, &deposit("code-1", "key-1"));
    assert_eq!(again, (201, true, opened));
    let (status, _, error) = service.post(path, &deposit("code-2", "key-1"));
    assert_eq!(
        (status, &error["error"]["code"]),
        (409, &json!("key_conflict"))
    );
    let (status, _, error) = service.post(path, &deposit("code-1", "key-2"));
    assert_eq!(
        (status, &error["error"]["code"]),
        (409, &json!("code_conflict"))
    );
    let (status, _, error) = service.ask("POST", path, "{}");
    assert_eq!(
        (status, &error["error"]["code"]),
        (400, &json!("invalid_request"))
    );
    let expected = json!({
        "idempotency": 1, "audit": 1, "outbox": 1, "statement": 1, "revisions": 3,
    });
    assert_eq!(service.totals(), expected);
}

#[test]
fn a_resource_is_advanced_from_the_expected_revision() {
    if postgres_is_missing() {
        return;
    }
    let service = Service::start("advance", &[]);
    let path = "/commands/resource-2";
    let command = |key: &str, expected: Value| match expected {
        Value::Null => json!({"idempotencyKey": key}),
        expected => json!({"idempotencyKey": key, "expectedRevision": expected}),
    };
    let (status, replayed, advanced) = service.post(path, &command("key-1", json!(1)));
    assert_eq!((status, replayed), (200, false), "{advanced}");
    assert_eq!(advanced["revision"], 2);
    assert_eq!(advanced["command"]["idempotencyKey"], "key-1");

    let again = service.post(path, &command("key-1", json!(1)));
    assert_eq!(again, (200, true, advanced));
    let (status, _, error) = service.post(path, &command("key-2", json!(1)));
    assert_eq!(
        (status, &error["error"]["code"]),
        (409, &json!("stale_revision"))
    );
    let (status, _, advanced) = service.post(path, &command("key-2", Value::Null));
    assert_eq!((status, &advanced["revision"]), (200, &json!(3)));
    // The same body means something else for another resource.
    let (status, _, error) = service.post("/commands/resource-1", &command("key-2", Value::Null));
    assert_eq!(
        (status, &error["error"]["code"]),
        (409, &json!("key_conflict"))
    );

    let new = "/commands/new~1";
    let (status, _, error) = service.post(new, &command("key-3", json!(1)));
    assert_eq!(
        (status, &error["error"]["code"]),
        (409, &json!("stale_revision"))
    );
    let (status, _, made) = service.post(new, &command("key-3", json!(0)));
    assert_eq!((status, &made["revision"]), (200, &json!(1)));
    for path in ["/commands/", "/commands/a%20b", "/commands", "/"] {
        assert_eq!(
            service.post(path, &command("key-4", Value::Null)).0,
            404,
            "{path}"
        );
    }
    let expected = json!({
        "idempotency": 3, "audit": 3, "outbox": 3, "statement": 0, "revisions": 6,
    });
    assert_eq!(service.totals(), expected);
}

#[test]
fn the_same_command_at_the_same_time_is_carried_out_once() {
    if postgres_is_missing() {
        return;
    }
    let service = Service::start("twice", &[]);
    for round in 0..20 {
        // A new resource: both may want to make it.
        let path = format!("/commands/new-{round}");
        let body = json!({"idempotencyKey": format!("key-{round}")}).to_string();
        let answers: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| ask(&service.address, "POST", &path, &body)))
                .collect();
            asking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let first = answers.iter().filter(|answer| !answer.1).count();
        assert_eq!(first, 1, "{answers:?}");
        for answer in &answers {
            assert_eq!((answer.0, &answer.2), (200, &answers[0].2));
        }
    }
    assert_eq!(service.totals()["audit"], 20);
}

#[test]
fn the_promises_are_on_and_what_was_started_is_gone_at_the_end() {
    if postgres_is_missing() {
        return;
    }
    let mut service = Service::start("end", &["--set=commit_delay=10"]);
    let (_, _, settings) = service.ask("GET", "/settings", "");
    for name in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(settings[name], "on", "{name}");
    }
    assert_eq!(settings["commit_delay"], "10");
    assert!(service.data.join("cluster").exists());
    drop(service.child.stdin.take());
    assert!(service.child.wait().unwrap().success());
    assert!(!service.data.exists());
    assert!(TcpStream::connect(&service.address).is_err());
}

#[test]
fn a_promise_that_is_off_is_refused() {
    if postgres_is_missing() {
        return;
    }
    let data = data("off");
    let mut child = peers()
        .arg("postgres")
        .arg("--data")
        .arg(&data)
        .args(["--prepared-log=1", "--set=synchronous_commit=off"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its standard input has not ended: it ends by itself.
    let _input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("synchronous_commit is not on"), "{error}");
    assert!(!data.exists());
}

/// What a peer prints that is driven with these arguments.
fn driven(test: &str, arguments: &[&str]) -> Value {
    let data = data(test);
    let output = peers()
        .args(arguments)
        .args([
            "--commands=300",
            "--warm-up=50",
            "--connections=8",
            "--json",
        ])
        .arg("--data")
        .arg(&data)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(!Path::new(&data).exists());
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["commands"], 300);
    for name in ["seconds", "per_second", "p50_us", "p99_us"] {
        assert!(figures[name].as_f64().unwrap() > 0.0, "{name}: {figures}");
    }
    for name in ["server_cpu_seconds", "driver_cpu_seconds"] {
        assert!(figures[name].as_f64().is_some(), "{name}: {figures}");
    }
    figures
}

#[test]
fn postgres_is_driven_in_each_form() {
    if postgres_is_missing() {
        return;
    }
    let forms: [&[&str]; 5] = [
        &["--resources=20"],
        &["--hot"],
        &["--hot", "--routing=any"],
        &["--fresh", "--depth=4"],
        &["--deposits"],
    ];
    for (number, form) in forms.iter().enumerate() {
        let mut arguments = vec!["postgres-drive", "--pool=4", "--prepared-log=1"];
        arguments.extend(*form);
        let figures = driven(&format!("drive-{number}"), &arguments);
        assert_eq!(figures["settings"]["synchronous_commit"], "on");
        // Each command is on the disk before its answer, and eight at most are in flight.
        assert!(
            figures["log_flushes"].as_u64().unwrap() >= 300 / 8,
            "{figures}"
        );
    }
}

#[test]
fn redis_is_driven_in_each_form() {
    if redis_is_missing() {
        return;
    }
    let forms: [&[&str]; 4] = [
        &["--resources=20"],
        &["--hot", "--transport=tcp"],
        &["--fresh"],
        &["--io-threads=2"],
    ];
    for (number, form) in forms.iter().enumerate() {
        let mut arguments = vec!["redis"];
        arguments.extend(*form);
        let figures = driven(&format!("redis-{number}"), &arguments);
        assert_eq!(figures["settings"]["appendfsync"], "always");
        // All that a command writes is in the file.
        assert!(
            figures["log_bytes"].as_u64().unwrap() > 300 * 1_500,
            "{figures}"
        );
    }
}

#[test]
fn redis_without_its_promise_is_refused() {
    if redis_is_missing() {
        return;
    }
    let output = peers()
        .args(["redis", "--set=appendfsync=everysec", "--data"])
        .arg(data("everysec"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("appendfsync is not always"), "{error}");
}
