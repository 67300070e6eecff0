//! How many records per second the log takes.
//!
//! `cargo run --release -p wal --example append_bench -- [DIRECTORY] [THREADS] [SECONDS] [BYTES]`
//!
//! Each thread keeps up to 64 records of BYTES bytes in flight, like as many
//! clients. Without a directory a temporary one beside the current one is used.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wal::{BoxError, Discard, Error, Events, Log, Options};

const IN_FLIGHT: u64 = 64;

struct Count {
    syncs: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl Events for Count {
    fn durable(&mut self, _position: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&mut self, error: &Error) {
        eprintln!("{error}");
        self.failed.store(true, Ordering::Relaxed);
    }
}

fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map(PathBuf::from);
    let threads: u64 = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let bytes: usize = arguments.next().map_or(Ok(1500), |text| text.parse())?;

    let temporary = tempfile::tempdir_in(".")?;
    let directory = directory.unwrap_or_else(|| temporary.path().join("log"));
    let began = Instant::now();
    let (log, report) = Log::open(wal::open_dir(&directory)?, Options::default(), &mut Discard)?;
    println!("opened in {:?}: {report}", began.elapsed());

    let (syncs, failed) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let first = report.last_position;
    let events = Count {
        syncs: Arc::clone(&syncs),
        failed: Arc::clone(&failed),
    };
    let appender = log.start(Box::new(events))?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (appender, failed) = (Arc::clone(&appender), Arc::clone(&failed));
            thread::spawn(move || {
                let mut sent = 0;
                while Instant::now() < until && !failed.load(Ordering::Relaxed) {
                    let Ok(last) = appender.sequence().push(vec![7; bytes]) else {
                        return;
                    };
                    sent += 1;
                    while sent % IN_FLIGHT == 0
                        && appender.durable() < last
                        && !failed.load(Ordering::Relaxed)
                    {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }
    let elapsed = began.elapsed().as_secs_f64();
    let written = u32::try_from(appender.durable() - first)?;
    let syncs = u32::try_from(syncs.load(Ordering::Relaxed))?;
    println!(
        "{:.0} records/s of {bytes} bytes, {:.0} syncs/s, {:.1} records per sync",
        f64::from(written) / elapsed,
        f64::from(syncs) / elapsed,
        f64::from(written) / f64::from(syncs.max(1)),
    );
    appender.shutdown()?;
    Ok(())
}
