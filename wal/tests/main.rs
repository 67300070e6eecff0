//! The tests of the log, through its public surface, on a simulated disk and on
//! a real one.
//!
//! Each is repeatable: `SEED=…` replays a random one, `WAL_CAMPAIGN=…` (default
//! 1) multiplies the share that is tried.
#![allow(clippy::unwrap_used)]

mod appending;
mod corruption;
mod crash;
mod disk_full;
mod live;
mod lock;
mod model;
mod old_formats;
mod snapshots;
mod support;
mod upkeep;
