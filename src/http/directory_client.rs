//! The external directory over HTTP: a message is one POST, and a 2xx response means that the
//! directory has accepted it.

use std::pin::pin;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::domain::branch::directory_message::DirectoryMessage;
use crate::engine::relay::{Delivery, ExternalDirectory};

/// A directory at an `http://` address.
#[derive(Clone, Debug)]
pub struct HttpDirectory {
    host: Box<str>,
    port: u16,
    authority: HeaderValue,
    path: Box<str>,
}

impl HttpDirectory {
    /// The directory at this address.
    ///
    /// # Errors
    /// When it is not `http://HOST[:PORT][/PATH]`; why.
    pub fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err("it has to begin with http://".to_owned());
        }
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
            // An IPv6 address has brackets in a URL, and nowhere else.
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port: authority.port_u16().unwrap_or(80),
            authority: HeaderValue::try_from(authority.as_str())
                .map_err(|error| error.to_string())?,
            path: path.into(),
        })
    }

    async fn post(&self, id: String, message: &DirectoryMessage) -> Result<(), String> {
        let stream = TcpStream::connect((&*self.host, self.port))
            .await
            .map_err(|error| format!("it cannot be reached: {error}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        let request = Request::post(&*self.path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", id)
            .header("connection", "close")
            .body(Full::new(Bytes::copy_from_slice(&message.body)))
            .map_err(|error| error.to_string())?;
        // Both end with this future: an abandoned attempt leaves no connection behind.
        let mut answer = pin!(sender.send_request(request));
        let mut connection = pin!(connection);
        let answer = tokio::select! {
            answer = &mut answer => answer,
            ended = &mut connection => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(error),
            },
        };
        let status = answer.map_err(|error| error.to_string())?.status();
        if status.is_success() {
            return Ok(());
        }
        Err(format!("its response is {status}"))
    }
}

impl ExternalDirectory for HttpDirectory {
    fn deliver<'a>(&'a self, id: String, message: &'a DirectoryMessage) -> Delivery<'a> {
        Box::pin(self.post(id, message))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_may_have_a_port_and_a_path() {
        for (url, host, port, authority, path) in [
            ("http://directory", "directory", 80, "directory", "/"),
            (
                "http://d.example:81/a?b=c",
                "d.example",
                81,
                "d.example:81",
                "/a?b=c",
            ),
            ("http://[::1]:9/a/", "::1", 9, "[::1]:9", "/a/"),
        ] {
            let directory = HttpDirectory::new(url).unwrap();
            assert_eq!(&*directory.host, host);
            assert_eq!(directory.port, port);
            assert_eq!(directory.authority, authority);
            assert_eq!(&*directory.path, path);
        }
        for url in [
            "",
            "directory:80",
            "https://directory",
            "http://",
            "http://a@b/",
            "/a",
        ] {
            assert!(HttpDirectory::new(url).is_err(), "{url}");
        }
    }
}
