//! `GET /outbox`: messages to other systems, in pages, without their bodies.

use hyper::header::HeaderMap;
use serde::Serialize;

use crate::base::actor::Actor;
use crate::base::json::FaultCode;
use crate::catalogue::Success;
use crate::domain::operation::to_json;
use crate::domain::outbox::list::{MessageBody, MessageQuery, not_permitted};
use crate::domain::outbox::may_manage;
use crate::domain::outbox::message::MessageStatus;
use crate::domain::rejection::Rejection;
use crate::engine::Engine;
use crate::http::limits::response_room::ResponseRoom;
use crate::http::read::cursor::{self, CursorOwner, Cursors};
use crate::http::read::min_position::come_to;
use crate::http::read::query::Query;
use crate::http::response::{Answer, Problems, at_position};

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
pub(super) async fn list(
    engine: &Engine,
    actor: &Actor,
    query: Option<&str>,
    headers: &HeaderMap,
    outgoing: &ResponseRoom,
) -> Answer {
    let problems = Problems::PLAIN;
    let wanted = match wanted(query, CursorOwner::of(engine, actor)) {
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

/// Parses the query that `owner` sends. A cursor is bound to the filters, the order and the owner.
fn wanted(query: Option<&str>, owner: CursorOwner<'_>) -> Result<Wanted, Rejection> {
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
        "outbox\n{oldest_first}\n{status:?}\n{topic:?}\n{resource:?}\n{owner}"
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
