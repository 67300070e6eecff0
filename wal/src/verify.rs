//! Reads a log without changing it.

use std::sync::Arc;

use crate::error::Error;
use crate::format;
use crate::lock;
use crate::log::report;
use crate::manifest::Manifest;
use crate::reader::Index;
use crate::recovery;
use crate::storage::Storage;
use crate::survey::{self, Report, Visitor};

/// Reads and checks a whole log, shows every record to the visitor, and writes
/// nothing. A torn tail is no error: the report names it.
///
/// # Errors
/// [`Error::Held`] while a process has the log open, [`Error::NoLog`],
/// [`Error::Damaged`] with the place of the damage, [`Error::Unsupported`],
/// [`Error::Visitor`], [`Error::Io`].
pub fn verify(storage: Arc<dyn Storage>, visitor: &mut dyn Visitor) -> Result<Report, Error> {
    let storage = storage.as_ref();
    let _lock = lock::share(storage)?;
    let Some(manifest) = Manifest::load(storage)? else {
        return Err(no_manifest(storage)?);
    };
    let survey = survey::survey(storage, &manifest, visitor, &mut Index::new())?;
    recovery::judge(&survey)?;
    let torn = recovery::torn_tails(storage, &survey);
    Ok(report(&manifest, &survey, torn))
}

/// What a directory without a manifest is: no log, or one that has lost it.
pub(crate) fn no_manifest(storage: &dyn Storage) -> Result<Error, Error> {
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
