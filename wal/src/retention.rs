//! Determines which of the records that snapshots cover a compaction keeps.

use crate::manifest::Sealed;

/// Which records a compaction keeps, beyond those that snapshots do not cover, which it always keeps. The
/// kept records reach without gaps to the newest one; a part of the log is removed as a whole, once none of
/// its records is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The position from which on records are kept, within `bytes`.
    pub from: u64,
    /// Maximum bytes of what is kept for `from`; what no snapshot covers counts, too.
    pub bytes: u64,
    /// The position from which on records are still needed: they are kept, too, within `needed_bytes`.
    pub needed_from: u64,
    /// Maximum bytes of what is kept only because it is needed.
    pub needed_bytes: u64,
}

impl Keep {
    /// Keeps only what snapshots do not cover.
    pub const NOTHING: Self = Self {
        from: u64::MAX,
        bytes: 0,
        needed_from: u64::MAX,
        needed_bytes: 0,
    };

    /// Keeps the newest records, up to this number of bytes.
    #[must_use]
    pub fn newest(bytes: u64) -> Self {
        Self {
            from: 0,
            bytes,
            ..Self::NOTHING
        }
    }
}

/// The bytes of a log that a compaction would leave, and those that it would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Bytes that stay, without those of the part that is being written.
    pub bytes: u64,
    /// Bytes beyond them that stay only because they are still needed.
    pub needed_bytes: u64,
    /// Bytes that would be removed.
    pub removable_bytes: u64,
}

/// Returns how many of these segments, from the oldest on, are not to be kept, and what that leaves.
/// `covered` is the position up to which every snapshot of the log covers everything.
pub(crate) fn removable(sealed: &[Sealed], covered: Option<u64>, keep: &Keep) -> (usize, Retained) {
    let mut retained = Retained::default();
    for (index, segment) in sealed.iter().enumerate().rev() {
        let is_unsaved = covered.is_none_or(|covered| segment.last > covered);
        let bytes = retained.bytes + segment.length;
        let needed_bytes = retained.needed_bytes + segment.length;
        let is_kept =
            retained.needed_bytes == 0 && segment.last >= keep.from && bytes <= keep.bytes;
        if is_unsaved || is_kept {
            retained.bytes = bytes;
        } else if segment.last >= keep.needed_from && needed_bytes <= keep.needed_bytes {
            retained.needed_bytes = needed_bytes;
        } else {
            let removed = &sealed[..=index];
            retained.removable_bytes = removed.iter().map(|segment| segment.length).sum();
            return (index + 1, retained);
        }
    }
    (0, retained)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten segments of ten records and a hundred bytes.
    fn ten() -> Vec<Sealed> {
        let sealed = (1..=10).map(|number| Sealed {
            number,
            last: number * 10,
            length: 100,
        });
        sealed.collect()
    }

    #[test]
    fn a_log_keeps_young_and_needed_records_within_limits_and_uncovered_ones() {
        let all = u64::MAX;
        for (covered, from, bytes, needed_from, needed_bytes, expected) in [
            // Removed, kept, kept because needed.
            (Some(100), all, 0, all, 0, (10, 0, 0)),
            (Some(85), all, 0, all, 0, (8, 200, 0)),
            (None, all, 0, all, 0, (0, 1_000, 0)),
            (Some(100), 41, all, all, 0, (4, 600, 0)),
            (Some(100), 40, all, all, 0, (3, 700, 0)),
            (Some(100), 0, all, all, 0, (0, 1_000, 0)),
            // The bytes count what no snapshot covers, too, which stays all the same.
            (Some(100), 41, 350, all, 0, (7, 300, 0)),
            (Some(60), 0, 450, all, 0, (6, 400, 0)),
            (Some(60), 0, 99, all, 0, (6, 400, 0)),
            // Needed records have a limit of their own.
            (Some(100), 71, all, 35, all, (3, 300, 400)),
            (Some(100), 71, all, 35, 250, (5, 300, 200)),
            (Some(100), 0, 300, 35, all, (3, 300, 400)),
            (Some(100), 71, all, 75, all, (7, 300, 0)),
            (Some(100), all, 0, 95, all, (9, 0, 100)),
            (Some(100), 0, all, 35, all, (0, 1_000, 0)),
            (Some(100), all, 0, 0, all, (0, 0, 1_000)),
        ] {
            let keep = Keep {
                from,
                bytes,
                needed_from,
                needed_bytes,
            };
            let (removed, retained) = removable(&ten(), covered, &keep);
            let Retained {
                bytes,
                needed_bytes,
                removable_bytes,
            } = retained;
            assert_eq!(
                (removed, bytes, needed_bytes),
                expected,
                "{covered:?} {keep:?}"
            );
            assert_eq!(bytes + needed_bytes + removable_bytes, 1_000);
        }
    }

    #[test]
    fn a_small_segment_behind_a_large_one_makes_no_gap_when_bytes_run_out() {
        let mut sealed = ten();
        sealed[5].length = 1_000;
        let keep = Keep::newest(650);
        assert_eq!(removable(&sealed, Some(100), &keep).0, 6);
        let keep = Keep {
            needed_from: 0,
            needed_bytes: 1_250,
            ..keep
        };
        // The large one is kept as needed, and so are those before it.
        let (removed, retained) = removable(&sealed, Some(100), &keep);
        assert_eq!(
            (removed, retained.bytes, retained.needed_bytes),
            (3, 400, 1_200)
        );
    }
}
