//! A disk whose syncs, and whose reads, can be held up.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::Notify;
use wal::storage::{File, Locked, Storage};

/// While it is closed, nothing that goes through it comes to an end.
#[derive(Default)]
pub struct Gate {
    is_closed: Mutex<bool>,
    news: Condvar,
    waiting: Notify,
}

impl Gate {
    /// Closes the gate, or opens it.
    pub fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.news.notify_all();
    }

    /// Comes back when somebody was held up.
    pub async fn somebody_waits(&self) {
        self.waiting.notified().await;
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        if *is_closed {
            self.waiting.notify_one();
        }
        drop(self.news.wait_while(is_closed, |closed| *closed).unwrap());
    }
}

/// Opens the gate when it is dropped: a failed test must not wait for the disk for ever.
pub struct OpenInTheEnd(pub Arc<Gate>);

impl Drop for OpenInTheEnd {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A disk behind gates.
pub struct Disk {
    storage: Arc<dyn Storage>,
    /// What syncs go through.
    gate: Arc<Gate>,
    /// What reads go through.
    reads: Arc<Gate>,
}

struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
    reads: Arc<Gate>,
}

impl Disk {
    pub fn new(storage: Arc<dyn Storage>, gate: &Arc<Gate>) -> Self {
        let (gate, reads) = (Arc::clone(gate), Arc::default());
        Self {
            storage,
            gate,
            reads,
        }
    }

    /// The same, with a gate that reads go through.
    pub fn reading_through(self, reads: &Arc<Gate>) -> Self {
        let reads = Arc::clone(reads);
        Self { reads, ..self }
    }

    fn gated(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        let (gate, reads) = (Arc::clone(&self.gate), Arc::clone(&self.reads));
        Arc::new(GatedFile { file, gate, reads })
    }
}

impl Storage for Disk {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.storage.list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(self.storage.open_read(name)?))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(self.storage.open_write(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(self.storage.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.storage.remove(name)
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        self.storage.create_dir(directory)
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        self.storage.sync_dir(directory)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.storage.free_bytes()
    }

    fn lock(&self, name: &str, holder: &str) -> io::Result<Locked> {
        self.storage.lock(name, holder)
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        self.storage.lock_shared(name)
    }

    fn tell(&self, name: &str, holder: &str) -> io::Result<()> {
        self.storage.tell(name, holder)
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        self.storage.random_id()
    }

    fn describe(&self, name: &str) -> String {
        self.storage.describe(name)
    }
}

impl File for GatedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.pass();
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }
}
