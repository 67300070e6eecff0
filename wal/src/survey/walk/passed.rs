//! Segments whose records a snapshot covers: a start skips them.

use super::super::found::{MISSING, OTHER_RECORDS, location};
use super::{SegmentScan, Walk};
use crate::error::Error;
use crate::format::{self, FIRST_FRAME, to_usize};
use crate::frame::START_BYTES;
use crate::manifest::{Seal, Segment};
use crate::scan::Step;
use crate::storage::File;
use crate::window::Window;

impl Walk<'_> {
    /// Returns the seal of a segment that is to be skipped, because nothing in it is to be shown or
    /// read.
    pub(super) fn passed_over(&self, segment: &Segment) -> Option<Seal> {
        let covered = |seal: &Seal| !self.is_all_read && seal.last <= self.covered;
        segment.seal.filter(covered)
    }

    /// Checks the beginning of a segment, and takes the rest from its seal in the manifest.
    pub(super) fn pass_over(
        &mut self,
        segment: &Segment,
        seal: &Seal,
        file: &dyn File,
    ) -> Result<SegmentScan, Error> {
        let (storage, name) = (self.storage, format::segment_name(segment.number));
        let failed = |source| Error::io("read", storage.describe(&name))(source);
        let length = file.length().map_err(failed)?;
        let mut window = Window::with_piece(file, length, to_usize(FIRST_FRAME + START_BYTES));
        if let Some(place) = self.fault_of_file(&mut window, segment, length)? {
            return Ok(SegmentScan::Structure(place));
        }
        let what = match self.step(&mut window, segment, FIRST_FRAME, seal.length) {
            Ok(Step::Frame(_)) if seal.first == self.next => None,
            Ok(Step::Frame(_)) => Some(OTHER_RECORDS),
            Ok(Step::End(end)) => Some(end.what().unwrap_or(MISSING)),
            Err(source) => return Err(failed(source)),
        };
        if let Some(what) = what {
            let place = location(storage, &name, FIRST_FRAME, what);
            return Ok(SegmentScan::Structure(place));
        }
        if seal.first <= seal.last {
            self.index.list(seal.first, segment.number);
        }
        (self.next, self.chain) = (seal.last + 1, seal.chain);
        self.last_frame = Some((segment.number, seal.length));
        self.segments += 1;
        self.bytes += seal.length;
        Ok(SegmentScan::Whole)
    }
}
