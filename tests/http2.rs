//! What the requests of HTTP/2 connections may take together, and what their heads may have.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::hostile::{fields, frame};
use crate::support::{PATIENCE, World};
use crate::tls::{Secure, ask, block_on, secured};

type Sent = UnsyncBoxBody<Bytes, Infallible>;

/// A connection, and the task that drives it.
async fn connected(server: &Secure) -> (SendRequest<Sent>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(&server.address).await.unwrap();
    let stream = secured(stream, server.certificate.clone(), "h2").await;
    let connected = handshake(TokioExecutor::new(), TokioIo::new(stream.unwrap())).await;
    let (sender, connection) = connected.unwrap();
    (sender, tokio::spawn(connection))
}

#[test]
fn over_http_2_more_than_100_fields_are_refused_and_the_connection_stays() {
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    block_on(async {
        let (mut sender, _connection) = connected(&server).await;
        for (fields, status) in [(100, 200), (101, 431), (300, 431), (1, 200)] {
            let mut request = Request::get("https://localhost/readyz");
            request = request.header("x-request-id", "r-1");
            for number in 1..fields {
                request = request.header(format!("x-{number}"), "y");
            }
            let request = request.body(Empty::new().boxed_unsync()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status(), status, "{fields}");
            // The refusal has what every answer has.
            let headers = answer.headers();
            assert_eq!(headers["x-request-id"], "r-1", "{fields}");
            assert!(headers.contains_key("strict-transport-security"));
            assert_eq!(headers["content-type"], "application/json");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            if status == 431 {
                assert_eq!(body["code"], "request_invalid", "{fields}");
            }
        }
    });
}

/// Sends a request whose `:path` is written as it is; returns the first byte of the fields of the response.
async fn asked_in_bytes(server: &Secure, path: &str) -> u8 {
    let stream = TcpStream::connect(&server.address).await.unwrap();
    let stream = secured(stream, server.certificate.clone(), "h2").await;
    let mut stream = stream.unwrap();
    let head = fields(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ]);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Settings, and a head that is whole and ends its stream.
    bytes.extend(frame(4, 0, 0, &[]));
    bytes.extend(frame(1, 5, 1, &head));
    stream.write_all(&bytes).await.unwrap();
    stream.flush().await.unwrap();
    loop {
        let mut start = [0; 9];
        stream.read_exact(&mut start).await.unwrap();
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        assert_ne!(start[3], 3, "the stream is reset");
        if start[3] == 1 {
            return payload[0];
        }
    }
}

#[test]
fn over_http_2_a_path_is_routed_without_its_fragment() {
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    // `:status` 200 and 404 are entries of HPACK's static table (RFC 7541, appendix A).
    let (found, not_found) = (0x80 | 8, 0x80 | 13);
    block_on(async {
        for (path, status) in [
            ("/healthz", found),
            ("/healthz#/../nothing", found),
            ("/nothing#/../healthz", not_found),
        ] {
            let asked = timeout(PATIENCE, asked_in_bytes(&server, path)).await;
            assert_eq!(asked.unwrap(), status, "{path}");
        }
    });
}

/// Bodies that never come keep their requests in flight.
#[test]
fn open_http_2_requests_per_address_are_bounded_and_freed_when_they_end() {
    const CONNECTIONS: usize = 14;
    const STREAMS: usize = 100;
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    let bearer = format!("Bearer {}", world.headquarters());
    // A field that comes once and is referred to from then on.
    let filler = "y".repeat(2_900);
    let endless = || {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut request = Request::post("https://localhost/settlement-deposit-requests")
            .header("authorization", &bearer)
            .header("content-type", "application/json");
        for _ in 0..5 {
            request = request.header("x-filler", &filler);
        }
        request.body(StreamBody::new(never).boxed_unsync()).unwrap()
    };
    block_on(async {
        let status_over = async |protocol| {
            let request = Request::get("https://localhost/readyz").header("host", "localhost");
            let request = request.body(Full::<Bytes>::default()).unwrap();
            let certificate = server.certificate.clone();
            let answer = ask(&server.address, certificate, protocol, request);
            answer.await.status()
        };
        // A second request of a connection, with a head that is larger than those.
        let second = async || {
            let (mut sender, connection) = connected(&server).await;
            let _first = sender.send_request(endless());
            let mut request = Request::get("https://localhost/readyz");
            for _ in 0..5 {
                request = request.header("x-filler", &filler);
            }
            let request = request
                .header("x-more", "y".repeat(bearer.len() + 200))
                .body(Empty::new().boxed_unsync())
                .unwrap();
            let begun = Instant::now();
            let status = sender.send_request(request).await.unwrap().status();
            connection.abort();
            // A client that asks again at once would cost as much as one that is served.
            let paused = begun.elapsed() >= Duration::from_millis(20);
            assert!(paused || status != StatusCode::TOO_MANY_REQUESTS);
            status
        };
        let (told, mut answers) = mpsc::unbounded_channel();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut sender, connection) = connected(&server).await;
            for _ in 0..STREAMS {
                let (answer, told) = (sender.send_request(endless()), told.clone());
                tokio::spawn(async move {
                    if let Ok(answer) = answer.await {
                        let _ = told.send(answer);
                    }
                });
            }
            open.push((sender, connection));
        }
        let refused = timeout(PATIENCE, answers.recv()).await.unwrap().unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = refused.headers().clone();
        assert_eq!(headers["retry-after"], "1");
        assert!(headers.contains_key("x-request-id"));
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], "overloaded");
        assert_eq!(second().await, StatusCode::TOO_MANY_REQUESTS);
        // Who sends one request at a time is served all the same.
        for protocol in ["http/1.1", "h2"] {
            assert_eq!(status_over(protocol).await, StatusCode::OK, "{protocol}");
        }
        for (sender, connection) in open {
            connection.abort();
            drop(sender);
        }
        // The server hears of it when it does.
        let room = async {
            while second().await != StatusCode::OK {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, room).await.unwrap();
    });
}
