//! A receiver of webhooks: a small HTTP server on the loopback that does with each delivery what the
//! test says.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use crate::support::PATIENCE;

/// A delivery as it came in.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether it was answered that it is taken.
    pub taken: bool,
}

impl Delivery {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The event's identifier.
    pub fn id(&self) -> String {
        self.event()["id"].as_str().unwrap().to_owned()
    }

    pub fn subject(&self) -> String {
        self.event()["subject"].as_str().unwrap().to_owned()
    }

    pub fn kind(&self) -> String {
        self.event()["type"].as_str().unwrap().to_owned()
    }

    /// How many of its signatures this secret has made.
    pub fn signed_by(&self, secret: &str) -> usize {
        let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key.unwrap());
        let text = format!(
            "{}.{}.",
            self.header("webhook-id"),
            self.header("webhook-timestamp")
        );
        let signed = [text.as_bytes(), &self.body].concat();
        let each = self.header("webhook-signature").split(' ');
        each.filter(|signature| {
            let signature = signature.strip_prefix("v1,").unwrap();
            let signature = BASE64_STANDARD.decode(signature).unwrap();
            hmac::verify(&key, &signed, &signature).is_ok()
        })
        .count()
    }
}

/// What a receiver does with a delivery.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers with this status and these header lines.
    Status(u16, &'static str),
    /// Answers 200 with this body of this type.
    Says(&'static str, Vec<u8>),
    /// Never answers.
    Hangs,
    /// Answers a byte at a time.
    Trickles,
    /// Answers with a head of so many bytes.
    Head(usize),
    /// Answers 200 with a body of so many bytes.
    Body(usize),
    /// Sends so many bytes of an answer, and closes.
    Breaks(usize),
}

pub const TAKEN: Reply = Reply::Status(204, "");

type Decide = dyn Fn(&Delivery, usize) -> Reply + Send + Sync;

struct Shared {
    /// Over TLS, with this; over plain HTTP without it.
    tls: Option<Arc<ServerConfig>>,
    came: Mutex<Vec<Delivery>>,
    news: Condvar,
    decide: Mutex<Arc<Decide>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    ended: AtomicBool,
}

/// A receiver; gone when dropped.
pub struct Receiver {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Receiver {
    /// One that takes everything.
    pub fn start() -> Self {
        Self::deciding(|_, _| TAKEN)
    }

    /// One that does with the delivery, which came in as the so-manieth one, as `decide` says.
    pub fn deciding(decide: impl Fn(&Delivery, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), decide)
    }

    pub fn on(
        listener: TcpListener,
        decide: impl Fn(&Delivery, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::with(listener, None, decide)
    }

    /// One that takes everything, over TLS with a certificate of its own for `localhost`; and that
    /// certificate, as PEM.
    pub fn secured() -> (Self, String) {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let config =
            ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], key)
                .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self::with(listener, Some(Arc::new(config)), |_, _| TAKEN);
        (receiver, certified.cert.pem())
    }

    fn with(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        decide: impl Fn(&Delivery, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            tls,
            came: Mutex::default(),
            news: Condvar::new(),
            decide: Mutex::new(Arc::new(decide)),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if own.ended.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                own.connections.fetch_add(1, Ordering::Relaxed);
                own.open.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(&own);
                std::thread::spawn(move || {
                    shared.serve(stream);
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { port, shared }
    }

    /// From here on it does as `decide` says.
    pub fn now_answers(&self, decide: impl Fn(&Delivery, usize) -> Reply + Send + Sync + 'static) {
        *self.shared.decide.lock().unwrap() = Arc::new(decide);
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/events?a=b", self.port)
    }

    /// What came in so far.
    pub fn came(&self) -> Vec<Delivery> {
        self.shared.came.lock().unwrap().clone()
    }

    /// What came in until now, when it is gone.
    pub fn end(self) -> Vec<Delivery> {
        let came = self.shared.came.lock().unwrap();
        self.shared.ended.store(true, Ordering::Release);
        came.clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Waits until there is no connection: what a server sent before it ended has come in.
    pub fn wait_for_silence(&self) {
        let begun = Instant::now();
        // Connections are accepted in their order: those of before are counted once this one is.
        if let Ok(mut last) = TcpStream::connect(("127.0.0.1", self.port)) {
            last.shutdown(Shutdown::Write).unwrap();
            let _ = last.read(&mut [0; 1]);
        }
        while self.shared.open.load(Ordering::Relaxed) > 0 {
            assert!(begun.elapsed() < PATIENCE, "somebody stays connected");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until what came in is as `is_it` says.
    #[track_caller]
    pub fn wait(&self, is_it: impl Fn(&[Delivery]) -> bool) -> Vec<Delivery> {
        let came = self.shared.came.lock().unwrap();
        let (came, late) = self
            .shared
            .news
            .wait_timeout_while(came, PATIENCE, |came| !is_it(came))
            .unwrap();
        let kinds = || came.iter().map(|one| (one.id(), one.kind(), one.taken));
        assert!(!late.timed_out(), "{:?}", kinds().collect::<Vec<_>>());
        came.clone()
    }

    /// Waits until so many have come in.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Delivery> {
        self.wait(|came| came.len() >= count)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // The listener's thread has to hear of it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        match &self.tls {
            None => self.serve_on(stream),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config)).unwrap();
                self.serve_on(StreamOwned::new(session, stream));
            }
        }
    }

    fn serve_on(&self, stream: impl Read + Write) {
        let mut reader = BufReader::new(stream);
        while let Some(mut delivery) = read(&mut reader) {
            let reply = {
                let mut came = self.came.lock().unwrap();
                if self.ended.load(Ordering::Acquire) {
                    return;
                }
                let decide = Arc::clone(&self.decide.lock().unwrap());
                let reply = decide(&delivery, came.len());
                delivery.taken = matches!(
                    reply,
                    Reply::Status(200..300, _) | Reply::Says(..) | Reply::Body(_)
                );
                came.push(delivery);
                reply
            };
            self.news.notify_all();
            if answer(reader.get_mut(), &reply).is_none() {
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<impl Read>) -> Option<Delivery> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|bytes| *bytes > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    assert!(line.starts_with("POST "), "{line}");
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?;
    let mut body = vec![0; length.1.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Delivery {
        path,
        headers,
        body,
        taken: false,
    })
}

/// Answers; `None` when the connection is to be closed.
fn answer(stream: &mut (impl Read + Write), reply: &Reply) -> Option<()> {
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    match reply {
        Reply::Status(status, headers) => {
            let text = format!("HTTP/1.1 {status} -\r\n{headers}Content-Length: 0\r\n\r\n");
            stream.write_all(text.as_bytes()).ok()
        }
        Reply::Says(kind, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
            );
            stream.write_all(&[head.as_bytes(), body].concat()).ok()
        }
        Reply::Hangs => {
            // Until the other side has enough.
            let _ = stream.read(&mut [0; 1]);
            None
        }
        Reply::Trickles => {
            for byte in whole.as_bytes() {
                stream.write_all(&[*byte]).ok()?;
                std::thread::sleep(Duration::from_secs(2));
            }
            None
        }
        Reply::Head(bytes) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Long: ").ok()?;
            let piece = vec![b'x'; 64 << 10];
            for _ in 0..bytes.div_ceil(piece.len()) {
                stream.write_all(&piece).ok()?;
            }
            stream.write_all(b"\r\n\r\n").ok()?;
            None
        }
        Reply::Body(bytes) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            stream.write_all(head.as_bytes()).ok()?;
            let piece = vec![b'x'; 64 << 10];
            for _ in 0..bytes.div_ceil(piece.len()) {
                stream.write_all(&piece).ok()?;
            }
            None
        }
        Reply::Breaks(bytes) => {
            stream.write_all(&whole.as_bytes()[..*bytes]).ok()?;
            None
        }
    }
}
