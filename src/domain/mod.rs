//! The decisions of the service, and nothing else: pure functions from a state and a command to a
//! commit or a refusal. No clock, no randomness, no I/O, nothing asynchronous.
//!
//! Each group of resources has a folder. In it, each kind of resource has a file that says what the
//! resource is and how events change it: `state.rs` where a group has one main kind (`branch`,
//! `mother`, `payout`, `settlement`), otherwise a file of the kind's name. Each operation and each read
//! has a file of its own.

pub mod branch;
pub mod by_code;
pub mod change;
pub mod erased;
pub mod event;
pub mod event_id;
pub mod example;
pub mod fact_kinds;
pub mod family;
#[cfg(test)]
pub mod ladder;
pub mod listing;
pub mod mother;
pub mod operation;
pub mod outbox;
pub mod payment;
pub mod payment_words;
pub mod payout;
pub mod publication;
pub mod rank;
pub mod read;
pub mod reference;
pub mod registered;
pub mod rejection;
pub mod report;
pub mod reservation;
pub mod resource;
mod response_body;
pub mod sample_actors;
#[cfg(test)]
pub mod scenario;
pub mod settlement;
pub mod stored;
pub mod version;
pub mod webhook;
