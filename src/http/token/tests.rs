//! Tests with valid tokens, and with invalid ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::key_set::{Judged, judge_key, rsa_units};
use super::published::{VECTORS, Vector};
use super::*;
use crate::base::actor::ActorKind;

const ISSUER: &str = "https://idp.example";
const AUDIENCE: &str = "carebook";
const NOW: i64 = 1_800_000_000;
const NOW_MS: i64 = NOW * 1000;

/// A provider's key, with which tests can sign any content.
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

/// Returns one key, `k1`, and a verifier that knows it.
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
    // URLs of keys in the header are ignored.
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
fn a_token_that_is_no_compact_jws_is_refused() {
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
        // A token with five parts, as an encrypted one (JWE) has.
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
    let token_of =
        |filling: usize| signer.token("k1", &claims_with("filling", "x".repeat(filling).into()));
    let overhead = token_of(0).len();
    // Three bytes of claims are four characters of the token.
    let filling = (TOKEN_BYTES_MAX - overhead) / 4 * 3;
    let fits = token_of(filling);
    assert!(fits.len() <= TOKEN_BYTES_MAX && fits.len() > TOKEN_BYTES_MAX - 8);
    assert!(verifier.verify(&fits, NOW_MS).is_ok());
    refused(&verifier, &token_of(filling + 12), TokenRefusal::TooLong);
    // The limit is exact: up to it the token is parsed.
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
    // Unused fields are skipped without recursion.
    assert!(verifier.verify(&token, NOW_MS).is_ok());
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
        // The foreign key in the header does not help.
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
        "none", "None", "", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384",
        "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA", "Ed25519", "eddsa", "es256",
        "ES256 ",
    ];
    for (kid, right) in [
        ("p256", "ES256"),
        ("ed25519", "EdDSA"),
        ("published", "RS256"),
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
        // The right `alg` with a signature of another algorithm.
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
        ("published", "RS256", modulus),
        ("published", "RS256", jwk_text),
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
        // The time in milliseconds, which would be valid for fifty thousand years.
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
    // A number beyond the range of floating-point numbers.
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
    // The token is verified again, and cached from then on.
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
fn the_cache_of_verified_tokens_is_bounded() {
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
    // 300 tokens do not fit, but some are cached.
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
    assert!(set_fault(repeated.as_bytes()).contains("a field is repeated"));
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
        // A key that is skipped may even share its id with a key that is used.
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
fn an_invalid_key_set_is_refused_without_being_quoted() {
    let key = Signer::p256();
    let many: Vec<_> = (0..33)
        .map(|number| key.jwk(&format!("k{number}")))
        .collect();
    assert!(TokenVerifier::new(&jwks(&many[..32]), ISSUER, AUDIENCE).is_ok());
    let large = with(key.jwk("k"), "x5c", json!(["x".repeat(KEY_SET_BYTES_MAX)]));
    let cases: [(&[u8], &str); 8] = [
        (b"", "is not a JSON object"),
        (
            b"c2VjcmV0",
            "is not a JSON object with an array `keys`; give",
        ),
        (b"{}", "is not a JSON object"),
        (b"[]", "is not a JSON object with an array `keys`; give"),
        (
            br#"{"keys":"c2VjcmV0"}"#,
            "is not a JSON object with an array `keys` (line 1, column ",
        ),
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
    let Judged::Used(_, key) = judge_key(&padded.to_string()).unwrap() else {
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
fn published_vectors_expose_a_verifier_that_refuses_or_accepts_all() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    for vector in VECTORS {
        assert!(vector.holds());
        for other in VECTORS.iter().filter(|other| other.kind != vector.kind) {
            let (jwk, signature) = (other.jwk, other.signature);
            assert!(!Vector { jwk, ..vector }.holds());
            assert!(
                !Vector {
                    signature,
                    ..vector
                }
                .holds()
            );
        }
    }
}

#[test]
fn published_signatures_are_taken_and_forgeries_are_not_by_each_algorithm() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    for vector in &VECTORS {
        let Judged::Used(_, key) = judge_key(vector.jwk).unwrap() else {
            panic!("{} is a key", vector.jwk);
        };
        assert_eq!(key.kind, vector.kind);
        assert!(key.signed(vector.message, vector.signature));
        let (_, claims) = vector.message.split_once('.').unwrap();
        assert!(!key.signed(claims, vector.signature));
        assert!(!key.signed(vector.message, ""));
        let last = vector.signature.len() - 4;
        let changed = format!("{}AAAA", &vector.signature[..last]);
        assert!(!key.signed(vector.message, &changed));
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
fn an_empty_reloaded_key_set_accepts_nobody_until_another_is_read() {
    let (signer, verifier) = one_key();
    let token = signer.token("k1", &claims());
    assert!(verifier.verify(&token, NOW_MS).is_ok());
    let now = Instant::now();
    let nobody = jwks(&[]);
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

#[test]
fn a_key_set_without_a_usable_key_is_refused_and_the_last_one_stays() {
    let (signer, verifier) = one_key();
    let token = signer.token("k1", &claims());
    for unusable in [
        json!({"kty": "RSA", "kid": "e", "use": "enc"}),
        json!({"kty": "unheard-of", "kid": "k2"}),
    ] {
        let refused = verifier.reload(&jwks(&[unusable]), Instant::now());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, VerifierError::KeySet(_)), "{refused}");
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
    // Reading the same keys again puts them in use again.
    assert_eq!(verifier.reload(&good, at(4_000)), Ok(Reload::Replaced));
    assert!(verifier.verify(&token, NOW_MS).is_ok());
    assert!(!verifier.expire(at(7_600), max_age));
}

#[test]
fn verification_cost_is_known_ahead_and_formerly_good_tokens_recognised() {
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
    // An expired token costs no verification any more.
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
    // The most expensive key costs several units.
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
fn a_header_without_exactly_one_token_is_malformed() {
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
    let all = TokenRefusal::ALL;
    let words: std::collections::HashSet<_> = all.iter().map(|one| one.code()).collect();
    let sentences: std::collections::HashSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!((words.len(), sentences.len()), (all.len(), all.len()));
}
