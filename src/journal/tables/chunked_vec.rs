//! A vector of entries of one size, in chunks, so that growing neither copies the entries nor leaves outgrown memory
//! behind.

use std::marker::PhantomData;
use std::ops::Range;

use super::memory::Piece;

/// Number of entries of a chunk.
pub(super) const CHUNK: usize = 64;

/// An entry that is always encoded in the same number of bytes.
pub(super) trait FixedSize: Copy {
    const BYTES: usize;
    fn write(self, bytes: &mut [u8]);
    fn read(bytes: &[u8]) -> Self;
}

/// A vector of entries, numbered without gaps.
pub(super) struct ChunkedVec<E> {
    chunks: Vec<Piece>,
    len: u32,
    entries: PhantomData<E>,
}

impl<E> Default for ChunkedVec<E> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
            entries: PhantomData,
        }
    }
}

/// Returns the chunk of the entry with this number, and the offset of the entry there.
fn place<E: FixedSize>(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / CHUNK, number % CHUNK * E::BYTES)
}

impl<E: FixedSize> ChunkedVec<E> {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the entry with this number.
    pub(super) fn at(&self, number: u32) -> E {
        let (chunk, start) = place::<E>(number);
        E::read(&self.chunks[chunk][start..][..E::BYTES])
    }

    /// Iterates over the entries with these numbers, as far as there are any.
    pub(super) fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = E> {
        let end = u32::try_from(numbers.end).map_or(self.len, |end| end.min(self.len));
        let start = u32::try_from(numbers.start).map_or(end, |start| start.min(end));
        (start..end).map(|number| self.at(number))
    }

    /// Replaces the entry with this number.
    pub(super) fn set(&mut self, number: u32, entry: E) {
        let (chunk, start) = place::<E>(number);
        entry.write(&mut self.chunks[chunk][start..][..E::BYTES]);
    }

    /// Makes room for one more entry, and writes this entry there without adding it: the next push then finds the
    /// place in the processor's cache.
    pub(super) fn reserve(&mut self, entry: E) {
        self.make_room();
        self.set(self.len, entry);
    }

    /// Adds an entry; returns its number.
    pub(super) fn push(&mut self, entry: E) -> u32 {
        let number = self.len;
        // Digests fill the shards evenly, and a shard with so many entries would take many GiB.
        let len = number.checked_add(1).expect("a shard has no 2^32 entries");
        self.make_room();
        self.set(number, entry);
        self.len = len;
        number
    }

    /// Removes the entry with this number; the last entry takes its place. Returns that entry with its former number,
    /// unless it is the removed one.
    pub(super) fn remove(&mut self, number: u32) -> Option<(E, u32)> {
        let last = self.len - 1;
        let moved = (number != last).then(|| {
            let moved = self.at(last);
            self.set(number, moved);
            (moved, last)
        });
        self.len = last;
        self.chunks.truncate((last as usize).div_ceil(CHUNK));
        moved
    }

    /// Makes room for the entry after the last.
    fn make_room(&mut self) {
        if self.len as usize == self.chunks.len() * CHUNK {
            let bytes = CHUNK * E::BYTES;
            let mut chunk = Piece::with_room_for(bytes);
            chunk.resize(bytes);
            self.chunks.push(chunk);
        }
    }

    /// Number of chunks.
    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Address of the list of chunks.
    #[cfg(test)]
    pub(super) fn noted(&self) -> *const u8 {
        self.chunks.as_ptr().cast()
    }
}
