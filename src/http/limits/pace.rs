//! The minimum rate at which bodies have to arrive.

use std::time::Duration;

/// The minimum rate at which a body has to arrive, checked once per tick.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time from one check to the next.
    pub tick: Duration,
    /// Maximum number of consecutive ticks without a byte.
    pub silent_max: u32,
    /// Maximum number of ticks until the body has to be complete.
    pub ticks_max: u32,
    /// Bytes that each tick has to bring while memory is short. A body that holds no more than that is exempt.
    pub tick_bytes: usize,
}

impl Pace {
    /// Complete within ten minutes, and silent for 20 seconds at most; 64 KiB a second while memory is
    /// short.
    pub const OF_COMMANDS: Self = Self {
        tick: Duration::from_secs(1),
        silent_max: 20,
        ticks_max: 600,
        tick_bytes: 64 << 10,
    };
}
