//! The callbacks by which long work in the background gives way to commits.

use crate::error::{BoxError, Error};
use crate::visitor::{Record, SnapshotInfo, Visitor};

/// Called after each chunk of a long work: the callback can pause there, or end the work by an
/// error.
pub(crate) type Throttle<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// Called before each chunk of segments that is copied to an archive, with the bytes copied so far
/// and the total; its error ends the copying.
pub(crate) type Copying<'a> = &'a mut dyn FnMut(u64, u64) -> Result<(), Error>;

/// A visitor that throttles the reading of a snapshot, and ignores its content.
pub(crate) struct Throttled<'a> {
    pub(crate) throttle: Throttle<'a>,
    /// The error by which the throttle ended the work.
    pub(crate) ended: Option<Error>,
}

impl Throttled<'_> {
    fn step(&mut self) -> Result<(), BoxError> {
        (self.throttle)().map_err(|error| {
            let sentence = error.to_string();
            self.ended = Some(error);
            sentence.into()
        })
    }
}

impl Visitor for Throttled<'_> {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        self.step()
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        self.step()
    }
}
