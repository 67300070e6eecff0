//! Builds an index from all its entries at once: nothing grows, and the data stays in the cache.

use super::{BEGINS, HashIndex, LOAD, PARTS, Part, ROW, Row, TAGGED, part, segment, tag};
use crate::base::digest::Digest;
use crate::journal::parallel::join;
use crate::journal::tables::memory::Piece;

impl HashIndex {
    /// Builds an index of `count` entries, no two of which have the same key, with two threads.
    pub(in crate::journal::tables) fn of(
        count: usize,
        all: impl Iterator<Item = (Digest, u32)>,
    ) -> Self {
        let [a, b, c, d] = by_parts(count, all);
        let (first, last) = join(
            || [Part::filled(a), Part::filled(d)],
            || [Part::filled(b), Part::filled(c)],
        );
        let ([a, d], [b, c]) = (first, last);
        Self([a, b, c, d])
    }

    /// Builds an index of `count` entries; `None` where two of them have the same key, for which `are_same` compares
    /// entries with the same tag.
    pub(in crate::journal::tables) fn of_different(
        count: usize,
        all: impl Iterator<Item = (Digest, u32)>,
        are_same: impl Fn(u32, u32) -> bool,
    ) -> Option<Self> {
        let index = Self(by_parts(count, all).map(Part::filled));
        let mut rows = index.0.iter().flat_map(|part| &part.rows);
        let is_any_twice = rows.any(|row| row.has_any_twice(&are_same));
        (!is_any_twice).then_some(index)
    }
}

/// An entry, with the spread and the tag of its key.
struct Spread {
    spread: u32,
    tag: u8,
    entry: u32,
}

/// Groups `count` entries by the parts of their keys.
fn by_parts(count: usize, all: impl Iterator<Item = (Digest, u32)>) -> [Vec<Spread>; PARTS] {
    let ends = BEGINS.map(usize::from).into_iter().chain([256]);
    let mut begin = 0;
    let mut parts: [Vec<_>; PARTS] = Default::default();
    for (part, end) in parts.iter_mut().zip(ends) {
        // The expected share and its deviation, since growing would move all of it.
        part.reserve_exact((end - begin) * count / 256 + count / 32);
        begin = end;
    }
    for (key, entry) in all {
        parts[part(key)].push(Spread {
            spread: u32::from_le_bytes(HashIndex::spread_of(key)),
            tag: tag(key),
            entry,
        });
    }
    parts
}

impl Part {
    /// Builds a part of these entries.
    fn filled(entries: Vec<Spread>) -> Self {
        let len = entries.len();
        let segments = len.div_ceil(LOAD);
        let mut counts = vec![0; segments.next_multiple_of(ROW)];
        for one in &entries {
            counts[segment(one.spread as usize, segments)] += 1;
        }
        let (rows, _) = counts.as_chunks::<ROW>();
        let mut part = Self {
            rows: rows.iter().copied().map(Row::with_room_for).collect(),
            segments,
            len,
        };
        for Spread { spread, tag, entry } in entries {
            let number = segment(spread as usize, segments);
            // Each segment is filled from its last place down.
            counts[number] -= 1;
            let at = counts[number] as usize;
            part.rows[number / ROW].set(number % ROW, at, tag, entry);
        }
        part
    }
}

impl Row {
    /// Whether two entries of a segment with the same tag have the same key.
    fn has_any_twice(&self, are_same: impl Fn(u32, u32) -> bool) -> bool {
        (0..ROW).any(|segment| {
            let (tags, _) = self.tagged(segment);
            tags.iter().enumerate().any(|(at, tag)| {
                let one = self.entry(segment, at);
                // The search finds the entry itself, or an earlier one with its tag.
                let first = self.find(segment, *tag, |other| other == one || are_same(one, other));
                first != Some(at)
            })
        })
    }

    /// Creates a row with this many entries in its segments, which are still to be set.
    fn with_room_for(counts: [u32; ROW]) -> Self {
        let mut all = 0;
        let ends = counts.map(|count| {
            all += count;
            all
        });
        let len = all as usize * TAGGED;
        let mut bytes = Piece::with_room_for(len);
        bytes.resize(len);
        Self { ends, bytes }
    }
}
