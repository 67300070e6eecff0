//! The buffer into which JSON and encoded states are written before their final size is known: memory
//! of a thread's own that is used again and again.
//!
//! Most pieces that are written are short: a name, a word, a byte. A `Vec` reserves capacity and calls
//! `memcpy` for each; here short pieces are copied as two halves of a fixed size that overlap.

use std::cell::Cell;
use std::io;

/// Maximum size of a buffer that is kept after use, in bytes; a larger one is freed.
const KEPT_MAX: usize = 64 << 10;

/// Bytes that were written, with spare capacity after them.
#[derive(Debug, Default)]
pub struct Output {
    /// The whole buffer is initialized; the bytes from `end` on have no meaning.
    room: Vec<u8>,
    end: usize,
}

/// Returns what `write` makes of the thread's buffer, which is empty at first.
pub fn in_scratch<T>(write: impl FnOnce(&mut Output) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<Output> = const { Cell::new(Output { room: Vec::new(), end: 0 }) };
    }
    // A nested call gets a fresh buffer.
    let mut output = SCRATCH.take();
    output.end = 0;
    let made = write(&mut output);
    if output.room.len() <= KEPT_MAX {
        SCRATCH.set(output);
    }
    made
}

/// Copies all of `bytes`, of which there are `N` to `2 * N`, to `to`, which is as long: the first `N`
/// and the last `N`. Returns these two halves, which overlap.
#[inline(always)]
pub(super) fn copy_halves<'b, const N: usize>(
    bytes: &'b [u8],
    to: &mut [u8],
) -> Option<(&'b [u8; N], &'b [u8; N])> {
    let halves = (bytes.first_chunk::<N>()?, bytes.last_chunk::<N>()?);
    *to.first_chunk_mut::<N>()? = *halves.0;
    *to.last_chunk_mut::<N>()? = *halves.1;
    Some(halves)
}

impl Output {
    /// The bytes that were written.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.room[..self.end]
    }

    /// How many bytes were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Removes what was written from `end` on.
    pub fn truncate(&mut self, end: usize) {
        self.end = self.end.min(end);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        let needed = self.end + more;
        self.room
            .resize(needed.max(2 * self.room.len()).max(1_024), 0);
    }

    /// Writes one byte.
    #[inline(always)]
    pub fn byte(&mut self, byte: u8) {
        if self.end == self.room.len() {
            self.grow(1);
        }
        self.room[self.end] = byte;
        self.end += 1;
    }

    /// Writes all of these bytes.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        match bytes {
            [byte] => self.byte(*byte),
            bytes => self.put_some(bytes),
        }
    }

    /// Appends `bytes` bytes for the caller to fill in; they count as written.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        let begin = self.end;
        if self.room.len() - begin < bytes {
            self.grow(bytes);
        }
        self.end = begin + bytes;
        &mut self.room[begin..self.end]
    }

    #[inline]
    fn put_some(&mut self, bytes: &[u8]) {
        let place = self.room(bytes.len());
        let copied = match bytes.len() {
            16..=32 => copy_halves::<16>(bytes, place).is_some(),
            8..16 => copy_halves::<8>(bytes, place).is_some(),
            4..8 => copy_halves::<4>(bytes, place).is_some(),
            2..4 => copy_halves::<2>(bytes, place).is_some(),
            33..=64 => copy_halves::<32>(bytes, place).is_some(),
            _ => false,
        };
        if !copied {
            place.copy_from_slice(bytes);
        }
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_scratch_buffer_returns_pieces_of_every_length_unchanged() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3_000).collect();
        for _ in 0..3 {
            let mut expected = Vec::new();
            in_scratch(|output| {
                assert!(output.is_empty());
                for length in (0..200).chain([1_000, 3_000]) {
                    output.put(&bytes[..length]);
                    expected.extend_from_slice(&bytes[..length]);
                    output.byte(7);
                    expected.push(7);
                    assert_eq!(output.len(), expected.len());
                }
                assert_eq!(output.as_slice(), expected);
                output.truncate(10);
                assert_eq!(output.as_slice(), &expected[..10]);
            });
        }
    }

    #[test]
    fn one_within_another_is_its_own_and_a_large_one_is_not_kept() {
        in_scratch(|outer| {
            outer.put(b"outer");
            in_scratch(|inner| inner.put(&[1; 2 * KEPT_MAX]));
            assert_eq!(outer.as_slice(), b"outer");
        });
        in_scratch(|output| output.put(&[1; 2 * KEPT_MAX]));
        in_scratch(|output| assert!(output.room.len() <= KEPT_MAX));
    }
}
