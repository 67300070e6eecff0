//! A receiver of messages over HTTP: each message is one POST, and any 2xx response acknowledges it. With a secret,
//! messages are signed as Standard Webhooks specify.

use bytes::Bytes;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::base::time::Timestamp;
use crate::engine::channel::schedule::Failure;
use crate::engine::outbox::{Delivery, OutgoingMessage, Receiver};
use crate::http::client::dial::port_of;
use crate::http::client::signature::{Secret, signed_headers};
use crate::http::post::{Client, Judge};

/// The URL of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverUrl(Box<str>);

impl ReceiverUrl {
    /// Parses the URL of a receiver.
    ///
    /// # Errors
    /// When the text is no URL of the form `http://HOST[:PORT][/PATH]`, or the same with `https`; it says why.
    pub fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("it has to begin with http:// or https://".to_owned());
        }
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err("a user name in it is not supported".to_owned());
        }
        if authority.host().is_empty() {
            return Err("it names no host".to_owned());
        }
        port_of(authority)?;
        Ok(Self(url.into()))
    }
}

/// Parses the secret in a file of one line.
///
/// # Errors
/// When the text has no such line; the error says why, without the secret.
pub fn secret_of(text: &str) -> Result<Secret, String> {
    let mut lines = text.lines();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Err("a secret is one line".to_owned());
    };
    let unfit = "a secret is whsec_ and 24 to 64 bytes in base64";
    Secret::parse(line).ok_or_else(|| unfit.to_owned())
}

/// A receiver over HTTP.
pub struct HttpReceiver {
    url: ReceiverUrl,
    secret: Vec<Secret>,
    client: Client,
}

#[derive(Serialize)]
struct Body<'a> {
    number: i64,
    topic: &'a str,
    resource: &'a str,
    at: Timestamp,
    body: &'a RawValue,
}

impl HttpReceiver {
    /// Creates a receiver at this URL, to which `client` sends the requests.
    #[must_use]
    pub fn new(url: ReceiverUrl, secret: Option<Secret>, client: Client) -> Self {
        Self {
            url,
            secret: secret.into_iter().collect(),
            client,
        }
    }

    async fn post(&self, message: &OutgoingMessage) -> Result<(), Failure> {
        let body = body_of(message).map_err(|_| Failure {
            status: None,
            error: "the message cannot be written".into(),
            retry_after: None,
        })?;
        let timestamp = message.sent_at.millis().div_euclid(1_000);
        let json = HeaderValue::from_static("application/json");
        let mut headers = signed_headers(json, &message.id, timestamp, &self.secret, &body);
        if let Some(id) = headers.get("webhook-id").cloned() {
            headers.insert(HeaderName::from_static("idempotency-key"), id);
        }
        // Every address is allowed, because the operator has set the URL.
        let judge = Judge::Anywhere;
        self.client
            .deliver("message delivery", &self.url.0, &judge, headers, body)
            .await
    }
}

fn body_of(message: &OutgoingMessage) -> serde_json::Result<Bytes> {
    let body = serde_json::to_vec(&Body {
        number: message.number,
        topic: &message.topic,
        resource: &message.resource,
        at: message.at,
        body: serde_json::from_slice(&message.body.0)?,
    })?;
    Ok(body.into())
}

impl Receiver for HttpReceiver {
    fn deliver<'a>(&'a self, message: &'a OutgoingMessage) -> Delivery<'a> {
        Box::pin(self.post(message))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_may_have_a_port_and_a_path() {
        for url in [
            "http://directory",
            "https://directory",
            "http://d.example:81/a?b=c",
            "http://[::1]:9/a/",
        ] {
            assert!(ReceiverUrl::new(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "directory:80",
            "ftp://directory",
            "http://",
            "http://a@b/",
            "http://127.0.0.1:99999/in",
            "https://directory:/",
            "/a",
        ] {
            assert!(ReceiverUrl::new(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_secret_is_one_line() {
        let line = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        for good in [line.to_owned(), format!("{line}\n"), format!("{line}\r\n")] {
            assert!(secret_of(&good).is_ok(), "{good:?}");
        }
        for bad in [
            String::new(),
            format!("{line}\nmore"),
            "whsec_AAAA".to_owned(),
        ] {
            assert!(secret_of(&bad).is_err(), "{bad:?}");
        }
    }
}
