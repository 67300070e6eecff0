//! Reads a snapshot and checks every byte of it.

use std::io;
use std::sync::Arc;

use super::ahead::{Blocks, Fault};
use super::kept::Kept;
use super::layout::{
    Block, HEADER, KIND_END, KIND_ENTRIES, KIND_KEPT, KeptBlocks, NOT_NOTES, Notes, Payload, block,
    first_chain, is_header, item,
};
use crate::error::{BoxError, Error};
use crate::format::{
    self, LogId, NUMBER_LIMIT, Prelude, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, get_16, get_u64, to_u64,
};
use crate::manifest::Snapshot;
use crate::storage::{File, Storage};
use crate::visitor::{Record, Visitor};
use crate::window::Window;

/// Bytes between two calls of [`Visitor::progress_of_snapshot`].
const PROGRESS: u64 = 1 << 20;

const NO_KIND: &str = "a block has no known kind";

/// The result of reading a snapshot.
pub(crate) enum Shown {
    /// The snapshot is undamaged.
    Whole(Kept),
    Bad {
        offset: u64,
        what: String,
    },
}

impl Shown {
    /// Returns the damage as an error, unless the snapshot of this name is whole.
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

/// As [`show`], with two threads: one reads and checks, while the visitor is shown what was checked.
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
        reported: 0,
        kept: 0,
        entries: 0,
        last: 0,
        blocks: KeptBlocks::new(),
        kept_bytes: 0,
        unpacked: 0,
        buffer: Vec::new(),
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
    /// The offset that was last reported to the visitor.
    reported: u64,
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
    /// The buffer into which blocks are unpacked.
    buffer: Vec<u8>,
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
        if block.end - self.reported >= PROGRESS {
            self.visitor
                .progress_of_snapshot(block.end, self.listed.length);
            self.reported = block.end;
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
        let payload = Payload::of(block, payload).map_err(bad)?;
        self.unpacked += payload.unpacked_bytes();
        let mut notes = payload.notes;
        if let Some(notes) = notes.filter(|_| self.visitor.takes_notes()) {
            return self.notes(block, notes);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut rest = payload.items(&mut buffer).map_err(bad)?;
        match payload.kind {
            KIND_KEPT if self.entries == 0 => {
                self.kept_block(block);
                for _ in 0..block.items {
                    let (position, payload) = item(&mut rest, true)
                        .ok_or_else(|| bad("a block is not made of kept records"))?;
                    self.kept_at(block, position)?;
                    if let Some(notes) = &mut notes {
                        match notes.next() {
                            Some((of, note)) if of == position => self
                                .visitor
                                .noted(position, note)
                                .map_err(Self::refused(position))?,
                            _ => return Err(bad(NOT_NOTES)),
                        }
                    }
                    self.visitor
                        .kept(Record { position, payload })
                        .map_err(Self::refused(position))?;
                }
                if notes.is_some_and(|notes| !notes.is_empty()) {
                    return Err(bad(NOT_NOTES));
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
            _ => return Err(bad(NO_KIND)),
        }
        if !rest.is_empty() {
            return Err(bad("a block is not made of its items"));
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Notes the beginning of a block of kept records.
    fn kept_block(&mut self, block: &Block) {
        self.blocks.push((block.first, block.offset));
        self.kept_bytes += block.end - block.offset;
    }

    /// Counts a kept record of the block, and checks its position.
    fn kept_at(&mut self, block: &Block, position: u64) -> Result<(), Fault> {
        if position <= self.last || position > self.listed.covers {
            return Err(Fault::Bad(block.offset, "kept records are not in order"));
        }
        self.last = position;
        self.kept += 1;
        Ok(())
    }

    /// Shows the notes of a block instead of its kept records.
    fn notes(&mut self, block: &Block, mut notes: Notes<'_>) -> Result<(), Fault> {
        let bad = |what| Fault::Bad(block.offset, what);
        if self.entries > 0 {
            return Err(bad(NO_KIND));
        }
        self.kept_block(block);
        for _ in 0..block.items {
            let (position, note) = notes.next().ok_or_else(|| bad(NOT_NOTES))?;
            self.kept_at(block, position)?;
            let noted = self.visitor.noted(position, note);
            noted.map_err(Self::refused(position))?;
        }
        match notes.is_empty() {
            true => Ok(()),
            false => Err(bad(NOT_NOTES)),
        }
    }

    /// Checks the block that ends the snapshot.
    fn end(&self, block: &Block, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 24 || block.items != 1 {
            return Err(Fault::Bad(block.offset, NO_KIND));
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

/// Whether the header of a file names this log as the snapshot's.
pub(crate) fn is_of(storage: &dyn Storage, name: &str, log: &LogId) -> Result<bool, Error> {
    Ok(log_of(storage, name)? == Some(*log))
}

/// Returns the log id in a snapshot's header; `None` when the file is no snapshot.
pub(crate) fn log_of(storage: &dyn Storage, name: &str) -> Result<Option<LogId>, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let mut head = [0; HEADER];
    let read = file.read_at(&mut head, 0).map_err(failed)?;
    let (log, number, covers) = (get_16(&head, 16), get_u64(&head, 32), get_u64(&head, 40));
    Ok((read == HEADER && is_header(&head, &log, number, covers)).then_some(log))
}

/// Returns what a manifest would list for this file, from the file alone; `None` when it is not a whole snapshot
/// of this log.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::layout::{BLOCK_HEADER, NOTE_HEAD, NOTES_HEAD, mend};
    use super::super::{SnapshotFile, SnapshotTarget as _};
    use super::*;
    use crate::storage::sim::SimDisk;

    const LOG: LogId = [7; 16];
    /// Farther apart than notes of one block can be.
    const POSITIONS: [u64; 4] = [3, 5, 6, 1 << 40];
    const COVERS: u64 = 1 << 41;

    /// Collects what is shown of a snapshot: notes with their positions, and the positions of records.
    #[derive(Default)]
    struct Seen {
        takes: bool,
        notes: Vec<(u64, Vec<u8>)>,
        kept: Vec<u64>,
    }

    impl Visitor for Seen {
        fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
            Ok(())
        }

        fn snapshot(&mut self, _: &crate::SnapshotInfo) -> Result<(), BoxError> {
            Ok(())
        }

        fn takes_notes(&self) -> bool {
            self.takes
        }

        fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
            self.notes.push((position, note.to_vec()));
            Ok(())
        }

        fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
            self.kept.push(record.position);
            Ok(())
        }

        fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
            Ok(())
        }
    }

    fn note(position: u64) -> Vec<u8> {
        vec![position.to_le_bytes()[0]; 3]
    }

    /// Writes a snapshot of records with notes; returns the name of its file, and what a manifest lists.
    fn noted(disk: &SimDisk) -> (String, Snapshot) {
        let mut writer = SnapshotFile::begin(disk.storage(), LOG, 1, COVERS).unwrap();
        for position in POSITIONS {
            let record = position.to_le_bytes().repeat(300);
            writer
                .keep(position, Some(&note(position)), &record)
                .unwrap();
        }
        writer.entry(b"an entry").unwrap();
        let mut finished = writer.finish(COVERS, &mut || Ok(())).unwrap();
        finished.rename().unwrap();
        (format::snapshot_name(1), finished.listed)
    }

    /// Returns what is shown of that snapshot after `alter` has changed its bytes, from the first block's payload
    /// on, and all checksums and digests were corrected.
    fn shown(takes: bool, alter: impl Fn(&mut [u8])) -> (Seen, Result<(), String>) {
        let disk = SimDisk::new();
        let (name, mut listed) = noted(&disk);
        let mut bytes = disk.bytes(&name).unwrap();
        alter(&mut bytes[HEADER + BLOCK_HEADER..]);
        listed.chain = mend(&mut bytes, &LOG, true);
        disk.put(&name, &bytes);
        let mut seen = Seen {
            takes,
            ..Seen::default()
        };
        let shown = show(disk.storage().as_ref(), &name, &LOG, &listed, &mut seen);
        let whole = shown.unwrap().whole(disk.storage().as_ref(), &name);
        (seen, whole.map_err(|error| error.to_string()))
    }

    #[test]
    fn notes_are_of_their_records_however_far_these_are_from_each_other() {
        for takes in [true, false] {
            let (seen, whole) = shown(takes, |_| ());
            assert_eq!(whole, Ok(()));
            assert!(
                seen.notes
                    .into_iter()
                    .eq(POSITIONS.map(|at| (at, note(at))))
            );
            let kept: &[u64] = if takes { &[] } else { &POSITIONS };
            assert_eq!(seen.kept, kept);
        }
    }

    #[test]
    fn notes_that_do_not_match_their_records_are_a_fault_and_end_the_reading() {
        const SECOND: usize = NOTES_HEAD + NOTE_HEAD + 3;
        let tell = |takes, at: usize, byte: u8| shown(takes, |bytes| bytes[at] = byte).1;
        for takes in [true, false] {
            // Too few of them, too many, one that is longer than all, and one whose record was before.
            for (at, byte) in [
                (0, 2 * 8),
                (0, 4 * 8),
                (1, 9),
                (SECOND + 4, 200),
                (SECOND, 0),
            ] {
                let told = tell(takes, at, byte).unwrap_err();
                let is_told =
                    told.contains("notes") || told.contains("order") || told.contains("packed");
                assert!(is_told, "{at}: {told}");
            }
        }
        // Only a visitor that reads the records can find this.
        assert_eq!(tell(true, SECOND, 1), Ok(()));
        let told = tell(false, SECOND, 1).unwrap_err();
        assert!(told.contains(NOT_NOTES), "{told}");
    }
}
