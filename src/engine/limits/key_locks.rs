//! Key locks: while a command is decided, it holds the locks of its idempotency key and of the
//! unique keys that it may take. A command that wants a locked key waits, and then reads again what
//! is committed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::base::digest::{Digest, DigestBuild};

const SHARDS: usize = 256;

type Waiters = Vec<oneshot::Sender<()>>;

/// The locks that are held at present.
pub struct KeyLocks {
    shards: Box<[Shard]>,
}

/// Some of the locks, in a cache line of their own: mostly one lock at a time is held here, by one
/// processor after the other, and each line that they share is a wait.
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Held>);

#[derive(Default)]
struct Held {
    first: Option<(Digest, Waiters)>,
    /// Those that came while there was a first one.
    #[expect(
        clippy::box_collection,
        reason = "a map is four words, and the cache line has one left"
    )]
    others: Option<Box<HashMap<Digest, Waiters, DigestBuild>>>,
}

const _: () = assert!(size_of::<Shard>() == 64);

impl Held {
    /// Who waits for this key; `None` when it is not locked.
    fn waiters(&mut self, key: Digest) -> Option<&mut Waiters> {
        match &mut self.first {
            Some((first, waiters)) if *first == key => Some(waiters),
            _ => self.others.as_mut()?.get_mut(&key),
        }
    }

    /// Locks a key that is not locked.
    fn lock(&mut self, key: Digest) {
        match &self.first {
            None => self.first = Some((key, Waiters::new())),
            Some(_) => {
                let others = self.others.get_or_insert_default();
                others.insert(key, Waiters::new());
            }
        }
    }

    /// Releases a key; who waits for it.
    fn release(&mut self, key: Digest) -> Waiters {
        let first = self.first.take_if(|(first, _)| *first == key);
        let released = match first {
            Some((_, waiters)) => Some(waiters),
            None => self.others.as_mut().and_then(|others| others.remove(&key)),
        };
        released.unwrap_or_default()
    }

    fn keys(&self) -> impl Iterator<Item = Digest> {
        let first = self.first.iter().map(|(key, _)| *key);
        let others = self.others.iter().flat_map(|others| others.keys().copied());
        first.chain(others)
    }
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
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: Digest) -> &Mutex<Held> {
        &self.shards[key.shard(SHARDS)].0
    }

    /// Locks `key`; waits while another one holds it.
    pub async fn hold(self: &Arc<Self>, key: Digest) -> KeyLock {
        loop {
            let given_back = {
                let mut shard = self.shard(key).lock();
                match shard.waiters(key) {
                    None => {
                        shard.lock(key);
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
            .flat_map(|shard| shard.0.lock().keys().collect::<Vec<_>>())
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
        let waiters = self.locks.shard(self.key).lock().release(self.key);
        for waiter in waiters {
            // A waiter that has left needs no notification.
            let _ = waiter.send(());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Waker};

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
        assert_eq!(locks.held(), []);
    }

    #[tokio::test]
    async fn keys_of_one_shard_are_locked_each_for_itself() {
        let locks = Arc::new(KeyLocks::new());
        let keys = [1, 2, 3].map(|last| {
            let mut key = [0; 16];
            key[15] = last;
            Digest(key)
        });
        for released in 0..keys.len() {
            let mut held = Vec::new();
            for key in keys {
                held.push(locks.hold(key).await);
            }
            drop(held.remove(released));
            let mut waiting = keys.map(|key| Box::pin(locks.hold(key)));
            for (number, waiting) in waiting.iter_mut().enumerate() {
                let mut context = Context::from_waker(Waker::noop());
                let gets_it = waiting.as_mut().poll(&mut context).is_ready();
                assert_eq!(gets_it, number == released, "key {number}");
            }
            drop(held);
        }
        assert_eq!(locks.held(), []);
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
