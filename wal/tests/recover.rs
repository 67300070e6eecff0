//! What a recovery keeps, and what it refuses.

use wal::storage::sim::SimDisk;
use wal::{Error, Salvage};

use crate::support::{open, segments, verify};

/// A record of its position.
fn payload(number: u64) -> Vec<u8> {
    let mut payload = vec![u8::try_from(number % 251).unwrap(); 700];
    payload.extend(number.to_le_bytes());
    payload
}

fn payloads(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.map(payload).collect()
}

fn append(log: &mut wal::Log, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        assert_eq!(log.append(&[payload(number)]).unwrap(), number);
    }
}

fn logged(last: u64) -> SimDisk {
    let disk = SimDisk::new();
    let mut log = open(&disk).unwrap().log;
    append(&mut log, 1..=last);
    log.seal().unwrap();
    disk
}

fn all(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    let names = disk.names().into_iter().filter(|name| name != "lock");
    names
        .map(|name| (name.clone(), disk.bytes(&name)))
        .collect()
}

#[test]
fn what_a_server_appended_since_the_survey_is_not_given_up() {
    let disk = logged(60);
    let salvage = Salvage::survey(disk.storage()).unwrap();
    let mut log = open(&disk).unwrap().log;
    append(&mut log, 61..=80);
    log.seal().unwrap();
    drop(log);
    let before = all(&disk);
    let refused = salvage.give_up_after(50).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("changed since it was looked at"), "{told}");
    assert!(all(&disk) == before);
    assert!(verify(&disk).unwrap().1 == payloads(1..=80));
}

#[test]
fn a_file_that_comes_goes_or_changes_its_length_after_the_survey_is_seen() {
    let changes: [(&str, fn(&SimDisk)); 4] = [
        ("a segment comes", |disk| {
            disk.put("segment-0000000000000099.log", b"of somebody else");
        }),
        ("a segment goes", |disk| disk.take_away(&segments(disk)[1])),
        ("a segment is cut", |disk| {
            let name = &segments(disk)[1];
            let bytes = disk.bytes(name).unwrap();
            disk.put(name, &bytes[..bytes.len() - 8]);
        }),
        ("the manifest goes", |disk| disk.take_away("manifest")),
    ];
    for (case, change) in changes {
        let disk = logged(60);
        let name = segments(&disk)[2].clone();
        disk.flip(&name, 4_400, 1);
        let salvage = Salvage::survey(disk.storage()).unwrap();
        let keep_to = salvage.ways()[0].keep_to;
        change(&disk);
        let before = all(&disk);
        let refused = salvage.give_up_after(keep_to).unwrap_err().to_string();
        assert!(
            refused.contains("changed since it was looked at"),
            "{case}: {refused}"
        );
        assert!(all(&disk) == before, "{case}");
    }
}

#[test]
fn without_a_manifest_the_end_of_a_log_is_not_known() {
    let disk = logged(80);
    let names = segments(&disk);
    let whole = Salvage::survey(disk.storage()).unwrap();
    assert!(whole.end_is_known());
    for lost in &names[names.len() - 2..] {
        disk.take_away(lost);
    }
    // It lists what is gone.
    let listed = Salvage::survey(disk.storage()).unwrap();
    assert!(!listed.end_is_known() || listed.highest() == 80);
    let manifest = disk.bytes("manifest").unwrap();
    for is_lost in [true, false] {
        disk.put("manifest", &manifest);
        if is_lost {
            disk.take_away("manifest");
        } else {
            disk.flip("manifest", 100, 1);
        }
        let salvage = Salvage::survey(disk.storage()).unwrap();
        assert!(salvage.ways()[0].keep_to < 80);
        assert!(!salvage.end_is_known());
    }
}
