//! Whether the engine makes progress, for a supervisor that restarts a service that hangs.

use std::fmt;
use std::sync::Arc;

use super::Engine;
use super::core::Shared;

/// Checks now and then whether the engine makes progress: whether each lane's tasks get their turns, and whether
/// appended records become durable.
pub struct Pulse {
    shared: Arc<Shared>,
    /// State of the log at the previous check.
    before: Option<Reached>,
}

#[derive(Clone, Copy)]
struct Reached {
    appended: u64,
    durable: u64,
}

/// The part of the engine that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// No task of this lane has had a turn since the previous check.
    Lane(usize),
    /// Nothing has become durable since the previous check, though this position waits.
    Log(u64),
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(lane) => write!(f, "lane {lane} does not answer"),
            Self::Log(position) => write!(
                f,
                "the log does not become durable, position {position} waits"
            ),
        }
    }
}

impl Engine {
    /// Creates a check of the engine's progress.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse {
            shared: Arc::clone(&self.shared),
            before: None,
        }
    }
}

impl Pulse {
    /// Returns what has made no progress since the previous check; the first check finds nothing. A log that waits
    /// for disk space is not stuck: it continues by itself.
    pub fn look(&mut self) -> Option<Stuck> {
        let Shared { lanes, journal, .. } = &*self.shared;
        let now = Reached {
            appended: journal.appended(),
            durable: journal.durable(),
        };
        let before = self.before.replace(now);
        let silent = lanes.silent().map(Stuck::Lane);
        lanes.ask();
        let before = before?;
        let waits = now.durable < before.appended && now.durable == before.durable;
        let stuck = (waits && journal.has_room()).then_some(Stuck::Log(now.durable + 1));
        silent.or(stuck)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::lane::Lanes;
    use super::*;

    #[tokio::test]
    async fn a_lane_whose_tasks_have_no_turns_is_named() {
        let lanes = Arc::new(Lanes::new(2));
        let gate = tokio::spawn(Arc::clone(&lanes).run(0));
        assert_eq!(lanes.silent(), None, "nobody was asked");
        lanes.ask();
        tokio::task::yield_now().await;
        assert_eq!(lanes.silent(), Some(1));
        gate.abort();
        assert_eq!(Stuck::Lane(1).to_string(), "lane 1 does not answer");
    }
}
