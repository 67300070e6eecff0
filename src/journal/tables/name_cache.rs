//! A thread's cache of the names that it has recently found states to have, and of one decoded resource, which it is
//! about to read.
//!
//! A command looks up the holder of a name several times: to find its resource, to decide, and to validate under the
//! sequencer. Checking whether a state has a name means decoding it. A version of a state, which is identified by its
//! position, always has the same names, so a thread caches its findings. A resource that was found by its name, or
//! looked up for a decision, is mostly read next. It is kept decoded, if it is not too large, until it is taken or
//! another one is kept.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::digest::Digest;
use crate::domain::decoded::Kept;
use crate::domain::index::IndexKey;

/// Number of findings that a thread caches: one for each value of the byte that selects the place.
const RECENTS: usize = 256;

/// Maximum number of bytes of a state that is kept decoded.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// A resource that is kept decoded.
struct Held {
    /// Number of the tables that contain it.
    tables: u64,
    key: Digest,
    kept: Kept,
}

thread_local! {
    /// The last resource of at most `KEPT_BYTES_MAX` that was put here and not taken since.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

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

    /// Keeps a decoded resource in place of the one before.
    pub(super) fn keep(&self, key: Digest, kept: Kept) {
        if kept.bytes <= KEPT_BYTES_MAX {
            HELD.set(Some(Held {
                tables: self.tables,
                key,
                kept,
            }));
        }
    }

    /// Takes the kept resource, if it has this key, and `is_current` says that its last commit is still the one at
    /// this position.
    pub(super) fn take(&self, key: Digest, is_current: impl FnOnce(u64) -> bool) -> Option<Kept> {
        let is_it = |held: &mut Held| held.tables == self.tables && held.key == key;
        let held = HELD.with_borrow_mut(|held| held.take_if(is_it))?;
        is_current(held.kept.position).then_some(held.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_version_is_checked_for_a_name_once_and_misses_are_not_cached() {
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

    #[test]
    fn a_resource_is_kept_until_it_is_taken_or_another_is_kept() {
        let (cache, other) = (NameCache::default(), NameCache::default());
        let key = |byte| Digest([byte; 16]);
        let keep = |byte: u8, bytes| {
            let kept = Kept {
                position: u64::from(byte),
                bytes,
                resource: Box::new(byte),
            };
            cache.keep(key(byte), kept);
        };
        let take = |byte: u8| {
            let kept = cache.take(key(byte), |position| position == u64::from(byte))?;
            kept.resource.downcast::<u8>().ok().map(|byte| *byte)
        };
        assert_eq!(take(1), None);
        keep(1, 1);
        assert_eq!(take(2), None, "it has another key");
        assert!(other.take(key(1), |_| true).is_none(), "of other tables");
        assert_eq!(take(1), Some(1));
        assert_eq!(take(1), None, "it is taken once");
        keep(1, KEPT_BYTES_MAX);
        keep(2, KEPT_BYTES_MAX + 1);
        assert_eq!(take(2), None, "it is too large");
        assert!(cache.take(key(1), |_| false).is_none(), "it has changed");
        assert_eq!(take(1), None, "what has changed is not kept");
        keep(1, 1);
        keep(2, 2);
        assert_eq!((take(1), take(2)), (None, Some(2)));
    }
}
