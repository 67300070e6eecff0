//! A file with a secret, which its owner alone may read.

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

/// Makes the file, durably. A crash leaves it or none, never a part of it.
///
/// # Errors
/// When it is there already, or cannot be written.
pub(super) fn make(file: &Path, text: &str) -> io::Result<()> {
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
    // A concurrent start may have created it first.
    let linked = std::fs::hard_link(&fresh, file);
    std::fs::remove_file(&fresh)?;
    linked?;
    match file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
