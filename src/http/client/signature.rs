//! The signatures of webhooks and messages, those of Standard Webhooks (`v1`, HMAC-SHA256), and the headers that have
//! them.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// Allowed length of a secret that was not derived here, in bytes, as Standard Webhooks define it.
const GIVEN_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret with which messages are signed.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Creates the secret of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Parses a text `whsec_…` of 24 to 64 bytes in base64, as Standard Webhooks specify; `None` for another text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(text.strip_prefix("whsec_")?).ok()?;
        let secret = Self(bytes.into());
        GIVEN_BYTES.contains(&secret.0.len()).then_some(secret)
    }

    /// Returns the secret in the form that its receiver gets.
    #[must_use]
    pub fn text(&self) -> String {
        format!("whsec_{}", BASE64_STANDARD.encode(&self.0))
    }

    /// Returns the signature of a body that is sent under this identifier at this time, in seconds since 1970.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut context = hmac::Context::with_key(&key);
        context.update(id.as_bytes());
        context.update(b".");
        context.update(timestamp.to_string().as_bytes());
        context.update(b".");
        context.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
    }
}

/// Returns the header `webhook-signature`: one signature for each secret.
#[must_use]
pub fn signatures(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let each = secrets
        .iter()
        .map(|secret| secret.sign(id, timestamp, body));
    each.collect::<Vec<_>>().join(" ")
}

/// Returns the headers of a message, as Standard Webhooks call it, with this content type and identifier, sent at
/// this time, in seconds since 1970. Without secrets the message is not signed.
#[must_use]
pub fn signed_headers(
    content_type: HeaderValue,
    id: &str,
    timestamp: i64,
    secrets: &[Secret],
    body: &[u8],
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, content_type);
    let signature = signatures(secrets, id, timestamp, body);
    let fields = [
        ("webhook-id", id),
        ("webhook-timestamp", &timestamp.to_string()),
        ("webhook-signature", &signature),
    ];
    for (name, value) in fields {
        let name = HeaderName::from_static(name);
        let value = HeaderValue::try_from(value);
        headers.extend(
            value
                .ok()
                .filter(|value| !value.is_empty())
                .map(|value| (Some(name), value)),
        );
    }
    headers
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        // HMAC-SHA256 of `log-1-0.1700000000.{}`, computed by another program.
        let secret = Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        assert_eq!(secret.0[31], 31);
        assert_eq!(
            secret.text(),
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        );
        let signature = secret.sign("log-1-0", 1_700_000_000, b"{}");
        assert_eq!(signature, "v1,5XvK+G+BcqPqDeVjoXLMgnmsaCh01MAfeiWcJtvxXZ4=");
    }

    #[test]
    fn an_imported_secret_has_24_to_64_bytes_of_base64_after_its_prefix() {
        // The example of the specification's reference implementations.
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            b"{\"test\": 2432232314}",
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let of = |bytes| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; bytes]));
        for bad in [
            "",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_!!",
            &of(23),
            &of(65),
        ] {
            assert!(Secret::parse(bad).is_none(), "{bad}");
        }
        assert!(Secret::parse(&of(64)).is_some());
    }
}
