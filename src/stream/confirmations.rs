//! What is known of this process's right to write: which appends are acknowledged, and who waits for
//! one.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::append::KNOWN_WITHIN;

/// How far appends are acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirmed {
    /// When the last append that is acknowledged, with all before it, began.
    began: Option<Instant>,
    /// Requests that came up to this time are confirmed by none of the appends that are still in flight.
    refused: Option<Instant>,
    /// How many appends were acknowledged or withdrawn.
    count: u64,
    /// Nothing more will be.
    ended: bool,
}

impl Confirmed {
    /// Whether this process had the right to write when a request came; `None` while that is not known.
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

/// The appends that are acknowledged, and those that are waited for.
#[derive(Default)]
pub(super) struct Confirmations {
    confirmed: watch::Sender<Confirmed>,
    /// When an append has to have begun at the earliest, for those that wait for one.
    wanted: Mutex<Option<Instant>>,
    asked: Notify,
}

impl Confirmations {
    /// The fence that began then is acknowledged: nothing that was counted before counts.
    pub(super) fn begins(&self, began: Instant) {
        self.confirmed
            .send_modify(|confirmed| confirmed.began = Some(began));
    }

    /// One more append is acknowledged, which began then.
    pub(super) fn acknowledged(&self, began: Instant) {
        self.confirmed.send_modify(|confirmed| {
            confirmed.began = Some(began);
            confirmed.count += 1;
        });
    }

    /// The append that began last was withdrawn, and nobody waited for what is in it.
    pub(super) fn withdrawn(&self) {
        self.confirmed.send_modify(|confirmed| confirmed.count += 1);
    }

    /// Whoever waits now waits in vain.
    pub(super) fn refuse(&self) {
        let now = Instant::now();
        self.confirmed
            .send_modify(|confirmed| confirmed.refused = Some(now));
    }

    /// Nothing more is.
    pub(super) fn end(&self) {
        self.confirmed
            .send_modify(|confirmed| confirmed.ended = true);
    }

    /// How many appends are acknowledged.
    pub(super) fn count(&self) -> u64 {
        self.confirmed.borrow().count
    }

    /// Waits until so many appends are acknowledged, or nothing more is.
    pub(super) async fn until(&self, count: u64) {
        let mut confirmed = self.confirmed.subscribe();
        let is_known = |confirmed: &Confirmed| confirmed.ended || confirmed.count >= count;
        let _ = confirmed.wait_for(is_known).await;
    }

    /// Notified of each change from here on.
    pub(super) fn changes(&self) -> watch::Receiver<Confirmed> {
        self.confirmed.subscribe()
    }

    /// Whether an append that began no sooner than `came` is acknowledged, once one is; `false` when
    /// nothing more will be, there is no room for one, or it takes as long as an append may.
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
        match timeout(KNOWN_WITHIN, confirmed.wait_for(is_known)).await {
            Ok(Ok(confirmed)) => confirmed.says(came) == Some(true),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Whether a request waits for an append that has not come yet.
    pub(super) fn is_wanted(&self) -> bool {
        let wanted = *self.wanted.lock();
        wanted.is_some_and(|wanted| self.confirmed.borrow().says(wanted).is_none())
    }

    /// Waits until one is asked for, or so long.
    pub(super) async fn until_asked(&self, within: Duration) {
        let _ = timeout(within, self.asked.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_when_there_is_no_room_and_after_half_a_minute_in_any_case() {
        let confirmations = Confirmations::default();
        let came = Instant::now();
        let (answer, ()) = tokio::join!(confirmations.confirm_since(came), async {
            assert!(confirmations.is_wanted());
            // What is withdrawn confirms nobody.
            confirmations.withdrawn();
            assert!(confirmations.is_wanted());
            confirmations.refuse();
        });
        assert!(!answer && !confirmations.is_wanted());
        assert_eq!(confirmations.count(), 1);
        // Who comes later waits again.
        let came = Instant::now();
        let waited = tokio::time::Instant::now();
        assert!(!confirmations.confirm_since(came).await);
        assert_eq!(waited.elapsed().as_secs(), KNOWN_WITHIN.as_secs());
        confirmations.acknowledged(came);
        assert!(confirmations.confirm_since(came).await);
        // Even where it was refused meanwhile: it is known.
        confirmations.refuse();
        assert!(confirmations.confirm_since(came).await);
        confirmations.end();
        assert!(!confirmations.confirm_since(came).await);
    }
}
