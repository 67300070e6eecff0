//! The mark in a directory that is the copy of a journal: a file that names the stream.

use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::OFlags;

use super::printable::printable;
use super::whole_file;
use crate::http::small_file;
use crate::stream::cache::Mark;

/// Name of the mark's file, beside the log. The file contains the name of the stream.
pub(super) const NAME: &str = "journal";
/// Maximum bytes that are read of the mark; no valid mark has as many.
const FILE_BYTES_MAX: usize = 4_096;

/// Advice for a damaged copy of a journal.
pub(super) const WHEN_A_COPY: &str =
    "move the directory away and start with an empty one: the stream fills it";

/// Returns the name of the stream that the directory is a copy of, safe to print; `None` if it is no copy.
///
/// # Errors
/// When the mark cannot be read.
pub(super) fn stream_of(data: &Path) -> io::Result<Option<String>> {
    let found = read(data)?;
    Ok(found.map(|stream| printable(stream.trim_end())))
}

/// Returns the content of the directory's mark; `None` if there is none.
///
/// # Errors
/// When the mark exists and cannot be read.
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

/// Marks the directory as the copy of this stream, durably.
///
/// # Errors
/// When the mark cannot be written.
pub(super) fn put(data: &Path, stream: &str) -> io::Result<()> {
    let text = format!("{stream}\n");
    if read(data).is_ok_and(|found| found.as_ref() == Some(&text)) {
        return Ok(());
    }
    whole_file::replace(&data.join(NAME), &text)
}

/// The mark of a data directory for one stream. It is written before any file of a journal's copy.
pub(super) struct DirectoryMark<'a> {
    pub(super) data: &'a Path,
    pub(super) stream: &'a str,
}

impl Mark for DirectoryMark<'_> {
    fn is_there(&self) -> bool {
        read(self.data)
            .is_ok_and(|found| found.is_some_and(|found| found.trim_end() == self.stream))
    }

    fn put(&self) {
        if let Err(error) = put(self.data, self.stream) {
            tracing::warn!(
                %error,
                "the directory cannot be marked as the copy of the journal: nothing hinders a command \
                 that writes to it alone"
            );
        }
    }
}
