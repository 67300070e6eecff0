//! A file read piece by piece.

use std::io;

use crate::format::{is_zero, to_u64, to_usize};
use crate::storage::File;

/// Bytes of a file that are read at once by default.
pub(crate) const WINDOW: usize = 1 << 20;

/// A piece of a file in memory that moves along.
pub(crate) struct Window<'a> {
    file: &'a dyn File,
    length: u64,
    piece: usize,
    /// Maximum to which `piece` grows while reads follow closely one after the other.
    piece_most: usize,
    bytes: Vec<u8>,
    /// Number of bytes that were read from the file, at offset `start`.
    filled: usize,
    start: u64,
}

impl<'a> Window<'a> {
    pub(crate) fn new(file: &'a dyn File, length: u64) -> Self {
        Self::with_piece(file, length, WINDOW)
    }

    /// A window that reads at least `piece` bytes at a time.
    pub(crate) fn with_piece(file: &'a dyn File, length: u64, piece: usize) -> Self {
        Self {
            file,
            length,
            piece,
            piece_most: piece,
            bytes: Vec::new(),
            filled: 0,
            start: 0,
        }
    }

    /// A window for scattered reads: it reads at least `pieces.start` bytes at once, and twice as many
    /// each time that a read follows closely after the one before, up to `pieces.end`. `bytes` is memory
    /// to reuse.
    pub(crate) fn growing(
        file: &'a dyn File,
        length: u64,
        pieces: std::ops::Range<usize>,
        bytes: Vec<u8>,
    ) -> Self {
        let mut window = Self::with_piece(file, length, pieces.start);
        window.piece_most = pieces.end;
        window.bytes = bytes;
        window
    }

    /// Returns the window's memory, for reuse.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Offset in the file of the first byte in memory.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns `wanted` bytes at an offset, if they are in memory.
    pub(crate) fn read(&self, offset: u64, wanted: usize) -> Option<&[u8]> {
        let at = to_usize(offset.checked_sub(self.start)?);
        self.bytes[..self.filled].get(at..at.checked_add(wanted)?)
    }

    /// The bytes at an offset; fewer only at the end of the file.
    pub(crate) fn get(&mut self, offset: u64, wanted: usize) -> io::Result<&[u8]> {
        self.get_mut(offset, wanted).map(|bytes| &*bytes)
    }

    /// As [`Window::get`]. Changes to the bytes last until they are read from the file again.
    pub(crate) fn get_mut(&mut self, offset: u64, wanted: usize) -> io::Result<&mut [u8]> {
        let left = to_usize(self.length.saturating_sub(offset));
        let wanted = wanted.min(left);
        let end = self.start + to_u64(self.filled);
        if offset < self.start || offset + to_u64(wanted) > end {
            // This read skips fewer bytes than one piece has, so the next one may be larger.
            if offset > self.start && offset < end + to_u64(self.piece) {
                self.piece = self.piece.saturating_mul(2).min(self.piece_most);
            }
            let size = wanted.max(self.piece.min(left));
            if self.bytes.len() < size {
                self.bytes.resize(size, 0);
            }
            (self.start, self.filled) = (offset, 0);
            self.filled = self.file.read_at(&mut self.bytes[..size], offset)?;
        }
        let at = to_usize(offset - self.start);
        let upto = (at + wanted).min(self.filled);
        Ok(&mut self.bytes[at.min(upto)..upto])
    }
}

/// Returns the range from the first byte that is not zero to the one after the last.
pub(crate) fn nonzero(
    window: &mut Window<'_>,
    from: u64,
    to: u64,
) -> io::Result<Option<(u64, u64)>> {
    let (mut at, mut range) = (from, None);
    while at < to {
        let piece = window.get(at, WINDOW.min(to_usize(to - at)))?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !is_zero(piece) {
            let first = piece.iter().position(|byte| *byte != 0).unwrap_or(0);
            let last = piece.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            let (start, _) = range.unwrap_or((at + to_u64(first), 0));
            range = Some((start, at + to_u64(last) + 1));
        }
        at += to_u64(piece.len());
    }
    Ok(range)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::storage::ReadOnlyFile;

    /// A file in which each byte is the lowest byte of its offset; it ends at `ends`, whatever length it
    /// reports.
    struct Counted {
        ends: u64,
        calls: AtomicU64,
        /// Bytes that were requested in all; `largest` is the largest request.
        bytes: AtomicU64,
        largest: AtomicU64,
    }

    impl Counted {
        fn ending(ends: u64) -> Self {
            Self {
                ends,
                calls: AtomicU64::default(),
                bytes: AtomicU64::default(),
                largest: AtomicU64::default(),
            }
        }
    }

    impl ReadOnlyFile for Counted {
        fn length(&self) -> io::Result<u64> {
            Ok(1 << 30)
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.bytes
                .fetch_add(to_u64(buffer.len()), Ordering::Relaxed);
            self.largest
                .fetch_max(to_u64(buffer.len()), Ordering::Relaxed);
            let left = self.ends.checked_sub(offset);
            let left = to_usize(left.ok_or(io::ErrorKind::UnexpectedEof)?);
            for (byte, offset) in buffer.iter_mut().zip(offset..).take(left) {
                *byte = offset.to_le_bytes()[0];
            }
            Ok(buffer.len().min(left))
        }
    }

    /// Reads `count` headers that are `apart` bytes apart, then all bytes up to where the next one would
    /// be; returns the file with its counts, and the memory.
    fn read_for(apart: u64, count: u64, used: Vec<u8>) -> (Counted, Vec<u8>) {
        let file = Counted::ending(1 << 30);
        let mut window = Window::growing(&file, 1 << 30, 4 << 10..64 << 10, used);
        let all = (0..count).map(|number| (number * apart, 72));
        for (offset, wanted) in all.chain([((count - 1) * apart, to_usize(apart))]) {
            let found = window.get(offset, wanted).unwrap();
            assert_eq!(found.len(), wanted);
            let as_it_is = (offset..).map(|offset| offset.to_le_bytes()[0]);
            assert!(found.iter().copied().eq(as_it_is.take(wanted)));
        }
        let used = window.into_bytes();
        (file, used)
    }

    #[test]
    fn skipped_long_frames_are_read_by_head_and_short_ones_in_large_pieces() {
        let (long, used) = read_for(100_000, 4, Vec::new());
        assert_eq!(long.bytes.into_inner(), 4 * (4 << 10) + 100_000);
        // Reused memory holds other bytes, none of which may be seen.
        let (short, _) = read_for(600, 400, used);
        let (bytes, calls) = (short.bytes.into_inner(), short.calls.into_inner());
        assert!(bytes < 240_000 + (64 << 10), "{bytes}");
        assert!(calls < 12, "{calls}");
        assert_eq!(short.largest.into_inner(), 64 << 10);
    }

    #[test]
    fn reused_memory_is_filled_by_at_most_a_piece_and_shows_no_stale_bytes() {
        let file = Counted::ending(10_000);
        let used = vec![0xee; 256 << 10];
        let mut window = Window::growing(&file, 1 << 30, 4 << 10..64 << 10, used);
        let found = window.get(8_000, 4_000).unwrap();
        let as_it_is = (8_000..10_000_u64).map(|offset| offset.to_le_bytes()[0]);
        assert!(found.iter().copied().eq(as_it_is));
        assert_eq!(file.bytes.load(Ordering::Relaxed), 4 << 10);
        // After a failed read, the second attempt finds nothing in memory either.
        for _ in 0..2 {
            assert!(window.get(20_000, 10).is_err());
        }
    }
}
