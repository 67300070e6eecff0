//! Lanes: a runtime for each processor, its gate of responses, and the directory of actors.

pub mod directory;
pub mod lane;
pub mod processors;
