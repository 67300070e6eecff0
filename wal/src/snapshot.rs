//! Snapshots: files that stand for all records up to a position, so that a log
//! need not be read from its first record, nor kept for ever.
//!
//! What is in one is the caller's business, but for its order: first the *kept
//! records*, with their positions, which are what the caller wants to read
//! again of records that the log will lose; then the *entries*, which are bytes.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the beginning (see `format`), magic `walsnaps` |
//! | 16 | 16 | log id |
//! | 32 | 8 | number of the snapshot |
//! | 40 | 8 | covers: every record up to this position is in it |
//! | 48 | 12 | zeros |
//! | 60 | 4 | CRC32 of the 60 bytes before |
//! | 64 | … | blocks |
//!
//! A block, without anything between it and the next:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | payload bytes |
//! | 4 | 4 | items in the payload |
//! | 8 | 1 | kind: 1 kept records, 2 entries, 3 the end |
//! | 9 | 7 | zeros |
//! | 16 | 8 | kept records: the first position; else zeros |
//! | 24 | 4 | CRC32 of the payload, from the seed of the log |
//! | 28 | 4 | CRC32 of the 28 bytes before, from the seed of the log |
//! | 32 | 16 | chain digest: BLAKE3 of the digest before, bytes 0 to 31, and the payload |
//! | 48 | … | payload |
//!
//! The digest before the first block is that of the header's 64 bytes. A kept
//! record is its position (8 bytes), its length (4) and its bytes; an entry its
//! length (4) and its bytes. The end is one item: upto, the number of kept
//! records and the number of entries (8 bytes each). Nothing follows it, and
//! the manifest has its digest and the file's length.

use std::sync::Arc;

use crate::error::{BoxError, Error};
use crate::format::{
    self, Chain, LogId, NUMBER_LIMIT, PRELUDE, Prelude, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, get_16,
    get_u32, get_u64, is_zero, to_u32, to_u64, to_usize,
};
use crate::manifest::Snapshot;
use crate::storage::{File, Storage, write_all_at};
use crate::survey::{Record, Visitor, Window};

const HEADER: usize = 64;
const BLOCK_HEADER: usize = 48;
const CHAIN: usize = 32;
/// Bytes of payload at which a block is written.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes written between two syncs: what commits wait for shares the disk, and waits behind them.
const SYNC_EVERY: u64 = 256 << 10;
const KIND_KEPT: u8 = 1;
const KIND_ENTRIES: u8 = 2;
const KIND_END: u8 = 3;

/// What is known of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Counts the snapshots of a log.
    pub number: u64,
    /// Every record up to this position is in it.
    pub covers: u64,
    /// The last position of which anything is in it.
    pub upto: u64,
    /// Length of its file in bytes.
    pub bytes: u64,
}

impl From<&Snapshot> for SnapshotInfo {
    fn from(listed: &Snapshot) -> Self {
        Self {
            number: listed.number,
            covers: listed.covers,
            upto: listed.upto,
            bytes: listed.length,
        }
    }
}

/// A snapshot that could not be read, and was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSnapshot {
    /// Its number.
    pub number: u64,
    /// Its file.
    pub file: String,
    /// Where in the file it is damaged, in bytes.
    pub offset: u64,
    /// What was found there.
    pub what: String,
}

fn header(log: &LogId, number: u64, covers: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..PRELUDE].copy_from_slice(&format::prelude(&SNAPSHOT_MAGIC, SNAPSHOT_VERSION));
    bytes[16..32].copy_from_slice(log);
    bytes[32..40].copy_from_slice(&number.to_le_bytes());
    bytes[40..48].copy_from_slice(&covers.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

fn chained(before: &Chain, head: &[u8], payload: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(head).update(payload);
    format::short_digest(&hasher)
}

fn first_chain(header: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header);
    format::short_digest(&hasher)
}

/// Where the kept records are in a snapshot: the first position of each block.
type KeptBlocks = Vec<(u64, u64)>;

/// Writes a snapshot beside the log. Dropped without being installed, it
/// removes what it has written.
pub struct SnapshotWriter {
    storage: Arc<dyn Storage>,
    file: Arc<dyn File>,
    log: LogId,
    seed: u32,
    number: u64,
    covers: u64,
    /// The block being filled.
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
    /// Log bytes that had been appended when it began.
    pub(crate) log_bytes: u64,
    installed: bool,
}

impl SnapshotWriter {
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        log: LogId,
        number: u64,
        covers: u64,
        log_bytes: u64,
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
            block: Vec::with_capacity(BLOCK_HEADER + BLOCK_BYTES * 2),
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
            log_bytes,
            installed: false,
        };
        write_all_at(writer.file.as_ref(), &header, 0).map_err(failed)?;
        Ok(writer)
    }

    /// Every record up to this position is in it.
    #[must_use]
    pub fn covers(&self) -> u64 {
        self.covers
    }

    /// Bytes that have been written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Keeps these bytes of the record at `position`: what [`crate::Appender::read`] gives when
    /// the log no longer has it.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing but this snapshot.
    ///
    /// # Panics
    /// When positions do not rise, are above what the snapshot covers, or an entry came before.
    pub fn keep(&mut self, position: u64, record: &[u8]) -> Result<(), Error> {
        assert!(
            self.kind == KIND_KEPT && self.last_kept < position && position <= self.covers,
            "kept records come first, in order, and are covered"
        );
        if self.items == 0 {
            self.first = position;
        }
        self.last_kept = position;
        self.kept += 1;
        self.block.extend_from_slice(&position.to_le_bytes());
        self.item(record)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nothing but this snapshot.
    pub fn entry(&mut self, entry: &[u8]) -> Result<(), Error> {
        if self.kind == KIND_KEPT {
            self.flush()?;
            self.kind = KIND_ENTRIES;
            self.first = 0;
        }
        self.entries += 1;
        self.item(entry)
    }

    fn item(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.block
            .extend_from_slice(&to_u32(bytes.len()).to_le_bytes());
        self.block.extend_from_slice(bytes);
        self.items += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.items == 0 {
            return Ok(());
        }
        let mut head = [0; BLOCK_HEADER];
        head[..4].copy_from_slice(&to_u32(self.block.len()).to_le_bytes());
        head[4..8].copy_from_slice(&self.items.to_le_bytes());
        head[8] = self.kind;
        head[16..24].copy_from_slice(&self.first.to_le_bytes());
        head[24..28].copy_from_slice(&crc(self.seed, &self.block).to_le_bytes());
        let header_crc = crc(self.seed, &head[..28]);
        head[28..32].copy_from_slice(&header_crc.to_le_bytes());
        self.chain = chained(&self.chain, &head[..CHAIN], &self.block);
        head[CHAIN..].copy_from_slice(&self.chain);
        if self.kind == KIND_KEPT {
            self.kept_blocks.push((self.first, self.offset));
            self.kept_bytes += to_u64(BLOCK_HEADER + self.block.len());
        }
        let name = || {
            self.storage
                .describe(&format::snapshot_temp_name(self.number))
        };
        let length = to_u64(BLOCK_HEADER + self.block.len());
        // One write: a header and its payload side by side.
        self.block.splice(..0, head);
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
        self.block.clear();
        self.block.shrink_to(BLOCK_HEADER + BLOCK_BYTES * 2);
        self.items = 0;
        Ok(())
    }

    /// Writes the end, syncs, reads all of it back and checks it; `breathe` is called after each
    /// little piece, and can give it up. What is left to do is to give it its name and to list it.
    pub(crate) fn finish(mut self, upto: u64, breathe: Breathe<'_>) -> Result<Finished, Error> {
        self.flush()?;
        let upto = upto.max(self.covers);
        self.kind = KIND_END;
        self.first = 0;
        for number in [upto, self.kept, self.entries] {
            self.block.extend_from_slice(&number.to_le_bytes());
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
        let mut breathing = Breathing {
            breathe,
            given_up: None,
        };
        let storage = self.storage.as_ref();
        let shown = show(storage, &temp, &self.log, &listed, &mut breathing);
        if let Some(error) = breathing.given_up {
            return Err(error);
        }
        match shown? {
            Shown::Whole(_) => {}
            Shown::Bad { offset, what } => {
                return Err(Error::Io {
                    what: "read back",
                    file: self.storage.describe(&temp),
                    source: std::io::Error::other(format!("at offset {offset}, {what}")),
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
            blocks: std::mem::take(&mut self.kept_blocks),
        };
        Ok(Finished {
            listed,
            kept,
            log_bytes: self.log_bytes,
            writer: self,
        })
    }
}

impl Drop for SnapshotWriter {
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
    pub(crate) log_bytes: u64,
    writer: SnapshotWriter,
}

impl Finished {
    pub(crate) fn into_kept(self) -> Kept {
        self.kept
    }

    /// Gives it its name, which is durable only once the directory is synced.
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

/// Called after each little piece of a long work: there, its caller can rest, or give it up by an
/// error.
pub(crate) type Breathe<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// Lets the caller breathe while its snapshot is read back.
struct Breathing<'a> {
    breathe: Breathe<'a>,
    given_up: Option<Error>,
}

impl Breathing<'_> {
    fn step(&mut self) -> Result<(), BoxError> {
        (self.breathe)().map_err(|error| {
            let sentence = error.to_string();
            self.given_up = Some(error);
            sentence.into()
        })
    }
}

impl Visitor for Breathing<'_> {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        self.step()
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        self.step()
    }
}

/// Sees nothing of what is checked, but that there was another record or entry of a snapshot.
pub(crate) struct Nobody<F>(pub(crate) F);

impl<F: FnMut()> Visitor for Nobody<F> {
    fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        (self.0)();
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        (self.0)();
        Ok(())
    }
}

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

/// A block that was read and checked.
struct Block<'a> {
    kind: u8,
    items: u32,
    first: u64,
    chain: Chain,
    payload: &'a [u8],
    /// Where the next one begins.
    end: u64,
}

/// Reads the block at `offset`; the error says what is wrong there.
fn block<'a>(
    window: &'a mut Window<'_>,
    offset: u64,
    seed: u32,
    before: Option<&Chain>,
) -> std::io::Result<Result<Block<'a>, &'static str>> {
    let head = window.get(offset, BLOCK_HEADER)?;
    if head.len() < BLOCK_HEADER {
        return Ok(Err("the file ends before the snapshot does"));
    }
    if crc(seed, &head[..28]) != get_u32(head, 28) || !is_zero(&head[9..16]) {
        return Ok(Err("a block's header was altered"));
    }
    let length = BLOCK_HEADER + to_usize(u64::from(get_u32(head, 0)));
    let whole = window.get(offset, length)?;
    if whole.len() < length {
        return Ok(Err("the file ends within a block"));
    }
    let (head, payload) = whole.split_at(BLOCK_HEADER);
    if crc(seed, payload) != get_u32(head, 24) {
        return Ok(Err("a block's payload was altered"));
    }
    let chain = get_16(head, CHAIN);
    if before.is_some_and(|before| chained(before, &head[..CHAIN], payload) != chain) {
        return Ok(Err("a block does not follow the one before it"));
    }
    Ok(Ok(Block {
        kind: head[8],
        items: get_u32(head, 4),
        first: get_u64(head, 16),
        chain,
        payload,
        end: offset + to_u64(length),
    }))
}

/// Splits the next item off; `None` when the payload is not made of items.
fn item<'a>(rest: &mut &'a [u8], kept: bool) -> Option<(u64, &'a [u8])> {
    let head = if kept { 12 } else { 4 };
    if rest.len() < head {
        return None;
    }
    let position = if kept { get_u64(rest, 0) } else { 0 };
    let length = to_usize(u64::from(get_u32(rest, head - 4)));
    let bytes = rest.get(head..head + length)?;
    *rest = &rest[head + length..];
    Some((position, bytes))
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
    let bad = |offset: u64, what: &str| {
        Ok(Shown::Bad {
            offset,
            what: what.to_owned(),
        })
    };
    let file = match storage.open_read(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return bad(0, "the file is missing");
        }
        Err(error) => return Err(Error::io("open", storage.describe(name))(error)),
    };
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let length = file.length().map_err(failed)?;
    if length != listed.length {
        return bad(
            length.min(listed.length),
            "the file does not have the length that the manifest lists",
        );
    }
    let mut window = Window::new(file.as_ref(), length);
    let head = window.get(0, HEADER).map_err(failed)?;
    match format::parse_prelude(head, &SNAPSHOT_MAGIC) {
        Prelude::Damaged(what) => return bad(0, what),
        Prelude::Version(SNAPSHOT_VERSION) => {}
        Prelude::Version(version) => {
            return Err(Error::Unsupported {
                file: storage.describe(name),
                version,
                newest: SNAPSHOT_VERSION,
            });
        }
    }
    if head != header(log, listed.number, listed.covers) {
        return bad(
            16,
            "the header is not that of the snapshot that the manifest lists",
        );
    }
    let refused = |position| move |source| Error::Visitor { position, source };
    visitor
        .snapshot(&listed.into())
        .map_err(refused(listed.covers))?;
    let seed = format::crc_seed(log);
    let mut chain = first_chain(head);
    let mut offset = to_u64(HEADER);
    let (mut kept, mut entries, mut last) = (0_u64, 0_u64, 0_u64);
    let mut blocks = KeptBlocks::new();
    let mut kept_bytes = 0;
    let mut told = 0;
    loop {
        let block = match block(&mut window, offset, seed, Some(&chain)).map_err(failed)? {
            Ok(block) => block,
            Err(what) => return bad(offset, what),
        };
        let mut rest = block.payload;
        match block.kind {
            KIND_KEPT if entries == 0 => {
                blocks.push((block.first, offset));
                kept_bytes += block.end - offset;
                for _ in 0..block.items {
                    let Some((position, payload)) = item(&mut rest, true) else {
                        return bad(offset, "a block is not made of kept records");
                    };
                    if position <= last || position > listed.covers {
                        return bad(offset, "kept records are not in order");
                    }
                    last = position;
                    kept += 1;
                    visitor
                        .kept(Record { position, payload })
                        .map_err(refused(position))?;
                }
            }
            KIND_ENTRIES => {
                for _ in 0..block.items {
                    let Some((_, entry)) = item(&mut rest, false) else {
                        return bad(offset, "a block is not made of entries");
                    };
                    entries += 1;
                    visitor.entry(entry).map_err(refused(listed.covers))?;
                }
            }
            KIND_END if block.payload.len() == 24 && block.items == 1 => {
                let end = [0, 8, 16].map(|at| get_u64(block.payload, at));
                if end != [listed.upto, kept, entries]
                    || block.chain != listed.chain
                    || block.end != length
                {
                    return bad(offset, "the end is not the one that the manifest lists");
                }
                break;
            }
            _ => return bad(offset, "a block has no known kind"),
        }
        if !rest.is_empty() && block.kind != KIND_END {
            return bad(offset, "a block is not made of its items");
        }
        chain = block.chain;
        offset = block.end;
        if offset - told >= 1 << 20 {
            visitor.progress_of_snapshot(offset, length);
            told = offset;
        }
    }
    Ok(Shown::Whole(Kept {
        file,
        name: storage.describe(name),
        seed,
        covers: listed.covers,
        length,
        bytes: kept_bytes,
        blocks,
    }))
}

/// Whether a file says of itself that it is this log's snapshot.
pub(crate) fn is_of(storage: &dyn Storage, name: &str, log: &LogId) -> Result<bool, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let mut head = [0; HEADER];
    let read = file.read_at(&mut head, 0).map_err(failed)?;
    let (number, covers) = (get_u64(&head, 32), get_u64(&head, 40));
    Ok(read == HEADER && head == header(log, number, covers))
}

/// What a manifest would list for this file, as far as the file itself tells:
/// nothing when it is not a whole snapshot of this log.
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
    if head != header(log, number, covers) || format::parse_snapshot_name(name) != Some(number) {
        return Ok(None);
    }
    let seed = format::crc_seed(log);
    let mut offset = to_u64(HEADER);
    loop {
        // The chain is checked when the snapshot is read.
        let Ok(block) = block(&mut window, offset, seed, None).map_err(failed)? else {
            return Ok(None);
        };
        if block.kind == KIND_END && block.payload.len() == 24 {
            let upto = get_u64(block.payload, 0);
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

/// For fuzzers: makes the checksums of a snapshot's blocks right, and their
/// digests; gives the last one.
#[cfg(feature = "fuzzing")]
pub(crate) fn mend(bytes: &mut [u8], log: &LogId, digests: bool) -> Chain {
    if bytes.len() < HEADER {
        return Chain::default();
    }
    for end in [12, 60] {
        let crc = crc32fast::hash(&bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let seed = format::crc_seed(log);
    let mut chain = first_chain(&bytes[..HEADER]);
    let mut at = HEADER;
    while bytes.len() >= at + BLOCK_HEADER {
        let payload = to_usize(u64::from(get_u32(bytes, at)));
        let Some(whole) = bytes.get_mut(at..at + BLOCK_HEADER + payload) else {
            break;
        };
        let (head, payload) = whole.split_at_mut(BLOCK_HEADER);
        head[24..28].copy_from_slice(&crc(seed, payload).to_le_bytes());
        let header_crc = crc(seed, &head[..28]);
        head[28..32].copy_from_slice(&header_crc.to_le_bytes());
        if digests {
            chain = chained(&chain, &head[..CHAIN], payload);
            head[CHAIN..].copy_from_slice(&chain);
        }
        at += whole.len();
    }
    chain
}

/// The kept records of a snapshot, for reading.
#[derive(Clone)]
pub(crate) struct Kept {
    file: Arc<dyn File>,
    name: String,
    seed: u32,
    pub(crate) covers: u64,
    length: u64,
    /// Bytes of its blocks.
    pub(crate) bytes: u64,
    blocks: KeptBlocks,
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
            self.block(*offset, 1 << 17, visit)?;
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
        let block = block(&mut window, offset, self.seed, None)
            .map_err(failed)?
            .map_err(damaged)?;
        let mut rest = block.payload;
        for _ in 0..block.items {
            let Some((position, payload)) = item(&mut rest, true) else {
                return Err(damaged("a block is not made of kept records"));
            };
            visit(Record { position, payload })?;
        }
        Ok(())
    }
}
