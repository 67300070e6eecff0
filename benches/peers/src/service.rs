//! The service in front of PostgreSQL: JSON over HTTP, one call of a function for each command.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::answer::{Advancing, Opening, problem};
use crate::pool::Pool;
use crate::postgres::{self, Cluster, Session};
use crate::process;

/// Bytes of a body.
const BODY_MAX: usize = 64 * 1024;

/// How often a command is tried that another one with the same key or resource got in the way of.
const TRIES: usize = 5;

/// Which connection takes a command on a resource. A new statement goes over any.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Routing {
    /// The one of the resource, whatever it already carries: its commands are pipelined, and no
    /// session waits for the lock of another.
    Resource,
    /// Any with fewer than `--depth` commands.
    Any,
}

impl fmt::Display for Routing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Resource => "resource",
            Self::Any => "any",
        })
    }
}

/// How PostgreSQL is run and used.
#[derive(Args, Clone)]
pub(crate) struct Tuning {
    /// Connections to the database that the commands share.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) pool: usize,
    /// Commands at a time on each of them: more than one is pipelined.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) depth: usize,
    /// Which connection takes a command on a resource.
    #[arg(long, default_value = "resource")]
    pub(crate) routing: Routing,
    /// Another setting of PostgreSQL; may be given more than once.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Megabytes of the write-ahead log that are there to be written over.
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) prepared_log: u32,
    /// The directory of initdb and postgres, when it is not that of Debian's packages.
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
}

impl Tuning {
    /// The arguments that say the same.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--pool={}", self.pool),
            format!("--depth={}", self.depth),
            format!("--routing={}", self.routing),
            format!("--prepared-log={}", self.prepared_log),
        ];
        if let Some(programs) = &self.programs {
            arguments.push(format!("--programs={}", programs.display()));
        }
        let settings = self.settings.iter();
        arguments.extend(settings.map(|(name, value)| format!("--set={name}={value}")));
        arguments
    }
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// A directory, missing or empty, for the cluster; it is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Resources that are there at the start, resource-0 and so on, each with its revision 1.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    resources: u32,
    /// Where to listen for HTTP.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[command(flatten)]
    tuning: Tuning,
}

/// Reads `NAME=VALUE`.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("has no =")?;
    Ok((name.to_owned(), value.to_owned()))
}

struct Service {
    pool: Rc<Pool<Session>>,
    routing: Routing,
    /// For questions about the database itself.
    client: Client,
}

/// Serves until this process is asked to end, or the database ends.
pub(crate) async fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    tokio::select! {
        ended = process::asked_to_end() => ended,
        failed = run(arguments) => failed,
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let tuning = &arguments.tuning;
    let programs = postgres::programs(tuning.programs.as_deref())?;
    let (size, depth) = (tuning.pool.max(1), tuning.depth.max(1));
    let mut cluster = Cluster::start(&arguments.data, &programs, size, &tuning.settings).await?;
    cluster
        .prepare(arguments.resources, tuning.prepared_log)
        .await?;
    let mut sessions = Vec::new();
    for _ in 0..size {
        sessions.push(cluster.session().await?);
    }
    let client = cluster.connect().await?;
    postgres::settings(&client).await?;
    let service = Rc::new(Service {
        pool: Pool::new(sessions, depth),
        routing: tuning.routing,
        client,
    });
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| arguments.listen.to_string())?;
    println!("listening on http://{}", listener.local_addr()?);
    tokio::select! {
        failed = watch(&mut cluster) => failed,
        failed = accept(&listener, &service) => failed,
    }
}

async fn watch(cluster: &mut Cluster) -> anyhow::Result<()> {
    loop {
        cluster.check()?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn accept(listener: &TcpListener, service: &Rc<Service>) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(connection(stream, Rc::clone(service)));
    }
}

async fn connection(stream: TcpStream, service: Rc<Service>) {
    let respond = service_fn(move |request| {
        let service = Rc::clone(&service);
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    // A connection that breaks is its client's affair.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), respond)
        .await;
}

/// What becomes of a command.
enum Outcome {
    Done(String),
    Replayed(String),
    KeyTaken,
    CodeTaken,
    Stale(String),
}

impl Service {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if head.method == Method::GET {
            let found = match path {
                "/settings" => postgres::settings(&self.client).await,
                "/totals" => self.totals().await,
                _ => return not_found(),
            };
            return match found {
                Ok(found) => response(StatusCode::OK, found.to_string()),
                Err(error) => unavailable(&error),
            };
        }
        let resource = path.strip_prefix("/commands/");
        let known = resource.map_or(path == "/settlement-deposit-requests", is_name);
        if head.method != Method::POST || !known {
            return not_found();
        }
        let body = match Limited::new(body, BODY_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return invalid(&error.to_string()),
        };
        let body = match std::str::from_utf8(&body) {
            Ok(body) => body,
            Err(error) => return invalid(&error.to_string()),
        };
        let (outcome, status) = match resource {
            Some(resource) => match Advancing::of(resource, body) {
                Ok(advancing) => (
                    self.advance(resource, body, &advancing).await,
                    StatusCode::OK,
                ),
                Err(error) => return invalid(&error.to_string()),
            },
            None => match Opening::of(body) {
                Ok(opening) => (self.open(body, &opening).await, StatusCode::CREATED),
                Err(error) => return invalid(&error.to_string()),
            },
        };
        match outcome {
            Ok(Outcome::Done(outcome)) => response(status, outcome),
            Ok(Outcome::Replayed(outcome)) => {
                let mut response = response(status, outcome);
                let replayed = HeaderValue::from_static("true");
                response
                    .headers_mut()
                    .insert("idempotency-replayed", replayed);
                response
            }
            Ok(Outcome::KeyTaken) => conflict(
                "key_conflict",
                "The idempotency key was used for another request.",
            ),
            Ok(Outcome::CodeTaken) => {
                conflict("code_conflict", "There is a statement with this code.")
            }
            Ok(Outcome::Stale(revision)) => {
                conflict("stale_revision", &format!("The revision is {revision}."))
            }
            Err(error) => unavailable(&error),
        }
    }

    async fn totals(&self) -> anyhow::Result<Value> {
        for session in self.pool.connections() {
            session.tell_statistics().await?;
        }
        postgres::totals(&self.client).await
    }

    async fn open(&self, body: &str, opening: &Opening) -> anyhow::Result<Outcome> {
        for _ in 0..TRIES {
            let session = self.pool.any().await;
            let parameters: [&(dyn ToSql + Sync); 8] = [
                &opening.key,
                &opening.fingerprint.as_slice(),
                &opening.id,
                &opening.code,
                &body,
                &opening.entry,
                &opening.event,
                &opening.outcome,
            ];
            let answered = session
                .client
                .query_one(&session.open_statement, &parameters)
                .await;
            let returned = match answered {
                Ok(row) => row.try_get::<_, Option<String>>(0)?,
                Err(error) => match violated(&error) {
                    Some("statement_code") => return Ok(Outcome::CodeTaken),
                    Some(_) => continue,
                    None => return Err(error.into()),
                },
            };
            let Some(returned) = returned else {
                return Ok(Outcome::Done(opening.outcome.clone()));
            };
            return Ok(match returned.strip_prefix('r') {
                Some(outcome) => Outcome::Replayed(outcome.to_owned()),
                None => Outcome::KeyTaken,
            });
        }
        anyhow::bail!("the key is in use")
    }

    async fn advance(
        &self,
        resource: &str,
        body: &str,
        advancing: &Advancing,
    ) -> anyhow::Result<Outcome> {
        for _ in 0..TRIES {
            let session = match self.routing {
                Routing::Resource => self.pool.of_resource(resource),
                Routing::Any => self.pool.any().await,
            };
            let parameters: [&(dyn ToSql + Sync); 9] = [
                &advancing.key,
                &advancing.fingerprint.as_slice(),
                &resource,
                &advancing.expected,
                &body,
                &advancing.entry,
                &advancing.event,
                &advancing.head,
                &advancing.tail,
            ];
            let answered = session
                .client
                .query_one(&session.advance_resource, &parameters)
                .await;
            let row = match answered {
                Ok(row) => row,
                Err(error) if violated(&error).is_some() => continue,
                Err(error) => return Err(error.into()),
            };
            let returned: &str = row.try_get(0)?;
            let Some((kind, rest)) = returned.split_at_checked(1) else {
                continue;
            };
            return Ok(match kind {
                "n" => {
                    let (head, tail) = (&advancing.head, &advancing.tail);
                    Outcome::Done([head, rest, tail].concat())
                }
                "r" => Outcome::Replayed(rest.to_owned()),
                "k" => Outcome::KeyTaken,
                "s" => Outcome::Stale(rest.to_owned()),
                _ => continue,
            });
        }
        anyhow::bail!("the key or the resource is in use")
    }
}

/// The name of the violated constraint, when that is the error.
fn violated(error: &tokio_postgres::Error) -> Option<&str> {
    let error = error.as_db_error()?;
    (*error.code() == SqlState::UNIQUE_VIOLATION).then_some(error.constraint()?)
}

/// Whether this can be the name of a resource as it is, in a path and in JSON.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

fn response(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn not_found() -> Response<Full<Bytes>> {
    let body = problem("not_found", "There is nothing here.");
    response(StatusCode::NOT_FOUND, body)
}

fn invalid(why: &str) -> Response<Full<Bytes>> {
    response(StatusCode::BAD_REQUEST, problem("invalid_request", why))
}

fn conflict(code: &str, why: &str) -> Response<Full<Bytes>> {
    response(StatusCode::CONFLICT, problem(code, why))
}

fn unavailable(error: &anyhow::Error) -> Response<Full<Bytes>> {
    let body = problem("unavailable", &format!("{error:#}"));
    response(StatusCode::SERVICE_UNAVAILABLE, body)
}

/// A field of an answer of this service to a question about the database.
pub(crate) fn member(answer: &Value, name: &str) -> anyhow::Result<u64> {
    answer[name]
        .as_u64()
        .with_context(|| format!("{name} in {answer}"))
}
