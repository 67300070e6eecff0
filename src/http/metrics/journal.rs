//! The metrics of a journal that several machines share.

use std::time::Duration;

use super::page::Page;
use crate::stream::figures::Counted;
use crate::stream::handle::JournalHandle;

/// The figures of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalFigures {
    /// The counters.
    pub counted: Counted,
    /// How long ago the lease was renewed; `None` if this process never had it.
    pub lease_age: Option<Duration>,
}

impl JournalFigures {
    /// Returns the current figures.
    pub(in crate::http) fn of(link: &JournalHandle) -> Self {
        Self {
            counted: link.figures().counted(),
            lease_age: link.lease_age(),
        }
    }

    /// Adds the figures to the page.
    pub(in crate::http) fn put(&self, page: &mut Page) {
        let counted = &self.counted;
        for (name, kind, help, value) in [
            (
                "carebook_journal_epoch",
                "gauge",
                "The epoch in which this process writes the journal; 0 when it never did.",
                counted.epoch,
            ),
            (
                "carebook_journal_fences_total",
                "counter",
                "Epochs that this process has begun.",
                counted.fences,
            ),
            (
                "carebook_journal_appends_total",
                "counter",
                "Messages that this process has begun to append.",
                counted.appends,
            ),
            (
                "carebook_journal_appends_in_flight",
                "gauge",
                "Messages of which it is not known yet whether they are in the journal.",
                counted.in_flight,
            ),
            (
                "carebook_journal_retries_total",
                "counter",
                "Attempts to append without an answer, or without room, after which the same was sent again.",
                counted.retries,
            ),
            (
                "carebook_journal_barriers_total",
                "counter",
                "Messages that were appended only to show that this process writes still.",
                counted.barriers,
            ),
            (
                "carebook_journal_stream_bytes",
                "gauge",
                "Bytes of the journal's stream, as its servers told last.",
                counted.bytes,
            ),
            (
                "carebook_journal_stream_bytes_max",
                "gauge",
                "The most bytes that the journal's stream may have.",
                counted.bytes_max,
            ),
            (
                "carebook_journal_webhook_key_differs",
                "gauge",
                "1 when the key of webhooks of this process, which follows, is not that of the writer.",
                counted.has_other_key,
            ),
            (
                "carebook_journal_settings_weak",
                "gauge",
                "1 when this process, which follows, would not take over: the settings of the stream, or of the lease's bucket, are too weak.",
                counted.has_weak_settings,
            ),
        ] {
            page.one(name, kind, help, value);
        }
        self.put_snapshots(page);
        if let Some(age) = self.lease_age {
            page.one(
                "carebook_journal_lease_age_seconds",
                "gauge",
                "The time since the writer's lease was last renewed by this process.",
                age.as_secs_f64(),
            );
        }
    }

    fn put_snapshots(&self, page: &mut Page) {
        let counted = &self.counted;
        for (name, kind, help, value) in [
            (
                "carebook_journal_snapshot_position",
                "gauge",
                "The last position of the newest snapshot that this process has put into the journal's object store, or found there; 0 before.",
                counted.snapshot,
            ),
            (
                "carebook_journal_snapshot_failures_total",
                "counter",
                "Attempts to put a snapshot into the journal's object store that came to nothing.",
                counted.snapshot_failures,
            ),
            (
                "carebook_journal_first_position",
                "gauge",
                "The first position that the journal's stream had when this process put its last snapshot; 0 before.",
                counted.first,
            ),
            (
                "carebook_journal_beginning_lost",
                "gauge",
                "1 when messages are missing at the beginning of the journal's stream that are not listed as purged: no process could start on it.",
                counted.has_lost_beginning,
            ),
        ] {
            page.one(name, kind, help, value);
        }
    }
}
