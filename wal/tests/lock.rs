//! One process at a time, and files that only their owner reads.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use wal::Error;
use wal::storage::{FileStorage, Storage};

use crate::support::{Collect, Heard, open_with, small};

#[test]
fn a_log_that_is_open_cannot_be_opened_or_verified() {
    let directory = tempfile::tempdir().unwrap();
    let storage = || wal::open_dir(&directory.path().join("log")).unwrap();
    let held = |error: Error| {
        let text = error.to_string();
        assert!(matches!(error, Error::Held { .. }), "{text}");
        let pid = format!("process {} since 2", std::process::id());
        assert!(text.contains(&pid) && text.contains("/lock"), "{text}");
    };
    let opened = open_with(storage(), small()).unwrap();
    held(open_with(storage(), small()).map(|_| ()).unwrap_err());
    held(wal::verify(storage(), &mut Collect::default()).unwrap_err());
    let appender = opened.log.start(Heard::default().events()).unwrap();
    held(open_with(storage(), small()).map(|_| ()).unwrap_err());
    appender.shutdown().unwrap();
    wal::verify(storage(), &mut Collect::default()).unwrap();
    open_with(storage(), small()).unwrap();
}

/// Makes a log in this directory, and returns its lock file, locked; the file says that `process` holds
/// it.
fn locked_by(directory: &Path, process: u32) -> File {
    drop(open_with(wal::open_dir(directory).unwrap(), small()).unwrap());
    let file = File::options().write(true).open(directory.join("lock"));
    let file = file.unwrap();
    file.lock().unwrap();
    let holder = format!("process {process} since then");
    file.write_all_at(holder.as_bytes(), 0).unwrap();
    file.set_len(holder.len() as u64).unwrap();
    file
}

/// Checks that the log is opened once its lock is released, and not refused before.
#[track_caller]
fn is_waited_for(directory: &Path, let_go: impl FnOnce()) {
    let (refused, waited) = mpsc::channel();
    thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let opened = open_with(wal::open_dir(directory).unwrap(), small());
            drop(refused);
            opened.map(|opened| opened.records.len())
        });
        // Without a wait it is refused long before this, and so it is when the holder is seen to live;
        // with a wait it ends only once the lock is released.
        let early: Result<(), _> = waited.recv_timeout(Duration::from_millis(600));
        let_go();
        assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
        assert_eq!(opening.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn a_lock_of_who_is_gone_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    // No process has this number: the holder of the lock is dead, and its files linger.
    let file = locked_by(directory.path(), u32::MAX);
    is_waited_for(directory.path(), || drop(file));
}

#[test]
fn a_lock_of_who_is_gone_and_had_the_number_of_this_process_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    // In a container the first process of each start has the number 1.
    let file = locked_by(directory.path(), std::process::id());
    // The files of the dead holder linger: another process has the lock file open, and this one does
    // not.
    let mut lingering = Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
    is_waited_for(directory.path(), || {
        lingering.kill().unwrap();
        lingering.wait().unwrap();
    });
}

#[test]
fn only_the_owner_can_read_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/log");
    let mut log = open_with(wal::open_dir(&path).unwrap(), small())
        .unwrap()
        .log;
    log.append(&[vec![1; 100]]).unwrap();
    drop(log);
    // Makes a torn tail, for the quarantine.
    let segment = path.join("segment-0000000000000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[6000] = 1;
    std::fs::write(&segment, bytes).unwrap();
    let opened = open_with(wal::open_dir(&path).unwrap(), small()).unwrap();
    assert_eq!((opened.records.len(), opened.report.torn.len()), (1, 1));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let mut files = 0;
    for entry in std::fs::read_dir(&path).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(
            mode(&path),
            if path.is_dir() { 0o700 } else { 0o600 },
            "{}",
            path.display()
        );
        files += 1;
    }
    assert_eq!(files, 5, "lock, manifest, two segments, quarantine");
    let kept = std::fs::read_dir(path.join("quarantine"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(mode(&kept), 0o600);
    assert_eq!(std::fs::read(kept).unwrap().last(), Some(&1));
}

#[test]
fn verify_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut log = open_with(wal::open_dir(&path).unwrap(), small())
        .unwrap()
        .log;
    log.append(&[vec![1; 100]]).unwrap();
    drop(log);
    std::fs::remove_file(path.join("lock")).unwrap();
    let list = || {
        let entries = std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap());
        let mut all: Vec<_> = entries
            .map(|entry| (entry.path(), std::fs::read(entry.path()).unwrap()))
            .collect();
        all.sort();
        all
    };
    let before = list();
    let report = wal::verify(wal::open_dir(&path).unwrap(), &mut Collect::default()).unwrap();
    assert_eq!(
        (report.records, report.last_position, report.durable_mark),
        (1, 1, 0)
    );
    assert!(before == list());
}

/// Checks that a directory can be read but not written to; returns the refusal to write.
fn refused_to_write(path: &Path) -> String {
    let refused = wal::open_dir(path).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    // Reading does no harm, and a storage opened for reading is still refused for writing.
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::existing(path).unwrap());
    wal::verify(Arc::clone(&storage), &mut Collect::default()).unwrap();
    let error = open_with(storage, small()).map(|_| ()).unwrap_err();
    // Only who would make a directory may name another one.
    let (told, another) = (error.to_string(), ", or name a directory below it");
    let refused = refused.to_string();
    let (why, _) = refused.split_once(another).unwrap();
    assert!(told.contains(why) && !told.contains(another), "{told}");
    refused
}

#[test]
fn a_directory_that_others_may_write_to_or_own_is_read_and_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    drop(open_with(wal::open_dir(&path).unwrap(), small()).unwrap());
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    for shared in [0o720, 0o702, 0o775, 0o777, 0o1777, 0o2770] {
        mode(shared);
        let why = refused_to_write(&path);
        assert!(
            why.contains(&format!("{shared:04o}")) && why.contains("chmod go-w"),
            "{why}"
        );
    }
    // Others may read the directory, and one with the set-group-ID bit stays usable.
    for ours in [0o755, 0o2750, 0o700] {
        mode(ours);
        drop(open_with(wal::open_dir(&path).unwrap(), small()).unwrap());
    }
    // The directory may lie below one that everybody may write to, if that has the sticky bit.
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    drop(open_with(wal::open_dir(&path).unwrap(), small()).unwrap());
    match chown(&path, Some(54_321), None) {
        Ok(()) => {
            let why = refused_to_write(&path);
            assert!(why.contains("user 54321"), "{why}");
        }
        // Only root can give a directory away; other users try one of root's.
        Err(_) => {
            let refused = wal::open_dir(Path::new("/")).map(|_| ()).unwrap_err();
            assert!(refused.to_string().contains("user 0"), "{refused}");
        }
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_never_written_through() {
    let directory = tempfile::tempdir().unwrap();
    let (path, victim) = (
        directory.path().join("log"),
        directory.path().join("victim"),
    );
    let storage = || wal::open_dir(&path).unwrap();
    drop(open_with(storage(), small()).unwrap());
    std::fs::write(&victim, "precious").unwrap();
    let untouched = || assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    // A link of the name of a file that a start writes.
    symlink(&victim, path.join("manifest.new")).unwrap();
    drop(open_with(storage(), small()).unwrap());
    untouched();
    assert!(
        std::fs::symlink_metadata(path.join("manifest"))
            .unwrap()
            .is_file()
    );
    // A link of any other name.
    symlink(&victim, path.join("made")).unwrap();
    drop(storage().create("made").unwrap());
    untouched();
    assert!(
        std::fs::symlink_metadata(path.join("made"))
            .unwrap()
            .is_file()
    );
    assert!(storage().lock("a-link", "somebody").is_ok());
    std::fs::remove_file(path.join("a-link")).unwrap();
    symlink(&victim, path.join("a-link")).unwrap();
    assert!(storage().lock("a-link", "somebody").is_err());
    assert!(storage().open_write("a-link").is_err());
    symlink(directory.path(), path.join("a-directory")).unwrap();
    assert!(storage().create_dir("a-directory").is_err());
    untouched();
}
