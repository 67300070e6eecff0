//! `carebook inspect resource`: one resource's history.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};
use wal::BoxError;
use wal::live::LiveRecord;

use super::backwards;
use super::common_args::{
    CommonArgs, Reading, failed, known, operation_name, parse_kind, print_missing_records,
};
use super::history::{ResourceAt, SnapshotVisitor, States, Unlisted, show};
use super::mask::{Difference, Mask};
use crate::base::codec::DecodeError;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::catalogue;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::stderr::print_to_stderr;
use crate::cli::table::{Column, Growing, left, right, time};
use crate::domain::registered::AnyResource;
use crate::domain::resource::Kind;
use crate::journal::messages::Sent;
use crate::journal::record::Record;
use crate::journal::snapshot::StateEntry;

const COLUMNS: &[Column] = &[
    right("revision"),
    right("position"),
    time("time"),
    left("operation"),
    left("subject"),
    left("change"),
    left("field"),
    left("before"),
    left("after"),
];

/// Arguments of `carebook inspect resource`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect resource settlement-statement 0199f0c2-… --data /srv/carebook
  carebook inspect resource mother-profile mother-profile-1 \\
      --data /srv/carebook --reveal
  carebook inspect resource payout-receipt-state \\
      booking-1 assignment-1 instruction-1 --data /srv/carebook --json \\
      | jq .differences
  carebook inspect resource mother-profile mother-profile-1 \\
      --data /srv/carebook --backwards --limit 3

Each revision is listed with how it differs from the one before: fields added, changed, removed. \
--json also has the event and the whole state. If a compaction has removed the log's beginning, \
the history begins with the state in the older snapshot. With --backwards it is listed from the \
last commit back to the beginning of the log: each commit names the position of the one before.

Exit codes:
  0  done
  1  failed: there is no such resource, or no log
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub(super) struct ResourceArgs {
    /// The kind of resource, as `inspect counts` lists them.
    #[arg(value_name = "KIND", value_parser = parse_kind)]
    kind: Kind,
    /// Its identifier; some kinds have several parts, each an argument.
    #[arg(value_name = "ID", required = true)]
    id: Vec<String>,
    /// Lists the commits of the resource from the last one back, without reading what lies between
    /// them, and without the resulting states.
    #[arg(long)]
    backwards: bool,
    /// With --backwards: at most so many commits.
    #[arg(long, value_name = "NUMBER", requires = "backwards")]
    limit: Option<u64>,
    #[command(flatten)]
    common: CommonArgs,
}

impl ResourceArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.expect_all_parts()?;
        if self.backwards {
            let key = self.kind.key(&self.id);
            return backwards::print_newest_first(&self.common, self.kind, key, self.limit);
        }
        let (history, first) = self.read()?;
        if history.revisions.is_empty() {
            return Err(Failure::other(format!(
                "there is no {} with this identifier in the log",
                self.kind.name
            )));
        }
        let mask = self.common.mask();
        let mut out = Output::new();
        let mut table = Growing::new(COLUMNS);
        for revision in &history.revisions {
            if self.common.json {
                out.json(&revision.json(mask))?;
            } else {
                revision.rows(mask, &mut table, &mut out)?;
            }
        }
        table.print(&mut out)?;
        out.flush()?;
        if let Some(base) = &history.base {
            print_to_stderr(format_args!(
                "carebook: the log begins at position {first}; the resource's earlier history, before position \
                 {}, was removed by a compaction",
                base.position + 1
            ));
        }
        Ok(())
    }

    /// Rejects an identifier with more or fewer parts than those of its kind have.
    fn expect_all_parts(&self) -> Result<(), Failure> {
        let parts = catalogue::resource(self.kind.tag).map_or(1, |kind| kind.id_parts());
        let given = self.id.len();
        if given == parts {
            return Ok(());
        }
        let has = match parts {
            1 => "1 part".to_owned(),
            parts => format!("{parts} parts, each an argument"),
        };
        Err(Failure::Arguments(format!(
            "the identifier of a {} has {has}, and not {given}",
            self.kind.name
        )))
    }

    /// Reads the history, and the first position of the log.
    fn read(&self) -> Result<(History, u64), Failure> {
        loop {
            let reader = self.common.reader(1)?;
            let first = reader.first_position();
            let first = first.map_err(|error| failed(&reader, &error))?;
            let mut reader = self.common.reader(first)?;
            let mut history = History::new(self.kind.key(&self.id), Unlisted::of(&reader)?);
            let mut reading = Reading::new("reading the log");
            if first > 1 {
                // The older snapshot, so that as much as possible is shown record by record.
                show(&reader, true, &mut history, &reading.bar)?;
                let mut unlisted = std::mem::take(&mut history.unlisted);
                unlisted.end_of_snapshot(|entry| history.base_at(entry))?;
                history.unlisted = unlisted;
            }
            reading.begin(&reader, first)?;
            let read = reader.read_on(&mut |found| {
                reading.passed(&found);
                history.add_record(&found)
            });
            let end = read.map_err(|error| failed(&reader, &error))?;
            if end.missed.is_none() {
                history.add_base().map_err(Failure::other)?;
                print_missing_records(&end);
                return Ok((history, first));
            }
            // A compaction has overtaken the reader; start again.
        }
    }
}

/// The revisions of one resource, collected from the log.
struct History {
    key: Digest,
    /// The resource's state in a snapshot, if the log's first records were removed.
    base: Option<ResourceAt>,
    is_base_added: bool,
    states: States,
    unlisted: Unlisted,
    revisions: Vec<RevisionEntry>,
}

/// One revision of the resource.
struct RevisionEntry {
    position: u64,
    /// The commit; `None` if the revision comes from a snapshot.
    by: Option<By>,
    /// The new state; unknown for a commit before the snapshot.
    became: Option<StateChange>,
}

struct By {
    at: Timestamp,
    operation: &'static str,
    subject: String,
    key: Option<String>,
    event: Value,
}

struct StateChange {
    revision: Revision,
    before: Value,
    after: Value,
}

impl SnapshotVisitor for History {
    fn begin(&mut self) {
        self.base = None;
        self.states = States::default();
        self.unlisted.begin();
    }

    fn kept(&mut self, position: u64, record: &Record<'_>) -> Result<(), BoxError> {
        self.unlisted.kept(position, record);
        Ok(())
    }

    fn state(&mut self, entry: &StateEntry<'_>) -> Result<(), BoxError> {
        self.unlisted.entry(entry)?;
        self.base_at(entry)
    }
}

impl History {
    /// Takes the resource's state in a snapshot as the base of the history.
    fn base_at(&mut self, entry: &StateEntry<'_>) -> Result<(), BoxError> {
        if entry.key == self.key {
            self.states.put(entry)?;
            self.base = self.states.all.get(&self.key).cloned();
        }
        Ok(())
    }
}

impl History {
    fn new(key: Digest, unlisted: Unlisted) -> Self {
        Self {
            key,
            unlisted,
            base: None,
            is_base_added: false,
            states: States::default(),
            revisions: Vec::new(),
        }
    }

    fn add_record(&mut self, found: &LiveRecord<'_>) -> Result<ControlFlow<()>, BoxError> {
        let record = Record::decode(found.payload)?;
        let key = self.key;
        let unlisted = self.unlisted.of_record(found.position, &record)?;
        let unlisted: Vec<_> = unlisted.iter().map(Sent::change).collect();
        let changes = record.changes.iter().chain(&unlisted);
        for change in changes.filter(|change| change.key == key) {
            let resource = known(change.kind, change.version)?;
            let by = By {
                at: record.at,
                operation: operation_name(&record),
                subject: record.subject.to_owned(),
                key: record.key.as_ref().map(|key| key.key.to_owned()),
                event: resource.event_json(change.stored())?,
            };
            let before_base = self
                .base
                .as_ref()
                .is_some_and(|base| found.position <= base.position);
            let became = if before_base {
                None
            } else {
                self.add_base()?;
                let before = self.states.apply(found.position, record.at, change)?;
                let after = self
                    .states
                    .all
                    .get(&key)
                    .ok_or("the change has left no state")?;
                Some(became(resource, before.as_deref(), &after.state)?)
            };
            self.revisions.push(RevisionEntry {
                position: found.position,
                by: Some(by),
                became,
            });
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the snapshot's state, in its place between the commits.
    fn add_base(&mut self) -> Result<(), BoxError> {
        let Some(base) = self.base.as_ref().filter(|_| !self.is_base_added) else {
            return Ok(());
        };
        self.is_base_added = true;
        self.revisions.push(RevisionEntry {
            position: base.position,
            by: None,
            became: Some(became(base.resource, None, &base.state)?),
        });
        Ok(())
    }
}

fn became(
    resource: &dyn AnyResource,
    before: Option<&[u8]>,
    after: &[u8],
) -> Result<StateChange, DecodeError> {
    Ok(StateChange {
        revision: resource.revision(after)?,
        before: before.map_or_else(|| Ok(json!({})), |before| resource.state_json(before))?,
        after: resource.state_json(after)?,
    })
}

impl RevisionEntry {
    fn json(&self, mask: Mask) -> Value {
        let by = self.by.as_ref();
        let became = self.became.as_ref();
        let differences = became.map(|became| {
            let differences = mask.differences(&became.before, &became.after);
            differences.iter().map(Difference::json).collect::<Vec<_>>()
        });
        json!({
            "revision": became.map(|became| became.revision),
            "position": self.position,
            "at": by.map(|by| by.at),
            "operation": by.map_or(SNAPSHOT, |by| by.operation),
            "subject": by.map(|by| mask.opaque(&by.subject)),
            "key": by.and_then(|by| by.key.as_deref()).map(|key| mask.opaque(key)),
            "event": by.map(|by| mask.json(by.event.clone())),
            "differences": differences,
            "state": became.map(|became| mask.json(became.after.clone())),
        })
    }

    fn rows(&self, mask: Mask, table: &mut Growing, out: &mut Output) -> Result<(), Failure> {
        let by = self.by.as_ref();
        let became = self.became.as_ref();
        let mut head = vec![
            became.map_or_else(String::new, |became| became.revision.to_string()),
            self.position.to_string(),
            by.map_or_else(String::new, |by| by.at.to_string()),
            by.map_or(SNAPSHOT, |by| by.operation).to_owned(),
            by.map_or_else(String::new, |by| mask.opaque(&by.subject).into_owned()),
        ];
        let differences = became.map(|became| mask.differences(&became.before, &became.after));
        let word = match &differences {
            None => "not known: before the snapshot",
            Some(differences) if differences.is_empty() => "nothing",
            Some(_) => "",
        };
        if !word.is_empty() {
            head.extend([word, "", "", ""].map(str::to_owned));
            return table.row(out, head);
        }
        for difference in differences.iter().flatten() {
            let mut row = std::mem::replace(&mut head, vec![String::new(); 5]);
            row.extend([
                difference.kind().to_owned(),
                difference.path.clone(),
                difference.before.as_ref().map_or_else(String::new, in_cell),
                difference.after.as_ref().map_or_else(String::new, in_cell),
            ]);
            table.row(out, row)?;
        }
        Ok(())
    }
}

/// Shown as the operation of a state from a snapshot.
const SNAPSHOT: &str = "snapshot";

fn in_cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
