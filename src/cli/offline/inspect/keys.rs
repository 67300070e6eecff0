//! `carebook inspect keys`: the idempotency keys, and their stored responses.

use std::collections::HashSet;
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};
use wal::BoxError;
use wal::live::LiveEnd;

use super::common_args::{
    CommonArgs, Reading, failed, operation_name, parse_operation, print_missing_records,
};
use super::history::{SnapshotVisitor, show};
use super::mask::Mask;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::table::{Column, Growing, left, right, time};
use crate::journal::record::{Record, RecordOutcome};
use crate::journal::snapshot::Summary;

const COLUMNS: &[Column] = &[
    left("operation"),
    left("subject"),
    left("key"),
    right("position"),
    time("time"),
    left("answer"),
];

/// Arguments of `carebook inspect keys`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect keys --data /srv/carebook
  carebook inspect keys --data /srv/carebook --key key-17
  carebook inspect keys --data /srv/carebook --operation request_deposit \\
      --actor hq-1 --json

Keys that are forgotten are not listed. The log is read twice.

Exit codes:
  0  done
  1  failed, for example because there is no log; or a compaction has overtaken
     the reading, so that the list is not complete: run it again
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub(super) struct KeysArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Only keys of this operation, as docs/operations.md names it.
    #[arg(long, value_name = "NAME", value_parser = parse_operation)]
    operation: Option<&'static str>,
    /// Only keys of this subject.
    #[arg(long, value_name = "SUBJECT")]
    actor: Option<String>,
    /// Only this key, spelt exactly so.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl KeysArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let reader = self.common.reader(1)?;
        let first = reader.first_position();
        let first = first.map_err(|error| failed(&reader, &error))?;
        // The log is read twice, because the record that forgets a key or replaces its response comes later than the
        // key.
        let mut gone = Gone::default();
        let reading = Reading::new("reading the log for keys that are gone");
        let from = self.each(first, &mut gone, reading)?.0;
        let mut listing = Listing {
            arguments: &self,
            gone,
            mask: self.common.mask(),
            out: Output::new(),
            table: (!self.common.json).then(|| Growing::new(COLUMNS)),
            failure: None,
        };
        let ended = self.each(first, &mut listing, Reading::unseen());
        if let Some(failure) = listing.failure {
            return Err(failure);
        }
        if let Some(table) = &mut listing.table {
            table.print(&mut listing.out)?;
        }
        listing.out.flush()?;
        let (again, end) = ended?;
        print_missing_records(&end);
        if end.missed.is_some() || again < from {
            return Err(Failure::other(
                "a compaction has overtaken the reading: the list is not complete",
            ));
        }
        Ok(())
    }

    /// Passes every record that may have a key: those of the log, and before them those that the newest snapshot
    /// keeps if the log's first records were removed.
    fn each(
        &self,
        first: u64,
        keys: &mut impl Keys,
        mut reading: Reading,
    ) -> Result<(u64, LiveEnd), Failure> {
        let mut reader = self.common.reader(1)?;
        let mut from = first;
        if first > 1 {
            let shown = show(&reader, false, keys, &reading.bar)?;
            from = shown.map_or(first, |info| info.covers + 1);
            reader = self.common.reader(from)?;
        }
        reading.begin(&reader, from)?;
        let read = reader.read_on(&mut |found| {
            reading.passed(&found);
            let record = Record::decode(found.payload)?;
            Ok(match keys.record(found.position, &record) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        });
        Ok((from, read.map_err(|error| failed(&reader, &error))?))
    }

    fn selects(&self, record: &Record<'_>, key: &str) -> bool {
        self.operation
            .is_none_or(|name| operation_name(record) == name)
            && self
                .actor
                .as_ref()
                .is_none_or(|actor| actor == record.subject)
            && self.key.as_ref().is_none_or(|wanted| wanted == key)
    }
}

/// Receives records that may have keys.
trait Keys: SnapshotVisitor {
    /// Takes the record at a position; returns whether more records are wanted.
    fn record(&mut self, position: u64, record: &Record<'_>) -> bool;
}

/// Keys that are forgotten, or whose responses were replaced.
#[derive(Default)]
struct Gone {
    /// All keys used at this position or before are forgotten.
    forgotten: u64,
    /// Positions of the records whose responses were replaced.
    replaced: HashSet<u64>,
}

impl SnapshotVisitor for Gone {
    fn begin(&mut self) {
        *self = Self::default();
    }

    fn summary(&mut self, summary: Summary) {
        self.forgotten = summary.forgotten;
    }

    fn kept(&mut self, position: u64, record: &Record<'_>) -> Result<(), BoxError> {
        self.record(position, record);
        Ok(())
    }
}

impl Keys for Gone {
    fn record(&mut self, _: u64, record: &Record<'_>) -> bool {
        match record.outcome {
            RecordOutcome::Forgotten { through } => self.forgotten = self.forgotten.max(through),
            RecordOutcome::Instead { of, .. } => {
                self.replaced.insert(of);
            }
            _ => {}
        }
        true
    }
}

struct Listing<'a> {
    arguments: &'a KeysArgs,
    gone: Gone,
    mask: Mask,
    out: Output,
    table: Option<Growing>,
    failure: Option<Failure>,
}

impl SnapshotVisitor for Listing<'_> {
    fn begin(&mut self) {}

    fn kept(&mut self, position: u64, record: &Record<'_>) -> Result<(), BoxError> {
        if self.record(position, record) {
            return Ok(());
        }
        Err("the output cannot be written".into())
    }
}

impl Keys for Listing<'_> {
    fn record(&mut self, position: u64, record: &Record<'_>) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let Some(key) = &record.key else {
            return true;
        };
        if position <= self.gone.forgotten
            || self.gone.replaced.contains(&position)
            || !self.arguments.selects(record, key.key)
        {
            return true;
        }
        let operation = operation_name(record);
        let (subject, shown) = (self.mask.opaque(record.subject), self.mask.opaque(key.key));
        let printed = match &mut self.table {
            None => self.out.json(&json!({
                "operation": operation,
                "subject": subject,
                "key": shown,
                "fingerprint": key.fingerprint,
                "position": position,
                "at": record.at,
                "answer": answer_json(&record.outcome),
            })),
            Some(table) => table.row(
                &mut self.out,
                vec![
                    operation.to_owned(),
                    subject.into_owned(),
                    shown.into_owned(),
                    position.to_string(),
                    record.at.to_string(),
                    answer_text(&record.outcome),
                ],
            ),
        };
        self.failure = printed.err();
        self.failure.is_none()
    }
}

fn answer_json(outcome: &RecordOutcome<&[u8]>) -> Value {
    match outcome {
        RecordOutcome::None | RecordOutcome::Forgotten { .. } => Value::Null,
        RecordOutcome::Answer { accepted, body } => {
            json!({"pending": accepted, "bytes": body.0.len()})
        }
        RecordOutcome::SameAs(position) => json!({"sameAs": position}),
        RecordOutcome::Instead { of, accepted, body } => {
            json!({"insteadOf": of, "pending": accepted, "bytes": body.0.len()})
        }
    }
}

fn answer_text(outcome: &RecordOutcome<&[u8]>) -> String {
    let sized = |accepted: bool, bytes: usize| {
        let pending = if accepted { ", pending" } else { "" };
        format!("{bytes} bytes{pending}")
    };
    match outcome {
        RecordOutcome::None | RecordOutcome::Forgotten { .. } => "none".to_owned(),
        RecordOutcome::Answer { accepted, body } => sized(*accepted, body.0.len()),
        RecordOutcome::SameAs(position) => format!("that of position {position}"),
        RecordOutcome::Instead { of, accepted, body } => {
            format!("{}, replacing {of}'s", sized(*accepted, body.0.len()))
        }
    }
}
