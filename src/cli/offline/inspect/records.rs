//! `carebook inspect records`: the commits.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use wal::BoxError;
use wal::live::{LiveEnd, LiveRecord};

use super::common_args::{
    CommonArgs, Reading, failed, known, operation_name, parse_kind, parse_operation, parse_time,
    print_missing_records,
};
use super::ids::Ids;
use super::mask::Mask;
use crate::base::digest::Digest;
use crate::base::hex::hex;
use crate::base::time::Timestamp;
use crate::cli::exit::Failure;
use crate::cli::output::{Output, existing};
use crate::cli::table::{Column, Growing, left, right, time};
use crate::domain::outbox::message::Message;
use crate::domain::resource::Kind;
use crate::journal::record::{Record, RecordOutcome};

/// Interval at which `--follow` checks for new records.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Number of checks that must miss the directory before `--follow` ends: a single check may come during a rename.
const AWAY_MAX: u32 = 3;

const COLUMNS: &[Column] = &[
    right("position"),
    time("time"),
    left("operation"),
    left("subject"),
    left("key"),
    left("changed"),
    right("outbox"),
    right("bytes"),
];

/// Arguments of `carebook inspect records`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect records --data /srv/carebook --from 1000 --limit 20
  carebook inspect records --data /srv/carebook --operation request_deposit \\
      --actor hq-1
  carebook inspect records --data /srv/carebook \\
      --resource settlement-statement/0199f0c2-…
  carebook inspect records --data /srv/carebook --since 2026-11-20T00:00:00Z \\
      --json | jq .changes
  carebook inspect records --data /srv/carebook --follow

A resource is shown as KIND/ID; as KIND/#DIGEST if its identifier does not occur in the commit.

The times of commits never decrease: where a clock was ahead, what was committed after it was set \
right has its time, too, for --since and --until as well. Only a position is exact.

Exit codes:
  0  done
  1  failed, for example because there is no log, or with --follow because
     another directory is in its place
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub(super) struct RecordsArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The first position to show.
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,
    /// The last position to show.
    #[arg(long, value_name = "POSITION")]
    to: Option<u64>,
    /// Only what was committed at this time or later; RFC 3339.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Only what was committed at this time or before; RFC 3339.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// Only this operation, as docs/operations.md names it; reference_facts for facts, forget_keys
    /// for the forgetting of keys.
    #[arg(long, value_name = "NAME", value_parser = parse_operation)]
    operation: Option<&'static str>,
    /// Only commands of this subject.
    #[arg(long, value_name = "SUBJECT")]
    actor: Option<String>,
    /// Only what made or changed this resource; parts of an identifier are separated by slashes.
    #[arg(long, value_name = "KIND/ID", value_parser = parse_resource)]
    resource: Option<Named>,
    /// Ends after so many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Waits for further commits, until it is interrupted.
    #[arg(long)]
    follow: bool,
}

/// A resource that the user named, as all its possible keys: an identifier may contain slashes.
#[derive(Clone)]
struct Named {
    keys: Vec<Digest>,
}

fn parse_resource(text: &str) -> Result<Named, String> {
    let (kind, id) = text
        .split_once('/')
        .ok_or_else(|| "a resource is named as KIND/ID".to_owned())?;
    let kind = parse_kind(kind)?;
    let parts: Vec<&str> = id.split('/').collect();
    Ok(Named {
        keys: vec![kind.key(&[id]), kind.key(&parts)],
    })
}

impl RecordsArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let from = self.from.unwrap_or(1).max(1);
        if let Some(to) = self.to.filter(|to| *to < from) {
            return Err(Failure::Arguments(format!(
                "--to {to} is before --from {from}: no position lies between them"
            )));
        }
        let directory = existing(&self.common.data)?;
        let mut away = 0;
        let mut reader = self.common.reader(from)?;
        let reading = Reading::new("reading the log");
        reading.begin(&reader, from)?;
        let mut showing = Showing {
            mask: self.common.mask(),
            out: Output::new(),
            table: (!self.common.json).then(|| Growing::new(COLUMNS)),
            ids: Ids::default(),
            left: self.limit.unwrap_or(u64::MAX),
            failure: None,
            reading: Some(reading),
            at_a_terminal: std::io::stdout().is_terminal(),
        };
        loop {
            let read = reader.read_on(&mut |found| self.look(found, &mut showing));
            // With `--follow` records are read as they are committed, so the total is unknown.
            showing.reading = None;
            // Records before damage are shown before the damage is reported.
            showing.pause()?;
            let end = read.map_err(|error| failed(&reader, &error))?;
            print_missing_records(&LiveEnd {
                // With `--follow`, later reads report the unproved records.
                unproved: if self.follow { 0 } else { end.unproved },
                ..end
            });
            if end.stopped || !self.follow {
                return Ok(());
            }
            away = match directory.expect_in_place() {
                Ok(()) => 0,
                Err(_) if away < AWAY_MAX => away + 1,
                Err(why) => return Err(self.moved(&why)),
            };
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Returns the failure for a directory that is no longer the one that was opened.
    fn moved(&self, why: &std::io::Error) -> Failure {
        Failure::other(format!(
            "the directory that was followed is no longer at {}: {why}; its commits are printed up to here; begin \
             again to follow what is there now",
            self.common.data.display()
        ))
    }

    fn look(
        &self,
        found: LiveRecord<'_>,
        showing: &mut Showing,
    ) -> Result<ControlFlow<()>, BoxError> {
        if showing.left == 0 || self.to.is_some_and(|to| found.position > to) {
            return Ok(ControlFlow::Break(()));
        }
        if let Some(reading) = &mut showing.reading {
            reading.passed(&found);
        }
        let record = Record::decode(found.payload)?;
        if self.selects(&record) {
            if let Err(failure) = showing.show_aside(&found, &record)? {
                showing.failure = Some(failure);
                return Ok(ControlFlow::Break(()));
            }
            showing.left -= 1;
        }
        let is_last = showing.left == 0 || self.to == Some(found.position);
        Ok(if is_last {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    fn selects(&self, record: &Record<'_>) -> bool {
        self.since.is_none_or(|since| record.at >= since)
            && self.until.is_none_or(|until| record.at <= until)
            && self
                .operation
                .is_none_or(|name| operation_name(record) == name)
            && self
                .actor
                .as_ref()
                .is_none_or(|actor| actor == record.subject)
            && self.resource.as_ref().is_none_or(|named| {
                let changed = record.changes.iter().map(|change| change.key);
                // A message is created by the record that carries it, without a change in that record.
                let born = record.outbox.iter();
                let born = born.map(|message| Message::key_of(message.number));
                changed.chain(born).any(|key| named.keys.contains(&key))
            })
    }
}

/// Prints records.
struct Showing {
    mask: Mask,
    out: Output,
    table: Option<Growing>,
    ids: Ids,
    /// How many more records are wanted.
    left: u64,
    /// The failure after which nothing more can be printed.
    failure: Option<Failure>,
    /// The progress bar, until the log's end is reached.
    reading: Option<Reading>,
    at_a_terminal: bool,
}

impl Showing {
    /// Prints all records so far.
    fn pause(&mut self) -> Result<(), Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(table) = &mut self.table {
            table.print(&mut self.out)?;
        }
        self.out.flush()
    }

    /// Prints a record. On a terminal, the bar is hidden while whole lines are printed.
    fn show_aside(
        &mut self,
        found: &LiveRecord<'_>,
        record: &Record<'_>,
    ) -> Result<Result<(), Failure>, BoxError> {
        let prints = self.table.as_ref().is_none_or(Growing::prints_the_next);
        let bar = self.reading.as_ref().map(|reading| reading.bar.clone());
        match bar {
            Some(bar) if prints && self.at_a_terminal => bar.suspend(|| {
                let shown = self.show(found, record)?;
                Ok(shown.and_then(|()| self.out.flush()))
            }),
            _ => self.show(found, record),
        }
    }

    /// Prints a record. The outer error is one of the record, the inner one of the output.
    fn show(
        &mut self,
        found: &LiveRecord<'_>,
        record: &Record<'_>,
    ) -> Result<Result<(), Failure>, BoxError> {
        let mask = self.mask;
        let changes = changes_of(&mut self.ids, record)?;
        let Some(table) = &mut self.table else {
            let mut shown = record_json(mask, found.position, record, changes);
            if let Value::Object(members) = &mut shown {
                members.insert("bytes".into(), json!(found.payload.len()));
                let batch = json!({
                    "segment": found.batch.segment,
                    "offset": found.batch.offset,
                    "epoch": found.batch.epoch,
                    "firstPosition": found.batch.first,
                    "records": found.batch.records,
                });
                members.insert("batch".into(), batch);
            }
            return Ok(self.out.json(&shown));
        };
        let changed: Vec<_> = changes.iter().map(|change| change.name(mask)).collect();
        let changed = match &changed[..] {
            [] => String::new(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        let key = record.key.as_ref().map(|key| mask.opaque(key.key));
        Ok(table.row(
            &mut self.out,
            vec![
                found.position.to_string(),
                record.at.to_string(),
                operation_name(record).to_owned(),
                mask.opaque(record.subject).into_owned(),
                key.unwrap_or_default().into_owned(),
                changed,
                record.outbox.len().to_string(),
                found.payload.len().to_string(),
            ],
        ))
    }
}

/// A change in a record, with data from the record alone.
pub(in crate::cli) struct Changed {
    kind: Kind,
    /// The version of the stored form of the event.
    version: u16,
    key: Digest,
    /// The position of the previous commit that changed the resource; 0 if there is none.
    before: u64,
    /// The parts of the resource's identifier, if it occurs in this record or in an earlier one.
    id: Option<Vec<String>>,
    event: Value,
}

impl Changed {
    /// Returns `KIND/ID`, or `KIND/#DIGEST` if the identifier is not known.
    fn name(&self, mask: Mask) -> String {
        match &self.id {
            Some(id) => format!("{}/{}", self.kind.name, self.shown_id(mask, id).join("/")),
            None => format!("{}/#{}", self.kind.name, &hex(&self.key.0)[..12]),
        }
    }

    fn shown_id(&self, mask: Mask, id: &[String]) -> Vec<String> {
        let parts = id.iter();
        parts
            .map(|part| mask.id(self.kind.name, part).into_owned())
            .collect()
    }

    /// Returns the parts of the resource's identifier.
    pub(in crate::cli) fn id(&self) -> Option<&[String]> {
        self.id.as_deref()
    }
}

/// Returns the changes in a record, without a replay: earlier records may be missing.
///
/// # Errors
/// When the record has an event that this program does not know.
pub(in crate::cli) fn changes_of(
    ids: &mut Ids,
    record: &Record<'_>,
) -> Result<Vec<Changed>, BoxError> {
    let answer = match &record.outcome {
        RecordOutcome::Answer { body, .. } | RecordOutcome::Instead { body, .. } => {
            serde_json::from_slice(body.0).unwrap_or(Value::Null)
        }
        _ => Value::Null,
    };
    let subject = json!(record.subject);
    let mut changes = Vec::with_capacity(record.changes.len());
    for change in &record.changes {
        let resource = known(change.kind, change.version)?;
        let kind = resource.kind();
        let event = resource
            .event_json(change.stored())
            .map_err(|error| format!("{}: the event: {error}", kind.name))?;
        let id = ids.find(kind, change.key, &[&event, &answer, &subject]);
        let id = id.map(<[String]>::to_vec);
        changes.push(Changed {
            kind,
            version: change.version,
            key: change.key,
            before: change.before,
            id,
            event,
        });
    }
    Ok(changes)
}

/// Returns a record as JSON.
pub(in crate::cli) fn record_json(
    mask: Mask,
    position: u64,
    record: &Record<'_>,
    changes: Vec<Changed>,
) -> Value {
    let changes: Vec<_> = changes
        .into_iter()
        .map(|change| {
            json!({
                "kind": change.kind.name,
                "id": change.id.as_ref().map(|id| change.shown_id(mask, id)),
                "digest": change.key,
                "version": change.version,
                "before": change.before,
                "event": mask.json(change.event),
            })
        })
        .collect();
    let outbox: Vec<_> = record
        .outbox
        .iter()
        .map(|message| {
            json!({
                "number": message.number,
                "topic": message.topic,
                "body": mask.bytes(&message.body.0),
            })
        })
        .collect();
    json!({
        "position": position,
        "at": record.at,
        "operation": operation_name(record),
        "subject": mask.opaque(record.subject),
        "key": record.key.as_ref().map(|key| mask.opaque(key.key)),
        "fingerprint": record.key.as_ref().map(|key| key.fingerprint),
        "changes": changes,
        "outbox": outbox,
        "outcome": outcome_json(mask, &record.outcome),
    })
}

fn outcome_json(mask: Mask, outcome: &RecordOutcome<&[u8]>) -> Value {
    match outcome {
        RecordOutcome::None => Value::Null,
        RecordOutcome::Answer { accepted, body } => json!({
            "pending": accepted,
            "body": mask.bytes(body.0),
        }),
        RecordOutcome::SameAs(position) => json!({"sameAs": position}),
        RecordOutcome::Forgotten { through } => json!({"keysForgottenThrough": through}),
        RecordOutcome::Instead { of, accepted, body } => json!({
            "insteadOf": of,
            "pending": accepted,
            "body": mask.bytes(body.0),
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_can_be_named_with_parts_and_with_slashes_in_its_identifier() {
        let key = |parts: &[&str]| parse_kind("payout-receipt-state").unwrap().key(parts);
        let named = parse_resource("payout-receipt-state/a/b/c").unwrap();
        assert!(named.keys.contains(&key(&["a", "b", "c"])));
        assert!(named.keys.contains(&key(&["a/b/c"])));
        let one = parse_resource("payout-receipt-state/a").unwrap();
        assert!(one.keys.iter().all(|found| *found == key(&["a"])));
        assert!(parse_resource("payout-receipt-state").is_err());
        assert!(parse_resource("dragon/a").is_err());
    }
}
