//! The visitor of the content of a directory and a stream.

use wal::Visitor;

/// A visitor of the records of directory and stream.
pub trait Shown: Visitor {
    /// Reports that `done` out of `total` messages of the stream were read.
    fn filling_up(&mut self, done: u64, total: u64);
}
