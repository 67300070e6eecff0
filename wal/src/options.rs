//! How a log is kept.

use std::time::Duration;

use crate::manifest::Ancestor;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the first segment after a start; each one after has twice as
    /// many. At least 8 KiB.
    pub segment_bytes_min: u64,
    /// Bytes of the largest segments.
    pub segment_bytes_max: u64,
    /// Maximum payload of a batch in bytes, beyond which it is split; a larger record is a batch by
    /// itself.
    pub batch_bytes_max: usize,
    /// Free space of the disk in bytes below which [`crate::Appender::has_room`] says no.
    pub reserve_bytes: u64,
    /// Time without an append after which the last batch gets a seal.
    pub seal_after: Duration,
    /// Whether a log is made where there is none. Otherwise an empty directory, perhaps a disk that
    /// is not mounted, is [`crate::Error::NoLog`].
    pub create: bool,
    /// The id for a log that is made; a random one when `None`. It is set for a log whose records
    /// are kept elsewhere, under that id.
    pub log_id: Option<[u8; 16]>,
    /// The logs that a newly made log continues, the oldest first.
    pub ancestors: Vec<Ancestor>,
    /// For a log whose records are kept elsewhere, and are fetched again when they are lost here: a
    /// batch counts as durable once it is written. Batches are synced after this number of bytes,
    /// when nothing was appended for a while, and before anything depends on them. When `None`,
    /// each batch is synced before it counts.
    pub sync_bytes: Option<u64>,
}

impl Default for Options {
    /// Segments of 4 to 64 MiB, batches of 1 MiB, a reserve of 64 MiB, a seal
    /// after 50 ms, and a log is made where there is none.
    fn default() -> Self {
        Self {
            segment_bytes_min: 4 << 20,
            segment_bytes_max: 64 << 20,
            batch_bytes_max: 1 << 20,
            reserve_bytes: 64 << 20,
            seal_after: Duration::from_millis(50),
            create: true,
            log_id: None,
            ancestors: Vec::new(),
            sync_bytes: None,
        }
    }
}
