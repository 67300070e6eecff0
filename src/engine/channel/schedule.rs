//! When failed attempts are repeated, and how often the progress of deliveries is recorded.

use std::time::Duration;

const SECOND: u64 = 1;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// Pauses after the first failed attempt, the second one, and so on. After one more failure the item is dead.
pub const PAUSES: [Duration; 9] = [
    Duration::from_secs(5 * SECOND),
    Duration::from_secs(30 * SECOND),
    Duration::from_secs(2 * MINUTE),
    Duration::from_secs(10 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(5 * HOUR),
    Duration::from_secs(10 * HOUR),
    Duration::from_secs(14 * HOUR),
];
/// A random part of up to one in this many is added to a scheduled pause, so that items which failed together are not
/// retried together.
const LONGER_BY: u32 = 5;
/// Longest pause that a receiver may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(HOUR);

/// A difference of at least this much between the wall clock and the steady clock means that the wall clock was set:
/// clock synchronization makes smaller steps.
pub(in crate::engine) const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Longest time between two records of the progress of deliveries.
pub(in crate::engine) const RECORDED_EVERY: Duration = Duration::from_secs(SECOND);

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status of the receiver's response, if there was one.
    pub status: Option<u16>,
    /// Short description of the error, in our own words.
    pub error: Box<str>,
    /// How long a pause the receiver asked for.
    pub retry_after: Option<Duration>,
}

/// Returns how long to pause after this many failed attempts; `None`: the item is given up. `chance` is from 0 to
/// 255.
#[must_use]
pub fn pause(attempts: u32, chance: u8, retry_after: Option<Duration>) -> Option<Duration> {
    let index = usize::try_from(attempts.checked_sub(1)?).ok()?;
    let scheduled = *PAUSES.get(index)?;
    let scheduled = scheduled + scheduled / LONGER_BY * u32::from(chance) / u32::from(u8::MAX);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    Some(scheduled.max(asked))
}

/// Returns the longest pause after this many failed attempts, where the receiver asked for `asked`.
pub(super) fn longest_pause(attempts: u32, asked: Duration) -> Duration {
    pause(attempts, u8::MAX, Some(asked)).unwrap_or_default()
}

/// Returns how often the progress of deliveries that began `age` ago is recorded: the younger, the more often. So a
/// service that is killed again and again within a second makes progress.
pub(in crate::engine) fn recorded_every(age: Duration) -> Duration {
    RECORDED_EVERY.min(age / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_any_age_under_two_seconds_half_of_what_was_done_is_written() {
        for millis in [0, 1, 10, 100, 500, 999, 1_000, 1_999] {
            let age = Duration::from_millis(millis);
            assert_eq!(recorded_every(age), age / 2);
        }
        for seconds in [2, 3, 86_400] {
            let age = Duration::from_secs(seconds);
            assert_eq!(recorded_every(age), RECORDED_EVERY);
        }
    }
}
