//! What a list has grown to, for who comes back to it.

/// How much a list had at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) len: u32,
    pub(super) shown_again: u64,
}

impl Extent {
    /// The first number that may have been bound to a booking since then.
    pub(super) fn first_since(self, now: Self) -> u32 {
        // What is shown again has any number.
        if self.shown_again == now.shown_again {
            self.len
        } else {
            0
        }
    }
}
