//! The tests of the log, through its public surface, on a simulated disk and on
//! a real one.
//!
//! Each is repeatable: `SEED=…` replays a random one. `SIZE=…` says how many
//! cases a campaign tries (docs/campaigns.md has the full sizes), `WAL_CAMPAIGN=…`
//! (default 1) multiplies the share of the others.
#![allow(clippy::unwrap_used)]

mod appending;
mod backup;
mod bits;
mod corruption;
mod crash;
mod disk_full;
mod faults;
mod files;
mod io_errors;
mod live;
mod lock;
mod mediums;
mod model;
mod mutations;
mod old_formats;
mod outcome;
mod past;
mod ranges;
mod recover;
mod seeding;
mod snapshots;
mod support;
mod synced_later;
mod tools;
mod upkeep;
mod workload;
