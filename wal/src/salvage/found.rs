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
    /// Every record up to this position is kept; those after it are given up.
    pub keep_to: u64,
    /// The snapshot that it rests on; `None` for the log's own beginning.
    pub snapshot: Option<SnapshotInfo>,
}

/// What [`crate::Salvage::give_up_after`] has done.
#[derive(Clone, Debug)]
pub struct GivenUp {
    /// The log as it is now; it has another id than the one before.
    pub report: Report,
    /// Where the files are kept that it was before.
    pub kept: Vec<String>,
}
