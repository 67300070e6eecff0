//! `carebook inspect keys`: the keys of idempotency, and what is answered under them.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};

use super::output::{Column, Growing, Output, left, right};
use super::{Looking, operation_name, parse_operation, tell_what_is_missing};
use crate::cli::exit::Failure;
use crate::journal::record::{Record, RecordOutcome};

const COLUMNS: &[Column] = &[
    left("operation"),
    left("subject"),
    left("key"),
    right("position"),
    left("time"),
    left("answer"),
];

/// Arguments of `carebook inspect keys`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect keys --data /srv/carebook
  carebook inspect keys --data /srv/carebook --key key-17
  carebook inspect keys --data /srv/carebook --operation request_deposit --actor hq-1 --json

A key that got another answer in the place of its first one is listed twice; the last one counts.

Exit codes:
  0  done
  1  failed, for example because there is no log
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named")]
pub(super) struct KeysArgs {
    #[command(flatten)]
    looking: Looking,
    /// Only keys of this operation, as docs/operations.md names it.
    #[arg(long, value_name = "NAME", value_parser = parse_operation)]
    operation: Option<u16>,
    /// Only keys of this subject.
    #[arg(long, value_name = "SUBJECT")]
    actor: Option<String>,
    /// Only this key, spelt exactly so.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl KeysArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut reader = self.looking.reader(1)?;
        let mask = self.looking.mask();
        let mut out = Output::new();
        let mut table = Growing::new(COLUMNS);
        let mut failure = None;
        let read = reader.read_on(&mut |found| {
            let record = Record::decode(found.payload)?;
            let Some(key) = record
                .key
                .as_ref()
                .filter(|key| self.selects(&record, &key.key))
            else {
                return Ok(ControlFlow::Continue(()));
            };
            let operation = operation_name(&record);
            let (subject, shown) = (mask.opaque(&record.subject), mask.opaque(&key.key));
            let printed = if self.looking.json {
                out.json(&json!({
                    "operation": operation,
                    "subject": subject,
                    "key": shown,
                    "fingerprint": key.fingerprint,
                    "position": found.position,
                    "at": record.at,
                    "answer": answer_json(&record.outcome),
                }))
            } else {
                let row = vec![
                    operation.to_owned(),
                    subject.into_owned(),
                    shown.into_owned(),
                    found.position.to_string(),
                    record.at.to_string(),
                    answer_text(&record.outcome),
                ];
                table.row(&mut out, row)
            };
            Ok(match printed {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        table.print(&mut out)?;
        out.flush()?;
        tell_what_is_missing(&read.map_err(|error| Failure::of_log(&error))?);
        Ok(())
    }

    fn selects(&self, record: &Record, key: &str) -> bool {
        self.operation.is_none_or(|tag| record.operation == tag)
            && self
                .actor
                .as_ref()
                .is_none_or(|actor| **actor == *record.subject)
            && self.key.as_ref().is_none_or(|wanted| wanted == key)
    }
}

fn answer_json(outcome: &RecordOutcome<Vec<u8>>) -> Value {
    match outcome {
        RecordOutcome::None => Value::Null,
        RecordOutcome::Answer { accepted, body } => {
            json!({"accepted": accepted, "bytes": body.0.len()})
        }
        RecordOutcome::SameAs(position) => json!({"sameAs": position}),
        RecordOutcome::Instead { of, accepted, body } => {
            json!({"insteadOf": of, "accepted": accepted, "bytes": body.0.len()})
        }
    }
}

fn answer_text(outcome: &RecordOutcome<Vec<u8>>) -> String {
    let sized = |accepted: bool, bytes: usize| {
        let accepted = if accepted { ", accepted" } else { "" };
        format!("{bytes} bytes{accepted}")
    };
    match outcome {
        RecordOutcome::None => "none".to_owned(),
        RecordOutcome::Answer { accepted, body } => sized(*accepted, body.0.len()),
        RecordOutcome::SameAs(position) => format!("that of position {position}"),
        RecordOutcome::Instead { of, accepted, body } => {
            format!("{}, in the place of {of}'s", sized(*accepted, body.0.len()))
        }
    }
}
