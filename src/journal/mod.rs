//! Commits as records in the log, and replay.
//!
//! The log itself, the crate `wal`, handles bytes and positions; this module gives them the meaning of commits.

pub mod apply;
pub mod bases;
pub mod counters;
pub mod events;
mod keeping;
pub mod key_use;
mod key_uses;
pub mod lineage;
pub mod messages;
mod parallel;
pub mod past;
pub mod personal;
pub mod record;
pub mod replay;
pub mod replay_error;
mod replay_thread;
mod rules;
mod shard_entries;
pub mod snapshot;
#[cfg(test)]
mod stored_types;
pub mod tables;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod versions;
mod workers;
