//! The records that wait to be written, and the batches that are made of them.
//!
//! Records are added while no other caller can append, so adding one costs the same whatever already
//! waits: nothing is moved, no memory is allocated, a large record is not copied. All of that is done
//! before, or by the thread that makes batches.

use std::iter;

use crate::format::{Chain, to_u32, to_u64};
use crate::frame::{self, Place, RECORD_OVERHEAD, Records, frame_bytes};
use crate::packed::Packer;

/// Initial capacity of the first piece, in bytes; batches may make it larger.
const FIRST: usize = 64 << 10;
/// Capacity of a further piece, in bytes.
const PIECE: usize = 256 << 10;
/// Size from which on a record is moved instead of copied, in bytes.
const LARGE: usize = 16 << 10;

/// Records one after the other, each with its length before it: what a data frame carries.
///
/// They are kept in one piece, so that callers free what they allocated on their own threads, and the
/// journal thread neither frees nor visits single records. When that piece is full, records go to
/// further pieces, and a large record stays in its own memory; the thread that makes batches copies
/// all of them into the first piece.
#[derive(Default)]
pub(crate) struct Batched {
    bytes: Vec<u8>,
    further: Vec<Vec<u8>>,
    /// The next further piece.
    spare: Option<Vec<u8>>,
    /// Large records, each with the number of bytes in the pieces that come before it; the last of
    /// these bytes are the record's length.
    large: Vec<(usize, Vec<u8>)>,
    /// Number of bytes in all pieces.
    length: usize,
    /// The offset at which each record ends in the gathered bytes.
    ends: Vec<usize>,
}

/// A further piece, whose memory has been touched: that costs the most, so it is done before records
/// go there.
pub(crate) struct Spare(Vec<u8>);

impl Default for Spare {
    fn default() -> Self {
        let mut piece = vec![1; PIECE];
        piece.clear();
        Self(piece)
    }
}

impl Batched {
    /// Creates an empty queue with memory for the first records and a spare piece.
    pub(crate) fn with_room() -> Self {
        Self {
            bytes: Vec::with_capacity(FIRST),
            spare: Some(Spare::default().0),
            ..Self::default()
        }
    }

    pub(crate) fn of(records: &[Vec<u8>]) -> Self {
        let mut all = Self::default();
        let bytes = records.iter().map(|record| RECORD_OVERHEAD + record.len());
        all.bytes.reserve_exact(bytes.sum());
        for record in records {
            all.push(record);
        }
        all
    }

    pub(crate) fn push(&mut self, record: &[u8]) {
        let needed = RECORD_OVERHEAD + record.len();
        let piece = self.piece(needed);
        piece.extend_from_slice(&to_u32(record.len()).to_le_bytes());
        piece.extend_from_slice(record);
        self.length += needed;
        self.note(record.len());
    }

    /// As [`Batched::push`], for a record that the caller no longer needs: a large one is moved, not
    /// copied. A small one is copied, and left for the caller to free.
    pub(crate) fn push_taking(&mut self, record: &mut Vec<u8>) {
        if record.len() < LARGE {
            return self.push(record);
        }
        let record = std::mem::take(record);
        let length = record.len();
        let head = to_u32(length).to_le_bytes();
        self.piece(RECORD_OVERHEAD).extend_from_slice(&head);
        self.length += RECORD_OVERHEAD;
        self.large.push((self.length, record));
        self.note(length);
    }

    fn note(&mut self, record: usize) {
        let begin = self.ends.last().copied().unwrap_or(0);
        self.ends.push(begin + RECORD_OVERHEAD + record);
    }

    /// Returns a piece with free space for `needed` bytes.
    fn piece(&mut self, needed: usize) -> &mut Vec<u8> {
        let last = self.further.last().unwrap_or(&self.bytes);
        if last.capacity() - last.len() < needed {
            let spare = self.spare.take();
            let spare = spare.filter(|spare| spare.capacity() >= needed);
            let piece = spare.unwrap_or_else(|| Vec::with_capacity(PIECE.max(needed)));
            self.further.push(piece);
        }
        self.further.last_mut().unwrap_or(&mut self.bytes)
    }

    /// Whether the next further piece is still to be made.
    pub(crate) fn needs_spare(&self) -> bool {
        self.spare.is_none()
    }

    /// Keeps this as the next further piece, if there is none.
    pub(crate) fn keep_spare(&mut self, Spare(piece): Spare) {
        self.spare.get_or_insert(piece);
    }

    /// Copies all records into the first piece, in order.
    fn gather(&mut self) {
        if self.further.is_empty() && self.large.is_empty() {
            return;
        }
        let first_large = self.large.first().map_or(self.bytes.len(), |(at, _)| *at);
        let behind_large = self.bytes.split_off(first_large.min(self.bytes.len()));
        let mut at = self.bytes.len();
        let mut large = self.large.drain(..).peekable();
        for piece in iter::once(behind_large).chain(self.further.drain(..)) {
            let mut rest = piece.as_slice();
            while let Some((place, record)) = large.next_if(|(place, _)| *place <= at + rest.len())
            {
                let (before, behind) = rest.split_at(place - at);
                self.bytes.extend_from_slice(before);
                self.bytes.extend_from_slice(&record);
                at = place;
                rest = behind;
            }
            self.bytes.extend_from_slice(rest);
            at += rest.len();
            // A used piece is in the caches, and so better than a new one.
            if self.spare.is_none() && piece.capacity() == PIECE {
                let mut piece = piece;
                piece.clear();
                self.spare = Some(piece);
            }
        }
        self.length = self.bytes.len();
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets the records, and most of the memory beyond `keep_bytes`.
    pub(crate) fn clear(&mut self, keep_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep_bytes.max(FIRST));
        self.further.clear();
        self.large.clear();
        self.length = 0;
        self.ends.clear();
    }

    /// The records cut into batches, none with more than `bytes_max` bytes of records unless it is
    /// one record.
    pub(crate) fn batches(&mut self, bytes_max: usize) -> impl Iterator<Item = Batch<'_>> {
        self.gather();
        let this = &*self;
        let mut first = 0_usize;
        iter::from_fn(move || {
            let begin = first.checked_sub(1).map_or(0, |last| this.ends[last]);
            let rest = this.ends.get(first..).filter(|rest| !rest.is_empty())?;
            let fitting = rest.partition_point(|end| end - begin <= bytes_max);
            let count = fitting.max(1);
            first += count;
            Some(Batch {
                bytes: &this.bytes[begin..rest[count - 1]],
                count,
            })
        })
    }
}

/// Some records that become durable together.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Batch<'a> {
    /// Makes a batch of bytes in the form of [`Batch::bytes`]; `None` when they are not `count`
    /// records.
    #[must_use]
    pub fn of(bytes: &'a [u8], count: usize) -> Option<Self> {
        let mut rest = bytes;
        for _ in 0..count {
            let (length, behind) = rest.split_first_chunk::<RECORD_OVERHEAD>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            rest = behind.get(length..)?;
        }
        (count > 0 && rest.is_empty()).then_some(Self { bytes, count })
    }

    /// How many records there are, at least one.
    #[must_use]
    pub fn count(self) -> usize {
        self.count
    }

    /// The records, in order.
    pub fn records(self) -> impl Iterator<Item = &'a [u8]> {
        Records::of(self.bytes)
    }

    /// Appends the batch's data frame to `buffer`; advances the chain digest.
    pub(crate) fn frame(
        self,
        buffer: &mut Vec<u8>,
        packer: &mut Packer,
        place: Place,
        chain: &mut Chain,
    ) {
        frame::push_data(buffer, packer, place, chain, (self.count, self.bytes));
    }

    /// The records one after the other, each with its length before it: four bytes, the lowest
    /// first.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Maximum length of the frame, in bytes: that without packing.
    pub(crate) fn frame_bytes(self) -> u64 {
        to_u64(frame_bytes(self.bytes.len()))
    }

    /// Bytes of the records, without the lengths before them.
    #[must_use]
    pub fn payload_bytes(self) -> usize {
        self.bytes.len() - self.count * RECORD_OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes batches of at most `bytes_max` bytes; returns each one's bytes and number of records.
    fn batches(batched: &mut Batched, bytes_max: usize) -> Vec<(Vec<u8>, usize)> {
        let batches = batched.batches(bytes_max);
        batches
            .map(|batch| (batch.bytes.to_vec(), batch.count))
            .collect()
    }

    #[test]
    fn one_huge_batch_does_not_keep_its_memory() {
        let mut batched = Batched::with_room();
        for _ in 0..100 {
            batched.push(&[7; LARGE - 1]);
        }
        assert_eq!(batches(&mut batched, usize::MAX).len(), 1);
        assert!(batched.bytes.capacity() > 1 << 20);
        batched.clear(1 << 20);
        assert!(batched.is_empty());
        assert!(batched.bytes.capacity() <= 1 << 20);
        batched.clear(0);
        assert!(batched.bytes.capacity() <= FIRST);
    }

    #[test]
    fn records_of_all_sizes_are_batched_in_one_piece_and_in_order() {
        let sizes = [
            0,
            7,
            LARGE - 1,
            LARGE,
            3,
            LARGE + 9,
            LARGE,
            60_000,
            5,
            400_000,
            1,
            1,
        ];
        for skipped in 0..sizes.len() {
            let sizes = &sizes[skipped..];
            let records: Vec<Vec<u8>> = (0_u8..)
                .zip(sizes)
                .map(|(n, size)| vec![n; *size])
                .collect();
            let mut at_once = Batched::of(&records);
            for mut one_by_one in [Batched::default(), Batched::with_room()] {
                for round in 0..3 {
                    for record in &records {
                        if round == 1 {
                            one_by_one.push(record);
                        } else {
                            one_by_one.push_taking(&mut record.clone());
                        }
                    }
                    for most in [usize::MAX, 100_000, 1] {
                        let expected = batches(&mut at_once, most);
                        assert_eq!(batches(&mut one_by_one, most), expected);
                    }
                    one_by_one.clear([0, 1 << 20, 0][round]);
                    assert!(one_by_one.is_empty() && one_by_one.batches(1).next().is_none());
                }
            }
        }
    }

    #[test]
    fn records_pushed_after_batching_follow_those_batched_before() {
        let (small, large) = (vec![1; 9], vec![2; LARGE]);
        let mut batched = Batched::with_room();
        let mut records = Vec::new();
        for _ in 0..20 {
            for record in [&small, &large] {
                batched.push_taking(&mut record.clone());
                records.push(record.clone());
            }
            let expected = batches(&mut Batched::of(&records), usize::MAX);
            assert_eq!(batches(&mut batched, usize::MAX), expected);
        }
    }

    /// Returns the address of the first piece, and the numbers of further pieces and large records.
    fn pieces(batched: &Batched) -> (*const u8, usize, usize) {
        let first = batched.bytes.as_ptr();
        (first, batched.further.len(), batched.large.len())
    }

    #[test]
    fn a_push_moves_nothing_and_allocates_only_with_piece_and_spare_full() {
        let mut batched = Batched::with_room();
        let (first, ..) = pieces(&batched);
        for _ in 0..FIRST / 1_024 {
            batched.push_taking(&mut vec![1; 1_024 - RECORD_OVERHEAD]);
        }
        assert_eq!(pieces(&batched), (first, 0, 0));
        let spare = batched.spare.as_ref().map(Vec::as_ptr);
        batched.push_taking(&mut vec![1; 1]);
        assert_eq!(pieces(&batched), (first, 1, 0));
        assert_eq!(Some(batched.further[0].as_ptr()), spare);
        assert!(batched.needs_spare());
        batched.keep_spare(Spare::default());
        let spare = batched.spare.as_ref().map(Vec::as_ptr);
        batched.keep_spare(Spare::default());
        assert_eq!(
            batched.spare.as_ref().map(Vec::as_ptr),
            spare,
            "one is enough"
        );
    }

    #[test]
    fn a_large_record_is_taken_as_it_is_and_needs_no_piece_of_its_own() {
        let mut batched = Batched::with_room();
        for number in 1..100 {
            let mut record = vec![7; 1 << 20];
            let place = record.as_ptr();
            batched.push_taking(&mut record);
            assert!(record.is_empty());
            assert_eq!(batched.large[number - 1].1.as_ptr(), place);
            let mut small = vec![7; 3];
            batched.push_taking(&mut small);
            assert_eq!(small.len(), 3, "whoever has it frees it");
            assert_eq!(batched.further.len(), 0);
        }
    }

    #[test]
    fn the_spare_piece_of_a_queue_is_used_for_each_batch() {
        let mut batched = Batched::with_room();
        let spare = batched.spare.as_ref().map(Vec::as_ptr);
        for _ in 0..3 {
            while batched.further.is_empty() {
                batched.push_taking(&mut vec![1; 1_000]);
            }
            assert!(batched.needs_spare());
            assert!(batched.batches(1 << 20).next().is_some());
            assert_eq!(batched.spare.as_ref().map(Vec::as_ptr), spare);
            batched.clear(FIRST);
        }
    }

    #[test]
    fn batches_stay_within_a_byte_limit_unless_one_record_exceeds_it() {
        let mut batched = Batched::of(&[vec![0; 6], vec![0; 6], vec![0; 50], vec![], vec![0; 6]]);
        let mut counts = |bytes_max| -> Vec<_> {
            batched
                .batches(bytes_max)
                .map(|batch| batch.count)
                .collect()
        };
        assert_eq!(counts(20), [2, 1, 2]);
        assert_eq!(counts(19), [1, 1, 1, 2]);
        assert_eq!(counts(0), [1; 5]);
        assert_eq!(counts(usize::MAX), [5]);
        assert_eq!(Batched::default().batches(10).count(), 0);
    }
}
