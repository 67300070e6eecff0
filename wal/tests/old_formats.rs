//! Files that released versions wrote are read by this one.
//!
//! `WAL_WRITE_GOLDEN=1 cargo test -p wal old_formats` writes the golden files of the present format again:
//! only for a new format version, into directories of its own. The golden directories:
//!
//! | directory | what |
//! |---|---|
//! | `version-1` to `version-3` | segments and snapshots of version 1, under manifests of these versions |
//! | `segments-2-…` | those of version 2 |
//! | `snapshots-3` | snapshots of version 3 beside them |

use std::path::PathBuf;

use wal::storage::sim::SimDisk;
use wal::{Ancestor, Past};

use crate::support::{frames, open, segments, snapshot, snapshot_of, snapshots, verify};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}"))
}

fn write_golden(golden_name: &str, disk: &SimDisk) {
    if std::env::var("WAL_WRITE_GOLDEN").is_ok() {
        std::fs::create_dir_all(golden(golden_name)).unwrap();
        for name in disk.names() {
            let bytes = disk.bytes(&name).unwrap();
            std::fs::write(golden(golden_name).join(&name), bytes).unwrap();
        }
    }
}

fn read_golden(name: &str) -> SimDisk {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(golden(name)).unwrap() {
        let entry = entry.unwrap();
        disk.put(
            entry.file_name().to_str().unwrap(),
            &std::fs::read(entry.path()).unwrap(),
        );
    }
    assert!(disk.names().len() >= 3, "the golden files are there");
    disk
}

/// Checks that what is written now equals the golden directory of this name, byte by byte.
fn is_golden(written: &SimDisk, name: &str) -> SimDisk {
    write_golden(name, written);
    let disk = read_golden(name);
    assert_eq!(written.names(), disk.names());
    for name in disk.names() {
        assert!(
            written.bytes(&name) == disk.bytes(&name),
            "{name} differs: that is a new format version"
        );
    }
    disk
}

/// The records of the golden files.
fn records() -> Vec<Vec<u8>> {
    let mut records = vec![Vec::new(), b"the first word".to_vec(), vec![0; 3]];
    records.extend((0..40_u8).map(|number| vec![number; usize::from(number) * 11]));
    records
}

/// The records of the golden files, and one more after them.
fn records_and(last: &[u8]) -> Vec<Vec<u8>> {
    let mut records = records();
    records.push(last.to_vec());
    records
}

/// Writes a log with two epochs, several sealed segments, a seal, and an open segment. A simulated disk makes
/// no random log id, so that the bytes are always the same.
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
    for batch in second.chunks(2) {
        log.append(batch).unwrap();
    }
    log.seal().unwrap();
    drop(log);
    disk
}

/// Reads a log of [`write`], and appends to it.
fn goes_on(disk: &SimDisk) {
    let (report, found) = verify(disk).unwrap();
    assert!(found == records());
    assert_eq!((report.epoch, report.durable_mark), (2, 43));
    let mut opened = open(disk).unwrap();
    assert!(opened.records == records());
    opened.log.append(&[b"more".to_vec()]).unwrap();
    assert_eq!(opened.log.read(2).unwrap().unwrap(), b"the first word");
    drop(opened);
    assert_eq!(open(disk).unwrap().records.len(), 44);
}

#[test]
fn version_1_is_read_and_what_is_written_goes_on_behind_it() {
    let disk = read_golden("version-1");
    goes_on(&disk);
    let version = |name: &String| disk.bytes(name).unwrap()[8];
    let versions: Vec<_> = segments(&disk).iter().map(version).collect();
    assert!(versions.starts_with(&[1, 1]) && versions.ends_with(&[2]));
}

#[test]
fn a_newer_version_is_told_with_the_newest_that_is_known_of_such_files() {
    for (name, newest) in [
        ("segment-0000000000000006.log", 2),
        ("snapshot-0000000000000002.snap", 3),
    ] {
        let disk = read_golden("segments-2-packed");
        let mut bytes = disk.bytes(name).unwrap();
        bytes[8] = newest + 1;
        let crc = crc32fast::hash(&bytes[..12]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        disk.put(name, &bytes);
        let told = verify(&disk).unwrap_err().to_string();
        let expected = format!(
            "{name} has format version {}, this release reads up to {newest}",
            newest + 1
        );
        assert!(told.contains(&expected), "{told}");
    }
}

#[test]
fn segments_are_written_in_version_2_to_the_byte() {
    goes_on(&is_golden(&write(), "segments-2"));
}

const AFTER: &[u8] = b"after the first snapshot";
/// The position that the second snapshot covers; some of its records have notes.
const COVERED: u64 = 40;

/// As [`write`], with two snapshots, which keep the beginnings of records, and without the segments that the
/// older one covers.
fn write_with_snapshots() -> SimDisk {
    let disk = write();
    let mut log = open(&disk).unwrap().log;
    snapshot_of(&mut log, COVERED - 1, beginning).unwrap();
    log.append(&[AFTER.to_vec()]).unwrap();
    snapshot_of(&mut log, COVERED, beginning).unwrap();
    assert!(log.compact(&wal::Keep::NOTHING, None).unwrap().segments > 0);
    log.seal().unwrap();
    drop(log);
    disk
}

/// Returns so few bytes of a record that snapshots do not pack them.
fn beginning(record: &[u8]) -> &[u8] {
    &record[..record.len().min(8)]
}

/// Reads a log whose snapshots cover `covers` and keep what `keep` returns of each record.
fn has_snapshots(disk: &SimDisk, covers: u64, keep: fn(&[u8]) -> &[u8]) {
    let mut expected = records_and(AFTER);
    for record in &mut expected[..usize::try_from(covers).unwrap()] {
        *record = keep(record).to_vec();
    }
    let (report, found) = verify(disk).unwrap();
    assert!(found == expected);
    assert_eq!(report.snapshot.unwrap().covers, covers);
    let mut opened = open(disk).unwrap();
    assert!(opened.records == expected);
    assert_eq!(opened.entries.len(), 3);
    assert_eq!(opened.log.read(2).unwrap().as_ref(), Some(&expected[1]));
    // What a snapshot keeps is kept by the next one, too.
    snapshot(&mut opened.log, 44).unwrap();
    drop(opened);
    assert!(open(disk).unwrap().records == expected);
}

#[test]
fn version_2_is_read() {
    has_snapshots(&read_golden("version-2"), 41, |record| record);
}

#[test]
fn snapshots_of_version_2_are_read() {
    has_snapshots(&read_golden("segments-2-snapshots"), 27, beginning);
}

#[test]
fn snapshots_are_written_in_version_3_to_the_byte() {
    let disk = is_golden(&write_with_snapshots(), "snapshots-3");
    let file = disk.bytes(&snapshots(&disk)[1]).unwrap();
    // After the header of 64 bytes come records without notes, 31 of them.
    let second = 64 + 48 + usize::from(file[64]) + 256 * usize::from(file[65]);
    assert_eq!([file[64 + 8], file[second + 8]], [1, 6]);
    has_snapshots(&disk, COVERED, beginning);
}

const RESTORED: &[u8] = b"after the restoration";

/// Restores the log of [`write`] at a position, and appends to it.
fn write_restored() -> SimDisk {
    let disk = SimDisk::new();
    // The restored log must not get the id of the first one.
    disk.storage().random_id().unwrap();
    let past = Past::open(write().storage(), None).unwrap();
    past.restore(&disk.storage(), Some(43), &mut |_, _| {})
        .unwrap();
    let mut log = open(&disk).unwrap().log;
    log.append(&[RESTORED.to_vec()]).unwrap();
    log.seal().unwrap();
    drop(log);
    disk
}

/// Reads a log of [`write_restored`].
fn has_ancestor(disk: &SimDisk) {
    assert_eq!(disk.bytes("manifest").unwrap()[8], 3);
    let (report, found) = verify(disk).unwrap();
    assert!(found == records_and(RESTORED));
    let ancestor = Ancestor {
        log_id: [1; 16],
        upto: 43,
    };
    assert_eq!((report.log_id, report.ancestors), ([2; 16], vec![ancestor]));
    let opened = open(disk).unwrap();
    assert!(opened.records == records_and(RESTORED));
    assert_eq!(opened.report.ancestors, [ancestor]);
}

#[test]
fn version_3_is_read() {
    has_ancestor(&read_golden("version-3"));
}

#[test]
fn a_restored_log_is_written_in_version_3() {
    // Its records are packed, which can be done in many ways; its ancestors are written in one way.
    let disk = write_restored();
    write_golden("segments-2-restored", &disk);
    let golden = read_golden("segments-2-restored");
    let ancestors = |disk: &SimDisk| {
        let names = disk.names().into_iter();
        let mut names = names.filter(|name| name.starts_with("ancestors-"));
        names.next().and_then(|name| disk.bytes(&name)).unwrap()
    };
    assert!(ancestors(&golden) == ancestors(&disk));
    has_ancestor(&golden);
    has_ancestor(&disk);
}

/// Writes a log of which most is packed: two large records, one of which is random, and snapshots that keep
/// all. The first record is packed in several pieces.
fn write_packed() -> SimDisk {
    let disk = write();
    let mut log = open(&disk).unwrap().log;
    log.append(&large()[..1]).unwrap();
    log.append(&large()[1..]).unwrap();
    for covers in [43, 45] {
        snapshot(&mut log, covers).unwrap();
    }
    log.seal().unwrap();
    drop(log);
    disk
}

fn large() -> [Vec<u8>; 2] {
    let mut state = 1_u32;
    let random = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    [
        b"say it twice ".repeat(11_000),
        random.take(6_000).collect(),
    ]
}

#[test]
fn packed_data_is_read_whichever_version_packed_it() {
    let written = write_packed();
    write_golden("snapshots-3-packed", &written);
    let mut expected = records();
    expected.extend(large());
    let goldens = ["segments-2-packed", "snapshots-3-packed"].map(read_golden);
    for disk in goldens.into_iter().chain([written]) {
        let files = segments(&disk).into_iter().map(|name| disk.bytes(&name));
        let kinds: Vec<_> = files
            .flatten()
            .flat_map(|file| frames(&file).into_iter().map(move |(at, _)| file[at + 12]))
            .collect();
        assert!(kinds.contains(&4) && kinds.contains(&1));
        let files = snapshots(&disk).into_iter().map(|name| disk.bytes(&name));
        // The first block, after the header of 64 bytes, has kept records.
        assert!(files.flatten().all(|file| file[64 + 8] == 4));
        let (_, found) = verify(&disk).unwrap();
        assert!(found == expected);
        let opened = open(&disk).unwrap();
        assert!(opened.records == expected && opened.entries.len() == 3);
        for (position, record) in (1..).zip(&expected) {
            assert_eq!(opened.log.read(position).unwrap().as_ref(), Some(record));
        }
    }
}

#[test]
fn the_readme_has_the_tables_of_the_source() {
    let readme = include_str!("../README.md");
    let sources = [
        include_str!("../src/ancestry.rs"),
        include_str!("../src/format.rs"),
        include_str!("../src/frame.rs"),
        include_str!("../src/manifest/layout.rs"),
        include_str!("../src/packed.rs"),
        include_str!("../src/snapshot/layout.rs"),
    ];
    let rows = sources.iter().flat_map(|source| source.lines());
    let rows: Vec<_> = rows.filter_map(|line| line.strip_prefix("//! |")).collect();
    assert!(rows.len() > 40);
    for row in rows {
        assert!(readme.contains(row), "the README lacks: {row}");
        assert!(
            !row.contains("(see `"),
            "a row is understood without the modules: {row}"
        );
    }
}
