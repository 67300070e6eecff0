//! Tokens: from the `Authorization` header to the [`Actor`] that a request speaks for.
//!
//! A token is a JWT in JWS compact form, signed by the identity provider. What is trusted, and in
//! which order it is looked at:
//!
//! 1. The length, the three parts, the header as strict JSON without repeated members.
//! 2. The key: picked by `kid`, which is a map key and nothing else. The key's type fixes the
//!    algorithm (RFC 8725 3.1); the token's `alg` must say the same. `jku`, `jwk`, `x5u` and
//!    `x5c` are not looked at; `crit` is refused, as no extension is understood.
//! 3. The signature.
//! 4. The claims, as strict JSON without repeated members. A claim of the wrong JSON type is a
//!    refusal, never an absence: reading `"exp": "soon"` as "no expiry" would be a hole.
//!
//! What was verified is remembered for at most [`REMEMBERED_MS`], under the SHA-256 of the whole
//! token and the generation of the key set, so that a request costs a hash and a look-up instead
//! of a signature. Refusals are not remembered. The time of tokens is handed in; how old the key set is
//! goes by a stopwatch.
//!
//! The signature of a token that was never good may be a forger's work, and costs us more than it
//! does them: [`TokenVerifier::recall`] tells such a token from others before it is verified, and
//! `forgeries` makes it wait where too many were bad.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::base::actor::{Actor, ActorKind};

/// The longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The largest key set (JWKS), in bytes.
pub const KEY_SET_BYTES_MAX: usize = 64 * 1024;
/// The most keys in a key set.
pub const KEY_SET_KEYS_MAX: usize = 32;
/// The longest key id, in bytes, in a key set and in a token.
pub const KEY_ID_BYTES_MAX: usize = 256;
/// How far the clocks of the identity provider and ours may be apart, in milliseconds.
pub const LEEWAY_MS: i64 = 30_000;
/// The longest that a verified token is remembered, in milliseconds.
pub const REMEMBERED_MS: i64 = 60_000;
/// The longest identifier in a claim, in characters.
pub const IDENTIFIER_CHARS_MAX: usize = 512;

/// RSA moduli: shorter ones are too weak, longer ones cost too much.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;
/// What the remembered tokens may take of memory, as weighed by [`ByTokenBytes`].
const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Claims take about the token's length once more as an actor, with pointers and cache slots.
const CACHE_ENTRY_OVERHEAD_BYTES: u64 = 512;
/// A typical token; only sizes the tables of the cache.
const TYPICAL_ENTRY_BYTES: u64 = 1024;
/// 9999-12-31T23:59:59Z. A later date is a mistake, such as milliseconds for seconds.
const NUMERIC_DATE_MAX_SECONDS: Duration = Duration::from_secs(253_402_300_799);

/// `WWW-Authenticate` of a 401 (RFC 6750 section 3): an error is named only when a token was sent.
pub const fn challenge(token_was_sent: bool) -> &'static str {
    if token_was_sent {
        r#"Bearer error="invalid_token""#
    } else {
        "Bearer"
    }
}

/// What the `Authorization` headers of a request hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bearer<'a> {
    /// No header, another scheme, or the bare word `Bearer`: no token was sent.
    Missing,
    /// Something was sent that is not one bearer token.
    Malformed,
    /// One token, of the characters that a token may have; not yet verified.
    Token(&'a str),
}

impl fmt::Debug for Bearer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Missing",
            Self::Malformed => "Malformed",
            Self::Token(_) => "Token([redacted])",
        })
    }
}

/// The characters of a token68 without its padding (RFC 9110 11.2).
static TOKEN68: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// Reads the values of all `Authorization` headers of a request (RFC 6750 section 2.1). The scheme
/// is matched without regard to case; two headers are malformed, as nothing says which one counts.
pub fn bearer<'a>(header_values: impl IntoIterator<Item = &'a [u8]>) -> Bearer<'a> {
    let mut values = header_values.into_iter();
    let Some(value) = values.next() else {
        return Bearer::Missing;
    };
    if values.next().is_some() {
        return Bearer::Malformed;
    }
    let Ok(value) = std::str::from_utf8(value) else {
        return Bearer::Malformed;
    };
    let value = value.trim_matches([' ', '\t']);
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Bearer::Missing;
    }
    let token = token.trim_start_matches(' ');
    if token.is_empty() {
        return Bearer::Missing;
    }
    let unpadded = token.trim_end_matches('=');
    let is_token68 =
        !unpadded.is_empty() && unpadded.bytes().all(|byte| TOKEN68[usize::from(byte)]);
    if is_token68 {
        Bearer::Token(token)
    } else {
        Bearer::Malformed
    }
}

/// Why a token is refused. Every one of them is a 401; the difference is for logs and counters.
/// None carries any part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenRefusal {
    /// More than [`TOKEN_BYTES_MAX`].
    TooLong,
    /// Not three parts, or not base64url without padding.
    NotCompact,
    /// The header is no JSON object, repeats a member, or `alg` or `kid` is no string.
    HeaderMalformed,
    /// The header has `crit`: it demands what is not understood here.
    CriticalHeader,
    /// The header has no `kid`.
    KeyIdMissing,
    /// The `kid` is empty or longer than [`KEY_ID_BYTES_MAX`].
    KeyIdUnfit,
    /// No key of that id in the set. Fetching the set again may help.
    KeyUnknown,
    /// The `alg` is not that of the key's type.
    AlgorithmMismatch,
    /// The key did not sign this.
    SignatureInvalid,
    /// The claims are no JSON object or repeat a member.
    ClaimsMalformed,
    /// A required claim is absent.
    ClaimMissing(&'static str),
    /// A claim has the wrong JSON type, is blank, too long or out of range.
    ClaimInvalid(&'static str),
    /// The `iss` is another one.
    IssuerMismatch,
    /// The `aud` does not hold ours.
    AudienceMismatch,
    /// The `exp` has passed.
    Expired,
    /// The `nbf` is ahead.
    NotYetValid,
    /// The `iat` is ahead.
    IssuedInFuture,
    /// The `actor_kind` is none of the seven.
    ActorKindUnknown,
}

impl TokenRefusal {
    /// One word for counters, from a small fixed set.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NotCompact => "not_compact",
            Self::HeaderMalformed => "header_malformed",
            Self::CriticalHeader => "critical_header",
            Self::KeyIdMissing => "key_id_missing",
            Self::KeyIdUnfit => "key_id_unfit",
            Self::KeyUnknown => "key_unknown",
            Self::AlgorithmMismatch => "algorithm_mismatch",
            Self::SignatureInvalid => "signature_invalid",
            Self::ClaimsMalformed => "claims_malformed",
            Self::ClaimMissing(_) => "claim_missing",
            Self::ClaimInvalid(_) => "claim_invalid",
            Self::IssuerMismatch => "issuer_mismatch",
            Self::AudienceMismatch => "audience_mismatch",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::IssuedInFuture => "issued_in_future",
            Self::ActorKindUnknown => "actor_kind_unknown",
        }
    }
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Self::TooLong => {
                return write!(f, "the token has more than {TOKEN_BYTES_MAX} bytes");
            }
            Self::KeyIdUnfit => {
                return write!(
                    f,
                    "the token's kid is empty or longer than {KEY_ID_BYTES_MAX} bytes"
                );
            }
            Self::ClaimMissing(claim) => return write!(f, "the token has no claim {claim}"),
            Self::ClaimInvalid(claim) => {
                return write!(
                    f,
                    "the token's claim {claim} has a wrong type, is blank, too long or out of range"
                );
            }
            Self::ActorKindUnknown => {
                return write!(f, "in the token, {}", crate::base::actor::UnknownActorKind);
            }
            Self::NotCompact => "the token is not a JWS in compact form",
            Self::HeaderMalformed => "the token's header is malformed",
            Self::CriticalHeader => "the token's header demands an extension (crit)",
            Self::KeyIdMissing => "the token's header has no kid, so no key can be picked",
            Self::KeyUnknown => "the token's kid is not in the key set",
            Self::AlgorithmMismatch => "the token's alg is not that of the key it names",
            Self::SignatureInvalid => "the token's signature is not by the key it names",
            Self::ClaimsMalformed => "the token's claims are malformed",
            Self::IssuerMismatch => "the token is by another issuer",
            Self::AudienceMismatch => "the token is for another audience",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::IssuedInFuture => "the token was issued in the future",
        };
        f.write_str(sentence)
    }
}

impl std::error::Error for TokenRefusal {}

/// Why a verifier cannot be built, or a key set cannot be taken. The caller adds the name of the
/// file that the key set came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifierError {
    /// The expected issuer is blank.
    IssuerBlank,
    /// The expected audience is blank.
    AudienceBlank,
    /// The cryptography does not do what it must: the algorithm that failed.
    SelfTestFailed(&'static str),
    /// The key set as a whole is unfit: what is wrong, and what to do.
    KeySet(String),
    /// One key is unfit.
    Key {
        /// Its place in `keys`, from 0.
        index: usize,
        /// What is wrong, and what to do.
        fault: String,
    },
}

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IssuerBlank => f.write_str(
                "the expected token issuer is blank; name the identity provider as its tokens do in `iss`",
            ),
            Self::AudienceBlank => f.write_str(
                "the expected token audience is blank; name this service as the tokens do in `aud`",
            ),
            Self::SelfTestFailed(algorithm) => write!(
                f,
                "the self-test of {algorithm} signatures failed; this build must not be used"
            ),
            Self::KeySet(fault) => write!(f, "the key set (JWKS) {fault}"),
            Self::Key { index, fault } => write!(f, "the key set (JWKS), keys[{index}]: {fault}"),
        }
    }
}

impl std::error::Error for VerifierError {}

/// What a reload did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The set has the keys that were in use already; nothing was forgotten.
    Unchanged,
    /// The set replaced the one before, and every token is verified anew.
    Replaced,
    /// The set that replaced the one before has no key that can verify a token: all are refused.
    Nobody,
}

/// What is known of a token before its signature is looked at.
#[derive(Debug)]
pub enum Recalled {
    /// It is good.
    Good(Arc<Actor>),
    /// It was good, and is to be verified again.
    GoodBefore,
    /// It is refused, whoever signed it.
    Refused(TokenRefusal),
    /// It was never seen, or was refused: verifying it costs so many units, of which a signature
    /// by P-256 or Ed25519 costs one.
    Unknown {
        /// The cost.
        units: u32,
    },
}

/// Verifies tokens against a key set that can be replaced at any time.
pub struct TokenVerifier {
    issuer: Box<str>,
    audience: Box<str>,
    keys: ArcSwap<KeySet>,
    next_generation: AtomicU64,
    /// When the key set was last read well.
    read_well_at: Mutex<Instant>,
    verified: Cache<CacheKey, CacheEntry, ByTokenBytes>,
}

impl TokenVerifier {
    /// A verifier for tokens of `issuer` that name `audience`, by the keys of a JWKS (RFC 7517).
    /// Proves on known signatures that each algorithm tells right from wrong before it returns.
    pub fn new(jwks: &[u8], issuer: &str, audience: &str) -> Result<Self, VerifierError> {
        Self::with_cache_bytes(jwks, issuer, audience, CACHE_BYTES_MAX)
    }

    /// What is known of the token without looking at its signature.
    pub fn recall(&self, token: &str, now_ms: i64) -> Recalled {
        // Before the hash: what is too long must not cost one.
        if token.len() > TOKEN_BYTES_MAX {
            return Recalled::Refused(TokenRefusal::TooLong);
        }
        let keys = self.keys.load();
        if let Some(known) = self.verified.get(&keys.cache_key(token)) {
            return match known.at(now_ms) {
                Remembered::Good => Recalled::Good(known.actor),
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

    fn with_cache_bytes(
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
        // Chosen by name, so that a second back end among the features cannot leave it open. An
        // error says that it was chosen before; the self-test judges whatever is in place.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        self_test(&by_the_back_end)?;
        let entries = usize::try_from(cache_bytes_max / TYPICAL_ENTRY_BYTES).unwrap_or(1 << 15);
        Ok(Self {
            issuer: issuer.into(),
            audience: audience.into(),
            keys: ArcSwap::from_pointee(KeySet::parse(jwks, 0)?.of_somebody()?),
            next_generation: AtomicU64::new(1),
            read_well_at: Mutex::new(Instant::now()),
            verified: Cache::with_weighter(entries, cache_bytes_max, ByTokenBytes),
        })
    }

    /// Who the token speaks for, at `now_ms` (milliseconds since 1970, UTC). The same token gives
    /// the same `Arc` as long as it is remembered.
    pub fn verify(&self, token: &str, now_ms: i64) -> Result<Arc<Actor>, TokenRefusal> {
        // Before the hash: what is too long must not cost one.
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenRefusal::TooLong);
        }
        let keys = self.keys.load();
        let cache_key = keys.cache_key(token);
        if let Some(known) = self.verified.get(&cache_key) {
            match known.at(now_ms) {
                Remembered::Good => return Ok(known.actor),
                Remembered::Ended => return Err(TokenRefusal::Expired),
                Remembered::Before => {}
            }
        }
        let claims = Signed::read(&keys, token)?.claims()?;
        let (actor, ends_ms) = self.judge(&claims, now_ms)?;
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

    /// Takes another key set, read at `now`, whole or not at all: after an error the set before
    /// stays in use, until it is too old ([`TokenVerifier::expire`]). A set without a key that can
    /// verify a token is a set all the same: its provider trusts nobody any more.
    pub fn reload(&self, jwks: &[u8], now: Instant) -> Result<Reload, VerifierError> {
        let next = KeySet::parse(jwks, self.next_generation())?;
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

    /// Lets go of a key set that was last read well longer than `max_age` ago: from here on every
    /// token is refused, until a set is read well again. Whether it was let go of now.
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

    /// How long ago the key set was last read well.
    pub fn key_set_age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.read_well_at.lock())
    }

    /// How many keys are in use.
    pub fn key_count(&self) -> usize {
        self.keys.load().keys.len()
    }

    fn next_generation(&self) -> u64 {
        self.next_generation.fetch_add(1, Ordering::Relaxed)
    }

    /// One sentence for each key of the set that is not used, for the log at start and reload.
    pub fn skipped_keys(&self) -> Vec<String> {
        self.keys.load().skipped.clone()
    }

    /// Judges claims that are known to be the provider's: the actor, and when the token ends
    /// (leeway included).
    fn judge(&self, claims: &[u8], now_ms: i64) -> Result<(Actor, i64), TokenRefusal> {
        let claims = Members::read(claims).ok_or(TokenRefusal::ClaimsMalformed)?;

        let issuer = claims.required::<Text>("iss")?;
        if *issuer.0 != *self.issuer {
            return Err(TokenRefusal::IssuerMismatch);
        }
        let audience = claims.required::<Audience>("aud")?;
        if !audience.holds(&self.audience) {
            return Err(TokenRefusal::AudienceMismatch);
        }
        let ends_ms = claims
            .required::<NumericDate>("exp")?
            .0
            .saturating_add(LEEWAY_MS);
        if now_ms >= ends_ms {
            return Err(TokenRefusal::Expired);
        }
        let latest_ms = now_ms.saturating_add(LEEWAY_MS);
        if let Some(NumericDate(not_before_ms)) = claims.present("nbf")?
            && latest_ms < not_before_ms
        {
            return Err(TokenRefusal::NotYetValid);
        }
        if let Some(NumericDate(issued_ms)) = claims.present("iat")?
            && latest_ms < issued_ms
        {
            return Err(TokenRefusal::IssuedInFuture);
        }

        let subject = claims.required::<Identifier>("sub")?.0;
        let kind = claims.required::<Text>("actor_kind")?;
        let kind = kind
            .0
            .parse::<ActorKind>()
            .map_err(|_| TokenRefusal::ActorKindUnknown)?;
        let identifiers = |list: Option<Vec<Identifier>>| {
            list.unwrap_or_default()
                .into_iter()
                .map(|id| id.0)
                .collect()
        };
        let actor = Actor {
            subject,
            kind,
            member_id: claims.optional("member_id")?.map(|Identifier(id)| id),
            actor_profile_id: claims
                .optional("actor_profile_id")?
                .map(|Identifier(id)| id),
            branch_profile_ids: identifiers(claims.optional("branch_profile_ids")?),
            permissions: identifiers(claims.optional("permissions")?),
            email: claims.optional("email")?.map(|Identifier(email)| email),
            email_verified: claims.optional("email_verified")?.unwrap_or(false),
        };
        Ok((actor, ends_ms))
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier")
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("generation", &self.keys.load().generation)
            .finish_non_exhaustive()
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    digest
}

/// A token in its parts, whose header is in order; nothing is known of its signature yet.
struct Signed<'t, 'k> {
    /// The key that it names.
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
        let header = Members::read(&header).ok_or(TokenRefusal::HeaderMalformed)?;
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

    /// The decoded claims, when the signature holds.
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

// ---- What was verified before ----

/// Whole tokens are told apart by their digest; another generation of keys knows none of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    digest: [u8; 32],
    generation: u64,
}

#[derive(Clone)]
struct CacheEntry {
    actor: Arc<Actor>,
    since_ms: i64,
    until_ms: i64,
    /// When the token ends, leeway included.
    ends_ms: i64,
    token_bytes: u64,
}

/// What an entry is worth at some time.
enum Remembered {
    Good,
    /// The token has ended.
    Ended,
    /// It is to be verified again.
    Before,
}

impl CacheEntry {
    fn at(&self, now_ms: i64) -> Remembered {
        if now_ms >= self.ends_ms {
            Remembered::Ended
        } else if (self.since_ms..self.until_ms).contains(&now_ms) {
            Remembered::Good
        } else {
            // A clock that was set back must not stretch an entry's life.
            Remembered::Before
        }
    }
}

#[derive(Clone, Copy)]
struct ByTokenBytes;

impl Weighter<CacheKey, CacheEntry> for ByTokenBytes {
    fn weight(&self, _: &CacheKey, entry: &CacheEntry) -> u64 {
        CACHE_ENTRY_OVERHEAD_BYTES + entry.token_bytes
    }
}

// ---- Reading header and claims ----

/// The members of a JSON object by name; an object that repeats a name is not read at all.
struct Members<'a>(HashMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Members<'a> {
    fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The JSON text of a member.
    fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get())
    }

    /// A member that must be there.
    fn required<T: Deserialize<'a>>(&self, name: &'static str) -> Result<T, TokenRefusal> {
        self.present(name)?.ok_or(TokenRefusal::ClaimMissing(name))
    }

    /// A member that is checked when it is there.
    fn present<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, TokenRefusal> {
        self.raw(name)
            .map(|json| serde_json::from_str(json).map_err(|_| TokenRefusal::ClaimInvalid(name)))
            .transpose()
    }

    /// A member that may be left out. Null is the same as leaving it out, as it is in bodies:
    /// providers write it for an attribute that a user does not have, and it grants nothing.
    fn optional<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, TokenRefusal> {
        Ok(self.present::<Option<T>>(name)?.flatten())
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = HashMap::new();
                while let Some(Text(name)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    if members.insert(name, value).is_some() {
                        return Err(serde::de::Error::custom("a member is repeated"));
                    }
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A JSON string, borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A string of 1 to [`IDENTIFIER_CHARS_MAX`] characters that is not blank.
struct Identifier(Box<str>);

impl<'de> Deserialize<'de> for Identifier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        // Bytes first: they bound the work of counting.
        let fits = text.len() <= 4 * IDENTIFIER_CHARS_MAX
            && text.chars().count() <= IDENTIFIER_CHARS_MAX
            && !text.trim().is_empty();
        if !fits {
            return Err(serde::de::Error::custom("not an identifier"));
        }
        Ok(Self(text.into()))
    }
}

/// A NumericDate (RFC 7519 section 2) in milliseconds: seconds since 1970, fractions allowed.
struct NumericDate(i64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|date| *date <= NUMERIC_DATE_MAX_SECONDS)
            .and_then(|date| i64::try_from(date.as_millis()).ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not a date in seconds"))
    }
}

/// The `aud` claim: one name or an array of them (RFC 7519 section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn holds(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}

// ---- The key set ----

/// The keys that may sign, by their id.
struct KeySet {
    generation: u64,
    keys: HashMap<Box<str>, Key>,
    skipped: Vec<String>,
}

/// A kind of key, which is to say an algorithm: one stands for the other throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    P256,
    Ed25519,
    Rsa,
}

impl KeyKind {
    /// The `alg` of tokens by such a key (RFC 7518 section 3.1, RFC 8037 section 3.1).
    const fn name(self) -> &'static str {
        match self {
            Self::P256 => "ES256",
            Self::Ed25519 => "EdDSA",
            Self::Rsa => "RS256",
        }
    }

    const fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::ES256,
            Self::Ed25519 => Algorithm::EdDSA,
            Self::Rsa => Algorithm::RS256,
        }
    }

    /// Whether keys of this type are used with `alg` anywhere: such a key is in order but for
    /// other purposes than ours. Any other `alg` contradicts the type.
    fn is_used_with(self, alg: &str) -> bool {
        match self {
            Self::P256 => alg.starts_with("ES") || alg.starts_with("ECDH-"),
            Self::Ed25519 => alg == "EdDSA" || alg == "Ed25519",
            Self::Rsa => ["RS", "PS"].iter().any(|family| alg.starts_with(family)),
        }
    }
}

struct Key {
    kind: KeyKind,
    decoding: DecodingKey,
    /// What a signature costs to verify, as [`Recalled::Unknown`] counts it.
    units: u32,
    /// Tells two keys apart: SHA-256 of the public part.
    fingerprint: [u8; 32],
}

impl Key {
    /// Whether this key signed the message. Whatever goes wrong inside is a no.
    fn signed(&self, message: &str, signature: &str) -> bool {
        by_the_back_end(self, message, signature)
    }
}

/// Whether the key signed the message, as the cryptographic back end says.
fn by_the_back_end(key: &Key, message: &str, signature: &str) -> bool {
    matches!(
        jsonwebtoken::crypto::verify(
            signature,
            message.as_bytes(),
            &key.decoding,
            key.kind.algorithm(),
        ),
        Ok(true)
    )
}

/// A JWK as far as it is looked at (RFC 7517 section 4); a repeated member is a fault of it.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    d: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Jwks<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

/// What becomes of one key of a set.
enum Verdict {
    Used(Box<str>, Key),
    /// In order, but not ours: RFC 7517 section 5 has sets hold such keys.
    Skipped(String),
}

impl KeySet {
    fn parse(jwks: &[u8], generation: u64) -> Result<Self, VerifierError> {
        if jwks.len() > KEY_SET_BYTES_MAX {
            return Err(VerifierError::KeySet(format!(
                "has more than {KEY_SET_BYTES_MAX} bytes, the most that are read"
            )));
        }
        // The parser's own words may quote the input, which could be a private key by mistake.
        let set: Jwks = serde_json::from_slice(jwks).map_err(|error| {
            VerifierError::KeySet(format!(
                "is not a JSON object with an array `keys` (line {}, column {}); give the provider's JWKS document as it is published",
                error.line(),
                error.column()
            ))
        })?;
        if set.keys.len() > KEY_SET_KEYS_MAX {
            return Err(VerifierError::KeySet(format!(
                "has {} keys; at most {KEY_SET_KEYS_MAX} are taken, so remove those that are no longer in use",
                set.keys.len()
            )));
        }
        let mut keys = HashMap::new();
        let mut skipped = Vec::new();
        for (index, json) in set.keys.iter().enumerate() {
            let refuse = |fault: String| VerifierError::Key { index, fault };
            match judge_key(json.get()).map_err(refuse)? {
                Verdict::Skipped(why) => skipped.push(format!("keys[{index}] is not used: {why}")),
                Verdict::Used(kid, key) => {
                    if keys.contains_key(&kid) {
                        return Err(refuse(format!(
                            "its kid {kid:?} is that of an earlier key; each key needs its own"
                        )));
                    }
                    keys.insert(kid, key);
                }
            }
        }
        Ok(Self {
            generation,
            keys,
            skipped,
        })
    }

    /// The set, when it has a key that can verify a token: without one, no start makes sense.
    fn of_somebody(self) -> Result<Self, VerifierError> {
        if !self.keys.is_empty() {
            return Ok(self);
        }
        let mut fault = String::from("holds no key that can verify a token");
        for why in &self.skipped {
            fault.push_str("; ");
            fault.push_str(why);
        }
        fault.push_str("; it needs a P-256, Ed25519 or RSA signing key with a kid");
        Err(VerifierError::KeySet(fault))
    }

    /// A set by which every token is refused.
    fn of_nobody(generation: u64) -> Self {
        Self {
            generation,
            keys: HashMap::new(),
            skipped: Vec::new(),
        }
    }

    fn cache_key(&self, token: &str) -> CacheKey {
        CacheKey {
            digest: sha256(token.as_bytes()),
            generation: self.generation,
        }
    }

    fn same_keys(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len()
            && self.keys.iter().all(|(kid, key)| {
                other.keys.get(kid).is_some_and(|known| {
                    known.kind == key.kind && known.fingerprint == key.fingerprint
                })
            })
    }
}

/// Judges one key: used, skipped with a reason, or a fault that refuses the whole set.
fn judge_key(json: &str) -> Result<Verdict, String> {
    let jwk: Jwk = serde_json::from_str(json).map_err(|error| {
        format!(
            "is not a JWK: a member is repeated, has a wrong type, or kty is missing (column {} of it)",
            error.column()
        )
    })?;
    let skip = |why: String| Ok(Verdict::Skipped(why));
    if jwk.kty == "oct" {
        return Err(
            "is a symmetric key (kty oct); whoever can read it can forge tokens, so remove it, and sign with ES256, EdDSA or RS256"
                .into(),
        );
    }
    if jwk.d.is_some() {
        return Err(
            "holds a private key (member d); publish the public part only, and replace the key if others could read it"
                .into(),
        );
    }
    if let Some(usage) = &jwk.usage
        && usage != "sig"
    {
        return skip("its use is not sig".into());
    }
    if let Some(operations) = &jwk.key_ops
        && !operations.iter().any(|operation| operation == "verify")
    {
        return skip("its key_ops do not name verify".into());
    }
    let kind = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("EC", Some("P-256")) => KeyKind::P256,
        ("OKP", Some("Ed25519")) => KeyKind::Ed25519,
        ("RSA", _) => KeyKind::Rsa,
        ("EC" | "OKP", Some(_)) => return skip("its curve is neither P-256 nor Ed25519".into()),
        ("EC" | "OKP", None) => return Err("has no crv; a key on a curve must name it".into()),
        _ => return skip("its kty is none of EC, OKP and RSA".into()),
    };
    if let Some(alg) = &jwk.alg
        && alg != kind.name()
    {
        if kind.is_used_with(alg) {
            return skip(format!(
                "its alg is not {}, the one for its type",
                kind.name()
            ));
        }
        return Err(format!(
            "its alg contradicts its type; a key of this type has alg {} or none",
            kind.name()
        ));
    }
    let Some(kid) = jwk.kid.as_deref() else {
        return skip("it has no kid, so no token can name it".into());
    };
    if kid.is_empty() || kid.len() > KEY_ID_BYTES_MAX {
        return Err(format!(
            "its kid is empty or longer than {KEY_ID_BYTES_MAX} bytes"
        ));
    }
    let key = match kind {
        KeyKind::P256 => p256_key(&jwk)?,
        KeyKind::Ed25519 => ed25519_key(&jwk)?,
        KeyKind::Rsa => rsa_key(&jwk)?,
    };
    Ok(Verdict::Used(kid.into(), key))
}

/// Decodes a member in base64url.
fn bytes(member: Option<&str>, name: &str) -> Result<Vec<u8>, String> {
    let text = member.ok_or_else(|| format!("has no {name}"))?;
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| format!("its {name} is not base64url without padding"))
}

/// Decodes a coordinate, which has exactly 32 bytes on both curves.
fn coordinate(member: Option<&str>, name: &str) -> Result<Vec<u8>, String> {
    let bytes = bytes(member, name)?;
    if bytes.len() == 32 {
        Ok(bytes)
    } else {
        Err(format!(
            "its {name} has {} bytes instead of 32",
            bytes.len()
        ))
    }
}

fn p256_key(jwk: &Jwk) -> Result<Key, String> {
    let point = [
        vec![4],
        coordinate(jwk.x.as_deref(), "x")?,
        coordinate(jwk.y.as_deref(), "y")?,
    ]
    .concat();
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point)
        .map_err(|_| "its x and y are not a point of P-256")?;
    Ok(Key {
        kind: KeyKind::P256,
        decoding: DecodingKey::from_ec_der(&point),
        units: 1,
        fingerprint: sha256(&point),
    })
}

fn ed25519_key(jwk: &Jwk) -> Result<Key, String> {
    let point = coordinate(jwk.x.as_deref(), "x")?;
    ParsedPublicKey::new(&ED25519, &point).map_err(|_| "its x is not a point of Ed25519")?;
    Ok(Key {
        kind: KeyKind::Ed25519,
        decoding: DecodingKey::from_ed_der(&point),
        units: 1,
        fingerprint: sha256(&point),
    })
}

fn rsa_key(jwk: &Jwk) -> Result<Key, String> {
    let n = bytes(jwk.n.as_deref(), "n")?;
    let e = bytes(jwk.e.as_deref(), "e")?;
    // Some writers put a zero byte in front; the number is the same.
    let n = significant(&n);
    let e = significant(&e);
    let unused_bits = n.first().map_or(0, |first| first.leading_zeros());
    let bits = n.len() * 8 - usize::try_from(unused_bits).unwrap_or(0);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(format!(
            "its modulus has {bits} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} are taken"
        ));
    }
    // With the exponent 1 a message is its own signature; an even one signs nothing.
    let exponent_fits = e.len() <= 4 && e != [1] && e.last().is_some_and(|last| last % 2 == 1);
    if !exponent_fits {
        return Err("its exponent is not an odd number from 3 to 32 bits; 65537 is usual".into());
    }
    RsaPublicKeyComponents { n, e }
        .to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
        .map_err(|_| "its n and e are not an RSA key")?;
    Ok(Key {
        kind: KeyKind::Rsa,
        decoding: DecodingKey::from_rsa_raw_components(n, e),
        units: rsa_units(bits, e),
        fingerprint: sha256(&[n, b"/", e].concat()),
    })
}

/// What a signature by an RSA key costs: the square of its length for each bit of the exponent.
/// With 4096 bits and the usual exponent it is about what one by a key on a curve costs.
fn rsa_units(bits: usize, exponent: &[u8]) -> u32 {
    const USUAL_EXPONENT_BITS: usize = 17;
    let leading = exponent.first().map_or(0, |first| first.leading_zeros());
    let exponent_bits = exponent.len() * 8 - usize::try_from(leading).unwrap_or(0);
    let squares = (bits.div_ceil(4096)).pow(2);
    let units = squares * exponent_bits.div_ceil(USUAL_EXPONENT_BITS);
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// A big-endian number without its leading zero bytes.
fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

// ---- The self-test ----

/// A published token with the key that signed it: RFC 7515 A.2 and A.3, RFC 8037 A.4. `crypto`
/// that cannot tell these from forgeries must not listen.
struct Vector {
    kind: KeyKind,
    jwk: &'static str,
    message: &'static str,
    signature: &'static str,
}

const VECTORS: [Vector; 3] = [
    Vector {
        kind: KeyKind::P256,
        jwk: r#"{"kty":"EC","crv":"P-256","kid":"self-test",
            "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
        message: "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        signature: "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    },
    Vector {
        kind: KeyKind::Ed25519,
        jwk: r#"{"kty":"OKP","crv":"Ed25519","kid":"self-test",
            "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        message: "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        signature: "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    },
    Vector {
        kind: KeyKind::Rsa,
        jwk: r#"{"kty":"RSA","kid":"self-test","e":"AQAB",
            "n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#,
        message: "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        signature: "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
    },
];

/// Proves that each algorithm, as `signed` carries it out, accepts a known signature and refuses it
/// for other messages.
fn self_test(signed: &dyn Fn(&Key, &str, &str) -> bool) -> Result<(), VerifierError> {
    for vector in &VECTORS {
        let failed = || VerifierError::SelfTestFailed(vector.kind.name());
        let Ok(Verdict::Used(_, key)) = judge_key(vector.jwk) else {
            return Err(failed());
        };
        let (_, claims) = vector.message.split_once('.').ok_or_else(failed)?;
        let accepts = signed(&key, vector.message, vector.signature);
        let accepts_forgery =
            signed(&key, claims, vector.signature) || signed(&key, vector.message, "");
        if key.kind != vector.kind || !accepts || accepts_forgery {
            return Err(failed());
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use aws_lc_rs::hmac;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    };
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://idp.example";
    const AUDIENCE: &str = "carebook";
    const NOW: i64 = 1_800_000_000;
    const NOW_MS: i64 = NOW * 1000;

    /// A provider's key, with full control of what is put into a token.
    enum Signer {
        P256(EcdsaKeyPair),
        Ed25519(Ed25519KeyPair),
    }

    impl Signer {
        fn p256() -> Self {
            Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
        }

        fn ed25519() -> Self {
            Self::Ed25519(Ed25519KeyPair::generate().unwrap())
        }

        fn alg(&self) -> &'static str {
            match self {
                Self::P256(_) => "ES256",
                Self::Ed25519(_) => "EdDSA",
            }
        }

        fn public(&self) -> Vec<u8> {
            match self {
                Self::P256(pair) => pair.public_key().as_ref().to_vec(),
                Self::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
            }
        }

        fn jwk(&self, kid: &str) -> Value {
            let public = self.public();
            match self {
                Self::P256(_) => json!({
                    "kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256",
                    "x": encode(&public[1..33]), "y": encode(&public[33..]),
                }),
                Self::Ed25519(_) => json!({
                    "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": encode(&public),
                }),
            }
        }

        fn token(&self, kid: &str, claims: &Value) -> String {
            let header = json!({"alg": self.alg(), "kid": kid, "typ": "JWT"});
            self.sign(&header.to_string(), &claims.to_string())
        }

        fn sign(&self, header: &str, claims: &str) -> String {
            let message = format!("{}.{}", encode(header), encode(claims));
            let signature = match self {
                Self::P256(pair) => {
                    let random = SystemRandom::new();
                    pair.sign(&random, message.as_bytes()).unwrap()
                }
                Self::Ed25519(pair) => pair.sign(message.as_bytes()),
            };
            format!("{message}.{}", encode(signature))
        }
    }

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn jwks(keys: &[Value]) -> Vec<u8> {
        json!({ "keys": keys }).to_string().into_bytes()
    }

    fn verifier(keys: &[Value]) -> TokenVerifier {
        TokenVerifier::new(&jwks(keys), ISSUER, AUDIENCE).unwrap()
    }

    fn claims() -> Value {
        json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": "user-1", "exp": NOW + 600, "iat": NOW,
            "actor_kind": "mother", "member_id": "member-1",
        })
    }

    fn claims_with(name: &str, value: Value) -> Value {
        let mut claims = claims();
        claims[name] = value;
        claims
    }

    fn claims_without(name: &str) -> Value {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name).unwrap();
        claims
    }

    /// One key, `k1`, and a verifier that knows it.
    fn one_key() -> (Signer, TokenVerifier) {
        let signer = Signer::ed25519();
        let verifier = verifier(&[signer.jwk("k1")]);
        (signer, verifier)
    }

    #[track_caller]
    fn refused(verifier: &TokenVerifier, token: &str, expected: TokenRefusal) {
        let refusal = verifier.verify(token, NOW_MS).unwrap_err();
        assert_eq!(refusal, expected);
        assert!(!refusal.to_string().contains(token) || token.is_empty());
    }

    // ---- What is accepted ----

    #[test]
    fn a_token_of_either_curve_gives_its_actor() {
        let signers = [Signer::p256(), Signer::ed25519()];
        let verifier = verifier(&[signers[0].jwk("k0"), signers[1].jwk("k1")]);
        for (signer, kid) in signers.iter().zip(["k0", "k1"]) {
            let token = signer.token(kid, &claims());
            let actor = verifier.verify(&token, NOW_MS).unwrap();
            assert_eq!(&*actor.subject, "user-1");
            assert_eq!(actor.kind, ActorKind::Mother);
            assert_eq!(actor.member_id.as_deref(), Some("member-1"));
            assert_eq!(actor.actor_profile_id, None);
            assert!(actor.branch_profile_ids.is_empty() && actor.permissions.is_empty());
            assert_eq!(actor.email, None);
            assert!(!actor.email_verified);
        }
    }

    #[test]
    fn every_kind_of_actor_is_accepted() {
        let (signer, verifier) = one_key();
        for kind in ActorKind::ALL {
            let token = signer.token("k1", &claims_with("actor_kind", kind.as_str().into()));
            assert_eq!(verifier.verify(&token, NOW_MS).unwrap().kind, kind);
        }
    }

    #[test]
    fn an_audience_may_be_one_of_several() {
        let (signer, verifier) = one_key();
        for aud in [json!([AUDIENCE]), json!(["other", AUDIENCE])] {
            let token = signer.token("k1", &claims_with("aud", aud));
            assert!(verifier.verify(&token, NOW_MS).is_ok());
        }
    }

    #[test]
    fn null_for_an_optional_claim_of_the_actor_is_as_if_absent() {
        let (signer, verifier) = one_key();
        let mut claims = claims();
        for name in [
            "member_id",
            "actor_profile_id",
            "branch_profile_ids",
            "permissions",
            "email",
            "email_verified",
        ] {
            claims[name] = Value::Null;
        }
        let actor = verifier
            .verify(&signer.token("k1", &claims), NOW_MS)
            .unwrap();
        assert_eq!(actor.member_id, None);
        assert_eq!(actor.profile_id(), "user-1");
        assert!(!actor.email_verified);
    }

    #[test]
    fn claims_and_header_members_that_are_not_known_are_passed_over() {
        let (signer, verifier) = one_key();
        let mut claims = claims();
        claims["realm_access"] = json!({"roles": [{"a": {"b": [1.5, null]}}]});
        let other = Signer::ed25519().jwk("k1");
        // Where a header tells to get the key elsewhere, nobody goes there.
        let header = json!({
            "alg": "EdDSA", "kid": "k1", "typ": "at+jwt", "jwk": other,
            "jku": "https://evil.example/jwks", "x5u": "https://evil.example/x", "x5c": ["x"],
        });
        let token = signer.sign(&header.to_string(), &claims.to_string());
        assert!(verifier.verify(&token, NOW_MS).is_ok());
    }

    #[test]
    fn a_date_may_have_a_fraction() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims_with("exp", json!(1_800_000_000.5)));
        assert!(verifier.verify(&token, NOW_MS + 30_499).is_ok());
        assert_eq!(
            verifier.verify(&token, NOW_MS + 30_500),
            Err(TokenRefusal::Expired)
        );
    }

    // ---- The form ----

    #[test]
    fn what_is_no_jws_in_compact_form_is_refused() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        let parts: Vec<&str> = token.split('.').collect();
        let [header, payload, signature] = parts[..] else {
            panic!("three parts");
        };
        let not_compact = [
            String::new(),
            ".".into(),
            "x".into(),
            format!("{header}.{payload}"),
            format!("{header}.{payload}.{signature}.{signature}"),
            // The five parts of an encrypted token (JWE).
            format!("{header}..{payload}.{payload}.{signature}"),
            format!("{header}=.{payload}.{signature}"),
            format!(" {token}"),
            format!("{header}+.{payload}.{signature}"),
        ];
        for token in not_compact {
            refused(&verifier, &token, TokenRefusal::NotCompact);
        }
        let unsigned = [
            format!("{header}.{payload}."),
            format!("{token}="),
            format!("{token} "),
            format!("{header}.{payload}=.{signature}"),
        ];
        for token in unsigned {
            refused(&verifier, &token, TokenRefusal::SignatureInvalid);
        }
    }

    #[test]
    fn a_token_is_refused_when_any_end_of_it_is_missing() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        for length in 0..token.len() {
            assert!(
                verifier.verify(&token[..length], NOW_MS).is_err(),
                "{length}"
            );
        }
        assert!(verifier.verify(&token, NOW_MS).is_ok());
    }

    #[test]
    fn a_token_is_refused_when_any_character_of_it_is_another() {
        for signer in [Signer::p256(), Signer::ed25519()] {
            let verifier = verifier(&[signer.jwk("k1")]);
            let token = signer.token("k1", &claims());
            for place in 0..token.len() {
                for other in ["A", "B", "_", "."] {
                    if &token[place..=place] == other {
                        continue;
                    }
                    let mut changed = token.clone();
                    changed.replace_range(place..=place, other);
                    assert!(
                        verifier.verify(&changed, NOW_MS).is_err(),
                        "{place} {other}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_token_has_at_most_8_kib() {
        let (signer, verifier) = one_key();
        let token_of = |filling: usize| {
            signer.token("k1", &claims_with("filling", "x".repeat(filling).into()))
        };
        let overhead = token_of(0).len();
        // Three bytes of claims are four characters of the token.
        let filling = (TOKEN_BYTES_MAX - overhead) / 4 * 3;
        let fits = token_of(filling);
        assert!(fits.len() <= TOKEN_BYTES_MAX && fits.len() > TOKEN_BYTES_MAX - 8);
        assert!(verifier.verify(&fits, NOW_MS).is_ok());
        refused(&verifier, &token_of(filling + 12), TokenRefusal::TooLong);
        // To the byte: up to the limit it is looked at.
        let junk = "x".repeat(TOKEN_BYTES_MAX + 1);
        refused(&verifier, &junk[1..], TokenRefusal::NotCompact);
        refused(&verifier, &junk, TokenRefusal::TooLong);
    }

    // ---- The header ----

    #[test]
    fn a_header_that_is_not_in_order_is_refused() {
        let (signer, verifier) = one_key();
        let claims = claims().to_string();
        let cases = [
            ("", TokenRefusal::HeaderMalformed),
            ("[]", TokenRefusal::HeaderMalformed),
            ("null", TokenRefusal::HeaderMalformed),
            (
                r#"{"alg":"EdDSA","kid":"k1""#,
                TokenRefusal::HeaderMalformed,
            ),
            (
                r#"{"alg":"EdDSA","kid":"k1"}x"#,
                TokenRefusal::HeaderMalformed,
            ),
            (r#"{"kid":"k1"}"#, TokenRefusal::HeaderMalformed),
            (r#"{"alg":null,"kid":"k1"}"#, TokenRefusal::HeaderMalformed),
            (
                r#"{"alg":["EdDSA"],"kid":"k1"}"#,
                TokenRefusal::HeaderMalformed,
            ),
            (r#"{"alg":"EdDSA","kid":7}"#, TokenRefusal::HeaderMalformed),
            (
                r#"{"alg":"EdDSA","kid":null}"#,
                TokenRefusal::HeaderMalformed,
            ),
            (
                r#"{"alg":"EdDSA","kid":"k1","kid":"k1"}"#,
                TokenRefusal::HeaderMalformed,
            ),
            (
                r#"{"alg":"EdDSA","al\u0067":"EdDSA","kid":"k1"}"#,
                TokenRefusal::HeaderMalformed,
            ),
            (
                r#"{"alg":"EdDSA","kid":"k1","x":1,"x":1}"#,
                TokenRefusal::HeaderMalformed,
            ),
            (r#"{"alg":"EdDSA"}"#, TokenRefusal::KeyIdMissing),
            (r#"{"alg":"EdDSA","kid":""}"#, TokenRefusal::KeyIdUnfit),
            (r#"{"alg":"EdDSA","kid":"k2"}"#, TokenRefusal::KeyUnknown),
            (r#"{"alg":"EdDSA","kid":"k1 "}"#, TokenRefusal::KeyUnknown),
            (
                r#"{"alg":"EdDSA","kid":"k1","crit":["exp"]}"#,
                TokenRefusal::CriticalHeader,
            ),
            (
                r#"{"alg":"EdDSA","kid":"k1","crit":[]}"#,
                TokenRefusal::CriticalHeader,
            ),
            (
                r#"{"alg":"EdDSA","kid":"k1","crit":null}"#,
                TokenRefusal::CriticalHeader,
            ),
            (
                r#"{"alg":"EdDSA","kid":"k1","b64":false,"crit":["b64"]}"#,
                TokenRefusal::CriticalHeader,
            ),
        ];
        for (header, expected) in cases {
            let token = signer.sign(header, &claims);
            assert_eq!(verifier.verify(&token, NOW_MS), Err(expected), "{header}");
        }
        let header = json!({"alg": "EdDSA", "kid": "k".repeat(KEY_ID_BYTES_MAX + 1)});
        let token = signer.sign(&header.to_string(), &claims);
        refused(&verifier, &token, TokenRefusal::KeyIdUnfit);
    }

    #[test]
    fn a_key_id_may_be_as_long_as_is_allowed() {
        let signer = Signer::ed25519();
        let kid = "k".repeat(KEY_ID_BYTES_MAX);
        let verifier = verifier(&[signer.jwk(&kid)]);
        assert!(
            verifier
                .verify(&signer.token(&kid, &claims()), NOW_MS)
                .is_ok()
        );
    }

    #[test]
    fn a_deeply_nested_header_is_survived() {
        let (signer, verifier) = one_key();
        let nested = "[".repeat(2_500) + &"]".repeat(2_500);
        let header = format!(r#"{{"alg":"EdDSA","kid":"k1","x":{nested}}}"#);
        let token = signer.sign(&header, &claims().to_string());
        // Any answer will do that is not a crash.
        let _ = verifier.verify(&token, NOW_MS);
    }

    // ---- Key and algorithm ----

    #[test]
    fn a_signature_by_a_foreign_key_of_the_same_id_is_refused() {
        for (ours, foreign) in [
            (Signer::p256(), Signer::p256()),
            (Signer::ed25519(), Signer::ed25519()),
        ] {
            let verifier = verifier(&[ours.jwk("k1")]);
            let token = foreign.token("k1", &claims());
            refused(&verifier, &token, TokenRefusal::SignatureInvalid);
            // Its own key in the header does not help.
            let header = json!({"alg": ours.alg(), "kid": "k1", "jwk": foreign.jwk("k1")});
            let token = foreign.sign(&header.to_string(), &claims().to_string());
            refused(&verifier, &token, TokenRefusal::SignatureInvalid);
        }
    }

    #[test]
    fn a_signature_by_another_key_of_the_set_is_refused() {
        let signers = [Signer::p256(), Signer::p256()];
        let verifier = verifier(&[signers[0].jwk("k0"), signers[1].jwk("k1")]);
        let token = signers[0].token("k1", &claims());
        refused(&verifier, &token, TokenRefusal::SignatureInvalid);
    }

    #[test]
    fn a_signature_for_other_claims_is_refused() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let header = message.split('.').next().unwrap();
        let other = encode(claims_with("actor_kind", "system_workflow".into()).to_string());
        let token = format!("{header}.{other}.{signature}");
        refused(&verifier, &token, TokenRefusal::SignatureInvalid);
    }

    #[test]
    fn the_algorithm_is_the_keys_and_never_the_tokens() {
        let p256 = Signer::p256();
        let ed25519 = Signer::ed25519();
        let rsa: Value = serde_json::from_str(VECTORS[2].jwk).unwrap();
        let verifier = verifier(&[p256.jwk("p256"), ed25519.jwk("ed25519"), rsa]);
        let all = [
            "none", "None", "", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256",
            "PS384", "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA", "Ed25519", "eddsa",
            "es256", "ES256 ",
        ];
        for (kid, right) in [
            ("p256", "ES256"),
            ("ed25519", "EdDSA"),
            ("self-test", "RS256"),
        ] {
            for alg in all.into_iter().filter(|alg| *alg != right) {
                let header = json!({"alg": alg, "kid": kid}).to_string();
                for signer in [&p256, &ed25519] {
                    let token = signer.sign(&header, &claims().to_string());
                    refused(&verifier, &token, TokenRefusal::AlgorithmMismatch);
                }
                let message = format!("{}.{}", encode(&header), encode(claims().to_string()));
                refused(
                    &verifier,
                    &format!("{message}."),
                    TokenRefusal::AlgorithmMismatch,
                );
            }
            // The right name over a signature of another kind.
            let header = json!({"alg": right, "kid": kid}).to_string();
            for signer in [&p256, &ed25519]
                .into_iter()
                .filter(|one| one.alg() != right)
            {
                let token = signer.sign(&header, &claims().to_string());
                refused(&verifier, &token, TokenRefusal::SignatureInvalid);
            }
        }
    }

    #[test]
    fn a_public_key_is_no_secret_to_sign_with() {
        let p256 = Signer::p256();
        let rsa: Value = serde_json::from_str(VECTORS[2].jwk).unwrap();
        let modulus = URL_SAFE_NO_PAD.decode(rsa["n"].as_str().unwrap()).unwrap();
        let jwk_text = rsa.to_string().into_bytes();
        let verifier = verifier(&[p256.jwk("p256"), rsa]);
        for (kid, alg, secret) in [
            ("p256", "ES256", p256.public()),
            ("self-test", "RS256", modulus),
            ("self-test", "RS256", jwk_text),
        ] {
            for (alg, expected) in [
                ("HS256", TokenRefusal::AlgorithmMismatch),
                (alg, TokenRefusal::SignatureInvalid),
            ] {
                let header = json!({"alg": alg, "kid": kid}).to_string();
                let message = format!("{}.{}", encode(header), encode(claims().to_string()));
                let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
                let tag = hmac::sign(&secret, message.as_bytes());
                refused(&verifier, &format!("{message}.{}", encode(tag)), expected);
            }
        }
    }

    // ---- The claims ----

    #[test]
    fn required_claims_must_be_there() {
        let (signer, verifier) = one_key();
        for name in ["iss", "aud", "exp", "sub", "actor_kind"] {
            let token = signer.token("k1", &claims_without(name));
            refused(&verifier, &token, TokenRefusal::ClaimMissing(name));
            let token = signer.token("k1", &claims_with(name, Value::Null));
            refused(&verifier, &token, TokenRefusal::ClaimInvalid(name));
        }
        for name in ["iat", "member_id"] {
            let token = signer.token("k1", &claims_without(name));
            assert!(verifier.verify(&token, NOW_MS).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_claim_of_the_wrong_type_is_refused_and_not_passed_over() {
        let (signer, verifier) = one_key();
        let exp = NOW + 600;
        let long = "x".repeat(513);
        let cases = [
            ("iss", json!([ISSUER])),
            ("iss", json!(7)),
            ("aud", json!(7)),
            ("aud", json!({AUDIENCE: true})),
            ("aud", json!([AUDIENCE, 7])),
            ("aud", json!([AUDIENCE, null])),
            ("exp", json!(exp.to_string())),
            ("exp", json!([exp])),
            ("exp", json!(true)),
            ("exp", json!(-1)),
            // Milliseconds, which would last for fifty thousand years.
            ("exp", json!(exp * 1000)),
            ("exp", json!(u64::MAX)),
            ("nbf", json!(NOW.to_string())),
            ("nbf", Value::Null),
            ("iat", json!(NOW.to_string())),
            ("iat", Value::Null),
            ("iat", json!({})),
            ("sub", json!(7)),
            ("sub", json!("")),
            ("sub", json!(" \t")),
            ("sub", json!(["user-1"])),
            ("sub", json!(long)),
            ("actor_kind", json!(["mother"])),
            ("actor_kind", json!(0)),
            ("member_id", json!(7)),
            ("member_id", json!("")),
            ("member_id", json!(long)),
            ("member_id", json!(["member-1"])),
            ("actor_profile_id", json!({})),
            ("actor_profile_id", json!(" ")),
            ("branch_profile_ids", json!("branch-1")),
            ("branch_profile_ids", json!({"0": "branch-1"})),
            ("branch_profile_ids", json!(["branch-1", 7])),
            ("branch_profile_ids", json!(["branch-1", null])),
            ("branch_profile_ids", json!([""])),
            ("branch_profile_ids", json!([["branch-1"]])),
            ("permissions", json!("branch:create")),
            ("permissions", json!([true])),
            ("permissions", json!({"branch:create": true})),
            ("email", json!(["mina@example.org"])),
            ("email", json!(false)),
            ("email_verified", json!("true")),
            ("email_verified", json!(1)),
            ("email_verified", json!([true])),
        ];
        for (name, value) in cases {
            let token = signer.token("k1", &claims_with(name, value.clone()));
            assert_eq!(
                verifier.verify(&token, NOW_MS),
                Err(TokenRefusal::ClaimInvalid(name)),
                "{name} {value}"
            );
        }
        // A number that no computer can hold.
        let claims = claims().to_string().replace(&exp.to_string(), "1e999");
        let header = r#"{"alg":"EdDSA","kid":"k1"}"#;
        let refusal = verifier.verify(&signer.sign(header, &claims), NOW_MS);
        assert!(
            matches!(
                refusal,
                Err(TokenRefusal::ClaimInvalid("exp") | TokenRefusal::ClaimsMalformed)
            ),
            "{refusal:?}"
        );
    }

    #[test]
    fn identifiers_may_have_512_characters_of_any_script() {
        let (signer, verifier) = one_key();
        let subject = "가".repeat(IDENTIFIER_CHARS_MAX);
        let token = signer.token("k1", &claims_with("sub", subject.as_str().into()));
        let actor = verifier.verify(&token, NOW_MS).unwrap();
        assert_eq!(*actor.subject, *subject);
        let token = signer.token("k1", &claims_with("sub", format!("{subject}x").into()));
        refused(&verifier, &token, TokenRefusal::ClaimInvalid("sub"));
    }

    #[test]
    fn claims_that_are_no_object_or_repeat_a_member_are_refused() {
        let (signer, verifier) = one_key();
        let whole = claims().to_string();
        let body = whole.strip_suffix('}').unwrap();
        let cases = [
            String::new(),
            "null".into(),
            format!("[{whole}]"),
            body.into(),
            format!("{whole} x"),
            format!(r#"{body},"actor_kind":"system_workflow"}}"#),
            format!(r#"{body},"s\u0075b":"user-2"}}"#),
            format!(r#"{body},"x":1,"x":1}}"#),
        ];
        for claims in cases {
            let token = signer.sign(r#"{"alg":"EdDSA","kid":"k1"}"#, &claims);
            refused(&verifier, &token, TokenRefusal::ClaimsMalformed);
        }
        let Signer::Ed25519(pair) = &signer else {
            panic!("an Ed25519 key");
        };
        let header = encode(r#"{"alg":"EdDSA","kid":"k1"}"#);
        let message = format!("{header}.{}", encode(b"{\"sub\":\"\xff\"}"));
        let token = format!("{message}.{}", encode(pair.sign(message.as_bytes())));
        refused(&verifier, &token, TokenRefusal::ClaimsMalformed);
    }

    #[test]
    fn issuer_and_audience_must_be_ours_to_the_letter() {
        let (signer, verifier) = one_key();
        for issuer in ["", "https://idp.example/", "HTTPS://IDP.EXAMPLE", "other"] {
            let token = signer.token("k1", &claims_with("iss", issuer.into()));
            refused(&verifier, &token, TokenRefusal::IssuerMismatch);
        }
        for aud in [
            json!(""),
            json!("carebook2"),
            json!([]),
            json!(["other", "Carebook"]),
        ] {
            let token = signer.token("k1", &claims_with("aud", aud));
            refused(&verifier, &token, TokenRefusal::AudienceMismatch);
        }
    }

    #[test]
    fn only_the_seven_kinds_of_actor_are_known() {
        let (signer, verifier) = one_key();
        for kind in ["", "Mother", "mother ", "admin", "caregiver"] {
            let token = signer.token("k1", &claims_with("actor_kind", kind.into()));
            refused(&verifier, &token, TokenRefusal::ActorKindUnknown);
        }
    }

    // ---- Time ----

    #[test]
    fn a_token_ends_at_its_expiry_and_the_leeway() {
        let (signer, verifier) = one_key();
        for (exp, accepted) in [
            (1, true),
            (0, true),
            (-29, true),
            (-30, false),
            (-31, false),
        ] {
            let token = signer.token("k1", &claims_with("exp", json!(NOW + exp)));
            let result = verifier.verify(&token, NOW_MS);
            assert_eq!(result.is_ok(), accepted, "{exp}");
            if let Err(refusal) = result {
                assert_eq!(refusal, TokenRefusal::Expired);
            }
        }
        let token = signer.token("k1", &claims_with("exp", json!(NOW)));
        assert!(verifier.verify(&token, NOW_MS + 29_999).is_ok());
        refused_at(&verifier, &token, NOW_MS + 30_000, TokenRefusal::Expired);
    }

    #[test]
    fn a_token_begins_at_its_not_before_and_its_issue_less_the_leeway() {
        let (signer, verifier) = one_key();
        for (name, refusal) in [
            ("nbf", TokenRefusal::NotYetValid),
            ("iat", TokenRefusal::IssuedInFuture),
        ] {
            for ahead in [-3_600, 0, 30] {
                let token = signer.token("k1", &claims_with(name, json!(NOW + ahead)));
                assert!(verifier.verify(&token, NOW_MS).is_ok(), "{name} {ahead}");
            }
            let token = signer.token("k1", &claims_with(name, json!(NOW + 31)));
            refused_at(&verifier, &token, NOW_MS, refusal);
            refused_at(&verifier, &token, NOW_MS + 999, refusal);
            assert!(verifier.verify(&token, NOW_MS + 1_000).is_ok());
        }
    }

    #[test]
    fn a_clock_at_the_end_of_its_range_is_survived() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims_with("nbf", json!(NOW)));
        refused_at(&verifier, &token, i64::MAX, TokenRefusal::Expired);
        refused_at(&verifier, &token, i64::MIN, TokenRefusal::NotYetValid);
    }

    #[track_caller]
    fn refused_at(verifier: &TokenVerifier, token: &str, now_ms: i64, expected: TokenRefusal) {
        assert_eq!(verifier.verify(token, now_ms), Err(expected));
    }

    // ---- What is remembered ----

    #[test]
    fn a_remembered_token_gives_the_same_actor_for_60_seconds() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        let first = verifier.verify(&token, NOW_MS).unwrap();
        for later in [0, 1, 59_999] {
            let again = verifier.verify(&token, NOW_MS + later).unwrap();
            assert!(Arc::ptr_eq(&first, &again), "{later}");
        }
        // Verified anew, and remembered from then on.
        let anew = verifier.verify(&token, NOW_MS + 60_000).unwrap();
        assert!(!Arc::ptr_eq(&first, &anew));
        assert_eq!(first, anew);
        let again = verifier.verify(&token, NOW_MS + 119_999).unwrap();
        assert!(Arc::ptr_eq(&anew, &again));
    }

    #[test]
    fn a_remembered_token_still_expires() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims_with("exp", json!(NOW + 10)));
        let first = verifier.verify(&token, NOW_MS).unwrap();
        let last = verifier.verify(&token, NOW_MS + 39_999).unwrap();
        assert!(Arc::ptr_eq(&first, &last));
        refused_at(&verifier, &token, NOW_MS + 40_000, TokenRefusal::Expired);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_a_token_be_verified_anew() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims_with("nbf", json!(NOW)));
        let first = verifier.verify(&token, NOW_MS).unwrap();
        let earlier = verifier.verify(&token, NOW_MS - 1).unwrap();
        assert!(!Arc::ptr_eq(&first, &earlier));
        refused_at(
            &verifier,
            &token,
            NOW_MS - 30_001,
            TokenRefusal::NotYetValid,
        );
    }

    #[test]
    fn refusals_are_not_remembered() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims_with("nbf", json!(NOW + 60)));
        refused_at(&verifier, &token, NOW_MS, TokenRefusal::NotYetValid);
        assert!(verifier.verified.is_empty());
        assert!(verifier.verify(&token, NOW_MS + 30_000).is_ok());
        assert_eq!(verifier.verified.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let signer = Signer::ed25519();
        let keys = jwks(&[signer.jwk("k1")]);
        let bytes_max = 64 * 1024;
        let verifier = TokenVerifier::with_cache_bytes(&keys, ISSUER, AUDIENCE, bytes_max).unwrap();
        for number in 0..300 {
            let claims = claims_with("sub", format!("user-{number}").into());
            let actor = verifier
                .verify(&signer.token("k1", &claims), NOW_MS)
                .unwrap();
            assert_eq!(*actor.subject, *format!("user-{number}"));
            assert!(verifier.verified.weight() <= bytes_max);
        }
        // 300 tokens do not fit, and some are there.
        let remembered = verifier.verified.len();
        assert!((1..150).contains(&remembered), "{remembered}");
    }

    #[test]
    fn many_threads_get_the_right_actors_while_keys_come_and_go() {
        let stays = Signer::ed25519();
        let others = [Signer::ed25519(), Signer::ed25519()];
        let sets = others
            .each_ref()
            .map(|other| jwks(&[stays.jwk("stays"), other.jwk("other")]));
        let verifier = TokenVerifier::new(&sets[0], ISSUER, AUDIENCE).unwrap();
        let tokens: Vec<_> = (0..8)
            .map(|number| {
                let subject = format!("user-{number}");
                let claims = claims_with("sub", subject.as_str().into());
                (stays.token("stays", &claims), subject)
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (token, subject) in tokens.iter().cycle().take(800) {
                        let actor = verifier.verify(token, NOW_MS).unwrap();
                        assert_eq!(*actor.subject, **subject);
                    }
                });
            }
            for round in 0..50 {
                let set = &sets[(round + 1) % 2];
                assert_eq!(verifier.reload(set, Instant::now()), Ok(Reload::Replaced));
            }
        });
    }

    // ---- The key set ----

    #[test]
    fn a_removed_key_stops_working_at_once() {
        let old = Signer::ed25519();
        let new = Signer::p256();
        let verifier = verifier(&[old.jwk("old")]);
        let token = old.token("old", &claims());
        assert!(verifier.verify(&token, NOW_MS).is_ok());

        let both = jwks(&[old.jwk("old"), new.jwk("new")]);
        assert_eq!(verifier.reload(&both, Instant::now()), Ok(Reload::Replaced));
        assert!(verifier.verify(&token, NOW_MS).is_ok());
        assert!(
            verifier
                .verify(&new.token("new", &claims()), NOW_MS)
                .is_ok()
        );

        let one = jwks(&[new.jwk("new")]);
        assert_eq!(verifier.reload(&one, Instant::now()), Ok(Reload::Replaced));
        refused(&verifier, &token, TokenRefusal::KeyUnknown);
    }

    #[test]
    fn another_key_under_the_same_id_replaces_it() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        assert!(verifier.verify(&token, NOW_MS).is_ok());
        let other = jwks(&[Signer::ed25519().jwk("k1")]);
        assert_eq!(
            verifier.reload(&other, Instant::now()),
            Ok(Reload::Replaced)
        );
        refused(&verifier, &token, TokenRefusal::SignatureInvalid);
    }

    #[test]
    fn a_set_that_is_refused_changes_nothing() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        let first = verifier.verify(&token, NOW_MS).unwrap();
        let half_good = jwks(&[
            Signer::p256().jwk("new"),
            json!({"kty": "oct", "k": "c2VjcmV0"}),
        ]);
        for unfit in [&b""[..], b"{}", &half_good] {
            assert!(verifier.reload(unfit, Instant::now()).is_err());
        }
        let again = verifier.verify(&token, NOW_MS).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn a_set_with_the_same_keys_forgets_nothing() {
        let signer = Signer::ed25519();
        let other = Signer::p256();
        let verifier = verifier(&[signer.jwk("k1"), other.jwk("k2")]);
        let token = signer.token("k1", &claims());
        let first = verifier.verify(&token, NOW_MS).unwrap();
        let reordered = jwks(&[other.jwk("k2"), signer.jwk("k1")]);
        assert_eq!(
            verifier.reload(&reordered, Instant::now()),
            Ok(Reload::Unchanged)
        );
        let again = verifier.verify(&token, NOW_MS).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    fn set_fault(keys: &[u8]) -> String {
        let error = TokenVerifier::new(keys, ISSUER, AUDIENCE).unwrap_err();
        error.to_string()
    }

    fn with(mut jwk: Value, name: &str, value: Value) -> Value {
        jwk[name] = value;
        jwk
    }

    #[test]
    fn an_unfit_key_refuses_the_set_and_is_named() {
        let good = Signer::p256().jwk("good");
        let p256 = Signer::p256().jwk("k1");
        let ed25519 = Signer::ed25519().jwk("k1");
        let rsa: Value = serde_json::from_str(VECTORS[2].jwk).unwrap();
        let short = encode([&[0xff; 127][..], &[1]].concat());
        let cases = [
            (
                json!({"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}),
                "symmetric key",
            ),
            (
                json!({"kty": "oct", "use": "enc", "k": "c2VjcmV0"}),
                "symmetric key",
            ),
            (with(p256.clone(), "d", "c2VjcmV0".into()), "private key"),
            (
                with(p256.clone(), "alg", "RS256".into()),
                "alg contradicts its type",
            ),
            (
                with(p256.clone(), "alg", "HS256".into()),
                "alg contradicts its type",
            ),
            (
                with(p256.clone(), "alg", "none".into()),
                "alg contradicts its type",
            ),
            (
                with(ed25519.clone(), "alg", "ES256".into()),
                "alg contradicts its type",
            ),
            (
                with(rsa.clone(), "alg", "EdDSA".into()),
                "alg contradicts its type",
            ),
            (
                with(p256.clone(), "kid", "good".into()),
                "its kid \"good\" is that of an earlier key",
            ),
            (with(p256.clone(), "kid", "".into()), "kid is empty"),
            (
                with(p256.clone(), "kid", "k".repeat(257).into()),
                "kid is empty or longer",
            ),
            (with(p256.clone(), "kid", 7.into()), "is not a JWK"),
            (with(p256.clone(), "crv", Value::Null), "has no crv"),
            (with(p256.clone(), "x", Value::Null), "has no x"),
            (
                with(p256.clone(), "x", "AA".into()),
                "its x has 1 bytes instead of 32",
            ),
            (
                with(p256.clone(), "y", "*".into()),
                "its y is not base64url",
            ),
            (
                with(p256.clone(), "y", encode([7; 32]).into()),
                "not a point of P-256",
            ),
            (
                with(ed25519.clone(), "x", encode([7; 31]).into()),
                "31 bytes instead of 32",
            ),
            (
                with(rsa.clone(), "n", short.into()),
                "its modulus has 1024 bits",
            ),
            (
                with(rsa.clone(), "n", encode([0xff; 1025]).into()),
                "8200 bits",
            ),
            (
                with(rsa.clone(), "n", encode([0x7f; 256]).into()),
                "its modulus has 2047 bits",
            ),
            (with(rsa.clone(), "n", "".into()), "its modulus has 0 bits"),
            (with(rsa.clone(), "e", "AQ".into()), "exponent"),
            (with(rsa.clone(), "e", "Ag".into()), "exponent"),
            (with(rsa.clone(), "e", "".into()), "exponent"),
            (with(rsa.clone(), "e", encode([1; 5]).into()), "exponent"),
            (json!("key"), "is not a JWK"),
            (json!({"kid": "k1"}), "is not a JWK"),
        ];
        for (jwk, expected) in cases {
            let fault = set_fault(&jwks(&[good.clone(), jwk]));
            assert!(fault.contains(expected), "{expected} in {fault}");
            assert!(fault.contains("keys[1]"), "{fault}");
            assert!(!fault.contains("c2VjcmV0"), "{fault}");
        }
        let repeated = format!(
            r#"{{"keys":[{}]}}"#,
            p256.to_string().replacen('{', r#"{"kid":"k0","#, 1)
        );
        assert!(set_fault(repeated.as_bytes()).contains("a member is repeated"));
    }

    #[test]
    fn keys_for_other_purposes_are_passed_over_with_a_reason() {
        let signer = Signer::ed25519();
        let p256 = Signer::p256().jwk("other");
        let rsa: Value = serde_json::from_str(VECTORS[2].jwk).unwrap();
        let others = [
            (
                with(p256.clone(), "use", "enc".into()),
                "its use is not sig",
            ),
            (with(p256.clone(), "key_ops", json!(["sign"])), "key_ops"),
            (with(p256.clone(), "crv", "P-384".into()), "its curve"),
            (with(p256.clone(), "kty", "AKP".into()), "its kty"),
            (
                with(p256.clone(), "alg", "ECDH-ES".into()),
                "its alg is not ES256",
            ),
            (
                with(rsa.clone(), "alg", "PS256".into()),
                "its alg is not RS256",
            ),
            (
                with(rsa.clone(), "alg", "RSA-OAEP".into()),
                "its alg is not RS256",
            ),
            (with(p256.clone(), "kid", Value::Null), "it has no kid"),
        ];
        for (other, why) in others {
            // Passed over, it may even have the id of a key that is used.
            let shared = with(other.clone(), "use", "enc".into());
            let set = verifier(&[
                other.clone(),
                signer.jwk("k1"),
                with(shared, "kid", "k1".into()),
            ]);
            let skipped = set.skipped_keys();
            assert_eq!(skipped.len(), 2, "{skipped:?}");
            assert!(
                skipped[0].starts_with("keys[0]") && skipped[0].contains(why),
                "{skipped:?}"
            );
            assert!(set.verify(&signer.token("k1", &claims()), NOW_MS).is_ok());
            let token = signer.token("other", &claims());
            refused(&set, &token, TokenRefusal::KeyUnknown);

            let fault = set_fault(&jwks(&[other]));
            assert!(
                fault.contains("holds no key") && fault.contains(why),
                "{fault}"
            );
        }
        let verify = with(p256, "key_ops", json!(["verify"]));
        assert!(verifier(&[verify]).skipped_keys().is_empty());
    }

    #[test]
    fn what_is_no_key_set_is_refused_without_being_quoted() {
        let key = Signer::p256();
        let many: Vec<_> = (0..33)
            .map(|number| key.jwk(&format!("k{number}")))
            .collect();
        assert!(TokenVerifier::new(&jwks(&many[..32]), ISSUER, AUDIENCE).is_ok());
        let large = with(key.jwk("k"), "x5c", json!(["x".repeat(KEY_SET_BYTES_MAX)]));
        let cases: [(&[u8], &str); 8] = [
            (b"", "is not a JSON object"),
            (b"c2VjcmV0", "is not a JSON object"),
            (b"{}", "is not a JSON object"),
            (b"[]", "is not a JSON object"),
            (br#"{"keys":"c2VjcmV0"}"#, "is not a JSON object"),
            (br#"{"keys":[]}"#, "holds no key"),
            (&jwks(&many), "has 33 keys; at most 32"),
            (&jwks(&[large]), "more than 65536"),
        ];
        for (set, expected) in cases {
            let fault = set_fault(set);
            assert!(fault.contains(expected), "{expected} in {fault}");
            assert!(!fault.contains("c2VjcmV0"), "{fault}");
        }
    }

    #[test]
    fn an_rsa_modulus_may_have_zero_bytes_in_front() {
        let rsa: Value = serde_json::from_str(VECTORS[2].jwk).unwrap();
        let n = URL_SAFE_NO_PAD.decode(rsa["n"].as_str().unwrap()).unwrap();
        let padded = with(rsa, "n", encode([&[0, 0][..], &n].concat()).into());
        let Verdict::Used(_, key) = judge_key(&padded.to_string()).unwrap() else {
            panic!("the key is used");
        };
        assert!(key.signed(VECTORS[2].message, VECTORS[2].signature));
    }

    #[test]
    fn issuer_and_audience_must_be_configured() {
        let set = jwks(&[Signer::ed25519().jwk("k1")]);
        let error = |issuer, audience| TokenVerifier::new(&set, issuer, audience).unwrap_err();
        assert_eq!(error(" ", AUDIENCE), VerifierError::IssuerBlank);
        assert_eq!(error(ISSUER, ""), VerifierError::AudienceBlank);
    }

    #[test]
    fn the_self_test_passes_here() {
        assert_eq!(self_test(&by_the_back_end), Ok(()));
    }

    #[test]
    fn a_back_end_that_does_not_tell_right_from_wrong_is_refused_whichever_way_it_errs() {
        let right =
            |key: &Key, message: &str, signature: &str| by_the_back_end(key, message, signature);
        for kind in [KeyKind::P256, KeyKind::Ed25519, KeyKind::Rsa] {
            let refused = Err(VerifierError::SelfTestFailed(kind.name()));
            let other = |key: &Key| key.kind != kind;
            // It refuses everything, or accepts everything, or any signature that is there, or
            // the known one for any message, or none at all.
            let refuses =
                self_test(&|key, message, signature| other(key) && right(key, message, signature));
            let accepts =
                self_test(&|key, message, signature| !other(key) || right(key, message, signature));
            let accepts_what_is_there = self_test(&|key, message, signature| {
                right(key, message, signature) || (!other(key) && !signature.is_empty())
            });
            let accepts_nothing_as_signature = self_test(&|key, message, signature| {
                right(key, message, signature) || (!other(key) && signature.is_empty())
            });
            assert_eq!(refuses, refused, "{kind:?}");
            assert_eq!(accepts, refused, "{kind:?}");
            assert_eq!(accepts_what_is_there, refused, "{kind:?}");
            assert_eq!(accepts_nothing_as_signature, refused, "{kind:?}");
        }
    }

    #[test]
    fn a_key_set_of_exactly_the_most_bytes_is_taken_and_one_byte_more_is_not() {
        let mut set = jwks(&[Signer::ed25519().jwk("k1")]);
        set.resize(KEY_SET_BYTES_MAX, b' ');
        let verifier = TokenVerifier::new(&set, ISSUER, AUDIENCE).unwrap();
        assert_eq!(verifier.reload(&set, Instant::now()), Ok(Reload::Unchanged));
        set.push(b' ');
        let refused = TokenVerifier::new(&set, ISSUER, AUDIENCE).unwrap_err();
        assert!(matches!(refused, VerifierError::KeySet(_)), "{refused}");
        assert!(verifier.reload(&set, Instant::now()).is_err());
    }

    #[test]
    fn a_set_that_is_empty_when_it_is_read_again_means_nobody_and_another_means_somebody_again() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        assert!(verifier.verify(&token, NOW_MS).is_ok());
        let now = Instant::now();
        // What is not used is no key either.
        let for_encryption = json!({"kty": "RSA", "kid": "e", "use": "enc"});
        for nobody in [jwks(&[]), jwks(&[for_encryption])] {
            assert_eq!(verifier.reload(&nobody, now), Ok(Reload::Nobody));
            assert_eq!(verifier.key_count(), 0);
            let refused = verifier.verify(&token, NOW_MS);
            assert_eq!(refused.unwrap_err(), TokenRefusal::KeyUnknown);
            let recalled = verifier.recall(&token, NOW_MS);
            assert!(matches!(recalled, Recalled::Refused(_)), "{recalled:?}");
            assert_eq!(verifier.reload(&nobody, now), Ok(Reload::Unchanged));
            let again = jwks(&[signer.jwk("k1")]);
            assert_eq!(verifier.reload(&again, now), Ok(Reload::Replaced));
            assert!(verifier.verify(&token, NOW_MS).is_ok());
        }
    }

    #[test]
    fn a_set_that_cannot_be_read_again_is_good_for_so_long_and_then_nobody_is() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        let good = jwks(&[signer.jwk("k1")]);
        let start = Instant::now();
        assert_eq!(verifier.reload(&good, start), Ok(Reload::Unchanged));
        let max_age = Duration::from_secs(3_600);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(verifier.reload(b"{", at(3_000)).is_err());
        assert!(!verifier.expire(at(3_600), max_age));
        assert!(verifier.verify(&token, NOW_MS).is_ok());
        assert_eq!(verifier.key_set_age(at(3_600)), max_age);
        assert!(verifier.expire(at(3_601), max_age));
        assert!(verifier.verify(&token, NOW_MS).is_err());
        assert!(!verifier.expire(at(3_602), max_age), "told once");
        // The same keys again are somebody again.
        assert_eq!(verifier.reload(&good, at(4_000)), Ok(Reload::Replaced));
        assert!(verifier.verify(&token, NOW_MS).is_ok());
        assert!(!verifier.expire(at(7_600), max_age));
    }

    #[test]
    fn what_verifying_would_cost_is_known_before_and_what_was_good_is_told_from_what_never_was() {
        let (signer, verifier) = one_key();
        let token = signer.token("k1", &claims());
        let unknown = verifier.recall(&token, NOW_MS);
        assert!(matches!(unknown, Recalled::Unknown { units: 1 }));
        verifier.verify(&token, NOW_MS).unwrap();
        let recalled = verifier.recall(&token, NOW_MS);
        assert!(matches!(recalled, Recalled::Good(_)));
        let later = verifier.recall(&token, NOW_MS + REMEMBERED_MS);
        assert!(matches!(later, Recalled::GoodBefore));
        let earlier = verifier.recall(&token, NOW_MS - 1);
        assert!(matches!(earlier, Recalled::GoodBefore));
        // A token that has ended costs no signature any more.
        let ended = verifier.recall(&token, (NOW + 600) * 1000 + LEEWAY_MS);
        assert!(matches!(ended, Recalled::Refused(TokenRefusal::Expired)));
        let at = token.len() - 10;
        let other = if token.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        let mut forged = token;
        forged.replace_range(at..=at, other);
        assert!(verifier.verify(&forged, NOW_MS).is_err());
        let forged = verifier.recall(&forged, NOW_MS);
        assert!(matches!(forged, Recalled::Unknown { units: 1 }));
        // The dearest key costs more than its share.
        assert_eq!(rsa_units(2048, &[1, 0, 1]), 1);
        assert_eq!(rsa_units(4096, &[1, 0, 1]), 1);
        assert_eq!(rsa_units(8192, &[1, 0, 1]), 4);
        assert_eq!(rsa_units(8192, &[0xff; 4]), 8);
    }

    // ---- The header of the request ----

    fn bearer_of<'a>(values: &[&'a [u8]]) -> Bearer<'a> {
        bearer(values.iter().copied())
    }

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        for value in [
            "Bearer a.b-c_d~e+f/0==",
            "bearer a.b-c_d~e+f/0==",
            "BEARER   a.b-c_d~e+f/0==",
            " \tBearer a.b-c_d~e+f/0== ",
        ] {
            assert_eq!(
                bearer_of(&[value.as_bytes()]),
                Bearer::Token("a.b-c_d~e+f/0=="),
                "{value:?}"
            );
        }
    }

    #[test]
    fn without_a_bearer_token_nothing_was_sent() {
        assert_eq!(bearer_of(&[]), Bearer::Missing);
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "Basic dXNlcjpwYXNz",
            "Bearerx",
            "Token a",
        ] {
            assert_eq!(bearer_of(&[value.as_bytes()]), Bearer::Missing, "{value:?}");
        }
    }

    #[test]
    fn what_is_not_exactly_one_token_is_malformed() {
        for value in [
            &b"Bearer a b"[..],
            b"Bearer a,b",
            b"Bearer a, Bearer b",
            b"Bearer \"a\"",
            b"Bearer =",
            b"Bearer a=b",
            b"Bearer token=a",
            b"Bearer \ta",
            b"Bearer a\0",
            "Bearer é".as_bytes(),
            b"Bearer \xff",
        ] {
            assert_eq!(bearer_of(&[value]), Bearer::Malformed, "{value:?}");
        }
        assert_eq!(bearer_of(&[b"Bearer a", b"Bearer a"]), Bearer::Malformed);
        assert_eq!(bearer_of(&[b"Bearer a", b"Basic a"]), Bearer::Malformed);
    }

    #[test]
    fn the_challenge_names_an_error_only_when_a_token_was_sent() {
        assert_eq!(challenge(false), "Bearer");
        assert_eq!(challenge(true), "Bearer error=\"invalid_token\"");
    }

    #[test]
    fn no_debug_output_has_a_token() {
        let shown = format!("{:?}", Bearer::Token("c2VjcmV0"));
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
        let (signer, verifier) = one_key();
        verifier
            .verify(&signer.token("k1", &claims()), NOW_MS)
            .unwrap();
        assert!(!format!("{verifier:?}").contains("user-1"));
    }

    #[test]
    fn every_refusal_has_a_word_and_a_sentence_of_its_own() {
        let all = [
            TokenRefusal::TooLong,
            TokenRefusal::NotCompact,
            TokenRefusal::HeaderMalformed,
            TokenRefusal::CriticalHeader,
            TokenRefusal::KeyIdMissing,
            TokenRefusal::KeyIdUnfit,
            TokenRefusal::KeyUnknown,
            TokenRefusal::AlgorithmMismatch,
            TokenRefusal::SignatureInvalid,
            TokenRefusal::ClaimsMalformed,
            TokenRefusal::ClaimMissing("exp"),
            TokenRefusal::ClaimInvalid("exp"),
            TokenRefusal::IssuerMismatch,
            TokenRefusal::AudienceMismatch,
            TokenRefusal::Expired,
            TokenRefusal::NotYetValid,
            TokenRefusal::IssuedInFuture,
            TokenRefusal::ActorKindUnknown,
        ];
        let words: std::collections::HashSet<_> = all.iter().map(|one| one.code()).collect();
        let sentences: std::collections::HashSet<_> = all.iter().map(ToString::to_string).collect();
        assert_eq!((words.len(), sentences.len()), (all.len(), all.len()));
    }
}
