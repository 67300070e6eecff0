//! The disk as a log sees it.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::super::directory::{File, Locked, Storage};
use super::disk::SimDisk;
use super::state::{
    Call, Change, Fault, Inode, SECTOR_BYTES, State, after, directory_of, io_error,
};
use crate::format::{to_u64, to_usize};

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

    fn create_new(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if self.state.lock().names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.create(name)
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

    fn set_holder(&self, name: &str, holder: &str) -> io::Result<()> {
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
