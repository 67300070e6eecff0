//! Reads a snapshot's blocks and checks them, piece by piece: by two threads if that is wanted. One reads
//! and compares checksums, the other one digests, which takes about as long, and shows what is sound.

use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use super::layout::{BLOCK_HEADER, Block, KIND_END, block, block_bytes, chained};
use crate::error::Error;
use crate::format::{Chain, to_usize};
use crate::storage::File;
use crate::window::{WINDOW, Window};

/// Pieces that may wait to be shown: so many that the one thread seldom waits for the other, which may just
/// not have been given a processor.
const AHEAD: usize = 8;

/// Why a snapshot was not read to its end.
pub(super) enum Fault {
    /// What is at this offset is not what was written.
    Bad(u64, &'static str),
    Error(Error),
}

/// Where the blocks are that are to be read.
pub(super) struct Blocks<'a> {
    pub(super) file: &'a dyn File,
    /// The file's name.
    pub(super) name: &'a str,
    /// The file's length.
    pub(super) length: u64,
    /// The seed of the log's checksums.
    pub(super) seed: u32,
    /// Where the first one begins.
    pub(super) first: u64,
    /// The digest before it.
    pub(super) chain: Chain,
}

/// Is shown a block and its payload.
type Show<'a> = dyn FnMut(&Block, &[u8]) -> Result<(), Fault> + 'a;

/// Some blocks that were read, in order. Their checksums are right.
struct Piece {
    /// What the file has from `start` on.
    bytes: Vec<u8>,
    start: u64,
    blocks: Vec<Block>,
    /// Why there is no further block.
    fault: Option<Fault>,
}

impl Piece {
    /// Shows the blocks, which follow the one with this digest, and each other; the memory of the piece,
    /// unless no more is to be read.
    fn show(mut self, before: &mut Chain, show: &mut Show<'_>) -> Result<Option<Vec<u8>>, Fault> {
        for block in self.blocks {
            let extent = [block.offset, block.end].map(|at| to_usize(at - self.start));
            let bytes = &mut self.bytes[extent[0]..extent[1]];
            if chained(before, bytes) != block.chain {
                let what = "a block does not follow the one before it";
                return Err(Fault::Bad(block.offset, what));
            }
            *before = block.chain;
            show(&block, &bytes[BLOCK_HEADER..])?;
            if block.kind == KIND_END {
                return Ok(None);
            }
        }
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(Some(self.bytes)),
        }
    }
}

impl<'a> Blocks<'a> {
    /// Shows all blocks, the one that ends the snapshot included, each when it and all before it were
    /// checked. What the window has already is not read again.
    ///
    /// # Errors
    /// The first fault, or that of whom they are shown to.
    pub(super) fn show(&self, window: Window<'a>, show: &mut Show<'_>) -> Result<(), Fault> {
        let (mut chain, mut shown) = (self.chain, Ok(()));
        self.read(window, |piece| match piece.show(&mut chain, show) {
            Ok(memory) => memory,
            Err(fault) => {
                shown = Err(fault);
                None
            }
        });
        shown
    }

    /// As [`Blocks::show`], while another thread reads on.
    ///
    /// # Errors
    /// As there.
    pub(super) fn show_meanwhile(
        &self,
        window: Window<'a>,
        show: &mut Show<'_>,
    ) -> Result<(), Fault> {
        thread::scope(|scope| {
            let (pieces, read) = sync_channel::<Piece>(AHEAD);
            let (free, memory) = channel::<Vec<u8>>();
            let reads = move || {
                self.read(window, |piece| {
                    // Nobody waits for more once a fault was found.
                    pieces.send(piece).ok()?;
                    Some(memory.try_recv().unwrap_or_default())
                });
            };
            let thread = thread::Builder::new().name("snapshot".to_owned());
            if thread.spawn_scoped(scope, reads).is_err() {
                return self.show(Window::new(self.file, self.length), show);
            }
            let mut chain = self.chain;
            for piece in read {
                let Some(memory) = piece.show(&mut chain, show)? else {
                    break;
                };
                // The other thread may have read all.
                let _ = free.send(memory);
            }
            Ok(())
        })
    }

    /// Reads pieces until `next` gives no memory for another one, or nothing is left. The first one is
    /// what this window has.
    fn read(&self, mut window: Window<'a>, mut next: impl FnMut(Piece) -> Option<Vec<u8>>) {
        let mut offset = self.first;
        loop {
            let piece = self.piece(offset, window);
            let last = piece.blocks.last();
            let is_last = piece.fault.is_some() || last.is_some_and(|it| it.kind == KIND_END);
            offset = last.map_or(offset, |block| block.end);
            match next(piece) {
                Some(memory) if !is_last => {
                    window = Window::growing(self.file, self.length, WINDOW..WINDOW, memory);
                }
                _ => return,
            }
        }
    }

    /// The piece that begins here, with the memory of a window.
    fn piece(&self, mut offset: u64, mut window: Window<'a>) -> Piece {
        let (mut blocks, mut fault) = (Vec::new(), None);
        while blocks.is_empty() || has_next(&window, offset) {
            match block(&mut window, offset, self.seed) {
                Ok(Ok((block, _))) => {
                    blocks.push(block);
                    offset = block.end;
                    if block.kind == KIND_END {
                        break;
                    }
                    continue;
                }
                Ok(Err(what)) => fault = Some(Fault::Bad(offset, what)),
                Err(error) => fault = Some(Fault::Error(Error::io("read", self.name)(error))),
            }
            break;
        }
        Piece {
            start: window.start(),
            bytes: window.into_bytes(),
            blocks,
            fault,
        }
    }
}

/// Whether all of the block at this offset was read already.
fn has_next(window: &Window<'_>, offset: u64) -> bool {
    let head = window.read(offset, BLOCK_HEADER);
    head.is_some_and(|head| window.read(offset, block_bytes(head)).is_some())
}
