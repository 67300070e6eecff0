//! The errors of a log. Each is displayed as a sentence: what, where, and what to do.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::format;

/// An error of the caller's own code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a log could not be opened, read or appended to.
#[derive(Debug)]
pub enum Error {
    /// Another process (or another part of this one) has the log open.
    Held {
        /// The lock file.
        file: String,
        /// The text of the holder in the lock file: process id and start time.
        holder: String,
    },
    /// Bytes that were acknowledged, or that the log's structure needs, are
    /// missing or altered. Nothing has been changed.
    Damaged {
        /// The file the damage is in.
        file: String,
        /// Where in the file, in bytes.
        offset: u64,
        /// The first position that can no longer be read, where it is known.
        position: Option<u64>,
        /// What was found there.
        what: String,
    },
    /// The system refused an operation.
    Io {
        /// The attempted action.
        what: &'static str,
        /// The file.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The directory is no longer where it was opened, so the log has ended: the next start would not
    /// find what it went on to acknowledge.
    Moved {
        /// Where it was opened.
        directory: String,
        /// Description of what is at its path now.
        what: String,
    },
    /// Written by a newer release.
    Unsupported {
        /// The file.
        file: String,
        /// The format version it has.
        version: u32,
        /// The newest version that this release reads.
        newest: u32,
    },
    /// A backup or a restore did not finish, and what it left is no log.
    Unfinished {
        /// The directory.
        directory: String,
    },
    /// There is no log, and [`crate::Options::create`] forbids making one.
    NoLog {
        /// The directory.
        directory: String,
    },
    /// The visitor gave up.
    Visitor {
        /// At this record.
        position: u64,
        /// With this error.
        source: BoxError,
    },
    /// A record that was asked for is no longer kept. All before it were shown.
    Gone {
        /// Its position.
        position: u64,
        /// The first position that is still kept.
        first: u64,
    },
    /// The log has failed before, or has been shut down.
    Stopped {
        /// Why.
        reason: Arc<str>,
    },
}

/// An error of a [`Visitor`](crate::Visitor) that another snapshot would not avoid: what the visitor
/// was shown is undamaged, but in a form that it does not know. Any other error of a visitor at a
/// snapshot makes that snapshot a bad one.
#[derive(Debug)]
pub struct OtherForm(pub BoxError);

impl fmt::Display for OtherForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OtherForm {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Error {
    /// Describes damage as `FILE, offset O, position P: WHAT`; `None` for other errors.
    pub fn damage(&self) -> Option<String> {
        let Self::Damaged {
            file,
            offset,
            position,
            what,
        } = self
        else {
            return None;
        };
        let position = position.map_or_else(String::new, |at| format!(", position {at}"));
        Some(format!("{file}, offset {offset}{position}: {what}"))
    }

    /// Whether two errors tell of the same damage.
    pub(crate) fn is_same_damage(&self, other: &Self) -> bool {
        let place = |error: &Self| match error {
            Self::Damaged { file, offset, .. } => Some((file.clone(), *offset)),
            _ => None,
        };
        place(self).is_some_and(|known| place(other) == Some(known))
    }

    /// Whether a visitor has refused the form of what it was shown.
    pub(crate) fn is_of_other_form(&self) -> bool {
        matches!(self, Self::Visitor { source, .. } if source.is::<OtherForm>())
    }

    pub(crate) fn io(
        what: &'static str,
        file: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::Io { what, file, source }
    }

    /// Returns the same error, but never as a shortage ([`Error::is_shortage`]).
    pub(crate) fn into_final(self) -> Self {
        match self {
            Self::Io { what, file, source } => Self::Io {
                what,
                file,
                source: io::Error::other(source),
            },
            other => other,
        }
    }

    /// Whether something is missing that may come back while the process runs: space on the disk,
    /// descriptors, memory. Everything else says that the disk or the directory is not what it was.
    pub(crate) fn is_shortage(&self) -> bool {
        use io::ErrorKind as Kind;
        let Self::Io { source, .. } = self else {
            return false;
        };
        let descriptors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        let kinds = [
            Kind::StorageFull,
            Kind::QuotaExceeded,
            // The process's own limit of file sizes.
            Kind::FileTooLarge,
            Kind::OutOfMemory,
        ];
        kinds.contains(&source.kind())
            || source
                .raw_os_error()
                .is_some_and(|code| descriptors.contains(&code))
    }
}

/// Why a change of the manifest (a snapshot installed, segments removed) failed.
pub(crate) enum MaintenanceError {
    /// Nothing has changed: the log goes on, and it can be tried again.
    Passing(Error),
    /// It is unknown which manifest is in force: the log must not go on.
    Final(Error),
}

impl MaintenanceError {
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Passing(_))
    }

    pub(crate) fn into_inner(self) -> Error {
        match self {
            Self::Passing(error) => error,
            Self::Final(error) => error.into_final(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { file, holder } => {
                let holder = if holder.is_empty() {
                    "another process"
                } else {
                    holder
                };
                write!(
                    f,
                    "the log is in use by {holder} (lock {file}); stop that process first"
                )
            }
            Self::Moved { directory, what } => write!(
                f,
                "the log's directory is no longer at {directory}: {what}; put it back before the next \
                 start, which would begin another log there"
            ),
            Self::Damaged { .. } => write!(
                f,
                "the log is damaged: {}. Nothing was changed. Check the disk, then restore a backup of \
                 this directory; giving up the records from here on is a decision of its own",
                self.damage().unwrap_or_default()
            ),
            Self::Io { what, file, source } => write!(f, "could not {what} {file}: {source}"),
            Self::Unsupported {
                file,
                version,
                newest,
            } => write!(
                f,
                "{file} has format version {version}, this release reads up to {newest}; use a \
                 newer release"
            ),
            Self::Unfinished { directory } => write!(
                f,
                "{directory} holds the remains of an unfinished backup or restore, and no log: the file {} \
                 is there; remove the directory, and make it again",
                format::COPY_TEMP
            ),
            Self::NoLog { directory } => write!(
                f,
                "there is no log in {directory}; check that the right disk is mounted"
            ),
            Self::Visitor { position, source } => {
                write!(f, "the record at position {position} was refused: {source}")
            }
            Self::Gone { position, first } => write!(
                f,
                "the record at position {position} is no longer kept: the log begins at position \
                 {first}"
            ),
            Self::Stopped { reason } => write!(f, "the log takes no more records: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Visitor { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
