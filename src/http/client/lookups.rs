//! Look-ups of host names. Each occupies a thread until it has ended, even when nobody waits for it any more.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Limits look-ups to a total number at once, and to one per host, so that an unresponsive host delays only itself.
pub(super) struct Lookups {
    all: Arc<Semaphore>,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Lookups {
    pub(super) fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            hosts: Mutex::new(HashMap::new()),
        }
    }

    /// Looks a host up on a thread for blocking calls, once a permit is free.
    ///
    /// # Errors
    /// When the look-up has panicked, or the runtime ends.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        host: String,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = {
            let mut hosts = self.hosts.lock();
            // Removes the hosts that nobody looks up or waits for.
            hosts.retain(|_, turn| Arc::strong_count(turn) > 1);
            let turn = hosts.entry(host);
            Arc::clone(turn.or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let own = turn.acquire_owned().await.map_err(io::Error::other)?;
        let all = Arc::clone(&self.all).acquire_owned();
        let one_of_all = all.await.map_err(io::Error::other)?;
        let looked = tokio::task::spawn_blocking(move || {
            let found = look();
            drop((own, one_of_all));
            found
        });
        looked.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_name_that_is_not_found_holds_one_thread_and_others_are_looked_up_beside_it() {
        let lookups = Lookups::new(2);
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let silent = || {
            let (begun, held) = (Arc::clone(&begun), Arc::clone(&held));
            move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ = held.lock().unwrap().recv();
            }
        };
        // The callers give up, but the thread stays busy, so the next look-up of this host waits.
        for _ in 0..3 {
            let lookup = lookups.run("silent".to_owned(), silent());
            assert!(timeout(SHORT, lookup).await.is_err());
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        assert_eq!(lookups.run("good".to_owned(), || 7).await.unwrap(), 7);
        // A second silent host takes the last permit.
        let lookup = lookups.run("mute".to_owned(), silent());
        assert!(timeout(SHORT, lookup).await.is_err());
        let lookup = lookups.run("good".to_owned(), || 8);
        assert!(timeout(SHORT, lookup).await.is_err());
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert_eq!(lookups.run("good".to_owned(), || 9).await.unwrap(), 9);
        assert_eq!(lookups.run("silent".to_owned(), || 1).await.unwrap(), 1);
        assert!(lookups.hosts.lock().len() <= 2);
    }
}
