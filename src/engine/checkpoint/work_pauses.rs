//! The pauses of background work, in proportion to the work done, while commands are in flight.

use std::time::{Duration, Instant};

/// How long the work goes on before a pause while commands are in flight: no longer than a command may be delayed.
const WORK: Duration = Duration::from_micros(250);
/// Length of a pause as a multiple of the work before it: the work takes about an eighth of a processor.
const REST: u32 = 7;
/// Longest pause: work that took longer was a wait for the disk, which cost no processor time.
const REST_MAX: Duration = Duration::from_millis(50);
/// How long after the last command the service counts as busy.
const QUIET: Duration = Duration::from_millis(500);

/// Returns how long to pause after this much work.
fn rest_after(worked: Duration) -> Duration {
    worked.saturating_mul(REST).min(REST_MAX)
}

/// Turns of background work and the pauses between them.
pub(super) struct WorkPauses {
    /// When the current turn of work began.
    pub(super) since: Instant,
    /// Last position of the log at the last check.
    appended: u64,
    /// When a command was last seen.
    busy: Option<Instant>,
}

impl WorkPauses {
    /// Begins the work; `appended` is the last position of the log.
    pub(super) fn new(appended: u64, now: Instant) -> Self {
        Self {
            since: now,
            appended,
            busy: None,
        }
    }

    /// Returns how long the work has gone on, if that is long enough to check for commands.
    pub(super) fn worked(&self, now: Instant) -> Option<Duration> {
        let worked = now.duration_since(self.since);
        (worked >= WORK).then_some(worked)
    }

    /// Returns how long to pause after this much work, given the commands in flight and the last position by now:
    /// commands may begin and end between two checks.
    pub(super) fn rest(
        &mut self,
        worked: Duration,
        in_flight: usize,
        appended: u64,
        now: Instant,
    ) -> Duration {
        if in_flight > 0 || appended != self.appended {
            self.appended = appended;
            self.busy = Some(now);
        }
        match self.busy {
            Some(busy) if now.duration_since(busy) < QUIET => rest_after(worked),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_in_proportion_to_the_work_and_never_long() {
        assert_eq!(rest_after(WORK), WORK * 7);
        let millis = Duration::from_millis;
        assert_eq!(rest_after(millis(7)), millis(49));
        for worked in [
            millis(8),
            millis(400),
            Duration::from_secs(30),
            Duration::MAX,
        ] {
            assert_eq!(rest_after(worked), millis(50), "{worked:?}");
        }
    }

    #[test]
    fn background_work_rests_only_while_commands_are_or_were_just_in_flight() {
        let begun = Instant::now();
        let turns = || WorkPauses::new(7, begun);
        assert_eq!(turns().worked(begun), None);
        assert_eq!(turns().worked(begun + WORK - Duration::from_nanos(1)), None);
        assert_eq!(turns().worked(begun + WORK), Some(WORK));
        let rest = rest_after(WORK);
        assert_eq!(turns().rest(WORK, 0, 7, begun), Duration::ZERO, "alone");
        assert_eq!(turns().rest(WORK, 1, 7, begun), rest, "one in flight");
        assert_eq!(
            turns().rest(WORK, 0, 8, begun),
            rest,
            "one has come and gone"
        );
        let mut turns = turns();
        assert_eq!(turns.rest(WORK, 0, 8, begun), rest);
        // No commands have come since.
        let soon = begun + QUIET - Duration::from_nanos(1);
        assert_eq!(turns.rest(WORK, 0, 8, soon), rest);
        assert_eq!(turns.rest(WORK, 0, 8, begun + QUIET), Duration::ZERO);
        assert_eq!(turns.rest(WORK, 0, 9, begun + QUIET), rest);
    }
}
