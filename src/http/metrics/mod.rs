//! `GET /metrics`: counts and latencies of requests, and the engine's figures, in Prometheus'
//! text format (version 0.0.4).
//!
//! Each lane has its own counters, in atomics that no other lane writes: three additions per request, and no lock.

mod engine;
pub mod journal;
pub(in crate::http) mod kept_page;
pub mod page;
pub mod process;

use self::kept_page::KeptPage;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use parking_lot::Mutex;

use super::route::{Series, series_names};
use crate::base::time::Timestamp;
use crate::engine::figures::Figures;
use crate::engine::lanes::lane;
use crate::engine::publisher_counts::PublisherFigures;
use engine::{engine, publisher};
use page::Page;

/// The upper bounds of the latencies' buckets: in microseconds, and written in seconds.
const BUCKETS: [(u64, &str); 14] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (5_000_000, "5"),
];
/// The classes of status codes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Status codes that are also counted individually, because alerts use them.
const APART: [StatusCode; 5] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::CONFLICT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// The counters of requests.
pub struct Metrics {
    names: Vec<&'static str>,
    lanes: Box<[Box<[Counts]>]>,
    /// For each lane, the number of answers with each problem code.
    refusals: Box<[Mutex<BTreeMap<&'static str, u64>>]>,
    pub(super) kept_page: KeptPage,
}

/// The counts of one series of requests.
#[derive(Clone, Debug)]
pub struct SeriesFigures {
    /// The name of the series' operation.
    pub operation: &'static str,
    /// Number of answers by status class, from 1xx.
    pub by_class: [u64; CLASSES.len()],
    /// Number of answers by latency, in the buckets of [`bucket_bounds`] and one for slower ones.
    pub by_bucket: Vec<u64>,
    /// Total latency of all answers.
    pub time: Duration,
}

/// Returns the bounds of the latencies' buckets, in seconds.
#[must_use]
pub fn bucket_bounds() -> Vec<f64> {
    let micros = BUCKETS.iter().map(|(bound, _)| *bound);
    micros
        .map(|bound| Duration::from_micros(bound).as_secs_f64())
        .collect()
}

/// The counts of one series on one lane.
#[derive(Default)]
struct Counts {
    by_class: [AtomicU64; CLASSES.len()],
    apart: [AtomicU64; APART.len()],
    /// The last bucket counts requests slower than every bound.
    by_bucket: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl Metrics {
    /// Creates counters at zero, for this number of lanes.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        let names = series_names();
        let lane = || names.iter().map(|_| Counts::default()).collect();
        Self {
            lanes: (0..lanes.max(1)).map(|_| lane()).collect(),
            refusals: (0..lanes.max(1)).map(|_| Mutex::default()).collect(),
            names,
            kept_page: KeptPage::default(),
        }
    }

    /// Returns the series of requests for the console.
    #[must_use]
    pub fn console(&self) -> Series {
        Series(self.names.len() - 2)
    }

    /// Counts a problem with this code.
    pub fn count_refusal(&self, code: &'static str) {
        let mut refusals = self.refusals[lane::here(self.refusals.len())].lock();
        *refusals.entry(code).or_default() += 1;
    }

    /// Number of answers with each problem code.
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for lane in &self.refusals {
            for (code, count) in &*lane.lock() {
                *all.entry(*code).or_default() += count;
            }
        }
        all
    }

    /// Returns the counts of each series with at least one request.
    #[must_use]
    pub fn answered(&self) -> Vec<SeriesFigures> {
        let all = self.names.iter().enumerate().map(|(series, operation)| {
            let buckets = 0..=BUCKETS.len();
            SeriesFigures {
                operation,
                by_class: std::array::from_fn(|class| {
                    self.sum(series, |counts| &counts.by_class[class])
                }),
                by_bucket: buckets
                    .map(|bucket| self.sum(series, |counts| &counts.by_bucket[bucket]))
                    .collect(),
                time: Duration::from_micros(self.sum(series, |counts| &counts.micros)),
            }
        });
        all.filter(|series| series.by_class.iter().any(|count| *count > 0))
            .collect()
    }

    /// Returns the series of requests that match no route.
    #[must_use]
    pub fn elsewhere(&self) -> Series {
        Series(self.names.len() - 1)
    }

    /// Returns the name of a series.
    #[must_use]
    pub fn name(&self, series: Series) -> &'static str {
        self.names.get(series.0).copied().unwrap_or("other")
    }

    /// Counts one request.
    pub fn count(&self, series: Series, status: StatusCode, took: Duration) {
        let lane = &self.lanes[lane::here(self.lanes.len())];
        let Some(counts) = lane.get(series.0) else {
            return;
        };
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|(bound, _)| *bound < micros);
        if let Some(apart) = place_apart(status) {
            counts.apart[apart].fetch_add(1, Ordering::Relaxed);
        }
        counts.by_class[class].fetch_add(1, Ordering::Relaxed);
        counts.by_bucket[bucket].fetch_add(1, Ordering::Relaxed);
        counts.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the page of requests, tokens, connections and the engine; ages are relative to `now`.
    #[must_use]
    pub fn page(
        &self,
        figures: &Figures,
        front: &FrontFigures,
        published: Option<&PublisherFigures>,
        now: Timestamp,
    ) -> Page {
        let mut page = Page(String::with_capacity(64 << 10));
        build_info(&mut page);
        self.requests(&mut page);
        self.statuses(&mut page);
        self.latencies(&mut page);
        page.one(
            "carebook_requests_shed_total",
            "counter",
            "Requests that were answered 429 before any work.",
            self.shed(),
        );
        page.head(
            "carebook_refusals_total",
            "counter",
            "Problems answered, by their code.",
        );
        for (code, count) in self.refusals() {
            page.sample(
                "carebook_refusals_total",
                &format!("code=\"{code}\""),
                count,
            );
        }
        self::front(&mut page, front);
        engine(&mut page, figures, now);
        if let Some(figures) = published {
            publisher(&mut page, figures);
        }
        page
    }

    /// Returns the sum of a counter over all lanes.
    fn sum(&self, series: usize, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| of(&lane[series]).load(Ordering::Relaxed))
            .sum()
    }

    /// Number of requests that were answered 429.
    #[must_use]
    pub fn shed(&self) -> u64 {
        let Some(apart) = place_apart(StatusCode::TOO_MANY_REQUESTS) else {
            return 0;
        };
        (0..self.names.len())
            .map(|series| self.sum(series, |counts| &counts.apart[apart]))
            .sum()
    }

    fn requests(&self, page: &mut Page) {
        let name = "carebook_requests_total";
        page.head(
            name,
            "counter",
            "Requests answered, by operation and class of status.",
        );
        for (series, operation) in self.names.iter().enumerate() {
            for (class, status) in CLASSES.iter().enumerate().skip(1) {
                let count = self.sum(series, |counts| &counts.by_class[class]);
                let labels = format!("operation=\"{operation}\",status=\"{status}\"");
                page.sample(name, &labels, count);
            }
        }
    }

    fn statuses(&self, page: &mut Page) {
        let name = "carebook_requests_by_status_total";
        page.head(
            name,
            "counter",
            "Requests answered with one of these statuses, by operation.",
        );
        for (series, operation) in self.names.iter().enumerate() {
            for (apart, status) in APART.iter().enumerate() {
                let count = self.sum(series, |counts| &counts.apart[apart]);
                let status = status.as_u16();
                let labels = format!("operation=\"{operation}\",status=\"{status}\"");
                page.sample(name, &labels, count);
            }
        }
    }

    fn latencies(&self, page: &mut Page) {
        let name = "carebook_request_duration_seconds";
        page.head(
            name,
            "histogram",
            "Time from a request's head to its response, by operation.",
        );
        for (series, operation) in self.names.iter().enumerate() {
            let operation = format!("operation=\"{operation}\"");
            let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
            let mut count = 0;
            for (bucket, bound) in bounds.enumerate() {
                count += self.sum(series, |counts| &counts.by_bucket[bucket]);
                let labels = format!("{operation},le=\"{bound}\"");
                page.sample(&format!("{name}_bucket"), &labels, count);
            }
            let micros = self.sum(series, |counts| &counts.micros);
            let sum = Duration::from_micros(micros).as_secs_f64();
            page.sample(&format!("{name}_sum"), &operation, sum);
            page.sample(&format!("{name}_count"), &operation, count);
        }
    }
}

/// Returns the index at which a status is counted individually, if it is.
fn place_apart(status: StatusCode) -> Option<usize> {
    APART.iter().position(|apart| *apart == status)
}

/// The figures of the front besides its requests.
#[derive(Clone, Debug, Default)]
pub struct FrontFigures {
    /// Time since the key set was last read successfully.
    pub key_set_age: Duration,
    /// Number of failed attempts to read the key set again.
    pub key_set_failures: u64,
    /// Number of keys that can verify a token.
    pub keys: usize,
    /// Number of tokens that were rejected after their signature was checked.
    pub bad_signatures: u64,
    /// Number of tokens that had to wait before their signature was checked.
    pub tokens_waited: u64,
    /// Bytes charged for request bodies in flight.
    pub bodies_bytes: usize,
    /// Requests without an accepted token, by the reason.
    pub tokens_refused: Vec<(&'static str, u64)>,
    /// Open connections.
    pub connections: usize,
    /// Connections that were refused, by the reason.
    pub connections_refused: Vec<(&'static str, u64)>,
    /// Streams of HTTP/2 that were reset because there was no room even for a refusal.
    pub streams_reset: u64,
}

fn front(page: &mut Page, figures: &FrontFigures) {
    let FrontFigures {
        key_set_age,
        key_set_failures,
        keys,
        bad_signatures,
        tokens_waited,
        bodies_bytes,
        tokens_refused,
        connections,
        connections_refused,
        streams_reset,
    } = figures;
    page.one(
        "carebook_key_set_age_seconds",
        "gauge",
        "The time since the key set was last read successfully.",
        key_set_age.as_secs_f64(),
    );
    page.one(
        "carebook_key_set_failures_total",
        "counter",
        "Attempts to read the key set again that failed.",
        key_set_failures,
    );
    page.one(
        "carebook_key_set_keys",
        "gauge",
        "Keys that can verify a token; with none, every token is rejected.",
        keys,
    );
    page.one(
        "carebook_bad_signatures_total",
        "counter",
        "Tokens that were rejected after their signature was checked.",
        bad_signatures,
    );
    page.one(
        "carebook_tokens_waited_total",
        "counter",
        "Unknown tokens that waited because of invalid signatures from their address.",
        tokens_waited,
    );
    page.by_reason(
        "carebook_tokens_refused_total",
        "counter",
        "Requests without a token that was accepted, by the reason.",
        tokens_refused.iter().copied(),
    );
    page.one(
        "carebook_connections",
        "gauge",
        "Open connections, on all listeners.",
        connections,
    );
    page.by_reason(
        "carebook_connections_refused_total",
        "counter",
        "Connections that were refused or came to nothing, by the reason.",
        connections_refused.iter().copied(),
    );
    page.one(
        "carebook_streams_reset_total",
        "counter",
        "Requests over HTTP/2 that were reset because there was no memory even for a refusal.",
        streams_reset,
    );
    page.one(
        "carebook_bodies_bytes",
        "gauge",
        "Bytes charged for request bodies in flight.",
        bodies_bytes,
    );
}

/// Adds the version and the revision of the running program.
fn build_info(page: &mut Page) {
    let name = "carebook_build_info";
    page.head(
        name,
        "gauge",
        "Always 1: the version that runs, and the revision of its source where its build was told.",
    );
    let version = env!("CARGO_PKG_VERSION");
    let revision = option_env!("CAREBOOK_REVISION").unwrap_or("");
    page.sample(
        name,
        &format!("version=\"{version}\",revision=\"{revision}\""),
        1,
    );
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(metrics: &Metrics, sample: &str) -> f64 {
        let mut page = Page(String::new());
        metrics.requests(&mut page);
        metrics.statuses(&mut page);
        metrics.latencies(&mut page);
        let line = page.0.lines().find_map(|line| line.strip_prefix(sample));
        line.unwrap_or_else(|| panic!("no {sample}"))
            .trim()
            .parse()
            .unwrap()
    }

    #[test]
    fn requests_are_counted_by_class_and_by_how_long_they_took() {
        let metrics = Metrics::new(2);
        let series = Series(2);
        let name = metrics.names[2];
        for (status, micros) in [(201, 100), (200, 101), (409, 3_000), (503, 9_000_000)] {
            let status = StatusCode::from_u16(status).unwrap();
            metrics.count(series, status, Duration::from_micros(micros));
        }
        metrics.count(metrics.elsewhere(), StatusCode::NOT_FOUND, Duration::ZERO);
        for (class, count) in [("2xx", 2.0), ("3xx", 0.0), ("4xx", 1.0), ("5xx", 1.0)] {
            let sample =
                format!("carebook_requests_total{{operation=\"{name}\",status=\"{class}\"}}");
            assert_eq!(value(&metrics, &sample), count, "{class}");
        }
        for (status, count) in [(401, 0.0), (409, 1.0), (429, 0.0), (500, 0.0), (503, 1.0)] {
            let sample = format!(
                "carebook_requests_by_status_total{{operation=\"{name}\",status=\"{status}\"}}"
            );
            assert_eq!(value(&metrics, &sample), count, "{status}");
        }
        let duration = "carebook_request_duration_seconds";
        for (bound, count) in [
            ("0.0001", 1.0),
            ("0.00025", 2.0),
            ("0.0025", 2.0),
            ("0.005", 3.0),
            ("5", 3.0),
            ("+Inf", 4.0),
        ] {
            let sample = format!("{duration}_bucket{{operation=\"{name}\",le=\"{bound}\"}}");
            assert_eq!(value(&metrics, &sample), count, "{bound}");
        }
        let operation = format!("{{operation=\"{name}\"}}");
        assert_eq!(
            value(&metrics, &format!("{duration}_count{operation}")),
            4.0
        );
        let sum = value(&metrics, &format!("{duration}_sum{operation}"));
        assert!((sum - 9.003_201).abs() < 1e-9, "{sum}");
        let other = "carebook_requests_total{operation=\"other\",status=\"4xx\"}";
        assert_eq!(value(&metrics, other), 1.0);
        assert_eq!(metrics.shed(), 0);
        for series in [series, metrics.elsewhere()] {
            metrics.count(series, StatusCode::TOO_MANY_REQUESTS, Duration::ZERO);
        }
        assert_eq!(metrics.shed(), 2, "of all operations together");
    }

    #[test]
    fn bounds_rise_and_are_written_as_what_they_are() {
        for pair in BUCKETS.windows(2) {
            assert!(pair[0].0 < pair[1].0);
        }
        for (micros, seconds) in BUCKETS {
            let seconds: f64 = seconds.parse().unwrap();
            assert_eq!(
                Duration::from_secs_f64(seconds),
                Duration::from_micros(micros)
            );
        }
    }
}
