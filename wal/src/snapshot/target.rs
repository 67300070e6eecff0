//! A snapshot that is being written, on any medium.

use std::any::Any;

use super::layout::NOTE_BYTES_MAX;
use crate::error::Error;

/// The place to which a medium writes a snapshot. Dropped without being installed, it leaves nothing.
pub trait SnapshotTarget: Any + Send {
    /// Every record up to this position is in it.
    fn covers(&self) -> u64;

    /// Bytes that have been written.
    fn bytes(&self) -> u64;

    /// Keeps these bytes of the record at `position`, and a note of them. Kept records come first, in order,
    /// and are covered.
    ///
    /// # Errors
    /// Those of the medium, which harm nothing but this snapshot.
    fn keep(&mut self, position: u64, note: Option<&[u8]>, record: &[u8]) -> Result<(), Error>;

    /// Adds an entry.
    ///
    /// # Errors
    /// Those of [`SnapshotTarget::keep`].
    fn entry(&mut self, entry: &[u8]) -> Result<(), Error>;
}

impl dyn SnapshotTarget {
    /// Returns the target as the type of the medium that began the snapshot.
    ///
    /// # Panics
    /// When another medium began it.
    #[must_use]
    pub fn of<T: SnapshotTarget>(self: Box<Self>) -> T {
        let target: Box<dyn Any> = self;
        let target = target.downcast();
        *target.expect("a snapshot is installed where it was begun")
    }
}

/// Writes a snapshot beside the log. Dropped without being installed, it
/// removes what it has written.
pub struct SnapshotWriter {
    target: Box<dyn SnapshotTarget>,
    /// Bytes of the records that were appended between the newest snapshot and the beginning of this one.
    log_bytes: u64,
}

impl SnapshotWriter {
    pub(crate) fn new(target: Box<dyn SnapshotTarget>, log_bytes: u64) -> Self {
        Self { target, log_bytes }
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    pub(crate) fn into_target(self) -> Box<dyn SnapshotTarget> {
        self.target
    }

    /// Every record up to this position is in it.
    #[must_use]
    pub fn covers(&self) -> u64 {
        self.target.covers()
    }

    /// Bytes that have been written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.target.bytes()
    }

    /// Keeps these bytes of the record at `position`: what [`crate::Appender::read`] returns when the log no
    /// longer has it.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing but this snapshot.
    ///
    /// # Panics
    /// When positions do not rise, are above what the snapshot covers, or an entry came before.
    pub fn keep(&mut self, position: u64, record: &[u8]) -> Result<(), Error> {
        self.target.keep(position, None, record)
    }

    /// As [`SnapshotWriter::keep`], with a note of at most 255 bytes, which readers can have instead of the record
    /// ([`crate::Visitor::takes_notes`]).
    ///
    /// # Errors
    /// As [`SnapshotWriter::keep`].
    ///
    /// # Panics
    /// As [`SnapshotWriter::keep`], and when the note is longer.
    pub fn keep_noted(&mut self, position: u64, note: &[u8], record: &[u8]) -> Result<(), Error> {
        assert!(note.len() <= NOTE_BYTES_MAX, "a note is too long");
        self.target.keep(position, Some(note), record)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing but this snapshot.
    pub fn entry(&mut self, entry: &[u8]) -> Result<(), Error> {
        self.target.entry(entry)
    }
}
