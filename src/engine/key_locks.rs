//! Key locks: while a command is decided, it holds the locks of its idempotency key and of the
//! unique keys that it may take. A command that wants a locked key waits, and then reads again what
//! is committed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::base::digest::{Digest, DigestBuild};

const SHARDS: usize = 64;

type Waiters = Vec<oneshot::Sender<()>>;

/// The locks that are held at present.
pub struct KeyLocks {
    shards: Box<[Mutex<HashMap<Digest, Waiters, DigestBuild>>]>,
}

/// One lock, held until this is dropped. It belongs to the command, not to the client: a client
/// that disconnects must not release it while the command is in progress.
pub struct KeyLock {
    locks: Arc<KeyLocks>,
    key: Digest,
}

impl KeyLocks {
    /// No key is locked.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Locks `key`, once nobody else holds it.
    pub async fn hold(self: &Arc<Self>, key: Digest) -> KeyLock {
        loop {
            let given_back = {
                let mut shard = self.shards[key.shard(SHARDS)].lock();
                match shard.get_mut(&key) {
                    None => {
                        shard.insert(key, Waiters::new());
                        return KeyLock {
                            locks: Arc::clone(self),
                            key,
                        };
                    }
                    Some(waiters) => {
                        let (sender, receiver) = oneshot::channel();
                        waiters.push(sender);
                        receiver
                    }
                }
            };
            // An error means the same: it is no longer held.
            let _ = given_back.await;
        }
    }

    /// The keys that are locked at present.
    #[must_use]
    pub fn held(&self) -> Vec<Digest> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>())
            .collect()
    }

    /// Locks all of `keys`, in the same order for everybody, so that no two commands wait for each
    /// other.
    pub async fn hold_all(self: &Arc<Self>, mut keys: Vec<Digest>) -> Vec<KeyLock> {
        keys.sort_unstable();
        keys.dedup();
        let mut held = Vec::with_capacity(keys.len());
        for key in keys {
            held.push(self.hold(key).await);
        }
        held
    }
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        let waiters = self.locks.shards[self.key.shard(SHARDS)]
            .lock()
            .remove(&self.key);
        for waiter in waiters.into_iter().flatten() {
            // A waiter that has left needs no notification.
            let _ = waiter.send(());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_lock_is_held_by_one_at_a_time_and_everybody_gets_it_in_the_end() {
        let locks = Arc::new(KeyLocks::new());
        let inside = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (locks, inside) = (Arc::clone(&locks), Arc::clone(&inside));
                tokio::spawn(async move {
                    let _held = locks.hold(Digest([7; 16])).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(locks.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[tokio::test]
    async fn two_that_want_the_same_locks_do_not_wait_for_each_other() {
        let locks = Arc::new(KeyLocks::new());
        let tasks: Vec<_> = (0_u8..40)
            .map(|n| {
                let locks = Arc::clone(&locks);
                tokio::spawn(async move {
                    let mut wanted = vec![Digest([1; 16]), Digest([2; 16]), Digest([3; 16])];
                    wanted.rotate_left(usize::from(n % 3));
                    let held = locks.hold_all(wanted).await;
                    tokio::task::yield_now().await;
                    assert_eq!(held.len(), 3);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}
