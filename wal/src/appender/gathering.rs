//! Decides how many records are gathered for a batch, and for how long.
//!
//! When several callers wait for each batch, the next one begins no sooner than 0.4 or 0.6 ms after the
//! one before began, unless enough records are queued; a lone appender never waits. When batches take
//! long and the next may begin meanwhile, records of a crowd are gathered for at most as long as a
//! batch takes.

use std::time::Duration;

/// Minimum time from the beginning of one batch of several records to the next, unless enough are
/// queued before: while the disk could take another batch every 0.15 ms, each costs processor time for
/// a sync and for waking all waiters, and processor time is scarce.
const GATHER: Duration = Duration::from_micros(400);
/// Minimum time between batches while more than twice [`MANY`] are in flight: half of them take longer
/// to arrive.
const GATHER_OF_CROWD: Duration = Duration::from_micros(600);
/// Maximum time between batches of a crowd, however long one takes.
const GATHER_MAX: Duration = Duration::from_millis(20);
/// Number of records from which on a batch counts as that of several waiting callers, so that the next
/// one is gathered.
pub(super) const FEW: usize = 3;
/// Number of queued records that is enough when it is not known how many are in flight.
const MANY: usize = 16;

/// Returns how many records are enough for a batch, and how long after the batch before it begins at
/// the latest, while `in_flight` are in flight.
///
/// Of a few, nearly all are enough: each caller that was just answered may be about to append. Of many,
/// not quite half: they are written while the others are worked on, and neither side waits.
pub(super) fn gathered(in_flight: usize) -> (usize, Duration) {
    if in_flight == 0 {
        return (MANY, GATHER);
    }
    let nearly_all = in_flight - in_flight / 8;
    let enough = nearly_all.min(MANY.max(in_flight * 7 / 16));
    let is_crowd = in_flight > 2 * MANY;
    (enough, if is_crowd { GATHER_OF_CROWD } else { GATHER })
}

/// As [`gathered`], when `begun` of those in flight are in batches that have begun and are not durable
/// yet, and a batch takes `took`.
///
/// Each batch costs the same whatever it holds, here and on the medium: several small ones in flight at
/// once cost several times that, and when many wait no response comes sooner than with a few large
/// ones. So for a crowd as many records are gathered beside a batch in flight as without one, for at
/// most as long as a batch takes.
pub(super) fn gathered_beside(in_flight: usize, begun: usize, took: Duration) -> (usize, Duration) {
    let (enough, apart) = gathered(in_flight);
    if begun == 0 || in_flight == 0 {
        return (enough, apart);
    }
    if in_flight > 2 * MANY {
        return (enough, took.clamp(apart, GATHER_MAX));
    }
    // Callers that wait for batches that have begun append nothing else meanwhile.
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
    fn beside_batches_in_flight_a_crowd_is_gathered_and_a_few_do_not_wait() {
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
