//! This service as a client of others: the look-up of names, the addresses that it may send to, dialing, and the signed
//! requests that deliver webhooks and messages.

pub mod address;
pub mod dial;
mod lookups;
pub mod post;
pub mod signature;
