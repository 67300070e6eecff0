//! Reads a snapshot and checks every byte of it.

use std::io;
use std::sync::Arc;

use super::ahead::{Blocks, Fault};
use super::kept::Kept;
use super::layout::{
    BLOCK_HEADER, Block, HEADER, KIND_END, KIND_ENTRIES, KIND_KEPT, KeptBlocks, block, first_chain,
    is_header, item, unpacked,
};
use crate::error::{BoxError, Error};
use crate::format::{
    self, LogId, NUMBER_LIMIT, Prelude, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, get_u64, to_u64,
};
use crate::manifest::Snapshot;
use crate::storage::{File, Storage};
use crate::visitor::{Record, Visitor};
use crate::window::Window;

/// Bytes between two calls of [`Visitor::progress_of_snapshot`].
const PROGRESS: u64 = 1 << 20;

/// What came of reading a snapshot.
pub(crate) enum Shown {
    /// It is as it was written.
    Whole(Kept),
    Bad {
        offset: u64,
        what: String,
    },
}

impl Shown {
    /// That the snapshot of this name is whole, or the damage.
    pub(crate) fn whole(self, storage: &dyn Storage, name: &str) -> Result<(), Error> {
        match self {
            Self::Whole(_) => Ok(()),
            Self::Bad { offset, what } => Err(Error::Damaged {
                file: storage.describe(name),
                offset,
                position: None,
                what,
            }),
        }
    }
}

/// Reads a snapshot, checks every byte of it against what the manifest lists,
/// and shows it to the visitor while doing so.
pub(crate) fn show(
    storage: &dyn Storage,
    name: &str,
    log: &LogId,
    listed: &Snapshot,
    visitor: &mut dyn Visitor,
) -> Result<Shown, Error> {
    shown(storage, name, log, (listed, false), visitor)
}

/// As [`show`], by two threads: one reads and checks, while the visitor is shown what was.
pub(crate) fn show_by_two(
    storage: &dyn Storage,
    name: &str,
    log: &LogId,
    listed: &Snapshot,
    visitor: &mut dyn Visitor,
) -> Result<Shown, Error> {
    shown(storage, name, log, (listed, true), visitor)
}

fn shown(
    storage: &dyn Storage,
    name: &str,
    log: &LogId,
    (listed, is_ahead): (&Snapshot, bool),
    visitor: &mut dyn Visitor,
) -> Result<Shown, Error> {
    let file = match storage.open_read(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Shown::Bad {
                offset: 0,
                what: "the file is missing".to_owned(),
            });
        }
        Err(error) => return Err(Error::io("open", storage.describe(name))(error)),
    };
    let reading = Reading {
        file,
        name: storage.describe(name),
        log,
        listed,
        visitor,
        is_ahead,
        told: 0,
        kept: 0,
        entries: 0,
        last: 0,
        blocks: KeptBlocks::new(),
        kept_bytes: 0,
        unpacked: 0,
        room: Vec::new(),
    };
    match reading.whole() {
        Ok(kept) => Ok(Shown::Whole(kept)),
        Err(Fault::Bad(offset, what)) => Ok(Shown::Bad {
            offset,
            what: what.to_owned(),
        }),
        Err(Fault::Error(error)) => Err(error),
    }
}

/// A snapshot that is being read.
struct Reading<'a> {
    file: Arc<dyn File>,
    name: String,
    log: &'a LogId,
    listed: &'a Snapshot,
    visitor: &'a mut dyn Visitor,
    /// Whether another thread reads on while something is shown.
    is_ahead: bool,
    /// How far the visitor was told that it is.
    told: u64,
    /// Kept records that were read.
    kept: u64,
    /// Entries that were read.
    entries: u64,
    /// The position of the last kept record.
    last: u64,
    blocks: KeptBlocks,
    /// Bytes of the blocks of kept records.
    kept_bytes: u64,
    /// Bytes of the blocks of kept records and entries, unpacked.
    unpacked: u64,
    /// What a block is unpacked into.
    room: Vec<u8>,
}

impl Reading<'_> {
    fn failed(&self, source: io::Error) -> Fault {
        Fault::Error(Error::io("read", self.name.as_str())(source))
    }

    /// Shows what is in a block, or checks that it ends the snapshot.
    fn block(&mut self, block: &Block, payload: &[u8]) -> Result<(), Fault> {
        if block.kind == KIND_END {
            self.end(block, payload)?;
            let shown = self.visitor.snapshot_shown();
            return shown.map_err(Self::refused(self.listed.covers));
        }
        self.items(block, payload)?;
        if block.end - self.told >= PROGRESS {
            self.visitor
                .progress_of_snapshot(block.end, self.listed.length);
            self.told = block.end;
        }
        Ok(())
    }

    fn refused(position: u64) -> impl FnOnce(BoxError) -> Fault {
        move |source| Fault::Error(Error::Visitor { position, source })
    }

    fn whole(mut self) -> Result<Kept, Fault> {
        let (file, name) = (Arc::clone(&self.file), self.name.clone());
        let length = file.length().map_err(|error| self.failed(error))?;
        if length != self.listed.length {
            return Err(Fault::Bad(
                length.min(self.listed.length),
                "the file does not have the length that the manifest lists",
            ));
        }
        let mut window = Window::new(file.as_ref(), length);
        let head = window.get(0, HEADER).map_err(|error| self.failed(error))?;
        self.header(head)?;
        let chain = first_chain(head);
        self.visitor
            .snapshot(&self.listed.into())
            .map_err(Self::refused(self.listed.covers))?;
        let blocks = Blocks {
            file: file.as_ref(),
            name: &name,
            length,
            seed: format::crc_seed(self.log),
            first: to_u64(HEADER),
            chain,
        };
        let is_ahead = self.is_ahead;
        let mut show = |block: &Block, payload: &[u8]| self.block(block, payload);
        match is_ahead {
            true => blocks.show_meanwhile(window, &mut show)?,
            false => blocks.show(window, &mut show)?,
        }
        Ok(Kept {
            file: self.file,
            name: self.name,
            seed: format::crc_seed(self.log),
            covers: self.listed.covers,
            length,
            bytes: self.kept_bytes,
            unpacked: self.unpacked,
            blocks: self.blocks,
        })
    }

    fn header(&self, head: &[u8]) -> Result<(), Fault> {
        match format::parse_prelude(head, &SNAPSHOT_MAGIC) {
            Prelude::Damaged(what) => return Err(Fault::Bad(0, what)),
            Prelude::Version(1..=SNAPSHOT_VERSION) => {}
            Prelude::Version(version) => {
                return Err(Fault::Error(Error::Unsupported {
                    file: self.name.clone(),
                    version,
                    newest: SNAPSHOT_VERSION,
                }));
            }
        }
        if !is_header(head, self.log, self.listed.number, self.listed.covers) {
            let what = "the header is not that of the snapshot that the manifest lists";
            return Err(Fault::Bad(16, what));
        }
        Ok(())
    }

    /// Shows the items of a block.
    fn items(&mut self, block: &Block, payload: &[u8]) -> Result<(), Fault> {
        let bad = |what| Fault::Bad(block.offset, what);
        let covers = self.listed.covers;
        let mut room = std::mem::take(&mut self.room);
        let (kind, mut rest) = unpacked(block.kind, payload, &mut room).map_err(bad)?;
        self.unpacked += to_u64(BLOCK_HEADER + rest.len());
        match kind {
            KIND_KEPT if self.entries == 0 => {
                self.blocks.push((block.first, block.offset));
                self.kept_bytes += block.end - block.offset;
                for _ in 0..block.items {
                    let (position, payload) = item(&mut rest, true)
                        .ok_or_else(|| bad("a block is not made of kept records"))?;
                    if position <= self.last || position > covers {
                        return Err(bad("kept records are not in order"));
                    }
                    self.last = position;
                    self.kept += 1;
                    self.visitor
                        .kept(Record { position, payload })
                        .map_err(Self::refused(position))?;
                }
            }
            KIND_ENTRIES => {
                for _ in 0..block.items {
                    let (_, entry) = item(&mut rest, false)
                        .ok_or_else(|| bad("a block is not made of entries"))?;
                    self.entries += 1;
                    self.visitor.entry(entry).map_err(Self::refused(covers))?;
                }
            }
            _ => return Err(bad("a block has no known kind")),
        }
        if !rest.is_empty() {
            return Err(bad("a block is not made of its items"));
        }
        self.room = room;
        Ok(())
    }

    /// Checks the block that ends the snapshot.
    fn end(&self, block: &Block, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 24 || block.items != 1 {
            return Err(Fault::Bad(block.offset, "a block has no known kind"));
        }
        let end = [0, 8, 16].map(|at| get_u64(payload, at));
        if end != [self.listed.upto, self.kept, self.entries]
            || block.chain != self.listed.chain
            || block.end != self.listed.length
        {
            let what = "the end is not the one that the manifest lists";
            return Err(Fault::Bad(block.offset, what));
        }
        Ok(())
    }
}

/// Whether a file says of itself that it is this log's snapshot.
pub(crate) fn is_of(storage: &dyn Storage, name: &str, log: &LogId) -> Result<bool, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let mut head = [0; HEADER];
    let read = file.read_at(&mut head, 0).map_err(failed)?;
    let (number, covers) = (get_u64(&head, 32), get_u64(&head, 40));
    Ok(read == HEADER && is_header(&head, log, number, covers))
}

/// What a manifest would list for this file, from the file alone; `None` when
/// it is not a whole snapshot of this log.
pub(crate) fn introduce(
    storage: &dyn Storage,
    name: &str,
    log: &LogId,
) -> Result<Option<Snapshot>, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut window = Window::new(file.as_ref(), length);
    let head = window.get(0, HEADER).map_err(failed)?;
    if head.len() < HEADER {
        return Ok(None);
    }
    let (number, covers) = (get_u64(head, 32), get_u64(head, 40));
    if number.max(covers) >= NUMBER_LIMIT {
        return Ok(None);
    }
    if !is_header(head, log, number, covers) || format::parse_snapshot_name(name) != Some(number) {
        return Ok(None);
    }
    let seed = format::crc_seed(log);
    let mut offset = to_u64(HEADER);
    loop {
        // The chain is checked when the snapshot is read.
        let Ok((block, payload)) = block(&mut window, offset, seed).map_err(failed)? else {
            return Ok(None);
        };
        if block.kind == KIND_END && payload.len() == 24 {
            let upto = get_u64(payload, 0);
            return Ok(
                (block.end == length && covers <= upto && upto < NUMBER_LIMIT).then_some(
                    Snapshot {
                        number,
                        covers,
                        upto,
                        length,
                        chain: block.chain,
                    },
                ),
            );
        }
        offset = block.end;
    }
}
