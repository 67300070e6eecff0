//! Snapshots and the upkeep of the log: how they are taken, how large one may be, what of the log is
//! removed afterwards, and at which pace.

mod log_upkeep;
mod snapshot_size;
mod snapshots;
mod work_pauses;
