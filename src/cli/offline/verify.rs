//! `carebook verify`: reads the whole log and the snapshots, checks every frame, block and chain, replays the
//! records, and reports the result. Writes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use wal::Report;

use crate::base::hex::hex;
use crate::cli::exit::Failure;
use crate::cli::journal::{self, PlaceArgs};
use crate::cli::open::{Replaying, log_name};
use crate::cli::output::{
    Output, existing, kind_name, operation_name, snapshot_rows, snapshots_json,
};
use crate::cli::trust::TrustArgs;
use crate::journal::replay::Recovered;

/// Arguments of `carebook verify`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook verify --data /srv/carebook
  carebook verify --data /srv/carebook --json | jq .records
  carebook verify --data /srv/carebook --journal nats://a:4222,b:4222,c:4222

All snapshots are checked as well, byte by byte. `records` are those in the log; `keys`, \
`operations` and `outboxMessages` also count what only a snapshot still has. With --journal, each \
record in the directory is compared with the journal's, whose messages have to be whole and in \
order from there on.

Exit codes:
  0  every byte is as it was written (but those of a torn tail, which was not
     acknowledged and is reported)
  1  failed, for example because there is no log
  2  the arguments are wrong
  3  damage: file, offset and position are named
  4  a running server holds the directory
  5  it was written by another version of carebook, which is named")]
pub struct VerifyArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl VerifyArgs {
    /// Verifies the directory.
    ///
    /// # Errors
    /// When the log is damaged, held, or does not exist.
    pub fn run(self) -> Result<(), Failure> {
        let storage = existing(&self.data)?;
        let mut replaying = Replaying::verifying();
        let report = wal::verify(storage, &mut replaying).map_err(|error| match error {
            wal::Error::Held { .. } => Failure::Busy(error.to_string()),
            other => Failure::of_whole_log(&other),
        })?;
        let compared = match self.place.is_given() {
            true => Some(journal::compare(&self.place, &self.trust, &self.data)?),
            false => None,
        };
        let verified = Verified {
            report,
            recovered: replaying.finish(),
            compared,
        };
        let mut out = Output::new();
        if self.json {
            out.line(format_args!("{:#}", verified.json()))?;
        } else {
            out.pairs(verified.rows())?;
            for torn in &verified.report.torn {
                out.line(format_args!(
                    "torn tail, which was not acknowledged: {} from offset {}, {} bytes",
                    torn.file, torn.offset, torn.bytes
                ))?;
            }
            if let Some(compared) = verified.compared {
                out.line(format_args!(
                    "records compared with the journal, and the same there: {}; not compared, since they were \
                     purged there: {}",
                    compared.records, compared.purged
                ))?;
            }
            out.line(match verified.report.torn.is_empty() {
                true => "every byte is as it was written",
                false => "every byte but those of the torn tail is as it was written",
            })?;
        }
        out.flush()
    }
}

/// The content of an undamaged directory.
struct Verified {
    report: Report,
    recovered: Recovered,
    /// The records that were compared with those of the journal, if there is one.
    compared: Option<journal::Compared>,
}

impl Verified {
    /// Returns the number of resources of each kind.
    fn kinds(&self) -> BTreeMap<u16, u64> {
        let mut kinds = BTreeMap::new();
        let tables = &self.recovered.tables;
        tables.each(|kind, _, _, _| *kinds.entry(kind).or_default() += 1);
        kinds
    }

    fn records(&self) -> u64 {
        self.report.last_position + 1 - self.report.first_position
    }

    fn json(&self) -> Value {
        let Self {
            report, recovered, ..
        } = self;
        let counters = &recovered.counters;
        let torn: Vec<_> = report
            .torn
            .iter()
            .map(|torn| json!({"file": torn.file, "offset": torn.offset, "bytes": torn.bytes}))
            .collect();
        let operations: serde_json::Map<_, _> = counters
            .operations
            .iter()
            .map(|(tag, count)| (operation_name(*tag).to_owned(), json!(count)))
            .collect();
        let resources: serde_json::Map<_, _> = self
            .kinds()
            .iter()
            .map(|(tag, count)| (kind_name(*tag).to_owned(), json!(count)))
            .collect();
        let ancestors: Vec<_> = report
            .ancestors
            .iter()
            .map(|one| json!({"logId": hex(&one.log_id), "lastPosition": one.upto}))
            .collect();
        let mut object = json!({
            "logId": log_name(report),
            "restoredFrom": ancestors,
            "starts": report.epoch,
            "segments": report.segments,
            "bytes": report.bytes,
            "records": self.records(),
            "firstPosition": report.first_position,
            "lastPosition": report.last_position,
            "durableMark": report.durable_mark,
            "snapshots": snapshots_json(&report.snapshots),
            "keysForgottenThrough": recovered.tables.forgotten(),
            "lastCommitAt": counters.last_at.map(|at| at.to_string()),
            "keys": recovered.tables.keys(),
            "outboxMessages": counters.outbox_messages,
            "operations": operations,
            "resources": resources,
            "tornTails": torn,
        });
        if let Some(compared) = self.compared {
            object["comparedRecords"] = json!(compared.records);
            object["purgedRecords"] = json!(compared.purged);
        }
        object
    }

    fn rows(&self) -> Vec<(String, String)> {
        let Self {
            report, recovered, ..
        } = self;
        let counters = &recovered.counters;
        let mut rows = Vec::new();
        let mut row = |name: String, value: String| rows.push((name, value));
        row("log".to_owned(), log_name(report));
        for one in &report.ancestors {
            row(
                format!("up to position {}, log", one.upto),
                hex(&one.log_id),
            );
        }
        row("starts".to_owned(), report.epoch.to_string());
        row("segments".to_owned(), report.segments.to_string());
        row("bytes".to_owned(), report.bytes.to_string());
        row("records".to_owned(), self.records().to_string());
        row("last position".to_owned(), report.last_position.to_string());
        for (name, value) in snapshot_rows(&report.snapshots) {
            row(name, value);
        }
        if let Some(at) = counters.last_at {
            row("last commit at".to_owned(), at.to_string());
        }
        row("keys".to_owned(), recovered.tables.keys().to_string());
        row(
            "outbox messages".to_owned(),
            counters.outbox_messages.to_string(),
        );
        for (tag, count) in &counters.operations {
            row(
                format!("commits of {}", operation_name(*tag)),
                count.to_string(),
            );
        }
        for (tag, count) in &self.kinds() {
            row(format!("resources: {}", kind_name(*tag)), count.to_string());
        }
        rows
    }
}
