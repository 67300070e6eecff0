//! Appends for many threads: they queue records, one thread writes them to a medium.
//!
//! The journal thread takes all that is queued, has the medium make it durable as one batch,
//! reports that, and takes what has queued in the meantime.

mod events;
mod gathering;
mod handle;
mod journal;
mod queue;

pub use events::Events;
pub use handle::{Appender, Batches, OpenLog};
pub use queue::{BATCH_BOUNDS, Refused, Sequence};
