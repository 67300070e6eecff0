//! Key locks: while a command is decided, it holds the locks of its idempotency key and of the unique keys that it
//! may take. A command that wants a locked key waits, and then reads the committed state again.
//!
//! A released lock is handed to the command that has waited longest, and no other is woken: the total cost of many
//! commands waiting for one lock grows with their number, not with its square.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::base::digest::{Digest, DigestBuild};

const SHARDS: usize = 256;

/// The waiters for a key, in the order of arrival. Usually there are none: then a lock is taken and released without
/// a queue.
type Waiters = Option<Box<VecDeque<oneshot::Sender<KeyLock>>>>;

/// The locks that are held at present.
pub struct KeyLocks {
    shards: Box<[Shard]>,
}

/// Some of the locks, in a cache line of their own. Usually one lock at a time is held here, by one processor after
/// the other, and each cache line shared between processors costs a wait.
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Held>);

#[derive(Default)]
struct Held {
    first: Option<(Digest, Waiters)>,
    /// Locks taken while the first one was held.
    #[expect(
        clippy::box_collection,
        reason = "a map is four words, and the cache line has one left"
    )]
    others: Option<Box<HashMap<Digest, Waiters, DigestBuild>>>,
}

const _: () = assert!(size_of::<Shard>() == 64);

impl Held {
    /// Returns the waiters for this key; `None` when it is not locked.
    fn waiters(&mut self, key: Digest) -> Option<&mut Waiters> {
        match &mut self.first {
            Some((first, waiters)) if *first == key => Some(waiters),
            _ => self.others.as_mut()?.get_mut(&key),
        }
    }

    /// Locks a key that is not locked.
    fn lock(&mut self, key: Digest) {
        match &self.first {
            None => self.first = Some((key, None)),
            Some(_) => {
                let others = self.others.get_or_insert_default();
                others.insert(key, None);
            }
        }
    }

    /// Removes the first waiter for a key, which stays locked for it; without a waiter, releases the key.
    fn next(&mut self, key: Digest) -> Option<oneshot::Sender<KeyLock>> {
        let first = |waiters: &mut Waiters| waiters.as_mut()?.pop_front();
        if let Some((_, waiters)) = self.first.as_mut().filter(|(first, _)| *first == key) {
            let next = first(waiters);
            if next.is_none() {
                self.first = None;
            }
            return next;
        }
        let others = self.others.as_mut()?;
        let next = first(others.get_mut(&key)?);
        if next.is_none() {
            others.remove(&key);
        }
        next
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
    /// `None` once the lock was released.
    locks: Option<Arc<KeyLocks>>,
    key: Digest,
}

impl KeyLocks {
    /// Creates a table without any lock.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: Digest) -> &Mutex<Held> {
        &self.shards[key.shard(SHARDS)].0
    }

    /// Locks `key`; waits while earlier commands hold it or wait for it.
    pub async fn hold(self: &Arc<Self>, key: Digest) -> KeyLock {
        let handed_over = {
            let mut shard = self.shard(key).lock();
            match shard.waiters(key) {
                None => {
                    shard.lock(key);
                    return KeyLock {
                        locks: Some(Arc::clone(self)),
                        key,
                    };
                }
                Some(waiters) => {
                    let (sender, receiver) = oneshot::channel();
                    waiters.get_or_insert_default().push_back(sender);
                    receiver
                }
            }
        };
        let held = handed_over.await;
        held.expect("a lock that somebody waits for is handed over")
    }

    /// Returns the keys that are locked at present.
    #[must_use]
    pub fn held(&self) -> Vec<Digest> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.0.lock().keys().collect::<Vec<_>>())
            .collect()
    }

    /// Locks all of `keys`, in the same order for every caller, so that no two commands wait for each other.
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
        let Some(locks) = self.locks.take() else {
            return;
        };
        // A closure, so that the shard is not locked while the lock is handed over.
        let next = || locks.shard(self.key).lock().next(self.key);
        while let Some(waiter) = next() {
            let lock = Self {
                locks: Some(Arc::clone(&locks)),
                key: self.key,
            };
            match waiter.send(lock) {
                Ok(()) => return,
                // The waiter has gone: this lock must not release the key, since the loop tries the next waiter.
                Err(mut refused) => refused.locks = None,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake, Waker};

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

    /// A waker that counts its calls.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn a_lock_is_handed_to_who_came_first_and_nobody_else_is_woken() {
        let locks = Arc::new(KeyLocks::new());
        let key = Digest([7; 16]);
        let woken = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut held = locks.hold(key).await;
        let mut waiting: VecDeque<_> = (0..100).map(|_| Box::pin(locks.hold(key))).collect();
        for waiter in &mut waiting {
            assert!(waiter.as_mut().poll(&mut context).is_pending());
        }
        for handed_over in 1..=100 {
            drop(held);
            assert_eq!(woken.0.load(Ordering::SeqCst), handed_over);
            let last = waiting.back_mut().unwrap();
            assert!(handed_over == 100 || last.as_mut().poll(&mut context).is_pending());
            // A waiter that arrives now comes last.
            let mut late = Box::pin(locks.hold(key));
            assert!(late.as_mut().poll(&mut context).is_pending());
            drop(late);
            held = waiting.pop_front().unwrap().await;
        }
        drop(held);
        assert_eq!(locks.held(), []);
    }

    #[tokio::test]
    async fn a_lock_skips_waiters_that_left_before_or_after_it_was_handed_to_them() {
        let locks = Arc::new(KeyLocks::new());
        let key = Digest([7; 16]);
        let mut context = Context::from_waker(Waker::noop());
        let held = locks.hold(key).await;
        let mut waiting: VecDeque<_> = (0..20_000).map(|_| Box::pin(locks.hold(key))).collect();
        for waiter in &mut waiting {
            assert!(waiter.as_mut().poll(&mut context).is_pending());
        }
        let mut last = waiting.pop_back().unwrap();
        let first = waiting.pop_front().unwrap();
        drop(waiting);
        drop(held);
        // The first waiter was handed the lock, and goes before it takes it.
        assert!(last.as_mut().poll(&mut context).is_pending());
        drop(first);
        drop(last.await);
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
