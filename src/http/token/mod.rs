//! Tokens: from the `Authorization` header to the [`Actor`](crate::base::actor::Actor) that a request speaks for.
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

mod bearer;
mod cache;
mod claims;
mod key_set;
mod members;
mod refusal;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod verifier;

pub use bearer::{Bearer, bearer, challenge};
pub use cache::REMEMBERED_MS;
pub use claims::{IDENTIFIER_CHARS_MAX, LEEWAY_MS};
pub use key_set::{KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX};
pub use refusal::{KEY_ID_BYTES_MAX, TOKEN_BYTES_MAX, TokenRefusal, VerifierError};
pub use verifier::{Recalled, Reload, TokenVerifier};
