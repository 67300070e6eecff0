//! Writes small files atomically: the content is first written to an unfinished file beside the target, by one process
//! at a time, which is then renamed. A crash leaves the whole file or none.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Mode of a private file: only its owner may read it.
const PRIVATE: u32 = 0o600;

/// Suffix of an unfinished file's name. No other program uses it, so such a file may be removed.
const UNFINISHED: &str = ".carebook-new";

/// Returns the path of the file until it is whole.
pub(super) fn unfinished(file: &Path) -> PathBuf {
    let mut fresh = OsString::from(file);
    fresh.push(UNFINISHED);
    fresh.into()
}

/// Makes a private file, durably.
///
/// # Errors
/// When it is there already, which a concurrent start may have made, or cannot be written.
pub(super) fn make(file: &Path, text: &str) -> io::Result<()> {
    make_as(file, text, PRIVATE)
}

/// As [`make`], a file with this mode.
///
/// # Errors
/// Those of [`make`].
pub(super) fn make_as(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let fresh = Unfinished::open(file, mode)?;
    fresh.write(text.as_bytes())?;
    std::fs::hard_link(&fresh.path, file)?;
    drop(fresh);
    sync_folder(file)
}

/// Writes a private file, durably, and replaces an existing one.
///
/// # Errors
/// When it cannot be written.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    Unfinished::open(file, PRIVATE)?.take_name(file, text.as_bytes())
}

/// An unfinished file, locked by this process. Dropping it removes the file, unless it was renamed.
pub(super) struct Unfinished {
    file: File,
    path: PathBuf,
    is_named: bool,
}

impl Unfinished {
    /// Opens the unfinished file of `file`, with this mode; waits until no other process has it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(file: &Path, mode: u32) -> io::Result<Self> {
        let path = unfinished(file);
        loop {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false).mode(mode);
            // Does not follow a link, and does not wait for a pipe.
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            let file = match options.custom_flags(flags).open(&path) {
                Ok(file) => file,
                // Another user's file, or a link: the owner of the folder may remove it.
                Err(error) if is_of_others(&error) => {
                    std::fs::remove_file(&path).map_err(|_| error)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            file.lock()?;
            // The previous lock holder may have renamed or removed the file.
            let own = file.metadata()?;
            let is_here = match std::fs::symlink_metadata(&path) {
                Ok(found) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            if !is_here {
                continue;
            }
            // After a crash the file may also have its final name; and anybody who may write to this folder may have
            // created it with other rights.
            let is_own = own.uid() == rustix::process::geteuid().as_raw();
            if own.is_file() && (own.nlink() > 1 || !is_own || own.mode() & 0o777 & !mode != 0) {
                std::fs::remove_file(&path)?;
                continue;
            }
            return Ok(Self {
                file,
                path,
                is_named: false,
            });
        }
    }

    /// Writes this content, durably.
    fn write(&self, content: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(content)?;
        self.file.sync_all()
    }

    /// Writes this content and renames the file to its final name, durably; an existing file is replaced.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn take_name(mut self, file: &Path, content: &[u8]) -> io::Result<()> {
        self.write(content)?;
        std::fs::rename(&self.path, file)?;
        self.is_named = true;
        sync_folder(file)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a file cannot be opened because of its owner, or because it is a link.
fn is_of_others(error: &io::Error) -> bool {
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_link || error.kind() == ErrorKind::PermissionDenied
}

fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file
        .parent()
        .map(|folder| match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        });
    folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_concurrent_maker_of_a_file_succeeds_and_the_others_get_an_error() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("key");
            let made: Vec<_> = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..8)
                    .map(|number: u32| {
                        let file = &file;
                        scope.spawn(move || make(file, &number.to_string()).map(|()| number))
                    })
                    .collect();
                let made = makers.into_iter().map(|maker| maker.join().unwrap());
                made.collect()
            });
            let kept = std::fs::read_to_string(&file).unwrap();
            let (well, told): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
            assert_eq!(well.len(), 1);
            assert!(
                well.iter()
                    .all(|made| made.as_ref().unwrap().to_string() == kept)
            );
            for why in told {
                assert_eq!(why.unwrap_err().kind(), ErrorKind::AlreadyExists);
            }
            assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_replaced_file_has_all_of_the_new_text_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mark");
        make(&file, "a text that is longer").unwrap();
        // A crash may have left it with two names.
        std::fs::hard_link(&file, unfinished(&file)).unwrap();
        replace(&file, "short").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "short");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_where_the_unfinished_file_is_to_be_is_removed_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let elsewhere = folder.path().join("elsewhere");
        for target in [&elsewhere, &folder.path().join("nowhere")] {
            std::fs::write(&elsewhere, "another's").unwrap();
            std::os::unix::fs::symlink(target, unfinished(&file)).unwrap();
            replace(&file, "own").unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "own");
            assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "another's");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_others_can_read_is_never_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(unfinished(&file), "").unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(unfinished(&file), open).unwrap();
        let opened = File::open(unfinished(&file)).unwrap();
        make(&file, "secret").unwrap();
        assert_eq!(opened.metadata().unwrap().len(), 0);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
}
