//! The records and ends that a reader shows.

use std::ops::ControlFlow;

use crate::error::BoxError;

/// The batch that a record was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// The number of the segment that it is in.
    pub segment: u64,
    /// Where in the segment its frame begins, in bytes.
    pub offset: u64,
    /// Which opening of the log wrote it, counted from 1.
    pub epoch: u64,
    /// Its first position.
    pub first: u64,
    /// How many records it has.
    pub records: u32,
    /// Bytes of its frame.
    pub bytes: u64,
}

/// A record as the reader shows it.
#[derive(Clone, Copy, Debug)]
pub struct LiveRecord<'a> {
    /// Its place in the log: 1, 2, 3 …
    pub position: u64,
    /// Its bytes.
    pub payload: &'a [u8],
    /// Where it was found.
    pub batch: FrameInfo,
}

/// The visitor of records: breaks to see no more of them now, or returns an error of its own, which
/// ends the reading.
pub type OnRecord<'a> = dyn FnMut(LiveRecord<'_>) -> Result<ControlFlow<()>, BoxError> + 'a;

/// How far a call of the reader went, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEnd {
    /// The first position that the log still has.
    pub first_position: u64,
    /// The position after the last record that was passed.
    pub next_position: u64,
    /// Whether the visitor broke.
    pub stopped: bool,
    /// Number of records after the last one shown that are whole, but not yet proved durable; they
    /// are shown once they are.
    pub unproved: u64,
    /// Records that were asked for and that a compaction has removed from the
    /// log before they could be shown: the first and the last position.
    pub missed: Option<(u64, u64)>,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Its number.
    pub number: u64,
    /// Its path.
    pub file: String,
    /// Which opening of the log made it.
    pub epoch: u64,
    /// First and last position, once it is sealed; the last one is less than the
    /// first when it has no records.
    pub sealed: Option<(u64, u64)>,
    /// Its length now.
    pub bytes: u64,
}
