//! Reasons for which a follower of the journal stops, and its intervals and timeouts.

use std::time::Duration;

use super::super::ending::end;
use crate::engine::standby::NotApplied;
use crate::stream::error::StreamError;

/// How long to wait for the next message before other checks.
pub(super) const MESSAGE_WAIT: Duration = Duration::from_millis(100);
/// How often the journal's end is read.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a takeover may take before another node should try.
pub(super) const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a node stops following.
pub(super) enum Stop {
    /// The service ends.
    Ended,
    Journal(StreamError),
    Engine(NotApplied),
}

impl Stop {
    /// Returns the reason for a takeover that was not completed in time.
    pub(super) fn too_late() -> Self {
        Self::Journal(StreamError::Unreachable {
            what: "the end of the journal is not reached in time".to_owned(),
        })
    }

    /// Ends the process, with the exit code of this reason.
    pub(super) fn end(&self) {
        match self {
            Self::Ended => {}
            Self::Journal(error) if error.is_fenced() => end(&error.to_string(), 5),
            Self::Journal(error) if error.is_damage() => end(&error.to_string(), 3),
            Self::Journal(error) => end(&error.to_string(), 1),
            Self::Engine(NotApplied::Unfit(error)) if error.is_of_other_version() => {
                end(&error.to_string(), 5);
            }
            Self::Engine(error) => end(&format!("the journal cannot be followed: {error}"), 3),
        }
    }
}

impl From<StreamError> for Stop {
    fn from(error: StreamError) -> Self {
        Self::Journal(error)
    }
}

impl From<NotApplied> for Stop {
    fn from(error: NotApplied) -> Self {
        match error {
            NotApplied::Ended => Self::Ended,
            error => Self::Engine(error),
        }
    }
}
