//! Durations as values of flags.

use std::time::Duration;

/// Parses a duration of at least a second.
pub(super) fn parse_duration_min_1s(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration < Duration::from_secs(1) {
        return Err("at least a second".to_owned());
    }
    Ok(duration)
}
