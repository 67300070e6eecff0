//! Why a log cannot be replayed.

use std::fmt;

use crate::base::codec::DecodeError;

/// Why a record cannot be replayed after those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    position: Option<u64>,
    what: String,
    /// Whether it was written in a form that this program does not know.
    is_of_other_version: bool,
}

impl ReplayError {
    /// What is said of a record that a snapshot keeps begins with this.
    pub(super) const KEPT: &str = "kept by a snapshot: ";

    /// What is wrong with the record at this position that a snapshot keeps.
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

    /// For bytes that cannot be decoded: those of the record at this position, or of a snapshot;
    /// `of` says which.
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

    /// Whether this one comes first, where a snapshot keeps records up to a position: they come before
    /// what is said of the snapshot.
    pub(super) fn is_before_with(&self, other: &Self, kept: u64) -> bool {
        self.position.unwrap_or(kept) < other.position.unwrap_or(kept)
    }

    /// Of two, the one that comes first in the log.
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
