//! Reads the kept records of a snapshot.

use std::sync::Arc;

use super::layout::{KIND_KEPT, KeptBlocks, Payload, block, item};
use crate::error::Error;
use crate::storage::File;
use crate::visitor::Record;
use crate::window::Window;

/// Bytes read at once when all kept records are read.
const PIECE: usize = 1 << 17;
/// Bytes read at once for one kept record: most blocks have fewer.
const PIECE_OF_ONE: usize = 16 << 10;

/// The kept records of a snapshot, for reading.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(super) file: Arc<dyn File>,
    pub(super) name: String,
    pub(super) seed: u32,
    pub(crate) covers: u64,
    pub(super) length: u64,
    /// Bytes of the blocks of kept records.
    pub(crate) bytes: u64,
    /// Bytes of the blocks of kept records and entries, before they were packed.
    pub(crate) unpacked: u64,
    pub(super) blocks: KeptBlocks,
}

impl Kept {
    /// Returns what was kept of the record at a position.
    pub(crate) fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        let behind = self.blocks.partition_point(|(first, _)| *first <= position);
        let Some((_, offset)) = behind.checked_sub(1).and_then(|at| self.blocks.get(at)) else {
            return Ok(None);
        };
        let (mut found, mut buffer) = (None, Vec::new());
        let mut window = self.window(PIECE_OF_ONE);
        self.block(*offset, &mut window, &mut buffer, &mut |record| {
            if record.position == position {
                found = Some(record.payload.to_vec());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Shows all kept records, in order.
    pub(crate) fn each(
        &self,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut window, mut buffer) = (self.window(PIECE), Vec::new());
        for (_, offset) in &self.blocks {
            self.block(*offset, &mut window, &mut buffer, visit)?;
        }
        Ok(())
    }

    fn window(&self, piece: usize) -> Window<'_> {
        Window::with_piece(self.file.as_ref(), self.length, piece)
    }

    /// Shows the records of the block at this offset, which may be unpacked into `buffer`.
    fn block(
        &self,
        offset: u64,
        window: &mut Window<'_>,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |source| Error::io("read", self.name.as_str())(source);
        let damaged = |what: &str| Error::Damaged {
            file: self.name.clone(),
            offset,
            position: None,
            what: what.to_owned(),
        };
        let (block, payload) = block(window, offset, self.seed)
            .map_err(failed)?
            .map_err(damaged)?;
        let payload = Payload::of(&block, payload).map_err(damaged)?;
        let mut rest = payload.items(buffer).map_err(damaged)?;
        if payload.kind != KIND_KEPT {
            return Err(damaged("a block is not made of kept records"));
        }
        for _ in 0..block.items {
            let Some((position, payload)) = item(&mut rest, true) else {
                return Err(damaged("a block is not made of kept records"));
            };
            visit(Record { position, payload })?;
        }
        Ok(())
    }
}
