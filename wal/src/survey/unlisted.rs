//! Files in the directory of a log that its manifest does not list.

use super::found::{Location, location};
use crate::error::Error;
use crate::format::{self, FIRST_FRAME, HeaderFound, SegmentHeader, to_usize};
use crate::manifest::Manifest;
use crate::snapshot;
use crate::storage::Storage;
use crate::window::{Window, nonzero};

/// The files that the manifest does not list.
#[derive(Default)]
pub(super) struct Unlisted {
    /// Files that a crash left: to be removed.
    pub(super) leftovers: Vec<String>,
    /// Files of an ancestor: to be kept under another name.
    pub(super) given_up: Vec<String>,
    /// The first file that is neither.
    pub(super) fault: Option<Location>,
}

/// The kinds of unlisted files.
enum Kind {
    Leftover,
    GivenUp,
    Fault(Location),
}

/// Classifies the files that the manifest does not list. A segment that a crash left is blank, or comes before the
/// log's first one; a snapshot names its log; the files of an ancestor are to be given up; anything else is a fault.
pub(super) fn unlisted(storage: &dyn Storage, manifest: &Manifest) -> Result<Unlisted, Error> {
    let names = storage
        .list("")
        .map_err(Error::io("list", storage.describe("")))?;
    let mut unlisted = Unlisted::default();
    for name in names {
        let kind = if let Some(number) = format::parse_snapshot_name(&name) {
            if manifest.snapshots.iter().any(|one| one.number == number) {
                continue;
            }
            match snapshot::is_of(storage, &name, &manifest.log)? {
                true => Kind::Leftover,
                false => Kind::GivenUp,
            }
        } else if format::is_temp_name(&name) {
            Kind::Leftover
        } else if let Some(number) = format::parse_segment_name(&name) {
            if manifest.segments.iter().any(|one| one.number == number) {
                continue;
            }
            segment(storage, manifest, number, &name)?
        } else {
            continue;
        };
        match kind {
            Kind::Leftover => unlisted.leftovers.push(name),
            Kind::GivenUp => unlisted.given_up.push(name),
            Kind::Fault(place) => {
                unlisted.fault = Some(place);
                break;
            }
        }
    }
    Ok(unlisted)
}

/// Classifies a segment that the manifest does not list.
fn segment(
    storage: &dyn Storage,
    manifest: &Manifest,
    number: u64,
    name: &str,
) -> Result<Kind, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut window = Window::new(file.as_ref(), length);
    let block = window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?;
    let found = match SegmentHeader::parse(block) {
        HeaderFound::Sound(header) if header.number == number => Some(header.log),
        _ => None,
    };
    let first_listed = manifest.segments.first().map(|segment| segment.number);
    let first_listed = first_listed.unwrap_or(manifest.next_number);
    let is_ancestors = match found {
        Some(log) if log == manifest.log => false,
        // Segments of an interrupted recovery have numbers that this log has not assigned yet.
        Some(_) if number >= manifest.next_number => true,
        Some(log) => manifest.ancestors.iter().any(|one| one.log_id == log),
        // A recovered log has higher segment numbers than the log before the recovery.
        None => !manifest.ancestors.is_empty() && number < first_listed,
    };
    if is_ancestors {
        return Ok(Kind::GivenUp);
    }
    if found != Some(manifest.log) {
        let what = "the manifest does not list this file, and it is no segment of this log";
        return Ok(Kind::Fault(location(storage, name, 0, what)));
    }
    // A compaction was interrupted: the manifest already begins after this segment.
    if number < first_listed && manifest.first_position > 1 {
        return Ok(Kind::Leftover);
    }
    if let Some((offset, _)) = nonzero(&mut window, FIRST_FRAME, length).map_err(failed)? {
        let what = "the manifest does not list this segment, yet it is not empty: the manifest is \
                    older than it, or the file was put here";
        return Ok(Kind::Fault(location(storage, name, offset, what)));
    }
    Ok(Kind::Leftover)
}

/// Returns a file, if there is one, that only a log, or an interrupted backup or restore, leaves in
/// a directory without a manifest. A log with nothing but the beginning of its first manifest does
/// not count yet.
pub(crate) fn orphan(storage: &dyn Storage) -> Result<Option<String>, Error> {
    let names = storage
        .list("")
        .map_err(Error::io("list", storage.describe("")))?;
    Ok(names.into_iter().find(|name| {
        format::parse_segment_name(name).is_some()
            || format::parse_snapshot_name(name).is_some()
            || (format::is_temp_name(name) && name != format::MANIFEST_TEMP)
    }))
}
