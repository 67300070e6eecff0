//! `GET /metrics`: counts and latencies of requests, and the engine's figures, in Prometheus'
//! text format (version 0.0.4).
//!
//! Each lane counts for itself, in atomics that no other lane writes: three additions to a
//! request, and no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::StatusCode;

use super::metrics_page::Page;
use super::route::{Series, series_names};
use crate::engine::Figures;
use crate::engine::checkpointer::CheckpointFigures;
use crate::engine::lane;
use crate::engine::publisher_counts::PublisherFigures;

/// The upper bounds of the latencies' buckets, in microseconds, with how seconds are written.
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
/// The classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Statuses that are counted by themselves, too: those that somebody is woken for.
const APART: [StatusCode; 5] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::CONFLICT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// The counters.
pub struct Metrics {
    names: Vec<&'static str>,
    lanes: Box<[Box<[Counts]>]>,
    shed: AtomicU64,
}

/// The counts of one series on one lane.
#[derive(Default)]
struct Counts {
    by_class: [AtomicU64; CLASSES.len()],
    apart: [AtomicU64; APART.len()],
    /// The last one is for requests slower than every bound.
    by_bucket: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl Metrics {
    /// Nothing counted yet, on so many lanes.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        let names = series_names();
        let lane = || names.iter().map(|_| Counts::default()).collect();
        Self {
            lanes: (0..lanes.max(1)).map(|_| lane()).collect(),
            names,
            shed: AtomicU64::new(0),
        }
    }

    /// The series of requests that match no route.
    #[must_use]
    pub fn elsewhere(&self) -> Series {
        Series(self.names.len() - 1)
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
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.shed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(apart) = APART.iter().position(|apart| *apart == status) {
            counts.apart[apart].fetch_add(1, Ordering::Relaxed);
        }
        counts.by_class[class].fetch_add(1, Ordering::Relaxed);
        counts.by_bucket[bucket].fetch_add(1, Ordering::Relaxed);
        counts.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The page of requests, tokens, connections and the engine.
    #[must_use]
    pub fn page(
        &self,
        figures: &Figures,
        front: &FrontFigures,
        publisher: Option<&PublisherFigures>,
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
            self.shed.load(Ordering::Relaxed),
        );
        self::front(&mut page, front);
        engine(&mut page, figures);
        if let Some(figures) = publisher {
            self::publisher(&mut page, figures);
        }
        page
    }

    /// The sum over all lanes.
    fn sum(&self, series: usize, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| of(&lane[series]).load(Ordering::Relaxed))
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

/// The figures of the front besides its requests.
#[derive(Clone, Debug, Default)]
pub struct FrontFigures {
    /// The time since the key set was last read successfully.
    pub key_set_age: Duration,
    /// Attempts to read it again that failed.
    pub key_set_failures: u64,
    /// Keys that can verify a token.
    pub keys: usize,
    /// Tokens that were rejected after their signature was checked.
    pub bad_signatures: u64,
    /// Tokens that had to wait before their signature was checked.
    pub tokens_waited: u64,
    /// Bytes charged for request bodies in flight.
    pub bodies_bytes: usize,
    /// Requests without a token that was accepted, by the reason.
    pub tokens_refused: Vec<(&'static str, u64)>,
    /// Open connections.
    pub connections: usize,
    /// Connections that were refused, by the reason.
    pub connections_refused: Vec<(&'static str, u64)>,
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
    by_reason(
        page,
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
    by_reason(
        page,
        "carebook_connections_refused_total",
        "counter",
        "Connections that were refused or came to nothing, by the reason.",
        connections_refused.iter().copied(),
    );
    page.one(
        "carebook_bodies_bytes",
        "gauge",
        "Bytes charged for request bodies in flight.",
        bodies_bytes,
    );
}

/// A sample for each reason.
fn by_reason(
    page: &mut Page,
    name: &str,
    kind: &str,
    says: &str,
    reasons: impl IntoIterator<Item = (&'static str, u64)>,
) {
    page.head(name, kind, says);
    for (reason, value) in reasons {
        page.sample(name, &format!("reason=\"{reason}\""), value);
    }
}

/// What is running.
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

/// Whether commands are accepted, and what the disk has free.
fn readiness(page: &mut Page, figures: &Figures) {
    let gauge = "gauge";
    page.one(
        "carebook_ready",
        gauge,
        "1 while commands are accepted, as /readyz says; otherwise 0.",
        u8::from(figures.unready.is_ready()),
    );
    by_reason(
        page,
        "carebook_unready",
        gauge,
        "1 for each reason why commands are not accepted just now.",
        figures
            .unready
            .reasons()
            .map(|(reason, is_so)| (reason, u64::from(is_so))),
    );
    if let Some(space) = figures.space {
        page.one(
            "carebook_disk_free_bytes",
            gauge,
            "Free bytes on the disk of the log.",
            space.free,
        );
        page.one(
            "carebook_disk_reserve_bytes",
            gauge,
            "Free bytes below which commands are rejected (--reserve-bytes).",
            space.reserve,
        );
    }
}

/// The batches of the log.
fn batches(page: &mut Page, figures: &Figures) {
    let name = "carebook_log_batch_duration_seconds";
    page.head(
        name,
        "histogram",
        "Batches of records: one write and one sync each.",
    );
    let bounds = wal::BATCH_BOUNDS.map(|bound| bound.as_secs_f64().to_string());
    let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
    let mut count = 0;
    for (bound, batches) in bounds.zip(figures.log_batches_by_time) {
        count += batches;
        page.sample(&format!("{name}_bucket"), &format!("le=\"{bound}\""), count);
    }
    let time = figures.log_batch_time.as_secs_f64();
    page.sample(&format!("{name}_sum"), "", time);
    page.sample(&format!("{name}_count"), "", count);
}

/// The engine's figures.
fn engine(page: &mut Page, figures: &Figures) {
    let Figures {
        resources,
        keys,
        durable,
        live_actors,
        commands_in_flight,
        queued_bytes,
        log_batches: _,
        log_batch_time: _,
        log_batches_by_time: _,
        outbox: _,
        checkpoints,
        has_room,
        commits_ahead,
        space: _,
        unready: _,
        snapshot_age,
    } = figures;
    let gauge = "gauge";
    readiness(page, figures);
    page.one(
        "carebook_commands_in_flight",
        gauge,
        "Commands in flight.",
        commands_in_flight,
    );
    page.one(
        "carebook_durable_position",
        gauge,
        "The highest position of the log that is durable.",
        durable,
    );
    page.one("carebook_resources", gauge, "Resources held.", resources);
    page.one(
        "carebook_idempotency_keys",
        gauge,
        "Idempotency keys in memory.",
        keys,
    );
    page.one(
        "carebook_live_actors",
        gauge,
        "Resources with an actor.",
        live_actors,
    );
    page.one(
        "carebook_log_queued_bytes",
        gauge,
        "Bytes of records that wait for the disk.",
        queued_bytes,
    );
    batches(page, figures);
    page.one(
        "carebook_log_has_room",
        gauge,
        "1 while the log has room for commands; 0 while they are rejected for lack of it.",
        u8::from(*has_room),
    );
    page.one(
        "carebook_commits_ahead_seconds",
        gauge,
        "How far the time of the last commit lies ahead of the system's clock.",
        commits_ahead.as_secs_f64(),
    );
    snapshots(page, checkpoints);
    let age = snapshot_age.map_or_else(|| "+Inf".to_owned(), |age| age.as_secs_f64().to_string());
    page.one(
        "carebook_snapshot_age_seconds",
        gauge,
        "The time since the newest snapshot was written; +Inf when there is none.",
        age,
    );
    compactions(page, checkpoints);
}

/// What is published to NATS.
fn publisher(page: &mut Page, figures: &PublisherFigures) {
    page.one(
        "carebook_nats_waiting_positions",
        "gauge",
        "Positions of the log whose events are not published to NATS yet.",
        figures.waiting,
    );
    page.one(
        "carebook_nats_oldest_age_seconds",
        "gauge",
        "The age of the oldest event that waits for NATS; 0 when none does.",
        figures.oldest.as_secs_f64(),
    );
    page.one(
        "carebook_nats_failures_total",
        "counter",
        "Attempts to publish an event to NATS that were not acknowledged.",
        figures.failures,
    );
    page.one(
        "carebook_nats_gaps_total",
        "counter",
        "How often the log had given up events before they were published to NATS.",
        figures.gaps,
    );
    let took_name = "carebook_nats_publish_duration_seconds";
    page.head(
        took_name,
        "summary",
        "Events published to NATS: from an attempt to its acknowledgement.",
    );
    page.sample(&format!("{took_name}_sum"), "", figures.took.as_secs_f64());
    page.sample(&format!("{took_name}_count"), "", figures.published);
}

/// What the checkpointer has done.
fn snapshots(page: &mut Page, figures: &CheckpointFigures) {
    let CheckpointFigures {
        snapshots,
        failures,
        covers,
        bytes,
        took,
        at,
        compacted_segments: _,
        compacted_bytes: _,
        forgotten_keys: _,
        without_room,
        estimate,
        log_first: _,
        log_bytes: _,
        log_kept_for_delivery_bytes: _,
        log_given_up_bytes: _,
        looks: _,
    } = figures;
    let gauge = "gauge";
    let counter = "counter";
    page.one(
        "carebook_snapshots_total",
        counter,
        "Snapshots taken since the start.",
        snapshots,
    );
    page.one(
        "carebook_snapshot_failures_total",
        counter,
        "Snapshots, and compactions after them, that failed.",
        failures,
    );
    page.one(
        "carebook_snapshot_position",
        gauge,
        "The position up to which the newest snapshot covers the log.",
        covers,
    );
    page.one(
        "carebook_snapshot_bytes",
        gauge,
        "Bytes of the newest snapshot.",
        bytes,
    );
    page.one(
        "carebook_snapshot_duration_seconds",
        gauge,
        "How long the last snapshot took; 0 before the first since the start.",
        took.as_secs_f64(),
    );
    page.one(
        "carebook_snapshot_timestamp_seconds",
        gauge,
        "When the newest snapshot was written, since 1970; 0 when there is none.",
        at.map_or(0, |at| at.millis() / 1_000),
    );
    page.one(
        "carebook_snapshots_without_room_total",
        counter,
        "Snapshots that were not begun, or abandoned, because the disk had no room for them.",
        without_room,
    );
    page.one(
        "carebook_snapshot_estimate_bytes",
        gauge,
        "The estimate, before it began, of the last snapshot's largest size in bytes.",
        estimate,
    );
}

/// What the log keeps, and what compactions have removed.
fn compactions(page: &mut Page, figures: &CheckpointFigures) {
    let gauge = "gauge";
    let counter = "counter";
    page.one(
        "carebook_log_first_position",
        gauge,
        "The first position that the log keeps as a record.",
        figures.log_first,
    );
    page.one(
        "carebook_log_bytes",
        gauge,
        "Bytes of the log's segments, without the one that is written just now.",
        figures.log_bytes,
    );
    page.one(
        "carebook_log_kept_for_delivery_bytes",
        gauge,
        "Of these, bytes that are kept beyond the log's retention because deliveries need them.",
        figures.log_kept_for_delivery_bytes,
    );
    page.one(
        "carebook_log_given_up_bytes_total",
        counter,
        "Bytes that the log gave up before their time because the disk was nearly full.",
        figures.log_given_up_bytes,
    );
    page.one(
        "carebook_compacted_segments_total",
        counter,
        "Segments that were removed from the log.",
        figures.compacted_segments,
    );
    page.one(
        "carebook_compacted_bytes_total",
        counter,
        "Bytes of the segments that were removed from the log.",
        figures.compacted_bytes,
    );
    page.one(
        "carebook_idempotency_keys_forgotten_total",
        counter,
        "Idempotency keys that were forgotten by their age.",
        figures.forgotten_keys,
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
