//! The commits before and after the time of `carebook restore --at TIME`, and whether that time can be relied on.

use serde_json::{Value, json};

use crate::base::time::Timestamp;

/// Number of commits of one and the same millisecond from which on the time is in doubt: that many in a row are rather
/// those of a clock that was ahead. A load of facts makes some hundreds.
const SAME_TIME_MIN: u64 = 10_000;

/// Commits in a row that have the same time.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    at: Timestamp,
    count: u64,
}

impl Run {
    fn begin(first: u64, at: Timestamp) -> Self {
        Self {
            first,
            at,
            count: 1,
        }
    }
}

/// The commits at both sides of a time.
#[derive(Debug, Default)]
pub(super) struct ByTime {
    last: Option<Run>,
    /// The first later run.
    next: Option<Run>,
    /// The later run that was noted last.
    later: Option<Run>,
    /// The later run with the most commits.
    longest: Option<Run>,
    has_ended: bool,
}

impl ByTime {
    /// Notes the next commit, which is of that time or before.
    pub(super) fn note_kept(&mut self, position: u64, at: Timestamp) {
        match &mut self.last {
            Some(run) if run.at == at => run.count += 1,
            last => *last = Some(Run::begin(position, at)),
        }
    }

    /// Notes the next commit, which is later.
    pub(super) fn note_left_out(&mut self, position: u64, at: Timestamp) {
        let run = match self.later {
            Some(run) if run.at == at => Run {
                count: run.count + 1,
                ..run
            },
            _ => Run::begin(position, at),
        };
        self.later = Some(run);
        self.next.get_or_insert(run);
        if self.longest.is_none_or(|longest| longest.count < run.count) {
            self.longest = Some(run);
        }
    }

    /// Notes that further commits cannot be examined.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether further commits cannot be examined.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns why the time is in doubt at `now`, if it is. The times of commits never decrease, so after a clock was
    /// ahead and then corrected, further commits get the time of the last one before.
    pub(super) fn doubt(&self, now: Timestamp) -> Option<String> {
        const EXACT: &str = "what is committed meanwhile has the same time. Only a position is exact: \
                             `carebook inspect records` shows them";
        if let Some(next) = self.next.as_ref().filter(|next| next.at > now) {
            return Some(format!(
                "position {} is of {}, which lies ahead of the clock: a clock was ahead, and {EXACT}",
                next.first, next.at
            ));
        }
        // A clock that was ahead may have given several times before it was corrected.
        let mut runs = self.last.iter().chain(&self.longest);
        let run = runs.find(|run| run.count >= SAME_TIME_MIN)?;
        Some(format!(
            "{} commits from position {} on are of {}: many came at once, or a clock was ahead, and {EXACT}",
            run.count, run.first, run.at
        ))
    }

    /// The times as rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (String, String)> {
        let last = self.last.as_ref();
        let next = self.next.as_ref();
        let rows = [
            ("last commit at", last.map(|run| run.at.to_string())),
            ("next position", next.map(|run| run.first.to_string())),
            ("next commit at", next.map(|run| run.at.to_string())),
        ];
        let rows = rows.into_iter();
        rows.filter_map(|(name, value)| Some((name.to_owned(), value?)))
    }

    /// The same as JSON.
    pub(super) fn json(&self, now: Timestamp) -> Value {
        json!({
            "lastCommitAt": self.last.as_ref().map(|run| run.at.to_string()),
            "nextPosition": self.next.as_ref().map(|run| run.first),
            "nextCommitAt": self.next.as_ref().map(|run| run.at.to_string()),
            "isInDoubt": self.doubt(now).is_some(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Commits of these times, in seconds, and how many of each; the first ones up to `until`.
    fn found(until: i64, commits: &[(i64, u64)]) -> ByTime {
        let mut found = ByTime::default();
        let mut position = 0;
        for (seconds, count) in commits {
            for _ in 0..*count {
                position += 1;
                match *seconds <= until {
                    true => found.note_kept(position, at(*seconds)),
                    false => found.note_left_out(position, at(*seconds)),
                }
            }
        }
        found
    }

    #[test]
    fn the_commits_at_both_sides_of_a_time_are_told() {
        let found = found(2, &[(1, 1), (2, 3), (5, 2), (9, 1)]);
        let rows: Vec<_> = found.rows().collect();
        let rows = rows
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let rows: Vec<_> = rows.collect();
        assert_eq!(
            rows,
            [
                ("last commit at", "1970-01-01T00:00:02.000Z"),
                ("next position", "5"),
                ("next commit at", "1970-01-01T00:00:05.000Z"),
            ]
        );
        assert!(!found.has_ended());
        assert_eq!(found.doubt(at(10)), None);
        assert_eq!(found.json(at(10))["isInDoubt"], false);
    }

    #[test]
    fn a_time_is_in_doubt_where_the_next_commit_is_of_a_time_to_come() {
        let found = found(2, &[(1, 1), (2, 1), (100, 3)]);
        assert_eq!(found.doubt(at(100)), None);
        let doubt = found.doubt(at(99)).unwrap();
        assert!(
            doubt.starts_with("position 3 is of 1970-01-01T00:01:40"),
            "{doubt}"
        );
        assert!(doubt.contains("Only a position is exact"), "{doubt}");
        assert_eq!(found.json(at(99))["isInDoubt"], true);
    }

    #[test]
    fn a_time_is_in_doubt_where_many_commits_are_of_the_same_on_either_side() {
        for commits in [[(2, SAME_TIME_MIN), (3, 1)], [(2, 1), (3, SAME_TIME_MIN)]] {
            let doubt = found(2, &commits).doubt(at(10)).unwrap();
            assert!(doubt.starts_with("10000 commits from position"), "{doubt}");
        }
        let found = found(2, &[(1, SAME_TIME_MIN), (2, 1), (3, 1)]);
        assert_eq!(found.doubt(at(10)), None, "those are further away");
    }

    #[test]
    fn a_time_is_not_in_doubt_where_a_load_made_its_commits_at_once() {
        for commits in [[(2, 1_000), (3, 1)], [(2, 1), (3, 1_000)]] {
            assert_eq!(found(2, &commits).doubt(at(10)), None);
        }
    }

    #[test]
    fn a_time_is_in_doubt_where_a_clock_that_was_ahead_gave_several_first() {
        let commits = [(2, 1), (5, 1), (6, 2), (7, SAME_TIME_MIN), (8, 1), (9, 2)];
        let found = found(2, &commits);
        let doubt = found.doubt(at(10)).unwrap();
        assert!(
            doubt.starts_with("10000 commits from position 5 on are of 1970-01-01T00:00:07"),
            "{doubt}"
        );
        assert_eq!(found.json(at(10))["nextPosition"], 2);
    }
}
