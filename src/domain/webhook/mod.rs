//! Webhooks: events brought to a URL.
//!
//! A *subscription* says which types of events go to which URL. How far its deliveries are is a
//! resource of its own, since that changes while the subscription does not:
//!
//! ```text
//!  (none) ──create──▶ enabled ◀──update──▶ paused
//!                       │ the receiver answers 410      delete ──▶ (none)
//!                       ▼
//!                      gone ──update──▶ enabled, from the next event on
//! ```
//!
//! A secret signs what is delivered. It is not stored: it is derived from a master key outside of
//! the log, by the subscription and the secret's number, which is what is stored.

mod addressed;
pub mod body;
pub mod create;
pub mod delete;
pub mod deliveries;
pub mod lists;
pub mod read_subscription;
pub mod record_progress;
pub mod retry_delivery;
pub mod rotate_secret;
pub mod subscription;
pub mod update;
