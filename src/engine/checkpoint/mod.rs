//! Snapshots and the upkeep of the log: how snapshots are taken, the estimate of their size, the compaction after
//! them, and the pauses of this work.

mod log_upkeep;
mod snapshot_size;
mod snapshots;
mod work_pauses;
