//! States that are decoded before they are read, so that the read does not decode them again.

use std::any::Any;

/// A resource of any kind, decoded from its state.
pub type Decoded = Box<dyn Any>;

/// A resource whose state was decoded before it is read.
pub struct Kept {
    /// The position of the resource's last commit then.
    pub position: u64,
    /// Number of bytes that were decoded, at most.
    pub bytes: usize,
    /// The resource.
    pub resource: Decoded,
}
