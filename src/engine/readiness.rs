//! Whether commands are accepted, and why not.

use std::sync::atomic::Ordering;

use wal::Lack;

use super::core::Shared;

/// Reasons why commands are not accepted; several may apply at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    /// The service is stopping.
    pub stopping: bool,
    /// The log has failed, and the process is about to end.
    pub log_failed: bool,
    /// The disk has less free space than the reserve.
    pub disk_full: bool,
    /// The log's current segment is nearly full, and no further one could be created.
    pub no_segment: bool,
    /// This standby lacks commits of its writer, or does not know whether it does.
    pub behind: bool,
    /// The journal that this process shares with others accepts nothing: it is full, or out of reach.
    pub no_journal: bool,
}

impl Unready {
    /// Returns each reason as a word, and whether it applies.
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

    /// Whether no reason applies.
    #[must_use]
    pub fn is_ready(self) -> bool {
        self == Self::default()
    }
}

impl Shared {
    /// Collects the reasons why commands are not accepted.
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
