//! How large the next snapshot may be.

use std::cell::RefCell;
use std::ops::ControlFlow;

use wal::SizeEstimate;

use crate::engine::core::Shared;
use crate::journal::key_use::NOTE_BYTES;

/// Of so many blocks of states one is packed to see how small it becomes.
const ONE_IN: u64 = 16;
/// The newest records of the log, so many and of so many bytes, are packed to see the same.
const RECORDS: u64 = 4_000;
const RECORD_BYTES: u64 = 512 << 10;
/// For the header, the end, and what is known of the whole log.
const ROUGHLY: u64 = 32 << 10;
/// The whole may have one part in so many more.
const MARGIN: u64 = 8;

impl Shared {
    /// A snapshot's bytes, rather too many than too few: the present states, what the last one keeps of
    /// records, and all records since. `throttle` is called now and then, and can end the work.
    pub(super) fn snapshot_size(
        &self,
        throttle: &mut dyn FnMut() -> Result<(), wal::Error>,
    ) -> Result<u64, wal::Error> {
        let states = RefCell::new(SizeEstimate::of_one_in(ONE_IN));
        self.tables.copy_states(
            |standing| {
                // Where an entry has kind, version, position and its place in a list.
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

    /// How much room the records since the newest snapshot take in the next one, by those that came last. No
    /// record is read that the snapshot does not have to read.
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
