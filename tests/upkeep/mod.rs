//! What operators do with a data directory: back it up, restore it, recover it.

mod backup;
mod backups;
mod ends;
mod recover;
pub(crate) mod versions;
