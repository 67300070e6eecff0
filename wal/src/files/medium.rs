//! The files of a directory, as an appender sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::hand_off::{Done, Request, Shared};
use super::maintenance::Maintenance;
use super::room::Room;
use super::writer::FileWriter;
use crate::archive;
use crate::error::{BoxError, Error};
use crate::format::{self, RECORD_BYTES_MAX, to_u64};
use crate::medium::{BatchWriter, Medium, WakeUp};
use crate::options::Options;
use crate::reader::Reader;
use crate::retention::{Keep, Retained};
use crate::segment::{self, Compacted, Maker};
use crate::snapshot::{SnapshotFile, SnapshotTarget};
use crate::space::{Lack, Space};
use crate::storage::{Lock, Storage};
use crate::visitor::{OnRange, Record, SnapshotInfo};
use crate::writer::Writer;

/// A log of files in a directory.
struct Files {
    shared: Arc<Shared>,
    /// The maker of segments, until the maintenance thread takes it over.
    maker: Mutex<Option<Maker>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The lock of the log, released at the end.
    lock: Mutex<Option<Lock>>,
}

/// The side that any thread uses, and that of the journal thread.
pub(crate) type Sides = (Arc<dyn Medium>, Box<dyn BatchWriter>);

/// The two sides of an open log.
pub(crate) fn split(
    options: &Options,
    lock: Lock,
    reader: Arc<Reader>,
    writer: Writer,
    maker: Maker,
) -> Result<Sides, Error> {
    let batch_bytes_max = options.batch_bytes_max.clamp(1, RECORD_BYTES_MAX);
    let room = Room {
        low: AtomicBool::new(false),
        free: AtomicU64::new(u64::MAX),
        reserve: options.reserve_bytes,
        next: AtomicU64::new(maker.next_bytes()),
        // Until the maintenance thread knows better.
        blocked: AtomicBool::new(writer.segment_bytes() == 0),
        left: AtomicU64::new(writer.left()),
        size: AtomicU64::new(writer.segment_bytes()),
        margin: to_u64(batch_bytes_max).saturating_mul(2),
    };
    let shared = Arc::new(Shared::new(reader, room, writer.synced()));
    shared.note_free_space(Some(shared.ask_for_free_space()?));
    let files = Files {
        shared: Arc::clone(&shared),
        maker: Mutex::new(Some(maker)),
        thread: Mutex::new(None),
        lock: Mutex::new(Some(lock)),
    };
    Ok((Arc::new(files), Box::new(FileWriter { shared, writer })))
}

impl Medium for Files {
    fn start(&self, wake_up: WakeUp) -> Result<(), Error> {
        let Some(maker) = self.maker.lock().take() else {
            return Ok(());
        };
        let maintenance = Maintenance {
            shared: Arc::clone(&self.shared),
            maker,
            wake_up,
            missed_since: None,
        };
        let thread = thread::Builder::new().name("wal-maintenance".to_owned());
        let thread = thread.spawn(|| maintenance.run());
        let thread = thread.map_err(Error::io("start a thread for", "wal-maintenance"))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        // The lock is taken before the notification, so that the journal thread does not miss it.
        drop(self.shared.hand_off.lock());
        self.shared.exchange.notify_all();
    }

    fn stop(&self) {
        self.shared.stop();
    }

    fn close(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic was caught and reported where it happened.
            let _ = thread.join();
        }
        self.lock.lock().take();
    }

    fn has_room(&self, _: usize) -> bool {
        self.shared.room.available()
    }

    fn lack(&self, _: usize) -> Option<Lack> {
        let room = &self.shared.room;
        if room.available() {
            return None;
        }
        let free = room.free.load(Ordering::Relaxed);
        if room.low.load(Ordering::Relaxed) {
            let free = (free != u64::MAX).then_some(free);
            let reserve = room.reserve;
            return Some(Lack::Space { free, reserve });
        }
        let why = self.shared.hand_off.lock().blocked.clone();
        Some(Lack::Segment {
            why: why.unwrap_or_else(|| "it is being made".into()),
        })
    }

    fn space(&self) -> Result<Space, Error> {
        let room = &self.shared.room;
        Ok(Space {
            free: self.shared.ask_for_free_space()?,
            reserve: room.reserve,
            next_segment: room.next.load(Ordering::Relaxed),
        })
    }

    fn known_space(&self) -> Option<Space> {
        let room = &self.shared.room;
        let free = room.free.load(Ordering::Relaxed);
        (free != u64::MAX).then(|| Space {
            free,
            reserve: room.reserve,
            next_segment: room.next.load(Ordering::Relaxed),
        })
    }

    fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        self.shared.reader.read(position)
    }

    fn first(&self) -> u64 {
        self.shared.reader.first()
    }

    fn newest_part(&self) -> u64 {
        self.shared.reader.newest_part()
    }

    fn records(&self, from: u64, upto: u64, visit: &mut OnRange<'_>) -> Result<u64, Error> {
        self.shared.reader.records(from, upto, visit)
    }

    fn spread(&self, from: u64, upto: u64, count: usize) -> Vec<u64> {
        self.shared.reader.spread(from, upto, count)
    }

    fn history(
        &self,
        upto: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.shared.reader.history(upto, visit)
    }

    fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.shared.reader.snapshots()
    }

    fn snapshot_written(&self) -> Option<SystemTime> {
        let reader = &self.shared.reader;
        let newest = reader.snapshots().first().copied()?;
        let name = format::snapshot_name(newest.number);
        reader.storage().modified(&name).ok()
    }

    fn kept_bytes(&self) -> u64 {
        self.shared.reader.kept_bytes()
    }

    fn unpacked_snapshot_bytes(&self) -> u64 {
        self.shared.reader.unpacked_snapshot_bytes()
    }

    fn begin_snapshot(&self, covers: u64) -> Result<Box<dyn SnapshotTarget>, Error> {
        Ok(Box::new(self.shared.reader.begin_snapshot(covers)?))
    }

    fn install(
        &self,
        snapshot: Box<dyn SnapshotTarget>,
        upto: u64,
        throttle: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<SnapshotInfo, Error> {
        self.shared.wait_for_sync(upto, throttle)?;
        let snapshot: SnapshotFile = snapshot.of();
        let finished = snapshot.finish(upto, throttle)?;
        match self.shared.ask(Request::Install(Box::new(finished)))? {
            Done::Installed(info) => Ok(info),
            _ => unreachable!("each request has its own answer"),
        }
    }

    fn retained(&self, keep: &Keep) -> Retained {
        self.shared.reader.retained(keep)
    }

    fn give_up_for_room(&self, may: bool) {
        self.shared.gives_up.store(may, Ordering::Relaxed);
    }

    fn given_up_bytes(&self) -> u64 {
        self.shared.given_up.load(Ordering::Relaxed)
    }

    fn compact(
        &self,
        keep: &Keep,
        archive: Option<&dyn Storage>,
        copying: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<Compacted, Error> {
        let shared = &self.shared;
        let Done::Removable(segments) = shared.ask(Request::Removable(*keep))? else {
            unreachable!("each request has its own answer");
        };
        // Long work is done on this thread: commits may wait for the maintenance thread.
        let storage = shared.reader.storage();
        if let Some(archive) = archive {
            archive::keep_in(storage, shared.reader.log(), archive, &segments, copying)?;
        }
        let Done::Forgotten(compacted) = shared.ask(Request::Forget(segments.clone()))? else {
            unreachable!("each request has its own answer");
        };
        segment::remove(storage, &segments);
        Ok(compacted)
    }
}
