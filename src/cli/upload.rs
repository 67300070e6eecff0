//! Facts on their way to a running server: one POST whose body is a stream, over HTTP or HTTPS.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, Error as TlsError, RootCertStore, crypto,
};

use super::exit::Failure;

/// How much is read, and sent, at once.
pub const CHUNK_BYTES: usize = 64 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where a server is: `http://HOST[:PORT]` or `https://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// Whether TLS is spoken there.
    pub is_https: bool,
    authority: Authority,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .parse::<Uri>()
            .map_err(|error| error.to_string())?
            .into_parts();
        let is_https = match parts.scheme.as_ref().map(|scheme| scheme.as_str()) {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("it has to begin with http:// or https://".to_owned()),
        };
        let authority = parts.authority.ok_or("it names no host")?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err("it has to name a host, and no user".to_owned());
        }
        if parts
            .path_and_query
            .is_some_and(|path| path.as_str() != "/")
        {
            return Err("it is a server's address, with nothing after the host".to_owned());
        }
        Ok(Self {
            is_https,
            authority,
        })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl ServerUrl {
    fn host(&self) -> &str {
        // An IPv6 address stands in brackets in a URL, and nowhere else.
        self.authority.host().trim_matches(['[', ']'])
    }

    fn port(&self) -> u16 {
        let usual = if self.is_https { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(usual)
    }
}

/// Sends the facts, one a line, to a running server; its answer.
///
/// `ca_file` has the certificates (PEM) of the authorities that are trusted; without it, those
/// that the system trusts are.
///
/// # Errors
/// When the server cannot be reached or trusted, or answers anything but 200.
pub fn send(
    url: &ServerUrl,
    ca_file: Option<&Path>,
    token: &str,
    input: impl Read + Send + 'static,
) -> Result<Value, Failure> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Failure::other("the token holds what no token can"))?;
    bearer.set_sensitive(true);
    let tls = match url.is_https {
        true => Some(connector(ca_file)?),
        false => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Failure::from_error)?;
    let (status, body) = runtime
        .block_on(connect_and_post(url, tls, bearer, input))
        .map_err(|error| {
            let advice = match is_of_unknown_authority(error.as_ref()) {
                true => " (--ca-file FILE names the certificates to trust)",
                false => "",
            };
            Failure::other(format!("{url}: {error}{advice}"))
        })?;
    let text = String::from_utf8_lossy(&body);
    if status != StatusCode::OK {
        return Err(Failure::other(format!("{url} answered {status}: {text}")));
    }
    serde_json::from_slice(&body).map_err(|error| Failure::other(format!("{url}: {error}: {text}")))
}

/// TLS as the server speaks it, trusting the authorities of a file or of the system.
fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, Failure> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let unfit = |why: &dyn fmt::Display| {
                Failure::other(format!("{} cannot be used for TLS: {why}", file.display()))
            };
            let found = CertificateDer::pem_file_iter(file).map_err(|error| unfit(&error))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unfit(&error))?;
                roots.add(certificate).map_err(|error| unfit(&error))?;
            }
            if roots.is_empty() {
                return Err(unfit(&"it holds no certificate"));
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            // One that cannot be read is one less to trust.
            roots.add_parsable_certificates(system.certs);
            if roots.is_empty() {
                return Err(Failure::other(
                    "the system has no certificates to trust; --ca-file FILE names some",
                ));
            }
        }
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Failure::from_error)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn is_of_unknown_authority(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    matches!(
        inner.and_then(|inner| inner.downcast_ref::<TlsError>()),
        // The latter: an authority of the same name with another key.
        Some(TlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        ))
    )
}

async fn connect_and_post(
    url: &ServerUrl,
    tls: Option<TlsConnector>,
    bearer: HeaderValue,
    input: impl Read + Send + 'static,
) -> Result<(StatusCode, Bytes), BoxError> {
    let stream = TcpStream::connect((url.host(), url.port())).await?;
    stream.set_nodelay(true)?;
    match tls {
        None => post(url, stream, bearer, input).await,
        Some(tls) => {
            let name = ServerName::try_from(url.host().to_owned())?;
            let stream = tls.connect(name, stream).await?;
            post(url, stream, bearer, input).await
        }
    }
}

async fn post(
    url: &ServerUrl,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    bearer: HeaderValue,
    mut input: impl Read + Send + 'static,
) -> Result<(StatusCode, Bytes), BoxError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut chunks, body) = Channel::<Bytes, io::Error>::new(4);
    // Reading may block, so it has a thread of its own.
    let reading = tokio::task::spawn_blocking(move || {
        let handle = tokio::runtime::Handle::current();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            match input.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    chunk.truncate(read);
                    // The server has answered already, and reads no more.
                    if handle.block_on(chunks.send_data(chunk.into())).is_err() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    });
    let request = Request::post("/reference-facts")
        .header(HOST, url.authority.as_str())
        .header(AUTHORIZATION, bearer)
        .header(CONTENT_TYPE, "application/x-ndjson")
        .body(body)?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    reading.await??;
    Ok((status, body))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_address_is_a_scheme_a_host_and_a_port() {
        for (text, is_https, host, port, shown) in [
            (
                "http://localhost",
                false,
                "localhost",
                80,
                "http://localhost",
            ),
            (
                "https://localhost/",
                true,
                "localhost",
                443,
                "https://localhost",
            ),
            (
                "https://[::1]:8443",
                true,
                "::1",
                8443,
                "https://[::1]:8443",
            ),
            (
                "http://127.0.0.1:81",
                false,
                "127.0.0.1",
                81,
                "http://127.0.0.1:81",
            ),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(
                (url.is_https, url.host(), url.port()),
                (is_https, host, port)
            );
            assert_eq!(url.to_string(), shown);
        }
        for text in [
            "",
            "localhost:80",
            "ftp://localhost",
            "https://",
            "http://somebody@localhost",
            "http://localhost/reference-facts",
            "http://localhost/?a",
        ] {
            assert!(text.parse::<ServerUrl>().is_err(), "{text}");
        }
    }
}
