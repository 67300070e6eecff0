//! Bounds of what is under way at once: commands, readings of the log, looks at the past. Beside them
//! the locks of keys, and the pauses before a command or a read is repeated.

pub mod admission;
pub(super) mod fair_queue;
pub mod key_locks;
pub(super) mod readings;
pub(super) mod repeats;
