//! The commands of each operation, as requests that are made before the clock starts.
//!
//! Each command has a key of its own and resources of its own ([`crate::facts`]), so that every
//! one of them is carried out for the first time and none waits for another. What the contract
//! leaves to one actor is asked by one, whose token the server has seen before; where each
//! resource has an owner of its own, so has each command its token, and the server is shown them
//! before the clock starts: what is measured is the operation, not the check of a signature.

use std::iter;

use carebook::base::actor::ActorKind;
use carebook::catalogue::{KeySource, Method, OPERATIONS, Row};
use serde_json::Value;

use crate::cast::{BRANCH, FAMILY_MEMBER, MOTHER, MOTHER_MEMBER};
use crate::check::{Expected, Request};
use crate::commands::{command, echo, manager_email};
use crate::driver::{self, Run, Source};
use crate::facts::facts;
use crate::samples::Load;
use crate::server::Server;
use crate::shapes;

/// Commands of a workload with a token for each: the server remembers some thirty thousand.
const TOKENS_MAX: usize = 20_000;
/// Connections over which what comes before is carried out.
const CONNECTIONS: usize = 64;

/// The operations that go on with what another one has brought into being, with that one.
const CHAINS: [(&str, &str); 4] = [
    ("acknowledge_deposit", "request_deposit"),
    ("authorize_payment", "grant_payment_authority"),
    ("accept_manager_invitation", "create_branch"),
    ("mark_artifact_ready", "open_data_room_request"),
];

/// The operation of this name.
pub(crate) fn row(operation: &str) -> &'static Row {
    let mut rows = OPERATIONS.iter();
    rows.find(|row| row.name == operation)
        .unwrap_or_else(|| panic!("{operation} is no operation"))
}

/// How many commands of the operation can be measured at one go.
pub(crate) fn most(operation: &str) -> usize {
    match operation {
        "update_mother_profile" | "create_branch" | "accept_manager_invitation" => TOKENS_MAX,
        _ => usize::MAX,
    }
}

/// Whether only one command can be in flight: each new branch names the revision of the one
/// organization.
pub(crate) fn one_by_one(operation: &str) -> bool {
    operation == "create_branch"
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
    let facts = facts(operation, numbers);
    if !facts.is_empty() {
        server.load(&facts)?;
    }
    let chain = CHAINS.iter().find(|(later, _)| *later == operation);
    let before = match chain {
        Some((_, earlier)) => {
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
            let (parameter, body) = command(operation, number, &before);
            let token = &tokens[index % tokens.len()];
            let bytes = written(row, &parameter, token, &format!("key-{number}"), &body);
            Request::new(bytes, &echo(operation, number), expected)
        })
        .collect();
    if let Some((path, expected)) = greeting(operation) {
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
fn greeting(operation: &str) -> Option<(&'static str, &'static Expected)> {
    match operation {
        "update_mother_profile" => Some(("/mother/profile", &shapes::READ_ANYTHING)),
        // A manager may not read it, but is known from then on.
        "accept_manager_invitation" => Some(("/organization", &shapes::FORBIDDEN)),
        _ => None,
    }
}

/// The tokens of those who ask for the operation: one, or one for each command.
fn tokens(operation: &str, server: &Server, numbers: &[usize]) -> Vec<String> {
    use ActorKind::{
        BranchManager, FamilyMember, HeadquartersAdministrator, Mother, SystemWorkflow,
    };
    let headquarters = |permission: &str| {
        let permissions = vec![permission.to_owned()];
        server.token(HeadquartersAdministrator, "hq-1", |claims| {
            claims.permissions = permissions;
        })
    };
    vec![match operation {
        "update_mother_profile" => {
            return numbers
                .iter()
                .map(|number| server.token(Mother, &format!("mother-{number}"), |_| ()))
                .collect();
        }
        "accept_manager_invitation" => {
            return numbers
                .iter()
                .map(|number| {
                    server.token(BranchManager, &format!("manager-{number}"), |claims| {
                        claims.email = Some(manager_email(*number));
                        claims.email_verified = Some(true);
                    })
                })
                .collect();
        }
        "authorize_payment" => server.token(FamilyMember, "family-1", |claims| {
            claims.member_id = Some(FAMILY_MEMBER.to_owned());
        }),
        "grant_payment_authority"
        | "grant_care_history_access"
        | "capture_adjustment_payment"
        | "decide_cash_receipt_eligibility"
        | "confirm_reservation_draft"
        | "pre_register_payment" => server.token(Mother, MOTHER, |claims| {
            claims.member_id = Some(MOTHER_MEMBER.to_owned());
        }),
        "mark_artifact_ready" => server.token(SystemWorkflow, "workflow-1", |_| ()),
        "acknowledge_deposit" | "assign_caregiver" | "acknowledge_payout_deposit" => {
            server.token(BranchManager, "manager-1", |claims| {
                claims.branch_profile_ids = vec![BRANCH.to_owned()];
            })
        }
        "create_branch" => headquarters("branch:create"),
        "administer_gateway" => headquarters("payment:administer"),
        _ => server.token(HeadquartersAdministrator, "hq-1", |_| ()),
    }]
}

/// The bytes of a request for this operation.
pub(crate) fn written(row: &Row, parameter: &str, token: &str, key: &str, body: &Value) -> Vec<u8> {
    let method = match row.method {
        Method::Post => "POST",
        Method::Patch => "PATCH",
    };
    let path = match (row.path.find('{'), row.path.find('}')) {
        (Some(from), Some(to)) => {
            format!("{}{parameter}{}", &row.path[..from], &row.path[to + 1..])
        }
        _ => row.path.to_owned(),
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
