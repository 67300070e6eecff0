//! Carries out the verdict on a log's end.
//!
//! Everything done before the new manifest is in place can be done again: a
//! crash in between leaves a log that is read in the same way.

use crate::error::Error;
use crate::format::{self, FIRST_FRAME, to_u64, to_usize};
use crate::manifest::{Manifest, Seal, Segment, remove_if_there};
use crate::report::{BadSnapshot, TornTail};
use crate::storage::{COPY, Storage, copy_range, write_all_at};
use crate::survey::{OpenSegment, Survey};
use crate::verdict::{self, Verdict};

/// Refuses a log that has lost something.
pub(crate) fn judge(survey: &Survey) -> Result<(), Error> {
    let what = match verdict::decide(survey.observation) {
        Verdict::Clean | Verdict::Torn => return Ok(()),
        Verdict::Broken => survey.location.what.clone(),
        Verdict::Lost => format!(
            "{}; the records from position {} to {} were acknowledged and cannot be read",
            survey.location.what, survey.next, survey.mark
        ),
    };
    Err(Error::Damaged {
        file: survey.location.file.clone(),
        offset: survey.location.offset,
        position: Some(survey.next),
        what,
    })
}

/// The torn tails, as a report lists them.
pub(crate) fn torn_tails(storage: &dyn Storage, survey: &Survey) -> Vec<TornTail> {
    let tails = survey
        .open
        .iter()
        .filter_map(|segment| Some((segment, segment.torn?)));
    tails
        .map(|(segment, (from, to))| TornTail {
            file: storage.describe(&format::segment_name(segment.number)),
            offset: from,
            bytes: to - from,
            kept_in: None,
        })
        .collect()
}

/// The findings of a start, which judged them sound and has yet to act on them.
pub(crate) struct Findings {
    /// The manifest in force, without the snapshots that cannot be read.
    pub(crate) manifest: Manifest,
    pub(crate) survey: Survey,
    pub(crate) bad: Vec<BadSnapshot>,
    /// The torn tails; each gets the name of its copy as soon as the copy is made.
    pub(crate) tails: Vec<TornTail>,
}

impl Findings {
    pub(crate) fn new(
        storage: &dyn Storage,
        mut manifest: Manifest,
        survey: Survey,
        bad: Vec<BadSnapshot>,
    ) -> Self {
        let is_bad = |number| bad.iter().any(|bad: &BadSnapshot| bad.number == number);
        manifest.snapshots.retain(|listed| !is_bad(listed.number));
        Self {
            tails: torn_tails(storage, &survey),
            manifest,
            survey,
            bad,
        }
    }
}

/// Brings the log into the state that the verdict demands: copies torn bytes to the quarantine,
/// syncs what will be relied on, seals the open segments, removes those that were never used, and
/// begins a new epoch.
///
/// The steps that take disk space come first. When one fails for lack of space
/// ([`Error::is_shortage`]), the log is as it was found, and the caller tries again.
pub(crate) fn carry_out(storage: &dyn Storage, found: &mut Findings) -> Result<Manifest, Error> {
    for bad in &found.bad {
        set_aside(storage, bad.number)?;
    }
    let survey = &found.survey;
    sweep(storage, &survey.leftovers)?;
    let torn = survey.open.iter().filter(|segment| segment.torn.is_some());
    for (segment, tail) in torn.zip(&mut found.tails) {
        if tail.kept_in.is_none() {
            tail.kept_in = Some(quarantine(storage, segment)?);
        }
    }
    let manifest = settled(&found.manifest, survey);
    if let Err(error) = manifest.write_beside(storage) {
        // A partly written manifest takes space that others wait for.
        let _ = storage.remove(format::MANIFEST_TEMP);
        return Err(error);
    }
    // After an error from here on, it is unknown which manifest is in force.
    put_in_force(storage, survey).map_err(Error::into_final)?;
    Ok(manifest)
}

/// Removes the unfinished files of a crash. Before that, makes the manifest that does not list them
/// durable: an older one, which a power cut might bring back, may list them.
fn sweep(storage: &dyn Storage, leftovers: &[String]) -> Result<(), Error> {
    if leftovers.is_empty() {
        return Ok(());
    }
    storage
        .sync_dir("")
        .map_err(Error::io("sync", storage.describe("")))?;
    for name in leftovers {
        remove_if_there(storage, name)?;
    }
    Ok(())
}

/// Returns the next manifest, of a new epoch: it lists the open segments as sealed, and those
/// without frames no longer.
fn settled(manifest: &Manifest, survey: &Survey) -> Manifest {
    let mut manifest = manifest.clone();
    manifest.segments.retain_mut(|listed| {
        match survey.open.iter().find(|open| open.number == listed.number) {
            None => true,
            Some(open) => {
                *listed = Segment {
                    number: open.number,
                    epoch: open.epoch,
                    seal: Some(Seal {
                        length: open.end,
                        first: open.first,
                        last: open.last,
                        chain: open.chain,
                    }),
                };
                open.frames > 0
            }
        }
    });
    manifest.epoch += 1;
    manifest.generation += 1;
    manifest
}

/// Brings the segments into the state that the manifest written beside describes, and puts that
/// manifest in force.
fn put_in_force(storage: &dyn Storage, survey: &Survey) -> Result<(), Error> {
    for segment in &survey.open {
        if segment.frames > 0 || segment.torn.is_some() {
            settle(storage, segment, survey.mark)?;
        }
    }
    Manifest::put_in_place(storage)?;
    for segment in &survey.open {
        if segment.frames > 0 {
            cut_off(storage, segment.number, segment.end)?;
        } else {
            remove_if_there(storage, &format::segment_name(segment.number))?;
        }
    }
    for name in &survey.given_up {
        give_up(storage, name)?;
    }
    Ok(())
}

/// Renames a file to a free name beside its own, under which people can look at it; returns the new
/// path.
pub(crate) fn give_up(storage: &dyn Storage, name: &str) -> Result<String, Error> {
    let to = free_name(storage, |copy| format::given_up_name(name, copy))?;
    storage
        .rename(name, &to)
        .map_err(Error::io("rename", storage.describe(name)))?;
    Ok(storage.describe(&to))
}

/// Returns the first of `named(1)`, `named(2)`, … that is the name of no file.
pub(crate) fn free_name(
    storage: &dyn Storage,
    named: impl Fn(u32) -> String,
) -> Result<String, Error> {
    let mut copy = 1;
    loop {
        let free = named(copy);
        match storage.open_read(&free) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(free),
            Err(error) => return Err(Error::io("open", storage.describe(&free))(error)),
            Ok(_) => copy += 1,
        }
    }
}

/// Renames a snapshot that cannot be read, to keep it out of the way. The new name may be taken:
/// the next snapshot gets the same number, and may have been set aside, too.
fn set_aside(storage: &dyn Storage, number: u64) -> Result<(), Error> {
    let name = format::snapshot_name(number);
    let free = free_name(storage, |copy| format::snapshot_bad_name(number, copy))?;
    match storage.rename(&name, &free) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::io("rename", storage.describe(&name))),
    }
}

/// Copies torn bytes to a file of their own; returns its name.
fn quarantine(storage: &dyn Storage, segment: &OpenSegment) -> Result<String, Error> {
    let (from, to) = segment.torn.unwrap_or((segment.end, segment.end));
    let source_name = format::segment_name(segment.number);
    let source = storage
        .open_read(&source_name)
        .map_err(Error::io("open", storage.describe(&source_name)))?;
    storage
        .create_dir(format::QUARANTINE)
        .map_err(Error::io("create", storage.describe(format::QUARANTINE)))?;
    // An earlier recovery that was interrupted may have kept more than is left
    // now: its copy stays.
    let mut copy = 0;
    let name = loop {
        let name = format::quarantine_name(segment.number, from, copy);
        match storage.open_read(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => break name,
            Err(error) => return Err(Error::io("open", storage.describe(&name))(error)),
            Ok(_) => copy += 1,
        }
    };
    let target = storage
        .create(&name)
        .map_err(Error::io("create", storage.describe(&name)))?;
    let kept = copy_range(source.as_ref(), from, to, target.as_ref(), 0)
        .and_then(|()| target.sync())
        .and_then(|()| storage.sync_dir(format::QUARANTINE))
        .and_then(|()| storage.sync_dir(""));
    if let Err(error) = kept {
        // Half a copy is of no use, and takes the space that the next attempt needs.
        let _ = storage.remove(&name);
        return Err(Error::io("keep torn bytes in", storage.describe(&name))(
            error,
        ));
    }
    Ok(storage.describe(&name))
}

/// Overwrites the torn bytes of a segment with zeros and makes the rest durable. The segment keeps
/// its length: an open segment shorter than it was made counts as damaged.
///
/// Frames that are not proved durable are written once more, unchanged: a process that died of a
/// failed sync may have left them in the page cache only, marked as written, and a sync alone would
/// not bring them to the disk.
fn settle(storage: &dyn Storage, segment: &OpenSegment, mark: u64) -> Result<(), Error> {
    let name = format::segment_name(segment.number);
    let failed = |source| Error::io("seal", storage.describe(&name))(source);
    let file = storage.open_write(&name).map_err(failed)?;
    let from = segment.unproved_from(mark).clamp(FIRST_FRAME, segment.end);
    copy_range(file.as_ref(), from, segment.end, file.as_ref(), from).map_err(failed)?;
    if let Some((from, to)) = segment.torn {
        let mut at = from;
        while at < to {
            let zeros = vec![0; to_usize((to - at).min(COPY))];
            write_all_at(file.as_ref(), &zeros, at).map_err(failed)?;
            at += to_u64(zeros.len());
        }
    }
    file.sync().map_err(failed)
}

/// Truncates the zeros after the last frame of a sealed segment, which ends at an offset. A crash may undo
/// that: nothing relies on the shorter length.
pub(crate) fn cut_off(storage: &dyn Storage, number: u64, end: u64) -> Result<(), Error> {
    let name = format::segment_name(number);
    let file = storage.open_write(&name);
    file.and_then(|file| file.set_length(end))
        .map_err(Error::io("cut off", storage.describe(&name)))
}
