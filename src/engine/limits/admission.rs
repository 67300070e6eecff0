//! Admission: limits how much may be in flight at once, in commands or bytes. Beyond the limit a request is rejected
//! before any work, so memory does not grow with load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bounded amount, and how much of it is free.
pub struct Admission {
    max: usize,
    free: AtomicUsize,
}

/// A share of the amount; dropping it returns the share.
#[must_use]
pub struct Permit {
    admission: Arc<Admission>,
    amount: usize,
}

impl Admission {
    /// Creates an admission of at most `max` at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            free: AtomicUsize::new(max),
        }
    }

    /// Returns the maximum amount in flight.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the amount in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.max - self.free.load(Ordering::Relaxed).min(self.max)
    }

    /// Whether nothing more may be in flight just now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free.load(Ordering::Relaxed) == 0
    }

    /// Returns the free amount.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    /// Grants a permit for `amount`, if that much is free.
    #[must_use]
    pub fn admit(admission: &Arc<Self>, amount: usize) -> Option<Permit> {
        let mut permit = Permit::none(admission);
        permit.grow(amount, 0).then_some(permit)
    }

    fn take(&self, amount: usize, left: usize) -> bool {
        let taken = self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                free.checked_sub(amount).filter(|rest| *rest >= left)
            });
        taken.is_ok()
    }
}

impl Permit {
    /// Creates a permit of amount zero, which can grow.
    pub fn none(admission: &Arc<Admission>) -> Self {
        Self {
            admission: Arc::clone(admission),
            amount: 0,
        }
    }

    /// Returns the admission that the permit is a share of.
    #[must_use]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Returns the amount of the permit.
    #[must_use]
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Grows the permit by `amount` if that much is free and at least `left` stays free; otherwise changes nothing.
    /// Returns whether it has grown.
    #[must_use]
    pub fn grow(&mut self, amount: usize, left: usize) -> bool {
        let grown = self.admission.take(amount, left);
        if grown {
            self.amount += amount;
        }
        grown
    }

    /// Gives back all but `amount`, if it is more than that.
    pub fn shrink_to(&mut self, amount: usize) {
        let back = self.amount.saturating_sub(amount);
        self.amount -= back;
        self.admission.free.fetch_add(back, Ordering::AcqRel);
    }

    /// Grows by `amount`, or by what is free where that is less.
    pub fn grow_up_to(&mut self, amount: usize) {
        let taken = self
            .admission
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                Some(free.saturating_sub(amount))
            });
        let (Ok(free) | Err(free)) = taken;
        self.amount += free.min(amount);
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
    fn a_permit_grows_while_enough_is_left_and_gives_all_of_it_back() {
        let admission = Arc::new(Admission::new(10));
        let mut permit = Permit::none(&admission);
        assert!(permit.grow(4, 6));
        assert!(!permit.grow(1, 6));
        assert!(permit.grow(1, 5));
        assert_eq!((permit.amount(), admission.free()), (5, 5));
        assert!(!permit.grow(usize::MAX, 0));
        permit.grow_up_to(3);
        assert_eq!((permit.amount(), admission.free()), (8, 2));
        permit.grow_up_to(3);
        assert_eq!((permit.amount(), admission.free()), (10, 0));
        permit.shrink_to(11);
        assert_eq!((permit.amount(), admission.free()), (10, 0));
        permit.shrink_to(4);
        assert_eq!((permit.amount(), admission.free()), (4, 6));
        drop(permit);
        assert_eq!(admission.free(), 10);
    }

    #[test]
    fn the_log_is_told_how_many_commands_are_in_flight() {
        let admission = Arc::new(Admission::new(3));
        let events = crate::engine::JournalEvents {
            lanes: Arc::new(crate::engine::lanes::lane::Lanes::new(1)),
            admission: Arc::clone(&admission),
            feed: std::sync::Arc::new(crate::engine::feed::Feed::new([0; 16])),
            awaited: Arc::default(),
            on_fatal: None,
        };
        let permits = (0..2).map(|_| Admission::admit(&admission, 1));
        let permits: Vec<_> = permits.collect();
        assert_eq!(wal::Events::in_flight(&events), 2);
        drop(permits);
        assert_eq!(wal::Events::in_flight(&events), 0);
    }
}
