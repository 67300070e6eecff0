//! Files that released versions wrote are read by this one.
//!
//! `WAL_WRITE_GOLDEN=1 cargo test -p wal old_formats` writes the files anew:
//! only for a new format version, into a directory of its own.

use std::path::PathBuf;

use wal::storage::sim::SimDisk;

use crate::support::{open, verify};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1")
}

/// What the golden files hold.
fn records() -> Vec<Vec<u8>> {
    let mut records = vec![Vec::new(), b"the first word".to_vec(), vec![0; 3]];
    records.extend((0..40_u8).map(|number| vec![number; usize::from(number) * 11]));
    records
}

/// A log with two epochs, several sealed segments, a seal, and an open segment.
/// A simulated disk makes no random log id, so that the bytes are always the same.
fn write() -> SimDisk {
    let disk = SimDisk::new();
    let records = records();
    let (first, second) = records.split_at(25);
    let mut log = open(&disk).unwrap().log;
    log.append(&first[..3]).unwrap();
    log.seal().unwrap();
    for record in &first[3..] {
        log.append(std::slice::from_ref(record)).unwrap();
    }
    drop(log);
    let mut log = open(&disk).unwrap().log;
    for batch in second.chunks(4) {
        log.append(batch).unwrap();
    }
    log.seal().unwrap();
    drop(log);
    disk
}

#[test]
fn version_1_is_read() {
    if std::env::var("WAL_WRITE_GOLDEN").is_ok() {
        std::fs::create_dir_all(golden()).unwrap();
        let disk = write();
        for name in disk.names() {
            std::fs::write(golden().join(&name), disk.bytes(&name).unwrap()).unwrap();
        }
    }
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let entry = entry.unwrap();
        disk.put(
            entry.file_name().to_str().unwrap(),
            &std::fs::read(entry.path()).unwrap(),
        );
    }
    assert!(disk.names().len() >= 3, "the golden files are there");
    let (report, found) = verify(&disk).unwrap();
    assert!(found == records());
    assert_eq!((report.epoch, report.durable_mark), (2, 43));
    let mut opened = open(&disk).unwrap();
    assert!(opened.records == records());
    opened.log.append(&[b"more".to_vec()]).unwrap();
    assert_eq!(opened.log.read(2).unwrap().unwrap(), b"the first word");
    drop(opened);
    assert_eq!(open(&disk).unwrap().records.len(), 44);
}

#[test]
fn what_is_written_is_still_version_1_to_the_byte() {
    let disk = write();
    for name in disk.names() {
        let golden = std::fs::read(golden().join(&name)).unwrap();
        assert!(
            disk.bytes(&name).unwrap() == golden,
            "{name} differs: that is a new format version"
        );
    }
}

#[test]
fn the_readme_has_the_tables_of_the_source() {
    let readme = include_str!("../README.md");
    let sources = [
        include_str!("../src/format.rs"),
        include_str!("../src/frame.rs"),
        include_str!("../src/manifest.rs"),
    ];
    let rows = sources.iter().flat_map(|source| source.lines());
    let rows: Vec<_> = rows.filter_map(|line| line.strip_prefix("//! |")).collect();
    assert!(rows.len() > 40);
    for row in rows {
        assert!(readme.contains(row), "the README lacks: {row}");
    }
}
