//! Connections to other servers, as a client: names are resolved, addresses judged, TLS spoken.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper::client::conn::http1;
use hyper::http::uri::Authority;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error as TlsError, RootCertStore};

use super::lookups::Lookups;

/// Bytes of an answer's head, at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// What the kernel keeps of what the other side sends before it is read.
const RECEIVED_BYTES_MAX: u32 = 64 << 10;
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// How long an address is tried before the next one.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// Names that are looked up at once where one or two hosts are asked.
pub const FEW_LOOKUPS: usize = 4;

/// A future on the heap.
type Later<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// Finds the addresses of a host and a port.
pub type Resolve = Arc<dyn Fn(String, u16) -> Later<Vec<SocketAddr>> + Send + Sync>;

/// Connects to an address.
pub type Reach = Arc<dyn Fn(SocketAddr) -> Later<Box<dyn Stream>> + Send + Sync>;

/// A stream of bytes, over TLS or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The system's way of finding addresses, of up to `most` names at once.
#[must_use]
pub fn system_resolve(most: usize) -> Resolve {
    let lookups = Arc::new(Lookups::new(most));
    Arc::new(move |host, port| {
        let lookups = Arc::clone(&lookups);
        Box::pin(async move {
            let at = host.clone();
            let look = move || {
                let found = (at.as_str(), 0_u16).to_socket_addrs();
                found.map(Iterator::collect::<Vec<_>>)
            };
            // Whoever waits for the same host may want another port.
            let mut found = lookups.run(host, look).await?;
            for address in &mut found {
                address.set_port(port);
            }
            Ok(found)
        })
    })
}

/// Over TCP.
fn over_tcp() -> Reach {
    Arc::new(|address| {
        Box::pin(async move {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            socket.set_recv_buffer_size(RECEIVED_BYTES_MAX)?;
            let stream = socket.connect(address).await?;
            let _ = stream.set_nodelay(true);
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    })
}

/// What is wrong with a server whose own certificate is one of an authority, though it is trusted.
pub(crate) const OF_AUTHORITY: &str = "its certificate is that of an authority (CA:TRUE), which signs those of servers \
     and is none: sign one for it, or make it with basicConstraints=CA:FALSE";

/// Whether a server was refused since its own certificate is one of an authority (RFC 5280 4.2.1.9), as
/// those that `openssl req -x509` makes are.
pub(crate) fn is_of_authority(error: &TlsError) -> bool {
    // The library that says so is none of this program's own dependencies.
    matches!(error, TlsError::InvalidCertificate(CertificateError::Other(why))
        if format!("{why:?}").contains("CaUsedAsEndEntity"))
}

/// A configuration that trusts the system's certificates, and these (DER) besides.
///
/// # Errors
/// When one of them is no certificate.
pub fn trusting(more: Vec<CertificateDer<'static>>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in more {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Returns the port in a URL; `None` where it has none.
///
/// # Errors
/// When the port is no number of 16 bits; the reason, in a few words.
pub fn port_of(authority: &Authority) -> Result<Option<u16>, &'static str> {
    let text = authority.as_str();
    let text = text.rsplit_once('@').map_or(text, |(_, text)| text);
    let rest = text.strip_prefix(authority.host()).unwrap_or(text);
    if rest.is_empty() {
        return Ok(None);
    }
    let digits = rest.strip_prefix(':').unwrap_or_default();
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|_| is_number);
    port.map(Some).ok_or("its port is no number of 16 bits")
}

/// Returns what a request to this URL has as its target: the path and the query. The path of a URL may be empty, also
/// before a query, while a target always begins with a slash (RFC 9112 3.2.1).
#[must_use]
pub fn request_target(uri: &Uri) -> Cow<'_, str> {
    let text = uri.path_and_query().map_or("/", |path| path.as_str());
    match text.starts_with('/') {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("/{text}")),
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether TLS is spoken there.
    pub is_secure: bool,
    host: Box<str>,
    port: u16,
}

impl Target {
    /// Returns the target of this URL.
    ///
    /// # Errors
    /// When the URL is not one of HTTP, has no host, or has an invalid port; the reason, in a few words.
    pub fn of(uri: &Uri) -> Result<Self, &'static str> {
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("its URL is not one of HTTP"),
        };
        let authority = uri.authority().ok_or("its URL has no host")?;
        let usual = if is_secure { 443 } else { 80 };
        Ok(Self {
            is_secure,
            host: authority.host().into(),
            port: port_of(authority)?.unwrap_or(usual),
        })
    }

    /// The host, without the brackets of an IPv6 address.
    fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub struct DialError {
    /// In a few words, which contain nothing that the other end sent.
    pub what: &'static str,
    /// The error of the system or the other end.
    pub cause: Option<io::Error>,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{}: {cause}", self.what),
            None => f.write_str(self.what),
        }
    }
}

impl From<&'static str> for DialError {
    fn from(what: &'static str) -> Self {
        Self { what, cause: None }
    }
}

impl DialError {
    fn with(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self {
            what,
            cause: Some(cause),
        }
    }
}

/// An open connection, which is closed when it is dropped.
pub struct Connection {
    /// Sends requests on it.
    pub sender: http1::SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes connections. The caller sets the timeout.
pub struct Dialer {
    tls: TlsConnector,
    resolve: Resolve,
    reach: Reach,
}

impl Dialer {
    /// One with this TLS configuration and this resolver.
    #[must_use]
    pub fn new(tls: ClientConfig, resolve: Resolve) -> Self {
        Self {
            tls: TlsConnector::from(Arc::new(tls)),
            resolve,
            reach: over_tcp(),
        }
    }

    /// The same, over another transport than TCP.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn reaching(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// The message when the TLS handshake fails.
    fn no_tls(error: &io::Error) -> &'static str {
        match error.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(error) if is_of_authority(error) => OF_AUTHORITY,
            Some(TlsError::InvalidCertificate(error)) => match error {
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => {
                    "its certificate is for another name"
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "its certificate has expired"
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "its certificate is not valid yet"
                }
                _ => "its certificate is not trusted",
            },
            _ => "TLS with it failed",
        }
    }

    /// A connection to `target`, at an address that `allows` allows.
    ///
    /// # Errors
    /// When there is none.
    pub async fn connect(
        &self,
        target: &Target,
        allows: impl Fn(IpAddr) -> bool,
    ) -> Result<Connection, DialError> {
        let found = self.find(target).await?;
        self.connect_to(target, found, allows).await
    }

    /// The addresses of `target`, for [`Self::connect_to`].
    ///
    /// # Errors
    /// When there are none.
    pub async fn find(&self, target: &Target) -> Result<Vec<SocketAddr>, DialError> {
        let host = target.name();
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, target.port)],
            Err(_) => (self.resolve)(host.to_owned(), target.port)
                .await
                .map_err(DialError::with("its name cannot be resolved"))?,
        };
        if found.is_empty() {
            return Err("its name has no address".into());
        }
        Ok(found)
    }

    /// A connection to `target`, at one of the addresses that were found, which `allows` allows.
    ///
    /// # Errors
    /// When there is none.
    pub async fn connect_to(
        &self,
        target: &Target,
        found: Vec<SocketAddr>,
        allows: impl Fn(IpAddr) -> bool,
    ) -> Result<Connection, DialError> {
        // The addresses that were checked are those connected to: the name is not resolved again.
        let mut allowed = found
            .into_iter()
            .filter(|address| allows(address.ip()))
            .take(ADDRESSES_MAX)
            .peekable();
        let mut failed = DialError::from("its address is not allowed");
        while let Some(address) = allowed.next() {
            let reached = (self.reach)(address);
            let reached = match allowed.peek() {
                None => reached.await,
                Some(_) => timeout(ADDRESS_TIMEOUT, reached)
                    .await
                    .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            };
            match reached {
                Ok(stream) => return self.shake_hands(target, stream).await,
                Err(error) => failed = DialError::with("it cannot be reached")(error),
            }
        }
        Err(failed)
    }

    async fn shake_hands(
        &self,
        target: &Target,
        stream: Box<dyn Stream>,
    ) -> Result<Connection, DialError> {
        let stream: Box<dyn Stream> = match target.is_secure {
            false => stream,
            true => {
                let name = ServerName::try_from(target.name().to_owned());
                let name = name.map_err(|_| "its name is not one of TLS")?;
                let stream = self.tls.connect(name, stream).await;
                Box::new(stream.map_err(|error| DialError::with(Self::no_tls(&error))(error))?)
            }
        };
        let shaken = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = shaken.map_err(|_| "it broke off")?;
        let task = tokio::spawn(async move {
            // The request's own future reports how it ended.
            let _ = connection.await;
        });
        Ok(Connection {
            sender,
            task: task.abort_handle(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio_rustls::rustls::pki_types::UnixTime;

    use super::*;

    #[test]
    fn a_request_begins_with_a_slash_also_where_its_url_has_no_path() {
        for (url, target) in [
            ("http://a", "/"),
            ("http://a/", "/"),
            ("http://a?x=y", "/?x=y"),
            ("https://a:1?", "/?"),
            ("https://a/b?c=/d", "/b?c=/d"),
        ] {
            assert_eq!(request_target(&url.parse().unwrap()), target, "{url}");
        }
    }

    #[test]
    fn the_fault_of_a_certificate_is_reported() {
        let (time, other) = (UnixTime::now(), UnixTime::since_unix_epoch(Duration::ZERO));
        for (error, said) in [
            (
                CertificateError::NotValidForName,
                "its certificate is for another name",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: ServerName::try_from("a.example").unwrap(),
                    presented: Vec::new(),
                },
                "its certificate is for another name",
            ),
            (CertificateError::Expired, "its certificate has expired"),
            (
                CertificateError::ExpiredContext {
                    time,
                    not_after: other,
                },
                "its certificate has expired",
            ),
            (
                CertificateError::NotValidYet,
                "its certificate is not valid yet",
            ),
            (
                CertificateError::NotValidYetContext {
                    time: other,
                    not_before: time,
                },
                "its certificate is not valid yet",
            ),
            (
                CertificateError::UnknownIssuer,
                "its certificate is not trusted",
            ),
        ] {
            let error = io::Error::other(TlsError::InvalidCertificate(error));
            assert_eq!(Dialer::no_tls(&error), said);
        }
        let other = io::Error::other(TlsError::HandshakeNotComplete);
        assert_eq!(Dialer::no_tls(&other), "TLS with it failed");
    }

    #[test]
    fn a_port_that_is_none_is_rejected_and_never_replaced_by_the_usual_one() {
        let port = |url: &str| Target::of(&url.parse().unwrap()).map(|target| target.port);
        for (url, expected) in [
            ("http://a", 80),
            ("https://a/b:1?c:2", 443),
            ("https://[::1]", 443),
            ("https://[::1]:8443/", 8443),
            ("http://u:1@a:65535/", 65_535),
            ("http://u:1@a/", 80),
        ] {
            assert_eq!(port(url), Ok(expected), "{url}");
        }
        for url in [
            "http://127.0.0.1:99999",
            "https://a:65536/b",
            "https://[::1]:70000",
            "http://a:",
            "http://a:/b",
            "http://a:+80",
        ] {
            assert_eq!(port(url), Err("its port is no number of 16 bits"), "{url}");
        }
    }
}
