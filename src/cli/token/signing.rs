//! Signing keys for tests and demonstrations, in place of an identity provider. A production server has no such key:
//! it only verifies.

use std::fmt;

use ::pem::{EncodeConfig, LineEnding};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::json;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::base::actor::{Actor, ActorKind};

/// The algorithms that tokens may be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SigningAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    #[value(name = "eddsa")]
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256, 2048 bits.
    Rs256,
}

impl SigningAlgorithm {
    /// Returns the `alg` of the JWS header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
        }
    }
}

/// Why a key cannot be made, read or used. No value contains any part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningError {
    /// A cryptographic operation failed; the text names it.
    Crypto(&'static str),
    /// The text has no PEM block of a private key.
    NoPrivateKey,
    /// The key is in another form than PKCS#8.
    NotPkcs8,
    /// The key is encrypted.
    Encrypted,
    /// The PEM block is cut off or is not base64.
    PemMalformed,
    /// The key is PKCS#8, but for none of the three algorithms.
    Unsupported,
    /// The claims are not a JSON object.
    ClaimsUnfit,
}

impl fmt::Display for SigningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crypto(what) => return write!(f, "{what} failed"),
            Self::NoPrivateKey => "holds no private key in PEM form (BEGIN PRIVATE KEY)",
            Self::NotPkcs8 => {
                "holds a private key that is not in PKCS#8 form; convert it with `openssl pkcs8 -topk8 -nocrypt`"
            }
            Self::Encrypted => {
                "holds an encrypted private key; decrypt it with `openssl pkcs8 -topk8 -nocrypt`"
            }
            Self::PemMalformed => "is cut off or damaged: the PEM block of its key cannot be read",
            Self::Unsupported => {
                "holds a private key that is not of P-256, Ed25519 or RSA with 2048 to 8192 bits"
            }
            Self::ClaimsUnfit => "cannot sign claims that are no JSON object",
        })
    }
}

impl std::error::Error for SigningError {}

enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(Box<RsaKeyPair>),
}

/// The public part of a key, in base64url as in a JWK.
enum Public {
    P256 { x: String, y: String },
    Ed25519 { x: String },
    Rsa { n: String, e: String },
}

/// A private key that signs tokens. Its id is the RFC 7638 thumbprint of its public part, so the
/// private key alone is enough to sign for a key set that was published earlier.
pub struct SigningKey {
    pair: Pair,
    public: Public,
    kid: String,
}

impl SigningKey {
    /// Generates a key from the system's random numbers. RSA takes up to a second.
    pub fn generate(algorithm: SigningAlgorithm) -> Result<Self, SigningError> {
        let failed = |_| SigningError::Crypto("generating a key");
        Self::from_pair(match algorithm {
            SigningAlgorithm::Es256 => Pair::Es256(
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(failed)?,
            ),
            SigningAlgorithm::EdDsa => Pair::EdDsa(Ed25519KeyPair::generate().map_err(failed)?),
            SigningAlgorithm::Rs256 => Pair::Rs256(Box::new(
                RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?,
            )),
        })
    }

    /// Reads the first private key of a PEM file, in PKCS#8 form. The key determines its algorithm.
    pub fn from_pem(pem: &str) -> Result<Self, SigningError> {
        let key = pkcs8_of(pem)?;
        let der = key.secret_pkcs8_der();
        let pair = if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
        {
            Pair::Es256(pair)
        } else if let Ok(pair) = Ed25519KeyPair::from_pkcs8(der) {
            Pair::EdDsa(pair)
        } else if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
            Pair::Rs256(Box::new(pair))
        } else {
            return Err(SigningError::Unsupported);
        };
        Self::from_pair(pair)
    }

    fn from_pair(pair: Pair) -> Result<Self, SigningError> {
        let public = Public::of(&pair)?;
        let kid = public.thumbprint();
        Ok(Self { pair, public, kid })
    }

    /// Returns the private key as PKCS#8 in PEM form: a secret.
    pub fn to_pem(&self) -> Result<String, SigningError> {
        let failed = |_| SigningError::Crypto("writing a key as PKCS#8");
        let der = match &self.pair {
            Pair::Es256(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Pair::EdDsa(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Pair::Rs256(pair) => {
                let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
                der.as_ref().to_vec()
            }
        };
        let block = ::pem::Pem::new("PRIVATE KEY", der);
        let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
        Ok(::pem::encode_config(&block, lines))
    }

    /// Returns the algorithm of the key.
    pub fn algorithm(&self) -> SigningAlgorithm {
        match self.pair {
            Pair::Es256(_) => SigningAlgorithm::Es256,
            Pair::EdDsa(_) => SigningAlgorithm::EdDsa,
            Pair::Rs256(_) => SigningAlgorithm::Rs256,
        }
    }

    /// Returns the key's id: its RFC 7638 thumbprint.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the public part as a JWK (RFC 7517).
    pub fn jwk(&self) -> serde_json::Value {
        let mut jwk = match &self.public {
            Public::P256 { x, y } => json!({"kty": "EC", "crv": "P-256", "x": x, "y": y}),
            Public::Ed25519 { x } => json!({"kty": "OKP", "crv": "Ed25519", "x": x}),
            Public::Rsa { n, e } => json!({"kty": "RSA", "n": n, "e": e}),
        };
        jwk["kid"] = self.kid.as_str().into();
        jwk["alg"] = self.algorithm().name().into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// Returns a key set (JWKS) that contains only the public part, for `serve --jwks`.
    pub fn jwks(&self) -> String {
        format!("{:#}\n", json!({"keys": [self.jwk()]}))
    }

    /// Signs claims as a JWT in JWS compact form. Usually these are [`Claims`]; any type that serializes to a JSON
    /// object is accepted, so that tests can sign what no provider should.
    pub fn sign<T: Serialize>(&self, claims: &T) -> Result<String, SigningError> {
        let claims = serde_json::to_vec(claims)
            .ok()
            .filter(|json| json.first() == Some(&b'{'))
            .ok_or(SigningError::ClaimsUnfit)?;
        let header = json!({"alg": self.algorithm().name(), "kid": self.kid, "typ": "JWT"});
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.sign_bytes(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    fn sign_bytes(&self, message: &[u8]) -> Result<Vec<u8>, SigningError> {
        let failed = |_| SigningError::Crypto("signing");
        match &self.pair {
            Pair::Es256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::EdDsa(pair) => {
                let signature = pair.try_sign(message).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    message,
                    &mut signature,
                )
                .map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

/// Shows the key's id and nothing of its secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("algorithm", &self.algorithm())
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

impl Public {
    fn of(pair: &Pair) -> Result<Self, SigningError> {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match pair {
            Pair::Es256(pair) => match pair.public_key().as_ref() {
                // SEC 1 section 2.3.3: 4 means that both coordinates follow in full.
                [4, point @ ..] if point.len() == 64 => {
                    let (x, y) = point.split_at(32);
                    Ok(Self::P256 {
                        x: encode(x),
                        y: encode(y),
                    })
                }
                _ => Err(SigningError::Crypto(
                    "reading the public part of a P-256 key",
                )),
            },
            Pair::EdDsa(pair) => Ok(Self::Ed25519 {
                x: encode(pair.public_key().as_ref()),
            }),
            Pair::Rs256(pair) => {
                let components = &jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.key_utils;
                let (n, e) =
                    (components.rsa_pub_components_from_public_key)(pair.public_key().as_ref())
                        .map_err(|_| {
                            SigningError::Crypto("reading the public part of an RSA key")
                        })?;
                Ok(Self::Rsa {
                    n: encode(&n),
                    e: encode(&e),
                })
            }
        }
    }

    /// Computes the thumbprint (RFC 7638 section 3): SHA-256 of the required members in the order of their names.
    fn thumbprint(&self) -> String {
        let canonical = match self {
            Self::P256 { x, y } => format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#),
            // RFC 8037 section 2.
            Self::Ed25519 { x } => format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#),
            Self::Rsa { n, e } => format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#),
        };
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, canonical.as_bytes()))
    }
}

/// Returns the first private key of a PEM file, which has to be in PKCS#8 form.
fn pkcs8_of(pem: &str) -> Result<PrivatePkcs8KeyDer<'static>, SigningError> {
    match PrivateKeyDer::from_pem_slice(pem.as_bytes()) {
        Ok(PrivateKeyDer::Pkcs8(key)) => Ok(key),
        Ok(_) => Err(SigningError::NotPkcs8),
        Err(pem::Error::NoItemsFound) if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") => {
            Err(SigningError::Encrypted)
        }
        Err(pem::Error::NoItemsFound) => Err(SigningError::NoPrivateKey),
        Err(_) => Err(SigningError::PemMalformed),
    }
}

/// The claims of a token: the registered ones (RFC 7519 section 4.1) and those of the actor. Empty ones are left out.
/// They hold personal data, so there is no debug output.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The issuer of the token.
    pub iss: String,
    /// The audience of the token.
    pub aud: String,
    /// The user id.
    pub sub: String,
    /// When it was issued, in seconds since 1970.
    pub iat: u64,
    /// When it expires, in seconds since 1970.
    pub exp: u64,
    /// The kind of actor.
    pub actor_kind: ActorKind,
    /// The member of a family account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// The profile that the actor acts under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_profile_id: Option<String>,
    /// The branches that the actor acts for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branch_profile_ids: Vec<String>,
    /// The permissions of the actor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// The e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether the address is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
}

impl Claims {
    /// Returns the required claims; the optional ones are empty.
    pub fn new(
        issuer: &str,
        audience: &str,
        subject: &str,
        kind: ActorKind,
        issued_at_seconds: u64,
        ttl_seconds: u64,
    ) -> Self {
        Self {
            iss: issuer.into(),
            aud: audience.into(),
            sub: subject.into(),
            iat: issued_at_seconds,
            exp: issued_at_seconds.saturating_add(ttl_seconds),
            actor_kind: kind,
            member_id: None,
            actor_profile_id: None,
            branch_profile_ids: Vec::new(),
            permissions: Vec::new(),
            email: None,
            email_verified: None,
        }
    }

    /// Returns the claims for this actor.
    #[must_use]
    pub fn of(
        actor: &Actor,
        issuer: &str,
        audience: &str,
        issued_at_seconds: u64,
        ttl_seconds: u64,
    ) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let texts = |texts: &[Box<str>]| texts.iter().map(|text| text.to_string()).collect();
        Self {
            member_id: actor.member_id.as_ref().map(ToString::to_string),
            actor_profile_id: text(&actor.actor_profile_id),
            branch_profile_ids: texts(&actor.branch_profile_ids),
            permissions: texts(&actor.permissions),
            email: text(&actor.email),
            email_verified: actor.email.as_ref().map(|_| actor.email_verified),
            ..Self::new(
                issuer,
                audience,
                &actor.subject,
                actor.kind,
                issued_at_seconds,
                ttl_seconds,
            )
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::http::token::{TokenRefusal, TokenVerifier};

    const NOW: u64 = 1_800_000_000;
    const NOW_MS: i64 = 1_800_000_000_000;

    fn claims() -> Claims {
        Claims {
            member_id: Some("member-1".into()),
            actor_profile_id: Some("profile-1".into()),
            branch_profile_ids: vec!["branch-1".into(), "branch-2".into()],
            permissions: vec!["payment:authorize".into()],
            email: Some("mina@example.org".into()),
            email_verified: Some(true),
            ..Claims::new("iss", "aud", "user-1", ActorKind::FamilyMember, NOW, 60)
        }
    }

    /// Generates, writes, reads and publishes a key, signs a token and verifies it.
    fn round_trip(algorithm: SigningAlgorithm) {
        let generated = SigningKey::generate(algorithm).unwrap();
        let pem = generated.to_pem().unwrap();
        let key = SigningKey::from_pem(&pem).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        assert_eq!(key.kid(), generated.kid());
        assert_eq!(key.jwks(), generated.jwks());
        assert_eq!(key.to_pem().unwrap(), pem);
        assert!(pem.lines().all(|line| line.len() <= 64), "{algorithm:?}");

        let shown = format!("{key:?}");
        assert!(shown.contains(key.kid()));
        let secret = pem.lines().nth(1).unwrap();
        assert!(!shown.contains(secret));

        let verifier = TokenVerifier::new(key.jwks().as_bytes(), "iss", "aud").unwrap();
        assert!(verifier.skipped_keys().is_empty());
        let token = key.sign(&claims()).unwrap();
        let actor = verifier.verify(&token, NOW_MS).unwrap();
        assert_eq!(&*actor.subject, "user-1");
        assert_eq!(actor.kind, ActorKind::FamilyMember);
        assert_eq!(actor.member_id.as_deref(), Some("member-1"));
        assert_eq!(actor.profile_id(), "profile-1");
        assert!(actor.names_branch("branch-1") && actor.names_branch("branch-2"));
        assert!(actor.has_permission("payment:authorize"));
        assert_eq!(actor.verified_email(), Some("mina@example.org"));

        // The same claims with a forged signature of the right length.
        let (message, signature) = token.rsplit_once('.').unwrap();
        let mut forged = URL_SAFE_NO_PAD.decode(signature).unwrap();
        forged[7] ^= 1;
        let forged = format!("{message}.{}", URL_SAFE_NO_PAD.encode(forged));
        assert_eq!(
            verifier.verify(&forged, NOW_MS),
            Err(TokenRefusal::SignatureInvalid)
        );
    }

    #[test]
    fn es256_tokens_are_accepted_by_the_verifier() {
        round_trip(SigningAlgorithm::Es256);
    }

    #[test]
    fn eddsa_tokens_are_accepted_by_the_verifier() {
        round_trip(SigningAlgorithm::EdDsa);
    }

    // No other test generates an RSA key, because that takes long in debug builds.
    #[test]
    fn rs256_tokens_are_accepted_by_the_verifier() {
        round_trip(SigningAlgorithm::Rs256);
    }

    #[test]
    fn another_key_of_the_same_algorithm_is_not_accepted() {
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        let other = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        assert_ne!(key.kid(), other.kid());
        let verifier = TokenVerifier::new(key.jwks().as_bytes(), "iss", "aud").unwrap();
        let token = other.sign(&claims()).unwrap();
        assert_eq!(
            verifier.verify(&token, NOW_MS),
            Err(TokenRefusal::KeyUnknown)
        );
    }

    #[test]
    fn thumbprints_are_those_of_the_rfcs() {
        // RFC 7638 section 3.1.
        let rsa = Public::Rsa {
            n: "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw".into(),
            e: "AQAB".into(),
        };
        assert_eq!(
            rsa.thumbprint(),
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
        );
        // RFC 8037 A.3.
        let ed25519 = Public::Ed25519 {
            x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".into(),
        };
        assert_eq!(
            ed25519.thumbprint(),
            "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
        );
    }

    #[test]
    fn a_key_in_another_form_is_refused_with_the_way_out() {
        let pem = SigningKey::generate(SigningAlgorithm::Es256)
            .unwrap()
            .to_pem()
            .unwrap();
        let cases = [
            (String::new(), SigningError::NoPrivateKey),
            (pem.replace("PRIVATE", "PUBLIC"), SigningError::NoPrivateKey),
            (pem.replace("PRIVATE", "EC PRIVATE"), SigningError::NotPkcs8),
            (
                pem.replace("PRIVATE", "ENCRYPTED PRIVATE"),
                SigningError::Encrypted,
            ),
            (
                pem.replace("-----END", "-----FIN"),
                SigningError::PemMalformed,
            ),
            (
                pem.replace("KEY-----\nM", "KEY-----\n*"),
                SigningError::PemMalformed,
            ),
            (
                pem.replace("KEY-----\nM", "KEY-----\nA"),
                SigningError::Unsupported,
            ),
        ];
        for (pem, expected) in cases {
            assert_eq!(SigningKey::from_pem(&pem).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_key_is_found_after_other_text_and_with_other_line_ends() {
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        let pem = format!("Made for a test\n\n{}", key.to_pem().unwrap()).replace('\n', "\r\n");
        assert_eq!(SigningKey::from_pem(&pem).unwrap().kid(), key.kid());
    }

    #[test]
    fn an_ed25519_key_as_openssl_writes_it_is_read() {
        // RFC 8410 section 10.3, the first form: no public part beside the private one.
        let pem = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
            -----END PRIVATE KEY-----\n";
        let key = SigningKey::from_pem(pem).unwrap();
        assert_eq!(key.algorithm(), SigningAlgorithm::EdDsa);
        // RFC 8410 section 10.1 has the public part of the same key.
        assert_eq!(
            key.jwk()["x"],
            "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE"
        );
    }

    #[test]
    fn only_an_object_is_signed_as_claims() {
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        assert_eq!(key.sign(&[1, 2]), Err(SigningError::ClaimsUnfit));
        assert_eq!(key.sign(&"sub"), Err(SigningError::ClaimsUnfit));
        assert!(key.sign(&json!({})).is_ok());
    }

    #[test]
    fn empty_claims_are_omitted() {
        let claims = Claims::new("iss", "aud", "user-1", ActorKind::Mother, NOW, 60);
        assert_eq!(
            serde_json::to_value(&claims).unwrap(),
            json!({
                "iss": "iss", "aud": "aud", "sub": "user-1",
                "iat": NOW, "exp": NOW + 60, "actor_kind": "mother",
            })
        );
    }
}
