//! Makes a new log with the state of another one at a position.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use crate::archive::{ArchiveFolder, Lacking};
use crate::create::in_empty;
use crate::error::{BoxError, Error};
use crate::format;
use crate::index::Index;
use crate::lock;
use crate::manifest::{Manifest, Seal, Segment};
use crate::opening::{expect_finished, no_manifest};
use crate::rebuild::{Builder, Numbers};
use crate::recovery;
use crate::report::{BadSnapshot, Report};
use crate::shelf::WithArchive;
use crate::snapshot::{self, Shown};
use crate::storage::{Lock, Storage};
use crate::survey;
use crate::verify::verify_made;
use crate::visitor::{Discard, Record, Visitor};

/// Shows every record that the log still has, whether or not a snapshot covers
/// it. Nothing is written.
///
/// # Errors
/// As [`crate::verify()`]'s; [`Error::Held`] while a process has the log open.
pub fn records(storage: &dyn Storage, visitor: &mut dyn Visitor) -> Result<(), Error> {
    let _lock = lock::share(storage)?;
    expect_finished(storage)?;
    let Some(manifest) = Manifest::load(storage)? else {
        return Err(no_manifest(storage)?);
    };
    let survey = survey::survey(storage, &manifest, 0, visitor, &mut Index::new())?;
    recovery::judge(&survey)
}

/// The part of a restored log that came from an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromArchive {
    /// Number of segments that have these positions.
    pub segments: u64,
    /// Number of positions that were nowhere else.
    pub positions: u64,
}

/// The past of a log: its content in a backup or in the directory of a stopped process, together with the segments in
/// an archive.
pub struct Past {
    /// The directory itself.
    source: Arc<dyn Storage>,
    /// Its files, with those of the archive.
    storage: Arc<dyn Storage>,
    _lock: Lock,
    /// The manifest of the log, with the archive's segments before and after its own.
    manifest: Manifest,
    /// The first position in the directory itself.
    own_first: u64,
    /// The last position in the directory itself; `u64::MAX` while its last segment is open, so
    /// that no archive can continue it.
    own_last: u64,
    /// The segments that are the archive's.
    archived: Vec<Seal>,
    /// Those of the directory itself whose files are gone: they are read from the archive, too.
    gone: Vec<Seal>,
    archive: Option<Arc<WithArchive>>,
    /// The archive's folder, if it has no segment of the log.
    empty_folder: Option<String>,
    /// Why no further segments of the archive can be used before the log's own records.
    lacking: Option<Lacking>,
    /// Why no further segments of the archive can be used after them.
    damage_behind: Option<Error>,
}

impl Past {
    /// Reads the manifest of a log, and keeps processes from opening the log. Uses the archive's
    /// segments that lead without a gap to the first position of the log and, when the log is a
    /// backup's, those that continue after its last. Records that are missing before a later
    /// segment are damage for a caller that asks for more than comes before them; those that are
    /// missing after an earlier segment, for a caller that asks for them.
    ///
    /// # Errors
    /// [`Error::Held`] while a process has the log open; [`Error::NoLog`], [`Error::Unfinished`],
    /// [`Error::Damaged`], [`Error::Unsupported`], [`Error::Io`].
    pub fn open(
        source: Arc<dyn Storage>,
        archive: Option<Arc<dyn Storage>>,
    ) -> Result<Self, Error> {
        let lock = lock::share(source.as_ref())?;
        expect_finished(source.as_ref())?;
        let Some(mut manifest) = Manifest::load(source.as_ref())? else {
            return Err(no_manifest(source.as_ref())?);
        };
        let own_first = manifest.first_position;
        let own: Vec<_> = manifest.segments.iter().map(|one| one.number).collect();
        let own_last = match manifest.segments.last() {
            None => own_first - 1,
            Some(last) => last.seal.map_or(u64::MAX, |seal| seal.last),
        };
        let mut archived = Vec::new();
        let (mut storage, mut shelf, mut empty_folder) = (Arc::clone(&source), None, None);
        let (mut lacking, mut damage_behind, mut gone) = (None, None, Vec::new());
        if let Some(archive) = archive {
            gone = gone_from(source.as_ref(), &manifest)?;
            let folder = ArchiveFolder::new(archive, manifest.log);
            empty_folder = folder.is_empty()?.then(|| folder.path());
            lacking = folder.put_before(&mut manifest, 1)?;
            let longer;
            (longer, damage_behind) = folder.put_behind(&mut manifest)?;
            let is_longer = |number: u64| longer.is_some_and(|longer| longer.number == number);
            let is_archived = |one: &&Segment| !own.contains(&one.number) || is_longer(one.number);
            let segments = manifest.segments.iter().filter(is_archived);
            archived.extend(segments.filter_map(|segment| segment.seal));
            let beginning = lacking.iter().flat_map(|lacking| &lacking.beginning);
            archived.extend(beginning.filter_map(|segment| segment.seal));
            let both = Arc::new(WithArchive::new(storage, folder, longer));
            storage = Arc::clone(&both) as Arc<dyn Storage>;
            shelf = Some(both);
        }
        Ok(Self {
            source,
            storage,
            _lock: lock,
            manifest,
            own_first,
            own_last,
            archived,
            gone,
            archive: shelf,
            empty_folder,
            lacking,
            damage_behind,
        })
    }

    /// The folder of the archive in which segments of this log were looked for, and none was found.
    #[must_use]
    pub fn empty_archive(&self) -> Option<&str> {
        self.empty_folder.as_deref()
    }

    /// Why the archive does not have all that was before the log's own records, if it has some of
    /// it.
    #[must_use]
    pub fn lacking(&self) -> Option<&Error> {
        self.lacking.as_ref().map(|lacking| &lacking.why)
    }

    /// Whether an error is damage of a file in the archive.
    #[must_use]
    pub fn is_of_archive(&self, error: &Error) -> bool {
        let archive = self.archive.as_ref();
        matches!(error, Error::Damaged { file, .. }
            if archive.is_some_and(|archive| archive.folder().has(file)))
    }

    /// Whether an error is damage of a file in the directory itself.
    #[must_use]
    pub fn is_of_source(&self, error: &Error) -> bool {
        let Error::Damaged { file, .. } = error else {
            return false;
        };
        let within = file.strip_prefix(&self.source.describe(""));
        let name = within.map(|within| within.trim_start_matches('/'));
        name.is_some_and(|name| self.source.describe(name) == *file)
    }

    /// The last position before this damage, of the directory or of the archive, that can be restored, if there is
    /// one.
    #[must_use]
    pub fn whole_before(&self, error: &Error) -> Option<u64> {
        match &self.lacking {
            Some(lacking) if lacking.why.is_same_damage(error) => lacking.whole_to(),
            _ => match error {
                Error::Damaged { position, .. } => position
                    .and_then(|position| position.checked_sub(1))
                    .filter(|_| self.is_of_archive(error) || self.is_of_source(error))
                    .filter(|last| *last > 0 && self.reaches(*last)),
                _ => None,
            },
        }
    }

    /// Whether records lead to this position from the first one, or from a snapshot.
    fn reaches(&self, position: u64) -> bool {
        position >= self.earliest() || self.beginning(position).is_some()
    }

    /// Returns how much of a restored log, from its first position to its last, came from the
    /// archive.
    #[must_use]
    pub fn from_archive(&self, first: u64, last: u64) -> FromArchive {
        // The archive's copy of one that the log has counts where it goes on after that.
        let is_behind = |seal: &Seal| self.own_last < seal.last && self.own_last < last;
        let is_within =
            |seal: &Seal| seal.first <= seal.last && seal.first <= last && first <= seal.last;
        let holds =
            |seal: &&Seal| is_within(seal) && (seal.first < self.own_first || is_behind(seal));
        let held: Vec<&Seal> = self.archived.iter().filter(holds).collect();
        let gone: Vec<&Seal> = self.gone.iter().filter(|gone| is_within(gone)).collect();
        let is_counted = |gone: &&&Seal| held.iter().any(|seal| seal.first == gone.first);
        let counted = gone.iter().filter(is_counted).count();
        let before = self
            .own_first
            .min(last.saturating_add(1))
            .saturating_sub(first);
        let behind = last.saturating_sub(self.own_last.max(first.saturating_sub(1)));
        let within = gone
            .iter()
            .map(|gone| gone.last.min(last) + 1 - gone.first.max(first));
        FromArchive {
            segments: format::to_u64(held.len() + gone.len() - counted),
            positions: before + behind + within.sum::<u64>(),
        }
    }

    /// The earliest position that the log can be brought back to: 1 if its records begin with the
    /// first, else that of the older snapshot. If positions are missing in the archive, those
    /// before them can be had, too.
    #[must_use]
    pub fn earliest(&self) -> u64 {
        let manifest = &self.manifest;
        if manifest.first_position == 1 {
            return 1;
        }
        let oldest = manifest.snapshots.first();
        oldest.map_or(manifest.first_position, |oldest| oldest.upto)
    }

    /// Shows every record there is, whether or not a snapshot covers it; returns the
    /// last position.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unsupported`], [`Error::Io`], and
    /// [`Error::Visitor`] with what the visitor gives.
    pub fn records(&self, visitor: &mut dyn Visitor) -> Result<u64, Error> {
        let storage = self.storage.as_ref();
        let survey = survey::survey(storage, &self.manifest, 0, visitor, &mut Index::new())?;
        recovery::judge(&survey).map_err(|error| self.attributed(error))?;
        self.damage_behind
            .as_ref()
            .map_or(Ok(()), |damage| Err(again(damage)))?;
        Ok(survey.next - 1)
    }

    /// Shows every record before the positions that are missing in the archive, from the first one on; returns
    /// the last position, or `None` if no position is missing, or none before those.
    ///
    /// # Errors
    /// As [`Past::records`].
    pub fn records_before_gap(&self, visitor: &mut dyn Visitor) -> Result<Option<u64>, Error> {
        let whole_to = self.lacking.as_ref().and_then(Lacking::whole_to);
        let beginning = whole_to.and_then(|last| self.beginning(last));
        let Some((folder, manifest)) = beginning else {
            return Ok(None);
        };
        let survey = survey::survey(folder, &manifest, 0, visitor, &mut Index::new())?;
        recovery::judge(&survey)?;
        Ok(Some(survey.next - 1))
    }

    /// Makes a new log, with an id of its own, of what this one held at position `upto` (without
    /// one, at its end), in a `target` that is empty, and reads it as [`verify`](crate::verify()) does. Positions
    /// stay as they are.
    /// The new log has the records and snapshots of the directory itself, as far as they are of
    /// that time or before, and from the archive what is needed. Damage behind that position is no
    /// hindrance. A snapshot that cannot be read and is not needed either is left out, and reported
    /// ([`Report::bad_snapshots`]). Interrupted, it leaves no log.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Unsupported`] when what is needed cannot be
    /// read; [`Error::Io`], also for a target that is not empty, and for a position
    /// that cannot be had.
    pub fn restore(
        &self,
        target: &Arc<dyn Storage>,
        upto: Option<u64>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Report, Error> {
        in_empty(target.as_ref(), || {
            self.restore_into(target, upto, progress)
        })
    }

    fn restore_into(
        &self,
        target: &Arc<dyn Storage>,
        upto: Option<u64>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Report, Error> {
        let limit = upto.unwrap_or(u64::MAX);
        let beginning = self.beginning(limit);
        let (source, manifest) = match &beginning {
            Some((folder, manifest)) => (*folder, manifest),
            None => (self.storage.as_ref(), &self.manifest),
        };
        let identity = self.manifest.identity();
        let mut builder = Builder::new(Arc::clone(target), Numbers::FIRST, identity, limit)?;
        let (mut newest, mut bad) = (None, Vec::new());
        for listed in manifest
            .snapshots
            .iter()
            .filter(|listed| listed.upto <= limit)
        {
            let name = format::snapshot_name(listed.number);
            match snapshot::show(source, &name, &manifest.log, listed, &mut builder)? {
                Shown::Whole(_) => {
                    builder.end_snapshot()?;
                    newest = Some(listed.covers);
                }
                Shown::Bad { offset, what } => {
                    builder.reset();
                    bad.push(BadSnapshot {
                        number: listed.number,
                        file: source.describe(&name),
                        offset,
                        what,
                    });
                }
            }
        }
        let needed = newest.map_or(1, |covers| covers + 1);
        if needed < manifest.first_position {
            return Err(match (bad.pop(), &self.lacking) {
                (Some(bad), _) => Error::Damaged {
                    file: bad.file,
                    offset: bad.offset,
                    position: None,
                    what: bad.what,
                },
                (None, Some(lacking)) => again(&lacking.why),
                (None, None) => self.unreachable(limit, None),
            });
        }
        let first = needed.min(self.own_first);
        builder.begin_at(first);
        let mut both = Both {
            builder: &mut builder,
            progress,
        };
        let (part, index) = (manifest.part_from(first), &mut Index::new());
        let survey = survey::survey_upto(source, &part, first - 1, limit, &mut both, index)?;
        recovery::judge(&survey).map_err(|error| self.attributed(error))?;
        match (&self.damage_behind, upto) {
            (Some(damage), _) if limit >= survey.next => return Err(again(damage)),
            (_, Some(upto)) if upto >= survey.next => {
                return Err(self.unreachable(limit, Some(survey.next - 1)));
            }
            _ => {}
        }
        builder.finish()?;
        let mut report = verify_made(target.as_ref(), &mut Discard)?;
        report.bad_snapshots.append(&mut bad);
        Ok(report)
    }

    /// Returns the archive's segments from position 1 on, if they alone are needed for this position:
    /// neither a snapshot nor the log's own records lead to it.
    fn beginning(&self, position: u64) -> Option<(&dyn Storage, Manifest)> {
        let archive = self.archive.as_ref()?;
        let own = &self.manifest;
        let segments = match &self.lacking {
            Some(lacking) => {
                lacking.whole_to().filter(|last| position <= *last)?;
                &lacking.beginning
            }
            None => {
                let has_snapshot = own.snapshots.iter().any(|one| one.upto <= position);
                if position >= self.own_first || own.first_position > 1 || has_snapshot {
                    return None;
                }
                &own.segments
            }
        };
        let is_needed = |one: &&Segment| one.seal.is_some_and(|seal| seal.first <= position);
        let folder: &dyn Storage = archive.folder();
        let manifest = Manifest {
            segments: segments.iter().filter(is_needed).copied().collect(),
            ..Manifest::new(own.log)
        };
        Some((folder, manifest))
    }

    fn attributed(&self, error: Error) -> Error {
        match &self.archive {
            Some(archive) => archive.attributed(error),
            None => error,
        }
    }

    fn unreachable(&self, position: u64, last: Option<u64>) -> Error {
        let bound = match last {
            Some(last) => format!("the last position that can be restored is {last}"),
            None => format!(
                "the earliest position that can be restored is {}",
                self.earliest()
            ),
        };
        Error::Io {
            what: "restore from",
            file: self.storage.describe(""),
            source: io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("position {position} cannot be restored, {bound}"),
            ),
        }
    }
}

/// The sealed segments that a directory has no longer, although its manifest lists them.
fn gone_from(source: &dyn Storage, manifest: &Manifest) -> Result<Vec<Seal>, Error> {
    let names = source.list("");
    let names = names.map_err(Error::io("list", source.describe("")))?;
    let there: HashSet<u64> = names
        .iter()
        .filter_map(|name| format::parse_segment_name(name))
        .collect();
    let listed = manifest.segments.iter();
    let gone = listed.filter(|segment| !there.contains(&segment.number));
    Ok(gone.filter_map(|segment| segment.seal).collect())
}

/// Copies an error that reports damage.
fn again(damage: &Error) -> Error {
    match damage {
        Error::Damaged {
            file,
            offset,
            position,
            what,
        } => Error::Damaged {
            file: file.clone(),
            offset: *offset,
            position: *position,
            what: what.clone(),
        },
        other => Error::Stopped {
            reason: other.to_string().into(),
        },
    }
}

/// Passes records to the builder, and the progress to the caller.
struct Both<'a> {
    builder: &'a mut Builder,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Visitor for Both<'_> {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.builder.record(record)
    }

    fn progress(&mut self, done: u64, total: u64) {
        (self.progress)(done, total);
    }
}
