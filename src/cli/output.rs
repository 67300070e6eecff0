//! Output that several commands share.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write as _};
use std::path::Path;
use std::sync::Arc;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use wal::SnapshotInfo;
use wal::storage::Storage;

use super::exit::Failure;
use super::others::{LOST_AND_FOUND, expect_only};
use crate::catalogue;

/// Standard output. A closed pipe or a full disk is a [`Failure`], and never a panic.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Nothing is printed yet. It locks standard output.
    #[must_use]
    pub fn new() -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
        }
    }

    /// A line.
    ///
    /// # Errors
    /// When it cannot be written; mostly reported by [`Output::flush`].
    pub fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(Failure::of_output)
    }

    /// A JSON value on one line.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(value)
    }

    /// Names and values in two aligned columns, the values to the right.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn pairs(
        &mut self,
        rows: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for (name, value) in rows {
            table.add_row([name, value]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.line(table)
    }

    /// Everything so far is written when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::of_output)
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

/// The storage of an existing data directory; nothing is written.
///
/// # Errors
/// When there is none.
pub fn existing(data: &Path) -> Result<Arc<dyn Storage>, Failure> {
    super::open::existing(data).map_err(|error| super::open::unusable(data, &error))
}

/// The storage of a new directory, which is created (mode 0700) if it does not exist.
///
/// # Errors
/// When it can be neither found nor created.
pub fn new_directory(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    wal::open_dir(path)
        .map_err(|error| Failure::other(format!("{} cannot be used: {error}", path.display())))
}

/// As [`new_directory`], for what has to have it for itself: it holds nothing but what a file system
/// keeps in it. Files of its own are left to `wal`, which looks again once nobody else can write there.
///
/// # Errors
/// As [`new_directory`]; when it holds directories, or names that no log has.
pub fn empty_directory(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    let storage = new_directory(path)?;
    expect_only(path, |name, is_directory| match is_directory {
        true => name == LOST_AND_FOUND,
        false => name.to_str().is_some(),
    })?;
    Ok(storage)
}

/// A failure to make a new directory, with what to do about its remains.
#[must_use]
pub fn unfinished(error: &wal::Error, target: &dyn Storage, path: &Path) -> Failure {
    left_unfinished(Failure::of_whole_log(error), error, target, path)
}

/// The same, of a failure that is told in other words.
#[must_use]
pub fn left_unfinished(
    failure: Failure,
    error: &wal::Error,
    target: &dyn Storage,
    path: &Path,
) -> Failure {
    let was_there = matches!(error, wal::Error::Io { source, .. }
        if source.kind() == io::ErrorKind::AlreadyExists);
    let is_empty = target.list("").is_ok_and(|names| names.is_empty());
    if was_there || is_empty {
        return failure;
    }
    failure.with(format_args!(
        "{} is incomplete and not a data directory: remove it, and begin again",
        path.display()
    ))
}

/// Snapshots of a log, as `--json` tells them.
#[must_use]
pub fn told_snapshots(snapshots: &[SnapshotInfo]) -> Vec<Value> {
    let told = snapshots.iter().map(|held| {
        json!({
            "number": held.number,
            "covers": held.covers,
            "upto": held.upto,
            "bytes": held.bytes,
        })
    });
    told.collect()
}

/// Snapshots of a log, as rows for [`Output::pairs`].
pub fn snapshot_rows(snapshots: &[SnapshotInfo]) -> impl Iterator<Item = (String, String)> {
    snapshots.iter().map(|held| {
        (
            format!("snapshot {}, up to position {}", held.number, held.covers),
            format!("{} bytes", held.bytes),
        )
    })
}

/// The name of the operation with this tag; without one it is the loading of facts.
#[must_use]
pub fn operation_name(tag: u16) -> &'static str {
    let known = catalogue::recorded_operations().find(|(known, _)| *known == tag);
    known.map_or("reference_facts", |(_, name)| name)
}

/// The name of the kind of resource with this tag.
#[must_use]
pub fn kind_name(tag: u16) -> &'static str {
    catalogue::resource(tag).map_or("unknown", |resource| resource.kind().name)
}
