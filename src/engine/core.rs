//! What actors, connections and the log's thread share, and what passes between them.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;
use wal::Appender;

use super::admission::{Admission, Permit};
use super::checkpointer::Checkpointer;
use super::clock::{Alarm, Clock, CommitTimes, RunningTime};
use super::directory::Directory;
use super::feed::Feed;
use super::id_source::EngineIdSource;
use super::key_locks::{KeyLock, KeyLocks};
use super::lane::Lanes;
use super::relay::Relay;
use super::room::RoomWatch;
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::catalogue::Row;
use crate::domain::operation::{AnyCommand, Disposition};
use crate::domain::rejection::Rejection;
use crate::domain::resource::IndexKey;
use crate::journal::tables::Tables;

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
pub struct CommandRequest {
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
pub enum CommandResult {
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
    pub(super) fingerprint: Fingerprint,
    pub(super) body: Bytes,
    pub(super) disposition: Disposition,
}

#[derive(Clone)]
pub(super) struct StoredWeight;

impl quick_cache::Weighter<u64, Stored> for StoredWeight {
    fn weight(&self, _: &u64, stored: &Stored) -> u64 {
        64 + stored.body.len() as u64
    }
}

/// What actors, connections and the log's thread share.
pub(crate) struct Shared {
    pub(super) tables: Tables,
    pub(super) journal: Arc<Appender>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) keys: Arc<KeyLocks>,
    pub(super) names: Arc<KeyLocks>,
    pub(super) directory: Directory<Box<ActorMessage>>,
    pub(super) admission: Arc<Admission>,
    /// Of those in flight, how many may be facts.
    pub(super) facts: Arc<Admission>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) commit_times: CommitTimes,
    pub(super) running_time: RunningTime,
    pub(super) alarm: Mutex<Alarm>,
    pub(super) ids: EngineIdSource,
    pub(super) relay: Relay,
    pub(super) feed: Arc<Feed>,
    pub(super) checkpointer: Checkpointer,
    pub(super) room: RoomWatch,
    pub(super) recent: quick_cache::sync::Cache<u64, Stored, StoredWeight>,
    pub(super) limits: Limits,
    pub(super) ended: AtomicBool,
    /// Told of each commit's share of the log's sequencer, where somebody measures it.
    pub(super) on_sequenced: OnceLock<OnSequenced>,
}

/// A commit and the log's sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequenced {
    /// The commit has the sequencer from here on: all others wait for it.
    Taken,
    /// It has given it back, after [`Sequenced::Taken`] on the same thread. Of one that is not made
    /// after all, this is not told.
    GivenBack,
}

/// Told of each commit's share of the log's sequencer.
pub type OnSequenced = Box<dyn Fn(Sequenced) + Send + Sync>;

/// That an actor may act, and since when: what is decided and told for it rests on that.
#[derive(Clone, Copy)]
pub(crate) struct MayAct {
    /// The key of the fact that says so.
    pub(super) fact: Digest,
    /// The position of that fact's last commit; 0 when nothing is known of the actor.
    pub(super) since: u64,
}

/// A command with what belongs to it until it is decided and published, whether or not somebody
/// still waits for its answer.
pub(crate) struct PendingCommand {
    pub(super) call: CommandRequest,
    /// The idempotency key, its scope and its digest; empty where there is none.
    pub(super) key: Box<str>,
    pub(super) scope: Box<str>,
    pub(super) key_digest: Option<Digest>,
    pub(super) fingerprint: Fingerprint,
    /// The identifier of the resource that it brings into being.
    pub(super) born: Uuid,
    /// The claim on its key.
    pub(super) key_lock: Option<KeyLock>,
    /// Its place among the commands in flight.
    pub(super) permit: Option<Permit>,
    /// The position of the commit that holds its key by now, and whose answer, which nobody was
    /// told yet, its own takes the place of.
    pub(super) instead_of: Option<u64>,
    /// That whoever asks may act; `None` where nobody asks.
    pub(super) may_act: Option<MayAct>,
}

/// The state that an actor has at hand between two commands, and where it was committed.
#[derive(Default)]
pub(crate) struct CachedState {
    pub(super) state: Option<Box<dyn Any + Send>>,
    pub(super) position: u64,
}

/// A command on its way to its resource's actor.
pub(crate) struct ActorMessage {
    pub(crate) order: PendingCommand,
    pub(crate) target: Option<Digest>,
    /// Whether the target was found by looking something up, which may have changed since.
    pub(crate) looked_up: bool,
    /// The names that are held for the command, and their locks.
    pub(crate) names: Vec<IndexKey>,
    pub(crate) index_locks: Vec<KeyLock>,
    pub(crate) reply: oneshot::Sender<(ActorResult, Option<Permit>)>,
    pub(crate) shared: Arc<Shared>,
}

/// What the actor made of a command. None of it may leave the process before its position is
/// durable.
pub(crate) enum ActorResult {
    Committed {
        position: u64,
        stored: Stored,
        /// The deliveries of a branch that was created, when an external directory has to be told.
        to_deliver: Option<Digest>,
    },
    /// The directory is being told: the answer comes from there.
    Delivering(oneshot::Receiver<CommandResult>),
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
    /// Nothing was done: no room on the disk, or the log has ended.
    Unavailable,
    /// Nothing was done: a fault of ours.
    Fault,
    /// Nothing was done: the command concerns another resource by now.
    Moved(Box<PendingCommand>),
}

impl Shared {
    /// Tells whoever measures it.
    pub(super) fn tell_sequenced(&self, sequenced: Sequenced) {
        if let Some(told) = self.on_sequenced.get() {
            told(sequenced);
        }
    }

    /// Whether the log has room for a command; where it has none, that is told.
    pub(super) fn has_room(&self) -> bool {
        let has_room = self.journal.has_room();
        if !has_room {
            self.room.refused(self.journal.lack().as_ref());
        }
        has_room
    }

    /// Tells whether there is room, where that has changed or has to be told again.
    pub(super) fn look_for_room(&self) {
        self.room.look(self.journal.lack().as_ref());
    }

    /// Whether no more commands are taken, since the service ends or its log has failed.
    pub(super) fn is_ending(&self) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_answers_take_no_more_than_their_bytes_whatever_their_number() {
        let cache = quick_cache::sync::Cache::with_weighter(1_000, 10_000, StoredWeight);
        let stored = |bytes| Stored {
            fingerprint: Fingerprint([0; 32]),
            body: Bytes::from(vec![b' '; bytes]),
            disposition: Disposition::Done,
        };
        cache.insert(0, stored(100));
        assert_eq!(cache.weight(), 164);
        for position in 1..1_000 {
            cache.insert(position, stored(100));
        }
        assert!((1..=60).contains(&cache.len()), "{}", cache.len());
    }
}
