//! The writer of batches, on the journal thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::hand_off::{Shared, ended_by};
use crate::batched::Batch;
use crate::error::Error;
use crate::medium::BatchWriter;
use crate::writer::Writer;

/// Writes batches to the current segment, and switches to the one that the maintenance thread has
/// ready.
pub(super) struct FileWriter {
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Writer,
}

impl BatchWriter for FileWriter {
    fn next(&self) -> u64 {
        self.writer.next()
    }

    fn make_room(&mut self, batch: Batch<'_>) -> Result<(), Error> {
        let frame = batch.frame_bytes();
        if self.writer.fits(frame) {
            return Ok(());
        }
        self.next_segment(frame)
    }

    fn commit(&mut self, batch: Batch<'_>) -> Result<u64, Error> {
        let last = self.writer.commit(batch)?;
        let left = self.writer.left();
        self.shared.room.left.store(left, Ordering::Relaxed);
        if self.shared.sync_wanted.load(Ordering::Relaxed) > self.writer.synced() {
            self.writer.sync()?;
        }
        self.shared
            .synced
            .store(self.writer.synced(), Ordering::Release);
        Ok(last)
    }

    fn is_unsealed(&self) -> bool {
        self.writer.unsealed()
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.writer.seal()?;
        self.shared
            .synced
            .store(self.writer.synced(), Ordering::Release);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.seal()?;
        let mut hand_off = self.shared.hand_off.lock();
        hand_off.put(self.writer.leave());
        hand_off.is_finished = true;
        Ok(())
    }

    fn failure(&mut self) -> Option<Error> {
        let has_failed = self.shared.maintenance_failed.load(Ordering::SeqCst);
        has_failed.then(|| ended_by(self.shared.hand_off.lock().failure.take()))
    }
}

impl FileWriter {
    /// Switches to the segment that the maintenance thread has ready, or waits for it.
    fn next_segment(&mut self, frame: u64) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut hand_off = shared.hand_off.lock();
        let prepared = loop {
            if let Some(prepared) = hand_off.ready.take_if(|prepared| prepared.fits(frame)) {
                break prepared;
            }
            if shared.maintenance_failed.load(Ordering::SeqCst) {
                return Err(ended_by(hand_off.failure.take()));
            }
            if let Some(why) = &hand_off.blocked
                && shared.draining.load(Ordering::SeqCst)
            {
                let why = std::io::Error::other(why.to_string());
                return Err(Error::io("make a segment in", shared.reader.describe(""))(
                    why,
                ));
            }
            hand_off.wanted = Some(frame);
            shared.room.left.store(0, Ordering::Relaxed);
            shared.exchange.notify_all();
            shared.exchange.wait(&mut hand_off);
        };
        hand_off.wanted = None;
        self.writer.sync()?;
        hand_off.put(self.writer.switch(prepared));
        let (size, left) = (self.writer.segment_bytes(), self.writer.left());
        shared.room.size.store(size, Ordering::Relaxed);
        shared.room.left.store(left, Ordering::Relaxed);
        drop(hand_off);
        shared.exchange.notify_all();
        Ok(())
    }
}
