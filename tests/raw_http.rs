//! Oddities of HTTP/1.1 (RFC 9110, RFC 9112), as bytes: each is answered or refused as it should
//! be, and what follows it on the connection is answered in step or not at all.

use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::stage::theatre;
use crate::support::{Server, World, resident};

/// What follows every oddity: it is answered after all else, or not at all.
const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Request-Id: probe\r\n\r\n";
const GOOD: &str = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
/// Answered 401 without its body, which is taken all the same.
const POST: &str = "POST /settlement-deposit-requests HTTP/1.1\r\nHost: a\r\n";
/// Needs no token: its body is read.
const OPEN_POST: &str = "POST /reservation-financial-lifecycles/b/regional-benefit-charge-\
    finalizations HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";

struct Case {
    bytes: Vec<u8>,
    /// The statuses of its answers; one to HEAD, which has no body, is negative.
    statuses: Vec<i32>,
    goes_on: bool,
}

#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, bytes: impl Into<Vec<u8>>, statuses: &[i32], goes_on: bool) {
        self.0.push(Case {
            bytes: bytes.into(),
            statuses: statuses.to_vec(),
            goes_on,
        });
    }

    /// A request that is answered, and the connection goes on: alone and after others.
    fn answered(&mut self, bytes: impl AsRef<[u8]>, status: i32) {
        let bytes = bytes.as_ref();
        self.add(bytes, &[status], true);
        self.add([GOOD.as_bytes(), bytes].concat(), &[200, status], true);
    }

    /// A head that is refused, alone and after others, and closes the connection.
    fn refused(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.add(bytes, &[400], false);
        self.add([GOOD.as_bytes(), bytes].concat(), &[200, 400], false);
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn with_line(line: &[u8]) -> Vec<u8> {
    let start = &b"GET /healthz HTTP/1.1\r\nHost: a\r\n"[..];
    [start, line, b"\r\n\r\n"].concat()
}

fn request_lines(cases: &mut Cases) {
    for line in [
        "GET /healthz",
        "GET /healthz ",
        "GET /healthz HTTP/1.1 ",
        "GET  /healthz HTTP/1.1",
        "GET /healthz  HTTP/1.1",
        " GET /healthz HTTP/1.1",
        "GET\t/healthz HTTP/1.1",
        "GET /healthz\tHTTP/1.1",
        "GET /heal thz HTTP/1.1",
        "GET /healthz HTTP/0.9",
        "GET /healthz HTTP/1.2",
        "GET /healthz HTTP/2.0",
        "GET /healthz HTTP/11",
        "GET /healthz HTTP/1.",
        "GET /healthz HTTP/1.1x",
        "GET /healthz http/1.1",
        "GET /healthz HTTPS/1.1",
        "GET HTTP/1.1",
        "GET",
        "G(T /healthz HTTP/1.1",
        "G\u{e9}T /healthz HTTP/1.1",
        "\0 /healthz HTTP/1.1",
        "GET /healthz\0 HTTP/1.1",
        "GET /healthz\u{e9} HTTP/1.1",
        "GET /healthz\x7f HTTP/1.1",
        "GET /healthz#there HTTP/1.1",
        "GET # HTTP/1.1",
        "GET ?a HTTP/1.1",
        "GET healthz HTTP/1.1",
        "GET a HTTP/1.1",
        "GET a:80 HTTP/1.1",
        "GET * HTTP/1.1",
        "POST * HTTP/1.1",
        "OPTIONS ** HTTP/1.1",
        "GET http:// HTTP/1.1",
        "GET http:///healthz HTTP/1.1",
        "GET http:/healthz HTTP/1.1",
        "GET ftp://a/healthz HTTP/1.1",
        "GET http://b/healthz HTTP/1.1",
        "GET http://a:81/healthz HTTP/1.1",
        "GET http://user@a/healthz HTTP/1.1",
        "GET http://a:99999/healthz HTTP/1.1",
        "GET http://a/healthz#there HTTP/1.1",
        "CONNECT a:80 HTTP/1.1",
        "CONNECT /healthz HTTP/1.1",
        "CONNECT a HTTP/1.1",
    ] {
        cases.refused(format!("{line}\r\nHost: a\r\n\r\n"));
    }
    // TLS, HTTP/2, and an empty line that is none.
    cases.refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n");
    cases.refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    cases.refused(b"\rGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    cases.refused(b"\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    for (target, status) in [
        ("/healthz?a=b?c", 200),
        ("/healthz?", 200),
        ("http://a/healthz", 200),
        ("HTTP://A:80/healthz", 200),
        ("https://a:443/healthz", 200),
        ("http://a", 404),
        ("http://a?b", 404),
        ("//healthz", 404),
        ("/healthz/", 404),
        ("/healthz/../healthz", 404),
        ("/%68ealthz", 404),
        ("/%00", 404),
        ("/%zz", 404),
        ("/", 404),
    ] {
        cases.answered(get(target), status);
    }
    for (method, status) in [
        ("get", 405),
        ("POST", 405),
        ("TRACE", 405),
        ("BREW", 405),
        ("!#$%&'*+-.^_`|~09", 405),
        ("OPTIONS", 204),
        ("HEAD", -200),
    ] {
        cases.answered(
            format!("{method} /healthz HTTP/1.1\r\nHost: a\r\n\r\n"),
            status,
        );
    }
    cases.answered("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204);
    cases.answered(format!("\r\n\r\n\r\n{GOOD}"), 200);
    let long = format!("/{}", "x".repeat(10_000));
    cases.answered(get(&long), 404);
}

fn hosts(cases: &mut Cases) {
    let host = |host: &str| format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    for bad in [
        "",
        "Host:\r\n",
        "Host: \t\r\n",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nX: y\r\nhOST: b\r\n",
        "Host: a\r\nHost:\r\n",
        "Host: a, b\r\n",
        "Host: a b\r\n",
        "Host: a/\r\n",
        "Host: a?b\r\n",
        "Host: a#b\r\n",
        "Host: u@a\r\n",
        "Host: http://a\r\n",
        "Host: a:b\r\n",
        "Host: a:1:2\r\n",
        "Host: a:-1\r\n",
        "Host: a:65536\r\n",
        "Host: [::1\r\n",
        "Host: ::1\r\n",
        "Host: [a]\r\n",
        "Host: [::1]a\r\n",
        "Host: %\r\n",
        "Host: %4\r\n",
        "Host: a\\b\r\n",
        "Host: \"a\"\r\n",
        "Host: \u{e9}\r\n",
        "Host : a\r\n",
        "Host\t: a\r\n",
        " Host: a\r\n",
    ] {
        cases.refused(host(bad));
    }
    for good in [
        "Host:a",
        "HOST: a",
        "Host: \t a \t",
        "Host: a:80",
        "Host: a:",
        "Host: 127.0.0.1:8080",
        "Host: [::1]:80",
        "Host: [::1]",
        "Host: a_b.c-d~e",
        "Host: %41",
        "Host: A",
        "X: y\r\nHost: a",
    ] {
        cases.answered(host(&format!("{good}\r\n")), 200);
    }
    cases.refused("GET /healthz HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n");
    cases.refused("GET /healthz HTTP/1.0\r\nHost: \r\n\r\n");
    cases.refused("GET http://b/healthz HTTP/1.0\r\nHost: a\r\n\r\n");
    cases.add("GET http://b/healthz HTTP/1.0\r\n\r\n", &[200], false);
}

fn fields(cases: &mut Cases) {
    for bad in [
        &b"Bad Field: x"[..],
        b"X : y",
        b"X\t: y",
        b": y",
        b"X",
        b"X y",
        b" X: y",
        b"\tX: y",
        b"X: y\r\n z",
        b"X: y\r\n\tz",
        b"X: y\r\n ",
        b"X: y\rz",
        b"X: y\r",
        b"X: y\r\r\nZ: z",
        b"X: y\nZ: z",
        b"X: y\n",
        b"X: y\0",
        b"X: \x01",
        b"X: \x0b",
        b"X: \x7f",
        b"X\0: y",
        b"X\r: y",
        b"X\r\n: y",
        b"X(: y",
        b"[X]: y",
        b"X\"Y: y",
        b"\xc3\xa9: y",
        b"{}",
        b"<a>",
        b"=",
    ] {
        cases.refused(with_line(bad));
    }
    let many = |count| "X: y\r\n".repeat(count);
    for good in [
        b"X:".to_vec(),
        b"X:y".to_vec(),
        b"X: \t y \t ".to_vec(),
        b"X: \x80\xff".to_vec(),
        b"X: a, b, \"c\"".to_vec(),
        b"!#$%&'*+-.^_`|~1aZ: y".to_vec(),
        b"Connection: keep-alive".to_vec(),
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk".to_vec(),
        b"TE: trailers, deflate".to_vec(),
        b"Expect: the unexpected".to_vec(),
        b"Content-Length: 0".to_vec(),
        b"Transfer_Encoding: chunked".to_vec(),
        b"Content-Lengths: 5".to_vec(),
        format!("{}Y: z", many(96)).into_bytes(),
        format!("X: {}", "y".repeat(12_000)).into_bytes(),
        format!("{}: y", "X".repeat(5_000)).into_bytes(),
    ] {
        cases.answered(with_line(&good), 200);
    }
    for large in [
        with_line(format!("{}Y: z", many(101)).as_bytes()),
        with_line(format!("X: {}", "y".repeat(17_000)).as_bytes()),
        with_line(format!("X: {}", "y".repeat(100_000)).as_bytes()),
        get(&format!("/{}", "x".repeat(40_000))).into_bytes(),
    ] {
        cases.add(large.clone(), &[431], false);
        cases.add([GOOD.as_bytes(), &large].concat(), &[200, 431], false);
    }
    for close in ["Connection: close", "connection: Keep-Alive, CLOSE"] {
        cases.add(with_line(close.as_bytes()), &[200], false);
    }
    cases.add("GET /healthz HTTP/1.0\r\n\r\n", &[200], false);
    let kept = "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    cases.answered(kept, 200);
}

fn lengths(cases: &mut Cases) {
    let length = |length: &str, body: &str| format!("{POST}{length}\r\n\r\n{body}");
    for bad in [
        "Content-Length:",
        "Content-Length: +1",
        "Content-Length: -1",
        "Content-Length: 0x1",
        "Content-Length: 1.0",
        "Content-Length: 1 1",
        "Content-Length: 1,1",
        "Content-Length: 1, 1",
        "Content-Length: 1;",
        "Content-Length: a",
        "Content-Length: \"1\"",
        "Content-Length: 18446744073709551615",
        "Content-Length: 18446744073709551616",
        "Content-Length: 99999999999999999999999",
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1\r\nX: y\r\ncontent-LENGTH: 0",
        "Content-Length : 1",
        "Content-Length: 1\r\n 0",
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Transfer-Encoding: chunked\r\nContent-Length: x",
        "Transfer-Encoding:",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip,chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: , chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: 'chunked'",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding: chunked\x0c",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding\r\n: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-encoding: x",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
    ] {
        cases.refused(length(bad, "0\r\n\r\n"));
    }
    cases.refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    for (good, body) in [
        ("Content-Length: 0", ""),
        ("Content-Length: 00", ""),
        ("Content-Length:\t003 ", "abc"),
        ("Content-Length: 5", "GET /"),
        ("Transfer-Encoding: chunked", "0\r\n\r\n"),
        ("transfer-encoding:\tCHUNKED ", "0\r\n\r\n"),
        (
            "Connection: keep-alive, Transfer-Encoding\r\nTransfer-Encoding: chunked",
            "0\r\n\r\n",
        ),
    ] {
        cases.answered(length(good, body), 401);
    }
    let large = "x".repeat(2 << 20);
    cases.answered(length("Content-Length: 2097152", &large), 401);
    // A body is where it is announced, whatever the method.
    let inner = GOOD.len();
    cases.answered(
        format!("GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: {inner}\r\n\r\n{GOOD}"),
        200,
    );
}

fn chunks(cases: &mut Cases) {
    let chunked = |body: &[u8]| {
        let head = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    for good in [
        &b"3\r\nabc\r\n0\r\n\r\n"[..],
        b"a\r\n0123456789\r\n0\r\n\r\n",
        b"A\r\n0123456789\r\n0\r\n\r\n",
        b"000003\r\nabc\r\n000\r\n\r\n",
        b"3;a\r\nabc\r\n0\r\n\r\n",
        b"3;a=b;c=\"d;e\"\r\nabc\r\n0;z\r\n\r\n",
        b"3 ; a = b\r\nabc\r\n0\r\n\r\n",
        b"3\t;a\r\nabc\r\n0\r\n\r\n",
        b"3\r\n\r\n\r\r\n0\r\n\r\n",
        b"0\r\nX: y\r\n\r\n",
        b"0\r\nHost: b\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n",
        b"5\r\n0\r\n\r\n\r\n0\r\n\r\n",
    ] {
        cases.answered(chunked(good), 401);
    }
    for bad in [
        &b"\r\n0\r\n\r\n"[..],
        b" 0\r\n\r\n",
        b"x\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"3\rabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nab\r\n0\r\n\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3;a\nabc\r\n0\r\n\r\n",
        b"3;a\rb\r\nabc\r\n0\r\n\r\n",
        b"3;\0\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"3 3\r\nabc\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        b"10000000000000003\r\nabc\r\n0\r\n\r\n",
        b"00000000000000000003\r\nabc\r\n0\r\n\r\n",
        b"0\n\n",
        b"0\r\n\n",
        b"0\r\nX: y\n\r\n",
        b"0\r\nX: y\r\r\n\r\n",
        b"0\r\nX: \0\r\n\r\n",
    ] {
        cases.add(chunked(bad), &[401], false);
        // Where the body is read it is refused as invalid: sent again it would be refused again.
        let head = format!("{OPEN_POST}Transfer-Encoding: chunked\r\n\r\n");
        cases.add([head.as_bytes(), bad].concat(), &[422], false);
    }
    let head = format!("{OPEN_POST}Transfer-Encoding: chunked\r\n\r\n");
    let extended = |bytes: usize| format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(bytes));
    let trailing = |lines: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(lines));
    let trailer = |bytes: usize| format!("0\r\nX: {}\r\n\r\n", "y".repeat(bytes));
    for good in [extended(16_000), trailing(100), trailer(16_000)] {
        cases.answered(chunked(good.as_bytes()), 401);
    }
    for bad in [
        extended(16 << 10),
        trailing(101),
        trailer(16 << 10),
        "0\r\nX\r\n\r\n".to_owned(),
        "0\r\n: y\r\n\r\n".to_owned(),
    ] {
        cases.add(chunked(bad.as_bytes()), &[401], false);
        cases.add(format!("{head}{bad}"), &[422], false);
    }
    // A body that breaks off may be sent again. What follows on the connection counts as its data.
    cases.add(format!("{head}1000\r\n{{}}"), &[408], false);
    cases.answered(format!("{head}2\r\n{{}}\r\n0\r\n\r\n"), 422);
    cases.answered(
        format!("{head}1\r\n{{\r\n1\r\n}}\r\n0\r\nX: y\r\n\r\n"),
        422,
    );
}

fn sequences(cases: &mut Cases) {
    cases.add(GOOD.repeat(50), &[200; 50], true);
    let mixed = format!(
        "{GOOD}HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n{}{POST}Content-Length: 3\r\n\r\nabc{GOOD}",
        get("/nothing")
    );
    cases.add(mixed, &[200, -200, 404, 401, 200], true);
    let close = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    cases.add(format!("{GOOD}{close}{GOOD}"), &[200, 200], false);
    let old = "GET /healthz HTTP/1.0\r\n\r\n";
    cases.add(format!("{GOOD}{old}{GOOD}"), &[200, 200], false);
    let upgrade =
        "GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade, close\r\n\r\n";
    cases.add(format!("{GOOD}{upgrade}{GOOD}"), &[200, 200], false);
    // A body that is shorter than it says takes what follows with it.
    cases.add(
        format!("{GOOD}{POST}Content-Length: 1000\r\n\r\nabc"),
        &[200, 401],
        false,
    );
    // Smuggled in what is no body.
    let smuggled =
        format!("{POST}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG");
    cases.add(format!("{GOOD}{smuggled}"), &[200, 400], false);
}

/// What a connection returns from its first response to its end: statuses, and whether the last
/// response is the probe's.
fn said(mut bytes: &[u8], statuses: &[i32]) -> (Vec<i32>, bool) {
    let mut found = Vec::new();
    let mut is_probe = false;
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, rest) = bytes.split_at(end.expect("a whole head") + 4);
        let head = std::str::from_utf8(head).unwrap();
        let status: i32 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let lower = head.to_ascii_lowercase();
        let length = lower.split_once("content-length: ");
        let length = length.and_then(|(_, after)| after.split("\r\n").next());
        let length: usize = length.map_or(0, |digits| digits.parse().unwrap());
        let is_bare = statuses.get(found.len()) == Some(&-status);
        bytes = if is_bare { rest } else { &rest[length..] };
        assert!(!is_probe, "something follows the probe's answer");
        assert!(lower.contains("\r\nx-request-id: "), "{head}");
        if !is_bare && matches!(status, 400 | 431) {
            let body: Value = serde_json::from_slice(&rest[..length]).unwrap();
            let told = (&body["status"], &body["code"]);
            assert_eq!(told, (&json!(status), &json!("request_invalid")), "{head}");
            assert!(lower.contains("\r\nconnection: close\r\n"), "{head}");
        }
        is_probe = lower.contains("x-request-id: probe\r\n");
        found.push(if is_bare { -status } else { status });
    }
    if is_probe {
        assert_eq!(found.pop(), Some(200));
    }
    (found, is_probe)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

fn ask(server: &Server, case: &Case, pieces: usize) {
    let mut stream = connect(server);
    let all = [&case.bytes[..], PROBE].concat();
    for piece in all.chunks(all.len().div_ceil(pieces)) {
        // A rejected client may find the connection closed while still sending.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut bytes = Vec::new();
    // What comes after a connection was closed, piece by piece, resets it; the answers are there by then.
    let is_reset = |error: &Error| !case.goes_on && error.kind() == ErrorKind::ConnectionReset;
    if let Err(error) = stream.read_to_end(&mut bytes)
        && !is_reset(&error)
    {
        panic!("{error} after {}", case.bytes.escape_ascii());
    }
    let (statuses, goes_on) = said(&bytes, &case.statuses);
    let shown: Vec<u8> = case.bytes.iter().copied().take(400).collect();
    assert_eq!(
        (&statuses, goes_on),
        (&case.statuses, case.goes_on),
        "{}",
        shown.escape_ascii()
    );
}

#[test]
fn oddities_are_answered_or_refused_and_nothing_after_them_out_of_step() {
    let mut cases = Cases::default();
    for add in [request_lines, hosts, fields, lengths, chunks, sequences] {
        add(&mut cases);
    }
    println!("{} oddities", cases.0.len());
    assert!(cases.0.len() >= 300);
    let theatre = theatre();
    for case in &cases.0 {
        ask(&theatre.server, case, 1);
        // However it arrives.
        if case.bytes.len() < 400 {
            ask(&theatre.server, case, case.bytes.len());
        }
    }
}

/// Reads so many answers from a connection that is not closed meanwhile.
fn read_answers(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = b"{\"status\":\"ok\"}";
    while bytes.windows(body.len()).filter(|end| end == body).count() < count {
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).unwrap();
        assert_ne!(read, 0, "closed after {}", bytes.escape_ascii());
        bytes.extend_from_slice(&piece[..read]);
    }
    bytes
}

#[test]
fn the_beginning_of_a_request_keeps_no_answer_back_and_takes_none() {
    let theatre = theatre();
    for beginning in [
        "\r",
        "\r\n",
        "G",
        "GET /healthz",
        "GET /healthz HTTP/1.1\r\nHost",
        POST,
    ] {
        for count in [1, 3, 40] {
            let mut stream = connect(&theatre.server);
            let all = format!("{}{beginning}", GOOD.repeat(count));
            stream.write_all(all.as_bytes()).unwrap();
            read_answers(&mut stream, count);
        }
    }
    // The answer before one that takes its time: its body is not there yet.
    let mut stream = connect(&theatre.server);
    let waits = format!("{GOOD}{GOOD}{OPEN_POST}Content-Length: 2\r\n\r\n");
    stream.write_all(waits.as_bytes()).unwrap();
    read_answers(&mut stream, 2);
    stream.write_all(b"{}").unwrap();
    stream.write_all(GOOD.as_bytes()).unwrap();
    let rest = read_answers(&mut stream, 1);
    assert!(
        rest.starts_with(b"HTTP/1.1 422 "),
        "{}",
        rest.escape_ascii()
    );
}

#[test]
fn a_client_that_reads_no_responses_makes_the_server_hold_only_a_few() {
    let world = World::new();
    let server = Server::start(&world);
    let mut others = [server.client(), server.client()];
    let mut go_on = || {
        for other in &mut others {
            assert_eq!(other.get("/metrics", "").status, 200);
        }
    };
    go_on();
    let before = resident(server.id());
    let mut stream = connect(&server);
    stream
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let requests = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2_500);
    let _ = stream.write_all(format!("{requests}G").as_bytes());
    // A connection answers a few requests before the others of its lane have their turn.
    for _ in 0..300 {
        go_on();
    }
    let grown = resident(server.id()).saturating_sub(before);
    println!("{grown} bytes more");
    assert!(grown < 16 << 20, "{grown} bytes more");
}

/// What the connection returns until its end, after these bytes.
fn returned(server: &Server, bytes: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.to_ascii_lowercase()
}

#[test]
fn the_last_answer_of_a_connection_says_so_where_a_body_is_left_unread() {
    let world = World::new();
    let server = Server::start(&world);
    let expecting = "Expect: 100-continue\r\n";
    // Nothing of them is asked for, or they do not come: their connection ends, and was told to.
    for rest in [
        format!("{expecting}Content-Length: 5\r\n\r\n"),
        format!("{expecting}Transfer-Encoding: chunked\r\n\r\n"),
        "Content-Length: 1000\r\n\r\nabc".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".to_owned(),
    ] {
        let told = returned(&server, &format!("{GOOD}{POST}{rest}"));
        let (first, last) = told.split_once("http/1.1 401").expect(&rest);
        assert!(!first.contains("connection: close"), "{told}");
        assert!(last.contains("\r\nconnection: close\r\n"), "{told}");
        assert!(!told.contains("100 continue"), "{told}");
    }
    // Those that were read, or are taken after the answer, leave it open.
    let close = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for request in [
        format!("{OPEN_POST}{expecting}Content-Length: 2\r\n\r\n{{}}"),
        format!("{OPEN_POST}{expecting}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"),
        format!("{POST}Content-Length: 3\r\n\r\nabc"),
        format!("{POST}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ] {
        let told = returned(&server, &format!("{request}{close}"));
        let (early, last) = told.rsplit_once("http/1.1 200").expect(&request);
        assert!(early.contains("http/1.1 4"), "{told}");
        assert!(!early.contains("connection: close"), "{told}");
        assert!(last.contains("connection: close"), "{told}");
    }
}
