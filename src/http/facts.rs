//! `POST /reference-facts`: a batch of facts, as one JSON body or as a stream of lines.
//!
//! A stream is read as it comes: some facts are in flight at once, and the next bytes are taken
//! when one of them is durable, so a batch of millions needs no more memory than one of hundreds.
//! Facts of one resource keep their order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::HeaderMap;

use super::request::{is_media_type, parse_object};
use super::response::{Answer, Manner, at_position, json};
use super::service::{json_body, unsupported_media_type};
use crate::base::actor::Actor;
use crate::base::json::Json;
use crate::catalogue::{FACTS, Success};
use crate::domain::operation::to_json;
use crate::domain::reference::intake::{Incoming, Lines, parse_batch};
use crate::domain::reference::read_fact::may_write;
use crate::domain::rejection::Rejection;
use crate::engine::Engine;
use crate::engine::admission::Admission;
use crate::engine::intake::Batch;

/// How long a stream may stay silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Puts a batch of facts in place.
pub async fn put<B>(
    engine: &Arc<Engine>,
    actor: Arc<Actor>,
    headers: &HeaderMap,
    body: B,
    bodies: &Arc<Admission>,
) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let manner = Manner::PLAIN;
    if is_media_type(headers, "application/x-ndjson") {
        if let Err(answer) = authorized(engine, &actor).await {
            return *answer;
        }
        return stream(engine, actor, body).await;
    }
    if !is_media_type(headers, "application/json") {
        return unsupported_media_type(manner);
    }
    let (body, _share) = match json_body(headers, body, bodies, manner).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let parsed = match parse_object(&body) {
        Ok(parsed) => parsed,
        Err(rejection) => return manner.rejected(&rejection),
    };
    let items = match parse_batch(&parsed) {
        Ok(items) => items,
        Err(rejection) => return manner.rejected(&rejection),
    };
    if let Err(answer) = authorized(engine, &actor).await {
        return *answer;
    }
    one_body(engine, actor, items).await
}

/// 403 for an actor who may not act, or not put facts in place.
async fn authorized(engine: &Engine, actor: &Actor) -> Result<(), Box<Answer>> {
    let manner = Manner::PLAIN;
    if let Err(reply) = engine.may_act(actor).await {
        return Err(Box::new(manner.reply(reply, Success::Ok)));
    }
    if !may_write(actor) {
        let rejection = Rejection::permission_denied(
            "Only a system workflow with facts:write may put facts in place.",
        );
        return Err(Box::new(at_position(
            manner.rejected(&rejection),
            engine.durable(),
        )));
    }
    Ok(())
}

async fn one_body(engine: &Arc<Engine>, actor: Arc<Actor>, items: &[Json<'_>]) -> Answer {
    let mut batch = Batch::new(engine, actor);
    for (index, item) in (0..).zip(items) {
        batch
            .take(Incoming::of_item(index, item, FACTS, engine.now()))
            .await;
    }
    answer(batch).await
}

async fn stream<B>(engine: &Arc<Engine>, actor: Arc<Actor>, mut body: B) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut batch = Batch::new(engine, actor);
    let mut lines = Lines::default();
    loop {
        let frame = match tokio::time::timeout(SILENCE_MAX, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            // What came is in place as far as it went; sending the batch again is safe.
            Ok(Some(Err(_))) | Err(_) => {
                if let Err(reply) = batch.finish().await {
                    return Manner::PLAIN.reply(reply, Success::Ok);
                }
                return Manner::PLAIN.trouble(
                    StatusCode::REQUEST_TIMEOUT,
                    "request_invalid",
                    "The stream broke off; facts before that are in place. Send it again.",
                );
            }
        };
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        let mut rest = &chunk[..];
        while let Some(line) = lines.next(&mut rest) {
            batch
                .take(Incoming::of_line(&line, FACTS, engine.now()))
                .await;
        }
        if batch.is_broken() {
            break;
        }
    }
    if let Some(line) = lines.finish() {
        batch
            .take(Incoming::of_line(&line, FACTS, engine.now()))
            .await;
    }
    answer(batch).await
}

async fn answer(batch: Batch<'_>) -> Answer {
    match batch.finish().await {
        Ok((summary, position)) => at_position(json(StatusCode::OK, to_json(&summary)), position),
        Err(reply) => Manner::PLAIN.reply(reply, Success::Ok),
    }
}
