//! The pauses before a command or a read is repeated because its read set has changed.

use std::time::Duration;

use tokio::time::Instant;

/// Number of repeats without a pause, which only yield to other tasks.
const REPEATS_AT_ONCE: u32 = 8;

/// First pause after those repeats; each further pause is twice the one before.
const PAUSE_MIN: Duration = Duration::from_micros(500);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Maximum number of repeats: within some five seconds.
const REPEATS_MAX: u32 = 100;

/// Maximum time of the repeats, where each attempt takes long.
const REPEATED_FOR: Duration = Duration::from_secs(10);

/// The pauses of a decision or a read whose read set changes again and again.
#[derive(Default)]
pub(crate) struct Repeats {
    count: u32,
    /// When the first repeat began.
    since: Option<Instant>,
}

/// The work was repeated so often that it is abandoned.
pub(crate) struct GivenUp;

impl Repeats {
    /// Restarts the time limit: time spent waiting for the disk does not count.
    pub(crate) fn waited(&mut self) {
        self.since = None;
    }

    /// Yields to other tasks before the next attempt, and pauses the longer the more attempts there were.
    ///
    /// # Errors
    /// Returns [`GivenUp`] after enough attempts.
    pub(crate) async fn rest(&mut self) -> Result<(), GivenUp> {
        self.count += 1;
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.count >= REPEATS_MAX || since.elapsed() >= REPEATED_FOR {
            let repeats = self.count;
            tracing::warn!(
                repeats,
                "its read set changed on every attempt: the command or read is abandoned"
            );
            return Err(GivenUp);
        }
        match self.count.checked_sub(REPEATS_AT_ONCE) {
            None | Some(0) => tokio::task::yield_now().await,
            Some(pauses) => {
                let pause = PAUSE_MIN * (1 << pauses.min(8));
                tokio::time::sleep(pause.min(PAUSE_MAX)).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeats_end_after_ten_seconds_not_counting_waits_for_the_disk() {
        let mut repeats = Repeats::default();
        assert!(repeats.rest().await.is_ok());
        advance(REPEATED_FOR - Duration::from_secs(1)).await;
        assert!(repeats.rest().await.is_ok());
        repeats.waited();
        advance(REPEATED_FOR).await;
        assert!(repeats.rest().await.is_ok());
        advance(REPEATED_FOR).await;
        assert!(repeats.rest().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_given_up_after_a_hundred_times() {
        let mut repeats = Repeats::default();
        for _ in 1..REPEATS_MAX {
            assert!(repeats.rest().await.is_ok());
        }
        assert!(repeats.rest().await.is_err());
    }
}
