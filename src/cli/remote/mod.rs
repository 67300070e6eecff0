//! Commands that call a running server, and the client that they share.

pub mod client;
pub mod events;
pub mod facts;
pub mod outbox;
mod place;
mod refusal;
pub mod upload;
