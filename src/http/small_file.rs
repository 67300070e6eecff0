//! Small files that an operator names: certificates, keys, secrets. Whatever kind of file is at the path, reading it
//! neither blocks nor takes much memory. The settings and a client's token are not read here: whoever names them
//! reads them once, and they may come from a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Maximum size of a file of certificates, of a private key or of a secret, in bytes.
pub const SMALL_FILE_BYTES_MAX: usize = 1 << 20;

/// Opens a regular file for reading, with `more` as further flags.
///
/// # Errors
/// When the file cannot be opened, or is not a regular file: a pipe or a device could block its reader, or have no
/// end.
pub fn open(file: &Path, more: OFlags) -> io::Result<File> {
    // Do not block on a pipe without a writer, and do not become the owner of a terminal.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(unfit("it is not a regular file"));
    }
    Ok(opened)
}

/// Reads a regular file; at most one byte more than `bytes_max` is read.
///
/// # Errors
/// The errors of [`open`], and when the file has more than `bytes_max` bytes.
pub fn read(file: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    read_opened(open(file, OFlags::empty())?, bytes_max)
}

/// Does what [`read`] does, for a file that is open already.
///
/// # Errors
/// When the file cannot be read, or has more than `bytes_max` bytes.
pub fn read_opened(file: File, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        let why = format!("it has more than {bytes_max} bytes, the most that are read");
        return Err(unfit(&why));
    }
    Ok(bytes)
}

/// Reads the text of a regular file.
///
/// # Errors
/// The errors of [`read`], and when the file is not UTF-8.
pub fn read_text(file: &Path, bytes_max: usize) -> io::Result<String> {
    String::from_utf8(read(file, bytes_max)?).map_err(|_| unfit("it is not UTF-8"))
}

fn unfit(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_at_what_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        for what in [&pipe, Path::new("/dev/zero"), directory.path()] {
            let error = read(what, 8).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file");
        }
        let missing = read(&directory.path().join("nothing"), 8).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_has_no_more_bytes_than_its_reader_takes_and_a_text_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "12345678").unwrap();
        assert_eq!(read(&file, 8).unwrap(), b"12345678");
        assert_eq!(read_text(&file, 8).unwrap(), "12345678");
        let error = read(&file, 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it has more than 7 bytes, the most that are read"
        );
        std::fs::write(&file, b"\xff").unwrap();
        let error = read_text(&file, 8).unwrap_err();
        assert_eq!(error.to_string(), "it is not UTF-8");
        // A symbolic link is followed, unless the flags forbid that.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(read(&link, 8).is_ok());
        assert!(open(&link, OFlags::NOFOLLOW).is_err());
        // A huge sparse file costs no more than the bound.
        let sparse = File::create(directory.path().join("sparse")).unwrap();
        sparse.set_len(1 << 31).unwrap();
        assert!(read(&directory.path().join("sparse"), SMALL_FILE_BYTES_MAX).is_err());
    }
}
