//! A small file that its owner alone may read, made so that a crash leaves all of it or nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Where the file is until it is whole.
pub(super) fn unfinished(file: &Path) -> PathBuf {
    let mut fresh = file.to_owned().into_os_string();
    fresh.push(".new");
    fresh.into()
}

/// Makes the file, durably.
///
/// # Errors
/// When it is there already, or cannot be written.
pub(super) fn make(file: &Path, text: &str) -> io::Result<()> {
    let fresh = written(file, text)?;
    // A concurrent start may have created it first.
    let linked = std::fs::hard_link(&fresh, file);
    std::fs::remove_file(&fresh)?;
    linked?;
    sync_folder(file)
}

/// Makes the file, durably, in the place of one that is there.
///
/// # Errors
/// When it cannot be written.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    std::fs::rename(written(file, text)?, file)?;
    sync_folder(file)
}

/// The text, durable, where the file is until it is whole.
fn written(file: &Path, text: &str) -> io::Result<PathBuf> {
    let fresh = unfinished(file);
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let no_links = OFlags::NOFOLLOW.bits().cast_signed();
    let mut opened = options.custom_flags(no_links).open(&fresh)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    Ok(fresh)
}

fn sync_folder(file: &Path) -> io::Result<()> {
    match file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
