//! `GET /readyz`: whether commands are accepted, and how what is sent to others gets on.

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::operation::to_json;
use crate::engine::outbox::{OutboxFigures, ReceiverFigures};
use crate::engine::publisher_counts::PublisherFigures;
use crate::engine::standby::Lag;
use crate::engine::webhooks::handle::SubscriptionFigures;
use crate::http::response::{Answer, Problems, json};
use crate::http::service::Service;

/// The state of a service that is ready. What fails to be sent to others is told here, and does not make it unready.
#[derive(Serialize, JsonSchema)]
pub(super) struct Readiness {
    #[schemars(extend("const" = "ready"))]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PublisherReadiness")]
    nats: Option<PublisherReadiness>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "StandbyReadiness")]
    standby: Option<StandbyReadiness>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WebhookReadiness")]
    webhooks: Option<WebhookReadiness>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OutboxReadiness")]
    outbox: Option<OutboxReadiness>,
}

/// Present when events are published.
#[derive(Serialize, JsonSchema)]
struct PublisherReadiness {
    #[schemars(extend("enum" = ["publishing", "failing"]))]
    state: &'static str,
    waiting: u64,
}

/// Present when the service is a standby: it answers reads, and rejects commands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StandbyReadiness {
    lag_positions: u64,
    #[schemars(range(min = 0))]
    lag_seconds: f64,
}

/// Present when there are webhook subscriptions.
#[derive(Serialize, JsonSchema)]
struct WebhookReadiness {
    subscriptions: usize,
    failing: usize,
    waiting: usize,
    dead: usize,
}

/// Present when there are receivers of messages, or messages without one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OutboxReadiness {
    receivers: usize,
    failing: usize,
    waiting: usize,
    dead: usize,
    without_receiver: u64,
}

impl PublisherReadiness {
    fn new(figures: &PublisherFigures) -> Self {
        Self {
            state: match figures.is_failing {
                true => "failing",
                false => "publishing",
            },
            waiting: figures.waiting,
        }
    }
}

impl StandbyReadiness {
    fn new(lag: &Lag) -> Self {
        Self {
            lag_positions: lag.positions,
            // In milliseconds.
            lag_seconds: (lag.time.as_secs_f64() * 1_000.0).round() / 1_000.0,
        }
    }
}

impl WebhookReadiness {
    /// Returns `None` without subscriptions.
    fn new(webhooks: &[SubscriptionFigures]) -> Option<Self> {
        let sum = |of: fn(&SubscriptionFigures) -> usize| webhooks.iter().map(of).sum::<usize>();
        (!webhooks.is_empty()).then(|| Self {
            subscriptions: webhooks.len(),
            failing: sum(|webhook| usize::from(webhook.is_failing)),
            waiting: sum(|webhook| webhook.waiting),
            dead: sum(|webhook| webhook.dead),
        })
    }
}

impl OutboxReadiness {
    /// Returns `None` without receivers and without messages that have none.
    fn new(figures: &OutboxFigures) -> Option<Self> {
        let receivers = &figures.receivers;
        let sum = |of: fn(&ReceiverFigures) -> usize| receivers.iter().map(of).sum::<usize>();
        let is_used = !receivers.is_empty() || figures.unclaimed > 0;
        is_used.then(|| Self {
            receivers: receivers.len(),
            failing: sum(|receiver| usize::from(receiver.is_failing)),
            waiting: sum(|receiver| receiver.waiting),
            dead: sum(|receiver| receiver.dead),
            without_receiver: figures.unclaimed,
        })
    }
}

impl Service {
    /// Returns the answer of `/readyz`.
    pub(super) fn readiness(&self) -> Answer {
        if !self.engine.is_ready() {
            return Problems::PLAIN.unavailable();
        }
        let publisher = self.engine.publisher_figures();
        let readiness = Readiness {
            status: "ready",
            nats: publisher.as_ref().map(PublisherReadiness::new),
            standby: self.engine.lag().as_ref().map(StandbyReadiness::new),
            webhooks: WebhookReadiness::new(&self.webhook_figures()),
            outbox: OutboxReadiness::new(&self.engine.figures_of_outbox()),
        };
        json(StatusCode::OK, to_json(&readiness))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn readiness_members_are_in_order_and_those_without_figures_left_out() {
        let mut readiness = Readiness {
            status: "ready",
            nats: None,
            standby: None,
            webhooks: WebhookReadiness::new(&[]),
            outbox: OutboxReadiness::new(&OutboxFigures::default()),
        };
        let written = |readiness: &Readiness| String::from_utf8(to_json(readiness)).unwrap();
        assert_eq!(written(&readiness), r#"{"status":"ready"}"#);
        readiness.nats = Some(PublisherReadiness::new(&PublisherFigures {
            waiting: 2,
            is_failing: true,
            ..PublisherFigures::default()
        }));
        readiness.standby = Some(StandbyReadiness::new(&Lag {
            positions: 3,
            time: Duration::from_micros(1_234_567),
            was_complete: true,
        }));
        readiness.outbox = OutboxReadiness::new(&OutboxFigures {
            unclaimed: 4,
            ..OutboxFigures::default()
        });
        assert_eq!(
            written(&readiness),
            r#"{"status":"ready","nats":{"state":"failing","waiting":2},"#.to_owned()
                + r#""standby":{"lagPositions":3,"lagSeconds":1.235},"#
                + r#""outbox":{"receivers":0,"failing":0,"waiting":0,"dead":0,"withoutReceiver":4}}"#
        );
    }
}
