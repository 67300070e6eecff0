//! `carebook inspect resource`: one resource's history.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};
use wal::BoxError;
use wal::live::LiveRecord;

use super::history::States;
use super::mask::{Difference, Mask};
use super::output::{Column, Growing, Output, left, right};
use super::{Looking, known, operation_name, parse_kind, tell_what_is_missing};
use crate::base::digest::Digest;
use crate::cli::exit::Failure;
use crate::domain::resource::Kind;
use crate::journal::record::Record;

const COLUMNS: &[Column] = &[
    right("revision"),
    right("position"),
    left("time"),
    left("operation"),
    left("subject"),
    left("change"),
    left("member"),
    left("before"),
    left("after"),
];

/// Arguments of `carebook inspect resource`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect resource settlement-statement 0199f0c2-… --data /srv/carebook
  carebook inspect resource mother-profile mother-profile-1 --data /srv/carebook --reveal
  carebook inspect resource payout-receipt-state booking-1 assignment-1 instruction-1 \\
      --data /srv/carebook --json | jq .differences

Each revision is told with how it differs from the one before: members added, changed, removed.
--json has the event and the whole state besides.

Exit codes:
  0  done
  1  failed: there is no such resource, or no log
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named")]
pub(super) struct ResourceArgs {
    /// The kind of resource, as `inspect counts` lists them.
    #[arg(value_name = "KIND", value_parser = parse_kind)]
    kind: Kind,
    /// Its identifier; some kinds have several parts, each an argument.
    #[arg(value_name = "ID", required = true)]
    id: Vec<String>,
    #[command(flatten)]
    looking: Looking,
}

impl ResourceArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut telling = Telling {
            mask: self.looking.mask(),
            key: self.kind.key(&self.id),
            out: Output::new(),
            table: (!self.looking.json).then(|| Growing::new(COLUMNS)),
            states: States::default(),
            revisions: 0,
            failure: None,
        };
        let mut reader = self.looking.reader(1)?;
        let read = reader.read_on(&mut |found| telling.look(&found));
        if let Some(failure) = telling.failure {
            return Err(failure);
        }
        if let Some(table) = &mut telling.table {
            table.print(&mut telling.out)?;
        }
        telling.out.flush()?;
        let end = read.map_err(|error| Failure::of_log(&error))?;
        tell_what_is_missing(&end);
        if telling.revisions == 0 {
            return Err(Failure::other(format!(
                "there is no {} with this identifier in the log",
                self.kind.name
            )));
        }
        Ok(())
    }
}

/// Tells the revisions.
struct Telling {
    mask: Mask,
    key: Digest,
    out: Output,
    table: Option<Growing>,
    states: States,
    revisions: u64,
    failure: Option<Failure>,
}

impl Telling {
    fn look(&mut self, found: &LiveRecord<'_>) -> Result<ControlFlow<()>, BoxError> {
        let record = Record::decode(found.payload)?;
        let key = self.key;
        for change in record.changes.iter().filter(|change| change.key == key) {
            let resource = known(change.kind)?;
            let before = self.states.apply(found.position, record.at, change)?;
            let before = match before {
                Some(bytes) => resource.state_json(&bytes)?,
                None => json!({}),
            };
            let after = self.states.all.get(&self.key);
            let after = &after.ok_or("the change has left no state")?.state;
            let revision = resource.revision(after)?;
            let after = resource.state_json(after)?;
            let event = resource.event_json(&change.event.0)?;
            let told = Told {
                revision: json!(revision),
                differences: self.mask.differences(&before, &after),
                after,
                event,
            };
            self.revisions += 1;
            if let Err(failure) = self.tell(found.position, &record, told) {
                self.failure = Some(failure);
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn tell(&mut self, position: u64, record: &Record, told: Told) -> Result<(), Failure> {
        let mask = self.mask;
        let subject = mask.opaque(&record.subject);
        let Some(table) = &mut self.table else {
            let differences = told.differences.iter().map(Difference::json);
            return self.out.json(&json!({
                "revision": told.revision,
                "position": position,
                "at": record.at,
                "operation": operation_name(record),
                "subject": subject,
                "key": record.key.as_ref().map(|key| mask.opaque(&key.key)),
                "event": mask.json(told.event),
                "differences": differences.collect::<Vec<_>>(),
                "state": mask.json(told.after),
            }));
        };
        let mut head = vec![
            told.revision.to_string(),
            position.to_string(),
            record.at.to_string(),
            operation_name(record).to_owned(),
            subject.into_owned(),
        ];
        if told.differences.is_empty() {
            head.extend(["nothing", "", "", ""].map(str::to_owned));
            return table.row(&mut self.out, head);
        }
        for difference in &told.differences {
            let mut row = std::mem::replace(&mut head, vec![String::new(); 5]);
            row.extend([
                difference.kind().to_owned(),
                difference.path.clone(),
                difference.before.as_ref().map_or_else(String::new, in_cell),
                difference.after.as_ref().map_or_else(String::new, in_cell),
            ]);
            table.row(&mut self.out, row)?;
        }
        Ok(())
    }
}

/// One revision.
struct Told {
    revision: Value,
    event: Value,
    differences: Vec<Difference>,
    after: Value,
}

fn in_cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
