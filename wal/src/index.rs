//! A sparse index of the frames of a log, by which records are found.

use crate::format::{FIRST_FRAME, to_u64};

/// Minimum distance between two entries of the newest segments, in bytes of the log.
const STRIDE: u64 = 32 << 10;
/// Minimum distance between two entries of older segments, of which there may be many, in bytes of
/// the log.
const STRIDE_OF_OLD: u64 = 256 << 10;
/// Number of segments that count as the newest.
const NEWEST: usize = 32;

/// The place at which the search for a record begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    /// The offset from which on a frame is worth noting by [`Index::extend`].
    pub(crate) known: u64,
}

/// A frame: the first position that may be in it, and its offset.
pub(crate) type Noted = (u64, u64);

/// The places of some frames: the first one of each segment that has records, and one in each 32 or
/// 256 KiB. Of a segment that has not been read yet, only the first.
pub(crate) struct Index {
    /// The segments in the order of the log.
    segments: Vec<Frames>,
}

/// The noted frames of one segment.
struct Frames {
    number: u64,
    /// Positions and offsets both rise; never empty.
    noted: Vec<Noted>,
}

impl Frames {
    fn new(number: u64, position: u64, offset: u64) -> Self {
        let noted = vec![(position, offset)];
        Self { number, noted }
    }

    fn first(&self) -> u64 {
        self.noted.first().map_or(0, |(position, _)| *position)
    }

    fn last_offset(&self) -> u64 {
        self.noted.last().map_or(0, |(_, offset)| *offset)
    }

    /// Notes a frame, unless it begins less than `stride` bytes after the last noted one.
    fn note(&mut self, (position, offset): Noted, stride: u64) {
        if offset >= self.last_offset() + stride {
            self.noted.push((position, offset));
        }
    }

    fn thin(&mut self) {
        let (first, at) = self.noted[0];
        let mut thinned = Self::new(self.number, first, at);
        for frame in &self.noted {
            thinned.note(*frame, STRIDE_OF_OLD);
        }
        thinned.noted.shrink_to_fit();
        *self = thinned;
    }
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            segments: Vec::new(),
        }
    }

    /// Notes a data frame; frames come in order.
    pub(crate) fn note(&mut self, position: u64, segment: u64, offset: u64) {
        match self.segments.last_mut() {
            Some(last) if last.number == segment => last.note((position, offset), STRIDE),
            _ => self.push(Frames::new(segment, position, offset)),
        }
    }

    /// Notes a segment without reading it; its frames begin with this position.
    pub(crate) fn list(&mut self, position: u64, segment: u64) {
        self.push(Frames::new(segment, position, FIRST_FRAME));
    }

    fn push(&mut self, frames: Frames) {
        self.segments.push(frames);
        if let Some(old) = self.segments.len().checked_sub(NEWEST + 1) {
            self.segments[old].thin();
        }
    }

    /// Notes the frames that a reader has passed in a segment after an entry, in order.
    pub(crate) fn extend(&mut self, segment: u64, passed: &[Noted]) {
        if let Some(frames) = self.position_of(segment) {
            for frame in passed {
                self.segments[frames].note(*frame, STRIDE_OF_OLD);
            }
        }
    }

    /// Returns the offset from which on a further frame is worth noting.
    pub(crate) fn known_after((_, offset): &Noted) -> u64 {
        offset + STRIDE_OF_OLD
    }

    /// Whether the log still has this segment, and records in it.
    pub(crate) fn has(&self, segment: u64) -> bool {
        self.position_of(segment).is_some()
    }

    fn position_of(&self, segment: u64) -> Option<usize> {
        let found = self
            .segments
            .binary_search_by_key(&segment, |frames| frames.number);
        found.ok()
    }

    /// Forgets all segments before this position, which is the first of a segment.
    pub(crate) fn forget_before(&mut self, position: u64) {
        self.segments.retain(|frames| frames.first() >= position);
    }

    /// Returns up to `count` positions, in order, that divide the records from a position to another one into parts of
    /// about as many bytes of the log: `from`, and the first positions of noted frames.
    pub(crate) fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64> {
        if from > upto {
            return Vec::new();
        }
        // The segments, each with the bytes of those before it.
        let (mut bytes, mut segments) = (0, Vec::with_capacity(self.segments.len()));
        for frames in &self.segments {
            segments.push((bytes, frames));
            bytes += frames.last_offset();
        }
        let place_of = |position: u64| {
            let behind = segments.partition_point(|(_, frames)| frames.first() <= position);
            let (before, frames) = segments[..behind].last()?;
            let behind = frames.noted.partition_point(|frame| frame.0 <= position);
            let (_, offset) = frames.noted[..behind].last()?;
            Some(before + offset)
        };
        let position_at = |place: u64| {
            let behind = segments.partition_point(|(before, _)| *before <= place);
            let (before, frames) = segments[..behind].last()?;
            let behind = frames
                .noted
                .partition_point(|frame| before + frame.1 <= place);
            let (position, _) = frames.noted.get(behind.saturating_sub(1))?;
            Some(*position)
        };
        let mut spread = vec![from];
        if let (Some(begin), Some(end)) = (place_of(from), place_of(upto)) {
            let parts = to_u64(count.max(1));
            let places = (1..parts).map(|part| begin + (end - begin) / parts * part);
            let positions = places.filter_map(position_at);
            spread.extend(positions.filter(|position| from < *position && *position <= upto));
            spread.dedup();
        }
        spread
    }

    /// Returns the last noted frame that begins at a position or before it.
    pub(crate) fn before(&self, position: u64) -> Option<Entry> {
        let behind = self
            .segments
            .partition_point(|frames| frames.first() <= position);
        let frames = self.segments.get(behind.checked_sub(1)?)?;
        let behind = frames
            .noted
            .partition_point(|(first, _)| *first <= position);
        let (_, offset) = frames.noted.get(behind.checked_sub(1)?)?;
        Some(Entry {
            segment: frames.number,
            offset: *offset,
            known: frames.last_offset() + STRIDE_OF_OLD,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const FRAME: u64 = 4 << 10;

    /// A segment of 1 MiB in frames of 4 KiB, ten records in each.
    fn fill(index: &mut Index, segment: u64) {
        for frame in 0..256 {
            let position = 1 + (segment - 1) * 2_560 + frame * 10;
            index.note(position, segment, FIRST_FRAME + frame * FRAME);
        }
    }

    #[test]
    fn a_position_is_found_within_a_stride_and_old_segments_cost_less_memory() {
        let mut index = Index::new();
        let segments = 100;
        for segment in 1..=segments {
            fill(&mut index, segment);
        }
        for (segment, stride) in [
            (1, STRIDE_OF_OLD),
            (68, STRIDE_OF_OLD),
            (69, STRIDE),
            (100, STRIDE),
        ] {
            for frame in 0..256 {
                let position = 1 + (segment - 1) * 2_560 + frame * 10;
                let offset = FIRST_FRAME + frame * FRAME;
                for position in [position, position + 9] {
                    let found = index.before(position).unwrap();
                    assert_eq!(found.segment, segment);
                    assert!(
                        found.offset <= offset && offset - found.offset < stride,
                        "{position}"
                    );
                }
            }
        }
        let noted: usize = index.segments.iter().map(|frames| frames.noted.len()).sum();
        assert_eq!(noted, NEWEST * 32 + (100 - NEWEST) * 4);
        index.forget_before(1 + 50 * 2_560);
        assert_eq!(index.before(50 * 2_560), None);
        assert!(!index.has(50) && index.has(51));
        assert_eq!(index.before(1 + 50 * 2_560).unwrap().segment, 51);
        assert_eq!(index.before(0), None);
    }

    #[test]
    fn positions_are_spread_over_log_bytes_whatever_the_record_count() {
        let mut index = Index::new();
        // A segment of 1 MiB in frames of a thousand records, and three in frames of one.
        let mut position = 1;
        for segment in 1..=4 {
            for frame in 0..256 {
                index.note(position, segment, FIRST_FRAME + frame * FRAME);
                position += if segment == 1 { 1_000 } else { 1 };
            }
        }
        let last = position - 1;
        let spread = index.spread(1, last, 16);
        assert_eq!((spread.len(), spread[0]), (16, 1));
        assert!(spread.is_sorted_by(|one, next| one < next), "{spread:?}");
        let in_first = spread.iter().filter(|position| **position <= 256_000);
        assert_eq!(in_first.count(), 4, "a quarter of the bytes: {spread:?}");
        // A range begins with its first position and ends with its last.
        let spread = index.spread(500, 256_100, 8);
        assert_eq!(spread[0], 500);
        assert!(spread.len() > 6 && spread.iter().all(|position| *position <= 256_100));
        // There are no more parts than noted frames, and none without records.
        assert_eq!(index.spread(256_010, 256_020, 8), [256_010]);
        assert!(index.spread(1, last, 1_000).len() <= 4 * 32);
        assert_eq!(index.spread(9, 8, 8), [0_u64; 0]);
        assert_eq!(Index::new().spread(1, 8, 8), [1]);
    }

    #[test]
    fn a_segment_that_was_not_read_is_noted_as_somebody_passes_it() {
        let mut index = Index::new();
        index.list(1, 1);
        fill(&mut index, 2);
        let begun = index.before(2_000).unwrap();
        assert_eq!((begun.segment, begun.offset), (1, FIRST_FRAME));
        let passed = |from: u64| {
            let frames = (0..256).map(|frame| (1 + frame * 10, FIRST_FRAME + frame * FRAME));
            frames.filter(move |(_, offset)| *offset >= from)
        };
        let noted: Vec<_> = passed(begun.known).collect();
        index.extend(1, &noted);
        let now = index.before(2_000).unwrap();
        assert!(FIRST_FRAME + 199 * FRAME - now.offset < STRIDE_OF_OLD);
        // A second reader that passed the same frames at the same time notes nothing twice.
        index.extend(1, &noted);
        assert_eq!(index.segments[0].noted.len(), 4);
        assert_eq!(passed(now.known).count(), 0);
        // Nor does a reader that notes its frames after the segment was removed.
        index.forget_before(2_561);
        index.extend(1, &noted);
        assert_eq!(index.before(2_000), None);
    }
}
