//! The service as schemathesis sees it: called by its document, rightly and wrongly, as each kind of actor, with all
//! checks. `SCHEMATHESIS` names a Python with the packages of `requirements.txt`, see .ci/run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use carebook::base::actor::ActorKind;
use carebook::http::openapi;
use serde_json::{Map, Value, json};

use crate::support::{World, or_skip, seed};
use crate::walk::{demonstration, exports};

/// What came of a campaign.
struct Outcome {
    /// What was found, the first of each kind.
    found: Vec<Value>,
    counts: Value,
}

/// Calls a demonstration as the document says. `None`, and that is said, where the packages are missing and this is
/// not the gate.
fn campaign(document: &Value, calls: u64, seed: u64) -> Option<Outcome> {
    let python = std::env::var_os("SCHEMATHESIS").map(PathBuf::from);
    let python = or_skip(python, "schemathesis (SCHEMATHESIS, see .ci/run)")?;
    let world = World::new();
    let (server, printed) = demonstration(&world);
    let (address, tokens): (Vec<_>, Vec<_>) = exports(&printed)
        .into_iter()
        .partition(|(name, _)| name == "CAREBOOK");
    let tokens: Map<_, _> = tokens
        .into_iter()
        .map(|(kind, token)| (kind, json!(token)))
        .collect();
    assert_eq!(tokens.len(), ActorKind::ALL.len());
    let file = world.path("carebook.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let script = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/schemathesis/campaign.py"
    ));
    let output = Command::new(python)
        .arg("-B")
        .arg(script)
        .arg(&address[0].1)
        .arg(file)
        .args([calls.to_string(), seed.to_string()])
        .env("TOKENS", Value::from(tokens).to_string())
        .current_dir(world.path(""))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert_eq!(server.stop(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut found: Vec<Value> = lines.collect();
    let counts = found.pop().unwrap_or_default();
    assert_eq!(output.status.success(), found.is_empty(), "{said}");
    assert!(counts["calls"].as_u64() >= Some(calls), "{said}");
    Some(Outcome { found, counts })
}

#[test]
fn no_call_is_answered_otherwise_than_the_document_says_whoever_sends_it() {
    let calls = std::env::var("SCHEMATHESIS_CALLS").map_or(1_500, |calls| calls.parse().unwrap());
    let Some(outcome) = campaign(&openapi::document(), calls, seed() % 1_000_000_000) else {
        return;
    };
    println!("{}", outcome.counts);
    assert!(outcome.found.is_empty(), "{:#?}", outcome.found);
    assert_eq!(outcome.counts["statuses"]["500"], Value::Null);
}

/// The document with one of its requests alone.
fn of_one(path: &str) -> Value {
    let mut document = openapi::document();
    let paths = document["paths"].as_object_mut().unwrap();
    paths.retain(|known, _| known == path);
    document
}

#[test]
fn a_document_that_says_something_else_is_found() {
    let path = "/organization";
    let mut other_answer = of_one(path);
    let statuses = &mut other_answer["paths"][path]["get"]["responses"];
    let answer = &mut statuses["200"]["content"]["application/json"]["schema"];
    *answer = json!({"type": "object", "required": ["somethingElse"]});
    let path = "/settlement-statements";
    let mut other_request = of_one(path);
    let limit = &mut other_request["components"]["parameters"]["limit"];
    limit["required"] = json!(true);
    limit["schema"] = json!({"type": "integer", "minimum": 10_000, "maximum": 100_000});
    let mut other_status = of_one(path);
    let statuses = &mut other_status["paths"][path]["get"]["responses"];
    statuses.as_object_mut().unwrap().remove("400");
    for (document, failure) in [
        (other_answer, "JsonSchemaError"),
        (other_request, "RejectedPositiveData"),
        (other_status, "UndefinedStatusCode"),
    ] {
        let Some(outcome) = campaign(&document, 200, 1) else {
            return;
        };
        let told = outcome
            .found
            .iter()
            .any(|found| found["failure"] == failure);
        assert!(told, "{failure}: {:#?}", outcome.found);
    }
}
