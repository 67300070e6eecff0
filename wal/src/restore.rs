//! Makes a new log of what another one held at a position.

use std::io;
use std::sync::Arc;

use crate::error::Error;
use crate::format;
use crate::lock;
use crate::manifest::Manifest;
use crate::reader::Index;
use crate::rebuild::{Builder, Numbers};
use crate::recovery;
use crate::snapshot::{self, Nobody, Shown};
use crate::storage::Storage;
use crate::survey::{self, Report, Visitor};
use crate::verify::{no_manifest, verify};

/// Refuses a directory that holds anything.
pub(crate) fn expect_empty(target: &dyn Storage) -> Result<(), Error> {
    let names = target
        .list("")
        .map_err(Error::io("list", target.describe("")))?;
    match names.first() {
        None => Ok(()),
        Some(name) => Err(Error::Io {
            what: "use",
            file: target.describe(""),
            source: io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("the directory is not empty, it holds {name}"),
            ),
        }),
    }
}

/// Shows every record that the log still has, whether or not a snapshot covers
/// it. Nothing is written.
///
/// # Errors
/// As [`verify`]'s; [`Error::Held`] while a process has the log open.
pub fn records(storage: &dyn Storage, visitor: &mut dyn Visitor) -> Result<(), Error> {
    let _lock = lock::share(storage)?;
    let Some(manifest) = Manifest::load(storage)? else {
        return Err(no_manifest(storage)?);
    };
    let survey = survey::survey(storage, &manifest, 0, visitor, &mut Index::new())?;
    recovery::judge(&survey)
}

/// Makes a new log, with an id of its own, of what the log in `source` held at
/// position `upto` (without one, at its end), in a `target` that is empty, and
/// verifies it. Positions stay as they are. Interrupted, it leaves no log.
///
/// # Errors
/// [`Error::Held`] while a process has the source open; [`Error::Damaged`] and
/// [`Error::Unsupported`] when it cannot be read; [`Error::Io`], also for a
/// target that is not empty, and for a position that the source does not reach
/// or that its oldest snapshot is after.
pub fn restore(
    source: &dyn Storage,
    target: &Arc<dyn Storage>,
    upto: Option<u64>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    expect_empty(target.as_ref())?;
    let _lock = lock::share(source)?;
    let Some(manifest) = Manifest::load(source)? else {
        return Err(no_manifest(source)?);
    };
    let limit = upto.unwrap_or(u64::MAX);
    let mut builder = Builder::new(Arc::clone(target), Numbers::FIRST, limit)?;
    let mut covered = 0;
    let mut bad = None;
    let listed = manifest.snapshots.iter().rev();
    for listed in listed.filter(|listed| listed.upto <= limit) {
        let name = format::snapshot_name(listed.number);
        match snapshot::show(source, &name, &manifest.log, listed, &mut builder)? {
            Shown::Whole(_) => {
                covered = listed.covers;
                break;
            }
            Shown::Bad { offset, what } => {
                builder.reset();
                bad = Some(Error::Damaged {
                    file: source.describe(&name),
                    offset,
                    position: None,
                    what,
                });
            }
        }
    }
    if covered + 1 < manifest.first_position {
        return Err(bad.unwrap_or_else(|| {
            let oldest = manifest.snapshots.first().map_or(0, |oldest| oldest.upto);
            unreachable_position(source, limit, &format!("the earliest it holds is {oldest}"))
        }));
    }
    let mut both = Both {
        builder: &mut builder,
        progress,
    };
    let survey = survey::survey(source, &manifest, covered, &mut both, &mut Index::new())?;
    recovery::judge(&survey)?;
    if upto.is_some_and(|upto| upto >= survey.next) {
        let what = format!("the last it holds is {}", survey.next - 1);
        return Err(unreachable_position(source, limit, &what));
    }
    builder.finish()?;
    verify(Arc::clone(target), &mut Nobody(|| {}))
}

fn unreachable_position(source: &dyn Storage, position: u64, what: &str) -> Error {
    Error::Io {
        what: "restore from",
        file: source.describe(""),
        source: io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("position {position} is not to be had, {what}"),
        ),
    }
}

/// Shows records to one and the progress to the other.
struct Both<'a> {
    builder: &'a mut Builder,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Visitor for Both<'_> {
    fn record(&mut self, record: survey::Record<'_>) -> Result<(), crate::error::BoxError> {
        self.builder.record(record)
    }

    fn progress(&mut self, done: u64, total: u64) {
        (self.progress)(done, total);
    }
}
