//! Warnings of what lasts.

use std::time::{Duration, Instant};

/// Interval between repetitions of a warning.
const AGAIN: Duration = Duration::from_secs(3_600);

/// Decides when a warning is due: when its cause is new, and once an hour while that lasts.
#[derive(Debug)]
pub(crate) struct Reminder<C = ()>(Option<(C, Instant)>);

impl<C> Default for Reminder<C> {
    fn default() -> Self {
        Self(None)
    }
}

impl<C: PartialEq> Reminder<C> {
    /// Whether a warning is due, for what is its cause now. One that `is_asked_for` is due in any case, if there is a
    /// cause.
    pub(crate) fn is_due(&mut self, cause: Option<C>, is_asked_for: bool, now: Instant) -> bool {
        let Some(cause) = cause else {
            self.0 = None;
            return false;
        };
        let is_told = self
            .0
            .as_ref()
            .is_some_and(|(told, at)| *told == cause && now.saturating_duration_since(*at) < AGAIN);
        if is_told && !is_asked_for {
            return false;
        }
        self.0 = Some((cause, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reminder_is_due_for_a_new_cause_each_hour_and_whenever_it_is_asked_for() {
        let mut reminder = Reminder::default();
        let begun = Instant::now();
        for (after, cause, is_asked_for, expected) in [
            (0, None, false, false),
            (1, Some("missing"), false, true),
            (2, Some("missing"), false, false),
            (3_600, Some("missing"), false, false),
            (3_601, Some("missing"), false, true),
            (3_602, None, true, false),
            (3_603, Some("missing"), false, true),
            (3_604, Some("empty"), false, true),
            (3_605, Some("empty"), true, true),
            (7_204, Some("empty"), false, false),
            (7_205, Some("empty"), false, true),
        ] {
            let now = begun + Duration::from_secs(after);
            assert_eq!(
                reminder.is_due(cause, is_asked_for, now),
                expected,
                "{after}"
            );
        }
    }
}
