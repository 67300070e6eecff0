//! Words that everybody uses.

pub mod actor;
