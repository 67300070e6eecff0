//! The results of a survey, and of giving up.

use crate::report::Report;
use crate::visitor::SnapshotInfo;

/// Bytes that are not as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The first position that cannot be read there, where it is known.
    pub position: Option<u64>,
    /// What was found there.
    pub what: String,
}

/// A state that the log can be brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// Everything up to this position is kept, in a snapshot or as records; what comes after it is given up.
    pub keep_to: u64,
    /// The snapshot that it rests on; `None` for the log's own beginning.
    pub snapshot: Option<SnapshotInfo>,
    /// The position with which the records of the log then begin. What is before is in the snapshot alone.
    pub first_position: u64,
    /// Number of records before that position that can be read, and would no longer be in the log.
    pub readable_before: u64,
}

/// The result of [`crate::Salvage::give_up_after`].
#[derive(Clone, Debug)]
pub struct GivenUp {
    /// The log as it is now; it has another id than the one before.
    pub report: Report,
    /// Number of records before its first one that could be read, and are no longer in it.
    pub readable_before: u64,
    /// The paths under which the files of the old log are kept.
    pub kept: Vec<String>,
}
