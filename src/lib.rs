//! carebook: reservation payments, settlement and branch administration for a care-service
//! platform, as one process that keeps its state in memory and its history in a log.
//!
//! This is a tour of the modules, floor by floor. A floor uses the floors before it, never a later
//! one.
//!
//! 1. [`base`]: the vocabulary of all other floors: time, bounded text, revisions, digests, the
//!    actor, JSON of requests, and the codec. Knows no reservation and no HTTP; reads no clock, no
//!    file, no socket.
//! 2. [`domain`]: what the service decides. A decision is a pure function of a state, a command,
//!    what surrounds it (the actor, the time, fresh identifiers) and a read-only view of committed
//!    state; its result is a commit, an answer or a rejection. Each operation has a file of its
//!    own, each resource's state too. Knows no status code, no log, nothing asynchronous.
//! 3. [`catalogue`]: the one table of operations, reads, kinds of resources and kinds of facts.
//!    Routes, log, documents and tests read it; no other module lists them.
//! 4. [`journal`]: the form of a commit in the log and in a snapshot, their replay, and the tables
//!    that hold the replayed state. Knows records and positions, not who sends requests or who
//!    waits.
//! 5. [`engine`]: the way from a command to a durable answer. Finds or starts the resource's actor,
//!    orders commits, holds responses back until what they depend on is durable, takes snapshots
//!    meanwhile. Only the engine gives a decision its time and its fresh identifiers. Knows nothing
//!    of HTTP.
//! 6. [`stream`]: the journal on a replicated stream, used instead of a journal in a directory
//!    alone: one writer at a time, which the next writer fences. Knows the bytes of records and not
//!    what they mean.
//! 7. [`http`]: the front. Connections, tokens, strict bodies, and the one place where a class of
//!    rejection becomes a status.
//! 8. [`cli`]: the commands, their arguments, their exit codes.
//!
//! Beside the floors is the crate `wal`, a log of bytes that knows nothing of carebook. The engine
//! appends to it, directly or through `stream`. `cli` opens it, and so skips the floors between: a
//! directory is recovered before there is an engine, and checked without one.
//!
//! Tests may use later floors: the domain's own tests find their operations in the catalogue, so
//! that they fail when a row is missing.

pub mod base;
pub mod catalogue;
pub mod cli;
pub mod domain;
pub mod engine;
pub mod http;
pub mod journal;
pub mod stream;
