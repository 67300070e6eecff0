//! How far a standby is behind its writer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// How long a standby may be unable to confirm that it has all commits before it reports that it is behind.
const BEHIND_FROM: Duration = Duration::from_secs(30);

/// A standby's knowledge of its writer's progress.
#[derive(Default)]
pub(crate) struct Standby {
    /// Held while records are applied.
    pub(in crate::engine) applying: Mutex<()>,
    pub(in crate::engine) heard: Mutex<Heard>,
    /// The address at which clients reach the writer.
    pub(in crate::engine) writer: Mutex<Option<Arc<str>>>,
}

/// The writer's progress as last heard. Times are by the engine's steady clock.
#[derive(Clone, Copy, Default)]
pub(in crate::engine) struct Heard {
    /// The last committed position, as heard, and when it was heard.
    pub(in crate::engine) last: u64,
    pub(in crate::engine) at: Option<Duration>,
    /// When the standby was last known to have all commits.
    pub(in crate::engine) complete: Option<Duration>,
}

/// How far a standby is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Number of positions known to be committed, and not applied.
    pub positions: u64,
    /// Time since the standby was last known to have all commits, or since the start if it never was.
    pub time: Duration,
    /// Whether the standby was ever known to have all commits.
    pub was_complete: bool,
}

impl Lag {
    /// Whether readers should use another instance.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.was_complete || self.time >= BEHIND_FROM
    }
}
