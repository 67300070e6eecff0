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
use super::foreign_files::{LOST_AND_FOUND, expect_only};
use crate::catalogue;

/// Standard output. A closed pipe or a full disk is a [`Failure`], and never a panic.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Locks standard output, and prints nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
        }
    }

    /// Prints a line.
    ///
    /// # Errors
    /// When the line cannot be written; mostly reported by [`Output::flush`].
    pub fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(Failure::of_output)
    }

    /// Prints a JSON value on one line.
    ///
    /// # Errors
    /// The errors of [`Output::line`].
    pub fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(value)
    }

    /// Prints names and values in two aligned columns, the values to the right.
    ///
    /// # Errors
    /// The errors of [`Output::line`].
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

    /// Writes everything that was printed so far.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::of_output)
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the columns of the terminal that standard output is; `None` if it is none, or its width is not known.
#[must_use]
pub fn terminal_columns() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Returns the storage of an existing data directory; nothing is written.
///
/// # Errors
/// When there is no such directory.
pub fn existing(data: &Path) -> Result<Arc<dyn Storage>, Failure> {
    super::open::existing(data).map_err(|error| super::open::unusable(data, &error))
}

/// Returns the storage of a new directory, which is created (mode 0700) if it does not exist.
///
/// # Errors
/// When the directory can be neither found nor created.
pub fn new_directory(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    wal::open_dir(path)
        .map_err(|error| Failure::other(format!("{} cannot be used: {error}", path.display())))
}

/// Does what [`new_directory`] does, for a log that needs an empty directory, except for `lost+found`. Files of the log
/// itself are left to `wal`, which checks again once it holds the lock.
///
/// # Errors
/// The errors of [`new_directory`]; when the directory holds directories, or names that are no file names of a log.
pub fn empty_directory(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    let storage = new_directory(path)?;
    expect_only(path, |name, is_directory| match is_directory {
        true => name == LOST_AND_FOUND,
        false => name.to_str().is_some(),
    })?;
    Ok(storage)
}

/// Returns the failure to make a new directory, with advice on its remains.
#[must_use]
pub fn unfinished(error: &wal::Error, target: &dyn Storage, path: &Path) -> Failure {
    left_unfinished(Failure::of_whole_log(error), error, target, path)
}

/// Does what [`unfinished`] does, for a failure with another message.
#[must_use]
pub fn left_unfinished(
    failure: Failure,
    error: &wal::Error,
    target: &dyn Storage,
    path: &Path,
) -> Failure {
    let was_there = matches!(error, wal::Error::Io { source, .. }
        if source.kind() == io::ErrorKind::AlreadyExists);
    if was_there {
        return failure;
    }
    let is_empty = target.list("").is_ok_and(|names| names.is_empty());
    match (is_empty, lacks_room(error)) {
        (false, _) => failure.with(format_args!(
            "{} is incomplete and not a data directory: remove it, and begin again",
            path.display()
        )),
        (true, true) => failure.with(format_args!(
            "Nothing is left in {}: make room, and begin again",
            path.display()
        )),
        (true, false) => failure,
    }
}

/// Whether the disk of the new directory is full.
fn lacks_room(error: &wal::Error) -> bool {
    match error {
        wal::Error::Io { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ),
        wal::Error::Visitor { source, .. } => {
            let cause = source.downcast_ref::<wal::Error>();
            cause.is_some_and(lacks_room)
        }
        _ => false,
    }
}

/// Returns the snapshots of a log as JSON.
#[must_use]
pub fn snapshots_json(snapshots: &[SnapshotInfo]) -> Vec<Value> {
    let objects = snapshots.iter().map(|held| {
        json!({
            "number": held.number,
            "covers": held.covers,
            "upto": held.upto,
            "bytes": held.bytes,
        })
    });
    objects.collect()
}

/// Returns the snapshots of a log as rows for [`Output::pairs`].
pub fn snapshot_rows(snapshots: &[SnapshotInfo]) -> impl Iterator<Item = (String, String)> {
    snapshots.iter().map(|held| {
        (
            format!("snapshot {}, up to position {}", held.number, held.covers),
            format!("{} bytes", held.bytes),
        )
    })
}

/// Returns the name of the operation with this tag; an unknown tag counts as the loading of facts.
#[must_use]
pub fn operation_name(tag: u16) -> &'static str {
    let known = catalogue::recorded_operations().find(|(known, _)| *known == tag);
    known.map_or("reference_facts", |(_, name)| name)
}

/// Returns the name of the kind of resource with this tag.
#[must_use]
pub fn kind_name(tag: u16) -> &'static str {
    catalogue::resource(tag).map_or("unknown", |resource| resource.kind().name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wal::storage::sim::SimDisk;

    use super::*;

    #[test]
    fn a_failure_to_make_a_directory_says_what_is_left_and_what_to_do() {
        let failed = |kind: io::ErrorKind| wal::Error::Io {
            what: "create",
            file: "/copy/copy.new".to_owned(),
            source: kind.into(),
        };
        let told = |error: &wal::Error, disk: &SimDisk| {
            let failure = unfinished(error, disk.storage().as_ref(), Path::new("/copy"));
            match failure {
                Failure::Other(sentence) => sentence,
                other => panic!("{other:?}"),
            }
        };
        let (empty, begun) = (SimDisk::new(), SimDisk::new());
        begun.put("copy.new", b"");
        let full = failed(io::ErrorKind::StorageFull);
        let within = wal::Error::Visitor {
            position: 1,
            source: Box::new(failed(io::ErrorKind::QuotaExceeded)),
        };
        for full in [&full, &within] {
            let nothing = "Nothing is left in /copy: make room, and begin again";
            let sentence = told(full, &empty);
            assert!(sentence.ends_with(nothing), "{sentence}");
            let sentence = told(full, &begun);
            assert!(
                sentence.ends_with("remove it, and begin again"),
                "{sentence}"
            );
        }
        let other = failed(io::ErrorKind::AlreadyExists);
        assert_eq!(told(&other, &begun), other.to_string());
        let other = failed(io::ErrorKind::PermissionDenied);
        assert_eq!(told(&other, &empty), other.to_string());
    }
}
