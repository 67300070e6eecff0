//! Streams of facts: who may go on, and until when.

use std::convert::Infallible;

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::Request;
use hyper::body::{Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::{Answer, Client, Server, World, actor};
use crate::tls::{Secure, block_on, secured};

/// Facts after which a stream is judged again at the latest.
const JUDGED_AFTER: usize = 512;

/// A stream that is being sent.
struct Stream {
    client: Client,
    sent: usize,
}

impl Stream {
    fn begin(server: &Server, token: &str) -> Self {
        let mut client = server.client();
        client.send_raw(
            format!(
                "POST /reference-facts HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            .as_bytes(),
        );
        Self { client, sent: 0 }
    }

    /// Sends so many lines more; whether they were taken.
    fn send(&mut self, lines: usize) -> bool {
        let mut text = String::new();
        for _ in 0..lines {
            let fact = json!({"kind": "actor", "id": format!("streamed-{}", self.sent),
                "revision": 1, "facts": {"lifecycle": "active"}});
            text.push_str(&format!("{fact}\n"));
            self.sent += 1;
        }
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.client.try_send_raw(chunk.as_bytes()).is_ok()
    }

    /// The number at the beginning of the response's message, of facts that are stored.
    fn ends_with(mut self, server: &Server, world: &World, status: u16, code: &str) -> usize {
        let answer = self.client.read_answer("POST").unwrap();
        assert_eq!(
            (answer.status, answer.json()["code"].clone()),
            (status, json!(code)),
            "{answer:?}"
        );
        let told = told(&answer);
        let mut client = server.client();
        let reader = world.token(&Actor {
            permissions: vec!["facts:read".into()],
            ..actor(ActorKind::SystemWorkflow, "reader")
        });
        let stand = (0..self.sent)
            .filter(|number| {
                let path = format!("/reference-facts/actor/streamed-{number}");
                client.get(&path, &reader).status == 200
            })
            .count();
        assert_eq!(stand, told, "{answer:?}");
        stand
    }
}

fn told(answer: &Answer) -> usize {
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    let digits: String = message
        .chars()
        .skip_while(|letter| !letter.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    assert!(message.contains("lines were applied"), "{message}");
    digits.parse().unwrap()
}

/// Waits until so many of the stream's lines are stored.
fn wait_for(server: &Server, world: &World, number: usize) {
    let mut client = server.client();
    let path = format!("/reference-facts/actor/streamed-{number}");
    while client.get(&path, &world.workflow()).status != 200 {
        std::thread::yield_now();
    }
}

fn streamer(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["facts:write".into()],
        ..actor(ActorKind::SystemWorkflow, "streamer")
    })
}

fn withdraw(server: &Server, world: &World) {
    let fact = json!({"kind": "actor", "id": "streamer", "revision": 1,
        "facts": {"lifecycle": "withdrawn"}});
    let answer = server.client().put_facts(&world.workflow(), &[fact]);
    assert_eq!(answer.json()["applied"], 1);
}

#[test]
fn a_stream_of_a_withdrawn_actor_ends_soon_and_says_what_was_applied() {
    let world = World::new();
    let server = Server::start(&world);
    let mut stream = Stream::begin(&server, &streamer(&world));
    assert!(stream.send(100));
    wait_for(&server, &world, 99);
    withdraw(&server, &world);
    stream.send(2 * JUDGED_AFTER);
    let stand = stream.ends_with(&server, &world, 403, "actor_withdrawn");
    assert!((100..=100 + JUDGED_AFTER).contains(&stand), "{stand}");
}

#[test]
fn a_silent_stream_ends_too() {
    let world = World::new();
    let server = Server::start(&world);
    let mut stream = Stream::begin(&server, &streamer(&world));
    assert!(stream.send(3));
    wait_for(&server, &world, 2);
    withdraw(&server, &world);
    // Nothing more is sent: the answer comes by itself.
    let stand = stream.ends_with(&server, &world, 403, "actor_withdrawn");
    assert_eq!(stand, 3);
}

#[test]
fn a_stream_whose_chunks_are_malformed_is_invalid_and_says_what_was_applied() {
    let world = World::new();
    let server = Server::start(&world);
    let mut stream = Stream::begin(&server, &streamer(&world));
    assert!(stream.send(3));
    wait_for(&server, &world, 2);
    stream.client.send_raw(b"zz\r\n");
    let stand = stream.ends_with(&server, &world, 400, "request_invalid");
    assert_eq!(stand, 3);
}

#[test]
fn a_stream_ends_when_its_key_is_withdrawn() {
    let world = World::new();
    let server = Server::start(&world);
    let token = streamer(&world);
    let mut stream = Stream::begin(&server, &token);
    assert!(stream.send(10));
    wait_for(&server, &world, 9);
    let other = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    std::fs::write(world.path("jwks.json"), other.jwks()).unwrap();
    server.signal("HUP");
    let mut client = server.client();
    while client.get("/organization", &token).status != 401 {
        std::thread::yield_now();
    }
    stream.send(2 * JUDGED_AFTER);
    let answer = stream.client.read_answer("POST").unwrap();
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(
        answer.header("www-authenticate"),
        Some("Bearer error=\"invalid_token\"")
    );
    let told = told(&answer);
    assert!((10..=10 + JUDGED_AFTER).contains(&told), "{told}");
    // Its own key again: what was reported is stored.
    std::fs::write(world.path("jwks.json"), world.key.jwks()).unwrap();
    server.signal("HUP");
    while client.get("/organization", &token).status == 401 {
        std::thread::yield_now();
    }
    let workflow = world.workflow();
    let stand = (0..stream.sent).filter(|number| {
        let path = format!("/reference-facts/actor/streamed-{number}");
        client.get(&path, &workflow).status == 200
    });
    assert_eq!(stand.count(), told);
}

#[test]
fn fact_streams_stay_within_their_room_and_shed_no_command_beside_them() {
    let world = World::new();
    let server = Server::start_with(&world, &["--commands-max", "2", "--runtimes", "1"]);
    let mut loads: Vec<_> = (0..4)
        .map(|_| Stream::begin(&server, &streamer(&world)))
        .collect();
    // However many there are, they take half of the two, and a command has the other.
    for stream in &mut loads {
        stream.send(50);
    }
    let mut client = server.client();
    let hq = world.headquarters();
    for number in 0..20 {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let answer = client.post("/settlement-deposit-requests", &hq, &body);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    for mut stream in loads {
        stream.client.send_raw(b"0\r\n\r\n");
        let answer = stream.client.read_answer("POST").unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Each fact waits for the one before, which is of the same resource, so that what comes is read much later.
#[test]
fn lines_in_small_http_2_frames_end_no_connection_and_no_other_stream() {
    const LINES: usize = 2_500;
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    let frames = (1..=LINES).map(|revision| {
        let fact = json!({"kind": "actor", "id": "again", "revision": revision,
            "facts": {"lifecycle": "active"}});
        Ok::<_, Infallible>(Frame::data(format!("{fact}\n").into()))
    });
    let frames: Vec<Result<Frame<Bytes>, Infallible>> = frames.collect();
    let facts = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
    block_on(async {
        let stream = TcpStream::connect(&server.address).await.unwrap();
        let stream = secured(stream, server.certificate.clone(), "h2").await;
        let stream = TokioIo::new(stream.unwrap());
        let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut client, connection) = connected.await.unwrap();
        tokio::spawn(connection);
        let token = world.token(&Actor {
            permissions: vec!["facts:write".into(), "events:read".into()],
            ..actor(ActorKind::SystemWorkflow, "workflow-1")
        });
        let bearer = format!("Bearer {token}");
        let events = Request::get("https://localhost/events")
            .header("authorization", &bearer)
            .header("accept", "text/event-stream")
            .body(Empty::new().boxed_unsync())
            .unwrap();
        let mut events = client.send_request(events).await.unwrap();
        assert_eq!(events.status(), 200);
        let facts = Request::post("https://localhost/reference-facts")
            .header("authorization", &bearer)
            .header("content-type", "application/x-ndjson")
            .body(facts)
            .unwrap();
        let answer = client.send_request(facts).await.unwrap();
        assert_eq!(answer.status(), 200);
        let summary = answer.into_body().collect().await.unwrap().to_bytes();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        assert_eq!(summary["applied"], LINES);
        let piece = events.body_mut().frame().await;
        assert!(piece.unwrap().unwrap().is_data());
    });
}
