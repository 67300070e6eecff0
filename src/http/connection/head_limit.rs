//! The timeouts for the heads of an HTTP/1 connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Tracks how long the head of a connection's next request is waited for.
pub struct HeadLimit {
    /// Timeout for the first byte, after the previous response: the longest that the connection may be idle.
    idle: Duration,
    /// Timeout for the rest of a head, from its first byte.
    head: Duration,
    began: Instant,
    /// Since when a head is waited for, in milliseconds after `began`; or one of the two values below.
    waiting: AtomicU64,
    /// Number of heads that have arrived.
    arrived: AtomicU64,
}

/// Value of `waiting` while a request is in progress: no head is waited for.
const NOT_WAITING: u64 = u64::MAX;
/// Value of `waiting` while a response is made but not written: no head is waited for yet.
const ANSWERING: u64 = u64::MAX - 1;

impl HeadLimit {
    /// Creates the limit; the first head is waited for from now on.
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

    /// Notes that a head has arrived: from here on the request has limits of its own.
    pub fn arrived(&self) {
        self.waiting.store(NOT_WAITING, Ordering::Relaxed);
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of heads that have arrived.
    pub(super) fn all_arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Notes that the response is made. The next head is waited for once the response is written.
    pub fn answered(&self) {
        self.waiting.store(ANSWERING, Ordering::Relaxed);
    }

    /// Notes that bytes were written; returns whether they belong to a response.
    pub(super) fn written(&self) -> bool {
        if self.waiting.load(Ordering::Relaxed) == NOT_WAITING {
            return false;
        }
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0);
        self.waiting.store(since, Ordering::Relaxed);
        true
    }

    /// Returns the deadline of the head that is waited for, whose first byte has come at `begun`.
    pub(super) fn deadline(&self, begun: Option<Instant>) -> Option<Instant> {
        match self.waiting.load(Ordering::Relaxed) {
            NOT_WAITING | ANSWERING => None,
            since => {
                let since = self.began + Duration::from_millis(since);
                // The first byte may have come while the previous request was still being answered.
                let whole = begun.map(|begun| begun.max(since) + self.head);
                let idle = since + self.idle;
                Some(whole.map_or(idle, |whole| whole.min(idle)))
            }
        }
    }
}
