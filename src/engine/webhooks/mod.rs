//! Webhooks: the log's events are sent to subscribers, attempt by attempt, until they are taken or given up.
//!
//! [`channel`](super::channel) has all the rules, without a clock and without a network: order by subject, pauses,
//! the number of attempts in flight, and what the log stores. Its owner feeds it and carries out the attempts: the
//! dispatcher feeds the log's events to the subscriptions' channels, and [`handle`] is its interface to the rest.

mod active;
mod attempt;
pub mod attempt_slots;
mod dispatcher;
mod feeding;
pub mod handle;
pub mod lists;
mod recording;
mod stored;
mod tail;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::dispatcher::Dispatcher;
use self::handle::{Sender, Webhooks};
use super::Engine;
use super::channel::Bounds;
use crate::base::hex::hex;
use crate::domain::resource::Source as _;
use crate::domain::webhook::subscription::subscriptions;

impl Engine {
    /// Creates the delivery of events to webhooks through this sender: the handle for talking to it, and its work, to
    /// be run once on a thread of its own. `bounds` apply to each subscription. While more than `waiting_max`
    /// deliveries wait over all, each subscription has little room, and reads the rest from the log later.
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

    /// Returns the first position whose record the log has.
    #[must_use]
    pub fn first_position(&self) -> u64 {
        self.shared.journal.first()
    }

    /// Keeps the log from this position on for deliveries, beyond its retention, up to bounds of its own
    /// ([`LogRetention`](super::log_space::retention::LogRetention)). `None` when no delivery waits. To be set before
    /// [`Engine::start_checkpointer`], and again as deliveries complete.
    pub fn keep_for_deliveries(&self, from: Option<u64>) {
        self.shared.checkpointer.needed_from.set(from);
    }

    /// Keeps the log for the webhooks and the publisher by their recorded progress, up to the same bounds: for a
    /// compaction while nothing is delivered.
    pub fn keep_for_what_waits(&self) {
        let needed_from = &self.shared.checkpointer.needed_from;
        needed_from.set(self.shared.webhooks_need());
        if let Some(through) = self.shared.published_through() {
            needed_from.set_for_publisher(through.position);
        }
    }

    /// Keeps the whole log for webhooks, if there is any subscription, until it is known from where on they need it.
    pub(super) fn keep_for_webhooks(&self) {
        if self.webhook_subscriptions() > 0 {
            self.keep_for_deliveries(Some(0));
        }
    }

    /// Number of webhook subscriptions.
    #[must_use]
    pub fn webhook_subscriptions(&self) -> usize {
        self.shared.tables.ranked(subscriptions()).len()
    }

    /// Allows webhooks to go over plain HTTP to other machines from here on.
    pub fn allow_plain_webhooks(&self) {
        self.shared.plain_webhooks.store(true, Ordering::Relaxed);
    }
}
