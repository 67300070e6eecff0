//! Finds the kept records of a snapshot again.

use std::sync::Arc;

use super::layout::{BLOCK_BYTES, BLOCK_HEADER, KeptBlocks, block, item};
use crate::error::Error;
use crate::storage::File;
use crate::visitor::Record;
use crate::window::Window;

/// Bytes read at once when all of them are read.
const PIECE: usize = 1 << 17;

/// The kept records of a snapshot, for reading.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(super) file: Arc<dyn File>,
    pub(super) name: String,
    pub(super) seed: u32,
    pub(crate) covers: u64,
    pub(super) length: u64,
    /// Bytes of its blocks.
    pub(crate) bytes: u64,
    pub(super) blocks: KeptBlocks,
}

impl Kept {
    /// What was kept of the record at a position.
    pub(crate) fn read(&self, position: u64) -> Result<Option<Vec<u8>>, Error> {
        let behind = self.blocks.partition_point(|(first, _)| *first <= position);
        let Some((_, offset)) = behind.checked_sub(1).and_then(|at| self.blocks.get(at)) else {
            return Ok(None);
        };
        let mut found = None;
        self.block(*offset, BLOCK_HEADER + BLOCK_BYTES, &mut |record| {
            if record.position == position {
                found = Some(record.payload.to_vec());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Shows all of them, in order.
    pub(crate) fn each(
        &self,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (_, offset) in &self.blocks {
            self.block(*offset, PIECE, visit)?;
        }
        Ok(())
    }

    fn block(
        &self,
        offset: u64,
        piece: usize,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut window = Window::with_piece(self.file.as_ref(), self.length, piece);
        let failed = |source| Error::io("read", self.name.as_str())(source);
        let damaged = |what: &str| Error::Damaged {
            file: self.name.clone(),
            offset,
            position: None,
            what: what.to_owned(),
        };
        let (block, mut rest) = block(&mut window, offset, self.seed)
            .map_err(failed)?
            .map_err(damaged)?;
        for _ in 0..block.items {
            let Some((position, payload)) = item(&mut rest, true) else {
                return Err(damaged("a block is not made of kept records"));
            };
            visit(Record { position, payload })?;
        }
        Ok(())
    }
}
