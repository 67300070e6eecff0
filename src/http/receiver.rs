//! A receiver of messages over HTTP: a message is one POST, and any answer of the class 2xx says
//! that it was taken. With a secret, messages are signed as Standard Webhooks say.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::base::time::Instant;
use crate::engine::outbox::{Delivery, Outgoing, Receiver, Refused};

/// Where a receiver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverUrl {
    is_https: bool,
    host: Box<str>,
    port: u16,
    authority: HeaderValue,
    path: Box<str>,
}

impl ReceiverUrl {
    /// The receiver at this address.
    ///
    /// # Errors
    /// When it is no `http://HOST[:PORT][/PATH]`, nor with `https`; why.
    pub fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let (is_https, default_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err("it has to begin with http:// or https://".to_owned()),
        };
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err("a user name in it is not supported".to_owned());
        }
        let host = authority.host();
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            is_https,
            // An IPv6 address stands in brackets in a URL, and nowhere else.
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port: authority.port_u16().unwrap_or(default_port),
            authority: HeaderValue::try_from(authority.as_str())
                .map_err(|error| error.to_string())?,
            path: path.into(),
        })
    }
}

/// What messages are signed with.
pub struct Secret(hmac::Key);

impl Secret {
    /// Reads the one line of a file: `whsec_` and 24 to 64 bytes in base64.
    ///
    /// # Errors
    /// When there is no such line; why, without the secret.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let (Some(line), None) = (lines.next(), lines.next()) else {
            return Err("a secret is one line".to_owned());
        };
        let encoded = line.strip_prefix("whsec_");
        let encoded = encoded.ok_or("a secret begins with whsec_")?;
        let bytes = STANDARD.decode(encoded);
        let bytes = bytes.map_err(|_| "what follows whsec_ has to be base64".to_owned())?;
        if !(24..=64).contains(&bytes.len()) {
            return Err("a secret has 24 to 64 bytes".to_owned());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// The value of `webhook-signature`.
    fn signature(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mut signed = format!("{id}.{seconds}.").into_bytes();
        signed.extend_from_slice(body);
        format!("v1,{}", STANDARD.encode(hmac::sign(&self.0, &signed)))
    }
}

/// A receiver over HTTP.
pub struct HttpReceiver {
    url: ReceiverUrl,
    secret: Option<Secret>,
    tls: Option<TlsConnector>,
}

#[derive(Serialize)]
struct Body<'a> {
    number: i64,
    topic: &'a str,
    resource: &'a str,
    at: Instant,
    body: &'a RawValue,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl HttpReceiver {
    /// The receiver at this address. Over TLS it has to be of an authority that the system trusts.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(url: ReceiverUrl, secret: Option<Secret>) -> Result<Self, String> {
        let tls = match url.is_https {
            true => Some(connector().map_err(|error| error.to_string())?),
            false => None,
        };
        Ok(Self { url, secret, tls })
    }

    async fn post(&self, message: &Outgoing) -> Result<(), Refused> {
        let response = self.response(message).await.map_err(|error| Refused {
            error: error.to_string(),
            ..Refused::default()
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let retry_after = response.headers().get(RETRY_AFTER);
        Err(Refused {
            status: Some(status.as_u16()),
            error: format!("it answered {status}"),
            retry_after: retry_after.and_then(seconds_of),
        })
    }

    async fn response(&self, message: &Outgoing) -> Result<Response<()>, BoxError> {
        let request = self.request(message)?;
        let stream = TcpStream::connect((&*self.url.host, self.url.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => send(stream, request).await,
            Some(tls) => {
                let name = ServerName::try_from(self.url.host.to_string())?;
                send(tls.connect(name, stream).await?, request).await
            }
        }
    }

    fn request(&self, message: &Outgoing) -> Result<Request<Full<Bytes>>, BoxError> {
        let body = serde_json::to_vec(&Body {
            number: message.number,
            topic: &message.topic,
            resource: &message.resource,
            at: message.at,
            body: serde_json::from_slice(&message.body.0)?,
        })?;
        let seconds = u64::try_from(message.sent_at.millis() / 1_000)?;
        let mut request = Request::post(&*self.url.path)
            .header(HOST, &self.url.authority)
            .header(USER_AGENT, "carebook")
            .header(CONTENT_TYPE, "application/json")
            .header(CONNECTION, "close")
            .header("idempotency-key", &message.id)
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", seconds);
        if let Some(secret) = &self.secret {
            let signature = secret.signature(&message.id, seconds, &body);
            request = request.header("webhook-signature", signature);
        }
        Ok(request.body(Full::new(Bytes::from(body)))?)
    }
}

impl Receiver for HttpReceiver {
    fn deliver<'a>(&'a self, message: &'a Outgoing) -> Delivery<'a> {
        Box::pin(self.post(message))
    }
}

/// Sends the request; the head of its response. What the body of that says is not looked at.
async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<()>, BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(64 << 10)
        .handshake(TokioIo::new(stream))
        .await?;
    // Both end with this future: an attempt that is given up leaves no connection behind.
    let mut response = pin!(sender.send_request(request));
    let mut connection = pin!(connection);
    let response = tokio::select! {
        response = &mut response => response,
        ended = &mut connection => match ended {
            Ok(()) => response.await,
            Err(error) => Err(error),
        },
    };
    Ok(response?.map(drop))
}

/// The seconds that a `Retry-After` names; a date is not looked at.
fn seconds_of(value: &HeaderValue) -> Option<Duration> {
    let seconds = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn connector() -> Result<TlsConnector, BoxError> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is one less to trust.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_may_have_a_port_and_a_path() {
        for (url, is_https, host, port, authority, path) in [
            ("http://directory", false, "directory", 80, "directory", "/"),
            (
                "https://directory",
                true,
                "directory",
                443,
                "directory",
                "/",
            ),
            (
                "http://d.example:81/a?b=c",
                false,
                "d.example",
                81,
                "d.example:81",
                "/a?b=c",
            ),
            ("http://[::1]:9/a/", false, "::1", 9, "[::1]:9", "/a/"),
        ] {
            let receiver = ReceiverUrl::new(url).unwrap();
            assert_eq!(receiver.is_https, is_https);
            assert_eq!(&*receiver.host, host);
            assert_eq!(receiver.port, port);
            assert_eq!(receiver.authority, authority);
            assert_eq!(&*receiver.path, path);
        }
        for url in [
            "",
            "directory:80",
            "ftp://directory",
            "http://",
            "http://a@b/",
            "/a",
        ] {
            assert!(ReceiverUrl::new(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_signature_is_the_one_that_standard_webhooks_show() {
        // The example of the specification's reference implementations.
        let secret = Secret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let signature = secret.signature(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            b"{\"test\": 2432232314}",
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_one_line_of_base64_after_its_prefix() {
        for bad in [
            "",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_!!",
            "whsec_AAAA",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nmore",
        ] {
            assert!(Secret::read(bad).is_err(), "{bad}");
        }
    }
}
