//! Reads the manifest of a directory, and replaces it.

use std::io;

use super::layout::Bad;
use super::types::Manifest;
use crate::error::Error;
use crate::format::{FORMAT_VERSION, MANIFEST, MANIFEST_TEMP, to_u64, to_usize};
use crate::storage::{Storage, write_all_at};

impl Manifest {
    /// The manifest of a directory, or `None` when it has none.
    pub(crate) fn load(storage: &dyn Storage) -> Result<Option<Self>, Error> {
        let name = storage.describe(MANIFEST);
        let file = match storage.open_read(MANIFEST) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", name)(error)),
        };
        let length = file.length().map_err(Error::io("read", name.as_str()))?;
        let mut bytes = vec![0; to_usize(length)];
        let read = file
            .read_at(&mut bytes, 0)
            .map_err(Error::io("read", name.as_str()))?;
        bytes.truncate(read);
        match Self::parse(&bytes) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(Bad::Version(version)) => Err(Error::Unsupported {
                file: name,
                version,
                newest: FORMAT_VERSION,
            }),
            Err(Bad::Damaged(offset, what)) => Err(Error::Damaged {
                file: name,
                offset: to_u64(offset),
                position: None,
                what: what.to_owned(),
            }),
        }
    }

    /// Puts this manifest in the place of the one before. When it returns, this
    /// one is durable; after an error, either may be.
    pub(crate) fn store(&self, storage: &dyn Storage) -> Result<(), Error> {
        self.write_beside(storage)?;
        Self::put_in_place(storage)
    }

    /// Writes this manifest beside the one in force.
    pub(crate) fn write_beside(&self, storage: &dyn Storage) -> Result<(), Error> {
        let name = storage.describe(MANIFEST_TEMP);
        // A file whose sync failed must never be taken for written: each attempt makes a new one.
        remove_if_there(storage, MANIFEST_TEMP)?;
        let file = storage
            .create(MANIFEST_TEMP)
            .map_err(Error::io("create", name.as_str()))?;
        write_all_at(file.as_ref(), &self.encode(), 0)
            .map_err(Error::io("write", name.as_str()))?;
        file.sync().map_err(Error::io("sync", name))
    }

    /// Makes the manifest that was written beside the one in force.
    pub(crate) fn put_in_place(storage: &dyn Storage) -> Result<(), Error> {
        let name = storage.describe(MANIFEST_TEMP);
        storage
            .rename(MANIFEST_TEMP, MANIFEST)
            .map_err(Error::io("rename", name))?;
        storage
            .sync_dir("")
            .map_err(Error::io("sync", storage.describe("")))
    }
}

/// Removes a file; that there is none is as good.
pub(crate) fn remove_if_there(storage: &dyn Storage, name: &str) -> Result<(), Error> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", storage.describe(name))(error))
        }
        _ => Ok(()),
    }
}
