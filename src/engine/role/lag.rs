//! How far a standby is behind its writer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// How long what was committed may be unknown here before the service says that it is behind.
const BEHIND_FROM: Duration = Duration::from_secs(30);

/// What a standby has heard of how far its writer is.
#[derive(Default)]
pub(crate) struct Standby {
    /// Held while records are applied.
    pub(in crate::engine) applying: Mutex<()>,
    pub(in crate::engine) heard: Mutex<Heard>,
    /// The address at which clients reach the writer.
    pub(in crate::engine) writer: Mutex<Option<Arc<str>>>,
}

/// Times are those of the engine's steady clock.
#[derive(Clone, Copy, Default)]
pub(in crate::engine) struct Heard {
    /// The last position that was committed, and when that was heard.
    pub(in crate::engine) last: u64,
    pub(in crate::engine) at: Option<Duration>,
    /// When it was last known that nothing was missing here.
    pub(in crate::engine) complete: Option<Duration>,
}

/// How far a standby is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Positions that are committed, as far as was heard, and not applied.
    pub positions: u64,
    /// The time since it was last known that none was missing; since the start when it never was.
    pub time: Duration,
    /// Whether it was ever known.
    pub was_complete: bool,
}

impl Lag {
    /// Whether readers had better ask elsewhere.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.was_complete || self.time >= BEHIND_FROM
    }
}
