//! A medium in memory, for tests of appenders and of their users.
//!
//! It keeps the promises of [`Medium`] without files, and so shows that nothing above it depends on files. Opened
//! again, it has everything committed or installed, and nothing else, as after a power cut.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::appender::{Appender, Events, OpenLog};
use crate::batched::Batch;
use crate::error::{BoxError, Error};
use crate::format::to_u64;
use crate::manifest::{Identity, Sealed};
use crate::medium::{BatchWriter, Medium, WakeUp};
use crate::options::Options;
use crate::retention::{self, Keep, Retained};
use crate::segment::Compacted;
use crate::snapshot::SnapshotTarget;
use crate::space::{Lack, Space};
use crate::storage::Storage;
use crate::visitor::{OnRange, Record, SnapshotInfo, Visitor};

/// Number of records of a range that are copied at a time.
const CHUNK: usize = 64;
/// Maximum number of snapshots that are kept.
const SNAPSHOTS_MAX: usize = 2;

/// A journal in memory. Clones are the same journal.
#[derive(Clone, Default)]
pub struct MemoryLog {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The position before the first record that is still there.
    forgotten: u64,
    records: Vec<Vec<u8>>,
    /// Newest last.
    snapshots: Vec<Snapshot>,
    /// Why every further commit fails.
    broken: Option<Arc<str>>,
    full: bool,
}

#[derive(Clone)]
struct Snapshot {
    info: SnapshotInfo,
    kept: Vec<Kept>,
    entries: Vec<Vec<u8>>,
}

/// A record that a snapshot keeps.
#[derive(Clone)]
struct Kept {
    position: u64,
    note: Option<Vec<u8>>,
    record: Vec<u8>,
}

impl Kept {
    fn show(&self, visitor: &mut dyn Visitor) -> Result<(), BoxError> {
        if let Some(note) = &self.note {
            visitor.noted(self.position, note)?;
            if visitor.takes_notes() {
                return Ok(());
            }
        }
        visitor.kept(Record {
            position: self.position,
            payload: &self.record,
        })
    }
}

impl State {
    fn last(&self) -> u64 {
        self.forgotten + to_u64(self.records.len())
    }

    /// Returns each record as a segment by itself, which is kept or removed as a whole.
    fn sealed(&self) -> Vec<Sealed> {
        let records = (self.forgotten + 1..).zip(&self.records);
        let sealed = records.map(|(position, record)| Sealed {
            number: position,
            last: position,
            length: to_u64(record.len()),
        });
        sealed.collect()
    }

    fn covered(&self) -> Option<u64> {
        match self.snapshots.as_slice() {
            [older, _] => Some(older.info.covers),
            _ => None,
        }
    }

    fn record(&self, position: u64) -> Option<&Vec<u8>> {
        let index = position.checked_sub(self.forgotten + 1)?;
        self.records.get(usize::try_from(index).ok()?)
    }
}

impl MemoryLog {
    /// A journal without records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows the newest snapshot and the records after it, as [`crate::Log::open`] does; returns
    /// the last position.
    ///
    /// # Errors
    /// [`Error::Visitor`] with what the visitor gives.
    pub fn open(&self, visitor: &mut dyn Visitor) -> Result<u64, Error> {
        let refused = |position| move |source| Error::Visitor { position, source };
        let (snapshot, records, last) = {
            let state = self.state.lock();
            let newest = state.snapshots.last().cloned();
            let covers = newest.as_ref().map_or(0, |newest| newest.info.covers);
            let after = (covers + 1..=state.last()).filter_map(|position| {
                let record = state.record(position)?;
                Some((position, record.clone()))
            });
            (newest, after.collect::<Vec<_>>(), state.last())
        };
        visitor.identity(&Identity::default());
        if let Some(Snapshot {
            info,
            kept,
            entries,
        }) = &snapshot
        {
            visitor.snapshot(info).map_err(refused(info.covers))?;
            for kept in kept {
                let shown = kept.show(visitor);
                shown.map_err(refused(kept.position))?;
            }
            for entry in entries {
                visitor.entry(entry).map_err(refused(info.covers))?;
            }
        }
        for (position, payload) in &records {
            let (position, payload) = (*position, payload.as_slice());
            let shown = visitor.record(Record { position, payload });
            shown.map_err(refused(position))?;
        }
        visitor.end().map_err(refused(last))?;
        Ok(last)
    }

    /// Returns the records after a position, at most `most` of them, as another reader of the same
    /// journal finds them.
    #[must_use]
    pub fn records_after(&self, position: u64, most: usize) -> Vec<Vec<u8>> {
        let state = self.state.lock();
        let after = (position + 1..).take(most);
        let records = after.map_while(|position| state.record(position).cloned());
        records.collect()
    }

    /// Makes every commit fail from now on, which ends the journal.
    pub fn break_down(&self, why: &str) {
        self.state.lock().broken = Some(why.into());
    }

    /// Sets whether the medium says that it has no space.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// Starts the journal thread, as [`crate::Log::start`] does with these options.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_with(
        &self,
        options: &Options,
        events: Box<dyn Events>,
    ) -> Result<Arc<Appender>, Error> {
        let log_bytes = {
            let state = self.state.lock();
            let covers = state
                .snapshots
                .last()
                .map_or(0, |newest| newest.info.covers);
            let after = (covers + 1..=state.last()).filter_map(|position| state.record(position));
            after.map(|record| to_u64(record.len())).sum()
        };
        let writer = Box::new(Writer {
            state: Arc::clone(&self.state),
            is_unsealed: false,
        });
        Appender::start(Arc::new(self.clone()), writer, options, log_bytes, events)
    }
}

impl OpenLog for MemoryLog {
    fn start(self, events: Box<dyn Events>) -> Result<Arc<Appender>, Error> {
        self.start_with(&Options::default(), events)
    }
}

/// The side of the journal thread.
struct Writer {
    state: Arc<Mutex<State>>,
    is_unsealed: bool,
}

impl BatchWriter for Writer {
    fn next(&self) -> u64 {
        self.state.lock().last() + 1
    }

    fn make_room(&mut self, _: Batch<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn commit(&mut self, batch: Batch<'_>) -> Result<u64, Error> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.broken {
            let reason = Arc::clone(reason);
            return Err(Error::Stopped { reason });
        }
        state.records.extend(batch.records().map(<[u8]>::to_vec));
        self.is_unsealed = true;
        Ok(state.last())
    }

    fn is_unsealed(&self) -> bool {
        self.is_unsealed
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.is_unsealed = false;
        Ok(())
    }

    fn failure(&mut self) -> Option<Error> {
        None
    }
}

/// A snapshot that is being written.
struct Writing {
    covers: u64,
    bytes: u64,
    kept: Vec<Kept>,
    entries: Vec<Vec<u8>>,
}

impl SnapshotTarget for Writing {
    fn covers(&self) -> u64 {
        self.covers
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn keep(&mut self, position: u64, note: Option<&[u8]>, record: &[u8]) -> Result<(), Error> {
        let last = self.kept.last().map_or(0, |last| last.position);
        assert!(
            self.entries.is_empty() && last < position && position <= self.covers,
            "kept records come first, in order, and are covered"
        );
        self.bytes += to_u64(record.len());
        self.kept.push(Kept {
            position,
            note: note.map(<[u8]>::to_vec),
            record: record.to_vec(),
        });
        Ok(())
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), Error> {
        self.bytes += to_u64(entry.len());
        self.entries.push(entry.to_vec());
        Ok(())
    }
}

impl Medium for MemoryLog {
    fn start(&self, _: WakeUp) -> Result<(), Error> {
        Ok(())
    }

    fn drain(&self) {}

    fn stop(&self) {}

    fn close(&self) {}

    fn has_room(&self, _: usize) -> bool {
        !self.state.lock().full
    }

    fn lack(&self, queued: usize) -> Option<Lack> {
        let reserve = 1;
        let free = Some(0);
        (!self.has_room(queued)).then_some(Lack::Space { free, reserve })
    }

    fn space(&self) -> Result<Space, Error> {
        Ok(Space {
            free: if self.has_room(0) { u64::MAX } else { 0 },
            reserve: 0,
            next_segment: 0,
        })
    }

    fn known_space(&self) -> Option<Space> {
        self.space().ok()
    }

    fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        let state = self.state.lock();
        if let Some(record) = state.record(position) {
            return Ok(Some(record.clone()));
        }
        let kept = state.snapshots.last().map(|newest| &newest.kept);
        let mut kept = kept.into_iter().flatten();
        let found = kept.find(|kept| kept.position == position);
        Ok(found.map(|kept| kept.record.clone()))
    }

    fn first(&self) -> u64 {
        self.state.lock().forgotten + 1
    }

    fn newest_part(&self) -> u64 {
        self.first()
    }

    fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error> {
        let mut position = from;
        while position <= upto {
            let chunk: Vec<_> = {
                let state = self.state.lock();
                let records = (position..=upto).map_while(|position| state.record(position));
                records.take(CHUNK).cloned().collect()
            };
            if chunk.is_empty() {
                let first = self.first();
                return Err(Error::Gone { position, first });
            }
            for payload in &chunk {
                let looked = visit(Record { position, payload })
                    .map_err(|source| Error::Visitor { position, source })?;
                position += 1;
                if looked.is_break() {
                    return Ok(position);
                }
            }
        }
        Ok(position)
    }

    fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64> {
        let sealed = self.state.lock().sealed();
        let within = |segment: &&Sealed| (from..=upto).contains(&segment.last);
        let all: u64 = sealed.iter().filter(within).map(|one| one.length).sum();
        let part = all.div_ceil(to_u64(count.max(1))).max(1);
        let (mut before, mut next, mut spread) = (0, 0, Vec::new());
        for record in sealed.iter().filter(within) {
            if before >= next {
                spread.push(record.last);
                next = (before / part + 1) * part;
            }
            before += record.length;
        }
        spread
    }

    fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        let newest = self.state.lock().snapshots.last().cloned();
        let covers = newest.as_ref().map_or(0, |newest| newest.info.covers);
        let kept = newest.into_iter().flat_map(|newest| newest.kept);
        let kept = kept.map(|kept| (kept.position, kept.record));
        let later = (covers + 1..=upto).map_while(|position| {
            let record = self.state.lock().record(position).cloned();
            Some((position, record?))
        });
        for (position, payload) in kept.filter(|(position, _)| *position <= upto).chain(later) {
            let payload = payload.as_slice();
            visit(Record { position, payload })
                .map_err(|source| Error::Visitor { position, source })?;
        }
        Ok(())
    }

    fn snapshots(&self) -> Vec<SnapshotInfo> {
        let state = self.state.lock();
        let snapshots = state.snapshots.iter().rev();
        snapshots.map(|snapshot| snapshot.info).collect()
    }

    fn snapshot_written(&self) -> Option<SystemTime> {
        None
    }

    fn unpacked_snapshot_bytes(&self) -> u64 {
        let state = self.state.lock();
        let newest = state.snapshots.last();
        newest.map_or(0, |newest| newest.info.bytes)
    }

    fn kept_bytes(&self) -> u64 {
        let state = self.state.lock();
        let kept = state.snapshots.last().map(|newest| &newest.kept);
        let kept = kept.into_iter().flatten();
        kept.map(|kept| to_u64(kept.record.len())).sum()
    }

    fn begin_snapshot(&self, covers: u64) -> Result<Box<dyn SnapshotTarget>, Error> {
        Ok(Box::new(Writing {
            covers,
            bytes: 0,
            kept: Vec::new(),
            entries: Vec::new(),
        }))
    }

    fn install(
        &self,
        snapshot: Box<dyn SnapshotTarget>,
        upto: u64,
        throttle: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<SnapshotInfo, Error> {
        let Writing {
            covers,
            bytes,
            kept,
            entries,
        } = snapshot.of();
        for _ in 0..kept.len() + entries.len() {
            throttle()?;
        }
        let mut state = self.state.lock();
        let info = SnapshotInfo {
            number: state
                .snapshots
                .last()
                .map_or(1, |newest| newest.info.number + 1),
            covers,
            upto: upto.max(covers),
            bytes,
        };
        state.snapshots.push(Snapshot {
            info,
            kept,
            entries,
        });
        if state.snapshots.len() > SNAPSHOTS_MAX {
            state.snapshots.remove(0);
        }
        Ok(info)
    }

    fn retained(&self, keep: &Keep) -> Retained {
        let state = self.state.lock();
        retention::removable(&state.sealed(), state.covered(), keep).1
    }

    fn give_up_for_room(&self, _: bool) {}

    fn given_up_bytes(&self) -> u64 {
        0
    }

    fn compact(
        &self,
        keep: &Keep,
        _: Option<&dyn Storage>,
        _: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<Compacted, Error> {
        let mut state = self.state.lock();
        let (removed, retained) = retention::removable(&state.sealed(), state.covered(), keep);
        state.records.drain(..removed);
        state.forgotten += to_u64(removed);
        let mut compacted = Compacted {
            bytes: retained.removable_bytes,
            segments: u64::from(removed > 0),
            ..Compacted::default()
        };
        compacted.first_position = state.forgotten + 1;
        Ok(compacted)
    }
}
