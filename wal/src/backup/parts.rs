//! Parts of a manifest.

use crate::manifest::{Manifest, Seal, Segment};
use crate::survey::Survey;

/// Returns the segments before the first open one.
pub(super) fn sealed_at_the_beginning(manifest: &Manifest) -> &[Segment] {
    let segments = &manifest.segments;
    let count = segments.iter().take_while(|one| one.seal.is_some()).count();
    &segments[..count]
}

/// Returns a manifest of `segments` alone, which begins after the segments in `before`.
pub(super) fn part(manifest: &Manifest, before: &[Segment], segments: &[Segment]) -> Manifest {
    let mut part = Manifest {
        segments: segments.to_vec(),
        ..manifest.clone()
    };
    if let Some(seal) = before.last().and_then(|last| last.seal) {
        part.first_position = seal.last + 1;
        part.first_chain = seal.chain;
    }
    part
}

/// Returns the segments that were open, each sealed where its last proved frame ends.
pub(super) fn ends(survey: &Survey, mark: u64) -> Vec<Segment> {
    let mut segments = Vec::new();
    for open in &survey.open {
        let Some(end) = open.proved(mark) else {
            break;
        };
        segments.push(Segment {
            number: open.number,
            epoch: open.epoch,
            seal: Some(Seal {
                length: end.end,
                first: open.first,
                last: end.next - 1,
                chain: end.chain,
            }),
        });
        if end.end < open.end {
            break;
        }
    }
    segments
}

/// Returns the last position in the sealed segments.
pub(super) fn last_position(manifest: &Manifest) -> u64 {
    let seals = manifest.segments.iter().filter_map(|segment| segment.seal);
    let last = seals.map(|seal| seal.last).max();
    last.unwrap_or(manifest.first_position - 1)
}
