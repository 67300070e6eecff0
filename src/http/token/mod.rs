//! Tokens: from the `Authorization` header to the [`Actor`](crate::base::actor::Actor) that a request speaks for.
//!
//! A token is a JWT in JWS compact form, signed by the identity provider. It is checked in this order:
//!
//! 1. The length, the three parts, the header as strict JSON without duplicate fields.
//! 2. The key: picked by `kid`, which serves only as a map key. The key's type fixes the
//!    algorithm (RFC 8725 3.1); the token's `alg` must say the same. `jku`, `jwk`, `x5u` and
//!    `x5c` are ignored; `crit` is rejected, as no extension is supported.
//! 3. The signature.
//! 4. The claims, as strict JSON without duplicate fields. A claim of the wrong JSON type is
//!    rejected, never treated as absent: reading `"exp": "soon"` as "no expiry" would be a hole.
//!
//! A verified token is cached for at most [`REMEMBERED_MS`], under the SHA-256 of the whole token and the generation
//! of the key set, so that a request costs a hash and a look-up instead of a signature's verification. A connection
//! also keeps the header of its last request, so that the same header again costs only a comparison. Rejections are
//! not cached. The time of tokens is passed in; the age of the key set is measured by a monotonic clock.
//!
//! A token that was never verified successfully may be forged, and verifying it costs more than
//! sending it: [`TokenVerifier::recall`] distinguishes such tokens before they are verified, and
//! `forgeries` limits them.

mod bearer;
mod cache;
mod claims;
mod connection_token;
pub(in crate::http) mod fields;
mod key_requests;
mod key_set;
mod published;
mod refusal;
mod refusal_counts;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod verifier;

pub use bearer::{Bearer, bearer, challenge};
pub use cache::REMEMBERED_MS;
pub use claims::{IDENTIFIER_CHARS_MAX, LEEWAY_MS};
pub use connection_token::{LAST_TOKEN_BYTES_MAX, LastToken};
pub use key_requests::{ASKED_INTERVAL, KEYS_WAIT_MAX, KEYS_WAITING_MAX, KeyRequests, Newer};
pub use key_set::{KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX};
pub use refusal::{KEY_ID_BYTES_MAX, TOKEN_BYTES_MAX, TokenRefusal, VerifierError};
pub use refusal_counts::RefusalCounts;
pub use verifier::{Recalled, Reload, TokenVerifier};
