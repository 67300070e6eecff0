//! The network side of messages to other systems: their receivers, and their metrics.

pub mod figures;
pub mod receiver;
