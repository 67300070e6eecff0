//! One process at a time, and files that only their owner reads.

use std::os::unix::fs::PermissionsExt;

use wal::Error;

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

#[test]
fn a_lock_of_who_is_gone_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let storage = || wal::open_dir(directory.path()).unwrap();
    drop(open_with(storage(), small()).unwrap());
    let file = std::fs::File::options()
        .write(true)
        .open(directory.path().join("lock"))
        .unwrap();
    file.lock().unwrap();
    // No process has this number: the one that had the lock is dead, and its files linger.
    std::os::unix::fs::FileExt::write_all_at(&file, b"process 4294967294 since then", 0).unwrap();
    file.set_len(29).unwrap();
    let (refused, waited) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let opened = open_with(storage(), small()).map(|opened| opened.records.len());
            drop(refused);
            opened
        });
        // Without a wait it is refused long before this; with one it ends only once it is let in.
        let early = waited.recv_timeout(std::time::Duration::from_millis(300));
        let early: Result<(), _> = early;
        assert_eq!(early, Err(std::sync::mpsc::RecvTimeoutError::Timeout));
        drop(file);
        assert_eq!(opening.join().unwrap().unwrap(), 0);
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
    // A torn tail, for the quarantine.
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
