//! The list of the segments that make up the log. Replaced as a whole: written
//! beside, synced, renamed, directory synced.

mod layout;
mod store;
mod types;

#[cfg(feature = "fuzzing")]
pub(crate) use layout::encodes_as_it_parses;
pub(crate) use store::remove_if_there;
pub use types::{Ancestor, Identity};
pub(crate) use types::{Manifest, SNAPSHOTS_MAX, Seal, Sealed, Segment, Snapshot};
