//! An active subscription: its channel, and the progress that the log does not record yet.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::sleep;
use uuid::Uuid;

use super::attempt::Attempt;
use super::handle::{Message, OutgoingEvent, SubscriptionFigures, Webhooks};
use crate::base::text::EventTypePattern;
use crate::base::time::Timestamp;
use crate::domain::event::{PublicEvents as _, subject};
use crate::domain::event_id::EventId;
use crate::domain::resource::Resource as _;
use crate::domain::webhook::deliveries::{Delivery, LastFailure, WebhookDeliveries};
use crate::domain::webhook::subscription::{EventTypePatterns, WebhookSubscription};
use crate::engine::channel::schedule::{Failure, recorded_every};
use crate::engine::channel::{
    Bounds, Channel, Now, ReceiverHealth, RetryState, Settled, Unrecorded,
};
use crate::engine::core::Shared;
use crate::engine::feed::{EventFilter, EventReader, NoPage};
use crate::journal::events::{Event, GAP_TYPE, gap_event};

const OWN_PAGE: usize = 500;
/// Maximum bytes of events that a channel keeps in memory; further ones are read from the log again.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Number of deliveries of one subscription that may always wait, however many wait over all.
const OWN_SHARE: usize = 100;
/// How long to wait when the log cannot be read.
const PAUSE: Duration = Duration::from_secs(1);
/// A receiver whose newest attempt has taken this long is slow, or silent where it has failed: its attempts hold slots
/// that others need.
const LONG_WAIT: Duration = Duration::from_secs(2);
/// Kind of the events about subscriptions.
pub(super) const OWN_KIND: &str = WebhookSubscription::KIND.name;
const OWN_TYPES: &str = "carebook.webhook-subscription.*";

/// Payload of an item of a channel.
pub(super) struct CarriedEvent {
    pub(super) event_type: Box<str>,
    pub(super) subject: Box<str>,
    /// The event, if there was room to keep it.
    pub(super) event: Option<Arc<Event>>,
    pub(super) gap_from: Option<u64>,
    pub(super) last_status: Option<u16>,
    pub(super) last_error: Option<Box<str>>,
}

/// A subscription that is being served.
pub(super) struct ActiveSubscription {
    /// Distinguishes this channel from the subscription's earlier ones.
    pub(super) run: u64,
    pub(super) subscription: WebhookSubscription,
    /// Event types that events are matched with: those of the subscription as of `examined`.
    pub(super) types: EventTypePatterns,
    pub(super) generation: u32,
    pub(super) channel: Channel<EventId, CarriedEvent>,
    pub(super) kept_bytes: usize,
    /// Last event examined by the subscription's own reading; near the log's end, the tail's events are examined
    /// besides.
    pub(super) examined: EventId,
    /// Position of the commit as of which the subscription is known, and of the last change of it that reading has
    /// passed. Events after a change are sent as that change says.
    pub(super) known_at: u64,
    pub(super) changed_at: u64,
    pub(super) is_at_end: bool,
    pub(super) is_reading: bool,
    pub(super) is_gone: bool,
    /// Dead deliveries that the log does not record yet, beside what the channel reports.
    pub(super) died: Vec<Delivery>,
    pub(super) failure: Option<LastFailure>,
    pub(super) is_unrecorded: bool,
    pub(super) recorded: EventId,
    pub(super) recorded_at: Duration,
    /// When the subscription was attached, since the dispatcher's start.
    pub(super) loaded_at: Duration,
    pub(super) recording: Option<Recording>,
    pub(super) wake: Option<Duration>,
    /// The last event whose time was requested from the log.
    pub(super) dating: Option<EventId>,
    pub(super) figures: SubscriptionFigures,
}

/// Progress that is being written to the log.
pub(super) struct Recording {
    pub(super) serial: u64,
    pub(super) unrecorded: Unrecorded<EventId>,
    pub(super) died: Vec<Delivery>,
    pub(super) failure: Option<LastFailure>,
    pub(super) examined: EventId,
}

/// Returns the event types that a change of a subscription sets; `None` when it changes something else.
fn types_said(event: &Event) -> Option<EventTypePatterns> {
    #[derive(Deserialize)]
    struct Told {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        types: Option<EventTypePatterns>,
    }
    let told: Told = serde_json::from_slice(&event.json).ok()?;
    told.data.types
}

/// What the log says of a receiver. One that is not failing, and has taken all that its subscription has examined, may
/// count as taking; one for which something waits may not have answered yet.
pub(super) fn health(stored: &WebhookDeliveries) -> ReceiverHealth {
    let last = stored.last_failure.as_ref();
    let is_silent = last.is_some_and(|failure| failure.status.is_none());
    let has_taken = stored.examined.is_some() && stored.waiting.is_empty();
    match (stored.is_failing, is_silent, has_taken) {
        (true, true, _) => ReceiverHealth::Silent,
        (true, false, _) => ReceiverHealth::Failing,
        (false, _, true) => ReceiverHealth::Taking,
        (false, _, false) => ReceiverHealth::Unknown,
    }
}

impl ActiveSubscription {
    pub(super) fn wants(&self, event_type: &str) -> bool {
        self.types
            .0
            .iter()
            .any(|pattern| pattern.matches(event_type))
    }

    /// Whether more deliveries may wait, where `waiting` do over all subscriptions. Each subscription may always have
    /// some: a receiver that is down must not keep events from the others. A paused one may have more than that only
    /// while less than half of the total is taken.
    pub(super) fn has_room(&self, waiting: usize, waiting_max: usize) -> bool {
        let most = match self.subscription.is_paused {
            true => waiting_max / 2,
            false => waiting_max,
        };
        let is_crowded = waiting >= most && self.channel.waiting_count() >= OWN_SHARE;
        self.channel.has_room() && !is_crowded
    }

    /// Whether the event is about this subscription itself, which does not get such events.
    pub(super) fn is_own(&self, event: &Event) -> bool {
        let own = || subject(WebhookSubscription::READ_AT, &[&self.id()]);
        event.name.kind == OWN_KIND && *event.subject == *own()
    }

    /// Moves past a change of the subscription: later events are matched with the types that this change sets,
    /// whatever changes have followed it since.
    pub(super) fn pass_change(&mut self, event: &Event) {
        self.examined = event.id;
        self.is_at_end = false;
        self.changed_at = event.id.position;
        if let Some(types) = types_said(event) {
            self.types = types;
        }
    }

    /// Takes over the subscription as it is at `position`.
    pub(super) fn update_subscription(
        &mut self,
        position: u64,
        subscription: &WebhookSubscription,
    ) {
        if self.subscription.url != subscription.url {
            // Nothing is known of another receiver.
            self.channel.set_health(ReceiverHealth::Unknown);
        }
        self.known_at = position;
        self.subscription = subscription.clone();
    }

    /// Whether the subscription is known as of its last change passed; until then nothing is sent.
    pub(super) fn knows_itself(&self) -> bool {
        self.known_at >= self.changed_at
    }

    pub(super) fn offer(&mut self, event: &Arc<Event>, now: Now) {
        self.is_unrecorded = true;
        if self.is_own(event) {
            return;
        }
        // The pause may be long, so the event is not kept in memory.
        let is_kept = !self.subscription.is_paused && self.kept_bytes < KEPT_BYTES_MAX;
        let carried = CarriedEvent {
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
        self.channel.set_time(event.id, event.at);
    }

    /// Returns the event that waits longest if its time is to be read from the log, which happens once for each
    /// event. Stored deliveries do not include it.
    pub(super) fn undated(&mut self) -> Option<EventId> {
        let id = self.channel.oldest_undated()?;
        let is_event = self.channel.payload(id)?.gap_from.is_none();
        let is_new = is_event && self.dating != Some(id);
        self.dating = Some(id);
        is_new.then_some(id)
    }

    pub(super) fn id(&self) -> String {
        self.subscription.subscription_id.to_string()
    }

    /// Takes back progress that was not recorded, or perhaps not; the next record includes it.
    pub(super) fn take_back(&mut self, recording: Recording) {
        self.is_unrecorded = true;
        self.channel.not_recorded(recording.unrecorded);
        let later = std::mem::replace(&mut self.died, recording.died);
        self.died.extend(later);
        // A delivery that was retried since is not dead.
        let channel = &self.channel;
        self.died.retain(|dead| channel.payload(dead.id).is_none());
        self.failure = self.failure.take().or(recording.failure);
    }

    pub(super) fn resume(&mut self, delivery: &Delivery, now: Now) {
        let carried = CarriedEvent {
            event_type: delivery.event_type.clone(),
            subject: delivery.subject.clone(),
            event: None,
            gap_from: delivery.gap_from,
            last_status: delivery.last_status,
            last_error: delivery.last_error.clone(),
        };
        let retry_state = RetryState {
            attempts: delivery.attempts,
            due: delivery.next_attempt_at,
            asked: None,
        };
        let cost = delivery.cost();
        self.channel.resume(
            delivery.id,
            &delivery.subject,
            cost,
            carried,
            &retry_state,
            now,
        );
    }

    /// Makes a delivery that the log stores as waiting due at once. It may have died without the log's knowing yet;
    /// then it begins anew, as one stored in the log.
    pub(super) fn retry(&mut self, delivery: &Delivery, now: Now) {
        if self.channel.hurry(delivery.id) {
            return;
        }
        self.died.retain(|dead| dead.id != delivery.id);
        let anew = Delivery {
            attempts: 0,
            next_attempt_at: None,
            ..delivery.clone()
        };
        self.resume(&anew, now);
        // The record of its death may be in flight; this marks it to be recorded as waiting after that.
        self.channel.hurry(delivery.id);
    }

    /// Counts the dead deliveries that the log does not have yet.
    pub(super) fn dead_beside(&self, stored: &WebhookDeliveries) -> usize {
        let recording = self.recording.iter().flat_map(|recording| &recording.died);
        let died = self.died.iter().chain(recording).map(|dead| dead.id);
        died.filter(|id| !stored.is_dead(*id) && self.channel.payload(*id).is_none())
            .count()
    }

    /// Returns what the log stores of a waiting item.
    pub(super) fn delivery(&self, id: EventId, now: Now) -> Option<Delivery> {
        let carried = self.channel.payload(id)?;
        let retry_state = self.channel.retry_state(id, now)?;
        Some(carried.delivery(id, retry_state.attempts, retry_state.due))
    }

    pub(super) fn let_go(&mut self, carried: &CarriedEvent) {
        let bytes = carried.event.as_ref().map_or(0, |event| event.json.len());
        self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
    }

    pub(super) fn attempt(&self, id: EventId, now: Timestamp, log: &str) -> Attempt {
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
            outgoing: OutgoingEvent {
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

    /// Whether it is time to record taken deliveries, before the next tick.
    pub(super) fn is_soon_to_record(&self, now: Duration) -> bool {
        let (age, since) = (now - self.loaded_at, now - self.recorded_at);
        since >= recorded_every(age)
    }

    /// Builds the event that reports a gap from position `from` to that of `id`.
    fn gap(&self, id: EventId, from: u64, log: &str) -> Bytes {
        let subject = subject(WebhookSubscription::READ_AT, &[&self.id()]);
        gap_event(log, id, &subject, from)
    }

    /// Replaces the waiting deliveries before `first`, which the log has given up, by a gap event. Its range ends with
    /// the last of them: what follows was taken, or did not match, or was not read and is told by
    /// [`ActiveSubscription::skip_to`].
    pub(super) fn lose(&mut self, first: u64, now: Now) {
        let waiting = self.channel.waiting();
        let lost: Vec<_> = waiting
            .filter(|(id, carried)| id.position < first && carried.gap_from.is_none())
            .map(|(id, _)| id)
            .collect();
        let (Some(from), Some(to)) = (lost.first(), lost.last()) else {
            return;
        };
        let (from, to) = (from.position, to.position);
        for id in lost {
            if let Some((carried, _)) = self.channel.remove(id) {
                self.let_go(&carried);
            }
        }
        self.tell_gap(from, to, now);
    }

    /// Continues at `first`, since the log has nothing before it.
    pub(super) fn skip_to(&mut self, first: u64, now: Now) {
        let from = self.examined.goes_on_at();
        if from < first {
            self.tell_gap(from, first - 1, now);
            self.examined = EventId::behind(first - 1);
        }
    }

    fn tell_gap(&mut self, from: u64, to: u64, now: Now) {
        let id = EventId::behind(to);
        let subject = subject(WebhookSubscription::READ_AT, &[&self.id()]);
        let before = self.channel.payload(id).and_then(|known| known.gap_from);
        if before.is_some() {
            self.channel.remove(id);
        }
        let from = before.map_or(from, |before| before.min(from));
        tracing::warn!(
            subscription = %self.subscription.subscription_id,
            from,
            to,
            "the log has given up what a webhook subscription has not had yet"
        );
        let carried = CarriedEvent {
            event_type: GAP_TYPE.into(),
            subject: subject.as_str().into(),
            event: None,
            gap_from: Some(from),
            last_status: None,
            last_error: None,
        };
        self.channel.offer(id, &subject, 256, carried, now);
    }

    pub(super) fn note_failure(&mut self, id: EventId, failure: &Failure, at: Timestamp) {
        self.figures.failures += 1;
        self.failure = Some(LastFailure {
            id,
            at,
            status: failure.status,
            error: failure.error.clone(),
        });
    }

    pub(super) fn failed(&mut self, id: EventId, failure: &Failure, now: Now) {
        let mut dropped = 0;
        if let Some(carried) = self.channel.payload_mut(id) {
            carried.last_status = failure.status;
            carried.last_error = Some(failure.error.clone());
            // The wait may take hours, so the event is not kept in memory.
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

    /// Notes how long the newest attempt has taken.
    pub(super) fn note_wait(&mut self, took: Duration, is_taken: bool) {
        if took >= LONG_WAIT {
            self.channel.set_health(match is_taken {
                true => ReceiverHealth::Slow,
                false => ReceiverHealth::Silent,
            });
        }
    }

    /// Drops all waiting deliveries; results of attempts in flight will be ignored.
    pub(super) fn drop_waiting(&mut self, runs: &mut u64, bounds: Bounds) {
        *runs += 1;
        self.run = *runs;
        self.channel = Channel::new(bounds);
        self.kept_bytes = 0;
        self.is_reading = false;
        self.is_at_end = false;
    }

    /// From here on the subscription reads its own pages.
    pub(super) fn leave_end(&mut self, last_event: EventId) {
        if self.is_at_end {
            self.examined = self.examined.max(last_event);
            self.is_at_end = false;
        }
    }

    /// Returns the first position that deliveries still need of the log, by what the log itself records.
    pub(super) fn needed_from(&self) -> u64 {
        let waiting = self.channel.oldest().map(|id| id.position);
        let unexamined = self.recorded.min(self.examined).goes_on_at();
        waiting.map_or(unexamined, |waiting| waiting.min(unexamined))
    }

    pub(super) fn read_page(&self, id: Uuid, shared: &Arc<Shared>, own: &Webhooks) {
        let patterns = self.types.0.iter().map(|pattern| pattern.as_str());
        // Changes of subscriptions are read as well.
        let patterns = patterns.chain([OWN_TYPES]);
        let filter = Arc::new(EventFilter {
            types: patterns.filter_map(EventTypePattern::parse).collect(),
            subject: None,
        });
        let (shared, own) = (Arc::clone(shared), own.clone());
        let (after, run) = (self.examined, self.run);
        tokio::spawn(async move {
            let reader = EventReader::Webhook;
            let page = shared.events(reader, after, &filter, OWN_PAGE).await;
            if matches!(page, Err(NoPage::Unavailable)) {
                sleep(PAUSE).await;
            }
            own.tell(Message::Page(id, run, page));
        });
    }
}

impl CarriedEvent {
    pub(super) fn delivery(&self, id: EventId, attempts: u32, due: Option<Timestamp>) -> Delivery {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::revision::Revision;
    use crate::domain::event::Name;
    use crate::domain::webhook::subscription::Description;

    fn now() -> Now {
        Now {
            steady: Duration::ZERO,
            wall: Timestamp::default(),
            committed: Timestamp::default(),
        }
    }

    fn id(position: u64) -> EventId {
        EventId {
            position,
            number: 0,
        }
    }

    fn active() -> ActiveSubscription {
        ActiveSubscription {
            run: 1,
            subscription: WebhookSubscription {
                subscription_id: Uuid::from_u128(1),
                revision: Revision::FIRST,
                created_at: Timestamp::default(),
                url: "https://example.com/".into(),
                types: EventTypePatterns(Vec::new()),
                description: Description::default(),
                is_paused: false,
                is_deleted: false,
                secret_number: 1,
                rotated_at: None,
            },
            types: EventTypePatterns(Vec::new()),
            generation: 0,
            channel: Channel::new(Bounds::default()),
            kept_bytes: 0,
            examined: EventId::NONE,
            known_at: 0,
            changed_at: 0,
            is_at_end: false,
            is_reading: false,
            is_gone: false,
            died: Vec::new(),
            failure: None,
            is_unrecorded: false,
            recorded: EventId::NONE,
            recorded_at: Duration::ZERO,
            loaded_at: Duration::ZERO,
            recording: None,
            dating: None,
            wake: None,
            figures: SubscriptionFigures::default(),
        }
    }

    fn event(position: u64) -> Arc<Event> {
        Arc::new(Event {
            id: id(position),
            at: Timestamp::default(),
            name: Name {
                kind: "branch",
                what: "created",
            },
            subject: format!("admin/branches/{position}").into(),
            json: Bytes::from_static(b"{}"),
        })
    }

    /// Returns the waiting deliveries, each with the position where its gap begins, if it is one.
    fn waiting(active: &ActiveSubscription) -> Vec<(EventId, Option<u64>)> {
        let waiting = active.channel.waiting();
        waiting
            .map(|(id, carried)| (id, carried.gap_from))
            .collect()
    }

    #[test]
    fn a_paused_subscription_fills_at_most_half_and_each_has_its_own_share() {
        let mut active = active();
        for position in 1..100 {
            active.offer(&event(position), now());
        }
        assert!(active.has_room(1_000, 1_000), "its own share");
        active.offer(&event(100), now());
        assert!(!active.has_room(1_000, 1_000));
        assert!(active.has_room(999, 1_000));
        active.subscription.is_paused = true;
        assert!(!active.has_room(500, 1_000));
        assert!(active.has_room(499, 1_000));
    }

    #[test]
    fn events_that_wait_for_the_end_of_a_pause_take_no_memory() {
        let mut active = active();
        active.offer(&event(1), now());
        assert_eq!(active.kept_bytes, 2);
        active.subscription.is_paused = true;
        active.offer(&event(2), now());
        assert_eq!(active.kept_bytes, 2);
        assert!(active.attempt(id(1), now().wall, "log").has_body);
        assert!(!active.attempt(id(2), now().wall, "log").has_body);
    }

    #[test]
    fn gaps_that_are_told_one_after_the_other_stay_those_that_they_are() {
        let mut active = active();
        for position in [3, 5, 12] {
            active.offer(&event(position), now());
        }
        active.lose(10, now());
        assert_eq!(
            waiting(&active),
            [(EventId::behind(5), Some(3)), (id(12), None)]
        );
        active.lose(20, now());
        assert_eq!(
            waiting(&active),
            [
                (EventId::behind(5), Some(3)),
                (EventId::behind(12), Some(12))
            ]
        );
        assert_eq!(active.kept_bytes, 0, "nothing is kept of what is lost");
    }

    #[test]
    fn gaps_cover_waiting_and_unread_events_separately_and_none_between() {
        let mut active = active();
        for position in [3, 4, 5] {
            active.offer(&event(position), now());
        }
        active.examined = id(5);
        let begun = (0..3).filter_map(|_| active.channel.next(now()));
        assert_eq!(begun.count(), 3);
        for taken in [4, 5] {
            let taken = active.channel.ended(id(taken), Ok(()), now(), 0);
            assert!(matches!(taken, Some(Settled::Taken(_))));
        }
        active.channel.abandoned(id(3));
        active.lose(10, now());
        active.skip_to(10, now());
        assert_eq!(
            waiting(&active),
            [(EventId::behind(3), Some(3)), (EventId::behind(9), Some(5))]
        );
        assert_eq!(active.examined, EventId::behind(9));
        active.skip_to(10, now());
        assert_eq!(waiting(&active).len(), 2, "nothing lies between");
    }

    #[test]
    fn a_gap_includes_the_commit_of_the_last_event_examined_unless_whole() {
        for (examined, from) in [
            (EventId::NONE, 1),
            (id(5), 5),
            (EventId::behind(5), 6),
            (id(9), 9),
        ] {
            let mut active = active();
            active.examined = examined;
            active.skip_to(10, now());
            assert_eq!(waiting(&active), [(EventId::behind(9), Some(from))]);
        }
    }

    #[test]
    fn unrecorded_dead_deliveries_come_first_and_the_latest_failure_stays() {
        let mut active = active();
        let dead = |position| {
            CarriedEvent {
                event_type: "carebook.branch.created".into(),
                subject: "admin/branches/1".into(),
                event: None,
                gap_from: None,
                last_status: None,
                last_error: None,
            }
            .delivery(id(position), 10, None)
        };
        let failure = |position| LastFailure {
            id: id(position),
            at: Timestamp::default(),
            status: Some(500),
            error: "it answered 500".into(),
        };
        let recording = |failure| Recording {
            serial: 1,
            unrecorded: Unrecorded {
                waiting: Vec::new(),
                settled: Vec::new(),
            },
            died: vec![dead(1)],
            failure,
            examined: id(1),
        };
        active.take_back(recording(Some(failure(1))));
        assert_eq!(active.failure, Some(failure(1)));
        assert_eq!(active.died, [dead(1)]);
        assert!(active.is_unrecorded);
        active.died = vec![dead(2)];
        active.failure = Some(failure(2));
        active.take_back(recording(Some(failure(1))));
        assert_eq!(active.died, [dead(1), dead(2)]);
        assert_eq!(active.failure, Some(failure(2)), "the last one is told");
    }

    #[test]
    fn a_retry_before_a_death_is_recorded_restarts_the_delivery_as_not_dead() {
        let mut active = active();
        active.offer(&event(1), now());
        let stored = active.delivery(id(1), now());
        active.channel.take_unrecorded();
        let Some(stored) = stored else {
            panic!("it waits");
        };
        let failure = Failure {
            status: Some(500),
            error: "it answered 500".into(),
            retry_after: None,
        };
        let dies = |active: &mut ActiveSubscription| {
            let retry_state = Delivery {
                attempts: 9,
                ..stored.clone()
            };
            active.channel.remove(id(1));
            active.resume(&retry_state, now());
            assert_eq!(active.channel.next(now()), Some(id(1)));
            active.failed(id(1), &failure, now());
            assert_eq!(active.died.len(), 1);
        };
        dies(&mut active);
        active.retry(&stored, now());
        assert!(active.died.is_empty());
        assert_eq!(active.dead_beside(&deliveries(&stored)), 0);
        assert_eq!(active.delivery(id(1), now()).map(|it| it.attempts), Some(0));
        // The log is told that the delivery waits, beside that the earlier one was settled.
        assert_eq!(active.channel.take_unrecorded().waiting, [id(1)]);
        // The same while the record of its death is in flight, which then fails.
        dies(&mut active);
        let recording = Recording {
            serial: 1,
            unrecorded: active.channel.take_unrecorded(),
            died: std::mem::take(&mut active.died),
            failure: None,
            examined: id(1),
        };
        active.retry(&stored, now());
        active.take_back(recording);
        assert!(active.died.is_empty());
        assert_eq!(active.channel.take_unrecorded().waiting, [id(1)]);
    }

    /// Returns what the log stores while one delivery waits.
    fn deliveries(waiting: &Delivery) -> WebhookDeliveries {
        WebhookDeliveries {
            subscription_id: Uuid::from_u128(1),
            revision: Revision::FIRST,
            generation: 0,
            examined: None,
            waiting: vec![waiting.clone()],
            dead: Vec::new(),
            last_failure: None,
            is_failing: false,
            is_gone: false,
        }
    }

    #[test]
    fn the_log_is_needed_from_the_first_waiting_or_unrecorded_event() {
        let mut active = active();
        (active.recorded, active.examined) = (id(7), id(30));
        assert_eq!(active.needed_from(), 7, "30 is not recorded yet");
        active.recorded = id(30);
        assert_eq!(active.needed_from(), 30, "its commit may have more events");
        (active.recorded, active.examined) = (EventId::behind(30), EventId::behind(30));
        assert_eq!(active.needed_from(), 31);
        active.offer(&event(12), now());
        assert_eq!(active.needed_from(), 12);
    }

    #[test]
    fn the_log_determines_a_receivers_health_at_startup() {
        let waits = Delivery {
            id: id(3),
            event_type: "carebook.branch.created".into(),
            subject: "admin/branches/3".into(),
            attempts: 0,
            next_attempt_at: None,
            last_status: None,
            last_error: None,
            gap_from: None,
        };
        let failed = |status| LastFailure {
            id: id(3),
            at: Timestamp::default(),
            status,
            error: "it failed".into(),
        };
        let mut stored = deliveries(&waits);
        stored.examined = Some(id(3));
        assert_eq!(health(&stored), ReceiverHealth::Unknown);
        stored.is_failing = true;
        stored.last_failure = Some(failed(Some(500)));
        assert_eq!(health(&stored), ReceiverHealth::Failing);
        stored.last_failure = Some(failed(None));
        assert_eq!(health(&stored), ReceiverHealth::Silent);
        // It has taken everything since.
        stored.is_failing = false;
        stored.waiting.clear();
        assert_eq!(health(&stored), ReceiverHealth::Taking);
        // It was just created.
        stored.examined = None;
        assert_eq!(health(&stored), ReceiverHealth::Unknown);
    }

    #[test]
    fn only_a_failure_after_a_long_wait_marks_a_receiver_as_silent() {
        let failure = Failure {
            status: None,
            error: "it does not answer".into(),
            retry_after: None,
        };
        let known = |took| {
            let mut active = active();
            active.offer(&event(1), now());
            active.offer(&event(2), now());
            assert_eq!(active.channel.next(now()), Some(id(1)));
            active.failed(id(1), &failure, now());
            active.note_wait(took, false);
            let next = active.channel.next_in_turn(now(), |_, health| Some(health));
            next.map(|(_, health)| health)
        };
        assert_eq!(known(Duration::from_secs(15)), Some(ReceiverHealth::Silent));
        assert_eq!(
            known(Duration::from_millis(5)),
            Some(ReceiverHealth::Failing)
        );
    }

    #[test]
    fn a_receiver_that_took_long_is_slow_until_it_takes_one_quickly() {
        let mut active = active();
        for position in 1..=3 {
            active.offer(&event(position), now());
        }
        let mut known = |position, took| {
            assert_eq!(active.channel.next(now()), Some(id(position)));
            let taken = active.channel.ended(id(position), Ok(()), now(), 0);
            assert!(taken.is_some());
            active.note_wait(took, true);
            // Nothing is taken out: what it is asked for is refused.
            let mut health = None;
            active.channel.next_in_turn(now(), |_, known| {
                health = Some(known);
                None::<()>
            });
            health
        };
        assert_eq!(known(1, LONG_WAIT), Some(ReceiverHealth::Slow));
        let soon = Duration::from_millis(5);
        assert_eq!(known(2, soon), Some(ReceiverHealth::Taking));
    }

    #[test]
    fn what_the_old_url_took_settles_its_event_and_says_nothing_of_the_new() {
        let (old, new) = ("https://example.com/", "https://example.org/");
        for (url, on_way_max) in [
            (old, Bounds::default().on_way_doubtful_max),
            (new, Bounds::default().on_way_max),
        ] {
            let mut active = active();
            for position in 1..=100 {
                active.offer(&event(position), now());
            }
            assert_eq!(active.channel.next(now()), Some(id(1)));
            let mut moved = active.subscription.clone();
            moved.url = new.into();
            active.update_subscription(2, &moved);
            active.taken(id(1), url, LONG_WAIT, now());
            assert_eq!(active.channel.waiting_count(), 99, "{url}");
            let mut health = None;
            let begun = std::iter::from_fn(|| {
                active.channel.next_in_turn(now(), |_, known| {
                    health = Some(known);
                    Some(())
                })
            });
            assert_eq!(begun.count(), on_way_max, "{url}");
            let is_known = health != Some(ReceiverHealth::Unknown);
            assert_eq!(is_known, url == new, "{health:?}");
        }
    }

    #[test]
    fn what_the_old_url_took_removes_nothing_that_is_not_in_flight() {
        let mut active = active();
        active.offer(&event(1), now());
        let mut moved = active.subscription.clone();
        moved.url = "https://example.org/".into();
        active.update_subscription(2, &moved);
        // The item was removed and offered anew while the attempt was under way.
        active.taken(id(1), "https://example.com/", LONG_WAIT, now());
        assert_eq!(active.channel.waiting_count(), 1);
        assert_eq!(active.channel.next(now()), Some(id(1)));
    }

    #[test]
    fn a_new_address_resets_receiver_health_and_a_new_secret_keeps_it() {
        let mut active = active();
        active.offer(&event(1), now());
        active.channel.set_health(ReceiverHealth::Silent);
        let mut known = |change: fn(&mut WebhookSubscription)| {
            let mut subscription = active.subscription.clone();
            change(&mut subscription);
            active.update_subscription(2, &subscription);
            assert_eq!(active.subscription.url, subscription.url);
            // Nothing is taken out: what it is asked for is refused.
            let mut health = None;
            active.channel.next_in_turn(now(), |_, known| {
                health = Some(known);
                None::<()>
            });
            health
        };
        let rotated = |subscription: &mut WebhookSubscription| subscription.secret_number = 2;
        assert_eq!(known(rotated), Some(ReceiverHealth::Silent));
        let moved = |subscription: &mut WebhookSubscription| {
            subscription.url = "https://example.org/".into();
        };
        assert_eq!(known(moved), Some(ReceiverHealth::Unknown));
    }
}
