//! How far a survey is.

use super::Salvage;
use crate::error::{BoxError, Error};
use crate::verify::verify;
use crate::visitor::{Record, Visitor};

/// Called with how many bytes of how many are done.
pub type OnSurvey<'a> = dyn FnMut(u64, u64) + 'a;

/// The first half of a survey: everything is read as at a start.
struct Checking<'a, 'b> {
    bytes: u64,
    on_progress: &'a mut OnSurvey<'b>,
}

impl Visitor for Checking<'_, '_> {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn progress(&mut self, done: u64, _: u64) {
        (self.on_progress)(done.min(self.bytes), self.bytes * 2);
    }
}

impl Salvage {
    /// The bytes of these segments.
    pub(super) fn bytes_of(&self, segments: &[(u64, String)]) -> Result<u64, Error> {
        let mut bytes = 0;
        for (_, name) in segments {
            let file = self.storage.open_read(name);
            let file = file.map_err(Error::io("open", self.storage.describe(name)))?;
            let length = file.length();
            bytes += length.map_err(Error::io("measure", self.storage.describe(name)))?;
        }
        Ok(bytes)
    }

    /// Reads everything as at a start, and notes what is damaged; returns the segments' bytes.
    pub(super) fn check_all(
        &mut self,
        segments: &[(u64, String)],
        on_progress: &mut OnSurvey<'_>,
    ) -> Result<u64, Error> {
        let bytes = self.bytes_of(segments)?;
        let mut checking = Checking {
            bytes,
            on_progress: &mut *on_progress,
        };
        if let Err(error) = verify(std::sync::Arc::clone(&self.storage), &mut checking) {
            self.note(error)?;
        }
        on_progress(bytes, bytes * 2);
        Ok(bytes)
    }
}
