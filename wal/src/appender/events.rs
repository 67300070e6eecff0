//! The callbacks of the journal thread.

use crate::error::Error;

/// The callbacks of the journal thread; called on that thread, which does
/// nothing else in the meantime.
pub trait Events: Send {
    /// Every record up to this position will survive a power cut. Positions rise.
    fn durable(&mut self, position: u64);

    /// The log has failed and nothing more becomes durable. Called once at most, as the last call. Records that were
    /// appended and not reported durable may exist after a restart or not.
    fn failed(&mut self, error: &Error);

    /// Returns how many callers are in flight: they wait for what they have appended, or may append
    /// soon. From this the journal thread knows when waiting for more records does not pay. 0, the
    /// default, when the number is not known.
    fn in_flight(&self) -> usize {
        0
    }
}
