//! The engine: from a command to a durable commit and its answer.
//!
//! ```text
//! execute ──▶ lifecycle ──▶ key ──▶ names ──▶ directory ──▶ actor ──▶ sequencer ──▶ gate ──▶ answer
//!             may the       held    held      finds or      decides   orders,      waits until
//!             actor act?    or      or        wakes the               publishes    it is durable
//!                           replay  waits     actor
//! ```
//!
//! *Order.* The log's sequencer is one short critical section: there a commit gets its position,
//! and its changes become visible. Before that, under the same lock, all that the decision has
//! read is checked to stand still; if not, the command is decided anew. So every commit is what
//! its command comes to on the state at its position: the log is a serial history.
//!
//! *Positions.* An answer says on which position it rests. For a commit that is its own. For what
//! changed nothing it is the higher of what was durable before it read and of the last commits
//! that it saw: the state it speaks of is the state at that position. Both wait in their lane's
//! gate until that position is durable.

pub mod admission;
pub mod checkpointer;
pub mod clock;
mod core;
mod deliveries;
pub mod directory;
mod id_source;
mod idempotency;
pub mod intake;
pub mod key_locks;
pub mod lane;
mod lifecycle;
mod log_upkeep;
mod pipeline;
pub mod processors;
mod read_set;
mod reads;
pub mod relay;
mod repeats;
mod resource;
pub mod retention;
mod room;
mod snapshots;
mod turns;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use wal::OpenLog;

use crate::base::actor::Actor;
use crate::base::panics::unless_its_future_panics;
use crate::base::time::Instant;
use crate::domain::operation::AnyCommand;
use crate::domain::read::{Read, Representation};
use crate::journal::counters::Marks;
use crate::journal::replay::Recovered;

pub use self::core::{CommandRequest, CommandResult, Limits, OnSequenced, Sequenced};
use self::core::{Shared, StoredWeight};
use admission::{Admission, Permit};
use checkpointer::{Checkpoint, CheckpointFigures, CheckpointPolicy, Checkpointer, OnProgress};
use clock::{Clock, CommitTimes, RunningTime};
use directory::Directory;
use id_source::EngineIdSource;
use key_locks::KeyLocks;
use lane::Lanes;
use relay::{ExternalDirectory, Relay};
use room::RoomWatch;

/// The engine.
pub struct Engine {
    shared: Arc<Shared>,
}

/// Called once when the log has failed: the process has to end.
pub type OnFatal = Box<dyn FnOnce(&str) + Send>;

/// What the log's thread tells the engine.
struct JournalEvents {
    lanes: Arc<Lanes>,
    admission: Arc<Admission>,
    on_fatal: Option<OnFatal>,
}

impl wal::Events for JournalEvents {
    fn durable(&mut self, position: u64) {
        self.lanes.durable(position);
    }

    fn failed(&mut self, error: &wal::Error) {
        self.lanes.fail();
        if let Some(on_fatal) = self.on_fatal.take() {
            on_fatal(&error.to_string());
        }
    }

    fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }
}

impl Engine {
    /// Starts the engine on an open log and what its records made, with as many lanes as there
    /// are runtimes.
    ///
    /// # Errors
    /// When the log's threads cannot be started.
    pub fn start(
        log: impl OpenLog,
        mut recovered: Recovered,
        lanes: usize,
        limits: Limits,
        clock: Arc<dyn Clock>,
        on_fatal: OnFatal,
    ) -> Result<Self, wal::Error> {
        let lanes = Arc::new(Lanes::new(lanes));
        let admission = Arc::new(Admission::new(limits.commands_max));
        let events = JournalEvents {
            lanes: Arc::clone(&lanes),
            admission: Arc::clone(&admission),
            on_fatal: Some(on_fatal),
        };
        let journal = log.start(Box::new(events))?;
        lanes.durable(journal.durable());
        lanes.append_to(&journal);
        // Ages that are ahead of the clock were counted by it when it was wrong, by a version that
        // still did so: they are counted from here on.
        let now = clock.now();
        if recovered.counters.marks.reached(now) > now {
            recovered.counters.marks = Marks::default();
            recovered
                .counters
                .marks
                .note(recovered.counters.position, now);
        }
        let reached = recovered.counters.marks.reached(now);
        let recent = quick_cache::sync::Cache::with_weighter(
            usize::try_from(limits.recent_bytes_max / 1_024).unwrap_or(usize::MAX),
            limits.recent_bytes_max,
            StoredWeight,
        );
        let newest = journal.snapshots();
        let shared = Arc::new(Shared {
            checkpointer: Checkpointer::new(
                &recovered,
                journal.first(),
                newest.first(),
                journal.snapshot_written(),
            ),
            room: RoomWatch::default(),
            relay: Relay::new(&recovered.tables, recovered.births),
            tables: recovered.tables,
            journal,
            directory: Directory::new(lanes.count()),
            lanes,
            keys: Arc::new(KeyLocks::new()),
            names: Arc::new(KeyLocks::new()),
            admission,
            facts: Arc::new(Admission::new(limits.commands_max.div_ceil(2))),
            ids: EngineIdSource::new(recovered.counters.outbox_number),
            commit_times: CommitTimes::after(recovered.counters.last_at),
            running_time: RunningTime::from(reached, &*clock),
            alarm: Mutex::default(),
            clock,
            recent,
            limits,
            ended: AtomicBool::new(false),
            on_sequenced: OnceLock::new(),
        });
        shared.look_for_room();
        shared.tell_if_ahead();
        Ok(Self { shared })
    }

    /// The present by the system's clock, which rules and tokens are judged by.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// A new UUIDv7.
    #[must_use]
    pub fn new_id(&self) -> uuid::Uuid {
        self.shared.ids.id(self.now())
    }

    /// Whether no command would be admitted just now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shared.journal.queued_bytes() > self.shared.limits.queued_bytes_max
            || self.shared.admission.is_full()
    }

    /// A permit for one more command; `None` when as many as may be are in flight, or too much
    /// waits for the disk.
    #[must_use]
    pub fn admit(&self) -> Option<Permit> {
        if self.is_full() {
            return None;
        }
        Admission::admit(&self.shared.admission, 1)
    }

    /// From here on, `told` hears how long each commit has held the log's sequencer, which is how
    /// long all others may have waited for it. For measuring; said once.
    pub fn on_sequenced(&self, told: OnSequenced) {
        // Whoever came first goes on being told.
        let _ = self.shared.on_sequenced.set(told);
    }

    /// Whether commands are taken: the log works and the disk has room.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.shared.ended.load(Ordering::Acquire)
            && !self.shared.lanes.has_failed()
            && self.shared.journal.has_room()
    }

    /// What the engine holds and has done.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let shared = &*self.shared;
        let batches = shared.journal.batches();
        Figures {
            resources: shared.tables.resources(),
            keys: shared.tables.keys(),
            durable: shared.journal.durable(),
            live_actors: shared.directory.live(),
            commands_in_flight: shared.admission.in_flight(),
            queued_bytes: shared.journal.queued_bytes(),
            log_batches: batches.count,
            log_batch_time: batches.time,
            branches_in_repair: shared.branches_in_repair().len(),
            relay_deliveries: shared.relay.deliveries(),
            relay_failures: shared.relay.failures(),
            checkpoints: shared.checkpointer.figures(),
            has_room: shared.journal.has_room(),
            commits_ahead: shared.commit_times.ahead_of(shared.clock.now()),
        }
    }

    /// From here on, how snapshots are taken, for whoever asks for one.
    pub fn checkpoint_by(&self, policy: CheckpointPolicy) {
        // What goes to an archive is not removed before it is there.
        let may_remove = policy.archive.is_none();
        self.shared.journal.give_up_for_room(may_remove);
        self.shared.checkpointer.set_policy(policy);
    }

    /// Starts the thread that takes snapshots when they are due, and when one is asked for.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start_checkpointer(&self) -> std::io::Result<()> {
        self.shared.start_checkpointer()
    }

    /// Asks the thread for a snapshot, and does not wait for it.
    pub fn request_snapshot(&self) {
        self.shared.checkpointer.request();
    }

    /// Takes a snapshot at once, as fast as it can be, and has the log let go of what the older
    /// one covers; `None` when there is no record yet. Blocks; `progress` is told how far it is.
    ///
    /// # Errors
    /// [`wal::Error::Stopped`] when the log has failed or the service ends. Everything else, a
    /// disk without room for example, harms nothing.
    pub fn snapshot_now(&self, progress: OnProgress<'_>) -> Result<Option<Checkpoint>, wal::Error> {
        self.shared.checkpoint(false, progress)
    }

    /// Has the log let go of what the older snapshot covers.
    ///
    /// # Errors
    /// As [`Engine::snapshot_now`].
    pub fn compact_log(&self) -> Result<wal::Compacted, wal::Error> {
        self.shared.compact_log()
    }

    /// Deliveries need the log from this position on: it is kept for them beyond its retention, up
    /// to bounds of its own ([`retention::LogRetention`]). `None` when none waits. To be set before
    /// [`Engine::start_checkpointer`], and again as deliveries come to their end.
    pub fn keep_for_deliveries(&self, from: Option<u64>) {
        self.shared.checkpointer.needed_from.set(from);
    }

    /// The snapshots there are, newest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<wal::SnapshotInfo> {
        self.shared.journal.snapshots()
    }

    /// 256 bits that tell committed state and keys from any other.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.shared.tables.digest()
    }

    /// From here on, what is to happen in other systems waits for this directory, and a message
    /// that it does not take is sent again after growing pauses, the first one of about
    /// `first_pause`. Said once, before the first command.
    pub fn deliver_to(&self, directory: Arc<dyn ExternalDirectory>, first_pause: Duration) {
        self.shared.relay.deliver_to(directory, first_pause);
    }

    /// Goes on with what was not delivered when the log was last closed. Called once, on a lane.
    pub fn resume_deliveries(&self) {
        self.shared.resume_deliveries();
    }

    /// Carries a command out. The permit is held until the answer is there.
    pub async fn execute(&self, call: CommandRequest, permit: Permit) -> CommandResult {
        let answer = self.shared.execute(call, Some(permit));
        unless_its_future_panics(pin!(answer))
            .await
            .unwrap_or(CommandResult::Fault)
    }

    /// Whether the actor may act at all.
    ///
    /// # Errors
    /// The refusal of an inactive or withdrawn actor.
    pub async fn may_act(&self, actor: &Actor) -> Result<(), CommandResult> {
        let judged = unless_its_future_panics(pin!(self.shared.may_act(&actor.subject))).await;
        judged.unwrap_or(Err(CommandResult::Fault)).map(drop)
    }

    /// A permit for one more fact, as [`Engine::admit`] gives for a command. Of all that may be in
    /// flight facts take half at most: a load of facts must not shed the commands beside it.
    #[must_use]
    pub fn admit_fact(&self) -> Option<FactPermit> {
        Some(FactPermit {
            _among_facts: Admission::admit(&self.shared.facts, 1)?,
            command: self.admit()?,
        })
    }

    /// Puts a reference fact in place.
    pub async fn put_fact(
        &self,
        actor: Arc<Actor>,
        command: Box<dyn AnyCommand>,
        permit: FactPermit,
    ) -> CommandResult {
        let call = CommandRequest {
            row: None,
            actor,
            command,
            header_key: None,
        };
        let answer = self.shared.execute(call, Some(permit.command));
        unless_its_future_panics(pin!(answer))
            .await
            .unwrap_or(CommandResult::Fault)
    }

    /// The lanes, for the runtimes that are to be them.
    #[must_use]
    pub fn lanes(&self) -> Arc<Lanes> {
        Arc::clone(&self.shared.lanes)
    }

    /// The highest durable position.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.shared.journal.durable()
    }

    /// Reads.
    pub async fn read(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
    ) -> Result<(Representation, u64), CommandResult> {
        let found = unless_its_future_panics(pin!(self.shared.read(read, actor, path))).await;
        found.unwrap_or(Err(CommandResult::Fault))
    }

    /// Takes no more commands, makes durable what was committed, closes the log.
    ///
    /// # Errors
    /// When the log had failed.
    pub fn shut_down(&self) -> Result<(), wal::Error> {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.checkpointer.stop();
        self.shared.journal.shutdown()
    }
}

/// The right to have one more fact in flight.
#[must_use]
pub struct FactPermit {
    _among_facts: Permit,
    command: Permit,
}

/// What the engine holds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Resources.
    pub resources: usize,
    /// Idempotency keys.
    pub keys: usize,
    /// The highest durable position.
    pub durable: u64,
    /// Resources whose actor is awake.
    pub live_actors: usize,
    /// Commands in flight.
    pub commands_in_flight: usize,
    /// Bytes of records that wait for the disk.
    pub queued_bytes: usize,
    /// Batches of records that were written and synced.
    pub log_batches: u64,
    /// How long that took, in all.
    pub log_batch_time: Duration,
    /// Branches whose creation is not completed in other systems.
    pub branches_in_repair: usize,
    /// Messages that the external directory has taken.
    pub relay_deliveries: u64,
    /// Attempts at which it has not.
    pub relay_failures: u64,
    /// What the checkpointer has done.
    pub checkpoints: CheckpointFigures,
    /// Whether the log has room for commands.
    pub has_room: bool,
    /// How far the time of the last commit lies ahead of the system's clock.
    pub commits_ahead: Duration,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wal::Events as _;

    use super::*;

    #[test]
    fn the_log_is_told_how_many_commands_are_in_flight() {
        let admission = Arc::new(Admission::new(10));
        let events = JournalEvents {
            lanes: Arc::new(Lanes::new(1)),
            admission: Arc::clone(&admission),
            on_fatal: None,
        };
        assert_eq!(events.in_flight(), 0);
        let _some = Admission::admit(&admission, 3).unwrap();
        assert_eq!(events.in_flight(), 3);
    }
}
