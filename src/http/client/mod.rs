//! Connections of this service as a client: the look-up of names, and dialing.

pub mod dial;
mod lookups;
pub mod room;
