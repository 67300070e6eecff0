//! `carebook journal create`: the stream of a new journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use wal::storage::FileStorage;

use super::super::copy_mark;
use super::super::exit::Failure;
use super::super::open::unusable;
use super::super::output::Output;
use super::args::Common;
use super::import::import;
use super::opening::{checked, takes_messages};
use crate::stream::chain::Tail;
use crate::stream::connection::Connection;
use crate::stream::maintenance::hold;
use crate::stream::settings::wanted;

/// Arguments of `carebook journal create`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook journal create --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main
  carebook journal create --journal nats://127.0.0.1:4222 --journal-name trial \\
      --journal-replicas 1
  carebook journal create --journal nats://a:4222,b:4222,c:4222 \\
      --from /srv/carebook

The stream is called CAREBOOK_NAME, and its first message gives the log its id. A stream that \
exists with these settings is not changed.

With --from, all records of that directory, of a stopped server, are imported into the stream, \
which has to be empty, and compared with it at the end. Until then no server starts on the \
stream. After an interruption, the same command continues where it was; where the stream has all \
of them already, and nothing more, it compares them again. The directory is then marked as the \
copy of the journal: `carebook serve` takes it with --journal only.

Exit codes:
  0  the stream exists with the required settings, and has all records of --from
  1  the servers are not reached, or refuse it, or the stream or a server has
     other settings, which are named; or the directory cannot be imported, or
     cannot be marked afterwards
  2  the arguments are wrong
  3  the directory is damaged, or the stream is that of another service
  4  a running server holds the directory
  5  the directory was written by another version of carebook, which is named;
     or another process has taken the journal over")]
pub(super) struct CreateArgs {
    #[command(flatten)]
    common: Common,
    /// The most bytes that the stream may have. A full journal rejects commands, and loses
    /// nothing; the limit can be raised later.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 30,
        value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 50))]
    max_bytes: u64,
    /// A data directory whose records are imported into the stream.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

impl CreateArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        // A mark written by another user would be unreadable for the service.
        if let Some(data) = &self.from {
            FileStorage::own(data).map_err(|error| unusable(data, &error))?;
        }
        let Common { place, trust, json } = self.common;
        let connection = place.connect(&trust.config()?)?;
        takes_messages(&connection)?;
        let names = connection.names();
        let config = wanted(names, place.journal_replicas, self.max_bytes);
        let imported = match &self.from {
            Some(data) => {
                let imported = import(&connection, &config, data)?;
                mark_as_copy(data, &names.stream)?;
                Some(imported)
            }
            None => {
                let made = connection.block(connection.create(&config));
                made.map_err(|error| Failure::of_journal(&error))?;
                None
            }
        };
        let mut info = checked(&connection, place.journal_replicas)?;
        if info.last == 0 {
            begin(&connection)?;
            // With its first message.
            info = checked(&connection, place.journal_replicas)?;
        }
        let replicas = info.config["num_replicas"].as_u64().unwrap_or(0);
        let mut out = Output::new();
        if json {
            let told = json!({
                "stream": names.stream,
                "subject": names.subject,
                "replicas": replicas,
                "bytesMax": info.bytes_max,
                "messages": info.messages,
                "importedRecords": imported.as_ref().map(|imported| imported.records),
                "recordsBefore": imported.as_ref().map(|imported| imported.before),
            });
            out.line(format_args!("{told:#}"))?;
        } else {
            let mut rows = vec![
                ("stream".to_owned(), names.stream.clone()),
                ("subject".to_owned(), names.subject.clone()),
                ("copies".to_owned(), replicas.to_string()),
                ("bytes at most".to_owned(), info.bytes_max.to_string()),
                ("messages".to_owned(), info.messages.to_string()),
            ];
            rows.extend(imported.as_ref().map(|imported| {
                let name = "records imported".to_owned();
                (name, imported.records.to_string())
            }));
            out.pairs(rows)?;
            if let Some(before) = imported.map(|imported| imported.before)
                && before > 0
            {
                out.line(format_args!(
                    "the stream had all {before} records of the directory already: they were compared"
                ))?;
            }
        }
        out.flush()
    }
}

/// Marks a directory whose records are all in the stream: what is written to the directory alone afterwards would not
/// be in the stream.
///
/// # Errors
/// When the mark cannot be written.
fn mark_as_copy(data: &Path, stream: &str) -> Result<(), Failure> {
    copy_mark::put(data, stream).map_err(|error| {
        Failure::other(format!(
            "the stream {stream} has all records of the directory; but {} cannot be marked as the copy of the \
             journal: {error}; nothing hinders a command that writes to it alone, and that would be lost to \
             the journal. Where it can be written, the same command marks it",
            data.display()
        ))
    })
}

/// Appends the first message of the stream. It fixes the id of the log, so that the first server cannot choose another
/// one.
fn begin(connection: &Arc<Connection>) -> Result<(), Failure> {
    let random = || uuid::Uuid::new_v4().into_bytes();
    let link = hold(Arc::clone(connection), "carebook journal create", random());
    let begun = connection.block(link.fence(&Tail::beginning(), random()));
    // If another process was faster, the stream has begun as well.
    begun.map(drop).map_err(|error| Failure::of_journal(&error))
}
