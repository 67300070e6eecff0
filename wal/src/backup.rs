//! Copies a log while its process runs, without disturbing it.
//!
//! The files change while they are read: frames come, segments are changed, a compaction removes some, the process ends
//! and another one takes over. So the log is read repeatedly until one *look* has everything:
//!
//! - The first looks establish what was durable when the backup began: what sealed segments, snapshots and the marks of
//!   frames prove, every batch that can be read, and a batch that has begun and cannot be read. A later look that has
//!   less than this is not the last one.
//! - Each look begins with the manifest that is in force then. Files that a restart or a compaction has changed
//!   meanwhile are read again.
//! - Damage is reported when several looks find it in the same place. For the end of a log that is not proved durable
//!   yet, the backup waits.
//! - Bytes of an unfinished write are no loss if no process appends: the next start sets them aside. A process that
//!   appends ([`lock::Holder::Appends`]) finishes its writes, so that bytes which stay unfinished were altered.
//!
//! In the end the copy is read as `verify` reads a log, every frame and block with its checksum and digest, and
//! its manifest, which has the digests of the source, is compared with what the looks found.

mod attempt;
mod parts;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::attempt::{CopyAttempt, SurveyedLog};
use self::parts::{last_position, part, sealed_at_the_beginning};
use crate::ancestry;
use crate::create::in_empty;
use crate::error::Error;
use crate::format::{self, FIRST_FRAME, LogId};
use crate::index::Index;
use crate::lock::{self, Holder};
use crate::manifest::{Manifest, Segment, Snapshot};
use crate::opening::{expect_finished, no_manifest};
use crate::recovery;
use crate::snapshot;
use crate::storage::{COPY, File, ReadOnly, Storage, copy_range};
use crate::survey::{self, Survey};
use crate::verdict::{After, Hole};
use crate::verify::verify_made;
use crate::visitor::Discard;

/// Number of consecutive looks that find damage in the same place before it is reported.
const SAME_DAMAGE_MAX: u32 = 4;
/// Number of consecutive looks that find the end of a log unproved and unchanged before the wait for it
/// ends.
const OPEN_END_MAX: u32 = 200;
/// Number of such looks before the wait for a process that appends to the log ends: its disk may stall.
const OPEN_END_OF_WRITER_MAX: u32 = 6 * OPEN_END_MAX;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// The content of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The log's id, which the copy shares.
    pub log_id: [u8; 16],
    /// The first position in the log.
    pub first_position: u64,
    /// The last position in it.
    pub last_position: u64,
    /// Number of files, including the manifest and the file of ancestors.
    pub files: u64,
    /// Bytes of the segments and snapshots.
    pub bytes: u64,
}

/// Copies the log in `source`, which may be in use, into a `target` that is
/// empty: everything that was durable when it was called, and nothing that is
/// not; then reads the copy as [`verify`](crate::verify()) does, and compares its digests with those that were
/// found in the source.
/// Interrupted, it leaves no log.
///
/// # Errors
/// [`Error::Damaged`] when something in the source stays unreadable, with its place, and when the copy differs from the
/// source; [`Error::Unsupported`], [`Error::NoLog`], [`Error::Unfinished`]; [`Error::Stopped`] when another log takes
/// the place of this one meanwhile; [`Error::Io`], also for a target that is not empty, and when the end of the log
/// does not become durable.
pub fn backup(
    source: &dyn Storage,
    target: &Arc<dyn Storage>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, Error> {
    with_pause(source, target, PAUSE, progress)
}

fn with_pause(
    source: &dyn Storage,
    target: &Arc<dyn Storage>,
    pause: Duration,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, Error> {
    in_empty(target.as_ref(), || {
        expect_finished(source)?;
        let mut reader = SourceReader::new(source, pause);
        let copy = reader.read_whole()?;
        let made = write(&reader.pinned(), target.as_ref(), &copy, progress)
            .and_then(|backup| compare(target, &copy).map(|()| backup));
        let is_altered = match &made {
            Err(Error::Damaged { .. }) => true,
            Err(Error::Io { source, .. }) => source.kind() == io::ErrorKind::UnexpectedEof,
            _ => false,
        };
        if is_altered {
            // If the source was altered after the look, that damage is the error to return.
            SourceReader::new(source, pause).read_whole()?;
        }
        made
    })
}

/// A frame that was incomplete when the backup began.
struct Begun {
    /// The position of its first record, if it has records.
    position: u64,
    /// The epoch of the process that began it.
    epoch: u64,
    file: String,
    offset: u64,
}

impl Begun {
    /// Whether all of it is proved durable by now, or it has turned out to hold no records: another
    /// process has set it aside, or the log goes on after it at the same position, so that it was a
    /// seal.
    fn is_settled(&self, survey: &Survey, epoch: u64, proved: u64) -> bool {
        let place = (&survey.location.file, survey.location.offset);
        let is_behind = place != (&self.file, self.offset);
        let was_seal = survey.next == self.position && is_behind;
        proved >= self.position || epoch != self.epoch || was_seal
    }
}

/// Reads the source until everything durable is read.
struct SourceReader<'a> {
    source: &'a dyn Storage,
    pause: Duration,
    log: Option<LogId>,
    /// The highest position that was there when the backup began: the end has
    /// to reach it, and a mark has to prove it.
    wanted: u64,
    /// A frame that had been begun by then and could not be read. The process that began it finishes
    /// it, or the next start sets it aside.
    begun: Option<Begun>,
    /// Whether a look has found the end of the log.
    has_end: bool,
    /// Sealed segments and snapshots that were read: they do not change.
    segments: HashMap<u64, Segment>,
    snapshots: Vec<Snapshot>,
    /// Files that were opened: what a compaction removes can still be read.
    files: HashMap<String, Arc<dyn File>>,
}

impl<'a> SourceReader<'a> {
    fn new(source: &'a dyn Storage, pause: Duration) -> Self {
        Self {
            source,
            pause,
            log: None,
            wanted: 0,
            begun: None,
            has_end: false,
            segments: HashMap::new(),
            snapshots: Vec::new(),
            files: HashMap::new(),
        }
    }

    fn pinned(&self) -> Pinned<'_> {
        Pinned {
            source: self.source,
            files: &self.files,
        }
    }

    /// Reads until one look has everything; returns the manifest of the copy.
    fn read_whole(&mut self) -> Result<Manifest, Error> {
        let mut before = None;
        let mut alike = 0;
        loop {
            let look = match self.look()? {
                CopyAttempt::Whole(copy) => return Ok(copy),
                look => look,
            };
            alike = match &before {
                Some(before) if look.is_like(before) => alike + 1,
                _ => 1,
            };
            match look {
                CopyAttempt::Damaged(error) if alike >= SAME_DAMAGE_MAX => return Err(error),
                CopyAttempt::Open(ref found) if alike >= OPEN_END_MAX => {
                    if let Some(copy) = self.verdict(found, alike)? {
                        return Ok(copy);
                    }
                }
                CopyAttempt::Open(_) if self.is_free()? => {
                    if let Some(copy) = self.stopped()? {
                        return Ok(copy);
                    }
                }
                _ => {}
            }
            before = Some(look);
            thread::sleep(self.pause);
        }
    }

    fn is_free(&self) -> Result<bool, Error> {
        Ok(matches!(lock::holder(self.source)?, Holder::Nobody))
    }

    /// Looks once more at a log that no process has open: its whole frames are what the next start
    /// keeps. Returns `None` when a process has it open by now.
    fn stopped(&mut self) -> Result<Option<Manifest>, Error> {
        Ok(match self.look()? {
            CopyAttempt::Whole(copy) => Some(copy),
            CopyAttempt::Open(found) if found.survey.next > self.wanted && self.is_free()? => {
                Some(found.copy(u64::MAX))
            }
            _ => None,
        })
    }

    /// Decides about the end of a log that `alike` looks found unchanged and incomplete. Returns `None` when it may yet
    /// become durable.
    fn verdict(&self, found: &SurveyedLog, alike: u32) -> Result<Option<Manifest>, Error> {
        let survey = &found.survey;
        let damaged = |what: String| Error::Damaged {
            file: survey.location.file.clone(),
            offset: survey.location.offset,
            position: Some(survey.next),
            what,
        };
        if survey.next <= self.wanted {
            return Err(damaged(format!(
                "{}; the records up to position {} were there when the backup began",
                survey.location.what, self.wanted
            )));
        }
        let seen = survey.observation;
        let is_blank = (seen.hole, seen.after) == (Hole::Blank, After::Zeros);
        match lock::holder(self.source)? {
            Holder::Appends(epoch) if epoch == found.sealed.epoch && !is_blank => {
                Err(damaged(format!(
                    "{}; the process that appends to the log would have finished it by now",
                    survey.location.what
                )))
            }
            // A process that is starting only reads so far, and will keep the whole frames.
            Holder::Starts | Holder::Nobody => Ok(Some(found.copy(u64::MAX))),
            Holder::Appends(_) if alike < OPEN_END_OF_WRITER_MAX => Ok(None),
            Holder::Appends(_) => {
                let source = io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the end of the log does not become durable",
                );
                Err(Error::io("back up", self.source.describe(""))(source))
            }
        }
    }

    /// Reads the files that were not read before, and the end of the log.
    fn look(&mut self) -> Result<CopyAttempt, Error> {
        match self.try_look() {
            Err(error @ Error::Damaged { .. }) => Ok(CopyAttempt::Damaged(error)),
            Err(Error::Io { file, source, .. })
                if source.kind() == io::ErrorKind::UnexpectedEof =>
            {
                Ok(CopyAttempt::Damaged(Error::Damaged {
                    file,
                    offset: 0,
                    position: None,
                    what: "the file has become shorter while it was read".to_owned(),
                }))
            }
            look => look,
        }
    }

    fn try_look(&mut self) -> Result<CopyAttempt, Error> {
        let manifest = self.pin()?;
        for listed in &manifest.snapshots {
            if !self.snapshots.contains(listed) {
                let name = format::snapshot_name(listed.number);
                snapshot::show(&self.pinned(), &name, &manifest.log, listed, &mut Discard)?
                    .whole(self.source, &name)?;
                self.snapshots.push(*listed);
            }
        }
        let sealed = sealed_at_the_beginning(&manifest);
        let read = sealed.iter().take_while(|one| self.is_read(one));
        let (read, unread) = sealed.split_at(read.count());
        if !unread.is_empty() {
            let part = Manifest {
                // Snapshots prove what is in the segments after these.
                snapshots: Vec::new(),
                ..part(&manifest, read, unread)
            };
            let survey = self.survey(&part)?;
            self.wanted = self.wanted.max(survey.mark);
            recovery::judge(&survey)?;
            let unread = unread.iter().map(|one| (one.number, *one));
            self.segments.extend(unread);
        }
        let open = &manifest.segments[sealed.len()..];
        let survey = self.survey(&part(&manifest, sealed, open))?;
        // Records that a mark proves were durable, whatever else is found.
        if !self.has_end {
            self.wanted = self.wanted.max(survey.mark);
        }
        recovery::judge(&survey)?;
        if !std::mem::replace(&mut self.has_end, true) {
            let seen = survey.observation;
            let is_blank = (seen.hole, seen.after) == (Hole::Blank, After::Zeros);
            self.wanted = self.wanted.max(survey.next - 1);
            // The frame that begins where reading ends may have been whole a moment ago.
            self.begun = (!is_blank).then(|| Begun {
                position: survey.next,
                epoch: manifest.epoch,
                file: survey.location.file.clone(),
                offset: survey.location.offset,
            });
        }
        let proved = (survey.next - 1).min(survey.mark);
        let begun = self.begun.as_ref();
        let is_settled = begun.is_none_or(|it| it.is_settled(&survey, manifest.epoch, proved));
        let is_whole = proved >= self.wanted && is_settled;
        let sealed = Manifest {
            segments: sealed.to_vec(),
            ..manifest
        };
        let found = SurveyedLog { sealed, survey };
        Ok(if is_whole {
            CopyAttempt::Whole(found.copy(proved))
        } else {
            CopyAttempt::Open(Box::new(found))
        })
    }

    fn is_read(&self, segment: &Segment) -> bool {
        self.segments.get(&segment.number) == Some(segment)
    }

    fn survey(&self, manifest: &Manifest) -> Result<Survey, Error> {
        survey::survey(
            &self.pinned(),
            manifest,
            u64::MAX,
            &mut Discard,
            &mut Index::new(),
        )
    }

    /// Loads the manifest in force, and opens every file that it lists.
    fn pin(&mut self) -> Result<Manifest, Error> {
        let mut before = None;
        loop {
            let Some(manifest) = Manifest::load(self.source)? else {
                return Err(no_manifest(self.source)?);
            };
            if *self.log.get_or_insert(manifest.log) != manifest.log {
                return Err(Error::Stopped {
                    reason: "another log has taken its place".into(),
                });
            }
            let segments = manifest.segments.iter();
            let segments =
                segments.map(|one| (format::segment_name(one.number), self.is_read(one)));
            let snapshots = manifest.snapshots.iter();
            let snapshots = snapshots.map(|one| {
                (
                    format::snapshot_name(one.number),
                    self.snapshots.contains(one),
                )
            });
            let mut missing = false;
            for (name, is_read) in segments.chain(snapshots).collect::<Vec<_>>() {
                if is_read && self.files.contains_key(&name) {
                    continue;
                }
                match self.source.open_read(&name) {
                    Ok(file) => drop(self.files.insert(name, file)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.files.remove(&name);
                        missing = true;
                    }
                    Err(error) => {
                        return Err(Error::io("open", self.source.describe(&name))(error));
                    }
                }
            }
            // A file that is missing while the manifest is unchanged is reported when it is read.
            if !missing || before == Some(manifest.generation) {
                return Ok(manifest);
            }
            before = Some(manifest.generation);
        }
    }
}

/// Reads the copy, and compares it with what was found in the source.
fn compare(target: &Arc<dyn Storage>, copy: &Manifest) -> Result<(), Error> {
    let report = verify_made(target.as_ref(), &mut Discard)?;
    let listed = Manifest::load(target.as_ref())?;
    // The manifest's digests are those that were found in the source, and every byte was checked
    // against them.
    if listed.as_ref() != Some(copy) || report.last_position != last_position(copy) {
        return Err(Error::Damaged {
            file: target.describe(format::MANIFEST),
            offset: 0,
            position: None,
            what: "the copy differs from the source".to_owned(),
        });
    }
    Ok(())
}

fn write(
    pinned: &dyn Storage,
    target: &dyn Storage,
    manifest: &Manifest,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, Error> {
    let segments = manifest.segments.iter().map(|segment| {
        let length = segment.seal.map_or(FIRST_FRAME, |seal| seal.length);
        (format::segment_name(segment.number), length)
    });
    let snapshots = manifest.snapshots.iter();
    let snapshots = snapshots.map(|listed| (format::snapshot_name(listed.number), listed.length));
    let files: Vec<_> = segments.chain(snapshots).collect();
    let total: u64 = files.iter().map(|(_, length)| length).sum();
    let mut done = 0;
    for (name, length) in &files {
        let source = pinned
            .open_read(name)
            .map_err(Error::io("open", pinned.describe(name)))?;
        let copied = target.create(name).and_then(|file| {
            let mut at = 0;
            while at < *length {
                let upto = (at + 8 * COPY).min(*length);
                copy_range(source.as_ref(), at, upto, file.as_ref(), at)?;
                file.sync()?;
                done += upto - at;
                at = upto;
                progress(done, total);
            }
            file.sync()
        });
        copied.map_err(Error::io("write", target.describe(name)))?;
    }
    let identity = manifest.identity();
    ancestry::store(target, &identity)?;
    target
        .sync_dir("")
        .map_err(Error::io("sync", target.describe("")))?;
    manifest.store(target)?;
    Ok(Backup {
        log_id: manifest.log,
        first_position: manifest.first_position,
        last_position: last_position(manifest),
        // The manifest, and the ancestors where there are any.
        files: format::to_u64(files.len()) + 1 + u64::from(!identity.ancestors.is_empty()),
        bytes: total,
    })
}

/// The files of a manifest, as they were opened.
struct Pinned<'a> {
    source: &'a dyn Storage,
    files: &'a HashMap<String, Arc<dyn File>>,
}

impl ReadOnly for Pinned<'_> {
    /// Returns no names: files that no manifest lists are not copied.
    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.files.get(name).map(Arc::clone);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn describe(&self, name: &str) -> String {
        self.source.describe(name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::error::BoxError;
    use crate::storage::meanwhile::Meanwhile;
    use crate::storage::sim::{Fault, SimDisk};
    use crate::verify::verify;
    use crate::{Log, Options, Record, SnapshotInfo, Visitor};

    /// Keeps the records of a whole log.
    #[derive(Default)]
    struct Keep(Vec<Vec<u8>>);

    impl Visitor for Keep {
        fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
            self.0.push(record.payload.to_vec());
            Ok(())
        }

        fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
            self.0.clear();
            Ok(())
        }

        fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
            self.record(record)
        }

        fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
            Ok(())
        }
    }

    fn options() -> Options {
        Options {
            segment_bytes_min: 8 << 10,
            segment_bytes_max: 8 << 10,
            reserve_bytes: 0,
            ..Options::default()
        }
    }

    fn open(disk: &SimDisk) -> Log {
        Log::open(disk.storage(), options(), &mut Keep::default())
            .unwrap()
            .0
    }

    fn payload(number: u8) -> Vec<u8> {
        vec![number; 400 + usize::from(number)]
    }

    /// Makes a log with two snapshots, sealed segments and open ones, in its second epoch; returns it,
    /// open and at rest, and the number of its records.
    fn running(disk: &SimDisk) -> (Log, u64) {
        let mut log = open(disk);
        for number in 1..=20 {
            log.append(&[payload(number)]).unwrap();
        }
        drop(log);
        let mut log = open(disk);
        for number in 21..=50 {
            log.append(&[payload(number)]).unwrap();
            if matches!(number, 30 | 40) {
                let covers = u64::from(number) - 25;
                let mut writer = log.begin_snapshot(covers).unwrap();
                for position in 1..=covers {
                    let kept = log.read(position).unwrap().unwrap();
                    writer.keep(position, &kept).unwrap();
                }
                writer.entry(b"an entry").unwrap();
                let upto = log.last_position();
                log.install(writer, upto).unwrap();
            }
        }
        log.seal().unwrap();
        (log, 50)
    }

    fn copied(disk: &SimDisk) -> Result<(Backup, Vec<Vec<u8>>), Error> {
        let target: Arc<dyn Storage> = SimDisk::new().storage();
        let source = disk.storage();
        let backup = with_pause(source.as_ref(), &target, Duration::ZERO, &mut |_, _| {})?;
        let mut keep = Keep::default();
        verify(target, &mut keep)?;
        Ok((backup, keep.0))
    }

    fn is_whole((backup, records): &(Backup, Vec<Vec<u8>>), last: u64) -> bool {
        let expected: Vec<_> = (1..=50).map(payload).take(records.len()).collect();
        backup.last_position == last
            && format::to_u64(records.len()) == last
            && *records == expected
    }

    fn env(name: &str, default: u64) -> u64 {
        std::env::var(name).map_or(default, |text| text.replace('_', "").parse().unwrap())
    }

    /// The process that has the log open while bytes are altered.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Owner {
        Appends,
        Starts,
        Nobody,
    }

    fn with_owner(disk: &SimDisk, owner: Owner) -> SimDisk {
        match owner {
            Owner::Appends => disk.while_it_runs(),
            Owner::Starts => {
                let disk = disk.while_it_runs();
                disk.storage().set_holder(format::LOCK, "somebody").unwrap();
                disk
            }
            Owner::Nobody => disk.after_kill(),
        }
    }

    /// Flips a bit of every byte of every file, or of a share of them, under each kind of owner.
    #[test]
    fn whatever_byte_is_altered_a_backup_is_whole_or_damage_is_told() {
        let disk = SimDisk::new();
        let (_log, last) = running(&disk);
        assert!(is_whole(&copied(&disk.while_it_runs()).unwrap(), last));
        let places: Vec<_> = disk
            .names()
            .into_iter()
            .flat_map(|name| {
                let bytes = disk.bytes(&name).unwrap().len();
                (0..bytes).map(move |at| (name.clone(), at))
            })
            .collect();
        let all = format::to_u64(places.len()) * 3;
        let (seed, size) = (env("SEED", 17), env("SIZE", 12_000));
        let step = format::to_usize((all / size.max(1)).max(1));
        println!("SEED={seed}: every {step}th of {all}");
        let told = AtomicU64::new(0);
        let places = &places;
        thread::scope(|scope| {
            for half in 0..2_usize {
                let (disk, told) = (&disk, &told);
                scope.spawn(move || {
                    let owners = [Owner::Appends, Owner::Starts, Owner::Nobody];
                    let cases = places
                        .iter()
                        .flat_map(|place| owners.map(|owner| (place, owner)));
                    let from = format::to_usize(seed) % step;
                    for (number, ((name, at), owner)) in cases.enumerate().skip(from).step_by(step)
                    {
                        if number / step % 2 != half {
                            continue;
                        }
                        let case = format!("SEED={seed}: {name}, byte {at}, {owner:?}");
                        let damaged = with_owner(disk, owner);
                        damaged.flip(name, *at, 1 << (number % 8));
                        match copied(&damaged) {
                            Ok(copy) => {
                                assert!(is_whole(&copy, last), "{case}: short or wrong");
                                // Beside a process that appends, all bytes were durable, so an altered
                                // one is damage.
                                assert!(owner != Owner::Appends, "{case}: not told");
                            }
                            Err(Error::Damaged { file, .. }) => {
                                assert!(file.ends_with(name.as_str()), "{case}: told of {file}");
                                told.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{case}: {error}"),
                        }
                    }
                });
            }
        });
        println!("{} times damage was told", told.into_inner());
    }

    /// The owner changes before each call of the backup in turn: it ends, or is killed with a
    /// batch half written, and another one has started, appended, compacted and perhaps ended.
    #[test]
    fn a_backup_goes_on_with_the_new_owner_wherever_the_old_one_ends() {
        for is_killed in [false, true] {
            for goes_on in [false, true] {
                let mut at = 0;
                loop {
                    let disk = SimDisk::new();
                    let (log, last) = running(&disk);
                    let owner = parking_lot::Mutex::new(Some(log));
                    let source = Meanwhile::new(&disk, at, move |disk| {
                        let mut owner = owner.lock();
                        let mut log = owner.take().unwrap();
                        if is_killed {
                            // No seal proves this one.
                            log.append(&[payload(51)]).unwrap();
                        }
                        drop(log);
                        let mut log = open(disk);
                        log.compact(&crate::retention::Keep::NOTHING, None).unwrap();
                        log.append(&[payload(52)]).unwrap();
                        log.seal().unwrap();
                        if goes_on {
                            *owner = Some(log);
                        }
                    });
                    let target: Arc<dyn Storage> = SimDisk::new().storage();
                    let case = format!("before call {at}, killed {is_killed}, goes on {goes_on}");
                    let made = with_pause(&source, &target, Duration::ZERO, &mut |_, _| {});
                    let backup = made.unwrap_or_else(|error| panic!("{case}: {error}"));
                    assert!(backup.last_position >= last, "{case}: {backup:?}");
                    let mut keep = Keep::default();
                    verify(target, &mut keep).unwrap();
                    assert!(
                        format::to_u64(keep.0.len()) == backup.last_position,
                        "{case}"
                    );
                    if source.calls() <= at {
                        break;
                    }
                    at += 1;
                }
                println!("{at} places");
                assert!(at > 40, "{at} places");
            }
        }
    }

    #[test]
    fn records_that_vanish_after_a_backup_began_are_damage() {
        let disk = SimDisk::new();
        let mut log = open(&disk);
        for number in 1..=2 {
            log.append(&[payload(number)]).unwrap();
        }
        log.seal().unwrap();
        let name = format::segment_name(1);
        let older = disk.bytes(&name).unwrap();
        for number in 3..=4 {
            log.append(&[payload(number)]).unwrap();
        }
        // Not sealed: the first look waits for the proof, and then the file is an older one.
        let named = name.clone();
        let source = Meanwhile::new(&disk, 10, move |disk| disk.put(&named, &older));
        let target: Arc<dyn Storage> = SimDisk::new().storage();
        let made = with_pause(&source, &target, Duration::ZERO, &mut |_, _| {});
        match made {
            Err(Error::Damaged {
                file,
                position,
                what,
                ..
            }) => {
                assert!(file.ends_with(&name), "{file}");
                assert_eq!(position, Some(3));
                assert!(what.contains("up to position 4 were there"), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_cut_at_any_moment_of_a_backup_is_damage_unless_copied_before() {
        let name = format::segment_name(1);
        let (mut at, mut told) = (0, 0);
        loop {
            let disk = SimDisk::new();
            let (_log, last) = running(&disk);
            let named = name.clone();
            let source = Meanwhile::new(&disk, at, move |disk| {
                let length = format::to_u64(disk.bytes(&named).unwrap().len());
                let file = disk.storage().open_write(&named).unwrap();
                file.set_length(length / 2).unwrap();
            });
            let target: Arc<dyn Storage> = SimDisk::new().storage();
            match with_pause(&source, &target, Duration::ZERO, &mut |_, _| {}) {
                Ok(backup) => assert_eq!(backup.last_position, last, "before call {at}"),
                Err(Error::Damaged { file, .. }) => {
                    assert!(file.ends_with(&name), "before call {at}: {file}");
                    told += 1;
                }
                Err(error) => panic!("before call {at}: {error}"),
            }
            if source.calls() <= at {
                break;
            }
            at += 1;
        }
        println!("damage before {told} of {at} calls");
        assert!(told > 2 && told < at, "damage before {told} of {at} calls");
    }

    #[test]
    fn a_read_that_the_system_refuses_is_told_as_that_and_is_no_damage() {
        let mut at = 0;
        loop {
            let disk = SimDisk::new();
            let (_log, last) = running(&disk);
            let source = disk.while_it_runs();
            source.fail_call(at, Fault::Io);
            let made = copied(&source);
            if source.failed_call().is_none() {
                assert!(is_whole(&made.unwrap(), last));
                break;
            }
            assert!(matches!(made, Err(Error::Io { .. })), "call {at}: {made:?}");
            at += 1;
        }
        assert!(at > 40, "{at} calls");
    }

    /// Nothing proves the last record except the next frame that its writer writes.
    #[test]
    fn a_backup_waits_longer_for_a_slow_writer_than_for_none_but_not_forever() {
        let unproved = || {
            let disk = SimDisk::new();
            let mut log = open(&disk);
            for number in 1..=3 {
                log.append(&[payload(number)]).unwrap();
            }
            (disk, log)
        };
        let copied_from = |source: &Meanwhile| {
            let target: Arc<dyn Storage> = SimDisk::new().storage();
            with_pause(source, &target, Duration::ZERO, &mut |_, _| {})
        };
        let (disk, _writer) = unproved();
        let starting = with_owner(&disk, Owner::Starts);
        let source = Meanwhile::new(&starting, u64::MAX, |_| {});
        assert_eq!(copied_from(&source).unwrap().last_position, 3);
        let without_a_writer = source.calls();
        let source = Meanwhile::new(&disk, u64::MAX, |_| {});
        match copied_from(&source) {
            Err(Error::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::TimedOut),
            other => panic!("{other:?}"),
        }
        let looks = u64::from(OPEN_END_OF_WRITER_MAX / OPEN_END_MAX);
        assert!(source.calls() > without_a_writer * looks / 2, "given up");
        let later = without_a_writer * 3 / 2;
        let (disk, writer) = unproved();
        let writer = parking_lot::Mutex::new(writer);
        let source = Meanwhile::new(&disk, later, move |_| writer.lock().seal().unwrap());
        let backup = copied_from(&source).unwrap();
        assert_eq!(backup.last_position, 3);
        assert!(source.calls() > later, "it was not waited for");
    }

    /// A frame that a look finds half written may be one without records, after which none may come.
    #[test]
    fn a_backup_that_meets_a_seal_half_written_does_not_wait_for_records() {
        let disk = SimDisk::new();
        let mut log = open(&disk);
        for number in 1..=3 {
            log.append(&[payload(number)]).unwrap();
        }
        let name = format::segment_name(1);
        let without = disk.bytes(&name).unwrap();
        log.seal().unwrap();
        let with = disk.bytes(&name).unwrap();
        let differs = |at: &usize| without.get(*at) != with.get(*at);
        let changed: Vec<_> = (0..with.len()).filter(differs).collect();
        let (first, last) = (changed[0], changed[changed.len() - 1]);
        assert!(last - first > 8, "bytes {first} to {last}");
        for cut in first + 1..=last {
            let mut half = without.clone();
            half[first..cut].copy_from_slice(&with[first..cut]);
            for at in 0..24 {
                let disk = disk.while_it_runs();
                disk.put(&name, &half);
                let (named, whole) = (name.clone(), with.clone());
                let source = Meanwhile::new(&disk, at, move |disk| disk.put(&named, &whole));
                let target: Arc<dyn Storage> = SimDisk::new().storage();
                let made = with_pause(&source, &target, Duration::ZERO, &mut |_, _| {});
                let case = format!("{cut} of {first} to {last}, before call {at}");
                let backup = made.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(backup.last_position, 3, "{case}");
            }
        }
    }

    #[test]
    fn progress_rises_to_the_bytes_of_the_files_that_are_counted() {
        let disk = SimDisk::new();
        let (_log, _) = running(&disk);
        let copy = SimDisk::new();
        let target: Arc<dyn Storage> = copy.storage();
        let mut told = Vec::new();
        let source = disk.storage();
        let backup = with_pause(
            source.as_ref(),
            &target,
            Duration::ZERO,
            &mut |done, total| {
                told.push((done, total));
            },
        )
        .unwrap();
        let names = copy.names();
        assert_eq!(backup.files, format::to_u64(names.len()), "{names:?}");
        let bytes = names.iter().filter(|name| *name != format::MANIFEST);
        let bytes = bytes.map(|name| format::to_u64(copy.bytes(name).unwrap().len()));
        assert_eq!(backup.bytes, bytes.sum::<u64>());
        assert_eq!(told.last(), Some(&(backup.bytes, backup.bytes)));
        assert_eq!(told.len() + 1, names.len(), "once for each of these files");
        assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(told.iter().all(|(_, total)| *total == backup.bytes));
    }
}
