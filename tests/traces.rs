//! Traces of the running server, as a collector gets them: decoded by the published definitions.

use std::net::TcpListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::hex::hex;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Said};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::support::{Server, World, actor, until, until_ok, where_nobody_listens};
use crate::webhooks::receiver::{Delivery, Receiver, Reply, TAKEN};

const PROTOBUF: &str = "application/x-protobuf";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The spans that a collector has got.
fn spans(collector: &Receiver) -> Vec<Span> {
    let mut all = Vec::new();
    for batch in collector.came() {
        assert_eq!(batch.path, "/v1/traces");
        assert_eq!(batch.header("content-type"), PROTOBUF);
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

pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    match said(attributes, key)? {
        Said::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

/// Waits until a collector has got so many spans.
#[track_caller]
fn wait(collector: &Receiver, count: usize) -> Vec<Span> {
    until_ok("the spans come", || match spans(collector) {
        spans if spans.len() >= count => Ok(spans),
        spans => Err(format!("{spans:?}")),
    })
}

pub fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A server that traces the first request, and then what its callers trace: one of a million others
/// does not come.
fn choosing(world: &World, endpoint: &str, arguments: &[&str]) -> Server {
    let tracing = ["--otlp-endpoint", endpoint, "--trace-sample", "1000000"];
    Server::start_with(world, &[&tracing[..], arguments].concat())
}

/// Asks such a server for something that is traced.
#[track_caller]
fn ask(server: &Server) {
    let headers = [("traceparent", PARENT)];
    let asked = server.client().request("GET", "/healthz", &headers, b"");
    assert_eq!(asked.status, 200);
}

fn exported(server: &Server) -> f64 {
    server.metric("carebook_trace_spans_exported_total")
}

fn failures(server: &Server) -> f64 {
    server.metric("carebook_trace_export_failures_total")
}

/// Spans that were dropped: for lack of room, not taken, rejected.
fn dropped(server: &Server) -> [f64; 3] {
    ["queue_full", "not_taken", "rejected"].map(|reason| {
        let name = "carebook_trace_spans_dropped_total";
        server.metric(&format!("{name}{{reason=\"{reason}\"}}"))
    })
}

/// The attempts of this name, once there are so many.
#[track_caller]
pub fn attempts(collector: &Receiver, name: &str, count: usize) -> Vec<Span> {
    let of_name = || {
        let all = spans(collector).into_iter();
        all.filter(|span| span.name == name).collect::<Vec<_>>()
    };
    until(name, || of_name().len() >= count);
    of_name()
}

/// Each attempt has sent its trace context; its span has the outcome, and not the destination.
fn assert_told(attempts: &[Span], came: &[Delivery], statuses: &[i64]) {
    assert_eq!(
        (attempts.len(), came.len()),
        (statuses.len(), statuses.len())
    );
    for (span, (delivery, status)) in attempts.iter().zip(came.iter().zip(statuses)) {
        let parent = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert_eq!(delivery.header("traceparent"), parent);
        assert_eq!(span.kind, 3);
        let id = text(&span.attributes, "messaging.message.id").unwrap();
        assert_eq!(id, delivery.header("webhook-id"));
        let told = said(&span.attributes, "http.response.status_code");
        assert_eq!(told, Some(Said::IntValue(*status)));
        let kind = text(&span.attributes, "error.type");
        assert_eq!(kind.is_some(), *status == 500);
        assert_eq!(span.status.is_some(), *status == 500);
        assert!(span.parent_span_id.is_empty());
        assert!(!format!("{span:?}").contains("secret"));
    }
    assert_ne!(attempts[0].span_id, attempts[1].span_id);
    assert_ne!(attempts[0].trace_id, attempts[1].trace_id);
}

#[test]
fn a_request_span_is_in_its_caller_s_trace_and_shows_no_path_or_content() {
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
    let spans = wait(&collector, 3);
    let [command, first, second] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(hex(&first.trace_id), TRACE);
    assert_eq!(hex(&first.parent_span_id), "b7ad6b7169203331");
    assert_eq!((first.kind, &*first.trace_state), (2, "vendor=opaque"));
    assert_eq!(first.name, format!("POST {path}"));
    assert_eq!((&first.status, first.flags), (&None, 1));
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
    // What the engine did of it is a part of it.
    assert_eq!(hex(&command.trace_id), TRACE);
    assert_eq!(command.parent_span_id, first.span_id);
    assert_ne!(command.span_id, first.span_id);
    assert_eq!((&*command.name, command.kind), ("command", 1));
    assert_eq!((&*command.trace_state, command.flags), ("vendor=opaque", 1));
    assert_eq!(command.status, None);
    assert!(first.start_time_unix_nano <= command.start_time_unix_nano);
    assert!(command.start_time_unix_nano < command.end_time_unix_nano);
    assert!(command.end_time_unix_nano <= first.end_time_unix_nano);
    let keys: Vec<_> = command.attributes.iter().map(|one| &*one.key).collect();
    assert_eq!(keys, ["carebook.operation", "carebook.position"]);
    assert_eq!(
        text(&command.attributes, "carebook.operation").as_deref(),
        Some("request_deposit")
    );
    assert_eq!(
        said(&command.attributes, "carebook.position"),
        Some(Said::IntValue(position))
    );
    assert_ne!(hex(&second.trace_id), TRACE);
    assert!(second.parent_span_id.is_empty() && second.trace_id != [0; 16]);
    assert_eq!(second.name, "GET /settlement-statements/{statementId}");
    assert_eq!(
        text(&second.attributes, "carebook.code").as_deref(),
        Some("not_found")
    );
    assert!(!format!("{spans:?}").contains("secret"));
    until("they are taken", || exported(&server) >= 3.0);
    // What waits is sent before the end.
    let headers = [("X-Request-Id", "the-last")];
    client.request("GET", "/healthz", &headers, b"");
    assert_eq!(server.stop(), Some(0));
    let last = "the-last".to_owned();
    let is_last = |span: &Span| text(&span.attributes, "carebook.request_id") == Some(last.clone());
    assert!(self::spans(&collector).iter().any(is_last));
}

#[test]
fn a_command_is_a_span_of_each_traced_request_that_reaches_the_engine() {
    let world = World::new();
    let collector = Receiver::start();
    let server = choosing(&world, &endpoint(collector.port), &[]);
    let mut client = server.client();
    // The first one of all is one of a million.
    client.request("GET", "/healthz", &[], b"");
    let path = "/settlement-deposit-requests";
    let hq = format!("Bearer {}", world.headquarters());
    let mother = format!("Bearer {}", world.plain(ActorKind::Mother, "mother-1"));
    let mut ask = |code: &str, bearer: &str, is_traced: bool| {
        let body = world.deposit_request(code, code).to_string();
        let mut headers = vec![
            ("Authorization", bearer),
            ("Content-Type", "application/json"),
        ];
        headers.extend(is_traced.then_some(("traceparent", PARENT)));
        client.request("POST", path, &headers, body.as_bytes())
    };
    assert_eq!(ask("S-1", &hq, false).status, 201);
    // This one is refused before it is a command, and this one by the engine.
    assert_eq!(ask("", &hq, true).status, 400);
    assert_eq!(ask("S-2", &mother, true).status, 403);
    assert_eq!(ask("S-3", &hq, true).status, 201);
    let spans = wait(&collector, 6);
    let told: Vec<_> = spans
        .iter()
        .map(|span| {
            let code = text(&span.attributes, "carebook.code");
            (&*span.name, code.unwrap_or_default())
        })
        .collect();
    let post = format!("POST {path}");
    let told: Vec<_> = told.iter().map(|(name, code)| (*name, &**code)).collect();
    assert_eq!(
        told,
        [
            ("GET /healthz", ""),
            (&*post, "request_invalid"),
            ("command", "permission_denied"),
            (&*post, "permission_denied"),
            ("command", ""),
            (&*post, ""),
        ]
    );
    for pair in spans[2..].chunks(2) {
        assert_eq!(pair[0].parent_span_id, pair[1].span_id);
    }
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
    client.request("GET", "/healthz", &[("traceparent", PARENT)], b"");
    // Who does not trace, or does not say so in due form, is none of those.
    let others = [
        PARENT.replace("-01", "-00"),
        PARENT.to_uppercase(),
        PARENT.replacen("00-", "ff-", 1),
        PARENT.replace(TRACE, &"0".repeat(32)),
        PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
        format!("{PARENT}-more"),
        "00-nonsense".to_owned(),
    ];
    for parent in &others {
        client.request("GET", "/healthz", &[("traceparent", parent)], b"");
    }
    let twice = [("traceparent", PARENT), ("traceparent", PARENT)];
    client.request("GET", "/healthz", &twice, b"");
    client.request(
        "GET",
        "/healthz",
        &[
            ("traceparent", PARENT),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ],
        b"",
    );
    let spans = wait(&collector, 3);
    assert_eq!(spans.len(), 3);
    assert_eq!(hex(&spans[1].trace_id), TRACE);
    assert_eq!(hex(&spans[2].trace_id), TRACE);
    assert_eq!(spans[2].trace_state, "a=1,b=2");
    drop(server);
}

#[test]
fn each_delivery_attempt_is_a_span_whose_context_its_receiver_gets() {
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
    let attempts = attempts(&collector, "webhook delivery", 2);
    assert_told(&attempts, &came, &[500, 204]);
}

#[test]
fn messages_tell_their_receiver_the_attempt_s_place_too() {
    let world = World::new();
    let collector = Receiver::start();
    let directory = Receiver::deciding(|_, number| match number {
        0 => Reply::Status(500, ""),
        _ => TAKEN,
    });
    let url = format!("http://127.0.0.1:{}/secret", directory.port);
    let server = Server::start_with(
        &world,
        &[
            "--otlp-endpoint",
            &endpoint(collector.port),
            "--trace-sample",
            "1",
            "--directory-url",
            &url,
            "--receivers-hurry",
            "100",
        ],
    );
    let created = crate::outbox::create(&mut server.client(), &world, 1);
    assert_eq!(created.status, 202, "{created:?}");
    // There are two messages: the first one fails once.
    let came = directory.wait_for(2);
    let attempts = attempts(&collector, "message delivery", 2);
    assert_told(&attempts[..2], &came[..2], &[500, 204]);
}

/// Whatever a collector does, requests are answered, the end comes, and what was not taken is
/// counted.
#[test]
fn a_collector_that_is_down_silent_slow_or_rude_holds_up_nothing() {
    let (closed, _kept) = where_nobody_listens();
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
                    .map_or(closed.port(), |collector| collector.port);
                let endpoint = endpoint(port);
                let server = Server::start_with(
                    &world,
                    &["--otlp-endpoint", &endpoint, "--trace-sample", "1"],
                );
                let mut client = server.client();
                for _ in 0..3_000 {
                    assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
                }
                until("some are dropped", || {
                    let [queue_full, not_taken, _] = dropped(&server);
                    queue_full + not_taken > 0.0
                });
                assert_eq!(exported(&server), 0.0, "{kind:?}");
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

/// What an answer of a collector says.
fn answer(rejected_spans: i64) -> Vec<u8> {
    let told = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans,
            error_message: "no".to_owned(),
        }),
    };
    told.encode_to_vec()
}

#[test]
fn spans_that_a_collector_rejects_from_a_batch_are_counted() {
    let collector = Receiver::deciding(|_, _| Reply::Says(PROTOBUF, answer(1)));
    let world = World::new();
    let server = choosing(&world, &endpoint(collector.port), &[]);
    ask(&server);
    until("it is counted", || dropped(&server)[2] == 1.0);
    assert_eq!(exported(&server), 0.0);
    assert_eq!(dropped(&server), [0.0, 0.0, 1.0]);
    // No more than there were, whatever it says.
    collector.now_answers(|_, _| Reply::Says(PROTOBUF, answer(i64::MAX)));
    ask(&server);
    until("it is counted", || dropped(&server)[2] == 2.0);
    collector.now_answers(|_, _| Reply::Says(PROTOBUF, answer(-1)));
    ask(&server);
    until("it is taken", || exported(&server) == 1.0);
    assert_eq!(dropped(&server), [0.0, 0.0, 2.0]);
}

#[test]
fn an_answer_that_calls_itself_protobuf_and_is_none_has_taken_nothing() {
    let collector = Receiver::deciding(|_, _| Reply::Says(PROTOBUF, b"<html>".to_vec()));
    let world = World::new();
    let server = choosing(&world, &endpoint(collector.port), &[]);
    ask(&server);
    until("it is dropped", || dropped(&server)[1] == 1.0);
    assert_eq!((exported(&server), failures(&server)), (0.0, 1.0));
    for (number, (kind, body)) in [("application/json", "{}"), (PROTOBUF, "")]
        .into_iter()
        .enumerate()
    {
        collector.now_answers(move |_, _| Reply::Says(kind, body.into()));
        ask(&server);
        until("it is taken", || exported(&server) == (number + 1) as f64);
    }
    assert_eq!(dropped(&server), [0.0, 1.0, 0.0]);
    assert_eq!(collector.came().len(), 3, "and none is sent again");
}

#[test]
fn a_batch_is_tried_three_times_and_one_that_is_refused_for_good_once() {
    let collector = Receiver::deciding(|_, _| Reply::Status(503, ""));
    let world = World::new();
    let server = choosing(&world, &endpoint(collector.port), &[]);
    ask(&server);
    until("it is given up", || dropped(&server)[1] == 1.0);
    let came = collector.came();
    assert_eq!(came.len(), 3);
    assert!(came.iter().all(|batch| batch.body == came[0].body));
    assert_eq!(failures(&server), 3.0);
    for (number, status) in [400, 500, 302].into_iter().enumerate() {
        collector.now_answers(move |_, _| Reply::Status(status, "Location: /elsewhere\r\n"));
        ask(&server);
        let refused = (number + 1) as f64;
        until("it is dropped", || dropped(&server)[1] == 1.0 + refused);
        assert_eq!(collector.came().len(), 3 + number + 1, "{status}");
        assert_eq!(failures(&server), 3.0 + refused, "{status}");
    }
    // Whatever it did, it gets what comes next.
    collector.now_answers(|_, _| TAKEN);
    ask(&server);
    until("it is taken", || exported(&server) == 1.0);
    assert_eq!(dropped(&server), [0.0, 4.0, 0.0]);
}

#[test]
fn a_collector_that_restarts_or_fails_briefly_loses_no_span() {
    let first = Receiver::start();
    let port = first.port;
    let world = World::new();
    let server = choosing(&world, &endpoint(port), &[]);
    for count in 1..=2_u8 {
        ask(&server);
        until("it is taken", || exported(&server) == f64::from(count));
    }
    assert_eq!(first.connections(), 1, "it stays open");
    // From here on it closes the connection instead of an answer.
    drop(first);
    let listener = until_ok("its port is free", || {
        TcpListener::bind(("127.0.0.1", port))
    });
    let second = Receiver::on(listener, |_, number| match number {
        0 => Reply::Status(503, ""),
        _ => Reply::Status(204, "Connection: close\r\n"),
    });
    ask(&server);
    until("it is taken", || exported(&server) == 3.0);
    let spans = spans(&second);
    assert_eq!((spans.len(), &spans[0]), (2, &spans[1]));
    assert_eq!(failures(&server), 2.0);
    // What it has closed is not asked again.
    ask(&server);
    until("it is taken", || exported(&server) == 4.0);
    assert_eq!(failures(&server), 2.0);
    assert_eq!(dropped(&server), [0.0; 3]);
}

#[test]
fn a_collector_over_tls_needs_a_certificate_that_is_trusted() {
    let (collector, certificate) = Receiver::secured();
    let endpoint = format!("https://localhost:{}", collector.port);
    let world = World::new();
    let file = world.path("collector.pem");
    std::fs::write(&file, certificate).unwrap();
    let server = choosing(&world, &endpoint, &[]);
    ask(&server);
    until("it fails", || failures(&server) > 0.0);
    assert_eq!(exported(&server), 0.0);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(collector.came().len(), 0);
    let server = choosing(&world, &endpoint, &["--ca-file", file.to_str().unwrap()]);
    ask(&server);
    until("it is taken", || exported(&server) == 1.0);
    assert_eq!(spans(&collector).len(), 1);
    assert_eq!(failures(&server), 0.0);
}

#[test]
fn a_request_that_failed_by_the_server_s_fault_is_an_error() {
    let collector = Receiver::start();
    let world = World::new();
    let full = ["--reserve-bytes", "9223372036854775807"];
    let server = choosing(&world, &endpoint(collector.port), &full);
    let mut client = server.client();
    for (path, status) in [("/readyz", 503), ("/nowhere", 404)] {
        let answer = client.request("GET", path, &[("traceparent", PARENT)], b"");
        assert_eq!(answer.status, status);
    }
    let spans = wait(&collector, 2);
    let status = spans[0].status.as_ref().unwrap();
    assert_eq!((status.code, &*status.message), (2, ""));
    let kind = |span: &Span| text(&span.attributes, "error.type");
    assert_eq!(kind(&spans[0]).as_deref(), Some("503"));
    assert_eq!((&spans[1].status, kind(&spans[1])), (&None, None));
    assert_eq!(spans[1].name, "GET");
}
