//! Clients that are slow, idle, announce bodies and send none, or ask for more than they read, all
//! at once, over HTTP/1.1 and over HTTP/2 with TLS: a good client is served beside them as before.
//!
//! ```text
//! HOSTILE=500 cargo test --release --test main hostile:: -- --nocapture --test-threads=1
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::support::{Server, World, resident};
use crate::tls::{Secure, block_on, secured};

/// What a hostile client does.
#[derive(Clone, Copy)]
enum Kind {
    /// Sends a head byte by byte.
    Slow,
    /// Asks once, or not at all, and stays.
    Idle,
    /// Announces a body and sends little of it.
    Announcing,
    /// Asks for thousands of answers and reads none.
    Greedy,
}

#[derive(Clone)]
struct Target {
    address: String,
    /// With TLS and HTTP/2.
    certificate: Option<CertificateDer<'static>>,
}

const CHARGE: &str = "/reservation-financial-lifecycles/b/regional-benefit-charge-finalizations";

fn opening_http1(kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Slow => b"GET /healthz HTTP/1.1\r\n".to_vec(),
        Kind::Idle => b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        Kind::Announcing => format!(
            "POST {CHARGE} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Content-Length: 1048576\r\n\r\n{}",
            " ".repeat(1_000)
        )
        .into_bytes(),
        Kind::Greedy => b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2_500),
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

/// Fields as literals that are not kept (RFC 7541 6.2.2).
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            bytes.push(u8::try_from(text.len()).unwrap());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

fn opening_http2(kind: Kind) -> Vec<u8> {
    let head = |method, path, more: &[(&str, &str)]| {
        let start = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", path),
        ];
        fields(&[&start[..], more].concat())
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Windows of answers: none.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    match kind {
        // The head of a frame that is 10,240 bytes long.
        Kind::Slow => bytes.extend([0, 40, 0, 1, 5, 0, 0, 0, 1]),
        Kind::Idle => {}
        Kind::Announcing => {
            let more = [
                ("content-type", "application/json"),
                ("content-length", "1048576"),
            ];
            bytes.extend(frame(1, 4, 1, &head("POST", CHARGE, &more)));
            bytes.extend(frame(0, 0, 1, &[b' '; 1_000]));
        }
        Kind::Greedy => {
            for number in 0..100 {
                let head = head("GET", "/metrics", &[]);
                bytes.extend(frame(1, 5, 2 * number + 1, &head));
            }
        }
    }
    bytes
}

async fn be_hostile<S>(mut stream: S, kind: Kind, opening: &[u8], there: &AtomicUsize)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // A greedy one is not heard to the end.
    let patience = Duration::from_millis(500);
    let _ = tokio::time::timeout(patience, stream.write_all(opening)).await;
    let _ = tokio::time::timeout(patience, stream.flush()).await;
    there.fetch_add(1, Ordering::SeqCst);
    match kind {
        Kind::Greedy => std::future::pending().await,
        Kind::Slow => {
            while stream.write_all(b"a").await.is_ok() && stream.flush().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Kind::Idle | Kind::Announcing => {
            while stream.read(&mut [0; 512]).await.is_ok_and(|read| read > 0) {}
        }
    }
}

/// Connects again whenever it is disconnected.
async fn hostile(target: Target, kind: Kind, there: Arc<AtomicUsize>) {
    loop {
        let Ok(stream) = TcpStream::connect(&target.address).await else {
            return;
        };
        match target.certificate.clone() {
            None => be_hostile(stream, kind, &opening_http1(kind), &there).await,
            Some(certificate) => {
                if let Ok(stream) = secured(stream, certificate, "h2").await {
                    be_hostile(stream, kind, &opening_http2(kind), &there).await;
                }
            }
        }
    }
}

/// What a good client finds: the median and the 99th percentile of its commands.
fn be_good(target: &Target, world: &World, name: &str, commands: usize) -> (Duration, Duration) {
    let token = world.headquarters();
    let mut took = block_on(async {
        let stream = TcpStream::connect(&target.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut sender = match target.certificate.clone() {
            None => {
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream))
                        .await
                        .unwrap();
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Some(certificate) => {
                let stream = secured(stream, certificate, "h2").await.unwrap();
                let (sender, connection) = hyper::client::conn::http2::handshake(
                    TokioExecutor::new(),
                    TokioIo::new(stream),
                )
                .await
                .unwrap();
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        let mut took = Vec::new();
        for number in 0..commands {
            let name = format!("{name}-{number}");
            let body = world.deposit_request(&name, &name).to_string();
            let request = Request::post("https://a/settlement-deposit-requests")
                .header("host", "a")
                .header("authorization", format!("Bearer {token}"))
                .header("content-type", "application/json")
                .body(Full::from(body))
                .unwrap();
            let asked = Instant::now();
            assert_eq!(sender.ask(request).await, 201, "command {number}");
            took.push(asked.elapsed());
        }
        took
    });
    took.sort_unstable();
    (took[took.len() / 2], took[took.len() * 99 / 100])
}

enum Sender {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// The status of the answer, once that is whole.
    async fn ask(&mut self, mut request: Request<Full<Bytes>>) -> u16 {
        let answer = match self {
            Self::Http1(sender) => {
                let path = request.uri().path().parse().unwrap();
                *request.uri_mut() = path;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                request.headers_mut().remove("host");
                sender.send_request(request).await
            }
        };
        let answer = answer.unwrap();
        let status = answer.status().as_u16();
        answer.into_body().collect().await.unwrap();
        status
    }
}

fn campaign(target: Target, server: u32, world: &World) {
    let size = std::env::var("HOSTILE")
        .ok()
        .map(|size| size.parse().unwrap());
    let count: usize = size.unwrap_or(10);
    let commands = if size.is_some() { 3_000 } else { 100 };
    be_good(&target, world, "warm", commands);
    let (median, alone) = be_good(&target, world, "alone", commands);
    let before = resident(server);
    let there = Arc::new(AtomicUsize::new(0));
    let kinds = [
        (Kind::Slow, count),
        (Kind::Idle, count),
        (Kind::Announcing, count),
        (Kind::Greedy, count.div_ceil(5)),
    ];
    let all: usize = kinds.iter().map(|(_, count)| count).sum();
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let (target_of_all, counted) = (target.clone(), Arc::clone(&there));
    let hostiles = std::thread::spawn(move || {
        block_on(async {
            for (kind, count) in kinds {
                for _ in 0..count {
                    let target = target_of_all.clone();
                    tokio::spawn(hostile(target, kind, Arc::clone(&counted)));
                }
            }
            let _ = is_over.await;
        });
    });
    while there.load(Ordering::SeqCst) < all {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (crowded_median, crowded) = be_good(&target, world, "crowded", commands);
    let grown = resident(server).saturating_sub(before);
    drop(over);
    hostiles.join().unwrap();
    println!(
        "{all} hostile: {commands} commands, p50 {median:?} alone and {crowded_median:?} beside them, \
         p99 {alone:?} and {crowded:?}, {} MiB more",
        grown >> 20
    );
    assert!(grown <= 256 << 20, "{grown} bytes more");
    // A machine that is busy with other tests says nothing of time.
    if size.is_some() {
        assert!(
            crowded <= 3 * alone,
            "{crowded:?} is more than 3 times {alone:?}"
        );
    }
}

#[test]
fn a_good_client_is_served_beside_hostile_ones() {
    let world = World::new();
    let server = Server::start_with(&world, &["--connections-per-address-max", "5000"]);
    let target = Target {
        address: server.address.clone(),
        certificate: None,
    };
    campaign(target, server.id(), &world);
}

#[test]
fn a_good_client_is_served_beside_hostile_ones_over_http_2() {
    let world = World::new();
    let server = Secure::start_with(&world, &["--connections-per-address-max", "5000"]);
    let target = Target {
        address: server.address.clone(),
        certificate: Some(server.certificate.clone()),
    };
    campaign(target, server.id(), &world);
}
