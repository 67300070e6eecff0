//! JSON requests: parsed strictly, every fault of a body found at once, each with its path.
//!
//! A body without a fault, as most are, is read straight from its bytes into a [`FromJson`] type
//! ([`read_straight`]). Any other body is parsed into a [`Json`] tree that borrows from the bytes and
//! keeps what a map would hide (duplicate fields, numbers that are not integers); then the same type
//! reads itself from the tree and reports each fault to a [`Reader`]. [`json_object!`] generates both
//! ways for a struct, so that a request's shape is declared in one place.
//!
//! [`json_object!`]: crate::json_object

mod canonical;
mod differences;
mod fault;
mod faults;
mod fields;
mod from_json;
mod plain;
mod reader;
mod scanner;
mod schema;
mod shape;
mod value;
mod writer;

pub use canonical::AnyObject;
pub use differences::{Difference, differences};
pub use fault::{Fault, FaultCode};
pub use faults::{FAULTS_MAX, Faults};
pub use fields::{AtLeast, AtMost, NonEmpty, Nullable, QueryInteger, all_differ, refuse_repeats};
pub use from_json::{FromJson, field, read_straight};
pub use reader::Reader;
pub use scanner::{Scanner, texts_of};
pub use schema::{Side, nullable};
pub use shape::{Field, Personal, Presence, Shape};
pub use value::{Json, Malformed, NESTING_MAX, VALUES_MAX};
pub use writer::write_json;
