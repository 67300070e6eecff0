//! What the engine holds and has done, as figures.

use std::time::Duration;

pub use wal::BATCH_BOUNDS;

use super::checkpointer::CheckpointFigures;
use super::core::Shared;
use super::outbox::OutboxFigures;
use super::readiness::Unready;
use super::role::Role;
use super::role::lag::Lag;

/// The engine's figures.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Resources.
    pub resources: usize,
    /// Idempotency keys.
    pub keys: usize,
    /// The highest durable position.
    pub durable: u64,
    /// Resources with an actor.
    pub live_actors: usize,
    /// Commands in flight.
    pub commands_in_flight: usize,
    /// Bytes of records that wait for the disk.
    pub queued_bytes: usize,
    /// How long batches of records took to be written and synced, in total.
    pub log_batch_time: Duration,
    /// How many of them took so long, in the buckets of [`BATCH_BOUNDS`] and one beyond.
    pub log_batches_by_time: [u64; BATCH_BOUNDS.len() + 1],
    /// The free space of the log's disk; `None` when the system does not tell.
    pub disk: Option<DiskFigures>,
    /// Why commands are not accepted.
    pub unready: Unready,
    /// Messages and their receivers.
    pub outbox: OutboxFigures,
    /// The checkpointer's figures.
    pub checkpoints: CheckpointFigures,
    /// Whether the log has room for commands.
    pub has_room: bool,
    /// How far the time of the last commit lies ahead of the system's clock.
    pub commits_ahead: Duration,
    /// What the engine is for.
    pub role: Role,
    /// How far it is behind, where it follows.
    pub lag: Option<Lag>,
    /// How many readers wait for a position, and how many have waited in vain.
    pub min_position: (usize, u64),
}

/// The disk of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Free bytes, when last looked at.
    pub free: u64,
    /// Free bytes below which commands are rejected.
    pub reserve: u64,
}

impl Shared {
    /// The figures of this moment.
    pub(super) fn figures(&self) -> Figures {
        let batches = self.journal.batches();
        Figures {
            resources: self.tables.resources(),
            keys: self.tables.keys(),
            durable: self.journal.durable(),
            live_actors: self.directory.live(),
            commands_in_flight: self.admission.in_flight(),
            queued_bytes: self.journal.queued_bytes(),
            log_batch_time: batches.time,
            log_batches_by_time: batches.by_time,
            disk: self.journal.known_space().map(|space| DiskFigures {
                free: space.free,
                reserve: space.reserve,
            }),
            unready: self.unready(),
            outbox: self.outbox.figures(self.both_clocks()),
            checkpoints: self.checkpointer.figures(),
            has_room: self.journal.has_room(),
            commits_ahead: self.commit_times.ahead_of(self.clock.now()),
            role: self.role.get(),
            lag: self.lag(),
            min_position: self.awaited.figures(),
        }
    }
}
