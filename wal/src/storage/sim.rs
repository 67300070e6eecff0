//! A simulated disk, for tests.
//!
//! It keeps apart what a running system sees and what is on the disk: bytes (in
//! sectors of 512), lengths and names become durable by their own syncs only.
//! Its power can be cut before any call that changes something; what survives
//! is then chosen: nothing that was not synced, everything, one single change,
//! or a random part of the changes. It can fail any call, write short and run full.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::{File, Locked, Storage};
use crate::format::{to_u64, to_usize};

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// What of the changes that were not synced survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// Only the one with this number, counted from 0; see [`SimDisk::unsynced`].
    Single(usize),
    /// Each with the chance of one half, by this seed.
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
    /// The same, and the write after it finds the disk full.
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

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    files: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    directories: BTreeSet<String>,
    durable_directories: BTreeSet<String>,
    /// Changes that are not durable, in the order they were made.
    unsynced: Vec<Change>,
    calls: u64,
    cut_before: Option<u64>,
    cut: bool,
    capacity: u64,
    syncs: u64,
    fail_sync: Option<u64>,
    short_writes: bool,
    /// What the holder of the lock says of itself.
    locked: Option<String>,
    ids: u8,
    /// Calls of every kind, and writes among them.
    all_calls: u64,
    writes: u64,
    /// The call, or the write, with this number fails.
    fault: Option<(u64, Fault)>,
    failed: Option<Call>,
    /// No file can be made; the system's error number.
    no_files: Option<i32>,
}

/// A file. Its bytes are shared with copies of the disk until they are changed.
#[derive(Clone, Default)]
struct Inode {
    bytes: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    durable_length: usize,
}

#[derive(Clone)]
enum Change {
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
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        let durable = Arc::make_mut(&mut self.durable);
        if durable.len() < end {
            durable.resize(end, 0);
        }
        durable[at..end].copy_from_slice(bytes);
    }

    fn set_durable_length(&mut self, length: usize) {
        if length < self.durable_length {
            Arc::make_mut(&mut self.durable).truncate(length);
        }
        self.durable_length = length;
    }

    /// Makes what is on the disk what a reader finds.
    fn forget_unsynced(&mut self) {
        if self.durable.len() != self.durable_length {
            Arc::make_mut(&mut self.durable).resize(self.durable_length, 0);
        }
        self.bytes = Arc::clone(&self.durable);
    }
}

impl State {
    /// Counts a call that changes something; fails it when the power is gone.
    fn call(&mut self) -> io::Result<()> {
        if self.cut_before.is_some_and(|number| self.calls >= number) {
            self.cut = true;
        }
        self.power()?;
        self.calls += 1;
        Ok(())
    }

    /// Counts a call of any kind. Gives the fault that it has to carry out
    /// itself; fails it when nothing is to be done at all.
    fn ask(&mut self, what: &'static str, name: &str) -> io::Result<Option<Fault>> {
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
    fn name_of(&self, file: usize) -> String {
        let mut names = self.names.iter();
        let found = names.find(|(_, number)| **number == file);
        found.map_or_else(String::new, |(name, _)| name.clone())
    }

    /// The same as `ask`, for a call to an open file.
    fn ask_file(&mut self, what: &'static str, file: usize) -> io::Result<Option<Fault>> {
        // Names are looked up only where somebody may want to know them.
        let name = self.fault.map_or_else(String::new, |_| self.name_of(file));
        self.ask(what, &name)
    }

    /// A sync of those changes: they become durable, or are lost from sight.
    fn settle_or_fail(
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

    fn power(&self) -> io::Result<()> {
        if self.cut {
            Err(io::Error::other("the power is cut"))
        } else {
            Ok(())
        }
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .map(|file| to_u64(self.files[*file].bytes.len()))
            .sum()
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes durable the changes that `which` picks, in their order.
    fn settle(&mut self, which: impl Fn(&Change) -> bool) {
        let (now, later) = std::mem::take(&mut self.unsynced)
            .into_iter()
            .partition(which);
        self.unsynced = later;
        self.apply(now);
    }

    fn apply(&mut self, changes: Vec<Change>) {
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

fn io_error() -> io::Error {
    // EIO: what a disk that fails gives.
    io::Error::from_raw_os_error(5)
}

/// The end of a call that did what it was asked to.
fn after<T>(fault: Option<Fault>, value: T) -> io::Result<T> {
    match fault {
        Some(Fault::IoDone) => Err(io_error()),
        _ => Ok(value),
    }
}

fn directory_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl Change {
    fn is_of_file(&self, wanted: usize) -> bool {
        matches!(self, Self::Bytes { file, .. } | Self::Length { file, .. } if *file == wanted)
    }

    fn is_in_directory(&self, wanted: &str) -> bool {
        match self {
            Self::Bytes { .. } | Self::Length { .. } => false,
            Self::Link { name, .. } | Self::Unlink { name } | Self::Directory { name } => {
                directory_of(name) == wanted
            }
            Self::Rename { to, .. } => directory_of(to) == wanted,
        }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk of a size that no test reaches.
    pub fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                files: Vec::new(),
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                directories: BTreeSet::from([String::new()]),
                durable_directories: BTreeSet::from([String::new()]),
                unsynced: Vec::new(),
                calls: 0,
                cut_before: None,
                cut: false,
                capacity: 1 << 40,
                syncs: 0,
                fail_sync: None,
                short_writes: false,
                locked: None,
                ids: 0,
                all_calls: 0,
                writes: 0,
                fault: None,
                failed: None,
                no_files: None,
            })),
        }
    }

    /// The disk as a log sees it.
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    /// Calls so far that changed something or synced.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Cuts the power before the call with this number, counted from 0. That
    /// call and all later ones fail.
    pub fn cut_before(&self, call: u64) {
        self.state.lock().cut_before = Some(call);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.state.lock().cut = true;
    }

    /// Whether the power was cut.
    pub fn is_cut(&self) -> bool {
        self.state.lock().cut
    }

    /// Changes that are not durable.
    pub fn unsynced(&self) -> usize {
        self.state.lock().unsynced.len()
    }

    /// The disk after a power cut, with what survived of the changes that were
    /// not synced. This one stays as it is, so that many outcomes can be tried.
    pub fn after_power_cut(&self, survivors: Survivors) -> Self {
        let state = self.state.lock();
        let mut random = Random(match survivors {
            Survivors::Random(seed) => seed,
            _ => 0,
        });
        let mut after = State {
            files: state.files.clone(),
            names: BTreeMap::new(),
            durable_names: state.durable_names.clone(),
            directories: BTreeSet::new(),
            durable_directories: state.durable_directories.clone(),
            unsynced: Vec::new(),
            calls: 0,
            cut_before: None,
            cut: false,
            capacity: state.capacity,
            syncs: 0,
            fail_sync: None,
            short_writes: false,
            locked: None,
            ids: state.ids,
            all_calls: 0,
            writes: 0,
            fault: None,
            failed: None,
            no_files: None,
        };
        let surviving = state
            .unsynced
            .iter()
            .enumerate()
            .filter(|(number, _)| match survivors {
                Survivors::Nothing => false,
                Survivors::Everything => true,
                Survivors::Single(only) => *number == only,
                Survivors::Random(_) => random.next().is_multiple_of(2),
            });
        let surviving = surviving.map(|(_, change)| change.clone()).collect();
        after.apply(surviving);
        let directories = after.durable_directories.clone();
        after
            .durable_names
            .retain(|name, _| directories.contains(directory_of(name)));
        after.names = after.durable_names.clone();
        after.directories = directories;
        for file in &mut after.files {
            file.forget_unsynced();
        }
        Self {
            state: Arc::new(Mutex::new(after)),
        }
    }

    /// The disk as a process finds it that starts after another one was killed:
    /// nothing is lost, but what was not synced still is not.
    pub fn after_kill(&self) -> Self {
        let state = self.state.lock();
        let after = State {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            directories: state.directories.clone(),
            durable_directories: state.durable_directories.clone(),
            unsynced: state.unsynced.clone(),
            calls: 0,
            cut_before: None,
            cut: false,
            capacity: state.capacity,
            syncs: 0,
            fail_sync: None,
            short_writes: false,
            locked: None,
            ids: state.ids,
            all_calls: 0,
            writes: 0,
            fault: None,
            failed: None,
            no_files: None,
        };
        Self {
            state: Arc::new(Mutex::new(after)),
        }
    }

    /// The disk as it is now, with whoever has locked it: the same files for
    /// somebody who looks on, and is free to damage them.
    pub fn while_it_runs(&self) -> Self {
        let copy = self.after_kill();
        let locked = self.state.lock().locked.clone();
        copy.state.lock().locked = locked;
        copy
    }

    /// Fails the sync of a file with this number, counted from 0 and from now.
    /// As on a real system, the file then looks written, but what that sync
    /// should have made durable will not become so by another one.
    pub fn fail_sync(&self, number: u64) {
        let mut state = self.state.lock();
        state.fail_sync = Some(state.syncs + number);
    }

    /// Fails one call, counted from 0 and from now among all calls (reads, too),
    /// or, for short and garbled writes, among the writes.
    pub fn fail_call(&self, number: u64, fault: Fault) {
        let mut state = self.state.lock();
        let before = match fault {
            Fault::Short | Fault::ShortThenFull | Fault::Garbled => state.writes,
            Fault::Io | Fault::IoDone | Fault::Full => state.all_calls,
        };
        state.fault = Some((before + number, fault));
    }

    /// The call that was made to fail, once it was made.
    pub fn failed_call(&self) -> Option<Call> {
        self.state.lock().failed.clone()
    }

    /// Calls so far of every kind, reads among them.
    pub fn all_calls(&self) -> u64 {
        self.state.lock().all_calls
    }

    /// Writes so far.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// Lets every write take only a part of its bytes.
    pub fn write_short(&self) {
        self.state.lock().short_writes = true;
    }

    /// Bytes that all files together may have.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// From now on no file can be made, for this reason (the system's error number), or again.
    pub fn refuse_files(&self, code: Option<i32>) {
        self.state.lock().no_files = code;
    }

    /// Names of all files, with their directory.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// The bytes of a file, or `None`.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        Some(state.files[*state.names.get(name)?].bytes.to_vec())
    }

    /// Puts a file there, durable, in place of what has its name.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state.lock();
        let file = state.files.len();
        state.files.push(Inode {
            bytes: Arc::new(bytes.to_vec()),
            durable: Arc::new(bytes.to_vec()),
            durable_length: bytes.len(),
        });
        state.names.insert(name.to_owned(), file);
        state.durable_names.insert(name.to_owned(), file);
    }

    /// Takes a file away, durably.
    pub fn take_away(&self, name: &str) {
        let mut state = self.state.lock();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    /// Changes the bits of one byte of a file that are set in `mask`; does
    /// nothing when there is no such byte.
    pub fn flip(&self, name: &str, at: usize, mask: u8) {
        let mut state = self.state.lock();
        let Some(file) = state.names.get(name).copied() else {
            return;
        };
        if let Some(byte) = Arc::make_mut(&mut state.files[file].bytes).get_mut(at) {
            *byte ^= mask;
        }
    }
}

/// A small generator of numbers (splitmix64), so that the library needs no other.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

struct SimFile {
    state: Arc<Mutex<State>>,
    file: usize,
}

impl Storage for SimDisk {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask("list", directory)?;
        let names = state
            .names
            .keys()
            .filter(|name| directory_of(name) == directory);
        let names = names
            .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned())
            .collect();
        after(fault, names)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask("open", name)?;
        let file: Arc<dyn File> = Arc::new(SimFile {
            state: Arc::clone(&self.state),
            file: state.find(name)?,
        });
        after(fault, file)
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_read(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.call()?;
        let fault = state.ask("create", name)?;
        if let Some(code) = state.no_files {
            return Err(io::Error::from_raw_os_error(code));
        }
        if !state.directories.contains(directory_of(name)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = state.files.len();
        state.files.push(Inode::default());
        if state.names.insert(name.to_owned(), file).is_some() {
            state.unsynced.push(Change::Unlink {
                name: name.to_owned(),
            });
        }
        state.unsynced.push(Change::Link {
            name: name.to_owned(),
            file,
        });
        let made: Arc<dyn File> = Arc::new(SimFile {
            state: Arc::clone(&self.state),
            file,
        });
        after(fault, made)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let fault = state.ask("rename", to)?;
        let file = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        state.unsynced.push(Change::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            file,
        });
        after(fault, ())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let fault = state.ask("remove", name)?;
        state.find(name)?;
        state.names.remove(name);
        state.unsynced.push(Change::Unlink {
            name: name.to_owned(),
        });
        after(fault, ())
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let fault = state.ask("create_dir", directory)?;
        if state.directories.insert(directory.to_owned()) {
            state.unsynced.push(Change::Directory {
                name: directory.to_owned(),
            });
        }
        after(fault, ())
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let fault = state.ask("sync_dir", directory)?;
        state.settle_or_fail(fault, |change| change.is_in_directory(directory))
    }

    fn modified(&self, name: &str) -> io::Result<SystemTime> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask("modified", name)?;
        state.find(name)?;
        after(fault, SystemTime::UNIX_EPOCH)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask("free_bytes", "")?;
        after(fault, state.capacity.saturating_sub(state.used()))
    }

    fn lock(&self, name: &str, holder: &str) -> io::Result<Locked> {
        let mut state = self.state.lock();
        state.power()?;
        // A lock that could not be taken is not held, whatever the error.
        if state.ask("lock", name)?.is_some() {
            return Err(io_error());
        }
        if let Some(holder) = state.locked.clone() {
            return Ok(Locked::Busy {
                holder,
                lives: true,
            });
        }
        state.locked = Some(holder.to_owned());
        Ok(Locked::Taken(Box::new(SimLock(Arc::clone(&self.state)))))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        let mut state = self.state.lock();
        state.power()?;
        if state.ask("lock", name)?.is_some() {
            return Err(io_error());
        }
        if let Some(holder) = state.locked.clone() {
            return Ok(Locked::Busy {
                holder,
                lives: true,
            });
        }
        Ok(Locked::Taken(Box::new(())))
    }

    fn tell(&self, name: &str, holder: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask("tell", name)?;
        if let Some(locked) = &mut state.locked {
            holder.clone_into(locked);
        }
        after(fault, ())
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask("random_id", "")?;
        state.ids += 1;
        after(fault, [state.ids; 16])
    }

    fn describe(&self, name: &str) -> String {
        format!("sim:{name}")
    }
}

struct SimLock(Arc<Mutex<State>>);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.lock().locked = None;
    }
}

impl File for SimFile {
    fn length(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.power()?;
        let fault = state.ask_file("length", self.file)?;
        after(fault, to_u64(state.files[self.file].bytes.len()))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (bytes, fault) = {
            let mut state = self.state.lock();
            state.power()?;
            let fault = state.ask_file("read_at", self.file)?;
            (Arc::clone(&state.files[self.file].bytes), fault)
        };
        let from = to_usize(offset).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        after(fault, count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.call()?;
        let file = self.file;
        let fault = state.ask_file("write_at", file)?;
        let at = to_usize(offset);
        let length = state.files[file].bytes.len();
        let mut count = bytes.len();
        let short = matches!(fault, Some(Fault::Short | Fault::ShortThenFull));
        if (state.short_writes || short) && count > 1 {
            count = count / 2 + 1;
        }
        let free = to_usize(state.capacity.saturating_sub(state.used()));
        count = count.min((length + free).saturating_sub(at));
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = std::borrow::Cow::Borrowed(&bytes[..count]);
        if fault == Some(Fault::Garbled) {
            bytes.to_mut()[count / 2] ^= 0x10;
        }
        let end = at + count;
        if end > length {
            Arc::make_mut(&mut state.files[file].bytes).resize(end, 0);
            state.unsynced.push(Change::Length { file, length: end });
        }
        Arc::make_mut(&mut state.files[file].bytes)[at..end].copy_from_slice(&bytes);
        let mut from = at;
        while from < end {
            let to = end.min((from / SECTOR_BYTES + 1) * SECTOR_BYTES);
            let bytes = bytes[from - at..to - at].to_vec();
            state.unsynced.push(Change::Bytes {
                file,
                at: from,
                bytes,
            });
            from = to;
        }
        after(fault, count)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let (file, length) = (self.file, to_usize(length));
        let fault = state.ask_file("set_length", file)?;
        Arc::make_mut(&mut state.files[file].bytes).resize(length, 0);
        state.unsynced.push(Change::Length { file, length });
        after(fault, ())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let (file, number) = (self.file, state.syncs);
        let fault = state.ask_file("sync", file)?;
        state.syncs += 1;
        if state.fail_sync == Some(number) {
            state.unsynced.retain(|change| !change.is_of_file(file));
            state.failed = Some(Call {
                what: "sync",
                name: state.name_of(file),
            });
            return Err(io::Error::other("input/output error"));
        }
        state.settle_or_fail(fault, |change| change.is_of_file(file))
    }
}
