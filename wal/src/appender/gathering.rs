//! How many records are gathered for a batch, and for how long.
//!
//! Where several wait for each batch, the next one begins no sooner than 0.4 or 0.6 ms after the
//! one before began, unless enough are queued; a lone appender is never kept waiting. Where a batch
//! takes its time and the next may begin meanwhile, a crowd is gathered for that time at the most.

use std::time::Duration;

/// From one batch of several records to the next takes so long at the least, unless enough are
/// queued before: while the disk could take another batch every 0.15 ms, each costs processor
/// time for a sync and for waking all who wait, and that is what there is too little of.
const GATHER: Duration = Duration::from_micros(400);
/// The same while more than twice [`MANY`] are in flight: half of them take longer to come.
const GATHER_OF_CROWD: Duration = Duration::from_micros(600);
/// No more time than this lies between batches of a crowd, however long one takes.
const GATHER_MAX: Duration = Duration::from_millis(20);
/// So many records in a batch are of several who wait, and the next ones are gathered.
pub(super) const FEW: usize = 3;
/// So many queued records are enough, where it is not known how many are in flight.
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

/// As [`gathered`], where so many of those in flight are in batches that have begun and are not durable
/// yet, and a batch takes so long.
///
/// Each batch costs the same whatever it holds, here and on the medium: several small ones on their
/// way at once cost several times that, and where many wait no response comes sooner than with a
/// few large ones. So of a crowd as many are gathered beside a batch as without one, for as long as
/// a batch takes at the most.
pub(super) fn gathered_beside(in_flight: usize, begun: usize, took: Duration) -> (usize, Duration) {
    let (enough, apart) = gathered(in_flight);
    if begun == 0 || in_flight == 0 {
        return (enough, apart);
    }
    if in_flight > 2 * MANY {
        return (enough, took.clamp(apart, GATHER_MAX));
    }
    // Those who wait for batches that have begun append nothing else meanwhile.
    gathered(in_flight.saturating_sub(begun).max(1))
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

    #[test]
    fn beside_batches_on_their_way_a_crowd_is_gathered_as_without_and_a_few_do_not_wait_for_others()
    {
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        for in_flight in [0, 1, 3, 8, 16, 18, 32, 33, 64, 256] {
            let expected = gathered(in_flight);
            assert_eq!(gathered_beside(in_flight, 0, ms(3)), expected);
        }
        for (in_flight, begun, took, expected) in [
            (64, 28, ms(3), (28, ms(3))),
            (64, 56, ms(3), (28, ms(3))),
            (64, 60, us(100), (28, GATHER_OF_CROWD)),
            (64, 28, ms(900), (28, GATHER_MAX)),
            (32, 16, ms(3), (14, GATHER)),
            (8, 4, ms(3), (4, GATHER)),
            (2, 2, ms(3), (1, GATHER)),
            (0, 5, ms(3), (16, GATHER)),
        ] {
            let gathered = gathered_beside(in_flight, begun, took);
            assert_eq!(gathered, expected, "{in_flight}, {begun}");
        }
    }
}
