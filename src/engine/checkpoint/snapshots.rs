//! The work of the checkpointer's thread: takes snapshots while commands go on, forgets old idempotency keys, and
//! compacts the log.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use wal::{Compacted, SnapshotInfo};

use super::work_pauses::WorkPauses;
use crate::base::codec;
use crate::base::digest::KeyDigest;
use crate::base::panics::unless_it_panics;
use crate::base::time::Timestamp;
use crate::catalogue;
use crate::engine::checkpointer::{
    Checkpoint, CheckpointPolicy, Known, OnProgress, Schedule, Step, WakeUp, is_due,
};
use crate::engine::command::commit::Waking;
use crate::engine::core::Shared;
use crate::journal::counters::{Counters, Marks};
use crate::journal::record::{NewRecord, Record};
use crate::journal::snapshot::{StateEntry, Summary, keep};

/// The thread's loop.
fn run(shared: &Weak<Shared>, wake_up: &WakeUp) {
    // The priority may not be changed without the permission; the pauses suffice then.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
    let mut schedule = Schedule {
        last: Instant::now(),
        failed: false,
    };
    let mut tending = Schedule {
        last: Instant::now(),
        failed: false,
    };
    let mut look = match shared.upgrade() {
        Some(shared) => shared.checkpointer.policy.lock().look,
        None => return,
    };
    loop {
        let requested = wake_up.wait(look);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if wake_up.stops() {
            return;
        }
        shared.checkpointer.figures.lock().looks += 1;
        let policy = shared.checkpointer.policy.lock().clone();
        look = policy.look;
        // A panic in the upkeep costs this turn, not all later ones.
        let tended = unless_it_panics(|| shared.tend(&policy, &mut tending));
        if tended.is_none() {
            shared.checkpointer.figures.lock().failures += 1;
            tending.ended(Instant::now(), true);
        }
        let is_due = |since| shared.is_checkpoint_due(&policy, since);
        if !schedule.wants(Instant::now(), requested, policy.pause, is_due) {
            continue;
        }
        // A panic in a snapshot costs this one, not all later ones.
        let attempt = unless_it_panics(|| shared.checkpoint(true, &mut |_| {}));
        let failed = match attempt {
            Some(Ok(None)) => false,
            Some(Ok(Some(taken))) => {
                tracing::info!(
                    covers = taken.snapshot.covers,
                    bytes = taken.snapshot.bytes,
                    segments_removed = taken.compacted.segments,
                    "took a snapshot"
                );
                false
            }
            Some(Err(wal::Error::Stopped { .. })) => return,
            Some(Err(error)) => {
                tracing::warn!(%error, "a snapshot was not taken; commands go on");
                true
            }
            None => {
                shared.checkpointer.figures.lock().failures += 1;
                true
            }
        };
        schedule.ended(Instant::now(), failed);
    }
}

impl Shared {
    /// Does the upkeep that is due between snapshots.
    fn tend(&self, policy: &CheckpointPolicy, tending: &mut Schedule) {
        self.note_time();
        self.look_for_room();
        self.follow_needs();
        if !tending.may_begin(Instant::now(), policy.pause) {
            return;
        }
        let tended = self.tend_log(policy);
        if let Err(error) = &tended {
            tracing::warn!(%error, "the log was not compacted; it is tried again");
            self.checkpointer.figures.lock().failures += 1;
        }
        tending.ended(Instant::now(), tended.is_err());
    }
}

/// Pauses in proportion to the work that was done, while commands are in flight.
struct Pace<'a> {
    shared: &'a Shared,
    is_background: bool,
    pauses: WorkPauses,
}

impl<'a> Pace<'a> {
    fn new(shared: &'a Shared, is_background: bool) -> Self {
        Self {
            shared,
            is_background,
            pauses: WorkPauses::new(shared.journal.appended(), Instant::now()),
        }
    }

    /// Pauses if it is time to; called after each small piece of work.
    fn throttle(&mut self) -> Result<(), wal::Error> {
        self.shared.unless_stopped()?;
        let now = Instant::now();
        let Some(worked) = self.pauses.worked(now) else {
            return Ok(());
        };
        self.must_have_room()?;
        if self.is_background {
            let appended = self.shared.journal.appended();
            let in_flight = self.shared.admission.in_flight();
            let rest = self.pauses.rest(worked, in_flight, appended, now);
            self.shared.checkpointer.wake_up.rest(rest);
        }
        self.pauses.since = Instant::now();
        self.shared.unless_stopped()
    }

    /// Returns how many bytes may be written beside the log without a command being rejected for a snapshot's sake. A
    /// snapshot in the foreground, without a server, may not use the reserve.
    fn spare(&self) -> Result<u64, wal::Error> {
        let space = self.shared.journal.space()?;
        Ok(match self.is_background {
            true => space.spare(),
            false => space.free.saturating_sub(space.reserve),
        })
    }

    /// Fails if there is no disk space to spare.
    fn must_have_room(&self) -> Result<(), wal::Error> {
        match self.spare()? {
            0 => Err(no_room("it would take what the log needs".to_owned())),
            _ => Ok(()),
        }
    }
}

/// A few states, copied while their shard was locked, and written afterwards.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    entry: Vec<u8>,
    /// The highest position of a state so far.
    upto: u64,
}

impl Chunk {
    fn take(&mut self, state: &StateEntry<'_>) {
        codec::encode_record_into(state, &mut self.entry);
        self.bytes.extend_from_slice(&self.entry);
        self.ends.push(self.bytes.len());
        self.upto = self.upto.max(state.position);
    }

    fn write(&mut self, snapshot: &mut wal::SnapshotWriter) -> Result<u64, wal::Error> {
        let mut start = 0;
        let mut written = 0;
        for end in self.ends.drain(..) {
            snapshot.entry(&self.bytes[start..end])?;
            start = end;
            written += 1;
        }
        self.bytes.clear();
        Ok(written)
    }
}

fn no_room(why: String) -> wal::Error {
    wal::Error::Io {
        what: "find room on the disk for",
        file: "a snapshot".to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::StorageFull, why),
    }
}

/// Whether the error is a lack of disk space.
fn is_no_room(error: &wal::Error) -> bool {
    matches!(error, wal::Error::Io { source, .. }
        if source.kind() == std::io::ErrorKind::StorageFull)
}

fn stopped() -> wal::Error {
    wal::Error::Stopped {
        reason: "the service ends".into(),
    }
}

impl Shared {
    /// Notes the running time at the last position.
    fn note_time(&self) {
        self.warn_if_ahead();
        self.note_age(&mut self.checkpointer.known.lock().marks);
    }

    /// Notes that everything committed so far has reached the present running time of the service.
    pub(super) fn note_age(&self, marks: &mut Marks) {
        let position = self.journal.appended();
        marks.note(position, self.running_time.now(&*self.clock));
    }

    /// Whether the next snapshot is due `since` after the last one.
    fn is_checkpoint_due(&self, policy: &CheckpointPolicy, since: Duration) -> bool {
        let figures = self.checkpointer.figures();
        let log_bytes = self.journal.log_bytes_since_snapshot();
        let snapshot_bytes = self.journal.unpacked_snapshot_bytes();
        is_due(policy, since, log_bytes, snapshot_bytes, || {
            let known = self.checkpointer.known.lock();
            let forgets =
                || !self.role.is_standby() && self.forgets(policy, &known.marks).is_some();
            self.journal.durable() > figures.covers || forgets()
        })
    }

    /// Returns the position up to which keys are old enough to be forgotten, if it is higher than before.
    fn forgets(&self, policy: &CheckpointPolicy, marks: &Marks) -> Option<u64> {
        let retention = i64::try_from(policy.retention?.as_millis()).unwrap_or(i64::MAX);
        let ran = self.running_time.now(&*self.clock);
        let cutoff = ran.millis().saturating_sub(retention);
        let old = marks.through(Timestamp::from_millis(cutoff));
        // A command whose response is not final holds its key's lock, and will still look the key up.
        let held = self.keys.held();
        // The held locks include unique keys, which do no harm: no idempotency key has the digest of one.
        let held = held.into_iter().map(KeyDigest);
        let unsettled = held.filter_map(|key| self.tables.key(key)).min();
        let through = unsettled.map_or(old, |first| old.min(first.saturating_sub(1)));
        (through > self.tables.forgotten()).then_some(through)
    }

    /// Fails if the service is stopping.
    pub(super) fn unless_stopped(&self) -> Result<(), wal::Error> {
        match self.checkpointer.wake_up.stops() || self.lanes.has_failed() {
            true => Err(stopped()),
            false => Ok(()),
        }
    }

    /// Fails if a snapshot's estimated size exceeds the space that the log does not need.
    fn must_fit(&self, pace: &mut Pace<'_>) -> Result<(), wal::Error> {
        self.unless_stopped()?;
        let estimate = self.snapshot_size(&mut || pace.throttle())?;
        self.checkpointer.figures.lock().estimate = estimate;
        let spare = pace.spare()?;
        if estimate <= spare {
            return Ok(());
        }
        Err(no_room(format!(
            "it may have {estimate} bytes, and {spare} are free beside the reserve and the log's \
             next segment"
        )))
    }

    /// Takes a snapshot and compacts the log; `None` when there is no record to take a snapshot of. In the
    /// background, it leaves the processors and the disk to commands.
    ///
    /// # Errors
    /// Returns [`wal::Error::Stopped`] when the log has failed or the service is stopping; every other error is
    /// harmless and temporary.
    pub(crate) fn checkpoint(
        &self,
        is_background: bool,
        progress: OnProgress<'_>,
    ) -> Result<Option<Checkpoint>, wal::Error> {
        let mut known = self.checkpointer.known.lock();
        self.note_age(&mut known.marks);
        let policy = self.checkpointer.policy.lock().clone();
        let begun = Instant::now();
        let mut pace = Pace::new(self, is_background);
        let done = self.snapshot_and_compact(&policy, &mut known, &mut pace, progress);
        let mut figures = self.checkpointer.figures.lock();
        match &done {
            Ok(Some(taken)) => {
                figures.snapshots += 1;
                figures.covers = taken.snapshot.covers;
                figures.bytes = taken.snapshot.bytes;
                figures.took = begun.elapsed();
                figures.at = Some(self.clock.now());
            }
            Ok(None) | Err(wal::Error::Stopped { .. }) => {}
            Err(error) => {
                figures.failures += 1;
                figures.without_room += u64::from(is_no_room(error));
            }
        }
        done
    }

    fn snapshot_and_compact(
        &self,
        policy: &CheckpointPolicy,
        known: &mut Known,
        pace: &mut Pace<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Option<Checkpoint>, wal::Error> {
        if self.journal.durable() == 0 {
            return Ok(None);
        }
        match self.must_fit(pace) {
            Err(error) if is_no_room(&error) => {
                // The missing space may be held by segments that can be removed already, or else by those kept for
                // their age.
                let keep = self.keep(policy, &known.marks);
                self.compact(policy, &keep, progress)?;
                let estimate = self.checkpointer.figures.lock().estimate;
                self.give_up_log(policy, estimate.saturating_sub(pace.spare()?))?;
                self.must_fit(pace)?;
            }
            fits => fits?,
        }
        self.forget(policy, &mut known.marks, pace)?;
        // Before the covered position is fixed: what is committed during its pauses is covered, too. The snapshot has no
        // lists, which are made from the states.
        let upto = self.published()?;
        self.tables.sweep_lists(upto, || pace.throttle())?;
        let (snapshot, covered) = self.snapshot(known, pace, progress)?;
        known.covered = covered;
        // A compaction that fails is retried later; the snapshot is kept.
        let keep = self.keep(policy, &known.marks);
        let compacted = self.compact(policy, &keep, progress);
        let compacted = compacted.or_else(|error| match error {
            wal::Error::Stopped { .. } => Err(error),
            error => {
                tracing::warn!(%error, "the log was not compacted; it is tried again");
                self.checkpointer.figures.lock().failures += 1;
                Ok(Compacted::default())
            }
        })?;
        Ok(Some(Checkpoint {
            snapshot,
            compacted,
        }))
    }

    /// Forgets the keys that are old enough, and commits a record of that.
    fn forget(
        &self,
        policy: &CheckpointPolicy,
        marks: &mut Marks,
        pace: &mut Pace<'_>,
    ) -> Result<(), wal::Error> {
        if self.role.is_standby() {
            return self.sweep_forgotten(marks, pace);
        }
        let Some(through) = self.forgets(policy, marks) else {
            return Ok(());
        };
        let committed: Result<u64, wal::Refused> = self.append_and_publish(
            // This thread waits until the record is durable, so no lane may put the waking off.
            Waking::AtOnce,
            // The time is taken under the sequencer, so nobody can overtake it.
            || Ok(self.commit_times.at(self.clock.now())),
            |sequence, at| sequence.push(NewRecord::forgotten(through, at).encode()),
            |_| {
                self.tables.forget(through);
                || ()
            },
        );
        let position = committed.map_err(|error| wal::Error::Stopped {
            reason: error.to_string().into(),
        })?;
        self.wait_until_durable(position)?;
        self.sweep_forgotten(marks, pace)
    }

    /// Frees the memory of forgotten keys, whether this engine forgot them or the writer that it follows.
    fn sweep_forgotten(&self, marks: &mut Marks, pace: &mut Pace<'_>) -> Result<(), wal::Error> {
        let through = self.tables.forgotten();
        if through == 0 {
            return Ok(());
        }
        let swept = self.tables.sweep(|| pace.throttle())?;
        // The ages of the records that the log keeps are still needed.
        marks.drop_before(through.min(self.journal.first() - 1));
        if swept > 0 {
            self.checkpointer.figures.lock().forgotten_keys += u64::try_from(swept).unwrap_or(0);
            tracing::info!(through, keys = swept, "forgot idempotency keys");
        }
        Ok(())
    }

    /// Takes a snapshot; returns it and the counters over the records that it covers.
    fn snapshot(
        &self,
        known: &Known,
        pace: &mut Pace<'_>,
        progress: OnProgress<'_>,
    ) -> Result<(SnapshotInfo, Counters), wal::Error> {
        let (covers, forgotten) = self.covered_and_forgotten()?;
        let mut snapshot = self.journal.begin_snapshot(covers)?;
        let mut covered = known.covered.clone();
        self.keep_records(&mut snapshot, forgotten, &mut covered, pace)?;
        let ran = self.running_time.now(&*self.clock);
        covered.marks = known.marks.upto(covers, ran);
        let summary = Summary {
            forgotten,
            counters: covered,
        };
        snapshot.entry(&summary.encode())?;
        let total = u64::try_from(self.tables.resources()).unwrap_or(u64::MAX);
        let mut written = 0;
        let chunk = std::cell::RefCell::new(Chunk::default());
        self.tables.copy_states(
            |standing| {
                let version = catalogue::resource(standing.kind).map_or(0, |kind| kind.version());
                let listed_at = self
                    .tables
                    .listed_at(standing.kind, standing.key, standing.bytes);
                chunk
                    .borrow_mut()
                    .take(&StateEntry::new(standing, version, listed_at));
            },
            || {
                written += chunk.borrow_mut().write(&mut snapshot)?;
                progress(Step::Writing(written, total.max(written)));
                pace.throttle()
            },
        )?;
        let upto = chunk.into_inner().upto.max(covers);
        let mut throttle = || pace.throttle();
        let info = self
            .journal
            .install_throttled(snapshot, upto, &mut throttle)?;
        Ok((info, summary.counters))
    }

    /// Writes what the snapshot keeps of the records that it covers.
    fn keep_records(
        &self,
        snapshot: &mut wal::SnapshotWriter,
        forgotten: u64,
        covered: &mut Counters,
        pace: &mut Pace<'_>,
    ) -> Result<(), wal::Error> {
        let covers = snapshot.covers();
        let mut failed = None;
        let (mut kept, mut note) = (Vec::new(), Vec::new());
        let walked = self.journal.history(covers, &mut |found| {
            let record = Record::decode(found.payload)?;
            covered.note(found.position, &record);
            let bounds = (covers, forgotten);
            let used = keep(&self.tables, bounds, found.position, &record, &mut kept)?;
            let mut step = || {
                if let Some(used) = used {
                    used.encode_into(&mut note);
                    snapshot.keep_noted(found.position, &note, &kept)?;
                }
                pace.throttle()
            };
            step().map_err(|error| {
                let sentence = error.to_string();
                failed = Some(error);
                sentence.into()
            })
        });
        match failed {
            Some(error) => Err(error),
            None => walked,
        }
    }
}

impl Shared {
    /// Starts the checkpointer's thread.
    pub(crate) fn start_checkpointer(self: &Arc<Self>) -> std::io::Result<()> {
        let checkpointer = &self.checkpointer;
        let (shared, wake_up) = (Arc::downgrade(self), Arc::clone(&checkpointer.wake_up));
        let mut thread = checkpointer.thread.lock();
        if thread.is_none() {
            let builder = std::thread::Builder::new().name("checkpointer".to_owned());
            *thread = Some(builder.spawn(move || run(&shared, &wake_up))?);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::cli::runtime::on_lane;
    use crate::engine::sample::{engine, put};

    #[test]
    fn a_snapshot_frees_the_lists_in_which_no_resource_is_any_more() {
        let engine = engine();
        let put_version = async |revision: u32, is_required: bool| {
            let text = format!(
                "{{\"kind\":\"consent-version\",\"id\":\"policy@1\",\"revision\":{revision},\
                 \"facts\":{{\"publishedAt\":\"2020-01-01T00:00:00Z\",\"required\":{is_required},\
                 \"current\":true}}}}"
            );
            put(&engine, &text).await;
        };
        let lists = || engine.shared.tables.lists();
        let work = async {
            put_version(1, true).await;
            let before = lists();
            put_version(2, false).await;
            assert_eq!(lists(), before, "an empty list tells when it was touched");
            assert!(engine.snapshot_now(&mut |_| {}).unwrap().is_some());
            assert_eq!(lists(), before - 1);
            put_version(3, true).await;
            assert_eq!(lists(), before);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }
}
