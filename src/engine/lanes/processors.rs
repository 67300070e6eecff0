//! Pinning lanes to processors.
//!
//! A busy lane and the log's thread share few processors. The kernel alone at times has two lanes
//! take turns of some milliseconds on one processor while another one is idle between short pieces
//! of work; pinned, each lane has its own, and the other threads run where there is time.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that the process may use.
#[derive(Clone, Debug)]
pub struct Processors {
    allowed: CpuSet,
}

impl Processors {
    /// Returns the processors of the present thread, if there is exactly one for each of `lanes` lanes: with more
    /// processors the kernel does better, with fewer there is nothing to pin to.
    #[must_use]
    pub fn one_each(lanes: usize) -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let count = usize::try_from(allowed.count()).ok()?;
        (count == lanes).then_some(Self { allowed })
    }

    /// Pins the present thread to the processor of lane number `lane`.
    pub fn bind(&self, lane: usize) {
        let mut all = (0..CpuSet::MAX_CPU).filter(|processor| self.allowed.is_set(*processor));
        let Some(own) = all.nth(lane) else {
            return;
        };
        let mut only = CpuSet::new();
        only.set(own);
        if let Err(error) = sched_setaffinity(None, &only) {
            tracing::debug!(lane, %error, "a lane is not pinned to a processor");
        }
    }

    /// Unpins the present thread, which a pinned one started: it may run anywhere again.
    pub fn unbind(&self) {
        if let Err(error) = sched_setaffinity(None, &self.allowed) {
            tracing::debug!(%error, "a thread stays pinned to a processor");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_a_processor_of_its_own_and_its_helpers_have_all() {
        let all = sched_getaffinity(None).unwrap();
        let count = usize::try_from(all.count()).unwrap();
        assert!(Processors::one_each(count + 1).is_none());
        let processors = Processors::one_each(count).unwrap();
        let mut taken = CpuSet::new();
        for lane in 0..count {
            let bound = std::thread::scope(|scope| {
                let bound = scope.spawn(|| {
                    processors.bind(lane);
                    let bound = sched_getaffinity(None).unwrap();
                    processors.unbind();
                    assert_eq!(sched_getaffinity(None).unwrap(), all);
                    bound
                });
                bound.join().unwrap()
            });
            assert_eq!(bound.count(), 1);
            let own = (0..CpuSet::MAX_CPU).find(|processor| bound.is_set(*processor));
            taken.set(own.unwrap());
        }
        assert_eq!(taken, all);
    }
}
