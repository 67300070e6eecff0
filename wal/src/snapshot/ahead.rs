//! Reads a snapshot's blocks and checks them, piece by piece: by two threads if that is wanted. One reads
//! and compares checksums, the other one digests, which takes about as long, and shows what is sound.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::layout::{BLOCK_HEADER, Block, CHAIN, KIND_END, block, block_bytes, chained};
use crate::format::{Chain, to_usize};
use crate::storage::File;
use crate::window::{WINDOW, Window};

/// Pieces that may wait to be shown.
const AHEAD: usize = 2;

const NO_FOLLOWER: &str = "a block does not follow the one before it";

/// Where the blocks are that are to be read.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    pub(super) file: &'a dyn File,
    /// The file's length.
    pub(super) length: u64,
    /// The seed of the log's checksums.
    pub(super) seed: u32,
    /// Where the first one begins.
    pub(super) first: u64,
    /// The digest before it.
    pub(super) chain: Chain,
}

/// Why there is no further block.
pub(super) enum Ended {
    /// What is at this offset is not what was written.
    Bad(u64, &'static str),
    Failed(io::Error),
}

/// Some blocks that were read, in order. Their checksums are right.
struct Piece {
    bytes: Vec<u8>,
    blocks: Vec<Read>,
    /// What comes after them, if not the next piece.
    ended: Option<Ended>,
}

struct Read {
    kind: u8,
    items: u32,
    first: u64,
    chain: Chain,
    /// Where the payload lies in the piece.
    payload: Range<usize>,
    /// Where the block is in the file.
    extent: Range<u64>,
}

impl Piece {
    /// Shows the blocks that follow the one with this digest, and each other; the memory of the piece,
    /// unless no more is to be read.
    fn show<E>(self, before: &mut Chain, show: &mut impl Shows<E>) -> Result<Option<Vec<u8>>, E> {
        for read in self.blocks {
            let head = &self.bytes[read.payload.start - BLOCK_HEADER..][..CHAIN];
            let payload = &self.bytes[read.payload];
            let offset = read.extent.start;
            if chained(before, head, payload) != read.chain {
                return Err(show.ended(Ended::Bad(offset, NO_FOLLOWER)));
            }
            *before = read.chain;
            let block = Block {
                kind: read.kind,
                items: read.items,
                first: read.first,
                chain: read.chain,
                payload,
                end: read.extent.end,
            };
            show.block(&block, offset)?;
            if read.kind == KIND_END {
                return Ok(None);
            }
        }
        match self.ended {
            Some(ended) => Err(show.ended(ended)),
            None => Ok(Some(self.bytes)),
        }
    }
}

/// To whom blocks are shown.
pub(super) trait Shows<E> {
    /// A block that is as it was written, and begins at this offset.
    fn block(&mut self, block: &Block<'_>, offset: u64) -> Result<(), E>;
    /// There is no further block, and no end.
    fn ended(&mut self, ended: Ended) -> E;
}

impl<'a> Blocks<'a> {
    /// Shows all blocks, the one that ends the snapshot included, each when it and all before it were
    /// checked. What the window has already is not read again.
    ///
    /// # Errors
    /// That of whom they are shown to.
    pub(super) fn show<E>(&self, window: Window<'a>, show: &mut impl Shows<E>) -> Result<(), E> {
        let (mut chain, mut shown) = (self.chain, Ok(()));
        self.read(window, |piece| match piece.show(&mut chain, show) {
            Ok(memory) => memory,
            Err(error) => {
                shown = Err(error);
                None
            }
        });
        shown
    }

    /// As [`Blocks::show`], while another thread reads on.
    ///
    /// # Errors
    /// As there.
    pub(super) fn show_meanwhile<E>(
        &self,
        window: Window<'a>,
        show: &mut impl Shows<E>,
    ) -> Result<(), E> {
        thread::scope(|scope| {
            let (pieces, read): (SyncSender<Piece>, Receiver<Piece>) = sync_channel(AHEAD);
            let (free, memory): (Sender<Vec<u8>>, Receiver<Vec<u8>>) = channel();
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
                match piece.show(&mut chain, show)? {
                    Some(memory) => {
                        // The other thread may have read all.
                        let _ = free.send(memory);
                    }
                    None => break,
                }
            }
            Ok(())
        })
    }

    /// Reads pieces until `next` gives no memory for another one, or nothing is left. The first one is
    /// what this window has.
    fn read(&self, mut window: Window<'a>, mut next: impl FnMut(Piece) -> Option<Vec<u8>>) {
        let mut offset = self.first;
        loop {
            let (piece, is_last) = self.piece(&mut offset, window);
            match next(piece) {
                Some(memory) if !is_last => {
                    window = Window::growing(self.file, self.length, WINDOW..WINDOW, memory);
                }
                _ => return,
            }
        }
    }

    /// The piece that begins here, with the memory of a window, and whether it is the last one.
    fn piece(&self, offset: &mut u64, mut window: Window<'a>) -> (Piece, bool) {
        let (mut blocks, mut ended) = (Vec::new(), None);
        let mut is_last = false;
        while !is_last && (blocks.is_empty() || has_next(&window, *offset)) {
            match block(&mut window, *offset, self.seed) {
                Ok(Ok(block)) => {
                    let extent = *offset..block.end;
                    let mut read = Read {
                        kind: block.kind,
                        items: block.items,
                        first: block.first,
                        chain: block.chain,
                        payload: 0..block.payload.len(),
                        extent,
                    };
                    let payload = to_usize(*offset - window.start()) + BLOCK_HEADER;
                    read.payload = payload..payload + read.payload.len();
                    is_last = read.kind == KIND_END;
                    *offset = read.extent.end;
                    blocks.push(read);
                }
                Ok(Err(what)) => ended = Some(Ended::Bad(*offset, what)),
                Err(error) => ended = Some(Ended::Failed(error)),
            }
            is_last |= ended.is_some();
        }
        let piece = Piece {
            bytes: window.into_bytes(),
            blocks,
            ended,
        };
        (piece, is_last)
    }
}

/// Whether all of the block at this offset was read already.
fn has_next(window: &Window<'_>, offset: u64) -> bool {
    let head = window.read(offset, BLOCK_HEADER);
    head.is_some_and(|head| window.read(offset, block_bytes(head)).is_some())
}
