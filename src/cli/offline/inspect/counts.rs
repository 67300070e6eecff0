//! `carebook inspect counts`: number and size of records, resources and keys.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use clap::Args;
use serde_json::{Map, Value, json};
use wal::live::{LiveEnd, LiveReader, LiveRecord, SegmentFile};
use wal::{BoxError, SnapshotInfo};

use super::common_args::{CommonArgs, Reading, failed, operation_name, print_missing_records};
use super::history::{SnapshotVisitor, States, Unlisted, show};
use crate::base::hex::hex;
use crate::base::time::Timestamp;
use crate::catalogue::recorded_operations;
use crate::cli::exit::Failure;
use crate::cli::output::{Output, kind_name, snapshots_json};
use crate::cli::table::{Column, Growing, left, right};
use crate::journal::counters::Counters;
use crate::journal::record::{Record, RecordOutcome};
use crate::journal::snapshot::{StateEntry, Summary};

/// Arguments of `carebook inspect counts`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect counts --data /srv/carebook
  carebook inspect counts --data /srv/carebook --json | jq .resources

The whole log is read, and all states are rebuilt in memory, which takes as much as the server \
uses for them.

Exit codes:
  0  done
  1  failed, for example because there is no log
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub(super) struct CountsArgs {
    #[command(flatten)]
    common: CommonArgs,
}

/// A number of items, and their total size in bytes.
#[derive(Clone, Copy, Default)]
struct Amount {
    count: u64,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }

    fn json(self) -> Value {
        json!({"count": self.count, "bytes": self.bytes})
    }
}

#[derive(Default)]
struct Operation {
    records: Amount,
    events: Amount,
    answers: Amount,
    outbox: Amount,
    keys: u64,
}

#[derive(Default)]
struct Kind {
    states: Amount,
    events: Amount,
}

#[derive(Default)]
struct Counting {
    states: States,
    unlisted: Unlisted,
    operations: BTreeMap<&'static str, Operation>,
    kinds: BTreeMap<u16, Kind>,
    batches: Amount,
    largest_batch: u32,
    last_batch: Option<(u64, u64)>,
    /// The counters in a snapshot, for records that the log no longer has. `kept` is the number of records that the
    /// snapshot keeps.
    before: Counters,
    covers: u64,
    kept: u64,
    first: Option<(u64, Timestamp)>,
    last: Option<(u64, Timestamp)>,
}

impl SnapshotVisitor for Counting {
    fn begin(&mut self) {
        let mut unlisted = std::mem::take(&mut self.unlisted);
        unlisted.begin();
        *self = Self {
            unlisted,
            ..Self::default()
        };
    }

    fn summary(&mut self, summary: Summary) {
        self.before = summary.counters;
    }

    fn kept(&mut self, position: u64, record: &Record<'_>) -> Result<(), BoxError> {
        self.kept += 1;
        self.unlisted.kept(position, record);
        Ok(())
    }

    fn state(&mut self, entry: &StateEntry<'_>) -> Result<(), BoxError> {
        self.unlisted.entry(entry)?;
        self.states.put(entry)
    }
}

impl Counting {
    fn look(&mut self, found: &LiveRecord<'_>) -> Result<(), BoxError> {
        let record = Record::decode(found.payload)?;
        if found.position > self.before.position {
            self.before.note(found.position, &record);
        }
        let operation = self.operations.entry(operation_name(&record)).or_default();
        operation.records.add(found.payload.len());
        operation.keys += u64::from(record.key.is_some());
        for message in &record.outbox {
            operation.outbox.add(message.body.0.len());
        }
        if let RecordOutcome::Answer { body, .. } | RecordOutcome::Instead { body, .. } =
            &record.outcome
        {
            operation.answers.add(body.0.len());
        }
        for change in &record.changes {
            operation.events.add(change.event.0.len());
            let kind = self.kinds.entry(change.kind).or_default();
            kind.events.add(change.event.0.len());
            if found.position > self.covers && !self.states.has(found.position, change) {
                self.states.apply(found.position, record.at, change)?;
            }
        }
        for sent in self.unlisted.of_record(found.position, &record)? {
            let change = sent.change();
            if found.position > self.covers && !self.states.has(found.position, &change) {
                self.states.apply(found.position, record.at, &change)?;
            }
        }
        let place = (found.batch.segment, found.batch.offset);
        if self.last_batch.replace(place) != Some(place) {
            self.batches.count += 1;
            self.batches.bytes += found.batch.bytes;
            self.largest_batch = self.largest_batch.max(found.batch.records);
        }
        self.first.get_or_insert((found.position, record.at));
        self.last = Some((found.position, record.at));
        Ok(())
    }

    fn finish(&mut self) {
        // Operations whose commits are all removed from the log are listed, too.
        for tag in self.before.operations.keys() {
            let known = recorded_operations().find(|(known, _)| known == tag);
            let name = known.map_or(super::common_args::REFERENCE_FACTS, |(_, name)| name);
            self.operations.entry(name).or_default();
        }
        for standing in self.states.all.values() {
            let tag = standing.resource.kind().tag;
            let kind = self.kinds.entry(tag).or_default();
            kind.states.add(standing.state.len());
        }
    }
}

impl CountsArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let (reader, counting, end) = self.read()?;
        let segments = reader.segments().map_err(|error| failed(&reader, &error))?;
        let snapshots = reader
            .snapshots()
            .map_err(|error| failed(&reader, &error))?;
        let files = files(&self.common.data).map_err(|error| {
            Failure::other(format!(
                "{} cannot be listed: {error}",
                self.common.data.display()
            ))
        })?;
        let mut out = Output::new();
        if self.common.json {
            out.json(&json(
                &reader,
                &end,
                &counting,
                (&segments, &snapshots),
                &files,
            ))?;
        } else {
            tables(
                &mut out,
                &reader,
                &end,
                &counting,
                (&segments, &snapshots),
                &files,
            )?;
        }
        out.flush()?;
        print_missing_records(&end);
        Ok(())
    }
}

impl CountsArgs {
    fn read(&self) -> Result<(LiveReader, Counting, LiveEnd), Failure> {
        loop {
            let reader = self.common.reader(1)?;
            let first = reader
                .first_position()
                .map_err(|error| failed(&reader, &error))?;
            let mut counting = Counting {
                unlisted: Unlisted::of(&reader)?,
                ..Counting::default()
            };
            let mut reading = Reading::new("counting");
            if first > 1 {
                let shown = show(&reader, false, &mut counting, &reading.bar)?;
                counting.covers = shown.map_or(0, |info| info.covers);
                let states = &mut counting.states;
                counting
                    .unlisted
                    .end_of_snapshot(|entry| states.put(entry))?;
            }
            let mut reader = self.common.reader(first)?;
            reading.begin(&reader, first)?;
            let read = reader.read_on(&mut |found| {
                reading.passed(&found);
                counting.look(&found)?;
                Ok(ControlFlow::Continue(()))
            });
            let end = read.map_err(|error| failed(&reader, &error))?;
            // If positions are missing, a compaction has overtaken the reader; start again.
            if end.missed.is_none() {
                counting.finish();
                return Ok((reader, counting, end));
            }
        }
    }
}

/// Returns the files of the directory and its subdirectories, with their lengths. Files that vanish meanwhile are
/// left out.
fn files(data: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(String::new(), data.to_path_buf())];
    while let Some((prefix, folder)) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    folders.push((format!("{name}/"), entry.path()));
                }
                Ok(metadata) => {
                    found.insert(name, metadata.len());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Returns the number of all commits of the operation, including those that the log no longer has.
fn ever(counting: &Counting, name: &str) -> u64 {
    let tag = match name {
        super::common_args::REFERENCE_FACTS => Some(0),
        _ => recorded_operations()
            .find(|(_, known)| *known == name)
            .map(|(tag, _)| tag),
    };
    let counted = tag.and_then(|tag| counting.before.operations.get(&tag));
    counted.copied().unwrap_or_default()
}

fn json(
    reader: &LiveReader,
    end: &LiveEnd,
    counting: &Counting,
    (segments, snapshots): (&[SegmentFile], &[SnapshotInfo]),
    files: &BTreeMap<String, u64>,
) -> Value {
    let operations: Map<_, _> = counting
        .operations
        .iter()
        .map(|(name, operation)| {
            let counts = json!({
                "records": operation.records.json(),
                "events": operation.events.json(),
                "answers": operation.answers.json(),
                "outbox": operation.outbox.json(),
                "keys": operation.keys,
                "ever": ever(counting, name),
            });
            ((*name).to_owned(), counts)
        })
        .collect();
    let resources: Map<_, _> = counting
        .kinds
        .iter()
        .map(|(tag, kind)| {
            let counts = json!({"states": kind.states.json(), "events": kind.events.json()});
            (kind_name(*tag).to_owned(), counts)
        })
        .collect();
    let segments: Vec<_> = segments
        .iter()
        .map(|segment| {
            json!({
                "number": segment.number,
                "epoch": segment.epoch,
                "sealed": segment.sealed.is_some(),
                "firstPosition": segment.sealed.map(|(first, _)| first),
                "lastPosition": segment.sealed.map(|(_, last)| last),
                "bytes": segment.bytes,
            })
        })
        .collect();
    json!({
        "logId": hex(&reader.log_id()),
        "firstPosition": end.first_position,
        "lastPosition": end.next_position - 1,
        "firstCommitAt": counting.first.map(|(_, at)| at),
        "lastCommitAt": counting.last.map(|(_, at)| at),
        "records": counting.operations.values().map(|operation| operation.records.count).sum::<u64>(),
        "batches": {
            "count": counting.batches.count,
            "bytes": counting.batches.bytes,
            "mostRecords": counting.largest_batch,
        },
        "operations": operations,
        "resources": resources,
        "segments": segments,
        "snapshots": snapshots_json(snapshots),
        "keptRecords": counting.kept,
        "files": files,
    })
}

const RESOURCES: &[Column] = &[
    left("resources"),
    right("number"),
    right("bytes"),
    right("events"),
    right("bytes"),
];
const COMMITS: &[Column] = &[
    left("commits"),
    right("number"),
    right("bytes"),
    right("event bytes"),
    right("keys"),
    right("answer bytes"),
    right("messages"),
    right("message bytes"),
    right("ever"),
];
const FILES: &[Column] = &[left("files"), right("bytes"), left("")];
const LOG: &[Column] = &[left("log"), right("")];

fn tables(
    out: &mut Output,
    reader: &LiveReader,
    end: &LiveEnd,
    counting: &Counting,
    (segments, snapshots): (&[SegmentFile], &[SnapshotInfo]),
    files: &BTreeMap<String, u64>,
) -> Result<(), Failure> {
    let mut log = Growing::new(LOG);
    let at = |commit: Option<(u64, Timestamp)>| {
        commit.map_or_else(|| "none".to_owned(), |(_, at)| at.to_string())
    };
    for (name, value) in [
        ("identifier", hex(&reader.log_id())),
        ("first position", end.first_position.to_string()),
        ("last position", (end.next_position - 1).to_string()),
        ("first commit at", at(counting.first)),
        ("last commit at", at(counting.last)),
        ("batches", counting.batches.count.to_string()),
        ("bytes of batches", counting.batches.bytes.to_string()),
        (
            "most records in a batch",
            counting.largest_batch.to_string(),
        ),
    ] {
        log.row(out, vec![name.to_owned(), value])?;
    }
    log.print(out)?;
    out.line("")?;

    let mut resources = Growing::new(RESOURCES);
    for (tag, kind) in &counting.kinds {
        let mut row = vec![kind_name(*tag).to_owned()];
        for amount in [kind.states, kind.events] {
            row.extend([amount.count.to_string(), amount.bytes.to_string()]);
        }
        resources.row(out, row)?;
    }
    resources.print(out)?;
    out.line("")?;

    let mut commits = Growing::new(COMMITS);
    for (name, operation) in &counting.operations {
        let numbers = [
            operation.records.count,
            operation.records.bytes,
            operation.events.bytes,
            operation.keys,
            operation.answers.bytes,
            operation.outbox.count,
            operation.outbox.bytes,
            ever(counting, name),
        ];
        let mut row = vec![(*name).to_owned()];
        row.extend(numbers.map(|number| number.to_string()));
        commits.row(out, row)?;
    }
    commits.print(out)?;
    out.line("")?;

    listed(out, (segments, snapshots), files)
}

/// Prints the files, and the content of each.
fn listed(
    out: &mut Output,
    (segments, snapshots): (&[SegmentFile], &[SnapshotInfo]),
    files: &BTreeMap<String, u64>,
) -> Result<(), Failure> {
    let mut listed = Growing::new(FILES);
    for (name, bytes) in files {
        let segment = segments.iter().find(|segment| {
            let file = Path::new(&segment.file).file_name();
            file.is_some_and(|file| *file == **name)
        });
        let what = match segment.map(|segment| segment.sealed) {
            Some(Some((first, last))) if first <= last => format!("positions {first} to {last}"),
            Some(Some(_)) => "no positions".to_owned(),
            Some(None) => "open".to_owned(),
            None => snapshots
                .iter()
                .find(|snapshot| format!("snapshot-{:016}.snap", snapshot.number) == *name)
                .map_or_else(String::new, |snapshot| {
                    format!("covers {}", snapshot.covers)
                }),
        };
        listed.row(out, vec![name.clone(), bytes.to_string(), what])?;
    }
    listed.print(out)
}
