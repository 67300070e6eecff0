//! What operators do with a data directory: back it up, restore it, recover it.

mod backup;
mod backups;
mod recover;
mod versions;
