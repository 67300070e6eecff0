//! The metrics of messages to other systems.

use std::time::Duration;

use crate::engine::outbox::{ATTEMPT_BUCKETS, OutboxFigures, ReceiverFigures};
use crate::http::metrics::page::Page;

/// Returns the figures of messages and of each receiver.
#[must_use]
pub fn page(figures: &OutboxFigures) -> String {
    let mut page = Page::default();
    type Of = fn(&ReceiverFigures) -> String;
    let each: [(&str, &str, &str, Of); 5] = [
        (
            "carebook_receiver_waiting",
            "gauge",
            "Messages that wait for the receiver.",
            |receiver| receiver.waiting.to_string(),
        ),
        (
            "carebook_receiver_dead",
            "gauge",
            "Messages that the receiver has not taken at any attempt.",
            |receiver| receiver.dead.to_string(),
        ),
        (
            "carebook_receiver_oldest_seconds",
            "gauge",
            "The age of the oldest message that is waiting or dead; 0 when there is none.",
            |receiver| receiver.oldest_age.as_secs_f64().to_string(),
        ),
        (
            "carebook_receiver_attempts_total",
            "counter",
            "Attempts at bringing a message to the receiver.",
            |receiver| receiver.attempts.to_string(),
        ),
        (
            "carebook_receiver_taken_total",
            "counter",
            "Attempts at which the receiver has taken the message.",
            |receiver| receiver.taken.to_string(),
        ),
    ];
    for (name, kind, help, of) in each {
        page.head(name, kind, help);
        for receiver in &figures.receivers {
            page.sample(
                name,
                &format!("receiver=\"{}\"", receiver.name),
                of(receiver),
            );
        }
    }
    let name = "carebook_receiver_attempt_duration_seconds";
    page.head(name, "histogram", "How long an attempt took.");
    for receiver in &figures.receivers {
        let label = format!("receiver=\"{}\"", receiver.name);
        let bounds = ATTEMPT_BUCKETS.map(|millis| Duration::from_millis(millis).as_secs_f64());
        let bounds = bounds.map(|seconds| seconds.to_string());
        let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
        let mut count = 0;
        for (bound, attempts) in bounds.zip(receiver.durations) {
            count += attempts;
            page.sample(
                &format!("{name}_bucket"),
                &format!("{label},le=\"{bound}\""),
                count,
            );
        }
        page.sample(
            &format!("{name}_sum"),
            &label,
            receiver.duration.as_secs_f64(),
        );
        page.sample(&format!("{name}_count"), &label, count);
    }
    page.one(
        "carebook_outbox_unclaimed",
        "gauge",
        "Messages that wait or are dead, and for whose topics no receiver is named.",
        figures.unclaimed,
    );
    page.0
}
