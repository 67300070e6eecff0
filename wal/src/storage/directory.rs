//! The interface through which a log uses a directory and its files.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use crate::format::{to_u64, to_usize};

/// A directory of files. Nothing done to it survives a power cut before it is
/// synced: a file's bytes and length by the file's sync, names by [`Storage::sync_dir`].
pub trait Storage: Send + Sync {
    /// Names of the files in a directory (`""` or `"quarantine"`), in no order;
    /// none when the directory is missing.
    ///
    /// # Errors
    /// The errors of the system.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Opens a file to read.
    ///
    /// # Errors
    /// `NotFound` when there is none; else the errors of the system.
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file to read and write. A link of that name is not followed.
    ///
    /// # Errors
    /// `NotFound` when there is none; else the errors of the system.
    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Makes an empty file, mode 0600. Replaces an existing file of that name; whoever has the old one
    /// open still reads its content. A link of that name is not followed.
    ///
    /// # Errors
    /// The errors of the system.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Makes an empty file, mode 0600, under a name that must be free: of several attempts at once, one
    /// succeeds.
    ///
    /// # Errors
    /// `AlreadyExists` when something has the name; else the errors of the system.
    fn create_new(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Renames a file; replaces the one that has the new name.
    ///
    /// # Errors
    /// The errors of the system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The errors of the system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes a directory, mode 0700; one that is there already is fine.
    ///
    /// # Errors
    /// The errors of the system.
    fn create_dir(&self, directory: &str) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The errors of the system.
    fn sync_dir(&self, directory: &str) -> io::Result<()>;

    /// When a file was last written.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Unsupported` when the time is not known; else the errors of the system.
    fn modified(&self, _name: &str) -> io::Result<SystemTime> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Bytes that this process may still write to the file system.
    ///
    /// # Errors
    /// The errors of the system.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Checks that the directory is still the one that its path leads to. All other calls work in the
    /// directory that was opened, wherever it is by now; a process that looks for the log by its path
    /// would not find what is written after a move.
    ///
    /// # Errors
    /// With a sentence when the path leads to another directory, or to none.
    fn expect_in_place(&self) -> io::Result<()> {
        Ok(())
    }

    /// Locks a file, made when missing, for this holder alone, and writes the holder's name into it. Every
    /// process that writes to the directory does so first.
    ///
    /// # Errors
    /// `PermissionDenied` when others than this holder's user may write to the directory; else the errors of the
    /// system; a lock that is taken is no error but [`Locked::Busy`].
    fn lock(&self, name: &str, holder: &str) -> io::Result<Locked>;

    /// Locks a file against [`Storage::lock`] without writing. A missing file
    /// is free.
    ///
    /// # Errors
    /// The errors of the system; a lock that is taken is no error but [`Locked::Busy`].
    fn lock_shared(&self, name: &str) -> io::Result<Locked>;

    /// Replaces the holder's name in a locked file. Only the holder calls this.
    ///
    /// # Errors
    /// The errors of the system.
    fn set_holder(&self, name: &str, holder: &str) -> io::Result<()>;

    /// Returns a random id for a new log.
    ///
    /// # Errors
    /// The errors of the system.
    fn random_id(&self) -> io::Result<[u8; 16]>;

    /// Returns the name for people: with its path.
    fn describe(&self, name: &str) -> String;
}

/// An open file. Several threads may use it at once.
pub trait File: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The errors of the system.
    fn length(&self) -> io::Result<u64>;

    /// Reads until the buffer is full or the file ends; returns the bytes read.
    ///
    /// # Errors
    /// The errors of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes, at least one; returns how many.
    ///
    /// # Errors
    /// The errors of the system.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Truncates the file, or extends it by zeros.
    ///
    /// # Errors
    /// The errors of the system.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes bytes and length durable.
    ///
    /// # Errors
    /// The errors of the system. After an error, bytes that were not durable may be lost unnoticed: a second call
    /// proves nothing.
    fn sync(&self) -> io::Result<()>;
}

/// Holds a lock until it is dropped.
pub type Lock = Box<dyn Send + Sync>;

/// The result of an attempt to take a lock.
pub enum Locked {
    /// The lock is held until the value is dropped.
    Taken(Lock),
    /// Another holder has it.
    Busy {
        /// What the holder wrote.
        holder: String,
        /// Whether the holder is a process that visibly lives and has the file open. If not, it is about
        /// to end, or unknown.
        lives: bool,
    },
}

/// Writes all bytes, however many calls it takes.
pub(crate) fn write_all_at(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += to_u64(written);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Bytes that are copied at once.
pub(crate) const COPY: u64 = 1 << 20;

/// Copies a range of bytes to another place.
pub(crate) fn copy_range(
    source: &dyn File,
    from: u64,
    to: u64,
    target: &dyn File,
    into: u64,
) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let mut bytes = vec![0; to_usize((to - at).min(COPY))];
        let read = source.read_at(&mut bytes, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all_at(target, &bytes[..read], into + (at - from))?;
        at += to_u64(read);
    }
    Ok(())
}
