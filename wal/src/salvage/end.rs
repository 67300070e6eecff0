//! Determines whether the end of a damaged log is known, or further records may have been lost.

use std::io;

use super::runs::Run;
use crate::error::Error;
use crate::format::{self, FIRST_FRAME, HeaderFound, SegmentHeader, to_usize};
use crate::manifest::Manifest;
use crate::storage::Storage;
use crate::window::{Window, nonzero};

/// Whether nothing unreadable follows the last readable record. Without a manifest this is not
/// known: segments after the last one that is there may be missing, and nothing says so.
pub(super) fn is_known(
    storage: &dyn Storage,
    segments: &[(u64, String)],
    runs: &[Run],
    manifest: Option<&Manifest>,
) -> Result<bool, Error> {
    let Some(manifest) = manifest else {
        return Ok(false);
    };
    Ok(ends_in_zeros(storage, segments, runs)? && has_what_is_open(storage, manifest)?)
}

/// Whether only zeros follow the last sound frame.
fn ends_in_zeros(
    storage: &dyn Storage,
    segments: &[(u64, String)],
    runs: &[Run],
) -> Result<bool, Error> {
    for (_, name) in segments.iter().rev() {
        let failed = |source| Error::io("read", storage.describe(name))(source);
        let file = storage.open_read(name).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let runs = runs.iter().filter(|run| run.name == *name);
        let end = runs.map(|run| run.end).max();
        let mut window = Window::new(file.as_ref(), length);
        let from = end.unwrap_or(FIRST_FRAME);
        let more = nonzero(&mut window, from, length).map_err(failed)?;
        if more.is_some() {
            return Ok(false);
        }
        if end.is_some() {
            break;
        }
    }
    Ok(true)
}

/// Whether the segments that the manifest lists without a seal are there, each as long as it was
/// made: nothing else says what was in them.
fn has_what_is_open(storage: &dyn Storage, manifest: &Manifest) -> Result<bool, Error> {
    let listed = manifest.segments.iter();
    for segment in listed.filter(|segment| segment.seal.is_none()) {
        if !is_as_long_as_made(storage, &format::segment_name(segment.number))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a segment is there, and has all the bytes that its header states.
fn is_as_long_as_made(storage: &dyn Storage, name: &str) -> Result<bool, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = match storage.open_read(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    let length = file.length().map_err(failed)?;
    let mut window = Window::with_piece(file.as_ref(), length, to_usize(FIRST_FRAME));
    let block = window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?;
    Ok(match SegmentHeader::parse(block) {
        HeaderFound::Sound(header) => length >= header.size,
        HeaderFound::Unsupported(_) | HeaderFound::Damaged { .. } => false,
    })
}
