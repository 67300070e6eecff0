//! Commands for a data directory: backups and restores, recovery, checks, and looks into the log.

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
