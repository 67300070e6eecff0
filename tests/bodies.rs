//! Bodies that are made to cost much: of many values, far nested, announced and never sent.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::good::{Good, row_named};
use crate::support::stage::{Stage, theatre};
use crate::support::{Client, Server, World};
use crate::tls::{Secure, ask, block_on, secured};

const BODY_BYTES_MAX: usize = 1 << 20;
const VALUES_MAX: usize = 200_000;

/// `start`, then `item` as often as fits into a body with `end` and no more than `most` times.
fn filled(start: &str, item: &str, end: &str, most: usize) -> String {
    let room = BODY_BYTES_MAX - start.len() - end.len();
    let count = (room / (item.len() + 1)).min(most);
    format!("{start}{}{end}", vec![item; count].join(","))
}

/// Bodies of up to 1 MiB, each hostile in its way, by name.
fn hostile() -> Vec<(&'static str, String)> {
    let nested = |open: &str, close: &str| {
        let depth = 29;
        format!("{}0{}", open.repeat(depth), close.repeat(depth))
    };
    let long_names = {
        let name = "\u{1f600}".repeat(120);
        let way = format!("{{\"{name}\":").repeat(20);
        let leaves = vec!["1e17"; 100_000].join(",");
        format!("{{\"providerContext\":{way}[{leaves}]{}}}", "}".repeat(20))
    };
    vec![
        (
            "empty objects, too many",
            filled("{\"a\":[", "{}", "]}", usize::MAX),
        ),
        (
            "empty objects",
            filled("{\"a\":[", "{}", "]}", VALUES_MAX - 2),
        ),
        (
            "empty arrays",
            filled("{\"a\":[", "[]", "]}", VALUES_MAX - 2),
        ),
        ("zeros", filled("{\"a\":[", "0", "]}", VALUES_MAX - 2)),
        (
            "objects of one",
            filled("{\"a\":[", "{\"\":0}", "]}", VALUES_MAX / 2 - 1),
        ),
        (
            "arrays of one",
            filled("{\"a\":[", "[0]", "]}", VALUES_MAX / 2 - 1),
        ),
        (
            "arrays of two",
            filled("{\"a\":[", "[0,0]", "]}", VALUES_MAX / 3 - 1),
        ),
        (
            "objects of five",
            filled(
                "{\"a\":[",
                "{\"\":0,\"\":0,\"\":0,\"\":0,\"\":0}",
                "]}",
                VALUES_MAX / 6 - 1,
            ),
        ),
        (
            "nested arrays",
            filled("{\"a\":[", &nested("[", "]"), "]}", VALUES_MAX / 30 - 1),
        ),
        (
            "nested objects",
            filled(
                "{\"a\":[",
                &nested("{\"\":", "}"),
                "]}",
                VALUES_MAX / 30 - 1,
            ),
        ),
        ("members", filled("{", "\"a\":0", "}", VALUES_MAX - 1)),
        (
            "members with escapes",
            filled("{", "\"\\n\":0", "}", VALUES_MAX - 1),
        ),
        (
            "strings with escapes",
            filled("{\"a\":[", "\"\\n\"", "]}", VALUES_MAX - 2),
        ),
        (
            "numbers that no double holds",
            filled("{\"a\":[", "1e999", "]}", VALUES_MAX - 2),
        ),
        (
            "a free object of ones",
            filled(
                "{\"providerContext\":{\"a\":[",
                "9e15",
                "]}}",
                VALUES_MAX - 3,
            ),
        ),
        (
            "a free object's members",
            filled("{\"providerContext\":{", "\"a\":9e99", "}}", VALUES_MAX - 2),
        ),
        ("faults far within", long_names),
        (
            "amounts",
            filled(
                "{\"amountByComponentCode\":{",
                "\"a\":\"\"",
                "}}",
                VALUES_MAX - 2,
            ),
        ),
    ]
}

/// A figure of the process in KiB, from `/proc`.
fn memory(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.unwrap().trim_start_matches(':').trim();
    digits.trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn one_body_takes_at_most_64_mib_while_it_is_read_whatever_its_shape() {
    let world = World::new();
    let workflow = format!("Bearer {}", world.workflow());
    let json_type = ("Content-Type", "application/json");
    let lines_type = ("Content-Type", "application/x-ndjson");
    let token = ("Authorization", workflow.as_str());
    let charge = row_named("finalize_charge").path;
    let facts = "/reference-facts";
    let captured = row_named("capture_adjustment_payment")
        .path
        .replace(['{', '}'], "");
    let mut most = 0;
    for (name, body) in hostile() {
        // Each of its own: the allocator keeps some of what others have taken.
        let server = Server::start_with(&world, &["--runtimes", "1"]);
        let mut client = server.client();
        // Once, so that all is there that a request needs.
        assert_ne!(
            client.request("POST", charge, &[json_type], b"{}").status,
            404
        );
        let before = memory(&server, "VmRSS");
        assert!(body.len() <= BODY_BYTES_MAX, "{name}: {}", body.len());
        let body = body.as_bytes();
        let refused = client.request("POST", charge, &[json_type], body).status;
        assert!(matches!(refused, 400 | 422), "{name}: {refused}");
        let path = captured.as_str();
        let refused = client
            .request("POST", path, &[json_type, token], body)
            .status;
        assert!((400..500).contains(&refused), "{name}: {refused}");
        let refused = client
            .request("POST", facts, &[json_type, token], body)
            .status;
        assert_eq!(refused, 400, "{name}");
        let summary = client.request("POST", facts, &[lines_type, token], body);
        assert_eq!(summary.json()["invalid"], 1, "{name}: {summary:?}");
        let grown = memory(&server, "VmHWM").saturating_sub(before);
        assert!(grown <= 64 << 10, "{name}: {grown} KiB");
        most = most.max(grown);
        assert_eq!(server.stop(), Some(0));
    }
    println!("{most} KiB at most");
}

#[test]
fn more_values_than_may_be_are_malformed_wherever_json_is_read() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    let malformed = [(String::new(), "malformed_json".to_owned())];
    let workflow = format!("Bearer {}", theatre.world.workflow());
    let token = ("Authorization", workflow.as_str());
    let json_type = ("Content-Type", "application/json");
    for (values, is_read) in [(VALUES_MAX, true), (VALUES_MAX + 1, false)] {
        let zeros = "0,".repeat(values - 3);
        let body = format!("{{\"facts\":[{zeros}0]}}");
        let charge = row_named("finalize_charge").path;
        let answer = client.request("POST", charge, &[json_type], body.as_bytes());
        assert_eq!(answer.faults() == malformed, !is_read, "{values}");
        let answer = client.request(
            "POST",
            "/reference-facts",
            &[json_type, token],
            body.as_bytes(),
        );
        assert_eq!(answer.status == 200, is_read, "{values}");
        let lines = client.put_lines(&theatre.world.workflow(), &body);
        let code = &lines.json()["problems"][0]["fieldErrors"][0]["code"];
        assert_eq!(code == &json!("malformed_json"), !is_read, "{lines:?}");
    }
}

#[test]
fn bodies_that_are_announced_and_not_sent_keep_nobody_from_being_served() {
    const SILENT: usize = 600;
    let stage = Stage::new();
    let path = row_named("finalize_charge").path;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
         Content-Length: {BODY_BYTES_MAX}\r\n\r\n"
    );
    let silent: Vec<_> = (0..SILENT)
        .map(|number| {
            let mut client = stage.client();
            client.send_raw(head.as_bytes());
            // Some send a beginning.
            client.send_raw(&vec![b' '; number % 3 * 500]);
            client
        })
        .collect();
    let good = Good::of(row_named("request_deposit"), &stage);
    let mut client = stage.client();
    good.carried_out(&mut client, &stage.headquarters());
    // One that comes in two pieces, too.
    let good = Good::of(row_named("finalize_charge"), &stage);
    let body = good.body.to_string();
    let (first, second) = body.as_bytes().split_at(body.len() / 2);
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        good.path,
        body.len()
    );
    client.send_raw(&[head.as_bytes(), first].concat());
    std::thread::sleep(Duration::from_millis(20));
    client.send_raw(second);
    assert_eq!(client.read_answer("POST").unwrap().status, 200);
    drop(silent);
}

#[test]
fn equal_numbers_in_free_objects_are_one_content_if_in_range() {
    let stage = Stage::new();
    let good = Good::of(row_named("capture_adjustment_payment"), &stage);
    let token = good.token(&stage);
    let mut client: Client = stage.client();
    let send = |client: &mut Client, numbers: &str| {
        let mut body = good.body.clone();
        body["providerContext"] = Value::String("HERE".to_owned());
        let text = body.to_string().replace("\"HERE\"", numbers);
        good.send_bytes(client, &token, text.as_bytes())
    };
    let refused = send(
        &mut client,
        r#"{"a":9007199254740992,"b":[1e16,{"c":1,"c":-12345678901234567890}],"d":1e999}"#,
    );
    let mut faults: Vec<_> = refused.faults();
    faults.sort();
    let at = |path: &str, code: &str| (format!("providerContext.{path}"), code.to_owned());
    assert_eq!(
        faults,
        [
            at("a", "out_of_range"),
            at("b[0]", "out_of_range"),
            at("b[1].c", "duplicate_field"),
            at("b[1].c", "out_of_range"),
            at("d", "out_of_range"),
        ]
    );
    let numbers = r#"{"z":1E2,"y":0.1000,"x":4.35,"w":1e21,"v":1e-7,"u":9007199254740991,"t":-0}"#;
    let done = send(&mut client, numbers);
    assert!(matches!(done.status, 200 | 201), "{done:?}");
    let again = send(
        &mut client,
        r#"{"t":0,"u":9007199254740991,"v":1e-7,"w":1e+21,"x":4.35,"y":0.1,"z":100}"#,
    );
    assert_eq!(
        again.header("idempotent-replayed"),
        Some("true"),
        "{again:?}"
    );
}

/// What a client of HTTP/2 sends.
type Sent = UnsyncBoxBody<Bytes, Infallible>;

/// A client that takes nothing of any body.
async fn taking_nothing(server: &Secure) -> SendRequest<Sent> {
    let stream = TcpStream::connect(&server.address).await.unwrap();
    let stream = secured(stream, server.certificate.clone(), "h2").await;
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream.unwrap()))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// A request of a thousand unknown fields, whose body is sent once `go` is true.
fn all_faults(mut go: watch::Receiver<bool>) -> Request<Sent> {
    let fields: Vec<_> = (0..1_000)
        .map(|number| format!("\"{number:060}\":0"))
        .collect();
    let body = Bytes::from(format!("{{{}}}", fields.join(",")));
    let body = futures_util::stream::once(async move {
        let _ = go.wait_for(|go| *go).await;
        Ok(Frame::data(body))
    });
    let path = row_named("finalize_charge").path.replace(['{', '}'], "");
    Request::post(format!("https://localhost{path}"))
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(StreamBody::new(body).boxed_unsync())
        .unwrap()
}

fn is_refused<B>(answer: &Response<B>) -> bool {
    matches!(answer.status().as_u16(), 400 | 422)
}

fn length<B>(answer: &Response<B>) -> usize {
    let length = answer.headers()["content-length"].to_str().unwrap();
    length.parse().unwrap()
}

/// Each stream of theirs is asked before any of them is answered, so that no answer keeps a request back.
#[test]
fn clients_sending_bad_requests_and_reading_nothing_have_bounded_memory() {
    const CLIENTS: usize = 4;
    const STREAMS: usize = 99;
    const SMALL: usize = 16 << 10;
    let world = World::new();
    let server = Secure::start_with(&world, &[]);
    block_on(async {
        let (go, told) = watch::channel(false);
        let mut clients = Vec::new();
        let mut asked = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = taking_nothing(&server).await;
            for _ in 0..STREAMS {
                asked.push(tokio::spawn(client.send_request(all_faults(told.clone()))));
            }
            let ready = Request::get("https://localhost/readyz");
            let ready = ready.body(Full::default().boxed_unsync()).unwrap();
            assert_eq!(client.send_request(ready).await.unwrap().status(), 200);
            clients.push(client);
        }
        go.send(true).unwrap();
        let mut held = Vec::new();
        for answer in asked {
            held.push(answer.await.unwrap().unwrap());
        }
        assert!(held.iter().all(is_refused));
        let (short, whole): (Vec<_>, Vec<_>) =
            held.iter().map(length).partition(|length| *length <= SMALL);
        // All of them would have more than 50 MB.
        let bytes: usize = whole.iter().sum();
        assert!(bytes <= 32 << 20, "{bytes}");
        assert!(bytes > (32 << 20) - 200_000, "{bytes}");
        assert!(!short.is_empty());
        let another = async || {
            let certificate = server.certificate.clone();
            let request = all_faults(told.clone());
            ask(&server.address, certificate, "http/1.1", request).await
        };
        let answer = another().await;
        assert!(is_refused(&answer));
        let told: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(told["code"], "request_invalid");
        let some = told["fieldErrors"].as_array().unwrap().len();
        assert!((50..200).contains(&some), "{some}");
        // What is given up makes room.
        drop((held, clients));
        while another().await.body().len() <= SMALL {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
