//! The commands of each operation, as requests that are made before the clock starts.
//!
//! Each command has a key of its own and resources of its own ([`crate::commands`]), so that every
//! one of them is carried out for the first time and none waits for another. What the contract
//! leaves to one actor is asked by one, whose token the server has seen before; where each
//! resource has an owner of its own, so has each command its token, and the server is shown them
//! before the clock starts: what is measured is the operation, not the check of a signature.

use std::iter;

use carebook::base::actor::ActorKind;
use carebook::catalogue::{KeySource, Method, Row};
use serde_json::Value;

use crate::check::{Expected, Request};
use crate::commands::{actor, command, echo, example, facts, has_own_actors, row};
use crate::driver::{self, Run, Source};
use crate::samples::Load;
use crate::server::Server;
use crate::shapes;

/// Commands of a workload with a token for each: the server remembers some thirty thousand.
const TOKENS_MAX: usize = 20_000;
/// Connections over which what comes before is carried out.
const CONNECTIONS: usize = 64;

/// How many commands of the operation can be measured at one go.
pub(crate) fn most(operation: &str) -> usize {
    let example = example(operation);
    if has_own_actors(operation) || example.current.is_some() {
        return TOKENS_MAX;
    }
    example.after.map_or(usize::MAX, most)
}

/// Whether only one command can be in flight: each names the revision of something that all change.
pub(crate) fn one_by_one(operation: &str) -> bool {
    example(operation).current.is_some()
}

/// The commands of the operation with these numbers; facts and earlier operations that they rest
/// on are carried out here.
///
/// # Errors
/// When the server does not do what comes before.
pub(crate) fn requests(
    operation: &'static str,
    server: &Server,
    numbers: &[usize],
) -> Result<Vec<Request>, String> {
    server.load(&facts(operation, numbers))?;
    let before = match example(operation).after {
        Some(earlier) => {
            let commands = requests(earlier, server, numbers)?;
            let connections = if one_by_one(earlier) { 1 } else { CONNECTIONS };
            carry_out(server, connections, commands)?
        }
        None => Vec::new(),
    };
    let row = row(operation);
    let tokens = tokens(operation, server, numbers);
    let expected = shapes::answer(operation);
    let answers = before.iter().map(|answer| {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        answer
    });
    // An own answer for each command, or none at all.
    let answers = answers.chain(iter::repeat(Value::Null));
    let requests: Vec<Request> = iter::zip(numbers, answers)
        .enumerate()
        .map(|(index, (&number, before))| {
            let (path, body) = command(operation, number, &before);
            let token = &tokens[index % tokens.len()];
            let bytes = written(row, &path, token, &format!("key-{number}"), &body);
            Request::new(bytes, &echo(operation, number), expected)
        })
        .collect();
    if has_own_actors(operation) {
        let (path, expected) = greeting(operation);
        let greet = |token: &String| Request::get(path, token, "", expected);
        carry_out(server, CONNECTIONS, tokens.iter().map(greet).collect())?;
    }
    Ok(requests)
}

/// Carries these out before the clock starts, and gives the answers' bodies, in any order.
///
/// # Errors
/// The first answer that was wrong.
pub(crate) fn carry_out(
    server: &Server,
    connections: usize,
    requests: Vec<Request>,
) -> Result<Vec<Vec<u8>>, String> {
    let run = Run {
        load: Load::Closed(connections),
        sources: sources(requests, 1),
        connections: (0, 0),
        backlog: driver::BACKLOG_MAX,
        at_most: None,
        seed: 0,
        keep_bodies: true,
    };
    driver::run(server, run).map(|(_, bodies)| bodies)
}

/// These requests, dealt out to so many threads.
pub(crate) fn sources(requests: Vec<Request>, threads: usize) -> Vec<Source> {
    let mut parts: Vec<Vec<Request>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, request) in requests.into_iter().enumerate() {
        parts[index % threads].push(request);
    }
    let boxed = |part: Vec<Request>| -> Source { Box::new(part.into_iter()) };
    parts.into_iter().map(boxed).collect()
}

/// What shows a token of an operation with many tokens to the server, and what the answer is.
fn greeting(operation: &str) -> (&'static str, &'static Expected) {
    match example(operation).actor {
        ActorKind::Mother => ("/mother/profile", &shapes::READ_ANYTHING),
        ActorKind::HeadquartersAdministrator => ("/organization", &shapes::READ_ANYTHING),
        // They may not read it, but are known from then on.
        _ => ("/organization", &shapes::FORBIDDEN),
    }
}

/// The tokens of those who ask for the operation: one, or one for each command.
fn tokens(operation: &str, server: &Server, numbers: &[usize]) -> Vec<String> {
    let count = if has_own_actors(operation) {
        numbers.len()
    } else {
        1
    };
    let numbers = numbers.iter().take(count);
    numbers
        .map(|&number| server.token(&actor(operation, number)))
        .collect()
}

/// The bytes of a request for this operation.
pub(crate) fn written(row: &Row, path: &str, token: &str, key: &str, body: &Value) -> Vec<u8> {
    let method = match row.method {
        Method::Post => "POST",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: bench\r\n");
    if row.bearer {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    if row.key == KeySource::Header {
        head += &format!("Idempotency-Key: {key}\r\n");
    }
    let body = body.to_string();
    let length = body.len();
    format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}
