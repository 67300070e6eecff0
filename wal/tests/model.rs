//! Random appends, restarts and reads against a vector of records.

use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use wal::storage::Storage;
use wal::storage::sim::SimDisk;
use wal::{Appender, Options};

use crate::support::{Heard, campaign, eventually, open_with, random, record, seed, small};

fn run(storage: &Arc<dyn Storage>, options: &Options, random: &mut StdRng, steps: usize) {
    let mut model: Vec<Vec<u8>> = Vec::new();
    let mut appender = start(storage, options, &model);
    for _ in 0..steps {
        match random.random_range(0..100) {
            0..60 => {
                let mut sequence = appender.sequence();
                for _ in 0..random.random_range(1..8) {
                    let bytes_max = if random.random_ratio(1, 50) {
                        30_000
                    } else {
                        2_000
                    };
                    let record = record(random, bytes_max);
                    assert_eq!(sequence.next(), model.len() as u64 + 1);
                    assert_eq!(sequence.push(record.clone()), Ok(model.len() as u64 + 1));
                    model.push(record);
                }
            }
            60..97 => {
                let position = random.random_range(0..model.len() as u64 + 3);
                let durable = appender.durable();
                let read = appender.read(position).unwrap();
                if (1..=durable).contains(&position) {
                    let expected = &model[usize::try_from(position).unwrap() - 1];
                    assert!(read.as_ref() == Some(expected), "position {position}");
                } else if position == 0 || position > model.len() as u64 {
                    assert_eq!(read, None, "position {position}");
                }
            }
            97 => eventually("all is durable", || {
                appender.durable() == model.len() as u64
            }),
            98 => {
                appender.shutdown().unwrap();
                appender = start(storage, options, &model);
            }
            _ => {
                drop(appender);
                appender = start(storage, options, &model);
            }
        }
    }
    appender.shutdown().unwrap();
    for (position, expected) in (1..).zip(&model) {
        assert!(
            appender.read(position).unwrap().as_ref() == Some(expected),
            "position {position}"
        );
    }
}

fn start(storage: &Arc<dyn Storage>, options: &Options, model: &[Vec<u8>]) -> Arc<Appender> {
    let opened = open_with(Arc::clone(storage), options.clone()).unwrap();
    assert!(
        opened.records == model,
        "the restart finds what was appended"
    );
    for (position, expected) in (1..).zip(model).step_by(17) {
        assert!(opened.log.read(position).unwrap().as_ref() == Some(expected));
    }
    opened.log.start(Heard::default().events()).unwrap()
}

#[test]
fn a_simulated_log_is_like_a_vector() {
    let seed = seed(31);
    for seed in seed..seed + 6 * campaign() {
        println!("SEED={seed}");
        run(&SimDisk::new().storage(), &small(), &mut random(seed), 400);
    }
}

#[test]
fn a_log_on_a_real_disk_is_like_a_vector() {
    let seed = seed(32);
    let directory = tempfile::tempdir().unwrap();
    let storage = wal::open_dir(&directory.path().join("log")).unwrap();
    let options = Options {
        segment_bytes_min: 64 << 10,
        segment_bytes_max: 256 << 10,
        ..small()
    };
    run(&storage, &options, &mut random(seed), 300);
}

#[test]
fn readers_and_writers_do_not_disturb_each_other() {
    let disk = SimDisk::new();
    let opened = open_with(disk.storage(), small()).unwrap();
    let appender = opened.log.start(Heard::default().events()).unwrap();
    let content = |position: u64| {
        position
            .to_le_bytes()
            .repeat(1 + usize::try_from(position % 150).unwrap())
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for position in 1..=3000 {
                appender.sequence().push(content(position)).unwrap();
            }
        });
        for reader in 0..2 {
            let appender = &appender;
            scope.spawn(move || {
                let mut random = random(33 + reader);
                while appender.durable() < 3000 {
                    let durable = appender.durable();
                    if durable > 0 {
                        let position = random.random_range(1..=durable);
                        assert!(
                            appender.read(position).unwrap() == Some(content(position)),
                            "{position}"
                        );
                        assert!(
                            appender.read(durable).unwrap() == Some(content(durable)),
                            "{durable}"
                        );
                    }
                }
            });
        }
    });
    appender.shutdown().unwrap();
}
