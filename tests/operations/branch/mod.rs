//! Branches, seen from outside.

mod create;
mod durable_first;
