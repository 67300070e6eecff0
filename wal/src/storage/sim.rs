//! A simulated disk, for tests.
//!
//! It keeps apart what a running system sees and what is on the disk: bytes (in
//! sectors of 512), lengths and names become durable by their own syncs only.
//! Its power can be cut before any call that changes something; what survives
//! is then chosen: nothing that was not synced, everything, one single change,
//! or a random part of the changes. It can fail syncs, write short and run full.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

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
    locked: bool,
    ids: u8,
}

#[derive(Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
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
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[at..end].copy_from_slice(bytes);
    }

    fn set_durable_length(&mut self, length: usize) {
        if length < self.durable_length {
            self.durable.truncate(length);
        }
        self.durable_length = length;
    }

    /// What a reader finds after a power cut.
    fn after_cut(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        bytes.resize(self.durable_length, 0);
        bytes
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
                locked: false,
                ids: 0,
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
            locked: false,
            ids: state.ids,
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
            file.bytes = file.after_cut();
            file.durable.clone_from(&file.bytes);
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
            locked: false,
            ids: state.ids,
        };
        Self {
            state: Arc::new(Mutex::new(after)),
        }
    }

    /// Fails the sync of a file with this number, counted from 0 and from now.
    /// As on a real system, the file then looks written, but what that sync
    /// should have made durable will not become so by another one.
    pub fn fail_sync(&self, number: u64) {
        let mut state = self.state.lock();
        state.fail_sync = Some(state.syncs + number);
    }

    /// Lets every write take only a part of its bytes.
    pub fn write_short(&self) {
        self.state.lock().short_writes = true;
    }

    /// Bytes that all files together may have.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Names of all files, with their directory.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// The bytes of a file, or `None`.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        Some(state.files[*state.names.get(name)?].bytes.clone())
    }

    /// Puts a file there, durable, in place of what has its name.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state.lock();
        let file = state.files.len();
        state.files.push(Inode {
            bytes: bytes.to_vec(),
            durable: bytes.to_vec(),
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
        if let Some(byte) = state.files[file].bytes.get_mut(at) {
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
        let state = self.state.lock();
        state.power()?;
        let names = state
            .names
            .keys()
            .filter(|name| directory_of(name) == directory);
        Ok(names
            .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned())
            .collect())
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let state = self.state.lock();
        state.power()?;
        Ok(Arc::new(SimFile {
            state: Arc::clone(&self.state),
            file: state.find(name)?,
        }))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_read(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.call()?;
        if !state.directories.contains(directory_of(name)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = match state.names.get(name).copied() {
            Some(file) => {
                state.files[file].bytes.clear();
                state.unsynced.push(Change::Length { file, length: 0 });
                file
            }
            None => {
                let file = state.files.len();
                state.files.push(Inode::default());
                state.names.insert(name.to_owned(), file);
                state.unsynced.push(Change::Link {
                    name: name.to_owned(),
                    file,
                });
                file
            }
        };
        Ok(Arc::new(SimFile {
            state: Arc::clone(&self.state),
            file,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let file = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        state.unsynced.push(Change::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            file,
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        state.find(name)?;
        state.names.remove(name);
        state.unsynced.push(Change::Unlink {
            name: name.to_owned(),
        });
        Ok(())
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        if state.directories.insert(directory.to_owned()) {
            state.unsynced.push(Change::Directory {
                name: directory.to_owned(),
            });
        }
        Ok(())
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        state.settle(|change| change.is_in_directory(directory));
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.power()?;
        Ok(state.capacity.saturating_sub(state.used()))
    }

    fn lock(&self, _name: &str, _holder: &str) -> io::Result<Locked> {
        let mut state = self.state.lock();
        state.power()?;
        if state.locked {
            return Ok(Locked::Busy {
                holder: "the simulation".to_owned(),
            });
        }
        state.locked = true;
        Ok(Locked::Taken(Box::new(SimLock(Arc::clone(&self.state)))))
    }

    fn lock_shared(&self, _name: &str) -> io::Result<Locked> {
        let state = self.state.lock();
        state.power()?;
        if state.locked {
            return Ok(Locked::Busy {
                holder: "the simulation".to_owned(),
            });
        }
        Ok(Locked::Taken(Box::new(())))
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        let mut state = self.state.lock();
        state.power()?;
        state.ids += 1;
        Ok([state.ids; 16])
    }

    fn describe(&self, name: &str) -> String {
        format!("sim:{name}")
    }
}

struct SimLock(Arc<Mutex<State>>);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.lock().locked = false;
    }
}

impl File for SimFile {
    fn length(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.power()?;
        Ok(to_u64(state.files[self.file].bytes.len()))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock();
        state.power()?;
        let bytes = &state.files[self.file].bytes;
        let from = to_usize(offset).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.call()?;
        let file = self.file;
        let at = to_usize(offset);
        let length = state.files[file].bytes.len();
        let mut count = bytes.len();
        if state.short_writes && count > 1 {
            count = count / 2 + 1;
        }
        let free = to_usize(state.capacity.saturating_sub(state.used()));
        count = count.min((length + free).saturating_sub(at));
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let end = at + count;
        if end > length {
            state.files[file].bytes.resize(end, 0);
            state.unsynced.push(Change::Length { file, length: end });
        }
        state.files[file].bytes[at..end].copy_from_slice(&bytes[..count]);
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
        Ok(count)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let (file, length) = (self.file, to_usize(length));
        state.files[file].bytes.resize(length, 0);
        state.unsynced.push(Change::Length { file, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let (file, number) = (self.file, state.syncs);
        state.syncs += 1;
        if state.fail_sync == Some(number) {
            state.unsynced.retain(|change| !change.is_of_file(file));
            return Err(io::Error::other("input/output error"));
        }
        state.settle(|change| change.is_of_file(file));
        Ok(())
    }
}
