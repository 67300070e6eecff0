//! Requests for newer keys: a token may name a key that its provider has published only just now.
//!
//! The task that reads the key set numbers its readings. A request with an unknown `kid` asks for the next reading
//! and waits for it; one reading serves all requests that wait. In each [`ASKED_INTERVAL`] there is at most one
//! requested reading, however many unknown keys come; requests in between do not wait. A waiting request holds only
//! its head in memory, and at most [`KEYS_WAITING_MAX`] wait.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout};

/// Minimum time between two readings that unknown keys cause.
pub const ASKED_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum time that a request waits for newer keys.
pub const KEYS_WAIT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of requests that wait at once.
pub const KEYS_WAITING_MAX: usize = 1_024;

/// The result of a request for newer keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// The keys were read again, or will not be in time: the current keys decide.
    Looked,
    /// Too many requests wait already.
    TooMany,
}

/// Connects the requests with an unknown key and the task that reads the keys.
pub struct KeyRequests {
    state: Mutex<RefreshState>,
    asked: Notify,
    /// The number of the last reading that has ended.
    ended: watch::Sender<u64>,
    waiting: Semaphore,
}

#[derive(Default)]
struct RefreshState {
    /// The number of readings that have begun.
    begun: u64,
    /// The number of the reading that was last requested.
    wanted: u64,
    /// When the last requested reading began.
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
    /// Requests another reading if one is due, and waits for it.
    pub async fn newer(&self) -> Newer {
        let Some(wanted) = self.ask() else {
            return Newer::Looked;
        };
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Newer::TooMany;
        };
        let mut ended = self.ended.subscribe();
        // A timeout is no error: the request verifies its token again in any case.
        let _ = timeout(KEYS_WAIT_MAX, ended.wait_for(|ended| *ended >= wanted)).await;
        Newer::Looked
    }

    /// Returns the number of the reading to wait for; `None` if none is due.
    fn ask(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.wanted <= *self.ended.borrow() {
            let is_early = state.at.is_some_and(|at| at.elapsed() < ASKED_INTERVAL);
            if is_early {
                return None;
            }
            // A reading in progress may have fetched the keys before the new key was published.
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

    /// Notes that a reading begins; returns its number.
    pub fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.begun += 1;
        if state.wanted == state.begun {
            state.at = Some(Instant::now());
        }
        state.begun
    }

    /// Notes that the reading with this number has ended, and that its keys are in use.
    pub fn end(&self, number: u64) {
        self.ended.send_replace(number);
    }
}
