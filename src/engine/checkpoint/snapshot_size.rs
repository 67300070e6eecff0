//! Estimates the size of the next snapshot.

use std::cell::RefCell;
use std::ops::ControlFlow;

use wal::SizeEstimate;

use crate::engine::core::Shared;
use crate::journal::key_use::NOTE_BYTES;

/// One block of states in this many is compressed, as a sample of how small they become.
const ONE_IN: u64 = 16;
/// Maximum number of the newest records that are compressed as a sample; their bytes are limited by `RECORD_BYTES`.
const RECORDS: u64 = 4_000;
const RECORD_BYTES: u64 = 512 << 10;
/// Allowance in bytes for the header, the end, and the data about the whole log.
const ROUGHLY: u64 = 32 << 10;
/// The estimate is raised by one part in this many.
const MARGIN: u64 = 8;

impl Shared {
    /// Estimates a snapshot's size in bytes, rather too high than too low: the present states, what the last snapshot
    /// keeps of records, and all records since. `throttle` is called now and then, and can end the work.
    pub(super) fn snapshot_size(
        &self,
        throttle: &mut dyn FnMut() -> Result<(), wal::Error>,
    ) -> Result<u64, wal::Error> {
        let states = RefCell::new(SizeEstimate::of_one_in(ONE_IN));
        self.tables.copy_states(
            |standing| {
                // Stands for an entry's kind, version, position and place in a list.
                let places = [standing.position, standing.position, 0].map(u64::to_le_bytes);
                let parts = [places.as_flattened(), &standing.key.0, standing.bytes];
                states.borrow_mut().item(&parts);
            },
            || {
                states.borrow_mut().settle();
                throttle()
            },
        )?;
        let states = states.into_inner().room();
        let bytes = states
            .saturating_add(self.journal.kept_bytes())
            .saturating_add(self.packed_since()?);
        Ok(bytes.saturating_add(bytes / MARGIN).saturating_add(ROUGHLY))
    }

    /// Estimates how many bytes the records since the newest snapshot take in the next one, by the newest of them.
    /// Reads no record that the snapshot does not have to read.
    fn packed_since(&self) -> Result<u64, wal::Error> {
        let durable = self.journal.durable();
        let newest = self.journal.snapshots().first().copied();
        let first = newest.map_or(1, |newest| newest.covers + 1);
        let first = first.max(durable.saturating_sub(RECORDS));
        let mut records = SizeEstimate::of_one_in(1);
        self.journal.records(first, durable, &mut |record| {
            records.item(&[record.payload]);
            records.noted(NOTE_BYTES);
            records.settle();
            Ok(match records.seen() < RECORD_BYTES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        Ok(records.room_for(self.journal.log_bytes_since_snapshot()))
    }
}
