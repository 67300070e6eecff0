//! Knowledge of this process's right to write: which appends are acknowledged, and which requests wait for one.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::append::OUTCOME_TIMEOUT;

/// How far appends are acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirmed {
    /// Start time of the last append that is acknowledged along with all before it.
    began: Option<Instant>,
    /// Requests that came up to this time are not confirmed by appends still in flight.
    refused: Option<Instant>,
    /// Number of appends that were acknowledged or withdrawn.
    count: u64,
    /// Whether no more appends will be acknowledged.
    ended: bool,
}

impl Confirmed {
    /// Whether this process had the right to write when a request came; `None` while that is unknown.
    fn says(&self, came: Instant) -> Option<bool> {
        let is_after = |at: Option<Instant>| at.is_some_and(|at| at >= came);
        if self.ended {
            return Some(false);
        }
        match (is_after(self.began), is_after(self.refused)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }
}

/// Acknowledged appends, and requests that wait for one.
#[derive(Default)]
pub(super) struct Confirmations {
    confirmed: watch::Sender<Confirmed>,
    /// Earliest start time of an append that the waiting requests need.
    wanted: Mutex<Option<Instant>>,
    asked: Notify,
}

impl Confirmations {
    /// Notes that the fence that began at `began` is acknowledged, and that earlier appends do not count.
    pub(super) fn begins(&self, began: Instant) {
        self.confirmed
            .send_modify(|confirmed| confirmed.began = Some(began));
    }

    /// Notes that one more append is acknowledged, which began at `began`.
    pub(super) fn acknowledged(&self, began: Instant) {
        self.confirmed.send_modify(|confirmed| {
            confirmed.began = Some(began);
            confirmed.count += 1;
        });
    }

    /// Notes that the last append was withdrawn, whose content nobody waited for.
    pub(super) fn withdrawn(&self) {
        self.confirmed.send_modify(|confirmed| confirmed.count += 1);
    }

    /// Refuses a confirmation to all requests that wait now.
    pub(super) fn refuse(&self) {
        let now = Instant::now();
        self.confirmed
            .send_modify(|confirmed| confirmed.refused = Some(now));
    }

    /// Notes that no more appends will be acknowledged.
    pub(super) fn end(&self) {
        self.confirmed
            .send_modify(|confirmed| confirmed.ended = true);
    }

    /// Returns how many appends are acknowledged or withdrawn.
    pub(super) fn count(&self) -> u64 {
        self.confirmed.borrow().count
    }

    /// Waits until `count` appends are acknowledged, or no more will be.
    pub(super) async fn until(&self, count: u64) {
        let mut confirmed = self.confirmed.subscribe();
        let is_known = |confirmed: &Confirmed| confirmed.ended || confirmed.count >= count;
        let _ = confirmed.wait_for(is_known).await;
    }

    /// Returns a receiver of all changes from here on.
    pub(super) fn changes(&self) -> watch::Receiver<Confirmed> {
        self.confirmed.subscribe()
    }

    /// Waits until an append that began no sooner than `came` is acknowledged. Returns `false` when no more will be,
    /// when there is no room for one, or when it takes longer than an append may.
    pub(super) async fn confirm_since(&self, came: Instant) -> bool {
        let known = self.confirmed.borrow().says(came);
        if let Some(known) = known {
            return known;
        }
        let mut confirmed = self.confirmed.subscribe();
        {
            let mut wanted = self.wanted.lock();
            *wanted = Some(wanted.map_or(came, |wanted| wanted.max(came)));
        }
        self.asked.notify_one();
        let is_known = |confirmed: &Confirmed| confirmed.says(came).is_some();
        match timeout(OUTCOME_TIMEOUT, confirmed.wait_for(is_known)).await {
            Ok(Ok(confirmed)) => confirmed.says(came) == Some(true),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Whether a request waits for an append that has not begun.
    pub(super) fn is_wanted(&self) -> bool {
        let wanted = *self.wanted.lock();
        wanted.is_some_and(|wanted| self.confirmed.borrow().says(wanted).is_none())
    }

    /// Waits until an append is requested, or for this long.
    pub(super) async fn until_asked(&self, within: Duration) {
        let _ = timeout(within, self.asked.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_are_refused_at_once_when_full_and_after_30_s_at_most() {
        let confirmations = Confirmations::default();
        let came = Instant::now();
        let (answer, ()) = tokio::join!(confirmations.confirm_since(came), async {
            assert!(confirmations.is_wanted());
            // A withdrawn append confirms no request.
            confirmations.withdrawn();
            assert!(confirmations.is_wanted());
            confirmations.refuse();
        });
        assert!(!answer && !confirmations.is_wanted());
        assert_eq!(confirmations.count(), 1);
        // A request that comes later waits again.
        let came = Instant::now();
        let waited = tokio::time::Instant::now();
        assert!(!confirmations.confirm_since(came).await);
        assert_eq!(waited.elapsed().as_secs(), OUTCOME_TIMEOUT.as_secs());
        confirmations.acknowledged(came);
        assert!(confirmations.confirm_since(came).await);
        // A refusal after the acknowledgement does not matter.
        confirmations.refuse();
        assert!(confirmations.confirm_since(came).await);
        confirmations.end();
        assert!(!confirmations.confirm_since(came).await);
    }
}
