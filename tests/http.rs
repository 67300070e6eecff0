//! The protocol around the operations: connections, heads, bodies in pieces.

use std::time::Duration;

use serde_json::json;

use crate::support::good::{Good, row_named};
use crate::support::stage::{Stage, assert_faults, theatre, with};

#[test]
fn a_connection_goes_on_after_every_kind_of_refusal() {
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let hq = stage.headquarters();
    let bearer = format!("Bearer {hq}");
    let mut client = stage.client();
    let body = vec![b'x'; 300_000];
    let types = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "text/plain"),
    ];
    let bearer_only = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    for (headers, path, status) in [
        (&types[..0], good.path.as_str(), 401),
        (&types[..], good.path.as_str(), 415),
        (&bearer_only[..], good.path.as_str(), 400),
        (&types[..], "/nothing", 404),
        (&types[..], "/healthz", 405),
    ] {
        let answer = client.request("POST", path, headers, &body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("connection"), None);
    }
    good.carried_out(&mut client, &hq);
}

#[test]
fn a_body_may_come_in_pieces() {
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let body = good.body.to_string();
    let mut client = stage.client();
    client.send_raw(
        format!(
            "POST {} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            good.path,
            stage.headquarters()
        )
        .as_bytes(),
    );
    for piece in body.as_bytes().chunks(100) {
        client.send_raw(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send_raw(piece);
        client.send_raw(b"\r\n");
        std::thread::sleep(Duration::from_millis(2));
    }
    client.send_raw(b"0\r\n\r\n");
    assert_eq!(client.read_answer("POST").unwrap().status, 201);
}

#[test]
fn a_body_whose_chunks_or_trailers_are_refused_is_invalid_and_takes_no_key() {
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let body = good.body.to_string();
    let hq = stage.headquarters();
    let whole = format!("{:x}\r\n{body}\r\n", body.len());
    for bad in [
        "zz\r\n".to_owned(),
        // hyper would accept this one.
        format!("{:x} \r\n{body}\r\n0\r\n\r\n", body.len()),
        // The others hyper alone refuses.
        format!("{whole}0;{}\r\n\r\n", "x".repeat(16 << 10)),
        format!("{whole}0\r\n{}\r\n", "X: y\r\n".repeat(101)),
        format!("{whole}0\r\nX\r\n\r\n"),
    ] {
        let mut client = stage.client();
        client.send_raw(
            format!(
                "POST {} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {hq}\r\n\
                 Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{bad}",
                good.path
            )
            .as_bytes(),
        );
        let answer = client.read_answer("POST").unwrap();
        assert_faults(&answer, 400, &[("", "malformed_json")]);
        assert_eq!(answer.json()["retryable"], false);
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
        assert!(client.read_answer("POST").is_err());
    }
    // Nothing was done under its key.
    good.carried_out(&mut stage.client(), &hq);
}

#[test]
fn an_old_client_is_answered_and_let_go() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    client.send_raw(b"GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(client.read_answer("GET").unwrap().status, 200);
    assert!(client.try_request("GET", "/healthz", &[], b"").is_err());
    let mut client = theatre.server.client();
    let answer = client.request("GET", "/healthz", &[("Connection", "close")], b"");
    assert_eq!(answer.status, 200);
    assert!(client.try_request("GET", "/healthz", &[], b"").is_err());
}

#[test]
fn bytes_that_are_no_http_end_their_connection_and_no_other() {
    let theatre = theatre();
    let mut good = theatre.server.client();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"POST /reference-facts HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST /reference-facts HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = theatre.server.client();
        client.send_raw(bytes);
        if let Ok(answer) = client.read_answer("GET") {
            assert_eq!(answer.status / 100, 4, "{answer:?}");
        }
        assert!(client.read_answer("GET").is_err());
        assert_eq!(good.request("GET", "/healthz", &[], b"").status, 200);
    }
    // A head too long to be one.
    let mut client = theatre.server.client();
    let long = "x".repeat(40_000);
    if let Ok(answer) = client.try_request("GET", "/healthz", &[("X", &long)], b"") {
        assert_eq!(answer.status / 100, 4, "{answer:?}");
    }
    assert_eq!(good.request("GET", "/healthz", &[], b"").status, 200);
}

#[test]
fn parameters_of_a_path_are_decoded_and_no_slash_is_made_of_them() {
    let stage = Stage::new();
    let token = stage.workflow();
    let mut client = stage.client();
    let id = format!("a/b c%{}@가", stage.number);
    let fact = json!({"kind": "consent-version", "id": id, "revision": 1, "facts":
        {"publishedAt": "2026-01-01T00:00:00Z", "required": false, "current": false}});
    let answer = client.put_facts(&token, &[fact]);
    // The form of a consent version's identifier is stricter than that.
    assert_eq!(answer.json()["invalid"], 1);
    let fact = json!({"kind": "actor", "id": id, "revision": 1, "facts": {"lifecycle": "active"}});
    assert_eq!(
        client.put_facts(&token, std::slice::from_ref(&fact)).json()["applied"],
        1
    );
    let path = format!(
        "/reference-facts/actor/a%2Fb%20c%25{}%40%EA%B0%80",
        stage.number
    );
    let read = client.get(&path, &token);
    assert_eq!((read.status, read.json()), (200, fact));
    let path = format!(
        "/reference-facts/actor/a/b%20c%25{}%40%EA%B0%80",
        stage.number
    );
    assert_eq!(client.get(&path, &token).json()["code"], "route_not_found");
}

#[test]
fn strings_are_compared_as_they_are_read() {
    let stage = Stage::new();
    let good = Good::of(row_named("request_deposit"), &stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let body = with(good.body.clone(), "/messageToBranch", json!("é\u{1F600}\""));
    let first = good.send(&mut client, &hq, &body);
    assert_eq!(first.status, 201);
    let escaped = body
        .to_string()
        .replace("é", "\\u00e9")
        .replace('\u{1F600}', "\\ud83d\\ude00")
        .replace("statementCode", "statement\\u0043ode");
    let again = good.send_bytes(&mut client, &hq, escaped.as_bytes());
    assert_eq!(
        again.header("idempotent-replayed"),
        Some("true"),
        "{again:?}"
    );
    assert_eq!(again.json()["messageToBranch"], "é\u{1F600}\"");
    // Another composition of the same letter is another string.
    let other = with(body, "/messageToBranch", json!("e\u{301}\u{1F600}\""));
    let other = good.send(&mut client, &hq, &other);
    assert_eq!(other.json()["code"], "idempotency_key_reused");
    // Half of a pair is no string.
    let half = escaped.replace("\\ude00", "");
    let half = good.send_bytes(&mut client, &hq, half.as_bytes());
    assert_eq!(
        half.faults(),
        [(String::new(), "malformed_json".to_owned())]
    );
}
