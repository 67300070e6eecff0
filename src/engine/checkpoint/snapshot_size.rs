//! Estimates the size of the next snapshot.

use std::cell::RefCell;
use std::ops::ControlFlow;

use wal::{Appender, SizeEstimate};

use crate::engine::core::Shared;
use crate::journal::key_use::NOTE_BYTES;

/// One block of states in this many is compressed, as a sample of how small they become.
const ONE_IN: u64 = 16;
/// Maximum number of places of the log whose records are compressed as a sample. They are spread over its bytes since
/// the newest snapshot.
const PLACES: u64 = 64;
/// Bytes of a sample where there are as many: about a block of a snapshot. With fewer places, each has a larger one.
const SAMPLE_BYTES: u64 = 54 << 10;
/// Minimum bytes of records for each place, before packing: a sample of less than some blocks shows too little of how
/// small they become.
const PART_BYTES: u64 = 4 * SAMPLE_BYTES;
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
            .saturating_add(packed_since(&self.journal, throttle)?);
        Ok(bytes.saturating_add(bytes / MARGIN).saturating_add(ROUGHLY))
    }
}

/// Estimates how many bytes the records since the newest snapshot take in the next one, by samples from all over them.
/// Reads no record that the snapshot does not have to read.
fn packed_since(
    journal: &Appender,
    throttle: &mut dyn FnMut() -> Result<(), wal::Error>,
) -> Result<u64, wal::Error> {
    let durable = journal.durable();
    let newest = journal.snapshots().first().copied();
    let first = newest.map_or(1, |newest| newest.covers + 1);
    let log_bytes = journal.log_bytes_since_snapshot();
    let places = (log_bytes / PART_BYTES).clamp(1, PLACES);
    let begins = journal.spread(first, durable, usize::try_from(places).unwrap_or(1));
    let most = SAMPLE_BYTES * PLACES / (begins.len() as u64).max(1);
    // Parts have about as many bytes of the log each, so each ratio counts as much, whatever the size of its records;
    // that of a sample of more bytes, since it holds a large record or packs well, counts for all of them. The log packs
    // large batches: what packs well has more bytes before that, and the estimate is rather too high then.
    let part_bytes = log_bytes / places;
    let (mut ratios, mut weights) = (0_u128, 0_u128);
    for (index, begin) in begins.iter().enumerate() {
        let end = begins.get(index + 1).map_or(durable + 1, |next| *next);
        let mut records = SizeEstimate::of_one_in(1);
        let mut bytes = 0_u64;
        journal.records(*begin, end - 1, &mut |record| {
            records.item(&[record.payload]);
            records.noted(NOTE_BYTES);
            records.settle();
            bytes += record.payload.len() as u64;
            Ok(match records.seen() < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        if bytes > 0 {
            let weight = u128::from(bytes.max(part_bytes));
            ratios += (u128::from(records.room()) << 32) / u128::from(bytes) * weight;
            weights += weight;
        }
        throttle()?;
    }
    if weights == 0 {
        return Ok(log_bytes);
    }
    let packed = (u128::from(log_bytes) * (ratios / weights)) >> 32;
    Ok(u64::try_from(packed).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};
    use wal::memory::MemoryLog;
    use wal::{Events, Options};

    use super::*;

    struct Unheard;

    impl Events for Unheard {
        fn durable(&mut self, _: u64) {}

        fn failed(&mut self, error: &wal::Error) {
            panic!("{error}");
        }
    }

    /// Starts the journal of a log that has these records.
    fn journal(records: &[Vec<u8>]) -> Arc<Appender> {
        let log = MemoryLog::new();
        let start = || {
            log.start_with(&Options::default(), Box::new(Unheard))
                .unwrap()
        };
        let appender = start();
        for record in records {
            appender.sequence().push(record).unwrap();
        }
        appender.shutdown().unwrap();
        start()
    }

    /// Records of `bytes` bytes that say the same but for a number.
    fn alike(count: usize, bytes: usize) -> Vec<Vec<u8>> {
        let record = |number: usize| {
            let text = format!("\"statementCode\":\"code-{number}\",\"status\":\"open\",");
            let text = text.into_bytes().into_iter().cycle();
            text.take(bytes).collect::<Vec<u8>>()
        };
        (0..count).map(record).collect()
    }

    /// Records of `bytes` bytes that nobody can pack.
    fn unlike(count: usize, bytes: usize, random: &mut SmallRng) -> Vec<Vec<u8>> {
        let mut record = || {
            let bytes = (0..bytes).map(|_| random.random::<u8>());
            bytes.collect::<Vec<u8>>()
        };
        (0..count).map(|_| record()).collect()
    }

    /// Checks the estimate of these records by that of all of them, packed in one go.
    fn assert_estimated(name: &str, records: &[Vec<u8>], seed: u64) {
        let mut all = SizeEstimate::of_one_in(1);
        for record in records {
            all.item(&[record]);
            all.noted(NOTE_BYTES);
            all.settle();
        }
        let bytes = all.room();
        let estimate = packed_since(&journal(records), &mut || Ok(())).unwrap();
        assert!(
            estimate + estimate / MARGIN >= bytes && estimate <= bytes + bytes / 4,
            "{name}: {bytes} bytes, estimated {estimate}, SEED={seed}"
        );
    }

    #[test]
    fn record_sizes_are_estimated_from_all_wherever_incompressible_ones_are() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let alike = || alike(3_000, 1_000);
        let small = unlike(1_500, 1_000, &mut random);
        let large = unlike(40, 40_000, &mut random);
        let huge = unlike(2, 1_000_000, &mut random);
        let middle = alike().len() / 2;
        for (name, records) in [
            ("the newest do not", [alike(), small.clone()].concat()),
            ("the oldest do not", [small, alike()].concat()),
            (
                "few large ones do not",
                [&alike()[..middle], large.as_slice(), &alike()[middle..]].concat(),
            ),
            (
                "two, each larger than some parts, do not",
                [&alike()[..middle], huge.as_slice(), &alike()[middle..]].concat(),
            ),
            ("all do", alike()),
        ] {
            assert_estimated(name, &records, seed);
        }
    }

    #[test]
    fn bursts_of_large_records_count_as_much_as_small_ones_of_as_many_bytes() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let records = (0..10).flat_map(|_| {
            let burst = unlike(25, 40_000, &mut random);
            [burst, alike(10_000, 100)].concat()
        });
        let records: Vec<_> = records.collect();
        assert_estimated("only the bursts do not", &records, seed);
    }

    #[test]
    fn a_log_without_records_takes_nothing() {
        let estimate = packed_since(&journal(&[]), &mut || Ok(()));
        assert_eq!(estimate.unwrap(), 0);
    }
}
