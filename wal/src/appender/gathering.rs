//! How many records are gathered for a batch, and for how long.
//!
//! Where several wait for each batch, the next one begins no sooner than 0.4 or 0.6 ms after the
//! one before began, unless enough are queued; whoever is alone is never kept waiting.

use std::time::Duration;

/// From one batch of several records to the next takes so long at the least, unless enough are
/// queued before: while the disk could take another batch every 0.15 ms, each costs processor
/// time for a sync and for waking all who wait, and that is what there is too little of.
const GATHER: Duration = Duration::from_micros(400);
/// The same while more than twice [`MANY`] are in flight: half of them take longer to come.
const GATHER_OF_CROWD: Duration = Duration::from_micros(600);
/// So many records in a batch are of several who wait, and the next ones are gathered.
pub(super) const FEW: usize = 3;
/// So many queued records are enough, where nobody knows how many are in flight.
const MANY: usize = 16;

/// What is gathered for a batch while so many are in flight: how many records are enough, and how
/// long after the batch before it begins at the latest.
///
/// Nearly all of a few: of those that were just answered, each may be about to append. Not quite
/// half of many: they are written while the others are worked on, and neither side waits.
pub(super) fn gathered(in_flight: usize) -> (usize, Duration) {
    if in_flight == 0 {
        return (MANY, GATHER);
    }
    let nearly_all = in_flight - in_flight / 8;
    let enough = nearly_all.min(MANY.max(in_flight * 7 / 16));
    let is_crowd = in_flight > 2 * MANY;
    (enough, if is_crowd { GATHER_OF_CROWD } else { GATHER })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_of_a_few_and_not_quite_half_of_many_are_gathered() {
        for (in_flight, enough) in [
            (0, 16),
            (1, 1),
            (3, 3),
            (8, 7),
            (16, 14),
            (18, 16),
            (32, 16),
        ] {
            assert_eq!(gathered(in_flight), (enough, GATHER), "{in_flight}");
        }
        for (in_flight, enough) in [(33, 16), (64, 28), (256, 112)] {
            assert_eq!(
                gathered(in_flight),
                (enough, GATHER_OF_CROWD),
                "{in_flight}"
            );
        }
    }
}
