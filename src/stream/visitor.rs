//! The visitor of a log that is filled up from a stream.

use wal::Visitor;

/// A [`Visitor`] that is also told how much of the stream has been read.
pub trait StreamVisitor: Visitor {
    /// Reports that `done` out of `total` messages of the stream were read.
    fn filling_up(&mut self, done: u64, total: u64);
}
