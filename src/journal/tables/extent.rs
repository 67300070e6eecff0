//! The extent of a list at some time, for readers that return to it.

/// The size of a list at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) len: u32,
    pub(super) shown_again: u64,
}

impl Extent {
    /// Returns the first number that may have been bound to a booking since then.
    pub(super) fn first_since(self, now: Self) -> u32 {
        // An item that is shown again may have any number.
        if self.shown_again == now.shown_again {
            self.len
        } else {
            0
        }
    }
}
