//! The engine: from a command to a durable commit and its response.
//!
//! ```text
//! execute ──▶ lifecycle ──▶ key ────▶ unique ──▶ directory ──▶ actor ──▶ sequencer ──▶ gate ──▶ response
//!             may the       locked    keys       finds or      decides   orders,      waits until
//!             actor act?    or        locked     starts the              publishes    it is durable
//!                           replayed             actor
//! ```
//!
//! *Order.* The log's sequencer is one short critical section: there a commit gets its position,
//! and its changes become visible. Before that, in the same section, the decision's read set is
//! validated; if anything in it has changed, the command is decided again. So every commit is the
//! result of its command on the state at its position: the log is a serial history.
//!
//! *Positions.* A response names the position that it depends on. For a commit that is its own.
//! Otherwise it is the higher of two: the position that was durable before reading, and the last
//! commit among what was read. Both kinds wait in their lane's gate until that position is durable.
//!
//! *Files.* `core` has the state that everything shares; its parts stand below it, such as `outbox`, `feed` and
//! `checkpointer`. What works on all of that state stands above it, in files and folders of its own, such as
//! `messages`, `read` and `checkpoint`, since no two files and no two folders use each other.

pub mod channel;
mod checkpoint;
pub mod checkpointer;
pub mod clock;
mod command;
mod core;
mod demo_commands;
pub mod fact_loading;
pub mod feed;
pub mod figures;
mod id_source;
pub mod lanes;
pub mod limits;
mod list_births;
pub mod log_space;
mod messages;
pub mod outbox;
pub mod position_waiters;
pub mod publisher;
pub mod publisher_counts;
pub mod pulse;
pub mod read;
pub mod readiness;
mod recent;
pub mod role;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod sample;
pub mod standby;
pub mod webhooks;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use wal::OpenLog;

use crate::base::actor::Actor;
use crate::base::panics::{unless_it_panics, unless_its_future_panics};
use crate::base::time::Timestamp;
use crate::domain::erased::AnyCommand;
use crate::domain::event_id::EventId;
use crate::domain::read::{Read, Representation};
use crate::journal::replay::Recovered;
use crate::journal::tables;

use self::core::Shared;
pub use self::core::{CommandRequest, CommandResult, Limits, Mode, OnSequenced, Sequenced};
use self::recent::RecentAnswers;
use checkpointer::{Checkpoint, CheckpointPolicy, Checkpointer, OnProgress};
use clock::{Clock, CommitTimes, RunningTime};
use feed::{EventFilter, EventReader, Feed, NoPage, Page};
use figures::Figures;
use id_source::EngineIdSource;
use lanes::directory::Directory;
use lanes::lane::Lanes;
use limits::admission::{Admission, Permit};
use limits::key_locks::KeyLocks;
use log_space::room::RoomWatch;
use outbox::Outbox;
use position_waiters::{PositionWaiters, Reached};
use publisher_counts::PublisherCounts;
use role::lag::Standby;
use role::writer_proof::OwnWriterProof;
use role::{Role, RoleNow};

/// The engine.
pub struct Engine {
    shared: Arc<Shared>,
}

/// Called once when the log has failed, after which the process must end.
pub type OnFatal = Box<dyn FnOnce(&wal::Error) + Send>;

/// The engine's handlers for the events of the log's thread.
struct JournalEvents {
    lanes: Arc<Lanes>,
    admission: Arc<Admission>,
    feed: Arc<Feed>,
    awaited: Arc<PositionWaiters>,
    on_fatal: Option<OnFatal>,
}

impl wal::Events for JournalEvents {
    fn durable(&mut self, position: u64) {
        self.lanes.durable(position);
        self.feed.durable(position);
        self.awaited.durable(position);
    }

    fn failed(&mut self, error: &wal::Error) {
        // Responses come first: `on_fatal` may wait for who reads standard error. But the process has to end also
        // when one of those that are woken panics.
        let _ = unless_it_panics(|| self.lanes.fail());
        if let Some(on_fatal) = self.on_fatal.take() {
            on_fatal(error);
        }
    }

    fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }
}

impl Engine {
    /// Starts the engine on an open log and the tables that were recovered from it, with one lane
    /// for each runtime.
    ///
    /// # Errors
    /// When the log's threads cannot be started.
    pub fn start(
        log: impl OpenLog,
        recovered: Recovered,
        lanes: usize,
        limits: Limits,
        clock: Arc<dyn Clock>,
        on_fatal: OnFatal,
    ) -> Result<Self, wal::Error> {
        Self::start_as(Role::Writer, log, recovered, lanes, limits, clock, on_fatal)
    }

    /// Starts an engine in this role, as [`Engine::start`] does. A standby takes no commands until it is promoted
    /// ([`Engine::apply`], [`Engine::promote`]).
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_as(
        role: Role,
        log: impl OpenLog,
        recovered: Recovered,
        lanes: usize,
        limits: Limits,
        clock: Arc<dyn Clock>,
        on_fatal: OnFatal,
    ) -> Result<Self, wal::Error> {
        tables::keep_memory_ready();
        let lanes = Arc::new(Lanes::new(lanes));
        let admission = Arc::new(Admission::new(limits.commands_max));
        let feed = Arc::new(Feed::new(recovered.lineage.log_id));
        let awaited = Arc::<PositionWaiters>::default();
        let events = JournalEvents {
            lanes: Arc::clone(&lanes),
            admission: Arc::clone(&admission),
            feed: Arc::clone(&feed),
            awaited: Arc::clone(&awaited),
            on_fatal: Some(on_fatal),
        };
        let journal = log.start(Box::new(events))?;
        lanes.durable(journal.durable());
        lanes.append_to(&journal);
        list_births::place(&recovered.tables, &journal);
        // Only differences count, so where it begins does not matter, and nothing is compared with the clock later.
        let reached = recovered.counters.marks.reached(clock.now());
        let newest = journal.snapshots();
        let began = clock.steady();
        let shared = Arc::new(Shared {
            feed,
            published: PublisherCounts::default(),
            checkpointer: Checkpointer::new(
                &recovered,
                journal.first(),
                newest.first(),
                journal.snapshot_written(),
            ),
            room: RoomWatch::default(),
            waiting_answers: Arc::new(Admission::new(limits.waiting_bytes_max)),
            past_queue: limits::fair_queue::FairQueue::new(limits::fair_queue::PAST_READS_MAX),
            log_id: recovered.lineage.log_id,
            outbox: Outbox::default(),
            tables: recovered.tables,
            journal,
            directory: Directory::new(lanes.count()),
            lanes,
            keys: Arc::new(KeyLocks::new()),
            unique_keys: Arc::new(KeyLocks::new()),
            admission,
            facts: Arc::new(Admission::new(limits.commands_max.div_ceil(2))),
            ids: EngineIdSource::new(recovered.counters.outbox_number),
            commit_times: CommitTimes::after(recovered.counters.last_at),
            running_time: RunningTime::from(reached, &*clock),
            alarm: Mutex::default(),
            clock,
            recent: RecentAnswers::new(limits.recent_max),
            limits,
            ended: AtomicBool::new(false),
            role: RoleNow::new(role, recovered.counters.outbox_number),
            writer_proof: OwnWriterProof::default(),
            standby: Standby::default(),
            awaited,
            began,
            plain_webhooks: AtomicBool::new(false),
            on_sequenced: OnceLock::new(),
        });
        shared.look_for_room();
        shared.warn_if_ahead();
        Ok(Self { shared })
    }

    /// The present time by the system's clock, for rules and tokens.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Creates a UUIDv7.
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

    /// Grants a permit for one more command; `None` when too many are in flight, or too many bytes wait for the disk.
    #[must_use]
    pub fn admit(&self) -> Option<Permit> {
        if self.is_full() {
            return None;
        }
        Admission::admit(&self.shared.admission, 1)
    }

    /// Notifies `listener` from here on of how long each commit holds the log's sequencer, which is how long all
    /// others may have to wait for it. For measurements; to be called once.
    pub fn on_sequenced(&self, listener: OnSequenced) {
        // Only the first listener is kept.
        let _ = self.shared.on_sequenced.set(listener);
    }

    /// Whether commands are accepted: the log works and the disk has room.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.unready().is_ready()
    }

    /// Returns the engine's figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.shared.figures()
    }

    /// Sets the policy of snapshots and of the log's retention from here on.
    pub fn checkpoint_by(&self, policy: CheckpointPolicy) {
        // Segments that go to an archive are not removed before they are there.
        let may_remove = policy.gives_up_for_room && policy.archive.is_none();
        self.shared.journal.give_up_for_room(may_remove);
        self.shared.checkpointer.set_policy(policy);
    }

    /// Starts the thread that takes snapshots when they are due, and when one is requested.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start_checkpointer(&self) -> std::io::Result<()> {
        self.keep_for_webhooks();
        self.shared.start_checkpointer()
    }

    /// Requests a snapshot without waiting for it.
    pub fn request_snapshot(&self) {
        self.shared.checkpointer.request();
    }

    /// Takes a snapshot at once, at full speed, and removes from the log what the older one covers;
    /// `None` when there is no record yet. Blocks; `progress` is called meanwhile.
    ///
    /// # Errors
    /// Returns [`wal::Error::Stopped`] when the log has failed or the service is stopping. Every other error, such as
    /// a full disk, is harmless.
    pub fn snapshot_now(&self, progress: OnProgress<'_>) -> Result<Option<Checkpoint>, wal::Error> {
        self.shared.checkpoint(false, progress)
    }

    /// Removes from the log what the older snapshot covers.
    ///
    /// # Errors
    /// As [`Engine::snapshot_now`].
    pub fn compact_log(&self, progress: OnProgress<'_>) -> Result<wal::Compacted, wal::Error> {
        self.shared.compact_log(progress)
    }

    /// Returns the existing snapshots, newest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<wal::SnapshotInfo> {
        self.shared.journal.snapshots()
    }

    /// Returns a 256-bit digest of the committed states and idempotency keys.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.shared.tables.digest()
    }

    /// Whether the idempotency key of this command was used: then the command is replayed, or rejected.
    #[must_use]
    pub fn has_used_key_of(&self, request: &CommandRequest) -> bool {
        self.shared.has_used_key_of(request)
    }

    /// Executes a command. The permit is held until there is a response.
    pub async fn execute(
        &self,
        request: CommandRequest,
        permit: Permit,
        mode: Mode,
    ) -> CommandResult {
        let answer = self.shared.execute(request, Some(permit), mode, None);
        unless_its_future_panics(pin!(answer))
            .await
            .unwrap_or(CommandResult::Fault)
    }

    /// Checks whether the actor may act at all.
    ///
    /// # Errors
    /// Returns the rejection of an inactive or withdrawn actor.
    pub async fn may_act(&self, actor: &Actor) -> Result<(), CommandResult> {
        let judged = unless_its_future_panics(pin!(self.shared.may_act(&actor.subject))).await;
        judged.unwrap_or(Err(CommandResult::Fault)).map(drop)
    }

    /// Grants a permit for one more fact, like [`Engine::admit`] for a command. Facts may use at most half of the
    /// commands in flight: loading facts must not crowd out commands.
    #[must_use]
    pub fn admit_fact(&self) -> Option<FactPermit> {
        Some(FactPermit {
            _among_facts: Admission::admit(&self.shared.facts, 1)?,
            command: self.admit()?,
        })
    }

    /// Applies a reference fact.
    pub async fn put_fact(
        &self,
        actor: Arc<Actor>,
        command: Box<dyn AnyCommand>,
        permit: FactPermit,
    ) -> CommandResult {
        let request = CommandRequest {
            row: None,
            actor,
            command,
            header_key: None,
        };
        let answer = self
            .shared
            .execute(request, Some(permit.command), Mode::Commit, None);
        unless_its_future_panics(pin!(answer))
            .await
            .unwrap_or(CommandResult::Fault)
    }

    /// The lanes, for the runtimes that run them.
    #[must_use]
    pub fn lanes(&self) -> Arc<Lanes> {
        Arc::clone(&self.shared.lanes)
    }

    /// The highest durable position.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.shared.journal.durable()
    }

    /// Waits, for a reader of this subject, until the engine has reached `position` and everything up to there is
    /// durable.
    pub async fn reached(&self, subject: &str, position: u64) -> Reached {
        if position == 0 {
            return Reached::Yes;
        }
        let durable = || self.durable();
        self.shared.awaited.wait(subject, position, durable).await
    }

    /// Reads a resource.
    pub async fn read(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
    ) -> Result<(Representation, u64), CommandResult> {
        let found = unless_its_future_panics(pin!(self.shared.read(read, actor, path))).await;
        found.unwrap_or(Err(CommandResult::Fault))
    }

    /// Returns at most `limit` of the wanted durable events after `after`. A reader that is behind waits for its
    /// turn.
    ///
    /// # Errors
    /// Returns the reason why there is no page.
    pub async fn events(
        &self,
        reader: EventReader<'_>,
        after: EventId,
        filter: &Arc<EventFilter>,
        limit: usize,
    ) -> Result<Page, NoPage> {
        self.shared.events(reader, after, filter, limit).await
    }

    /// Returns the identifier before the earliest event that may be kept.
    #[must_use]
    pub fn before_first_event(&self) -> EventId {
        let first = self.shared.journal.first();
        EventId {
            position: first.saturating_sub(1),
            number: 0,
        }
    }

    /// The feed of committed events, and its readers.
    #[must_use]
    pub fn feed(&self) -> &Arc<Feed> {
        &self.shared.feed
    }

    /// Ends the feed and all waits for a position, since the service is about to end.
    pub fn end_feed(&self) {
        self.shared.feed.end();
        self.shared.awaited.end();
    }

    /// Accepts no more commands, makes the commits durable, and closes the log.
    ///
    /// # Errors
    /// Returns an error when the log had failed.
    pub fn shut_down(&self) -> Result<(), wal::Error> {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.feed.end();
        self.shared.checkpointer.stop();
        self.shared.journal.shutdown()
    }
}

/// The permit for one more fact in flight.
#[must_use]
pub struct FactPermit {
    _among_facts: Permit,
    command: Permit,
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
            feed: Arc::new(Feed::new([0; 16])),
            awaited: Arc::default(),
            on_fatal: None,
        };
        assert_eq!(events.in_flight(), 0);
        let _some = Admission::admit(&admission, 3).unwrap();
        assert_eq!(events.in_flight(), 3);
    }

    /// Panics when it is woken.
    struct Panics;

    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as it was told to");
        }
    }

    #[test]
    fn a_failed_log_ends_the_process_even_if_a_notified_waiter_panics() {
        let lanes = Arc::new(Lanes::new(1));
        let waker = std::task::Waker::from(Arc::new(Panics));
        let mut gate = pin!(Arc::clone(&lanes).run(0));
        let polled = gate
            .as_mut()
            .poll(&mut std::task::Context::from_waker(&waker));
        assert!(polled.is_pending());
        let told = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&told);
        let mut events = JournalEvents {
            lanes: Arc::clone(&lanes),
            admission: Arc::new(Admission::new(1)),
            feed: Arc::new(Feed::new([0; 16])),
            awaited: Arc::default(),
            on_fatal: Some(Box::new(move |error: &wal::Error| {
                *heard.lock() = error.to_string()
            })),
        };
        events.failed(&wal::Error::Stopped {
            reason: "the disk has failed".into(),
        });
        assert!(lanes.has_failed());
        assert!(told.lock().contains("the disk has failed"));
    }
}
