//! `carebook facts`: brings reference facts in, over HTTP or into a stopped server's directory,
//! and shows what they look like.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::exit::Failure;
use super::open::{Opening, open, progress_bar};
use super::serve::on_lane;
use crate::base::actor::{Actor, ActorKind};
use crate::catalogue::FACTS;
use crate::domain::operation::to_json;
use crate::domain::reference::intake::{Incoming, Lines, Summary};
use crate::domain::reference::samples;
use crate::engine::intake::Batch;
use crate::engine::{Engine, Limits};

/// How much is read, and sent, at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Free space below which loading into a directory stops.
const RESERVE_BYTES: u64 = 256 << 20;

/// Arguments of `carebook facts`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook facts template > facts.ndjson
  carebook facts load facts.ndjson --url http://127.0.0.1:8080 --token \"$TOKEN\"")]
pub struct FactsArgs {
    #[command(subcommand)]
    command: FactsCommand,
}

#[derive(Subcommand)]
enum FactsCommand {
    /// Brings facts in: one JSON object a line.
    Load(LoadArgs),
    /// Prints one sample of each kind, as `load` takes it.
    #[command(after_help = "\
Examples:
  carebook facts template > facts.ndjson
  carebook facts template | jq -c 'select(.kind == \"actor\")'")]
    Template,
}

/// Arguments of `carebook facts load`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook facts template > facts.ndjson
  carebook facts load facts.ndjson --url http://127.0.0.1:8080 --token \"$TOKEN\"
  gunzip -c facts.ndjson.gz | carebook facts load - --data /srv/carebook

Sending the same facts again is safe: those that stand are unchanged.

Exit codes:
  0  every fact is applied or unchanged
  1  failed, or some facts were stale, in conflict or invalid (the answer names them)
  2  the arguments are wrong
  3  --data: the log is damaged")]
struct LoadArgs {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// A running server, http://HOST:PORT.
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "data",
        required_unless_present = "data",
        requires = "token"
    )]
    url: Option<Uri>,
    /// The token of a system_workflow with the permission facts:write.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "CAREBOOK_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// A stopped server's data directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Prints the answer as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl FactsArgs {
    /// Loads, or prints the template.
    ///
    /// # Errors
    /// When not every fact is in place afterwards.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            FactsCommand::Template => {
                for line in samples::template() {
                    println!("{line}");
                }
                Ok(())
            }
            FactsCommand::Load(arguments) => arguments.run(),
        }
    }
}

impl LoadArgs {
    fn run(self) -> Result<(), Failure> {
        let unreadable =
            |error: io::Error| Failure::other(format!("{}: {error}", self.file.display()));
        let (input, bytes): (Box<dyn Read + Send>, u64) = if self.file.as_os_str() == "-" {
            (Box::new(io::stdin()), 0)
        } else {
            let file = File::open(&self.file).map_err(unreadable)?;
            let bytes = file.metadata().map_err(unreadable)?.len();
            (Box::new(BufReader::with_capacity(CHUNK_BYTES, file)), bytes)
        };
        let bar = progress_bar(bytes, "loading facts");
        let input = bar.wrap_read(input);
        let answer = match (&self.url, &self.token, &self.data) {
            (Some(url), Some(token), _) => send(url, token, input)?,
            (_, _, Some(data)) => load_into(data, input)?,
            _ => return Err(Failure::other("--url with --token, or --data, is required")),
        };
        bar.finish_and_clear();
        report(&answer, self.json);
        let count = |name: &str| answer[name].as_u64().unwrap_or(0);
        match count("stale") + count("conflict") + count("invalid") {
            0 => Ok(()),
            some => Err(Failure::other(format!("{some} facts are not in place"))),
        }
    }
}

fn report(answer: &Value, as_json: bool) {
    if as_json {
        println!("{answer:#}");
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for name in ["applied", "unchanged", "stale", "conflict", "invalid"] {
        table.add_row([name.to_owned(), answer[name].to_string()]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    let problems = answer["problems"].as_array();
    for problem in problems.into_iter().flatten() {
        eprintln!("{problem}");
    }
}

fn load_into(data: &std::path::Path, input: impl Read) -> Result<Value, Failure> {
    let opening = Opening {
        lanes: 1,
        limits: Limits::default(),
        reserve_bytes: RESERVE_BYTES,
        create: true,
    };
    let on_fatal = Box::new(|error: &str| {
        eprintln!("carebook: the log has failed: {error}");
        std::process::exit(1);
    });
    let (engine, _) = open(data, opening, on_fatal)?;
    let engine = Arc::new(engine);
    let loaded = on_lane(&engine, load_lines(&engine, input)).map_err(Failure::from_error)?;
    let summary = loaded.map_err(Failure::other)?;
    engine
        .shut_down()
        .map_err(|error| Failure::of_log(&error))?;
    serde_json::from_slice(&to_json(&summary)).map_err(Failure::from_error)
}

/// Puts the facts of `input`, one a line, in place, as a workflow of this machine's.
///
/// # Errors
/// When the input cannot be read, or the engine does not take a fact.
pub async fn load_lines(
    engine: &Arc<Engine>,
    mut input: impl Read,
) -> Result<Summary, Box<dyn std::error::Error + Send + Sync>> {
    let actor = Actor {
        subject: "carebook facts load".into(),
        kind: ActorKind::SystemWorkflow,
        ..Actor::nobody()
    };
    let mut batch = Batch::new(engine, Arc::new(actor));
    let mut lines = Lines::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = input.read(&mut chunk)?;
        if read == 0 || batch.is_broken() {
            break;
        }
        let mut rest = &chunk[..read];
        while let Some(line) = lines.next(&mut rest) {
            batch
                .take(Incoming::of_line(&line, FACTS, engine.now()))
                .await;
        }
    }
    if let Some(line) = lines.finish() {
        batch
            .take(Incoming::of_line(&line, FACTS, engine.now()))
            .await;
    }
    let finished = batch.finish().await;
    let (summary, _) = finished.map_err(|reply| format!("the engine did not go on: {reply:?}"))?;
    Ok(summary)
}

/// Sends the facts to a running server as a stream; its answer.
fn send(url: &Uri, token: &str, input: impl Read + Send + 'static) -> Result<Value, Failure> {
    if url.scheme_str() != Some("http") {
        return Err(Failure::other(format!(
            "{url}: only http:// is spoken here; load through the listener inside"
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Failure::from_error)?;
    let (status, body) = runtime
        .block_on(post(url, token, input))
        .map_err(|error| Failure::other(format!("{url}: {error}")))?;
    let text = String::from_utf8_lossy(&body);
    if status != StatusCode::OK {
        return Err(Failure::other(format!("{url} answered {status}: {text}")));
    }
    serde_json::from_slice(&body).map_err(|error| Failure::other(format!("{url}: {error}: {text}")))
}

async fn post(
    url: &Uri,
    token: &str,
    mut input: impl Read + Send + 'static,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let host = url.host().ok_or("the URL has no host")?;
    let port = url.port_u16().unwrap_or(80);
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut chunks, body) = Channel::<Bytes, io::Error>::new(4);
    // Reading may block, so it has a thread of its own.
    let reading = tokio::task::spawn_blocking(move || {
        let handle = tokio::runtime::Handle::current();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            match input.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    chunk.truncate(read);
                    // The server has answered already, and reads no more.
                    if handle.block_on(chunks.send_data(chunk.into())).is_err() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    });
    let request = Request::post("/reference-facts")
        .header(
            HOST,
            url.authority().map_or(host, |authority| authority.as_str()),
        )
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(CONTENT_TYPE, "application/x-ndjson")
        .body(body)?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    reading.await??;
    Ok((status, body))
}
