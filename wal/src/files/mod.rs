//! The medium that is the files of a directory.
//!
//! Its maintenance thread makes segments ahead of need, keeps the manifest, and watches the free
//! space; the writer, on the journal thread, goes on in the segments that are ready.

mod hand_off;
mod maintenance;
mod medium;
mod room;
mod writer;

pub(crate) use medium::split;
