//! The pauses before a command or a read is repeated because its read set has changed.

use std::time::Duration;

use tokio::time::Instant;

/// How often it is repeated at once, with only a turn for others in between.
const REPEATS_AT_ONCE: u32 = 8;

/// The first pause after those; each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_micros(500);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How often it is repeated at most: within some five seconds.
const REPEATS_MAX: u32 = 100;

/// How long it is repeated at most, where each attempt takes long.
const REPEATED_FOR: Duration = Duration::from_secs(10);

/// The pauses of a decision or a read whose read set has changed, time and again.
#[derive(Default)]
pub(crate) struct Repeats {
    count: u32,
    /// When it was first repeated.
    since: Option<Instant>,
}

/// It was repeated so often that it is abandoned.
pub(crate) struct GivenUp;

impl Repeats {
    /// Time was spent waiting for the disk: it does not count.
    pub(crate) fn waited(&mut self) {
        self.since = None;
    }

    /// Gives others their turn before the next attempt, and more time the more often it was tried.
    ///
    /// # Errors
    /// [`GivenUp`] when it was tried often enough.
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
    async fn it_is_given_up_after_ten_seconds_of_which_waiting_for_the_disk_is_no_part() {
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
