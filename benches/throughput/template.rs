//! Requests that differ in numbers only, made by writing the numbers into a copy. It takes as long
//! as copying, so that millions need not be made, and held, before the clock starts.

use serde_json::Value;

use crate::check::{Request, find};
use crate::commands::{FIRST, actor, command, echo, row};
use crate::server::Server;
use crate::shapes;
use crate::workload::written;

/// Placeholders of the command's number and of its resource's, until those are written.
const COMMAND: usize = 888_888_888;
const RESOURCE: usize = 777_777_777;
/// All numbers have as many digits.
const DIGITS: usize = 9;

/// A request with places for numbers.
#[derive(Clone)]
pub(crate) struct Template {
    request: Request,
    commands: Vec<usize>,
    resources: Vec<usize>,
}

impl Template {
    fn new(request: Request) -> Self {
        Self {
            commands: places(&request.bytes, COMMAND),
            resources: places(&request.bytes, RESOURCE),
            request,
        }
    }

    /// EP9: opens a statement, each command another.
    pub(crate) fn request_deposit(token: &str) -> Self {
        let operation = "request_deposit";
        let (path, body) = command(operation, COMMAND, &Value::Null);
        let bytes = written(row(operation), &path, token, "", &body);
        let expected = shapes::answer(operation);
        Self::new(Request::new(bytes, &echo(operation, COMMAND), expected))
    }

    /// EP9 as a dry run.
    pub(crate) fn dry_deposit(token: &str) -> Self {
        let operation = "request_deposit";
        let (path, body) = command(operation, COMMAND, &Value::Null);
        let path = format!("{path}?dryRun=true");
        let bytes = written(row(operation), &path, token, "", &body);
        let expected = shapes::answer(operation);
        Self::new(Request::new(bytes, &echo(operation, COMMAND), expected))
    }

    /// EP9's body alone, of one command.
    pub(crate) fn deposit_body(number: usize) -> Value {
        command("request_deposit", number, &Value::Null).1
    }

    /// EP13: finalizes a booking's charge anew, as often as it is asked with another charge.
    pub(crate) fn finalize_charge() -> Self {
        let operation = "finalize_charge";
        let (_, body) = command(operation, COMMAND, &Value::Null);
        let (path, _) = command(operation, RESOURCE, &Value::Null);
        let bytes = written(row(operation), &path, "", "", &body);
        let expected = shapes::answer(operation);
        Self::new(Request::new(bytes, &echo(operation, RESOURCE), expected))
    }

    /// EP19 with a revision that is long past: refused.
    pub(crate) fn stale_update(server: &Server) -> Self {
        let operation = "update_branch_office_profile";
        let (path, mut body) = command(operation, COMMAND, &Value::Null);
        let (_, of_resource) = command(operation, RESOURCE, &Value::Null);
        body["branchOfficeProfileId"] = of_resource["branchOfficeProfileId"].clone();
        body["expectedRevision"] = Value::from(1_000);
        let bytes = written(row(operation), &path, &headquarters(server), "", &body);
        Self::new(Request::new(bytes, "", &shapes::STALE))
    }

    /// The command of this number (from 0 on), on the resource of that number.
    pub(crate) fn fill(&self, number: usize, resource: usize) -> Request {
        let mut request = self.request.clone();
        let mut write = |places: &[usize], number: usize| {
            let digits = format!("{:09}", FIRST + number);
            for &at in places {
                request.bytes[at..at + DIGITS].copy_from_slice(digits.as_bytes());
            }
        };
        write(&self.commands, number);
        write(&self.resources, resource);
        request
    }
}

/// Who may open statements and change profiles.
pub(crate) fn headquarters(server: &Server) -> String {
    server.token(&actor("request_deposit", FIRST))
}

fn places(bytes: &[u8], number: usize) -> Vec<usize> {
    let digits = number.to_string();
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], digits.as_bytes()) {
        places.push(from + at);
        from += at + DIGITS;
    }
    places
}
