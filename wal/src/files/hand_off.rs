//! The state through which the journal thread, the maintenance thread and callers exchange work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::room::Room;
use crate::error::Error;
use crate::manifest::Sealed;
use crate::reader::Reader;
use crate::retention::Keep;
use crate::segment::{self, Compacted, Prepared, Retired};
use crate::snapshot::Finished;
use crate::visitor::SnapshotInfo;
use crate::writer::Before;

/// Pause between two chunks of the next segment, in which the disk is left to the batches.
const PAUSE: Duration = Duration::from_millis(2);

/// The state that all threads of the medium share.
pub(super) struct Shared {
    pub(super) hand_off: Mutex<HandOff>,
    /// Both threads, and callers, wait here for each other.
    pub(super) exchange: Condvar,
    pub(super) room: Room,
    pub(super) reader: Arc<Reader>,
    /// Set when no more batches will be queued.
    pub(super) draining: AtomicBool,
    pub(super) maintenance_failed: AtomicBool,
    /// Whether the log may remove what snapshots cover before it runs out of space.
    pub(super) gives_up: AtomicBool,
    /// Bytes that it has removed for that reason.
    pub(super) given_up: AtomicU64,
    /// The last position that is synced.
    pub(super) synced: AtomicU64,
    /// The position up to which the next batch is to be followed by a sync.
    pub(super) sync_wanted: AtomicU64,
}

/// The part of the state that is handed over under a lock.
#[derive(Default)]
pub(super) struct HandOff {
    pub(super) ready: Option<Prepared>,
    /// Length of the frame that the journal thread waits to write.
    pub(super) wanted: Option<u64>,
    pub(super) retired: Vec<Retired>,
    pub(super) unused: Vec<Prepared>,
    /// Why no other segment could be made. It is tried again.
    pub(super) blocked: Option<Arc<str>>,
    /// The error by which the maintenance thread ended.
    pub(super) failure: Option<Error>,
    /// The change of the manifest that the maintenance thread is asked to make.
    pub(super) request: Option<Request>,
    pub(super) done: Option<Result<Done, Error>>,
    pub(super) stop: bool,
    /// The journal thread has written all, and has left its last segment.
    pub(super) is_finished: bool,
    /// The maintenance thread has ended.
    pub(super) ended: bool,
}

impl HandOff {
    /// Hands over the segment that the journal thread has left.
    pub(super) fn put(&mut self, before: Before) {
        match before {
            Before::None => {}
            Before::Retired(retired) => self.retired.push(retired),
            Before::Unused(unused) => self.unused.push(unused),
        }
    }
}

/// A change of the manifest, which only the maintenance thread makes.
pub(super) enum Request {
    Install(Box<Finished>),
    Removable(Keep),
    Forget(Vec<Sealed>),
}

/// The result of a request.
pub(super) enum Done {
    Installed(SnapshotInfo),
    Removable(Vec<Sealed>),
    Forgotten(Compacted),
}

impl Shared {
    pub(super) fn new(reader: Arc<Reader>, room: Room, synced: u64) -> Self {
        Self {
            hand_off: Mutex::default(),
            exchange: Condvar::new(),
            room,
            reader,
            draining: AtomicBool::new(false),
            maintenance_failed: AtomicBool::new(false),
            gives_up: AtomicBool::new(false),
            given_up: AtomicU64::new(0),
            synced: AtomicU64::new(synced),
            sync_wanted: AtomicU64::new(0),
        }
    }

    /// Waits until what is written up to a position is synced, which the journal thread does with
    /// the next batch, or soon when none comes.
    pub(super) fn wait_for_sync(
        &self,
        upto: u64,
        throttle: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        while self.synced.load(Ordering::Acquire) < upto {
            self.sync_wanted.fetch_max(upto, Ordering::Relaxed);
            if self.hand_off.lock().ended {
                return Err(has_ended());
            }
            throttle()?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Has the maintenance thread carry out a request; returns its result.
    pub(super) fn ask(&self, request: Request) -> Result<Done, Error> {
        let mut hand_off = self.hand_off.lock();
        hand_off.done = None;
        hand_off.request = Some(request);
        self.exchange.notify_all();
        loop {
            if let Some(done) = hand_off.done.take() {
                return done;
            }
            if hand_off.ended {
                hand_off.request = None;
                return Err(has_ended());
            }
            self.exchange.wait(&mut hand_off);
        }
    }

    /// Asks the disk for its free space.
    pub(super) fn ask_for_free_space(&self) -> Result<u64, Error> {
        let storage = self.reader.storage();
        storage
            .free_bytes()
            .map_err(|source| Error::io("ask for the free space of", storage.describe(""))(source))
    }

    /// Notes the free space; `None` when the system does not tell, which is no reason
    /// to end: nothing new is taken until it does.
    pub(super) fn note_free_space(&self, free: Option<u64>) {
        let is_low = free.is_none_or(|free| free < self.room.reserve);
        self.room
            .free
            .store(free.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.room.low.store(is_low, Ordering::Relaxed);
    }

    /// Returns how much of the next segment is written at once, after a pause if there is time: the
    /// sync of a batch waits for everything else that the disk has to write. Once the journal thread has
    /// ended nobody needs the segment, and its end would hold up the stop.
    pub(super) fn pace(&self, made: u64, of: u64) -> Option<u64> {
        let mut hand_off = self.hand_off.lock();
        if hand_off.stop {
            return None;
        }
        if hand_off.wanted.is_some() || hand_off.request.is_some() {
            return Some(segment::CHUNK);
        }
        if self.room.is_ahead(made, of) {
            self.exchange.wait_for(&mut hand_off, PAUSE);
        }
        Some(segment::CHUNK_BESIDE)
    }

    pub(super) fn stop(&self) {
        self.hand_off.lock().stop = true;
        self.exchange.notify_all();
    }
}

fn has_ended() -> Error {
    Error::Stopped {
        reason: "the log has ended".into(),
    }
}

/// Returns the error with which the journal thread ends when the maintenance thread has ended.
pub(super) fn ended_by(failure: Option<Error>) -> Error {
    failure.unwrap_or(Error::Stopped {
        reason: "the maintenance thread panicked".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::storage::sim::SimDisk;

    #[test]
    fn a_stop_ends_the_need_for_the_next_segment_even_if_it_is_awaited() {
        let reader = Reader::new(SimDisk::new().storage(), &[3; 16], Index::new(), 1, None);
        let room = Room {
            low: AtomicBool::new(false),
            free: AtomicU64::new(0),
            reserve: 0,
            next: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            left: AtomicU64::new(0),
            size: AtomicU64::new(100),
            margin: 0,
        };
        let shared = Shared::new(Arc::new(reader), room, 0);
        assert_eq!(shared.pace(0, 100), Some(segment::CHUNK_BESIDE));
        shared.hand_off.lock().wanted = Some(50);
        assert_eq!(shared.pace(0, 100), Some(segment::CHUNK));
        shared.stop();
        assert_eq!(shared.pace(0, 100), None);
    }
}
