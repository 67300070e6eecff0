//! Reads a segment frame by frame, and checks its header and that each frame follows the one
//! before.

use std::io;

use crate::format::{self, Chain, FIRST_FRAME, SegmentHeader, is_zero, to_u64, to_usize};
use crate::frame::{self, FrameHeader, HEADER, KIND_SEAL, KIND_START};
use crate::manifest::Segment;
use crate::window::Window;

/// The result of a step at one offset.
pub(crate) enum Step {
    /// A sound frame that follows the one before.
    Frame(FrameHeader),
    End(End),
}

/// Why there is no further frame.
pub(crate) enum End {
    Blank,
    Unfinished(&'static str),
    Impossible(&'static str),
}

impl End {
    /// Returns what is wrong there; `None` for zeros.
    pub(crate) fn what(&self) -> Option<&'static str> {
        match *self {
            Self::Blank => None,
            Self::Unfinished(what) | Self::Impossible(what) => Some(what),
        }
    }
}

/// The expectations that the next frame has to match.
pub(crate) struct Expected<'a> {
    pub(crate) segment: &'a Segment,
    /// The offset at which the segment's frames end at the latest.
    pub(crate) limit: u64,
    pub(crate) seed: u32,
    /// The position of the next record.
    pub(crate) next: u64,
    /// The digest after the last frame.
    pub(crate) chain: &'a Chain,
}

/// Reads and checks the place where the next frame may be. Raises `mark` when a start frame states
/// that records before it, which are missing, were durable. Packed records are unpacked into
/// `unpacked`, for [`FrameHeader::records_again`].
pub(crate) fn step(
    window: &mut Window<'_>,
    offset: u64,
    expected: &Expected<'_>,
    mark: &mut u64,
    unpacked: &mut Vec<u8>,
) -> io::Result<Step> {
    let left = expected.limit - offset;
    if left < to_u64(HEADER) {
        let blank = is_zero(window.get(offset, to_usize(left))?);
        return Ok(if blank {
            Step::End(End::Blank)
        } else {
            Step::End(End::Unfinished("the frame is cut off"))
        });
    }
    let head = window.get(offset, HEADER)?;
    if head.len() < HEADER {
        // The process that has the log open has truncated the file since its length was read.
        return Ok(Step::End(End::Unfinished("the file has become shorter")));
    }
    let header = match FrameHeader::parse(head, expected.seed) {
        frame::HeaderFound::Blank => return Ok(Step::End(End::Blank)),
        frame::HeaderFound::Unsound => {
            return Ok(Step::End(End::Unfinished(
                "the frame's header is unfinished or altered",
            )));
        }
        frame::HeaderFound::Sound(header) => header,
    };
    let starts = offset == FIRST_FRAME;
    if header.segment != expected.segment.number || header.epoch != expected.segment.epoch {
        return Ok(Step::End(End::Impossible(
            "the frame belongs to another segment",
        )));
    }
    if !header.is_known()
        || (header.kind == KIND_START) != starts
        || header.is_data() != (header.records > 0)
        || header.durable >= header.first
    {
        return Ok(Step::End(End::Impossible(
            "the frame's header contradicts itself",
        )));
    }
    if header.bytes() > left {
        return Ok(Step::End(End::Unfinished("the frame is cut off")));
    }
    let bytes = window.get_mut(offset, to_usize(header.bytes()))?;
    if to_u64(bytes.len()) != header.bytes() || !header.payload_is_sound(bytes, expected.seed) {
        return Ok(Step::End(End::Unfinished(
            "the frame's payload is unfinished or altered",
        )));
    }
    if starts && header.first > expected.next {
        *mark = (*mark).max(header.durable);
        return Ok(Step::End(End::Unfinished(
            "the records before this segment are missing",
        )));
    }
    if header.first != expected.next || !header.follows(bytes, expected.chain) {
        return Ok(Step::End(End::Impossible(
            "the frame does not follow the one before it: something was altered, removed or moved",
        )));
    }
    let made = match header.kind {
        KIND_START => {
            bytes[HEADER..HEADER + usize::from(header.payload == 16) * 16] == *expected.chain
        }
        KIND_SEAL => header.payload == 0,
        _ => header.records(bytes, unpacked).is_some(),
    };
    if !made {
        return Ok(Step::End(End::Impossible(
            "the frame's payload is not what its kind demands",
        )));
    }
    Ok(Step::Frame(header))
}

/// Maximum number of bytes behind the length with which an open segment was made that count as part of its torn tail:
/// they are read, copied and overwritten.
const BEHIND_MAX: u64 = 64 << 20;

/// Returns what is wrong with a segment's header: nothing, an offset and a sentence, or a version
/// that is too new.
pub(crate) fn header_fault(
    block: &[u8],
    segment: &Segment,
    log: format::LogId,
    length: u64,
) -> Result<Option<(u64, &'static str)>, u32> {
    let header = match SegmentHeader::parse(block) {
        format::HeaderFound::Sound(header) => header,
        format::HeaderFound::Unsupported(version) => return Err(version),
        format::HeaderFound::Damaged { offset, what } => return Ok(Some((offset, what))),
    };
    Ok(if header.log != log {
        Some((16, "the segment belongs to another log"))
    } else if header.number != segment.number {
        Some((40, "the file holds another segment of this log"))
    } else if header.epoch != segment.epoch {
        Some((32, "the segment belongs to another epoch"))
    } else if segment.seal.is_none() && length > header.size.saturating_add(BEHIND_MAX) {
        Some((
            header.size,
            "more bytes are behind the end of the segment than belong to a torn tail",
        ))
    } else if segment.seal.is_none() && length < header.size {
        Some((
            length,
            "the file has lost its end, or the manifest is older than it",
        ))
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_segment_may_be_longer_than_made_within_a_bound_never_shorter() {
        let header = SegmentHeader {
            log: [7; 16],
            epoch: 2,
            number: 3,
            size: 8 << 10,
        };
        let segment = Segment {
            number: 3,
            epoch: 2,
            seal: None,
        };
        let block = header.encode();
        let most = header.size + BEHIND_MAX;
        for (length, is_right) in [
            (header.size - 1, false),
            (header.size, true),
            (most, true),
            (most + 1, false),
            (u64::MAX, false),
        ] {
            let fault = header_fault(&block, &segment, header.log, length);
            assert_eq!(matches!(fault, Ok(None)), is_right, "{length}");
        }
    }
}
