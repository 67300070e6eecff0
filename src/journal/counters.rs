//! Counters over all records of a log, including those that it no longer has, and the ages of positions.
//!
//! An age is counted in the time that servers have run with the log. It does not use the times of commits, since
//! their clock may be set to anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::{Record, RecordOutcome};
use crate::base::time::Timestamp;

/// Maximum number of marks.
const MARKS_MAX: usize = 4_096;
/// Milliseconds between two marks, initially.
const FIRST_STRIDE: i64 = 1_000;

/// Counters over the records up to a position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The last counted position.
    pub position: u64,
    /// Number of commits of each operation.
    pub operations: BTreeMap<u16, u64>,
    /// The highest number of an outbox message.
    pub outbox_number: i64,
    /// Number of outbox messages.
    pub outbox_messages: u64,
    /// Time of the last commit.
    pub last_at: Option<Timestamp>,
    /// The ages of positions, as far as a snapshot has recorded them.
    pub marks: Marks,
}

impl Counters {
    /// Counts the record at `position`, unless it is counted already.
    pub fn note(&mut self, position: u64, record: &Record<'_>) {
        if position <= self.position {
            return;
        }
        self.position = position;
        for message in &record.outbox {
            self.outbox_number = self.outbox_number.max(message.number);
            self.outbox_messages += 1;
        }
        if !matches!(record.outcome, RecordOutcome::Forgotten { .. }) {
            *self.operations.entry(record.operation).or_default() += 1;
        }
        let at = self
            .last_at
            .map_or(record.at, |before| before.max(record.at));
        self.last_at = Some(at);
        // The log does not record how long servers have run since the last snapshot, so that time is not counted.
        let reached = self.marks.reached(at);
        self.marks.note(position, reached);
    }
}

/// Ages of positions: some positions, each with a time by which everything up to it was committed. The times count
/// how long servers have run since some beginning. Marks are thinned out as they become many, so a position may seem
/// younger than it is, by at most the stride, but never older.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Milliseconds between two marks.
    stride: i64,
    /// Pairs in ascending order of positions, and of times.
    marks: Vec<(u64, Timestamp)>,
    /// The last position noted, which becomes a mark once a later one is noted at a sufficient distance.
    last: Option<(u64, Timestamp)>,
}

impl Default for Marks {
    fn default() -> Self {
        Self::with(FIRST_STRIDE)
    }
}

impl Marks {
    fn with(stride: i64) -> Self {
        Self {
            stride,
            marks: Vec::new(),
            last: None,
        }
    }

    /// Notes that everything up to `position` was committed at `at` or before. Times ascend with positions.
    pub fn note(&mut self, position: u64, at: Timestamp) {
        if let Some(last) = self.last {
            if position <= last.0 {
                return;
            }
            // Marks the end of the stride, so that a long pause after it does not make its positions seem younger.
            let before = self.marks.last();
            let begun = before.map_or(i64::MIN, |(_, at)| at.millis());
            if at.millis() >= begun.saturating_add(self.stride) {
                self.marks.push(last);
                self.thin();
            }
        }
        self.last = Some((position, at));
    }

    fn thin(&mut self) {
        while self.marks.len() > MARKS_MAX {
            let mut thinned = Self::with(self.stride * 2);
            for (position, at) in self.marks.drain(..) {
                thinned.note(position, at);
            }
            thinned.marks.extend(thinned.last);
            self.stride = thinned.stride;
            self.marks = thinned.marks;
        }
    }

    /// Returns the highest position known of which everything up to it was committed at `at` or before; 0 if there is
    /// none.
    #[must_use]
    pub fn through(&self, at: Timestamp) -> u64 {
        if let Some((position, last)) = self.last
            && last <= at
        {
            return position;
        }
        let behind = self.marks.partition_point(|(_, marked)| *marked <= at);
        behind.checked_sub(1).map_or(0, |index| self.marks[index].0)
    }

    /// Returns the latest time noted, or `otherwise` if there is none.
    #[must_use]
    pub fn reached(&self, otherwise: Timestamp) -> Timestamp {
        self.last.map_or(otherwise, |(_, at)| at)
    }

    /// Returns these marks up to `position`, together with the present time `now`, by which `position` was committed.
    /// Later positions are left out: after a crash, other commits may take their place.
    #[must_use]
    pub fn upto(&self, position: u64, now: Timestamp) -> Self {
        let mut upto = self.clone();
        upto.marks.retain(|(marked, _)| *marked <= position);
        let last = self.last.map(|(last, at)| (last.min(position), at));
        let marked = upto.marks.last().map_or(0, |(marked, _)| *marked);
        upto.marks.extend(last.filter(|(last, _)| *last > marked));
        upto.last = Some((position, now));
        upto.thin();
        upto
    }

    /// Drops the marks before `position`, whose ages are no longer needed.
    pub fn drop_before(&mut self, position: u64) {
        self.marks.retain(|(marked, _)| *marked >= position);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_position_is_never_taken_for_older_than_it_is() {
        let mut marks = Marks::default();
        assert_eq!(marks.through(at(1)), 0);
        for position in 1..=100_000_u64 {
            // Ten commits a second.
            let millis = i64::try_from(position).unwrap() * 100;
            marks.note(position, Timestamp::from_millis(millis));
        }
        assert!(marks.marks.len() <= MARKS_MAX);
        for seconds in (100..10_000).step_by(37) {
            let through = marks.through(at(seconds));
            let exact = u64::try_from(seconds * 10).unwrap();
            assert!(through <= exact, "{through} at {seconds} s");
            let late = u64::try_from(marks.stride).unwrap() / 100;
            assert!(through + late >= exact, "{through} at {seconds} s");
        }
        // A long pause after a position does not make it seem younger.
        marks.note(100_001, at(10_001));
        marks.note(100_002, at(10_001));
        marks.note(100_003, at(90_000));
        assert_eq!(marks.through(at(89_999)), 100_002);
        assert_eq!(marks.through(at(90_000)), 100_003);
        marks.drop_before(50_000);
        assert_eq!(marks.through(at(4_000)), 0);
        assert!(marks.through(at(9_000)) > 80_000);
    }

    #[test]
    fn marks_in_a_snapshot_name_no_later_position_and_lose_no_age() {
        let mut marks = Marks::default();
        for seconds in 1..=10 {
            marks.note(u64::try_from(seconds).unwrap() * 10, at(seconds * 100));
        }
        let kept = marks.upto(45, at(2_000));
        assert_eq!(kept.reached(at(0)), at(2_000));
        for (then, through) in [(99, 0), (100, 10), (400, 40), (1_999, 45), (9_999, 45)] {
            assert!(kept.through(at(then)) <= through, "{then}");
        }
        assert_eq!(kept.through(at(400)), 40);
        // The last position grows older although no other follows it.
        let kept = marks.upto(100, at(5_000)).upto(100, at(6_000));
        assert_eq!((kept.through(at(1_000)), kept.through(at(999))), (100, 90));
    }
}
