//! `carebook compact`: shortens the log of a stopped server. Its content is then in two snapshots, each of which is
//! complete.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use wal::SnapshotInfo;

use crate::cli::exit::Failure;
use crate::cli::open::{Opening, count_bar, log_name, open, progress_bar, waiting_bar};
use crate::cli::output::{Output, new_directory, snapshot_rows, snapshots_json};
use crate::cli::path_checks::expect_apart;
use crate::cli::printable::as_argument;
use crate::engine::Limits;
use crate::engine::checkpointer::{CheckpointPolicy, Step};
use crate::engine::log_space::retention::LogRetention;

/// Number of snapshots that are kept.
const KEPT: usize = 2;

/// Arguments of `carebook compact`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook compact --data /srv/carebook
  carebook compact --data /srv/carebook --keep 0s
  carebook compact --data /srv/carebook --archive /archive/carebook
  carebook compact --data /srv/carebook --json | jq .bytesRemoved

The server must be stopped; a running one does the same by itself, as its log grows. Records \
younger than --keep stay in the log, for histories and events; a start does not read them. Every \
read, and every command sent again, is answered as before. Idempotency keys are kept: only `serve \
--idempotency-retention` forgets them. A second run finds nothing to do.

The snapshots are written first, on the same disk. If there is no space for them, nothing is \
removed: copy the directory to another disk (carebook backup), compact the copy, and serve from \
that.

Exit codes:
  0  the log is compacted: two snapshots hold everything
  1  failed, for example because a server holds the directory, or the disk is
     full
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub struct CompactArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// How old records are (by the time that servers ran) when the log removes them; with 0s it
    /// keeps none that the snapshots cover. What webhooks and NATS have not taken yet is kept beyond
    /// that, for 30 days and up to 64 GiB.
    #[arg(long, value_name = "DURATION", default_value = "7d",
        value_parser = humantime::parse_duration)]
    keep: Duration,
    /// Moves segments there that the log no longer keeps, instead of deleting them. It must not be
    /// in the data directory.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The result of a compaction.
struct Done {
    log: String,
    last: u64,
    taken: u64,
    /// The first position that the log still has as a record.
    first: u64,
    snapshots: Vec<SnapshotInfo>,
    segments: u64,
    bytes: u64,
}

const WRITING: &str = "writing a snapshot";
const MOVING: &str = "moving segments to the archive";
const REMOVING: &str = "removing what the snapshots cover";

/// The progress bar of the current step.
struct Shown(Option<(&'static str, ProgressBar)>);

impl Shown {
    fn new() -> Self {
        Self(None)
    }

    /// Returns the bar for removing files, which has no steps.
    fn removing() -> Self {
        Self(Some((REMOVING, waiting_bar(REMOVING))))
    }

    fn show(&mut self, step: Step) {
        let (what, make, done, total): (_, fn(_) -> _, _, _) = match step {
            Step::Writing(done, total) => (WRITING, count_bar, done, total),
            Step::Archiving(done, total) => (MOVING, |what| progress_bar(0, what), done, total),
        };
        if self.0.as_ref().is_none_or(|(known, _)| *known != what) {
            self.end();
            self.0 = Some((what, make(what)));
        }
        if let Some((_, bar)) = &self.0 {
            bar.set_length(total);
            bar.set_position(done);
        }
        if matches!(step, Step::Archiving(done, total) if done == total) {
            self.end();
            *self = Self::removing();
        }
    }

    fn end(&mut self) {
        if let Some((_, bar)) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end();
    }
}

impl CompactArgs {
    /// Returns the failure for an error of the log. If the disk is full, the message suggests another disk.
    fn failed(&self, error: &wal::Error) -> Failure {
        let is_full = matches!(error, wal::Error::Io { source, .. }
            if source.kind() == std::io::ErrorKind::StorageFull);
        if !is_full {
            return Failure::of_log(error);
        }
        if let Some(archive) = self.archive_of(error) {
            return Failure::of_log(error).with(format_args!(
                "Nothing was removed: make room for the segments in {}, and run the command again",
                archive.display()
            ));
        }
        Failure::other(format!(
            "{error}. A snapshot is written first, on the same disk. Nothing was removed: `carebook \
             backup --data {} --to DIR`, with DIR on another disk, then `carebook compact --data \
             DIR`, and serve from there or put it in the place of {}",
            as_argument(&self.data),
            self.data.display()
        ))
    }

    /// Returns the archive, if the error occurred there.
    fn archive_of(&self, error: &wal::Error) -> Option<&Path> {
        let wal::Error::Io { file, .. } = error else {
            return None;
        };
        let archive = self.archive.as_deref()?;
        let is_there = archive.canonicalize();
        let is_there = is_there.is_ok_and(|archive| Path::new(file).starts_with(archive));
        is_there.then_some(archive)
    }

    /// Takes the missing snapshots, and compacts the log.
    ///
    /// # Errors
    /// When the log is damaged, held, does not exist, or cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(archive) = &self.archive {
            expect_apart("--archive", archive, "the data directory", &self.data)?;
        }
        let opening = Opening {
            lanes: 1,
            limits: Limits::default(),
            reserve_bytes: 0,
            create: false,
        };
        let (engine, report) = open(&self.data, opening, Box::new(|_| {}))?;
        let archive = self.archive.as_deref().map(new_directory).transpose()?;
        engine.checkpoint_by(CheckpointPolicy {
            archive,
            // Records that --keep protects stay, and removed ones are counted.
            gives_up_for_room: false,
            log: LogRetention {
                age: self.keep,
                bytes: u64::MAX,
                ..LogRetention::default()
            },
            ..CheckpointPolicy::default()
        });
        engine.keep_for_what_waits();
        let of_log = |error: wal::Error| self.failed(&error);
        let mut taken = 0_u64;
        let last = engine.durable();
        while {
            let snapshots = engine.snapshots();
            let whole = snapshots.iter().filter(|held| held.covers == last);
            last > 0 && whole.count() < KEPT
        } {
            let mut shown = Shown::new();
            let done = engine.snapshot_now(&mut |step| shown.show(step));
            drop(shown);
            done.map_err(of_log)?;
            taken += 1;
        }
        // An earlier run may have been interrupted at this point, after the snapshots.
        let mut shown = Shown::removing();
        let compacted = engine.compact_log(&mut |step| shown.show(step));
        drop(shown);
        let compacted = compacted.map_err(of_log)?;
        let (snapshots, figures) = (engine.snapshots(), engine.figures().checkpoints);
        engine.shut_down().map_err(of_log)?;
        let done = Done {
            log: log_name(&report),
            last,
            taken,
            first: compacted.first_position,
            snapshots,
            segments: figures.compacted_segments,
            bytes: figures.compacted_bytes,
        };
        self.print(&done)
            .map_err(|failure| failure.after(format_args!("{} is compacted", self.data.display())))
    }

    fn print(&self, done: &Done) -> Result<(), Failure> {
        let mut out = Output::new();
        if self.json {
            let made = json!({
                "logId": done.log,
                "firstPosition": done.first,
                "lastPosition": done.last,
                "snapshotsTaken": done.taken,
                "snapshots": snapshots_json(&done.snapshots),
                "segmentsRemoved": done.segments,
                "bytesRemoved": done.bytes,
                "archive": self.archive.as_ref().map(|archive| archive.display().to_string()),
            });
            out.line(format_args!("{made:#}"))?;
            return out.flush();
        }
        let removed = match &self.archive {
            Some(archive) => format!("segments moved to {}", archive.display()),
            None => "segments removed".to_owned(),
        };
        let mut rows = vec![
            ("log".to_owned(), done.log.clone()),
            ("last position".to_owned(), done.last.to_string()),
            ("snapshots taken".to_owned(), done.taken.to_string()),
        ];
        rows.extend(snapshot_rows(&done.snapshots));
        rows.push((removed, done.segments.to_string()));
        rows.push(("their bytes".to_owned(), done.bytes.to_string()));
        out.pairs(rows)?;
        out.flush()
    }
}
