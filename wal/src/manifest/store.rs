//! Reads the manifest of a directory, and replaces it.

use std::io;

use super::layout::{BEGINNING, Bad};
use super::types::Manifest;
use crate::error::Error;
use crate::format::{FORMAT_VERSION, MANIFEST, MANIFEST_TEMP, to_u64, to_usize};
use crate::storage::{File, Storage, write_all_at};

/// Length in bytes up to which a file is read as a whole, whatever its head states: its digest tells
/// better what is wrong.
const SMALL: u64 = 1 << 20;

impl Manifest {
    /// The manifest of a directory, or `None` when it has none.
    pub(crate) fn load(storage: &dyn Storage) -> Result<Option<Self>, Error> {
        let name = storage.describe(MANIFEST);
        let file = match storage.open_read(MANIFEST) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", name)(error)),
        };
        match Self::read(file.as_ref()).map_err(Error::io("read", name.as_str()))? {
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

    /// Reads the manifest in a file. Of a long file, reads no more than the length that its beginning
    /// states: damage may have made the file any length.
    fn read(file: &dyn File) -> io::Result<Result<Self, Bad>> {
        let length = file.length()?;
        let read = |most: u64| {
            let mut bytes = vec![0; to_usize(most.min(length))];
            let read = file.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
            Ok::<_, io::Error>(bytes)
        };
        let beginning = read(to_u64(BEGINNING))?;
        Ok(match Self::stated_length(&beginning) {
            Some(stated) if stated == length || length <= SMALL => Self::parse(&read(length)?),
            Some(stated) if stated > length => {
                Err(Bad::Damaged(to_usize(length), "the manifest is cut off"))
            }
            Some(stated) => {
                let what = "bytes follow the end of the manifest";
                Err(Bad::Damaged(to_usize(stated), what))
            }
            None => Self::parse(&beginning),
        })
    }

    /// Puts this manifest in the place of the one before. When it returns, this one is durable; after
    /// an error, either may be in force.
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

/// Removes a file; that it is missing is no error.
pub(crate) fn remove_if_there(storage: &dyn Storage, name: &str) -> Result<(), Error> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", storage.describe(name))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::manifest::Ancestor;
    use crate::storage::extended::Extended;
    use crate::storage::sim::SimDisk;

    #[test]
    fn a_manifest_that_has_grown_is_read_no_further_than_its_own_end() {
        let ancestor = Ancestor {
            log_id: [1; 16],
            upto: 5,
        };
        for ancestors in [Vec::new(), vec![ancestor]] {
            let disk = SimDisk::new();
            let manifest = Manifest {
                ancestors,
                ..Manifest::new([7; 16])
            };
            manifest.store(disk.storage().as_ref()).unwrap();
            assert_eq!(
                Manifest::load(disk.storage().as_ref()).unwrap(),
                Some(manifest)
            );
            let length = to_u64(disk.bytes(MANIFEST).unwrap().len());
            let extended = Extended::new(&disk, 15 << 40);
            match Manifest::load(&extended) {
                Err(Error::Damaged { offset, what, .. }) => {
                    assert_eq!(offset, length);
                    assert!(what.contains("bytes follow"), "{what}");
                }
                other => panic!("{other:?}"),
            }
            assert!(extended.largest() <= SMALL);
        }
    }
}
