//! A stream of events over TLS and HTTP/2.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::reader;
use crate::support::World;
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

#[test]
fn a_stream_over_http_2_tells_what_is_committed_on_the_same_connection() {
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    block_on(async {
        let stream = TcpStream::connect(&server.address).await.unwrap();
        let stream = secured(stream, server.certificate.clone(), "h2").await;
        let stream = TokioIo::new(stream.unwrap());
        let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut sender, connection) = connected.await.unwrap();
        tokio::spawn(connection);
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
