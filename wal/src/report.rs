//! The report of what was found in a log.

use std::fmt;

use crate::manifest::Ancestor;
use crate::visitor::SnapshotInfo;

/// Bytes at a log's end that belong to no batch: what a crash leaves of a write
/// that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment's file.
    pub file: String,
    /// Offset of these bytes in the file.
    pub offset: u64,
    /// Number of these bytes, without the zeros at their end.
    pub bytes: u64,
    /// The file in `quarantine/` that keeps them; `None` after a `verify`.
    pub kept_in: Option<String>,
}

/// A snapshot that could not be read, and was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSnapshot {
    /// Its number.
    pub number: u64,
    /// Its file.
    pub file: String,
    /// Where in the file it is damaged, in bytes.
    pub offset: u64,
    /// What was found there.
    pub what: String,
}

/// The findings in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The log's random name, given when it was made.
    pub log_id: [u8; 16],
    /// The logs that it was restored or recovered from, the oldest first.
    pub ancestors: Vec<Ancestor>,
    /// Whether the log was made just now.
    pub created: bool,
    /// Number of times that the log has been opened, this time included.
    pub epoch: u64,
    /// Segments that hold records.
    pub segments: u64,
    /// Records that were shown: those after the snapshot.
    pub records: u64,
    /// The first live position: 1 until a compaction.
    pub first_position: u64,
    /// The last position; one less than the first when there are no records.
    pub last_position: u64,
    /// Bytes that all this takes, headers included.
    pub bytes: u64,
    /// The highest position that the log itself proves to have been durable.
    pub durable_mark: u64,
    /// Torn tails that a crash left; mostly none.
    pub torn: Vec<TornTail>,
    /// The snapshot that was shown.
    pub snapshot: Option<SnapshotInfo>,
    /// The snapshots there are, newest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Snapshots that were passed over because they cannot be read.
    pub bad_snapshots: Vec<BadSnapshot>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.created {
            return write!(f, "a new log was made");
        }
        write!(
            f,
            "{} records (positions {} to {}) in {} segments, {} bytes, epoch {}",
            self.last_position + 1 - self.first_position,
            self.first_position,
            self.last_position,
            self.segments,
            self.bytes,
            self.epoch
        )?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, "; snapshot up to position {}", snapshot.covers)?;
        }
        for bad in &self.bad_snapshots {
            write!(
                f,
                "; the snapshot {} is damaged at offset {} ({}) and was passed over",
                bad.file, bad.offset, bad.what
            )?;
        }
        for torn in &self.torn {
            write!(
                f,
                "; an unfinished write of {} bytes in {} at offset {}",
                torn.bytes, torn.file, torn.offset
            )?;
            if let Some(kept) = &torn.kept_in {
                write!(f, " was kept in {kept}")?;
            }
        }
        Ok(())
    }
}
