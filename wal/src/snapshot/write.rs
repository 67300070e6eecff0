//! Writes a snapshot beside the log.

use std::io;
use std::sync::Arc;

use super::kept::Kept;
use super::layout::{
    BLOCK_BYTES, BLOCK_HEADER, CHAIN, HEADER, KIND_END, KIND_ENTRIES, KIND_KEPT, KeptBlocks, Notes,
    chained, crc, first_chain, header, kind_of,
};
use super::read::{Shown, show};
use super::target::SnapshotTarget;
use crate::error::Error;
use crate::format::{self, Chain, LogId, to_u32, to_u64};
use crate::manifest::Snapshot;
use crate::packed::Packer;
use crate::storage::{File, Storage, write_all_at};
use crate::throttle::{Throttle, Throttled};

/// Bytes written between two syncs: the syncs of commits share the disk, and wait for these.
const SYNC_EVERY: u64 = 256 << 10;

/// A snapshot that is being written to a file beside the log. Dropped without being installed, it
/// removes what it has written.
pub(crate) struct SnapshotFile {
    storage: Arc<dyn Storage>,
    file: Arc<dyn File>,
    log: LogId,
    seed: u32,
    number: u64,
    covers: u64,
    /// The items of the block being filled.
    filling: Vec<u8>,
    /// The notes of its items, if they have any.
    notes: Option<Vec<u8>>,
    /// The block being written.
    block: Vec<u8>,
    kind: u8,
    items: u32,
    first: u64,
    last_kept: u64,
    chain: Chain,
    offset: u64,
    unsynced: u64,
    kept: u64,
    entries: u64,
    kept_blocks: KeptBlocks,
    /// Bytes of the blocks of kept records.
    kept_bytes: u64,
    /// Bytes of the blocks of kept records and entries, before they were packed.
    unpacked: u64,
    packer: Packer,
    installed: bool,
}

impl SnapshotFile {
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        log: LogId,
        number: u64,
        covers: u64,
    ) -> Result<Self, Error> {
        let name = format::snapshot_temp_name(number);
        let failed = |source| Error::io("create", storage.describe(&name))(source);
        let header = header(&log, number, covers);
        let file = storage.create(&name).map_err(failed)?;
        let writer = Self {
            storage: Arc::clone(&storage),
            file,
            log,
            seed: format::crc_seed(&log),
            number,
            covers,
            filling: Vec::new(),
            notes: None,
            block: Vec::new(),
            kind: KIND_KEPT,
            items: 0,
            first: 0,
            last_kept: 0,
            chain: first_chain(&header),
            offset: to_u64(HEADER),
            unsynced: 0,
            kept: 0,
            entries: 0,
            kept_blocks: Vec::new(),
            kept_bytes: 0,
            unpacked: 0,
            packer: Packer::default(),
            installed: false,
        };
        write_all_at(writer.file.as_ref(), &header, 0).map_err(failed)?;
        Ok(writer)
    }

    /// Whether a record at this position, with a note or without, can be in the current block.
    fn has_place_beside(&self, position: u64, has_note: bool) -> bool {
        self.items == 0 || self.notes.is_some() == has_note && Notes::reach(position - self.first)
    }

    fn item(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.filling
            .extend_from_slice(&to_u32(bytes.len()).to_le_bytes());
        self.filling.extend_from_slice(bytes);
        self.items += 1;
        if self.filling.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.items == 0 {
            return Ok(());
        }
        let mut head = [0; BLOCK_HEADER];
        self.block.clear();
        self.block.extend_from_slice(&head);
        if let Some(notes) = &self.notes {
            self.block
                .extend_from_slice(&to_u32(notes.len()).to_le_bytes());
            self.block.extend_from_slice(notes);
        }
        if self.kind != KIND_END {
            self.unpacked += to_u64(self.block.len() + self.filling.len());
        }
        let packed = self.packer.pack(&self.filling);
        let kind = kind_of(self.kind, packed.is_some(), self.notes.is_some());
        self.block
            .extend_from_slice(packed.unwrap_or(&self.filling));
        let payload = &self.block[BLOCK_HEADER..];
        head[..4].copy_from_slice(&to_u32(payload.len()).to_le_bytes());
        head[4..8].copy_from_slice(&self.items.to_le_bytes());
        head[8] = kind;
        head[16..24].copy_from_slice(&self.first.to_le_bytes());
        head[24..28].copy_from_slice(&crc(self.seed, payload).to_le_bytes());
        let header_crc = crc(self.seed, &head[..28]);
        head[28..32].copy_from_slice(&header_crc.to_le_bytes());
        self.block[..BLOCK_HEADER].copy_from_slice(&head);
        self.chain = chained(&self.chain, &mut self.block);
        head[CHAIN..].copy_from_slice(&self.chain);
        // The header is put before its payload, so that one write suffices.
        self.block[..BLOCK_HEADER].copy_from_slice(&head);
        let length = to_u64(self.block.len());
        if self.kind == KIND_KEPT {
            self.kept_blocks.push((self.first, self.offset));
            self.kept_bytes += length;
        }
        let name = || {
            self.storage
                .describe(&format::snapshot_temp_name(self.number))
        };
        write_all_at(self.file.as_ref(), &self.block, self.offset)
            .map_err(|source| Error::io("write", name())(source))?;
        self.offset += length;
        self.unsynced += length;
        if self.unsynced >= SYNC_EVERY {
            self.file
                .sync()
                .map_err(|source| Error::io("sync", name())(source))?;
            self.unsynced = 0;
        }
        for buffer in [&mut self.block, &mut self.filling] {
            buffer.clear();
            buffer.shrink_to(BLOCK_BYTES * 2);
        }
        if let Some(notes) = &mut self.notes {
            notes.clear();
        }
        self.items = 0;
        Ok(())
    }

    /// Writes the end, syncs, reads all of it back and checks it; `throttle` is called after each item that is
    /// read back, and can end the work. Then the snapshot is still to be renamed and listed.
    pub(crate) fn finish(mut self, upto: u64, throttle: Throttle<'_>) -> Result<Finished, Error> {
        self.flush()?;
        let upto = upto.max(self.covers);
        self.kind = KIND_END;
        self.first = 0;
        self.notes = None;
        for number in [upto, self.kept, self.entries] {
            self.filling.extend_from_slice(&number.to_le_bytes());
        }
        self.items = 1;
        self.flush()?;
        let temp = format::snapshot_temp_name(self.number);
        self.file
            .sync()
            .map_err(Error::io("sync", self.storage.describe(&temp)))?;
        let listed = Snapshot {
            number: self.number,
            covers: self.covers,
            upto,
            length: self.offset,
            chain: self.chain,
        };
        let mut throttled = Throttled {
            throttle,
            ended: None,
        };
        let storage = self.storage.as_ref();
        let shown = show(storage, &temp, &self.log, &listed, &mut throttled);
        if let Some(error) = throttled.ended {
            return Err(error);
        }
        match shown? {
            Shown::Whole(_) => {}
            Shown::Bad { offset, what } => {
                return Err(Error::Io {
                    what: "read back",
                    file: self.storage.describe(&temp),
                    source: io::Error::other(format!("at offset {offset}, {what}")),
                });
            }
        }
        let kept = Kept {
            file: Arc::clone(&self.file),
            name: self.storage.describe(&format::snapshot_name(self.number)),
            seed: self.seed,
            covers: self.covers,
            length: self.offset,
            bytes: self.kept_bytes,
            unpacked: self.unpacked,
            blocks: std::mem::take(&mut self.kept_blocks),
        };
        Ok(Finished {
            listed,
            kept,
            writer: self,
        })
    }
}

impl SnapshotTarget for SnapshotFile {
    fn covers(&self) -> u64 {
        self.covers
    }

    fn bytes(&self) -> u64 {
        self.offset
    }

    fn keep(&mut self, position: u64, note: Option<&[u8]>, record: &[u8]) -> Result<(), Error> {
        assert!(
            self.kind == KIND_KEPT && self.last_kept < position && position <= self.covers,
            "kept records come first, in order, and are covered"
        );
        // All records of a block have notes, or none, and they are not too far from each other.
        if !self.has_place_beside(position, note.is_some()) {
            self.flush()?;
        }
        if self.items == 0 {
            self.first = position;
            self.notes = note.map(|_| self.notes.take().unwrap_or_default());
        }
        if let (Some(notes), Some(note)) = (&mut self.notes, note) {
            Notes::push(notes, position - self.first, note);
        }
        self.last_kept = position;
        self.kept += 1;
        self.filling.extend_from_slice(&position.to_le_bytes());
        self.item(record)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), Error> {
        if self.kind == KIND_KEPT {
            self.flush()?;
            self.kind = KIND_ENTRIES;
            self.first = 0;
            self.notes = None;
        }
        self.entries += 1;
        self.item(entry)
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if !self.installed {
            // If it stays, the next start removes it.
            let _ = self
                .storage
                .remove(&format::snapshot_temp_name(self.number));
        }
    }
}

/// A snapshot that is written and checked, under its temporary name.
pub(crate) struct Finished {
    pub(crate) listed: Snapshot,
    pub(crate) kept: Kept,
    writer: SnapshotFile,
}

impl Finished {
    pub(crate) fn into_kept(self) -> Kept {
        self.kept
    }

    /// Gives the snapshot its final name, which is durable only once the directory is synced.
    pub(crate) fn rename(&mut self) -> Result<(), Error> {
        let (temp, name) = (
            format::snapshot_temp_name(self.listed.number),
            format::snapshot_name(self.listed.number),
        );
        let storage = &self.writer.storage;
        storage
            .rename(&temp, &name)
            .map_err(Error::io("rename", storage.describe(&temp)))?;
        self.writer.installed = true;
        Ok(())
    }
}
