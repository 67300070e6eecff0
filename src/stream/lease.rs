//! The writer's lease: who may write, so that standbys know when to take over.
//!
//! No clock is part of the safety of writes: whoever takes over fences the one before. The lease
//! says when to do so; and, where answers rest on it instead of on appends, until when they may,
//! judged by a clock that nobody sets, and ended well before another may take it.

use std::time::Instant;

use parking_lot::Mutex;

/// Until when the lease is held, as far as is known.
#[derive(Debug, Default)]
pub struct Holding {
    until: Mutex<Option<Instant>>,
}

impl Holding {
    /// Whether it is held for certain.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.until
            .lock()
            .is_some_and(|until| Instant::now() < until)
    }

    /// It is held until then; not at all where there is no such time.
    pub fn set(&self, until: Option<Instant>) {
        *self.until.lock() = until;
    }
}
