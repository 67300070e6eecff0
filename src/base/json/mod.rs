//! JSON as it comes in: read strictly, every fault of a body found at once, each with its place.
//!
//! A body is first parsed into a [`Json`] tree that borrows from the bytes and keeps what a map
//! would hide (repeated members, numbers that are no integers); then a [`FromJson`] reads itself
//! from the tree and tells a [`Reader`] of each fault on the way. [`json_object!`] writes that for a
//! struct, so that a request's shape stands in one place.
//!
//! [`json_object!`]: crate::members

mod canonical;
mod fault;
mod members;
mod reader;
mod shape;
mod value;

pub use canonical::{AnyObject, canonical_text};
pub use fault::{Fault, FaultCode};
pub use members::{AtLeast, AtMost, NonEmpty, Nullable, refuse_repeats};
pub use reader::{FAULTS_MAX, FromJson, Reader, member};
pub use shape::{Field, Presence, Shape};
pub use value::{Json, Malformed, NESTING_MAX, VALUES_MAX};
