//! Connections on which the rest of a response is awaited, to be passed over.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dial::Target;

/// Limits the drains to a total number at once, of which one receiver has no more than are left to others.
pub(in crate::http) struct Drains {
    all: Arc<Semaphore>,
    /// Number of the drains of each receiver that has any.
    of: Mutex<HashMap<Target, usize>>,
}

/// The right to wait for the rest of a response, as long as it is held.
pub(in crate::http) struct Drain {
    drains: Arc<Drains>,
    target: Target,
    _permit: OwnedSemaphorePermit,
}

impl Drains {
    pub(in crate::http) fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            of: Mutex::default(),
        }
    }

    /// Begins a drain; `None` where there is none left, or this receiver has more than would be left to others.
    pub(in crate::http) fn begin(self: &Arc<Self>, target: &Target) -> Option<Drain> {
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let mut of = self.of.lock();
        let own = of.get(target).copied().unwrap_or_default();
        if own > self.all.available_permits() {
            return None;
        }
        of.insert(target.clone(), own + 1);
        drop(of);
        Some(Drain {
            drains: Arc::clone(self),
            target: target.clone(),
            _permit: permit,
        })
    }
}

impl Drain {
    /// Returns the receiver that the response is of.
    pub(in crate::http) fn target(&self) -> &Target {
        &self.target
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let mut of = self.drains.of.lock();
        if let Some(own) = of.get_mut(&self.target) {
            *own -= 1;
            if *own == 0 {
                of.remove(&self.target);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_has_no_more_drains_than_are_left_to_others() {
        let drains = Arc::new(Drains::new(8));
        let all_of = |url: &str| {
            let target = Target::of(&url.parse().unwrap()).unwrap();
            let begun = std::iter::from_fn(|| drains.begin(&target));
            begun.take(9).collect::<Vec<_>>()
        };
        let one = all_of("http://a/");
        assert_eq!(one.len(), 4);
        let other = all_of("http://b/");
        assert_eq!(other.len(), 2);
        let third = all_of("http://c/");
        assert_eq!(third.len(), 1);
        drop(one);
        assert_eq!(all_of("http://c/").len(), 2);
        drop((other, third));
        assert!(drains.of.lock().is_empty());
        assert_eq!(drains.all.available_permits(), 8);
        // A single one is for whoever comes first.
        let single = Arc::new(Drains::new(1));
        let target = Target::of(&"http://a/".parse().unwrap()).unwrap();
        let drain = single.begin(&target).unwrap();
        assert!(single.begin(&target).is_none());
        drop(drain);
        assert!(single.begin(&target).is_some());
    }
}
