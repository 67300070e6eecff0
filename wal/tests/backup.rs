//! A backup beside the process that writes the log: never short, and damage is reported.

use std::sync::Arc;
use std::thread;

use wal::storage::Storage;
use wal::storage::sim::SimDisk;
use wal::{Backup, Error, Options};

use crate::support::{open_with, segments, small};

fn backup(disk: &SimDisk) -> Result<(Backup, SimDisk), Error> {
    let target = SimDisk::new();
    let storage: Arc<dyn Storage> = target.storage();
    let source = disk.storage();
    let backup = wal::backup(source.as_ref(), &storage, &mut |_, _| {})?;
    Ok((backup, target))
}

/// Options by which the whole of a small log is in one segment.
fn roomy() -> Options {
    Options {
        segment_bytes_min: 64 << 10,
        segment_bytes_max: 64 << 10,
        ..small()
    }
}

#[test]
fn a_bit_flip_in_a_running_log_s_open_segment_header_is_damage() {
    let disk = SimDisk::new();
    let mut opened = open_with(disk.storage(), roomy()).unwrap();
    for number in 0..100_u8 {
        opened.log.append(&[vec![number; 50]]).unwrap();
    }
    opened.log.seal().unwrap();
    assert_eq!(backup(&disk).unwrap().0.last_position, 100);
    let name = segments(&disk).remove(0);
    thread::scope(|scope| {
        for at in (0..64).chain([64, 100, 4095]) {
            let (name, damaged) = (name.clone(), disk.while_it_runs());
            scope.spawn(move || {
                damaged.flip(&name, at, 1);
                match backup(&damaged) {
                    Err(Error::Damaged { file, offset, .. }) => {
                        assert!(file.ends_with(&name), "{file}");
                        assert!(offset <= at as u64, "{offset} of {at}");
                    }
                    other => panic!("byte {at} of the header: {:?}", other.map(|done| done.0)),
                }
            });
        }
    });
}
