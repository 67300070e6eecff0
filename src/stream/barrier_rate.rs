//! Limits the rate of messages without records, since each stays in the stream.

use std::time::{Duration, Instant};

/// Time per message, in the long run.
const EACH: Duration = Duration::from_millis(10);
/// Number of messages that may come at once, or one after the other, before the rate applies.
const AT_ONCE: u32 = 1_000;

/// The time at which the next message would be due if all came evenly.
pub(super) struct BarrierRate(Instant);

impl BarrierRate {
    /// Creates a limit before the first message.
    pub(super) fn new(now: Instant) -> Self {
        Self(now)
    }

    /// Returns how long the next message has to wait; `None` where it may come now, and is counted.
    pub(super) fn take(&mut self, now: Instant) -> Option<Duration> {
        let ahead = self.0.saturating_duration_since(now);
        let may = EACH * AT_ONCE;
        if ahead >= may {
            return Some(ahead - may + EACH);
        }
        self.0 = self.0.max(now) + EACH;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_come_at_once_and_then_a_hundred_a_second() {
        let began = Instant::now();
        let mut rate = BarrierRate::new(began);
        let mut now = began;
        let mut taken = 0_u32;
        while now < began + Duration::from_secs(60) {
            match rate.take(now) {
                None => taken += 1,
                Some(wait) => {
                    assert!(wait <= 2 * EACH, "{wait:?}");
                    now += wait;
                }
            }
        }
        assert!((6_900..=7_100).contains(&taken), "{taken}");
        // After ten seconds without any message, the next thousand may come at once.
        now += EACH * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert_eq!(rate.take(now), None);
        }
        assert!(rate.take(now).is_some());
    }
}
