//! Space for the log: how much of it is kept, and whether the disk has room for more.

pub mod retention;
pub(super) mod room;
