//! The metrics of the engine: the log, its snapshots, and events published to NATS.

use super::page::{Page, age};
use crate::base::time::Timestamp;
use crate::engine::checkpointer::CheckpointFigures;
use crate::engine::figures::{BATCH_BOUNDS, Figures};
use crate::engine::publisher_counts::PublisherFigures;
use crate::engine::role::Role;

/// Adds whether commands are accepted, and the free space of the disk.
fn readiness(page: &mut Page, figures: &Figures) {
    let gauge = "gauge";
    page.one(
        "carebook_ready",
        gauge,
        "1 while commands are accepted, as /readyz says; otherwise 0.",
        u8::from(figures.unready.is_ready()),
    );
    page.by_reason(
        "carebook_unready",
        gauge,
        "1 for each reason why commands are not accepted just now.",
        figures
            .unready
            .reasons()
            .map(|(reason, is_so)| (reason, u64::from(is_so))),
    );
    if let Some(disk) = figures.disk {
        page.one(
            "carebook_disk_free_bytes",
            gauge,
            "Free bytes on the disk of the log.",
            disk.free,
        );
        page.one(
            "carebook_disk_reserve_bytes",
            gauge,
            "Free bytes below which commands are rejected (--reserve-bytes).",
            disk.reserve,
        );
    }
}

/// Adds the service's role, a standby's lag, and the requests that wait for a position.
fn following(page: &mut Page, figures: &Figures) {
    let gauge = "gauge";
    let name = "carebook_role";
    page.head(
        name,
        gauge,
        "1 for what the service is: the writer, or a standby that follows it.",
    );
    for role in [Role::Writer, Role::Standby] {
        let is_so = u8::from(role == figures.role);
        page.sample(name, &format!("role=\"{}\"", role.as_str()), is_so);
    }
    // The writer has no lag.
    let lag = figures.lag.unwrap_or_default();
    page.one(
        "carebook_standby_lag_positions",
        gauge,
        "Of a standby, positions that its writer has committed, as far as was heard, and it has not applied.",
        lag.positions,
    );
    page.one(
        "carebook_standby_lag_seconds",
        gauge,
        "Of a standby, the time since it was last known that no position was missing.",
        lag.time.as_secs_f64(),
    );
    let (waiting, in_vain) = figures.min_position;
    page.one(
        "carebook_min_position_waiting",
        gauge,
        "Readers that wait for the position in Carebook-Min-Position.",
        waiting,
    );
    page.one(
        "carebook_min_position_in_vain_total",
        "counter",
        "Readers whose position did not come in time.",
        in_vain,
    );
}

/// Adds the metrics of the log's batches.
fn batches(page: &mut Page, figures: &Figures) {
    let name = "carebook_log_batch_duration_seconds";
    page.head(
        name,
        "histogram",
        "Batches of records: one write and one sync each.",
    );
    let bounds = BATCH_BOUNDS.map(|bound| bound.as_secs_f64().to_string());
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

/// Adds the engine's figures; ages are relative to `now`.
pub(super) fn engine(page: &mut Page, figures: &Figures, now: Timestamp) {
    let Figures {
        resources,
        keys,
        durable,
        live_actors,
        commands_in_flight,
        queued_bytes,
        log_batch_time: _,
        log_batches_by_time: _,
        outbox: _,
        checkpoints,
        has_room,
        commits_ahead,
        disk: _,
        unready: _,
        role: _,
        lag: _,
        min_position: _,
    } = figures;
    let gauge = "gauge";
    readiness(page, figures);
    following(page, figures);
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
    page.one(
        "carebook_snapshot_age_seconds",
        gauge,
        "The time since the newest snapshot was written; +Inf when there is none.",
        age(checkpoints.at, now),
    );
    compactions(page, checkpoints);
}

/// Adds the figures of the publisher to NATS.
pub(super) fn publisher(page: &mut Page, figures: &PublisherFigures) {
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

/// Adds the figures of the checkpointer's snapshots.
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
        "Snapshots, and compactions after them, that failed, also for lack of room.",
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
        "The estimate, before it began, of the last snapshot's size in bytes, rather too many.",
        estimate,
    );
}

/// Adds what the log keeps, and what compactions have removed.
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
