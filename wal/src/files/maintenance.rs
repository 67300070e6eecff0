//! The maintenance thread: it makes segments ahead of need, keeps the manifest, and watches the
//! free space.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::hand_off::{Done, HandOff, Request, Shared};
use crate::error::{Error, MaintenanceError};
use crate::medium::WakeUp;
use crate::retention::Keep;
use crate::segment::{self, Maker, Prepared};

/// Time between two checks of the free space and of the directory's place; [`WATCH_LOW`] is the time
/// when there was too little space.
const WATCH: Duration = Duration::from_millis(500);
const WATCH_LOW: Duration = Duration::from_millis(100);

/// The state of the maintenance thread.
pub(super) struct Maintenance {
    pub(super) shared: Arc<Shared>,
    pub(super) maker: Maker,
    /// Wakes the journal thread.
    pub(super) wake_up: WakeUp,
    /// Since when the directory has not been found in its place.
    pub(super) missed_since: Option<Instant>,
}

impl Maintenance {
    pub(super) fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.work()));
        self.shared.hand_off.lock().ended = true;
        self.shared.exchange.notify_all();
        let failure = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        self.shared.hand_off.lock().failure = failure;
        self.shared.maintenance_failed.store(true, Ordering::SeqCst);
        // The lock is taken before the notification, so that the journal thread does not miss it.
        drop(self.shared.hand_off.lock());
        self.shared.exchange.notify_all();
        (self.wake_up)();
    }

    fn work(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        loop {
            self.expect_in_place()?;
            let free = self.free_space()?;
            let mut hand_off = shared.hand_off.lock();
            for retired in hand_off.retired.drain(..) {
                self.maker.retire(retired, &shared.reader);
            }
            if hand_off.stop {
                if hand_off.is_finished {
                    drop(hand_off);
                    self.maker.close();
                }
                return Ok(());
            }
            if let Some(request) = hand_off.request.take() {
                drop(hand_off);
                self.answer(request)?;
                continue;
            }
            let wanted = hand_off.wanted;
            let too_small = hand_off
                .ready
                .take_if(|ready| wanted.is_some_and(|frame| !ready.fits(frame)));
            for unused in hand_off.unused.drain(..).chain(too_small) {
                self.maker.give_up(&unused);
            }
            if hand_off.ready.is_none() {
                drop(hand_off);
                hand_off = self.make_ready(&shared, wanted, free)?;
            }
            let is_fitting = match (&hand_off.ready, hand_off.wanted) {
                (None, _) => hand_off.blocked.is_some(),
                (Some(ready), Some(frame)) => ready.fits(frame),
                (Some(_), None) => true,
            };
            let is_asked = hand_off.stop || hand_off.request.is_some();
            if !is_asked && hand_off.retired.is_empty() && is_fitting {
                let low = hand_off.blocked.is_some() || shared.room.low.load(Ordering::Relaxed);
                shared
                    .exchange
                    .wait_for(&mut hand_off, if low { WATCH_LOW } else { WATCH });
            }
        }
    }

    /// Checks that the log's path still leads to it. If not, the log ends: the next start would not
    /// find what it went on to acknowledge.
    fn expect_in_place(&mut self) -> Result<(), Error> {
        let storage = self.shared.reader.storage();
        let Err(why) = storage.expect_in_place() else {
            self.missed_since = None;
            return Ok(());
        };
        // One check may have met a moment between two states.
        let since = *self.missed_since.get_or_insert_with(Instant::now);
        if since.elapsed() < WATCH_LOW {
            return Ok(());
        }
        Err(Error::Moved {
            directory: storage.describe(""),
            what: why.to_string(),
        })
    }

    /// Returns the free space, after the removal of old segments, where that is allowed, as far as
    /// the reserve and the next segment need it. `None` when the system does not tell.
    fn free_space(&mut self) -> Result<Option<u64>, Error> {
        let shared = Arc::clone(&self.shared);
        let mut free = shared.ask_for_free_space().ok();
        let wanted = shared.room.reserve.saturating_add(self.maker.next_bytes());
        while shared.gives_up.load(Ordering::Relaxed)
            && free.is_some_and(|free| free < wanted)
            && self.give_up_oldest()?
        {
            free = shared.ask_for_free_space().ok();
        }
        shared.note_free_space(free);
        Ok(free)
    }

    /// Removes the oldest segment if snapshots cover it; returns whether it did.
    fn give_up_oldest(&mut self) -> Result<bool, Error> {
        let mut oldest = self.maker.removable(&Keep::NOTHING);
        oldest.truncate(1);
        if oldest.is_empty() {
            return Ok(false);
        }
        let reader = &self.shared.reader;
        match self.maker.forget(&oldest, reader) {
            Ok(forgotten) => {
                segment::remove(reader.storage(), &oldest);
                self.shared
                    .given_up
                    .fetch_add(forgotten.bytes, Ordering::Relaxed);
                Ok(true)
            }
            Err(MaintenanceError::Passing(_)) => Ok(false),
            Err(MaintenanceError::Final(error)) => Err(error.into_final()),
        }
    }

    /// Carries out a request and hands over its result. An error ends the medium.
    fn answer(&mut self, request: Request) -> Result<(), Error> {
        let (done, failure) = match self.carry_out(request) {
            Ok(done) => (Ok(done), None),
            Err(MaintenanceError::Passing(error)) => (Err(error), None),
            Err(MaintenanceError::Final(error)) => {
                let reason = error.to_string().into();
                (Err(Error::Stopped { reason }), Some(error.into_final()))
            }
        };
        self.shared.hand_off.lock().done = Some(done);
        self.shared.exchange.notify_all();
        failure.map_or(Ok(()), Err)
    }

    fn carry_out(&mut self, request: Request) -> Result<Done, MaintenanceError> {
        let reader = &self.shared.reader;
        Ok(match request {
            Request::Install(finished) => Done::Installed(self.maker.install(*finished, reader)?),
            Request::Removable(keep) => Done::Removable(self.maker.removable(&keep)),
            Request::Forget(segments) => Done::Forgotten(self.maker.forget(&segments, reader)?),
        })
    }

    /// Makes the next segment, or notes why there is none.
    fn make_ready<'a>(
        &mut self,
        shared: &'a Shared,
        wanted: Option<u64>,
        free: Option<u64>,
    ) -> Result<MutexGuard<'a, HandOff>, Error> {
        let made = self.prepare(wanted, free)?;
        shared.note_free_space(shared.ask_for_free_space().ok());
        let next = self.maker.next_bytes();
        shared.room.next.store(next, Ordering::Relaxed);
        let mut hand_off = shared.hand_off.lock();
        (hand_off.ready, hand_off.blocked) = match made {
            Ok(made) => (Some(made), None),
            Err(why) => (None, Some(why)),
        };
        let is_blocked = hand_off.blocked.is_some();
        shared.room.blocked.store(is_blocked, Ordering::Relaxed);
        shared.exchange.notify_all();
        Ok(hand_off)
    }

    /// Makes the next segment, large enough for the frame that the journal thread waits to write; or
    /// returns why there is none for now.
    fn prepare(
        &mut self,
        wanted: Option<u64>,
        free: Option<u64>,
    ) -> Result<Result<Prepared, Arc<str>>, Error> {
        let shared = Arc::clone(&self.shared);
        // The records that the journal thread waits to write were appended already: the reserve is
        // there for just that. When the free space is unknown, the segment is made without a bound,
        // and the error says what is wrong with the disk.
        let room = match wanted {
            Some(_) => free,
            None => Some(free.unwrap_or(0).saturating_sub(shared.room.reserve)),
        };
        let mut pace = |made, of| shared.pace(made, of);
        let made = self.maker.prepare(wanted.unwrap_or(0), room, &mut pace);
        match made {
            Ok(Some(made)) => Ok(Ok(made)),
            Ok(None) => Ok(Err("there is no space for it".into())),
            // While there is space for records, even a failing disk is given time. When the journal
            // thread waits for the segment, only a shortage that can pass is waited out: space,
            // descriptors, memory. After a stop it has ended, and waits for nothing.
            Err(MaintenanceError::Passing(error))
                if wanted.is_none() || error.is_shortage() || shared.hand_off.lock().stop =>
            {
                Ok(Err(error.to_string().into()))
            }
            Err(error) => Err(error.into_inner().into_final()),
        }
    }
}
