//! What is known of this process's right to write: which appends are acknowledged, and who waits for
//! one.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// How far appends are acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirmed {
    /// When the last append that is acknowledged, with all before it, began.
    began: Option<Instant>,
    /// How many are.
    count: u64,
    /// Nothing more will be.
    ended: bool,
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
    /// nothing more will be.
    pub(super) async fn confirm_since(&self, came: Instant) -> bool {
        let is_after = |confirmed: &Confirmed| {
            confirmed.ended || confirmed.began.is_some_and(|began| began >= came)
        };
        let known = *self.confirmed.borrow();
        if is_after(&known) {
            return !known.ended;
        }
        let mut confirmed = self.confirmed.subscribe();
        {
            let mut wanted = self.wanted.lock();
            *wanted = Some(wanted.map_or(came, |wanted| wanted.max(came)));
        }
        self.asked.notify_one();
        match confirmed.wait_for(is_after).await {
            Ok(confirmed) => !confirmed.ended,
            Err(_) => false,
        }
    }

    /// Whether a request waits for an append that has not come yet.
    pub(super) fn is_wanted(&self) -> bool {
        let began = self.confirmed.borrow().began;
        let wanted = *self.wanted.lock();
        wanted.is_some_and(|wanted| began.is_none_or(|began| began < wanted))
    }

    /// Waits until one is asked for, or so long.
    pub(super) async fn until_asked(&self, within: Duration) {
        let _ = timeout(within, self.asked.notified()).await;
    }
}
