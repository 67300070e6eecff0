//! Requests for newer keys: a token may name a key that its provider has published only just now.
//!
//! The task that keeps the key set numbers its readings. A request with an unknown `kid` asks for
//! the next reading and waits for it; one reading serves all requests that wait. In
//! [`ASKED_INTERVAL`] there is at most one requested reading, so a flood of unknown keys causes no
//! more; requests in between do not wait. A waiting request holds only its head, and at most
//! [`KEYS_WAITING_MAX`] wait.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout};

/// The least time between two readings that unknown keys cause.
pub const ASKED_INTERVAL: Duration = Duration::from_secs(30);
/// How long a request waits for them.
pub const KEYS_WAIT_MAX: Duration = Duration::from_secs(5);
/// How many requests may wait at once.
pub const KEYS_WAITING_MAX: usize = 1_024;

/// The result of a request for newer keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// The keys were read again, or will not be in time: the present keys decide.
    Looked,
    /// Too many wait already.
    TooMany,
}

/// Connects the requests with an unknown key and the task that reads the keys.
pub struct KeyRequests {
    state: Mutex<RefreshState>,
    asked: Notify,
    /// How many readings have ended.
    ended: watch::Sender<u64>,
    waiting: Semaphore,
}

#[derive(Default)]
struct RefreshState {
    /// How many readings have begun.
    begun: u64,
    /// The number of the reading that was last requested.
    wanted: u64,
    /// When that one began.
    at: Option<Instant>,
}

impl Default for KeyRequests {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            asked: Notify::new(),
            ended: watch::Sender::new(0),
            waiting: Semaphore::new(KEYS_WAITING_MAX),
        }
    }
}

impl KeyRequests {
    /// Asks for another reading, and waits for it as long as that makes sense.
    pub async fn newer(&self) -> Newer {
        let Some(wanted) = self.ask() else {
            return Newer::Looked;
        };
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Newer::TooMany;
        };
        let mut ended = self.ended.subscribe();
        // In time or not: the request verifies its token again in any case.
        let _ = timeout(KEYS_WAIT_MAX, ended.wait_for(|ended| *ended >= wanted)).await;
        Newer::Looked
    }

    /// The number of the reading to wait for; `None` when none is due.
    fn ask(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.wanted <= *self.ended.borrow() {
            let is_early = state.at.is_some_and(|at| at.elapsed() < ASKED_INTERVAL);
            if is_early {
                return None;
            }
            // A reading in progress may have fetched the keys before this one was published.
            state.wanted = state.begun + 1;
            self.asked.notify_one();
        }
        Some(state.wanted)
    }

    /// Waits until a reading is requested.
    pub async fn asked(&self) {
        loop {
            self.asked.notified().await;
            let state = self.state.lock();
            if state.wanted > state.begun {
                return;
            }
        }
    }

    /// A reading begins; its number.
    pub fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.begun += 1;
        if state.wanted == state.begun {
            state.at = Some(Instant::now());
        }
        state.begun
    }

    /// The reading of this number has ended, and its keys are in use.
    pub fn end(&self, number: u64) {
        self.ended.send_replace(number);
    }
}
