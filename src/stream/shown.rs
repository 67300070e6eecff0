//! The visitor of what a directory and a stream hold.

use wal::Visitor;

/// A visitor of the records of directory and stream.
pub trait Shown: Visitor {
    /// So many of so many messages of the stream were read.
    fn filling_up(&mut self, done: u64, total: u64);
}
