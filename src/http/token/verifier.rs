//! Verifies a token and returns its actor, with keys that can be replaced at any time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use quick_cache::sync::Cache;

use hyper::header::HeaderValue;

use super::bearer::{Bearer, bearer};
use super::cache::{
    ByTokenBytes, CACHE_BYTES_MAX, CacheEntry, CacheKey, REMEMBERED_MS, Remembered,
    TYPICAL_ENTRY_BYTES,
};
use super::claims::{Expected, judge};
use super::connection_token::{Known, LastToken};
use super::fields::{Fields, Text};
use super::key_requests::{KeyRequests, Newer};
use super::key_set::{Key, KeySet};
use super::published::try_all;
use super::refusal::{KEY_ID_BYTES_MAX, TOKEN_BYTES_MAX, TokenRefusal, VerifierError};
use super::refusal_counts::RefusalCounts;
use crate::base::actor::Actor;

/// The result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The set has the keys that were in use already; the cache is kept.
    Unchanged,
    /// The set replaced the previous one, and every token is verified again.
    Replaced,
    /// The new set has no key that can verify a token: all tokens are rejected.
    Nobody,
}

/// The result of looking a token up in the cache, before its signature is checked.
#[derive(Debug)]
pub enum Recalled {
    /// The token is valid.
    Good(Known),
    /// The token was valid, and has to be verified again.
    GoodBefore,
    /// The token is rejected without checking its signature.
    Refused(TokenRefusal),
    /// The token was never seen, or was rejected. Verifying it costs `units`, where a P-256 or Ed25519 signature
    /// costs one.
    Unknown {
        /// The cost.
        units: u32,
    },
}

/// Verifies tokens against a key set that can be replaced at any time.
pub struct TokenVerifier {
    expected: Expected,
    keys: ArcSwap<KeySet>,
    next_generation: AtomicU64,
    /// When the key set was last read successfully.
    read_well_at: Mutex<Instant>,
    /// Number of failed attempts to read the key set.
    failed_readings: AtomicU64,
    /// Counts of rejected tokens.
    refused: RefusalCounts,
    /// Where newer keys are requested, if they are read on demand.
    requests: Option<Arc<KeyRequests>>,
    pub(super) verified: Cache<CacheKey, CacheEntry, ByTokenBytes>,
}

impl TokenVerifier {
    /// Creates a verifier for tokens of `issuer` that name `audience`, with the keys of a JWKS (RFC 7517).
    pub fn new(jwks: &[u8], issuer: &str, audience: &str) -> Result<Self, VerifierError> {
        Self::with_cache_bytes(jwks, issuer, audience, CACHE_BYTES_MAX)
    }

    /// Returns the verifier, with a way to request newer keys.
    #[must_use]
    pub fn asking(mut self, requests: Arc<KeyRequests>) -> Self {
        self.requests = Some(requests);
        self
    }

    /// Requests a reading of the keys for a token that names an unknown key, if keys are read on demand and a reading
    /// is due. The caller has to verify the token again in any case.
    pub async fn newer_keys(&self) -> Newer {
        match &self.requests {
            Some(requests) => requests.newer().await,
            None => Newer::Looked,
        }
    }

    /// Returns the actor of the token in the connection's last request, if `authorization` is the same and the token
    /// is still valid.
    pub fn recall_last(
        &self,
        last: &LastToken,
        authorization: &[u8],
        now_ms: i64,
    ) -> Option<Arc<Actor>> {
        last.actor(authorization, self.keys.load().generation, now_ms)
    }

    /// Returns what is known of the token without checking its signature.
    pub fn recall(&self, token: &str, now_ms: i64) -> Recalled {
        // Checked before the hash, so that a token that is too long does not cost one.
        if token.len() > TOKEN_BYTES_MAX {
            return Recalled::Refused(TokenRefusal::TooLong);
        }
        let keys = self.keys.load();
        let generation = keys.generation;
        if let Some(entry) = self.verified.get(&CacheKey::of(token, generation)) {
            return match entry.at(now_ms) {
                Remembered::Good => Recalled::Good(Known { entry, generation }),
                Remembered::Ended => Recalled::Refused(TokenRefusal::Expired),
                Remembered::Before => Recalled::GoodBefore,
            };
        }
        match Signed::read(&keys, token) {
            Ok(signed) => Recalled::Unknown {
                units: signed.key.units,
            },
            Err(refusal) => Recalled::Refused(refusal),
        }
    }

    pub(super) fn with_cache_bytes(
        jwks: &[u8],
        issuer: &str,
        audience: &str,
        cache_bytes_max: u64,
    ) -> Result<Self, VerifierError> {
        if issuer.trim().is_empty() {
            return Err(VerifierError::IssuerBlank);
        }
        if audience.trim().is_empty() {
            return Err(VerifierError::AudienceBlank);
        }
        // The back end is chosen by name, so that a second one among the features does not make the choice ambiguous.
        // An error means that it was chosen before.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        try_all()?;
        let entries = usize::try_from(cache_bytes_max / TYPICAL_ENTRY_BYTES).unwrap_or(1 << 15);
        Ok(Self {
            expected: Expected {
                issuer: issuer.into(),
                audience: audience.into(),
            },
            keys: ArcSwap::from_pointee(KeySet::parse(jwks, 0)?.of_somebody()?),
            next_generation: AtomicU64::new(1),
            read_well_at: Mutex::new(Instant::now()),
            failed_readings: AtomicU64::new(0),
            refused: RefusalCounts::default(),
            requests: None,
            verified: Cache::with_weighter(entries, cache_bytes_max, ByTokenBytes),
        })
    }

    /// Whether the token of a request that was accepted at its beginning is still valid: its expiry, and the keys.
    #[must_use]
    pub fn still_accepts(&self, authorization: Option<&HeaderValue>, now_ms: i64) -> bool {
        match bearer(authorization.map(HeaderValue::as_bytes)) {
            Bearer::Token(token) => match self.verify(token, now_ms) {
                Ok(_) => true,
                Err(refusal) => {
                    self.refused.count(refusal);
                    false
                }
            },
            Bearer::Missing | Bearer::Malformed => false,
        }
    }

    /// Returns the counts of requests without a valid token; the code that rejects a request counts it here.
    #[must_use]
    pub fn refused(&self) -> &RefusalCounts {
        &self.refused
    }

    /// Returns the token's actor, as of `now_ms` (milliseconds since 1970, UTC). The same token gives the same `Arc`
    /// as long as it is cached.
    pub fn verify(&self, token: &str, now_ms: i64) -> Result<Arc<Actor>, TokenRefusal> {
        // Checked before the hash, so that a token that is too long does not cost one.
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenRefusal::TooLong);
        }
        let keys = self.keys.load();
        let cache_key = CacheKey::of(token, keys.generation);
        if let Some(known) = self.verified.get(&cache_key) {
            match known.at(now_ms) {
                Remembered::Good => return Ok(known.actor),
                Remembered::Ended => return Err(TokenRefusal::Expired),
                Remembered::Before => {}
            }
        }
        let claims = Signed::read(&keys, token)?.claims()?;
        let (actor, ends_ms) = judge(&claims, &self.expected, now_ms)?;
        let actor = Arc::new(actor);
        let entry = CacheEntry {
            actor: Arc::clone(&actor),
            since_ms: now_ms,
            until_ms: now_ms.saturating_add(REMEMBERED_MS).min(ends_ms),
            ends_ms,
            token_bytes: u64::try_from(token.len()).unwrap_or(u64::MAX),
        };
        self.verified.insert(cache_key, entry);
        Ok(actor)
    }

    /// Replaces the key set by the one read at `now`, as a whole or not at all: after an error the previous set stays
    /// in use until it is too old ([`TokenVerifier::expire`]). A set whose keys are all unusable is an error. An
    /// empty set is valid: its provider has withdrawn all keys.
    pub fn reload(&self, jwks: &[u8], now: Instant) -> Result<Reload, VerifierError> {
        let next = KeySet::parse(jwks, self.next_generation())?;
        let next = next.of_somebody_or_empty()?;
        let mut read_well_at = self.read_well_at.lock();
        *read_well_at = now;
        if self.keys.load().same_keys(&next) {
            return Ok(Reload::Unchanged);
        }
        let reload = if next.keys.is_empty() {
            Reload::Nobody
        } else {
            Reload::Replaced
        };
        self.keys.store(Arc::new(next));
        Ok(reload)
    }

    /// Sets the time when the keys in use were read, instead of the time when this verifier was made.
    pub fn set_read_at(&self, now: Instant) {
        *self.read_well_at.lock() = now;
    }

    /// Counts a failed attempt to read the key set.
    pub fn count_failed_reading(&self) {
        self.failed_readings.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of failed attempts to read the key set.
    #[must_use]
    pub fn failed_readings(&self) -> u64 {
        self.failed_readings.load(Ordering::Relaxed)
    }

    /// Drops a key set that was last read successfully longer than `max_age` ago: every token is rejected until a set
    /// is read successfully again. Returns whether the set was dropped now.
    pub fn expire(&self, now: Instant, max_age: Duration) -> bool {
        let read_well_at = self.read_well_at.lock();
        let is_old = now.saturating_duration_since(*read_well_at) > max_age;
        if !is_old || self.keys.load().keys.is_empty() {
            return false;
        }
        self.keys
            .store(Arc::new(KeySet::of_nobody(self.next_generation())));
        true
    }

    /// Returns the time since the key set was last read successfully.
    pub fn key_set_age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.read_well_at.lock())
    }

    /// Returns the number of keys in use.
    pub fn key_count(&self) -> usize {
        self.keys.load().keys.len()
    }

    /// Returns the name and the algorithm of each key in use, sorted by name.
    pub fn key_names(&self) -> Vec<(String, &'static str)> {
        let keys = self.keys.load();
        let names = keys.keys.iter();
        let mut names: Vec<_> = names
            .map(|(name, key)| (name.to_string(), key.kind.name()))
            .collect();
        names.sort_unstable();
        names
    }

    fn next_generation(&self) -> u64 {
        self.next_generation.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a sentence for each key of the set that is not used, for the log at start and reload.
    pub fn skipped_keys(&self) -> Vec<String> {
        self.keys.load().skipped.clone()
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier")
            .field("issuer", &self.expected.issuer)
            .field("audience", &self.expected.audience)
            .field("generation", &self.keys.load().generation)
            .finish_non_exhaustive()
    }
}

/// The parts of a token with a valid header; the signature is not checked yet.
struct Signed<'t, 'k> {
    /// The key that the token names.
    key: &'k Key,
    message: &'t str,
    claims: &'t str,
    signature: &'t str,
}

impl<'t, 'k> Signed<'t, 'k> {
    fn read(keys: &'k KeySet, token: &'t str) -> Result<Self, TokenRefusal> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenRefusal::NotCompact)?;
        let (header, claims) = message.split_once('.').ok_or(TokenRefusal::NotCompact)?;
        if claims.contains('.') {
            return Err(TokenRefusal::NotCompact);
        }
        let header = decoded(header)?;
        let header = Fields::read(&header).ok_or(TokenRefusal::HeaderMalformed)?;
        if header.raw("crit").is_some() {
            return Err(TokenRefusal::CriticalHeader);
        }
        let kid = header.raw("kid").ok_or(TokenRefusal::KeyIdMissing)?;
        let kid = serde_json::from_str::<Text>(kid).map_err(|_| TokenRefusal::HeaderMalformed)?;
        if kid.0.is_empty() || kid.0.len() > KEY_ID_BYTES_MAX {
            return Err(TokenRefusal::KeyIdUnfit);
        }
        let algorithm = header.raw("alg").ok_or(TokenRefusal::HeaderMalformed)?;
        let algorithm =
            serde_json::from_str::<Text>(algorithm).map_err(|_| TokenRefusal::HeaderMalformed)?;
        let key = keys.keys.get(&*kid.0).ok_or(TokenRefusal::KeyUnknown)?;
        if algorithm.0 != key.kind.name() {
            return Err(TokenRefusal::AlgorithmMismatch);
        }
        Ok(Self {
            key,
            message,
            claims,
            signature,
        })
    }

    /// Returns the decoded claims, if the signature is valid.
    fn claims(&self) -> Result<Vec<u8>, TokenRefusal> {
        if !self.key.signed(self.message, self.signature) {
            return Err(TokenRefusal::SignatureInvalid);
        }
        decoded(self.claims)
    }
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenRefusal> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenRefusal::NotCompact)
}
