//! The room that the stream has left, and how much of it is reserved.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::HEADERS_BYTES;

/// Free bytes below which commands are rejected, so that decided ones still find room.
const RESERVE_BYTES: u64 = 96 << 20;
/// Free bytes that barriers leave, out of the reserve: a successor must find room for a fence.
const FENCES_BYTES: u64 = 64 << 10;

/// The room of the stream: the last report, less what was appended since.
pub(super) struct Room {
    /// Free bytes; `u64::MAX` before the first report.
    free: AtomicU64,
    reserve: AtomicU64,
    fences: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            free: AtomicU64::new(u64::MAX),
            reserve: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        }
    }
}

impl Room {
    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Notes that the stream has `bytes` more.
    pub(super) fn note_appended(&self, bytes: usize) {
        // The servers also store headers; their real size is part of the next report.
        let bytes = (bytes + HEADERS_BYTES) as u64;
        let _ = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                (free != u64::MAX).then(|| free.saturating_sub(bytes))
            });
    }

    /// Notes the servers' report of the used and the maximum bytes; `before` was the free room at the request.
    pub(super) fn set_reported(&self, before: u64, bytes: u64, bytes_max: u64) {
        // If something was appended meanwhile, this report is ignored, and the next check counts again.
        let _ = self.free.compare_exchange(
            before,
            bytes_max.saturating_sub(bytes),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let reserve = RESERVE_BYTES.min(bytes_max / 4);
        self.reserve.store(reserve, Ordering::Relaxed);
        let fences = FENCES_BYTES.min(bytes_max / 16);
        self.fences.store(fences, Ordering::Relaxed);
    }

    /// Whether the remaining room is for fences only.
    pub(super) fn is_for_fences(&self) -> bool {
        self.free() < self.fences.load(Ordering::Relaxed)
    }

    /// Whether only the reserve is left.
    pub(super) fn is_short(&self) -> bool {
        self.free() < self.reserve.load(Ordering::Relaxed)
    }

    /// Returns why no further command may be decided, if so; `queued` bytes are in flight and will need room.
    pub(super) fn lack(&self, queued: usize) -> Option<String> {
        let (free, reserve) = (self.free(), self.reserve.load(Ordering::Relaxed));
        (free.saturating_sub(queued as u64) < reserve).then(|| {
            let beside = match queued {
                0 => String::new(),
                queued => format!(" for what is on its way, which has {queued},"),
            };
            format!(
                "{free} bytes are free in the stream,{beside} and {reserve} are the reserve: raise its \
                 max_bytes"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_leave_room_to_barriers_and_barriers_to_fences() {
        for (bytes_max, reserve, fences) in [
            (64 << 30, 96 << 20, 64 << 10),
            (64 << 20, 16 << 20, 64 << 10),
            (1 << 20, 256 << 10, 64 << 10),
            (1 << 10, 256, 64),
        ] {
            for (free, is_short, is_for_fences) in [
                (reserve, false, false),
                (reserve - 1, true, false),
                (fences, true, false),
                (fences - 1, true, true),
                (0, true, true),
            ] {
                let room = Room::default();
                room.set_reported(room.free(), bytes_max - free, bytes_max);
                assert_eq!(room.is_short(), is_short, "{free} of {bytes_max}");
                assert_eq!(room.is_for_fences(), is_for_fences, "{free} of {bytes_max}");
                assert_eq!(room.lack(0).is_some(), is_short, "{free} of {bytes_max}");
            }
            // Bytes in flight count as if they were stored.
            let room = Room::default();
            room.set_reported(room.free(), bytes_max - reserve - 100, bytes_max);
            assert!(room.lack(100).is_none() && room.lack(101).is_some());
            assert!(!room.is_short());
        }
        // Nothing is rejected before the servers' first report.
        let room = Room::default();
        assert!(!room.is_short() && !room.is_for_fences() && room.lack(1 << 30).is_none());
    }
}
