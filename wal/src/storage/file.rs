//! A real directory.

use std::fs::{self, DirBuilder, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::directory::{File, Locked, Storage};

const MODE_DIRECTORY: u32 = 0o700;
/// The right to write of the group and of everybody else.
const OTHERS_WRITE: u32 = 0o022;

/// How a lock's file is opened to be read: no link is followed, and nothing is waited for.
const READ_LOCK: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK);

/// A way to lock a file that does not wait.
type Try = fn(&fs::File) -> Result<(), TryLockError>;

/// The files of one directory on a real disk.
pub struct FileStorage {
    /// The path of the directory when it was opened, with links resolved.
    directory: PathBuf,
    /// The path as the caller named it, with the links that lead there.
    named: PathBuf,
    /// The open directory. All calls work in it, and not in what its path leads to by now, which may
    /// be another log's, after a mount or a rename.
    handle: fs::File,
}

impl FileStorage {
    /// The storage of a directory to write to, which is made (mode 0700) when it is
    /// missing.
    ///
    /// # Errors
    /// `PermissionDenied` with a sentence when other users may write to it, or it belongs to another user; else the
    /// errors of the system.
    pub fn create(directory: &Path) -> io::Result<Self> {
        make_directory(directory)?;
        let storage = Self::existing(directory)?;
        storage.expect_private().map_err(|error| {
            let another =
                "name a directory below it that is not there yet, which is made with mode 0700";
            io::Error::new(error.kind(), format!("{error}, or {another}"))
        })?;
        Ok(storage)
    }

    /// The storage of an existing directory to write to.
    ///
    /// # Errors
    /// Those of [`FileStorage::existing`]; `PermissionDenied` with a sentence when other users may
    /// write to it, or it belongs to another user.
    pub fn own(directory: &Path) -> io::Result<Self> {
        let storage = Self::existing(directory)?;
        storage.expect_private()?;
        Ok(storage)
    }

    /// The storage of an existing directory, whoever may write to it: reading it does no harm, and
    /// [`Storage::lock`] checks who may write.
    ///
    /// # Errors
    /// `NotADirectory` when it is something else; else the errors of the system.
    pub fn existing(directory: &Path) -> io::Result<Self> {
        let named = std::path::absolute(directory)?;
        let directory = fs::canonicalize(directory)?;
        if !fs::metadata(&directory)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let handle = fs::File::open(&directory)?;
        Ok(Self {
            directory,
            named,
            handle,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() {
            self.directory.clone()
        } else {
            self.directory.join(name)
        }
    }

    /// Opens a file of the directory, or one below it; `""` is the directory itself. A file that this
    /// makes has mode 0600.
    fn open(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let (name, flags) = (within(name), flags | OFlags::CLOEXEC);
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, mode))?;
        Ok(opened.into())
    }

    /// Opens a regular file only. Does not wait, as opening a pipe of that name would.
    fn open_regular(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let file = self.open(name, flags | OFlags::NONBLOCK)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no regular file; move it out of the directory",
            )),
        }
    }

    /// Opens a directory.
    fn open_directory(&self, name: &str) -> io::Result<fs::File> {
        self.open(name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn is_directory(&self, name: &str) -> io::Result<bool> {
        let stat = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Locks the directory itself, beside its lock file: that may be removed while it is locked.
    /// `None` when another process holds that lock. On file systems that cannot lock a directory, the
    /// lock file is the only lock.
    fn lock_itself(&self, lock: Try) -> io::Result<Option<fs::File>> {
        let directory = self.open_directory("")?;
        match lock(&directory) {
            Ok(()) => Ok(Some(directory)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => match Errno::from_io_error(&error) {
                // NFS does so: it locks only files that are open for writing.
                Some(
                    Errno::BADF
                    | Errno::INVAL
                    | Errno::ISDIR
                    | Errno::NOLCK
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP,
                ) => Ok(Some(directory)),
                _ => Err(error),
            },
        }
    }

    /// Refuses a directory in which files can be put, exchanged or removed by others than the user of
    /// this process: what is written there would not be this process's alone. Another user's directory
    /// is refused to root, too: that user could not read root's files afterwards.
    fn expect_private(&self) -> io::Result<()> {
        let found = self.handle.metadata()?;
        let me = rustix::process::geteuid().as_raw();
        match not_private(found.mode(), found.uid(), me) {
            Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
            None => Ok(()),
        }
    }
}

/// Why a directory of this mode and owner is not the user `me`'s alone.
fn not_private(mode: u32, owner: u32, me: u32) -> Option<String> {
    if owner != me {
        return Some(format!(
            "the directory belongs to user {owner}, and this process runs as user {me}: run it as \
             that user"
        ));
    }
    (mode & OTHERS_WRITE != 0).then(|| {
        format!(
            "others than user {me} may write to the directory (mode {:04o}): take that from them \
             (chmod go-w)",
            mode & 0o7777
        )
    })
}

/// Returns the name for system calls: `.` for the directory itself.
fn within(name: &str) -> &str {
    match name {
        "" => ".",
        name => name,
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
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
        let opened = match self.open_directory(directory) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in Dir::new(opened)? {
            let entry = entry?;
            // No file of a log has a name that is not UTF-8.
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                // Some file systems do not say.
                FileType::Unknown => {
                    let beside = match directory {
                        "" => name.to_owned(),
                        directory => format!("{directory}/{name}"),
                    };
                    self.is_directory(&beside)?
                }
                _ => false,
            };
            if !is_directory {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_regular(name, OFlags::RDONLY)?))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW;
        Ok(Arc::new(self.open_regular(name, flags)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        // The file is made by this call or not at all: it is never what a link of that name leads to,
        // nor a file that another process has open.
        match self.create_new(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(name)?;
                self.create_new(name)
            }
            made => made,
        }
    }

    fn create_new(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(Arc::new(self.open(name, flags)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.handle, directory, Mode::RWXU) {
            Err(Errno::EXIST) => match self.is_directory(directory)? {
                true => Ok(()),
                false => Err(io::ErrorKind::NotADirectory.into()),
            },
            made => Ok(made?),
        }
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        match directory {
            "" => self.handle.sync_all(),
            other => self.open_directory(other)?.sync_all(),
        }
    }

    fn modified(&self, name: &str) -> io::Result<SystemTime> {
        self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)?
            .metadata()?
            .modified()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.handle)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn expect_in_place(&self) -> io::Result<()> {
        let Ok(own) = self.handle.metadata() else {
            return Ok(());
        };
        let why = match fs::metadata(&self.named) {
            Ok(found) if (found.dev(), found.ino()) == (own.dev(), own.ino()) => return Ok(()),
            Ok(_) => {
                "another directory is there now: this one was moved, or something is mounted over it"
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                "it was moved or removed"
            }
            // This error says nothing about the directory.
            Err(_) => return Ok(()),
        };
        Err(io::Error::other(why))
    }

    fn lock(&self, name: &str, holder: &str) -> io::Result<Locked> {
        self.expect_private()?;
        let Some(itself) = self.lock_itself(fs::File::try_lock)? else {
            return self.busy(name);
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
        let file = self.open(name, flags)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                drop(file);
                return self.busy(name);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The holder's name only helps people: a failure to write it must not keep a server from
        // starting on a full disk.
        let _ = file
            .write_all_at(holder.as_bytes(), 0)
            .and_then(|()| file.set_len(crate::format::to_u64(holder.len())));
        Ok(Locked::Taken(Box::new((file, itself))))
    }

    fn lock_shared(&self, name: &str) -> io::Result<Locked> {
        let Some(itself) = self.lock_itself(fs::File::try_lock_shared)? else {
            return self.busy(name);
        };
        let file = match self.open(name, READ_LOCK) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Locked::Taken(Box::new(itself)));
            }
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Locked::Taken(Box::new((file, itself)))),
            Err(TryLockError::WouldBlock) => {
                drop(file);
                self.busy(name)
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn set_holder(&self, name: &str, holder: &str) -> io::Result<()> {
        let file = self.open(name, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
        // The new content is longer than the previous one, so that no reader finds an empty file.
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

impl FileStorage {
    /// Returns who has the lock. This process must not have the lock file open meanwhile: it would be
    /// taken for a holder that died and had the same process number.
    fn busy(&self, name: &str) -> io::Result<Locked> {
        let mut text = Vec::new();
        match self.open(name, READ_LOCK) {
            Ok(file) => file.take(200).read_to_end(&mut text)?,
            // The lock file was removed, but its holder has the lock all the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let holder = String::from_utf8_lossy(&text).trim().to_owned();
        let lives = crate::holder::process_of(&holder)
            .is_some_and(|process| lives_with(process, &self.path(name)));
        Ok(Locked::Busy { holder, lives })
    }
}

/// Whether a process can be seen to live, and to have this file open. A killed process counts as dead,
/// though it may take a moment to close its files.
fn lives_with(process: u32, file: &Path) -> bool {
    let directory = PathBuf::from(format!("/proc/{process}"));
    let Ok(status) = fs::read_to_string(directory.join("status")) else {
        return false;
    };
    let Ok(stat) = fs::read_to_string(directory.join("stat")) else {
        return false;
    };
    if is_dying(&status, &stat) {
        return false;
    }
    let Ok(descriptors) = fs::read_dir(directory.join("fd")) else {
        return false;
    };
    descriptors
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file))
}

/// Whether `/proc/…/status` and `/proc/…/stat` (proc(5)) are those of a process that is dead, is
/// ending, or has a SIGKILL pending.
fn is_dying(status: &str, stat: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    const EXITING: u64 = 4;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let is_killed = ["SigPnd", "ShdPnd"].iter().any(|name| {
        let pending = field(name).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        pending.is_some_and(|pending| pending & SIGKILL != 0)
    });
    // After the name, which may contain anything, come the state, five other fields, and the flags.
    let mut behind = stat
        .rsplit_once(')')
        .map_or("", |(_, behind)| behind)
        .split_whitespace();
    let state = behind.next().unwrap_or("X");
    let flags = behind.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    is_killed || matches!(state, "Z" | "X" | "x") || flags.is_none_or(|flags| flags & EXITING != 0)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::write_all_at;
    use super::*;

    #[test]
    fn a_directory_is_private_when_it_is_its_user_s_and_nobody_else_writes() {
        for mode in [0o700, 0o750, 0o755, 0o2750, 0o500, 0o4711] {
            assert_eq!(not_private(mode, 1_000, 1_000), None, "{mode:o}");
            assert!(not_private(mode, 1_000, 0).unwrap().contains("user 1000"));
            assert!(not_private(mode, 0, 1_000).unwrap().contains("user 0"));
        }
        for mode in [0o770, 0o702, 0o775, 0o777, 0o1777, 0o2775] {
            let why = not_private(mode, 1_000, 1_000).unwrap();
            assert!(why.contains(&format!("{mode:04o}")), "{why}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_has_no_files_and_a_file_is_no_directory() {
        let place = tempfile::tempdir().unwrap();
        let storage = FileStorage::existing(place.path()).unwrap();
        assert!(storage.list("archive").unwrap().is_empty());
        fs::write(place.path().join("file"), b"").unwrap();
        assert_eq!(storage.list("").unwrap(), ["file"]);
        let refused = storage.list("file").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotADirectory);
        let refused = FileStorage::existing(&place.path().join("file"));
        let refused = refused.err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn an_unreachable_directory_is_not_made_and_the_system_error_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let (file, circle) = (place.path().join("file"), place.path().join("circle"));
        fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        for below in [circle.clone(), circle.join("a"), circle.join("a/b")] {
            let refused = FileStorage::create(&below).err().unwrap();
            let code = refused.raw_os_error();
            assert_eq!(code, Some(Errno::LOOP.raw_os_error()), "{refused}");
        }
        for below in [file.clone(), file.join("a")] {
            let refused = FileStorage::create(&below).err().unwrap();
            assert_eq!(refused.kind(), io::ErrorKind::NotADirectory);
        }
        let made = place.path().join("a/b");
        FileStorage::create(&made).unwrap();
        assert!(made.is_dir());
    }

    #[test]
    fn a_pipe_that_has_the_name_of_a_file_is_named_and_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let name = "segment-0000000000000099.log";
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.path().join(name),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let storage = FileStorage::create(place.path()).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for opened in [storage.open_read(name), storage.open_write(name)] {
                sender.send(opened.map(drop)).unwrap();
            }
            let refused = crate::Salvage::survey(Arc::new(storage)).map(drop);
            sender.send(refused.map_err(io::Error::other)).unwrap();
        });
        for at in 0..3 {
            let opened = receiver.recv_timeout(std::time::Duration::from_secs(20));
            let told = opened.unwrap().unwrap_err().to_string();
            assert!(told.contains("no regular file"), "{told}");
            assert!(at < 2 || told.contains(name), "{told}");
        }
    }

    #[test]
    fn storage_stays_in_the_opened_directory_and_reports_that_it_moved() {
        let place = tempfile::tempdir().unwrap();
        let (own, away) = (place.path().join("own"), place.path().join("away"));
        let storage = FileStorage::create(&own).unwrap();
        storage.expect_in_place().unwrap();
        fs::rename(&own, &away).unwrap();
        let why = storage.expect_in_place().unwrap_err().to_string();
        assert!(why.contains("moved or removed"), "{why}");
        // Another log takes its place.
        fs::create_dir(&own).unwrap();
        fs::write(own.join("a"), b"of another").unwrap();
        let why = storage.expect_in_place().unwrap_err().to_string();
        assert!(why.contains("another directory is there now"), "{why}");
        assert_eq!(storage.list("").unwrap(), [""; 0]);
        for name in ["a", "b"] {
            let file = storage.create(name).unwrap();
            write_all_at(file.as_ref(), b"own", 0).unwrap();
        }
        storage.create_dir("quarantine").unwrap();
        storage.rename("a", "quarantine/a").unwrap();
        storage.rename("b", "a").unwrap();
        storage.sync_dir("quarantine").unwrap();
        assert_eq!(storage.open_write("a").unwrap().length().unwrap(), 3);
        assert!(storage.modified("quarantine/a").is_ok());
        storage.remove("a").unwrap();
        assert!(storage.open_read("a").is_err());
        assert_eq!(storage.list("quarantine").unwrap(), ["a"]);
        assert_eq!(fs::read(own.join("a")).unwrap(), b"of another");
        assert_eq!(fs::read_dir(&own).unwrap().count(), 1);
        assert_eq!(fs::read(away.join("quarantine/a")).unwrap(), b"own");
    }

    #[test]
    fn a_log_stays_locked_when_its_lock_file_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let storage = || FileStorage::create(place.path()).unwrap();
        let is_taken = |locked: Locked| matches!(locked, Locked::Taken(_));
        let held = storage().lock("lock", "process 1").unwrap();
        storage().remove("lock").unwrap();
        assert!(!is_taken(storage().lock("lock", "process 2").unwrap()));
        assert!(!is_taken(storage().lock_shared("lock").unwrap()));
        assert!(!place.path().join("lock").exists());
        drop(held);
        assert!(is_taken(storage().lock_shared("lock").unwrap()));
        assert!(is_taken(storage().lock("lock", "process 2").unwrap()));
    }

    #[test]
    fn a_process_that_lives_holds_a_file_only_while_it_has_that_file_open() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (held, other) = (place.join("held"), place.join("other"));
        let open = fs::File::create(&held).unwrap();
        drop(fs::File::create(&other).unwrap());
        let own = std::process::id();
        assert!(lives_with(own, &held));
        assert!(!lives_with(own, &other));
        drop(open);
        assert!(!lives_with(own, &held));
    }

    #[test]
    fn dead_ending_and_killed_processes_are_told_from_living_ones() {
        let status =
            |own: &str, shared: &str| format!("Name:\ta\nSigPnd:\t{own}\nShdPnd:\t{shared}\n");
        let stat =
            |state: &str, flags: u32| format!("12 (a) b c) {state} 1 12 12 0 -1 {flags} 7 0");
        let none = "0000000000000000";
        let (kill, other) = ("0000000000000100", "0000000000004000");
        let living = status(none, other);
        assert!(!is_dying(&living, &stat("S", 0x40_0000)));
        assert!(!is_dying(&living, &stat("D", 0)));
        for (status, stat) in [
            (living.clone(), stat("Z", 0)),
            (living.clone(), stat("X", 0)),
            (living.clone(), stat("R", 0x40_0004)),
            (status(kill, none), stat("R", 0)),
            (status(none, kill), stat("R", 0)),
            (living.clone(), String::new()),
        ] {
            assert!(is_dying(&status, &stat), "{status}{stat}");
        }
    }
}
