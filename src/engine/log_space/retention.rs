//! Determines how much of the log is kept beyond the needs of a start: for readers of the past, and for incomplete
//! deliveries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wal::{Keep, Retained};

use crate::base::time::Timestamp;
use crate::journal::counters::Marks;

/// Limits of what the log keeps of the records that snapshots cover. Ages count only the time that servers have run
/// with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRetention {
    /// Maximum age of a record.
    pub age: Duration,
    /// Maximum bytes of the log.
    pub bytes: u64,
    /// Maximum age of records that are kept longer because deliveries need them.
    pub delivery_age: Duration,
    /// Maximum bytes of records that are kept because deliveries need them.
    pub delivery_bytes: u64,
}

impl Default for LogRetention {
    /// Keeps a week and 16 GiB; for deliveries 30 days and 64 GiB.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self {
            age: DAY * 7,
            bytes: 16 << 30,
            delivery_age: DAY * 30,
            delivery_bytes: 64 << 30,
        }
    }
}

impl LogRetention {
    /// Keeps only what no snapshot covers.
    pub const NOTHING: Self = Self {
        age: Duration::ZERO,
        bytes: 0,
        delivery_age: Duration::ZERO,
        delivery_bytes: 0,
    };

    /// Returns what to keep of a log whose positions have the ages in `marks`, after servers have run until `now`;
    /// deliveries need the records from `needed_from` on.
    pub(in crate::engine) fn keep(
        &self,
        marks: &Marks,
        now: Timestamp,
        needed_from: Option<u64>,
    ) -> Keep {
        let young = |age| young_from(marks, now, age);
        let needed_from = needed_from.map_or(u64::MAX, |from| from.max(young(self.delivery_age)));
        Keep {
            from: young(self.age),
            bytes: self.bytes,
            needed_from,
            needed_bytes: self.delivery_bytes,
        }
    }

    /// Whether the records kept for deliveries have reached half of the maximum bytes or age.
    pub(in crate::engine) fn is_half_used(
        &self,
        marks: &Marks,
        now: Timestamp,
        needed_from: Option<u64>,
        retained: &Retained,
    ) -> bool {
        let Some(needed_from) = needed_from.filter(|_| retained.needed_bytes > 0) else {
            return false;
        };
        retained.needed_bytes > self.delivery_bytes / 2
            || needed_from < young_from(marks, now, self.delivery_age / 2)
    }
}

/// Returns the first position that is younger than `age`.
fn young_from(marks: &Marks, now: Timestamp, age: Duration) -> u64 {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let then = Timestamp::from_millis(now.millis().saturating_sub(age));
    marks.through(then).saturating_add(1)
}

/// Positions from which deliveries need the log. The dispatcher and the publisher set them.
#[derive(Debug)]
pub(in crate::engine) struct NeededFrom {
    deliveries: AtomicU64,
    publisher: AtomicU64,
}

impl Default for NeededFrom {
    fn default() -> Self {
        let nothing = || AtomicU64::new(u64::MAX);
        Self {
            deliveries: nothing(),
            publisher: nothing(),
        }
    }
}

impl NeededFrom {
    pub(in crate::engine) fn set(&self, from: Option<u64>) {
        let from = from.unwrap_or(u64::MAX);
        self.deliveries.store(from, Ordering::Release);
    }

    /// Sets the deliveries' position to this one, unless it is lower already.
    pub(in crate::engine) fn lower(&self, from: Option<u64>) {
        self.deliveries
            .fetch_min(from.unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    /// Sets the publisher's position.
    pub(in crate::engine) fn set_for_publisher(&self, from: u64) {
        self.publisher.store(from, Ordering::Release);
    }

    pub(in crate::engine) fn get(&self) -> Option<u64> {
        let from = [&self.deliveries, &self.publisher].map(|from| from.load(Ordering::Acquire));
        let from = from[0].min(from[1]);
        (from != u64::MAX).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Marks of ten positions each hundred seconds.
    fn marks() -> Marks {
        let mut marks = Marks::default();
        for step in 1..=100 {
            marks.note(step * 10, at(i64::try_from(step).unwrap_or(0) * 100));
        }
        marks
    }

    const RETENTION: LogRetention = LogRetention {
        age: Duration::from_secs(1_000),
        bytes: 5_000,
        delivery_age: Duration::from_secs(4_000),
        delivery_bytes: 9_000,
    };

    #[test]
    fn records_are_kept_to_an_age_and_those_that_deliveries_need_to_another() {
        let now = at(10_000);
        for (needed_from, expected) in [
            (None, u64::MAX),
            (Some(950), 950),
            (Some(700), 700),
            // Records that are too old are not kept, though deliveries need them.
            (Some(600), 601),
            (Some(1), 601),
        ] {
            let keep = RETENTION.keep(&marks(), now, needed_from);
            assert_eq!((keep.from, keep.bytes), (901, 5_000));
            assert_eq!((keep.needed_from, keep.needed_bytes), (expected, 9_000));
        }
        // Without any known age, every record counts as young.
        let keep = RETENTION.keep(&Marks::default(), now, Some(3));
        assert_eq!((keep.from, keep.needed_from), (1, 3));
        let nothing = LogRetention::NOTHING.keep(&marks(), now, None);
        assert_eq!((nothing.bytes, nothing.needed_from), (0, u64::MAX));
    }

    #[test]
    fn a_warning_comes_at_half_of_either_bound_of_what_is_kept_for_deliveries() {
        let retained = |needed_bytes| Retained {
            needed_bytes,
            ..Retained::default()
        };
        for (needed_from, needed_bytes, expected) in [
            (None, 9_000, false),
            (Some(850), 4_500, false),
            (Some(850), 4_501, true),
            // The needed record is older than 2,000 seconds, half of the maximum age.
            (Some(801), 100, false),
            (Some(800), 100, true),
            // The needed records are kept in any case, for their age or size.
            (Some(800), 0, false),
        ] {
            let retained = retained(needed_bytes);
            let half = RETENTION.is_half_used(&marks(), at(10_000), needed_from, &retained);
            assert_eq!(half, expected, "{needed_from:?}, {needed_bytes} bytes");
        }
    }

    #[test]
    fn the_log_is_needed_from_where_the_first_of_those_who_read_it_stands() {
        let needed = NeededFrom::default();
        assert_eq!(needed.get(), None);
        needed.set(Some(9));
        // The needs of some subscriptions are known, and those of others not yet.
        needed.lower(Some(12));
        assert_eq!(needed.get(), Some(9));
        needed.lower(None);
        assert_eq!(needed.get(), Some(9));
        needed.lower(Some(7));
        assert_eq!(needed.get(), Some(7));
        needed.set_for_publisher(5);
        assert_eq!(needed.get(), Some(5));
        needed.set(None);
        needed.set_for_publisher(8);
        assert_eq!(needed.get(), Some(8));
    }
}
