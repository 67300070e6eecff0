//! Appends frames to the current segment: one write and one sync per batch.

use std::sync::Arc;

use crate::batched::Batch;
use crate::error::Error;
use crate::format::{self, Chain, FIRST_FRAME, to_u64};
use crate::frame::{self, Place, SEAL_BYTES};
use crate::options::Options;
use crate::packed::Packer;
use crate::reader::Reader;
use crate::segment::{Prepared, Retired};
use crate::storage::write_all_at;

/// The segment that a writer leaves when it switches to another one, or ends.
pub(crate) enum Before {
    /// There was no segment before.
    None,
    /// The segment before has no frame and will never be used.
    Unused(Prepared),
    /// The segment before has its last frame.
    Retired(Retired),
}

pub(crate) struct Writer {
    reader: Arc<Reader>,
    /// The current segment; `None` until there is space for the first one.
    segment: Option<Prepared>,
    seed: u32,
    /// Offset of the next frame in the segment.
    offset: u64,
    next: u64,
    /// First position of this segment.
    first: u64,
    chain: Chain,
    /// Whether records were written after the last seal.
    unsealed: bool,
    /// Number of unsynced bytes after which the writer syncs; `None`: it syncs each batch.
    sync_bytes: Option<u64>,
    /// The last synced position; `unsynced_bytes` are the bytes written after it.
    synced: u64,
    unsynced_bytes: u64,
    /// Frames of the current batch; the memory is reused for every batch.
    buffer: Vec<u8>,
    buffer_max: usize,
    packer: Packer,
}

impl Writer {
    pub(crate) fn new(
        reader: Arc<Reader>,
        segment: Option<Prepared>,
        next: u64,
        chain: Chain,
        options: &Options,
    ) -> Self {
        let seed = reader.seed();
        let buffer_max = options.batch_bytes_max.saturating_mul(4);
        Self {
            reader,
            segment,
            seed,
            offset: FIRST_FRAME,
            next,
            first: next,
            chain,
            unsealed: false,
            sync_bytes: options.sync_bytes,
            synced: next - 1,
            unsynced_bytes: 0,
            buffer: Vec::new(),
            buffer_max,
            packer: Packer::default(),
        }
    }

    /// The position of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether records were written after the last seal.
    pub(crate) fn unsealed(&self) -> bool {
        self.unsealed
    }

    /// Size of the segment, in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, |segment| segment.size)
    }

    /// Bytes that are left in the segment.
    pub(crate) fn left(&self) -> u64 {
        self.segment_bytes().saturating_sub(self.offset)
    }

    /// Whether a data frame of this length, and a seal after it, fit.
    pub(crate) fn fits(&self, frame: u64) -> bool {
        let Some(segment) = &self.segment else {
            return false;
        };
        if self.offset == FIRST_FRAME {
            return segment.fits(frame);
        }
        self.offset + frame + SEAL_BYTES <= segment.size
    }

    /// Switches to another segment; returns what becomes of the one before.
    pub(crate) fn switch(&mut self, segment: Prepared) -> Before {
        let before = self.leave();
        self.segment = Some(segment);
        before
    }

    /// Leaves the segment, without another one; returns what becomes of it.
    pub(crate) fn leave(&mut self) -> Before {
        let before = self.segment.take();
        let end = std::mem::replace(&mut self.offset, FIRST_FRAME);
        let first = std::mem::replace(&mut self.first, self.next);
        match before {
            None => Before::None,
            Some(before) if end == FIRST_FRAME => Before::Unused(before),
            Some(before) => Before::Retired(Retired {
                number: before.number,
                length: end,
                first,
                last: self.next - 1,
                chain: self.chain,
            }),
        }
    }

    fn segment(&self) -> &Prepared {
        self.segment
            .as_ref()
            .expect("only what fits into a segment is written")
    }

    /// Writes one batch, which must fit into the segment, and syncs it where each batch is synced;
    /// returns the batch's last position. An error is final.
    pub(crate) fn commit(&mut self, batch: Batch<'_>) -> Result<u64, Error> {
        self.begin();
        let frame_at = self.offset + to_u64(self.buffer.len());
        let place = self.place();
        batch.frame(&mut self.buffer, &mut self.packer, place, &mut self.chain);
        self.flush()?;
        self.reader.note(self.next, self.segment().number, frame_at);
        self.next += to_u64(batch.count());
        self.unsealed = true;
        match self.sync_bytes {
            None => self.synced = self.next - 1,
            Some(most) if self.unsynced_bytes >= most => self.sync()?,
            Some(_) => {}
        }
        Ok(self.next - 1)
    }

    /// Writes and syncs a seal, which states that everything before it is durable; does nothing
    /// when no record was written after the last seal. An error is final.
    pub(crate) fn seal(&mut self) -> Result<(), Error> {
        if !self.unsealed {
            return Ok(());
        }
        self.sync()?;
        self.begin();
        let place = self.place();
        frame::push_seal(&mut self.buffer, place, &mut self.chain);
        self.flush()?;
        self.sync()?;
        self.unsealed = false;
        Ok(())
    }

    fn begin(&mut self) {
        self.buffer.clear();
        // The memory that one huge record needed must not be kept for good.
        self.buffer.shrink_to(self.buffer_max);
        if self.offset == FIRST_FRAME {
            let place = self.place();
            frame::push_start(&mut self.buffer, place, &mut self.chain);
        }
    }

    fn place(&self) -> Place {
        let segment = self.segment();
        Place {
            segment: segment.number,
            epoch: segment.epoch,
            first: self.next,
            durable: self.synced,
            seed: self.seed,
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let segment = self.segment();
        let file = segment.file.as_ref();
        let name = || self.reader.describe(&format::segment_name(segment.number));
        write_all_at(file, &self.buffer, self.offset)
            .map_err(|source| Error::io("write", name())(source))?;
        let written = to_u64(self.buffer.len());
        match self.sync_bytes {
            Some(_) => self.unsynced_bytes += written,
            None => file
                .sync()
                .map_err(|source| Error::io("sync", name())(source))?,
        }
        self.offset += written;
        Ok(())
    }

    /// Syncs what was written since the last sync; nothing where each batch is synced. An error is
    /// final.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if self.unsynced_bytes == 0 {
            return Ok(());
        }
        let segment = self.segment();
        let name = || self.reader.describe(&format::segment_name(segment.number));
        let synced = segment.file.sync();
        synced.map_err(|source| Error::io("sync", name())(source))?;
        self.synced = self.next - 1;
        self.unsynced_bytes = 0;
        Ok(())
    }

    /// The last position that is synced.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }
}
