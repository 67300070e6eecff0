//! How long a start takes when segments are kept that its snapshot covers, and how fast a range of
//! records is read back in pages of a thousand.
//!
//! ```text
//! cargo run --release -p wal --example range_bench -- DIRECTORY SEGMENTS BYTES
//! ```
//!
//! `DIRECTORY` is to be empty, `BYTES` are those of a record; segments have 64 MiB, batches 64
//! records.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use wal::{BoxError, Discard, Log, Options};

fn open(directory: &Path) -> Result<Log, wal::Error> {
    let storage = wal::open_dir(directory).map_err(|source| wal::Error::Io {
        what: "open",
        file: directory.display().to_string(),
        source,
    })?;
    let options = Options {
        segment_bytes_min: 64 << 20,
        segment_bytes_max: 64 << 20,
        ..Options::default()
    };
    Ok(Log::open(storage, options, &mut Discard)?.0)
}

fn main() -> Result<(), BoxError> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [directory, segments, bytes] = arguments.as_slice() else {
        return Err("DIRECTORY SEGMENTS BYTES are needed".into());
    };
    let (directory, segments, bytes) = (
        Path::new(directory),
        segments.parse::<u64>()?,
        bytes.parse()?,
    );
    let mut log = open(directory)?;
    let batch = vec![vec![7; bytes]; 64];
    let mut written = 0;
    while written < segments * (64 << 20) {
        log.append(&batch)?;
        written += 64 * u64::try_from(bytes)?;
    }
    for _ in 0..2 {
        let covers = log.last_position();
        let writer = log.begin_snapshot(covers)?;
        log.install(writer, covers)?;
    }
    drop(log);
    // The segment that was written last is listed with its end from the next start on.
    drop(open(directory)?);
    let mut log = None;
    for _ in 0..5 {
        drop(log.take());
        let begun = Instant::now();
        log = Some(open(directory)?);
        println!("a start beside {segments} segments: {:?}", begun.elapsed());
    }
    let Some(log) = log else {
        return Ok(());
    };
    for round in ["first", "second"] {
        let (begun, mut next, last) = (Instant::now(), 1, log.last_position());
        while next <= last {
            next = log.records(next, next + 999, &mut |_| Ok(ControlFlow::Continue(())))?;
        }
        let took = begun.elapsed();
        #[allow(clippy::cast_precision_loss)]
        let rate = last as f64 / took.as_secs_f64();
        println!(
            "{round} reading of {last} records in pages of 1,000: {took:?}, {rate:.0} a second"
        );
    }
    Ok(())
}
