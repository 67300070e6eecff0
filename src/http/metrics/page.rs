//! The page of metrics, as Prometheus reads it.

use std::fmt::Write as _;

use crate::base::time::Timestamp;

/// A page of metrics, in Prometheus' text format.
#[derive(Default)]
pub struct Page(pub String);

impl Page {
    pub(in crate::http) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(in crate::http) fn sample(
        &mut self,
        name: &str,
        labels: &str,
        value: impl std::fmt::Display,
    ) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    pub(in crate::http) fn one(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        value: impl std::fmt::Display,
    ) {
        self.head(name, kind, help);
        self.sample(name, "", value);
    }

    /// Adds a sample for each reason.
    pub(in crate::http) fn by_reason(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        reasons: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        self.head(name, kind, help);
        for (reason, value) in reasons {
            self.sample(name, &format!("reason=\"{reason}\""), value);
        }
    }
}

/// Returns the age of `at` in seconds, by the system's clock; 0 if that clock was set back to before `at`, and `+Inf`
/// without a time.
#[allow(clippy::cast_precision_loss)]
pub(in crate::http) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(
        || "+Inf".to_owned(),
        |at| {
            let millis = now.millis().saturating_sub(at.millis()).max(0);
            (millis as f64 / 1_000.0).to_string()
        },
    )
}
