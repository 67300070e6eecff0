//! Whether commands are accepted, and why not.

use std::sync::atomic::Ordering;

use wal::Lack;

use super::core::Shared;

/// Why commands are not accepted; each reason by itself, as several may be there at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    /// The service is stopping.
    pub stopping: bool,
    /// The log has failed, and the process is about to end.
    pub log_failed: bool,
    /// The disk has less free space than the reserve.
    pub disk_full: bool,
    /// The log's current segment is nearly full, and no other could be made.
    pub no_segment: bool,
    /// It follows a writer, and does not have what that one has committed, or does not know.
    pub behind: bool,
    /// The journal that this process shares with others takes nothing: it is full, or not reached.
    pub no_journal: bool,
}

impl Unready {
    /// Each reason, by a word, and whether it is there.
    #[must_use]
    pub fn reasons(self) -> [(&'static str, bool); 6] {
        [
            ("stopping", self.stopping),
            ("log_failed", self.log_failed),
            ("disk_full", self.disk_full),
            ("no_segment", self.no_segment),
            ("behind", self.behind),
            ("no_journal", self.no_journal),
        ]
    }

    /// Whether none is there.
    #[must_use]
    pub fn is_ready(self) -> bool {
        self == Self::default()
    }
}

impl Shared {
    /// Why commands are not accepted.
    pub(super) fn unready(&self) -> Unready {
        let lack = self.journal.lack();
        Unready {
            stopping: self.ended.load(Ordering::Acquire),
            log_failed: self.lanes.has_failed(),
            disk_full: matches!(lack, Some(Lack::Space { .. })),
            no_segment: matches!(lack, Some(Lack::Segment { .. })),
            behind: self.lag().is_some_and(|lag| lag.is_behind()),
            no_journal: matches!(lack, Some(Lack::Journal { .. })),
        }
    }
}
