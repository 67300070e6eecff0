//! The dispatcher of webhooks: passes the log's events to the channels of the subscriptions that want them, has them
//! sent, and records the progress of each subscription in the log.
//!
//! ```text
//!  the log's events ──tail──▶ channels ──attempts──▶ sender
//!        └──pages──▶ those behind │                    │
//!                                 ▼                    ▼
//!                          progress, once a second, into the log
//! ```
//!
//! One task owns all channels, so none of their data is shared. One reader feeds all channels near the log's end. A
//! channel that is behind, since too much waits in it or the service was just started, reads pages of its own until
//! it reaches the end. A paused one is fed like the others, and sends nothing.
//!
//! Only durable data is acted on: an event is delivered, and a subscription's change applied, once it is durable.
//! Progress is recorded after the fact, so a crash repeats the deliveries taken in the last second and those in
//! flight.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use uuid::Uuid;

use super::active::{ActiveSubscription, health};
use super::attempt_slots::AttemptSlots;
use super::handle::{
    Attempted, Delivered, Loaded, Message, Outcome, Sender, Stored, SubscriptionFigures, Webhooks,
};
use super::tail::{Tail, next_page};
use crate::base::time::Timestamp;
use crate::domain::event::Name;
use crate::domain::event_id::EventId;
use crate::domain::webhook::deliveries::WebhookDeliveries;
use crate::engine::channel::schedule::{Failure, RECORDED_EVERY};
use crate::engine::channel::{Bounds, Channel, Now, Settled};
use crate::engine::core::Shared;

/// A channel that is behind reads on when fewer than this are ready to be sent.
const READY_MIN: usize = 256;

pub(in crate::engine) struct Dispatcher {
    pub(super) shared: Arc<Shared>,
    pub(super) sender: Arc<dyn Sender>,
    pub(super) bounds: Bounds,
    /// Maximum number of waiting deliveries over all subscriptions.
    pub(super) waiting_max: usize,
    /// Number of waiting deliveries over all subscriptions: those at the last tick, and all arrivals since.
    pub(super) waiting: usize,
    pub(super) log: Box<str>,
    pub(super) started: tokio::time::Instant,
    /// The time of `started` by the wall clock, as that clock was last noticed to be set.
    pub(super) began: Timestamp,
    pub(super) messages: mpsc::UnboundedReceiver<Message>,
    pub(super) own: Webhooks,
    pub(super) active: HashMap<Uuid, ActiveSubscription>,
    slots: AttemptSlots,
    pub(super) runs: u64,
    /// Subscriptions that get the events of each name; rebuilt when a subscription changes.
    pub(super) wanting: HashMap<Name, Arc<Vec<Uuid>>>,
    pub(super) tail: Option<Tail>,
    pub(super) wakes: BTreeSet<(Duration, Uuid)>,
    pub(super) touched: BTreeSet<Uuid>,
    /// Subscriptions whose needs of the log are not known yet, since they are still being loaded.
    pub(super) loading: HashSet<Uuid>,
    pub(super) stopping: Option<oneshot::Sender<()>>,
}

impl Dispatcher {
    /// Creates the dispatcher of this engine's events, and the handle for talking to it.
    pub(in crate::engine) fn new(
        shared: Arc<Shared>,
        sender: Arc<dyn Sender>,
        bounds: Bounds,
        waiting_max: usize,
        log: &str,
    ) -> (Webhooks, Self) {
        let (messages, receiver) = mpsc::unbounded_channel();
        let own = Webhooks {
            messages,
            figures: Arc::default(),
        };
        let slots = AttemptSlots::up_to(sender.attempts_max());
        let dispatcher = Self {
            shared,
            sender,
            bounds,
            waiting_max,
            waiting: 0,
            log: log.into(),
            started: tokio::time::Instant::now(),
            began: Timestamp::default(),
            messages: receiver,
            own: own.clone(),
            active: HashMap::new(),
            slots,
            runs: 0,
            wanting: HashMap::new(),
            tail: None,
            wakes: BTreeSet::new(),
            touched: BTreeSet::new(),
            loading: HashSet::new(),
            stopping: None,
        };
        (own, dispatcher)
    }

    /// Delivers until it is stopped.
    pub(in crate::engine) async fn run(mut self) {
        self.started = tokio::time::Instant::now();
        self.began = self.now().wall;
        for id in self.shared.webhook_subscriptions() {
            self.load(id, None);
        }
        let mut ticks = interval(RECORDED_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wake = self.wakes.first().map(|(wake, _)| self.started + *wake);
            let far = self.started + Duration::from_secs(1 << 30);
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                page = next_page(&mut self.tail) => self.take_tail(page),
                () = sleep_until(wake.unwrap_or(far)) => self.wake(),
                _ = ticks.tick() => self.tick(),
            }
            // Further messages that are there already are taken in one go.
            for _ in 0..256 {
                match self.messages.try_recv() {
                    Ok(message) => self.take(message),
                    Err(_) => break,
                }
            }
            while let Some(id) = self.slots.next() {
                self.pump(id);
            }
            // Well receivers come first: a failing one costs the time of new connections.
            let touched = std::mem::take(&mut self.touched);
            let is_failing = |id: &Uuid| {
                let active = self.active.get(id);
                active.is_some_and(|active| active.channel.is_failing())
            };
            let (failing, well): (Vec<_>, Vec<_>) = touched.into_iter().partition(is_failing);
            for id in well.into_iter().chain(failing) {
                self.pump(id);
            }
            if self.stopping.is_some() && self.active.values().all(|of| of.recording.is_none()) {
                return;
            }
        }
    }

    pub(super) fn now(&self) -> Now {
        self.shared.present(self.started.elapsed())
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Changed(id, retried) => self.load(id, retried),
            Message::Loaded(loaded) => self.loaded(*loaded),
            Message::Ended(attempted) => self.ended(*attempted),
            Message::Page(id, run, page) => self.take_page(id, run, page),
            Message::Dated(id, run, event, at) => {
                let active = self.active.get_mut(&id);
                if let Some(active) = active.filter(|active| active.run == run) {
                    active.channel.set_time(event, at);
                }
            }
            Message::Recorded(id, serial, is_recorded) => self.recorded(id, serial, is_recorded),
            Message::Stop(stopped) => {
                self.stopping = Some(stopped);
                let last_event = self.last_event();
                for active in self.active.values_mut() {
                    active.leave_end(last_event);
                }
                self.tail = None;
                let ids: Vec<_> = self.active.keys().copied().collect();
                for id in ids {
                    self.record(id, true);
                }
            }
        }
    }

    /// Loads what the log stores of a subscription, once that is durable.
    pub(super) fn load(&mut self, id: Uuid, retried: Option<EventId>) {
        if !self.active.contains_key(&id) {
            self.loading.insert(id);
        }
        let (shared, own) = (Arc::clone(&self.shared), self.own.clone());
        let known = self.active.get(&id).map(|active| active.generation);
        tokio::spawn(async move {
            let loaded = shared.load_webhook(id, known, retried).await;
            loaded.map(|loaded| own.tell(Message::Loaded(Box::new(loaded))))
        });
    }

    pub(super) fn loaded(&mut self, loaded: Loaded) {
        let Loaded {
            id,
            stored,
            retried,
        } = loaded;
        self.loading.remove(&id);
        self.wanting.clear();
        let Some(stored) = stored else {
            self.detach(id);
            return;
        };
        let Stored {
            subscription,
            deliveries,
            ..
        } = &stored;
        let known = self.active.get_mut(&id);
        match known {
            // An older result may arrive after a newer one.
            Some(active) if active.generation > deliveries.generation => return,
            Some(active) if active.subscription.revision > subscription.revision => {}
            Some(active) if active.generation == deliveries.generation => {
                active.update_subscription(stored.position, subscription);
            }
            _ => self.attach(id, &stored),
        }
        if let Some(retried) = retried {
            self.retry(id, &stored.deliveries, retried);
        }
        self.touched.insert(id);
    }

    fn attach(&mut self, id: Uuid, stored: &Stored) {
        self.detach(id);
        self.runs += 1;
        let now = self.now();
        let deliveries = &stored.deliveries;
        let bounds = self.bounds;
        let mut active = ActiveSubscription {
            run: self.runs,
            types: stored.types.clone(),
            subscription: stored.subscription.clone(),
            generation: deliveries.generation,
            channel: Channel::new(bounds),
            kept_bytes: 0,
            examined: stored.examined,
            known_at: stored.position,
            changed_at: 0,
            is_at_end: false,
            is_reading: false,
            is_gone: deliveries.is_gone,
            died: Vec::new(),
            failure: None,
            is_unrecorded: deliveries.examined.is_none(),
            recorded: deliveries.examined.unwrap_or_default(),
            recorded_at: now.steady,
            loaded_at: now.steady,
            recording: None,
            wake: None,
            dating: None,
            figures: SubscriptionFigures {
                subscription: id,
                dead: deliveries.dead.len(),
                ..SubscriptionFigures::default()
            },
        };
        for waiting in &deliveries.waiting {
            active.resume(waiting, now);
        }
        active.channel.set_health(health(deliveries));
        self.active.insert(id, active);
        if self.tail.is_none() {
            self.tail = Some(Tail::begin(&self.shared));
        }
        // The starting point is recorded before any other progress.
        self.record(id, false);
    }

    pub(super) fn detach(&mut self, id: Uuid) {
        if let Some(gone) = self.active.remove(&id)
            && let Some(wake) = gone.wake
        {
            self.wakes.remove(&(wake, id));
        }
        if self.active.is_empty() {
            // Without subscriptions the log is not read.
            self.tail = None;
        }
    }

    fn retry(&mut self, id: Uuid, deliveries: &WebhookDeliveries, retried: EventId) {
        let now = self.now();
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        // Deliveries that a receiver missed before it was gone are dropped, and dead ones stay listed.
        if active.is_gone || deliveries.is_gone {
            return;
        }
        let Some(delivery) = deliveries.waiting_or_dead(retried) else {
            return;
        };
        active.retry(delivery, now);
        let stored = deliveries.dead.iter().filter(|dead| dead.id != retried);
        active.figures.dead = stored.count() + active.dead_beside(deliveries);
    }

    /// Sends what may be sent, reads on where the channel is behind, and schedules the next wake-up.
    fn pump(&mut self, id: Uuid) {
        let now = self.now();
        let is_stopping = self.stopping.is_some();
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        let is_paused = active.subscription.is_paused;
        let may_read = !is_stopping && !active.is_gone && active.knows_itself();
        let may_send = may_read && !is_paused;
        let slots = &mut self.slots;
        let mut turn = |on_way, health| slots.begin(id, on_way, health);
        while may_send && let Some((event, turn)) = active.channel.next_in_turn(now, &mut turn) {
            let attempt = active.attempt(event, now.wall, &self.log);
            let (shared, sender) = (Arc::clone(&self.shared), Arc::clone(&self.sender));
            let (own, run) = (self.own.clone(), active.run);
            let url = attempt.outgoing.url.clone();
            tokio::spawn(async move {
                let (outcome, took) = attempt.make(&shared, sender).await;
                own.tell(Message::Ended(Box::new(Attempted {
                    subscription: id,
                    run,
                    id: event,
                    url,
                    turn,
                    outcome,
                    took,
                })));
            });
        }
        // Where only a slot is missing, the end of an attempt wakes the channel.
        let is_out_of_turn = active.channel.has_next(now);
        let may_wake = may_send && !is_out_of_turn;
        let wake = may_wake.then(|| active.channel.wake_at()).flatten();
        if wake != active.wake {
            if let Some(before) = active.wake {
                self.wakes.remove(&(before, id));
            }
            if let Some(wake) = wake {
                self.wakes.insert((wake, id));
            }
            active.wake = wake;
        }
        let has_room = active.has_room(self.waiting, self.waiting_max);
        let is_wanting = has_room && (is_paused || active.channel.ready() < READY_MIN);
        let is_behind = !active.is_at_end && self.tail.is_some();
        if may_read && is_behind && !active.is_reading && is_wanting {
            active.is_reading = true;
            active.read_page(id, &self.shared, &self.own);
        }
    }

    fn wake(&mut self) {
        let now = self.now().steady;
        while let Some((due, id)) = self.wakes.first().copied()
            && due <= now
        {
            self.wakes.remove(&(due, id));
            if let Some(active) = self.active.get_mut(&id) {
                active.wake = None;
            }
            self.touched.insert(id);
        }
    }

    fn ended(&mut self, attempted: Attempted) {
        let now = self.now();
        let Attempted {
            subscription,
            run,
            id,
            url,
            turn,
            outcome,
            took,
        } = attempted;
        self.slots.end(&turn);
        let active = self.active.get_mut(&subscription);
        let Some(active) = active.filter(|active| active.run == run) else {
            return;
        };
        self.touched.insert(subscription);
        let was_sent = matches!(outcome, Outcome::Sent(_));
        let delivered = match outcome {
            Outcome::Sent(delivered) => delivered,
            Outcome::Lost(first) => {
                active.channel.abandoned(id);
                active.lose(first, now);
                return;
            }
            Outcome::Abandoned => return active.channel.abandoned(id),
            Outcome::Unread => Delivered::Failed(Failure {
                status: None,
                error: "the event could not be read".into(),
                retry_after: None,
            }),
        };
        active.figures.attempts += 1;
        active.figures.attempt_time += took;
        active.is_unrecorded = true;
        match delivered {
            Delivered::Taken => {
                active.taken(id, &url, took, now);
                if active.is_soon_to_record(now.steady) {
                    self.record(subscription, false);
                }
            }
            Delivered::Gone => {
                let failure = Failure {
                    status: Some(410),
                    error: "it answered 410: the receiver is gone".into(),
                    retry_after: None,
                };
                active.note_failure(id, &failure, now.wall);
                active.is_gone = true;
                active.drop_waiting(&mut self.runs, self.bounds);
                tracing::warn!(%subscription, "the receiver of a webhook subscription is gone");
                self.record(subscription, true);
            }
            Delivered::Failed(failure) => {
                active.note_failure(id, &failure, now.wall);
                active.failed(id, &failure, now);
                if was_sent {
                    active.note_wait(took, false);
                }
            }
        }
    }
}

impl ActiveSubscription {
    /// Settles a delivery that was taken at this URL. Where the subscription has another one by now, nothing follows
    /// from that for the receiver there.
    pub(super) fn taken(&mut self, id: EventId, url: &str, took: Duration, now: Now) {
        if *self.subscription.url != *url {
            // A gap may have been offered anew meanwhile, wider and under the same id.
            if let Some((carried, _)) = self.channel.remove_in_flight(id) {
                self.let_go(&carried);
            }
            return;
        }
        if let Some(Settled::Taken(carried)) = self.channel.ended(id, Ok(()), now, 0) {
            self.let_go(&carried);
        }
        self.note_wait(took, true);
    }
}
