//! The whole page of metrics, from all sources of figures; and the table of its metrics, for the documents.

use std::time::Duration;

use super::limits::connections::ConnectionCounts;
use super::metric_sources::{BackupFigures, UpkeepFigures};
use super::metrics::journal::JournalFigures;
use super::metrics::process::ProcessFigures;
use super::metrics::{FrontFigures, Metrics};
use super::outbox::figures as outbox;
use super::tls::CertificateFigures;
use super::token::RefusalCounts;
use super::traces::TraceFigures;
use super::webhooks::figures as webhooks;
use crate::base::time::Timestamp;
use crate::engine::figures::{DiskFigures, Figures};
use crate::engine::outbox::ReceiverFigures;
use crate::engine::publisher_counts::PublisherFigures;
use crate::engine::webhooks::handle::SubscriptionFigures;

/// All that has figures.
pub struct AllFigures<'a> {
    /// The engine.
    pub engine: Figures,
    /// The figures of the front, besides its requests.
    pub front: FrontFigures,
    /// The publisher to NATS, if any.
    pub publisher: Option<PublisherFigures>,
    /// The subscriptions.
    pub webhooks: &'a [SubscriptionFigures],
    /// The certificate, backups and the other figures of [`UpkeepFigures`].
    pub upkeep: UpkeepFigures,
    /// The process.
    pub process: ProcessFigures,
    /// The time of these figures.
    pub now: Timestamp,
}

/// Returns the page.
#[must_use]
pub fn page(metrics: &Metrics, all: &AllFigures<'_>) -> String {
    let mut page = metrics.page(&all.engine, &all.front, all.publisher.as_ref(), all.now);
    all.upkeep.put(&mut page, all.now);
    page.0.push_str(&webhooks::page(all.webhooks, all.now));
    page.0.push_str(&outbox::page(&all.engine.outbox));
    all.process.put(&mut page);
    page.0
}

/// A metric, as its page describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The name of the metric.
    pub name: String,
    /// The metric's kind: counter, gauge or histogram.
    pub kind: String,
    /// The labels, except the bounds of buckets.
    pub labels: Vec<String>,
    /// The description.
    pub says: String,
}

/// Returns every metric that can appear, in the order of the page.
#[must_use]
pub fn described() -> Vec<Described> {
    let mut engine = Figures::default();
    engine.outbox.receivers.push(ReceiverFigures {
        name: "*".to_owned(),
        waiting: 0,
        is_failing: false,
        dead: 0,
        oldest_age: Duration::ZERO,
        attempts: 0,
        taken: 0,
        durations: Default::default(),
        duration: Duration::ZERO,
    });
    // For logs in files the free space is always known.
    engine.disk = Some(DiskFigures::default());
    let all = AllFigures {
        engine,
        front: FrontFigures {
            tokens_refused: RefusalCounts::default().all(),
            connections_refused: ConnectionCounts::default().all_refused(),
            ..FrontFigures::default()
        },
        publisher: Some(PublisherFigures::default()),
        webhooks: &[SubscriptionFigures::default()],
        upkeep: UpkeepFigures {
            certificate: Some(CertificateFigures::default()),
            backups: Some(BackupFigures::default()),
            access_lost: Some(0),
            log_lost: 0,
            traces: Some(TraceFigures::default()),
            journal: Some(JournalFigures {
                lease_age: Some(Duration::ZERO),
                ..JournalFigures::default()
            }),
        },
        process: ProcessFigures::default(),
        now: Timestamp::default(),
    };
    let metrics = Metrics::new(1);
    metrics.count_refusal("overloaded");
    descriptions(&page(&metrics, &all))
}

/// Returns the metrics that a page describes.
#[must_use]
pub fn descriptions(page: &str) -> Vec<Described> {
    let mut found: Vec<Described> = Vec::new();
    for line in page.lines() {
        if let Some((name, says)) = after(line, "# HELP ") {
            found.push(Described {
                name: name.to_owned(),
                kind: String::new(),
                labels: Vec::new(),
                says: says.to_owned(),
            });
            continue;
        }
        let Some(last) = found.last_mut() else {
            continue;
        };
        if let Some((_, kind)) = after(line, "# TYPE ") {
            kind.clone_into(&mut last.kind);
        } else if let Some((_, labels)) = line.split_once('{') {
            let labels = labels
                .split("\",")
                .filter_map(|label| label.split_once('='));
            for (label, _) in labels {
                if label != "le" && !last.labels.iter().any(|known| known == label) {
                    last.labels.push(label.to_owned());
                }
            }
        }
    }
    found
}

fn after<'l>(line: &'l str, beginning: &str) -> Option<(&'l str, &'l str)> {
    line.strip_prefix(beginning)?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::checkpointer::CheckpointFigures;
    use crate::engine::figures::BATCH_BOUNDS;
    use crate::engine::readiness::Unready;

    /// Each figure has a number of its own, so a swapped or missing one would be noticed.
    #[test]
    fn each_figure_stands_under_its_own_name() {
        let mut next = 1_000_u64;
        let mut expected: Vec<(&str, u64)> = Vec::new();
        let mut of = |series: &'static str| {
            next += 1;
            expected.push((series, next));
            next
        };
        let size = |number: u64| usize::try_from(number).unwrap_or_default();
        let seconds = Duration::from_secs;
        let millis = |number: u64| i64::try_from(number).unwrap_or(0) * 1_000;
        let written = millis(of("carebook_snapshot_timestamp_seconds"));
        let now = written + millis(of("carebook_snapshot_age_seconds"));
        let checkpoints = CheckpointFigures {
            snapshots: of("carebook_snapshots_total"),
            failures: of("carebook_snapshot_failures_total"),
            covers: of("carebook_snapshot_position"),
            bytes: of("carebook_snapshot_bytes"),
            took: seconds(of("carebook_snapshot_duration_seconds")),
            at: Some(Timestamp::from_millis(written)),
            compacted_segments: of("carebook_compacted_segments_total"),
            compacted_bytes: of("carebook_compacted_bytes_total"),
            forgotten_keys: of("carebook_idempotency_keys_forgotten_total"),
            without_room: of("carebook_snapshots_without_room_total"),
            estimate: of("carebook_snapshot_estimate_bytes"),
            log_first: of("carebook_log_first_position"),
            log_bytes: of("carebook_log_bytes"),
            log_kept_for_delivery_bytes: of("carebook_log_kept_for_delivery_bytes"),
            log_given_up_bytes: of("carebook_log_given_up_bytes_total"),
            looks: 7,
        };
        let mut batches = [0; BATCH_BOUNDS.len() + 1];
        batches[3] = of("carebook_log_batch_duration_seconds_bucket{le=\"0.001\"}");
        let mut engine = Figures {
            resources: size(of("carebook_resources")),
            keys: size(of("carebook_idempotency_keys")),
            durable: of("carebook_durable_position"),
            live_actors: size(of("carebook_live_actors")),
            commands_in_flight: size(of("carebook_commands_in_flight")),
            queued_bytes: size(of("carebook_log_queued_bytes")),
            log_batch_time: seconds(of("carebook_log_batch_duration_seconds_sum")),
            log_batches_by_time: batches,
            disk: Some(DiskFigures {
                free: of("carebook_disk_free_bytes"),
                reserve: of("carebook_disk_reserve_bytes"),
            }),
            unready: Unready::default(),
            checkpoints,
            has_room: true,
            commits_ahead: seconds(of("carebook_commits_ahead_seconds")),
            ..Figures::default()
        };
        engine.outbox.unclaimed = of("carebook_outbox_unclaimed");
        let mut durations = <[u64; 9]>::default();
        durations[0] = of("carebook_receiver_attempt_duration_seconds_count{receiver=\"*\"}");
        engine.outbox.receivers.push(ReceiverFigures {
            name: "*".to_owned(),
            waiting: size(of("carebook_receiver_waiting{receiver=\"*\"}")),
            is_failing: false,
            dead: size(of("carebook_receiver_dead{receiver=\"*\"}")),
            oldest_age: seconds(of("carebook_receiver_oldest_seconds{receiver=\"*\"}")),
            attempts: of("carebook_receiver_attempts_total{receiver=\"*\"}"),
            taken: of("carebook_receiver_taken_total{receiver=\"*\"}"),
            durations,
            duration: seconds(of(
                "carebook_receiver_attempt_duration_seconds_sum{receiver=\"*\"}",
            )),
        });
        let front = FrontFigures {
            key_set_age: seconds(of("carebook_key_set_age_seconds")),
            key_set_failures: of("carebook_key_set_failures_total"),
            keys: size(of("carebook_key_set_keys")),
            bad_signatures: of("carebook_bad_signatures_total"),
            tokens_waited: of("carebook_tokens_waited_total"),
            bodies_bytes: size(of("carebook_bodies_bytes")),
            tokens_refused: vec![("a", of("carebook_tokens_refused_total{reason=\"a\"}"))],
            connections: size(of("carebook_connections")),
            connections_refused: vec![(
                "b",
                of("carebook_connections_refused_total{reason=\"b\"}"),
            )],
            streams_reset: of("carebook_streams_reset_total"),
        };
        let all = AllFigures {
            engine,
            front,
            publisher: None,
            webhooks: &[],
            upkeep: UpkeepFigures::default(),
            process: ProcessFigures::default(),
            now: Timestamp::from_millis(now),
        };
        let page = page(&Metrics::new(1), &all);
        for (series, number) in expected {
            let line = format!("{series} {number}");
            assert!(page.lines().any(|known| known == line), "no {line}");
        }
        assert!(page.contains("carebook_ready 1\n"));
        assert!(page.contains("carebook_log_has_room 1\n"));
    }
}
