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

use self::described::{Archived, Behind};
use crate::error::Error;
use crate::format::{self, Chain, FIRST_FRAME, LogId, to_u64, to_usize};
use crate::manifest::{Manifest, Seal, Sealed, Segment};
use crate::storage::{COPY, File, ReadOnly, Storage, copy_range};
use crate::throttle::Copying;

/// The fault of a segment that was written under the log's id, but by a copy of the log's directory.
const OF_ANOTHER_PAST: &str = "the segment does not continue the log: it was written by a \
                               copy of the log that went another way, or by another node of its journal";
/// The fault of such a segment that comes before what the log holds.
const LEADS_ELSEWHERE: &str = "the log does not continue this segment: it was written by a \
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

/// Returns the end of a sentence: the position up to which everything is there, when `position` is missing.
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

/// The gap between the segments of an archive and the first position of the log that continues them.
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

/// An archive's copy of the last segment of a backup, which has more records than the backup's own.
#[derive(Clone, Copy)]
pub(crate) struct Longer {
    /// The number of the segment.
    pub(crate) number: u64,
    /// The offset at which the backup's own copy ends.
    pub(crate) own_end: u64,
}

/// The segments that an archive has of one log.
pub(crate) struct ArchiveFolder {
    archive: Arc<dyn Storage>,
    log: LogId,
    folder: String,
    known: Mutex<HashMap<u64, Archived>>,
    /// The records after a log's own copy of a segment, by its number, and the length and digest of that copy.
    behind: Mutex<HashMap<(u64, u64, Chain), Behind>>,
}

impl ArchiveFolder {
    pub(crate) fn new(archive: Arc<dyn Storage>, log: LogId) -> Self {
        Self {
            archive,
            log,
            folder: folder(&log),
            known: Mutex::new(HashMap::new()),
            behind: Mutex::new(HashMap::new()),
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
    /// it without a gap. Returns the one that has more records than the backup's own copy of it, and the
    /// damage that ended this early, with the first position that cannot be had: also that records are
    /// missing before a later segment, or that a segment holds others than those of the log.
    ///
    /// # Errors
    /// As [`ArchiveFolder::put_before`].
    pub(crate) fn put_behind(
        &self,
        manifest: &mut Manifest,
    ) -> Result<(Option<Longer>, Option<Error>), Error> {
        let last = manifest.segments.last().copied();
        let (mut longer, mut damage) = (None, None);
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
            let next = match last.filter(|last| last.number == found) {
                Some(own) => self.next_in(&own),
                None => self.next_after(found, end),
            };
            let (segment, seal) = match next {
                Ok(Some(next)) => next,
                Ok(None) => {
                    // Without a segment of its own, the log's numbers do not tell what comes before it.
                    if last.is_none() {
                        damage = None;
                    }
                    continue;
                }
                Err(error @ Error::Damaged { .. }) => {
                    if last.is_some() || !self.begins_before(found, manifest.first_position)? {
                        damage.get_or_insert(error);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(own) = last.and_then(|last| last.seal.filter(|_| last.number == found)) {
                manifest.segments.pop();
                longer = Some(Longer {
                    number: found,
                    own_end: own.length,
                });
            }
            manifest.segments.push(segment);
            manifest.next_number = manifest.next_number.max(found + 1);
            end = (seal.last + 1, seal.chain);
            // The segments that did not continue the log were not part of its past.
            damage = None;
        }
        Ok((
            longer,
            damage.map(|damage: Error| keeping_from(damage, end.0)),
        ))
    }

    /// Returns the archive's copy of a segment of which the log has a sealed one, if it has more records;
    /// damage when these do not go on from the log's own.
    fn next_in(&self, own: &Segment) -> Result<Option<(Segment, Seal)>, Error> {
        let Some(seal) = own.seal else {
            return Ok(None);
        };
        let key = (own.number, seal.length, seal.chain);
        let known = self.behind.lock().get(&key).copied();
        let behind = match known {
            Some(behind) => behind,
            None => {
                let (archive, name) = (self.archive.as_ref(), self.name(own.number));
                let behind = described::behind(archive, &self.log, &name, own.number, &seal)?;
                self.behind.lock().insert(key, behind);
                behind
            }
        };
        match behind {
            Behind::Nothing => Ok(None),
            Behind::OfAnotherPast => Err(self.damaged(own.number, seal.last + 1, OF_ANOTHER_PAST)),
            Behind::More(longer) => {
                let segment = Segment {
                    seal: Some(longer),
                    ..*own
                };
                Ok(Some((segment, longer)))
            }
        }
    }

    /// Returns a segment if it has the position at which the log ends so far; damage when it does not go on
    /// from there.
    fn next_after(
        &self,
        number: u64,
        (position, chain): (u64, Chain),
    ) -> Result<Option<(Segment, Seal)>, Error> {
        let archived = self.described(number)?;
        let seal = archived.seal;
        if archived.before == chain && seal.first == position {
            return Ok(Some((archived.segment, seal)));
        }
        // Nothing in the segment comes after the end.
        if seal.last < position {
            return Ok(None);
        }
        let what = match seal.first > position {
            false => OF_ANOTHER_PAST.to_owned(),
            true => format!(
                "positions {position} to {} are missing before this segment",
                seal.first - 1
            ),
        };
        Err(self.damaged(number, position, &what))
    }

    /// Whether a segment, of which the end may be damaged, begins before a position.
    fn begins_before(&self, number: u64, position: u64) -> Result<bool, Error> {
        let (archive, name) = (self.archive.as_ref(), self.name(number));
        described::begins_before(archive, &self.log, &name, position)
            .map_err(|source| Error::io("read", archive.describe(&name))(source))
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
