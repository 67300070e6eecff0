//! The token of a connection's last request. A client sends the same token again and again, and comparing it costs
//! less than hashing it and looking it up.

use std::sync::Arc;

use parking_lot::Mutex;

use super::cache::{CacheEntry, Remembered};
use crate::base::actor::Actor;

/// Maximum length of a header that is kept, in bytes: it bounds the memory of an idle connection. Longer ones are
/// looked up each time.
pub const LAST_TOKEN_BYTES_MAX: usize = 2 * 1024;

/// A verified token, under the keys of one generation.
#[derive(Debug)]
pub struct Known {
    pub(super) entry: CacheEntry,
    pub(super) generation: u64,
}

/// The `Authorization` header of a connection's last request whose token was valid.
#[derive(Default)]
pub struct LastToken(Mutex<Option<(Vec<u8>, Known)>>);

impl LastToken {
    /// Stores the header with the verified token; returns the token's actor.
    pub fn keep(&self, authorization: &[u8], known: Known) -> Arc<Actor> {
        let actor = Arc::clone(&known.entry.actor);
        if authorization.len() <= LAST_TOKEN_BYTES_MAX {
            *self.0.lock() = Some((authorization.to_vec(), known));
        }
        actor
    }

    /// Returns the actor if this is the stored header, and its token is valid at `now_ms` under the keys of this
    /// generation.
    pub(super) fn actor(
        &self,
        authorization: &[u8],
        generation: u64,
        now_ms: i64,
    ) -> Option<Arc<Actor>> {
        let last = self.0.lock();
        let (header, known) = last.as_ref()?;
        let is_good = known.generation == generation
            && is_equal(header, authorization)
            && matches!(known.entry.at(now_ms), Remembered::Good);
        is_good.then(|| Arc::clone(&known.entry.actor))
    }
}

/// Whether both are equal. The comparison takes the same time wherever they differ: a proxy's connection carries the
/// tokens of several clients, and none may learn another's from that time.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference = |all: u8, (one, other): (&u8, &u8)| all | (one ^ other);
    one.len() == other.len() && one.iter().zip(other).fold(0, difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(until_ms: i64) -> Known {
        let entry = CacheEntry {
            actor: Arc::new(Actor::nobody()),
            since_ms: 0,
            until_ms,
            ends_ms: until_ms,
            token_bytes: 9,
        };
        Known {
            entry,
            generation: 3,
        }
    }

    #[test]
    fn only_the_same_header_under_the_same_keys_in_its_time_is_the_last_one() {
        let last = LastToken::default();
        let header = b"Bearer a.token.of.some.length-that-fills-more-than-a-register".to_vec();
        assert!(last.actor(&header, 3, 0).is_none());
        last.keep(&header, known(100));
        assert!(last.actor(&header, 3, 99).is_some());
        assert!(last.actor(&header, 4, 99).is_none(), "other keys");
        assert!(last.actor(&header, 3, 100).is_none(), "too late");
        assert!(last.actor(&header, 3, -1).is_none(), "a clock set back");
        for at in 0..header.len() {
            let mut other = header.clone();
            other[at] ^= 1;
            assert!(last.actor(&other, 3, 99).is_none(), "byte {at}");
            assert!(last.actor(&header[..at], 3, 99).is_none(), "{at} bytes");
        }
        // Another token replaces the stored one; one that is too long does not.
        last.keep(b"Bearer b", known(100));
        assert!(last.actor(&header, 3, 99).is_none());
        let long = vec![b'x'; LAST_TOKEN_BYTES_MAX + 1];
        last.keep(&long, known(100));
        assert!(last.actor(&long, 3, 99).is_none());
        assert!(last.actor(b"Bearer b", 3, 99).is_some());
    }
}
