//! A log that is synced after several batches: a power cut leaves a prefix of its records, never
//! damage.

use rand::Rng as _;
use wal::Options;
use wal::storage::sim::{SimDisk, Survivors};

use crate::support::{open_with, random, record, seed, size, small};

#[test]
fn a_power_cut_leaves_a_beginning_that_goes_on_and_all_that_was_sealed() {
    let mut random = random(seed(16));
    let (mut lost, mut kept) = (0, 0);
    for _ in 0..size(150) {
        let options = Options {
            sync_bytes: Some(random.random_range(0..12_000)),
            ..small()
        };
        let mut disk = SimDisk::new();
        let mut written: Vec<Vec<u8>> = Vec::new();
        for _ in 0..3 {
            let mut opened = open_with(disk.storage(), options.clone()).unwrap();
            assert!(
                written.starts_with(&opened.records),
                "what is found is a beginning of what was written"
            );
            written.truncate(opened.records.len());
            let mut sealed = written.len();
            for _ in 0..random.random_range(1..30) {
                let batch: Vec<_> = (0..random.random_range(1..6))
                    .map(|_| record(&mut random, 900))
                    .collect();
                opened.log.append(&batch).unwrap();
                written.extend(batch);
                if random.random_ratio(1, 8) {
                    opened.log.seal().unwrap();
                    sealed = written.len();
                }
            }
            let survivors = match random.random_range(0..3) {
                0 => Survivors::Nothing,
                1 => Survivors::Everything,
                _ => Survivors::Random(random.random()),
            };
            disk = disk.after_power_cut(survivors);
            let found = open_with(disk.storage(), options.clone()).unwrap().records;
            assert!(found.len() >= sealed, "what was sealed is there");
            lost += written.len() - found.len();
            kept += found.len();
        }
    }
    println!("{kept} records kept, {lost} lost");
    assert!(lost > 0, "nothing was ever lost: each batch is synced");
}

#[test]
fn a_snapshot_holds_nothing_that_a_power_cut_could_take_away() {
    use crate::support::{Collect, Heard, eventually};
    let options = Options {
        sync_bytes: Some(1 << 30),
        ..small()
    };
    let disk = SimDisk::new();
    let opened = open_with(disk.storage(), options).unwrap();
    let heard = Heard::default();
    let log = opened.log.start(heard.events()).unwrap();
    for number in 0..50_u8 {
        log.sequence().push([number; 100]).unwrap();
    }
    eventually("all is written", || log.durable() == 50);
    let mut snapshot = log.begin_snapshot(50).unwrap();
    snapshot.entry(b"entry").unwrap();
    let info = log.install(snapshot, 50).unwrap();
    assert_eq!(info.upto, 50);
    let cut = disk.after_power_cut(Survivors::Nothing);
    let (_, report) = wal::Log::open(cut.storage(), small(), &mut Collect::default()).unwrap();
    assert_eq!(report.last_position, 50);
    drop(log);
}
