//! What else a directory holds: whether a log may begin there.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::exit::Failure;
use super::printable::printable;

/// What a new file system has in its first directory.
pub(super) const LOST_AND_FOUND: &str = "lost+found";
/// What every log has.
const MANIFEST: &str = "manifest";
/// What the names of the files begin with that a log has, and that carebook keeps beside one.
const KEPT: [&str; 11] = [
    "ancestors-",
    "carried",
    "copy.new",
    "demo-key.pem",
    "journal",
    "lock",
    MANIFEST,
    "quarantine",
    "segment-",
    "snapshot-",
    "webhook.key",
];

/// Refuses to begin a log among files of others. A directory that has a log may have any; one that has none
/// may have what carebook keeps beside a log, and what a log has left, which `wal` judges.
///
/// # Errors
/// When there is no log, but something else; when that cannot be found out.
pub(super) fn expect_no_others(path: &Path) -> Result<(), Failure> {
    if path.join(MANIFEST).symlink_metadata().is_ok() {
        return Ok(());
    }
    expect_only(path, |name, is_directory| {
        let is_kept = |name: &str| KEPT.iter().any(|kept| name.starts_with(kept));
        is_directory && name == LOST_AND_FOUND || name.to_str().is_some_and(is_kept)
    })
}

/// Refuses a directory that holds anything else than this; it is told whether a name is a directory's.
///
/// # Errors
/// When it does, or cannot be read.
pub(super) fn expect_only(
    path: &Path,
    is_fine: impl Fn(&OsStr, bool) -> bool,
) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::other(format!("{} cannot be read: {error}", path.display()));
    for entry in path.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (name, kind) = (entry.file_name(), entry.file_type().map_err(failed)?);
        if !is_fine(&name, kind.is_dir()) {
            return Err(Failure::other(format!(
                "{} cannot be used: the directory is not empty, it holds {}; name one that is empty or \
                 not there yet",
                path.display(),
                printable(&name.to_string_lossy())
            )));
        }
    }
    Ok(())
}
