//! The journal on a replicated stream of NATS JetStream: acknowledged records are on several machines, and the
//! directory holds a copy of them.
//!
//! `message` defines the format of messages, `chain` their order, and `settings` the required settings of the stream.
//! `connection` sends requests to the servers, and `health` knows whether it is up. `append` appends one message, again
//! until its outcome is known, and `flight` several, each of which expects its predecessor; `predecessor` checks that
//! the stream has that predecessor. `handle` is the process's handle of the stream: it fences the previous writer,
//! appends, and ends when it is not the writer any more. `message_builder` creates its messages, and `confirmations`
//! knows which of them prove that it still is the writer. `maintenance` appends barriers for requests that wait for
//! one, `barrier_rate` limits their number, `room` knows the free space of the stream, and `figures` has the counters.
//! `snapshot_store` keeps the journal's snapshots in the servers' object store, `listing` is the list of them, `purge`
//! removes messages that they contain from the stream, and `extent` determines the remaining ones. `reader` reads
//! messages in order, and `continuity` checks that the stream still has what was read. `beginning` checks that nobody
//! else has removed messages from the stream's beginning. `cache` compares the directory with the stream and adds
//! missing records, and `bootstrap` fills an empty directory from a snapshot. `log` combines stream and directory into
//! the log of an engine. `lease` determines when a standby takes over, and `lease_term` until when this process has the
//! lease; `visitor` defines the visitor of directory and stream. Nothing here knows the meaning of a record.

mod append;
mod barrier_rate;
pub mod beginning;
mod bootstrap;
pub mod cache;
pub mod chain;
mod confirmations;
pub mod connection;
pub mod continuity;
pub mod error;
pub mod extent;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod fake;
pub mod figures;
mod flight;
pub mod handle;
mod health;
pub mod holder;
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
pub mod snapshot_store;
pub mod visitor;
