//! The common parts of opening a log and checking one: the snapshot they begin with, the report they end with, and the
//! error for a directory without a manifest.

use std::io;

use crate::error::Error;
use crate::format;
use crate::manifest::{Manifest, Snapshot};
use crate::report::{BadSnapshot, Report, TornTail};
use crate::snapshot::{self, Kept, Shown};
use crate::storage::Storage;
use crate::survey::{self, Survey};
use crate::visitor::{SnapshotInfo, Visitor};

/// Part of [`Error::Damaged`]'s description of a snapshot without which the log does not open: its records are gone.
pub const NO_OTHER_SNAPSHOT: &str = "no other snapshot can be read";

/// The snapshot that was shown before the first record.
pub(crate) struct Begun {
    pub(crate) used: Option<Snapshot>,
    pub(crate) kept: Option<Kept>,
    pub(crate) bad: Vec<BadSnapshot>,
}

impl Begun {
    /// The position up to which a snapshot has shown every record; 0 without one.
    pub(crate) fn covered(&self) -> u64 {
        self.used.map_or(0, |used| used.covers)
    }
}

/// Shows the newest snapshot that can be read; without one, the log must begin
/// with its first record.
pub(crate) fn begin(
    storage: &dyn Storage,
    manifest: &Manifest,
    visitor: &mut dyn Visitor,
) -> Result<Begun, Error> {
    let mut bad = Vec::new();
    for listed in manifest.snapshots.iter().rev() {
        let name = format::snapshot_name(listed.number);
        let (offset, what) =
            match snapshot::show_by_two(storage, &name, &manifest.log, listed, visitor) {
                Ok(Shown::Whole(kept)) => {
                    return Ok(Begun {
                        used: Some(*listed),
                        kept: Some(kept),
                        bad,
                    });
                }
                Ok(Shown::Bad { offset, what }) => (offset, what),
                Err(error) if error.is_of_other_form() => return Err(error),
                Err(Error::Visitor { source, .. }) => (0, source.to_string()),
                Err(error) => return Err(error),
            };
        bad.push(BadSnapshot {
            number: listed.number,
            file: storage.describe(&name),
            offset,
            what,
        });
    }
    if manifest.first_position > 1 {
        return Err(match bad.first() {
            Some(BadSnapshot {
                file, offset, what, ..
            }) => Error::Damaged {
                file: file.clone(),
                offset: *offset,
                position: None,
                what: format!(
                    "{what}; {NO_OTHER_SNAPSHOT}, and the log begins only at position {}",
                    manifest.first_position
                ),
            },
            None => Error::Damaged {
                file: storage.describe(format::MANIFEST),
                offset: 56,
                position: Some(1),
                what: "the log does not begin with its first record, and there is no snapshot"
                    .to_owned(),
            },
        });
    }
    if !bad.is_empty() {
        visitor.reset();
    }
    Ok(Begun {
        used: None,
        kept: None,
        bad,
    })
}

pub(crate) fn report(
    manifest: &Manifest,
    survey: &Survey,
    torn: Vec<TornTail>,
    begun: &Begun,
) -> Report {
    Report {
        log_id: manifest.log,
        ancestors: manifest.ancestors.clone(),
        created: false,
        epoch: manifest.epoch,
        segments: survey.segments,
        records: survey.records,
        first_position: manifest.first_position,
        last_position: survey.next - 1,
        bytes: survey.bytes,
        durable_mark: survey.mark,
        torn,
        snapshot: begun.used.as_ref().map(SnapshotInfo::from),
        snapshots: manifest
            .snapshots
            .iter()
            .rev()
            .map(SnapshotInfo::from)
            .collect(),
        bad_snapshots: begun.bad.clone(),
    }
}

/// Refuses a directory in which a backup or a restore goes on, or did not end: it is no log, whatever
/// else is there.
pub(crate) fn expect_finished(storage: &dyn Storage) -> Result<(), Error> {
    match storage.open_read(format::COPY_TEMP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("open", storage.describe(format::COPY_TEMP))(
            error,
        )),
        Ok(_) => Err(Error::Unfinished {
            directory: storage.describe(""),
        }),
    }
}

/// Returns the error for a directory without a manifest: it is no log, or one that has lost it.
pub(crate) fn no_manifest(storage: &dyn Storage) -> Result<Error, Error> {
    expect_finished(storage)?;
    Ok(match survey::orphan(storage)? {
        None => Error::NoLog {
            directory: storage.describe(""),
        },
        Some(segment) => Error::Damaged {
            file: storage.describe(format::MANIFEST),
            offset: 0,
            position: None,
            what: format!("the manifest is missing, but there is {segment}"),
        },
    })
}
