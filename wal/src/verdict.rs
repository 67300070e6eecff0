//! Decides, by a table, what the end of a log means. Reads nothing and changes nothing.

/// The bytes at the place where the records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hole {
    /// Zeros.
    Blank,
    /// Bytes that are no whole frame.
    Unfinished,
    /// Not an end at all: a file is missing or foreign, a frame is sound but
    /// cannot be here, or a sealed segment is not what the manifest says.
    Structure,
}

/// The bytes after the place where the records end, in the same segment and in later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum After {
    /// Nothing but zeros.
    Zeros,
    /// Other bytes.
    Bytes,
    /// Other bytes, among them headers of sound frames.
    Frames,
}

/// How the highest position known durable compares with the first that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Everything that is proved durable was read.
    Below,
    /// A record that was durable is gone.
    AtOrAbove,
}

/// Everything on which the decision is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) hole: Hole,
    pub(crate) after: After,
    pub(crate) mark: Mark,
}

/// The meaning of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The log ends here, in good order.
    Clean,
    /// The bytes that follow were never acknowledged: they are set aside.
    Torn,
    /// Acknowledged records are gone.
    Lost,
    /// The structure of the log is damaged.
    Broken,
}

struct Row {
    hole: &'static [Hole],
    after: &'static [After],
    mark: &'static [Mark],
    verdict: Verdict,
}

const ANYTHING: &[After] = &[After::Zeros, After::Bytes, After::Frames];

const TABLE: &[Row] = &[
    Row {
        hole: &[Hole::Structure],
        after: ANYTHING,
        mark: &[Mark::Below, Mark::AtOrAbove],
        verdict: Verdict::Broken,
    },
    Row {
        hole: &[Hole::Blank, Hole::Unfinished],
        after: ANYTHING,
        mark: &[Mark::AtOrAbove],
        verdict: Verdict::Lost,
    },
    Row {
        hole: &[Hole::Blank],
        after: &[After::Zeros],
        mark: &[Mark::Below],
        verdict: Verdict::Clean,
    },
    Row {
        hole: &[Hole::Blank],
        after: &[After::Bytes, After::Frames],
        mark: &[Mark::Below],
        verdict: Verdict::Torn,
    },
    Row {
        hole: &[Hole::Unfinished],
        after: ANYTHING,
        mark: &[Mark::Below],
        verdict: Verdict::Torn,
    },
];

impl Row {
    fn matches(&self, seen: Observation) -> bool {
        self.hole.contains(&seen.hole)
            && self.after.contains(&seen.after)
            && self.mark.contains(&seen.mark)
    }
}

/// Returns the verdict on an observation.
pub(crate) fn decide(seen: Observation) -> Verdict {
    let row = TABLE.iter().find(|row| row.matches(seen));
    row.expect("a test finds a row for every observation")
        .verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_observation_has_exactly_one_row() {
        let mut seen = 0;
        for hole in [Hole::Blank, Hole::Unfinished, Hole::Structure] {
            for after in [After::Zeros, After::Bytes, After::Frames] {
                for mark in [Mark::Below, Mark::AtOrAbove] {
                    let observation = Observation { hole, after, mark };
                    let rows = TABLE.iter().filter(|row| row.matches(observation)).count();
                    assert_eq!(rows, 1, "{observation:?}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 18);
    }

    #[test]
    fn lost_acknowledged_records_are_never_taken_for_the_log_s_end() {
        for hole in [Hole::Blank, Hole::Unfinished] {
            for after in [After::Zeros, After::Bytes, After::Frames] {
                let observation = Observation {
                    hole,
                    after,
                    mark: Mark::AtOrAbove,
                };
                assert_eq!(decide(observation), Verdict::Lost);
            }
        }
    }
}
