//! Parts that all inspect commands share: their arguments, and the names of operations, kinds and times.

use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use wal::live::{LiveEnd, LiveReader, LiveRecord};

use super::mask::Mask;
use crate::base::codec::DecodeError;
use crate::base::time::Timestamp;
use crate::catalogue::{self, RESOURCES, recorded_operations};
use crate::cli::exit::Failure;
use crate::cli::open::progress_bar;
use crate::cli::output::existing;
use crate::cli::stderr::print_to_stderr;
use crate::domain::registered::{self, AnyResource};
use crate::domain::resource::Kind;
use crate::journal::record::{Record, RecordOutcome};

/// The directory to inspect, and the form of the output.
#[derive(Args)]
pub(super) struct CommonArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Where compactions have moved segments to: they are shown as if they were still there.
    #[arg(long, value_name = "DIR")]
    pub(super) archive: Option<PathBuf>,
    /// Prints JSON instead of a table: one object a line.
    #[arg(long)]
    pub(super) json: bool,
    /// Shows personal data too: names, contacts, addresses, accounts, free text.
    #[arg(long)]
    pub(super) reveal: bool,
}

impl CommonArgs {
    pub(super) fn mask(&self) -> Mask {
        Mask {
            reveal: self.reveal,
        }
    }

    /// Opens a reader of the directory's log that begins at this position.
    pub(super) fn reader(&self, from: u64) -> Result<LiveReader, Failure> {
        let data = existing(&self.data)?;
        let archive = self.archive.as_deref().map(existing).transpose()?;
        let reader = match archive {
            None => LiveReader::open(data, from),
            Some(archive) => LiveReader::open_with_archive(data, archive, from),
        };
        reader.map_err(|error| Failure::of_log(&error))
    }
}

/// Returns the failure for a log that could not be read; damage in the archive is reported as such.
pub(super) fn failed(reader: &LiveReader, error: &wal::Error) -> Failure {
    if reader.is_of_archive(error) {
        let next = "without --archive the content of the directory itself is shown";
        return Failure::of_archive(error, next);
    }
    Failure::of_log(error)
}

/// The progress of reading a log, as a bar on standard error.
pub(super) struct Reading {
    pub(super) bar: ProgressBar,
    /// The batch of the last record that was read.
    batch: Option<(u64, u64)>,
}

impl Reading {
    /// Creates a bar at zero.
    pub(super) fn new(what: &'static str) -> Self {
        Self {
            bar: progress_bar(0, what),
            batch: None,
        }
    }

    /// Creates a hidden bar.
    pub(super) fn unseen() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            batch: None,
        }
    }

    /// Notes that the log is read from this position on.
    pub(super) fn begin(&self, reader: &LiveReader, from: u64) -> Result<(), Failure> {
        let segments = reader.segments().map_err(|error| failed(reader, &error))?;
        let wanted = segments.iter().filter(|segment| {
            let sealed = segment.sealed;
            sealed.is_none_or(|(_, last)| last >= from)
        });
        self.bar
            .set_length(wanted.map(|segment| segment.bytes).sum());
        self.bar.reset();
        Ok(())
    }

    /// Notes that a record was read.
    pub(super) fn passed(&mut self, found: &LiveRecord<'_>) {
        let batch = (found.batch.segment, found.batch.offset);
        if self.batch.replace(batch) != Some(batch) {
            self.bar.inc(found.batch.bytes);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Prints on standard error which part of the log could not be shown.
pub(super) fn print_missing_records(end: &LiveEnd) {
    if let Some((first, last)) = end.missed {
        print_to_stderr(format_args!(
            "carebook: the log begins at position {}: positions {first} to {last} were removed by a \
             compaction, and their result is only in the snapshot",
            end.first_position
        ));
    }
    if end.unproved > 0 {
        print_to_stderr(format_args!(
            "carebook: records at the log's end that are not proved durable yet, and not shown: {}",
            end.unproved
        ));
    }
}

/// Returns the name of a record's operation.
pub(super) fn operation_name(record: &Record<'_>) -> &'static str {
    match (record.operation, &record.outcome) {
        (0, RecordOutcome::Forgotten { .. }) => return FORGET_KEYS,
        (0, _) => return REFERENCE_FACTS,
        _ => {}
    }
    let mut known = recorded_operations();
    let known = known.find(|(tag, _)| *tag == record.operation);
    known.map_or("unknown", |(_, name)| name)
}

/// Name for the loading of facts.
pub(super) const REFERENCE_FACTS: &str = "reference_facts";

/// Name for the record that forgets old keys.
pub(super) const FORGET_KEYS: &str = "forget_keys";

/// Returns the operation with this name.
pub(super) fn parse_operation(name: &str) -> Result<&'static str, String> {
    let names = || {
        recorded_operations()
            .map(|(_, name)| name)
            .chain([REFERENCE_FACTS, FORGET_KEYS])
    };
    names().find(|known| *known == name).ok_or_else(|| {
        let names: Vec<_> = names().collect();
        format!("the operations are {}", names.join(", "))
    })
}

/// Returns the kind of resource with this name.
pub(super) fn parse_kind(name: &str) -> Result<Kind, String> {
    let kinds = || RESOURCES.iter().map(|resource| resource.kind());
    kinds().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<_> = kinds().map(|kind| kind.name).collect();
        format!("the kinds of resources are {}", names.join(", "))
    })
}

pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text)
        .ok_or_else(|| "a time is as 2026-11-20T09:00:00Z or 2026-11-20T18:00:00+09:00".to_owned())
}

/// Returns the kind of resource with this tag, which reads states of this version.
///
/// # Errors
/// When this carebook knows no such kind, or no such version of it.
pub(super) fn known(tag: u16, version: u16) -> Result<&'static dyn AnyResource, DecodeError> {
    registered::known(catalogue::resource, tag, version)
}
