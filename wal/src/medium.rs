//! The medium on which a journal is kept, as its appender sees it.
//!
//! The appender orders records and gathers batches; a medium makes a batch durable or ends, reads records by position,
//! keeps snapshots, and says whether it has space. The files of a directory are one medium ([`crate::Log::start`]);
//! `memory` is another, for tests; a replicated stream can be one, too.

use std::time::SystemTime;

use crate::batched::Batch;
use crate::error::{BoxError, Error};
use crate::retention::{Keep, Retained};
use crate::segment::Compacted;
use crate::snapshot::SnapshotTarget;
use crate::space::{Lack, Space};
use crate::storage::Storage;
use crate::visitor::{OnRange, Record, SnapshotInfo};

/// Wakes the journal thread, so that it asks its [`BatchWriter`] whether it can go on.
pub type WakeUp = Box<dyn Fn() + Send + Sync>;

/// The side of a medium that the journal thread alone uses.
pub trait BatchWriter: Send {
    /// The position that the next record gets.
    fn next(&self) -> u64;

    /// Waits until there is space for a batch.
    ///
    /// # Errors
    /// The medium has ended.
    fn make_room(&mut self, batch: Batch<'_>) -> Result<(), Error>;

    /// Appends a batch, which is found whole or not at all; returns its last position once it is
    /// durable.
    ///
    /// # Errors
    /// The medium has ended, and the batch may be found or not.
    fn commit(&mut self, batch: Batch<'_>) -> Result<u64, Error>;

    /// Begins to append a batch, which is found whole or not at all, and never without those before it; returns its
    /// last position if it is durable already. Otherwise [`BatchWriter::settle`] returns it later, in the order in
    /// which batches were begun.
    ///
    /// The default is for a medium that makes one batch durable before it takes the next.
    ///
    /// # Errors
    /// The medium has ended, and the batch may be found or not.
    fn begin(&mut self, batch: Batch<'_>) -> Result<Option<u64>, Error> {
        self.commit(batch).map(Some)
    }

    /// Whether another batch may be begun before the earlier ones are durable. The medium wakes the journal thread
    /// when that changes.
    fn may_begin(&self) -> bool {
        true
    }

    /// Whether [`BatchWriter::settle`] has a position to return. The medium wakes the journal thread when that
    /// changes.
    fn has_settled(&self) -> bool {
        false
    }

    /// Returns the last position of the oldest batch that was begun, if it has become durable.
    ///
    /// # Errors
    /// The medium has ended.
    fn settle(&mut self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Whether nothing on the medium itself proves yet that the last batch is durable.
    fn is_unsealed(&self) -> bool;

    /// Makes the medium itself prove that the last batch is durable.
    ///
    /// # Errors
    /// The medium has ended.
    fn seal(&mut self) -> Result<(), Error>;

    /// Seals the last batch, after which nothing is written any more.
    ///
    /// # Errors
    /// The medium has ended.
    fn finish(&mut self) -> Result<(), Error> {
        self.seal()
    }

    /// Returns why the medium has ended, if it ended outside this writer.
    fn failure(&mut self) -> Option<Error>;
}

/// The side of a medium that any thread uses.
pub trait Medium: Send + Sync {
    /// Starts the medium's own work, which ends with [`Medium::stop`]. Called once, before the
    /// first batch.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(&self, wake_up: WakeUp) -> Result<(), Error>;

    /// Tells the medium that no more batches will be queued: those that wait for space need not wait for what will not
    /// come.
    fn drain(&self);

    /// Ends the medium's own work: the journal thread has ended, or was never started.
    fn stop(&self);

    /// Waits for the medium's own work to end, after [`Medium::stop`], and releases what others may then take over.
    fn close(&self);

    /// Whether there is space for more than what was appended, of which `queued` bytes are not durable yet.
    fn has_room(&self, queued: usize) -> bool;

    /// Why [`Medium::has_room`] says no; `None` when it says yes.
    fn lack(&self, queued: usize) -> Option<Lack>;

    /// Returns how much space there is.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn space(&self) -> Result<Space, Error>;

    /// As [`Medium::space`], from what is known already; `None` when nothing is.
    fn known_space(&self) -> Option<Space>;

    /// The record at a durable position, or what the newest snapshot kept of it; `None` when there
    /// is neither.
    ///
    /// # Errors
    /// [`Error::Damaged`] when its bytes have changed; that it cannot be read.
    fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error>;

    /// The first position that is kept as a record, whatever snapshots keep of earlier ones; the position after the
    /// last when there is none.
    fn first(&self) -> u64;

    /// The first position of the newest part of the log that is removed as a whole, as far as this start has written
    /// it; earlier records may be removed without it. 0: nothing was written.
    fn newest_part(&self) -> u64;

    /// Shows the records from a position to another one that is durable, in order and without gaps,
    /// until `visit` breaks; returns the position after the last one that was shown. It blocks
    /// neither batches nor compactions.
    ///
    /// # Errors
    /// [`Error::Gone`] when the next record to show is no longer kept, from the beginning or by a compaction meanwhile;
    /// those of [`Medium::read`]; [`Error::Visitor`] with what `visit` gives. All records before the one that the error
    /// concerns were shown.
    fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error>;

    /// Returns up to `count` positions, in order, that divide the durable records from a position to another one into
    /// parts of about as many bytes, as the medium stores them. A part begins with each of them, the first with `from`.
    fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64>;

    /// Shows, in order, the records that the newest snapshot kept and the records after the position that it covers,
    /// up to a durable position. Nothing may be compacted meanwhile.
    ///
    /// # Errors
    /// Those of [`Medium::read`], and [`Error::Visitor`] with what `visit` gives.
    fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error>;

    /// The snapshots there are, newest first.
    fn snapshots(&self) -> Vec<SnapshotInfo>;

    /// When the newest snapshot was written; `None` when there is none, or that is not known.
    fn snapshot_written(&self) -> Option<SystemTime>;

    /// Bytes that kept records take in the newest snapshot; 0 when there is none.
    fn kept_bytes(&self) -> u64;

    /// Size of the newest snapshot before packing, in bytes; 0 when there is none.
    fn unpacked_snapshot_bytes(&self) -> u64;

    /// Begins a snapshot that covers every record up to a durable position.
    ///
    /// # Errors
    /// When it cannot be begun, which does no harm.
    fn begin_snapshot(&self, covers: u64) -> Result<Box<dyn SnapshotTarget>, Error>;

    /// Makes a snapshot that was begun here the newest one, and removes the oldest of three. `upto`, the last position
    /// whose record contributed to it, is durable. `throttle` is called after each chunk; its error ends the work.
    ///
    /// # Errors
    /// Those of `throttle`; others that pass and harm nothing; [`Error::Stopped`].
    fn install(
        &self,
        snapshot: Box<dyn SnapshotTarget>,
        upto: u64,
        throttle: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<SnapshotInfo, Error>;

    /// Returns what [`Medium::compact`] would leave now.
    fn retained(&self, keep: &Keep) -> Retained;

    /// Sets whether the log may remove records that the older snapshot covers, the oldest first, before
    /// [`Medium::has_room`] says no. It may not until this is called.
    fn give_up_for_room(&self, may: bool);

    /// Bytes that were removed as [`Medium::give_up_for_room`] allows.
    fn given_up_bytes(&self) -> u64;

    /// Removes records that the older snapshot covers and that are not to be kept, or moves them to the archive.
    /// `copying` is called before each chunk that is copied there, with the bytes copied so far and the total.
    ///
    /// # Errors
    /// Those of `copying`; others that pass and harm nothing; [`Error::Stopped`].
    fn compact(
        &self,
        keep: &Keep,
        archive: Option<&dyn Storage>,
        copying: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<Compacted, Error>;
}
