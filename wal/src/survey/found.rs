//! The findings of a survey of the directory of a log.

use std::io;

use crate::format::{self, Chain, FIRST_FRAME};
use crate::manifest::{Manifest, Seal};
use crate::storage::Storage;
use crate::verdict::{Hole, Observation};
use crate::window::{Window, nonzero};

pub(crate) const MISSING: &str = "the frame that belongs here is missing";
pub(crate) const OTHER_RECORDS: &str =
    "the records in this segment are not those that the manifest lists";

/// Describes the fault of a file that ends before its records, which end at this offset.
pub(crate) fn ends_early(records_end: u64) -> String {
    format!("the file ends here, but its records go on to offset {records_end}")
}

/// A place in a file, and what was found there.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) what: String,
}

pub(crate) fn location(
    storage: &dyn Storage,
    name: &str,
    offset: u64,
    what: impl Into<String>,
) -> Location {
    Location {
        file: storage.describe(name),
        offset,
        what: what.into(),
    }
}

/// Returns the place where an unbroken log ends; `last_frame` is the number of the segment and the offset
/// where its last frame ends.
pub(super) fn end_location(
    storage: &dyn Storage,
    manifest: &Manifest,
    last_frame: Option<(u64, u64)>,
) -> Location {
    let first = manifest.segments.first();
    let last = last_frame.or_else(|| first.map(|segment| (segment.number, FIRST_FRAME)));
    match last {
        Some((number, offset)) => {
            let name = format::segment_name(number);
            location(storage, &name, offset, "the log ends here")
        }
        None => location(storage, format::MANIFEST, 0, "the log has no segments"),
    }
}

/// The content of a segment as it was read. The survey keeps it for segments that are open in the manifest.
#[derive(Clone, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    /// Number of sound frames, each of which follows the one before.
    pub(crate) frames: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The offset at which these frames end.
    pub(crate) end: u64,
    pub(crate) chain: Chain,
    /// The ends of the frames, to find those that the mark does not prove.
    pub(super) ends: Vec<FrameEnd>,
    /// The range from `end` to the last byte that is not zero; `None` when all after `end` are
    /// zero.
    pub(crate) torn: Option<(u64, u64)>,
}

/// Where a frame of an open segment ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameEnd {
    /// The lowest mark that proves the frame durable. For a frame without records, this is the
    /// position of the next record: a mark that reaches it was written later.
    pub(super) proved_by: u64,
    pub(crate) end: u64,
    /// The position after its last record.
    pub(crate) next: u64,
    pub(crate) chain: Chain,
}

impl OpenSegment {
    /// Returns the offset of the first frame that `mark` does not prove durable.
    pub(crate) fn unproved_from(&self, mark: u64) -> u64 {
        self.proved(mark).map_or(FIRST_FRAME, |last| last.end)
    }

    /// Returns the last frame that `mark` proves durable.
    pub(crate) fn proved(&self, mark: u64) -> Option<FrameEnd> {
        let proved = self.ends.iter().take_while(|end| end.proved_by <= mark);
        proved.last().copied()
    }

    /// Returns the hole after the frames of an open segment, if there is one, and what it is.
    pub(super) fn hole(&self, fault: Option<&'static str>) -> Option<(Hole, &'static str)> {
        match (fault, self.torn) {
            (Some(what), _) => Some((Hole::Unfinished, what)),
            (None, Some(_)) => Some((Hole::Blank, "a frame is missing here, and bytes follow")),
            (None, None) => None,
        }
    }

    /// Returns where the segment differs from its seal in the manifest, and how: an offset and a
    /// sentence.
    pub(super) fn difference(
        &self,
        seal: &Seal,
        fault: Option<&'static str>,
        window: &mut Window<'_>,
        length: u64,
    ) -> io::Result<Option<(u64, &'static str)>> {
        if self.end != seal.length {
            let what = fault.unwrap_or(MISSING);
            return Ok(Some((self.end, what)));
        }
        if (self.first, self.last, self.chain) != (seal.first, seal.last, seal.chain) {
            return Ok(Some((FIRST_FRAME, OTHER_RECORDS)));
        }
        let behind = nonzero(window, seal.length, length)?;
        Ok(
            behind
                .map(|(offset, _)| (offset, "there are bytes behind the end of a sealed segment")),
        )
    }
}

/// The findings of a survey.
pub(crate) struct Survey {
    pub(crate) observation: Observation,
    /// Where the log ends, or what is wrong with it.
    pub(crate) location: Location,
    /// The position after the last readable record.
    pub(crate) next: u64,
    pub(crate) chain: Chain,
    /// The highest durable mark found anywhere.
    pub(crate) mark: u64,
    pub(crate) records: u64,
    /// Bytes of the records that were shown.
    pub(crate) shown_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) segments: u64,
    pub(crate) open: Vec<OpenSegment>,
    /// Files that a crash left: to be removed.
    pub(crate) leftovers: Vec<String>,
    /// Files that are not this log's own: those of the log before a recovery that was interrupted.
    /// To be kept under another name.
    pub(crate) given_up: Vec<String>,
}
