//! The state of a simulated disk, and how its calls fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use crate::format::to_u64;

/// The number of bytes that a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Which of the changes that were not synced survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// Only the change with this number, counted from 0; see [`SimDisk::unsynced`].
    Single(usize),
    /// Each change with the chance of one half, by this seed.
    Random(u64),
}

/// How one call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error; nothing was done. What a sync should have made
    /// durable is lost from sight: it looks written, and no later sync brings it
    /// to the disk.
    Io,
    /// An input/output error, but what was asked for was done.
    IoDone,
    /// The disk is full; nothing was done.
    Full,
    /// A write takes only a part of the bytes, and says so.
    Short,
    /// A write takes only a part of the bytes, and says so, and the write after it finds the disk
    /// full.
    ShortThenFull,
    /// A write puts one wrong bit on the disk, and says nothing.
    Garbled,
}

/// A call to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which one: the name of the method.
    pub what: &'static str,
    /// The file's name when the call was made, or the directory's.
    pub name: String,
}

/// The whole state of a disk.
pub(super) struct State {
    pub(super) files: Vec<Inode>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) durable_names: BTreeMap<String, usize>,
    pub(super) directories: BTreeSet<String>,
    pub(super) durable_directories: BTreeSet<String>,
    /// Changes that are not durable, in the order they were made.
    pub(super) unsynced: Vec<Change>,
    pub(super) calls: u64,
    pub(super) cut_before: Option<u64>,
    pub(super) cut: bool,
    pub(super) capacity: u64,
    pub(super) syncs: u64,
    pub(super) fail_sync: Option<u64>,
    pub(super) short_writes: bool,
    /// What the holder of the lock says of itself.
    pub(super) locked: Option<String>,
    pub(super) ids: u8,
    /// Calls of every kind, and writes among them.
    pub(super) all_calls: u64,
    pub(super) writes: u64,
    /// The call, or the write, with this number fails.
    pub(super) fault: Option<(u64, Fault)>,
    pub(super) failed: Option<Call>,
    /// The system's error number with which no file can be made; `None` when files can be made.
    pub(super) no_files: Option<i32>,
}

/// A file. Its bytes are shared with copies of the disk until they are changed.
#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) durable_length: usize,
}

#[derive(Clone)]
pub(super) enum Change {
    /// Part of a write that lies in one sector.
    Bytes {
        file: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Length {
        file: usize,
        length: usize,
    },
    Link {
        name: String,
        file: usize,
    },
    Rename {
        from: String,
        to: String,
        file: usize,
    },
    Unlink {
        name: String,
    },
    Directory {
        name: String,
    },
}

impl Inode {
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        let durable = Arc::make_mut(&mut self.durable);
        if durable.len() < end {
            durable.resize(end, 0);
        }
        durable[at..end].copy_from_slice(bytes);
    }

    pub(super) fn set_durable_length(&mut self, length: usize) {
        if length < self.durable_length {
            Arc::make_mut(&mut self.durable).truncate(length);
        }
        self.durable_length = length;
    }

    /// Makes what is on the disk what a reader finds.
    pub(super) fn forget_unsynced(&mut self) {
        if self.durable.len() != self.durable_length {
            Arc::make_mut(&mut self.durable).resize(self.durable_length, 0);
        }
        self.bytes = Arc::clone(&self.durable);
    }
}

impl State {
    /// Returns the same disk for another process: what was counted, ordered or locked is forgotten.
    pub(super) fn begun_anew(&self) -> Self {
        Self {
            files: self.files.clone(),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            directories: self.directories.clone(),
            durable_directories: self.durable_directories.clone(),
            unsynced: self.unsynced.clone(),
            calls: 0,
            cut_before: None,
            cut: false,
            capacity: self.capacity,
            syncs: 0,
            fail_sync: None,
            short_writes: false,
            locked: None,
            ids: self.ids,
            all_calls: 0,
            writes: 0,
            fault: None,
            failed: None,
            no_files: None,
        }
    }

    /// Counts a call that changes something; fails it when the power is gone.
    pub(super) fn call(&mut self) -> io::Result<()> {
        if self.cut_before.is_some_and(|number| self.calls >= number) {
            self.cut = true;
        }
        self.power()?;
        self.calls += 1;
        Ok(())
    }

    /// Counts a call of any kind. Returns the fault that the call has to carry out itself; fails
    /// the call when it is not to do anything at all.
    pub(super) fn ask(&mut self, what: &'static str, name: &str) -> io::Result<Option<Fault>> {
        let (call, write) = (self.all_calls, self.writes);
        self.all_calls += 1;
        let writes = what == "write_at";
        self.writes += u64::from(writes);
        let Some((number, fault)) = self.fault else {
            return Ok(None);
        };
        let now = match fault {
            Fault::Io | Fault::IoDone | Fault::Full => call == number,
            Fault::Short | Fault::Garbled => writes && write == number,
            Fault::ShortThenFull => writes && (write == number || write == number + 1),
        };
        if !now {
            return Ok(None);
        }
        self.failed = Some(Call {
            what,
            name: name.to_owned(),
        });
        let syncs = matches!(what, "sync" | "sync_dir");
        match fault {
            Fault::Io if !syncs => Err(io_error()),
            Fault::Full if !syncs => Err(io::ErrorKind::StorageFull.into()),
            Fault::ShortThenFull if write > number => Err(io::ErrorKind::StorageFull.into()),
            fault => Ok(Some(fault)),
        }
    }

    /// The name that a file has now.
    pub(super) fn name_of(&self, file: usize) -> String {
        let mut names = self.names.iter();
        let found = names.find(|(_, number)| **number == file);
        found.map_or_else(String::new, |(name, _)| name.clone())
    }

    /// As `ask`, for a call to an open file.
    pub(super) fn ask_file(
        &mut self,
        what: &'static str,
        file: usize,
    ) -> io::Result<Option<Fault>> {
        // Names are looked up only where a fault is to be injected.
        let name = self.fault.map_or_else(String::new, |_| self.name_of(file));
        self.ask(what, &name)
    }

    /// Syncs the changes that `which` picks: they become durable, or are lost unnoticed.
    pub(super) fn settle_or_fail(
        &mut self,
        fault: Option<Fault>,
        which: impl Fn(&Change) -> bool,
    ) -> io::Result<()> {
        match fault {
            Some(Fault::Io | Fault::Full) => {
                self.unsynced.retain(|change| !which(change));
                Err(match fault {
                    Some(Fault::Full) => io::ErrorKind::StorageFull.into(),
                    _ => io_error(),
                })
            }
            fault => {
                self.settle(which);
                after(fault, ())
            }
        }
    }

    pub(super) fn power(&self) -> io::Result<()> {
        if self.cut {
            Err(io::Error::other("the power is cut"))
        } else {
            Ok(())
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.names
            .values()
            .map(|file| to_u64(self.files[*file].bytes.len()))
            .sum()
    }

    pub(super) fn find(&self, name: &str) -> io::Result<usize> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes durable the changes that `which` picks, in their order.
    pub(super) fn settle(&mut self, which: impl Fn(&Change) -> bool) {
        let (now, later) = std::mem::take(&mut self.unsynced)
            .into_iter()
            .partition(which);
        self.unsynced = later;
        self.apply(now);
    }

    pub(super) fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Bytes { file, at, bytes } => self.files[file].put(at, &bytes),
                Change::Length { file, length } => self.files[file].set_durable_length(length),
                Change::Link { name, file } => {
                    self.durable_names.insert(name, file);
                }
                Change::Rename { from, to, file } => {
                    if self.durable_names.get(&from) == Some(&file) {
                        self.durable_names.remove(&from);
                    }
                    self.durable_names.insert(to, file);
                }
                Change::Unlink { name } => {
                    self.durable_names.remove(&name);
                }
                Change::Directory { name } => {
                    self.durable_directories.insert(name);
                }
            }
        }
    }
}

pub(super) fn io_error() -> io::Error {
    // EIO: what a disk that fails gives.
    io::Error::from_raw_os_error(5)
}

/// Ends a call that has done its work, with an error if the fault is [`Fault::IoDone`].
pub(super) fn after<T>(fault: Option<Fault>, value: T) -> io::Result<T> {
    match fault {
        Some(Fault::IoDone) => Err(io_error()),
        _ => Ok(value),
    }
}

pub(super) fn directory_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl Change {
    pub(super) fn is_of_file(&self, wanted: usize) -> bool {
        matches!(self, Self::Bytes { file, .. } | Self::Length { file, .. } if *file == wanted)
    }

    pub(super) fn is_in_directory(&self, wanted: &str) -> bool {
        match self {
            Self::Bytes { .. } | Self::Length { .. } => false,
            Self::Link { name, .. } | Self::Unlink { name } | Self::Directory { name } => {
                directory_of(name) == wanted
            }
            Self::Rename { to, .. } => directory_of(to) == wanted,
        }
    }
}
