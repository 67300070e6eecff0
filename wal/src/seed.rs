//! Makes a log from a snapshot that another process has taken of the same log, and from records: for a log whose
//! records are kept elsewhere.
//!
//! The carried snapshot is a file of its own, which is made first and removed last: while it is there and
//! no manifest is, all files beside it are the remains of an interruption.

use std::io::{self, Read};
use std::sync::Arc;

use crate::error::Error;
use crate::format::{self, CARRIED, to_u64};
use crate::lock;
use crate::manifest::{Identity, Manifest, Snapshot, remove_if_there};
use crate::rebuild::Builder;
use crate::snapshot::{self, Shown};
use crate::storage::{COPY, File, Lock, Storage, write_all_at};
use crate::visitor::{Record, Visitor as _};

/// The facts that prove a snapshot's file to be what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignSnapshot {
    /// Its number in the log where it was taken.
    pub number: u64,
    /// Every record up to this position is in it.
    pub covers: u64,
    /// The last position whose record contributed to it.
    pub upto: u64,
    /// Length of its file.
    pub bytes: u64,
    /// The digest of its last block, which covers all blocks before it.
    pub chain: [u8; 16],
}

impl ForeignSnapshot {
    fn listed(&self) -> Snapshot {
        Snapshot {
            number: self.number,
            covers: self.covers,
            upto: self.upto,
            length: self.bytes,
            chain: self.chain,
        }
    }
}

/// The file of the newest snapshot of a log, which may be in use: it can be read even when it was removed
/// meanwhile.
pub struct Newest {
    /// The facts that prove the file.
    pub carried: ForeignSnapshot,
    /// The log.
    pub log_id: [u8; 16],
    /// The first position that the log itself has.
    pub first: u64,
    file: Arc<dyn File>,
    offset: u64,
}

impl Read for Newest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.carried.bytes.saturating_sub(self.offset);
        let most = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset += to_u64(read);
        Ok(read)
    }
}

/// Returns the newest snapshot of a log; `None` when it has none.
///
/// # Errors
/// [`Error::Io`], also when it was removed just now; [`Error::Damaged`], [`Error::Unsupported`].
pub fn newest(storage: &dyn Storage) -> Result<Option<Newest>, Error> {
    let Some(manifest) = Manifest::load(storage)? else {
        return Ok(None);
    };
    let Some(listed) = manifest.snapshots.last() else {
        return Ok(None);
    };
    let name = format::snapshot_name(listed.number);
    let file = storage.open_read(&name);
    Ok(Some(Newest {
        carried: ForeignSnapshot {
            number: listed.number,
            covers: listed.covers,
            upto: listed.upto,
            bytes: listed.length,
            chain: listed.chain,
        },
        log_id: manifest.log,
        first: manifest.first_position,
        file: file.map_err(Error::io("open", storage.describe(&name)))?,
        offset: 0,
    }))
}

/// Whether a directory has no log, so that one can begin in it with a snapshot. Removes what an
/// interrupted attempt has left.
///
/// # Errors
/// [`Error::Held`], [`Error::Io`]; [`Error::Damaged`] and [`Error::Unsupported`] of a manifest.
pub fn is_free(storage: &dyn Storage) -> Result<bool, Error> {
    let _lock = lock::take(storage)?;
    if Manifest::load(storage)?.is_some() {
        remove_if_there(storage, CARRIED)?;
        return Ok(false);
    }
    let names = list(storage)?;
    if names.iter().any(|name| name == CARRIED) {
        clear(storage)?;
    }
    // Others may keep files of their own beside a log.
    Ok(!list(storage)?.iter().any(|name| is_of_log(name)))
}

/// Whether a file is one of a log's, but for its lock and its manifest.
fn is_of_log(name: &str) -> bool {
    format::is_temp_name(name)
        || format::parse_segment_name(name).is_some()
        || format::parse_snapshot_name(name).is_some()
        || format::is_ancestors_name(name)
}

fn list(storage: &dyn Storage) -> Result<Vec<String>, Error> {
    storage
        .list("")
        .map_err(Error::io("list", storage.describe("")))
}

/// Removes the files of a log without a manifest, the carried file last.
fn clear(storage: &dyn Storage) -> Result<(), Error> {
    for name in list(storage)? {
        if is_of_log(&name) {
            remove_if_there(storage, &name)?;
        }
    }
    let synced = || {
        storage
            .sync_dir("")
            .map_err(Error::io("sync", storage.describe("")))
    };
    synced()?;
    remove_if_there(storage, CARRIED)?;
    synced()
}

/// A log that is being made from a snapshot and records.
pub struct Seeding {
    storage: Arc<dyn Storage>,
    builder: Builder,
    _lock: Lock,
}

impl Seeding {
    /// Begins in a directory that [`is_free`], with a snapshot of the log of this identity, every byte of
    /// which is checked. The caller then passes the records from `first` on, which is at most the position
    /// after those that the snapshot covers, up to the last one that contributed to the snapshot. A
    /// failure leaves nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the snapshot is not what was written; [`Error::Held`], [`Error::Io`].
    pub fn begin(
        storage: &Arc<dyn Storage>,
        identity: &Identity,
        carried: &ForeignSnapshot,
        first: u64,
        content: &mut dyn Read,
    ) -> Result<Self, Error> {
        let lock = lock::take(storage.as_ref())?;
        let begun = carry(storage.as_ref(), carried.bytes, content)
            .and_then(|()| take_over(storage, identity, carried, first));
        match begun {
            Ok(builder) => Ok(Self {
                storage: Arc::clone(storage),
                builder,
                _lock: lock,
            }),
            Err(error) => {
                clear(storage.as_ref())?;
                Err(error)
            }
        }
    }

    /// The position of the next record.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.builder.next()
    }

    /// Takes over a record; skips those before the first.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Visitor`] when one is missing before it.
    pub fn record(&mut self, record: Record<'_>) -> Result<(), Error> {
        let position = record.position;
        self.builder
            .record(record)
            .map_err(|source| Error::Visitor { position, source })
    }

    /// Writes the manifest, which makes it a log, and removes the carried file.
    ///
    /// # Errors
    /// [`Error::Io`]: it may not be a log then.
    pub fn finish(self) -> Result<(), Error> {
        self.builder.finish()?;
        remove_if_there(self.storage.as_ref(), CARRIED)
    }
}

/// Writes the snapshot's file.
fn carry(storage: &dyn Storage, bytes: u64, content: &mut dyn Read) -> Result<(), Error> {
    let name = storage.describe(CARRIED);
    let failed = |what| Error::io(what, name.as_str());
    let file = storage.create(CARRIED).map_err(failed("create"))?;
    let mut buffer = vec![0; format::to_usize(COPY)];
    let mut offset = 0;
    loop {
        let read = content.read(&mut buffer).map_err(failed("receive"))?;
        offset += to_u64(read);
        if read == 0 || offset > bytes {
            break;
        }
        write_all_at(file.as_ref(), &buffer[..read], offset - to_u64(read))
            .map_err(failed("write"))?;
    }
    if offset != bytes {
        return Err(Error::Damaged {
            file: name,
            offset,
            position: None,
            what: format!("the received bytes are not the {bytes} bytes of the snapshot"),
        });
    }
    file.sync().map_err(failed("sync"))?;
    storage.sync_dir("").map_err(failed("sync"))
}

fn take_over(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    carried: &ForeignSnapshot,
    first: u64,
) -> Result<Builder, Error> {
    let mut builder = Builder::of_same_log(Arc::clone(storage), identity.clone());
    let (place, listed) = (storage.as_ref(), carried.listed());
    match snapshot::show(place, CARRIED, &identity.log_id, &listed, &mut builder)? {
        Shown::Whole(_) => builder.end_snapshot()?,
        Shown::Bad { offset, what } => {
            return Err(Error::Damaged {
                file: storage.describe(CARRIED),
                offset,
                position: None,
                what,
            });
        }
    }
    builder.begin_at(first.min(carried.covers + 1));
    Ok(builder)
}
