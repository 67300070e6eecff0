//! Pages of other origins: those that are named may call the service, and no others.

use std::process::Command;

use carebook::catalogue::{OPERATIONS, READS};

use crate::support::good::method;
use crate::support::{Answer, Client, Server, World, carebook, serve_arguments};

const OURS: &str = "https://app.example.com";
const OTHER: &str = "https://evil.example.com";
const REQUEST_HEADERS: &str = "Authorization, Carebook-Min-Position, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id";
const EXPOSED: &str = "Carebook-Dry-Run, Carebook-Position, Carebook-Writer, ETag, Idempotent-Replayed, Retry-After, X-Request-Id";

fn preflight(client: &mut Client, path: &str, origin: &str, method: &str) -> Answer {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", method),
        (
            "Access-Control-Request-Headers",
            "authorization,content-type",
        ),
    ];
    client.request("OPTIONS", path, &headers, b"")
}

fn of_cors(answer: &Answer) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    names
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

#[test]
fn preflights_of_allowed_origins_get_each_route_s_methods_others_nothing() {
    let world = World::new();
    let origins = [
        "--cors-origin",
        OURS,
        "--cors-origin",
        "http://localhost:3000",
    ];
    let server = Server::start_with(&world, &origins);
    let mut client = server.client();
    let routes = OPERATIONS
        .iter()
        .map(|row| (method(row), row.path))
        .chain(READS.iter().map(|row| ("GET", row.path)))
        .chain([("POST", "/reference-facts"), ("GET", "/events")]);
    for (method, path) in routes {
        let path = path.replace(['{', '}'], "");
        for origin in [OURS, "http://localhost:3000"] {
            let told = preflight(&mut client, &path, origin, method);
            assert_eq!(told.status, 204, "{path}");
            assert_eq!(told.header("access-control-allow-origin"), Some(origin));
            let methods = told.header("access-control-allow-methods").unwrap();
            assert!(
                methods.split(", ").any(|one| one == method),
                "{path} {methods}"
            );
            assert_eq!(
                told.header("access-control-allow-methods"),
                told.header("allow")
            );
            assert_eq!(
                told.header("access-control-allow-headers"),
                Some(REQUEST_HEADERS)
            );
            assert_eq!(told.header("vary"), Some("Origin"));
            assert_eq!(told.header("access-control-allow-credentials"), None);
        }
        for origin in [
            OTHER,
            "null",
            "*",
            "https://app.example.com.evil.com",
            "http://app.example.com",
        ] {
            let told = preflight(&mut client, &path, origin, method);
            assert_eq!(told.status, 204, "{path}");
            assert_eq!(of_cors(&told), [""; 0], "{path} {origin}");
            assert_eq!(told.header("vary"), Some("Origin"));
        }
    }
}

#[test]
fn every_answer_names_the_origin_and_what_a_page_may_read_of_it() {
    let world = World::new();
    let server = Server::start_with(&world, &["--cors-origin", OURS]);
    let mut client = server.client();
    let bearer = format!("Bearer {}", world.headquarters());
    let body = world.deposit_request("S-1", "key-1").to_string();
    let json = ("Content-Type", "application/json");
    let token = ("Authorization", bearer.as_str());
    let deposit = "/settlement-deposit-requests";
    for (method, path, headers, body, status) in [
        ("POST", deposit, vec![token, json], body.as_bytes(), 201),
        ("POST", deposit, vec![token, json], body.as_bytes(), 201),
        ("POST", deposit, vec![token, json], b"{}".as_slice(), 400),
        ("POST", deposit, vec![json], b"{}", 401),
        (
            "GET",
            "/settlement-statements/nothing",
            vec![token],
            b"",
            404,
        ),
        ("GET", "/nothing", vec![], b"", 404),
        ("DELETE", deposit, vec![], b"", 405),
    ] {
        for (origin, is_ours) in [(OURS, true), (OTHER, false)] {
            let mut headers = headers.clone();
            headers.push(("Origin", origin));
            let answer = client.request(method, path, &headers, body);
            assert!(answer.status == status || status == 201, "{answer:?}");
            assert_eq!(answer.header("vary"), Some("Origin"));
            if is_ours {
                assert_eq!(answer.header("access-control-allow-origin"), Some(OURS));
                assert_eq!(
                    answer.header("access-control-expose-headers"),
                    Some(EXPOSED)
                );
            } else {
                assert_eq!(of_cors(&answer), [""; 0], "{answer:?}");
            }
        }
    }
}

#[test]
fn the_internal_listener_allows_no_origin() {
    let world = World::new();
    let arguments = ["--cors-origin", OURS, "--internal-listen", "127.0.0.1:0"];
    let server = Server::start_with(&world, &arguments);
    let mut inside = Client::connect(server.internal.as_ref().unwrap());
    for path in ["/metrics", "/openapi.json", "/charge-finalizations"] {
        let told = preflight(&mut inside, path, OURS, "GET");
        assert_eq!(of_cors(&told), [""; 0], "{path}");
        let answer = inside.request("GET", path, &[("Origin", OURS)], b"");
        assert_eq!(of_cors(&answer), [""; 0], "{path}");
    }
    let told = preflight(&mut server.client(), "/openapi.json", OURS, "GET");
    assert_eq!(told.header("access-control-allow-origin"), Some(OURS));
}

#[test]
fn without_a_named_origin_no_page_is_told_anything() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let told = preflight(&mut client, "/events", OURS, "GET");
    assert_eq!((told.status, told.header("vary")), (204, None));
    assert_eq!(of_cors(&told), [""; 0]);
    let answer = client.request("GET", "/healthz", &[("Origin", OURS)], b"");
    assert_eq!((answer.status, answer.header("vary")), (200, None));
    assert_eq!(of_cors(&answer), [""; 0]);
}

#[test]
fn an_invalid_cors_origin_ends_with_exit_code_2() {
    let world = World::new();
    for unfit in [
        "*",
        "null",
        "app.example.com",
        "https://app.example.com/",
        "https://",
    ] {
        let mut command: Command = carebook();
        serve_arguments(&mut command, &world).args(["--cors-origin", unfit]);
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{unfit}");
    }
}

#[test]
fn routes_without_a_token_refuse_pages_that_may_use_dns_rebinding() {
    let world = World::new();
    let server = Server::start_with(&world, &["--cors-origin", OURS]);
    is_refused_to_a_foreign_page(server.client(), &server.address);
    // The same where it is served for inside alone.
    let world = World::new();
    let arguments = ["--cors-origin", OURS, "--internal-listen", "127.0.0.1:0"];
    let server = Server::start_with(&world, &arguments);
    let inside = server.internal.as_ref().unwrap();
    is_refused_to_a_foreign_page(Client::connect(inside), inside);
    // What needs a token is asked for it first.
    let headers = [("Content-Type", "application/json"), ("Origin", OTHER)];
    let path = "/settlement-deposit-requests";
    let answer = server.client().request("POST", path, &headers, b"{}");
    assert_eq!(answer.status, 401);
}

fn is_refused_to_a_foreign_page(mut client: Client, address: &str) {
    let json = ("Content-Type", "application/json");
    let charge = "/reservation-financial-lifecycles/b/regional-benefit-charge-finalizations";
    let refused = [("header.Origin".to_owned(), "not_allowed".to_owned())];
    let mut told = |origins: &[&str]| {
        let mut headers = vec![json];
        headers.extend(origins.iter().map(|origin| ("Origin", *origin)));
        client.request("POST", charge, &headers, b"{}")
    };
    for origins in [
        &[OTHER][..],
        &["null"],
        &["http://evil.example:8080"],
        &[OURS, OURS],
    ] {
        let answer = told(origins);
        assert_eq!(
            (answer.status, answer.faults()),
            (422, refused.to_vec()),
            "{origins:?}"
        );
    }
    let here = format!("http://{address}");
    for origins in [&[][..], &[OURS], &[&here], &["http://localhost:8080"]] {
        let answer = told(origins);
        assert_eq!(answer.status, 422, "{origins:?}");
        assert!(
            answer.faults().iter().all(|fault| fault.1 == "required"),
            "{origins:?}"
        );
    }
}
