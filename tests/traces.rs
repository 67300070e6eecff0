//! Traces of the running server, as a collector gets them: decoded by the published definitions.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use carebook::base::actor::{Actor, ActorKind};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Said};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::support::{Server, World, actor};
use crate::webhooks::receiver::{Receiver, Reply, SOON, TAKEN};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans that a collector has got.
fn spans(collector: &Receiver) -> Vec<Span> {
    let mut all = Vec::new();
    for batch in collector.came() {
        assert_eq!(batch.path, "/v1/traces");
        assert_eq!(batch.header("content-type"), "application/x-protobuf");
        let request = ExportTraceServiceRequest::decode(&batch.body[..]).unwrap();
        for resource in request.resource_spans {
            let about = resource.resource.unwrap().attributes;
            assert_eq!(text(&about, "service.name"), Some("carebook".to_owned()));
            for scope in resource.scope_spans {
                all.extend(scope.spans);
            }
        }
    }
    all
}

fn said(attributes: &[KeyValue], key: &str) -> Option<Said> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    match said(attributes, key)? {
        Said::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

/// Waits until a collector has got so many spans.
#[track_caller]
fn wait(collector: &Receiver, count: usize) -> Vec<Span> {
    let started = Instant::now();
    loop {
        let spans = spans(collector);
        if spans.len() >= count {
            return spans;
        }
        assert!(started.elapsed() < SOON, "{spans:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

#[test]
fn a_request_is_a_span_in_its_caller_s_trace_that_tells_nothing_of_its_path_or_content() {
    let world = World::new();
    let collector = Receiver::start();
    let endpoint = endpoint(collector.port);
    let server = Server::start_with(
        &world,
        &["--otlp-endpoint", &endpoint, "--trace-sample", "1"],
    );
    let mut client = server.client();
    let hq = world.headquarters();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let bearer = format!("Bearer {hq}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("X-Request-Id", "r-1"),
        ("traceparent", PARENT),
        ("tracestate", "vendor=opaque"),
    ];
    let path = "/settlement-deposit-requests";
    let body = world.deposit_request("S-1", "key-1").to_string();
    let done = client.request("POST", path, &headers, body.as_bytes());
    assert_eq!(done.status, 201);
    let unknown = client.get("/settlement-statements/secret", &hq);
    assert_eq!(unknown.status, 404);
    let spans = wait(&collector, 2);
    let [first, second] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(hex(&first.trace_id), TRACE);
    assert_eq!(hex(&first.parent_span_id), "b7ad6b7169203331");
    assert_eq!((first.kind, &*first.trace_state), (2, "vendor=opaque"));
    assert_eq!(first.name, format!("POST {path}"));
    assert_eq!(first.status, None);
    let began = u64::try_from(before.as_millis()).unwrap() * 1_000_000;
    assert!(
        first.start_time_unix_nano >= began
            && first.end_time_unix_nano > first.start_time_unix_nano
    );
    let of = |key: &str| text(&first.attributes, key);
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", path),
        ("url.path", path),
        ("url.scheme", "http"),
        ("carebook.operation", "request_deposit"),
        ("carebook.request_id", "r-1"),
    ] {
        assert_eq!(of(key).as_deref(), Some(value), "{key}");
    }
    let number = |key: &str| said(&first.attributes, key);
    assert_eq!(
        number("http.response.status_code"),
        Some(Said::IntValue(201))
    );
    let position = i64::try_from(done.position().unwrap()).unwrap();
    assert_eq!(number("carebook.position"), Some(Said::IntValue(position)));
    assert_ne!(hex(&second.trace_id), TRACE);
    assert!(second.parent_span_id.is_empty() && second.trace_id != [0; 16]);
    assert_eq!(second.name, "GET /settlement-statements/{statementId}");
    assert_eq!(
        text(&second.attributes, "carebook.code").as_deref(),
        Some("not_found")
    );
    assert!(!format!("{spans:?}").contains("secret"));
    let started = Instant::now();
    while server.metric("carebook_trace_spans_exported_total") < 2.0 {
        assert!(started.elapsed() < SOON);
    }
    // What waits is sent before the end.
    let headers = [("X-Request-Id", "the-last")];
    client.request("GET", "/healthz", &headers, b"");
    assert_eq!(server.stop(), Some(0));
    let last = "the-last".to_owned();
    let is_last = |span: &Span| text(&span.attributes, "carebook.request_id") == Some(last.clone());
    assert!(self::spans(&collector).iter().any(is_last));
}

#[test]
fn one_in_so_many_is_traced_and_whoever_says_that_it_traces_is_too() {
    let world = World::new();
    let collector = Receiver::start();
    let endpoint = endpoint(collector.port);
    let server = Server::start_with(
        &world,
        &["--otlp-endpoint", &endpoint, "--trace-sample", "1000000"],
    );
    let mut client = server.client();
    // The first one of all is one of a million.
    client.request("GET", "/healthz", &[], b"");
    wait(&collector, 1);
    for parent in [PARENT, &PARENT.replace("-01", "-00"), "00-nonsense"] {
        client.request("GET", "/healthz", &[("traceparent", parent)], b"");
    }
    let spans = wait(&collector, 2);
    assert_eq!(spans.len(), 2);
    assert_eq!(hex(&spans[1].trace_id), TRACE);
    drop(server);
}

#[test]
fn deliveries_tell_their_receivers_the_attempt_s_place_and_each_attempt_is_a_span() {
    let world = World::new();
    let collector = Receiver::start();
    let receiver = Receiver::deciding(|_, number| match number {
        0 => Reply::Status(500, ""),
        _ => TAKEN,
    });
    let endpoint = endpoint(collector.port);
    let server = Server::start_with(
        &world,
        &[
            "--otlp-endpoint",
            &endpoint,
            "--trace-sample",
            "1",
            "--webhooks-allow",
            "127.0.0.0/8",
            "--webhooks-hurry",
            "100",
        ],
    );
    let token = world.token(&Actor {
        permissions: vec!["facts:write".into(), "webhooks:manage".into()],
        ..actor(ActorKind::SystemWorkflow, "workflow-1")
    });
    let body = json!({"url": format!("http://127.0.0.1:{}/secret", receiver.port), "types": ["carebook.*"], "description": null});
    let mut client = server.client();
    let made = client.post_keyed("/webhook-subscriptions", &token, "key-1", &body);
    assert_eq!(made.status, 201, "{made:?}");
    let fact =
        json!({"kind": "actor", "id": "a-1", "revision": 1, "facts": {"lifecycle": "active"}});
    assert_eq!(client.put_facts(&token, &[fact]).json()["applied"], 1);
    let came = receiver.wait_for(2);
    let started = Instant::now();
    let attempts = loop {
        let attempts: Vec<_> = spans(&collector)
            .into_iter()
            .filter(|span| span.name == "webhook delivery")
            .collect();
        if attempts.len() == 2 {
            break attempts;
        }
        assert!(started.elapsed() < SOON, "{attempts:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    for (span, (delivery, status)) in attempts.iter().zip(came.iter().zip([500, 204])) {
        let parent = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert_eq!(delivery.header("traceparent"), parent);
        assert_eq!(span.kind, 3);
        let id = text(&span.attributes, "messaging.message.id").unwrap();
        assert_eq!(id, delivery.header("webhook-id"));
        let told = said(&span.attributes, "http.response.status_code");
        assert_eq!(told, Some(Said::IntValue(status)));
        assert_eq!(span.status.is_some(), status == 500);
        assert!(!format!("{span:?}").contains("secret"));
    }
    assert_ne!(attempts[0].span_id, attempts[1].span_id);
}

/// Whatever a collector does, requests are answered, the end comes, and what was not taken is
/// counted.
#[test]
fn a_collector_that_is_down_silent_slow_or_rude_holds_up_nothing() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = nobody.local_addr().unwrap().port();
    drop(nobody);
    let kinds: [Option<Reply>; 8] = [
        None,
        Some(Reply::Hangs),
        Some(Reply::Trickles),
        Some(Reply::Head(10 << 20)),
        Some(Reply::Body(10 << 20)),
        Some(Reply::Breaks(5)),
        Some(Reply::Status(302, "Location: /elsewhere\r\n")),
        Some(Reply::Status(400, "")),
    ];
    std::thread::scope(|scope| {
        for kind in kinds {
            scope.spawn(move || {
                let world = World::new();
                let collector = kind
                    .clone()
                    .map(|kind| Receiver::deciding(move |_, _| kind.clone()));
                let port = collector
                    .as_ref()
                    .map_or(closed, |collector| collector.port);
                let endpoint = endpoint(port);
                let server = Server::start_with(
                    &world,
                    &["--otlp-endpoint", &endpoint, "--trace-sample", "1"],
                );
                let mut client = server.client();
                for _ in 0..3_000 {
                    assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
                }
                let dropped = || {
                    let reasons = ["queue_full", "not_taken"];
                    let of = |reason| {
                        server.metric(&format!(
                            "carebook_trace_spans_dropped_total{{reason=\"{reason}\"}}"
                        ))
                    };
                    reasons.map(of).iter().sum::<f64>()
                };
                let started = Instant::now();
                while dropped() == 0.0 {
                    assert!(started.elapsed() < SOON, "{kind:?}");
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert_eq!(
                    server.metric("carebook_trace_spans_exported_total"),
                    0.0,
                    "{kind:?}"
                );
                server.signal("TERM");
                assert_eq!(
                    server.ended_within(Duration::from_secs(30)),
                    Some(0),
                    "{kind:?}"
                );
            });
        }
    });
}

#[test]
fn what_a_collector_rejects_of_a_batch_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let told = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 1,
                error_message: "no".to_owned(),
            }),
        };
        let body = told.encode_to_vec();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        stream.write_all(&body).unwrap();
        // It stays open until the test is over.
        let _ = stream.read(&mut [0; 1 << 16]);
        std::thread::park();
    });
    let world = World::new();
    let endpoint = endpoint(port);
    let server = Server::start_with(
        &world,
        &["--otlp-endpoint", &endpoint, "--trace-sample", "1000000"],
    );
    server.client().request("GET", "/healthz", &[], b"");
    let rejected = "carebook_trace_spans_dropped_total{reason=\"rejected\"}";
    let started = Instant::now();
    while server.metric(rejected) == 0.0 {
        assert!(started.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.metric("carebook_trace_spans_exported_total"), 0.0);
}
