//! The front: what comes in over the network and what goes out.

pub mod token;
