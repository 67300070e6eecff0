//! This service as a client of others: the look-up of names, the addresses that it may send to, dialing, and the
//! signatures of what it sends.

pub mod address;
pub mod dial;
pub(in crate::http) mod drains;
mod lookups;
pub mod room;
pub mod signature;
