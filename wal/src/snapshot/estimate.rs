//! Estimates how much space a snapshot will take.

use super::layout::{BLOCK_BYTES, BLOCK_HEADER, KEPT_HEAD, NOTE_HEAD, NOTES_HEAD};
use crate::format::to_u64;
use crate::packed::Packer;

/// Number of first blocks that are all packed; of later blocks only some are.
const ALL_OF: u64 = 32;

/// Estimates how much space items take in a snapshot. Its blocks are packed, and how much smaller they
/// become is measured by packing some of them.
pub struct SizeEstimate {
    packer: Packer,
    /// One in this number of blocks is packed, after the first ones.
    one_of: u64,
    blocks: u64,
    /// The items of the current block, if it is one to pack.
    block: Vec<u8>,
    /// Bytes of the current block.
    filled: usize,
    /// Bytes of its notes, which are not packed.
    notes: usize,
    /// Bytes of all items.
    seen: u64,
    /// Bytes, among these, of items that are larger than a block: each says nothing about the others.
    large: u64,
    /// Bytes of the blocks that were packed, before packing and after.
    packed: (u64, u64),
}

impl SizeEstimate {
    /// Creates an estimate without items, which will pack one in `blocks` blocks.
    #[must_use]
    pub fn of_one_in(blocks: u64) -> Self {
        Self {
            packer: Packer::default(),
            one_of: blocks.max(1),
            blocks: 0,
            block: Vec::new(),
            filled: 0,
            notes: 0,
            seen: 0,
            large: 0,
            packed: (0, 0),
        }
    }

    /// Adds an item that consists of these parts; copies it at most, and only some items.
    pub fn item(&mut self, parts: &[&[u8]]) {
        let bytes = KEPT_HEAD + parts.iter().map(|part| part.len()).sum::<usize>();
        self.seen += to_u64(bytes);
        if bytes > BLOCK_BYTES {
            self.large += to_u64(BLOCK_HEADER + bytes);
            return;
        }
        self.filled += bytes;
        if self.blocks < ALL_OF || self.blocks.is_multiple_of(self.one_of) {
            self.block.resize(self.block.len() + KEPT_HEAD, 0);
            for part in parts {
                self.block.extend_from_slice(part);
            }
        }
    }

    /// Adds a note of `bytes` bytes to the item that was added last.
    pub fn noted(&mut self, bytes: usize) {
        self.notes += NOTE_HEAD + bytes;
    }

    /// Packs the current block, if it is full. Call it between items, while no other thread waits.
    pub fn settle(&mut self) {
        if self.filled >= BLOCK_BYTES {
            self.pack();
        }
    }

    fn pack(&mut self) {
        if !self.block.is_empty() {
            let packed = self
                .packer
                .pack(&self.block)
                .map_or(self.filled, <[u8]>::len);
            self.packed.0 += to_u64(self.filled);
            let notes = match self.notes {
                0 => 0,
                notes => NOTES_HEAD + notes,
            };
            self.packed.1 += to_u64(BLOCK_HEADER + notes + packed);
            self.block.clear();
        }
        (self.filled, self.notes) = (0, 0);
        self.blocks += 1;
    }

    /// Bytes of all items that were added, before they are packed.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns how much space all items take, in bytes.
    #[must_use]
    pub fn room(self) -> u64 {
        let (seen, large) = (self.seen, self.large);
        large.saturating_add(self.room_for(seen.saturating_sub(large)))
    }

    /// Returns how much space `bytes` bytes of such items take.
    #[must_use]
    pub fn room_for(mut self, bytes: u64) -> u64 {
        if self.filled > 0 {
            self.pack();
        }
        let (before, since) = self.packed;
        if before == 0 {
            return bytes;
        }
        let room = u128::from(bytes) * u128::from(since) / u128::from(before);
        u64::try_from(room).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(one_of: u64, item: impl Fn(u32) -> Vec<u8>) -> (u64, u64) {
        let mut estimate = SizeEstimate::of_one_in(one_of);
        for number in 0..20_000_u32 {
            estimate.item(&[&number.to_le_bytes(), &item(number)]);
            estimate.settle();
        }
        (estimate.seen(), estimate.room())
    }

    #[test]
    fn similar_data_is_estimated_small_and_dissimilar_data_at_its_own_size() {
        let alike =
            |number| format!("\"statementCode\":\"code-{number}\",\"status\":\"open\"").into();
        for one_of in [1, 16] {
            let (seen, room) = estimate(one_of, alike);
            assert!(room * 3 < seen && room * 20 > seen, "{room} of {seen}");
        }
        let (_, of_all) = estimate(1, alike);
        let (_, of_some) = estimate(16, alike);
        assert!(of_some.abs_diff(of_all) < of_all / 10);
        let random = |number: u32| blake3::hash(&number.to_le_bytes()).as_bytes().to_vec();
        let (seen, room) = estimate(4, random);
        assert!(
            room * 10 > seen * 7 && room <= seen + seen / 100,
            "{room} of {seen}"
        );
        assert_eq!(SizeEstimate::of_one_in(4).room_for(77), 77);
    }

    #[test]
    fn the_estimate_counts_notes_of_kept_records() {
        let room = |note: Option<usize>| {
            let mut estimate = SizeEstimate::of_one_in(1);
            for number in 0..5_000_u32 {
                estimate.item(&[&number.to_le_bytes(), &[7; 1_000]]);
                if let Some(bytes) = note {
                    estimate.noted(bytes);
                }
                estimate.settle();
            }
            estimate.room()
        };
        let notes = room(Some(20)) - room(None);
        assert!((5_000 * 24..5_000 * 26).contains(&notes), "{notes}");
    }

    #[test]
    fn a_large_item_takes_its_room_and_says_nothing_of_the_others() {
        let mut estimate = SizeEstimate::of_one_in(16);
        for _ in 0..100 {
            estimate.item(&[&[7; 1_000]]);
            estimate.settle();
        }
        let without = {
            let mut same = SizeEstimate::of_one_in(16);
            same.item(&[&[7; 1_000]]);
            same.room_for(100 * 1_012)
        };
        estimate.item(&[&vec![7; 1 << 20]]);
        let room = estimate.room();
        assert!(
            room > 1 << 20 && room < (1 << 20) + without + 2_000,
            "{room}, {without}"
        );
    }
}
