//! Read-only storages: files of another storage, or of several.

use std::io;
use std::sync::Arc;

use super::{File, Locked, Storage};

/// A storage that is only read. Each of these is a [`Storage`], whose other calls
/// are refused as `Unsupported`.
pub(crate) trait ReadOnly: Send + Sync {
    /// As [`Storage::list`].
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// As [`Storage::open_read`].
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// As [`Storage::lock_shared`]; refused by default, for storages that hold their files open
    /// instead.
    fn lock_shared(&self, _name: &str) -> io::Result<Locked> {
        Err(only_reads())
    }

    /// As [`Storage::describe`].
    fn describe(&self, name: &str) -> String;
}

/// The error of every call that does not read.
fn only_reads() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// A file that is only read: each of these is a [`File`], whose other calls are refused as
/// `Unsupported`.
pub(crate) trait ReadOnlyFile: Send + Sync {
    /// As [`File::length`].
    fn length(&self) -> io::Result<u64>;

    /// As [`File::read_at`].
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl<R: ReadOnlyFile> File for R {
    fn length(&self) -> io::Result<u64> {
        ReadOnlyFile::length(self)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadOnlyFile::read_at(self, buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(only_reads())
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        Err(only_reads())
    }

    fn sync(&self) -> io::Result<()> {
        Err(only_reads())
    }
}

impl<R: ReadOnly> Storage for R {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        ReadOnly::list(self, directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        ReadOnly::open_read(self, name)
    }

    fn open_write(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(only_reads())
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(only_reads())
    }

    fn create_new(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(only_reads())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn create_dir(&self, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Err(only_reads())
    }

    fn lock(&self, _: &str, _: &str) -> io::Result<Locked> {
        Err(only_reads())
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        ReadOnly::lock_shared(self, name)
    }

    fn set_holder(&self, _: &str, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        Err(only_reads())
    }

    fn describe(&self, name: &str) -> String {
        ReadOnly::describe(self, name)
    }
}
