//! Pieces of memory in some fifty sizes.
//!
//! A returned piece is kept for the next request of its size. Pieces larger than tables with usual content need come
//! from the allocator and return to it.

use std::mem;
use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;

use super::arena::{self, Memory};

/// Sizes up to `FINE` bytes are all multiples of this.
const UNIT: usize = 64;
const FINE: usize = 2 << 10;
/// Number of sizes per doubling beyond `FINE`.
const STEPS: usize = 4;
/// Largest size of a piece that is cut from an arena, in bytes.
const LARGEST: usize = 32 << 10;
const FINE_SIZES: usize = FINE / UNIT;
const SIZES: usize = FINE_SIZES + STEPS * (LARGEST / FINE).ilog2() as usize;

/// Bytes, with room for more after them, up to the end of the piece.
pub(in crate::journal::tables) struct Piece {
    /// The content after the first `len` bytes is arbitrary.
    memory: Held,
    len: usize,
}

enum Held {
    /// Cut from an arena.
    Cut(Memory),
    /// From the allocator, since it is larger than the largest size.
    Own(Box<[u8]>),
}

/// The pieces of one size.
struct Pool {
    free: Vec<Memory>,
    /// Memory from which no piece was cut yet.
    rest: Memory,
}

static POOLS: [Mutex<Pool>; SIZES] = [const {
    Mutex::new(Pool {
        free: Vec::new(),
        rest: &mut [],
    })
}; SIZES];

/// Returns the number of the size of a piece for `bytes`, at least one, and that size; `None` where the piece comes
/// from the allocator.
fn size(bytes: usize) -> Option<(usize, usize)> {
    if bytes <= FINE {
        let units = bytes.div_ceil(UNIT);
        Some((units - 1, units * UNIT))
    } else if bytes <= LARGEST {
        let doubling = (bytes - 1).ilog2();
        let base = 1 << doubling;
        let steps = (bytes - base).div_ceil(base / STEPS);
        let before = (doubling - FINE.ilog2()) as usize * STEPS;
        Some((
            FINE_SIZES + before + steps - 1,
            base + steps * (base / STEPS),
        ))
    } else {
        None
    }
}

impl Held {
    const NONE: Self = Self::Cut(&mut []);

    fn of(bytes: usize) -> Self {
        if bytes == 0 {
            return Self::NONE;
        }
        let Some((number, size)) = size(bytes) else {
            return Self::Own(vec![0; bytes].into());
        };
        let mut pool = POOLS[number].lock();
        if let Some(piece) = pool.free.pop() {
            return Self::Cut(piece);
        }
        if pool.rest.len() < size {
            pool.rest = arena::block();
        }
        let (piece, rest) = mem::take(&mut pool.rest).split_at_mut(size);
        pool.rest = rest;
        Self::Cut(piece)
    }

    fn all(&self) -> &[u8] {
        match self {
            Self::Cut(memory) => memory,
            Self::Own(memory) => memory,
        }
    }

    fn all_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Cut(memory) => memory,
            Self::Own(memory) => memory,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Self::Cut(memory) = self
            && !memory.is_empty()
            && let Some((number, _)) = size(memory.len())
        {
            POOLS[number].lock().free.push(mem::take(memory));
        }
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self {
            memory: Held::NONE,
            len: 0,
        }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.all()[..self.len]
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.all_mut()[..self.len]
    }
}

impl Piece {
    /// Creates an empty piece, with room for `bytes`.
    pub(in crate::journal::tables) fn with_room_for(bytes: usize) -> Self {
        Self {
            memory: Held::of(bytes),
            len: 0,
        }
    }

    /// Returns the room of a piece for `bytes`, which may be a little more.
    pub(in crate::journal::tables) fn room_for(bytes: usize) -> usize {
        match bytes {
            0 => 0,
            _ => size(bytes).map_or(bytes, |(_, size)| size),
        }
    }

    /// Returns the number of bytes that the piece has room for.
    pub(in crate::journal::tables) fn room(&self) -> usize {
        self.memory.all().len()
    }

    /// Appends these bytes, for which there must be room.
    pub(in crate::journal::tables) fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.memory.all_mut()[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Returns all bytes, with `by` more, for which there must be room; the content of the new ones is arbitrary.
    pub(in crate::journal::tables) fn lengthened(&mut self, by: usize) -> &mut [u8] {
        self.len += by;
        self
    }

    /// Sets the number of bytes, for which there must be room; added bytes are 0.
    pub(in crate::journal::tables) fn resize(&mut self, len: usize) {
        if let Some(added) = self.memory.all_mut()[..len].get_mut(self.len..) {
            added.fill(0);
        }
        self.len = len;
    }

    /// Keeps the first `len` bytes.
    pub(in crate::journal::tables) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Moves the bytes to a piece with room for `bytes`, unless this one has that size.
    pub(in crate::journal::tables) fn move_to_room_for(&mut self, bytes: usize) {
        if self.room() != Self::room_for(bytes) {
            let mut moved = Self::with_room_for(bytes);
            moved.extend_from_slice(self);
            *self = moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_little_and_are_numbered_without_gaps() {
        let mut before = (0, UNIT);
        for bytes in 1..=LARGEST {
            let (number, size) = size(bytes).expect("it is no larger than the largest");
            assert!(
                size >= bytes && size - bytes < UNIT.max(bytes / 3),
                "{bytes}: {size}"
            );
            assert!((number, size) == before || number == before.0 + 1 && size > before.1);
            assert!(arena::BLOCK >= size);
            before = (number, size);
        }
        assert_eq!(before, (SIZES - 1, LARGEST));
        assert_eq!(size(LARGEST + 1), None);
    }

    #[test]
    fn a_piece_keeps_its_bytes_while_it_grows_shrinks_and_others_come_and_go() {
        let mut pieces = Vec::new();
        for round in 0..6_usize {
            for number in 0..300_u32 {
                let len = (number as usize * 131 + round * 4_799) % 40_000;
                let mut piece = Piece::with_room_for(len);
                assert!(piece.is_empty() && piece.room() >= len);
                piece.resize(len);
                assert!(piece.iter().all(|byte| *byte == 0));
                piece.fill(number.to_le_bytes()[0]);
                pieces.push((number, len, piece));
            }
            for (number, len, piece) in &mut pieces {
                match round % 3 {
                    0 => piece.move_to_room_for(*len * 2),
                    1 => {
                        *len /= 2;
                        piece.truncate(*len);
                        piece.move_to_room_for(*len);
                    }
                    _ => {}
                }
                assert_eq!(piece.len(), *len);
                assert!(piece.iter().all(|byte| *byte == number.to_le_bytes()[0]));
            }
            let mut number = 0;
            pieces.retain(|_| {
                number += 1;
                number % 3 > 0
            });
        }
    }
}
