//! A storage that changes while it is read, for tests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::directory::{File, Locked, Storage};
use super::read_only::{ReadOnly, ReadOnlyFile};
use super::sim::SimDisk;

/// A simulated disk for a reader, changed before one of the reader's calls: everything that can
/// happen while a log is read happens between two of them.
pub struct Meanwhile {
    disk: SimDisk,
    turn: Arc<Turn>,
}

struct Turn {
    disk: SimDisk,
    calls: AtomicU64,
    at: u64,
    then: Box<dyn Fn(&SimDisk) + Send + Sync>,
}

impl Turn {
    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            (self.then)(&self.disk);
        }
    }
}

impl Meanwhile {
    /// Creates a disk that `then` changes before the reader's call number `at`, counted from 0.
    pub fn new(disk: &SimDisk, at: u64, then: impl Fn(&SimDisk) + Send + Sync + 'static) -> Self {
        let turn = Turn {
            disk: disk.clone(),
            calls: AtomicU64::new(0),
            at,
            then: Box::new(then),
        };
        Self {
            disk: disk.clone(),
            turn: Arc::new(turn),
        }
    }

    /// How many calls the reader has made.
    pub fn calls(&self) -> u64 {
        self.turn.calls.load(Ordering::Relaxed)
    }

    fn call(&self) {
        self.turn.call();
    }
}

/// A file that is read while its log changes.
struct Read {
    file: Arc<dyn File>,
    turn: Arc<Turn>,
}

impl ReadOnlyFile for Read {
    fn length(&self) -> io::Result<u64> {
        self.turn.call();
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.turn.call();
        self.file.read_at(buffer, offset)
    }
}

impl ReadOnly for Meanwhile {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.call();
        self.disk.list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.call();
        let file = self.disk.open_read(name)?;
        let turn = Arc::clone(&self.turn);
        Ok(Arc::new(Read { file, turn }))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        self.call();
        self.disk.lock_shared(name)
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}
