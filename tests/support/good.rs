//! Each operation's example as a request on a stage: what the tests of the contract, which are the
//! same for every operation, begin with.

use std::sync::MutexGuard;

use carebook::base::actor::Actor;
use carebook::catalogue::{KeySource, Method, OPERATIONS, ProblemShape, Row, Success};
use carebook::domain::example::{Current, KEY, filled};
use serde_json::{Value, json};

use super::stage::{Stage, organization};
use super::{Answer, Client};

/// A request that is carried out when it is sent.
pub struct Good {
    pub row: &'static Row,
    pub actor: Actor,
    pub path: String,
    /// The key in the header, where the operation has it there.
    pub key: Option<String>,
    pub body: Value,
    /// A body with other facts, under the same key.
    pub other: Value,
    /// The organization must not change until the request was sent.
    _organization: Option<MutexGuard<'static, ()>>,
}

/// The operation with this number, when there is one.
pub fn row(tag: u16) -> Option<&'static Row> {
    OPERATIONS.iter().find(|row| row.tag == tag)
}

/// The operation of this name.
#[track_caller]
pub fn row_named(name: &str) -> &'static Row {
    let row = OPERATIONS.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("the catalogue has no operation {name}"))
}

impl Good {
    /// The operation's example on this stage; what it goes on with is carried out.
    pub fn of(row: &'static Row, stage: &Stage) -> Self {
        let example = row.operation.example();
        let before = example.after.map_or(Value::Null, |name| after(name, stage));
        let current = example.current.as_ref();
        let guard = current.map(|_| organization());
        let current = current.map(|current| (current.pointer, read_current(current, stage)));
        let finished = |body: Value| {
            let mut body = stage.named(body);
            (example.vary)(&mut body, stage.number);
            if let Some((pointer, revision)) = &current {
                *body.pointer_mut(pointer).unwrap() = revision.clone();
            }
            body
        };
        let body = example.body(&before);
        Self {
            row,
            actor: stage.actor(example.actor),
            path: example.path(row.path, &|text| stage.id(&filled(text, &before))),
            key: (row.key == KeySource::Header).then(|| stage.id(KEY)),
            other: finished(example.other(body.clone())),
            body: finished(body),
            _organization: guard,
        }
    }

    pub fn method(&self) -> &'static str {
        method(self.row)
    }

    /// The token of the request's actor.
    pub fn token(&self, stage: &Stage) -> String {
        stage.token(&self.actor)
    }

    /// Sends this body as this actor.
    pub fn send(&self, client: &mut Client, token: &str, body: &Value) -> Answer {
        self.send_bytes(client, token, body.to_string().as_bytes())
    }

    /// Sends these bytes as a body.
    pub fn send_bytes(&self, client: &mut Client, token: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Content-Type", "application/json")];
        if self.row.bearer {
            headers.push(("Authorization", &bearer));
        }
        if let Some(key) = &self.key {
            headers.push(("Idempotency-Key", key));
        }
        client.request(self.method(), &self.path, &headers, body)
    }

    /// Sends the request and expects that it is carried out, for the first time.
    #[track_caller]
    pub fn carried_out(&self, client: &mut Client, token: &str) -> Answer {
        let answer = self.send(client, token, &self.body);
        let status = match self.row.success {
            Success::Ok => 200,
            Success::Created | Success::CreatedOnce => 201,
            Success::Accepted => 202,
            Success::NoContent => 204,
        };
        assert_eq!(answer.status, status, "{}: {answer:?}", self.row.name);
        assert_eq!(answer.header("idempotent-replayed"), None);
        answer
    }
}

/// The operation's method, as it is sent.
pub fn method(row: &Row) -> &'static str {
    match row.method {
        Method::Post => "POST",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    }
}

/// The word for what is wrong, wherever the operation's problems have it.
pub fn code(answer: &Answer) -> String {
    let body = answer.json();
    let code = [&body["code"], &body["conflictCode"]]
        .into_iter()
        .find_map(Value::as_str);
    code.unwrap_or_else(|| panic!("{body} has no code"))
        .to_owned()
}

/// Status, code and every field of a problem of this shape; without faults of fields.
#[track_caller]
pub fn assert_problem(shape: ProblemShape, answer: &Answer, status: u16, code: &str) {
    let body = answer.json();
    assert_eq!(answer.status, status, "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let retryable = matches!(status, 429 | 503);
    let mut expected = json!({"status": status, "code": code, "retryable": retryable});
    if shape != ProblemShape::Profile {
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.len() > 10 && message.ends_with('.'), "{body}");
        expected["message"] = json!(message);
    }
    if shape == ProblemShape::Full {
        for list in ["fieldErrors", "conflictingFieldPaths"] {
            assert!(body[list].is_array(), "{body}");
            expected[list] = body[list].clone();
        }
    }
    assert_eq!(body, expected);
    assert_eq!(answer.header("retry-after").is_some(), retryable);
}

/// The revision that has to be read right before.
fn read_current(current: &Current, stage: &Stage) -> Value {
    let answer = stage.client().get(current.path, &stage.headquarters());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()[current.field].clone()
}

/// Carries the example of the operation of this name out on the stage; its answer.
fn after(name: &str, stage: &Stage) -> Value {
    let row = OPERATIONS.iter().find(|row| row.name == name).unwrap();
    let good = Good::of(row, stage);
    let token = good.token(stage);
    good.carried_out(&mut stage.client(), &token).json()
}
