//! carebook, floor by floor, each standing on those before it.

pub mod base;
pub mod domain;
pub mod catalogue;
pub mod journal;
pub mod engine;
pub mod http;
pub mod cli;
