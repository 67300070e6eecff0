//! `carebook outbox`: lists the messages to other systems that wait or are dead, and retries or skips them, at a
//! running server or in the data directory of a stopped one.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Client;
use super::place::{Place, PlaceArgs};
use crate::base::actor::{Actor, ActorKind};
use crate::base::json::{Json, Reader};
use crate::catalogue::MANAGEMENT;
use crate::cli::exit::Failure;
use crate::cli::journal::expect_no_journal;
use crate::cli::open::{Opening, open};
use crate::cli::output::Output;
use crate::cli::runtime::on_lane;
use crate::cli::table::{Column, Growing, left, right, sentence, time};
use crate::domain::operation::Parts;
use crate::domain::outbox::OUTBOX_MANAGE;
use crate::domain::outbox::list::{MessageBody, MessageQuery, read_message};
use crate::domain::outbox::message::MessageStatus;
use crate::engine::{CommandRequest, CommandResult, Engine, Limits, Mode};

/// Number of messages that are requested at once.
const PAGE: usize = 500;
const COLUMNS: &[Column] = &[
    right("number"),
    left("state"),
    left("topic"),
    left("resource"),
    right("attempts"),
    time("nextAttemptAt"),
    right("lastStatus"),
    sentence("lastError"),
];
/// The subject of commands on a data directory.
const OPERATOR: &str = "carebook-outbox";

/// Arguments of `carebook outbox`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook outbox list --url http://127.0.0.1:8080 --token-file token
  carebook outbox list --state dead --url http://127.0.0.1:8080 \\
      --token-file token
  carebook outbox show 7 --url http://127.0.0.1:8080 --token-file token
  carebook outbox retry 7 --url http://127.0.0.1:8080 --token-file token
  carebook outbox skip 7 --reason 'entered by hand' --data /srv/carebook

The token is one of headquarters or a system_workflow with the permission outbox:manage. With \
--data the server has to be stopped; a retried message is then sent at the next start.

Exit codes:
  0  done
  1  failed, refused, or the data directory is held by a running server
  2  the arguments are wrong
  3  the log is damaged
  5  the log was written by another version of carebook")]
pub struct OutboxArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists messages, the newest first: those that wait or are dead, or those of --state.
    #[command(after_help = "\
Examples:
  carebook outbox list --url http://127.0.0.1:8080 --token-file token
  carebook outbox list --state dead --json --data /srv/carebook")]
    List {
        /// Only those in this state: waiting, dead, taken or skipped.
        #[arg(long, value_name = "STATE", value_parser = state)]
        state: Option<MessageStatus>,
        /// Those of every state.
        #[arg(long, conflicts_with = "state")]
        all: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Shows one message, without its body.
    #[command(after_help = "\
Examples:
  carebook outbox show 7 --url http://127.0.0.1:8080 --token-file token")]
    Show {
        /// Its number.
        number: i64,
        #[command(flatten)]
        shown: Shown,
    },
    /// Sends a message that waits or is dead again, at once.
    #[command(after_help = "\
Examples:
  carebook outbox retry 7 --url http://127.0.0.1:8080 --token-file token")]
    Retry {
        /// Its number.
        number: i64,
        #[command(flatten)]
        shown: Shown,
    },
    /// Gives up a message that waits or is dead.
    #[command(after_help = "\
Examples:
  carebook outbox skip 7 --reason 'entered by hand' --data /srv/carebook")]
    Skip {
        /// Its number.
        number: i64,
        /// The reason; it is stored in the log.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        shown: Shown,
    },
}

/// Where the messages are, and how they are printed.
#[derive(Args)]
struct Shown {
    #[command(flatten)]
    place: PlaceArgs,
    /// Prints JSON, a line for each message.
    #[arg(long)]
    json: bool,
}

fn state(text: &str) -> Result<MessageStatus, String> {
    let mut all = MessageStatus::ALL.into_iter();
    let known = all.find(|status| status.as_str() == text);
    known.ok_or_else(|| "the states are waiting, dead, taken and skipped".to_owned())
}

impl OutboxArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or the directory cannot be opened.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::List { state, all, shown } => {
                let states = match (state, all) {
                    (Some(state), _) => vec![Some(state)],
                    (None, true) => vec![None],
                    (None, false) => {
                        vec![Some(MessageStatus::Dead), Some(MessageStatus::Waiting)]
                    }
                };
                let found = shown.found()?;
                let mut messages = Vec::new();
                for state in states {
                    messages.extend(found.list(state)?);
                }
                found.close()?;
                messages.sort_by_key(|message| -message["number"].as_i64().unwrap_or_default());
                print(&messages, shown.json)
            }
            Action::Show { number, shown } => {
                let found = shown.found()?;
                let message = found.show(number)?;
                found.close()?;
                print(&[message], shown.json)
            }
            Action::Retry { number, shown } => {
                let again = "to be sent again";
                shown.act("retry_outbox_message", number, &json!({}), again)
            }
            Action::Skip {
                number,
                reason,
                shown,
            } => {
                let body = json!({"reason": reason});
                shown.act("skip_outbox_message", number, &body, "skipped")
            }
        }
    }
}

/// Prints messages as a table, which is `none` without any, or each as a line of JSON.
fn print(messages: &[Value], as_json: bool) -> Result<(), Failure> {
    let mut out = Output::new();
    if as_json {
        for message in messages {
            out.json(message)?;
        }
        return out.flush();
    }
    if messages.is_empty() {
        out.line("none")?;
        return out.flush();
    }
    let mut table = Growing::new(COLUMNS);
    for message in messages {
        let cells = COLUMNS.iter().map(|column| match &message[column.title] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        table.row(&mut out, cells.collect())?;
    }
    table.print(&mut out)?;
    out.flush()
}

/// The source of the messages.
enum Found {
    Server(Client),
    Stopped(Engine),
}

impl Shown {
    fn found(&self) -> Result<Found, Failure> {
        Found::at(self.place.place()?)
    }

    /// Carries out an operation, whose result on the message is `done` in texts.
    fn act(&self, operation: &str, number: i64, body: &Value, done: &str) -> Result<(), Failure> {
        let place = self.place.place()?;
        if let Place::Stopped(data) = &place {
            expect_no_journal(data)?;
        }
        let found = Found::at(place)?;
        let message = found.act(operation, number, body)?;
        let after = |failure: Failure| failure.after(format_args!("message {number} is {done}"));
        found.close().map_err(after)?;
        print(&[message], self.json).map_err(after)
    }
}

/// Opens the engine of a stopped server.
fn stopped(data: &Path) -> Result<Engine, Failure> {
    let opening = Opening {
        lanes: 1,
        limits: Limits::default(),
        reserve_bytes: 0,
        create: false,
    };
    let (engine, _) = open(data, opening, Box::new(|_| {}))?;
    Ok(engine)
}

/// Returns the actor of commands on a data directory: a user who may write there needs no token.
fn operator() -> Actor {
    Actor {
        subject: OPERATOR.into(),
        kind: ActorKind::SystemWorkflow,
        permissions: vec![OUTBOX_MANAGE.into()],
        ..Actor::nobody()
    }
}

impl Found {
    fn at(place: Place) -> Result<Self, Failure> {
        Ok(match place {
            Place::Server(client) => Self::Server(client),
            Place::Stopped(data) => Self::Stopped(stopped(&data)?),
        })
    }

    fn list(&self, state: Option<MessageStatus>) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Server(client) => {
                let state = state.map(|state| format!("&state={}", state.as_str()));
                let base = format!("/outbox?limit={PAGE}{}", state.unwrap_or_default());
                let mut path = base.clone();
                let mut items = Vec::new();
                loop {
                    let mut page = answered(client, Method::GET, &path, None)?;
                    if let Value::Array(page) = page["items"].take() {
                        items.extend(page);
                    }
                    match page["next"].as_str() {
                        Some(next) => path = format!("{base}&cursor={next}"),
                        None => return Ok(items),
                    }
                }
            }
            Self::Stopped(engine) => {
                let asked = MessageQuery {
                    status: state,
                    topic: None,
                    resource: None,
                    oldest_first: false,
                    limit: PAGE,
                };
                let mut items = Vec::new();
                let mut after = None;
                loop {
                    let page = on_lane(engine, engine.messages(&asked, after));
                    let (page, _) = page.map_err(Failure::from_error)?.map_err(refused)?;
                    for message in &page.messages {
                        items.push(
                            serde_json::to_value(MessageBody::new(message))
                                .map_err(Failure::from_error)?,
                        );
                    }
                    after = page.next;
                    if after.is_none() {
                        return Ok(items);
                    }
                }
            }
        }
    }

    fn show(&self, number: i64) -> Result<Value, Failure> {
        match self {
            Self::Server(client) => {
                answered(client, Method::GET, &format!("/outbox/{number}"), None)
            }
            Self::Stopped(engine) => {
                let (actor, number) = (operator(), number.to_string());
                let path = [("number", number.as_str())];
                let read = on_lane(engine, engine.read(read_message, &actor, &path));
                let (found, _) = read.map_err(Failure::from_error)?.map_err(refused)?;
                serde_json::from_slice(&found.body).map_err(Failure::from_error)
            }
        }
    }

    fn act(&self, operation: &str, number: i64, body: &Value) -> Result<Value, Failure> {
        let row = MANAGEMENT.iter().find(|row| row.name == operation);
        let row = row.ok_or_else(|| Failure::other("there is no such operation"))?;
        let number = number.to_string();
        match self {
            Self::Server(client) => {
                let path = row.path.replace("{number}", &number);
                answered(client, Method::POST, &path, Some(body))
            }
            Self::Stopped(engine) => {
                let text = body.to_string();
                let json = Json::parse(text.as_bytes())
                    .map_err(|_| Failure::other("the body is no JSON"))?;
                let mut at = Reader::new(engine.now());
                let parts = Parts {
                    path: &[("number", number.as_str())],
                    body: &json,
                };
                let command = row.operation.read(row.name, &parts, &mut at);
                let command = command.filter(|_| at.is_clean()).ok_or_else(|| {
                    Failure::Arguments("a reason has 1 to 4,000 characters".to_owned())
                })?;
                let request = CommandRequest {
                    row: Some(row),
                    actor: Arc::new(operator()),
                    command,
                    header_key: Some(engine.new_id().to_string().into()),
                };
                let permit = engine
                    .admit()
                    .ok_or_else(|| Failure::other("the disk has no room"))?;
                let done = on_lane(engine, engine.execute(request, permit, Mode::Commit));
                match done.map_err(Failure::from_error)? {
                    CommandResult::Done { body, .. } => {
                        serde_json::from_slice(&body).map_err(Failure::from_error)
                    }
                    CommandResult::OutcomeUnknown => Err(unknown(engine, &number)),
                    other => Err(refused(other)),
                }
            }
        }
    }

    /// Makes the commits durable.
    fn close(self) -> Result<(), Failure> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Stopped(engine) => engine.shut_down().map_err(|error| Failure::of_log(&error)),
        }
    }
}

fn refused(result: CommandResult) -> Failure {
    match result {
        CommandResult::Refused { rejection, .. } => Failure::other(rejection.message),
        CommandResult::Unavailable => Failure::other("the disk has no room"),
        other => Failure::other(format!("it was not done: {other:?}")),
    }
}

/// Returns the failure for a log that failed during the command: only the next start shows whether it has the commit.
fn unknown(engine: &Engine, number: &str) -> Failure {
    let failed = engine.shut_down().err();
    let why = failed.map_or_else(String::new, |error| format!(": {error}"));
    Failure::other(format!(
        "it is unknown whether it was done{why}; `carebook outbox show {number}` says whether it was"
    ))
}

/// Returns the response body of a server to one request, if the request succeeded.
fn answered(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let key = uuid::Uuid::new_v4().to_string();
    let key = HeaderValue::try_from(key).map_err(Failure::from_error)?;
    let headers = [(HeaderName::from_static("idempotency-key"), key)];
    let (status, answer) = client.call(method, path, &headers, body)?;
    match status {
        StatusCode::OK | StatusCode::ACCEPTED => Ok(answer),
        status => Err(client.refused(status, answer.to_string().as_bytes())),
    }
}
