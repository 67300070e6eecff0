//! Records the progress of deliveries in the log, and publishes their figures.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::active::Recording;
use super::dispatcher::Dispatcher;
use super::handle::{Message, SubscriptionFigures};
use crate::domain::resource::Resource as _;
use crate::domain::webhook::deliveries::{Progress, WebhookDeliveries};
use crate::domain::webhook::record_progress::RecordProgress;
use crate::engine::channel::schedule::CLOCK_STEP;

/// Interval of the records of progress where only the log went on, without an event to deliver.
const IDLE_RECORD_INTERVAL: Duration = Duration::from_secs(30);
/// Number of commits without an event to deliver after which progress is recorded anyway: the log is kept from the
/// recorded position on.
const COMMITS_UNRECORDED_MAX: u64 = 100_000;

impl Dispatcher {
    /// Records what is due, and publishes the figures of all subscriptions.
    pub(super) fn tick(&mut self) {
        self.notice_set_clock();
        let ids: Vec<_> = self.active.keys().copied().collect();
        for id in &ids {
            self.record(*id, false);
            self.touched.insert(*id);
        }
        self.date_oldest();
        let now = self.now();
        let figures = self.active.values().map(|active| SubscriptionFigures {
            waiting: active.channel.waiting_count(),
            oldest: match active.subscription.is_paused {
                true => None,
                false => active.channel.waits_since(now),
            },
            is_paused: active.subscription.is_paused,
            is_failing: active.channel.is_failing(),
            needed_from: active.needed_from(),
            ..active.figures.clone()
        });
        let mut figures: Vec<_> = figures.collect();
        figures.sort_by_key(|figures| figures.subscription);
        self.waiting = figures.iter().map(|figures| figures.waiting).sum();
        let needed = figures.iter().map(|figures| figures.needed_from).min();
        let needed_from = &self.shared.checkpointer.needed_from;
        match self.loading.is_empty() {
            true => needed_from.set(needed),
            // The log stays kept for subscriptions still loading, until it is known what they need.
            false => needed_from.lower(needed),
        }
        *self.own.figures.lock() = Arc::new(figures);
    }

    /// Reads from the log the times of the events that wait longest, where they have waited since before the start.
    fn date_oldest(&mut self) {
        for (id, active) in &mut self.active {
            let Some(event) = active.undated() else {
                continue;
            };
            let (shared, own) = (Arc::clone(&self.shared), self.own.clone());
            let (id, run) = (*id, active.run);
            tokio::spawn(async move {
                if let Ok(found) = shared.one_event(event).await {
                    own.tell(Message::Dated(id, run, event, found.at));
                }
            });
        }
    }

    /// Records the ends of pauses anew where the wall clock was set: attempts are due by the steady clock, but users
    /// see the recorded ends.
    fn notice_set_clock(&mut self) {
        let now = self.now();
        let began = now.wall_at(Duration::ZERO);
        let moved = began.millis().abs_diff(self.began.millis());
        if Duration::from_millis(moved) < CLOCK_STEP {
            return;
        }
        self.began = began;
        for active in self.active.values_mut() {
            active.channel.wall_clock_was_set(now);
        }
    }

    /// Records the progress of a subscription, if it has changed or a record is due.
    pub(super) fn record(&mut self, id: Uuid, is_last: bool) {
        let now = self.now();
        let tail = self.tail.as_ref().map(|tail| (tail.last_event, tail.upto));
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        if active.recording.is_some() && !is_last {
            return;
        }
        // A stop does not wait for a record in flight: the last record repeats its content.
        if let Some(on_its_way) = active.recording.take() {
            active.take_back(on_its_way);
        }
        let mut examined = active.examined;
        let mut is_new = active.is_unrecorded || !active.channel.is_recorded();
        if active.is_at_end
            && let Some((last_event, upto)) = tail
        {
            examined = examined.max(last_event);
            let known = active.recorded.position + COMMITS_UNRECORDED_MAX;
            // At its beginning the tail assumes more events in the commit than it may have.
            if upto.position >= known && upto.number != u32::MAX {
                examined = examined.max(upto);
                is_new = true;
            }
        }
        let idle = now.steady.saturating_sub(active.recorded_at);
        let is_time = is_last || idle >= IDLE_RECORD_INTERVAL;
        if !(is_new || is_time && examined > active.recorded) {
            return;
        }
        self.runs += 1;
        let serial = self.runs;
        let recording = Recording {
            serial,
            unrecorded: active.channel.take_unrecorded(),
            died: std::mem::take(&mut active.died),
            failure: active.failure.take(),
            examined,
        };
        let waiting = recording.unrecorded.waiting.iter();
        let progress = Progress {
            generation: active.generation,
            examined,
            waiting: waiting.filter_map(|id| active.delivery(*id, now)).collect(),
            settled: recording.unrecorded.settled.clone(),
            dead: recording.died.clone(),
            failure: recording.failure.clone(),
            is_failing: active.channel.is_failing(),
            is_gone: active.is_gone,
        };
        active.is_unrecorded = false;
        active.recorded_at = now.steady;
        active.recording = Some(recording);
        let report = RecordProgress {
            deliveries: WebhookDeliveries::KIND.key(&[id.to_string()]),
            progress,
        };
        let (shared, own) = (Arc::clone(&self.shared), self.own.clone());
        tokio::spawn(async move {
            let is_recorded = shared.record_progress(report).await;
            own.tell(Message::Recorded(id, serial, is_recorded));
        });
    }

    pub(super) fn recorded(&mut self, id: Uuid, serial: u64, is_recorded: bool) {
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        let is_own = |recording: &mut Recording| recording.serial == serial;
        let Some(recording) = active.recording.take_if(is_own) else {
            return;
        };
        if is_recorded {
            active.recorded = recording.examined;
            if self.stopping.is_some() {
                // Records the changes made during the write.
                self.record(id, true);
            }
            return;
        }
        active.take_back(recording);
    }
}
