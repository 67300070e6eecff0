//! Records ended requests in the log, the access log and a trace.

use std::time::{Duration, Instant};

use hyper::Method;
use hyper::body::Body as _;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::access_log::{AccessLine, method_word};
use super::metric_sources::MetricSources;
use super::response::{Answer, POSITION};
use super::route::Series;
use super::traces::{OpenSpan, SpanEnd, number, text};
use crate::base::time::Timestamp;
use crate::base::trace_context::TraceContext;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Facts about a request that are collected while it is handled.
pub(super) struct RequestOutcome<'r> {
    /// The series that the request is counted in.
    pub(super) series: Series,
    /// The path template of the matched route; `None` if no route matched.
    pub(super) route: Option<&'r str>,
    /// When the command was handed to the engine, and when the engine had answered, if that is recorded.
    pub(super) command: Times,
}

/// The begin and the end of some work, if they are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Times {
    /// The times are not recorded.
    #[default]
    Unasked,
    /// The times are to be recorded.
    Asked,
    /// The work has begun.
    Begun(Instant),
    /// The work has ended.
    Ended(Instant, Instant),
}

impl Times {
    /// Returns times that are to be recorded if the request is traced.
    pub(super) fn asked(observed: Option<&Observed>) -> Self {
        let doing = observed.and_then(|observed| observed.doing.as_ref());
        match doing.is_some_and(|doing| doing.context.is_sampled) {
            true => Self::Asked,
            false => Self::Unasked,
        }
    }

    /// Records the begin, if it is to be recorded.
    pub(super) fn begin(&mut self) {
        if *self == Self::Asked {
            *self = Self::Begun(Instant::now());
        }
    }

    /// Records the end, if the begin was recorded.
    pub(super) fn end(&mut self) {
        if let Self::Begun(began) = *self {
            *self = Self::Ended(began, Instant::now());
        }
    }
}

/// Further data for the record of a request; kept only if there is an access log or a tracer.
pub(super) struct Observed {
    at: Timestamp,
    trace: Option<TraceContext>,
    doing: Option<OpenSpan>,
}

/// A request whose response is made.
pub(super) struct Ended<'a> {
    pub(super) method: &'a Method,
    pub(super) outcome: &'a RequestOutcome<'a>,
    pub(super) operation: &'static str,
    pub(super) request_id: &'a HeaderValue,
    pub(super) answer: &'a Answer,
    pub(super) took: Duration,
    pub(super) is_secure: bool,
}

/// Returns the trace context in the headers.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    TraceContext::read(values(TRACEPARENT), values(TRACESTATE))
}

/// Begins the record of a request with these headers; `None` without an access log and a tracer, in which case this
/// costs only a comparison.
pub(super) fn observe(
    upkeep: &MetricSources,
    now: impl FnOnce() -> Timestamp,
    headers: &HeaderMap,
) -> Option<Observed> {
    if upkeep.access_log.is_none() && upkeep.tracer.is_none() {
        return None;
    }
    let trace = trace_of(headers);
    let Some(tracer) = &upkeep.tracer else {
        return Some(Observed {
            at: now(),
            trace,
            doing: None,
        });
    };
    let doing = tracer.begin(trace);
    Some(Observed {
        at: now(),
        trace: upkeep.access_log.is_some().then(|| doing.context.clone()),
        doing: Some(doing),
    })
}

/// Records an ended request.
pub(super) fn tell(upkeep: &MetricSources, observed: Option<Observed>, ended: &Ended<'_>) {
    let status = ended.answer.status().as_u16();
    let operation = ended.operation;
    let request_id = ended.request_id.to_str().unwrap_or("-");
    if status == 500 {
        tracing::error!(
            request_id,
            operation,
            status,
            "a request was answered with an internal error"
        );
    } else {
        tracing::debug!(
            request_id,
            operation,
            status,
            code = ended.answer.body().code(),
            position = ended.position(),
            "a request was answered"
        );
    }
    let Some(mut observed) = observed else {
        return;
    };
    if let (Some(tracer), Some(doing)) = (&upkeep.tracer, observed.doing.take()) {
        if let Times::Ended(began, answered) = ended.outcome.command {
            tracer.part(&doing, (began, answered), || ended.command_done());
        }
        tracer.end(doing, || ended.done());
    }
    let Some(log) = &upkeep.access_log else {
        return;
    };
    let body = ended.answer.body();
    let is_head = *ended.method == Method::HEAD;
    log.write(&AccessLine {
        at: observed.at,
        method: ended.method,
        route: ended.outcome.route,
        operation,
        status,
        code: body.code(),
        took: ended.took,
        bytes: if is_head {
            Some(0)
        } else {
            body.size_hint().exact()
        },
        request_id,
        trace: observed.trace.as_ref(),
        position: ended.position(),
    });
}

impl Ended<'_> {
    /// Returns the span of the request. Its attributes are templates and words of the program; they hold nothing of
    /// the path's values, the query or the body.
    fn done(&self) -> SpanEnd {
        let status = self.answer.status();
        let method = method_word(self.method);
        let mut attributes = vec![
            text("http.request.method", method),
            number("http.response.status_code", i64::from(status.as_u16())),
            text("url.scheme", if self.is_secure { "https" } else { "http" }),
            text("carebook.operation", self.operation),
            text(
                "carebook.request_id",
                self.request_id.to_str().unwrap_or("-"),
            ),
        ];
        if let Some(route) = self.outcome.route {
            attributes.push(text("http.route", route));
            attributes.push(text("url.path", route));
        }
        if let Some(code) = self.answer.body().code() {
            attributes.push(text("carebook.code", code));
        }
        if let Some(position) = self.position().and_then(|position| position.parse().ok()) {
            attributes.push(number("carebook.position", position));
        }
        if status.is_server_error() {
            attributes.push(text("error.type", status.as_str()));
        }
        SpanEnd {
            name: match self.outcome.route {
                Some(route) => format!("{method} {route}"),
                None => method.to_owned(),
            },
            kind: SpanKind::Server,
            is_error: status.is_server_error(),
            attributes,
        }
    }

    /// Returns the span of the engine's work: from queueing the command until its outcome is durable.
    fn command_done(&self) -> SpanEnd {
        let mut attributes = vec![text("carebook.operation", self.operation)];
        if let Some(code) = self.answer.body().code() {
            attributes.push(text("carebook.code", code));
        }
        if let Some(position) = self.position().and_then(|position| position.parse().ok()) {
            attributes.push(number("carebook.position", position));
        }
        SpanEnd {
            name: "command".to_owned(),
            kind: SpanKind::Internal,
            is_error: self.answer.status().is_server_error(),
            attributes,
        }
    }

    /// Returns the position that the response depends on.
    fn position(&self) -> Option<&str> {
        self.answer.headers().get(POSITION)?.to_str().ok()
    }
}
