//! `carebook inspect resource --backwards`: a resource's commits, the last one first. Each commit names the position
//! of the previous one, so the log is not read from its beginning.

use std::ops::ControlFlow;

use serde_json::{Value, json};
use wal::BoxError;
use wal::live::LiveReader;

use super::common_args::{CommonArgs, Reading, failed, known, operation_name};
use super::history::{SnapshotVisitor, Unlisted, show};
use super::mask::Mask;
use crate::base::digest::Digest;
use crate::base::time::Timestamp;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::stderr::print_to_stderr;
use crate::cli::table::{Column, Growing, left, right, time};
use crate::domain::resource::Kind;
use crate::journal::messages::{KIND_AND_VERSION, Sent};
use crate::journal::record::Record;
use crate::journal::snapshot::StateEntry;

const COLUMNS: &[Column] = &[
    right("position"),
    time("time"),
    left("operation"),
    left("subject"),
    left("event"),
    right("before it"),
];

/// One commit of the resource.
struct Commit {
    position: u64,
    at: Timestamp,
    operation: &'static str,
    subject: String,
    key: Option<String>,
    event: Value,
    version: u16,
    /// The position of the previous commit that changed the resource; 0 if there is none.
    before: u64,
}

/// Finds the resource's last commit in a snapshot.
struct Last {
    key: Digest,
    position: u64,
    unlisted: Unlisted,
}

impl SnapshotVisitor for Last {
    fn begin(&mut self) {
        self.position = 0;
        self.unlisted.begin();
    }

    fn kept(&mut self, position: u64, record: &Record<'_>) -> Result<(), BoxError> {
        self.unlisted.kept(position, record);
        Ok(())
    }

    fn state(&mut self, entry: &StateEntry<'_>) -> Result<(), BoxError> {
        self.unlisted.entry(entry)?;
        self.at(entry);
        Ok(())
    }
}

impl Last {
    /// Searches the newest snapshot of the log, or the oldest. Also returns the position up to which the snapshot
    /// covers the log.
    fn of(reader: &LiveReader, oldest: bool, key: Digest) -> Result<(Self, Option<u64>), Failure> {
        let mut last = Self {
            key,
            position: 0,
            unlisted: Unlisted::of(reader)?,
        };
        let reading = Reading::new("reading the snapshot");
        let shown = show(reader, oldest, &mut last, &reading.bar)?;
        let mut unlisted = std::mem::take(&mut last.unlisted);
        unlisted.end_of_snapshot(|entry| {
            last.at(entry);
            Ok(())
        })?;
        last.unlisted = unlisted;
        Ok((last, shown.map(|info| info.covers)))
    }

    fn at(&mut self, entry: &StateEntry<'_>) {
        if entry.key == self.key {
            self.position = entry.position;
        }
    }
}

/// Prints the resource's commits, the last one first, `limit` at most.
///
/// # Errors
/// When there is no such resource in the log, or the log is damaged.
pub(super) fn print_newest_first(
    common: &CommonArgs,
    kind: Kind,
    key: Digest,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let (mut position, first) = last(common, key)?;
    if position == 0 {
        return Err(Failure::other(format!(
            "there is no {} with this identifier in the log",
            kind.name
        )));
    }
    let mask = common.mask();
    let mut out = Output::new();
    let mut table = Growing::new(COLUMNS);
    let mut left = limit.unwrap_or(u64::MAX);
    while position >= first && left > 0 {
        let commit = read(common, kind, key, position, first)?;
        if common.json {
            out.json(&commit.json(mask))?;
        } else {
            table.row(&mut out, commit.row(mask))?;
        }
        position = commit.before;
        left -= 1;
        if position == 0 {
            break;
        }
    }
    table.print(&mut out)?;
    out.flush()?;
    if position > 0 && left > 0 {
        print_to_stderr(format_args!(
            "carebook: the log begins at position {first}: the commit before, at position {position}, \
             was removed by a compaction, and its result is only in the snapshot"
        ));
    }
    Ok(())
}

/// Returns the position of the resource's last change, 0 if there is no such resource; and the first position of the
/// log.
fn last(common: &CommonArgs, key: Digest) -> Result<(u64, u64), Failure> {
    loop {
        let reader = common.reader(1)?;
        let first = reader
            .first_position()
            .map_err(|error| failed(&reader, &error))?;
        let (mut last, covers) = Last::of(&reader, false, key)?;
        let from = covers.map_or(first, |covers| covers + 1);
        let mut reader = common.reader(from)?;
        let read = reader.read_on(&mut |found| {
            let record = Record::decode(found.payload)?;
            let unlisted = last.unlisted.of_record(found.position, &record)?;
            let unlisted: Vec<_> = unlisted.iter().map(Sent::change).collect();
            let mut changes = record.changes.iter().chain(&unlisted);
            if changes.any(|change| change.key == key) {
                last.position = last.position.max(found.position);
            }
            Ok(ControlFlow::Continue(()))
        });
        let end = read.map_err(|error| failed(&reader, &error))?;
        if end.missed.is_none() {
            return Ok((last.position, first));
        }
        // A compaction has overtaken the reader; start again.
    }
}

/// Returns the commit at this position, which has to change the resource; `first` is the first position of the log.
fn read(
    common: &CommonArgs,
    kind: Kind,
    key: Digest,
    position: u64,
    first: u64,
) -> Result<Commit, Failure> {
    let reader = common.reader(position)?;
    let unlisted = Unlisted::of(&reader)?;
    let mut commit = find(reader, unlisted, key, position)?;
    if commit.is_none() && kind.tag == KIND_AND_VERSION.0 {
        // Which message a record of an older program has settled is known only from the records before it.
        let reader = common.reader(first)?;
        let unlisted = match first {
            1 => Unlisted::of(&reader)?,
            _ => Last::of(&reader, true, key)?.0.unlisted,
        };
        commit = find(reader, unlisted, key, position)?;
    }
    commit.ok_or_else(|| {
        Failure::Damaged(format!(
            "the commit after it says that the resource was changed at position {position}, and the \
             record there does not change it"
        ))
    })
}

/// Returns the commit at this position, if its record changes the resource. Reading starts at the reader's position,
/// whose state is `unlisted`.
fn find(
    mut reader: LiveReader,
    mut unlisted: Unlisted,
    key: Digest,
    position: u64,
) -> Result<Option<Commit>, Failure> {
    let mut commit = None;
    let read = reader.read_on(&mut |found| {
        let record = Record::decode(found.payload)?;
        let unlisted = unlisted.of_record(found.position, &record)?;
        if found.position < position {
            return Ok(ControlFlow::Continue(()));
        }
        let unlisted: Vec<_> = unlisted.iter().map(Sent::change).collect();
        let mut changes = record.changes.iter().chain(&unlisted);
        let change = changes.find(|change| change.key == key);
        let change = change.filter(|change| change.before < position);
        if let Some(change) = change.filter(|_| found.position == position) {
            let resource = known(change.kind, change.version)?;
            commit = Some(Commit {
                position,
                at: record.at,
                operation: operation_name(&record),
                subject: record.subject.to_owned(),
                key: record.key.as_ref().map(|key| key.key.to_owned()),
                event: resource.event_json(change.stored())?,
                version: change.version,
                before: change.before,
            });
        }
        Ok(ControlFlow::Break(()))
    });
    let end = read.map_err(|error| failed(&reader, &error))?;
    match (commit, end.missed) {
        (None, Some(_)) => Err(Failure::other(
            "a compaction has removed the record that was to be read next: run it again",
        )),
        (commit, _) => Ok(commit),
    }
}

impl Commit {
    fn json(&self, mask: Mask) -> Value {
        json!({
            "position": self.position,
            "at": self.at,
            "operation": self.operation,
            "subject": mask.opaque(&self.subject),
            "key": self.key.as_deref().map(|key| mask.opaque(key)),
            "event": mask.json(self.event.clone()),
            "version": self.version,
            "before": self.before,
        })
    }

    fn row(&self, mask: Mask) -> Vec<String> {
        vec![
            self.position.to_string(),
            self.at.to_string(),
            self.operation.to_owned(),
            mask.opaque(&self.subject).into_owned(),
            mask.json(self.event.clone()).to_string(),
            match self.before {
                0 => "none".to_owned(),
                before => before.to_string(),
            },
        ]
    }
}
