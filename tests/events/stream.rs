//! Events as a stream.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{all, played, reader};
use crate::support::{Server, World};

/// A reader of a stream, over HTTP/1.0 so that the bytes are those of the stream alone.
struct Reader {
    lines: BufReader<TcpStream>,
    head: String,
}

impl Reader {
    fn open(server: &Server, token: &str, query: &str, more: &str) -> Self {
        Self::try_open(server, token, query, more).unwrap()
    }

    /// As [`Reader::open`]; `None` where the server has no place for the connection.
    fn try_open(server: &Server, token: &str, query: &str, more: &str) -> Option<Self> {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let request = format!(
            "GET /events{query} HTTP/1.0\r\nHost: test\r\nAccept: text/event-stream\r\n\
             Authorization: Bearer {token}\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut reader = Self {
            lines: BufReader::new(stream),
            head: String::new(),
        };
        while !reader.head.ends_with("\r\n\r\n") {
            let read = reader.lines.read_line(&mut reader.head).ok()?;
            (read > 0).then_some(())?;
        }
        Some(reader)
    }

    /// The next event: its fields. `None` at the end of the stream.
    fn next(&mut self) -> Option<BTreeMap<String, String>> {
        let mut fields = BTreeMap::new();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() {
                if fields.contains_key("data") {
                    return Some(fields);
                }
                fields.clear();
            } else if !line.starts_with(':') {
                let (name, value) = line.split_once(": ").unwrap();
                fields.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

#[test]
fn a_stream_tells_what_pages_tell_and_then_what_is_committed() {
    let stage = played();
    let token = stage.token(&reader());
    let mut client = stage.client();
    let whole = all(&mut client, &token, "", 1_000);
    let mut reader = Reader::open(&stage.theatre.server, &token, "?limit=99999", "");
    assert!(reader.head.contains("200 OK"), "{}", reader.head);
    assert!(
        reader.head.contains("content-type: text/event-stream"),
        "{}",
        reader.head
    );
    for event in &whole {
        let told = reader.next().unwrap();
        assert_eq!(told["id"], event["id"].as_str().unwrap());
        assert_eq!(told["event"], event["type"].as_str().unwrap());
        assert_eq!(&told["data"].parse::<Value>().unwrap(), event);
    }
    let world = &stage.theatre.world;
    let body = world.deposit_request("code-new", "key-new");
    let done = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    let told = reader.next().unwrap();
    assert_eq!(told["id"], format!("{}-0", done.position().unwrap()));
    assert_eq!(
        told["event"],
        "carebook.settlement-statement.deposit-requested"
    );
}

#[test]
fn a_stream_tells_nothing_that_comes_after_its_reader_was_withdrawn() {
    let stage = played();
    let who = reader();
    let token = stage.token(&who);
    let whole = all(&mut stage.client(), &token, "", 1_000);
    let after = format!("?after={}", whole.last().unwrap()["id"].as_str().unwrap());
    let mut reader = Reader::open(&stage.theatre.server, &token, &after, "");
    let workflow = stage.theatre.world.workflow();
    for (id, lifecycle) in [(&*who.subject, "withdrawn"), ("another", "active")] {
        let facts = json!({"lifecycle": lifecycle});
        let fact = json!({"kind": "actor", "id": id, "revision": 99, "facts": facts});
        let put = stage.client().put_facts(&workflow, &[fact]);
        assert_eq!(put.json()["applied"], 1, "{put:?}");
    }
    assert_eq!(reader.next(), None);
}

#[test]
fn a_stream_goes_on_after_the_last_event_that_its_reader_has() {
    let stage = played();
    let token = stage.token(&reader());
    let whole = all(
        &mut stage.client(),
        &token,
        "&type=carebook.branch.*",
        1_000,
    );
    let first = whole[0]["id"].as_str().unwrap();
    let second = whole[1]["id"].as_str().unwrap();
    let last = format!("Last-Event-ID: {first}\r\n");
    let query = "?after=0-0&type=carebook.branch.*";
    let server = &stage.theatre.server;
    assert_eq!(
        Reader::open(server, &token, query, &last).next().unwrap()["id"],
        second
    );
    assert_eq!(
        Reader::open(server, &token, query, "").next().unwrap()["id"],
        first
    );
    let bad = Reader::open(server, &token, query, "Last-Event-ID: x\r\n");
    assert!(bad.head.contains("400 Bad Request"), "{}", bad.head);
    // A page goes on after `after`, and does not look at it.
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Last-Event-ID", "x")];
    let page = stage
        .client()
        .request("GET", &format!("/events{query}"), &headers, b"");
    assert_eq!((page.status, &page.json()["events"]), (200, &json!(whole)));
}

#[test]
fn a_server_that_is_told_to_stop_ends_its_streams_at_once() {
    let world = World::new();
    let server = Server::start(&world);
    let mut reader = Reader::open(&server, &world.token(&reader()), "", "");
    assert!(reader.head.contains("200 OK"), "{}", reader.head);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(reader.next(), None);
}

/// Clients open a stream one after the other, each in the only place of its address once the one before has left in
/// this way. Were that noticed at the next comment alone, which is due after 10 s, it would take longer than there is
/// time for all of them.
fn come_and_go(leave: impl Fn(Reader)) {
    const CLIENTS: usize = 5;
    const WITHIN: Duration = Duration::from_secs(30);
    let world = World::new();
    let server = Server::start_with(&world, &["--connections-per-address-max", "1"]);
    let token = world.token(&reader());
    let (begun, mut gone) = (Instant::now(), 0);
    while gone < CLIENTS {
        match Reader::try_open(&server, &token, "", "") {
            Some(mut reader) => {
                assert!(reader.head.contains("200 OK"), "{}", reader.head);
                let mut first = String::new();
                while !first.ends_with("\n\n") {
                    assert!(reader.lines.read_line(&mut first).unwrap() > 0);
                }
                assert_eq!(first, ": events\n\n");
                leave(reader);
                gone += 1;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(begun.elapsed() < WITHIN, "{gone} have left");
    }
}

#[test]
fn a_stream_reset_by_its_client_frees_its_place_before_its_next_comment() {
    come_and_go(|reader| {
        let socket = reader.lines.get_ref();
        rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
    });
}

#[test]
fn a_stream_closed_by_its_client_frees_its_place_before_its_next_comment() {
    come_and_go(drop);
}
