//! A log's own files and its archive's as one storage.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::archive::{ArchiveFolder, Longer};
use crate::error::Error;
use crate::format::{self, to_u64, to_usize};
use crate::storage::{File, Locked, ReadOnly, ReadOnlyFile, Storage};
use crate::survey::ends_early;

/// The files of a log together with those that an archive has of it.
pub(crate) struct WithArchive {
    storage: Arc<dyn Storage>,
    folder: ArchiveFolder,
    /// The segment that the archive continues from the end of the log's own copy on.
    longer: Mutex<Option<Longer>>,
}

impl WithArchive {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        folder: ArchiveFolder,
        longer: Option<Longer>,
    ) -> Self {
        Self {
            storage,
            folder,
            longer: Mutex::new(longer),
        }
    }

    /// Continues this segment, and no other one, from the end of the log's own copy on.
    pub(crate) fn continue_with(&self, longer: Option<Longer>) {
        *self.longer.lock() = longer;
    }

    /// Returns damage with the file that has it: the beginning of a continued segment is read from the log's own copy.
    pub(crate) fn attributed(&self, error: Error) -> Error {
        match error {
            Error::Damaged {
                file,
                offset,
                position,
                what,
            } => {
                let longer = *self.longer.lock();
                let own = longer
                    .filter(|longer| offset < longer.own_end)
                    .map(|longer| format::segment_name(longer.number))
                    .filter(|name| ReadOnly::describe(&self.folder, name) == file)
                    .filter(|name| self.storage.open_read(name).is_ok());
                // The continued file is as long as the archive's.
                let what = match (&own, longer) {
                    (Some(name), Some(longer)) if self.ends_at(name, offset) => {
                        ends_early(longer.own_end)
                    }
                    _ => what,
                };
                Error::Damaged {
                    file: own.map_or(file, |name| self.storage.describe(&name)),
                    offset,
                    position,
                    what,
                }
            }
            other => other,
        }
    }

    /// Whether the log's own copy of a segment ends at this offset.
    fn ends_at(&self, name: &str, offset: u64) -> bool {
        let length = self.storage.open_read(name).and_then(|own| own.length());
        length.is_ok_and(|length| length == offset)
    }

    pub(crate) fn folder(&self) -> &ArchiveFolder {
        &self.folder
    }

    /// Where the log's own copy of a segment ends, if the archive continues it.
    fn own_end(&self, name: &str) -> Option<u64> {
        let number = format::parse_segment_name(name)?;
        let longer = (*self.longer.lock())?;
        (longer.number == number).then_some(longer.own_end)
    }

    fn is_moved(&self, name: &str) -> bool {
        let is_gone = || {
            let opened = self.storage.open_read(name);
            opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let number = format::parse_segment_name(name);
        self.own_end(name).is_some() || (number.is_some() && is_gone())
    }
}

impl ReadOnly for WithArchive {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.storage.list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let archived = || ReadOnly::open_read(&self.folder, name);
        let own_end = self.own_end(name);
        let own = match self.storage.open_read(name) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && format::parse_segment_name(name).is_some() =>
            {
                return archived();
            }
            Err(error) if own_end.is_some() => {
                return Err(of_own(&self.storage.describe(name), &error));
            }
            other => other?,
        };
        match own_end {
            None => Ok(own),
            Some(own_end) => Ok(Arc::new(Continued {
                own,
                own_name: self.storage.describe(name),
                own_end,
                archived: archived()?,
            })),
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

/// Names the log's own copy in an error of the system: a continued segment has the archive's name otherwise.
fn of_own(name: &str, error: &io::Error) -> io::Error {
    let what = format!("its beginning is read from {name}: {error}");
    io::Error::new(error.kind(), what)
}

/// The log's own copy of a segment, continued by the archive's.
struct Continued {
    own: Arc<dyn File>,
    /// The name of that file, as messages have it.
    own_name: String,
    own_end: u64,
    archived: Arc<dyn File>,
}

impl ReadOnlyFile for Continued {
    fn length(&self) -> io::Result<u64> {
        let own = self.own.length();
        let own = own.map_err(|error| of_own(&self.own_name, &error))?;
        match own < self.own_end {
            true => Ok(own),
            false => self.archived.length(),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = to_usize(self.own_end.saturating_sub(offset));
        let (own, archived) = buffer.split_at_mut(left.min(buffer.len()));
        let read = match own.is_empty() {
            true => 0,
            false => {
                let read = self.own.read_at(own, offset);
                read.map_err(|error| of_own(&self.own_name, &error))?
            }
        };
        if read < own.len() || archived.is_empty() {
            return Ok(read);
        }
        Ok(read + self.archived.read_at(archived, offset + to_u64(read))?)
    }
}
