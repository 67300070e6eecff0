//! What was acknowledged is never lost, and what was refused leaves nothing: with the process
//! killed, the disk failing, full or damaged, under load beyond its bounds, and at a stop.
//!
//! Every test has a small share by default; the campaigns take more from the environment:
//!
//! ```text
//! KILL_ROUNDS=100 cargo test --release --test main durability::kill:: -- --nocapture
//! KILL_ROUNDS=1000 cargo test --release --test main durability::kill_all -- --nocapture
//! HISTORIES=100 cargo test --release --test main durability::history -- --nocapture
//! DISK_FULL_ROUNDS=50 cargo test --release --test main durability::disk_full -- --nocapture
//! STRACE_CASES=100 cargo test --release --test main durability::io_errors -- --nocapture
//! EVERY_BIT=1 cargo test --release --test main durability::damage -- --nocapture
//! SNAPSHOT_KILL_ROUNDS=100 cargo test --release --test main durability::snapshots -- --nocapture
//! CLOCK_JUMPS=20000 cargo test --release --test main durability::times -- --nocapture
//! START_KILLS=500 cargo test --release --test main durability::start -- --nocapture
//! TOOL_KILLS=2000 cargo test --release --test main durability::tools -- --nocapture
//! ```
//!
//! `SEED` plays a run's choices again (what the scheduler does with them is its own affair).

mod batches;
mod bounds;
pub mod chronicle;
pub mod crowd;
mod damage;
mod disconnect;
mod disk_full;
mod history;
mod inside;
mod io_errors;
mod kill;
mod kill_all;
pub mod load;
mod moved;
mod panics;
mod retention;
mod room;
mod sequencer;
mod snapshots;
mod start;
mod stop;
pub mod sync_failure;
mod times;
mod tools;
mod withdrawal;

/// Arguments of a server that takes snapshots often.
const SNAPSHOT_OFTEN: &[&str] = &["--snapshot-log-bytes", "65536", "--log-retention", "0s"];

/// A number from the environment, or the default share.
fn share(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
