//! A real directory.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{File, Locked, Storage};

const MODE_DIRECTORY: u32 = 0o700;
const MODE_FILE: u32 = 0o600;

/// The files of one directory on a real disk.
pub struct FileStorage {
    directory: PathBuf,
}

impl FileStorage {
    /// The storage of a directory, which is made (mode 0700) when it is missing.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(directory: &Path) -> io::Result<Self> {
        make_directory(directory)?;
        Self::existing(directory)
    }

    /// The storage of a directory that is there.
    ///
    /// # Errors
    /// `NotADirectory` when it is something else; else what the system says.
    pub fn existing(directory: &Path) -> io::Result<Self> {
        let directory = fs::canonicalize(directory)?;
        if !directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() {
            self.directory.clone()
        } else {
            self.directory.join(name)
        }
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_directory(parent)?;
    DirBuilder::new().mode(MODE_DIRECTORY).create(path)?;
    // The name of the new directory must outlive a power cut as its files do.
    fs::File::open(parent)?.sync_all()
}

impl Storage for FileStorage {
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                continue;
            }
            // No file of a log has a name that is not UTF-8.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(fs::File::open(self.path(name))?))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(self.path(name))?,
        ))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(MODE_FILE);
        Ok(Arc::new(options.open(self.path(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        match DirBuilder::new()
            .mode(MODE_DIRECTORY)
            .create(self.path(directory))
        {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        fs::File::open(self.path(directory))?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, name: &str, holder: &str) -> io::Result<Locked> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE_FILE);
        let mut file = options.open(self.path(name))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return busy(file),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Only a help for people: that it could not be written must not keep a
        // server from starting on a full disk.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(holder.as_bytes()));
        Ok(Locked::Taken(Box::new(file)))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        let file = match fs::File::open(self.path(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Locked::Taken(Box::new(())));
            }
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Locked::Taken(Box::new(file))),
            Err(TryLockError::WouldBlock) => busy(file),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn tell(&self, name: &str, holder: &str) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path(name))?;
        // Longer than what was there, so that nobody reads an empty file.
        file.write_all_at(holder.as_bytes(), 0)?;
        file.set_len(crate::format::to_u64(holder.len()))
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        let mut id = [0; 16];
        fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
        Ok(id)
    }

    fn describe(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn busy(mut file: fs::File) -> io::Result<Locked> {
    let mut text = Vec::new();
    (&mut file).take(200).read_to_end(&mut text)?;
    Ok(Locked::Busy {
        holder: String::from_utf8_lossy(&text).trim().to_owned(),
    })
}

impl File for fs::File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            let at = offset + crate::format::to_u64(read);
            match FileExt::read_at(self, &mut buffer[read..], at) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
