//! Upkeep of the log: removes records that need not be kept any longer, also between snapshots, and more of them when
//! the disk is nearly full.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wal::{Compacted, Keep};

use crate::engine::checkpointer::{CheckpointPolicy, OnProgress, Step};
use crate::engine::core::Shared;
use crate::journal::counters::Marks;

impl Shared {
    /// Waits until this position is durable; fails if the service stops.
    pub(super) fn wait_until_durable(&self, position: u64) -> Result<(), wal::Error> {
        while self.journal.durable() < position {
            self.unless_stopped()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits until what is appended now is durable; returns a durable position up to which all commits are published.
    pub(super) fn published(&self) -> Result<u64, wal::Error> {
        self.wait_until_durable(self.journal.appended())?;
        let durable = self.journal.durable();
        // A commit may be durable before it is published. Both happen under the sequencer: once that lock is taken
        // here, all commits up to this position are published.
        drop(self.journal.sequence());
        Ok(durable)
    }

    /// Returns a durable position up to which all commits are published, and up to which position the records up to
    /// there forget keys: no more, and no less. A standby goes on applying its writer's forgetting meanwhile.
    pub(super) fn covered_and_forgotten(&self) -> Result<(u64, u64), wal::Error> {
        // Keys are forgotten under the sequencer: of those that are now, the record is appended.
        let forgotten = || {
            let _sequence = self.journal.sequence();
            self.tables.forgotten()
        };
        with_the_same(forgotten, || self.published())
    }

    /// Compacts the log: removes what the older snapshot covers and no policy keeps.
    pub(crate) fn compact_log(&self, progress: OnProgress<'_>) -> Result<Compacted, wal::Error> {
        let mut known = self.checkpointer.known.lock();
        self.note_age(&mut known.marks);
        let policy = self.checkpointer.policy.lock().clone();
        let keep = self.keep(&policy, &known.marks);
        self.compact(&policy, &keep, progress)
    }

    /// Returns what the log is to keep now.
    pub(super) fn keep(&self, policy: &CheckpointPolicy, marks: &Marks) -> Keep {
        let ran = self.running_time.now(&*self.clock);
        let needed_from = self.checkpointer.needed_from.get();
        policy.log.keep(marks, ran, needed_from)
    }

    /// On a standby: keeps the log for the deliveries that this engine would have to make in its writer's place.
    pub(super) fn follow_needs(&self) {
        if !self.role.is_standby() {
            return;
        }
        let needed_from = &self.checkpointer.needed_from;
        needed_from.set(self.webhooks_need());
        if self.published.is_on.load(Ordering::Acquire)
            && let Some(through) = self.published_through()
        {
            needed_from.set_for_publisher(through.position);
        }
    }

    /// Between snapshots: compacts the log, and gives up more of it when the disk is nearly full.
    pub(super) fn tend_log(&self, policy: &CheckpointPolicy) -> Result<(), wal::Error> {
        let known = self.checkpointer.known.lock();
        let keep = self.keep(policy, &known.marks);
        let retained = self.journal.retained(&keep);
        let done = match retained.removable_bytes {
            0 => Ok(()),
            _ => self.compact(policy, &keep, &mut |_| {}).map(drop),
        };
        let done = done.and_then(|()| self.make_room(policy));
        self.look_at_log(policy, &known.marks);
        match done {
            // The thread ends at its next step.
            Err(wal::Error::Stopped { .. }) => Ok(()),
            done => done,
        }
    }

    /// Notes the size of the log, and warns when it is large because deliveries are slow or stuck.
    fn look_at_log(&self, policy: &CheckpointPolicy, marks: &Marks) {
        let given_up = self.journal.given_up_bytes();
        let before = self.checkpointer.given_up.swap(given_up, Ordering::Relaxed);
        if given_up > before {
            self.tell_of_given_up(given_up - before);
        }
        let retained = self.journal.retained(&self.keep(policy, marks));
        {
            let mut figures = self.checkpointer.figures.lock();
            figures.log_first = self.journal.first();
            figures.log_bytes = retained.bytes + retained.needed_bytes + retained.removable_bytes;
            figures.log_kept_for_delivery_bytes = retained.needed_bytes;
        }
        let ran = self.running_time.now(&*self.clock);
        let needed_from = self.checkpointer.needed_from.get();
        let is_half = policy.log.is_half_used(marks, ran, needed_from, &retained);
        if self
            .checkpointer
            .reminder
            .lock()
            .is_due(is_half.then_some(()), false, Instant::now())
        {
            tracing::warn!(
                bytes = retained.needed_bytes,
                from = needed_from,
                "half of what may be kept for deliveries is used, in bytes or in time: what they \
                 have not taken by the end of it is given up"
            );
        }
    }

    /// Makes the log give up what it keeps beyond its snapshots, as far as the disk needs the space before commands
    /// are refused. Without an archive the log does so by itself, and sooner.
    fn make_room(&self, policy: &CheckpointPolicy) -> Result<(), wal::Error> {
        let space = match self.journal.space() {
            Ok(space) if policy.archive.is_some() => space,
            // Where the free space cannot be determined, the log itself reports that.
            _ => return Ok(()),
        };
        let wanted = space.reserve.saturating_add(2 * space.next_segment);
        self.give_up_log(policy, wanted.saturating_sub(space.free))
    }

    /// Makes the log give up its oldest records, including those kept for their age or for deliveries, until `bytes`
    /// more are free or no covered record is left.
    pub(super) fn give_up_log(
        &self,
        policy: &CheckpointPolicy,
        bytes: u64,
    ) -> Result<(), wal::Error> {
        let all = self.journal.retained(&Keep::newest(u64::MAX)).bytes;
        let keep = Keep::newest(all.saturating_sub(bytes));
        if self.journal.retained(&keep).removable_bytes == 0 {
            return Ok(());
        }
        let compacted = self.compact(policy, &keep, &mut |_| {})?;
        self.tell_of_given_up(compacted.bytes);
        Ok(())
    }

    fn tell_of_given_up(&self, bytes: u64) {
        self.checkpointer.figures.lock().log_given_up_bytes += bytes;
        tracing::warn!(
            bytes,
            first = self.journal.first(),
            "the disk is nearly full: the log gave up records before their time"
        );
    }

    pub(super) fn compact(
        &self,
        policy: &CheckpointPolicy,
        keep: &Keep,
        progress: OnProgress<'_>,
    ) -> Result<Compacted, wal::Error> {
        let archive = policy.archive.as_deref();
        let before = self.journal.first();
        let mut copying = |done, total| {
            progress(Step::Archiving(done, total));
            self.unless_stopped()
        };
        let compacted = self
            .journal
            .compact_throttled(keep, archive, &mut copying)?;
        let needed_from = self.checkpointer.needed_from.get();
        if let Some(from) = needed_from.map(|from| from.max(before))
            && from < compacted.first_position
        {
            tracing::warn!(
                from,
                to = compacted.first_position - 1,
                "the log gave up records that deliveries still needed"
            );
        }
        let mut figures = self.checkpointer.figures.lock();
        figures.compacted_segments += compacted.segments;
        figures.compacted_bytes += compacted.bytes;
        Ok(compacted)
    }
}

/// Calls `fixed` until `value` has the same result before and after it; returns both.
fn with_the_same<T: PartialEq, F, E>(
    value: impl Fn() -> T,
    mut fixed: impl FnMut() -> Result<F, E>,
) -> Result<(F, T), E> {
    loop {
        let before = value();
        let found = fixed()?;
        if value() == before {
            return Ok((found, before));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_position_is_determined_again_if_forgotten_keys_change_meanwhile() {
        let (forgotten, durable) = (Cell::new(3), Cell::new(10));
        let published = || {
            durable.set(durable.get() + 1);
            if durable.get() == 12 {
                forgotten.set(7);
            }
            Ok::<_, ()>(durable.get())
        };
        assert_eq!(with_the_same(|| forgotten.get(), published), Ok((11, 3)));
        assert_eq!(with_the_same(|| forgotten.get(), published), Ok((13, 7)));
        assert_eq!(
            with_the_same(|| 1, || Err::<(), _>("it stops")),
            Err("it stops")
        );
    }
}
