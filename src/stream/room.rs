//! How much room the stream has left, and what of it is kept back.

use std::sync::atomic::{AtomicU64, Ordering};

/// Free room of the stream below which commands are refused: what is decided still finds room.
const RESERVE_BYTES: u64 = 96 << 20;

/// The room of the stream, as last reported, without what was appended since.
pub(super) struct Room {
    /// `u64::MAX` before the first report.
    free: AtomicU64,
    reserve: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            free: AtomicU64::new(u64::MAX),
            reserve: AtomicU64::new(0),
        }
    }
}

impl Room {
    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// The stream has so many bytes more.
    pub(super) fn took(&self, bytes: usize) {
        let bytes = bytes as u64;
        let _ = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                (free != u64::MAX).then(|| free.saturating_sub(bytes))
            });
    }

    /// The servers have reported how much it has and may have, when so much was free.
    pub(super) fn told(&self, before: u64, bytes: u64, bytes_max: u64) {
        // What was appended while they answered is counted again at the next look.
        let _ = self.free.compare_exchange(
            before,
            bytes_max.saturating_sub(bytes),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let reserve = RESERVE_BYTES.min(bytes_max / 4);
        self.reserve.store(reserve, Ordering::Relaxed);
    }

    /// Whether only the reserve is left.
    pub(super) fn is_short(&self) -> bool {
        self.free() < self.reserve.load(Ordering::Relaxed)
    }

    /// The same, in words.
    pub(super) fn lack(&self) -> Option<String> {
        let (free, reserve) = (self.free(), self.reserve.load(Ordering::Relaxed));
        self.is_short().then(|| {
            format!(
                "{free} bytes are free in the stream, and {reserve} are the reserve: raise its \
                 max_bytes"
            )
        })
    }
}
