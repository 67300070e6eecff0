//! What a survey finds, and what giving up has done.

use crate::report::Report;
use crate::visitor::SnapshotInfo;

/// Bytes that are not as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it, in bytes.
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
    /// Where the records of the log begin then. What is before is in the snapshot alone.
    pub first_position: u64,
    /// How many records before that can be read, and would be in the log no longer.
    pub readable_before: u64,
}

/// What [`crate::Salvage::give_up_after`] has done.
#[derive(Clone, Debug)]
pub struct GivenUp {
    /// The log as it is now; it has another id than the one before.
    pub report: Report,
    /// How many records before its first one could be read, and are in it no longer.
    pub readable_before: u64,
    /// Where the files are kept that it was before.
    pub kept: Vec<String>,
}
