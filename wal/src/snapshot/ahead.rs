//! Reads and checks a snapshot's blocks, piece by piece, by two threads if that is wanted. One reads and
//! compares checksums, the other one compares digests and shows the sound blocks. When showing takes longer,
//! the reading thread compares digests as well, instead of waiting: a block states its digest, so each can
//! be checked before those in front of it were.

use std::collections::VecDeque;
use std::sync::mpsc::{TrySendError, channel, sync_channel};
use std::thread;

use super::layout::{BLOCK_HEADER, Block, KIND_END, block, block_bytes, chained};
use crate::error::Error;
use crate::format::{Chain, to_usize};
use crate::storage::File;
use crate::window::{WINDOW, Window};

/// Number of pieces that may wait to be shown: enough that a thread that gets no processor for a moment does
/// not hold up the other one. Larger pieces, which have one block each, count by their bytes.
const AHEAD: usize = 8;

/// Why a snapshot was not read to its end.
pub(super) enum Fault {
    /// The bytes at this offset are not those that were written.
    Bad(u64, &'static str),
    Error(Error),
}

/// The blocks to read, and their place.
pub(super) struct Blocks<'a> {
    pub(super) file: &'a dyn File,
    /// The file's name.
    pub(super) name: &'a str,
    /// The file's length.
    pub(super) length: u64,
    /// The seed of the log's checksums.
    pub(super) seed: u32,
    /// The offset of the first block.
    pub(super) first: u64,
    /// The digest before the first block.
    pub(super) chain: Chain,
}

/// The callback that is shown a block and its payload.
type Show<'a> = dyn FnMut(&Block, &[u8]) -> Result<(), Fault> + 'a;

/// Some blocks that were read, in order, with right checksums.
struct Piece {
    /// The bytes of the file from offset `start` on.
    bytes: Vec<u8>,
    start: u64,
    blocks: Vec<Block>,
    /// Whether their digests are right, too.
    is_digested: bool,
    /// Why there is no further block.
    fault: Option<Fault>,
}

impl Piece {
    /// Compares the digests of the blocks, the first of which follows the block with the digest `before`.
    /// Drops the first block whose digest is wrong, and all after it.
    fn digest(&mut self, mut before: Chain) {
        let mut sound = 0;
        for block in &self.blocks {
            if let Err(fault) =
                follows(&before, block, bytes_of(&mut self.bytes, self.start, block))
            {
                self.fault = Some(fault);
                break;
            }
            before = block.chain;
            sound += 1;
        }
        self.blocks.truncate(sound);
        self.is_digested = true;
    }

    /// Shows the blocks, the first of which follows the one with the digest `before`; compares their digests
    /// if that was not done. Returns the memory of the piece, or `None` when no more is to be read.
    fn show(mut self, before: &mut Chain, show: &mut Show<'_>) -> Result<Option<Vec<u8>>, Fault> {
        for block in self.blocks {
            let bytes = bytes_of(&mut self.bytes, self.start, &block);
            if !self.is_digested {
                follows(before, &block, bytes)?;
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

/// Returns the bytes of a block, out of `bytes`, which begin at offset `start`.
fn bytes_of<'b>(bytes: &'b mut [u8], start: u64, block: &Block) -> &'b mut [u8] {
    let [from, to] = [block.offset, block.end].map(|at| to_usize(at - start));
    &mut bytes[from..to]
}

/// Checks that a block follows the one with the digest `before`. Overwrites the header in its bytes, but not
/// the payload.
fn follows(before: &Chain, block: &Block, bytes: &mut [u8]) -> Result<(), Fault> {
    if chained(before, bytes) != block.chain {
        let what = "a block does not follow the one before it";
        return Err(Fault::Bad(block.offset, what));
    }
    Ok(())
}

impl<'a> Blocks<'a> {
    /// Shows all blocks, including the one that ends the snapshot, each after it and all before it were
    /// checked. Does not read again what the window has in memory.
    ///
    /// # Errors
    /// The first fault, or that of `show`.
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
    /// As [`Blocks::show`].
    pub(super) fn show_meanwhile(
        &self,
        window: Window<'a>,
        show: &mut Show<'_>,
    ) -> Result<(), Fault> {
        thread::scope(|scope| {
            let (pieces, read) = sync_channel::<Piece>(AHEAD);
            let (free, memory) = channel::<Vec<u8>>();
            let (mut before, mut given) = (self.chain, VecDeque::new());
            let reads = move || {
                self.read(window, |piece| {
                    let last = piece.blocks.last().map(|block| block.chain);
                    given.push_back(piece.bytes.len());
                    // Nobody receives pieces any more once a fault was found.
                    match pieces.try_send(piece) {
                        Ok(()) => {}
                        Err(TrySendError::Full(mut piece)) => {
                            piece.digest(before);
                            pieces.send(piece).ok()?;
                        }
                        Err(TrySendError::Disconnected(_)) => return None,
                    }
                    before = last.unwrap_or(before);
                    let mut free = memory.try_recv().ok();
                    if free.is_some() {
                        given.pop_front();
                    }
                    // Beside those that wait, one piece is being shown, and the memory of one is on its way
                    // back.
                    while given.iter().sum::<usize>() > (AHEAD + 2) * WINDOW {
                        free = Some(memory.recv().ok()?);
                        given.pop_front();
                    }
                    Some(free.unwrap_or_default())
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

    /// Reads pieces and hands them to `next`, until it returns no memory for another one or nothing is left.
    /// The first piece is what this window has in memory.
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

    /// Reads the piece that begins at `offset`, into the memory of a window.
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
            is_digested: false,
            fault,
        }
    }
}

/// Whether the whole block at this offset is in memory already.
fn has_next(window: &Window<'_>, offset: u64) -> bool {
    let head = window.read(offset, BLOCK_HEADER);
    head.is_some_and(|head| window.read(offset, block_bytes(head)).is_some())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use super::super::layout::{CHAIN, HEADER, KIND_ENTRIES, crc};
    use super::*;
    use crate::format::{to_u32, to_u64};
    use crate::storage::ReadOnlyFile;

    const SEED: u32 = 7;
    const PAYLOAD: usize = 64 << 10;
    const BLOCK: u64 = (BLOCK_HEADER + PAYLOAD) as u64;

    /// A file in memory, which counts what was read of it.
    struct Counted {
        bytes: Vec<u8>,
        read: AtomicU64,
    }

    impl ReadOnlyFile for Counted {
        fn length(&self) -> io::Result<u64> {
            Ok(to_u64(self.bytes.len()))
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let bytes = &self.bytes[to_usize(offset)..];
            let count = buffer.len().min(bytes.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            self.read.fetch_add(to_u64(count), Ordering::Relaxed);
            Ok(count)
        }
    }

    /// A file of `count` blocks, the last of which is the end. The digest of the block `wrong` is wrong, its
    /// checksums are not.
    fn file(count: usize, wrong: Option<usize>) -> Counted {
        file_of(count, PAYLOAD, wrong)
    }

    /// As [`file`], with payloads of `bytes_each` bytes.
    fn file_of(count: usize, bytes_each: usize, wrong: Option<usize>) -> Counted {
        let (mut bytes, mut chain) = (vec![0; HEADER], Chain::default());
        for number in 0..count {
            let payload = vec![number.to_le_bytes()[0]; bytes_each];
            let mut head = [0; BLOCK_HEADER];
            head[..4].copy_from_slice(&to_u32(bytes_each).to_le_bytes());
            head[8] = if number + 1 == count {
                KIND_END
            } else {
                KIND_ENTRIES
            };
            head[24..28].copy_from_slice(&crc(SEED, &payload).to_le_bytes());
            let header_crc = crc(SEED, &head[..28]);
            head[28..32].copy_from_slice(&header_crc.to_le_bytes());
            let mut block = [head.as_slice(), &payload].concat();
            chain = chained(&chain, &mut block);
            head[CHAIN..].copy_from_slice(&chain);
            head[CHAIN] ^= u8::from(wrong == Some(number));
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(&payload);
        }
        Counted {
            bytes,
            read: AtomicU64::default(),
        }
    }

    fn blocks(file: &Counted) -> Blocks<'_> {
        Blocks {
            file,
            name: "snapshot",
            length: to_u64(file.bytes.len()),
            seed: SEED,
            first: to_u64(HEADER),
            chain: Chain::default(),
        }
    }

    #[test]
    fn blocks_before_a_wrong_digest_are_all_shown_whichever_thread_digests() {
        // Far more than may wait.
        const COUNT: usize = 240;
        let most = to_u64(WINDOW) * to_u64(AHEAD + 2);
        for wrong in [None, Some(0), Some(9), Some(150), Some(COUNT - 1)] {
            for is_slow in [false, true] {
                let file = file(COUNT, wrong);
                let mut shown = 0;
                let mut show = |_: &Block, payload: &[u8]| {
                    assert_eq!(payload, [u8::try_from(shown).unwrap(); PAYLOAD]);
                    shown += 1;
                    // Waits until the other thread has read as much as it may.
                    while is_slow && shown == 1 && file.read.load(Ordering::Relaxed) < most {
                        thread::yield_now();
                    }
                    Ok(())
                };
                let blocks = blocks(&file);
                let window = Window::new(blocks.file, blocks.length);
                let told = blocks.show_meanwhile(window, &mut show);
                assert_eq!(shown, wrong.unwrap_or(COUNT));
                match (told, wrong) {
                    (Ok(()), None) => {}
                    (Err(Fault::Bad(offset, what)), Some(wrong)) => {
                        assert_eq!(offset, to_u64(HEADER) + to_u64(wrong) * BLOCK);
                        assert_eq!(what, "a block does not follow the one before it");
                    }
                    _ => panic!("a wrong digest is told, and nothing else"),
                }
            }
        }
    }

    #[test]
    fn large_blocks_wait_by_their_bytes_and_all_are_shown() {
        const COUNT: usize = 14;
        let file = file_of(COUNT, 3 * WINDOW, None);
        let read = || to_usize(file.read.load(Ordering::Relaxed));
        let (mut shown, mut ahead) = (0, 0);
        let mut show = |_: &Block, payload: &[u8]| {
            assert_eq!(payload.len(), 3 * WINDOW);
            let began = Instant::now();
            // Waits until as much was read as may be.
            while shown == 0 && read() < 30 * WINDOW && began.elapsed().as_millis() < 300 {
                thread::yield_now();
            }
            if shown == 0 {
                ahead = read();
            }
            shown += 1;
            Ok(())
        };
        let blocks = blocks(&file);
        let window = Window::new(blocks.file, blocks.length);
        let told = blocks.show_meanwhile(window, &mut show);
        assert!(told.is_ok() && shown == COUNT);
        // Four of them are too many; a window was read for the head of each before.
        assert!(ahead < 5 * 4 * WINDOW, "{ahead}");
    }

    #[test]
    fn a_piece_that_was_digested_has_no_more_than_what_is_right() {
        for wrong in [None, Some(0), Some(3)] {
            let file = file(9, wrong);
            let blocks = blocks(&file);
            let window = Window::new(blocks.file, blocks.length);
            let mut piece = blocks.piece(blocks.first, window);
            assert_eq!(piece.blocks.len(), 9);
            piece.digest(blocks.chain);
            assert_eq!(piece.blocks.len(), wrong.unwrap_or(9));
            assert_eq!(piece.fault.is_some(), wrong.is_some());
            let mut shown = 0;
            let mut show = |_: &Block, payload: &[u8]| {
                assert_eq!(payload, [u8::try_from(shown).unwrap(); PAYLOAD]);
                shown += 1;
                Ok(())
            };
            let done = piece.show(&mut blocks.chain.clone(), &mut show);
            assert_eq!(
                (done.is_err(), shown),
                (wrong.is_some(), wrong.unwrap_or(9))
            );
        }
    }
}
