//! The ancestors of a log, which are the logs it continues, in a file of their own. The manifest lists
//! them, too, but can be lost, and nothing else lists them. The file is written once for each log that
//! has ancestors; the log's id is in its name, so that a recovery never overwrites that of the log
//! before.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning that every file has, with the magic `walances` |
//! | 16 | 16 | log id |
//! | 32 | 4 | number of ancestors |
//! | 36 | 4 | zeros |
//! | 40 | 24 each | the ancestors, oldest first, each as a manifest has it |
//! | … | 16 | first 128 bits of BLAKE3 of all bytes before |

use std::io;

use crate::error::Error;
use crate::format::{
    self, ANCESTORS_MAGIC, ANCESTORS_VERSION, FORMAT_VERSION, LogId, PRELUDE, Prelude, get_16,
    get_u32, get_u64, is_zero, to_u32, to_u64, to_usize,
};
use crate::manifest::{Ancestor, Identity};
use crate::storage::{File, Storage, write_all_at};

const HEAD: usize = 40;
const ENTRY: usize = 24;
const DIGEST: usize = 16;

fn encode(identity: &Identity) -> Vec<u8> {
    let mut bytes = format::prelude(&ANCESTORS_MAGIC, ANCESTORS_VERSION).to_vec();
    bytes.extend_from_slice(&identity.log_id);
    bytes.extend_from_slice(&to_u32(identity.ancestors.len()).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for ancestor in &identity.ancestors {
        bytes.extend_from_slice(&ancestor.log_id);
        bytes.extend_from_slice(&ancestor.upto.to_le_bytes());
    }
    let digest = blake3::hash(&bytes);
    bytes.extend_from_slice(&digest.as_bytes()[..DIGEST]);
    bytes
}

/// Reads the file of a log; the error is an offset and what is wrong there.
fn parse(bytes: &[u8], log: &LogId) -> Result<Vec<Ancestor>, (usize, &'static str)> {
    if bytes.len() < HEAD + DIGEST {
        return Err((bytes.len(), "the ancestors are cut off"));
    }
    let (body, digest) = bytes.split_at(bytes.len() - DIGEST);
    if blake3::hash(body).as_bytes()[..DIGEST] != *digest {
        return Err((PRELUDE, "the digest of the ancestors is wrong"));
    }
    let count = to_usize(u64::from(get_u32(body, 32)));
    if body.len() - HEAD != count * ENTRY || !is_zero(&body[36..HEAD]) {
        return Err((32, "the ancestors do not have the length they state"));
    }
    if get_16(body, 16) != *log {
        return Err((16, "the ancestors are another log's"));
    }
    let entries = body[HEAD..].chunks_exact(ENTRY);
    let ancestors = entries.map(|entry| Ancestor {
        log_id: get_16(entry, 0),
        upto: get_u64(entry, 16),
    });
    Ok(ancestors.collect())
}

/// Returns the bytes of a file, but at most one more than the length that it states: damage may have
/// made the file any length.
fn read(file: &dyn File) -> io::Result<Vec<u8>> {
    let length = file.length()?;
    let read = |most: u64| {
        let mut bytes = vec![0; to_usize(most.min(length))];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok::<_, io::Error>(bytes)
    };
    let head = read(to_u64(HEAD))?;
    if head.len() < HEAD {
        return Ok(head);
    }
    let stated = HEAD + DIGEST + 1;
    read(to_u64(stated) + to_u64(ENTRY) * u64::from(get_u32(&head, 32)))
}

/// Returns the ancestors of a log from their file; `None` when there is no such file.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Unsupported`], [`Error::Io`].
pub(crate) fn load(storage: &dyn Storage, log: &LogId) -> Result<Option<Vec<Ancestor>>, Error> {
    let name = format::ancestors_name(log);
    let failed = |source| Error::io("read", storage.describe(&name))(source);
    let file = match storage.open_read(&name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let bytes = read(file.as_ref()).map_err(failed)?;
    let damaged = |offset, what: &str| Error::Damaged {
        file: storage.describe(&name),
        offset: to_u64(offset),
        position: None,
        what: what.to_owned(),
    };
    match format::parse_prelude(&bytes, &ANCESTORS_MAGIC) {
        Prelude::Version(ANCESTORS_VERSION) => {}
        Prelude::Version(version) => {
            return Err(Error::Unsupported {
                file: storage.describe(&name),
                version,
                newest: FORMAT_VERSION,
            });
        }
        Prelude::Damaged(what) => return Err(damaged(0, what)),
    }
    match parse(&bytes, log) {
        Ok(ancestors) => Ok(Some(ancestors)),
        Err((offset, what)) => Err(damaged(offset, what)),
    }
}

/// Compares the file, if there is one, with the manifest.
///
/// # Errors
/// As [`load`]'s; [`Error::Damaged`] when they differ.
pub(crate) fn check(storage: &dyn Storage, identity: &Identity) -> Result<(), Error> {
    match load(storage, &identity.log_id)? {
        Some(ancestors) if ancestors != identity.ancestors => Err(Error::Damaged {
            file: storage.describe(&format::ancestors_name(&identity.log_id)),
            offset: to_u64(HEAD),
            position: None,
            what: "the ancestors are not those that the manifest lists".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Writes the file of a log that has ancestors. Its name is durable when the
/// directory is synced.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn store(storage: &dyn Storage, identity: &Identity) -> Result<(), Error> {
    if identity.ancestors.is_empty() {
        return Ok(());
    }
    let name = format::ancestors_name(&identity.log_id);
    let temp = format::ancestors_temp_name(&identity.log_id);
    let written = storage.create(&temp).and_then(|file| {
        write_all_at(file.as_ref(), &encode(identity), 0)?;
        file.sync()?;
        storage.rename(&temp, &name)
    });
    written.map_err(Error::io("write", storage.describe(&name)))
}

/// Writes the file again from the manifest when it is missing, cannot be read, or differs. A failure
/// does no harm: the next start tries again.
pub(crate) fn mend(storage: &dyn Storage, identity: &Identity) {
    let is_there = || {
        let found = load(storage, &identity.log_id);
        found.is_ok_and(|found| found.as_ref() == Some(&identity.ancestors))
    };
    if !identity.ancestors.is_empty() && !is_there() {
        let _ = store(storage, identity).and_then(|()| {
            let synced = storage.sync_dir("");
            synced.map_err(Error::io("sync", storage.describe("")))
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::storage::extended::Extended;
    use crate::storage::sim::SimDisk;

    #[test]
    fn every_flipped_bit_and_every_cut_of_the_ancestors_is_found() {
        let ancestor = |number, upto| Ancestor {
            log_id: [number; 16],
            upto,
        };
        let identity = Identity {
            log_id: [5; 16],
            ancestors: vec![ancestor(1, 5), ancestor(2, 12)],
        };
        let disk = SimDisk::new();
        let storage = disk.storage();
        let found = || load(storage.as_ref(), &identity.log_id);
        assert!(matches!(found(), Ok(None)));
        store(storage.as_ref(), &identity).unwrap();
        assert_eq!(found().unwrap().as_ref(), Some(&identity.ancestors));
        let name = format::ancestors_name(&identity.log_id);
        let bytes = disk.bytes(&name).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            disk.put(&name, &flipped);
            assert!(matches!(found(), Err(Error::Damaged { .. })), "bit {bit}");
        }
        for length in 0..bytes.len() {
            disk.put(&name, &bytes[..length]);
            assert!(matches!(found(), Err(Error::Damaged { .. })), "{length}");
        }
        mend(storage.as_ref(), &identity);
        assert_eq!(disk.bytes(&name), Some(bytes));
        assert!(check(storage.as_ref(), &identity).is_ok());
        let another = Identity {
            ancestors: vec![ancestor(1, 5)],
            ..identity
        };
        assert!(check(storage.as_ref(), &another).is_err());
    }

    #[test]
    fn an_ancestry_that_has_grown_is_read_no_further_than_its_entries() {
        let identity = Identity {
            log_id: [5; 16],
            ancestors: vec![Ancestor {
                log_id: [1; 16],
                upto: 5,
            }],
        };
        let disk = SimDisk::new();
        store(disk.storage().as_ref(), &identity).unwrap();
        let extended = Extended::new(&disk, 15 << 40);
        let found = load(&extended, &identity.log_id);
        assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
        assert!(extended.largest() <= to_u64(HEAD + ENTRY + DIGEST + 1));
    }

    #[test]
    fn ancestors_of_another_log_and_what_a_later_format_adds_are_not_read() {
        let identity = Identity {
            log_id: [5; 16],
            ancestors: vec![Ancestor {
                log_id: [1; 16],
                upto: 5,
            }],
        };
        let bytes = encode(&identity);
        assert_eq!(parse(&bytes, &identity.log_id), Ok(identity.ancestors));
        assert_eq!(parse(&bytes, &[6; 16]).unwrap_err().0, 16);
        let mut body = bytes[..bytes.len() - DIGEST].to_vec();
        body[HEAD - 1] = 1;
        let digest = blake3::hash(&body);
        body.extend_from_slice(&digest.as_bytes()[..DIGEST]);
        assert_eq!(parse(&body, &identity.log_id).unwrap_err().0, 32);
    }
}
