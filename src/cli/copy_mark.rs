//! What the mark of a directory says that is the copy of a journal.

use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::OFlags;

use super::printable::printable;
use crate::http::small_file;

/// Its name, beside the log. It has the name of the stream.
pub(super) const NAME: &str = "journal";
/// More than it has.
const FILE_BYTES_MAX: usize = 4_096;

/// What to do with the copy of a journal that is damaged.
pub(super) const WHEN_A_COPY: &str =
    "move the directory away and start with an empty one: the stream fills it";

/// The stream that the directory is the copy of, if it is one, as it can be printed.
///
/// # Errors
/// When that cannot be found out.
pub(super) fn stream_of(data: &Path) -> io::Result<Option<String>> {
    let found = read(data)?;
    Ok(found.map(|stream| printable(stream.trim_end())))
}

/// What the directory's mark says.
///
/// # Errors
/// When there is one that cannot be read.
pub(super) fn read(data: &Path) -> io::Result<Option<String>> {
    let opened = match small_file::open(&data.join(NAME), OFlags::NOFOLLOW) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = small_file::read_opened(opened, FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
