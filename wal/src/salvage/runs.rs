//! Sound frames that follow each other, found without a manifest.

use std::io;

use crate::error::{BoxError, Error};
use crate::format::{
    Chain, FIRST_FRAME, HeaderFound as SegmentFound, LogId, SegmentHeader, get_16, to_u64, to_usize,
};
use crate::frame::{self, FrameHeader, HEADER, HeaderFound, KIND_START};
use crate::opening::no_manifest;
use crate::snapshot;
use crate::storage::Storage;
use crate::visitor::Record;
use crate::window::{WINDOW, Window};

/// Sound frames that follow each other in one segment.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) end: u64,
    /// The position of the first record, or the next one when there are none.
    pub(super) first: u64,
    /// The position after the last record.
    pub(super) next: u64,
    /// The digest after the last frame.
    pub(super) chain: Chain,
}

/// The content of a segment.
pub(super) struct SegmentRuns {
    pub(super) runs: Vec<Run>,
    /// The highest position that any frame in it states.
    pub(super) highest: u64,
    /// The highest position that any frame in it states to have been durable.
    pub(super) durable: u64,
}

/// Finds the runs of a segment, from its beginning to its end, over whatever lies between.
pub(super) fn find(
    storage: &dyn Storage,
    seed: u32,
    number: u64,
    name: &str,
) -> Result<SegmentRuns, Error> {
    let mut found = SegmentRuns {
        runs: Vec::new(),
        highest: 0,
        durable: 0,
    };
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut window = Window::new(file.as_ref(), length);
    let mut offset = FIRST_FRAME;
    let (mut run, mut buffer) = (None::<Run>, Vec::new());
    while let Some((at, header)) = next_frame(&mut window, seed, offset, length).map_err(failed)? {
        let bytes = to_usize(header.bytes());
        let frame = window.get_mut(at, bytes).map_err(failed)?;
        let sound = frame.len() == bytes
            && header.segment == number
            && header.payload_is_sound(frame, seed)
            && (!header.is_data() || header.records(frame, &mut buffer).is_some());
        found.durable = found.durable.max(header.durable);
        found.highest = found.highest.max(header.durable);
        if !sound {
            offset = at + 8;
            continue;
        }
        let follows = run.as_ref().is_some_and(|run| {
            run.end == at && run.next == header.first && header.follows(frame, &run.chain)
        });
        if !follows {
            found.runs.extend(run.take());
        }
        let next = header.first + u64::from(header.records);
        found.highest = found.highest.max(next - 1);
        let first = header.first;
        let run = run.get_or_insert_with(|| Run {
            name: name.to_owned(),
            offset: at,
            end: at,
            first,
            next: first,
            chain: header.chain,
        });
        run.end = at + header.bytes();
        run.next = next;
        run.chain = header.chain;
        offset = run.end;
    }
    found.runs.extend(run);
    Ok(found)
}

/// Finds the next sound header at or after an offset.
fn next_frame(
    window: &mut Window<'_>,
    seed: u32,
    from: u64,
    length: u64,
) -> io::Result<Option<(u64, FrameHeader)>> {
    let head = window.get(from, HEADER)?;
    if head.len() == HEADER
        && let HeaderFound::Sound(header) = FrameHeader::parse(head, seed)
    {
        return Ok(Some((from, header)));
    }
    let mut at = from / 8 * 8;
    while at < length {
        let piece = window.get(at, WINDOW.min(to_usize(length - at)))?;
        if piece.is_empty() {
            break;
        }
        if let Some((found, header)) = frame::find_sound(piece, seed) {
            return Ok(Some((at + to_u64(found), header)));
        }
        // A header may begin in the last bytes of this piece.
        at += to_u64(piece.len().saturating_sub(HEADER) / 8 * 8 + 8);
    }
    Ok(None)
}

impl Run {
    /// Whether its first frame follows the frame with this digest.
    pub(super) fn follows(
        &self,
        storage: &dyn Storage,
        seed: u32,
        before: &Chain,
    ) -> Result<bool, Error> {
        let failed = |source| Error::io("read", storage.describe(&self.name))(source);
        let file = storage.open_read(&self.name).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut window = Window::with_piece(file.as_ref(), length, HEADER);
        let head = window.get(self.offset, HEADER).map_err(failed)?;
        let HeaderFound::Sound(header) = FrameHeader::parse(head, seed) else {
            return Ok(false);
        };
        let frame = window
            .get_mut(self.offset, to_usize(header.bytes()))
            .map_err(failed)?;
        let starts = header.kind != KIND_START
            || frame.get(HEADER..HEADER + 16).map(|bytes| get_16(bytes, 0)) == Some(*before);
        Ok(starts && header.follows(frame, before))
    }

    /// Shows its records, and how many bytes it has read, after each frame.
    fn read(
        &self,
        storage: &dyn Storage,
        seed: u32,
        visit: &mut dyn FnMut(Seen<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        let failed = |source| Error::io("read", storage.describe(&self.name))(source);
        let file = storage.open_read(&self.name).map_err(failed)?;
        let mut window = Window::new(file.as_ref(), self.end);
        let (mut offset, mut buffer) = (self.offset, Vec::new());
        while offset < self.end {
            let head = window.get(offset, HEADER).map_err(failed)?;
            let HeaderFound::Sound(header) = FrameHeader::parse(head, seed) else {
                break;
            };
            if header.is_data() {
                let frame = window
                    .get(offset, to_usize(header.bytes()))
                    .map_err(failed)?;
                let records = header.records(frame, &mut buffer).into_iter().flatten();
                for (position, payload) in (header.first..).zip(records) {
                    visit(Seen::Record(Record { position, payload }))
                        .map_err(|source| Error::Visitor { position, source })?;
                }
            }
            offset += header.bytes();
            let position = header.first;
            visit(Seen::Bytes(header.bytes()))
                .map_err(|source| Error::Visitor { position, source })?;
        }
        Ok(())
    }
}

/// A step of showing a run.
enum Seen<'a> {
    Record(Record<'a>),
    /// The bytes of one more frame were read.
    Bytes(u64),
}

/// A step of showing several runs.
pub(super) enum Step<'a> {
    /// A record.
    Record(Record<'a>),
    /// The bytes read so far, and their total.
    Progress(u64, u64),
}

/// Shows the records of runs, in the order of the runs and each position once, from a position on.
pub(super) fn show(
    (storage, seed): (&dyn Storage, u32),
    runs: &[&Run],
    from: u64,
    visit: &mut dyn FnMut(Step<'_>) -> Result<(), BoxError>,
) -> Result<(), Error> {
    let total = bytes_of(runs);
    let (mut done, mut next) = (0, from);
    for run in runs {
        run.read(storage, seed, &mut |seen| match seen {
            Seen::Bytes(bytes) => {
                done += bytes;
                visit(Step::Progress(done, total))
            }
            Seen::Record(record) if record.position < next => Ok(()),
            Seen::Record(record) => {
                next = record.position + 1;
                visit(Step::Record(record))
            }
        })?;
    }
    Ok(())
}

/// Returns the bytes of runs in their files.
pub(super) fn bytes_of(runs: &[&Run]) -> u64 {
    runs.iter().map(|run| run.end - run.offset).sum()
}

/// Returns the log's id when no manifest states it: that of the oldest segment, or else of the
/// oldest snapshot, or else of another segment. Those of an interrupted recovery, which has an id of
/// its own, are newer; and it has made snapshots only if it found some.
pub(super) fn id_of(
    storage: &dyn Storage,
    segments: &[(u64, String)],
    snapshots: &[(u64, String)],
) -> Result<LogId, Error> {
    let (oldest, others) = segments.split_at(segments.len().min(1));
    for (_, name) in oldest {
        if let Some(log) = log_of_segment(storage, name)? {
            return Ok(log);
        }
    }
    for (_, name) in snapshots {
        if let Some(log) = snapshot::log_of(storage, name)? {
            return Ok(log);
        }
    }
    for (_, name) in others {
        if let Some(log) = log_of_segment(storage, name)? {
            return Ok(log);
        }
    }
    Err(match segments.first().or(snapshots.first()) {
        None => no_manifest(storage)?,
        Some((_, name)) => Error::Damaged {
            file: storage.describe(name),
            offset: 16,
            position: None,
            what: "neither the manifest nor any segment or snapshot says which log this is"
                .to_owned(),
        },
    })
}

/// Returns the log id in a segment's header; `None` when the header cannot be read.
fn log_of_segment(storage: &dyn Storage, name: &str) -> Result<Option<LogId>, Error> {
    let failed = |source| Error::io("read", storage.describe(name))(source);
    let file = storage.open_read(name).map_err(failed)?;
    let mut block = vec![0; to_usize(FIRST_FRAME)];
    let read = file.read_at(&mut block, 0).map_err(failed)?;
    block.truncate(read);
    Ok(match SegmentHeader::parse(&block) {
        SegmentFound::Sound(header) => Some(header.log),
        _ => None,
    })
}
