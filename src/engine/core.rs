//! State shared by actors, connections and the log's thread, and the messages between them.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;
use wal::Appender;

use super::channel::Now;
use super::checkpointer::Checkpointer;
use super::clock::{Alarm, Clock, CommitTimes, RunningTime};
use super::feed::Feed;
use super::id_source::EngineIdSource;
use super::lanes::directory::Directory;
use super::lanes::lane::Lanes;
use super::limits::admission::{Admission, Permit};
use super::limits::fair_queue::FairQueue;
use super::limits::key_locks::{KeyLock, KeyLocks};
use super::log_space::room::RoomWatch;
use super::outbox::Outbox;
use super::position_waiters::PositionWaiters;
use super::publisher_counts::PublisherCounts;
use super::recent::{RecentAnswers, Stored};
use super::role::RoleNow;
use super::role::lag::Standby;
use super::role::writer_proof::OwnWriterProof;
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint, KeyDigest};
use crate::catalogue::Row;
use crate::domain::erased::AnyCommand;
use crate::domain::index::IndexKey;
use crate::domain::operation::Disposition;
use crate::domain::rejection::Rejection;
use crate::journal::tables::Tables;

/// Limits of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of commands in flight; further ones are rejected.
    pub commands_max: usize,
    /// Maximum bytes of records that wait for the disk; beyond it, commands are rejected.
    pub queued_bytes_max: usize,
    /// Maximum bytes of answers that changed nothing and wait until what they rest on is durable; beyond it, such
    /// commands are rejected.
    pub waiting_bytes_max: usize,
    /// Number of the newest responses kept in memory for replays.
    pub recent_max: usize,
    /// Bytes of the largest record that the log accepts, at most
    /// [`RECORD_BYTES_MAX`](crate::base::codec::RECORD_BYTES_MAX). A command that would make a
    /// larger one is invalid.
    pub record_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            commands_max: 4_096,
            queued_bytes_max: 64 << 20,
            waiting_bytes_max: 64 << 20,
            recent_max: 2_048,
            record_bytes_max: crate::base::codec::RECORD_BYTES_MAX,
        }
    }
}

/// A command as it enters the engine.
pub struct CommandRequest {
    /// Row of the operation in the catalogue; `None` for a reference fact and for the service's own reports.
    pub row: Option<&'static Row>,
    /// Sender of the command.
    pub actor: Arc<Actor>,
    /// The command.
    pub command: Box<dyn AnyCommand>,
    /// Idempotency key from the header, where the operation has it there.
    pub header_key: Option<Box<str>>,
}

/// What becomes of a command's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is committed.
    Commit,
    /// It is not committed: the response is the one that the command would have got, with examples in place of fresh
    /// identifiers.
    DryRun,
}

/// The result of a command.
#[derive(Debug)]
pub enum CommandResult {
    /// The command is done, and durable.
    Done {
        /// The response body.
        body: Bytes,
        /// Whether side effects are still pending.
        disposition: Disposition,
        /// Whether this is the stored response of an earlier command.
        replay: bool,
        /// The position that the response depends on.
        position: u64,
    },
    /// The command is rejected.
    Refused {
        /// Reason of the rejection.
        rejection: Box<Rejection>,
        /// The position that the rejection depends on.
        position: u64,
    },
    /// The command was rejected because of the load, before any work.
    Overloaded,
    /// Nothing was done: the disk has no room, or the service is stopping.
    Unavailable,
    /// Nothing was done: this engine is a standby, and the client must ask the writer.
    NotWriter,
    /// The command may or may not have been committed.
    OutcomeUnknown,
    /// An internal error; nothing was done.
    Fault,
}

/// State shared by actors, connections and the log's thread.
pub(crate) struct Shared {
    pub(super) tables: Tables,
    pub(super) journal: Arc<Appender>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) keys: Arc<KeyLocks>,
    pub(super) unique_keys: Arc<KeyLocks>,
    pub(super) directory: Directory<Box<ActorMessage>>,
    pub(super) admission: Arc<Admission>,
    /// Admission of facts: their share of the commands in flight.
    pub(super) facts: Arc<Admission>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) commit_times: CommitTimes,
    pub(super) running_time: RunningTime,
    pub(super) alarm: Mutex<Alarm>,
    pub(super) ids: EngineIdSource,
    pub(super) log_id: [u8; 16],
    pub(super) outbox: Outbox,
    pub(super) feed: Arc<Feed>,
    pub(super) published: PublisherCounts,
    pub(super) checkpointer: Checkpointer,
    pub(super) room: RoomWatch,
    /// Queue of reads of past states.
    pub(super) past_queue: Arc<FairQueue>,
    /// Budget of the bytes of answers that changed nothing and wait until what they rest on is durable.
    pub(super) waiting_answers: Arc<Admission>,
    pub(super) recent: RecentAnswers,
    pub(super) limits: Limits,
    pub(super) ended: AtomicBool,
    pub(super) role: RoleNow,
    pub(super) writer_proof: OwnWriterProof,
    pub(super) standby: Standby,
    pub(super) awaited: Arc<PositionWaiters>,
    /// When the engine was started, by the steady clock.
    pub(super) began: Duration,
    /// Whether webhooks may go over plain HTTP to other machines.
    pub(super) plain_webhooks: AtomicBool,
    /// Notified of how long each commit holds the log's sequencer, for measurements.
    pub(super) on_sequenced: OnceLock<OnSequenced>,
}

/// Whether a commit holds the log's sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequenced {
    /// The commit has taken the sequencer: all others wait for it.
    Taken,
    /// The commit has released the sequencer, after [`Sequenced::Taken`] on the same thread. Not reported for an
    /// attempt that ends without a commit.
    GivenBack,
}

/// Notified of how long each commit holds the log's sequencer.
pub type OnSequenced = Box<dyn Fn(Sequenced) + Send + Sync>;

/// An actor's permission to act, and the commit that it dates from: every decision and response for the actor depends
/// on it.
#[derive(Clone, Copy)]
pub(crate) struct MayAct {
    /// Key of the fact that grants the permission.
    pub(super) fact: Digest,
    /// The position of that fact's last commit; 0 when there is no fact about the actor.
    pub(super) since: u64,
}

/// A command and its resources until it is decided and published, whether or not the client still waits for the
/// response.
pub(crate) struct PendingCommand {
    pub(super) mode: Mode,
    pub(super) request: CommandRequest,
    /// Tag of the operation, as it is recorded; 0 for a reference fact.
    pub(super) operation: u16,
    /// The idempotency key, its scope and its digest; empty if there is none.
    pub(super) key: Box<str>,
    pub(super) scope: Box<str>,
    pub(super) key_digest: Option<KeyDigest>,
    pub(super) fingerprint: Fingerprint,
    /// Identifier of the resource that the command creates, if any.
    pub(super) born: Uuid,
    /// Lock on the command's idempotency key.
    pub(super) key_lock: Option<KeyLock>,
    /// Permit of the command among those in flight.
    pub(super) permit: Option<Permit>,
    /// The actor's permission; `None` for operations without a token.
    pub(super) may_act: Option<MayAct>,
}

impl PendingCommand {
    /// Whether a command that was recorded with this fingerprint had the same content.
    pub(super) fn has_content_of(&self, recorded: Fingerprint) -> bool {
        recorded == self.fingerprint || self.request.command.fingerprint_as_sent() == Some(recorded)
    }
}

/// The decoded state that an actor keeps between two commands, and its position.
#[derive(Default)]
pub(crate) struct CachedState {
    pub(super) state: Option<Box<dyn Any + Send>>,
    pub(super) position: u64,
}

/// A command on its way to its resource's actor.
pub(crate) struct ActorMessage {
    pub(crate) pending: PendingCommand,
    pub(crate) target: Option<Digest>,
    /// Whether the target was found by a lookup whose result may have changed since.
    pub(crate) looked_up: bool,
    /// The unique keys that the command may take, and their locks.
    pub(crate) unique_keys: Vec<IndexKey>,
    pub(crate) index_locks: Vec<KeyLock>,
    pub(crate) reply: oneshot::Sender<(ActorResult, Option<Permit>)>,
    pub(crate) shared: Arc<Shared>,
}

/// The result of a command in its actor. No part of it may leave the process before its position is durable.
pub(crate) enum ActorResult {
    Committed {
        position: u64,
        stored: Stored,
        /// Numbers of the messages whose receivers the response waits for.
        awaited: Vec<i64>,
    },
    /// The command's messages are being delivered; the response arrives here.
    AwaitingReceivers(oneshot::Receiver<CommandResult>),
    ReplayOf {
        first: u64,
        position: u64,
    },
    Answered {
        body: Vec<u8>,
        position: u64,
    },
    Refused {
        rejection: Rejection,
        position: u64,
    },
    /// Nothing was done: the disk has no room, or the log has ended.
    Unavailable,
    /// The outcome cannot be determined at present.
    OutcomeUnknown,
    /// Nothing was done: an internal error.
    Fault,
    /// Nothing was done: the command concerns another resource by now.
    Moved(Box<PendingCommand>),
}

impl Shared {
    /// Notifies the measurement, if there is one.
    pub(super) fn report_sequenced(&self, sequenced: Sequenced) {
        if let Some(listener) = self.on_sequenced.get() {
            listener(sequenced);
        }
    }

    /// Whether the log has room for a command; a lack of room is logged.
    pub(super) fn has_room(&self) -> bool {
        let has_room = self.journal.has_room();
        if !has_room {
            self.room.refused(self.journal.lack().as_ref());
        }
        has_room
    }

    /// Logs whether the log has room, if that has changed or the report is due again.
    pub(super) fn look_for_room(&self) {
        self.room.look(self.journal.lack().as_ref());
    }

    /// Returns the present, by both clocks.
    pub(super) fn both_clocks(&self) -> Now {
        self.present(self.clock.steady())
    }

    /// Returns the present, given the caller's time of the steady clock.
    pub(super) fn present(&self, steady: Duration) -> Now {
        let wall = self.clock.now();
        Now {
            steady,
            wall,
            committed: self.commit_times.at(wall),
        }
    }

    /// Whether no more commands are accepted, because the service is stopping or its log has
    /// failed.
    pub(super) fn is_ending(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.lanes.has_failed()
    }

    /// Logs that the last commit lies ahead of the system's clock, if it does and that was not
    /// logged recently.
    pub(crate) fn warn_if_ahead(&self) {
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
}
