//! The disk as a test handles it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::directory::Storage;
use super::state::{Call, Fault, Inode, State, Survivors, directory_of};

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    pub(super) state: Arc<Mutex<State>>,
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
            names: BTreeMap::new(),
            directories: BTreeSet::new(),
            unsynced: Vec::new(),
            ..state.begun_anew()
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
        Self {
            state: Arc::new(Mutex::new(state.begun_anew())),
        }
    }

    /// The disk as it is now, with its locks: the same files for a second
    /// reader, which is free to damage them.
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

    /// Sets the number of bytes that all files together may have.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Bytes that all files together have.
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Makes every creation of a file fail from now on with this error number of the system; `None`
    /// allows them again.
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

    /// Puts a durable file there, in place of the one that has its name.
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
