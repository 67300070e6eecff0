//! The items of a channel that are sent one after the other.

use std::collections::BTreeSet;
use std::time::Duration;

/// The items of one subject.
#[derive(Debug)]
pub(super) struct Subject<I> {
    pub(super) waiting: BTreeSet<I>,
    pub(super) on_way: Option<I>,
    /// The next item, and the end of its pause, as entered in `ready` or in `pausing`.
    pub(super) next: Option<(I, Option<Duration>)>,
}

impl<I> Default for Subject<I> {
    fn default() -> Self {
        Self {
            waiting: BTreeSet::new(),
            on_way: None,
            next: None,
        }
    }
}
