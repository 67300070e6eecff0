//! The cache of verified tokens, so that a request costs a hash and a look-up instead of a
//! signature.

use std::sync::Arc;

use quick_cache::Weighter;

use super::key_set::sha256;
use crate::base::actor::Actor;

/// The longest that a verified token is cached, in milliseconds.
pub const REMEMBERED_MS: i64 = 60_000;
/// How much memory cached tokens may take, as weighed by [`ByTokenBytes`].
pub(super) const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Claims take about the token's length once more as an actor, with pointers and cache slots.
pub(super) const CACHE_ENTRY_OVERHEAD_BYTES: u64 = 512;
/// A typical token; only sizes the tables of the cache.
pub(super) const TYPICAL_ENTRY_BYTES: u64 = 1024;

/// Tokens are distinguished by their digest; another generation of keys shares none of them.
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
    /// It has to be verified again.
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
    /// The key of a token under a key set of this generation.
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
