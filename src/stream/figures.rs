//! Figures of a journal, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of a journal.
#[derive(Debug, Default)]
pub struct Figures {
    epoch: AtomicU64,
    fences: AtomicU64,
    appends: AtomicU64,
    in_flight: Arc<AtomicU64>,
    retries: AtomicU64,
    barriers: AtomicU64,
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    snapshot: AtomicU64,
    snapshot_failures: AtomicU64,
    first: AtomicU64,
    has_other_key: AtomicBool,
    has_weak_settings: AtomicBool,
    has_weak_lease: AtomicBool,
    has_lost_beginning: AtomicBool,
}

/// Values of the counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Epoch in which this process writes or wrote; 0 when it never did.
    pub epoch: u64,
    /// Number of epochs that this process has begun.
    pub fences: u64,
    /// Number of messages that this process has begun to append.
    pub appends: u64,
    /// Number of messages whose outcome is not known yet.
    pub in_flight: u64,
    /// Number of failed attempts, after which the same bytes were sent again.
    pub retries: u64,
    /// Number of messages appended only to show that this process still writes.
    pub barriers: u64,
    /// Bytes of the stream, as last reported.
    pub bytes: u64,
    /// Maximum bytes of the stream.
    pub bytes_max: u64,
    /// Last position covered by the newest snapshot that this process has put into the object store, or found there;
    /// 0 before.
    pub snapshot: u64,
    /// Number of failed attempts to put a snapshot there.
    pub snapshot_failures: u64,
    /// First position in the stream when that snapshot was put there or found; 0 before.
    pub first: u64,
    /// 1 while the key of webhooks of this node differs from that of the writer.
    pub has_other_key: u64,
    /// 1 while this process, a follower, does not take over because the settings of the stream, or of the lease's
    /// bucket, are too weak.
    pub has_weak_settings: u64,
    /// 1 while messages are missing at the stream's beginning that are not listed as purged.
    pub has_lost_beginning: u64,
}

/// Counts an append in flight, until it is dropped.
pub(super) struct InFlight(Arc<AtomicU64>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Figures {
    pub(super) fn begins(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.fences.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn begins_append(&self) -> InFlight {
        self.appends.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(&self.in_flight))
    }

    pub(super) fn tries_again(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn barrier(&self) {
        self.barriers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stream_has(&self, bytes: u64, bytes_max: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Notes the position that the newest snapshot in the object store covers, and the first position of the stream.
    pub fn set_snapshot(&self, covers: u64, first: u64) {
        self.snapshot.store(covers, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
    }

    /// Counts a failed attempt to store a snapshot.
    pub fn failed_snapshot(&self) {
        self.snapshot_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether the settings of the stream are too weak for this process to take over; returns the previous value.
    pub fn set_weak_settings(&self, has_weak: bool) -> bool {
        self.has_weak_settings.swap(has_weak, Ordering::AcqRel)
    }

    /// Whether the settings of the stream, when they were last read, were too weak for this process to take over.
    #[must_use]
    pub fn has_weak_settings(&self) -> bool {
        self.has_weak_settings.load(Ordering::Acquire)
    }

    /// Notes whether the settings of the lease's bucket prevent that this process takes the lease.
    pub fn set_weak_lease(&self, has_weak: bool) {
        self.has_weak_lease.store(has_weak, Ordering::Relaxed);
    }

    /// Notes whether messages are missing at the stream's beginning that are not listed as purged; returns the previous
    /// value.
    pub(super) fn set_lost_beginning(&self, has_lost: bool) -> bool {
        self.has_lost_beginning.swap(has_lost, Ordering::Relaxed)
    }

    /// Notes whether the key of webhooks of this node differs from that of the writer; returns the previous value.
    pub fn set_other_key(&self, has_other: bool) -> bool {
        self.has_other_key.swap(has_other, Ordering::Relaxed)
    }

    /// Returns the current values.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Counted {
            epoch: load(&self.epoch),
            fences: load(&self.fences),
            appends: load(&self.appends),
            in_flight: load(&self.in_flight),
            retries: load(&self.retries),
            barriers: load(&self.barriers),
            bytes: load(&self.bytes),
            bytes_max: load(&self.bytes_max),
            snapshot: load(&self.snapshot),
            snapshot_failures: load(&self.snapshot_failures),
            first: load(&self.first),
            has_other_key: self.has_other_key.load(Ordering::Relaxed).into(),
            has_weak_settings: (self.has_weak_settings()
                || self.has_weak_lease.load(Ordering::Relaxed))
            .into(),
            has_lost_beginning: self.has_lost_beginning.load(Ordering::Relaxed).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_weak_while_those_of_the_stream_or_the_lease_bucket_are() {
        let figures = Figures::default();
        let counted = |stream: bool, lease: bool| {
            figures.set_weak_settings(stream);
            figures.set_weak_lease(lease);
            assert_eq!(figures.has_weak_settings(), stream);
            figures.counted().has_weak_settings
        };
        assert_eq!(counted(false, false), 0);
        assert_eq!(counted(true, false), 1);
        assert_eq!(counted(false, true), 1);
        assert_eq!(counted(true, true), 1);
    }
}
