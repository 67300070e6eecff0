//! The journal on a replicated stream of NATS JetStream: what is acknowledged is on several
//! machines, and the directory holds a copy of it.
//!
//! `message` says what a message is, `chain` what has to come after what; `settings` what the
//! stream has to be set to. `connection` asks the servers, and `health` knows whether it is up;
//! `append` appends one message, again until it is known what became of it, and `flight` several, each
//! of which expects the one before it; `predecessor` sees that the stream has what a message is to
//! follow; `link` is the process's hold on the stream: it fences the writer before, appends, and ends
//! when it is not the writer any more; `message_builder` makes its messages, and `confirmations`
//! knows which of them show that it still is the writer; `maintenance` appends barriers for those
//! that wait for one, `barrier_rate` bounds how many, `room` says whether the stream takes more, and
//! `figures` counts. `snapshot_store` keeps its snapshots in the servers' object store, `listing` is
//! the list of them, `purge` removes from the stream what they have, and `extent` says what is left.
//! `reader` reads messages in order; `cache` compares the directory with the stream and fills up what
//! it lacks, and `bootstrap` begins an empty one with a snapshot; `log` puts stream and directory
//! together as the log of an engine; `lease` says when a standby takes over, `lease_term` until when
//! this process has it; `shown` shows what is there. Nothing here knows what a record means.

mod append;
mod barrier_rate;
mod bootstrap;
pub mod cache;
pub mod chain;
mod confirmations;
pub mod connection;
pub mod error;
pub mod extent;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod fake;
pub mod figures;
mod flight;
pub mod handle;
mod health;
pub mod lease;
pub mod lease_term;
pub mod listing;
pub mod log;
pub mod maintenance;
pub mod message;
mod message_builder;
mod predecessor;
pub mod purge;
pub mod reader;
mod room;
pub mod settings;
pub mod shown;
pub mod snapshot_store;
