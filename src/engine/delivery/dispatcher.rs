//! The dispatcher of webhooks: takes the events of the log to the channels of the subscriptions
//! that want them, has each sent, and writes into the log how far each subscription is.
//!
//! ```text
//!  the log's events ──tail──▶ channels ──attempts──▶ sender
//!        └──pages──▶ those behind │                    │
//!                                 ▼                    ▼
//!                          progress, once a second, into the log
//! ```
//!
//! One task has all channels, so nothing of them is shared. Those near the log's end are fed by one
//! reader together; one that is behind, since it was paused, has too much waiting, or the service
//! was just started, reads pages of its own until it has come to the end.
//!
//! Only what is durable is acted on: events are told when they are, and a subscription's change is
//! waited for. Progress is written behind what happens, so a crash repeats what was taken in the
//! last second, and what was on its way.

use std::collections::{BTreeSet, HashMap};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until, timeout};
use uuid::Uuid;

use super::channel::{Bounds, Channel, Failure, Now, Settled, Standing, Unrecorded};
use crate::base::actor::Actor;
use crate::base::panics::unless_its_future_panics;
use crate::base::time::Instant;
use crate::catalogue::REPORTS;
use crate::domain::event::{Name, PublicEvents as _, subject};
use crate::domain::resource::{ReadView, Resource as _};
use crate::domain::webhook::deliveries::{Delivery, LastFailure, Progress, WebhookDeliveries};
use crate::domain::webhook::record_progress::Report;
use crate::domain::webhook::subscription::{EventTypePatterns, WebhookSubscription, subscriptions};
use crate::engine::core::{CommandRequest, CommandResult, Shared};
use crate::engine::feed::{EventFilter, NoPage, Page, TypePattern};
use crate::journal::events::{Event, EventId};

/// How often progress is written.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is written where nothing was to be delivered, and only the log went on.
const IDLE_RECORD_INTERVAL: Duration = Duration::from_secs(30);
/// After so many commits it is written though none of them told anything: the log is kept from
/// where deliveries stand in it.
const COMMITS_UNRECORDED_MAX: u64 = 100_000;
/// Events of a page.
const TAIL_PAGE: usize = 1_000;
const OWN_PAGE: usize = 500;
/// A channel that is behind reads on when fewer than this are ready to be sent.
const READY_MIN: usize = 256;
/// Bytes of events that a channel keeps in memory; what more waits is read again from the log.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// How long to wait when the log cannot be read.
const READ_PAUSE: Duration = Duration::from_secs(1);
/// How long a stop waits for progress to be written.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// The kind of the events that tell of subscriptions.
const OWN_KIND: &str = WebhookSubscription::KIND.name;
const OWN_TYPES: &str = "carebook.webhook-subscription.*";

/// A delivery on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The subscription.
    pub subscription: Uuid,
    /// Where it goes.
    pub url: Box<str>,
    /// What the receiver knows it by: `{log id}-{event id}`.
    pub id: String,
    /// The event.
    pub body: Bytes,
    /// The numbers of the secrets that sign it, the present one first.
    pub secret_numbers: Vec<u32>,
    /// The time of the attempt.
    pub now: Instant,
}

/// What a delivery has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The receiver has taken it.
    Taken,
    /// The receiver says that it is gone.
    Gone,
    /// It has not taken it, or nobody knows.
    Failed(Failure),
}

/// A delivery being sent.
pub type Sending = Pin<Box<dyn Future<Output = Delivered> + Send>>;

/// What carries deliveries out.
pub trait Sender: Send + Sync + 'static {
    /// Sends one, within a bounded time.
    fn send(self: Arc<Self>, outgoing: Outgoing) -> Sending;
}

/// How a subscription stands, for those who watch.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionFigures {
    /// The subscription.
    pub subscription: Uuid,
    /// Deliveries that wait.
    pub waiting: usize,
    /// Deliveries that are dead.
    pub dead: usize,
    /// Since when the oldest waits.
    pub oldest: Option<Instant>,
    /// Whether the newest attempt has failed.
    pub is_failing: bool,
    /// Attempts that were made.
    pub attempts: u64,
    /// Attempts that have failed.
    pub failures: u64,
    /// How long the attempts took, in all.
    pub attempt_time: Duration,
    /// The first position that it still needs of the log.
    pub needed_from: u64,
}

/// The dispatcher, for those who talk to it.
#[derive(Clone)]
pub struct Webhooks {
    messages: mpsc::UnboundedSender<Message>,
    figures: Arc<Mutex<Arc<Vec<SubscriptionFigures>>>>,
}

impl Webhooks {
    /// The subscription was created, changed or deleted.
    pub fn changed(&self, subscription: Uuid) {
        self.tell(Message::Changed(subscription, None));
    }

    /// A delivery is to be tried at once.
    pub fn retried(&self, subscription: Uuid, id: EventId) {
        self.tell(Message::Changed(subscription, Some(id)));
    }

    /// How the subscriptions stand, as of the last second.
    #[must_use]
    pub fn figures(&self) -> Arc<Vec<SubscriptionFigures>> {
        Arc::clone(&self.figures.lock())
    }

    /// Sends nothing more, and writes how far all are. Takes no longer than a second.
    pub async fn stop(&self) {
        let (stopped, is_stopped) = oneshot::channel();
        self.tell(Message::Stop(stopped));
        // A dispatcher that has ended is stopped, too.
        let _ = timeout(STOP_TIMEOUT, is_stopped).await;
    }

    fn tell(&self, message: Message) {
        // It has ended: then nothing is delivered any more.
        let _ = self.messages.send(message);
    }
}

enum Message {
    Changed(Uuid, Option<EventId>),
    Loaded(Box<Loaded>),
    Ended(Box<Attempted>),
    Page(Uuid, u64, Result<Page, NoPage>),
    Recorded(Uuid, u64, bool),
    Stop(oneshot::Sender<()>),
}

/// What the log has of a subscription.
struct Loaded {
    id: Uuid,
    stored: Option<(WebhookSubscription, WebhookDeliveries)>,
    /// The last commit to it.
    changed: u64,
    /// The last commit to its deliveries.
    position: u64,
    /// A delivery that is to be tried at once.
    retried: Option<EventId>,
}

/// An attempt that has ended.
struct Attempted {
    subscription: Uuid,
    run: u64,
    id: EventId,
    outcome: Outcome,
    took: Duration,
}

enum Outcome {
    Sent(Delivered),
    /// The log has given the event up; it begins here.
    Lost(u64),
    /// The log could not be read.
    Unread,
}

/// What an item of a channel carries.
struct Carried {
    event_type: Box<str>,
    subject: Box<str>,
    /// The event, where there was room to keep it.
    event: Option<Arc<Event>>,
    gap_from: Option<u64>,
    last_status: Option<u16>,
    last_error: Option<Box<str>>,
}

/// A subscription at work.
struct Attached {
    /// Tells this channel from one that it had before.
    run: u64,
    subscription: WebhookSubscription,
    /// The types that events are matched with: those of the subscription as of `examined`.
    types: EventTypePatterns,
    /// The types from its next change on, where that is known already.
    next_types: Option<EventTypePatterns>,
    /// Whether a change of it was passed whose outcome is not known yet.
    is_stale: bool,
    generation: u32,
    channel: Channel<EventId, Carried>,
    kept_bytes: usize,
    /// Events up to this one were examined; near the log's end, those of the tail besides.
    examined: EventId,
    is_at_end: bool,
    is_reading: bool,
    is_gone: bool,
    /// What the log does not know yet, beside what the channel tells.
    died: Vec<Delivery>,
    failure: Option<LastFailure>,
    is_unrecorded: bool,
    recorded: EventId,
    recorded_at: Duration,
    recording: Option<Recording>,
    wake: Option<Duration>,
    figures: SubscriptionFigures,
}

/// Progress on its way into the log.
struct Recording {
    serial: u64,
    unrecorded: Unrecorded<EventId>,
    died: Vec<Delivery>,
    failure: Option<LastFailure>,
    examined: EventId,
}

pub(in crate::engine) struct Dispatcher {
    shared: Arc<Shared>,
    sender: Arc<dyn Sender>,
    bounds: Bounds,
    log: Box<str>,
    started: tokio::time::Instant,
    messages: mpsc::UnboundedReceiver<Message>,
    own: Webhooks,
    attached: HashMap<Uuid, Attached>,
    runs: u64,
    /// Whom events of this name go to; rebuilt when a subscription changes.
    wanting: HashMap<Name, Arc<Vec<Uuid>>>,
    tail: Option<Tail>,
    wakes: BTreeSet<(Duration, Uuid)>,
    touched: BTreeSet<Uuid>,
    stopping: Option<oneshot::Sender<()>>,
}

/// The reader of the log's end.
struct Tail {
    pages: mpsc::Receiver<Result<Page, NoPage>>,
    /// Up to here its events were handed on, as it counts.
    upto: EventId,
    /// The last event that was.
    last_event: EventId,
    reader: tokio::task::AbortHandle,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Dispatcher {
    /// The dispatcher of this engine's events, and the way to talk to it.
    pub(in crate::engine) fn new(
        shared: Arc<Shared>,
        sender: Arc<dyn Sender>,
        bounds: Bounds,
        log: &str,
    ) -> (Webhooks, Self) {
        let (messages, receiver) = mpsc::unbounded_channel();
        let own = Webhooks {
            messages,
            figures: Arc::default(),
        };
        let dispatcher = Self {
            shared,
            sender,
            bounds,
            log: log.into(),
            started: tokio::time::Instant::now(),
            messages: receiver,
            own: own.clone(),
            attached: HashMap::new(),
            runs: 0,
            wanting: HashMap::new(),
            tail: None,
            wakes: BTreeSet::new(),
            touched: BTreeSet::new(),
            stopping: None,
        };
        (own, dispatcher)
    }

    /// Delivers until it is told to stop.
    pub(in crate::engine) async fn run(mut self) {
        self.started = tokio::time::Instant::now();
        for id in self.shared.webhook_subscriptions() {
            self.load(id, None);
        }
        let mut ticks = interval(RECORD_INTERVAL);
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
            // What else is there already is taken in one go.
            for _ in 0..256 {
                match self.messages.try_recv() {
                    Ok(message) => self.take(message),
                    Err(_) => break,
                }
            }
            for id in std::mem::take(&mut self.touched) {
                self.pump(id);
            }
            if self.stopping.is_some() && self.attached.values().all(|of| of.recording.is_none()) {
                return;
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            steady: self.started.elapsed(),
            wall: self.shared.clock.now(),
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Changed(id, retried) => self.load(id, retried),
            Message::Loaded(loaded) => self.loaded(*loaded),
            Message::Ended(attempted) => self.ended(*attempted),
            Message::Page(id, run, page) => self.take_page(id, run, page),
            Message::Recorded(id, serial, is_recorded) => self.recorded(id, serial, is_recorded),
            Message::Stop(stopped) => {
                self.stopping = Some(stopped);
                self.tail = None;
                let ids: Vec<_> = self.attached.keys().copied().collect();
                for id in ids {
                    self.record(id, true);
                }
            }
        }
    }

    /// Reads what the log has of a subscription, and waits until that is durable.
    fn load(&self, id: Uuid, retried: Option<EventId>) {
        let (shared, own) = (Arc::clone(&self.shared), self.own.clone());
        tokio::spawn(async move {
            let loaded = shared.load_webhook(id, retried).await;
            loaded.map(|loaded| own.tell(Message::Loaded(Box::new(loaded))))
        });
    }

    fn loaded(&mut self, loaded: Loaded) {
        let Loaded {
            id,
            stored,
            changed,
            position,
            retried,
        } = loaded;
        self.wanting.clear();
        let Some((subscription, deliveries)) = stored else {
            self.detach(id);
            return;
        };
        let known = self.attached.get_mut(&id);
        match known.filter(|known| known.generation == deliveries.generation) {
            Some(attached) if attached.subscription.revision > subscription.revision => return,
            Some(attached) => {
                let was_paused = attached.subscription.is_paused;
                let passed = match (&self.tail, attached.is_at_end) {
                    (Some(tail), true) => tail.last_event.max(attached.examined),
                    _ => attached.examined,
                };
                // Events before the change are matched with what was said before.
                if attached.is_stale || passed.position >= changed {
                    attached.types = subscription.types.clone();
                    attached.next_types = None;
                } else {
                    attached.next_types = Some(subscription.types.clone());
                }
                attached.is_stale = false;
                attached.subscription = subscription;
                if attached.subscription.is_paused && !was_paused {
                    attached.leave_end(self.tail.as_ref());
                }
            }
            None => self.attach(id, subscription, &deliveries, position),
        }
        if let Some(retried) = retried {
            self.retry(id, &deliveries, retried);
        }
        self.touched.insert(id);
    }

    fn attach(
        &mut self,
        id: Uuid,
        subscription: WebhookSubscription,
        deliveries: &WebhookDeliveries,
        position: u64,
    ) {
        self.detach(id);
        self.runs += 1;
        let now = self.now();
        let begun = EventId {
            position,
            number: 0,
        };
        let bounds = self.bounds;
        let mut attached = Attached {
            run: self.runs,
            types: subscription.types.clone(),
            next_types: None,
            is_stale: false,
            subscription,
            generation: deliveries.generation,
            channel: Channel::new(bounds),
            kept_bytes: 0,
            examined: deliveries.examined.unwrap_or(begun),
            is_at_end: false,
            is_reading: false,
            is_gone: deliveries.is_gone,
            died: Vec::new(),
            failure: None,
            is_unrecorded: deliveries.examined.is_none(),
            recorded: deliveries.examined.unwrap_or_default(),
            recorded_at: now.steady,
            recording: None,
            wake: None,
            figures: SubscriptionFigures {
                subscription: id,
                dead: deliveries.dead.len(),
                ..SubscriptionFigures::default()
            },
        };
        for waiting in &deliveries.waiting {
            attached.resume(waiting, now);
        }
        self.attached.insert(id, attached);
        if self.tail.is_none() {
            self.tail = Some(Tail::begin(&self.shared));
        }
        // Where it has begun has to stand in the log before anything else changes there.
        self.record(id, false);
    }

    fn detach(&mut self, id: Uuid) {
        if let Some(gone) = self.attached.remove(&id)
            && let Some(wake) = gone.wake
        {
            self.wakes.remove(&(wake, id));
        }
        if self.attached.is_empty() {
            // Where nobody listens nobody reads.
            self.tail = None;
        }
    }

    fn retry(&mut self, id: Uuid, deliveries: &WebhookDeliveries, retried: EventId) {
        let now = self.now();
        let Some(attached) = self.attached.get_mut(&id) else {
            return;
        };
        let waiting = &deliveries.waiting;
        let Ok(place) = waiting.binary_search_by_key(&retried, |waiting| waiting.id) else {
            return;
        };
        if !attached.channel.hurry(retried) {
            attached.figures.dead = deliveries.dead.len();
            attached.resume(&waiting[place], now);
        }
    }

    /// Sends what may be sent, reads on where that is behind, and sees to when to look again.
    fn pump(&mut self, id: Uuid) {
        let now = self.now();
        let is_stopping = self.stopping.is_some();
        let Some(attached) = self.attached.get_mut(&id) else {
            return;
        };
        let may_send = !is_stopping && !attached.subscription.is_paused && !attached.is_gone;
        while may_send && let Some(event) = attached.channel.next(now) {
            let attempt = attached.attempt(event, now.wall, &self.log);
            let (shared, sender) = (Arc::clone(&self.shared), Arc::clone(&self.sender));
            let (own, run) = (self.own.clone(), attached.run);
            tokio::spawn(async move {
                let began = tokio::time::Instant::now();
                let sent = unless_its_future_panics(pin!(attempt.send(&shared, sender))).await;
                let outcome = sent.unwrap_or_else(|| {
                    Outcome::Sent(Delivered::Failed(Failure {
                        status: None,
                        error: "a fault of the service".into(),
                        retry_after: None,
                    }))
                });
                own.tell(Message::Ended(Box::new(Attempted {
                    subscription: id,
                    run,
                    id: event,
                    outcome,
                    took: began.elapsed(),
                })));
            });
        }
        let wake = may_send.then(|| attached.channel.wake_at()).flatten();
        if wake != attached.wake {
            if let Some(before) = attached.wake {
                self.wakes.remove(&(before, id));
            }
            if let Some(wake) = wake {
                self.wakes.insert((wake, id));
            }
            attached.wake = wake;
        }
        let is_wanting = attached.channel.has_room() && attached.channel.ready() < READY_MIN;
        let is_behind = !attached.is_at_end && !attached.is_stale && self.tail.is_some();
        if may_send && is_behind && !attached.is_reading && is_wanting {
            attached.is_reading = true;
            attached.read_page(id, &self.shared, &self.own);
        }
    }

    fn wake(&mut self) {
        let now = self.now().steady;
        while let Some((due, id)) = self.wakes.first().copied()
            && due <= now
        {
            self.wakes.remove(&(due, id));
            if let Some(attached) = self.attached.get_mut(&id) {
                attached.wake = None;
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
            outcome,
            took,
        } = attempted;
        let attached = self.attached.get_mut(&subscription);
        let Some(attached) = attached.filter(|attached| attached.run == run) else {
            return;
        };
        self.touched.insert(subscription);
        let delivered = match outcome {
            Outcome::Sent(delivered) => delivered,
            Outcome::Lost(first) => {
                attached.channel.called_back(id);
                attached.lose(first, now);
                return;
            }
            Outcome::Unread => Delivered::Failed(Failure {
                status: None,
                error: "the event could not be read".into(),
                retry_after: None,
            }),
        };
        attached.figures.attempts += 1;
        attached.figures.attempt_time += took;
        attached.is_unrecorded = true;
        match delivered {
            Delivered::Taken => {
                if let Some(Settled::Taken(carried)) = attached.channel.ended(id, Ok(()), now, 0) {
                    attached.let_go(&carried);
                }
            }
            Delivered::Gone => {
                let failure = Failure {
                    status: Some(410),
                    error: "it answered 410: the receiver is gone".into(),
                    retry_after: None,
                };
                attached.note_failure(id, &failure, now.wall);
                attached.is_gone = true;
                attached.runs_dry(&mut self.runs, self.bounds);
                tracing::warn!(%subscription, "the receiver of a webhook subscription is gone");
                self.record(subscription, true);
            }
            Delivered::Failed(failure) => {
                attached.note_failure(id, &failure, now.wall);
                attached.failed(id, &failure, now);
            }
        }
    }

    /// Events at the log's end.
    fn take_tail(&mut self, page: Option<Result<Page, NoPage>>) {
        let Some(Ok(page)) = page else {
            // The log went on faster than it was read, or ends: all catch up by themselves.
            for attached in self.attached.values_mut() {
                attached.leave_end(self.tail.as_ref());
            }
            self.touched.extend(self.attached.keys());
            let may_go_on = page.is_some() && !self.attached.is_empty();
            self.tail = may_go_on.then(|| Tail::begin(&self.shared));
            return;
        };
        let now = self.now();
        for event in &page.events {
            if event.name.kind == OWN_KIND {
                self.pass_change(event);
            }
            let wanting = match self.wanting.get(&event.name) {
                Some(wanting) => Arc::clone(wanting),
                None => self.who_wants(event.name),
            };
            for id in wanting.iter() {
                let Some(attached) = self.attached.get_mut(id) else {
                    continue;
                };
                if attached.is_at_end && event.id > attached.examined {
                    if attached.channel.has_room() {
                        attached.offer(event, now);
                    } else {
                        attached.leave_end(self.tail.as_ref());
                    }
                    self.touched.insert(*id);
                }
            }
            if let Some(tail) = &mut self.tail {
                tail.last_event = event.id;
            }
        }
        if let Some(tail) = &mut self.tail {
            tail.upto = page.next;
        }
    }

    /// The tail has come to a change of a subscription: from here on that counts.
    fn pass_change(&mut self, event: &Event) {
        let id = event.subject.rsplit_once('/');
        let Some(id) = id.and_then(|(_, id)| id.parse().ok()) else {
            return;
        };
        let attached = self.attached.get_mut(&id);
        let attached = attached.filter(|known| known.is_at_end && event.id > known.examined);
        if let Some(attached) = attached {
            self.wanting.clear();
            if attached.pass_change(event.id) {
                self.load(id, None);
            }
            self.touched.insert(id);
        }
    }

    fn who_wants(&mut self, name: Name) -> Arc<Vec<Uuid>> {
        let event_type = name.event_type();
        let wanting = self.attached.iter();
        let wanting = wanting.filter(|(_, attached)| attached.wants(&event_type));
        let wanting: Arc<Vec<_>> = Arc::new(wanting.map(|(id, _)| *id).collect());
        self.wanting.insert(name, Arc::clone(&wanting));
        wanting
    }

    /// A page for a channel that is behind.
    fn take_page(&mut self, id: Uuid, run: u64, page: Result<Page, NoPage>) {
        let now = self.now();
        let attached = self.attached.get_mut(&id);
        let Some(attached) = attached.filter(|attached| attached.run == run) else {
            return;
        };
        attached.is_reading = false;
        self.touched.insert(id);
        if attached.is_gone {
            return;
        }
        match page {
            Ok(page) => {
                for event in &page.events {
                    if !attached.channel.has_room() {
                        return;
                    }
                    if attached.is_own(event) {
                        if attached.pass_change(event.id) {
                            self.load(id, None);
                        }
                        // What follows was read with the types of before.
                        return;
                    }
                    if attached.wants(&event.event_type()) {
                        attached.offer(event, now);
                    }
                    attached.examined = event.id;
                }
                attached.examined = page.next;
                let reaches = |end: EventId| {
                    // A commit at the very end may have fewer events than the tail counts with.
                    let is_there = page.end && page.next.position >= end.position;
                    is_there || page.next >= end
                };
                let is_at_end = self.tail.as_ref().is_some_and(|tail| reaches(tail.upto));
                attached.is_at_end = is_at_end && !attached.subscription.is_paused;
            }
            Err(NoPage::Gone { earliest }) => {
                attached.lose(earliest.position, now);
                attached.skip_to(earliest.position, now);
            }
            Err(NoPage::Future | NoPage::Unavailable) => {
                // Looked at again with the next tick.
                self.touched.remove(&id);
            }
        }
    }

    /// Writes what is due, and tells how all stand.
    fn tick(&mut self) {
        let ids: Vec<_> = self.attached.keys().copied().collect();
        for id in &ids {
            self.record(*id, false);
            self.touched.insert(*id);
        }
        let figures = self.attached.values().map(|attached| SubscriptionFigures {
            waiting: attached.channel.waiting_count(),
            oldest: attached.channel.waits_since(),
            is_failing: attached.channel.is_failing(),
            needed_from: attached.needed_from(),
            ..attached.figures.clone()
        });
        let mut figures: Vec<_> = figures.collect();
        figures.sort_by_key(|figures| figures.subscription);
        let needed = figures.iter().map(|figures| figures.needed_from).min();
        self.shared.checkpointer.needed_from.set(needed);
        *self.own.figures.lock() = Arc::new(figures);
    }

    /// Writes how far a subscription is, when there is anything new, or it is time.
    fn record(&mut self, id: Uuid, is_last: bool) {
        let now = self.now();
        let tail = self.tail.as_ref().map(|tail| (tail.last_event, tail.upto));
        let Some(attached) = self.attached.get_mut(&id) else {
            return;
        };
        if attached.recording.is_some() {
            return;
        }
        let mut examined = attached.examined;
        let mut is_new = attached.is_unrecorded || !attached.channel.is_recorded();
        if attached.is_at_end
            && let Some((last_event, upto)) = tail
        {
            examined = examined.max(last_event);
            let known = attached.recorded.position + COMMITS_UNRECORDED_MAX;
            // Where the tail began, it counts with more events than there may be.
            if upto.position >= known && upto.number != u32::MAX {
                examined = examined.max(upto);
                is_new = true;
            }
        }
        let idle = now.steady.saturating_sub(attached.recorded_at);
        let is_time = is_last || idle >= IDLE_RECORD_INTERVAL;
        if !is_new && !(is_time && examined > attached.recorded) {
            return;
        }
        self.runs += 1;
        let serial = self.runs;
        let recording = Recording {
            serial,
            unrecorded: attached.channel.take_unrecorded(),
            died: std::mem::take(&mut attached.died),
            failure: attached.failure.take(),
            examined,
        };
        let waiting = recording.unrecorded.waiting.iter();
        let progress = Progress {
            generation: attached.generation,
            examined,
            waiting: waiting.filter_map(|id| attached.delivery(*id)).collect(),
            settled: recording.unrecorded.settled.clone(),
            dead: recording.died.clone(),
            failure: recording.failure.clone(),
            is_failing: attached.channel.is_failing(),
            is_gone: attached.is_gone,
        };
        attached.is_unrecorded = false;
        attached.recorded_at = now.steady;
        attached.recording = Some(recording);
        let report = Report {
            deliveries: WebhookDeliveries::KIND.key(&[id.to_string()]),
            progress,
        };
        let (shared, own) = (Arc::clone(&self.shared), self.own.clone());
        tokio::spawn(async move {
            let is_recorded = shared.record_progress(report).await;
            own.tell(Message::Recorded(id, serial, is_recorded));
        });
    }

    fn recorded(&mut self, id: Uuid, serial: u64, is_recorded: bool) {
        let Some(attached) = self.attached.get_mut(&id) else {
            return;
        };
        let is_own = |recording: &mut Recording| recording.serial == serial;
        let Some(recording) = attached.recording.take_if(is_own) else {
            return;
        };
        if is_recorded {
            attached.recorded = recording.examined;
            if self.stopping.is_some() {
                // What came while it was written.
                self.record(id, true);
            }
            return;
        }
        attached.is_unrecorded = true;
        attached.channel.not_recorded(recording.unrecorded);
        let later = std::mem::replace(&mut attached.died, recording.died);
        attached.died.extend(later);
        attached.failure = attached.failure.take().or(recording.failure);
    }
}

/// An attempt that is about to be made.
struct Attempt {
    outgoing: Outgoing,
    id: EventId,
    /// What there is to send; otherwise it is read from the log.
    has_body: bool,
}

impl Attempt {
    async fn send(mut self, shared: &Arc<Shared>, sender: Arc<dyn Sender>) -> Outcome {
        if !self.has_body {
            match shared.one_event(self.id).await {
                Ok(event) => self.outgoing.body = event.json.clone(),
                Err(outcome) => return outcome,
            }
        }
        Outcome::Sent(sender.send(self.outgoing).await)
    }
}

impl Attached {
    fn wants(&self, event_type: &str) -> bool {
        self.types
            .0
            .iter()
            .any(|pattern| pattern.matches(event_type))
    }

    /// Whether the event tells of this subscription itself, which is not told to it.
    fn is_own(&self, event: &Event) -> bool {
        let own = || subject(WebhookSubscription::READ_AT, &[&self.id()]);
        event.name.kind == OWN_KIND && *event.subject == *own()
    }

    /// Goes past a change of the subscription, which events from here on are matched by; whether
    /// it has to be read first what it has changed to.
    fn pass_change(&mut self, id: EventId) -> bool {
        self.examined = id;
        self.is_at_end = false;
        match self.next_types.take() {
            Some(types) => self.types = types,
            None => self.is_stale = true,
        }
        self.is_stale
    }

    fn offer(&mut self, event: &Arc<Event>, now: Now) {
        self.is_unrecorded = true;
        if self.is_own(event) {
            return;
        }
        let is_kept = self.kept_bytes < KEPT_BYTES_MAX;
        let carried = Carried {
            event_type: event.event_type().into(),
            subject: event.subject.clone(),
            event: is_kept.then(|| Arc::clone(event)),
            gap_from: None,
            last_status: None,
            last_error: None,
        };
        if is_kept {
            self.kept_bytes += event.json.len();
        }
        let cost = 128 + carried.event_type.len() + carried.subject.len();
        self.channel
            .offer(event.id, &event.subject, cost, carried, now);
    }

    fn id(&self) -> String {
        self.subscription.subscription_id.to_string()
    }

    fn resume(&mut self, delivery: &Delivery, now: Now) {
        let carried = Carried {
            event_type: delivery.event_type.clone(),
            subject: delivery.subject.clone(),
            event: None,
            gap_from: delivery.gap_from,
            last_status: delivery.last_status,
            last_error: delivery.last_error.clone(),
        };
        let standing = Standing {
            attempts: delivery.attempts,
            due: delivery.next_attempt_at,
        };
        let cost = delivery.cost();
        self.channel.resume(
            delivery.id,
            &delivery.subject,
            cost,
            carried,
            &standing,
            now,
        );
    }

    /// What stands in the log of an item that waits.
    fn delivery(&self, id: EventId) -> Option<Delivery> {
        let carried = self.channel.payload(id)?;
        let standing = self.channel.standing(id)?;
        Some(carried.delivery(id, standing.attempts, standing.due))
    }

    fn let_go(&mut self, carried: &Carried) {
        let bytes = carried.event.as_ref().map_or(0, |event| event.json.len());
        self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
    }

    fn attempt(&self, id: EventId, now: Instant, log: &str) -> Attempt {
        let carried = self.channel.payload(id);
        let event = carried.and_then(|carried| carried.event.as_ref());
        let gap = carried.and_then(|carried| carried.gap_from);
        let body = match (event, gap) {
            (Some(event), _) => Some(event.json.clone()),
            (None, Some(from)) => Some(self.gap(id, from, log)),
            (None, None) => None,
        };
        Attempt {
            has_body: body.is_some(),
            outgoing: Outgoing {
                subscription: self.subscription.subscription_id,
                url: self.subscription.url.clone(),
                id: format!("{log}-{id}"),
                body: body.unwrap_or_default(),
                secret_numbers: self.subscription.secret_numbers(now),
                now,
            },
            id,
        }
    }

    /// The event that tells of a gap, up to the position of `id`.
    fn gap(&self, id: EventId, from: u64, log: &str) -> Bytes {
        let to = id.position;
        let subject = subject(WebhookSubscription::READ_AT, &[&self.id()]);
        let json = format!(
            "{{\"specversion\":\"1.0\",\"id\":\"{id}\",\"source\":\"urn:carebook:{log}\",\
             \"type\":\"carebook.gap\",\"subject\":\"{subject}\",\"sequence\":\"{to:020}\",\
             \"datacontenttype\":\"application/json\",\"data\":{{\"from\":{from},\"to\":{to}}}}}"
        );
        json.into()
    }

    /// The log has given up what lies before `first`: what of it waits is told as a gap.
    fn lose(&mut self, first: u64, now: Now) {
        let waiting = self.channel.waiting();
        let lost: Vec<_> = waiting
            .filter(|(id, carried)| id.position < first && carried.gap_from.is_none())
            .map(|(id, _)| id)
            .collect();
        let Some(from) = lost.first().map(|id| id.position) else {
            return;
        };
        for id in lost {
            if let Some((carried, _)) = self.channel.remove(id) {
                self.let_go(&carried);
            }
        }
        self.tell_gap(from, first, now);
    }

    /// Goes on at `first`, since the log has nothing before it.
    fn skip_to(&mut self, first: u64, now: Now) {
        let from = self.examined.position + 1;
        if from < first {
            self.tell_gap(from, first, now);
            self.examined = EventId::behind(first - 1);
        }
    }

    fn tell_gap(&mut self, from: u64, first: u64, now: Now) {
        let id = EventId::behind(first - 1);
        let subject = subject(WebhookSubscription::READ_AT, &[&self.id()]);
        let before = self.channel.payload(id).and_then(|known| known.gap_from);
        if before.is_some() {
            self.channel.remove(id);
        }
        let from = before.map_or(from, |before| before.min(from));
        tracing::warn!(
            subscription = %self.subscription.subscription_id,
            from,
            to = first - 1,
            "the log has given up what a webhook subscription has not had yet"
        );
        let carried = Carried {
            event_type: "carebook.gap".into(),
            subject: subject.as_str().into(),
            event: None,
            gap_from: Some(from),
            last_status: None,
            last_error: None,
        };
        self.channel.offer(id, &subject, 256, carried, now);
    }

    fn note_failure(&mut self, id: EventId, failure: &Failure, at: Instant) {
        self.figures.failures += 1;
        self.failure = Some(LastFailure {
            id,
            at,
            status: failure.status,
            error: failure.error.clone(),
        });
    }

    fn failed(&mut self, id: EventId, failure: &Failure, now: Now) {
        let mut dropped = 0;
        if let Some(carried) = self.channel.payload_mut(id) {
            carried.last_status = failure.status;
            carried.last_error = Some(failure.error.clone());
            // It may wait for hours.
            dropped = carried.event.take().map_or(0, |event| event.json.len());
        }
        self.kept_bytes = self.kept_bytes.saturating_sub(dropped);
        let chance = uuid::Uuid::new_v4().as_bytes()[0];
        let settled = self.channel.ended(id, Err(failure), now, chance);
        if let Some(Settled::Dead { payload, attempts }) = settled {
            self.figures.dead += 1;
            self.died.push(payload.delivery(id, attempts, None));
            tracing::warn!(
                subscription = %self.subscription.subscription_id,
                event = %id,
                "a webhook delivery is given up: it is dead until it is retried"
            );
        }
    }

    /// Lets go of all that waits; what is on its way ends for nobody.
    fn runs_dry(&mut self, runs: &mut u64, bounds: Bounds) {
        *runs += 1;
        self.run = *runs;
        self.channel = Channel::new(bounds);
        self.kept_bytes = 0;
        self.is_reading = false;
        self.is_at_end = false;
    }

    /// From here on it reads by itself.
    fn leave_end(&mut self, tail: Option<&Tail>) {
        if self.is_at_end {
            let upto = tail.map(|tail| tail.last_event).unwrap_or_default();
            self.examined = self.examined.max(upto);
            self.is_at_end = false;
        }
    }

    /// The first position that is still needed of the log, by what the log itself knows.
    fn needed_from(&self) -> u64 {
        let waiting = self.channel.oldest().map(|id| id.position);
        let examined = self.recorded.min(self.examined).position + 1;
        waiting.map_or(examined, |waiting| waiting.min(examined))
    }

    fn read_page(&self, id: Uuid, shared: &Arc<Shared>, own: &Webhooks) {
        let patterns = self.types.0.iter().map(|pattern| pattern.as_str());
        // And what changes it.
        let patterns = patterns.chain([OWN_TYPES]);
        let filter = Arc::new(EventFilter {
            types: patterns
                .filter_map(|pattern| TypePattern::parse(pattern))
                .collect(),
            subject: None,
        });
        let (shared, own) = (Arc::clone(shared), own.clone());
        let (after, run) = (self.examined, self.run);
        tokio::spawn(async move {
            let page = shared.events(after, &filter, OWN_PAGE).await;
            if matches!(page, Err(NoPage::Unavailable)) {
                sleep(READ_PAUSE).await;
            }
            own.tell(Message::Page(id, run, page));
        });
    }
}

impl Carried {
    fn delivery(&self, id: EventId, attempts: u32, due: Option<Instant>) -> Delivery {
        Delivery {
            id,
            event_type: self.event_type.clone(),
            subject: self.subject.clone(),
            attempts,
            next_attempt_at: due,
            last_status: self.last_status,
            last_error: self.last_error.clone(),
            gap_from: self.gap_from,
        }
    }
}

impl Tail {
    /// Begins behind what is durable.
    fn begin(shared: &Arc<Shared>) -> Self {
        let (sender, pages) = mpsc::channel(2);
        let upto = EventId::behind(shared.journal.durable());
        let shared = Arc::clone(shared);
        let reader = tokio::spawn(async move {
            let all = Arc::new(EventFilter::default());
            let mut after = upto;
            while shared.feed.beyond(after.position).await {
                let page = shared.events(after, &all, TAIL_PAGE).await;
                if matches!(page, Err(NoPage::Unavailable | NoPage::Future)) {
                    sleep(READ_PAUSE).await;
                    continue;
                }
                if let Ok(page) = &page {
                    after = page.next;
                }
                let is_lost = page.is_err();
                if sender.send(page).await.is_err() || is_lost {
                    return;
                }
            }
        });
        Self {
            pages,
            upto,
            last_event: EventId::NONE,
            reader: reader.abort_handle(),
        }
    }
}

/// The next page of the tail; for ever, where there is none.
async fn next_page(tail: &mut Option<Tail>) -> Option<Result<Page, NoPage>> {
    match tail {
        Some(tail) => tail.pages.recv().await,
        None => std::future::pending().await,
    }
}

impl Shared {
    /// The subscriptions that there are.
    fn webhook_subscriptions(&self) -> Vec<Uuid> {
        let view = ReadView::new(&self.tables);
        let all = view.all_listed::<WebhookSubscription>(subscriptions());
        all.iter().map(|one| one.subscription_id).collect()
    }

    /// What stands of a subscription, once it is durable; `None` when the log has failed.
    async fn load_webhook(&self, id: Uuid, retried: Option<EventId>) -> Option<Loaded> {
        let text = [id.to_string()];
        let (own, beside) = (
            WebhookSubscription::KIND.key(&text),
            WebhookDeliveries::KIND.key(&text),
        );
        loop {
            let (stored, positions) = {
                let view = ReadView::new(&self.tables);
                let subscription = view.at::<WebhookSubscription>(own);
                let subscription = subscription.filter(|subscription| !subscription.is_deleted);
                let stored = subscription.zip(view.at::<WebhookDeliveries>(beside));
                (stored, (view.position(own), view.position(beside)))
            };
            self.lanes.wait(positions.0.max(positions.1)).await.ok()?;
            // Both are of one time only while neither has changed.
            if (self.tables.position(own), self.tables.position(beside)) == positions {
                return Some(Loaded {
                    id,
                    stored,
                    changed: positions.0,
                    position: positions.1,
                    retried,
                });
            }
        }
    }

    /// Commits how far deliveries are; whether that is durable.
    async fn record_progress(self: &Arc<Self>, report: Report) -> bool {
        let request = CommandRequest {
            row: REPORTS.first(),
            actor: Arc::new(Actor::nobody()),
            command: Box::new(report),
            header_key: None,
        };
        let executed = unless_its_future_panics(pin!(self.execute(request, None, false))).await;
        matches!(executed, Some(CommandResult::Done { .. }))
    }

    /// One event of the log.
    async fn one_event(&self, id: EventId) -> Result<Arc<Event>, Outcome> {
        let after = match id.number.checked_sub(1) {
            Some(number) => EventId { number, ..id },
            None => EventId::behind(id.position.saturating_sub(1)),
        };
        match self.events(after, &Arc::default(), 1).await {
            Ok(page) => match page.events.into_iter().next() {
                Some(event) if event.id == id => Ok(event),
                _ => Err(Outcome::Unread),
            },
            Err(NoPage::Gone { earliest }) => Err(Outcome::Lost(earliest.position)),
            Err(NoPage::Future | NoPage::Unavailable) => Err(Outcome::Unread),
        }
    }
}
