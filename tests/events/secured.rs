//! A stream of events over TLS and HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::reader;
use crate::support::{PATIENCE, World};
use crate::tls::{Secure, block_on, secured};

/// The stream's text until it contains `end`.
async fn told(answer: &mut Response<Incoming>, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let frame = answer.body_mut().frame().await.unwrap().unwrap();
        let data = frame.into_data().unwrap_or_default();
        text.push_str(std::str::from_utf8(&data).unwrap());
    }
    text
}

/// A connection, once the server has a place for it, and the task that drives it.
async fn come(server: &Secure) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    loop {
        let stream = TcpStream::connect(&server.address).await.unwrap();
        let Ok(stream) = secured(stream, server.certificate.clone(), "h2").await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let connected = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = connected.unwrap();
        return (sender, tokio::spawn(connection));
    }
}

#[test]
fn over_http_2_reset_streams_and_ended_connections_free_their_places() {
    let world = World::new();
    let server = Secure::start_with(&world, &["--connections-per-address-max", "1"]);
    let token = world.token(&reader());
    let events = || {
        let request = Request::get("https://localhost/events")
            .header("authorization", format!("Bearer {token}"))
            .header("accept", "text/event-stream");
        request.body(Full::<Bytes>::default()).unwrap()
    };
    block_on(async {
        let come_and_go = async {
            for _ in 0..3 {
                let (mut sender, connection) = come(&server).await;
                // More than a connection may have open.
                for _ in 0..120 {
                    let mut stream = sender.send_request(events()).await.unwrap();
                    assert_eq!(stream.status(), StatusCode::OK);
                    told(&mut stream, ": events\n\n").await;
                }
                let mut stream = sender.send_request(events()).await.unwrap();
                told(&mut stream, ": events\n\n").await;
                // It is open while the connection ends.
                connection.abort();
                assert!(connection.await.unwrap_err().is_cancelled());
                drop(stream);
            }
        };
        let ended = tokio::time::timeout(PATIENCE, come_and_go).await;
        ended.expect("places are given back");
    });
}

#[test]
fn a_stream_over_http_2_tells_what_is_committed_on_the_same_connection() {
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    block_on(async {
        let (mut sender, _) = come(&server).await;
        let request = |method: &str, path: &str, token: &str, accept: &str, body: String| {
            let request = Request::builder()
                .method(method)
                .uri(format!("https://localhost{path}"))
                .header("authorization", format!("Bearer {token}"))
                .header("accept", accept)
                .header("content-type", "application/json");
            request.body(Full::<Bytes>::from(body)).unwrap()
        };
        let token = world.token(&reader());
        let events = request("GET", "/events", &token, "text/event-stream", String::new());
        let mut stream = sender.send_request(events).await.unwrap();
        assert_eq!(stream.status(), StatusCode::OK);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        told(&mut stream, ": events\n\n").await;
        for number in 1..=3 {
            let name = number.to_string();
            let body = world.deposit_request(&format!("code-{name}"), &format!("key-{name}"));
            let path = "/settlement-deposit-requests";
            let token = world.headquarters();
            let command = request("POST", path, &token, "application/json", body.to_string());
            let answer = sender.send_request(command).await.unwrap();
            assert_eq!(answer.status(), StatusCode::CREATED);
            let text = told(&mut stream, "\n\n").await;
            assert!(text.contains(&format!("id: {number}-0\n")), "{text}");
        }
    });
}
