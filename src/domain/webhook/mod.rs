//! Webhooks: events that are sent to a URL.
//!
//! A *subscription* says which types of events go to which URL. The state of its deliveries is a
//! resource of its own, since it changes while the subscription does not:
//!
//! ```text
//!  (none) ──create──▶ enabled ◀──update──▶ paused
//!                       │ the receiver answers 410      delete ──▶ (none)
//!                       ▼
//!                      gone ──update──▶ enabled, from the next event on
//! ```
//!
//! A secret signs each delivery. It is not stored: it is derived from a master key outside of the
//! log, from the subscription and the secret's number. Only the number is stored.

mod addressed;
pub mod body;
pub mod create_webhook_subscription;
pub mod delete_webhook_subscription;
pub mod deliveries;
pub mod lists;
pub mod read_subscription;
pub mod record_progress;
pub mod retry_webhook_delivery;
pub mod rotate_webhook_secret;
pub mod subscription;
pub mod update_webhook_subscription;
