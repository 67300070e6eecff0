//! The metrics of webhooks.

use std::time::Duration;

use crate::base::time::Timestamp;
use crate::engine::webhooks::handle::SubscriptionFigures;
use crate::http::metrics::page::Page;

/// Maximum number of subscriptions with series of their own. Active ones with the most waiting or dead deliveries
/// come first.
const SUBSCRIPTIONS_SHOWN: usize = 200;

/// Returns the figures of all subscriptions together, and of the most troubled ones individually.
#[must_use]
pub fn page(all: &[SubscriptionFigures], now: Timestamp) -> String {
    let mut page = Page::default();
    let total = |of: fn(&SubscriptionFigures) -> usize| all.iter().map(of).sum::<usize>();
    page.one(
        "carebook_webhook_subscriptions",
        "gauge",
        "Webhook subscriptions.",
        all.len(),
    );
    page.one(
        "carebook_webhooks_waiting",
        "gauge",
        "Deliveries that wait, over all subscriptions.",
        total(|of| of.waiting),
    );
    page.one(
        "carebook_webhooks_dead",
        "gauge",
        "Deliveries that are dead, over all subscriptions.",
        total(|of| of.dead),
    );
    let mut shown: Vec<_> = all.iter().collect();
    let need = |of: &&SubscriptionFigures| (!of.is_paused, of.waiting, of.dead, of.attempts);
    shown.sort_by_key(|of| std::cmp::Reverse(need(of)));
    shown.truncate(SUBSCRIPTIONS_SHOWN);
    let age = |of: &SubscriptionFigures| {
        let since = of.oldest.map_or(0, |oldest| now.millis() - oldest.millis());
        Duration::from_millis(u64::try_from(since).unwrap_or(0)).as_secs_f64()
    };
    let mut each = |name: &str, kind, says, of: &dyn Fn(&SubscriptionFigures) -> f64| {
        page.head(name, kind, says);
        for figures in &shown {
            let labels = format!("subscription=\"{}\"", figures.subscription);
            page.sample(name, &labels, of(figures));
        }
    };
    #[allow(clippy::cast_precision_loss)]
    let number = |count: u64| count as f64;
    let of_usize = |count: usize| number(u64::try_from(count).unwrap_or(u64::MAX));
    each(
        "carebook_webhook_waiting",
        "gauge",
        "Deliveries that wait, of the subscriptions with the most, those that are paused last.",
        &|of| of_usize(of.waiting),
    );
    each(
        "carebook_webhook_dead",
        "gauge",
        "Deliveries that are dead.",
        &|of| of_usize(of.dead),
    );
    each(
        "carebook_webhook_oldest_seconds",
        "gauge",
        "The age of the event that waits longest; 0 while the subscription is paused.",
        &age,
    );
    each(
        "carebook_webhook_attempts_total",
        "counter",
        "Attempts, since the start.",
        &|of| number(of.attempts),
    );
    each(
        "carebook_webhook_failures_total",
        "counter",
        "Attempts that failed, since the start.",
        &|of| number(of.failures),
    );
    each(
        "carebook_webhook_attempt_seconds_total",
        "counter",
        "How long attempts took, in all, since the start.",
        &|of| of.attempt_time.as_secs_f64(),
    );
    page.0
}
