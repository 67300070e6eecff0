//! Admission: how many commands may be in flight at once. Past the bound a command is shed before
//! any work, so memory does not grow with load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is in flight.
pub struct Admission {
    free: AtomicUsize,
}

/// The right to have one command in flight; dropping it gives it back.
pub struct Permit(Arc<Admission>);

impl Admission {
    /// At most `max` at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            free: AtomicUsize::new(max),
        }
    }

    /// One more, when it may be.
    #[must_use]
    pub fn admit(admission: &Arc<Self>) -> Option<Permit> {
        let taken = admission
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                free.checked_sub(1)
            });
        taken.is_ok().then(|| Permit(Arc::clone(admission)))
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
        drop(first);
        assert!(Admission::admit(&admission).is_some());
    }
}
