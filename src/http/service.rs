//! One request: route, token, body, command, engine, response; in the contract's order of checks.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    STRICT_TRANSPORT_SECURITY,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Uri, Version};
use tracing::Instrument as _;

use super::caller::Caller;
use super::console::Console;
use super::cors::{Cors, is_of_a_name};
use super::limits::connections::ConnectionCounts;
use super::limits::forgeries::Forgeries;
use super::limits::response_room::ResponseRoom;
use super::metric_sources::MetricSources;
use super::metrics::Metrics;
use super::observed::{Ended, Observed, RequestOutcome, Times, observe, tell};
use super::read::list_query::as_body;
use super::request::DryRun;
use super::request::arriving::bodies_budget;
use super::request::authority::names_one_host;
use super::request::body::{self, no_body, read_json_body, shed};
use super::request::command::{Unread, read_command};
use super::request::request_id::{REQUEST_ID, request_id};
use super::response::{self, Answer, Problems, problem_body};
use super::route::{Handler, Offer, RouteMatch, Routes};
use super::token::{LastToken, TokenVerifier};
use super::webhooks::managing::WebhookFront;
use crate::base::actor::Actor;
use crate::base::json::FaultCode;
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::{BodySource, Purpose, Row, Success};
use crate::domain::rejection::Rejection;
use crate::engine::limits::admission::{Admission, Permit};
use crate::engine::{CommandResult, Engine};

/// The service behind every connection.
pub struct Service {
    pub(super) engine: Arc<Engine>,
    pub(super) verifier: Arc<TokenVerifier>,
    pub(super) routes: Routes,
    pub(super) metrics: Arc<Metrics>,
    /// The actor of operations without a token.
    nobody: Arc<Actor>,
    /// Bytes of bodies that may be in flight.
    pub(super) bodies: Arc<Admission>,
    /// What the bodies of reads that are on their way out share.
    pub(super) outgoing: ResponseRoom,
    pub(super) forgeries: Arc<Forgeries>,
    pub(super) webhooks: Option<WebhookFront>,
    pub(super) connections: Arc<ConnectionCounts>,
    pub(super) upkeep: MetricSources,
    cors: Option<Cors>,
    pub(super) console: Option<Arc<Console>>,
}

/// What caches may keep of responses to requests with a token: nothing, or what they revalidate by
/// its entity tag each time.
const NOT_KEPT: HeaderValue = HeaderValue::from_static("no-store");
const ASKED_FOR_AGAIN: HeaderValue = HeaderValue::from_static("private, no-cache");
/// The last response of a connection.
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// A year of TLS only (RFC 6797).
pub(super) const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

pub(super) type Parameters<'a> = Vec<(&'a str, &'a str)>;

/// What a request says beside its body.
#[derive(Clone, Copy)]
struct RequestParts<'a> {
    parameters: &'a Parameters<'a>,
    query: Option<&'a str>,
    headers: &'a HeaderMap,
    dry_run: DryRun,
}

impl Service {
    /// The service of `engine`, for actors whose tokens `verifier` accepts: all routes.
    #[must_use]
    pub fn new(engine: Arc<Engine>, verifier: Arc<TokenVerifier>) -> Self {
        let shared = Shared::new(&engine);
        Self::offering(Offer::All, engine, verifier, shared)
    }

    /// The service of `engine` in two: the public routes, and what the internal listener offers.
    #[must_use]
    pub fn in_two(
        engine: &Arc<Engine>,
        verifier: &Arc<TokenVerifier>,
        inside: Offer,
    ) -> (Self, Self) {
        let shared = Shared::new(engine);
        let part = |offer| {
            let (engine, verifier) = (Arc::clone(engine), Arc::clone(verifier));
            Self::offering(offer, engine, verifier, shared.clone())
        };
        (part(Offer::Public), part(inside))
    }

    fn offering(
        offer: Offer,
        engine: Arc<Engine>,
        verifier: Arc<TokenVerifier>,
        shared: Shared,
    ) -> Self {
        let Shared {
            metrics,
            bodies,
            outgoing,
            forgeries,
            connections,
        } = shared;
        Self {
            engine,
            verifier,
            routes: Routes::new(offer),
            metrics,
            nobody: Arc::new(Actor::nobody()),
            bodies,
            outgoing,
            forgeries,
            webhooks: None,
            connections,
            upkeep: MetricSources::default(),
            cors: None,
            console: None,
        }
    }

    /// This service with webhooks: without them none can be managed.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: WebhookFront) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// This service for pages of these origins, too.
    #[must_use]
    pub fn with_cors(mut self, cors: Option<Cors>) -> Self {
        self.cors = cors;
        self
    }

    /// This service with the console.
    #[must_use]
    pub fn with_console(mut self, console: Option<Arc<Console>>) -> Self {
        self.console = console;
        self
    }

    /// This service with these metrics, too.
    #[must_use]
    pub fn with_upkeep(mut self, upkeep: MetricSources) -> Self {
        self.upkeep = upkeep;
        self
    }

    /// The counts of connections, which the acceptor updates.
    #[must_use]
    pub fn connection_counts(&self) -> &Arc<ConnectionCounts> {
        &self.connections
    }

    /// The client that has just connected from `address`.
    #[must_use]
    pub fn caller(&self, address: IpAddr, is_secure: bool) -> Caller {
        Caller {
            peer: self.forgeries.peer(address),
            last_token: LastToken::default(),
            is_secure,
            is_near: address.to_canonical().is_loopback(),
            held: None,
            requests: None,
            deadlines: None,
            end: None,
        }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Answers one request.
    pub async fn handle<B>(&self, caller: &Caller, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let (head, mut body) = request.into_parts();
        let request_id = request_id(&self.engine, &head.headers);
        let observed = observe(&self.upkeep, || self.engine.now(), &head.headers);
        let mut outcome = RequestOutcome {
            series: self.metrics.elsewhere(),
            route: None,
            command: Times::asked(observed.as_ref()),
        };
        // Over HTTP/1 such a head does not come as far as this.
        let is_http2 = head.version == Version::HTTP_2;
        let mut answer = if is_http2 && !names_one_host(&head.uri, &head.headers) {
            Problems::PLAIN.problem(
                StatusCode::BAD_REQUEST,
                "request_invalid",
                "A request names one host, and that once or the same each time.",
            )
        } else {
            let routed = pin!(self.answered(
                caller,
                &head.method,
                &head.uri,
                &head.headers,
                &mut body,
                &mut outcome,
            ));
            // Log lines of this request have its id, if they are logged at all; the future itself
            // is not moved.
            let routed = routed.instrument(tracing::debug_span!(
                "request",
                request_id = request_id.to_str().unwrap_or("-")
            ));
            // The connection may have other requests in flight.
            let answer = unless_its_future_panics(pin!(routed)).await;
            let answer = answer
                .unwrap_or_else(|| self.response_for_path(head.uri.path(), CommandResult::Fault));
            self.unless_replaced(answer, &head, started).await
        };
        let took = started.elapsed();
        if let Some(code) = answer.body().code() {
            problem_body::charge(&mut answer, code, &self.outgoing);
        }
        let ended = Ended {
            method: &head.method,
            outcome: &outcome,
            operation: self.metrics.name(outcome.series),
            request_id: &request_id,
            answer: &answer,
            took,
            is_secure: caller.is_secure,
        };
        self.count_and_tell(observed, &ended);
        if !body.is_end_stream() {
            let feed = self.engine.feed();
            let is_all = Box::pin(body::end(&mut body, &head.headers, feed)).await;
            if !is_all && head.version < Version::HTTP_2 {
                answer.headers_mut().insert(CONNECTION, CLOSE);
            }
        }
        answer.headers_mut().insert(REQUEST_ID, request_id);
        self.add_common_headers(&mut answer, caller, &head);
        answer
    }

    /// Counts a request, and tells of it in the log, the access log and the traces.
    pub(super) fn count_and_tell(&self, observed: Option<Observed>, ended: &Ended<'_>) {
        let status = ended.answer.status();
        self.metrics.count(ended.outcome.series, status, ended.took);
        if let Some(code) = ended.answer.body().code() {
            self.metrics.count_refusal(code);
        }
        tell(&self.upkeep, observed, ended);
    }

    /// Gives a response the headers that every one has.
    pub(super) fn add_common_headers(&self, answer: &mut Answer, caller: &Caller, head: &Parts) {
        if head.headers.contains_key(AUTHORIZATION) {
            // A 304 has the headers of its 200.
            let kept = match answer.headers().contains_key(ETAG) {
                true => ASKED_FOR_AGAIN,
                false => NOT_KEPT,
            };
            answer.headers_mut().insert(CACHE_CONTROL, kept);
        }
        if let Some(cors) = &self.cors {
            cors.tell(&head.method, &head.headers, answer.headers_mut());
        }
        if caller.is_secure {
            answer
                .headers_mut()
                .insert(STRICT_TRANSPORT_SECURITY, TLS_ONLY);
        }
        if caller.is_to_go() && head.version < Version::HTTP_2 {
            answer.headers_mut().insert(CONNECTION, CLOSE);
        }
    }

    /// Returns the response for `result` in the problem shape of this path.
    pub(super) fn response_for_path(&self, path: &str, result: CommandResult) -> Answer {
        let found = self.routes.find(path);
        let problems = found.map_or(Problems::PLAIN, |found| found.place.problems());
        problems.reply(result, Success::Ok)
    }

    /// The response; notes in `outcome` which series and route the request belongs to.
    pub(super) async fn routed<'s, B>(
        &'s self,
        caller: &Caller,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: B,
        outcome: &mut RequestOutcome<'s>,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = uri.path();
        // For the server as a whole (RFC 9110 9.3.7).
        if *method == Method::OPTIONS && path == "*" {
            return response::allowing(
                response::empty(StatusCode::NO_CONTENT),
                "GET, HEAD, POST, PATCH, DELETE, OPTIONS",
            );
        }
        let Some(RouteMatch { place, parameters }) = self.routes.find(path) else {
            return Problems::beside_routes(path).problem(
                StatusCode::NOT_FOUND,
                "route_not_found",
                "There is no route at this path.",
            );
        };
        outcome.route = Some(place.template());
        if *method == Method::OPTIONS {
            return response::allowing(response::empty(StatusCode::NO_CONTENT), &place.methods());
        }
        let Some((own, asked)) = place.handler(method) else {
            let answer = place.problems().problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This path does not have that method; Allow names those it has.",
            );
            return response::allowing(answer, &place.methods());
        };
        let parameters: Parameters<'_> = parameters
            .iter()
            .map(|(name, value)| (*name, value.as_ref()))
            .collect();
        outcome.series = own;
        let parts = RequestParts {
            parameters: &parameters,
            query: uri.query(),
            headers,
            dry_run: DryRun::of(uri.query()),
        };
        self.reached(caller, asked, parts, uri, body, &mut outcome.command)
            .await
    }

    /// The answer to what was found at a path.
    async fn reached<B>(
        &self,
        caller: &Caller,
        asked: Handler,
        parts: RequestParts<'_>,
        uri: &Uri,
        body: B,
        times: &mut Times,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let RequestParts {
            parameters,
            query,
            headers,
            dry_run,
        } = parts;
        // On the heap, all but commands: every request carries the room for what it may await.
        match asked {
            Handler::Operation(row) => {
                let answer = self.operation(caller, row, parts, body, times).await;
                match dry_run {
                    DryRun::Yes if row.purpose == Purpose::Service => response::of_dry_run(answer),
                    _ => answer,
                }
            }
            Handler::Read(row) => {
                Box::pin(self.read_row(caller, row, parameters, headers, query)).await
            }
            Handler::History(row) => {
                Box::pin(self.history(caller, row, parameters, headers, uri)).await
            }
            Handler::List(row) => Box::pin(self.list_row(caller, row, uri, headers)).await,
            Handler::ManagementList(list) => {
                Box::pin(self.management_list(caller, list, (parameters, uri), headers)).await
            }
            Handler::Events => Box::pin(self.events(caller, query, headers)).await,
            Handler::Special(special) => {
                let dry_run = dry_run.where_offered(false);
                Box::pin(self.special(caller, special, headers, dry_run, body)).await
            }
        }
    }

    async fn operation<B>(
        &self,
        caller: &Caller,
        row: &'static Row,
        parts: RequestParts<'_>,
        body: B,
        times: &mut Times,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let problems = Problems::of(row);
        let RequestParts {
            parameters,
            query,
            headers,
            dry_run,
        } = parts;
        let actor = if row.bearer {
            match self.actor(caller, headers, problems).await {
                Ok(actor) => actor,
                Err(answer) => return *answer,
            }
        } else if caller.may_be_misled() && is_of_a_name(self.cors.as_ref(), headers) {
            let path = "header.Origin";
            return problems.rejected(&Rejection::invalid_at(path, FaultCode::NotAllowed));
        } else {
            Arc::clone(&self.nobody)
        };
        if let Some(answer) = self.not_writer(problems) {
            return answer;
        }
        if self.engine.is_full() {
            return Box::pin(shed(problems)).await;
        }
        let body = match (row.body, headers.contains_key(CONTENT_TYPE)) {
            (BodySource::Json, _) | (BodySource::Nothing, true) => {
                read_json_body(headers, body, &self.bodies, self.engine.feed(), problems).await
            }
            (BodySource::Query, _) => Ok((as_body(query).into(), Permit::none(&self.bodies))),
            (BodySource::Nothing, false) => {
                let feed = self.engine.feed();
                Box::pin(no_body(headers, body, &self.bodies, feed, problems)).await
            }
        };
        let (mut body, mut share) = match body {
            Ok(body) => body,
            Err(answer) => return *answer,
        };
        if row.body == BodySource::Nothing && body.is_empty() {
            body = Bytes::from_static(b"{}");
        }
        // The body may have been slow, and holds no permit meanwhile.
        let Some(permit) = self.engine.admit() else {
            return Box::pin(shed(problems)).await;
        };
        let now = self.engine.now();
        let dry_run = dry_run.where_offered(row.purpose == Purpose::Service);
        let read = match read_command(row, parameters, headers, dry_run, &body, &mut share, now) {
            Ok(read) => read,
            Err(Unread::Rejected(rejection)) => return problems.rejected(&rejection),
            Err(Unread::Overloaded) => return Box::pin(shed(problems)).await,
        };
        times.begin();
        let answer = self.carried_out(row, actor, parameters, read, permit, dry_run);
        let answer = answer.await;
        times.end();
        answer
    }
}

/// What the parts of a service share.
#[derive(Clone)]
struct Shared {
    metrics: Arc<Metrics>,
    bodies: Arc<Admission>,
    outgoing: ResponseRoom,
    forgeries: Arc<Forgeries>,
    connections: Arc<ConnectionCounts>,
}

impl Shared {
    fn new(engine: &Engine) -> Self {
        Self {
            metrics: Arc::new(Metrics::new(engine.lanes().count())),
            bodies: bodies_budget(),
            outgoing: ResponseRoom::default(),
            forgeries: Forgeries::new(),
            connections: Arc::default(),
        }
    }
}
