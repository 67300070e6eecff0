//! Reads a log without changing it.

use std::sync::Arc;

use crate::ancestry;
use crate::error::Error;
use crate::format;
use crate::index::Index;
use crate::lock;
use crate::manifest::Manifest;
use crate::opening::{begin, expect_finished, no_manifest, report};
use crate::recovery;
use crate::report::Report;
use crate::snapshot;
use crate::storage::Storage;
use crate::survey;
use crate::visitor::{Discard, Visitor};

/// Reads and checks a whole log with its snapshots, shows the newest snapshot
/// and every record after it to the visitor, and writes nothing. A torn tail is no error: the report names it.
///
/// # Errors
/// [`Error::Held`] while a process has the log open, [`Error::NoLog`], [`Error::Unfinished`],
/// [`Error::Damaged`] with the place of the damage, [`Error::Unsupported`],
/// [`Error::Visitor`], [`Error::Io`].
pub fn verify(storage: Arc<dyn Storage>, visitor: &mut dyn Visitor) -> Result<Report, Error> {
    let _lock = lock::share(storage.as_ref())?;
    expect_finished(storage.as_ref())?;
    verify_made(storage.as_ref(), visitor)
}

/// As [`verify`], for a caller that has made the log and has the directory to itself until it is whole.
pub(crate) fn verify_made(
    storage: &dyn Storage,
    visitor: &mut dyn Visitor,
) -> Result<Report, Error> {
    let Some(manifest) = Manifest::load(storage)? else {
        return Err(no_manifest(storage)?);
    };
    let identity = manifest.identity();
    ancestry::check(storage, &identity)?;
    visitor.identity(&identity);
    let begun = begin(storage, &manifest, visitor)?;
    if let Some(bad) = begun.bad.first() {
        return Err(Error::Damaged {
            file: bad.file.clone(),
            offset: bad.offset,
            position: None,
            what: bad.what.clone(),
        });
    }
    let used = begun.used.map(|used| used.number);
    let others = manifest.snapshots.iter();
    for listed in others.filter(|listed| Some(listed.number) != used) {
        let name = format::snapshot_name(listed.number);
        snapshot::show(storage, &name, &manifest.log, listed, &mut Discard)?
            .whole(storage, &name)?;
    }
    let (covered, index) = (begun.covered(), &mut Index::new());
    let survey = survey::survey(storage, &manifest, covered, visitor, index)?;
    recovery::judge(&survey)?;
    visitor.end().map_err(|source| Error::Visitor {
        position: survey.next - 1,
        source,
    })?;
    let torn = recovery::torn_tails(storage, &survey);
    Ok(report(&manifest, &survey, torn, &begun))
}
