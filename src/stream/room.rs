//! How much room the stream has left, and what of it is kept back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::HEADERS_BYTES;

/// Free room of the stream below which commands are refused: what is decided still finds room.
const RESERVE_BYTES: u64 = 96 << 20;
/// Of that, what barriers leave: whoever takes over has to find room for a fence.
const FENCES_BYTES: u64 = 64 << 10;

/// The room of the stream, as last reported, without what was appended since.
pub(super) struct Room {
    /// `u64::MAX` before the first report.
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

    /// The stream has so many bytes more.
    pub(super) fn took(&self, bytes: usize) {
        // The servers keep headers with it; what that is in fact the next look tells.
        let bytes = (bytes + HEADERS_BYTES) as u64;
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
        let fences = FENCES_BYTES.min(bytes_max / 16);
        self.fences.store(fences, Ordering::Relaxed);
    }

    /// Whether what is left is for fences alone.
    pub(super) fn is_for_fences(&self) -> bool {
        self.free() < self.fences.load(Ordering::Relaxed)
    }

    /// Whether only the reserve is left.
    pub(super) fn is_short(&self) -> bool {
        self.free() < self.reserve.load(Ordering::Relaxed)
    }

    /// Why nothing new may be decided, when so many bytes are on their way: they need the room that they
    /// do not take yet.
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
                room.told(room.free(), bytes_max - free, bytes_max);
                assert_eq!(room.is_short(), is_short, "{free} of {bytes_max}");
                assert_eq!(room.is_for_fences(), is_for_fences, "{free} of {bytes_max}");
                assert_eq!(room.lack(0).is_some(), is_short, "{free} of {bytes_max}");
            }
            // What is on its way counts as if it were there.
            let room = Room::default();
            room.told(room.free(), bytes_max - reserve - 100, bytes_max);
            assert!(room.lack(100).is_none() && room.lack(101).is_some());
            assert!(!room.is_short());
        }
        // Before the servers have said anything nothing is refused.
        let room = Room::default();
        assert!(!room.is_short() && !room.is_for_fences() && room.lack(1 << 30).is_none());
    }
}
