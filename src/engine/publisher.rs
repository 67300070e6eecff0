//! The publisher: hands every event to an outside sink, one after the other in the log's order, each only when its
//! predecessor is acknowledged. Its progress is a resource in the log, recorded at most once a second, more often in
//! the first two seconds, and when the service ends.
//!
//! After a crash the publisher repeats the events acknowledged since the last record of its progress. Each event has
//! an identifier by which the sink can recognize it.
//!
//! A sink that does not answer delays only the publisher, which retries after pauses that grow to a maximum.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Engine;
use super::channel::schedule::recorded_every;
use super::core::{CommandResult, Shared};
use super::feed::{EventFilter, EventReader, NoPage};
use super::publisher_counts::PublisherFigures;
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::RECORD_PUBLICATION;
use crate::domain::event_id::EventId;
use crate::domain::publication::{Publication, Published};
use crate::domain::resource::ReadView;
use crate::engine::role::writer_proof::CONFIRM_AGAIN;
use crate::journal::events::Event;

/// Pause after the first failure; each further pause is twice as long, up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum number of positions by which the recorded progress, from which the log is kept, may lag where commits have
/// no events.
const RECORDED_BEHIND_MAX: u64 = 10_000;
/// Timeout, when the service ends, for the acknowledgement of an event in flight, and then for the commit of the
/// progress.
const LAST_WAIT: Duration = Duration::from_millis(300);
/// How long a confirmation that this process is the writer counts. Events are handed over one after the other, and
/// each would otherwise wait for an append. If a writer that was replaced since repeats an event, the sink knows it
/// by its identifier.
const CONFIRMED_FOR: Duration = Duration::from_secs(1);
/// Interval between log lines about a failure that lasts.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Number of events read at once.
const PAGE: usize = 1_000;

/// Outcome of handing an event over: acknowledged, or the reason why not.
pub type Publishing<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A sink to which events are published.
pub trait EventSink: Send + Sync {
    /// Hands the event over. It may have been handed over before: `id`, which is `{log id}-{event id}`, identifies
    /// it.
    ///
    /// # Errors
    /// Returns the reason when the event is not acknowledged, or that is unknown.
    fn publish<'a>(&'a self, id: String, event: &'a Event) -> Publishing<'a>;

    /// Waits until a retry before the end of the pause makes sense, since a connection is back.
    fn is_back(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Whether the publisher continues with the next event.
enum Next {
    /// The service goes on.
    GoOn,
    /// The service ends.
    End,
}

/// Publishes the events of one engine.
pub struct Publisher {
    engine: Arc<Engine>,
    sink: Arc<dyn EventSink>,
    filter: Arc<EventFilter>,
    /// The last event that was passed, published or not.
    passed: EventId,
    /// The last acknowledged event, where the log does not record it yet.
    unrecorded: Option<EventId>,
    /// The position of the recorded progress.
    recorded_position: u64,
    begun: Instant,
    /// When recording was last tried; at first, when this publisher was created.
    recorded: Instant,
    /// When the present failure was last logged.
    told: Option<Instant>,
    /// When this process was last confirmed to be the writer.
    confirmed: Option<Instant>,
}

impl Publisher {
    /// Creates a publisher that continues from the recorded progress; the first one begins with the earliest event
    /// that is kept.
    #[must_use]
    pub fn new(engine: &Arc<Engine>, sink: Arc<dyn EventSink>) -> Self {
        let passed = engine.begin_to_publish();
        Self {
            engine: Arc::clone(engine),
            sink,
            filter: Arc::default(),
            passed,
            unrecorded: None,
            recorded_position: passed.position,
            begun: Instant::now(),
            recorded: Instant::now(),
            told: None,
            confirmed: None,
        }
    }

    /// Publishes until the engine's feed ends, on a runtime of its own.
    pub async fn run(mut self) {
        let mut failed = 0;
        while !self.engine.feed().has_ended() {
            let page = self
                .engine
                .events(EventReader::Delivery, self.passed, &self.filter, PAGE)
                .await;
            let page = match page {
                Ok(page) => page,
                Err(NoPage::Gone { earliest }) => {
                    self.skip_to(earliest);
                    continue;
                }
                Err(NoPage::Future | NoPage::QueueFull | NoPage::Unavailable) => {
                    failed += 1;
                    let _ = timeout(pause(failed), self.engine.feed().ended()).await;
                    continue;
                }
            };
            failed = 0;
            for event in &page.events {
                if let Next::End = self.hand_over(event).await {
                    return self.record().await;
                }
                self.passed = event.id;
            }
            self.passed = page.next;
            let counts = &self.engine.shared.published;
            counts.through.store(page.next.position, Ordering::Relaxed);
            if page.end {
                self.wait_for_more().await;
            }
        }
        self.record().await;
    }

    /// Moves on to this event, since the log has given up the earlier ones.
    fn skip_to(&mut self, earliest: EventId) {
        tracing::warn!(
            after = %self.passed,
            %earliest,
            "the log has given up events before they were published"
        );
        let counts = &self.engine.shared.published;
        counts.gaps.fetch_add(1, Ordering::Relaxed);
        self.passed = EventId {
            position: earliest.position.saturating_sub(1),
            number: 0,
        };
    }

    async fn wait_for_more(&mut self) {
        if self.passed.position - self.recorded_position > RECORDED_BEHIND_MAX {
            self.unrecorded = Some(self.passed);
        }
        let beyond = self.engine.feed().beyond(self.passed.position);
        if self.unrecorded.is_none() {
            beyond.await;
            return;
        }
        if timeout_at(self.due(), beyond).await.is_err() {
            self.record().await;
        }
    }

    /// Hands the event over again and again until it is acknowledged.
    async fn hand_over(&mut self, event: &Event) -> Next {
        let engine = Arc::clone(&self.engine);
        let counts = &engine.shared.published;
        let seen = u64::try_from(engine.shared.clock.steady().as_millis()).unwrap_or(u64::MAX);
        counts.seen_since.store(seen, Ordering::Relaxed);
        counts
            .waits_since
            .store(event.at.millis(), Ordering::Relaxed);
        let mut failed = 0;
        loop {
            if !self.until_confirmed().await {
                return Next::End;
            }
            let began = Instant::now();
            match self.attempt(event).await {
                Some(Ok(())) => {
                    let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    counts.micros.fetch_add(micros, Ordering::Relaxed);
                    counts.published.fetch_add(1, Ordering::Relaxed);
                    counts.waits_since.store(0, Ordering::Relaxed);
                    // All events of earlier commits are published.
                    let before = event.id.position.saturating_sub(1);
                    counts.through.store(before, Ordering::Relaxed);
                    self.succeeded();
                    self.unrecorded = Some(event.id);
                    if Instant::now() >= self.due() {
                        self.record().await;
                    }
                    return Next::GoOn;
                }
                Some(Err(why)) => {
                    failed += 1;
                    self.failed(event, &why);
                    if Instant::now() >= self.due() {
                        self.record().await;
                    }
                    let again = async {
                        tokio::select! {
                            () = sleep(pause(failed)) => {}
                            () = self.sink.is_back() => {}
                        }
                    };
                    tokio::select! {
                        () = again => {}
                        () = engine.feed().ended() => return Next::End,
                    }
                }
                None => return Next::End,
            }
        }
    }

    /// Waits until this process is known to be the writer, as of at most a second ago; `false` when the service ends
    /// before.
    async fn until_confirmed(&mut self) -> bool {
        let is_known = |at: Instant| at.elapsed() < CONFIRMED_FOR;
        if self.confirmed.is_some_and(is_known) {
            return true;
        }
        let right = &self.engine.shared.writer_proof;
        let confirmed = async {
            loop {
                let asked = Instant::now();
                if right.confirm_now().await {
                    return asked;
                }
                sleep(CONFIRM_AGAIN).await;
            }
        };
        let confirmed = tokio::select! {
            biased;
            confirmed = confirmed => Some(confirmed),
            () = self.engine.feed().ended() => None,
        };
        self.confirmed = confirmed;
        confirmed.is_some()
    }

    /// Makes one attempt; `None` when the service ends before the event is acknowledged.
    async fn attempt(&self, event: &Event) -> Option<Result<(), String>> {
        let feed = self.engine.feed();
        let id = format!("{}-{}", feed.log_id(), event.id);
        let attempt = pin!(async { self.sink.publish(id, event).await });
        let mut attempt = pin!(unless_its_future_panics(attempt));
        let ended = tokio::select! {
            biased;
            done = &mut attempt => Ok(done),
            () = feed.ended() => Err(()),
        };
        let done = match ended {
            Ok(done) => done,
            // An event acknowledged now need not be sent again by the next start.
            Err(()) => match timeout(LAST_WAIT, attempt).await {
                Ok(Some(Ok(()))) => Some(Ok(())),
                _ => return None,
            },
        };
        Some(done.unwrap_or_else(|| Err("it panicked".to_owned())))
    }

    fn succeeded(&mut self) {
        let counts = &self.engine.shared.published;
        if counts.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!("events are published again");
        }
        self.told = None;
    }

    fn failed(&mut self, event: &Event, why: &str) {
        let counts = &self.engine.shared.published;
        counts.failures.fetch_add(1, Ordering::Relaxed);
        counts.is_failing.store(true, Ordering::Relaxed);
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            self.told = Some(Instant::now());
            tracing::warn!(event = %event.id, why, "an event is not published, and tried again");
        }
    }

    /// Returns when the publisher's progress is recorded next.
    fn due(&self) -> Instant {
        self.recorded + recorded_every(self.begun.elapsed())
    }

    /// Records the publisher's progress, if it has changed.
    async fn record(&mut self) {
        let Some(through) = self.unrecorded else {
            return;
        };
        self.recorded = Instant::now();
        let report = Published {
            position: through.position,
            number: through.number,
        };
        let recorded = self.engine.shared.report(RECORD_PUBLICATION, report);
        let recorded = match self.engine.feed().has_ended() {
            // The commit is made at once, but its durability may remain unknown while the service ends.
            true => timeout(LAST_WAIT, recorded).await.ok(),
            false => Some(recorded.await),
        };
        // After a failure the progress is recorded with a later event.
        if let Some(CommandResult::Done { .. }) = recorded {
            self.unrecorded = None;
            self.recorded_position = through.position;
            let needed_from = &self.engine.shared.checkpointer.needed_from;
            needed_from.set_for_publisher(through.position);
        }
    }
}

/// Returns the pause after this many failures, shortened at random by up to a half.
#[must_use]
pub fn pause(failed: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failed.saturating_sub(1).min(16));
    let whole = PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX);
    let chance = uuid::Uuid::new_v4().as_bytes()[0];
    whole - whole / 2 * u32::from(chance) / 255
}

impl Shared {
    /// Returns the recorded progress of the publisher.
    pub(super) fn published_through(&self) -> Option<EventId> {
        let stored = ReadView::new(&self.tables).at::<Publication>(Publication::the_key())?;
        Some(EventId {
            position: stored.position,
            number: stored.number,
        })
    }
}

impl Engine {
    /// Returns the publisher's figures; `None` where there is no publisher.
    #[must_use]
    pub fn publisher_figures(&self) -> Option<PublisherFigures> {
        let now = self.shared.both_clocks();
        self.shared.published.figures(self.durable(), now)
    }

    /// Keeps the log for the publisher from its recorded progress on, and returns that. The first publisher begins
    /// with the earliest event that is kept. To be called before [`Engine::start_checkpointer`].
    pub fn begin_to_publish(&self) -> EventId {
        let shared = &self.shared;
        let passed = shared.published_through();
        let passed = passed.unwrap_or_else(|| self.before_first_event());
        let counts = &shared.published;
        counts.through.store(passed.position, Ordering::Relaxed);
        counts.is_on.store(true, Ordering::Release);
        let needed_from = &shared.checkpointer.needed_from;
        needed_from.set_for_publisher(passed.position);
        passed
    }
}
