//! `carebook inspect`: looks into a data directory, also that of a running server, and leaves no
//! trace there: no lock is taken, nothing is written, and the server never waits.
//!
//! Shown is what is proved durable. What a command has answered is, at the latest 50 ms after the
//! log has gone quiet.

mod counts;
mod history;
pub(super) mod ids;
mod keys;
pub(super) mod mask;
mod output;
pub(super) mod records;
mod resource;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use wal::live::{LiveEnd, LiveReader};

use self::mask::Mask;
use super::exit::Failure;
use super::output::{existing, tell};
use crate::base::time::Instant;
use crate::catalogue::{OPERATIONS, RESOURCES};
use crate::domain::resource::{AnyResource, Kind};
use crate::journal::record::{Record, RecordOutcome};

/// Arguments of `carebook inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect records --data /srv/carebook --limit 20
  carebook inspect records --data /srv/carebook --follow
  carebook inspect resource settlement-statement 0199f0c2-… --data /srv/carebook
  carebook inspect keys --data /srv/carebook --actor hq-1
  carebook inspect counts --data /srv/carebook
  carebook inspect records --data /srv/carebook --archive /archive --to 100

It works beside a running server and on a stopped or copied directory, takes no lock and writes
nothing. With --archive, what compactions have moved there is shown as well. Personal data is
masked unless --reveal is given.

Exit codes:
  0  done
  1  failed, for example because there is no log
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named")]
pub struct InspectArgs {
    #[command(subcommand)]
    command: InspectCommand,
}

#[derive(Subcommand)]
enum InspectCommand {
    /// Lists commits: what changed, when, by whom, under which key.
    Records(Box<records::RecordsArgs>),
    /// Tells a resource's whole history: each revision, and how it differs from the one before.
    Resource(resource::ResourceArgs),
    /// Lists keys of idempotency, and what is answered under them.
    Keys(keys::KeysArgs),
    /// Counts what is in the log: resources, commits, bytes, files.
    Counts(counts::CountsArgs),
}

impl InspectArgs {
    /// Looks.
    ///
    /// # Errors
    /// When the log is damaged or not there, or what was asked for is not in it.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            InspectCommand::Records(arguments) => arguments.run(),
            InspectCommand::Resource(arguments) => arguments.run(),
            InspectCommand::Keys(arguments) => arguments.run(),
            InspectCommand::Counts(arguments) => arguments.run(),
        }
    }
}

/// Where to look, and how it is shown.
#[derive(Args)]
struct Looking {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where compactions have moved segments to: they are shown as if they were still there.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Prints JSON instead of a table: one object a line.
    #[arg(long)]
    json: bool,
    /// Shows personal data too: names, contacts, addresses, accounts, free text.
    #[arg(long)]
    reveal: bool,
}

impl Looking {
    fn mask(&self) -> Mask {
        Mask {
            reveal: self.reveal,
        }
    }

    /// A reader of the directory's log from this position on.
    fn reader(&self, from: u64) -> Result<LiveReader, Failure> {
        let data = existing(&self.data)?;
        let archive = self.archive.as_deref().map(existing).transpose()?;
        let reader = match archive {
            None => LiveReader::open(data, from),
            Some(archive) => LiveReader::open_with_archive(data, archive, from),
        };
        reader.map_err(|error| Failure::of_log(&error))
    }
}

/// Says on standard error what of the log could not be shown.
fn tell_what_is_missing(end: &LiveEnd) {
    if let Some((first, last)) = end.missed {
        tell(format_args!(
            "carebook: the log begins at position {}: positions {first} to {last} were removed by a \
             compaction, and what came of them is in the snapshot only",
            end.first_position
        ));
    }
    if end.unproved > 0 {
        tell(format_args!(
            "carebook: records at the log's end that are not proved durable yet, and not shown: {}",
            end.unproved
        ));
    }
}

/// What a record's operation is called.
fn operation_name(record: &Record<'_>) -> &'static str {
    match (record.operation, &record.outcome) {
        (0, RecordOutcome::Forgotten { .. }) => return FORGET_KEYS,
        (0, _) => return REFERENCE_FACTS,
        _ => {}
    }
    let row = OPERATIONS.iter().find(|row| row.tag == record.operation);
    row.map_or("unknown", |row| row.name)
}

/// The name of what brings facts in.
const REFERENCE_FACTS: &str = "reference_facts";

/// The name of what forgets keys that are old enough.
const FORGET_KEYS: &str = "forget_keys";

/// The operation so named.
fn parse_operation(name: &str) -> Result<&'static str, String> {
    let names = || {
        OPERATIONS
            .iter()
            .map(|row| row.name)
            .chain([REFERENCE_FACTS, FORGET_KEYS])
    };
    names().find(|known| *known == name).ok_or_else(|| {
        let names: Vec<_> = names().collect();
        format!("the operations are {}", names.join(", "))
    })
}

/// The kind of resource so named.
fn parse_kind(name: &str) -> Result<Kind, String> {
    let kinds = || RESOURCES.iter().map(|resource| resource.kind());
    kinds().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<_> = kinds().map(|kind| kind.name).collect();
        format!("the kinds of resources are {}", names.join(", "))
    })
}

fn parse_time(text: &str) -> Result<Instant, String> {
    Instant::parse(text)
        .ok_or_else(|| "a time is as 2026-11-20T09:00:00Z or 2026-11-20T18:00:00+09:00".to_owned())
}

/// The kind of resource with this tag, or a sentence that a record names one that is not known.
fn known(tag: u16) -> Result<&'static dyn AnyResource, String> {
    crate::catalogue::resource(tag)
        .ok_or_else(|| format!("resource kind {tag} is not known to this release"))
}
