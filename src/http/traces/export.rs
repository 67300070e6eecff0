//! Exports spans to the collector: OTLP over HTTP, protobuf, in batches, on a thread of its own.
//!
//! Even with a hostile collector, a batch takes no longer than the timeouts of its attempts, and no more memory than
//! the queue, a response's head and [`ANSWER_BYTES_MAX`] of its body. A redirect counts as a refusal.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{TraceCounts, text};
use crate::http::client::dial::{Connection, Dialer, Target};

/// Maximum number of spans in a batch, and how long the first of them waits for others.
pub const BATCH_SPANS_MAX: usize = 512;
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Timeout from connecting to the last byte of a response.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response's body that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Maximum number of attempts for a batch, and the pause after the first attempt; each further pause is twice as
/// long.
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// How long queued spans are still sent when the service ends.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// The media type of a batch, and of its response.
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// The path for traces below the endpoint.
const TRACES_PATH: &str = "/v1/traces";

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    target: Target,
    host: Box<str>,
    path: Box<str>,
}

impl Collector {
    /// Parses the URL of the collector's endpoint: traces go to `/v1/traces` below it.
    ///
    /// # Errors
    /// When the text is no URL of HTTP; it says why.
    pub fn read(url: &str) -> Result<Self, String> {
        let uri: Uri = url
            .parse()
            .map_err(|error| format!("it is no URL: {error}"))?;
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err("it has to name no user".to_owned());
        }
        let path = uri.path().trim_end_matches('/');
        let path = match path.ends_with(TRACES_PATH) {
            true => path.to_owned(),
            false => format!("{path}{TRACES_PATH}"),
        };
        Ok(Self {
            target: Target::of(&uri)?,
            host: authority.as_str().into(),
            path: path.into(),
        })
    }
}

/// Why an attempt failed.
enum Failed {
    /// The failure is temporary; another attempt may succeed.
    Passing(&'static str),
    /// The failure is permanent: the collector will not accept this batch.
    Final(&'static str),
}

/// A handle to the sending thread. Dropping it lets the thread send the queued spans, for half a second.
pub struct Exporting {
    stop: Option<oneshot::Sender<()>>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl Drop for Exporting {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = self.ended.recv_timeout(LAST_WAIT);
    }
}

struct Exporter {
    collector: Collector,
    dialer: Dialer,
    spans: mpsc::Receiver<Span>,
    /// The spans of the next batch collected so far.
    next: Vec<Span>,
    counts: Arc<TraceCounts>,
    kept: Option<Connection>,
    is_failing: bool,
}

/// Starts a thread that sends the spans of the queue to the collector.
///
/// # Errors
/// When the thread cannot be started.
pub fn export(
    collector: Collector,
    dialer: Dialer,
    spans: mpsc::Receiver<Span>,
    counts: Arc<TraceCounts>,
) -> std::io::Result<Exporting> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (stop, stopped) = oneshot::channel();
    let (sender, ended) = std::sync::mpsc::channel();
    let exporter = Exporter {
        collector,
        dialer,
        spans,
        next: Vec::new(),
        counts,
        kept: None,
        is_failing: false,
    };
    let thread = std::thread::Builder::new().name("traces".to_owned());
    thread.spawn(move || {
        runtime.block_on(exporter.run(stopped));
        // A blocking look-up of a name may never return.
        runtime.shutdown_background();
        let _ = sender.send(());
    })?;
    Ok(Exporting {
        stop: Some(stop),
        ended,
    })
}

impl Exporter {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let deadline = loop {
            let goes_on = tokio::select! {
                goes_on = self.collect() => goes_on,
                _ = &mut stopped => break Instant::now() + LAST_WAIT,
            };
            if !goes_on {
                return;
            }
            let batch = std::mem::take(&mut self.next);
            let mut sent = pin!(self.send(batch));
            tokio::select! {
                () = &mut sent => {}
                _ = &mut stopped => {
                    let deadline = Instant::now() + LAST_WAIT;
                    let _ = timeout_at(deadline, sent).await;
                    break deadline;
                }
            }
        };
        // Takes the spans that are queued already.
        let mut last = std::mem::take(&mut self.next);
        while let Ok(span) = self.spans.try_recv() {
            last.push(span);
        }
        if !last.is_empty() {
            let request = request(last);
            let _ = timeout_at(deadline, self.attempt(&request)).await;
        }
    }

    /// Collects the next batch; returns whether there is one.
    async fn collect(&mut self) -> bool {
        let Some(first) = self.spans.recv().await else {
            return false;
        };
        let until = Instant::now() + BATCH_WAIT;
        self.next.push(first);
        while self.next.len() < BATCH_SPANS_MAX {
            match timeout_at(until, self.spans.recv()).await {
                Ok(Some(span)) => self.next.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        true
    }

    async fn send(&mut self, batch: Vec<Span>) {
        let count = u64::try_from(batch.len()).unwrap_or(0);
        let request = request(batch);
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS_MAX {
            let attempted = timeout(ANSWER_TIMEOUT, self.attempt(&request)).await;
            let attempted = attempted.unwrap_or(Err(Failed::Passing("it did not answer in time")));
            let failed = match attempted {
                Ok(rejected) => {
                    let rejected = rejected.min(count);
                    add(&self.counts.rejected, rejected);
                    add(&self.counts.exported, count - rejected);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("the collector takes traces again");
                    }
                    return;
                }
                Err(failed) => failed,
            };
            add(&self.counts.failures, 1);
            let (why, is_final) = match failed {
                Failed::Passing(why) => (why, attempt == ATTEMPTS_MAX),
                Failed::Final(why) => (why, true),
            };
            // Logged once, until the collector accepts spans again.
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(why, "the collector does not take traces");
            }
            if is_final {
                break;
            }
            sleep(pause).await;
            pause *= 2;
        }
        add(&self.counts.not_taken, count);
    }

    /// Makes one attempt; returns how many spans were rejected.
    async fn attempt(&mut self, request: &Bytes) -> Result<u64, Failed> {
        let fresh = || {
            Request::post(&*self.collector.path)
                .header(HOST, &*self.collector.host)
                .header(USER_AGENT, "carebook")
                .header(CONTENT_TYPE, PROTOBUF)
                .body(Full::new(request.clone()))
                .map_err(|_| Failed::Final("it cannot be asked"))
        };
        let asked = fresh()?;
        let kept = self.kept.take();
        let mut connection = match kept.filter(|kept| kept.sender.is_ready()) {
            Some(kept) => kept,
            None => {
                let connected = self.dialer.connect(&self.collector.target, |_| true);
                connected
                    .await
                    .map_err(|error| Failed::Passing(error.what))?
            }
        };
        let answer = connection.sender.send_request(asked).await;
        let answer = answer.map_err(|_| Failed::Passing("it broke off before its answer"))?;
        let status = answer.status().as_u16();
        match status {
            200..300 => {}
            429 | 502..=504 => return Err(Failed::Passing("it is not available")),
            _ => return Err(Failed::Final("it refused them")),
        }
        let is_protobuf = answer.headers().get(CONTENT_TYPE) == Some(&PROTOBUF);
        let body = whole(answer.into_body()).await?;
        self.kept = Some(connection);
        let told = match ExportTraceServiceResponse::decode(body) {
            Ok(told) => told,
            // The response declares a collector's media type but cannot be parsed.
            Err(_) if is_protobuf => return Err(Failed::Final("its answer is malformed")),
            // Some collectors report success in another form, such as `{}`.
            Err(_) => return Ok(0),
        };
        let rejected = told
            .partial_success
            .map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }
}

/// Returns the body, if it is within its limit.
async fn whole(mut body: Incoming) -> Result<Bytes, Failed> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failed::Passing("it broke off in its answer"))?;
        let data = frame.into_data().unwrap_or_default();
        if bytes.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(Failed::Final("its answer is too long"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// Returns the request for a batch.
fn request(spans: Vec<Span>) -> Bytes {
    let version = env!("CARGO_PKG_VERSION");
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![
                    text("service.name", "carebook"),
                    text("service.version", version),
                ],
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "carebook".to_owned(),
                    version: version.to_owned(),
                    ..InstrumentationScope::default()
                }),
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    request.encode_to_vec().into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_endpoint() {
        let path = |url: &str| Collector::read(url).unwrap().path.to_string();
        assert_eq!(path("http://c:4318"), "/v1/traces");
        assert_eq!(path("http://c:4318/"), "/v1/traces");
        assert_eq!(path("https://c/otlp/"), "/otlp/v1/traces");
        assert_eq!(path("https://c/v1/traces"), "/v1/traces");
        for bad in [
            "",
            "c:4318",
            "ftp://c",
            "http://",
            "http://a@c/",
            "http://c:99999",
            "http://c:",
            "/v1",
        ] {
            assert!(Collector::read(bad).is_err(), "{bad}");
        }
    }
}
