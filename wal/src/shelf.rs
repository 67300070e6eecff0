//! A log's own files and its archive's as one storage.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::archive::ArchiveFolder;
use crate::format;
use crate::storage::{File, Locked, ReadOnly, Storage};

/// The files of a log together with those that an archive has of it.
pub(crate) struct WithArchive {
    storage: Arc<dyn Storage>,
    folder: ArchiveFolder,
    /// Numbers of segments that are taken from the archive though the log has them.
    from_shelf: Mutex<Vec<u64>>,
}

impl WithArchive {
    pub(crate) fn new(storage: Arc<dyn Storage>, folder: ArchiveFolder, longer: &[u64]) -> Self {
        Self {
            storage,
            folder,
            from_shelf: Mutex::new(longer.to_vec()),
        }
    }

    /// Takes exactly these segments from the archive though the log has them.
    pub(crate) fn prefer(&self, longer: Vec<u64>) {
        *self.from_shelf.lock() = longer;
    }

    pub(crate) fn folder(&self) -> &ArchiveFolder {
        &self.folder
    }

    fn is_preferred(&self, name: &str) -> bool {
        let number = format::parse_segment_name(name);
        number.is_some_and(|number| self.from_shelf.lock().contains(&number))
    }

    fn is_moved(&self, name: &str) -> bool {
        let is_gone = || {
            let opened = self.storage.open_read(name);
            opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let number = format::parse_segment_name(name);
        self.is_preferred(name) || (number.is_some() && is_gone())
    }
}

impl ReadOnly for WithArchive {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.storage.list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let moved = || ReadOnly::open_read(&self.folder, name);
        if self.is_preferred(name) {
            return moved();
        }
        match self.storage.open_read(name) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && format::parse_segment_name(name).is_some() =>
            {
                moved()
            }
            other => other,
        }
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        self.storage.lock_shared(name)
    }

    fn describe(&self, name: &str) -> String {
        if self.is_moved(name) {
            ReadOnly::describe(&self.folder, name)
        } else {
            self.storage.describe(name)
        }
    }
}
