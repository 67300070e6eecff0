//! A disk that says what is done to it.

use std::io;
use std::sync::Arc;

use wal::storage::{File, Locked, Storage};

/// Called before each call: its name, and the file's.
pub type Watch = Arc<dyn Fn(&'static str, &str) + Send + Sync>;

/// A disk that is watched.
pub struct Watched {
    storage: Arc<dyn Storage>,
    watch: Watch,
}

struct WatchedFile {
    file: Arc<dyn File>,
    name: String,
    watch: Watch,
}

impl Watched {
    pub fn new(
        storage: Arc<dyn Storage>,
        watch: impl Fn(&'static str, &str) + Send + Sync + 'static,
    ) -> Self {
        let watch = Arc::new(watch);
        Self { storage, watch }
    }

    fn watched(&self, file: Arc<dyn File>, name: &str) -> Arc<dyn File> {
        Arc::new(WatchedFile {
            file,
            name: name.to_owned(),
            watch: Arc::clone(&self.watch),
        })
    }
}

impl Storage for Watched {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.storage.list(directory)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        (self.watch)("open_read", name);
        Ok(self.watched(self.storage.open_read(name)?, name))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        (self.watch)("open_write", name);
        Ok(self.watched(self.storage.open_write(name)?, name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        (self.watch)("create", name);
        Ok(self.watched(self.storage.create(name)?, name))
    }

    fn create_new(&self, name: &str) -> io::Result<Arc<dyn File>> {
        (self.watch)("create", name);
        Ok(self.watched(self.storage.create_new(name)?, name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (self.watch)("rename", to);
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        (self.watch)("remove", name);
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

    fn set_holder(&self, name: &str, holder: &str) -> io::Result<()> {
        self.storage.set_holder(name, holder)
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        self.storage.random_id()
    }

    fn describe(&self, name: &str) -> String {
        self.storage.describe(name)
    }
}

impl File for WatchedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (self.watch)("read_at", &self.name);
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        (self.watch)("write_at", &self.name);
        self.file.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync(&self) -> io::Result<()> {
        (self.watch)("sync", &self.name);
        self.file.sync()
    }
}
