//! A log that begins with another directory's snapshot and with records: whole or not there, wherever the
//! attempt is interrupted, and never of a snapshot that is not what was written.

use std::io::Read as _;

use rand::Rng as _;
use wal::storage::sim::{SimDisk, Survivors};
use wal::{Error, ForeignSnapshot, Identity, Keep, Record, Seeding};

use crate::support::{open, random, seed, snapshot, snapshots, verify};

const LAST: u64 = 60;
const COVERS: u64 = 40;

fn payload(number: u64) -> Vec<u8> {
    [vec![7; 300], number.to_le_bytes().to_vec()].concat()
}

/// A snapshot that another process has taken, as it is carried.
struct Carrying {
    carried: ForeignSnapshot,
    log_id: [u8; 16],
    first: u64,
    bytes: Vec<u8>,
}

/// Returns the newest snapshot of a log that has removed its first records.
fn carrying() -> Carrying {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    for number in 1..=LAST {
        log.append(&[payload(number)]).unwrap();
    }
    snapshot(&mut log, COVERS / 2).unwrap();
    snapshot(&mut log, COVERS).unwrap();
    log.compact(&Keep::NOTHING, None).unwrap();
    log.seal().unwrap();
    let mut newest = wal::newest(disk.storage().as_ref()).unwrap().unwrap();
    let mut bytes = Vec::new();
    newest.read_to_end(&mut bytes).unwrap();
    assert_eq!(newest.carried.bytes, bytes.len() as u64);
    assert_eq!(newest.carried.covers, COVERS);
    Carrying {
        carried: newest.carried,
        log_id: newest.log_id,
        first: newest.first,
        bytes,
    }
}

impl Carrying {
    /// Makes the log on a disk of these bytes, and of the records up to the last one that contributed to the
    /// snapshot.
    fn seed(&self, disk: &SimDisk, mut bytes: &[u8]) -> Result<(), Error> {
        let identity = Identity {
            log_id: self.log_id,
            ancestors: Vec::new(),
        };
        let storage = disk.storage();
        assert!(wal::is_free(storage.as_ref())?);
        let begun = Seeding::begin(&storage, &identity, &self.carried, self.first, &mut bytes);
        let mut seeding = begun?;
        for position in seeding.next()..=self.carried.upto {
            let payload = &payload(position);
            seeding.record(Record { position, payload })?;
        }
        seeding.finish()
    }

    /// Checks that all of the log is there, and that it can be appended to.
    fn is_there(&self, disk: &SimDisk) {
        let (report, shown) = verify(disk).unwrap();
        assert_eq!(report.log_id, self.log_id);
        assert_eq!(report.first_position, self.first);
        assert_eq!(report.last_position, self.carried.upto);
        assert_eq!(report.snapshots[0].covers, COVERS);
        let all: Vec<_> = (1..=self.carried.upto).map(payload).collect();
        assert!(shown == all);
        let mut log = open(disk).unwrap().log;
        assert_eq!(log.append(&[payload(0)]).unwrap(), self.carried.upto + 1);
        drop(log);
        assert!(!wal::is_free(disk.storage().as_ref()).unwrap());
    }
}

#[test]
fn a_log_that_begins_with_a_carried_snapshot_has_all_that_the_other_had() {
    let carrying = carrying();
    assert!(1 < carrying.first && carrying.first <= COVERS + 1);
    let disk = SimDisk::new();
    carrying.seed(&disk, &carrying.bytes).unwrap();
    // The notes are there, too.
    let snapshot = disk.bytes(&snapshots(&disk)[0]).unwrap();
    assert_eq!(snapshot.len(), carrying.bytes.len());
    carrying.is_there(&disk);
}

/// The disk is as after an interruption between the manifest and the removal of the carried file.
#[test]
fn a_leftover_carried_snapshot_beside_a_whole_log_is_removed() {
    let carrying = carrying();
    let disk = SimDisk::new();
    carrying.seed(&disk, &carrying.bytes).unwrap();
    disk.put("carried", &carrying.bytes);
    assert!(!wal::is_free(disk.storage().as_ref()).unwrap());
    assert_eq!(disk.bytes("carried"), None);
    carrying.is_there(&disk);
}

#[test]
fn wherever_it_is_cut_off_there_is_nothing_or_all_of_it() {
    let carrying = carrying();
    let whole = SimDisk::new();
    carrying.seed(&whole, &carrying.bytes).unwrap();
    let (mut nothing, mut all) = (0, 0);
    for cut in 1..=whole.calls() {
        for survivors in [None, Some(Survivors::Nothing), Some(Survivors::Everything)] {
            let disk = SimDisk::new();
            disk.cut_before(cut);
            let seeded = carrying.seed(&disk, &carrying.bytes);
            let disk = match survivors {
                None => disk.after_kill(),
                Some(survivors) => disk.after_power_cut(survivors),
            };
            if wal::is_free(disk.storage().as_ref()).unwrap() {
                assert!(seeded.is_err(), "{cut}: it was told that it is there");
                nothing += 1;
                carrying.seed(&disk, &carrying.bytes).unwrap();
            } else {
                all += 1;
            }
            carrying.is_there(&disk);
        }
    }
    assert!(nothing > 20 && all > 0, "{nothing}, {all}");
}

#[test]
fn a_snapshot_that_is_not_what_was_written_leaves_nothing() {
    let carrying = carrying();
    let mut random = random(seed(61));
    let refused = |bytes: &[u8], what: &str| {
        let disk = SimDisk::new();
        match carrying.seed(&disk, bytes) {
            Err(Error::Damaged { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
        let is_of_log = |name: &String| name != "lock";
        assert!(!disk.names().iter().any(is_of_log), "{:?}", disk.names());
        carrying.seed(&disk, &carrying.bytes).unwrap();
        carrying.is_there(&disk);
    };
    for _ in 0..50 {
        let mut bytes = carrying.bytes.clone();
        let (at, bit) = (
            random.random_range(0..bytes.len()),
            random.random_range(0..8),
        );
        bytes[at] ^= 1 << bit;
        refused(&bytes, &format!("bit {bit} of byte {at}"));
    }
    for length in [0, 1, carrying.bytes.len() / 2, carrying.bytes.len() - 1] {
        refused(&carrying.bytes[..length], &format!("{length} bytes"));
    }
    refused(&[&carrying.bytes[..], &[0]].concat(), "a byte more");
    // The snapshot is one of another log.
    let other = Carrying {
        log_id: [9; 16],
        bytes: carrying.bytes.clone(),
        ..carrying
    };
    let disk = SimDisk::new();
    let seeded = other.seed(&disk, &other.bytes);
    assert!(matches!(seeded, Err(Error::Damaged { .. })), "{seeded:?}");
}
