//! Commands for a data directory: backup, restore, recovery, verification, and inspection of the log.

pub mod backup;
mod by_time;
pub mod compact;
mod cost;
mod export;
pub mod inspect;
mod lost;
pub mod recover;
pub mod restore;
pub mod verify;
