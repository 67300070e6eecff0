//! The requests that manage webhooks, and their lists.

use std::str::FromStr;
use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::{StatusCode, Uri};
use tracing::Instrument as _;

use super::secret::{MasterKey, told};
use crate::base::actor::Actor;
use crate::catalogue::{Row, Success};
use crate::domain::resource::Rank;
use crate::domain::webhook::read_subscription::read_whether_dead;
use crate::engine::delivery::lists::WebhookListRequest;
use crate::engine::delivery::webhooks::{SubscriptionFigures, Webhooks};
use crate::engine::limits::admission::Permit;
use crate::engine::{CommandRequest, CommandResult, Engine};
use crate::http::limits::response_room::{ResponseRoom, charged};
use crate::http::read::list_query::{ListQuery, OwnParameter};
use crate::http::read::lists::body_of;
use crate::http::read::min_position::come_to;
use crate::http::request::ReadCommand;
use crate::http::response::{Answer, Problems, at_position};
use crate::http::route::Special;
use crate::journal::events::EventId;

/// The states of deliveries that are listed.
const DELIVERY_STATES: &[OwnParameter] = &[("state", &["waiting", "dead"])];

/// What the front needs for webhooks.
#[derive(Clone)]
pub struct WebhookFront {
    /// What their secrets are derived from.
    pub key: Arc<MasterKey>,
    /// What delivers.
    pub dispatcher: Webhooks,
}

/// An operation by which webhooks are managed.
pub struct Managed<'a> {
    /// What carries it out.
    pub engine: &'a Arc<Engine>,
    /// What is notified of the change.
    pub webhooks: &'a WebhookFront,
    /// Which one.
    pub row: &'static Row,
    /// The requesting actor.
    pub actor: Arc<Actor>,
    /// The parameters of its path.
    pub parameters: &'a [(&'a str, &'a str)],
}

/// The subscription that an answer is about.
fn subscription_of(body: &[u8]) -> Option<uuid::Uuid> {
    let text = std::str::from_utf8(body).ok()?;
    let rest = text.strip_prefix("{\"subscriptionId\":\"")?;
    rest.split_once('"')?.0.parse().ok()
}

/// Carries out an operation by which webhooks are managed, and has the dispatcher know.
pub async fn manage(managed: Managed<'_>, read: ReadCommand, permit: Permit) -> Answer {
    let Managed {
        engine,
        webhooks,
        row,
        actor,
        parameters,
    } = managed;
    let problems = Problems::of(row);
    let param = |name: &str| {
        let found = parameters.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    };
    let event: Option<EventId> = param("eventId").and_then(|id| id.parse().ok());
    let call = CommandRequest {
        row: Some(row),
        actor: Arc::clone(&actor),
        command: read.command,
        header_key: read.header_key,
    };
    // What was asked for before is answered as it was.
    if let Some(event) = event
        && event.position < engine.first_position()
        && !engine.has_used_key_of(&call)
        && let Ok((dead, position)) = engine.read(read_whether_dead, &actor, parameters).await
        && dead.body == b"true"
    {
        let gone = "The log no longer has this event: it cannot be sent again.";
        let answer = problems.problem(StatusCode::GONE, "event_gone", gone);
        return at_position(answer, position);
    }
    let subscription = param("subscriptionId").and_then(|id| id.parse().ok());
    let (engine, dispatcher) = (Arc::clone(engine), webhooks.dispatcher.clone());
    // A client that resets its stream drops this future, and what was committed by then would not be
    // delivered: a task of its own goes on.
    let carrying_out = async move {
        let result = engine.execute(call, permit).await;
        if let CommandResult::Done { body, replay, .. } = &result
            && let Some(id) = subscription.or_else(|| subscription_of(body))
        {
            match event {
                Some(event) if !replay => dispatcher.retried(id, event),
                _ => dispatcher.changed(id),
            }
        }
        result
    };
    let carried_out = tokio::spawn(carrying_out.in_current_span());
    let mut result = carried_out.await.unwrap_or(CommandResult::OutcomeUnknown);
    if let CommandResult::Done { body, .. } = &mut result
        && let Some(told) = told(&webhooks.key, body)
    {
        *body = told.into();
    }
    problems.reply(result, row.success)
}

/// A list of subscriptions or of deliveries, and who asks for it.
pub struct ManagedList<'a> {
    /// What is asked.
    pub engine: &'a Engine,
    /// The requesting actor.
    pub actor: &'a Actor,
    /// Which list.
    pub asked: Special,
    /// The parameters of its path.
    pub parameters: &'a [(&'a str, &'a str)],
    /// What its page has its share of.
    pub outgoing: &'a ResponseRoom,
}

/// Whether a cursor's place is one of this type.
fn is_place<P: FromStr>(after: &str) -> bool {
    after.parse::<P>().is_ok()
}

impl ManagedList<'_> {
    /// The requested page.
    pub async fn page(&self, uri: &Uri, headers: &HeaderMap) -> Answer {
        let problems = Problems::PLAIN;
        let is_of_deliveries = self.asked == Special::ListWebhookDeliveries;
        let (own, is_place): (&[OwnParameter], fn(&str) -> bool) = match is_of_deliveries {
            true => (DELIVERY_STATES, is_place::<EventId>),
            false => (&[][..], is_place::<Rank>),
        };
        let subject = &self.actor.subject;
        let query = ListQuery::read(uri.query(), uri.path(), subject, own, &[], is_place);
        let query = match query {
            Ok(query) => query,
            Err(rejection) => return problems.rejected(&rejection),
        };
        if let Err(answer) = come_to(self.engine, self.actor, headers, problems).await {
            return *answer;
        }
        let mut parameters = self.parameters.to_vec();
        parameters.extend(&query.own);
        let mut share = self.outgoing.to(subject).share();
        let grow = &mut |bytes| share.grow(bytes);
        let found = match is_of_deliveries {
            true => {
                let request = self.request(&query, &parameters);
                let page = self.engine.list_webhook_deliveries(&request, grow).await;
                page.map(|page| (body_of(&page, &query), page.position))
            }
            false => {
                let request = self.request(&query, &parameters);
                let page = self.engine.list_webhook_subscriptions(&request, grow).await;
                page.map(|page| (body_of(&page, &query), page.position))
            }
        };
        match found {
            Ok((body, position)) => problems.sent_body(Some(charged(body, share)), position),
            Err(reply) => problems.reply(reply, Success::Ok),
        }
    }

    fn request<'a, P: FromStr>(
        &'a self,
        query: &ListQuery,
        parameters: &'a [(&'a str, &'a str)],
    ) -> WebhookListRequest<'a, P> {
        WebhookListRequest {
            actor: self.actor,
            parameters,
            newest_first: query.order == "newest",
            after: query.after.parse().ok(),
            limit: query.limit,
        }
    }
}

/// The state of webhooks for `/readyz`: a field with a comma before it; empty without
/// subscriptions.
#[must_use]
pub fn ready(webhooks: &[SubscriptionFigures]) -> String {
    if webhooks.is_empty() {
        return String::new();
    }
    let failing = webhooks.iter().filter(|of| of.is_failing).count();
    let waiting: usize = webhooks.iter().map(|of| of.waiting).sum();
    let dead: usize = webhooks.iter().map(|of| of.dead).sum();
    format!(
        ",\"webhooks\":{{\"subscriptions\":{},\"failing\":{failing},\
         \"waiting\":{waiting},\"dead\":{dead}}}",
        webhooks.len()
    )
}
