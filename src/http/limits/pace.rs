//! How fast bodies have to arrive.

use std::time::Duration;

/// How fast a body has to arrive.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often that is checked.
    pub tick: Duration,
    /// How many ticks one after the other may bring nothing.
    pub silent_max: u32,
    /// Within how many ticks it has to be complete.
    pub ticks_max: u32,
    /// How many bytes a tick has to bring while memory is short. A body that holds no more than
    /// that need not bring any.
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
