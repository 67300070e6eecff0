//! Requests that are neither an operation nor a read: health, metrics, facts that come in.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{StatusCode, Uri};

use super::{facts, outbox};
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::Success;
use crate::engine::CommandResult;
use crate::engine::webhooks::handle::SubscriptionFigures;
use crate::http::caller::Caller;
use crate::http::figures_page::{self, AllFigures};
use crate::http::metrics::FrontFigures;
use crate::http::metrics::process::ProcessFigures;
use crate::http::openapi;
use crate::http::request::DryRun;
use crate::http::response::{self, Answer, Problems, json};
use crate::http::route::{ManagementList, Special};
use crate::http::service::Service;
use crate::http::webhooks::managing::ManagedList;

/// Subject to which pages of metrics are charged. They need no token, so all their readers share one, other than that
/// of operations without a token.
const METRICS_READERS: &str = "/metrics";

impl Service {
    pub(in crate::http) async fn special<B>(
        &self,
        caller: &Caller,
        special: Special,
        headers: &HeaderMap,
        dry_run: DryRun,
        body: B,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match special {
            Special::Health => json(StatusCode::OK, &b"{\"status\":\"ok\"}"[..]),
            Special::Ready => self.readiness(),
            Special::ApiDocument => match openapi::served().await {
                Some(document) => document.answer(headers),
                None => Problems::PLAIN.reply(CommandResult::Fault, Success::Ok),
            },
            Special::Docs(file) => file.answer(headers),
            Special::Metrics => self.metrics_page().await,
            Special::PutFacts => match self.writing_actor(caller, headers).await {
                Ok(actor) => {
                    let sender = facts::Sender {
                        engine: &self.engine,
                        actor,
                        token_is_good: &|| {
                            let authorization = headers.get(AUTHORIZATION);
                            self.verifier
                                .still_accepts(authorization, self.engine.now().millis())
                        },
                        bodies: &self.bodies,
                        outgoing: &self.outgoing,
                        dry_run,
                    };
                    let put =
                        unless_its_future_panics(pin!(facts::put(sender, headers, body))).await;
                    put.unwrap_or_else(|| {
                        Problems::PLAIN.problem(
                            StatusCode::INTERNAL_SERVER_ERROR,
                            "internal_error",
                            "An internal error. Facts that were applied before it remain; \
                             sending all again is safe.",
                        )
                    })
                }
                Err(answer) => *answer,
            },
        }
    }

    /// Returns the page of metrics. It is never refused: without space for another large response, all who ask
    /// within some seconds share one page.
    async fn metrics_page(&self) -> Answer {
        // On a thread for blocking calls: it reads files of the kernel.
        let process = tokio::task::spawn_blocking(ProcessFigures::read).await;
        let page = figures_page::page(
            &self.metrics,
            &AllFigures {
                engine: self.engine.figures(),
                front: self.figures(),
                publisher: self.engine.publisher_figures(),
                webhooks: &self.webhook_figures(),
                upkeep: self.upkeep.figures(),
                process: process.unwrap_or_default(),
                now: self.engine.now(),
            },
        );
        let page = Bytes::from(page);
        let charged = self
            .outgoing
            .to(METRICS_READERS)
            .answer(page.clone(), false);
        response::metrics(charged.unwrap_or_else(|| {
            let kept = &self.metrics.kept_page;
            kept.or_recent(page, Instant::now())
        }))
    }

    /// The list of messages, subscriptions or deliveries at this path.
    pub(in crate::http) async fn management_list(
        &self,
        caller: &Caller,
        list: ManagementList,
        (parameters, uri): (&[(&str, &str)], &Uri),
        headers: &HeaderMap,
    ) -> Answer {
        let actor = match self.actor(caller, headers, Problems::PLAIN).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        match list {
            ManagementList::Outbox => {
                outbox::list(&self.engine, &actor, uri.query(), headers, &self.outgoing).await
            }
            ManagementList::Webhooks(asked) => {
                let list = ManagedList {
                    engine: &self.engine,
                    actor: &actor,
                    asked,
                    parameters,
                    outgoing: &self.outgoing,
                };
                list.page(uri, headers).await
            }
        }
    }

    pub(in crate::http) fn webhook_figures(&self) -> Arc<Vec<SubscriptionFigures>> {
        let webhooks = self.webhooks.as_ref();
        webhooks.map_or_else(Arc::default, |webhooks| webhooks.dispatcher.figures())
    }

    pub(super) fn figures(&self) -> FrontFigures {
        FrontFigures {
            key_set_age: self.verifier.key_set_age(Instant::now()),
            key_set_failures: self.verifier.failed_readings(),
            keys: self.verifier.key_count(),
            bad_signatures: self.forgeries.bad(),
            tokens_waited: self.forgeries.waited(),
            bodies_bytes: self.bodies.in_flight(),
            tokens_refused: self.verifier.refused().all(),
            connections: self.connections.open(),
            connections_refused: self.connections.all_refused(),
            streams_reset: self.connections.streams_reset(),
        }
    }
}
