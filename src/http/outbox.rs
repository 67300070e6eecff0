//! `GET /outbox`: messages to other systems, in pages, without their bodies; and their figures.

use std::time::Duration;

use hyper::header::HeaderMap;
use serde::Serialize;

use super::limits::response_room::ResponseRoom;
use super::metrics::page::Page;
use super::read::cursor::{self, Cursors};
use super::read::min_position::come_to;
use super::read::query::Query;
use super::response::{Answer, Problems, at_position};
use crate::base::actor::Actor;
use crate::base::json::FaultCode;
use crate::catalogue::Success;
use crate::domain::operation::to_json;
use crate::domain::outbox::list::{MessageBody, MessageQuery, not_permitted};
use crate::domain::outbox::may_manage;
use crate::domain::outbox::message::MessageStatus;
use crate::domain::rejection::Rejection;
use crate::engine::Engine;
use crate::engine::outbox::{ATTEMPT_BUCKETS, OutboxFigures, ReceiverFigures};

/// The names of the accepted query parameters.
const PARAMETERS: [&str; 6] = ["state", "topic", "resource", "order", "limit", "cursor"];

/// The parsed query of a request.
struct Wanted {
    asked: MessageQuery,
    /// The number after which the page begins.
    after: Option<i64>,
    cursors: Cursors,
}

#[derive(Serialize)]
struct PageBody<'a> {
    items: Vec<MessageBody<'a>>,
    next: Option<String>,
}

/// Answers the actor's request for a page of messages.
pub async fn list(
    engine: &Engine,
    actor: &Actor,
    query: Option<&str>,
    headers: &HeaderMap,
    outgoing: &ResponseRoom,
) -> Answer {
    let problems = Problems::PLAIN;
    let wanted = match wanted(query, &actor.subject) {
        Ok(wanted) => wanted,
        Err(rejection) => return problems.rejected(&rejection),
    };
    let Wanted {
        asked,
        after,
        cursors,
    } = wanted;
    if let Err(answer) = come_to(engine, actor, headers, problems).await {
        return *answer;
    }
    if let Err(reply) = engine.may_act(actor).await {
        return problems.reply(reply, Success::Ok);
    }
    if !may_manage(actor) {
        return at_position(problems.rejected(&not_permitted()), engine.durable());
    }
    let (page, position) = match engine.messages(&asked, after).await {
        Ok(found) => found,
        Err(reply) => return problems.reply(reply, Success::Ok),
    };
    // The actor may have been withdrawn while the page was read.
    if let Err(reply) = engine.may_act(actor).await {
        return problems.reply(reply, Success::Ok);
    }
    let body = to_json(&PageBody {
        items: page.messages.iter().map(MessageBody::new).collect(),
        next: page.next.map(|next| cursors.at(next)),
    });
    problems.sent_body(
        outgoing.to(&actor.subject).body(body.len(), || body),
        position,
    )
}

/// Parses the query that `subject` sends. A cursor is bound to the filters, the order and the subject.
fn wanted(query: Option<&str>, subject: &str) -> Result<Wanted, Rejection> {
    let mut query = Query::read(query, &PARAMETERS);
    let status = |text: &str| {
        let mut all = MessageStatus::ALL.into_iter();
        all.find(|status| status.as_str() == text)
            .ok_or(FaultCode::NotAllowed)
    };
    let text = |text: &str| Ok(text.to_owned());
    let asked = MessageQuery {
        status: query.one::<MessageStatus>("state", status),
        topic: query.one("topic", text),
        resource: query.one("resource", text),
        oldest_first: query
            .one("order", |order| match order {
                "newest" => Ok(false),
                "oldest" => Ok(true),
                _ => Err(FaultCode::NotAllowed),
            })
            .unwrap_or(false),
        limit: cursor::limit(&mut query),
    };
    let MessageQuery {
        status,
        topic,
        resource,
        oldest_first,
        limit: _,
    } = &asked;
    let status = status.map(MessageStatus::as_str);
    let cursors = Cursors::bound_to(&format!(
        "outbox\n{oldest_first}\n{status:?}\n{topic:?}\n{resource:?}\n{subject}"
    ));
    let after = cursors.place(&mut query, |after| {
        after.parse::<i64>().ok().filter(|number| *number > 0)
    });
    query.finish()?;
    Ok(Wanted {
        asked,
        after,
        cursors,
    })
}

/// Returns the metrics of messages and their receivers.
pub(super) fn metrics(figures: &OutboxFigures) -> String {
    let mut page = Page::default();
    type Of = fn(&ReceiverFigures) -> String;
    let each: [(&str, &str, &str, Of); 5] = [
        (
            "carebook_receiver_waiting",
            "gauge",
            "Messages that wait for the receiver.",
            |receiver| receiver.waiting.to_string(),
        ),
        (
            "carebook_receiver_dead",
            "gauge",
            "Messages that the receiver has not taken at any attempt.",
            |receiver| receiver.dead.to_string(),
        ),
        (
            "carebook_receiver_oldest_seconds",
            "gauge",
            "The age of the oldest message that is waiting or dead; 0 when there is none.",
            |receiver| receiver.oldest_age.as_secs_f64().to_string(),
        ),
        (
            "carebook_receiver_attempts_total",
            "counter",
            "Attempts at bringing a message to the receiver.",
            |receiver| receiver.attempts.to_string(),
        ),
        (
            "carebook_receiver_taken_total",
            "counter",
            "Attempts at which the receiver has taken the message.",
            |receiver| receiver.taken.to_string(),
        ),
    ];
    for (name, kind, help, of) in each {
        page.head(name, kind, help);
        for receiver in &figures.receivers {
            page.sample(
                name,
                &format!("receiver=\"{}\"", receiver.name),
                of(receiver),
            );
        }
    }
    let name = "carebook_receiver_attempt_duration_seconds";
    page.head(name, "histogram", "How long an attempt took.");
    for receiver in &figures.receivers {
        let label = format!("receiver=\"{}\"", receiver.name);
        let bounds = ATTEMPT_BUCKETS.map(|millis| Duration::from_millis(millis).as_secs_f64());
        let bounds = bounds.map(|seconds| seconds.to_string());
        let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
        let mut count = 0;
        for (bound, attempts) in bounds.zip(receiver.durations) {
            count += attempts;
            page.sample(
                &format!("{name}_bucket"),
                &format!("{label},le=\"{bound}\""),
                count,
            );
        }
        page.sample(
            &format!("{name}_sum"),
            &label,
            receiver.duration.as_secs_f64(),
        );
        page.sample(&format!("{name}_count"), &label, count);
    }
    page.one(
        "carebook_outbox_unclaimed",
        "gauge",
        "Messages that wait or are dead, and for whose topics no receiver is named.",
        figures.unclaimed,
    );
    page.0
}
