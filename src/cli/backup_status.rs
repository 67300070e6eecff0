//! The file that records the results of backups, for monitoring: `backup --status` writes it,
//! `serve --backup-status` reads it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reread::reread;
use super::whole_file::Unfinished;
use crate::base::time::Timestamp;
use crate::http::metric_sources::{BackupFigures, Backups};
use crate::http::small_file;

/// Interval at which a server reads the file again.
const INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of bytes that are read of the file.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Mode of the file, which anybody may read.
const MODE: u32 = 0o644;

/// The content of the file. Unknown fields are ignored, so that a newer backup may add some.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BackupStatus {
    /// The newest backup that succeeded.
    last_success: Option<Success>,
    /// When the newest failed backup ended.
    last_failure: Option<Timestamp>,
    /// Number of failed backups since the file was created.
    failures: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Success {
    /// When the backup ended.
    at: Timestamp,
    /// The last position in the backup.
    last_position: u64,
    bytes: u64,
}

impl BackupStatus {
    /// Reads the file.
    ///
    /// # Errors
    /// When the file cannot be read, or has other content.
    fn read(file: &Path) -> io::Result<Self> {
        let text = small_file::read(file, FILE_BYTES_MAX)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Reads the status that a new backup updates; an empty or missing file gives an empty status.
    ///
    /// # Errors
    /// When the file cannot be read, or has other content, which would be lost.
    fn before(file: &Path) -> io::Result<Self> {
        let text = match small_file::read(file, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(&text).map_err(|error| {
            let why = format!("it holds something else than the status of backups ({error})");
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }

    /// Returns the status after a backup that ended at `now`; without `backup`, after a failed one.
    fn after(mut self, backup: Option<&wal::Backup>, now: Timestamp) -> Self {
        match backup {
            Some(backup) => {
                self.last_success = Some(Success {
                    at: now,
                    last_position: backup.last_position,
                    bytes: backup.bytes,
                });
            }
            None => {
                self.last_failure = Some(now);
                self.failures = self.failures.saturating_add(1);
            }
        }
        self
    }

    fn figures(&self) -> BackupFigures {
        let success = self.last_success.as_ref();
        BackupFigures {
            is_readable: true,
            at: success.map(|success| success.at),
            position: success.map_or(0, |success| success.last_position),
            bytes: success.map_or(0, |success| success.bytes),
            failures: self.failures,
        }
    }
}

/// Checks that the file, which a backup would replace, holds the status of backups or nothing.
///
/// # Errors
/// When the file has other content, or cannot be read, or is a link that leads to none.
pub(super) fn expect_status(file: &Path) -> io::Result<()> {
    BackupStatus::before(&place_of(file)?).map(drop)
}

/// Checks that this file can be replaced.
///
/// # Errors
/// When it cannot, for example in a folder that does not exist.
pub(super) fn expect_writable(file: &Path) -> io::Result<()> {
    Unfinished::open(&place_of(file)?, MODE).map(drop)
}

/// Returns the file itself; if it is a symbolic link, the one that the link leads to.
fn place_of(file: &Path) -> io::Result<PathBuf> {
    match std::fs::canonicalize(file) {
        Ok(place) => Ok(place),
        Err(_) if file.is_symlink() => {
            let why = "it is a link that leads to no file";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        Err(_) => Ok(file.to_owned()),
    }
}

/// Records in the file that a backup ended at `now`; without `backup`, that it failed. The file is replaced
/// atomically, so a reader never sees a part of it, and durably.
///
/// # Errors
/// When the file cannot be written, or has other content.
pub(super) fn note(file: &Path, backup: Option<&wal::Backup>, now: Timestamp) -> io::Result<()> {
    let file = &place_of(file)?;
    // The old status is read under the lock of the unfinished file, so that concurrent backups are all counted.
    let fresh = Unfinished::open(file, MODE)?;
    let status = BackupStatus::before(file)?;
    let text = serde_json::to_vec_pretty(&status.after(backup, now))?;
    fresh.take_name(file, &text)
}

/// Starts a thread that reads the file now, every 10 seconds, and at SIGHUP; returns the status that it keeps.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn watched(file: &Path) -> io::Result<Arc<Backups>> {
    let backups = Arc::new(Backups::default());
    let (file, read) = (file.to_owned(), Arc::clone(&backups));
    let mut was_readable = true;
    let mut look = move || {
        let status = BackupStatus::read(&file);
        if let Err(error) = &status
            && was_readable
        {
            tracing::warn!(
                file = %file.display(), %error,
                "the file of --backup-status cannot be read: the state of backups is unknown"
            );
        }
        was_readable = status.is_ok();
        read.set(status.ok().map(|status| status.figures()));
    };
    look();
    reread("backup-status", INTERVAL, move |_| look())?;
    Ok(backups)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_failures_and_keeps_the_newest_success() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("status.json");
        let at = Timestamp::from_millis;
        let backup = wal::Backup {
            log_id: [0; 16],
            first_position: 1,
            last_position: 7,
            files: 3,
            bytes: 4_096,
        };
        note(&file, None, at(1_000)).unwrap();
        let figures = || BackupStatus::read(&file).unwrap().figures();
        assert_eq!((figures().at, figures().failures), (None, 1));
        note(&file, Some(&backup), at(2_000)).unwrap();
        note(&file, None, at(3_000)).unwrap();
        let expected = BackupFigures {
            is_readable: true,
            at: Some(at(2_000)),
            position: 7,
            bytes: 4_096,
            failures: 2,
        };
        assert_eq!(figures(), expected);
        // Unknown fields of a newer backup are not other content, and an empty file is accepted.
        for (held, failures) in [("{\"failures\":7,\"more\":1}", 7), ("", 0)] {
            std::fs::write(&file, held).unwrap();
            expect_status(&file).unwrap();
            note(&file, Some(&backup), at(4_000)).unwrap();
            let told = (figures().at, figures().failures);
            assert_eq!(told, (Some(at(4_000)), failures), "{held}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_synced_is_told() {
        use std::os::unix::fs::PermissionsExt as _;
        // Root reads every folder.
        if rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let set = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(directory.path(), mode).unwrap();
        };
        // Files can be made there, and the folder itself not be opened.
        set(0o300);
        let file = directory.path().join("status.json");
        let noted = note(&file, None, Timestamp::from_millis(1_000));
        set(0o700);
        let kind = noted.unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
        assert_eq!(BackupStatus::read(&file).unwrap().failures, 1);
    }

    #[test]
    fn a_file_with_other_content_is_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("status.json");
        for other in ["{", "[]", "{}", "{\"failures\":-1}", "precious"] {
            std::fs::write(&file, other).unwrap();
            assert!(BackupStatus::read(&file).is_err(), "{other}");
            let why = expect_status(&file).unwrap_err().to_string();
            assert!(why.contains("something else"), "{why}");
            assert!(note(&file, None, Timestamp::from_millis(1_000)).is_err());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), other);
            assert_eq!(directory.path().read_dir().unwrap().count(), 1);
        }
        assert!(expect_status(directory.path()).is_err());
        assert!(expect_status(&directory.path().join("none")).is_ok());
    }

    #[test]
    fn a_link_that_leads_to_no_file_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("none"), &link).unwrap();
        let why = expect_status(&link).unwrap_err().to_string();
        assert!(why.contains("leads to no file"), "{why}");
        assert!(note(&link, None, Timestamp::from_millis(1_000)).is_err());
        assert!(expect_writable(&link).is_err());
        assert!(link.is_symlink());
        // Nothing is left of a check.
        assert!(expect_writable(&directory.path().join("missing/file")).is_err());
        expect_writable(&directory.path().join("file")).unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_beside_it_that_has_new_at_its_end_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("status.json");
        let other = directory.path().join("status.json.new");
        std::fs::write(&other, "precious").unwrap();
        note(&file, None, Timestamp::from_millis(1_000)).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
        assert_eq!(directory.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn backups_that_end_at_once_are_all_counted_and_a_link_stays_one() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (
            directory.path().join("status.json"),
            directory.path().join("link"),
        );
        note(&file, None, Timestamp::from_millis(1_000)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| note(&link, None, Timestamp::from_millis(2_000)).unwrap());
            }
        });
        assert!(link.is_symlink());
        assert_eq!(BackupStatus::read(&file).unwrap().figures().failures, 17);
        assert_eq!(directory.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn the_last_figures_stay_while_the_status_file_cannot_be_read() {
        let backups = Backups::default();
        let said = BackupFigures {
            is_readable: true,
            failures: 3,
            ..BackupFigures::default()
        };
        backups.set(Some(said));
        backups.set(None);
        assert!(!backups.figures().is_readable);
        assert_eq!(backups.figures().failures, 3);
    }
}
