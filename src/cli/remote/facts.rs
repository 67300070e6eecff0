//! `carebook facts`: loads reference facts, over HTTP or into a stopped server's directory, and prints samples.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::place::{Place, PlaceArgs};
use super::refusal;
use super::upload::{CHUNK_BYTES, send};
use crate::base::actor::{Actor, ActorKind};
use crate::cli::exit::{FAILED, Failure};
use crate::cli::journal::expect_no_journal;
use crate::cli::open::{Opening, endless_bar, open, progress_bar};
use crate::cli::output::Output;
use crate::cli::runtime::on_lane;
use crate::cli::stderr::print_to_stderr;
use crate::domain::operation::to_json;
use crate::domain::reference::fact_lines::{Lines, Summary};
use crate::domain::reference::samples;
use crate::engine::fact_loading::{Ended, FactBatch};
use crate::engine::{CommandResult, Engine, Limits};

/// Free space below which loading into a directory stops.
const RESERVE_BYTES: u64 = 256 << 20;

/// Arguments of `carebook facts`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook facts template > facts.ndjson
  carebook facts load facts.ndjson --url http://127.0.0.1:8080 \\
      --token-file token")]
pub struct FactsArgs {
    #[command(subcommand)]
    command: FactsCommand,
}

#[derive(Subcommand)]
enum FactsCommand {
    /// Loads facts: one JSON object a line.
    Load(LoadArgs),
    /// Prints one sample of each kind, in the form that `load` reads.
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
  carebook facts load facts.ndjson --url http://127.0.0.1:8080 \\
      --token-file token
  CAREBOOK_TOKEN=$TOKEN carebook facts load facts.ndjson \\
      --url https://care.example.com
  carebook facts load facts.ndjson --url https://localhost:8443 \\
      --ca-file cert.pem --token-file token
  gunzip -c facts.ndjson.gz | carebook facts load - --data /srv/carebook

The token is a system_workflow's with the permission facts:write. Sending the same facts again is \
safe: facts that are stored already count as unchanged, but for those that a rule of today makes \
invalid. With --data, a directory that is empty or not there yet becomes a new log, which is told.

Exit codes:
  0  every fact is applied or unchanged
  1  failed, or some facts were stale, in conflict or invalid (the output names
     them)
  2  the arguments are wrong
  3  --data: the log is damaged
  5  --data: it was written by another version of carebook, which is named")]
struct LoadArgs {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// Prints the response as JSON instead of a table.
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
                let mut out = Output::new();
                for line in samples::template() {
                    out.line(line)?;
                }
                out.flush()
            }
            FactsCommand::Load(arguments) => arguments.run(),
        }
    }
}

impl LoadArgs {
    fn run(self) -> Result<(), Failure> {
        let place = self.place.place()?;
        let unreadable =
            |error: io::Error| Failure::other(format!("{}: {error}", self.file.display()));
        let what = "loading facts";
        let (input, bar): (Box<dyn Read + Send>, _) = if self.file.as_os_str() == "-" {
            (Box::new(io::stdin()), endless_bar(what))
        } else {
            let file = File::open(&self.file).map_err(unreadable)?;
            let found = file.metadata().map_err(unreadable)?;
            if found.is_dir() {
                return Err(unreadable(io::ErrorKind::IsADirectory.into()));
            }
            let bytes = found.len();
            let file = BufReader::with_capacity(CHUNK_BYTES, file);
            (Box::new(file), progress_bar(bytes, what))
        };
        let input = bar.wrap_read(input);
        let answer = match &place {
            Place::Server(client) => send(client, input)?,
            Place::Stopped(data) => load_into(data, input)?,
        };
        bar.finish_and_clear();
        let reported = report(&answer, self.json);
        let count = |name: &str| answer[name].as_u64().unwrap_or(0);
        match count("stale") + count("conflict") + count("invalid") {
            0 => reported.map_err(|failure| failure.after("all facts are applied")),
            some => Err(Failure::other(format!("{some} facts are not applied"))),
        }
    }
}

fn report(answer: &Value, as_json: bool) -> Result<(), Failure> {
    let mut out = Output::new();
    if as_json {
        out.line(format_args!("{answer:#}"))?;
        return out.flush();
    }
    out.pairs(Summary::COUNTS.map(|name| (name.to_owned(), answer[name].to_string())))?;
    out.flush()?;
    let problems = answer["problems"].as_array();
    for problem in problems.into_iter().flatten() {
        print_to_stderr(refusal::of_a_fact(problem));
    }
    Ok(())
}

fn load_into(data: &Path, input: impl Read) -> Result<Value, Failure> {
    let opening = Opening {
        lanes: 1,
        limits: Limits::default(),
        reserve_bytes: RESERVE_BYTES,
        create: true,
    };
    let on_fatal = Box::new(|error: &wal::Error| {
        print_to_stderr(format_args!("carebook: the log has failed: {error}"));
        std::process::exit(FAILED.into());
    });
    expect_no_journal(data)?;
    let (engine, report) = open(data, opening, on_fatal)?;
    if report.created {
        print_to_stderr(format_args!(
            "carebook: there was no log in {}: a new one was made",
            data.display()
        ));
    }
    let engine = Arc::new(engine);
    let loaded = on_lane(&engine, load_lines(&engine, input)).map_err(Failure::from_error)?;
    let summary = loaded.map_err(Failure::other)?;
    engine
        .shut_down()
        .map_err(|error| Failure::of_log(&error))?;
    serde_json::from_slice(&to_json(&summary)).map_err(Failure::from_error)
}

/// Returns why not all facts were applied, and what to do.
fn why_it_ended(ended: &Ended) -> String {
    let why = match ended.reply {
        CommandResult::Unavailable | CommandResult::Overloaded => {
            "the directory accepts no more: its disk has less free than is kept in reserve, or its \
             log has failed"
                .to_owned()
        }
        CommandResult::OutcomeUnknown => "the log has failed".to_owned(),
        _ => "a fact could not be applied, because of an internal error".to_owned(),
    };
    let before = match ended.applied {
        1 => "1 fact was applied before and remains".to_owned(),
        some => format!("{some} facts were applied before and remain"),
    };
    format!("{why}; {before}. Loading the whole file again is safe")
}

/// Applies the facts of `input`, one a line, as a system workflow of this machine.
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
    let mut batch = FactBatch::new(engine, Arc::new(actor));
    let mut lines = Lines::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = input.read(&mut chunk)?;
        if read == 0 || batch.is_broken() {
            break;
        }
        let mut rest = &chunk[..read];
        while let Some(line) = lines.next(&mut rest) {
            batch.take_line(&line).await;
        }
    }
    if let Some(line) = lines.finish() {
        batch.take_line(&line).await;
    }
    let finished = batch.finish().await;
    let (summary, _) = finished.map_err(|ended| why_it_ended(&ended))?;
    Ok(summary)
}
