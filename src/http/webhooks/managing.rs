//! The requests that manage webhooks, and their lists.

use std::str::FromStr;
use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::{StatusCode, Uri};
use tracing::Instrument as _;

use super::secret::{MasterKey, told};
use crate::base::actor::Actor;
use crate::catalogue::{Row, Success};
use crate::domain::event_id::EventId;
use crate::domain::rank::Rank;
use crate::domain::webhook::read_subscription::read_whether_dead;
use crate::engine::limits::admission::Permit;
use crate::engine::webhooks::handle::Webhooks;
use crate::engine::webhooks::lists::WebhookListRequest;
use crate::engine::{CommandRequest, CommandResult, Engine, Mode};
use crate::http::limits::response_room::{ResponseRoom, ResponseRoomOf, charged};
use crate::http::read::cursor::CursorOwner;
use crate::http::read::list_query::{ListQuery, OwnParameter};
use crate::http::read::lists::body_of;
use crate::http::read::min_position::{come_to, come_to_place};
use crate::http::response::{Answer, Problems, at_position};
use crate::http::route::WebhookList;

/// The parameter that filters deliveries by their state.
const DELIVERY_STATES: &[OwnParameter] = &[("state", &["waiting", "dead"])];

/// The parts that the front needs for webhooks.
#[derive(Clone)]
pub struct WebhookFront {
    /// The master key from which the secrets are derived.
    pub key: Arc<MasterKey>,
    /// The dispatcher that delivers.
    pub dispatcher: Webhooks,
}

/// A request for an operation that manages webhooks.
pub struct Managed<'a> {
    /// The engine that carries out the operation.
    pub engine: &'a Arc<Engine>,
    /// The dispatcher that is notified of the change, and the master key.
    pub webhooks: &'a WebhookFront,
    /// The operation.
    pub row: &'static Row,
    /// The parameters of the operation's path.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The budget that the answer's body is charged to.
    pub outgoing: ResponseRoomOf<'a>,
}

/// Returns the subscription that a response body is about.
fn subscription_of(body: &[u8]) -> Option<uuid::Uuid> {
    let text = std::str::from_utf8(body).ok()?;
    let rest = text.strip_prefix("{\"subscriptionId\":\"")?;
    rest.split_once('"')?.0.parse().ok()
}

/// Carries out an operation that manages webhooks, and notifies the dispatcher.
pub async fn manage(managed: Managed<'_>, call: CommandRequest, permit: Permit) -> Answer {
    let Managed {
        engine,
        webhooks,
        row,
        parameters,
        outgoing,
    } = managed;
    let problems = Problems::of(row);
    let param = |name: &str| {
        let found = parameters.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    };
    let event: Option<EventId> = param("eventId").and_then(|id| id.parse().ok());
    // A replay gets its stored response, even if the event has been removed since.
    if let Some(event) = event
        && event.position < engine.first_position()
        && !engine.has_used_key_of(&call)
        && let Ok((dead, position)) = engine
            .read(read_whether_dead, &call.actor, parameters)
            .await
        && dead.body == b"true"
    {
        let gone = "The log no longer has this event: it cannot be sent again.";
        let answer = problems.problem(StatusCode::GONE, "event_gone", gone);
        return at_position(answer, position);
    }
    let subscription = param("subscriptionId").and_then(|id| id.parse().ok());
    let (engine, dispatcher) = (Arc::clone(engine), webhooks.dispatcher.clone());
    // A client that resets its stream drops this future; a commit made by then would not be delivered. So a task of
    // its own carries out the operation.
    let carrying_out = async move {
        let result = engine.execute(call, permit, Mode::Commit).await;
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
    if let CommandResult::Done { body, .. } = &mut result {
        if let Some(told) = told(&webhooks.key, body) {
            *body = told.into();
        }
        // Each of them has a key, so its answer is owed.
        let Some(charged) = outgoing.answer(std::mem::take(body), true) else {
            return problems.not_sent();
        };
        *body = charged;
    }
    problems.reply(result, row.success)
}

/// A request for a list of subscriptions or of deliveries.
pub struct ManagedList<'a> {
    /// The engine that is queried.
    pub engine: &'a Engine,
    /// The requesting actor.
    pub actor: &'a Actor,
    /// The requested list.
    pub asked: WebhookList,
    /// The parameters of the list's path.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The budget that the page's body is charged to.
    pub outgoing: &'a ResponseRoom,
}

/// Whether a cursor's position parses as this type.
fn is_place<P: FromStr>(after: &str) -> bool {
    after.parse::<P>().is_ok()
}

impl ManagedList<'_> {
    /// Returns the requested page.
    pub async fn page(&self, uri: &Uri, headers: &HeaderMap) -> Answer {
        let problems = Problems::PLAIN;
        let is_of_deliveries = self.asked == WebhookList::Deliveries;
        let (own, is_place): (&[OwnParameter], fn(&str) -> bool) = match is_of_deliveries {
            true => (DELIVERY_STATES, is_place::<EventId>),
            false => (&[][..], is_place::<Rank>),
        };
        let owner = CursorOwner::of(self.engine, self.actor);
        let query = ListQuery::read(uri.query(), uri.path(), owner, own, &[], is_place);
        let query = match query {
            Ok(query) => query,
            Err(rejection) => return problems.rejected(&rejection),
        };
        if let Err(answer) = come_to(self.engine, self.actor, headers, problems).await {
            return *answer;
        }
        // A rank has no position.
        let place = match is_of_deliveries {
            true => query.after.parse::<EventId>().ok(),
            false => None,
        };
        let place = place.map(|after| after.position);
        if let Err(answer) = come_to_place(self.engine, self.actor, place, problems).await {
            return *answer;
        }
        let mut parameters = self.parameters.to_vec();
        parameters.extend(&query.own);
        let mut share = self.outgoing.to(owner.subject).share();
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::catalogue::MANAGEMENT;
    use crate::cli::runtime::on_lane;
    use crate::cli::token::signing::{SigningAlgorithm, SigningKey};
    use crate::engine::channel::Bounds;
    use crate::engine::sample::engine;
    use crate::engine::webhooks::handle::{Delivered, OutgoingEvent, Sender, Sending};
    use crate::http::limits::response_room::taken;
    use crate::http::request::DryRun;
    use crate::http::request::arriving::bodies_budget;
    use crate::http::request::command::read_command;
    use crate::http::service::Service;
    use crate::http::token::TokenVerifier;

    /// Brings deliveries nowhere.
    struct Nowhere;

    impl Sender for Nowhere {
        fn send(self: Arc<Self>, _: OutgoingEvent) -> Sending {
            Box::pin(async { Delivered::Taken })
        }
    }

    #[test]
    fn a_large_subscription_response_counts_until_sent_and_its_manager_waits() {
        let engine = Arc::new(engine());
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        let verifier = TokenVerifier::new(key.jwks().as_bytes(), "iss", "aud").unwrap();
        let mut rows = MANAGEMENT.iter();
        let row = rows.find(|row| row.name == "create_webhook_subscription");
        let row = row.unwrap();
        let body = serde_json::json!({
            "url": "https://receiver.example.com/events",
            "types": ["carebook.settlement-statement.*"],
            "description": "\u{1}".repeat(4_000),
        });
        let body = body.to_string();
        let work = async {
            let (dispatcher, _deliveries) =
                engine.deliver_webhooks(Arc::new(Nowhere), Bounds::default(), 1);
            let front = WebhookFront {
                key: Arc::new(MasterKey::new(&[7; 32])),
                dispatcher,
            };
            let service = Service::new(Arc::clone(&engine), Arc::new(verifier));
            let mut service = service.with_webhooks(front);
            let (outgoing, _all) = taken();
            service.outgoing = outgoing;
            let manager = |subject: &str| {
                Arc::new(Actor {
                    subject: subject.into(),
                    kind: ActorKind::SystemWorkflow,
                    permissions: vec!["webhooks:manage".into()],
                    ..Actor::nobody()
                })
            };
            let bodies = bodies_budget();
            let create = async |subject: &str, key: &'static str| {
                let mut headers = HeaderMap::new();
                headers.insert("idempotency-key", HeaderValue::from_static(key));
                let mut share = Permit::none(&bodies);
                let (dry_run, now) = (DryRun::No, engine.now());
                let read = read_command(
                    row,
                    &[],
                    &headers,
                    dry_run,
                    body.as_bytes(),
                    &mut share,
                    now,
                );
                let (read, permit) = (read.ok().unwrap(), engine.admit().unwrap());
                let carried_out =
                    service.carried_out(row, manager(subject), &[], read, permit, dry_run);
                carried_out.await
            };
            let told = create("me", "1").await;
            assert_eq!(told.status(), StatusCode::CREATED);
            let refused = create("me", "2").await;
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            let other = create("you", "1").await;
            assert_eq!(other.status(), StatusCode::CREATED);
            drop(told);
            let next = create("me", "2").await;
            assert_eq!(next.status(), StatusCode::CREATED);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }
}
