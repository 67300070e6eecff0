//! Figures of the engine's content and work, for monitoring.

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
    /// Number of resources.
    pub resources: usize,
    /// Number of idempotency keys.
    pub keys: usize,
    /// The highest durable position.
    pub durable: u64,
    /// Number of resources with an actor.
    pub live_actors: usize,
    /// Number of commands in flight.
    pub commands_in_flight: usize,
    /// Bytes of records that wait for the disk.
    pub queued_bytes: usize,
    /// Total time to write and sync batches of records.
    pub log_batch_time: Duration,
    /// Number of batches by duration, in the buckets of [`BATCH_BOUNDS`] and one beyond.
    pub log_batches_by_time: [u64; BATCH_BOUNDS.len() + 1],
    /// Free space of the log's disk; `None` when the system does not report it.
    pub disk: Option<DiskFigures>,
    /// Reasons why commands are not accepted.
    pub unready: Unready,
    /// Messages and their receivers.
    pub outbox: OutboxFigures,
    /// The checkpointer's figures.
    pub checkpoints: CheckpointFigures,
    /// Whether the log has room for commands.
    pub has_room: bool,
    /// How far the time of the last commit lies ahead of the system's clock.
    pub commits_ahead: Duration,
    /// Role of the engine.
    pub role: Role,
    /// How far a standby is behind its writer.
    pub lag: Option<Lag>,
    /// Number of readers that wait for a position, and of those that waited in vain.
    pub min_position: (usize, u64),
}

/// The disk of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Free bytes at the last check.
    pub free: u64,
    /// Free bytes below which commands are rejected.
    pub reserve: u64,
}

impl Shared {
    /// Collects the present figures.
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
