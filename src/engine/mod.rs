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
pub mod claims;
pub mod clock;
pub mod directory;
pub mod intake;
pub mod lane;
mod mint;
pub mod processors;
pub mod relay;
mod resource;
mod room;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;
use wal::{Appender, Log};

use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::panics::unless_its_future_panics;
use crate::base::time::Instant;
use crate::catalogue::{KeySource, Row};
use crate::domain::operation::{AnyCommand, Context, Disposition};
use crate::domain::read::{Found, Read, ReadRequest};
use crate::domain::reference::Fact;
use crate::domain::reference::actor::{ActorFact, ActorLifecycle};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{Name, Resource as _, Source as _, View};
use crate::journal::record::{Record, RecordOutcome, key_digest};
use crate::journal::replay::Recovered;
use crate::journal::tables::Tables;
use crate::journal::tally::Marks;

use admission::{Admission, Permit};
use checkpointer::{Checkpoint, CheckpointFigures, CheckpointPolicy, Checkpointer, OnProgress};
use claims::{Claims, Held};
use clock::{Alarm, Clock, CommitTimes, RunningTime};
use directory::Directory;
use lane::Lanes;
use mint::{EngineMint, MintAt};
use relay::{ExternalDirectory, Relay};
use resource::{Job, Verdict};
use room::RoomWatch;

/// How the engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Commands that may be in flight at once; further ones are shed.
    pub commands_max: usize,
    /// Bytes of records that may wait for the disk; beyond that, commands are shed.
    pub queued_bytes_max: usize,
    /// Bytes of recent answers that are kept in memory for replays.
    pub recent_bytes_max: u64,
    /// Bytes of the largest record that the log's medium takes, at most
    /// [`RECORD_BYTES_MAX`](crate::base::codec::RECORD_BYTES_MAX). A command that would make a
    /// larger one is refused as invalid.
    pub record_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            commands_max: 4_096,
            queued_bytes_max: 64 << 20,
            recent_bytes_max: 32 << 20,
            record_bytes_max: crate::base::codec::RECORD_BYTES_MAX,
        }
    }
}

/// A command on its way in.
pub struct Call {
    /// Its row of the catalogue; `None` for a reference fact.
    pub row: Option<&'static Row>,
    /// Who asks.
    pub actor: Arc<Actor>,
    /// The command.
    pub command: Box<dyn AnyCommand>,
    /// The key from the header, where the operation has it there.
    pub header_key: Option<Box<str>>,
}

/// What a call comes to.
#[derive(Debug)]
pub enum Reply {
    /// It is done, and durable.
    Done {
        /// The answer's body.
        body: Bytes,
        /// How far it went.
        disposition: Disposition,
        /// Whether it is the answer of an earlier command.
        replay: bool,
        /// The position on which the answer rests.
        position: u64,
    },
    /// It is refused; what it learned is durable.
    Refused {
        /// Why.
        rejection: Box<Rejection>,
        /// The position on which the refusal rests.
        position: u64,
    },
    /// It was shed before any work.
    Overloaded,
    /// Nothing was done: the disk has no room, or the service is ending.
    Unavailable,
    /// It may or may not have been committed.
    OutcomeUnknown,
    /// A fault of ours; nothing was done.
    Fault,
}

/// What was answered first, for replays.
#[derive(Clone)]
pub(crate) struct Stored {
    fingerprint: Fingerprint,
    body: Bytes,
    disposition: Disposition,
}

#[derive(Clone)]
struct StoredWeight;

impl quick_cache::Weighter<u64, Stored> for StoredWeight {
    fn weight(&self, _: &u64, stored: &Stored) -> u64 {
        64 + stored.body.len() as u64
    }
}

/// The engine.
pub struct Engine {
    shared: Arc<Shared>,
}

/// What actors, connections and the log's thread share.
pub(crate) struct Shared {
    tables: Tables,
    journal: Arc<Appender>,
    lanes: Arc<Lanes>,
    keys: Arc<Claims>,
    names: Arc<Claims>,
    directory: Directory,
    admission: Arc<Admission>,
    /// Of those in flight, how many may be facts.
    facts: Arc<Admission>,
    clock: Arc<dyn Clock>,
    commit_times: CommitTimes,
    running_time: RunningTime,
    alarm: Mutex<Alarm>,
    mint: EngineMint,
    relay: Relay,
    checkpointer: Checkpointer,
    room: RoomWatch,
    recent: quick_cache::sync::Cache<u64, Stored, StoredWeight>,
    limits: Limits,
    ended: AtomicBool,
    /// Told how long each commit held the log's sequencer, where somebody measures it.
    on_sequenced: OnceLock<OnSequenced>,
}

/// Told how long a commit held the log's sequencer.
pub type OnSequenced = Box<dyn Fn(Duration) + Send + Sync>;

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
        log: Log,
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
        if recovered.tally.marks.reached(now) > now {
            recovered.tally.marks = Marks::default();
            recovered.tally.marks.note(recovered.tally.position, now);
        }
        let reached = recovered.tally.marks.reached(now);
        let recent = quick_cache::sync::Cache::with_weighter(
            usize::try_from(limits.recent_bytes_max / 1_024).unwrap_or(usize::MAX),
            limits.recent_bytes_max,
            StoredWeight,
        );
        let newest = journal.snapshots();
        let shared = Arc::new(Shared {
            checkpointer: Checkpointer::new(&recovered, newest.first(), journal.snapshot_written()),
            room: RoomWatch::default(),
            relay: Relay::new(&recovered.tables, recovered.births),
            tables: recovered.tables,
            journal,
            directory: Directory::new(lanes.count()),
            lanes,
            keys: Arc::new(Claims::new()),
            names: Arc::new(Claims::new()),
            admission,
            facts: Arc::new(Admission::new(limits.commands_max.div_ceil(2))),
            mint: EngineMint::new(recovered.tally.outbox_number),
            commit_times: CommitTimes::after(recovered.tally.last_at),
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
        self.shared.mint.id(self.now())
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
        self.shared.checkpointer.set_policy(policy);
    }

    /// Starts the thread that takes snapshots when they are due, and when one is asked for.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start_checkpointer(&self) -> std::io::Result<()> {
        self.shared.checkpointer.start(&self.shared)
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
    pub async fn execute(&self, call: Call, permit: Permit) -> Reply {
        let answer = self.shared.execute(call, Some(permit));
        unless_its_future_panics(answer)
            .await
            .unwrap_or(Reply::Fault)
    }

    /// Whether the actor may act at all.
    ///
    /// # Errors
    /// The refusal of an inactive or withdrawn actor.
    pub async fn may_act(&self, actor: &Actor) -> Result<(), Reply> {
        let judged = unless_its_future_panics(self.shared.may_act(&actor.subject)).await;
        judged.unwrap_or(Err(Reply::Fault)).map(drop)
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
    ) -> Reply {
        let call = Call {
            row: None,
            actor,
            command,
            header_key: None,
        };
        let answer = self.shared.execute(call, Some(permit.command));
        unless_its_future_panics(answer)
            .await
            .unwrap_or(Reply::Fault)
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
    ) -> Result<(Found, u64), Reply> {
        let found = unless_its_future_panics(self.shared.read(read, actor, path)).await;
        found.unwrap_or(Err(Reply::Fault))
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
    /// Keys of idempotency.
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

/// That an actor may act, and since when: what is decided and told for it rests on that.
#[derive(Clone, Copy)]
pub(crate) struct MayAct {
    /// The key of the fact that says so.
    fact: Digest,
    /// The position of that fact's last commit; 0 when nothing is known of the actor.
    since: u64,
}

/// A command with what belongs to it until it is decided and published, whether or not somebody
/// still waits for its answer.
pub(crate) struct Order {
    call: Call,
    /// The key of idempotency, its scope and its digest; empty where there is none.
    key: Box<str>,
    scope: Box<str>,
    key_digest: Option<Digest>,
    fingerprint: Fingerprint,
    /// The identifier of the resource that it brings into being.
    born: Uuid,
    /// The claim on its key.
    key_claim: Option<Held>,
    /// Its place among the commands in flight.
    permit: Option<Permit>,
    /// The position of the commit that holds its key by now, and whose answer, which nobody was
    /// told yet, its own takes the place of.
    instead_of: Option<u64>,
    /// That whoever asks may act; `None` where nobody asks.
    may_act: Option<MayAct>,
}

/// What a decision has read, and the position on which it rests.
pub(crate) struct Basis {
    durable_before: u64,
    seen: Vec<(Digest, u64)>,
    names: Vec<(Name, Option<Digest>)>,
    lists: Vec<(Name, u64)>,
}

impl Shared {
    /// Whether the log has room for a command; where it has none, that is told.
    fn has_room(&self) -> bool {
        let has_room = self.journal.has_room();
        if !has_room {
            self.room.refused(self.journal.lack().as_ref());
        }
        has_room
    }

    /// Tells whether there is room, where that has changed or has to be told again.
    fn look_for_room(&self) {
        self.room.look(self.journal.lack().as_ref());
    }
}

impl Shared {
    /// What `view` has read since `durable_before` was looked at.
    pub(crate) fn basis(durable_before: u64, view: &View<'_>) -> Basis {
        Basis {
            durable_before,
            seen: view.seen(),
            names: view.names_seen(),
            lists: view.lists_seen(),
        }
    }

    /// Whether all that was read stood so at one instant since, as a whole: what an answer that
    /// changes nothing needs. A commit asks [`Shared::stands`] under the sequencer.
    pub(crate) fn stood(&self, basis: &Basis) -> bool {
        let stands = self.tables.try_at_one_instant(|| self.stands(basis));
        stands.unwrap_or_else(|| {
            // So many commits came in between that it has to keep the next ones out.
            let _alone = self.journal.sequence();
            self.stands(basis)
        })
    }

    /// Whether all that was read still stands so.
    pub(crate) fn stands(&self, basis: &Basis) -> bool {
        let tables = &self.tables;
        basis
            .seen
            .iter()
            .all(|(key, position)| tables.position(*key) == *position)
            && basis
                .names
                .iter()
                .all(|(name, holder)| tables.holder(*name) == *holder)
            && basis
                .lists
                .iter()
                .all(|(list, touched)| tables.list_touched(*list) == *touched)
    }

    /// The position on which an answer rests that changes nothing.
    pub(crate) fn rests_on(&self, basis: &Basis) -> u64 {
        let seen = basis.seen.iter().map(|(_, position)| *position);
        let holders = basis.names.iter().filter_map(|(_, holder)| *holder);
        let holders = holders.map(|holder| self.tables.position(holder));
        let lists = basis.lists.iter().map(|(_, touched)| *touched);
        let positions = seen.chain(holders).chain(lists);
        let highest = positions.fold(basis.durable_before, u64::max);
        // That nobody holds a name any more has no position of its own.
        if basis.names.iter().any(|(_, holder)| holder.is_none()) {
            return highest.max(self.journal.appended());
        }
        highest
    }

    /// Whether the actor with this subject may act. The fact that lets somebody act again is
    /// durable before anything follows on it.
    async fn may_act(&self, subject: &str) -> Result<MayAct, Reply> {
        let fact = Fact::<ActorFact>::KIND.key(&[subject]);
        let since = match self.lifecycle(fact) {
            Ok(since) => since,
            Err(refused) => return Err(self.refuse(refused.0, refused.1).await),
        };
        self.may_still_act(MayAct { fact, since }).await
    }

    /// Whether the actor may still act, asked after each wait: once its withdrawal is acknowledged
    /// nothing more is told or done for it, whatever was in flight. Between this and what is told
    /// there is no further wait.
    async fn may_still_act(&self, known: MayAct) -> Result<MayAct, Reply> {
        let MayAct { fact, mut since } = known;
        loop {
            if self.lanes.wait(since).await.is_err() {
                return Err(Reply::Unavailable);
            }
            if self.tables.position(fact) == since {
                return Ok(MayAct { fact, since });
            }
            since = match self.lifecycle(fact) {
                Ok(since) => since,
                Err(refused) => return Err(self.refuse(refused.0, refused.1).await),
            };
        }
    }

    /// The position of the fact that lets the actor act, 0 when nothing is known of the actor,
    /// which can only have been so before, too; or its refusal, and the position on which that
    /// rests.
    fn lifecycle(&self, fact: Digest) -> Result<u64, Box<(Rejection, u64)>> {
        let durable_before = self.journal.durable();
        let view = View::new(&self.tables);
        let known = view.at::<Fact<ActorFact>>(fact);
        let since = view.position(fact);
        let refusal = match known.map(|known| known.facts.lifecycle) {
            None | Some(ActorLifecycle::Active) => return Ok(since),
            Some(ActorLifecycle::Inactive) => ("actor_inactive", "The actor is inactive."),
            Some(ActorLifecycle::Withdrawn) => ("actor_withdrawn", "The actor has withdrawn."),
        };
        let rejection = Rejection::new(Class::Forbidden, refusal.0, refusal.1);
        Err(Box::new((rejection, durable_before.max(since))))
    }

    /// Reads into `view` that the actor may act, or is refused.
    fn read_lifecycle(
        &self,
        known: Option<MayAct>,
        view: &View<'_>,
    ) -> Result<(), Box<(Rejection, u64)>> {
        let Some(MayAct { fact, since }) = known else {
            return Ok(());
        };
        // As long as the fact stands where it stood it says what it said.
        if self.tables.position(fact) == since {
            view.note(fact, since);
        } else {
            view.note(fact, self.lifecycle(fact)?);
        }
        Ok(())
    }

    async fn execute(self: &Arc<Self>, call: Call, permit: Option<Permit>) -> Reply {
        if self.ended.load(Ordering::Acquire) {
            return Reply::Unavailable;
        }
        // Facts are put in place by an actor, too.
        let may_act = if call.row.is_none_or(|row| row.bearer) {
            match self.may_act(&call.actor.subject).await {
                Ok(may_act) => Some(may_act),
                Err(reply) => return reply,
            }
        } else {
            None
        };
        let mut order = Order {
            key: Box::default(),
            scope: call.actor.subject.clone(),
            key_digest: None,
            fingerprint: call.command.fingerprint(),
            born: self.mint.id(self.clock.now()),
            key_claim: None,
            permit,
            instead_of: None,
            may_act,
            call,
        };
        if let Some((key, scope, reused)) = key_of(&order.call) {
            let row = order.call.row;
            let digest = key_digest(row.map_or(0, |row| row.tag), &scope, &key);
            // While this is held, nobody else carries out a command with this key.
            let held = self.keys.hold(digest).await;
            if let Some(first) = self.tables.key(digest) {
                drop(held);
                let replay = self.replay(row, first, Some(order.fingerprint), may_act);
                return match replay.await {
                    Some(reply) => reply,
                    None => self.key_reused(&order, first, reused).await,
                };
            }
            order = Order {
                key,
                scope,
                key_digest: Some(digest),
                key_claim: Some(held),
                ..order
            };
        }
        self.decide(order).await
    }

    /// The answer of the commit at `first` again; `None` when its facts were others.
    async fn replay(
        &self,
        row: Option<&'static Row>,
        first: u64,
        fingerprint: Option<Fingerprint>,
        may_act: Option<MayAct>,
    ) -> Option<Reply> {
        let position = self.journal.durable().max(first);
        if self.lanes.wait(first).await.is_err() {
            return Some(Reply::OutcomeUnknown);
        }
        let stored = match self.stored(first, fingerprint).await {
            Ok(stored) => stored?,
            Err(error) => {
                tracing::error!(position = first, %error, "a stored answer cannot be read");
                return Some(Reply::Unavailable);
            }
        };
        let body = match row {
            Some(row) => row.operation.replayed(stored.body.to_vec()).into(),
            None => stored.body,
        };
        let since = match self.unless_gone(may_act).await {
            Ok(since) => since,
            Err(reply) => return Some(reply),
        };
        Some(Reply::Done {
            body,
            disposition: stored.disposition,
            replay: true,
            position: position.max(since),
        })
    }

    /// The position since which the actor may act, where somebody asks at all.
    async fn unless_gone(&self, may_act: Option<MayAct>) -> Result<u64, Reply> {
        match may_act {
            Some(may_act) => self.may_still_act(may_act).await.map(|still| still.since),
            None => Ok(0),
        }
    }

    /// Refuses a key that the commit at `first` took for other facts.
    async fn key_reused(&self, order: &Order, first: u64, code: &'static str) -> Reply {
        let call = &order.call;
        let mut rejection = Rejection::new(
            Class::Conflict,
            code,
            "The key was used before with other facts.",
        );
        let mut repeats = Repeats::default();
        let position = loop {
            let looked = {
                let durable_before = self.journal.durable().max(first);
                let view = View::new(&self.tables);
                self.read_lifecycle(order.may_act, &view).map(|()| {
                    rejection.body = call.command.key_reused(&call.actor, &view);
                    let basis = Self::basis(durable_before, &view);
                    let position = self.rests_on(&basis);
                    self.stood(&basis).then_some(position)
                })
            };
            match looked {
                Ok(Some(position)) => break position,
                Ok(None) => {}
                Err(refused) => return self.refuse(refused.0, refused.1).await,
            }
            if repeats.rest().await.is_err() {
                return Reply::Unavailable;
            }
        };
        self.refuse_unless_gone(rejection, position, order.may_act)
            .await
    }

    /// The answer stored at `first`; `None` when the command there had other facts.
    async fn stored(
        &self,
        first: u64,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Option<Stored>, String> {
        let stored = match self.recent.get(&first) {
            Some(stored) => stored,
            None => self.stored_in_log(first).await?,
        };
        let same = fingerprint.is_none_or(|fingerprint| fingerprint == stored.fingerprint);
        Ok(same.then_some(stored))
    }

    async fn stored_in_log(&self, first: u64) -> Result<Stored, String> {
        let bytes = self.record(first).await?;
        let record = Record::decode(&bytes).map_err(|error| error.to_string())?;
        let fingerprint = record.key.as_ref().map(|key| key.fingerprint);
        let earlier;
        let outcome = match record.outcome {
            // A second key of the same command: its facts are the first one's.
            RecordOutcome::SameAs(position) => {
                earlier = self.record(position).await?;
                let earlier = Record::decode(&earlier).map_err(|error| error.to_string())?;
                earlier.outcome
            }
            outcome => outcome,
        };
        match (outcome, fingerprint) {
            (
                RecordOutcome::Answer { accepted, body }
                | RecordOutcome::Instead { accepted, body, .. },
                Some(fingerprint),
            ) => Ok(Stored {
                fingerprint,
                body: Bytes::copy_from_slice(body.0),
                disposition: Disposition::from_accepted(accepted),
            }),
            _ => Err(format!("position {first} leads to no answer")),
        }
    }

    /// The bytes of the durable record at `position`, or what a snapshot kept of it.
    async fn record(&self, position: u64) -> Result<Vec<u8>, String> {
        let journal = Arc::clone(&self.journal);
        let read = tokio::task::spawn_blocking(move || journal.read(position));
        read.await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("position {position} is not in the log"))
    }

    async fn refuse(&self, rejection: Rejection, position: u64) -> Reply {
        if self.lanes.wait(position).await.is_err() {
            return Reply::Unavailable;
        }
        Reply::Refused {
            rejection: Box::new(rejection),
            position,
        }
    }

    /// Refuses, or tells whoever may not act any more that.
    async fn refuse_unless_gone(
        &self,
        rejection: Rejection,
        position: u64,
        may_act: Option<MayAct>,
    ) -> Reply {
        let refused = self.refuse(rejection, position).await;
        match self.unless_gone(may_act).await {
            Ok(_) => refused,
            Err(gone) => gone,
        }
    }

    /// Has the command decided by its resource's actor.
    async fn decide(self: &Arc<Self>, mut order: Order) -> Reply {
        let (row, may_act) = (order.call.row, order.may_act);
        loop {
            let (target, looked_up, names) = {
                let now = self.clock.now();
                let mint = self.mint.at(now);
                let context = self.context(&order, now, self.commit_times.at(now), &mint);
                let target = order.call.command.target(&context);
                (
                    target,
                    context.view.has_read(),
                    order.call.command.names(&context),
                )
            };
            // Held until the commit has taken them, or until it is clear that none will.
            let claims = names.iter().map(|name| name.0).collect();
            let name_claims = self.names.hold_all(claims).await;
            let (sender, receiver) = oneshot::channel();
            let job = Job {
                order,
                target,
                looked_up,
                names,
                name_claims,
                reply: sender,
                shared: Arc::clone(self),
            };
            match target {
                Some(target) => {
                    if let Err(error) = self.directory.dispatch(target, job).await {
                        tracing::error!(%error, "an actor cannot be woken");
                        return Reply::Unavailable;
                    }
                }
                // Without a resource there is nothing to change: decided here, to refuse.
                None => job.run(&mut resource::Slot::empty()).await,
            }
            match receiver.await {
                Ok((Verdict::Moved(back), _)) => order = *back,
                // The permit is held until the answer can leave.
                Ok((verdict, _permit)) => return self.answer(verdict, row, may_act).await,
                // The job is gone, and what became of it nobody knows: with the process that ends,
                // or with an actor that did.
                Err(_) if self.is_ending() => return Reply::OutcomeUnknown,
                Err(_) => return Reply::Fault,
            }
        }
    }

    /// Whether no more commands are taken, since the service ends or its log has failed.
    fn is_ending(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.lanes.has_failed()
    }

    /// Says loudly that the last commit lies ahead of the system's clock, when it does and was not
    /// told of late.
    pub(crate) fn tell_if_ahead(&self) {
        let ahead = self.commit_times.ahead_of(self.clock.now());
        if self.alarm.lock().is_due(ahead, self.clock.steady()) {
            tracing::error!(
                seconds = ahead.as_secs(),
                "the last commit lies ahead of the system's clock, which was set back, or ran ahead \
                 before: commits are recorded with that commit's time until the clock has come to \
                 it; tokens and rules go by the clock"
            );
        }
    }

    /// What surrounds a decision of `order` at `now`, which is recorded as made at `at`.
    pub(crate) fn context<'a>(
        &'a self,
        order: &'a Order,
        now: Instant,
        at: Instant,
        mint: &'a MintAt<'a>,
    ) -> Context<'a> {
        Context {
            actor: &order.call.actor,
            now,
            at,
            key: &order.key,
            fingerprint: order.fingerprint,
            born: order.born,
            external_directory: self.relay.is_external(),
            mint,
            view: View::new(&self.tables),
            fact_revision: crate::domain::fact_kinds::revision_of,
        }
    }

    async fn answer(
        &self,
        verdict: Verdict,
        row: Option<&'static Row>,
        may_act: Option<MayAct>,
    ) -> Reply {
        match verdict {
            Verdict::Committed {
                position, stored, ..
            } => {
                if self.lanes.wait(position).await.is_err() {
                    return Reply::OutcomeUnknown;
                }
                Reply::Done {
                    body: stored.body,
                    disposition: stored.disposition,
                    replay: false,
                    position,
                }
            }
            // The task that has it ends without a word when the process ends.
            Verdict::Delivering(answer) => answer.await.unwrap_or(Reply::OutcomeUnknown),
            Verdict::ReplayOf { first, position } => {
                if self.lanes.wait(position).await.is_err() {
                    return Reply::OutcomeUnknown;
                }
                match self.replay(row, first, None, may_act).await {
                    Some(Reply::Done {
                        body,
                        disposition,
                        replay,
                        ..
                    }) => Reply::Done {
                        body,
                        disposition,
                        replay,
                        position,
                    },
                    Some(other) => other,
                    // Whatever facts are there are the ones asked for.
                    None => Reply::Fault,
                }
            }
            Verdict::Answered { body, position } => {
                if self.lanes.wait(position).await.is_err() {
                    return Reply::Unavailable;
                }
                if let Err(gone) = self.unless_gone(may_act).await {
                    return gone;
                }
                Reply::Done {
                    body: body.into(),
                    disposition: Disposition::Done,
                    replay: false,
                    position,
                }
            }
            Verdict::Refused {
                rejection,
                position,
            } => self.refuse_unless_gone(rejection, position, may_act).await,
            Verdict::Unavailable => Reply::Unavailable,
            Verdict::Fault | Verdict::Moved(_) => Reply::Fault,
        }
    }

    async fn read(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
    ) -> Result<(Found, u64), Reply> {
        let may_act = self.may_act(&actor.subject).await?;
        let (found, position) = self.read_now(read, actor, path, may_act).await?;
        if self.lanes.wait(position).await.is_err() {
            return Err(Reply::Unavailable);
        }
        self.may_still_act(may_act).await?;
        found
            .map(|found| (found, position))
            .map_err(|rejection| Reply::Refused {
                rejection: Box::new(rejection),
                position,
            })
    }

    /// Reads what stands at one instant.
    async fn read_now(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
        may_act: MayAct,
    ) -> Result<(Result<Found, Rejection>, u64), Reply> {
        let mut repeats = Repeats::default();
        loop {
            let read = {
                let durable_before = self.journal.durable();
                let view = View::new(&self.tables);
                self.read_lifecycle(Some(may_act), &view).map(|()| {
                    let found = read(&ReadRequest {
                        actor,
                        path,
                        view: &view,
                        now: self.clock.now(),
                    });
                    let basis = Self::basis(durable_before, &view);
                    let position = self.rests_on(&basis);
                    self.stood(&basis).then_some((found, position))
                })
            };
            match read {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(refused) => return Err(self.refuse(refused.0, refused.1).await),
            }
            if repeats.rest().await.is_err() {
                return Err(Reply::Unavailable);
            }
        }
    }
}

/// How often a decision or a read is begun anew at once, with only a turn for others in between.
const REPEATS_AT_ONCE: u32 = 8;
/// The first pause after those; each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// How often one is begun anew at the most: within some five seconds.
const REPEATS_MAX: u32 = 100;

/// The pauses of a decision or a read that found its facts changed, time and again.
#[derive(Default)]
pub(crate) struct Repeats(u32);

/// It was begun anew so often that it is given up.
pub(crate) struct GivenUp;

impl Repeats {
    /// Gives others their turn before the next attempt, and more time the more often it was tried.
    ///
    /// # Errors
    /// [`GivenUp`] when it was tried often enough.
    pub(crate) async fn rest(&mut self) -> Result<(), GivenUp> {
        self.0 += 1;
        match self.0.checked_sub(REPEATS_AT_ONCE) {
            None | Some(0) => tokio::task::yield_now().await,
            Some(_) if self.0 >= REPEATS_MAX => {
                tracing::warn!("what was read has changed {REPEATS_MAX} times: it is given up");
                return Err(GivenUp);
            }
            Some(pauses) => {
                let pause = PAUSE_MIN * (1 << pauses.min(8));
                tokio::time::sleep(pause.min(PAUSE_MAX)).await;
            }
        }
        Ok(())
    }
}

/// The call's key, the scope it is unique in, and the code of its use with other facts.
fn key_of(call: &Call) -> Option<(Box<str>, Box<str>, &'static str)> {
    const REUSED: &str = "idempotency_key_reused";
    let subject = || call.actor.subject.clone();
    match call.row?.key {
        KeySource::None => None,
        KeySource::Header => Some((call.header_key.clone()?, subject(), REUSED)),
        KeySource::Body => Some((call.command.key()?.into(), subject(), REUSED)),
        KeySource::BodyOfAll { reused } => {
            Some((call.command.key()?.into(), Box::default(), reused))
        }
    }
}
