//! Traces: selects the requests and attempts that are recorded, and makes their spans (OpenTelemetry).
//!
//! One in a configured number of requests is sampled. A request whose caller has sampled the trace is recorded, too,
//! up to [`CALLERS_PER_SECOND`], so that no caller can have everything recorded. Spans go to a bounded queue, and
//! from there to the collector by a thread of its own.

pub mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::metrics::page::Page;
use crate::base::trace_context::TraceContext;
use crate::engine::clock::Clock;

/// Maximum number of requests per second that are recorded because their callers have sampled them, over all callers;
/// also the maximum burst.
pub const CALLERS_PER_SECOND: f64 = 100.0;
/// Capacity of the queue to the collector, in spans.
pub const SPANS_MAX: usize = 2_048;

/// Counts of exported and dropped spans.
#[derive(Debug, Default)]
pub struct TraceCounts {
    exported: AtomicU64,
    failures: AtomicU64,
    queue_full: AtomicU64,
    not_taken: AtomicU64,
    rejected: AtomicU64,
}

/// The counts of [`TraceCounts`], as figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFigures {
    /// Number of spans that the collector has accepted.
    pub exported: u64,
    /// Number of failed attempts to send a batch.
    pub failures: u64,
    /// Number of spans dropped because the queue was full.
    pub queue_full: u64,
    /// Number of spans dropped because the collector did not accept their batch.
    pub not_taken: u64,
    /// Number of spans that the collector reported as rejected.
    pub rejected: u64,
}

impl TraceCounts {
    /// Returns the current figures.
    #[must_use]
    pub fn figures(&self) -> TraceFigures {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TraceFigures {
            exported: of(&self.exported),
            failures: of(&self.failures),
            queue_full: of(&self.queue_full),
            not_taken: of(&self.not_taken),
            rejected: of(&self.rejected),
        }
    }
}

impl TraceFigures {
    /// Adds the figures to the page.
    pub(super) fn put(&self, page: &mut Page) {
        page.one(
            "carebook_trace_spans_exported_total",
            "counter",
            "Spans that the collector has taken.",
            self.exported,
        );
        page.by_reason(
            "carebook_trace_spans_dropped_total",
            "counter",
            "Spans that no collector has, by the reason.",
            [
                ("queue_full", self.queue_full),
                ("not_taken", self.not_taken),
                ("rejected", self.rejected),
            ],
        );
        page.one(
            "carebook_trace_export_failures_total",
            "counter",
            "Attempts to send spans to the collector that failed.",
            self.failures,
        );
    }
}

/// The remaining allowance as of a time.
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * CALLERS_PER_SECOND).min(CALLERS_PER_SECOND);
        self.at = now;
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}

/// Decides which requests are recorded, and records their spans.
pub struct Tracer {
    one_in: u64,
    seen: AtomicU64,
    callers: Mutex<Allowance>,
    spans: mpsc::Sender<Span>,
    counts: Arc<TraceCounts>,
    clock: Arc<dyn Clock>,
}

/// Work in progress, as a span of a trace.
pub struct OpenSpan {
    /// The span's trace context, which is the parent of the requests that it sends.
    pub context: TraceContext,
    /// The parent span; `None` if the trace begins here.
    parent: Option<[u8; 8]>,
    started_nanos: u64,
    began: Instant,
}

/// The data of a span that is known at its end.
pub struct SpanEnd {
    /// The span's name, one of few.
    pub name: String,
    /// The span's kind.
    pub kind: SpanKind,
    /// Whether the work failed by an error of its own side.
    pub is_error: bool,
    /// The span's attributes.
    pub attributes: Vec<KeyValue>,
}

/// Returns a text attribute.
#[must_use]
pub fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, any_value::Value::StringValue(value.to_owned()))
}

/// Returns a numeric attribute.
#[must_use]
pub fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, any_value::Value::IntValue(value))
}

fn attribute(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

impl Tracer {
    /// Creates a tracer that samples one request in `one_in`, and the receiver of its spans.
    #[must_use]
    pub fn new(one_in: u64, clock: Arc<dyn Clock>) -> (Self, mpsc::Receiver<Span>) {
        let (spans, receiver) = mpsc::channel(SPANS_MAX);
        let tracer = Self {
            one_in: one_in.max(1),
            seen: AtomicU64::new(0),
            callers: Mutex::new(Allowance {
                left: CALLERS_PER_SECOND,
                at: Instant::now(),
            }),
            spans,
            counts: Arc::default(),
            clock,
        };
        (tracer, receiver)
    }

    /// Returns the counts of spans.
    #[must_use]
    pub fn counts(&self) -> &Arc<TraceCounts> {
        &self.counts
    }

    /// Begins a span, in the trace of `caller` or in a new one.
    pub fn begin(&self, caller: Option<TraceContext>) -> OpenSpan {
        let began = Instant::now();
        let by_chance = self
            .seen
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(self.one_in);
        let is_asked = caller.as_ref().is_some_and(|caller| caller.is_sampled);
        let is_sampled = by_chance || (is_asked && self.callers.lock().take(began));
        let millis = u64::try_from(self.clock.now().millis()).unwrap_or(0);
        let (trace_id, parent, state) = match caller {
            Some(caller) => (caller.trace_id, Some(caller.span_id), caller.state),
            None => (uuid::Uuid::new_v4().into_bytes(), None, Box::default()),
        };
        OpenSpan {
            context: TraceContext {
                trace_id,
                span_id: span_id(),
                is_sampled,
                state,
            },
            parent,
            started_nanos: millis.saturating_mul(1_000_000),
            began,
        }
    }

    /// Ends a span, and records it if it is sampled and the queue has room.
    pub fn end(&self, doing: OpenSpan, done: impl FnOnce() -> SpanEnd) {
        if !doing.context.is_sampled {
            return;
        }
        let ids = (doing.context.span_id, doing.parent);
        self.record(&doing, ids, (doing.began, Instant::now()), done());
    }

    /// Records a child span with these times, if its parent is sampled.
    pub fn part(
        &self,
        doing: &OpenSpan,
        times: (Instant, Instant),
        done: impl FnOnce() -> SpanEnd,
    ) {
        if doing.context.is_sampled {
            let ids = (span_id(), Some(doing.context.span_id));
            self.record(doing, ids, times, done());
        }
    }

    fn record(
        &self,
        doing: &OpenSpan,
        (span_id, parent): ([u8; 8], Option<[u8; 8]>),
        times: (Instant, Instant),
        done: SpanEnd,
    ) {
        let at = |time: Instant| {
            let since = time.saturating_duration_since(doing.began).as_nanos();
            let since = u64::try_from(since).unwrap_or(0);
            doing.started_nanos.saturating_add(since)
        };
        let span = Span {
            trace_id: doing.context.trace_id.to_vec(),
            span_id: span_id.to_vec(),
            trace_state: doing.context.state.clone().into(),
            parent_span_id: parent.map(Vec::from).unwrap_or_default(),
            flags: 1,
            name: done.name,
            kind: done.kind.into(),
            start_time_unix_nano: at(times.0),
            end_time_unix_nano: at(times.1),
            attributes: done.attributes,
            status: done.is_error.then(|| Status {
                message: String::new(),
                code: StatusCode::Error.into(),
            }),
            ..Span::default()
        };
        if self.spans.try_send(span).is_err() {
            self.counts.queue_full.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns a new random span identifier, with not all bytes zero.
fn span_id() -> [u8; 8] {
    let bytes = uuid::Uuid::new_v4().into_bytes();
    let mut id = [0; 8];
    id.copy_from_slice(&bytes[8..]);
    // The first byte has the UUID's variant bits, which are fixed and not all zero.
    id
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::clock::SystemClock;

    fn tracer(one_in: u64) -> (Tracer, mpsc::Receiver<Span>) {
        Tracer::new(one_in, Arc::new(SystemClock::default()))
    }

    fn caller(is_sampled: bool) -> Option<TraceContext> {
        Some(TraceContext {
            trace_id: [1; 16],
            span_id: [2; 8],
            is_sampled,
            state: "a=b".into(),
        })
    }

    fn done() -> SpanEnd {
        SpanEnd {
            name: "GET".to_owned(),
            kind: SpanKind::Server,
            is_error: false,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn one_in_so_many_is_recorded_and_callers_have_no_more_than_their_share() {
        let (tracer, mut spans) = tracer(10);
        for _ in 0..1_000 {
            let doing = tracer.begin(caller(false));
            tracer.end(doing, done);
        }
        let mut recorded = 0;
        while spans.try_recv().is_ok() {
            recorded += 1;
        }
        assert_eq!(recorded, 100);
        let sampled = |_| tracer.begin(caller(true)).context.is_sampled;
        let recorded = (0..100_000)
            .map(sampled)
            .filter(|is_sampled| *is_sampled)
            .count();
        assert!((10_100..11_500).contains(&recorded), "{recorded}");
    }

    #[test]
    fn a_trace_goes_on_under_its_caller_s_span_and_a_new_one_has_no_parent() {
        let (tracer, mut spans) = tracer(1);
        let doing = tracer.begin(caller(false));
        let context = doing.context.clone();
        tracer.end(doing, done);
        let span = spans.try_recv().unwrap();
        assert_eq!(
            (span.trace_id, span.parent_span_id),
            (vec![1; 16], vec![2; 8])
        );
        assert_eq!(
            (span.span_id, &*span.trace_state),
            (context.span_id.to_vec(), "a=b")
        );
        assert_ne!(context.span_id, [2; 8]);
        let (one, other) = (tracer.begin(None), tracer.begin(None));
        assert_ne!(one.context.trace_id, other.context.trace_id);
        tracer.end(one, done);
        assert!(spans.try_recv().unwrap().parent_span_id.is_empty());
    }

    #[test]
    fn the_callers_allowance_refills_over_a_second_and_does_not_accumulate() {
        let begun = Instant::now();
        let mut allowance = Allowance {
            left: CALLERS_PER_SECOND,
            at: begun,
        };
        let mut taken = |millis| {
            let now = begun + Duration::from_millis(millis);
            (0..1_000).filter(|_| allowance.take(now)).count()
        };
        assert_eq!(taken(0), 100);
        assert_eq!(taken(0), 0);
        assert_eq!(taken(500), 50);
        assert_eq!(taken(505), 0, "half of one");
        assert_eq!(taken(510), 1);
        assert_eq!(taken(3_600_510), 100);
        assert_eq!(taken(0), 0, "no time goes back");
    }

    #[test]
    fn beyond_the_queue_spans_are_dropped_and_counted() {
        let (tracer, _spans) = tracer(1);
        for _ in 0..SPANS_MAX + 7 {
            tracer.end(tracer.begin(None), done);
        }
        assert_eq!(tracer.counts().figures().queue_full, 7);
    }
}
