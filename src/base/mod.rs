//! Types that every floor uses: time, text, revisions, digests, JSON requests.
//!
//! Nothing here knows what a reservation is, and nothing here reads a clock, a file or a socket.

pub mod actor;
pub mod address;
pub mod array;
pub mod codec;
pub mod digest;
#[cfg(test)]
pub(crate) mod forms;
pub mod hex;
pub mod json;
pub mod module_doc;
pub mod output;
pub mod panics;
pub(crate) mod reminder;
pub mod revision;
pub mod shared;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod time;
pub mod trace_context;
pub mod wire_enum;
pub mod won;
