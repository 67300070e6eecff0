//! When what has failed is tried again, and when it is written how far deliveries are.

use std::time::Duration;

const SECOND: u64 = 1;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The pauses after the first attempt that failed, the second one, and so on. After one more
/// failure the item is dead.
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
/// A pause is longer than the schedule says by up to this part of it, by chance: what failed
/// together does not come back together.
const LONGER_BY: u32 = 5;
/// A receiver may ask for a longer pause, up to this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(HOUR);

/// How far the wall clock moves against the steady one where it was set: what keeps it in time makes
/// smaller steps.
pub(in crate::engine) const CLOCK_STEP: Duration = Duration::from_secs(1);

/// How often it is written into the log how far deliveries are, at least.
pub(in crate::engine) const RECORDED_EVERY: Duration = Duration::from_secs(SECOND);

/// How an attempt has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status that the receiver answered with, where it answered.
    pub status: Option<u16>,
    /// What was wrong, in a few words of ours.
    pub error: Box<str>,
    /// How long the receiver asked to be left alone.
    pub retry_after: Option<Duration>,
}

/// How long to pause after so many failed attempts; `None`: it is given up. `chance` is from 0 to
/// 255.
#[must_use]
pub fn pause(attempts: u32, chance: u8, retry_after: Option<Duration>) -> Option<Duration> {
    let index = usize::try_from(attempts.checked_sub(1)?).ok()?;
    let scheduled = *PAUSES.get(index)?;
    let scheduled = scheduled + scheduled / LONGER_BY * u32::from(chance) / u32::from(u8::MAX);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    Some(scheduled.max(asked))
}

/// The longest pause after so many failed attempts, where the receiver asked for so much.
pub(super) fn longest_pause(attempts: u32, asked: Duration) -> Duration {
    pause(attempts, u8::MAX, Some(asked)).unwrap_or_default()
}

/// How often it is written into the log how far deliveries are that began so long ago: the sooner,
/// the shorter ago that is. So a service that is killed again and again within a second gets on.
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
