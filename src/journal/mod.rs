//! The form of a commit in the log, and replay.
//!
//! The log itself, the crate `wal`, knows bytes and positions; here they become commits.

mod at_once;
pub mod bases;
pub mod births;
pub mod counters;
pub mod events;
pub mod followed;
mod found;
mod keeping;
pub mod key_use;
mod key_uses;
mod lane;
pub mod messages;
pub mod past;
pub mod personal;
pub mod record;
pub mod replay;
pub mod replay_error;
mod rules;
pub mod snapshot;
#[cfg(test)]
mod stored_types;
pub mod tables;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod versions;
mod workers;
