//! Delivering: how what is committed is sent to receivers outside, attempt by attempt, until it is
//! taken or given up.
//!
//! [`channel`](super::channel) is the whole of the rules, without a clock and without a network:
//! order by subject, pauses, how many are on their way at once, and what of it the log stores. What
//! it is fed from and what carries an attempt out are its owner's: the dispatcher feeds the events
//! of the log to webhooks, and [`webhooks`] is what passes between it and others.

mod active;
mod attempt;
mod attempt_slots;
mod dispatcher;
mod feeding;
pub mod lists;
mod recording;
mod stored;
mod tail;
pub mod webhooks;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::dispatcher::Dispatcher;
use self::webhooks::{Sender, Webhooks};
use super::Engine;
use super::channel::Bounds;
use crate::base::hex::hex;
use crate::domain::resource::Source as _;
use crate::domain::webhook::subscription::subscriptions;

impl Engine {
    /// What delivers events to webhooks by this sender: the way to talk to it, and its work, to be
    /// run once on a thread of its own. `bounds` are those of each subscription; beyond
    /// `waiting_max` deliveries that wait over all, each subscription has little room, and the rest
    /// is read from the log when there is more.
    pub fn deliver_webhooks(
        &self,
        sender: Arc<dyn Sender>,
        bounds: Bounds,
        waiting_max: usize,
    ) -> (Webhooks, impl Future<Output = ()> + Send + use<>) {
        let log = hex(&self.shared.log_id);
        let shared = Arc::clone(&self.shared);
        let (webhooks, dispatcher) = Dispatcher::new(shared, sender, bounds, waiting_max, &log);
        (webhooks, dispatcher.run())
    }

    /// The first position of the log whose record is there.
    #[must_use]
    pub fn first_position(&self) -> u64 {
        self.shared.journal.first()
    }

    /// Deliveries need the log from this position on: it is kept for them beyond its retention, up
    /// to bounds of its own ([`LogRetention`](super::log_space::retention::LogRetention)). `None` when none waits.
    /// To be set before [`Engine::start_checkpointer`], and again as deliveries complete.
    pub fn keep_for_deliveries(&self, from: Option<u64>) {
        self.shared.checkpointer.needed_from.set(from);
    }

    /// Has the log kept for the webhooks and the publisher by what was recorded of them, up to the same
    /// bounds: for a compaction while nothing is delivered.
    pub fn keep_for_what_waits(&self) {
        let needed_from = &self.shared.checkpointer.needed_from;
        needed_from.set(self.shared.webhooks_need());
        if let Some(through) = self.shared.published_through() {
            needed_from.set_for_publisher(through.position);
        }
    }

    /// Keeps the whole log for webhooks, where anybody subscribes, until it is known from where on
    /// they need it.
    pub(super) fn keep_for_webhooks(&self) {
        if self.webhook_subscriptions() > 0 {
            self.keep_for_deliveries(Some(0));
        }
    }

    /// How many webhook subscriptions there are.
    #[must_use]
    pub fn webhook_subscriptions(&self) -> usize {
        self.shared.tables.ranked(subscriptions()).len()
    }

    /// From here on, webhooks may go over plain HTTP to other machines.
    pub fn allow_plain_webhooks(&self) {
        self.shared.plain_webhooks.store(true, Ordering::Relaxed);
    }
}
