//! Errors of replay.

use std::fmt;

use crate::base::codec::DecodeError;

/// Reason why a record cannot be replayed after its predecessors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    position: Option<u64>,
    what: String,
    /// Whether the record has a format that this program does not know.
    is_of_other_version: bool,
}

impl ReplayError {
    /// Prefix of errors about a record that a snapshot keeps.
    pub(super) const KEPT: &str = "kept by a snapshot: ";

    /// An error in the record at this position that a snapshot keeps.
    pub(super) fn of_kept(position: u64, what: impl fmt::Display) -> Self {
        Self::at(position, format!("{}{what}", Self::KEPT))
    }

    pub(super) fn at(position: u64, what: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            what: what.into(),
            is_of_other_version: false,
        }
    }

    /// An error in bytes that cannot be decoded: those of the record at this position, or of a snapshot; `of` is the
    /// prefix that says which.
    pub(super) fn unread(position: Option<u64>, of: &str, error: &DecodeError) -> Self {
        Self {
            position,
            what: format!("{of}{error}"),
            is_of_other_version: matches!(error, DecodeError::OtherVersion(_)),
        }
    }

    /// Whether the log is sound, but was written by another version of this program.
    #[must_use]
    pub fn is_of_other_version(&self) -> bool {
        self.is_of_other_version
    }

    pub(super) fn of_snapshot(what: impl Into<String>) -> Self {
        Self {
            position: None,
            what: what.into(),
            is_of_other_version: false,
        }
    }

    pub(super) fn panicked() -> Self {
        Self::of_snapshot("a thread that replays has panicked")
    }

    /// Whether this error comes before the other one, where the snapshot keeps records up to `kept`: errors in those
    /// come before errors in the snapshot itself.
    pub(super) fn is_before_with(&self, other: &Self, kept: u64) -> bool {
        self.position.unwrap_or(kept) < other.position.unwrap_or(kept)
    }

    /// Returns the one of two errors that comes first in the log.
    pub(super) fn first(self, other: Self) -> Self {
        match other.position < self.position {
            true => other,
            false => self,
        }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "position {position}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ReplayError {}
