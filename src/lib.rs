//! carebook, floor by floor, each standing on those before it.

pub mod base;
pub mod catalogue;
pub mod cli;
pub mod domain;
pub mod engine;
pub mod http;
pub mod journal;
