//! The steps of a reading.

use super::files::Place;
use super::shown::FrameInfo;
use crate::error::Error;
use crate::frame::FrameHeader;

/// A batch that was read and is not proved yet.
pub(super) struct HeldBack {
    pub(super) bytes: Vec<u8>,
    pub(super) header: FrameHeader,
    pub(super) batch: FrameInfo,
    pub(super) behind: Place,
}

/// The next step at the end of the frames of a segment.
pub(super) enum Turn {
    /// Reads on at the same place.
    Again,
    /// Goes on in the segment with this index.
    Segment(usize),
    /// Nothing follows.
    End,
    Doubt(Error),
}

/// How one pass over the files ended.
pub(super) enum Pass {
    End {
        stopped: bool,
        unproved: u64,
    },
    /// Damage, or the work of a process that is changing the manifest.
    Doubt(Error),
}

impl Pass {
    pub(super) const END: Self = Self::End {
        stopped: false,
        unproved: 0,
    };
    pub(super) const STOPPED: Self = Self::End {
        stopped: true,
        unproved: 0,
    };
}
