//! How long the heads of a connection of HTTP/1 are waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How long the heads of a connection's requests are waited for.
pub struct HeadLimit {
    /// For the first byte, after the previous response: so long may the connection be idle.
    idle: Duration,
    /// For the rest, from the first byte.
    head: Duration,
    began: Instant,
    /// Since when a head is waited for, in milliseconds after `began`.
    waiting: AtomicU64,
    /// Heads that have arrived.
    arrived: AtomicU64,
}

/// No head is waited for: a request is in progress.
const NOT_WAITING: u64 = u64::MAX;
/// Nor is one yet: the response is made and not written.
const ANSWERING: u64 = u64::MAX - 1;

impl HeadLimit {
    /// The first head is waited for from now on.
    #[must_use]
    pub fn new(idle: Duration, head: Duration) -> Arc<Self> {
        Arc::new(Self {
            idle,
            head,
            began: Instant::now(),
            waiting: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
        })
    }

    /// A head has arrived: from here on the request has limits of its own.
    pub fn arrived(&self) {
        self.waiting.store(NOT_WAITING, Ordering::Relaxed);
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have arrived.
    pub(super) fn all_arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Its response is made: the next head is waited for once that is written.
    pub fn answered(&self) {
        self.waiting.store(ANSWERING, Ordering::Relaxed);
    }

    /// Something was written; whether that was a response.
    pub(super) fn written(&self) -> bool {
        if self.waiting.load(Ordering::Relaxed) == NOT_WAITING {
            return false;
        }
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0);
        self.waiting.store(since, Ordering::Relaxed);
        true
    }

    /// The deadline of the head that is waited for; its first byte has come at `begun`.
    pub(super) fn deadline(&self, begun: Option<Instant>) -> Option<Instant> {
        match self.waiting.load(Ordering::Relaxed) {
            NOT_WAITING | ANSWERING => None,
            since => {
                let since = self.began + Duration::from_millis(since);
                // It may have come while the request before it was answered.
                let whole = begun.map(|begun| begun.max(since) + self.head);
                let idle = since + self.idle;
                Some(whole.map_or(idle, |whole| whole.min(idle)))
            }
        }
    }
}
