//! Readers that wait for a position, with the limits of their number and of their time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::limits::admission::Admission;

/// Maximum time for which a reader waits for a position.
pub const WAITED_MAX: Duration = Duration::from_secs(5);
/// Maximum number of waiting readers.
pub const WAITING_MAX: usize = 1_024;
/// Maximum number of waiting readers of one subject, so that a subject that waits for positions that never come does
/// not keep others from reading what they wrote.
pub const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 4;

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The position is durable here.
    Yes,
    /// The position was not reached within [`WAITED_MAX`], or the service ends.
    No,
    /// Too many readers wait already.
    QueueFull,
}

/// The readers that wait, and their positions.
pub(crate) struct PositionWaiters {
    /// The lowest position that a reader waits for; `u64::MAX` when none does.
    lowest: AtomicU64,
    waiting: Mutex<Waiting>,
    admission: Arc<Admission>,
    /// Waits that ended without the position.
    in_vain: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    readers: BTreeMap<(u64, u64), oneshot::Sender<()>>,
    /// Number of waiting readers of each subject that has any.
    own: HashMap<Box<str>, usize>,
    next: u64,
}

impl Default for PositionWaiters {
    fn default() -> Self {
        Self {
            lowest: AtomicU64::new(u64::MAX),
            waiting: Mutex::default(),
            admission: Arc::new(Admission::new(WAITING_MAX)),
            in_vain: AtomicU64::new(0),
        }
    }
}

/// A place among the waiting readers, given back when it is dropped.
struct Place<'a> {
    awaited: &'a PositionWaiters,
    key: (u64, u64),
    subject: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.awaited.waiting.lock();
        waiting.readers.remove(&self.key);
        if let Some(own) = waiting.own.get_mut(self.subject) {
            *own -= 1;
            if *own == 0 {
                waiting.own.remove(self.subject);
            }
        }
        self.awaited.note_lowest(&waiting);
    }
}

impl PositionWaiters {
    fn note_lowest(&self, waiting: &Waiting) {
        let lowest = waiting.readers.keys().next();
        let lowest = lowest.map_or(u64::MAX, |(position, _)| *position);
        self.lowest.store(lowest, Ordering::SeqCst);
    }

    /// Everything up to `durable` is durable and visible: wakes the readers that wait for it.
    pub(crate) fn durable(&self, durable: u64) {
        // Either this sees the waiting reader, or that reader sees the new durable position.
        fence(Ordering::SeqCst);
        if self.lowest.load(Ordering::SeqCst) > durable {
            return;
        }
        let mut waiting = self.waiting.lock();
        while let Some(first) = waiting.readers.first_entry()
            && first.key().0 <= durable
        {
            // A reader that has left needs no notification.
            let _ = first.remove().send(());
        }
        self.note_lowest(&waiting);
    }

    /// Ends all waits.
    pub(crate) fn end(&self) {
        self.waiting.lock().readers.clear();
    }

    /// Returns the number of waiting readers, and of waits that ended without the position.
    pub(crate) fn figures(&self) -> (usize, u64) {
        (
            self.admission.in_flight(),
            self.in_vain.load(Ordering::Relaxed),
        )
    }

    /// Waits, for a reader of this subject, until `durable` returns `position` or more.
    pub(crate) async fn wait(
        &self,
        subject: &str,
        position: u64,
        durable: impl Fn() -> u64,
    ) -> Reached {
        if durable() >= position {
            return Reached::Yes;
        }
        let Some(_permit) = Admission::admit(&self.admission, 1) else {
            return Reached::QueueFull;
        };
        let (sender, told) = oneshot::channel();
        let _place = {
            let mut waiting = self.waiting.lock();
            let own = waiting.own.entry(subject.into()).or_default();
            if *own >= WAITING_OF_ONE_MAX {
                return Reached::QueueFull;
            }
            *own += 1;
            let key = (position, waiting.next);
            waiting.next += 1;
            waiting.readers.insert(key, sender);
            self.note_lowest(&waiting);
            Place {
                awaited: self,
                key,
                subject,
            }
        };
        fence(Ordering::SeqCst);
        if durable() < position {
            let _ = timeout(WAITED_MAX, told).await;
        }
        if durable() >= position {
            return Reached::Yes;
        }
        self.in_vain.fetch_add(1, Ordering::Relaxed);
        Reached::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readers_are_told_of_their_position_and_of_no_earlier_one() {
        let awaited = Arc::new(PositionWaiters::default());
        let now = Arc::new(AtomicU64::new(4));
        let wait = |position| {
            let (awaited, now) = (Arc::clone(&awaited), Arc::clone(&now));
            tokio::spawn(async move {
                awaited
                    .wait("me", position, || now.load(Ordering::SeqCst))
                    .await
            })
        };
        assert_eq!(wait(4).await.ok(), Some(Reached::Yes));
        let (sixth, fifth, never) = (wait(6), wait(5), wait(7));
        let come_to = |position| {
            now.store(position, Ordering::SeqCst);
            awaited.durable(position);
        };
        tokio::task::yield_now().await;
        come_to(5);
        assert_eq!(fifth.await.ok(), Some(Reached::Yes));
        assert!(!sixth.is_finished());
        come_to(6);
        assert_eq!(sixth.await.ok(), Some(Reached::Yes));
        assert_eq!(never.await.ok(), Some(Reached::No));
        assert_eq!(awaited.figures(), (0, 1));
        assert_eq!(awaited.lowest.load(Ordering::SeqCst), u64::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_may_wait_and_no_more_and_who_leaves_makes_room() {
        let awaited = Arc::new(PositionWaiters::default());
        let wait = |subject: usize| {
            let awaited = Arc::clone(&awaited);
            let subject = subject.to_string();
            tokio::spawn(async move { awaited.wait(&subject, 1, || 0).await })
        };
        let mut all = Vec::new();
        for subject in 0..WAITING_MAX / WAITING_OF_ONE_MAX {
            all.extend((0..WAITING_OF_ONE_MAX).map(|_| wait(subject)));
            tokio::task::yield_now().await;
            // Others may wait all the same.
            assert_eq!(wait(subject).await.ok(), Some(Reached::QueueFull));
        }
        assert_eq!(wait(1_000).await.ok(), Some(Reached::QueueFull));
        let gone = all.pop();
        if let Some(gone) = gone {
            gone.abort();
            assert!(gone.await.is_err());
        }
        let next = wait(1_000);
        tokio::task::yield_now().await;
        awaited.end();
        assert_eq!(next.await.ok(), Some(Reached::No));
        for waited in all {
            assert_eq!(waited.await.ok(), Some(Reached::No));
        }
        assert_eq!(awaited.figures(), (0, WAITING_MAX as u64));
        assert!(awaited.waiting.lock().own.is_empty());
    }
}
