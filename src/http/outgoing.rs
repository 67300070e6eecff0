//! The bodies of reads that are on their way out. A client may take its time to read one, and while
//! a journal is silent an answer waits for it: without a bound they would take as much memory as
//! clients ask for. Answers of commands are not among them: what was done has to be told.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::admission::{Admission, Permit};

/// Bytes of such bodies that there may be at once, over all clients.
const OUTGOING_BYTES_MAX: usize = 128 << 20;
/// A body of no more bytes is not charged: the number of connections bounds those.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// What the bodies of reads share.
#[derive(Clone)]
pub struct Outgoing(Arc<Admission>);

impl Default for Outgoing {
    fn default() -> Self {
        Self(Arc::new(Admission::new(OUTGOING_BYTES_MAX)))
    }
}

impl Outgoing {
    /// A share that can grow, for a body whose length is not known before.
    pub fn share(&self) -> Permit {
        Permit::none(&self.0)
    }

    /// The body of about so many bytes that `write` makes; `None`, and it is not made, when too
    /// much is on its way.
    pub fn body(&self, bytes: usize, write: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        if bytes <= SMALL_BYTES_MAX {
            return Some(write().into());
        }
        let share = Admission::admit(&self.0, bytes)?;
        Some(charged(write(), share))
    }
}

/// A body that has its share until the last of it is sent.
pub fn charged(body: Vec<u8>, share: Permit) -> Bytes {
    Bytes::from_owner(Charged {
        body,
        _share: share,
    })
}

struct Charged {
    body: Vec<u8>,
    _share: Permit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A budget that is taken, as long as this lives.
#[cfg(test)]
pub(super) fn taken() -> (Outgoing, Permit) {
    let outgoing = Outgoing::default();
    let mut all = outgoing.share();
    assert!(all.grow(OUTGOING_BYTES_MAX, 0));
    (outgoing, all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bodies_on_their_way_have_a_bound_together_and_one_beyond_it_is_not_even_made() {
        let outgoing = Outgoing(Arc::new(Admission::new(100 << 10)));
        let body = |bytes: usize| outgoing.body(bytes, || vec![7; bytes]);
        let mut first = body(60 << 10).unwrap();
        let refused = outgoing.body(60 << 10, || panic!("it is made"));
        assert!(refused.is_none());
        // What is small is charged nothing.
        let small: Vec<_> = (0..10).map(|_| body(SMALL_BYTES_MAX).unwrap()).collect();
        assert_eq!(outgoing.0.in_flight(), 60 << 10);
        drop(small);
        // A part that is not sent yet keeps all of it.
        let rest = first.split_off((60 << 10) - 1);
        drop(first);
        assert!(body(60 << 10).is_none());
        drop(rest);
        assert!(body(60 << 10).is_some());
    }
}
