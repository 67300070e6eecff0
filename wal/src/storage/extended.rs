//! Files that have become longer than they were, by any number of zeros, for tests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::directory::File;
use super::read_only::{ReadOnly, ReadOnlyFile};
use super::sim::SimDisk;
use crate::format::to_u64;

/// The files of a simulated disk, each extended by zeros to a length.
pub(crate) struct Extended {
    disk: SimDisk,
    length: u64,
    largest: Arc<AtomicU64>,
}

struct ExtendedFile {
    file: Arc<dyn File>,
    length: u64,
    largest: Arc<AtomicU64>,
}

impl Extended {
    pub(crate) fn new(disk: &SimDisk, length: u64) -> Self {
        Self {
            disk: disk.clone(),
            length,
            largest: Arc::default(),
        }
    }

    /// The largest number of bytes requested at once.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }
}

impl ReadOnlyFile for ExtendedFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let wanted = to_u64(buffer.len());
        self.largest.fetch_max(wanted, Ordering::Relaxed);
        let read = self.file.read_at(buffer, offset)?;
        buffer[read..].fill(0);
        Ok(buffer.len())
    }
}

impl ReadOnly for Extended {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.storage().list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(ExtendedFile {
            file: self.disk.storage().open_read(name)?,
            length: self.length,
            largest: Arc::clone(&self.largest),
        }))
    }

    fn describe(&self, name: &str) -> String {
        self.disk.storage().describe(name)
    }
}
