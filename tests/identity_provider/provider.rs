//! A provider of our own: HTTPS on the loopback, which publishes what the test says and counts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use carebook::cli::token::signing::SigningKey;
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

/// A certificate of an authority of its own, for `localhost`, with its key; written as `ca.pem` into
/// the directory.
pub struct Certified(Arc<ServerConfig>);

impl Certified {
    pub fn in_directory(directory: &Path) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config =
            ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key)
                .unwrap();
        Self(Arc::new(config))
    }
}

struct Shared {
    issuer: String,
    jwks: Mutex<Vec<u8>>,
    documents: AtomicUsize,
    keys: AtomicUsize,
}

/// A provider that serves for as long as the process.
pub struct Provider {
    shared: Arc<Shared>,
}

impl Provider {
    /// One that publishes these keys.
    pub fn start(certified: &Certified, keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::on(listener, certified, keys)
    }

    pub fn on(listener: TcpListener, certified: &Certified, keys: &[&SigningKey]) -> Self {
        let issuer = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let shared = Arc::new(Shared {
            issuer,
            jwks: Mutex::new(jwks(keys)),
            documents: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
        });
        let (own, tls) = (Arc::clone(&shared), Arc::clone(&certified.0));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, tls) = (Arc::clone(&own), Arc::clone(&tls));
                std::thread::spawn(move || shared.serve(stream.ok()?, tls));
            }
        });
        Self { shared }
    }

    pub fn issuer(&self) -> &str {
        &self.shared.issuer
    }

    /// From here on it publishes these keys.
    pub fn publish(&self, keys: &[&SigningKey]) {
        *self.shared.jwks.lock().unwrap() = jwks(keys);
    }

    /// From here on it publishes this in the place of keys.
    pub fn publish_raw(&self, set: Vec<u8>) {
        *self.shared.jwks.lock().unwrap() = set;
    }

    /// How often its keys were asked for.
    pub fn asked(&self) -> usize {
        self.shared.keys.load(Ordering::Acquire)
    }

    /// How often its discovery document was asked for.
    pub fn discovered(&self) -> usize {
        self.shared.documents.load(Ordering::Acquire)
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream, tls: Arc<ServerConfig>) -> Option<()> {
        let connection = ServerConnection::new(tls).ok()?;
        let mut stream = BufReader::new(StreamOwned::new(connection, stream));
        let (mut first, mut line) = (String::new(), String::new());
        stream.read_line(&mut first).ok()?;
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        }
        let body = match first.split(' ').nth(1)? {
            "/.well-known/openid-configuration" => {
                self.documents.fetch_add(1, Ordering::AcqRel);
                let document = json!({
                    "issuer": self.issuer,
                    "jwks_uri": format!("{}/keys", self.issuer),
                });
                document.to_string().into_bytes()
            }
            _ => {
                let body = self.jwks.lock().unwrap().clone();
                self.keys.fetch_add(1, Ordering::AcqRel);
                body
            }
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = stream.get_mut();
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&body).ok()?;
        stream.conn.send_close_notify();
        stream.flush().ok()
    }
}

fn jwks(keys: &[&SigningKey]) -> Vec<u8> {
    let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys }).to_string().into_bytes()
}
