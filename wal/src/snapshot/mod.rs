//! Snapshots: files that replace all records up to a position, so that a log
//! need not be read from its first record, nor kept for ever.
//!
//! The content of a snapshot is the caller's business, except for its order: first the *kept
//! records*, with their positions, which hold what the caller wants to read again of records that
//! the log will lose; then the *entries*, which are bytes.

mod ahead;
mod estimate;
mod kept;
mod layout;
mod read;
mod target;
mod write;

pub use estimate::SizeEstimate;
pub(crate) use kept::Kept;
#[cfg(feature = "fuzzing")]
pub(crate) use layout::mend;
pub(crate) use read::{Shown, introduce, is_of, log_of, show, show_by_two};
pub use target::{SnapshotTarget, SnapshotWriter};
pub(crate) use write::{Finished, SnapshotFile};
