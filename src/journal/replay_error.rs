//! Why a log cannot be replayed.

/// Why a record cannot follow on those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    position: Option<u64>,
    what: String,
}

impl ReplayError {
    pub(super) fn at(position: u64, what: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            what: what.into(),
        }
    }

    pub(super) fn of_snapshot(what: impl Into<String>) -> Self {
        Self {
            position: None,
            what: what.into(),
        }
    }

    pub(super) fn panicked() -> Self {
        Self::of_snapshot("a thread that replays has panicked")
    }

    /// Whether this one comes first in the log.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.position < other.position
    }
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.position {
            Some(position) => write!(f, "position {position}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ReplayError {}
