//! The secrets of webhooks: a secret is derived from the master key, the subscription and the secret's number, so it
//! need not be stored.

use aws_lc_rs::hmac;
use uuid::Uuid;

use crate::base::hex::hex;
use crate::http::client::signature::Secret;

/// Length of a fingerprint, in bytes.
const FINGERPRINT_BYTES: usize = 8;
/// Length of a derived secret, and of the master key, in bytes.
pub const SECRET_BYTES: usize = 32;

/// The master key that all secrets are derived from.
pub struct MasterKey(hmac::Key);

impl MasterKey {
    /// Creates the master key from these bytes.
    #[must_use]
    pub fn new(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the subscription's secret with this number.
    #[must_use]
    pub fn secret(&self, subscription: Uuid, number: u32) -> Secret {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"carebook webhook secret 1\0");
        context.update(subscription.as_bytes());
        context.update(&number.to_be_bytes());
        Secret::new(context.sign().as_ref())
    }

    /// Returns the fingerprint that identifies the key; neither the key nor a secret can be derived from it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"carebook webhook key fingerprint 1\0");
        hex(&context.sign().as_ref()[..FINGERPRINT_BYTES])
    }
}

/// Returns the response body with the secret in the place of its number, which is the last field; `None` if the body
/// has no secret's number.
#[must_use]
pub fn told(key: &MasterKey, body: &[u8]) -> Option<Vec<u8>> {
    const NUMBER: &str = ",\"secretNumber\":";
    const ID: &str = "{\"subscriptionId\":\"";
    let text = std::str::from_utf8(body).ok()?;
    let (rest, number) = text.strip_suffix('}')?.rsplit_once(NUMBER)?;
    let id = rest.strip_prefix(ID)?.split_once('"')?.0;
    let secret = key.secret(id.parse().ok()?, number.parse().ok()?);
    Some(format!("{rest},\"secret\":\"{}\"}}", secret.text()).into_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_subscription_and_number_has_its_own_stable_secret() {
        let key = MasterKey::new(&[7; 32]);
        let secret = |id: u128, number| key.secret(Uuid::from_u128(id), number).text();
        assert_eq!(secret(1, 1), secret(1, 1));
        assert_ne!(secret(1, 1), secret(1, 2));
        assert_ne!(secret(1, 1), secret(2, 1));
        let other = MasterKey::new(&[8; 32])
            .secret(Uuid::from_u128(1), 1)
            .text();
        assert_ne!(secret(1, 1), other);
    }

    #[test]
    fn each_key_has_a_fingerprint_of_its_own_and_always_the_same() {
        let of = |byte| MasterKey::new(&[byte; 32]).fingerprint();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert_eq!(of(7).len(), 16);
    }

    #[test]
    fn an_answer_is_told_with_the_secret_in_the_place_of_its_number() {
        let key = MasterKey::new(&[7; 32]);
        let id = Uuid::from_u128(5);
        let body = format!(
            r#"{{"subscriptionId":"{id}","description":",\"secretNumber\":9}}","secretNumber":2}}"#
        );
        let told = String::from_utf8(told(&key, body.as_bytes()).unwrap()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(value["secret"], key.secret(id, 2).text());
        assert_eq!(value["description"], ",\"secretNumber\":9}");
        assert!(value.get("secretNumber").is_none());
        assert_eq!(super::told(&key, b"{\"subscriptionId\":\"x\"}"), None);
    }
}
