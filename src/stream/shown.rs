//! Who is shown what a directory and a stream hold.

use wal::Visitor;

/// Who is shown the records, and told when that was all.
pub trait Shown: Visitor {
    /// So many of so many messages of the stream were read.
    fn filling_up(&mut self, done: u64, total: u64);
}
