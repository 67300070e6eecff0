//! States that are decoded before they are read, so that the read does not decode them again.

use std::any::Any;

use super::{ReadView, Resource};
use crate::base::digest::Digest;

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

impl ReadView<'_> {
    /// Returns what `decode` makes of the state with this key, whatever its kind. The next read of the
    /// resource takes the decoded value, so that a large state is not decoded twice.
    pub(crate) fn decode_ahead<T>(
        &self,
        key: Digest,
        decode: impl Fn(&[u8]) -> Option<(T, Decoded)>,
    ) -> Option<T> {
        let mut found = None;
        let position = self.read_counted(key, &mut |bytes| found = decode(bytes));
        self.seen.borrow_mut().push((key, position));
        let (made, decoded) = found?;
        *self.ahead.borrow_mut() = Some((key, position, decoded));
        Some(made)
    }

    /// Keeps a resource, as this view has read it, for the next view of the same source.
    pub(crate) fn keep<R: Resource>(&self, resource: R) {
        let key = resource.key();
        let position = self.position(key);
        if position > 0 {
            let kept = Kept {
                position,
                bytes: self.decoded_bytes(),
                resource: Box::new(resource),
            };
            self.source.keep_decoded(key, kept);
        }
    }

    /// Returns how many bytes of states were decoded.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.decoded_bytes.get()
    }
}
