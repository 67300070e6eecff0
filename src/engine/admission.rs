//! Admission: how much may be in flight at once, commands or bytes. Past the bound a request is
//! shed before any work, so memory does not grow with load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is free of a bounded amount.
pub struct Admission {
    max: usize,
    free: AtomicUsize,
}

/// The right to have some of the amount in flight; dropping it gives it back.
pub struct Permit {
    admission: Arc<Admission>,
    amount: usize,
}

impl Admission {
    /// At most `max` at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            free: AtomicUsize::new(max),
        }
    }

    /// How much is in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.max - self.free.load(Ordering::Relaxed).min(self.max)
    }

    /// Whether nothing more may be in flight just now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free.load(Ordering::Relaxed) == 0
    }

    /// So much more, when it may be.
    #[must_use]
    pub fn admit(admission: &Arc<Self>, amount: usize) -> Option<Permit> {
        let taken = admission
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                free.checked_sub(amount)
            });
        taken.is_ok().then(|| Permit {
            admission: Arc::clone(admission),
            amount,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.free.fetch_add(self.amount, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_nothing_is_admitted_until_something_ends() {
        let admission = Arc::new(Admission::new(2));
        let first = Admission::admit(&admission, 1);
        let second = Admission::admit(&admission, 1);
        assert!(first.is_some() && second.is_some());
        assert!(Admission::admit(&admission, 1).is_none());
        assert_eq!((admission.in_flight(), admission.is_full()), (2, true));
        drop(first);
        assert!(!admission.is_full());
        assert_eq!(admission.in_flight(), 1);
        assert!(Admission::admit(&admission, 2).is_none());
        assert!(Admission::admit(&admission, 1).is_some());
    }

    #[test]
    fn the_log_is_told_how_many_commands_are_in_flight() {
        let admission = Arc::new(Admission::new(3));
        let events = crate::engine::JournalEvents {
            lanes: Arc::new(crate::engine::lane::Lanes::new(1)),
            admission: Arc::clone(&admission),
            on_fatal: None,
        };
        let permits = (0..2).map(|_| Admission::admit(&admission, 1));
        let permits: Vec<_> = permits.collect();
        assert_eq!(wal::Events::in_flight(&events), 2);
        drop(permits);
        assert_eq!(wal::Events::in_flight(&events), 0);
    }
}
