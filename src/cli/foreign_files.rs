//! Checks what a directory contains before a log is created in it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::exit::Failure;
use super::printable::printable;

/// Directory that a new file system has at its root.
pub(super) const LOST_AND_FOUND: &str = "lost+found";
/// File that every log has.
const MANIFEST: &str = "manifest";
/// Name prefixes of the files that carebook keeps beside a log, and of a log's auxiliary files.
const KEPT: [&str; 7] = [
    "carried",
    "demo-key.pem",
    "journal",
    "lock",
    MANIFEST,
    "quarantine",
    "webhook.key",
];

/// Name prefixes that only a log, or an unfinished copy of one, leaves; `wal` reports what is missing there.
const OF_A_LOG: [&str; 4] = ["ancestors-", "copy.new", "segment-", "snapshot-"];

/// Refuses to begin a log among files of others. A directory that has a log, or what is left of one, may have any
/// files; another one may have what carebook keeps beside a log.
///
/// # Errors
/// When the directory has no log but other files, or cannot be read.
pub(super) fn expect_no_foreign_files(path: &Path) -> Result<(), Failure> {
    if path.join(MANIFEST).symlink_metadata().is_ok() {
        return Ok(());
    }
    for entry in path.read_dir().map_err(|error| unreadable(path, &error))? {
        let name = entry.map_err(|error| unreadable(path, &error))?.file_name();
        let is_of_a_log = |name: &str| OF_A_LOG.iter().any(|of| name.starts_with(of));
        if name.to_str().is_some_and(is_of_a_log) {
            return Ok(());
        }
    }
    expect_only(path, |name, is_directory| {
        let is_kept = |name: &str| KEPT.iter().any(|kept| name.starts_with(kept));
        is_directory && name == LOST_AND_FOUND || name.to_str().is_some_and(is_kept)
    })
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::other(format!("{} cannot be read: {error}", path.display()))
}

/// Refuses a directory with an entry that `is_fine` rejects. That gets the entry's name, and whether it is a directory.
///
/// # Errors
/// When there is such an entry, or the directory cannot be read.
pub(super) fn expect_only(
    path: &Path,
    is_fine: impl Fn(&OsStr, bool) -> bool,
) -> Result<(), Failure> {
    let failed = |error: io::Error| unreadable(path, &error);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn remains_of_a_log_are_left_to_the_log_whatever_files_are_beside_them() {
        for left in ["segment-00000001.log", "snapshot-00000001.snap", "copy.new"] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join("notes.txt"), "").unwrap();
            assert!(expect_no_foreign_files(directory.path()).is_err());
            std::fs::write(directory.path().join(left), "").unwrap();
            assert!(expect_no_foreign_files(directory.path()).is_ok(), "{left}");
        }
    }
}
