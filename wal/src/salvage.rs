//! The readable content of a damaged log, and the cost of each way out of the damage. Nothing is changed before
//! [`Salvage::give_up_after`].
//!
//! The manifest is trusted if it can be read. Otherwise segments and snapshots are read as they are found in the
//! directory. Sound frames that follow each other are a *run*; a way out is a snapshot, or the log's beginning, with
//! the runs that continue from it.

mod breaks;
mod directory;
mod end;
mod found;
mod progress;
mod runs;
mod ways;

use std::io;
use std::sync::Arc;

use self::breaks::Breaks;
use self::directory::DirectoryFiles;
pub use self::found::{Damage, GivenUp, WayOut};
pub use self::progress::OnSurvey;
use self::progress::{Building, bytes_of, check, verify_built};
use self::runs::{Run, Step};
use self::ways::{Parts, Way};
use crate::ancestry;
use crate::error::{BoxError, Error};
use crate::format::{self, LogId};
use crate::lock;
use crate::manifest::{Ancestor, Identity, Manifest, Snapshot};
use crate::opening::expect_finished;
use crate::rebuild::{Builder, Numbers};
use crate::recovery::{free_name, give_up};
use crate::snapshot::{self, Shown};
use crate::storage::{File, Storage};
use crate::visitor::{Discard, Record, SnapshotInfo, Visitor};

/// A survey of the readable content of a log.
pub struct Salvage {
    storage: Arc<dyn Storage>,
    log: LogId,
    seed: u32,
    runs: Vec<Run>,
    snapshots: Vec<Snapshot>,
    damage: Vec<Damage>,
    ways: Vec<Way>,
    highest: u64,
    end_is_known: bool,
    numbers: Numbers,
    /// The ancestors that the manifest lists or, without one, the file beside it.
    ancestors: Vec<Ancestor>,
    directory: DirectoryFiles,
}

impl Salvage {
    /// Reads everything in the directory. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Held`] while a process has the log open, [`Error::NoLog`], [`Error::Unfinished`],
    /// [`Error::Io`]; [`Error::Unsupported`] for files of a newer release;
    /// [`Error::Damaged`] when not even the log's id can be found.
    pub fn survey(storage: Arc<dyn Storage>) -> Result<Self, Error> {
        Self::survey_shown(storage, &mut |_, _| {})
    }

    /// As [`Salvage::survey`], and calls `on_progress` with the bytes read so far and the total; the
    /// log is read twice.
    ///
    /// # Errors
    /// Those of [`Salvage::survey`].
    pub fn survey_shown(
        storage: Arc<dyn Storage>,
        on_progress: &mut OnSurvey<'_>,
    ) -> Result<Self, Error> {
        let _lock = lock::share(storage.as_ref())?;
        expect_finished(storage.as_ref())?;
        let directory = DirectoryFiles::at(storage.as_ref())?;
        let manifest = directory.manifest.clone();
        let (segments, found_snapshots) = (directory.segments(), directory.snapshots());
        let log = match &manifest {
            Some(manifest) => manifest.log,
            None => runs::id_of(storage.as_ref(), &segments, &found_snapshots)?,
        };
        let highest_number = |found: &[(u64, String)]| found.last().map_or(0, |last| last.0);
        let listed = manifest.as_ref();
        let numbers = Numbers {
            segment: listed
                .map_or(1, |manifest| manifest.next_number)
                .max(highest_number(&segments) + 1),
            snapshot: highest_number(&found_snapshots) + 1,
            generation: listed.map_or(0, |manifest| manifest.generation),
            epoch: listed.map_or(0, |manifest| manifest.epoch),
        };
        let mut salvage = Self {
            seed: format::crc_seed(&log),
            log,
            runs: Vec::new(),
            snapshots: Vec::new(),
            damage: Vec::new(),
            ways: Vec::new(),
            highest: 0,
            end_is_known: true,
            numbers,
            ancestors: listed.map_or_else(Vec::new, |manifest| manifest.ancestors.clone()),
            directory,
            storage,
        };
        if listed.is_none() {
            match ancestry::load(salvage.storage.as_ref(), &log) {
                Ok(ancestors) => salvage.ancestors = ancestors.unwrap_or_default(),
                Err(error) => salvage.note(error)?,
            }
        }
        let bytes = bytes_of(salvage.storage.as_ref(), &segments)?;
        check(&salvage.storage, bytes, on_progress).or_else(|error| salvage.note(error))?;
        salvage.find_snapshots(listed, &found_snapshots)?;
        salvage.find_runs(listed, &segments, &mut |done| {
            on_progress(bytes + done, bytes * 2);
        })?;
        if let Some(manifest) = listed {
            let seals = manifest.segments.iter().filter_map(|segment| segment.seal);
            let proved = seals.map(|seal| seal.last).max().unwrap_or(0);
            salvage.highest = salvage.highest.max(proved).max(manifest.first_position - 1);
        }
        salvage.ways = ways::find(&Parts {
            storage: salvage.storage.as_ref(),
            log: &salvage.log,
            runs: &salvage.runs,
            snapshots: &salvage.snapshots,
        })?;
        salvage.end_is_known =
            end::is_known(salvage.storage.as_ref(), &segments, &salvage.runs, listed)?;
        Ok(salvage)
    }

    /// The log's random name.
    #[must_use]
    pub fn log_id(&self) -> [u8; 16] {
        self.log
    }

    /// Returns all damage that was found; none in a good log.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The states that the log can be brought to, the one that keeps most first; of several that
    /// keep as much, the one whose records begin earliest, and that rests on the newest snapshot.
    #[must_use]
    pub fn ways(&self) -> Vec<WayOut> {
        ways::distinct(&self.ways)
    }

    /// The highest position that the log ever had, as far as can be determined.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether nothing unreadable follows the last readable record. If something does, or if the
    /// manifest cannot be read, there may have been higher positions than [`Salvage::highest`].
    #[must_use]
    pub fn end_is_known(&self) -> bool {
        self.end_is_known
    }

    /// Shows what a way out keeps: its snapshot, and every record after it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`], and [`Error::Visitor`] with what the visitor gives.
    pub fn show(&self, way: WayOut, visitor: &mut dyn Visitor) -> Result<(), Error> {
        let Some(known) = self.ways.iter().find(|known| known.out == way) else {
            return Ok(());
        };
        let mut next = 1;
        if let Some(info) = way.snapshot {
            next = info.covers + 1;
            let listed = |listed: &&Snapshot| SnapshotInfo::from(*listed) == info;
            if let Some(listed) = self.snapshots.iter().find(listed) {
                self.show_snapshot(listed, visitor)?;
            }
        }
        self.show_runs(&known.path, (next, way.keep_to), visitor)?;
        visitor.end().map_err(|source| Error::Visitor {
            position: way.keep_to,
            source,
        })
    }

    fn runs_of(&self, path: &[usize]) -> Vec<&Run> {
        path.iter().map(|run| &self.runs[*run]).collect()
    }

    fn show_snapshot(&self, listed: &Snapshot, visitor: &mut dyn Visitor) -> Result<(), Error> {
        let (storage, name) = (self.storage.as_ref(), format::snapshot_name(listed.number));
        snapshot::show(storage, &name, &self.log, listed, visitor)?.whole(storage, &name)
    }

    /// Shows the records of runs from a position to another one.
    fn show_runs(
        &self,
        path: &[usize],
        (from, upto): (u64, u64),
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error> {
        let place = (self.storage.as_ref(), self.seed);
        runs::show(place, &self.runs_of(path), from, &mut |step| match step {
            Step::Record(record) if record.position > upto => Ok(()),
            Step::Record(record) => visitor.record(record),
            Step::Progress(done, total) => {
                visitor.progress(done, total);
                Ok(())
            }
        })
    }

    /// Shows each readable record after a position, in order: the records that giving up after it would lose.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Visitor`] with what `visit` gives.
    pub fn records_after(
        &self,
        position: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Error> {
        self.records_after_shown(position, visit, &mut |_, _| {})
    }

    /// As [`Salvage::records_after`], and calls `on_progress` with the bytes read so far and the total.
    ///
    /// # Errors
    /// Those of [`Salvage::records_after`].
    pub fn records_after_shown(
        &self,
        position: u64,
        visit: &mut dyn FnMut(Record<'_>) -> Result<(), BoxError>,
        on_progress: &mut OnSurvey<'_>,
    ) -> Result<(), Error> {
        let from = position.saturating_add(1);
        let behind = |run: &&Run| run.next > from;
        let mut runs: Vec<_> = self.runs.iter().filter(behind).collect();
        runs.sort_by_key(|run| run.first);
        let place = (self.storage.as_ref(), self.seed);
        runs::show(place, &runs, from, &mut |step| match step {
            Step::Record(record) => visit(record),
            Step::Progress(done, total) => {
                on_progress(done, total);
                Ok(())
            }
        })
    }

    /// Brings the log to its state at a position: builds a new one beside it, under another id,
    /// puts that in its place, and keeps every file of the old one under another name. Interrupted,
    /// it can be done again.
    ///
    /// # Errors
    /// [`Error::Held`]; [`Error::Io`], also for a position that no way out reaches, and when the
    /// directory is no longer as it was surveyed: a server may have run since.
    pub fn give_up_after(self, position: u64) -> Result<GivenUp, Error> {
        self.give_up_after_shown(position, &mut |_, _| {})
    }

    /// As [`Salvage::give_up_after`], and calls `on_progress` with the bytes done so far and the total:
    /// what is kept is read and written, then read again.
    ///
    /// # Errors
    /// Those of [`Salvage::give_up_after`].
    pub fn give_up_after_shown(
        self,
        position: u64,
        on_progress: &mut OnSurvey<'_>,
    ) -> Result<GivenUp, Error> {
        let storage = Arc::clone(&self.storage);
        let lock = lock::take(storage.as_ref())?;
        self.directory.expect_unchanged(storage.as_ref())?;
        let way = self.way_to(position)?;
        let files = [self.directory.segments(), self.directory.snapshots()];
        let bytes = runs::bytes_of(&self.runs_of(&way.path));
        let builder = self.built(way, position, &mut *on_progress)?;
        // The new log's files are there, and no manifest lists them. The manifest that lists them is
        // the step from the old log to the new.
        let manifest_kept = match storage.open_read(format::MANIFEST) {
            Ok(file) => Some(keep_copy(storage.as_ref(), file.as_ref())?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(Error::io("open", storage.describe(format::MANIFEST))(error));
            }
        };
        builder.finish()?;
        let mut kept: Vec<_> = manifest_kept.into_iter().collect();
        for (_, name) in files.into_iter().flatten() {
            kept.push(give_up(storage.as_ref(), &name)?);
        }
        storage
            .sync_dir("")
            .map_err(Error::io("sync", storage.describe("")))?;
        drop(lock);
        let report = verify_built(storage, bytes, on_progress)?;
        Ok(GivenUp {
            report,
            readable_before: way.out.readable_before,
            kept,
        })
    }

    /// Whether [`Salvage::give_up_after`] can bring the log to a position.
    ///
    /// # Errors
    /// [`Error::Io`] when no way out reaches it.
    pub fn expect_way_to(&self, position: u64) -> Result<(), Error> {
        self.way_to(position).map(drop)
    }

    fn way_to(&self, position: u64) -> Result<&Way, Error> {
        ways::to(&self.ways, position).ok_or_else(|| Error::Io {
            what: "recover",
            file: self.storage.describe(""),
            source: io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no way out keeps everything up to position {position}"),
            ),
        })
    }

    /// Writes the files of the new log, except its manifest: the snapshots that its records continue,
    /// and the records.
    fn built(
        &self,
        way: &Way,
        position: u64,
        on_progress: &mut OnSurvey<'_>,
    ) -> Result<Builder, Error> {
        let identity = Identity {
            log_id: self.log,
            ancestors: self.ancestors.clone(),
        };
        let storage = Arc::clone(&self.storage);
        let mut builder = Builder::new(storage, self.numbers, identity, position)?;
        let first = way.out.first_position;
        for listed in ways::kept(&self.snapshots, first, position) {
            self.show_snapshot(&listed, &mut builder)?;
            builder.end_snapshot()?;
        }
        builder.begin_at(first);
        let mut building = Building::of(&mut builder, on_progress);
        self.show_runs(&way.path, (first, position), &mut building)?;
        match builder.next() {
            next if next == position + 1 => Ok(builder),
            next => Err(Error::Stopped {
                reason: format!(
                    "the records that could be read a moment ago end at {}",
                    next - 1
                )
                .into(),
            }),
        }
    }

    fn note(&mut self, error: Error) -> Result<(), Error> {
        let Error::Damaged {
            file,
            offset,
            position,
            what,
        } = error
        else {
            return Err(error);
        };
        let damage = Damage {
            file,
            offset,
            position,
            what,
        };
        let same = |known: &Damage| known.file == damage.file && known.offset == damage.offset;
        if !self.damage.iter().any(same) {
            self.damage.push(damage);
        }
        Ok(())
    }

    /// Finds the runs of all segments, and the damage between them. A check as at a start would stop at the first
    /// damage.
    fn find_runs(
        &mut self,
        manifest: Option<&Manifest>,
        segments: &[(u64, String)],
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let storage = Arc::clone(&self.storage);
        let mut breaks = Breaks::new(storage.as_ref(), self.log, manifest);
        let mut done = 0;
        for (number, name) in segments {
            let found = runs::find(storage.as_ref(), self.seed, *number, name)?;
            breaks.look(*number, name, &found)?;
            done += bytes_of(storage.as_ref(), &[(*number, name.clone())])?;
            on_progress(done);
            self.runs.extend(found.runs);
            self.highest = self.highest.max(found.highest);
        }
        for damage in breaks.damage(segments) {
            self.note(damage)?;
        }
        // In the order of the log; damage without a position comes first.
        self.damage.sort_by_key(|damage| damage.position);
        Ok(())
    }

    /// Finds the snapshots that can be read: those that the manifest lists or, without one, those that
    /// state themselves what they are.
    fn find_snapshots(
        &mut self,
        manifest: Option<&Manifest>,
        found: &[(u64, String)],
    ) -> Result<(), Error> {
        let listed = match manifest {
            Some(manifest) => manifest.snapshots.clone(),
            None => {
                let mut all = Vec::new();
                for (_, name) in found {
                    all.extend(snapshot::introduce(self.storage.as_ref(), name, &self.log)?);
                }
                all
            }
        };
        for listed in listed {
            self.highest = self.highest.max(listed.upto);
            let name = format::snapshot_name(listed.number);
            let storage = Arc::clone(&self.storage);
            match snapshot::show(storage.as_ref(), &name, &self.log, &listed, &mut Discard)? {
                Shown::Whole(_) => self.snapshots.push(listed),
                Shown::Bad { offset, what } => self.note(Error::Damaged {
                    file: storage.describe(&name),
                    offset,
                    position: None,
                    what,
                })?,
            }
        }
        Ok(())
    }
}

/// Copies the manifest to a name beside its own. The copy has that name once it is whole; the remains
/// of an interruption are removed as unfinished.
fn keep_copy(storage: &dyn Storage, manifest: &dyn File) -> Result<String, Error> {
    let named = |copy| format::given_up_name(format::MANIFEST, copy);
    let name = free_name(storage, named)?;
    let failed = |source| Error::io("write", storage.describe(&name))(source);
    let length = manifest.length().map_err(failed)?;
    let copied = storage.create(format::MANIFEST_TEMP).and_then(|file| {
        crate::storage::copy_range(manifest, 0, length, file.as_ref(), 0)?;
        file.sync()?;
        storage.rename(format::MANIFEST_TEMP, &name)
    });
    copied.map_err(failed)?;
    Ok(storage.describe(&name))
}
