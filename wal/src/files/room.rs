//! Whether records can be taken without running into a full disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The known space, as atomics that the threads share.
pub(super) struct Room {
    /// Free space is below the reserve.
    pub(super) low: AtomicBool,
    /// Free bytes; the largest number when that is not known.
    pub(super) free: AtomicU64,
    pub(super) reserve: u64,
    /// Bytes of the next segment.
    pub(super) next: AtomicU64,
    /// No segment could be made.
    pub(super) blocked: AtomicBool,
    /// Bytes left in the current segment.
    pub(super) left: AtomicU64,
    /// Bytes of the current segment.
    pub(super) size: AtomicU64,
    /// Bytes that must be left when there is no other segment.
    pub(super) margin: u64,
}

impl Room {
    /// Whether the next segment, `made` of whose `of` bytes are prepared, will be ready
    /// while a quarter of the current one is left.
    pub(super) fn is_ahead(&self, made: u64, of: u64) -> bool {
        let left = u128::from(self.left.load(Ordering::Relaxed));
        let size = u128::from(self.size.load(Ordering::Relaxed));
        let missing = u128::from(of.saturating_sub(made));
        missing * size * 4 <= left * u128::from(of) * 3
    }

    pub(super) fn available(&self) -> bool {
        if self.low.load(Ordering::Relaxed) {
            return false;
        }
        !self.blocked.load(Ordering::Relaxed) || self.left.load(Ordering::Relaxed) >= self.margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_segment_has_time_while_it_will_be_there_with_a_quarter_left() {
        let room = |left: u64| Room {
            low: AtomicBool::new(false),
            free: AtomicU64::new(0),
            reserve: 0,
            next: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            left: AtomicU64::new(left),
            size: AtomicU64::new(100),
            margin: 0,
        };
        assert!(room(100).is_ahead(50, 200));
        assert!(!room(100).is_ahead(49, 200));
        assert!(room(50).is_ahead(125, 200));
        assert!(!room(50).is_ahead(124, 200));
        assert!(!room(0).is_ahead(199, 200) && room(0).is_ahead(200, 200));
    }
}
