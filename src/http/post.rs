//! Sends webhooks and messages: one POST over HTTP/1.1, on a connection that is kept for the next one.
//!
//! Whatever the receiver does, a request takes no longer than [`ANSWER_TIMEOUT`] and little memory: only the
//! response's head counts, whose size is bounded; the body is not read beyond `REST_BYTES_MAX`, after which the
//! connection is closed. Redirects are treated like other responses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::{DateTime, Datelike as _, NaiveDateTime};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{DATE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, Uri};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use super::client::address::Allowed;
use super::client::dial::{Connection, Dialer, Resolve, Target, request_target, system_resolve};
use super::client::drains::Drains;
use super::client::room::OutgoingRoom;
use crate::base::time::Timestamp;
use crate::engine::channel::schedule::Failure;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::http::traces::{SpanEnd, Tracer, number, text};

/// Timeout from connecting to the end of the response's head.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Limits for draining a response's body to keep its connection, in bytes and in time.
const REST_BYTES_MAX: usize = 64 << 10;
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection is kept without a request, and how many are kept for one receiver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
const IDLE_OF_ONE_MAX: usize = 32;

/// The rule for the addresses that a request may be sent to.
#[derive(Clone)]
pub enum Judge {
    /// Any address: the operator has set the URL.
    Anywhere,
    /// Public addresses, and the allowed networks; over plain HTTP only this machine, unless `plain` allows others.
    Webhooks {
        /// Further allowed networks.
        allowed: Arc<Allowed>,
        /// Whether plain HTTP may be sent to other machines.
        plain: bool,
    },
}

impl Judge {
    fn allows(&self, target: &Target, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Webhooks { allowed, plain } => {
                let stays = address.to_canonical().is_loopback();
                (target.is_secure || *plain || stays) && allowed.allows(address)
            }
        }
    }
}

/// The head of a receiver's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// The value of `Retry-After`.
    pub retry_after: Option<Duration>,
}

/// Sends requests, and keeps connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<ClientShared>,
    tracer: Option<Arc<Tracer>>,
}

struct ClientShared {
    dialer: Dialer,
    room: OutgoingRoom,
    drains: Arc<Drains>,
    idle: Mutex<Idle>,
    idle_timeout: Duration,
}

#[derive(Default)]
struct Idle {
    connections: HashMap<Target, Vec<(Instant, Connection)>>,
    count: usize,
    /// Whether a task closes idle connections.
    is_swept: bool,
}

impl Client {
    /// Creates a client with these TLS settings, whose connections and look-ups stay within `room`.
    #[must_use]
    pub fn within(room: OutgoingRoom, tls: ClientConfig) -> Self {
        Self::keeping_for(IDLE_TIMEOUT, room, tls, system_resolve(room.lookups))
    }

    fn keeping_for(
        idle_timeout: Duration,
        room: OutgoingRoom,
        tls: ClientConfig,
        resolve: Resolve,
    ) -> Self {
        Self {
            shared: Arc::new(ClientShared {
                dialer: Dialer::new(tls, resolve),
                room,
                drains: Arc::new(Drains::new(room.drains)),
                idle: Mutex::default(),
                idle_timeout,
            }),
            tracer: None,
        }
    }

    /// Returns the maximum number of requests that its caller may have in flight.
    #[must_use]
    pub fn requests_max(&self) -> usize {
        self.shared.room.requests
    }

    /// Returns the client, whose deliveries are traced by `tracer`.
    #[must_use]
    pub fn traced_by(mut self, tracer: Option<Arc<Tracer>>) -> Self {
        self.tracer = tracer;
        self
    }

    /// POSTs the body to the URL. The response's body is not returned.
    ///
    /// # Errors
    /// When no response came in time; the text says why, in a few words.
    pub async fn post(
        &self,
        url: &str,
        judge: &Judge,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Answered, &'static str> {
        let (target, uri) = target(url)?;
        let is_looked_up = AtomicBool::new(false);
        let asked = self.ask(&target, &uri, judge, headers, &body, &is_looked_up);
        match timeout(ANSWER_TIMEOUT, asked).await {
            Ok(answered) => answered,
            Err(_) if is_looked_up.load(Ordering::Relaxed) => {
                Err("its name was not resolved in time")
            }
            Err(_) => Err("it did not answer in time"),
        }
    }

    /// Does what [`Self::post`] does, traced under the name `what`; any 2xx response acknowledges the delivery. The
    /// receiver gets the attempt's `traceparent`.
    ///
    /// # Errors
    /// When the delivery was not acknowledged, or when that is unknown.
    pub async fn deliver(
        &self,
        what: &str,
        url: &str,
        judge: &Judge,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<(), Failure> {
        let doing = self.tracer.as_ref().map(|tracer| tracer.begin(None));
        if let Some(doing) = &doing
            && let Ok(parent) = HeaderValue::try_from(doing.context.parent())
        {
            headers.insert(HeaderName::from_static("traceparent"), parent);
        }
        let posted = self.post(url, judge, &headers, body).await;
        if let (Some(tracer), Some(doing)) = (&self.tracer, doing) {
            tracer.end(doing, || attempt(what, &headers, posted));
        }
        match posted {
            Ok(Answered { status, .. }) if (200..300).contains(&status) => Ok(()),
            Ok(Answered {
                status,
                retry_after,
            }) => Err(Failure {
                status: Some(status),
                error: format!("it answered {status}").into(),
                retry_after,
            }),
            Err(error) => Err(Failure {
                status: None,
                error: error.into(),
                retry_after: None,
            }),
        }
    }

    /// Makes the request. While the receiver's name is being looked up, `is_looked_up` is true.
    async fn ask(
        &self,
        target: &Target,
        uri: &Uri,
        judge: &Judge,
        headers: &HeaderMap,
        body: &Bytes,
        is_looked_up: &AtomicBool,
    ) -> Result<Answered, &'static str> {
        let request = || {
            let mut request = Request::post(&*request_target(uri));
            if let Some(all) = request.headers_mut() {
                *all = headers.clone();
                let host = uri.authority().map(|authority| authority.as_str());
                let host = HeaderValue::try_from(host.unwrap_or_default());
                all.insert(HOST, host.map_err(|_| "its URL has no host")?);
                all.insert(USER_AGENT, HeaderValue::from_static("carebook"));
            }
            let request = request.body(Full::new(body.clone()));
            request.map_err(|_| "its URL cannot be asked")
        };
        // A kept connection may have been closed meanwhile; then a new one is made, once.
        if let Some(mut kept) = self.shared.kept(target)
            && let Ok(answer) = kept.sender.send_request(request()?).await
        {
            return Ok(self.answered(target, kept, answer));
        }
        let allows = |address| judge.allows(target, address);
        let dialer = &self.shared.dialer;
        is_looked_up.store(true, Ordering::Relaxed);
        let found = dialer.find(target).await.map_err(|error| error.what)?;
        is_looked_up.store(false, Ordering::Relaxed);
        let fresh = dialer.connect_to(target, found, allows).await;
        let mut fresh = fresh.map_err(|error| error.what)?;
        let answer = fresh.sender.send_request(request()?).await;
        match answer {
            Ok(answer) => Ok(self.answered(target, fresh, answer)),
            Err(error) if error.is_parse_too_large() => Err("its response's head is too large"),
            Err(error) if error.is_parse() => Err("its answer is not HTTP"),
            Err(_) => Err("it broke off before its answer"),
        }
    }

    fn answered(
        &self,
        target: &Target,
        connection: Connection,
        answer: Response<Incoming>,
    ) -> Answered {
        let status = answer.status().as_u16();
        let header = |name| answer.headers().get(name);
        let own = || SystemClock::default().now();
        let asked = |value| retry_after(value, header(DATE), own);
        let retry_after = header(RETRY_AFTER).and_then(asked);
        let body = answer.into_body();
        if body.is_end_stream() {
            self.shared.keep(target, connection);
        } else {
            self.shared.pass_over(target, connection, body);
        }
        Answered {
            status,
            retry_after,
        }
    }
}

/// Returns the span of an attempt. It contains nothing of the URL, which may be a secret.
fn attempt(what: &str, headers: &HeaderMap, posted: Result<Answered, &'static str>) -> SpanEnd {
    let mut attributes = vec![text("http.request.method", "POST")];
    if let Some(id) = headers.get("webhook-id").and_then(|id| id.to_str().ok()) {
        attributes.push(text("messaging.message.id", id));
    }
    let status = posted.map(|answered| answered.status);
    let is_taken = status.is_ok_and(|status| (200..300).contains(&status));
    match status {
        Ok(status) => {
            attributes.push(number("http.response.status_code", i64::from(status)));
            if !is_taken {
                attributes.push(text("error.type", &status.to_string()));
            }
        }
        Err(why) => attributes.push(text("error.type", why)),
    }
    SpanEnd {
        name: what.to_owned(),
        kind: SpanKind::Client,
        is_error: !is_taken,
        attributes,
    }
}

/// Whether the body has ended within its limits.
async fn passed_over(mut body: Incoming) -> bool {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return false;
        };
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > REST_BYTES_MAX {
            return false;
        }
    }
    true
}

impl ClientShared {
    /// Keeps the connection once the rest of its response is passed over. What has come already needs no drain.
    fn pass_over(self: &Arc<Self>, target: &Target, connection: Connection, body: Incoming) {
        let mut rest = Box::pin(passed_over(body));
        let mut context = Context::from_waker(Waker::noop());
        let passed = rest.as_mut().poll(&mut context);
        match passed {
            Poll::Ready(true) => self.keep(target, connection),
            Poll::Ready(false) => {}
            Poll::Pending => {
                if let Some(drain) = self.drains.begin(target) {
                    let shared = Arc::clone(self);
                    tokio::spawn(async move {
                        if let Ok(true) = timeout(REST_TIMEOUT, rest).await {
                            shared.keep(drain.target(), connection);
                        }
                        drop(drain);
                    });
                }
            }
        }
    }

    fn kept(&self, target: &Target) -> Option<Connection> {
        let mut idle = self.idle.lock();
        loop {
            let of_target = idle.connections.get_mut(target)?;
            let Some((since, connection)) = of_target.pop() else {
                idle.connections.remove(target);
                return None;
            };
            idle.count -= 1;
            let is_old = since.elapsed() > self.idle_timeout;
            if !is_old && connection.sender.is_ready() {
                return Some(connection);
            }
        }
    }

    fn keep(self: &Arc<Self>, target: &Target, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.count >= self.room.idle {
            idle.let_old_go(self.idle_timeout);
        }
        if idle.count >= self.room.idle {
            return;
        }
        let of_target = idle.connections.entry(target.clone()).or_default();
        if of_target.len() < IDLE_OF_ONE_MAX {
            of_target.push((Instant::now(), connection));
            idle.count += 1;
        }
        let was_swept = std::mem::replace(&mut idle.is_swept, true);
        drop(idle);
        if !was_swept {
            tokio::spawn(Sweep(Arc::downgrade(self)).run(self.idle_timeout));
        }
    }
}

/// Closes connections that were idle for too long, as long as any are kept. It holds no strong reference to the
/// client.
struct Sweep(Weak<ClientShared>);

impl Sweep {
    async fn run(mut self, idle_timeout: Duration) {
        loop {
            tokio::time::sleep(idle_timeout / 8).await;
            let Some(shared) = self.0.upgrade() else {
                return;
            };
            let mut idle = shared.idle.lock();
            idle.let_old_go(idle_timeout);
            if idle.connections.is_empty() {
                idle.is_swept = false;
                // From here on another task may take over the sweeping.
                self.0 = Weak::new();
                return;
            }
        }
    }
}

/// A runtime that ends drops the task, while another runtime may go on using the client.
impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.idle.lock().is_swept = false;
        }
    }
}

impl Idle {
    fn let_old_go(&mut self, idle_timeout: Duration) {
        self.connections.retain(|_, of_target| {
            of_target.retain(|(since, connection)| {
                since.elapsed() <= idle_timeout && !connection.sender.is_closed()
            });
            !of_target.is_empty()
        });
        self.count = self.connections.values().map(Vec::len).sum();
    }
}

fn target(url: &str) -> Result<(Target, Uri), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "its URL cannot be read")?;
    let target = Target::of(&uri)?;
    Ok((target, uri))
}

/// Parses seconds, or a date (RFC 9110 10.2.3), which is relative to the receiver's own clock in the response's
/// `Date`. Without `Date` a response is dated when it comes (6.6.1), by `own`.
fn retry_after(
    value: &HeaderValue,
    date: Option<&HeaderValue>,
    own: impl Fn() -> Timestamp,
) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit counts as the maximum.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let seconds = |value: &HeaderValue| http_date(value.to_str().ok()?.trim(), &own);
    let until = seconds(value)?;
    let now = date.and_then(seconds);
    let now = now.unwrap_or_else(|| own().millis().div_euclid(1_000));
    u64::try_from(until - now).ok().map(Duration::from_secs)
}

/// Parses a date in one of the three forms of RFC 9110 5.6.7, in seconds since 1970. `own` tells the century of a year of
/// two digits.
fn http_date(text: &str, own: impl Fn() -> Timestamp) -> Option<i64> {
    if let Ok(date) = DateTime::parse_from_rfc2822(text) {
        return Some(date.timestamp());
    }
    if let Ok(date) = NaiveDateTime::parse_from_str(text, "%a %b %e %H:%M:%S %Y") {
        return Some(date.and_utc().timestamp());
    }
    // The form of RFC 850, "Sunday, 06-Nov-94 08:49:37 GMT", whose day of the week depends on the century.
    let (_, text) = text.split_once(", ")?;
    let (date, time) = text.split_once(' ')?;
    let mut parts = date.split('-');
    let (Some(day), Some(month), Some(year), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    if year.len() != 2 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year: i32 = year.parse().ok()?;
    let this_year = DateTime::from_timestamp_millis(own().millis())?.year();
    let ahead = (year - this_year).rem_euclid(100);
    // More than 50 years ahead means the most recent year with these digits.
    let year = this_year + if ahead > 50 { ahead - 100 } else { ahead };
    let date = DateTime::parse_from_rfc2822(&format!("{day} {month} {year} {time}"));
    Some(date.ok()?.timestamp())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::SocketAddr;

    use super::super::client::address::network;
    use super::*;
    use crate::http::client::dial::trusting;

    #[test]
    fn a_receiver_asks_to_be_left_alone_in_seconds_or_until_a_date() {
        let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT");
        let own = || Timestamp::parse("1994-11-06T08:50:17Z").unwrap();
        let dated = |text: &str, date: Option<&HeaderValue>| {
            retry_after(&HeaderValue::from_str(text).unwrap(), date, own)
        };
        let of = |text: &str| dated(text, Some(&date));
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(of("120"), seconds(120));
        assert_eq!(of("0"), seconds(0));
        let until = "Sun, 06 Nov 1994 08:51:17 GMT";
        assert_eq!(of(until), seconds(100));
        for nothing in [
            "Sun, 06 Nov 1994 08:49:36 GMT",
            "-1",
            "+1",
            "1.5",
            "soon",
            "",
        ] {
            assert_eq!(of(nothing), None, "{nothing}");
        }
        // A number of more than 64 bits.
        assert_eq!(of("18446744073709551616"), seconds(u64::MAX));
        // Without the receiver's `Date`, this machine's clock is used.
        assert_eq!(dated(until, None), seconds(60));
        let unfit = HeaderValue::from_static("yesterday");
        assert_eq!(dated(until, Some(&unfit)), seconds(60));
        assert_eq!(dated("Sun, 06 Nov 1994 08:50:16 GMT", None), None);
    }

    #[test]
    fn a_date_has_any_of_the_three_forms_of_http() {
        let own = || Timestamp::parse("2026-11-06T00:00:00Z").unwrap();
        let of = |text: &str| http_date(text, own);
        let at = |text: &str| Some(Timestamp::parse(text).unwrap().millis() / 1_000);
        for (text, expected) in [
            ("Fri, 06 Nov 2026 08:49:37 GMT", "2026-11-06T08:49:37Z"),
            ("Friday, 06-Nov-26 08:49:37 GMT", "2026-11-06T08:49:37Z"),
            ("Fri Nov  6 08:49:37 2026", "2026-11-06T08:49:37Z"),
            ("Mon Nov 16 08:49:37 2026", "2026-11-16T08:49:37Z"),
            ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"),
            // A year of two digits is at most 50 years ahead.
            ("Friday, 06-Nov-76 08:49:37 GMT", "2076-11-06T08:49:37Z"),
            ("Sunday, 06-Nov-77 08:49:37 GMT", "1977-11-06T08:49:37Z"),
        ] {
            assert_eq!(of(text), at(expected), "{text}");
        }
        for nothing in [
            "Friday, 06-Nov-2026 08:49:37 GMT",
            "Friday, 06-Nov 08:49:37 GMT",
            "Friday, 31-Feb-26 08:49:37 GMT",
            "Fri Nov  6 2026",
            "Mon Nov  6 08:49:37 2026",
        ] {
            assert_eq!(of(nothing), None, "{nothing}");
        }
        // All of them count in `Retry-After`, and in the `Date` that it is relative to.
        let forms = [
            "Fri, 06 Nov 2026 08:49:37 GMT",
            "Friday, 06-Nov-26 08:49:37 GMT",
            "Fri Nov  6 08:49:37 2026",
        ];
        let until = HeaderValue::from_static("Friday, 06-Nov-26 08:51:17 GMT");
        for form in forms {
            let date = HeaderValue::from_static(form);
            let asked = retry_after(&until, Some(&date), own);
            assert_eq!(asked, Some(Duration::from_secs(100)), "{form}");
        }
    }

    #[test]
    fn plain_http_stays_on_loopback_and_allowed_addresses_are_still_judged() {
        let judge = |allowed: &[&str], plain| Judge::Webhooks {
            allowed: Arc::new(Allowed(
                allowed.iter().map(|cidr| cidr.parse().unwrap()).collect(),
            )),
            plain,
        };
        let allows = |judge: &Judge, url: &str, address: &str| {
            judge.allows(&target(url).unwrap().0, address.parse().unwrap())
        };
        let strict = judge(&[], false);
        assert!(allows(&strict, "https://a/", "8.8.8.8"));
        assert!(!allows(&strict, "https://a/", "127.0.0.1"));
        assert!(!allows(&strict, "http://a/", "8.8.8.8"));
        assert!(!allows(&strict, "http://127.0.0.1/", "127.0.0.1"));
        let near = judge(&["127.0.0.0/8", "10.0.0.0/8"], false);
        assert!(allows(&near, "http://127.0.0.1/", "127.0.0.1"));
        assert!(allows(&near, "https://a/", "10.0.0.1"));
        assert!(!allows(&near, "http://a/", "10.0.0.1"));
        let plain = judge(&[], true);
        assert!(allows(&plain, "http://a/", "8.8.8.8"));
        assert!(!allows(&plain, "http://a/", "10.0.0.1"));
        assert!(allows(&Judge::Anywhere, "http://a/", "10.0.0.1"));
    }

    fn client(room: OutgoingRoom) -> Client {
        Client::within(room, trusting(Vec::new()).unwrap())
    }

    /// Posts to a URL that ends with `rest`; returns the first line of the request, and what came of it where the
    /// receiver answers with these bytes.
    async fn posted(rest: &str, answer: String) -> (String, Result<Answered, &'static str>) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{rest}", listener.local_addr().unwrap());
        let receiving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4_096];
            let length = stream.read(&mut head).await.unwrap();
            // The client may have closed the connection before the end.
            let _ = stream.write_all(answer.as_bytes()).await;
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            head.lines().next().unwrap_or_default().to_owned()
        });
        let (client, headers) = (client(OutgoingRoom::default()), HeaderMap::new());
        let answered = client.post(&url, &Judge::Anywhere, &headers, Bytes::new());
        let answered = answered.await;
        (receiving.await.unwrap(), answered)
    }

    #[tokio::test]
    async fn a_url_with_a_query_and_no_path_is_asked_at_the_root() {
        for (rest, line) in [
            ("", "POST / HTTP/1.1"),
            ("?x=y", "POST /?x=y HTTP/1.1"),
            ("/a?x=y", "POST /a?x=y HTTP/1.1"),
        ] {
            let answer = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
            let (asked, answered) = posted(rest, answer).await;
            assert_eq!(asked, line);
            assert_eq!(answered.map(|answered| answered.status), Ok(204), "{rest}");
        }
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_told_from_what_is_not_http() {
        let head = |fields: String| format!("HTTP/1.1 204 No Content\r\n{fields}\r\n");
        let large = format!("X-Large: {}\r\n", "a".repeat(17 << 10));
        let many = |count: usize| "A: b\r\n".repeat(count);
        let is_large = Err("its response's head is too large");
        for (answer, expected) in [
            (head(large), is_large),
            (head(many(101)), is_large),
            (head(many(100)), Ok(204)),
            (
                "SSH-2.0-OpenSSH\r\n\r\n".to_owned(),
                Err("its answer is not HTTP"),
            ),
        ] {
            let (_, answered) = posted("/", answer).await;
            assert_eq!(answered.map(|answered| answered.status), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_whose_time_runs_out_says_whether_its_name_was_not_resolved() {
        let resolve: Resolve =
            Arc::new(|_, _| Box::pin(std::future::pending::<std::io::Result<Vec<SocketAddr>>>()));
        let (tls, room) = (trusting(Vec::new()).unwrap(), OutgoingRoom::default());
        let client = Client::keeping_for(IDLE_TIMEOUT, room, tls, resolve);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = format!("http://{}/", listener.local_addr().unwrap());
        for (url, error) in [
            ("http://a.example/", "its name was not resolved in time"),
            (silent.as_str(), "it did not answer in time"),
        ] {
            let headers = HeaderMap::new();
            let posted = client.post(url, &Judge::Anywhere, &headers, Bytes::new());
            assert_eq!(posted.await, Err(error));
        }
    }

    #[tokio::test]
    async fn beyond_the_limit_of_drained_bodies_a_connection_is_closed_at_once() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            for number in 1.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let ended = ended.clone();
                tokio::spawn(async move {
                    let mut head = vec![0; 4_096];
                    let _ = stream.read(&mut head).await;
                    // The body does not come.
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
                    let _ = stream.write_all(answer).await;
                    let _ = stream.read(&mut head).await;
                    let _ = ended.send(number);
                });
            }
        });
        let client = client(OutgoingRoom {
            drains: 1,
            ..OutgoingRoom::default()
        });
        let headers = HeaderMap::new();
        for _ in 1..=2 {
            let posted = client.post(&url, &Judge::Anywhere, &headers, Bytes::new());
            assert_eq!(posted.await.map(|answered| answered.status), Ok(200));
        }
        // The first connection is open until its time is over.
        assert_eq!(ends.recv().await, Some(2));
    }

    #[tokio::test]
    async fn a_connection_whose_body_has_come_is_kept_though_all_drains_are_taken() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut head = vec![0; 4_096];
                    while matches!(stream.read(&mut head).await, Ok(1..)) {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
                        let _ = stream.write_all(answer).await;
                    }
                });
            }
        });
        let client = client(OutgoingRoom {
            drains: 1,
            ..OutgoingRoom::default()
        });
        // Another receiver does not send its body.
        let silent = target("http://127.0.0.1:1/").unwrap().0;
        let drain = client.shared.drains.begin(&silent).unwrap();
        let headers = HeaderMap::new();
        for _ in 1..=3 {
            let posted = client.post(&url, &Judge::Anywhere, &headers, Bytes::new());
            assert_eq!(posted.await.map(|answered| answered.status), Ok(200));
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
        drop(drain);
    }

    /// A receiver that accepts every request, one on each connection, and notes the address of each.
    async fn taking(listener: tokio::net::TcpListener, heard: Arc<Mutex<Vec<SocketAddr>>>) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            heard.lock().push(stream.local_addr().unwrap());
            let mut head = vec![0; 4_096];
            let _ = stream.read(&mut head).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    }

    #[test]
    fn a_connection_idle_for_too_long_is_closed_and_leaves_no_entry() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
            tokio::spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let ended = ended.clone();
                    tokio::spawn(async move {
                        let mut head = vec![0; 4_096];
                        while matches!(stream.read(&mut head).await, Ok(1..)) {
                            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                            let _ = stream.write_all(answer).await;
                        }
                        let _ = ended.send(());
                    });
                }
            });
            let tls = trusting(Vec::new()).unwrap();
            let idle_timeout = Duration::from_millis(200);
            let room = OutgoingRoom::default();
            let resolve = system_resolve(room.lookups);
            let client = Client::keeping_for(idle_timeout, room, tls, resolve);
            let patience = Duration::from_secs(10);
            let headers = HeaderMap::new();
            let judge = Judge::Anywhere;
            for _ in 0..2 {
                let posted = client.post(&url, &judge, &headers, Bytes::new());
                assert_eq!(posted.await.map(|answer| answer.status), Ok(200));
                assert_eq!(client.shared.idle.lock().count, 1);
                // No further request is sent.
                assert_eq!(timeout(patience, ends.recv()).await, Ok(Some(())));
                let idle = client.shared.idle.lock();
                assert!(idle.connections.is_empty());
                assert_eq!((idle.count, idle.is_swept), (0, false));
            }
            // The sweeping task does not keep a dropped client alive.
            let posted = client.post(&url, &judge, &headers, Bytes::new());
            assert!(posted.await.is_ok());
            assert!(client.shared.idle.lock().is_swept);
            drop(client);
            assert_eq!(timeout(patience, ends.recv()).await, Ok(Some(())));
        });
    }

    #[test]
    fn a_name_is_resolved_once_per_request_and_its_address_judged_each_time() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let heard = Arc::new(Mutex::new(Vec::new()));
            tokio::spawn(taking(listener, Arc::clone(&heard)));
            let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            let resolve: Resolve = Arc::new(move |host, port| {
                assert_eq!(host, "receiver.example");
                let time = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let address = match time {
                    0 => ["127.0.0.1"].as_slice(),
                    // If one of several addresses is allowed, that one is used.
                    1 => ["10.0.0.1", "127.0.0.1"].as_slice(),
                    _ => ["127.0.0.2", "169.254.169.254", "::1"].as_slice(),
                };
                let found = address
                    .iter()
                    .map(|address| SocketAddr::new(address.parse().unwrap(), port))
                    .collect();
                Box::pin(std::future::ready(Ok(found)))
            });
            let tls = trusting(Vec::new()).unwrap();
            let room = OutgoingRoom::default();
            let client = Client::keeping_for(IDLE_TIMEOUT, room, tls, resolve);
            let judge = Judge::Webhooks {
                allowed: Arc::new(Allowed(vec![network("127.0.0.1").unwrap()])),
                plain: false,
            };
            let url = format!("http://receiver.example:{port}/");
            let headers = HeaderMap::new();
            for time in 1..=2 {
                let answer = client.post(&url, &judge, &headers, Bytes::new()).await;
                assert_eq!(answer.map(|answer| answer.status), Ok(200));
                assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), time);
            }
            let refused = client.post(&url, &judge, &headers, Bytes::new()).await;
            assert_eq!(refused, Err("its address is not allowed"));
            let loopback = IpAddr::from([127, 0, 0, 1]);
            let heard = heard.lock();
            assert_eq!(heard.len(), 2);
            assert!(heard.iter().all(|address| address.ip() == loopback));
        });
    }
}
