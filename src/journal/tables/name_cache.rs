//! A thread's cache of the names that it has recently found states to have.
//!
//! A command looks up the holder of a name several times: to find its resource, to decide, and to validate under the
//! sequencer. Checking whether a state has a name means decoding it. A version of a state, which is identified by its
//! position, always has the same names, so a thread caches its findings.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::digest::Digest;
use crate::domain::resource::IndexKey;

/// Number of findings that a thread caches: one for each value of the byte that selects the place.
const RECENTS: usize = 256;

/// A name that a version of a state has.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Found {
    /// Number of the tables that contain the state.
    tables: u64,
    name: IndexKey,
    key: Digest,
    position: u64,
}

/// The cache of some tables, in all threads.
pub(super) struct NameCache {
    /// Number of the tables, unique in this process.
    tables: u64,
}

impl Default for NameCache {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            tables: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl NameCache {
    /// Whether the state with this key, as of its commit at `position`, has this name; `look` determines that where
    /// it is not cached.
    pub(super) fn has(
        &self,
        name: IndexKey,
        key: Digest,
        position: u64,
        look: impl FnOnce() -> bool,
    ) -> bool {
        thread_local! {
            static RECENT: [Cell<Option<Found>>; RECENTS] = const { [const { Cell::new(None) }; RECENTS] };
        }
        let found = Found {
            tables: self.tables,
            name,
            key,
            position,
        };
        RECENT.with(|recent| {
            // Neither the shard nor the index of names uses this byte.
            let place = &recent[usize::from(name.0.0[9])];
            if place.get() == Some(found) {
                return true;
            }
            let has = look();
            if has {
                place.set(Some(found));
            }
            has
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_a_state_is_looked_at_once_and_what_it_has_not_is_not_remembered() {
        let (cache, other) = (NameCache::default(), NameCache::default());
        let name = |last| IndexKey(Digest([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, last]));
        let key = |byte| Digest([byte; 16]);
        assert!(!cache.has(name(1), key(1), 1, || false));
        assert!(cache.has(name(1), key(1), 1, || true));
        let remembered = || cache.has(name(1), key(1), 1, || false);
        assert!(remembered());
        // Other versions, states, names and tables, all at the same place of the cache.
        assert!(!cache.has(name(1), key(1), 2, || false));
        assert!(!cache.has(name(1), key(2), 1, || false));
        assert!(!cache.has(name(2), key(1), 1, || false));
        assert!(!other.has(name(1), key(1), 1, || false));
        assert!(remembered());
        assert!(cache.has(name(2), key(1), 1, || true));
        assert!(!remembered(), "its place is taken");
    }
}
