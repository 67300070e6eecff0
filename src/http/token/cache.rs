//! The cache of verified tokens. With it a request costs a hash and a look-up instead of a signature's verification.

use std::sync::Arc;

use quick_cache::Weighter;

use super::key_set::sha256;
use crate::base::actor::Actor;

/// Maximum time that a verified token is cached, in milliseconds.
pub const REMEMBERED_MS: i64 = 60_000;
/// Maximum memory of cached tokens in bytes, as weighed by [`ByTokenBytes`].
pub(super) const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Overhead of an entry in bytes, for pointers and cache slots. The actor takes about the token's length in addition.
pub(super) const CACHE_ENTRY_OVERHEAD_BYTES: u64 = 512;
/// Size of a typical entry in bytes; only determines the initial size of the cache's tables.
pub(super) const TYPICAL_ENTRY_BYTES: u64 = 1024;

/// Identifies a token by its digest. Different generations of keys share no entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    pub(super) digest: [u8; 32],
    pub(super) generation: u64,
}

#[derive(Clone, Debug)]
pub(super) struct CacheEntry {
    pub(super) actor: Arc<Actor>,
    pub(super) since_ms: i64,
    pub(super) until_ms: i64,
    /// When the token expires, leeway included.
    pub(super) ends_ms: i64,
    pub(super) token_bytes: u64,
}

/// The state of an entry at some time.
pub(super) enum Remembered {
    Good,
    /// The token has expired.
    Ended,
    /// The token has to be verified again.
    Before,
}

impl CacheEntry {
    pub(super) fn at(&self, now_ms: i64) -> Remembered {
        if now_ms >= self.ends_ms {
            Remembered::Ended
        } else if (self.since_ms..self.until_ms).contains(&now_ms) {
            Remembered::Good
        } else {
            // A clock that was set back must not extend an entry's life.
            Remembered::Before
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct ByTokenBytes;

impl CacheKey {
    /// Returns the key of a token under a key set of this generation.
    pub(super) fn of(token: &str, generation: u64) -> Self {
        Self {
            digest: sha256(token.as_bytes()),
            generation,
        }
    }
}

impl Weighter<CacheKey, CacheEntry> for ByTokenBytes {
    fn weight(&self, _: &CacheKey, entry: &CacheEntry) -> u64 {
        CACHE_ENTRY_OVERHEAD_BYTES + entry.token_bytes
    }
}
