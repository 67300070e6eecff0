//! A client of a running server: its address, the trusted certificates, the token, and requests over HTTP or HTTPS.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::request;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, Error as TlsError, RootCertStore, crypto,
};

use super::refusal;
use crate::cli::exit::Failure;
use crate::http::client::dial::{OF_AUTHORITY, is_of_authority, port_of};
use crate::http::small_file::{self, SMALL_FILE_BYTES_MAX};
use crate::http::token::TOKEN_BYTES_MAX;

/// Environment variable with the token, used when no argument has it.
const TOKEN_VARIABLE: &str = "CAREBOOK_TOKEN";
/// Timeout for a connection, including TLS.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Timeout for a response that is not a stream.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// An error of the connection to a server.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// The address of a server: `http://HOST[:PORT]` or `https://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// Whether the connection uses TLS.
    pub is_https: bool,
    authority: Authority,
    port: u16,
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
        let usual = if is_https { 443 } else { 80 };
        let port = port_of(&authority)?.unwrap_or(usual);
        Ok(Self {
            is_https,
            authority,
            port,
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
        // An IPv6 address has brackets only in a URL.
        self.authority.host().trim_matches(['[', ']'])
    }
}

/// The arguments of commands that call a running server: trusted certificates, and the token.
#[derive(Args, Clone, Debug)]
pub struct Access {
    /// Trusts the certificates in this file (PEM), in the place of those that the system trusts.
    #[arg(long, value_name = "FILE", requires = "url")]
    ca_file: Option<PathBuf>,
    /// The token to act with. Anyone who may list processes sees it; a file or the environment does
    /// not show it.
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file that holds the token, and nothing else. Without this and --token it is taken from
    /// the environment: CAREBOOK_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Access {
    /// Creates a client of the server at `url`; nothing is sent yet.
    ///
    /// # Errors
    /// When there is no token, a file cannot be used, or the arguments do not go together.
    pub fn client(&self, url: &ServerUrl) -> Result<Client, Failure> {
        if self.ca_file.is_some() && !url.is_https {
            return Err(Failure::Arguments(
                "--ca-file is for an https:// address".to_owned(),
            ));
        }
        Client::new(url.clone(), self.ca_file.as_deref(), &self.token()?)
    }

    /// Returns the token from the arguments or from the environment.
    fn token(&self) -> Result<String, Failure> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        if let Some(file) = &self.token_file {
            return token_in(file);
        }
        match std::env::var(TOKEN_VARIABLE) {
            Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
            _ => Err(Failure::Arguments(format!(
                "--url needs a token: --token-file FILE, {TOKEN_VARIABLE} in the environment, or \
                 --token TOKEN"
            ))),
        }
    }
}

/// Returns the token in a file, without surrounding white space.
fn token_in(file: &Path) -> Result<String, Failure> {
    let unfit =
        |why: &dyn fmt::Display| Failure::other(format!("no token in {}: {why}", file.display()));
    // A longer file than a token and a few line ends cannot be a token.
    let most = u64::try_from(TOKEN_BYTES_MAX).unwrap_or(u64::MAX) + 16;
    let mut text = String::new();
    File::open(file)
        .and_then(|file| file.take(most).read_to_string(&mut text))
        .map_err(|error| unfit(&error))?;
    let token = text.trim();
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Err(unfit(&format_args!(
            "it has to contain one, of at most {TOKEN_BYTES_MAX} bytes, and nothing else"
        )));
    }
    Ok(token.to_owned())
}

/// A client of one server.
pub struct Client {
    url: ServerUrl,
    tls: Option<TlsConnector>,
    bearer: HeaderValue,
}

impl Client {
    /// Creates a client that acts with `token`.
    ///
    /// `ca_file` has the certificates (PEM) of the trusted authorities; by default those of the system are trusted.
    ///
    /// # Errors
    /// When the token cannot be one, or there are no certificates to trust.
    pub fn new(url: ServerUrl, ca_file: Option<&Path>, token: &str) -> Result<Self, Failure> {
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Failure::other("the token has characters that no token can have"))?;
        bearer.set_sensitive(true);
        let tls = match url.is_https {
            true => Some(connector(ca_file)?),
            false => None,
        };
        Ok(Self { url, tls, bearer })
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Opens a connection, within 10 s.
    ///
    /// # Errors
    /// When the server cannot be reached or trusted.
    pub async fn connect(&self) -> Result<Connection, BoxError> {
        let connected = timeout(CONNECT_MAX, async {
            let stream = TcpStream::connect((self.url.host(), self.url.port))
                .await
                .map_err(|error| {
                    format!("{error}; is the server running, and is --url its address?")
                })?;
            stream.set_nodelay(true)?;
            match &self.tls {
                None => handshake(stream).await,
                Some(tls) => {
                    let name = ServerName::try_from(self.url.host().to_owned())?;
                    handshake(tls.connect(name, stream).await?).await
                }
            }
        });
        let sender = connected
            .await
            .map_err(|_| "no connection within 10 s".to_owned())??;
        Ok(Connection {
            sender,
            host: HeaderValue::try_from(self.url.authority.as_str())?,
            bearer: self.bearer.clone(),
        })
    }

    /// Does `work` with a connection of its own, on this thread.
    ///
    /// # Errors
    /// When there is no connection, or the work fails.
    pub fn with_connection<T, W>(&self, work: impl FnOnce(Connection) -> W) -> Result<T, Failure>
    where
        W: Future<Output = Result<T, BoxError>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(Failure::from_error)?;
        let done = runtime.block_on(async { work(self.connect().await?).await });
        // A thread that waits for input is not waited for.
        runtime.shutdown_background();
        done.map_err(|error| self.failure(error.as_ref()))
    }

    /// Sends one request, with a JSON body or none, and returns its whole response, within 30 s. A response without a
    /// body is null.
    ///
    /// # Errors
    /// When the server cannot be reached or trusted, or the response is no JSON. A refusal is a response:
    /// [`Client::refused`] converts it.
    pub fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Failure> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                whole(body.to_string())
            }
            None => no_body(),
        };
        let (status, body) = self.with_connection(|mut connection| async move {
            let answer = timeout(ANSWER_MAX, async {
                let answer = connection.send(request, body).await?;
                let status = answer.status();
                let body = whole_body(answer.into_body()).await?;
                Ok::<_, BoxError>((status, body))
            });
            answer
                .await
                .map_err(|_| "no answer within 30 s".to_owned())?
        })?;
        if body.is_empty() {
            return Ok((status, Value::Null));
        }
        match serde_json::from_slice(&body) {
            Ok(value) => Ok((status, value)),
            Err(_) if !status.is_success() => Err(self.refused(status, &body)),
            Err(error) => Err(Failure::other(format!("{}: {error}", self.url))),
        }
    }

    /// Returns the failure for this error, with advice if there is any.
    #[must_use]
    pub fn failure(&self, error: &(dyn std::error::Error + Send + Sync + 'static)) -> Failure {
        let tls = tls_error(error);
        if tls.is_some_and(is_of_authority) {
            return Failure::other(format!("{}: {OF_AUTHORITY}", self.url));
        }
        let advice = match tls.is_some_and(is_of_unknown_authority) {
            true => " (--ca-file FILE names the certificates to trust)",
            false => "",
        };
        Failure::other(format!("{}: {error}{advice}", self.url))
    }

    /// Returns the failure for a response other than a success, with the server's explanation.
    #[must_use]
    pub fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let said = refusal::of_a_body(body);
        Failure::other(format!("{} answered {status}: {said}", self.url))
    }
}

/// A connection to a server, for one request after the other.
pub struct Connection {
    sender: SendRequest<RequestBody>,
    host: HeaderValue,
    bearer: HeaderValue,
}

impl Connection {
    /// Sends a request, with the token; returns the response, whose body is still to come.
    ///
    /// # Errors
    /// When the connection ends before the answer, or it is no HTTP.
    pub async fn send(
        &mut self,
        request: request::Builder,
        body: RequestBody,
    ) -> Result<Response<Incoming>, BoxError> {
        let request = request
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.bearer)
            .body(body)?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

/// Maximum size of a response, in bytes: no response of the service has half as many.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Returns the body of a response.
///
/// # Errors
/// When it breaks off, or is larger than any answer of the service.
pub async fn whole_body(
    body: impl Body<Data = Bytes, Error: Into<BoxError>>,
) -> Result<Bytes, BoxError> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let too_large = |error: BoxError| match error.is::<LengthLimitError>() {
        true => format!("the answer has more than {} MiB", ANSWER_BYTES_MAX >> 20).into(),
        false => error,
    };
    Ok(body.map_err(too_large)?.to_bytes())
}

/// Creates a body from existing bytes.
pub fn whole(body: impl Into<Bytes>) -> RequestBody {
    boxed(Full::new(body.into()))
}

/// Creates an empty body.
#[must_use]
pub fn no_body() -> RequestBody {
    boxed(Empty::new())
}

/// Converts a body into that of a request.
pub fn boxed<B>(body: B) -> RequestBody
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<RequestBody>, BoxError> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Creates a TLS connector that trusts the authorities of a file or of the system.
fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, Failure> {
    let mut config = tls_config(ca_file)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns the TLS settings of a client that trusts the authorities of a file or of the system.
///
/// # Errors
/// When there are no certificates to trust.
pub fn tls_config(ca_file: Option<&Path>) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let unfit = |why: &dyn fmt::Display| {
                Failure::other(format!("{} cannot be used for TLS: {why}", file.display()))
            };
            let text = small_file::read(file, SMALL_FILE_BYTES_MAX);
            let text = text.map_err(|error| unfit(&error))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| unfit(&error))?;
                roots.add(certificate).map_err(|error| unfit(&error))?;
            }
            if roots.is_empty() {
                return Err(unfit(&"it contains no certificate"));
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            // A certificate that cannot be read is skipped.
            roots.add_parsable_certificates(system.certs);
            if roots.is_empty() {
                return Err(Failure::other(
                    "the system has no certificates to trust; --ca-file FILE names some",
                ));
            }
        }
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Failure::from_error)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Returns the TLS error in an error, if there is one.
fn tls_error<'e>(
    error: &'e (dyn std::error::Error + Send + Sync + 'static),
) -> Option<&'e TlsError> {
    let error = error.downcast_ref::<io::Error>()?;
    error.get_ref()?.downcast_ref()
}

fn is_of_unknown_authority(error: &TlsError) -> bool {
    matches!(
        error,
        // The latter: an authority of the same name with another key.
        TlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        )
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_larger_than_any_of_the_service_is_not_kept() {
        let fits = whole_body(Full::<Bytes>::from("it fits")).await;
        assert_eq!(fits.unwrap(), "it fits");
        let much = Bytes::from(vec![0; 1 << 20]);
        let chunks = std::iter::repeat_with(move || Ok::<_, BoxError>(Frame::data(much.clone())));
        let endless = StreamBody::new(futures_util::stream::iter(chunks));
        let error = whole_body(endless).await.unwrap_err();
        assert_eq!(error.to_string(), "the answer has more than 64 MiB");
    }

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
            assert_eq!((url.is_https, url.host(), url.port), (is_https, host, port));
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
            "http://127.0.0.1:99999",
            "https://[::1]:70000",
            "http://localhost:",
            "http://localhost:/",
        ] {
            assert!(text.parse::<ServerUrl>().is_err(), "{text}");
        }
    }
}
