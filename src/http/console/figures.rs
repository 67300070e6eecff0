//! The figures of the service as the console draws them: those of `/metrics` as one object, without the zeros, and
//! some that `/metrics` lacks: the keys by name, and the retention settings.

use serde_json::{Map, Value, json};

use crate::base::time::Timestamp;
use crate::engine::figures::{BATCH_BOUNDS, Figures};
use crate::http::figures_page::AllFigures;
use crate::http::metrics::{Metrics, SeriesFigures, bucket_bounds};

/// The permission to read the figures.
pub const FIGURES_READ: &str = "figures:read";

/// Returns the current figures.
#[must_use]
pub fn figures(
    metrics: &Metrics,
    all: &AllFigures<'_>,
    keys: &[(String, &'static str)],
    kept: &Value,
) -> Value {
    let front = &all.front;
    let requests: Vec<Value> = metrics.answered().iter().map(series).collect();
    json!({
        "at": all.now,
        "version": env!("CARGO_PKG_VERSION"),
        "startedAt": started(all.process.started_seconds),
        "ready": all.engine.unready.is_ready() && all.engine.has_room,
        "unready": unready(&all.engine),
        "role": all.engine.role.as_str(),
        "behind": all.engine.lag.map(|lag| json!({
            "positions": lag.positions, "seconds": lag.time.as_secs_f64(),
        })),
        "requests": requests,
        "requestBoundsSeconds": bucket_bounds(),
        "refusals": Value::Object(counts(metrics.refusals())),
        "shed": metrics.shed(),
        "engine": engine(&all.engine),
        "log": log(&all.engine),
        "snapshots": snapshots(&all.engine),
        "kept": kept,
        "keys": {
            "inUse": keys.iter().map(|(name, algorithm)| json!({"kid": name, "alg": algorithm})).collect::<Vec<_>>(),
            "ageSeconds": front.key_set_age.as_secs_f64(),
            "failures": front.key_set_failures,
        },
        "tokensRefused": Value::Object(counts(front.tokens_refused.iter().copied())),
        "connections": {
            "open": front.connections,
            "refused": Value::Object(counts(front.connections_refused.iter().copied())),
        },
        "bodiesBytes": front.bodies_bytes,
        "process": {
            "cpuSeconds": all.process.cpu_seconds,
            "residentBytes": all.process.resident_bytes,
            "openFiles": all.process.open_fds,
            "openFilesMax": all.process.max_fds,
        },
        "outbox": outbox(&all.engine),
        "events": all.publisher.as_ref().map(|nats| json!({
            "waiting": nats.waiting, "isFailing": nats.is_failing,
        })),
    })
}

/// Returns the counts above zero, by their names.
fn counts(all: impl IntoIterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    let all = all.into_iter().filter(|(_, count)| *count > 0);
    all.map(|(name, count)| (name.to_owned(), json!(count)))
        .collect()
}

fn series(of: &SeriesFigures) -> Value {
    json!({
        "operation": of.operation,
        "answered": of.by_class.iter().sum::<u64>(),
        "refused": of.by_class[3],
        "failed": of.by_class[4],
        "buckets": of.by_bucket,
        "seconds": of.time.as_secs_f64(),
    })
}

#[allow(clippy::cast_possible_truncation)]
fn started(seconds: f64) -> Option<Timestamp> {
    (seconds > 0.0).then(|| Timestamp::from_millis((seconds * 1_000.0) as i64))
}

fn unready(engine: &Figures) -> Vec<&'static str> {
    let reasons = engine.unready.reasons().into_iter();
    reasons
        .filter_map(|(reason, is_so)| is_so.then_some(reason))
        .collect()
}

fn engine(figures: &Figures) -> Value {
    json!({
        "resources": figures.resources,
        "idempotencyKeys": figures.keys,
        "liveActors": figures.live_actors,
        "commandsInFlight": figures.commands_in_flight,
        "commitsAheadSeconds": figures.commits_ahead.as_secs_f64(),
    })
}

fn log(figures: &Figures) -> Value {
    let kept = &figures.checkpoints;
    json!({
        "durablePosition": figures.durable,
        "firstPosition": kept.log_first,
        "bytes": kept.log_bytes,
        "keptForDeliveryBytes": kept.log_kept_for_delivery_bytes,
        "givenUpBytes": kept.log_given_up_bytes,
        "removedSegments": kept.compacted_segments,
        "queuedBytes": figures.queued_bytes,
        "hasRoom": figures.has_room,
        "syncBoundsSeconds": BATCH_BOUNDS.map(|bound| bound.as_secs_f64()),
        "syncBuckets": figures.log_batches_by_time,
        "syncSeconds": figures.log_batch_time.as_secs_f64(),
        "diskFreeBytes": figures.disk.map(|disk| disk.free),
        "diskReserveBytes": figures.disk.map(|disk| disk.reserve),
    })
}

fn outbox(figures: &Figures) -> Value {
    let receivers = figures.outbox.receivers.iter().map(|receiver| {
        json!({
            "name": receiver.name,
            "waiting": receiver.waiting,
            "dead": receiver.dead,
            "taken": receiver.taken,
            "attempts": receiver.attempts,
            "isFailing": receiver.is_failing,
            "oldestSeconds": receiver.oldest_age.as_secs_f64(),
        })
    });
    json!({
        "receivers": receivers.collect::<Vec<_>>(),
        "unclaimed": figures.outbox.unclaimed,
    })
}

fn snapshots(figures: &Figures) -> Value {
    let taken = &figures.checkpoints;
    json!({
        "taken": taken.snapshots,
        "failures": taken.failures,
        "withoutRoom": taken.without_room,
        "position": taken.covers,
        "bytes": taken.bytes,
        "seconds": taken.took.as_secs_f64(),
        "at": taken.at,
    })
}
