//! carebook, floor by floor, each standing on those before it.

pub mod base;
pub mod catalogue;
pub mod domain;
