//! A simulated disk, for tests.
//!
//! It keeps apart what a running system sees and what is on the disk: bytes (in
//! sectors of 512), lengths and names become durable by their own syncs only.
//! Its power can be cut before any call that changes something; what survives
//! is then chosen: nothing that was not synced, everything, one single change,
//! or a random part of the changes. It can fail any call, write short and run full.

mod disk;
mod files;
mod state;

pub use disk::SimDisk;
pub use state::{Call, Fault, SECTOR_BYTES, Survivors};
