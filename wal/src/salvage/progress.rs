//! The progress of a survey, and of giving up.

use std::sync::Arc;

use crate::error::{BoxError, Error};
use crate::rebuild::Builder;
use crate::report::Report;
use crate::storage::Storage;
use crate::verify::verify;
use crate::visitor::{Discard, Record, SnapshotInfo, Visitor};

/// Callback with the number of processed bytes and their total.
pub type OnSurvey<'a> = dyn FnMut(u64, u64) + 'a;

/// Reports the progress of a verification, which is half of the work; `before` bytes were processed earlier.
struct Checking<'a, 'b> {
    before: u64,
    bytes: u64,
    on_progress: &'a mut OnSurvey<'b>,
}

impl Visitor for Checking<'_, '_> {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        Discard.snapshot(info)
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        Discard.kept(record)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        Discard.entry(entry)
    }

    fn progress(&mut self, done: u64, _: u64) {
        (self.on_progress)(self.before + done.min(self.bytes), self.bytes * 2);
    }
}

/// Writes the kept records to a new log, and reports the progress: the first half of giving up the
/// rest.
pub(super) struct Building<'a, 'b> {
    builder: &'a mut Builder,
    on_progress: &'a mut OnSurvey<'b>,
}

impl<'a, 'b> Building<'a, 'b> {
    pub(super) fn of(builder: &'a mut Builder, on_progress: &'a mut OnSurvey<'b>) -> Self {
        Self {
            builder,
            on_progress,
        }
    }
}

impl Visitor for Building<'_, '_> {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.builder.record(record)
    }

    fn progress(&mut self, done: u64, total: u64) {
        (self.on_progress)(done, total * 2);
    }
}

/// Verifies the new log, which was built of `bytes` bytes, as at a start: the second half of giving
/// up.
pub(super) fn verify_built(
    storage: Arc<dyn Storage>,
    bytes: u64,
    on_progress: &mut OnSurvey<'_>,
) -> Result<Report, Error> {
    let mut checking = Checking {
        before: bytes,
        bytes,
        on_progress,
    };
    verify(storage, &mut checking)
}

/// Returns the bytes of these segments.
pub(super) fn bytes_of(storage: &dyn Storage, segments: &[(u64, String)]) -> Result<u64, Error> {
    let mut bytes = 0;
    for (_, name) in segments {
        let file = storage.open_read(name);
        let file = file.map_err(Error::io("open", storage.describe(name)))?;
        let length = file.length();
        bytes += length.map_err(Error::io("measure", storage.describe(name)))?;
    }
    Ok(bytes)
}

/// Verifies the whole log, of `bytes` bytes, as at a start: the first half of a survey.
pub(super) fn check(
    storage: &Arc<dyn Storage>,
    bytes: u64,
    on_progress: &mut OnSurvey<'_>,
) -> Result<(), Error> {
    let mut checking = Checking {
        before: 0,
        bytes,
        on_progress: &mut *on_progress,
    };
    let checked = verify(Arc::clone(storage), &mut checking);
    on_progress(bytes, bytes * 2);
    checked.map(drop)
}
