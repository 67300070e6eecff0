//! A request as it is told of afterwards: in the log, in the access log.

use std::time::Duration;

use hyper::Method;
use hyper::body::Body as _;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::access_log::AccessLine;
use super::response::{Answer, POSITION};
use super::route::Series;
use super::upkeep::Upkeep;
use crate::base::time::Instant;
use crate::base::trace_context::TraceContext;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What is found out about a request on its way.
pub(super) struct Told<'r> {
    /// The series that it belongs to.
    pub(super) series: Series,
    /// The template of its path; `None` where there is no route.
    pub(super) route: Option<&'r str>,
}

/// What is told of a request besides what was found out on its way; there only where somebody is
/// told.
pub(super) struct Observed {
    at: Instant,
    trace: Option<TraceContext>,
}

/// A request that has its response.
pub(super) struct Ended<'a> {
    pub(super) method: &'a Method,
    pub(super) told: &'a Told<'a>,
    pub(super) operation: &'static str,
    pub(super) request_id: &'a HeaderValue,
    pub(super) answer: &'a Answer,
    pub(super) took: Duration,
}

/// The place in a trace that the headers tell of.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    TraceContext::read(values(TRACEPARENT), values(TRACESTATE))
}

/// What will be told of the request with these headers; `None` where nobody is told, which costs
/// a look at an option.
pub(super) fn observe(
    upkeep: &Upkeep,
    now: impl FnOnce() -> Instant,
    headers: &HeaderMap,
) -> Option<Observed> {
    upkeep.access_log.as_ref()?;
    Some(Observed {
        at: now(),
        trace: trace_of(headers),
    })
}

/// Tells of a request.
pub(super) fn tell(upkeep: &Upkeep, observed: Option<&Observed>, ended: &Ended<'_>) {
    let status = ended.answer.status().as_u16();
    let operation = ended.operation;
    let text = |value: &'_ HeaderValue| value.to_str().unwrap_or("-").to_owned();
    if status == 500 {
        tracing::error!(
            request_id = text(ended.request_id),
            operation,
            status,
            "a request was answered with an internal error"
        );
    } else {
        tracing::debug!(
            request_id = ended.request_id.to_str().unwrap_or("-"),
            operation,
            status,
            code = ended.answer.body().code(),
            position = ended.position(),
            "a request was answered"
        );
    }
    let (Some(observed), Some(log)) = (observed, &upkeep.access_log) else {
        return;
    };
    let body = ended.answer.body();
    let is_head = *ended.method == Method::HEAD;
    log.write(&AccessLine {
        at: observed.at,
        method: ended.method,
        route: ended.told.route,
        operation,
        status,
        code: body.code(),
        took: ended.took,
        bytes: if is_head {
            Some(0)
        } else {
            body.size_hint().exact()
        },
        request_id: ended.request_id.to_str().unwrap_or("-"),
        trace: observed.trace.as_ref(),
        position: ended.position(),
    });
}

impl Ended<'_> {
    /// The position that the response depends on.
    fn position(&self) -> Option<&str> {
        self.answer.headers().get(POSITION)?.to_str().ok()
    }
}
