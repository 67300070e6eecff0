//! Metrics of the certificate, backups, logs, traces and the journal.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing_appender::non_blocking::ErrorCounter;

use super::access_log::AccessLog;
use super::metrics::journal::JournalFigures;
use super::metrics::page::{Page, age};
use super::tls::{CertificateFigures, Tls};
use super::traces::{TraceFigures, Tracer};
use crate::base::time::Timestamp;
use crate::stream::handle::JournalHandle;

/// The sources of these metrics; `None` for what the service does not use.
#[derive(Clone, Default)]
pub struct MetricSources {
    /// TLS.
    pub tls: Option<Arc<Tls>>,
    /// Backups.
    pub backups: Option<Arc<Backups>>,
    /// The access log.
    pub access_log: Option<Arc<AccessLog>>,
    /// The tracer.
    pub tracer: Option<Arc<Tracer>>,
    /// The handle of a journal that several machines share.
    pub journal: Option<Arc<JournalHandle>>,
    /// Counts lost lines of the service's other log.
    pub log_lost: Option<ErrorCounter>,
}

/// The state of backups, as the backup command has written it.
#[derive(Debug, Default)]
pub struct Backups(Mutex<BackupFigures>);

/// The state of backups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupFigures {
    /// Whether the last attempt to read the state succeeded; if not, the other fields are from an earlier one.
    pub is_readable: bool,
    /// When the newest successful backup ended; `None` if there is none.
    pub at: Option<Timestamp>,
    /// The last position in that backup.
    pub position: u64,
    /// The size of that backup, in bytes.
    pub bytes: u64,
    /// Number of failed backups.
    pub failures: u64,
}

impl Backups {
    /// Returns the state of backups.
    #[must_use]
    pub fn figures(&self) -> BackupFigures {
        *self.0.lock()
    }

    /// Stores the state that was read; `None` if it could not be read.
    pub fn set(&self, figures: Option<BackupFigures>) {
        let mut known = self.0.lock();
        *known = figures.unwrap_or(BackupFigures {
            is_readable: false,
            ..*known
        });
    }
}

/// The figures of [`MetricSources`].
#[derive(Clone, Copy, Debug, Default)]
pub struct UpkeepFigures {
    /// The certificate in use.
    pub certificate: Option<CertificateFigures>,
    /// Backups.
    pub backups: Option<BackupFigures>,
    /// Lines of the access log that were lost.
    pub access_lost: Option<usize>,
    /// Lines of the other log that were lost.
    pub log_lost: usize,
    /// The counts of exported and dropped spans.
    pub traces: Option<TraceFigures>,
    /// The journal that several machines share.
    pub journal: Option<JournalFigures>,
}

impl MetricSources {
    /// Returns the current figures.
    #[must_use]
    pub fn figures(&self) -> UpkeepFigures {
        UpkeepFigures {
            certificate: self.tls.as_ref().map(|tls| tls.figures()),
            backups: self.backups.as_ref().map(|backups| backups.figures()),
            journal: self.journal.as_deref().map(JournalFigures::of),
            traces: self.tracer.as_ref().map(|tracer| tracer.counts().figures()),
            log_lost: self
                .log_lost
                .as_ref()
                .map_or(0, ErrorCounter::dropped_lines),
            access_lost: self.access_log.as_ref().map(|log| log.lost()),
        }
    }
}

impl UpkeepFigures {
    /// Adds the figures to the page; ages are relative to `now`.
    pub(super) fn put(&self, page: &mut Page, now: Timestamp) {
        if let Some(certificate) = self.certificate {
            page.one(
                "carebook_certificate_end_timestamp_seconds",
                "gauge",
                "When the first certificate of the TLS chain in use ends, since 1970.",
                certificate.ends,
            );
            page.one(
                "carebook_certificate_is_usable",
                "gauge",
                "1 while the certificate's files can be used; 0 while those of before stay in use.",
                u8::from(certificate.is_usable),
            );
            page.one(
                "carebook_certificate_failures_total",
                "counter",
                "How often the certificate's files could not be read or used again.",
                certificate.failures,
            );
        }
        page.one(
            "carebook_log_lines_lost_total",
            "counter",
            "Lines on standard error that were lost because nobody read them in time.",
            self.log_lost,
        );
        if let Some(traces) = self.traces {
            traces.put(page);
        }
        if let Some(journal) = self.journal {
            journal.put(page);
        }
        if let Some(lost) = self.access_lost {
            page.one(
                "carebook_access_log_lost_total",
                "counter",
                "Lines of the access log that were lost because nobody read them in time.",
                lost,
            );
        }
        if let Some(backups) = self.backups {
            self::backups(page, &backups, now);
        }
    }
}

fn backups(page: &mut Page, figures: &BackupFigures, now: Timestamp) {
    let gauge = "gauge";
    page.one(
        "carebook_backup_status_readable",
        gauge,
        "1 when the file of --backup-status could be read; otherwise the rest is as it was.",
        u8::from(figures.is_readable),
    );
    page.one(
        "carebook_backup_age_seconds",
        gauge,
        "The time since the newest backup ended; +Inf when there is none.",
        age(figures.at, now),
    );
    page.one(
        "carebook_backup_position",
        gauge,
        "The last position of the newest backup.",
        figures.position,
    );
    page.one(
        "carebook_backup_bytes",
        gauge,
        "Bytes of the newest backup.",
        figures.bytes,
    );
    page.one(
        "carebook_backup_failures_total",
        "counter",
        "Backups that failed, as long as the file of --backup-status is there.",
        figures.failures,
    );
}
