//! Prints messages on standard error.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde_json::json;

/// Whether a line is printed as a JSON object.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Prints further lines as JSON, in the form of the log: the only line that a server prints beside its log is the
/// reason why it ends.
pub fn print_json_lines() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Prints a line on standard error. If that is closed or full, the line is lost, but the program goes on.
pub fn print_to_stderr(line: impl fmt::Display) {
    let line = line.to_string();
    let line = match AS_JSON.load(Ordering::Relaxed) {
        true => as_json(&line, SystemTime::now()),
        false => line,
    };
    let _ = writeln!(io::stderr(), "{line}");
}

/// Returns the line as an error in the log's form.
fn as_json(line: &str, now: SystemTime) -> String {
    let object = json!({
        "timestamp": humantime::format_rfc3339_micros(now).to_string(),
        "level": "ERROR",
        "message": line.strip_prefix("carebook: ").unwrap_or(line),
        "target": "carebook",
    });
    object.to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_in_json_is_one_object_whatever_the_line_says() {
        let told = as_json("carebook: \"a\"\nb", SystemTime::UNIX_EPOCH);
        assert_eq!(told.lines().count(), 1);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["message"], "\"a\"\nb");
        assert_eq!(told["level"], "ERROR");
        assert_eq!(told["timestamp"], "1970-01-01T00:00:00.000000Z");
    }
}
