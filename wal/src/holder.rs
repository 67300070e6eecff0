//! The text of a lock file about the process that holds the lock. Built and parsed here only.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

/// How the text begins.
const PROCESS: &str = "process ";
const EPOCH: &str = ", appending in epoch ";

/// Returns the text of a process that has the log, and reads it to start.
pub(crate) fn starts() -> String {
    format!("{PROCESS}{} since {}", process::id(), now())
}

/// Returns the text of a process that has the log, and appends in this epoch.
pub(crate) fn appends(epoch: u64) -> String {
    format!("{}{EPOCH}{epoch}", starts())
}

/// Returns the epoch in which the holder appends, if the text has it.
pub(crate) fn epoch_of(holder: &str) -> Option<u64> {
    let (_, epoch) = holder.rsplit_once(EPOCH)?;
    epoch.parse().ok()
}

/// Returns the process that the text names.
pub(crate) fn process_of(holder: &str) -> Option<u32> {
    let (number, _) = holder.strip_prefix(PROCESS)?.split_once(' ')?;
    number.parse().ok()
}

/// The time now, as `2026-01-31T23:59:59Z`.
fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date_time(seconds)
}

/// Seconds since 1970 as a date and a time in UTC, by the proleptic Gregorian calendar.
fn date_time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read_as_it_was_written() {
        assert_eq!(
            process_of("process 4711 since 2026-01-31T23:59:59Z"),
            Some(4711)
        );
        for other in [
            "",
            "process",
            "process x since",
            "process 12",
            "the simulation",
        ] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }

    #[test]
    fn seconds_become_dates() {
        assert_eq!(date_time(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_time(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_time(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(date_time(1_709_251_200), "2024-03-01T00:00:00Z");
    }
}
