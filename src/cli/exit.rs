//! Failures of commands, and their exit codes, which only this file knows.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use super::copy_mark::{WHEN_A_COPY, stream_of};
use super::printable::as_argument;
use super::stderr::print_to_stderr;
use crate::base::codec::DecodeError;
use crate::journal::replay_error::ReplayError;
use crate::stream::error::StreamError;

const WHEN_HELD: &str = "a running server can be asked by inspect and backup, and with --url by facts load and \
    outbox";
const WHEN_DAMAGED: &str = "`carebook recover --data DIR` says what can be saved, and at what cost";
const WHEN_A_SNAPSHOT: &str = "a start reads an older one, or the records, where these are whole, and sets the \
    damaged one aside; where it refuses, `carebook recover --data DIR` says what can be saved";
const WHEN_BUSY: &str = "or verify a copy, which `carebook backup` makes of a running server";
const WHEN_OTHER_VERSION: &str = "use the carebook that wrote it, or a newer one; to go back to an older \
    one, restore a backup that it made";

/// Exit code of a failure without a code of its own.
pub(super) const FAILED: u8 = 1;
/// Exit code of wrong arguments.
const BAD_ARGUMENTS: u8 = 2;
/// Exit code of a damaged log, and of a log that was moved: a supervisor that restarts the process would create another
/// log in its place.
pub(super) const DAMAGED: u8 = 3;
/// Exit code of a log that a running server holds.
const BUSY: u8 = 4;
/// Exit code of a log of another version, and of a journal that another process has taken over.
pub(super) const OF_ANOTHER: u8 = 5;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// A failure without a code of its own: 1.
    Other(String),
    /// The arguments are wrong, or contradict each other: 2.
    Arguments(String),
    /// The data directory is held by another process: 1.
    Held(String),
    /// The log is damaged: 3.
    Damaged(String),
    /// The log is damaged, and the sentence already has advice: 3.
    DamagedWithAdvice(String),
    /// The directory holds an unfinished backup or restore, and no log: 3.
    Unfinished(String),
    /// The journal is damaged, or does not belong to the directory: 3.
    JournalDamaged(String),
    /// The reader of the output has gone away: 0.
    NobodyReads,
    /// The log cannot be checked beside the server that holds it: 4.
    Busy(String),
    /// The log is of another version of carebook: 5.
    OtherVersion(String),
    /// Another process has taken the journal over: 5.
    TakenOver(String),
}

impl Failure {
    /// Creates a failure without a code of its own.
    #[must_use]
    pub fn other(what: impl fmt::Display) -> Self {
        Self::Other(what.to_string())
    }

    /// Converts an error without a code of its own.
    #[must_use]
    pub fn from_error(error: impl std::error::Error) -> Self {
        Self::Other(error.to_string())
    }

    /// Returns the failure of an output. A reader that goes away, such as `head`, is not a failure.
    #[must_use]
    pub fn of_output(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Other(format!("the output cannot be written: {error}")),
        }
    }

    /// Adds to a failure of the output what was done before it.
    #[must_use]
    pub fn after(self, done: impl fmt::Display) -> Self {
        match self {
            Self::Other(sentence) => Self::Other(format!("{done}; but {sentence}")),
            other => other,
        }
    }

    /// Adds a sentence with advice.
    #[must_use]
    pub fn with(self, more: impl fmt::Display) -> Self {
        match self {
            Self::Other(sentence) => Self::Other(format!("{sentence}. {more}")),
            Self::Damaged(sentence) => Self::Damaged(format!("{sentence}. {more}")),
            Self::DamagedWithAdvice(sentence) => {
                Self::DamagedWithAdvice(format!("{sentence}. {more}"))
            }
            other => other,
        }
    }

    /// Keeps [`Failure::of_directory`] from adding the advice to run `carebook recover`, for that command itself.
    #[must_use]
    pub fn of_recover(self) -> Self {
        match self {
            Self::Damaged(sentence) => Self::DamagedWithAdvice(sentence),
            other => other,
        }
    }

    /// Adds the command to run next for the log in this directory.
    #[must_use]
    pub fn of_directory(self, data: &Path) -> Self {
        match self {
            Self::Damaged(sentence) => {
                let next = WHEN_DAMAGED.replace("DIR", &as_argument(data));
                Self::DamagedWithAdvice(format!("{sentence}; {next}"))
            }
            other => other,
        }
    }

    /// Returns the failure for an error of a log.
    #[must_use]
    pub fn of_log(error: &wal::Error) -> Self {
        match error {
            wal::Error::Held { .. } => Self::Held(error.to_string()),
            wal::Error::Visitor { source, .. } if source.is::<StreamError>() => {
                match source.downcast_ref() {
                    Some(error) => Self::of_journal(error),
                    None => Self::Other(error.to_string()),
                }
            }
            // A failed write of a copy is no fault of the log that is read.
            wal::Error::Visitor { source, .. } if source.is::<wal::Error>() => {
                match source.downcast_ref() {
                    Some(error) => Self::of_log(error),
                    None => Self::Other(error.to_string()),
                }
            }
            wal::Error::Visitor { source, .. } if source.is::<wal::OtherForm>() => {
                Self::OtherVersion(format!("the log was rejected: {source}"))
            }
            // The replay knows the position better, since it lags behind reading.
            wal::Error::Visitor { source, .. } if source.is::<ReplayError>() => {
                Self::Damaged(format!("the log was rejected: {source}"))
            }
            wal::Error::Visitor { source, .. } if is_of_other_version(source) => {
                Self::OtherVersion(error.to_string())
            }
            wal::Error::Unfinished { .. } => Self::Unfinished(error.to_string()),
            wal::Error::Unsupported { .. } => Self::OtherVersion(error.to_string()),
            wal::Error::Damaged { file, .. } => Self::of_damage(error, Path::new(file)),
            wal::Error::Visitor { .. } => Self::Damaged(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }

    /// Returns the failure for damage in a file of a log. If the directory is the copy of a journal, no backup is
    /// needed.
    fn of_damage(error: &wal::Error, file: &Path) -> Self {
        let place = error.damage().unwrap_or_default();
        match file.parent().map(stream_of) {
            Some(Ok(Some(stream))) => Self::DamagedWithAdvice(format!(
                "the log is damaged: {place}. Nothing was changed. Check the disk; it is the copy of the \
                 journal {stream}: {WHEN_A_COPY}"
            )),
            _ => Self::Damaged(error.to_string()),
        }
    }

    /// Returns the failure for an error of reading a whole directory, including snapshots that a start does not need. A
    /// start may accept a snapshot with sound bytes that was rejected here as a whole.
    #[must_use]
    pub fn of_whole_log(error: &wal::Error) -> Self {
        let is_copy =
            |file: &str| matches!(Path::new(file).parent().map(stream_of), Some(Ok(Some(_))));
        match error {
            wal::Error::Damaged {
                file,
                offset: 1..,
                what,
                ..
            } if is_snapshot(file) && !is_copy(file) && !what.contains(wal::NO_OTHER_SNAPSHOT) => {
                Self::DamagedWithAdvice(format!(
                    "a snapshot is damaged: {}. Nothing was changed. Check the disk; {WHEN_A_SNAPSHOT}",
                    error.damage().unwrap_or_default()
                ))
            }
            other => Self::of_log(other),
        }
    }

    /// Returns the failure for an error of reading a log with its archive. Damage in a file of the archive needs other
    /// advice than damage in the data directory.
    #[must_use]
    pub fn of_archive(error: &wal::Error, next: impl fmt::Display) -> Self {
        match error.damage() {
            Some(damage) => Self::DamagedWithAdvice(format!(
                "the archive is damaged: {damage}. It was not changed; {next}"
            )),
            None => Self::of_log(error),
        }
    }

    /// Returns the failure for an error of a journal that several machines share.
    #[must_use]
    pub fn of_journal(error: &StreamError) -> Self {
        match error {
            error if error.is_fenced() => Self::TakenOver(error.to_string()),
            error if error.is_damage() => Self::JournalDamaged(error.to_string()),
            error => Self::Other(error.to_string()),
        }
    }

    /// Prints the reason on standard error; returns the exit code.
    #[must_use]
    pub fn report(self) -> ExitCode {
        let (code, sentence, next) = match self {
            Self::Other(sentence) => (FAILED, sentence, None),
            Self::Held(sentence) => (FAILED, sentence, Some(WHEN_HELD)),
            Self::Arguments(sentence) => (BAD_ARGUMENTS, sentence, None),
            Self::Damaged(sentence) => (DAMAGED, sentence, Some(WHEN_DAMAGED)),
            Self::JournalDamaged(sentence)
            | Self::Unfinished(sentence)
            | Self::DamagedWithAdvice(sentence) => (DAMAGED, sentence, None),
            Self::TakenOver(sentence) => (OF_ANOTHER, sentence, None),
            Self::Busy(sentence) => (BUSY, sentence, Some(WHEN_BUSY)),
            Self::OtherVersion(sentence) => (OF_ANOTHER, sentence, Some(WHEN_OTHER_VERSION)),
            Self::NobodyReads => return ExitCode::SUCCESS,
        };
        match next {
            Some(next) => print_to_stderr(format_args!("carebook: {sentence}; {next}")),
            None => print_to_stderr(format_args!("carebook: {sentence}")),
        }
        ExitCode::from(code)
    }
}

/// Whether a record was rejected only because of its version.
fn is_of_other_version(source: &wal::BoxError) -> bool {
    matches!(source.downcast_ref(), Some(DecodeError::OtherVersion(_)))
}

/// Whether a file has the name of a snapshot.
fn is_snapshot(file: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|ending| ending == "snap")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_write_error_of_a_copy_is_not_reported_as_damage_of_its_source() {
        let full = || wal::Error::Io {
            what: "write",
            file: "copy/segment".to_owned(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        let met_at = |source: wal::BoxError| wal::Error::Visitor {
            position: 7,
            source,
        };
        let failure = Failure::of_log(&met_at(Box::new(full())));
        assert!(matches!(failure, Failure::Other(why) if why == full().to_string()));
        let failure = Failure::of_log(&met_at("no such kind".into()));
        assert!(matches!(failure, Failure::Damaged(_)));
    }

    #[test]
    fn the_advice_for_a_damaged_snapshot_depends_on_what_can_replace_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("snapshot-00000001.snap");
        let failure = |what: &str| {
            let failure = Failure::of_whole_log(&wal::Error::Damaged {
                file: file.display().to_string(),
                offset: 8,
                position: None,
                what: what.to_owned(),
            });
            match failure {
                Failure::DamagedWithAdvice(told) | Failure::Damaged(told) => told,
                other => panic!("{other:?}"),
            }
        };
        assert!(failure("the checksum differs").contains(WHEN_A_SNAPSHOT));
        let lost = format!("the checksum differs; {}", wal::NO_OTHER_SNAPSHOT);
        assert!(!failure(&lost).contains(WHEN_A_SNAPSHOT));
        std::fs::write(directory.path().join("journal"), "CAREBOOK_main\n").unwrap();
        assert!(failure("the checksum differs").contains(WHEN_A_COPY));
    }
}
