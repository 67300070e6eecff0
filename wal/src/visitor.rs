//! The interface through which readers are shown a log.

use std::ops::ControlFlow;

use crate::error::BoxError;
use crate::manifest::{Identity, Snapshot};

/// One record, as it was appended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its place in the log: 1, 2, 3 …
    pub position: u64,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// The visitor of a range of records: breaks to see no records after this one, or returns an error of its own,
/// which ends the reading.
pub type OnRange<'a> = dyn FnMut(Record<'_>) -> Result<ControlFlow<()>, BoxError> + 'a;

/// A snapshot, as the manifest lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The snapshot's number in its log.
    pub number: u64,
    /// Every record up to this position is in it.
    pub covers: u64,
    /// The last position whose record contributed to the snapshot.
    pub upto: u64,
    /// Length of its file in bytes.
    pub bytes: u64,
}

impl From<&Snapshot> for SnapshotInfo {
    fn from(listed: &Snapshot) -> Self {
        Self {
            number: listed.number,
            covers: listed.covers,
            upto: listed.upto,
            bytes: listed.length,
        }
    }
}

/// Receives the content of a log: the newest good snapshot, if there is one, and every record after the position that
/// it covers, in order.
pub trait Visitor {
    /// Receives the identity of the log; called once, before everything else.
    fn identity(&mut self, _identity: &Identity) {}

    /// Receives the next record. If the log is refused in the end, everything received before must be discarded.
    ///
    /// # Errors
    /// Any fault that the visitor finds in the record; it ends the reading.
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError>;

    /// A snapshot begins. Content received before, of a newer snapshot that turned out to be damaged, must be
    /// discarded.
    ///
    /// # Errors
    /// When the snapshot cannot be used, as in this default implementation: it is passed over.
    fn snapshot(&mut self, _info: &SnapshotInfo) -> Result<(), BoxError> {
        Err("snapshots are not read here".into())
    }

    /// Whether this visitor needs only the notes of kept records, where there are notes: those records are not
    /// read then.
    fn takes_notes(&self) -> bool {
        false
    }

    /// The note of the next record that the snapshot keeps, if it has one. The record itself comes next, unless
    /// [notes are enough](Visitor::takes_notes).
    ///
    /// # Errors
    /// As those of [`Visitor::kept`].
    fn noted(&mut self, _position: u64, _note: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }

    /// The next record that the snapshot keeps, as it was kept.
    ///
    /// # Errors
    /// When the record cannot be used: the snapshot is passed over.
    fn kept(&mut self, _record: Record<'_>) -> Result<(), BoxError> {
        Err("snapshots are not read here".into())
    }

    /// The snapshot's next entry.
    ///
    /// # Errors
    /// When the entry cannot be used: the snapshot is passed over.
    fn entry(&mut self, _entry: &[u8]) -> Result<(), BoxError> {
        Err("snapshots are not read here".into())
    }

    /// The whole snapshot was shown, and is undamaged.
    ///
    /// # Errors
    /// When the content cannot be used as a whole: the snapshot is passed over.
    fn snapshot_shown(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// No snapshot can be used, and the log begins with its first record. Everything received before must be discarded.
    fn reset(&mut self) {}

    /// Everything was shown; nothing has been changed yet.
    ///
    /// # Errors
    /// Any fault that the visitor finds in the log as a whole.
    fn end(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Reports the progress of reading a snapshot, in bytes.
    fn progress_of_snapshot(&mut self, _bytes_done: u64, _bytes_total: u64) {}

    /// Reports the progress of reading, in bytes; called about once for each MiB.
    fn progress(&mut self, _bytes_done: u64, _bytes_total: u64) {}
}

/// Returns a visitor that passes each record to `visit`; the content of snapshots is discarded.
pub fn each_record<F>(visit: F) -> EachRecord<F>
where
    F: FnMut(Record<'_>) -> Result<(), BoxError>,
{
    EachRecord(visit)
}

/// The visitor that [`each_record`] returns.
pub struct EachRecord<F>(F);

impl<F> Visitor for EachRecord<F>
where
    F: FnMut(Record<'_>) -> Result<(), BoxError>,
{
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        (self.0)(record)
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Reads only to check: everything shown is discarded.
pub struct Discard;

impl Visitor for Discard {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }
}
