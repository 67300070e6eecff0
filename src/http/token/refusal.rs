//! The reasons for rejecting a token or a key set.

use std::fmt;

/// Maximum length of an accepted token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Maximum length of a key id in a key set and in a token, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 256;

/// Why a token is rejected. Every reason gives a 401; the distinction is for logs and counters. No reason carries any
/// part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenRefusal {
    /// The token has more than [`TOKEN_BYTES_MAX`] bytes.
    TooLong,
    /// The token does not have three parts, or is not base64url without padding.
    NotCompact,
    /// The header is not a JSON object, repeats a field, or `alg` or `kid` is not a string.
    HeaderMalformed,
    /// The header has `crit`: it requires an extension that is not supported.
    CriticalHeader,
    /// The header has no `kid`.
    KeyIdMissing,
    /// The `kid` is empty or longer than [`KEY_ID_BYTES_MAX`].
    KeyIdUnfit,
    /// The set has no key with that id. Fetching the set again may help.
    KeyUnknown,
    /// The `alg` is not that of the key's type.
    AlgorithmMismatch,
    /// The signature is not one by the key.
    SignatureInvalid,
    /// The claims are not a JSON object or repeat a field.
    ClaimsMalformed,
    /// A required claim is absent.
    ClaimMissing(&'static str),
    /// A claim has the wrong JSON type, is blank, too long or out of range.
    ClaimInvalid(&'static str),
    /// The `iss` is not the expected issuer.
    IssuerMismatch,
    /// The `aud` does not contain the expected audience.
    AudienceMismatch,
    /// The `exp` has passed.
    Expired,
    /// The `nbf` is in the future.
    NotYetValid,
    /// The `iat` is in the future.
    IssuedInFuture,
    /// The `actor_kind` is none of the seven.
    ActorKindUnknown,
}

impl TokenRefusal {
    /// Each reason once; those that name a claim with one example of a claim.
    pub const ALL: [Self; 18] = [
        Self::TooLong,
        Self::NotCompact,
        Self::HeaderMalformed,
        Self::CriticalHeader,
        Self::KeyIdMissing,
        Self::KeyIdUnfit,
        Self::KeyUnknown,
        Self::AlgorithmMismatch,
        Self::SignatureInvalid,
        Self::ClaimsMalformed,
        Self::ClaimMissing("exp"),
        Self::ClaimInvalid("exp"),
        Self::IssuerMismatch,
        Self::AudienceMismatch,
        Self::Expired,
        Self::NotYetValid,
        Self::IssuedInFuture,
        Self::ActorKindUnknown,
    ];

    /// Returns the reason as one word for counters, from a small fixed set.
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
            Self::KeyIdMissing => "the token's header has no kid, so no key can be selected",
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

/// Why a verifier cannot be made, or a key set cannot be used. The caller adds the name of the file that the key set
/// came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifierError {
    /// The expected issuer is blank.
    IssuerBlank,
    /// The expected audience is blank.
    AudienceBlank,
    /// This algorithm does not verify published signatures correctly.
    Algorithm(&'static str),
    /// The key set as a whole is invalid; the text says why, and what to do.
    KeySet(String),
    /// One key is invalid.
    Key {
        /// The key's index in `keys`, from 0.
        index: usize,
        /// The fault, and what to do.
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
            Self::Algorithm(name) => write!(
                f,
                "the cryptographic library of this program does not verify {name} signatures as it has to: do not use this build"
            ),
            Self::KeySet(fault) => write!(f, "the key set (JWKS) {fault}"),
            Self::Key { index, fault } => write!(f, "the key set (JWKS), keys[{index}]: {fault}"),
        }
    }
}

impl std::error::Error for VerifierError {}
