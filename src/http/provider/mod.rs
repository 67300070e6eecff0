//! The identity provider at a URL: finds and fetches its keys over HTTPS.
//!
//! With an issuer alone, the URL of the keys comes from its discovery document (`OpenID` Connect Discovery 1.0,
//! section 4), which each reading fetches again. Redirects are not followed, plain HTTP is not spoken, and limits
//! bound the time and memory that a document takes, even from a hostile server. A reading that fails in any way
//! changes nothing: the last keys stay in use until they are too old.

mod fetch;
mod keeping;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::time::Duration;

use bytes::Bytes;

pub use self::fetch::{ANSWER_TIMEOUT, HttpsUrl};
pub use self::keeping::{FIRST_KEYS_PATIENCE, First, INTERVAL_MAX, INTERVAL_MIN};

use self::fetch::Fetcher;
use super::client::dial::Dialer;
use super::token::KEY_SET_BYTES_MAX;
use super::token::fields::{Fields, Text};

/// Maximum size of a discovery document, in bytes.
pub const DISCOVERY_BYTES_MAX: usize = 256 * 1024;
/// The path of the discovery document below the issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// An identity provider, and the way to find its keys.
pub struct Provider {
    fetcher: Fetcher,
    place: Place,
}

/// How the URL of the keys is found.
enum Place {
    /// The keys are at this URL.
    Known(HttpsUrl),
    /// The discovery document at this URL names the URL of the keys; the document has to name this issuer.
    Discovered { issuer: Box<str>, at: HttpsUrl },
}

/// The provider's key set.
struct Answered {
    jwks: Bytes,
    /// How long the key set is fresh, according to the response.
    max_age: Option<Duration>,
}

impl Provider {
    /// Returns the provider whose keys are at this URL.
    #[must_use]
    pub fn with_keys_at(url: HttpsUrl, dialer: Dialer) -> Self {
        Self {
            fetcher: Fetcher::new(dialer),
            place: Place::Known(url),
        }
    }

    /// Returns the provider that this issuer's discovery document describes.
    ///
    /// # Errors
    /// When the issuer is no `https` URL, or has a query or a fragment; the text says why.
    pub fn of_issuer(issuer: &str, dialer: Dialer) -> Result<Self, String> {
        let at = document_of(issuer)?;
        let issuer = issuer.into();
        Ok(Self {
            fetcher: Fetcher::new(dialer),
            place: Place::Discovered { issuer, at },
        })
    }

    /// Checks whether this issuer can have a discovery document.
    ///
    /// # Errors
    /// As for [`Self::of_issuer`].
    pub fn is_one(issuer: &str) -> Result<(), String> {
        document_of(issuer).map(drop)
    }

    /// Returns the URL that each reading requests first, for messages to people.
    #[must_use]
    pub fn url(&self) -> &HttpsUrl {
        match &self.place {
            Place::Known(url) | Place::Discovered { at: url, .. } => url,
        }
    }

    /// Reads the keys once.
    async fn read(&self) -> Result<Answered, String> {
        let found;
        let url = match &self.place {
            Place::Known(url) => url,
            Place::Discovered { issuer, at } => {
                let document = self.fetcher.get(at, DISCOVERY_BYTES_MAX).await?;
                found = keys_url(&document.body, issuer).map_err(|why| format!("{at} {why}"))?;
                &found
            }
        };
        let document = self.fetcher.get(url, KEY_SET_BYTES_MAX).await?;
        Ok(Answered {
            jwks: document.body,
            max_age: document.max_age,
        })
    }
}

/// Returns the URL of this issuer's discovery document.
fn document_of(issuer: &str) -> Result<HttpsUrl, String> {
    if issuer.contains(['?', '#']) {
        return Err("an issuer has neither a query nor a fragment".to_owned());
    }
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    HttpsUrl::read(&format!("{base}{WELL_KNOWN}"))
}

/// Returns the URL of the keys in a discovery document, which has to name this issuer.
fn keys_url(document: &[u8], issuer: &str) -> Result<HttpsUrl, String> {
    let document = Fields::read(document)
        .ok_or("is not a JSON object, or a member of it is there more than once")?;
    let text = |name: &str| {
        let value = document.raw(name).ok_or(format!("has no {name}"))?;
        let value = serde_json::from_str::<Text>(value);
        Ok::<_, String>(value.map_err(|_| format!("has no string as {name}"))?.0)
    };
    let named = text("issuer")?;
    if *named != *issuer {
        let named: String = named.chars().take(200).collect();
        return Err(format!("is of the issuer {named:?}, not of {issuer:?}"));
    }
    HttpsUrl::read(&text("jwks_uri")?).map_err(|why| format!("has an unfit jwks_uri: {why}"))
}
