//! Opening a data directory: recovery with a progress bar, and the engine on top.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wal::{BoxError, Identity, Log, Options, Record, Report, SnapshotInfo, Visitor};

use super::exit::Failure;
use super::foreign_files::expect_no_foreign_files;
use crate::base::codec::DecodeError;
use crate::engine::clock::SystemClock;
use crate::engine::{Engine, Limits, OnFatal};
use crate::journal::lineage::{Ancestor, Lineage};
use crate::journal::replay::{Recovered, Replay};
use crate::journal::replay_error::ReplayError;
use crate::stream::visitor::StreamVisitor;

/// Passes snapshots and records to a replay, and shows the progress.
pub struct Replaying {
    replay: Option<Replay>,
    recovered: Recovered,
    what: &'static str,
    bar: ProgressBar,
}

impl Replaying {
    /// Creates a replay; a terminal shows `what` as its description.
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        Self {
            replay: Some(Replay::new()),
            recovered: Recovered::default(),
            what,
            bar: progress_bar(0, what),
        }
    }

    /// Creates a replay that verifies everything that it can compare.
    #[must_use]
    pub fn verifying() -> Self {
        let mut replaying = Self::new("verifying");
        replaying.replay().compare_notes();
        replaying
    }

    /// Returns the state recovered from a log that was read to its end, and removes the bar.
    #[must_use]
    pub fn finish(self) -> Recovered {
        self.bar.finish_and_clear();
        self.recovered
    }

    fn replay(&mut self) -> &mut Replay {
        self.replay.get_or_insert_default()
    }

    /// Shows the progress of this step.
    fn show(&self, step: &'static str, done: u64, total: u64) {
        self.bar.set_length(total);
        if self.bar.message() != step {
            // The remaining time was that of the step before.
            self.bar.reset();
            self.bar.set_message(step);
        }
        self.bar.set_position(done);
    }
}

/// Converts an error of the replay into one of the log, which says whether another snapshot may help.
fn refused(error: ReplayError) -> BoxError {
    match error.is_of_other_version() {
        true => wal::OtherForm(error.into()).into(),
        false => error.into(),
    }
}

/// Converts an error of a snapshot's entry in the same way.
#[must_use]
pub fn refusal(error: DecodeError) -> BoxError {
    match error {
        DecodeError::OtherVersion(_) => wal::OtherForm(error.into()).into(),
        error => error.into(),
    }
}

/// Converts the identity of a log, with the logs that it continues.
#[must_use]
pub fn lineage(identity: &Identity) -> Lineage {
    let ancestors = identity.ancestors.iter().map(|ancestor| Ancestor {
        log_id: ancestor.log_id,
        upto: ancestor.upto,
    });
    Lineage {
        log_id: identity.log_id,
        ancestors: ancestors.collect(),
    }
}

impl Visitor for Replaying {
    fn identity(&mut self, identity: &Identity) {
        self.replay().lineage(lineage(identity));
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        let replay = self.replay();
        replay
            .record(record.position, record.payload)
            .map_err(refused)
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        self.replay().snapshot(info.covers, info.upto);
        Ok(())
    }

    fn takes_notes(&self) -> bool {
        self.replay.as_ref().is_some_and(Replay::takes_notes)
    }

    fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
        self.replay().noted(position, note).map_err(refused)
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        let replay = self.replay();
        replay
            .kept(record.position, record.payload)
            .map_err(refused)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.replay().entry(entry).map_err(refused)
    }

    fn snapshot_shown(&mut self) -> Result<(), BoxError> {
        self.replay().snapshot_shown().map_err(refused)
    }

    fn reset(&mut self) {
        self.replay().reset();
    }

    fn end(&mut self) -> Result<(), BoxError> {
        if let Some(replay) = self.replay.take() {
            self.recovered = replay.finish().map_err(refused)?;
        }
        Ok(())
    }

    fn progress_of_snapshot(&mut self, done: u64, total: u64) {
        self.show("reading the snapshot", done, total);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.show(self.what, done, total);
    }
}

impl StreamVisitor for Replaying {
    fn filling_up(&mut self, done: u64, total: u64) {
        self.show("filling up from the journal", done, total);
    }
}

/// Creates a bar for `total` bytes on standard error, drawn only on a terminal; if `total` is 0, once its length is
/// set.
#[must_use]
pub fn progress_bar(total: u64, what: &'static str) -> ProgressBar {
    let bar = bar(what, BYTES);
    if total > 0 {
        bar.set_length(total);
    }
    bar
}

/// Creates a counter of bytes without a known total, on standard error, drawn only on a terminal.
#[must_use]
pub fn endless_bar(what: &'static str) -> ProgressBar {
    let bar = bar(what, "{msg} {bytes} {bytes_per_sec}");
    bar.tick();
    bar
}

/// Creates a timer for work of unknown length, on standard error, drawn only on a terminal.
#[must_use]
pub fn waiting_bar(what: &'static str) -> ProgressBar {
    let bar = bar(what, "{msg} {elapsed}");
    bar.tick();
    bar.enable_steady_tick(std::time::Duration::from_secs(1));
    bar
}

/// Creates a bar for a number of items on standard error, drawn only on a terminal, once its length is set.
#[must_use]
pub fn count_bar(what: &'static str) -> ProgressBar {
    bar(what, ITEMS)
}

/// Template of a progress line in bytes; the bar fills the rest of the terminal.
const BYTES: &str = "{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
/// Template of a progress line in items. The rate has no decimals.
const ITEMS: &str = "{msg} [{wide_bar}] {human_pos}/{human_len} {per_sec:0}, {eta} left";

fn bar(what: &'static str, template: &str) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    bar_at(target, what, template)
}

/// Creates a bar of unknown length that is not drawn yet.
fn bar_at(target: ProgressDrawTarget, what: &'static str, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target).with_message(what);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// How a data directory is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Lanes of the engine.
    pub lanes: usize,
    /// Bounds of the engine.
    pub limits: Limits,
    /// Free space below which commands are rejected.
    pub reserve_bytes: u64,
    /// Whether a new log is created in a directory without foreign files.
    pub create: bool,
}

/// Opens the directory, recovers what is in it, and starts the engine.
///
/// # Errors
/// When the directory is held, damaged, or cannot be used.
pub fn open(data: &Path, opening: Opening, on_fatal: OnFatal) -> Result<(Engine, Report), Failure> {
    let storage = if opening.create {
        wal::open_dir(data)
    } else {
        existing(data)
    };
    let storage = storage.map_err(|error| unusable(data, &error))?;
    if opening.create {
        expect_no_foreign_files(data)?;
    }
    let options = Options {
        reserve_bytes: opening.reserve_bytes,
        create: opening.create,
        ..Options::default()
    };
    let mut replaying = Replaying::new("recovering");
    let (log, report) =
        Log::open(storage, options, &mut replaying).map_err(|error| Failure::of_log(&error))?;
    let engine = Engine::start(
        log,
        replaying.finish(),
        opening.lanes,
        opening.limits,
        Arc::new(SystemClock::default()),
        on_fatal,
    );
    let engine = engine.map_err(|error| Failure::of_log(&error))?;
    Ok((engine, report))
}

/// Returns the failure for a data directory that cannot be used: why, and what to do.
pub(super) fn unusable(data: &Path, error: &std::io::Error) -> Failure {
    let (data, next) = (data.display(), next_step(error));
    Failure::other(format!("{data} cannot be used: {error}{next}"))
}

/// Returns what to do about an error at a data directory, to be appended to the sentence that reports it.
pub(super) fn next_step(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => {
            "; name the directory that `carebook serve --data` was given, or that of a backup"
        }
        // An error without a number is not the system's, and its text says what to do.
        ErrorKind::PermissionDenied if error.raw_os_error().is_some() => {
            "; run the command as the service's user"
        }
        _ => "",
    }
}

/// Returns the storage of an existing directory; nothing is written.
///
/// # Errors
/// When there is no such directory.
pub fn existing(data: &Path) -> std::io::Result<Arc<dyn wal::storage::Storage>> {
    Ok(Arc::new(wal::storage::FileStorage::existing(data)?))
}

/// Returns the log's id as it is displayed: 32 hexadecimal digits.
#[must_use]
pub fn log_name(report: &Report) -> String {
    crate::base::hex::hex(&report.log_id)
}

/// Logs the result of the recovery, with any damage and any torn tail.
pub fn log_recovery(data: &Path, report: &Report) {
    tracing::info!(
        log = log_name(report),
        records = report.records,
        start = report.epoch,
        data = %data.display(),
        "recovered"
    );
    for torn in &report.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            kept_in = torn.kept_in,
            "a crash left unacknowledged bytes, which were moved to the quarantine"
        );
    }
    for bad in &report.bad_snapshots {
        tracing::warn!(
            file = bad.file,
            offset = bad.offset,
            what = bad.what,
            "a snapshot is damaged; an older one or the log was read instead"
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io;

    use indicatif::TermLike;
    use parking_lot::Mutex;

    use super::*;
    use crate::base::codec::{self, Blob};
    use crate::base::revision::Revision;
    use crate::domain::reference::kinds::actor::{ActorFact, ActorLifecycle};
    use crate::domain::reference::{Fact, FactKind as _};
    use crate::journal::counters::Counters;
    use crate::journal::snapshot::{StateEntry, Summary};

    #[test]
    fn the_service_user_is_suggested_only_where_the_system_denies_access() {
        let told = |error: std::io::Error| match unusable(Path::new("data"), &error) {
            Failure::Other(told) => told,
            _ => panic!("another failure"),
        };
        let denied = told(rustix::io::Errno::ACCESS.into());
        assert!(
            denied.ends_with("; run the command as the service's user"),
            "{denied}"
        );
        let own = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "take it from them");
        assert_eq!(told(own), "data cannot be used: take it from them");
    }

    /// A terminal of 80 columns: the lines that it was given.
    #[derive(Clone, Debug, Default)]
    struct Narrow(Arc<Mutex<Vec<String>>>);

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            if !text.trim().is_empty() {
                self.0.lock().push(text.to_owned());
            }
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_is_one_80_column_line_with_a_whole_rate_once_length_is_known() {
        for (what, template, total) in [
            ("moving segments to the archive", BYTES, 1 << 40),
            ("verifying the journal", ITEMS, 3_000),
        ] {
            let terminal = Narrow::default();
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            let bar = bar_at(target, what, template);
            assert!(terminal.0.lock().is_empty());
            bar.set_length(total);
            bar.set_position(total / 3);
            bar.tick();
            let shown = terminal.0.lock();
            assert!(shown.len() > 1, "{shown:?}");
            assert!(!shown[0].contains("[="), "{shown:?}");
            for line in shown.iter() {
                assert!(line.contains("/s, ") && line.ends_with(" left"), "{line}");
                assert!(line.chars().count() <= 80, "{line}");
                assert!(template == BYTES || !line.contains('.'), "{line}");
            }
        }
    }

    #[test]
    fn a_snapshot_with_a_duplicate_resource_is_refused_as_soon_as_it_is_read() {
        let fact = Fact {
            id: "hq-1".into(),
            revision: Revision::FIRST,
            facts: ActorFact {
                lifecycle: ActorLifecycle::Active,
            },
        };
        let state = codec::encode(&fact);
        let entry = codec::encode(&StateEntry {
            kind: ActorFact::KIND.tag,
            version: 1,
            key: ActorFact::KIND.key(&["hq-1"]),
            position: 1,
            listed_at: None,
            state: Blob(&state),
        });
        let summary = Summary {
            forgotten: 0,
            counters: Counters::default(),
        };
        let shown = |times| {
            let mut replaying = Replaying::new("reading");
            let info = SnapshotInfo {
                number: 1,
                covers: 1,
                upto: 1,
                bytes: 0,
            };
            replaying.snapshot(&info).unwrap();
            replaying.entry(&summary.encode()).unwrap();
            for _ in 0..times {
                replaying.entry(&entry).unwrap();
            }
            replaying
                .snapshot_shown()
                .map_err(|error| error.to_string())
        };
        assert_eq!(shown(1), Ok(()));
        let told = "position 1: actor: a snapshot has a resource twice";
        assert_eq!(shown(2), Err(told.to_owned()));
    }
}
