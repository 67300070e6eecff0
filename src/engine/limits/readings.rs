//! Limits the concurrent readings of the log for requests; each runs on a thread where it may wait for the disk.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A limit of concurrent readings. A reading counts until it ends, even when its client has disconnected: so a client
/// that sends requests and disconnects again and again gets no more readings than others.
pub(in crate::engine) struct Readings(Arc<Semaphore>);

impl Readings {
    /// Creates a limit of `most` concurrent readings.
    pub(in crate::engine) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Waits for a turn and reads; `None` when the reading panicked, or the process ends.
    pub(in crate::engine) async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let read = spawn_blocking(move || {
            let read = reading();
            drop(turn);
            read
        });
        read.await.ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_reading_counts_until_it_ends_though_nobody_waits_for_it() {
        let readings = Arc::new(Readings::new(1));
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let own = Arc::clone(&readings);
        let first = tokio::spawn(async move {
            let wait = move || {
                begun.send(()).unwrap();
                may_end.recv().unwrap();
            };
            own.read(wait).await
        });
        while has_begun.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert_eq!(readings.0.available_permits(), 0, "its thread still reads");
        end.send(()).unwrap();
        assert_eq!(readings.read(|| 7).await, Some(7));
    }

    #[tokio::test]
    async fn a_reading_that_panics_gives_its_turn_back() {
        let readings = Readings::new(1);
        assert_eq!(readings.read(|| -> u8 { panic!("a fault") }).await, None);
        assert_eq!(readings.read(|| 7).await, Some(7));
    }
}
