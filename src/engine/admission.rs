//! Admission: how many commands may be in flight at once. Past the bound a command is shed before
//! any work, so memory does not grow with load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts what is in flight.
pub struct Admission {
    max: usize,
    free: AtomicUsize,
    shed: AtomicU64,
}

/// The right to have one command in flight; dropping it gives it back.
pub struct Permit(Arc<Admission>);

impl Admission {
    /// At most `max` at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            free: AtomicUsize::new(max),
            shed: AtomicU64::new(0),
        }
    }

    /// How many are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.max - self.free.load(Ordering::Relaxed).min(self.max)
    }

    /// How many were shed.
    #[must_use]
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// Counts one that is shed.
    pub fn count_shed(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// One more, when it may be.
    #[must_use]
    pub fn admit(admission: &Arc<Self>) -> Option<Permit> {
        let taken = admission
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                free.checked_sub(1)
            });
        if taken.is_err() {
            admission.count_shed();
            return None;
        }
        Some(Permit(Arc::clone(admission)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_nothing_is_admitted_until_something_ends() {
        let admission = Arc::new(Admission::new(2));
        let first = Admission::admit(&admission);
        let second = Admission::admit(&admission);
        assert!(first.is_some() && second.is_some());
        assert!(Admission::admit(&admission).is_none());
        assert_eq!((admission.in_flight(), admission.shed()), (2, 1));
        drop(first);
        assert_eq!(admission.in_flight(), 1);
        assert!(Admission::admit(&admission).is_some());
    }
}
