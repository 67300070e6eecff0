//! The demonstration: what it prints works as it stands.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Client, carebook};

/// A demonstration that runs; killed when dropped.
struct Running {
    child: Child,
    address: String,
    lines: Vec<String>,
}

impl Running {
    fn start(data: &std::path::Path) -> Self {
        let mut child = carebook()
            .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            lines.push(line.unwrap());
            // The body is the last line of the command to try.
            if lines.last().unwrap().starts_with("  -d ") {
                break;
            }
        }
        let address = lines[0].strip_prefix("listening on http://").unwrap();
        Self {
            address: address.to_owned(),
            child,
            lines,
        }
    }

    /// What stands between `before` and `after` in the first line that has both.
    fn between(&self, before: &str, after: &str) -> &str {
        let found = self.lines.iter().find_map(|line| {
            let (_, rest) = line.split_once(before)?;
            rest.split_once(after).map(|(value, _)| value)
        });
        found.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_command_that_the_demonstration_prints_is_answered_on_every_lane() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Running::start(&directory.path().join("demo"));
    let token = demo.between("-H 'Authorization: Bearer ", "'");
    let body: Value = serde_json::from_str(demo.between("-d '", "'")).unwrap();
    // Connections go to the lanes in turn; the sample facts were put in place by another runtime.
    for number in 0..20 {
        let mut client = Client::connect(&demo.address);
        let mut body = body.clone();
        body["statementCode"] = format!("DEMO-{number}").into();
        body["idempotencyKey"] = format!("demo-key-{number}").into();
        let answer = client.post("/settlement-deposit-requests", token, &body);
        assert_eq!(answer.status, 201, "{}: {}", number, answer.text());
    }
}

#[test]
fn the_sample_facts_can_be_read_with_the_tokens_that_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Running::start(&directory.path().join("demo"));
    let workflow = demo.between("export SYSTEM_WORKFLOW='", "'");
    let answer = Client::connect(&demo.address).get("/reference-facts/actor/no-such", workflow);
    assert_eq!(answer.status, 404, "{}", answer.text());
    let mother = demo.between("export MOTHER='", "'");
    let answer = Client::connect(&demo.address).get("/mother/profile", mother);
    assert_eq!(answer.status, 200, "{}", answer.text());
}
