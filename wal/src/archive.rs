//! The archive: what compactions have moved out of logs, in a folder for each log, named after its id,
//! with segments under their own names. Existing files are never overwritten, so that logs that were
//! restored from one another can share an archive.
//!
//! A segment states itself what it holds: its header the log, epoch and number; its first frame the
//! first position and the digest before it; its last frame, which ends where the file ends, the last
//! position and the digest after it. So the segments that continue each other are found without reading
//! the rest.

mod described;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use self::described::Archived;
use crate::error::Error;
use crate::format::{self, Chain, FIRST_FRAME, LogId, to_u64, to_usize};
use crate::manifest::{Manifest, Seal, Sealed, Segment};
use crate::storage::{COPY, File, ReadOnly, Storage, copy_range};
use crate::throttle::Copying;

/// The fault of a segment that was written under the log's id, but by a copy of the log's directory.
const OF_ANOTHER_PAST: &str = "the segment does not go on from what the log holds: it was written by a \
                               copy of the log that went another way, or by another node of its journal";
/// The fault of such a segment that comes before what the log holds.
const LEADS_ELSEWHERE: &str = "what the log holds does not go on from this segment: it was written by a \
                               copy of the log that went another way, or by another node of its journal";

/// The folder of a log: its id in hexadecimal digits.
fn folder(log: &LogId) -> String {
    log.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies segments to an archive, each under its own name and durable when this
/// returns. One that is there already, from an interrupted compaction, is left as
/// it is; when it holds anything else, that is an error. `copying` is called before
/// each chunk that is copied, and at the end.
pub(crate) fn keep_in(
    storage: &dyn Storage,
    log: &LogId,
    archive: &dyn Storage,
    segments: &[Sealed],
    copying: Copying<'_>,
) -> Result<(), Error> {
    if segments.is_empty() {
        return Ok(());
    }
    let total = segments.iter().map(|segment| segment.length).sum();
    let mut before = 0;
    let folder = folder(log);
    archive
        .create_dir(&folder)
        .and_then(|()| archive.sync_dir(""))
        .map_err(Error::io("make", archive.describe(&folder)))?;
    for segment in segments {
        let file = format::segment_name(segment.number);
        let source = storage
            .open_read(&file)
            .map_err(Error::io("open", storage.describe(&file)))?;
        let name = format!("{folder}/{file}");
        let temp = format!("{folder}/{}", format::segment_temp_name(segment.number));
        let failed = |source| Error::io("archive", archive.describe(&name))(source);
        match archive.open_read(&name) {
            Ok(there)
                if is_same(source.as_ref(), there.as_ref(), segment.length).map_err(failed)? =>
            {
                before += segment.length;
                continue;
            }
            Ok(_) => {
                return Err(failed(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "another segment is there under this name, and is left as it is",
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let target = archive.create(&temp).map_err(failed)?;
        let mut at = 0;
        while at < segment.length {
            copying(before + at, total)?;
            let end = segment.length.min(at + COPY);
            copy_range(source.as_ref(), at, end, target.as_ref(), at).map_err(failed)?;
            at = end;
        }
        let kept = target.sync().and_then(|()| archive.rename(&temp, &name));
        kept.map_err(failed)?;
        before += segment.length;
    }
    copying(before, total)?;
    archive
        .sync_dir(&folder)
        .map_err(Error::io("sync", archive.describe(&folder)))
}

/// Whether the file `there` is the first `length` bytes of `source`.
fn is_same(source: &dyn File, there: &dyn File, length: u64) -> io::Result<bool> {
    if there.length()? != length {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; to_usize(COPY)], vec![0; to_usize(COPY)]);
    let mut at = 0;
    while at < length {
        let piece = to_usize((length - at).min(COPY));
        let read = source.read_at(&mut ours[..piece], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let also = there.read_at(&mut theirs[..read], at)?;
        if ours[..read] != theirs[..also] {
            return Ok(false);
        }
        at += to_u64(read);
    }
    Ok(true)
}

/// Returns the end of a sentence that says up to where everything is there, when `position` is missing.
fn whole_before(position: u64) -> String {
    match position.checked_sub(1) {
        None | Some(0) => String::new(),
        Some(last) => format!("; up to {last} everything is there"),
    }
}

/// Returns the same damage as the reason why records from this position on cannot be had.
fn keeping_from(error: Error, position: u64) -> Error {
    match error {
        Error::Damaged {
            file, offset, what, ..
        } => Error::Damaged {
            file,
            offset,
            position: Some(position),
            what: format!("{what}{}", whole_before(position)),
        },
        other => other,
    }
}

/// What separates the segments of an archive from the first position of the log that continues them.
pub(crate) struct Lacking {
    /// Damage, or that positions are missing.
    pub(crate) why: Error,
    /// The segments that continue each other without a gap from position 1 on, but do not reach the
    /// log.
    pub(crate) beginning: Vec<Segment>,
}

impl Lacking {
    /// Returns the last position of these segments.
    pub(crate) fn whole_to(&self) -> Option<u64> {
        let seal = self.beginning.last().and_then(|last| last.seal);
        seal.map(|seal| seal.last).filter(|last| *last > 0)
    }
}

/// What an archive has of one log.
pub(crate) struct ArchiveFolder {
    archive: Arc<dyn Storage>,
    log: LogId,
    folder: String,
    known: Mutex<HashMap<u64, Archived>>,
    /// Chain digests within segments, by segment number and offset.
    chains: Mutex<HashMap<(u64, u64), Option<Chain>>>,
}

impl ArchiveFolder {
    pub(crate) fn new(archive: Arc<dyn Storage>, log: LogId) -> Self {
        Self {
            archive,
            log,
            folder: folder(&log),
            known: Mutex::new(HashMap::new()),
            chains: Mutex::new(HashMap::new()),
        }
    }

    /// Returns the folder's path, as messages name it.
    pub(crate) fn path(&self) -> String {
        self.archive.describe(&self.folder)
    }

    /// Whether a file, which is named as in messages, is in this folder.
    pub(crate) fn has(&self, file: &str) -> bool {
        file.starts_with(&self.archive.describe(&format!("{}/", self.folder)))
    }

    /// Whether no segment is there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.numbers()?.is_empty())
    }

    fn name(&self, number: u64) -> String {
        format!("{}/{}", self.folder, format::segment_name(number))
    }

    /// The numbers of the segments that are there, rising.
    fn numbers(&self) -> Result<Vec<u64>, Error> {
        let names = self
            .archive
            .list(&self.folder)
            .map_err(Error::io("list", self.archive.describe(&self.folder)))?;
        let numbers = names
            .iter()
            .filter_map(|name| format::parse_segment_name(name));
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Adds the archive's segments to the manifest, before its own: from the manifest's first one back,
    /// without a gap, to the one that holds position `from`; skips those that lead nowhere. Returns
    /// what ended this early: damage, or that positions are missing after an earlier segment.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Unsupported`].
    pub(crate) fn put_before(
        &self,
        manifest: &mut Manifest,
        from: u64,
    ) -> Result<Option<Lacking>, Error> {
        let (mut why, mut nearest) = (None::<Error>, None::<(u64, u64)>);
        let mut found = Vec::new();
        let own_first = manifest.segments.first().map(|segment| segment.number);
        let own_first = own_first.unwrap_or(manifest.next_number);
        let mut numbers = self.numbers()?;
        // The archive may continue after the end of a log, as after that of a backup.
        numbers.retain(|number| *number < own_first);
        for number in numbers.iter().rev().copied() {
            if manifest.first_position <= from.max(1) {
                break;
            }
            match self.described(number) {
                Ok(archived) if archived.leads_to(manifest) => {
                    found.push(archived.segment);
                    manifest.first_position = archived.seal.first;
                    manifest.first_chain = archived.before;
                    (why, nearest) = (None, None);
                }
                // Whatever this segment is, it hides none of those before it.
                Ok(archived) if archived.seal.last + 1 < manifest.first_position => {
                    nearest = nearest.max(Some((archived.seal.last, number)));
                }
                Ok(archived) => {
                    let first = archived.seal.first;
                    why.get_or_insert_with(|| self.damaged(number, first, LEADS_ELSEWHERE));
                }
                Err(error @ Error::Damaged { .. }) => drop(why.get_or_insert(error)),
                Err(error) => return Err(error),
            }
        }
        manifest.segments.splice(..0, found.into_iter().rev());
        let first = manifest.first_position;
        if first <= from.max(1) {
            return Ok(None);
        }
        let missing = nearest.map(|(last, number)| {
            let what = format!(
                "positions {} to {} are missing behind this segment",
                last + 1,
                first - 1
            );
            self.damaged(number, last + 1, &what)
        });
        let Some(why) = why.or(missing) else {
            return Ok(None);
        };
        let beginning = self.beginning(&numbers, first)?;
        let lacking = Lacking { why, beginning };
        Ok(Some(match lacking.whole_to() {
            None => lacking,
            Some(last) => Lacking {
                why: keeping_from(lacking.why, last + 1),
                ..lacking
            },
        }))
    }

    /// Returns those of the segments with these numbers, rising, that continue each other without a gap
    /// from position 1 on, and end before the position `before`.
    fn beginning(&self, numbers: &[u64], before: u64) -> Result<Vec<Segment>, Error> {
        let mut end = (1, format::first_chain(&self.log));
        let mut segments = Vec::new();
        for number in numbers {
            match self.described(*number) {
                Ok(archived)
                    if (archived.seal.first, archived.before) == end
                        && archived.seal.last + 1 < before =>
                {
                    end = (archived.seal.last + 1, archived.seal.chain);
                    segments.push(archived.segment);
                }
                Ok(_) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(segments)
    }

    /// Adds the archive's segments to the manifest of a backup, after its own, as far as they continue
    /// it without a gap. Returns the numbers of those that replace a shorter copy, and the damage that
    /// ended this early, with the first position that cannot be had: also that records are missing
    /// before a later segment, or that a segment holds others than those of the log.
    ///
    /// # Errors
    /// As [`ArchiveFolder::put_before`].
    pub(crate) fn put_behind(
        &self,
        manifest: &mut Manifest,
    ) -> Result<(Vec<u64>, Option<Error>), Error> {
        let last = manifest.segments.last().copied();
        let (mut longer, mut damage) = (Vec::new(), None);
        let mut end = (manifest.first_position, manifest.first_chain);
        let mut number = 0;
        if let Some(last) = last {
            let Some(seal) = last.seal else {
                return Ok((longer, None));
            };
            end = (seal.last + 1, seal.chain);
            number = last.number;
        }
        for found in self.numbers()?.into_iter().filter(|found| *found >= number) {
            let archived = match self.described(found) {
                Ok(archived) => archived,
                Err(error @ Error::Damaged { .. }) => {
                    damage.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (position, chain) = end;
            let own = last.and_then(|last| last.seal.filter(|_| last.number == found));
            match own {
                // The archived segment has no more than the log's own.
                Some(own) if archived.seal.last < own.last || archived.seal.chain == own.chain => {
                    continue;
                }
                Some(own) => {
                    if !self.goes_on_from(&archived, found, &own)? {
                        if archived.seal.last == own.last {
                            continue;
                        }
                        damage.get_or_insert(self.damaged(found, position, OF_ANOTHER_PAST));
                        continue;
                    }
                    manifest.segments.pop();
                    longer.push(found);
                }
                None if archived.before == chain && archived.seal.first == position => {}
                // Nothing in the segment comes after the end.
                None if archived.seal.last < position => continue,
                None => {
                    let what = match archived.seal.first.checked_sub(position + 1) {
                        None => OF_ANOTHER_PAST.to_owned(),
                        Some(_) => format!(
                            "positions {position} to {} are missing before this segment",
                            archived.seal.first - 1
                        ),
                    };
                    damage.get_or_insert(self.damaged(found, position, &what));
                    continue;
                }
            }
            manifest.segments.push(archived.segment);
            manifest.next_number = manifest.next_number.max(found + 1);
            end = (archived.seal.last + 1, archived.seal.chain);
            // The segments that did not continue the log were not part of its past.
            damage = None;
        }
        Ok((
            longer,
            damage.map(|damage: Error| keeping_from(damage, end.0)),
        ))
    }

    /// Whether a segment begins with all that the log's own copy of it holds.
    fn goes_on_from(&self, archived: &Archived, number: u64, own: &Seal) -> Result<bool, Error> {
        let place = (number, own.length);
        let known = self.chains.lock().get(&place).copied();
        let chain = match known {
            Some(chain) => chain,
            None => {
                let name = self.name(number);
                let failed = |source| Error::io("read", self.archive.describe(&name))(source);
                let file = self.archive.open_read(&name).map_err(failed)?;
                let chain = archived.chain_at(file.as_ref(), &self.log, own.length);
                let chain = chain.map_err(failed)?;
                self.chains.lock().insert(place, chain);
                chain
            }
        };
        Ok(archived.seal.first == own.first && chain == Some(own.chain))
    }

    fn damaged(&self, number: u64, position: u64, what: &str) -> Error {
        Error::Damaged {
            file: self.archive.describe(&self.name(number)),
            offset: FIRST_FRAME,
            position: Some(position),
            what: what.to_owned(),
        }
    }

    /// Returns what a segment holds, and reads it once only: files in an archive do not change.
    fn described(&self, number: u64) -> Result<Archived, Error> {
        if let Some(known) = self.known.lock().get(&number) {
            return Ok(*known);
        }
        let archive = self.archive.as_ref();
        let archived = described::describe(archive, &self.log, &self.name(number), number)?;
        self.known.lock().insert(number, archived);
        Ok(archived)
    }
}

/// Reads the segments of the folder, by their own names, and nothing else.
impl ReadOnly for ArchiveFolder {
    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.archive.open_read(&format!("{}/{name}", self.folder))
    }

    fn describe(&self, name: &str) -> String {
        self.archive.describe(&format!("{}/{name}", self.folder))
    }
}
