//! Helpers that several tests share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wal::memory::MemoryLog;
use wal::storage::Storage;
use wal::storage::sim::SimDisk;
use wal::{Appender, BoxError, Error, Events, Log, Options, Record, Report, SnapshotInfo, Visitor};

/// Small segments and batches, so that little data reaches the limits of both.
pub(crate) fn small() -> Options {
    Options {
        segment_bytes_min: 8 << 10,
        segment_bytes_max: 16 << 10,
        batch_bytes_max: 4 << 10,
        reserve_bytes: 0,
        seal_after: Duration::from_millis(5),
        create: true,
        ..Options::default()
    }
}

/// `SEED`, or the given one.
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("SEED").map_or(default, |text| text.parse().unwrap());
    println!("SEED={seed}");
    seed
}

/// Number of cases that a campaign tries: `SIZE`, or the given share.
pub(crate) fn size(share: u64) -> u64 {
    std::env::var("SIZE").map_or(share, |text| text.replace('_', "").parse().unwrap())
}

/// Factor for the usual share, where a case is a whole test.
pub(crate) fn campaign() -> u64 {
    std::env::var("WAL_CAMPAIGN").map_or(1, |text| text.parse().unwrap())
}

pub(crate) fn random(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Returns a record of random length. Half of them repeat themselves, so that batches are packed, and the
/// bytes of the others have nothing in common.
pub(crate) fn record(random: &mut StdRng, bytes_max: usize) -> Vec<u8> {
    let bytes = random.random_range(0..=bytes_max);
    let mut record = vec![0; bytes];
    random.fill(record.as_mut_slice());
    if random.random() {
        let said = random.random_range(1..20);
        for at in said..bytes {
            record[at] = record[at - said];
        }
    }
    record
}

/// Returns bytes that have nothing in common, so that packing never makes them smaller.
pub(crate) fn unlike(seed: u64, bytes: usize) -> Vec<u8> {
    let mut unlike = vec![0; bytes];
    random(seed).fill(unlike.as_mut_slice());
    unlike
}

/// Keeps every record; positions must be dense.
#[derive(Default)]
pub(crate) struct Collect {
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) entries: Vec<Vec<u8>>,
    /// The position of the last note.
    noted: u64,
}

/// Returns the note that [`snapshot_of`] gives the record at this position; some records have none.
pub(crate) fn note_of(position: u64) -> Option<[u8; 8]> {
    (position / 32 % 2 == 1).then_some((position * 3).to_le_bytes())
}

impl Visitor for Collect {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        assert_eq!(
            record.position,
            self.records.len() as u64 + 1,
            "positions are dense"
        );
        self.records.push(record.payload.to_vec());
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        self.reset();
        Ok(())
    }

    fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
        self.noted = position;
        assert_eq!(
            note_of(position).as_ref().map(<[u8; 8]>::as_slice),
            Some(note)
        );
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        // The kept records of other tests have no notes.
        assert!(
            self.noted <= record.position,
            "a note comes before its record"
        );
        self.record(record)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.entries.push(entry.to_vec());
        Ok(())
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Takes a snapshot that keeps every record up to a position, whole.
pub(crate) fn snapshot(log: &mut Log, covers: u64) -> Result<SnapshotInfo, Error> {
    snapshot_of(log, covers, |record| record)
}

/// As [`snapshot`], but keeps of each record what `keep` returns.
pub(crate) fn snapshot_of(
    log: &mut Log,
    covers: u64,
    keep: fn(&[u8]) -> &[u8],
) -> Result<SnapshotInfo, Error> {
    let mut writer = log.begin_snapshot(covers)?;
    log.history(covers, &mut |record| {
        let kept = keep(record.payload);
        Ok(match note_of(record.position) {
            Some(note) => writer.keep_noted(record.position, &note, kept),
            None => writer.keep(record.position, kept),
        }?)
    })
    .map_err(unwrapped)?;
    for number in 0..3 {
        writer.entry(format!("entry {number} of {covers}").as_bytes())?;
    }
    let upto = log.last_position();
    log.install(writer, upto)
}

/// Returns the error of the disk out of the visitor's error in which it was wrapped.
fn unwrapped(error: Error) -> Error {
    match error {
        Error::Visitor { source, .. } => *source.downcast().unwrap(),
        error => error,
    }
}

pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) report: Report,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) entries: Vec<Vec<u8>>,
}

pub(crate) fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Opened, Error> {
    let mut collect = Collect::default();
    let (log, report) = Log::open(storage, options, &mut collect)?;
    let covered = report.snapshot.map_or(0, |snapshot| snapshot.covers);
    assert_eq!(report.records + covered, collect.records.len() as u64);
    assert_eq!(report.last_position, collect.records.len() as u64);
    Ok(Opened {
        log,
        report,
        records: collect.records,
        entries: collect.entries,
    })
}

pub(crate) fn open(disk: &SimDisk) -> Result<Opened, Error> {
    open_with(disk.storage(), small())
}

pub(crate) fn verify(disk: &SimDisk) -> Result<(Report, Vec<Vec<u8>>), Error> {
    let mut collect = Collect::default();
    let report = wal::verify(disk.storage(), &mut collect)?;
    Ok((report, collect.records))
}

/// The medium on which a journal is kept. Clones are the same medium.
#[derive(Clone)]
pub(crate) enum Kind {
    Files(SimDisk),
    Memory(MemoryLog),
}

impl Kind {
    /// Returns one medium of each kind, empty.
    pub(crate) fn each() -> [Self; 2] {
        [Self::Files(SimDisk::new()), Self::Memory(MemoryLog::new())]
    }

    pub(crate) fn start(&self, options: Options, events: Box<dyn Events>) -> Arc<Appender> {
        match self {
            Self::Files(disk) => open_with(disk.storage(), options)
                .unwrap()
                .log
                .start(events),
            Self::Memory(log) => log.start_with(&options, events),
        }
        .unwrap()
    }

    /// Returns what opening the journal shows: the records and what is kept of them, and the entries.
    pub(crate) fn shown(&self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        match self {
            Self::Files(disk) => {
                let opened = open(disk).unwrap();
                (opened.records, opened.entries)
            }
            Self::Memory(log) => {
                let mut collect = Collect::default();
                log.open(&mut collect).unwrap();
                (collect.records, collect.entries)
            }
        }
    }
}

/// Returns the error with which a log is refused. `Log` cannot be printed, so `unwrap_err` does not apply.
pub(crate) fn refusal(disk: &SimDisk) -> Error {
    let before: Vec<_> = disk.names().iter().map(|name| disk.bytes(name)).collect();
    let error = match open(disk) {
        Ok(opened) => panic!("the log was opened with {} records", opened.records.len()),
        Err(error) => error,
    };
    let after: Vec<_> = disk.names().iter().map(|name| disk.bytes(name)).collect();
    assert!(before == after, "a refusal changes nothing");
    error
}

/// What the callbacks of the journal thread were told.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    state: Arc<Mutex<HeardState>>,
}

#[derive(Default)]
pub(crate) struct HeardState {
    pub(crate) durable: u64,
    pub(crate) calls: u64,
    pub(crate) failures: Vec<String>,
    /// Whether a callback came after the failure.
    pub(crate) after_failure: bool,
}

impl Heard {
    pub(crate) fn state(&self) -> parking_lot::MutexGuard<'_, HeardState> {
        self.state.lock()
    }

    pub(crate) fn events(&self) -> Box<dyn Events> {
        Box::new(self.clone())
    }
}

impl Events for Heard {
    fn durable(&mut self, position: u64) {
        let mut state = self.state.lock();
        assert!(position > state.durable, "positions rise");
        state.durable = position;
        state.calls += 1;
        state.after_failure |= !state.failures.is_empty();
    }

    fn failed(&mut self, error: &Error) {
        let mut state = self.state.lock();
        state.after_failure |= !state.failures.is_empty();
        state.failures.push(error.to_string());
    }
}

/// Waits until `is_so` holds, for a minute at most.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The names of the snapshots, oldest first.
pub(crate) fn snapshots(disk: &SimDisk) -> Vec<String> {
    disk.names()
        .into_iter()
        .filter(|name| name.ends_with(".snap"))
        .collect()
}

/// The names of the segments, oldest first.
pub(crate) fn segments(disk: &SimDisk) -> Vec<String> {
    disk.names()
        .into_iter()
        .filter(|name| name.ends_with(".log"))
        .collect()
}

/// Where the frames of a segment begin and end.
pub(crate) fn frames(segment: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 4096;
    while segment.len() >= at + 72 && segment[at..at + 4] == *b"Wfr1" {
        let payload = u32::from_le_bytes(segment[at + 52..at + 56].try_into().unwrap());
        let end = at + (72 + payload as usize).next_multiple_of(8);
        found.push((at, end));
        at = end;
    }
    found
}

/// Corrects both checksums of a frame.
pub(crate) fn recompute_checksums(frame: &mut [u8], log_id: &[u8; 16]) {
    let crc = |bytes: &[u8]| {
        let mut hasher = crc32fast::Hasher::new_with_initial(crc32fast::hash(log_id));
        hasher.update(bytes);
        hasher.finalize()
    };
    let payload = crc(&frame[12..]);
    frame[8..12].copy_from_slice(&payload.to_le_bytes());
    let header = crc(&frame[8..72]);
    frame[4..8].copy_from_slice(&header.to_le_bytes());
}
