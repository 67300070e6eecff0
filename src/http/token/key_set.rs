//! The identity provider's key set (JWKS), and the selection of the keys that are used.

use std::collections::HashMap;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::refusal::{KEY_ID_BYTES_MAX, VerifierError};

/// Maximum size of a key set (JWKS), in bytes.
pub const KEY_SET_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of keys in a key set.
pub const KEY_SET_KEYS_MAX: usize = 32;
/// Bounds on the length of RSA moduli: shorter ones are too weak, longer ones too expensive.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// The keys that can verify tokens, by their id.
pub(super) struct KeySet {
    pub(super) generation: u64,
    pub(super) keys: HashMap<Box<str>, Key>,
    pub(super) skipped: Vec<String>,
}

/// The type of a key, which also determines the algorithm: each type has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    P256,
    Ed25519,
    Rsa,
}

impl KeyKind {
    /// Returns the `alg` of tokens signed by such a key (RFC 7518 section 3.1, RFC 8037 section 3.1).
    pub(super) const fn name(self) -> &'static str {
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

    /// Whether `alg` is used with keys of this type: such a key is valid, but may be for other purposes. Any other
    /// `alg` contradicts the type.
    fn is_used_with(self, alg: &str) -> bool {
        match self {
            Self::P256 => alg.starts_with("ES") || alg.starts_with("ECDH-"),
            Self::Ed25519 => alg == "EdDSA" || alg == "Ed25519",
            Self::Rsa => ["RS", "PS"].iter().any(|family| alg.starts_with(family)),
        }
    }
}

pub(super) struct Key {
    pub(super) kind: KeyKind,
    decoding: DecodingKey,
    /// The cost of verifying a signature, in the units of [`Recalled::Unknown`].
    pub(super) units: u32,
    /// Identifies the key: SHA-256 of its public part.
    fingerprint: [u8; 32],
}

impl Key {
    /// Whether this key signed the message. An internal error counts as no.
    pub(super) fn signed(&self, message: &str, signature: &str) -> bool {
        matches!(
            jsonwebtoken::crypto::verify(
                signature,
                message.as_bytes(),
                &self.decoding,
                self.kind.algorithm(),
            ),
            Ok(true)
        )
    }
}

/// The known key types. Nothing is assumed about the fields of other types, not even their JSON types.
const KINDS: [&str; 4] = ["EC", "OKP", "RSA", "oct"];

/// The fields that every key has.
#[derive(Deserialize)]
struct AnyJwk {
    kty: String,
    d: Option<IgnoredAny>,
}

/// The fields of a JWK that are used (RFC 7517 section 4); a duplicate field makes the JWK invalid.
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

/// The result for one key of a set.
pub(super) enum Judged {
    Used(Box<str>, Key),
    /// The key is valid, but not used here: RFC 7517 section 5 allows sets to contain such keys.
    Skipped(String),
}

impl KeySet {
    pub(super) fn parse(jwks: &[u8], generation: u64) -> Result<Self, VerifierError> {
        if jwks.len() > KEY_SET_BYTES_MAX {
            return Err(VerifierError::KeySet(format!(
                "has more than {KEY_SET_BYTES_MAX} bytes, the most that are read"
            )));
        }
        let no_set = |error: serde_json::Error| {
            VerifierError::KeySet(format!(
                "is not a JSON object with an array `keys`{}; give the provider's JWKS document as it is published",
                place(&error)
            ))
        };
        // The parser's message is not passed on: it may quote the input, which could be a private key by mistake.
        let set: Jwks = object(jwks).map_err(no_set)?;
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
                Judged::Skipped(why) => skipped.push(format!("keys[{index}] is not used: {why}")),
                Judged::Used(kid, key) => {
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

    /// Returns the set if it has a key that can verify a token; without such a key a start makes no sense.
    pub(super) fn of_somebody(self) -> Result<Self, VerifierError> {
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

    /// Returns an empty set, with which every token is rejected.
    pub(super) fn of_nobody(generation: u64) -> Self {
        Self {
            generation,
            keys: HashMap::new(),
            skipped: Vec::new(),
        }
    }

    /// Returns the set, unless it has only keys that cannot verify a token. An empty set is valid: the provider has
    /// withdrawn all its keys.
    pub(super) fn of_somebody_or_empty(self) -> Result<Self, VerifierError> {
        match self.skipped.is_empty() {
            true => Ok(self),
            false => self.of_somebody(),
        }
    }

    pub(super) fn same_keys(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len()
            && self.keys.iter().all(|(kid, key)| {
                other.keys.get(kid).is_some_and(|known| {
                    known.kind == key.kind && known.fingerprint == key.fingerprint
                })
            })
    }
}

/// Validates one key: it is used, or skipped with a reason, or has a fault that rejects the whole set.
pub(super) fn judge_key(json: &str) -> Result<Judged, String> {
    let no_jwk = |error: serde_json::Error| {
        format!(
            "is not a JWK: a field is repeated, has a wrong type, or kty is missing{}",
            place(&error)
        )
    };
    let skip = |why: String| Ok(Judged::Skipped(why));
    let any: AnyJwk = object(json.as_bytes()).map_err(no_jwk)?;
    if any.d.is_none() && !KINDS.contains(&any.kty.as_str()) {
        return skip("its kty is none of EC, OKP and RSA".into());
    }
    let jwk: Jwk = object(json.as_bytes()).map_err(no_jwk)?;
    if jwk.kty == "oct" {
        return Err(
            "is a symmetric key (kty oct); whoever can read it can forge tokens, so remove it, and sign with ES256, EdDSA or RS256"
                .into(),
        );
    }
    if jwk.d.is_some() {
        return Err(
            "holds a private key (field d); publish the public part only, and replace the key if others could read it"
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
    Ok(Judged::Used(kid.into(), key))
}

/// Returns the place of the error; an empty text for an error of the whole text.
fn place(error: &serde_json::Error) -> String {
    match (error.line(), error.column()) {
        (0, _) => String::new(),
        (line, column) => format!(" (line {line}, column {column} of it)"),
    }
}

/// Parses a JSON object: serde alone would also read the fields of a struct from an array.
fn object<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    match json.trim_ascii_start().first() {
        None | Some(b'{') => serde_json::from_slice(json),
        Some(_) => Err(serde::de::Error::custom("not an object")),
    }
}

/// Decodes a base64url field.
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
    // Some programs write leading zero bytes, which do not change the number.
    let n = significant(&n);
    let e = significant(&e);
    let unused_bits = n.first().map_or(0, |first| first.leading_zeros());
    let bits = n.len() * 8 - usize::try_from(unused_bits).unwrap_or(0);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(format!(
            "its modulus has {bits} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} are taken"
        ));
    }
    // With the exponent 1 a message is its own signature; an even exponent cannot sign.
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

/// Returns the cost of verifying an RSA signature: the square of the modulus' length for each bit of the exponent.
/// With 4096 bits and the usual exponent it is about that of an elliptic-curve signature.
pub(super) fn rsa_units(bits: usize, exponent: &[u8]) -> u32 {
    const USUAL_EXPONENT_BITS: usize = 17;
    let leading = exponent.first().map_or(0, |first| first.leading_zeros());
    let exponent_bits = exponent.len() * 8 - usize::try_from(leading).unwrap_or(0);
    let squares = (bits.div_ceil(4096)).pow(2);
    let units = squares * exponent_bits.div_ceil(USUAL_EXPONENT_BITS);
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Returns a big-endian number without its leading zero bytes.
fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    digest
}
