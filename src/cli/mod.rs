//! The commands of the command line.

pub mod signing;
pub mod token;
