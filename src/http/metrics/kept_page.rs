//! The page of metrics for times in which no space is left for large responses.

use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

/// How long one page is shared. All who read it meanwhile hold the same memory, so however many read slowly, only
/// the pages of as long as a response may take are in memory.
const SHARED_FOR: Duration = Duration::from_secs(5);

/// The last page that was shared.
#[derive(Default)]
pub(in crate::http) struct KeptPage(Mutex<Option<(Instant, Bytes)>>);

impl KeptPage {
    /// Returns the page that is shared at `now`: a recent one, or else this one.
    pub(in crate::http) fn or_recent(&self, page: Bytes, now: Instant) -> Bytes {
        let mut kept = self.0.lock();
        match &*kept {
            Some((made, recent)) if now.duration_since(*made) < SHARED_FOR => recent.clone(),
            _ => {
                *kept = Some((now, page.clone()));
                page
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_is_shared_until_it_is_five_seconds_old() {
        let kept = KeptPage::default();
        let begun = Instant::now();
        let at = |after: u64, page: &'static str| {
            let page = Bytes::from_static(page.as_bytes());
            kept.or_recent(page, begun + Duration::from_millis(after))
        };
        assert_eq!(at(0, "first"), "first");
        assert_eq!(at(4_999, "second"), "first");
        assert_eq!(at(5_000, "third"), "third");
        assert_eq!(at(5_001, "fourth"), "third");
    }
}
