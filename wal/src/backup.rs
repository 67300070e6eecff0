//! Copies a log while its process runs, without disturbing it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::format::{self, FIRST_FRAME};
use crate::lock;
use crate::manifest::{Manifest, Seal, Segment};
use crate::reader::Index;
use crate::recovery;
use crate::restore::expect_empty;
use crate::snapshot::{self, Nobody};
use crate::storage::{COPY, File, Locked, Storage, copy_range};
use crate::survey::{self, Survey};
use crate::verify::{no_manifest, verify};

/// How often the end of a running log is looked at before it is given up.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The log's id, which the copy shares.
    pub log_id: [u8; 16],
    /// The first position in the log.
    pub first_position: u64,
    /// The last position in it.
    pub last_position: u64,
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies the log in `source`, which may be in use, into a `target` that is
/// empty: everything that was durable when it was called, and nothing that is
/// not; then verifies the copy. Interrupted, it leaves no log.
///
/// # Errors
/// [`Error::Damaged`] and [`Error::Unsupported`] when the source cannot be read,
/// [`Error::NoLog`], [`Error::Io`], also for a target that is not empty.
pub fn backup(
    source: &dyn Storage,
    target: &Arc<dyn Storage>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, Error> {
    expect_empty(target.as_ref())?;
    let (manifest, pinned) = pin(source)?;
    // Held to the end: a process that starts meanwhile would change the end.
    let stopped = lock::share(source).ok();
    for listed in &manifest.snapshots {
        let name = format::snapshot_name(listed.number);
        snapshot::show(&pinned, &name, &manifest.log, listed, &mut Nobody(|| {}))?
            .whole(source, &name)?;
    }
    let (sealed, open) = divide(&manifest);
    let survey = look(&pinned, &sealed)?;
    recovery::judge(&survey)?;
    let end = match stopped {
        Some(_) => {
            let survey = look(&pinned, &open)?;
            recovery::judge(&survey)?;
            (survey, u64::MAX)
        }
        None => settled_end(&pinned, &open)?,
    };
    let copy = Manifest {
        segments: sealed.segments.iter().copied().chain(ends(&end)).collect(),
        ..manifest
    };
    let backup = write(&pinned, target.as_ref(), &copy, progress)?;
    verify(Arc::clone(target), &mut Nobody(|| {}))?;
    Ok(backup)
}

/// The manifest, and every file that it lists, open: what a compaction removes
/// from now on can still be read.
fn pin(source: &dyn Storage) -> Result<(Manifest, Pinned<'_>), Error> {
    let mut before = None;
    loop {
        let Some(manifest) = Manifest::load(source)? else {
            return Err(no_manifest(source)?);
        };
        let segments = manifest.segments.iter();
        let segments = segments.map(|segment| format::segment_name(segment.number));
        let snapshots = manifest.snapshots.iter();
        let snapshots = snapshots.map(|snapshot| format::snapshot_name(snapshot.number));
        let mut files = HashMap::new();
        let mut missing = false;
        for name in segments.chain(snapshots) {
            match source.open_read(&name) {
                Ok(file) => drop(files.insert(name, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing = true,
                Err(error) => return Err(Error::io("open", source.describe(&name))(error)),
            }
        }
        // What is missing while the manifest stands will be said where it is read.
        if !missing || before == Some(manifest.generation) {
            let pinned = Pinned { source, files };
            return Ok((manifest, pinned));
        }
        before = Some(manifest.generation);
    }
}

/// The sealed segments at the beginning, and the rest.
fn divide(manifest: &Manifest) -> (Manifest, Manifest) {
    let segments = &manifest.segments;
    let count = segments.iter().take_while(|segment| segment.seal.is_some());
    let (sealed, rest) = segments.split_at(count.count());
    let mut open = Manifest {
        segments: rest.to_vec(),
        ..manifest.clone()
    };
    if let Some(seal) = sealed.last().and_then(|last| last.seal) {
        open.first_position = seal.last + 1;
        open.first_chain = seal.chain;
    }
    // That the log reaches them is asked once the whole copy is verified.
    open.snapshots.clear();
    let sealed = Manifest {
        segments: sealed.to_vec(),
        snapshots: Vec::new(),
        ..manifest.clone()
    };
    (sealed, open)
}

fn look(pinned: &Pinned<'_>, manifest: &Manifest) -> Result<Survey, Error> {
    survey::survey(
        pinned,
        manifest,
        u64::MAX,
        &mut Nobody(|| {}),
        &mut Index::new(),
    )
}

/// Looks at the end of a log that is being written, until everything that was
/// there at the first look, read or only proved, is both read and proved durable.
/// A hole that is damage stays, and is never taken for the end.
fn settled_end(pinned: &Pinned<'_>, open: &Manifest) -> Result<(Survey, u64), Error> {
    let mut wanted = None;
    for _ in 0..LOOKS {
        let survey = look(pinned, open)?;
        let read = survey.next - 1;
        // What proves the end of the last segment that was listed may be in one
        // that is listed only by now.
        let mark = survey.mark.max(sealed_by_now(pinned.source)?);
        let wanted = *wanted.get_or_insert(read.max(survey.mark));
        if read >= wanted && mark >= wanted {
            return Ok((survey, read.min(mark)));
        }
        // A frame is being written, or its proof is; or something is damaged.
        thread::sleep(PAUSE);
    }
    let survey = look(pinned, open)?;
    recovery::judge(&survey)?;
    let source = io::Error::new(
        io::ErrorKind::TimedOut,
        "the end of the log does not become durable",
    );
    Err(Error::io("back up", pinned.describe(""))(source))
}

/// The last position of the segments that are sealed by now.
fn sealed_by_now(source: &dyn Storage) -> Result<u64, Error> {
    let manifest = Manifest::load(source)?;
    let segments = manifest.iter().flat_map(|manifest| &manifest.segments);
    let seals = segments.filter_map(|segment| segment.seal);
    Ok(seals.map(|seal| seal.last).max().unwrap_or(0))
}

/// The segments that were open, each sealed where its last proved frame ends.
fn ends((survey, mark): &(Survey, u64)) -> Vec<Segment> {
    let mut segments = Vec::new();
    for open in &survey.open {
        let Some(end) = open.proved(*mark) else {
            break;
        };
        segments.push(Segment {
            number: open.number,
            epoch: open.epoch,
            seal: Some(Seal {
                length: end.end,
                first: open.first,
                last: end.next - 1,
                chain: end.chain,
            }),
        });
        if end.end < open.end {
            break;
        }
    }
    segments
}

fn write(
    pinned: &Pinned<'_>,
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
    target
        .sync_dir("")
        .map_err(Error::io("sync", target.describe("")))?;
    manifest.store(target)?;
    let seals = manifest.segments.iter().filter_map(|segment| segment.seal);
    Ok(Backup {
        log_id: manifest.log,
        first_position: manifest.first_position,
        last_position: seals
            .map(|seal| seal.last)
            .max()
            .unwrap_or(manifest.first_position - 1),
        files: crate::format::to_u64(files.len()) + 1,
        bytes: total,
    })
}

/// The files of a manifest, as they were opened.
struct Pinned<'a> {
    source: &'a dyn Storage,
    files: HashMap<String, Arc<dyn File>>,
}

fn only_reads() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

impl Storage for Pinned<'_> {
    /// None: what no manifest lists is not copied, and so not asked about.
    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.files.get(name).map(Arc::clone);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn open_write(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(only_reads())
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(only_reads())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn create_dir(&self, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Err(only_reads())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Err(only_reads())
    }

    fn lock(&self, _: &str, _: &str) -> io::Result<Locked> {
        Err(only_reads())
    }

    fn lock_shared(&self, _: &str) -> io::Result<Locked> {
        Err(only_reads())
    }

    fn random_id(&self) -> io::Result<[u8; 16]> {
        Err(only_reads())
    }

    fn describe(&self, name: &str) -> String {
        self.source.describe(name)
    }
}
