//! Durations as flags take them.

use std::time::Duration;

/// Reads a duration of a second or more.
pub(super) fn a_second_or_more(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration < Duration::from_secs(1) {
        return Err("at least a second".to_owned());
    }
    Ok(duration)
}
