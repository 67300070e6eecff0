//! `GET /events`: what is committed, in pages or as server-sent events (WHATWG HTML, 9.2).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::base::actor::Actor;
use crate::base::json::FaultCode;
use crate::base::text::EventTypePattern;
use crate::catalogue::Success;
use crate::domain::event_id::EventId;
use crate::domain::rejection::Rejection;
use crate::engine::Engine;
use crate::engine::feed::{EventFilter, EventReader, NoPage, Page};
use crate::http::caller::Caller;
use crate::http::client_end::{ClientEnd, WatchedClient};
use crate::http::limits::portions::ResponseBudget;
use crate::http::limits::request_room::RequestRoomOf;
use crate::http::limits::response_room::ResponseRoom;
use crate::http::read::min_position::{come_to, come_to_place};
use crate::http::read::query::Query;
use crate::http::response::answer_body::AnswerBody;
use crate::http::response::pieces::{Pieces, pieces};
use crate::http::response::{Answer, Problems, at_position};
use crate::http::service::Service;
use crate::http::token::TokenVerifier;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Maximum number of types that one request may name.
const TYPES_MAX: usize = 50;
/// Maximum and default number of events of a page.
const LIMIT_MAX: usize = 1_000;
const LIMIT: usize = 100;
/// Maximum number of events that a stream holds at a time: the cost of a reader that reads nothing.
const STREAM_LIMIT: usize = 64;
/// Time between two comments of a stream: one at least every 15 s is promised.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Time between two comments from when the client may have left; it doubles with each comment, up to `HEARTBEAT`.
const HEARTBEAT_AT_END: Duration = Duration::from_millis(250);
/// How long a reader may take to make room for more.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two judgements of a stream's actor: at most 60 s are promised.
const JUDGED_EVERY: Duration = Duration::from_secs(50);
/// Approximate bytes of a piece in which events are handed over, and maximum number of waiting pieces.
const PIECE_BYTES: usize = 16 << 10;
const PIECES_MAX: usize = 4;

/// The parsed query of a request.
struct Wanted {
    after: Option<EventId>,
    filter: Arc<EventFilter>,
    limit: usize,
}

/// The requesting actor, and what serves it.
pub struct Reader<'s> {
    /// The engine.
    pub engine: &'s Arc<Engine>,
    /// What judges tokens.
    pub verifier: &'s Arc<TokenVerifier>,
    /// The requesting actor.
    pub actor: Arc<Actor>,
    /// The budget that pages are charged to.
    pub outgoing: &'s ResponseRoom,
    /// The budget that the pieces of a stream are charged to, over HTTP/2.
    pub held: Option<ResponseBudget>,
    /// The budget that a stream is charged to, over HTTP/2.
    pub streams: Option<&'s Arc<RequestRoomOf>>,
    /// Notices that the client may have left, over HTTP/1.
    pub end: Option<&'s Arc<ClientEnd>>,
}

/// Answers a request.
pub async fn events(reader: Reader<'_>, query: Option<&str>, headers: &HeaderMap) -> Answer {
    let problems = Problems::PLAIN;
    let judged = Instant::now();
    let is_stream = wants_stream(headers);
    let wanted = match wanted(query, headers, is_stream) {
        Ok(wanted) => wanted,
        Err(rejection) => return problems.rejected(&rejection),
    };
    let Reader {
        engine,
        verifier,
        actor,
        outgoing,
        held,
        streams,
        end,
    } = reader;
    if let Err(answer) = come_to(engine, &actor, headers, problems).await {
        return *answer;
    }
    let place = wanted.after.map(|after| after.position);
    if let Err(answer) = come_to_place(engine, &actor, place, problems).await {
        return *answer;
    }
    if let Err(reply) = engine.may_act(&actor).await {
        return problems.reply(reply, Success::Ok);
    }
    if !actor.may_be_granted("events:read") {
        let rejection = Rejection::permission_denied(
            "Only headquarters and system workflows with events:read may read events.",
        );
        return at_position(problems.rejected(&rejection), engine.durable());
    }
    let after = wanted.after.unwrap_or_else(|| engine.before_first_event());
    let limit = if is_stream {
        STREAM_LIMIT
    } else {
        wanted.limit
    };
    let asks = EventReader::Client {
        subject: &actor.subject,
        is_begun: false,
    };
    let page = match engine.events(asks, after, &wanted.filter, limit).await {
        Ok(page) => page,
        Err(why) => return no_page(why, engine),
    };
    if !is_stream {
        let outgoing = outgoing.to(&actor.subject);
        let body = outgoing.body(length(&page), || written(&page));
        return problems.sent_body(body, page.durable);
    }
    let charge = match streams.map(RequestRoomOf::stream) {
        Some(None) => return problems.overloaded(),
        charge => charge.flatten(),
    };
    let (sender, body) = pieces(PIECES_MAX);
    let judge = Judge {
        engine: Arc::clone(engine),
        verifier: Arc::clone(verifier),
        authorization: headers.get(AUTHORIZATION).cloned(),
        actor: Arc::clone(&actor),
        judged,
    };
    let follower = Follower {
        engine: Arc::clone(engine),
        actor,
        filter: wanted.filter,
        outlet: Outlet { sender, held },
        client: end.map(ClientEnd::watched),
        heartbeat: HEARTBEAT,
        told: page.next,
    };
    let durable = page.durable;
    tokio::spawn(follower.serve(page, judge));
    // A client may keep the stream open when its follower has ended.
    at_position(stream_of(body.keeping(charge)), durable)
}

fn stream_of(body: Pieces) -> Answer {
    let mut answer = Response::new(AnswerBody::Stream(body));
    let stream = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(CONTENT_TYPE, stream);
    answer
}

fn no_page(why: NoPage, engine: &Engine) -> Answer {
    let problems = Problems::PLAIN;
    match why {
        NoPage::Gone { earliest } => {
            // The earliest itself is of the future where nothing is kept.
            let before = EventId::behind(earliest.position.saturating_sub(1));
            let gone = format!(
                "Events before {earliest} are no longer kept; all that are kept come after {before}."
            );
            let answer = problems.problem(StatusCode::GONE, "events_gone", &gone);
            at_position(answer, engine.durable())
        }
        // It depends on the state: one that may not answer says so in its place.
        NoPage::Future => at_position(
            problems.rejected(&Rejection::invalid_at("query.after", FaultCode::OutOfRange)),
            engine.durable(),
        ),
        NoPage::QueueFull => problems.overloaded(),
        NoPage::Unavailable => problems.unavailable(),
    }
}

/// Whether the request accepts a stream of events.
fn wants_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|range| {
        let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
        let refused = parameters.split(';').any(|parameter| {
            let weight = parameter.trim().strip_prefix("q=");
            weight.is_some_and(|weight| weight.parse() == Ok(0.0))
        });
        name.trim().eq_ignore_ascii_case("text/event-stream") && !refused
    })
}

fn wanted(query: Option<&str>, headers: &HeaderMap, is_stream: bool) -> Result<Wanted, Rejection> {
    let mut query = Query::read(query, &["after", "limit", "type", "subject"]);
    let id = |text: &str| text.parse::<EventId>().map_err(|_| FaultCode::Pattern);
    let after = query.one("after", id);
    let limit = match is_stream {
        // It is not looked at.
        true => None,
        false => query.number("limit", 1, LIMIT_MAX),
    };
    let subject = query.one("subject", |text| Ok(Box::from(text)));
    let types = query.all("type");
    if types.len() > TYPES_MAX {
        query.fault("type", FaultCode::TooLong);
    }
    let types: Result<Vec<_>, _> = types
        .iter()
        .map(|text| EventTypePattern::in_query(text))
        .collect();
    let types = types.map_err(|code| query.fault("type", code));
    query.finish()?;
    let last = match is_stream {
        true => last_event_id(headers),
        false => Ok(None),
    };
    let last = last.map_err(|code| Rejection::invalid_at("header.Last-Event-ID", code))?;
    Ok(Wanted {
        after: last.or(after),
        filter: Arc::new(EventFilter {
            types: types.unwrap_or_default(),
            subject,
        }),
        limit: limit.unwrap_or(LIMIT),
    })
}

/// The last event that the reader of a stream has. A browser sends an empty one, or none, before the
/// first.
fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, FaultCode> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let last = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(last), None) => last,
        (Some(_), Some(_)) => return Err(FaultCode::NotUnique),
    };
    if last.is_empty() {
        return Ok(None);
    }
    let id = last.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or(FaultCode::Pattern)
}

/// Returns the approximate bytes of a page's body.
fn length(page: &Page) -> usize {
    let events: usize = page.events.iter().map(|event| event.json.len() + 1).sum();
    events + 128
}

/// The body of a page.
fn written(page: &Page) -> Vec<u8> {
    let mut body = Vec::with_capacity(length(page));
    body.extend_from_slice(b"{\"events\":[");
    for (index, event) in page.events.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&event.json);
    }
    let end = format!("],\"next\":\"{}\",\"end\":{}}}", page.next, page.end);
    body.extend_from_slice(end.as_bytes());
    body
}

/// The sending end of a stream.
struct Outlet {
    sender: mpsc::Sender<Bytes>,
    held: Option<ResponseBudget>,
}

impl Outlet {
    /// Sends a piece. Returns whether the reader made room for it in time.
    async fn send(&self, piece: Vec<u8>) -> bool {
        let sent = timeout(PATIENCE, async {
            let piece = match &self.held {
                Some(held) => held.piece(piece).await,
                None => piece.into(),
            };
            self.sender.send(piece).await
        });
        matches!(sent.await, Ok(Ok(())))
    }
}

/// Judges the actor of a stream again and again, whatever the stream waits for meanwhile.
struct Judge {
    engine: Arc<Engine>,
    verifier: Arc<TokenVerifier>,
    authorization: Option<HeaderValue>,
    actor: Arc<Actor>,
    /// When the actor was last judged.
    judged: Instant,
}

impl Judge {
    /// Returns once the actor may no longer read.
    async fn refused(mut self) {
        loop {
            sleep_until(self.judged + JUDGED_EVERY).await;
            self.judged = Instant::now();
            let now_ms = self.engine.now().millis();
            let authorization = self.authorization.as_ref();
            let is_accepted = self.verifier.still_accepts(authorization, now_ms);
            if !is_accepted || self.engine.may_act(&self.actor).await.is_err() {
                return;
            }
        }
    }
}

/// Follows the events for one reader of a stream.
struct Follower {
    engine: Arc<Engine>,
    actor: Arc<Actor>,
    filter: Arc<EventFilter>,
    outlet: Outlet,
    /// Watches the client; `None` once it may have left, and over HTTP/2.
    client: Option<WatchedClient>,
    /// The time between two comments.
    heartbeat: Duration,
    /// The last event that was sent or skipped.
    told: EventId,
}

impl Follower {
    /// Follows from the first page until the reader leaves or may no longer read, which may be at any time: its
    /// connection may reset one stream and open the next.
    async fn serve(self, first: Page, judge: Judge) {
        let reader = self.outlet.sender.clone();
        tokio::select! {
            () = reader.closed() => {}
            () = judge.refused() => {}
            () = self.follow(first) => {}
        }
    }

    /// Sends events from the first page on, until the reader is too slow, or withdrawn, or the service ends.
    async fn follow(mut self, first: Page) {
        let mut page = first;
        let mut commented = Instant::now();
        // So that the reader knows at once that the stream is open.
        if !self.outlet.send(b": events\n\n".to_vec()).await {
            return;
        }
        loop {
            self.told = page.next;
            if !page.events.is_empty() && !self.tell(&page).await {
                return;
            }
            if commented.elapsed() >= self.heartbeat {
                let comment = format!(": \nid: {}\n\n", self.told);
                if !self.outlet.send(comment.into_bytes()).await {
                    return;
                }
                commented = Instant::now();
                self.heartbeat = (self.heartbeat * 2).min(HEARTBEAT);
            }
            if page.end && !self.waits(commented).await {
                return;
            }
            if self.engine.feed().has_ended() {
                return;
            }
            let goes_on = EventReader::Client {
                subject: &self.actor.subject,
                is_begun: true,
            };
            page = match self
                .engine
                .events(goes_on, self.told, &self.filter, STREAM_LIMIT)
                .await
            {
                Ok(page) => page,
                Err(_) => return,
            };
        }
    }

    /// Waits for something new, the next comment, or a sign that the client may have left. Returns false
    /// when nothing more comes, because the service ends.
    async fn waits(&mut self, commented: Instant) -> bool {
        let until = commented + self.heartbeat;
        let beyond = self.engine.feed().beyond(self.told.position);
        let noticed = async {
            match &self.client {
                Some(client) => client.noticed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            more = tokio::time::timeout_at(until, beyond) => !matches!(more, Ok(false)),
            () = noticed => {
                // The client may also go on reading, so comments follow; watching it further would find the same again.
                self.heartbeat = HEARTBEAT_AT_END;
                self.client = None;
                true
            }
        }
    }

    async fn tell(&self, page: &Page) -> bool {
        let mut piece = String::new();
        for event in &page.events {
            let _ = write!(
                piece,
                "id: {}\nevent: {}\ndata: ",
                event.id,
                event.event_type()
            );
            // The object is on one line: line feeds in JSON are escaped.
            piece.push_str(&String::from_utf8_lossy(&event.json));
            piece.push_str("\n\n");
            if piece.len() >= PIECE_BYTES && !self.hand_over(std::mem::take(&mut piece)).await {
                return false;
            }
        }
        piece.is_empty() || self.hand_over(piece).await
    }

    /// Sends a piece of events. Returns whether the actor may have it, and the reader made room for it in time. Once
    /// the actor's withdrawal is acknowledged, nothing more is handed over.
    async fn hand_over(&self, piece: String) -> bool {
        self.engine.may_act(&self.actor).await.is_ok() && self.outlet.send(piece.into_bytes()).await
    }
}

impl Service {
    /// The answer to a reader of events.
    pub(in crate::http) async fn events(
        &self,
        caller: &Caller,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Answer {
        match self.actor(caller, headers, Problems::PLAIN).await {
            Ok(actor) => {
                let reader = Reader {
                    engine: &self.engine,
                    verifier: &self.verifier,
                    actor,
                    outgoing: &self.outgoing,
                    held: caller.held.clone(),
                    streams: caller.requests.as_ref(),
                    end: caller.end.as_ref(),
                };
                events(reader, query, headers).await
            }
            Err(answer) => *answer,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::time::Timestamp;
    use crate::cli::token::signing::{SigningAlgorithm, SigningKey};
    use crate::domain::event::FACT_APPLIED;
    use crate::http::limits::request_room::RequestRoom;
    use crate::journal::events::Event;

    #[tokio::test(start_paused = true)]
    async fn unread_streams_hold_no_more_of_a_connection_than_its_responses() {
        let held = ResponseBudget::default();
        let (mut streams, mut bytes) = (Vec::new(), 0);
        let begun = Instant::now();
        'all: loop {
            let (sender, body) = pieces(PIECES_MAX);
            let outlet = Outlet {
                sender,
                held: Some(held.clone()),
            };
            streams.push((outlet, body));
            for _ in 0..PIECES_MAX {
                let (outlet, _) = streams.last().unwrap();
                if !outlet.send(vec![7; PIECE_BYTES]).await {
                    break 'all;
                }
                bytes += PIECE_BYTES;
            }
        }
        assert_eq!(bytes, 512 << 10);
        assert_eq!(begun.elapsed(), PATIENCE);
        let room = async |held: &ResponseBudget| timeout(Duration::ZERO, held.room()).await.is_ok();
        assert!(!room(&held).await, "further requests wait");
        let (outlet, mut body) = streams.pop().unwrap();
        assert!(outlet.send(b": a heartbeat".to_vec()).await);
        // Once a piece is taken there is room for another one.
        let (_, first) = streams.first_mut().unwrap();
        let piece = first.frame().await.unwrap().unwrap();
        drop(piece);
        assert!(room(&held).await);
        assert!(outlet.send(vec![7; PIECE_BYTES]).await);
        for length in ["heartbeat".len() + 4, PIECE_BYTES] {
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(piece.len(), length);
        }
    }

    /// The place of the last event that the streams of these tests begin with.
    const TOLD: EventId = EventId {
        position: 1_000,
        number: 0,
    };

    /// Serves a stream that begins with this page, to a reader without a token, as a task.
    fn served(engine: &Arc<Engine>, page: Page) -> (JoinHandle<()>, Pieces) {
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        let verifier = TokenVerifier::new(key.jwks().as_bytes(), "iss", "aud").unwrap();
        let (sender, body) = pieces(PIECES_MAX);
        let actor = Arc::new(Actor::nobody());
        let judge = Judge {
            engine: Arc::clone(engine),
            verifier: Arc::new(verifier),
            authorization: None,
            actor: Arc::clone(&actor),
            judged: Instant::now(),
        };
        let follower = Follower {
            engine: Arc::clone(engine),
            actor,
            filter: Arc::default(),
            outlet: Outlet { sender, held: None },
            client: None,
            heartbeat: HEARTBEAT,
            told: page.next,
        };
        (tokio::spawn(follower.serve(page, judge)), body)
    }

    #[test]
    fn a_stream_is_charged_until_its_body_is_gone_even_if_its_follower_ended() {
        let engine = Arc::new(crate::engine::sample::engine());
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        let verifier = TokenVerifier::new(key.jwks().as_bytes(), "iss", "aud").unwrap();
        let actor = Arc::new(Actor {
            kind: ActorKind::SystemWorkflow,
            permissions: vec!["events:read".into()],
            ..Actor::nobody()
        });
        let streams = RequestRoom::default().of_connection([127, 0, 0, 1].into());
        let left = || {
            let mut charges = Vec::new();
            while let Some(charge) = streams.stream() {
                charges.push(charge);
            }
            charges.len()
        };
        let all = left();
        let work = async {
            let reader = Reader {
                engine: &engine,
                verifier: &Arc::new(verifier),
                actor,
                outgoing: &ResponseRoom::default(),
                held: None,
                streams: Some(&streams),
                end: None,
            };
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            let answer = events(reader, None, &headers).await;
            assert_eq!(answer.status(), StatusCode::OK);
            let mut body = answer.into_body();
            engine.end_feed();
            while body.frame().await.is_some() {}
            assert_eq!(left(), all - 1, "the body is there");
            drop(body);
            assert_eq!(left(), all);
        };
        crate::cli::runtime::on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_waits_for_events_ends_at_once_when_its_reader_leaves() {
        let engine = Arc::new(crate::engine::sample::engine());
        let begun = Instant::now();
        let page = Page {
            events: Vec::new(),
            next: TOLD,
            end: true,
            durable: TOLD.position,
        };
        let (stream, mut body) = served(&engine, page);
        assert!(body.frame().await.is_some());
        drop(body);
        stream.await.unwrap();
        assert!(begun.elapsed() < HEARTBEAT);
        engine.shut_down().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_valid_token_a_stream_ends_in_a_minute_even_if_read_slowly() {
        let engine = Arc::new(crate::engine::sample::engine());
        let begun = Instant::now();
        let event = Arc::new(Event {
            id: TOLD,
            at: Timestamp::default(),
            name: FACT_APPLIED.name,
            subject: "reference-facts/actor/somebody".into(),
            json: Bytes::from(vec![b'7'; PIECE_BYTES]),
        });
        let page = Page {
            events: vec![event; 4 * PIECES_MAX],
            next: TOLD,
            end: false,
            durable: TOLD.position,
        };
        let (stream, mut body) = served(&engine, page);
        // Each time a piece has waited for room for less than the reader's patience.
        for seconds in [25, 49] {
            sleep_until(begun + Duration::from_secs(seconds)).await;
            assert!(body.frame().await.is_some());
            assert!(!stream.is_finished());
        }
        stream.await.unwrap();
        assert!(begun.elapsed() <= Duration::from_secs(60));
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_reader_beyond_the_full_queue_is_told_to_retry() {
        let engine = crate::engine::sample::engine();
        let refused = no_page(NoPage::QueueFull, &engine);
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.body().code(), Some("overloaded"));
        assert_eq!(refused.headers()["retry-after"], "1");
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_page_is_charged_no_less_than_it_has() {
        let last = EventId {
            position: u64::MAX,
            number: u32::MAX,
        };
        let page = Page {
            events: Vec::new(),
            next: last,
            end: false,
            durable: u64::MAX,
        };
        assert!(written(&page).len() <= length(&page));
    }

    #[test]
    fn a_stream_is_sent_to_who_accepts_one() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_stream(&headers)
        };
        assert!(wants("text/event-stream"));
        assert!(wants("application/json, Text/Event-Stream;q=0.5"));
        assert!(!wants("text/event-stream;q=0"));
        assert!(!wants("application/json"));
        assert!(!wants("*/*"));
    }

    #[test]
    fn a_stream_goes_on_behind_the_last_event_that_the_browser_names() {
        let after = |last: &str, is_stream| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, last.parse().unwrap());
            let wanted = wanted(Some("after=3-0"), &headers, is_stream);
            wanted.map(|wanted| wanted.after.unwrap().to_string())
        };
        assert_eq!(after("7-1", true).unwrap(), "7-1");
        assert_eq!(after("7-1", false).unwrap(), "3-0", "it is for streams");
        assert_eq!(after("x", false).unwrap(), "3-0");
        assert_eq!(after("", true).unwrap(), "3-0", "before the first event");
        let faults = after("x", true).unwrap_err().faults;
        assert_eq!(faults[0].path, "header.Last-Event-ID");
    }

    #[test]
    fn a_stream_takes_no_second_last_event_and_looks_at_no_limit() {
        let wanted = |query: &str, last: &[&'static str], is_stream| {
            let mut headers = HeaderMap::new();
            for last in last {
                headers.append(LAST_EVENT_ID, HeaderValue::from_static(last));
            }
            let wanted = wanted(Some(query), &headers, is_stream);
            wanted.map_err(|rejection| {
                let fault = &rejection.faults[0];
                (fault.path.clone(), fault.code)
            })
        };
        for (last, code) in [
            (["7-1", "x"], FaultCode::NotUnique),
            (["7-1", "7-1"], FaultCode::NotUnique),
            (["", "7-1"], FaultCode::NotUnique),
        ] {
            let fault = wanted("", &last, true).err();
            let expected = ("header.Last-Event-ID".to_owned(), code);
            assert_eq!(fault, Some(expected), "{last:?}");
            assert!(wanted("", &last, false).is_ok(), "it is for streams");
        }
        for (query, code) in [
            ("limit=abc", FaultCode::WrongType),
            ("limit=0", FaultCode::OutOfRange),
            ("limit=1&limit=1", FaultCode::DuplicateField),
        ] {
            let fault = wanted(query, &[], false).err();
            assert_eq!(fault, Some(("query.limit".to_owned(), code)), "{query}");
            assert!(wanted(query, &[], true).is_ok(), "{query}");
        }
        assert!(wanted("limit=7", &["7-1"], true).is_ok());
    }
}
