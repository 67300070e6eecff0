//! `carebook restore`: makes a new data directory from a backup, or from a stopped server's
//! directory, as of its end, a position, or a time.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use wal::live::LiveReader;
use wal::storage::Storage;
use wal::{BoxError, FromArchive, Past, Record as Bytes, SnapshotInfo, Visitor};

use super::by_time::ByTime;
use crate::base::time::Timestamp;
use crate::cli::exit::Failure;
use crate::cli::open::{log_name, progress_bar, refusal};
use crate::cli::output::{
    Output, empty_directory, existing, left_unfinished, snapshot_rows, snapshots_json,
};
use crate::cli::path_checks::{expect_apart, is_within};
use crate::cli::stderr::print_to_stderr;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::journal::record::Record;
use crate::journal::snapshot::Summary;

/// What the verification of a restored directory has shown.
const COMPARED: &str =
    "all its records and snapshots were read, and their checksums and digests are right";

/// Arguments of `carebook restore`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook restore --from /backup/carebook-2026-11-20 --data /srv/carebook
  carebook restore --from /backup/today --data /srv/carebook --at 120394
  carebook restore --from /backup/today --data /srv/carebook \\
      --at 2026-11-20T09:30:00Z
  carebook restore --from /backup/today --archive /archive \\
      --data /srv/carebook --at 5000

The restored log has a log id of its own and the same positions, so the two can never be \
confused. Without --at it has all records and snapshots of the source; a damaged snapshot that is not needed is left \
out and reported. --at POSITION keeps everything up to that position; --at TIME everything that was committed at that \
time or before. The times of commits never decrease: where a clock was ahead, what was committed after it was set \
right has its time, too, and a time before that one leaves it out. So the times of the last commit and of the next \
one are printed; only a position is exact.

If the source begins with the first record, every position can be restored; if a compaction has \
removed some, the earliest is that of the older snapshot. With --archive, the directory that was \
given to serve or compact, the segments that compactions have moved there are used as well: those \
that join the source without a gap, before it, and after it when it is a backup. Where segments \
are missing there, or something is damaged, --at restores what is before: a position, or a time \
if a later commit comes before it, too.

The new directory is verified: all its records and snapshots are read, and their checksums and \
digests compared. The meaning of the records is not checked: `carebook verify` replays them.

Exit codes:
  0  the new directory is complete and verified
  1  failed, for example because --data is not empty, or the position cannot be
     restored
  2  the arguments are wrong
  3  the source or the archive is damaged, or segments are missing in the
     archive: file, offset and position are named, and up to where all can be
     restored
  5  it was written by another version of carebook, which is named")]
pub struct RestoreArgs {
    /// The backup, or the directory of a stopped server. It is not changed.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The new data directory: empty (but for lost+found), or not existing yet.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The last position, or the time (RFC 3339) of the last commit; without it, all.
    #[arg(long, value_name = "POSITION|TIME")]
    at: Option<At>,
    /// Where compactions have moved segments to. It is not changed.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The end of the restored log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Position(u64),
    Time(Timestamp),
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(position) = text.parse() {
            return Ok(Self::Position(position));
        }
        Timestamp::parse(text)
            .map(Self::Time)
            .ok_or_else(|| "neither a position nor a time such as 2026-11-20T09:30:00Z".to_owned())
    }
}

impl RestoreArgs {
    /// Restores the directory and verifies it.
    ///
    /// # Errors
    /// When the source is damaged or held, or does not reach that far, or the target cannot be
    /// written.
    pub fn run(self) -> Result<(), Failure> {
        self.restore()
            .map_err(|failure| failure.of_directory(&self.from))
    }

    fn restore(&self) -> Result<(), Failure> {
        // The source itself is refused as a directory that is not empty.
        if !is_within(&self.from, &self.data) {
            expect_apart("--data", &self.data, "the source", &self.from)?;
        }
        if let Some(archive) = &self.archive {
            expect_apart("--data", &self.data, "the archive", archive)?;
        }
        let source = existing(&self.from)?;
        let archive = self.archive.as_deref().map(existing).transpose()?;
        let past =
            Past::open(Arc::clone(&source), archive).map_err(|error| Failure::of_log(&error))?;
        if let Some(folder) = past.empty_archive() {
            print_to_stderr(format_args!(
                "carebook: the archive has no segments of this log: there are none in {folder}"
            ));
        }
        let (upto, by_time) = match self.at {
            None => (None, None),
            Some(At::Position(position)) => (Some(position), None),
            Some(At::Time(time)) => {
                let (position, by_time) = position_at(&past, source, time)?;
                (Some(position), Some(by_time))
            }
        };
        let target = empty_directory(&self.data)?;
        let bar = progress_bar(0, "restoring");
        let restored = past.restore(&target, upto, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let report = restored.map_err(|error| {
            left_unfinished(failed(&past, &error), &error, target.as_ref(), &self.data)
        })?;
        let done = format!("{} is restored and verified", self.data.display());
        let archive = self.archive.is_some();
        let from_archive =
            archive.then(|| past.from_archive(report.first_position, report.last_position));
        self.print(&report, from_archive, by_time.as_ref(), &done)
            .map_err(|failure| failure.after(done))
    }

    fn print(
        &self,
        report: &wal::Report,
        from_archive: Option<FromArchive>,
        by_time: Option<&ByTime>,
        done: &str,
    ) -> Result<(), Failure> {
        let left_out = report
            .bad_snapshots
            .iter()
            .map(|bad| json!({"file": bad.file, "offset": bad.offset, "what": bad.what}));
        for bad in &report.bad_snapshots {
            print_to_stderr(format_args!(
                "carebook: a snapshot of the source is damaged and was left out, no record is lost by \
                 it: {} at offset {}: {}",
                bad.file, bad.offset, bad.what
            ));
        }
        let now = SystemClock::default().now();
        if let Some(doubt) = by_time.and_then(|found| found.doubt(now)) {
            print_to_stderr(format_args!("carebook: {doubt}"));
        }
        let mut out = Output::new();
        if self.json {
            let made = json!({
                "logId": log_name(report),
                "firstPosition": report.first_position,
                "lastPosition": report.last_position,
                "byTime": by_time.map(|found| found.json(now)),
                "segments": report.segments,
                "bytes": report.bytes,
                "snapshots": snapshots_json(&report.snapshots),
                "leftOut": left_out.collect::<Vec<_>>(),
                "fromArchive": from_archive
                    .map(|from| json!({"segments": from.segments, "positions": from.positions})),
                "directory": self.data.display().to_string(),
            });
            out.line(format_args!("{made:#}"))?;
            return out.flush();
        }
        let own = [
            ("log".to_owned(), log_name(report)),
            ("segments".to_owned(), report.segments.to_string()),
            ("bytes".to_owned(), report.bytes.to_string()),
            ("last position".to_owned(), report.last_position.to_string()),
        ];
        let archived = from_archive.into_iter().flat_map(|from| {
            [
                ("segments from the archive", from.segments),
                ("positions from the archive", from.positions),
            ]
        });
        let archived = archived.map(|(name, count)| (name.to_owned(), count.to_string()));
        let times = by_time.into_iter().flat_map(ByTime::rows);
        let rows = own.into_iter().chain(times).chain(archived);
        out.pairs(rows.chain(snapshot_rows(&report.snapshots)))?;
        out.line(format_args!("{done}: {COMPARED}"))?;
        out.flush()
    }
}

/// Returns the last position up to which everything was committed at a time or before, and the times around it.
fn position_at(
    past: &Past,
    source: Arc<dyn Storage>,
    time: Timestamp,
) -> Result<(u64, ByTime), Failure> {
    let mut search = Search::until(time, past.earliest());
    let lacking = past.lacking();
    search.is_behind_a_gap = lacking.is_some_and(|lacking| past.whole_before(lacking).is_some());
    search.run(past, |past, search| past.records(search).map(drop))?;
    if search.lacks_earliest()
        && let Some(at) = time_of_snapshot(source, search.earliest)?
    {
        search.begin_with(at);
    }
    match (search.position(), lacking) {
        (Ok(position), _) => Ok((position, search.found)),
        (Err(why), None) => Err(Failure::other(why)),
        (Err(why), Some(lacking)) => position_before(past, lacking, time, &why),
    }
}

/// As [`position_at`], for a time before that of the earliest position behind a gap in the archive, as `why` says.
/// If a later commit comes before the gap, none of those that are `lacking` were committed by then.
fn position_before(
    past: &Past,
    lacking: &wal::Error,
    time: Timestamp,
    why: &str,
) -> Result<(u64, ByTime), Failure> {
    let mut search = Search::until(time, 1);
    search.run(past, |past, search| {
        past.records_before_gap(search).map(drop)
    })?;
    if search.passed {
        let position = search.position().map_err(Failure::other)?;
        return Ok((position, search.found));
    }
    Err(failed(past, lacking).with(format_args!(
        "The commits of {time} may be among those that are missing: {why}"
    )))
}

/// Returns the failure of a restore, with advice. Damage in the archive needs no recovery: the directory can be
/// restored without it.
fn failed(past: &Past, error: &wal::Error) -> Failure {
    let whole_to = past.whole_before(error);
    if !past.is_of_archive(error) {
        let damage = error.damage().filter(|_| past.is_of_source(error));
        return match (Failure::of_log(error), damage, whole_to) {
            (Failure::Damaged(_), Some(damage), Some(last)) => Failure::Damaged(format!(
                "the log is damaged: {damage}. It was not changed; --at {last} restores what is before"
            )),
            (Failure::Damaged(_), Some(damage), None) => {
                Failure::Damaged(format!("the log is damaged: {damage}. It was not changed"))
            }
            (Failure::Damaged(sentence), None, _) => Failure::DamagedWithAdvice(format!(
                "{sentence}. It is not the source's: check the disk of the new directory"
            )),
            (failure, ..) => failure,
        };
    }
    match whole_to {
        Some(last) => {
            Failure::of_archive(error, format_args!("--at {last} restores what is before"))
        }
        None => Failure::of_archive(
            error,
            "without --archive what the source itself has is restored",
        ),
    }
}

/// Finds the last position up to which everything was committed at a time or before.
struct Search {
    time: Timestamp,
    /// The earliest position that can be restored, and its time once it is found.
    earliest: u64,
    earliest_at: Option<Timestamp>,
    first: Option<(u64, Timestamp)>,
    last: u64,
    passed: bool,
    /// The times of the commits up to `last`, and of those after it.
    found: ByTime,
    /// Whether positions before `earliest` may be restored, too: those before a gap in an archive.
    is_behind_a_gap: bool,
    bar: indicatif::ProgressBar,
}

impl Search {
    fn until(time: Timestamp, earliest: u64) -> Self {
        Self {
            time,
            earliest,
            earliest_at: None,
            first: None,
            last: 0,
            passed: false,
            found: ByTime::default(),
            is_behind_a_gap: false,
            bar: progress_bar(0, "searching"),
        }
    }

    /// Searches in the records that `show` shows.
    fn run(
        &mut self,
        past: &Past,
        show: impl FnOnce(&Past, &mut Self) -> Result<(), wal::Error>,
    ) -> Result<(), Failure> {
        let searched = show(past, self);
        self.bar.finish_and_clear();
        match searched {
            // The damaged or missing part is later than the requested time.
            Err(wal::Error::Damaged { .. }) if self.passed => Ok(()),
            searched => searched.map_err(|error| failed(past, &error)),
        }
    }

    /// Whether the result depends on the earliest position, whose time only a snapshot has, because the records begin
    /// after it.
    fn lacks_earliest(&self) -> bool {
        self.last == 0
            && self
                .first
                .is_none_or(|(position, _)| position == self.earliest + 1)
    }

    /// Notes that everything up to the earliest position was committed at this time or before.
    fn begin_with(&mut self, at: Timestamp) {
        self.earliest_at = Some(at);
        if at <= self.time {
            self.last = self.earliest;
            self.found.note_kept(self.earliest, at);
        }
    }

    fn position(&self) -> Result<u64, String> {
        let bound = match self.is_behind_a_gap {
            true => "the earliest position behind it that can be restored is",
            false => "the earliest position that can be restored is",
        };
        let earliest = self.earliest;
        match (self.first, self.earliest_at) {
            _ if self.last >= earliest => Ok(self.last),
            (Some((1, at)), _) if self.last == 0 => Err(format!(
                "the first commit is of {at}, which is after {}",
                self.time
            )),
            (_, Some(at)) => Err(format!(
                "{bound} {earliest} of {at}, which is after {}",
                self.time
            )),
            (Some((first, at)), None) => Err(format!(
                "the first record of the log, position {first}, is of {at}, which is after {}, and the \
                 time before it is not known: name a position; {bound} {earliest}",
                self.time
            )),
            (None, None) => Err(format!(
                "the log has no records in which a time could be found: name a position; {bound} {earliest}"
            )),
        }
    }
}

impl Visitor for Search {
    fn record(&mut self, bytes: Bytes<'_>) -> Result<(), BoxError> {
        let is_behind = self.passed && bytes.position > self.earliest;
        if is_behind && self.found.has_ended() {
            return Ok(());
        }
        let record = match Record::decode(bytes.payload) {
            // It is later than the requested time.
            Err(_) if is_behind => {
                self.found.end();
                return Ok(());
            }
            record => record?,
        };
        if bytes.position == self.earliest {
            self.earliest_at = Some(record.at);
        }
        self.first.get_or_insert((bytes.position, record.at));
        if record.at <= self.time && !self.passed {
            self.last = bytes.position;
            self.found.note_kept(bytes.position, record.at);
        } else {
            self.passed = true;
            self.found.note_left_out(bytes.position, record.at);
        }
        Ok(())
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

/// Returns the time of the last commit in the oldest snapshot, if the snapshot ends exactly at `earliest`.
fn time_of_snapshot(source: Arc<dyn Storage>, earliest: u64) -> Result<Option<Timestamp>, Failure> {
    let reader = LiveReader::open(source, 1).map_err(|error| Failure::of_log(&error))?;
    let mut found = Oldest {
        summary: None,
        bar: progress_bar(0, "reading the snapshot"),
    };
    let shown = reader.show_snapshot(true, &mut found);
    found.bar.finish_and_clear();
    let shown = shown.map_err(|error| Failure::of_log(&error))?;
    let is_it = shown.is_some_and(|info| (info.covers, info.upto) == (earliest, earliest));
    let summary = found.summary.filter(|_| is_it);
    Ok(summary.and_then(|summary| summary.counters.last_at))
}

/// Reads the summary of a snapshot.
struct Oldest {
    summary: Option<Summary>,
    bar: indicatif::ProgressBar,
}

impl Visitor for Oldest {
    fn record(&mut self, _: Bytes<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        self.summary = None;
        Ok(())
    }

    fn kept(&mut self, _: Bytes<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        if self.summary.is_none() {
            self.summary = Some(Summary::decode(entry).map_err(refusal)?);
        }
        Ok(())
    }

    fn progress_of_snapshot(&mut self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_position_and_everything_else_a_time() {
        assert_eq!("17".parse(), Ok(At::Position(17)));
        let time = Timestamp::parse("2026-11-20T09:30:00Z").unwrap();
        assert_eq!("2026-11-20T09:30:00Z".parse(), Ok(At::Time(time)));
        assert!("yesterday".parse::<At>().is_err());
    }

    #[test]
    fn with_a_gap_the_earliest_position_named_is_the_one_behind_the_gap() {
        let time = Timestamp::parse("2026-11-20T09:30:00Z").unwrap();
        for (is_behind_a_gap, told) in [
            (false, "the earliest position that can be restored is 136"),
            (
                true,
                "the earliest position behind it that can be restored is 136",
            ),
        ] {
            let mut search = Search::until(time, 136);
            search.is_behind_a_gap = is_behind_a_gap;
            let why = search.position().unwrap_err();
            assert!(why.ends_with(told), "{why}");
        }
    }
}
