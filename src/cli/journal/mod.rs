//! The journal on a stream: opening a directory as its copy, and the operator's commands.

mod args;
mod opening;

pub use opening::JournalArgs;
