//! The sender of webhooks.

use std::sync::Arc;

use hyper::header::HeaderValue;

use super::secret::MasterKey;
use crate::engine::webhooks::handle::{Delivered, OutgoingEvent, Sender, Sending};
use crate::http::client::signature::signed_headers;
use crate::http::post::{Client, Judge};

/// Sends webhooks: signed, and only to allowed addresses.
pub struct WebhookSender {
    client: Client,
    judge: Judge,
    key: Arc<MasterKey>,
}

impl WebhookSender {
    /// Creates a sender that uses this client, sends where `judge` allows, and signs with secrets derived from `key`.
    #[must_use]
    pub fn new(client: Client, judge: Judge, key: Arc<MasterKey>) -> Self {
        Self { client, judge, key }
    }

    async fn deliver(&self, outgoing: OutgoingEvent) -> Delivered {
        let timestamp = outgoing.now.millis().div_euclid(1_000);
        let numbers = outgoing.secret_numbers.iter();
        let secrets: Vec<_> = numbers
            .map(|number| self.key.secret(outgoing.subscription, *number))
            .collect();
        let event = HeaderValue::from_static("application/cloudevents+json");
        let headers = signed_headers(event, &outgoing.id, timestamp, &secrets, &outgoing.body);
        let sent = self
            .client
            .deliver(
                "webhook delivery",
                &outgoing.url,
                &self.judge,
                headers,
                outgoing.body,
            )
            .await;
        match sent {
            Ok(()) => Delivered::Taken,
            Err(failure) if failure.status == Some(410) => Delivered::Gone,
            Err(failure) => Delivered::Failed(failure),
        }
    }
}

impl Sender for WebhookSender {
    fn attempts_max(&self) -> usize {
        self.client.requests_max()
    }

    fn send(self: Arc<Self>, outgoing: OutgoingEvent) -> Sending {
        Box::pin(async move { self.deliver(outgoing).await })
    }
}
