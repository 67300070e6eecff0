//! What the answers have to be: the fields of each are those that the API document lists.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carebook::catalogue::{OPERATIONS, Row, Success};
use carebook::http::openapi;
use serde_json::Value;

use crate::check::Expected;

const PROBLEM: &[&str] = &[
    "status",
    "code",
    "message",
    "fieldErrors",
    "conflictingFieldPaths",
    "retryable",
];

/// The answers to first executions, by operation.
static ANSWERS: LazyLock<BTreeMap<&str, Expected>> = LazyLock::new(|| {
    let document = openapi::document();
    let rows = OPERATIONS.iter();
    rows.map(|row| (row.name, expected(row, &document)))
        .collect()
});

fn expected(row: &Row, document: &Value) -> Expected {
    let status = match row.success {
        Success::Ok => 200,
        Success::Created | Success::CreatedOnce => 201,
        Success::Accepted => 202,
        Success::NoContent => 204,
    };
    let word = match row.name {
        "pre_register_payment" => "\"pre_registered\"",
        "administer_gateway" => "\"succeeded\"",
        _ => "",
    };
    Expected::new(status, members(row, status, document)).with(word)
}

/// The fields of an operation's answer with this status, for as long as the program runs.
fn members(row: &Row, status: u16, document: &Value) -> &'static [&'static str] {
    let methods = document["paths"][row.path].as_object();
    let mut methods = methods.into_iter().flat_map(|methods| methods.values());
    let operation = methods.find(|operation| operation["operationId"] == row.name);
    let answer = &operation.expect("the document has every operation")["responses"];
    let schema = &answer[status.to_string()]["content"]["application/json"]["schema"];
    let place = schema["$ref"].as_str().expect("an answer has a name");
    let properties = document.pointer(&format!("{}/properties", place.trim_start_matches('#')));
    let properties = properties.and_then(Value::as_object);
    let names = properties.expect("an answer is an object").keys();
    let names = names.map(|name| &*name.clone().leak());
    names.collect::<Vec<_>>().leak()
}

/// The answer to the first execution of an operation.
pub(crate) fn answer(operation: &str) -> &'static Expected {
    &ANSWERS[operation]
}

/// A statement as it is read.
pub(crate) static READ_STATEMENT: LazyLock<Expected> = LazyLock::new(|| statement(200));
/// A mother's profile as she reads it; a read is no replay, so it says nothing of one.
pub(crate) static READ_ANYTHING: Expected = Expected::new(200, &[]);
/// The refusal of one who may not read.
pub(crate) static FORBIDDEN: Expected = Expected::new(403, PROBLEM);
/// The refusal of a stale revision.
pub(crate) static STALE: Expected = Expected::new(409, PROBLEM).with("\"code\":\"revision_stale\"");
/// The outcome of a batch of one fact that was new.
pub(crate) static FACT_APPLIED: Expected = Expected::new(200, &[]).with("\"applied\":1");
/// What a bare server answers: it only has to be as long.
pub(crate) static BARE_DEPOSIT: Expected = Expected::new(201, &[]);
pub(crate) static BARE_CHARGE: Expected = Expected::new(200, &[]);
/// What the peers answer to a command on a resource of theirs.
pub(crate) static ADVANCED: Expected = Expected::new(
    200,
    &[
        "resource",
        "revision",
        "status",
        "updatedAt",
        "command",
        "transitionAudits",
    ],
);
/// A statement that a peer has opened.
pub(crate) static OPENED_BY_PEER: LazyLock<Expected> = LazyLock::new(|| statement(201));

fn statement(status: u16) -> Expected {
    Expected::new(status, answer("request_deposit").members)
}
