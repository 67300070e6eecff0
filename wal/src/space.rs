//! How much space there is for records, and why there is none.

use std::fmt;
use std::sync::Arc;

/// Why nothing new should be appended just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The disk has less free space than the reserve.
    Space {
        /// Free bytes; `None` when the system does not tell.
        free: Option<u64>,
        /// The reserve.
        reserve: u64,
    },
    /// The current segment is nearly full, and there is no other.
    Segment {
        /// Why no other segment could be made.
        why: Arc<str>,
    },
    /// The place where the records are kept takes none just now.
    Journal {
        /// Why.
        why: Arc<str>,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space {
                free: Some(free),
                reserve,
            } => write!(
                f,
                "{free} bytes are free on the disk of the log, and {reserve} are the reserve"
            ),
            Self::Space { free: None, .. } => {
                f.write_str("the system does not tell how much space the disk of the log has")
            }
            Self::Segment { why } => write!(f, "the log has no other segment: {why}"),
            Self::Journal { why } => write!(f, "the journal takes nothing just now: {why}"),
        }
    }
}

/// The free space on the disk of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub free: u64,
    /// Bytes of the reserve.
    pub reserve: u64,
    /// Bytes of the segment that will be made next.
    pub next_segment: u64,
}

impl Space {
    /// Returns the bytes that others may write without touching the log's reserve or the space for
    /// its next segment.
    #[must_use]
    pub fn spare(&self) -> u64 {
        self.free
            .saturating_sub(self.reserve)
            .saturating_sub(self.next_segment)
    }
}
