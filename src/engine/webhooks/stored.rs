//! Reads what the log stores of subscriptions and their deliveries.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::handle::{Loaded, Outcome, Stored};
use crate::catalogue::RECORD_WEBHOOK_PROGRESS;
use crate::domain::event_id::EventId;
use crate::domain::resource::{ReadView, Resource as _};
use crate::domain::webhook::deliveries::WebhookDeliveries;
use crate::domain::webhook::record_progress::RecordProgress;
use crate::domain::webhook::subscription::{WebhookSubscription, subscriptions};
use crate::engine::core::{CommandResult, Shared};
use crate::engine::feed::NoPage;
use crate::journal::events::Event;
use crate::journal::past::Lost;

/// How long to wait before the log is read again after it could not be read, or has not synced for seconds.
const ONCE_MORE_AFTER: Duration = Duration::from_millis(250);

impl Shared {
    /// Returns the existing subscriptions.
    pub(super) fn webhook_subscriptions(&self) -> Vec<Uuid> {
        let view = ReadView::new(&self.tables);
        let all = view.all_ranked::<WebhookSubscription>(subscriptions());
        all.iter().map(|one| one.subscription_id).collect()
    }

    /// Whether a subscription is sent events at this URL, by its last change, durable or not.
    pub(super) fn is_sent_events(&self, id: Uuid, url: &str) -> bool {
        let view = ReadView::new(&self.tables);
        let key = WebhookSubscription::KIND.key(&[id.to_string()]);
        let subscription = view.at::<WebhookSubscription>(key);
        subscription
            .is_some_and(|found| !found.is_deleted && !found.is_paused && *found.url == *url)
    }

    /// Whether a subscription has this URL, paused or not, by its last change, durable or not.
    pub(super) fn has_url(&self, id: Uuid, url: &str) -> bool {
        let view = ReadView::new(&self.tables);
        let key = WebhookSubscription::KIND.key(&[id.to_string()]);
        let subscription = view.at::<WebhookSubscription>(key);
        subscription.is_some_and(|found| *found.url == *url)
    }

    /// Loads a subscription and its deliveries as stored, once durable; `None` when the log has failed. Where the
    /// deliveries are still of the generation `known`, earlier types are not looked up.
    pub(super) async fn load_webhook(
        self: &Arc<Self>,
        id: Uuid,
        known: Option<u32>,
        retried: Option<EventId>,
    ) -> Option<Loaded> {
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
            // The two states belong together only if neither has changed meanwhile.
            if (self.tables.position(own), self.tables.position(beside)) != positions {
                continue;
            }
            let stored = match stored {
                Some((subscription, deliveries)) => {
                    let begun = EventId {
                        position: positions.1,
                        number: 0,
                    };
                    let examined = deliveries.examined.unwrap_or(begun);
                    let is_known = known == Some(deliveries.generation);
                    let is_later = positions.0 > examined.position;
                    let then = match is_later && !is_known {
                        true => self.as_of(own, examined.position).await,
                        false => Ok(None),
                    };
                    if let Err(lost) = &then
                        && *lost != Lost::Gone
                    {
                        let position = examined.position;
                        tracing::warn!(
                            ?lost,
                            position,
                            "the log does not tell which events a \
                            webhook subscription wanted"
                        );
                        if *lost == Lost::Unavailable {
                            tokio::time::sleep(ONCE_MORE_AFTER).await;
                            continue;
                        }
                    }
                    // If the log no longer has the types of that time, the present ones apply.
                    let then = then.ok().flatten();
                    let then = then.map(|then: WebhookSubscription| then.types);
                    Some(Stored {
                        types: then.unwrap_or_else(|| subscription.types.clone()),
                        subscription,
                        position: positions.0,
                        deliveries,
                        examined,
                    })
                }
                None => None,
            };
            return Some(Loaded {
                id,
                stored,
                retried,
            });
        }
    }

    /// Returns the first position of the log that any subscription's deliveries still need, by their recorded
    /// progress; `None` where none does.
    pub(in crate::engine) fn webhooks_need(&self) -> Option<u64> {
        let view = ReadView::new(&self.tables);
        let all = view.all_ranked::<WebhookSubscription>(subscriptions());
        let needs = all.iter().filter_map(|subscription| {
            let key = WebhookDeliveries::KIND.key(&[subscription.subscription_id.to_string()]);
            let deliveries = view.at::<WebhookDeliveries>(key)?;
            let begun = || EventId::behind(view.position(key));
            let next = deliveries.examined.unwrap_or_else(begun).goes_on_at();
            let waiting = deliveries.waiting.first();
            Some(waiting.map_or(next, |waiting| waiting.id.position.min(next)))
        });
        needs.min()
    }

    /// Commits the progress of deliveries; returns whether that is durable.
    pub(super) async fn record_progress(self: &Arc<Self>, report: RecordProgress) -> bool {
        let reported = self.report(RECORD_WEBHOOK_PROGRESS, report).await;
        matches!(reported, CommandResult::Done { .. })
    }

    /// Reads one event from the log.
    pub(super) async fn one_event(&self, id: EventId) -> Result<Event, Outcome> {
        match self.event(id).await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => Err(Outcome::Unread),
            Err(NoPage::Gone { earliest }) => Err(Outcome::Lost(earliest.position)),
            Err(NoPage::Future | NoPage::QueueFull | NoPage::Unavailable) => Err(Outcome::Unread),
        }
    }
}
