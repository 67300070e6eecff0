//! Files that released versions wrote are read by this one.
//!
//! `WAL_WRITE_GOLDEN=1 cargo test -p wal old_formats` writes the files anew:
//! only for a new format version, into a directory of its own.

use std::path::PathBuf;

use wal::storage::sim::SimDisk;
use wal::{Ancestor, Past};

use crate::support::{open, snapshot, verify};

fn golden(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/version-{version}"))
}

fn write_golden(version: u32, disk: &SimDisk) {
    if std::env::var("WAL_WRITE_GOLDEN").is_ok() {
        std::fs::create_dir_all(golden(version)).unwrap();
        for name in disk.names() {
            std::fs::write(golden(version).join(&name), disk.bytes(&name).unwrap()).unwrap();
        }
    }
}

fn read_golden(version: u32) -> SimDisk {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(golden(version)).unwrap() {
        let entry = entry.unwrap();
        disk.put(
            entry.file_name().to_str().unwrap(),
            &std::fs::read(entry.path()).unwrap(),
        );
    }
    assert!(disk.names().len() >= 3, "the golden files are there");
    disk
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
    write_golden(1, &write());
    let disk = read_golden(1);
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
        let golden = std::fs::read(golden(1).join(&name)).unwrap();
        assert!(
            disk.bytes(&name).unwrap() == golden,
            "{name} differs: that is a new format version"
        );
    }
}

/// The same with two snapshots, and without the segments that the older one covers.
fn write_with_snapshots() -> SimDisk {
    let disk = write();
    let mut log = open(&disk).unwrap().log;
    snapshot(&mut log, 30).unwrap();
    log.append(&[b"after the first snapshot".to_vec()]).unwrap();
    snapshot(&mut log, 41).unwrap();
    assert!(log.compact(&wal::Keep::NOTHING, None).unwrap().segments > 0);
    log.seal().unwrap();
    drop(log);
    disk
}

#[test]
fn version_2_is_read_and_written_to_the_byte() {
    let written = write_with_snapshots();
    write_golden(2, &written);
    let disk = read_golden(2);
    for name in disk.names() {
        assert!(
            written.bytes(&name) == disk.bytes(&name),
            "{name} differs: that is a new format version"
        );
    }
    let mut expected = records();
    expected.push(b"after the first snapshot".to_vec());
    let (report, found) = verify(&disk).unwrap();
    assert!(found == expected);
    assert_eq!(report.snapshot.unwrap().covers, 41);
    let opened = open(&disk).unwrap();
    assert!(opened.records == expected);
    assert_eq!(opened.entries.len(), 3);
    assert_eq!(opened.log.read(2).unwrap().unwrap(), b"the first word");
}

/// What is restored of that at a position, and goes on.
fn write_restored() -> SimDisk {
    let disk = SimDisk::new();
    // Not the id that the first one has.
    disk.storage().random_id().unwrap();
    let past = Past::open(write_with_snapshots().storage(), None).unwrap();
    past.restore(&disk.storage(), Some(43), &mut |_, _| {})
        .unwrap();
    let mut log = open(&disk).unwrap().log;
    log.append(&[b"after the restoration".to_vec()]).unwrap();
    log.seal().unwrap();
    drop(log);
    disk
}

#[test]
fn version_3_is_read_and_written_to_the_byte() {
    let written = write_restored();
    write_golden(3, &written);
    let disk = read_golden(3);
    assert_eq!(disk.bytes("manifest").unwrap()[8], 3);
    for name in disk.names() {
        assert!(
            written.bytes(&name) == disk.bytes(&name),
            "{name} differs: that is a new format version"
        );
    }
    let mut expected = records();
    expected.push(b"after the restoration".to_vec());
    let (report, found) = verify(&disk).unwrap();
    assert!(found == expected);
    let ancestor = Ancestor {
        log_id: [1; 16],
        upto: 43,
    };
    assert_eq!((report.log_id, report.ancestors), ([2; 16], vec![ancestor]));
    let opened = open(&disk).unwrap();
    assert!(opened.records == expected);
    assert_eq!(opened.report.ancestors, [ancestor]);
}

#[test]
fn the_readme_has_the_tables_of_the_source() {
    let readme = include_str!("../README.md");
    let sources = [
        include_str!("../src/ancestry.rs"),
        include_str!("../src/format.rs"),
        include_str!("../src/frame.rs"),
        include_str!("../src/manifest/layout.rs"),
        include_str!("../src/snapshot/layout.rs"),
    ];
    let rows = sources.iter().flat_map(|source| source.lines());
    let rows: Vec<_> = rows.filter_map(|line| line.strip_prefix("//! |")).collect();
    assert!(rows.len() > 40);
    for row in rows {
        assert!(readme.contains(row), "the README lacks: {row}");
    }
}
