//! Limits of concurrent work: commands, readings of the log, reads of past states. Beside them the key locks, and the
//! pauses before a command or a read is repeated.

pub mod admission;
pub(super) mod fair_queue;
pub mod key_locks;
pub(super) mod readings;
pub(super) mod repeats;
